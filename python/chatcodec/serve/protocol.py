"""The server's side of a connection, with bounds on the head of a request.

uvicorn bounds neither the size of a request's line and headers nor the time for them. The body has
its bounds in the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["HEAD_BYTES", "Protocol"]

HEAD_BYTES = 65_536
"""Largest head of a request, in bytes; a body that comes with it does not count."""


class Protocol(HttpToolsProtocol):
    """A connection that is closed where the head of a request is late or too large.

    A client has the `client_timeout` of the application's state, from the beginning of the
    connection, or of a later request, to the end of the head.
    """

    _head: int | None = 0
    """Bytes of the head so far; None outside of a head."""
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a piece of a request."""
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(f"The head of the request has more than {HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """Wait for the end of a head that has begun."""
        if self._head is None:
            self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop waiting: the head is here."""
        self._arrived()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._head = 0
        seconds: Any = self.app_state.get("client_timeout")
        if seconds is not None:
            self._late = self.loop.call_later(seconds, self.transport.close)

    def _arrived(self) -> None:
        self._head = None
        if self._late is not None:
            self._late.cancel()
            self._late = None
