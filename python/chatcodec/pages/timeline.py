"""The page of a stream: a row for each push, with the events that the push gave.

The page shows the same completion in pushes of several sizes. Events of different pushes differ in
where text is cut, and in nothing else: the page says whether they do.
"""

from __future__ import annotations

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
        "joined": [list(entry) for entry in joined[0]],
        "runs": [
            {"size": size, "pushes": [[_entry(event) for event in push] for push in pushes]}
            for size, pushes in runs
        ],
    }


def _spelled(codec: Codec, token: int) -> str:
    """Give the text of an id for people; an id outside the vocabulary has its number."""
    try:
        return codec.vocab.token_bytes(token).decode("utf-8", "replace")
    except ValueError:
        return f"(id {token})"


def _entry(event: Event) -> list[object]:
    """Give an event's lane, its text, and the positions of its ids."""
    lane, text = _lane_and_text(event)
    return [lane, text, *event.tokens]


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


def _joined(events: Iterable[Event]) -> list[tuple[str, str, str]]:
    """Join the texts of neighbouring events of one kind: lane, kind, text."""
    joined: list[tuple[str, str, str]] = []
    for event in events:
        lane, text = _lane_and_text(event)
        kind = type(event).__name__
        if isinstance(event, ActionDelta):
            kind = f"{kind} {event.index}"
        is_text = isinstance(event, (Text, Reasoning, ActionDelta))
        if is_text and joined and joined[-1][1] == kind:
            text = joined.pop()[2] + text
        joined.append((lane, kind, text))
    return joined
