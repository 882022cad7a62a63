"""The window of a model, as the engine's server tells it: asked once for all requests.

A question has a bound of time. Its answer is kept, also while it is asked for again, and so is its
failure, so no request waits where another has waited in vain.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp

from chatcodec.serve.backends.wire import EVENT_BYTES
from chatcodec.serve.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Window"]

FRESH = 60.0
"""Seconds for which an answer is not asked for again."""
FAILED = 10.0
"""Seconds for which a failure is not asked for again."""
PATIENCE = 2.0
"""Seconds, from the question, for which requests wait for the answer."""
BOUND = 10.0
"""Seconds for which a question is open."""


class Window:
    """How many ids a prompt and its answer may have."""

    def __init__(self, client: aiohttp.ClientSession, url: str, said: int | None) -> None:
        """Take a client, the server's address, and what the operator says, if anything."""
        self.client, self.url, self.said = client, url, said
        self._cards: dict[str, int] | None = None
        """The windows of the models, the first one under the name `""` too."""
        self._again = 0.0
        """When to ask again."""
        self._asking: asyncio.Task[None] | None = None
        self._asked = 0.0

    async def of(self, model: str) -> int | None:
        """Give the window of a model; None where the server does not answer in time.

        Raises `BackendError` where the server answers, and does not tell.
        """
        if self.said is not None:
            return self.said
        now = time.monotonic()
        if self._asking is None and now >= self._again:
            self._asked = now
            self._asking = asyncio.create_task(self._ask())
        if self._cards is None and self._asking is not None:
            left = self._asked + PATIENCE - now
            if left > 0:
                await asyncio.wait({self._asking}, timeout=left)
        if self._cards is None:
            return None
        window = self._cards.get(model, self._cards.get(""))
        if window is None:
            raise BackendError(
                502,
                "the request has no limit, and the backend's /v1/models tells no `max_model_len`: "
                "start the gateway with --max-model-len",
            )
        return window

    async def known(self, model: str) -> int | None:
        """Give the window of a model; None where nobody tells it in time."""
        with suppress(BackendError):
            return await self.of(model)
        return None

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(BOUND):
                self._cards = await _cards_of(self._get)
            self._again = time.monotonic() + (FRESH if self._cards else FAILED)
        except (aiohttp.ClientError, TimeoutError, OSError):
            self._again = time.monotonic() + FAILED
        finally:
            self._asking = None

    async def _get(self) -> bytes:
        url = f"{self.url}/v1/models"
        async with self.client.get(url, allow_redirects=False) as answer:
            return await answer.content.read(EVENT_BYTES)


async def _cards_of(get: Callable[[], Awaitable[bytes]]) -> dict[str, int]:
    """Read the windows of models; none where the body does not tell them."""
    try:
        cards = json.loads(await get())["data"]
        windows = {each["id"]: each["max_model_len"] for each in cards}
        first = cards[0]["max_model_len"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return {}
    told = {"": first, **windows}
    return {name: size for name, size in told.items() if type(size) is int and size > 0}
