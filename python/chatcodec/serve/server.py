"""The server of one process, and how it ends.

SIGTERM: with a drain, `/readyz` says no while requests are still served, so that balancers send no
more. Then the process stops listening, and answers that are open have the grace. At its end they
get an error event, and what is left after that is cut.
"""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import uvicorn

from chatcodec.serve.log import LOG
from chatcodec.serve.protocol import Protocol

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from starlette.applications import Starlette

    from chatcodec.serve.app import Gateway
    from chatcodec.serve.listening import Listening

__all__ = ["Server"]

_KEEP_ALIVE = 75
"""Seconds for which a client's connection is kept without a request: longer than load balancers
keep theirs, 60 as a rule, since a request that meets the end of its connection fails there."""
_LAST_WORDS = 1.0
"""Seconds for clients to read that their answer is cut."""


class Server(uvicorn.Server):
    """A gateway's server in this process."""

    def __init__(self, made: Starlette, listening: Listening) -> None:
        """Serve an application that `chatcodec.serve.app` made."""
        self.gateway: Gateway = made.state.gateway
        self.listening = listening
        self._listens_until: float | None = None
        super().__init__(configured(made, listening))

    def serve_on(self, sockets: list[socket.socket]) -> None:
        """Serve until the process gets a signal to end."""
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGQUIT"):
            # Its default is a core dump.
            signal.signal(signal.SIGQUIT, lambda _, frame: self.handle_exit(signal.SIGTERM, frame))
        self.run(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        if self.config.ssl is not None:
            self.gateway.reloads.append(self.reload_certificates)

    def reload_certificates(self) -> None:
        """Read the certificate again, for connections to come."""
        certificates, context = self.listening.certificates, self.config.ssl
        if certificates is None or context is None:
            return
        try:
            certificates.check()
            certificates.load(context)
        except ValueError as error:
            fields = {"problem": str(error), "advice": "the certificate of before is still in use"}
            LOG.error("certificate", extra={"fields": fields})

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End on a signal: at once on SIGINT, after the drain on SIGTERM."""
        was_ending = self.should_exit
        super().handle_exit(sig, frame)
        if sig == signal.SIGINT or was_ending or not self.listening.drain:
            return
        self.should_exit = False
        if self._listens_until is None:
            self.gateway.health.is_draining = True
            self._listens_until = time.monotonic() + self.listening.drain
            LOG.info("drain", extra={"fields": {"seconds": self.listening.drain}})

    async def on_tick(self, counter: int) -> bool:
        """End when the drain is over."""
        if self._listens_until is not None and time.monotonic() >= self._listens_until:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, and wait for open answers as long as the grace."""
        self.gateway.health.is_draining = True
        ending = asyncio.create_task(self._end())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end(self) -> None:
        await asyncio.sleep(self.listening.grace)
        open_answers = len(self.server_state.tasks)
        if open_answers:
            LOG.warning("grace", extra={"fields": {"open": open_answers}})
        self.gateway.end()
        await asyncio.sleep(_LAST_WORDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def configured(made: Starlette, listening: Listening) -> uvicorn.Config:
    """Make uvicorn's configuration."""
    secured: dict[str, Any] = {}
    if (certificates := listening.certificates) is not None:
        secured = {
            "ssl_certfile": certificates.certificate,
            "ssl_keyfile": certificates.key,
            "ssl_keyfile_password": certificates.password,
            "ssl_ca_certs": certificates.authorities,
            "ssl_cert_reqs": certificates.clients,
        }
        if certificates.ciphers is not None:
            secured["ssl_ciphers"] = certificates.ciphers
    return uvicorn.Config(
        made,
        host=listening.host,
        port=listening.port,
        http=Protocol,
        timeout_keep_alive=_KEEP_ALIVE,
        # A backstop: the server cuts what is open before.
        timeout_graceful_shutdown=math.ceil(listening.grace + 5 * _LAST_WORDS),
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        lifespan="on",
        **secured,
    )
