"""Dicts as server-sent events, the way each API writes them: bytes for the body of a response.

JSON is ASCII here: some clients take U+2028 and U+0085, which JSON may hold as they are, for the
end of a line.
"""

from __future__ import annotations

from json import JSONEncoder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatcodec.adapters._adapter import Chunk

__all__ = ["DONE", "data", "event"]

DONE = b"data: [DONE]\n\n"
"""What ends a stream of chat completion chunks."""

_encode = JSONEncoder(separators=(",", ":")).encode


def data(chunk: Chunk) -> bytes:
    """Write a chunk as chat completions do: `data: {…}`."""
    return b"data: %b\n\n" % _encode(chunk).encode("ascii")


def event(chunk: Chunk) -> bytes:
    """Write an event as Responses and Anthropic do: its `type` as `event: …`, then `data: {…}`."""
    return b"event: %b\n%b" % (str(chunk["type"]).encode("ascii"), data(chunk))
