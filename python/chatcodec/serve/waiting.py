"""Waiting for something, and for the client to go."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.types import Message, Receive

__all__ = ["Held", "disconnected", "first", "until_gone"]

T = TypeVar("T")

_HELD = 65_536
"""Bytes of a body that are held; beyond them, a client that goes is not noticed."""


async def disconnected(receive: Receive) -> None:
    """Wait until the client is gone; what it sends is lost."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_gone(http: HttpRequest, work: Awaitable[T]) -> T:
    """Give the result of work; cancel it and raise `ClientDisconnect` if the client goes first."""
    return await first(disconnected(http.receive), work)


async def first(gone: Awaitable[None], work: Awaitable[T]) -> T:
    """Give the result of work; cancel it and raise `ClientDisconnect` if `gone` ends first."""
    task, going = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        await asyncio.wait({task, going}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
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
