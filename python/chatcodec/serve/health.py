"""Health: whether the process lives, and whether requests should be sent to it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request as HttpRequest

    from chatcodec.serve.backends.base import Backend

__all__ = ["Health"]

_FRESH = 1.0
"""Seconds for which the backend is not asked again."""
_LONGEST = 2.0
"""Longest wait for the backend, in seconds; `--connect-timeout` may make it shorter."""


class Health:
    """`/livez`, `/readyz`, and `/health`, which is the same as `/readyz`."""

    def __init__(self, backend: Callable[[], Backend], seconds: float) -> None:
        """Ask a backend, and wait for it for so many seconds at most."""
        self.backend, self.seconds = backend, min(seconds, _LONGEST)
        self.is_draining = False
        self._asked: tuple[float, bool] | None = None
        self._asking = asyncio.Lock()

    @property
    def routes(self) -> list[Route]:
        """The paths."""
        return [
            Route("/livez", self.live),
            Route("/readyz", self.ready),
            Route("/health", self.ready),
        ]

    async def live(self, _: HttpRequest) -> JSONResponse:
        """Say that the process answers, whatever its backend does."""
        return JSONResponse({"status": "ok"})

    async def ready(self, _: HttpRequest) -> JSONResponse:
        """Say whether requests should come here."""
        if self.is_draining:
            return JSONResponse({"status": "draining"}, 503)
        if await self.is_well():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "backend unreachable"}, 503)

    async def is_well(self) -> bool:
        """Whether the backend answers. Many who ask at once share one request to it."""
        async with self._asking:
            if self._asked is None or time.monotonic() > self._asked[0] + _FRESH:
                well = await self.backend().is_well(self.seconds)
                self._asked = time.monotonic(), well
            return self._asked[1]
