"""What the operator allows: parts to leave out, fields to pass on, media to count."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatcodec.adapters._drops import OnParts
    from chatcodec.serve.settings import Settings

__all__ = ["Policy", "Unknown"]

Unknown: TypeAlias = Literal["error", "drop", "pass"]
"""What becomes of a field that the gateway does not know: an error, nothing, or the engine's."""

MEDIA = ("image", "video", "audio")

_UNKNOWN = frozenset({"option", "role", "unknown"})
"""Kinds that unknown names within a field are of: no engine can be given them."""

_KIND = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COUNT = re.compile(r"([1-9]\d{0,6})(?:x([1-9]\d{0,6}))?")


@dataclass(frozen=True)
class Policy:
    """The operator's choices, read from the settings."""

    on_unsupported: OnParts
    """Parts of a request that are left out where they cannot be written, or are not done."""
    unknown: Unknown
    """What becomes of unknown fields."""
    media: Mapping[str, int | list[int]]
    """Placeholder ids of an image, a video or audio, by kind; others are refused."""
    allowed: frozenset[str]
    """Fields that are refused unless the operator names them."""

    @staticmethod
    def of(settings: Settings) -> Policy:
        """Read the settings. Raises `ValueError` for one that means nothing."""
        return Policy(
            _parts(settings.on_unsupported, settings.unknown_fields),
            settings.unknown_fields,
            dict(map(_media, settings.media_tokens)),
            frozenset(settings.allowed_fields),
        )


def _parts(given: str, unknown: Unknown) -> OnParts:
    more = frozenset() if unknown == "error" else _UNKNOWN
    if given == "error":
        return more or "error"
    if given == "drop":
        return "drop"
    word, _, kinds = given.partition("=")
    named = frozenset(kinds.split(","))
    if word != "drop" or not all(map(_KIND.fullmatch, named)):
        raise ValueError(f"--on-unsupported {given}: expected error, drop, or drop=KIND,KIND")
    return named | more


def _media(given: str) -> tuple[str, int | list[int]]:
    kind, _, count = given.partition("=")
    found = _COUNT.fullmatch(count)
    if kind not in MEDIA or found is None:
        expected = f"expected KIND=N or KIND=ROWSxCOLUMNS, of {', '.join(MEDIA)}"
        raise ValueError(f"--media-tokens {given}: {expected}")
    rows, columns = found.groups()
    return kind, int(rows) if columns is None else [int(rows), int(columns)]
