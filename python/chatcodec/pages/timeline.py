"""The page of a stream: a row for each push, with the events that the push gave.

An id is held back while no event covers it. Why it was held back is known when the event comes: the
page says what the id became, and the id that decided it.

The page shows the same completion in pushes of several sizes. Events of different pushes differ in
where text is cut, and in nothing else: the page says whether they do.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from chatcodec.events import ActionDelta, ActionEnd, ActionStart, Notice, Reasoning, Text
from chatcodec.pages.document import items_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal

    from chatcodec import Codec, Encoding
    from chatcodec.events import Event

__all__ = ["stream_data", "stream_page"]

SIZES = (1, 2, 3, 5, 8, 16, 64)
"""Ids in a push, in the order of the page's slider; all ids in one push come last."""

REASONS = (
    "a character that is not complete",
    "text that could begin a marker",
    "the header of a call, before its name is known",
    "in a call, between its header and its arguments",
    "after the arguments, where a call may end",
    "not decided, then reported by a notice",
    "where a turn may begin or end",
    "a marker, and what follows it, before the text that it opens",
)
"""Why an id is held back, by what it became."""


def stream_page(
    codec: Codec,
    ids: Sequence[int],
    prompt: Encoding | Sequence[int] | None = None,
    *,
    reason: Literal["stop", "length", "cancelled"] = "stop",
    title: str | None = None,
) -> str:
    """Make the page of a completion's stream."""
    data = stream_data(codec, ids, prompt, reason=reason)
    return items_page(title or "Events of a stream", [data])


def stream_data(
    codec: Codec,
    ids: Sequence[int],
    prompt: Encoding | Sequence[int] | None = None,
    *,
    reason: Literal["stop", "length", "cancelled"] = "stop",
) -> dict[str, object]:
    """Gather what a page shows of a completion: its ids, and the events of each push."""
    ids = list(ids)
    runs: list[tuple[int, list[list[Event]]]] = []
    for size in dict.fromkeys([*(size for size in SIZES if size < len(ids)), max(1, len(ids))]):
        stream = codec.stream(prompt)
        pushes = [stream.push(ids[at : at + size]) for at in range(0, len(ids), size)]
        runs.append((size, [*pushes, stream.finish(reason)]))
    joined = [_joined(event for push in pushes for event in push) for _, pushes in runs]
    control = set(codec.vocab.control.values())
    return {
        "kind": "stream",
        "ids": ids,
        "texts": [_spelled(codec, token) for token in ids],
        "control": [int(token in control) for token in ids],
        "same": all(other == joined[0] for other in joined),
        "reasons": REASONS,
        "held": _held(codec, ids, runs[0][1]),
        "joined": [list(entry) for entry in joined[0]],
        "runs": [
            {"size": size, "pushes": [[_entry(event) for event in push] for push in pushes]}
            for size, pushes in runs
        ],
    }


def _held(codec: Codec, ids: Sequence[int], pushes: Sequence[Sequence[Event]]) -> list[object]:
    """List why each id was held back, and the push that decided it; 0 for those that were not.

    `pushes` have one id each, and the end. A reason is an index of `REASONS`.
    """
    control = set(codec.vocab.control.values())
    held: list[object] = [0] * len(ids)
    done = 0
    for push, events in enumerate(pushes):
        for event in events:
            for at in range(done, min(event.tokens[1], len(ids))):
                if at < push:
                    before = ids[done : at + 1]
                    is_opened = not control.isdisjoint(before)
                    held[at] = [_reason(event, _bytes(codec, before), is_opened=is_opened), push]
            done = max(done, event.tokens[1])
    return held


def _reason(event: Event, before: bytes, *, is_opened: bool) -> int:
    """Choose the reason for an id that became `event`; `before` are the bytes that were held."""
    match event:
        case Text() | Reasoning():
            return 7 if is_opened else 0 if _ends_in_character(before) else 1
        case ActionStart():
            return 2
        case ActionDelta():
            return 3
        case ActionEnd():
            return 4
        case Notice():
            return 5
        case _:
            return 6


def _ends_in_character(content: bytes) -> bool:
    """Return whether the last character of a text has all its bytes but the last."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(content)
    return bool(decoder.getstate()[0])


def _bytes(codec: Codec, ids: Sequence[int]) -> bytes:
    try:
        return b"".join(map(codec.vocab.token_bytes, ids))
    except ValueError:
        return b""


def _spelled(codec: Codec, token: int) -> str:
    """Give the text of an id for people; an id outside the vocabulary has its number."""
    try:
        return codec.vocab.token_bytes(token).decode("utf-8", "replace")
    except ValueError:
        return f"(id {token})"


def _entry(event: Event) -> list[object]:
    """Give an event's lane, its text, and the positions of its ids; texts also have their kind."""
    lane, text = _lane_and_text(event)
    return [lane, text, *event.tokens, *([_kind(event)] if _is_text(event) else [])]


def _lane_and_text(event: Event) -> tuple[str, str]:
    match event:
        case Text(text) | Reasoning(text):
            return type(event).__name__.lower(), text
        case ActionStart(index, kind, name):
            text = f"call {index}: {kind} {name or ''}".rstrip()
        case ActionDelta(_, text):
            pass
        case ActionEnd(index, complete):
            text = f"end of call {index}{'' if complete else ', incomplete'}"
        case Notice(kind, text):
            return "notices", f"{kind}: {text}"
        case _:
            fields = [getattr(event, field) for field in event.__match_args__]
            words = [type(event).__name__, *(str(field) for field in fields if field is not None)]
            return "turns", " ".join(words)
    return "calls", text


def _kind(event: Event) -> str:
    name = type(event).__name__
    return f"{name} {event.index}" if isinstance(event, ActionDelta) else name


def _is_text(event: Event) -> bool:
    return isinstance(event, (Text, Reasoning, ActionDelta))


def _joined(events: Iterable[Event]) -> list[tuple[str, str, str]]:
    """Join the texts of neighbouring events of one kind: lane, kind, text."""
    joined: list[tuple[str, str, str]] = []
    for event in events:
        lane, text = _lane_and_text(event)
        kind = _kind(event)
        if _is_text(event) and joined and joined[-1][1] == kind:
            text = joined.pop()[2] + text
        joined.append((lane, kind, text))
    return joined
