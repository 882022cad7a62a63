"""Signs of life of a stream: a line that says nothing, where the engine is silent for a while.

Proxies end a connection that has been silent for a minute or so. An engine is silent while a
request waits in its queue, and while it reads a long prompt.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Send

__all__ = ["COMMENT", "PING", "Beats", "in_time", "stopped"]

COMMENT = b": waiting\n\n"
"""A comment of server-sent events, which every client skips."""
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
"""Anthropic's own sign of life."""


class Beats:
    """Writes a line whenever a stream that has begun was silent for so many seconds."""

    def __init__(self, seconds: float, line: bytes, patience: float) -> None:
        """Take the seconds, 0 for none, the line, and how long a client may take to read it."""
        self.seconds, self.line, self.patience = seconds, line, patience
        self._begun = asyncio.Event()
        self._last = 0.0
        self._writing = 0

    def begin(self) -> None:
        """Count from now: the head of the answer was sent."""
        self._last = asyncio.get_running_loop().time()
        self._begun.set()

    def __enter__(self) -> None:
        """Be still while something is written."""
        self._writing += 1

    def __exit__(self, *_: object) -> None:
        """Count from now."""
        self._writing -= 1
        self._last = asyncio.get_running_loop().time()

    async def run(self, send: Send) -> None:
        """Write lines for ever. Raises `TimeoutError` for a client that does not read them."""
        await self._begun.wait()
        if not self.seconds:
            await asyncio.Event().wait()
        now = asyncio.get_running_loop().time
        while True:
            left = self._last + self.seconds - now()
            if left > 0 or self._writing:
                await asyncio.sleep(left if left > 0 else self.seconds)
                continue
            async with asyncio.timeout(self.patience):
                await send({"type": "http.response.body", "body": self.line, "more_body": True})
            self._last = now()


async def in_time(work: asyncio.Future[None], seconds: float) -> None:
    """Wait for work, for so many seconds at most, 0 for no bound; raise what it raised by then."""
    await asyncio.wait({work}, timeout=seconds or None)
    if work.done():
        work.result()


async def stopped(work: asyncio.Future[None]) -> None:
    """Cancel work, and wait until it has stopped."""
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
