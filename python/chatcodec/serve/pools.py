"""Connections to the backend, in several pools.

A pool of httpx walks all of its connections at the beginning and at the end of each request: with a
thousand streams open, that is most of a gateway's time. Several pools share the streams.
"""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import httpx

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Pools"]

_COUNT = 64
_IDLE = 8
"""Connections of a pool that are kept open without a request."""


class Pools(httpx.AsyncBaseTransport):
    """A transport of several, each used in turn. Without proxies: the engine is next door."""

    def __init__(self) -> None:
        """Make the pools, which are empty."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=_IDLE)
        self._pools = [
            httpx.AsyncHTTPTransport(limits=limits, trust_env=False) for _ in range(_COUNT)
        ]
        self._turn = itertools.cycle(self._pools)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the pools."""
        for pool in self._pools:
            await self._stack.enter_async_context(pool)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Close the pools."""
        await self._stack.__aexit__(kind, error, trace)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request by the pool whose turn it is."""
        return await next(self._turn).handle_async_request(request)
