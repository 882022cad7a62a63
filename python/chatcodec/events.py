"""The events of a stream: small frozen classes, for use with `match`.

Each event has `tokens`: the positions `(start, end)` of its ids in the stream.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from chatcodec._core import (
    ActionDelta,
    ActionEnd,
    ActionStart,
    Media,
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
    "CallKind",
    "Event",
    "Media",
    "MediaKind",
    "NoteKind",
    "Notice",
    "NoticeKind",
    "Reasoning",
    "Role",
    "Text",
    "TurnEnd",
    "TurnReason",
    "TurnStart",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
"""Role of a turn."""

CallKind: TypeAlias = Literal["function", "code"]
"""Kind of a call: a function with a name, or code for an interpreter."""

MediaKind: TypeAlias = Literal["image", "video", "audio"]
"""Kind of a part that is no text."""

TurnReason: TypeAlias = Literal["stop", "action", "length", "implicit", "cancelled"]
"""Reason for the end of a turn: the model stopped (`stop`), or stopped in a turn with a call
(`action`); the engine stopped the model at a limit (`length`) or by request (`cancelled`); or
another turn began (`implicit`)."""

NoticeKind: TypeAlias = Literal[
    "malformed",
    "unexpected_control",
    "unknown_id",
    "text_after_action",
    "duplicate_key",
    "unknown_key",
    "trailing",
    "mended",
]
"""Kind of an irregularity in the ids."""

NoteKind: TypeAlias = Literal[
    "reasoning",
    "ids",
    "text",
    "stop",
    "prompt",
    "moved",
    "unencodable",
    "incomplete",
    "reads",
    "dependent",
    "unfollowed",
    "malformed",
    "unexpected_control",
    "text_after_action",
    "duplicate_key",
    "unknown_key",
    "trailing",
    "mended",
]
"""Kind of a difference between an extended conversation and `encode`: the format leaves out
reasoning (`reasoning`), the same text has other ids (`ids`), the text differs (`text`), the turn
ends with another id (`stop`), the generation prompt differs (`prompt`), a system message or tools
move to the last user's turn (`moved`), the format cannot write a message (`unencodable`), a call
has no end (`incomplete`), `decode` reads a turn differently from `parse` (`reads`); control tokens
of a template depend on the caller's text (`dependent`), or would if the template were followed
(`unfollowed`); or the stream
reports an irregularity, with a name of `NoticeKind`."""

Event: TypeAlias = (
    TurnStart | Text | Media | Reasoning | ActionStart | ActionDelta | ActionEnd | TurnEnd | Notice
)
