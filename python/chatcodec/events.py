"""The events of a stream: small frozen classes, made for `match`.

Each has `tokens`, the positions `(start, end)` of the ids it was read from.
"""

from __future__ import annotations

from typing import TypeAlias

from chatcodec._core import (
    ActionDelta,
    ActionEnd,
    ActionStart,
    Notice,
    Reasoning,
    Text,
    TurnEnd,
    TurnStart,
)

__all__ = [
    "ActionDelta",
    "ActionEnd",
    "ActionStart",
    "Event",
    "Notice",
    "Reasoning",
    "Text",
    "TurnEnd",
    "TurnStart",
]

Event: TypeAlias = (
    TurnStart | Text | Reasoning | ActionStart | ActionDelta | ActionEnd | TurnEnd | Notice
)
