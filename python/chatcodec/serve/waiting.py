"""Waiting for something, and for the client to go."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from starlette.types import Message, Receive

__all__ = ["Endings", "Held", "disconnected", "ended", "first", "until_gone"]

T = TypeVar("T")

_HELD = 65_536
"""Bytes of a body that are held; beyond them, a client that goes is not noticed."""


async def disconnected(receive: Receive) -> None:
    """Wait until the client is gone; what it sends is lost."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Endings:
    """The open requests of a server, which are told when it ends and waits for them no longer."""

    def __init__(self) -> None:
        """Begin without requests."""
        self._open: set[asyncio.Future[None]] = set()

    @contextmanager
    def told(self) -> Iterator[asyncio.Future[None]]:
        """Give a future that is done when the server ends."""
        ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(ending)
        try:
            yield ending
        finally:
            self._open.discard(ending)

    def tell(self) -> None:
        """Tell all requests that the server ends."""
        for each in self._open:
            if not each.done():
                each.set_result(None)


def ended() -> ApiError:
    """Make the error of an answer that the end of the server cuts."""
    return ApiError(503, "the gateway is shutting down; try again", retry_after="1")


async def until_gone(http: HttpRequest, work: Awaitable[T], endings: Endings) -> T:
    """Give the result of work. What comes first cancels it: the end of the client or the server.

    Raises `ClientDisconnect` for a client that has gone, `ApiError` for a server that ends.
    """
    with endings.told() as ending:
        return await first(disconnected(http.receive), work, ending)


async def first(
    gone: Awaitable[None], work: Awaitable[T], ending: asyncio.Future[None] | None = None
) -> T:
    """Give the result of work. What ends first cancels it, as `until_gone` says."""
    task, going = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        waited: set[asyncio.Future[Any]] = {task, going}
        if ending is not None:
            waited.add(ending)
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ended() if ending is not None and ending.done() else ClientDisconnect
    finally:
        for each in (task, going):
            each.cancel()
        await asyncio.gather(task, going, return_exceptions=True)


class Held:
    """A request whose client is watched before its body is read; what comes is kept."""

    def __init__(self, http: HttpRequest) -> None:
        """Hold a request of which nothing has been read."""
        self._receive = http.receive
        self._kept: deque[Message] = deque()
        self.http = HttpRequest(http.scope, self.receive)

    async def receive(self) -> Message:
        """Give what the client has sent, and then what it sends."""
        return self._kept.popleft() if self._kept else await self._receive()

    async def gone(self) -> None:
        """Wait until the client is gone."""
        held = 0
        while held <= _HELD:
            message = await self._receive()
            self._kept.append(message)
            if message["type"] == "http.disconnect":
                return
            held += len(message.get("body", b""))
        await asyncio.Event().wait()
