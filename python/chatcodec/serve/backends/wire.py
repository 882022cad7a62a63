"""The connection to a backend: its errors, its server-sent events, its bodies."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import aiohttp

from chatcodec.serve.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["EVENT_BYTES", "REST", "events_of", "rest_of", "start_of", "told_errors", "whole_of"]

EVENT_BYTES = 8_000_000
"""Largest event of a backend, in bytes."""
ERROR_BYTES = 100_000
"""Bytes of an error's body that are read."""

REST = 0.1
"""Longest wait for what follows the last event, in seconds."""

_DONE = b"[DONE]"


@contextmanager
def told_errors() -> Iterator[None]:
    """Raise errors of the connection to a backend as `BackendError`."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise BackendError(504, "the backend gave no connection in time") from error
    except aiohttp.ServerTimeoutError as error:
        raise BackendError(504, "the backend gave no answer in time") from error
    except aiohttp.ClientConnectorError as error:
        raise BackendError(503, "the backend cannot be reached; try again") from error
    except aiohttp.ClientError as error:
        raise BackendError(502, "the connection to the backend broke") from error


async def start_of(answer: aiohttp.ClientResponse) -> bytes:
    """Read the beginning of an error's body."""
    raw = b""
    async for piece in answer.content.iter_any():
        raw += piece
        if len(raw) > ERROR_BYTES:
            break
    return raw


async def rest_of(answer: aiohttp.ClientResponse) -> None:
    """Read the end of an answer, so that its connection serves another request."""
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(REST):
            async for _ in answer.content.iter_any():
                pass


async def events_of(answer: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """Give the data of server-sent events; those that came together are one list.

    `[DONE]` is the end. Comments and other fields are left out.
    """
    held = b""
    async for piece in answer.content.iter_any():
        # A carriage return at the end of a piece may be half of a line's end.
        held = (held + piece).replace(b"\r\n", b"\n")
        if len(held) > EVENT_BYTES:
            raise BackendError(502, f"the backend sent an event of more than {EVENT_BYTES} bytes")
        *whole, held = held.split(b"\n\n")
        events = [data for each in whole if (data := _data(each))]
        if _DONE in events:
            if events := events[: events.index(_DONE)]:
                yield events
            return
        if events:
            yield events
    if (data := _data(held)) and data != _DONE:
        yield [data]


def _data(event: bytes) -> bytes:
    """Give the data of one event, its lines joined."""
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)


async def whole_of(answer: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """Give a body as the one event that it is."""
    pieces = b""
    async for piece in answer.content.iter_any():
        pieces += piece
        if len(pieces) > EVENT_BYTES:
            raise BackendError(502, f"the backend sent more than {EVENT_BYTES} bytes")
    yield [pieces]
