"""Bodies of requests, with large parts that are written once."""

from __future__ import annotations

import importlib
import json
import secrets
from typing import TYPE_CHECKING, Any

orjson: Any
try:
    orjson = importlib.import_module("orjson")
except ImportError:  # which is only slower
    orjson = None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from chatcodec import Encoding

__all__ = ["PIECE", "Written", "pieces", "sent", "written_ids"]

PIECE = 65_536
"""Bytes that are given to a connection at a time."""


class Written(bytes):
    """A value that is JSON already: the ids of a prompt, a grammar."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Written:
        """Write a value."""
        if orjson is None:
            return cls(json.dumps(value, separators=(",", ":")).encode())
        return cls(orjson.dumps(value))


def written_ids(prompt: Encoding) -> Written:
    """Write the ids of a prompt, a list."""
    return Written.of(prompt.ids.tolist())


def pieces(body: dict[str, Any] | list[dict[str, Any]]) -> list[bytes]:
    """Write a body in which some values are `Written`: its JSON in pieces, those as they are."""
    found: list[bytes] = []
    # No text of a body has this by chance, and no client can know it.
    mark = secrets.token_hex(16)

    def place(value: object) -> str:
        if not isinstance(value, Written):
            raise TypeError(f"{type(value).__name__} is no JSON")
        found.append(value)
        return mark

    first, *rest = json.dumps(body, default=place).encode().split(b'"%b"' % mark.encode())
    made = [first]
    for value, text in zip(found, rest, strict=True):
        made += (value, text)
    return made


async def sent(parts: Iterable[bytes]) -> AsyncIterator[memoryview]:
    """Give pieces that a connection takes without holding up others."""
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), PIECE):
            yield view[start : start + PIECE]
