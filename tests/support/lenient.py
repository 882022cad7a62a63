"""What a model wrote, read however it comes: `test_leniency_*.py` say what is to come out."""

from __future__ import annotations

import functools
import itertools
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import data
from chatcodec.events import (
    ActionDelta,
    ActionEnd,
    ActionStart,
    Notice,
    Reasoning,
    Text,
)

if TYPE_CHECKING:
    from chatcodec import Codec
    from chatcodec.events import Event

Markers = Literal["ids", "ids_or_text", "text"]

DEEPSEEK_TOKENS = (
    "<｜end▁of▁sentence｜>",
    "<｜begin▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "<think>",
    "</think>",
)
"""The tokens of DeepSeek V3, R1 and V3.1."""

CALL = "the call is written in another way than the format's"
AFTER = "what closes calls is not the format's"
CALL_END = "what closes the call is missing"
LIST_END = "what closes the calls is missing"
CALL_ID = "the id of the call has another form"
HEADER = "a part of the header is missing or stands twice"
OPENER = "the token that opens reasoning stands twice"


@dataclass(frozen=True)
class Said:
    """What came out: the answer, its calls, what was mended, and other notices."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str | None, Any], ...] = ()
    mended: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    ids: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Case:
    """What a model writes by a format: markers stand as they are spelled."""

    format: str
    written: str
    said: Said
    lacks: tuple[str, ...] = ()
    reason: Literal["stop", "length", "cancelled"] = "stop"
    more: tuple[str, ...] = ()
    spelled: str | None = None
    """The text of the answer where markers are spelled: what means nothing is text there."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.format}: {self.written!r:.90}"


@functools.cache
def special_tokens(format_: str) -> tuple[str, ...]:
    """The tokens of a format as its golden cases have them."""
    path = data.ROOT / "tests" / "golden" / f"{format_.replace(':', '-')}.json"
    return tuple(json.loads(path.read_text(encoding="utf-8")).get("special_tokens", ()))


def codec_of(case: Case) -> Codec:
    known = (*special_tokens(case.format), *case.more)
    return data.load_appended(case.format, tuple(t for t in known if t not in case.lacks))


def ids_of(codec: Codec, written: str, *, spelled: bool = False) -> list[int]:
    """Markers as their ids, text byte by byte; `spelled`: markers are text too."""
    known = sorted(codec.vocab.control, key=len, reverse=True)
    pattern = "|".join(map(re.escape, known))
    ids: list[int] = []
    for part in [written] if spelled else re.split(f"({pattern})", written):
        if not spelled and part in codec.vocab.control:
            ids.append(codec.vocab.control[part])
        else:
            ids += [3 + byte for byte in part.encode()]
    return ids


def fold(events: list[Event]) -> Said:
    """What events say, without where it stands."""
    texts: dict[type, str] = {Text: "", Reasoning: ""}
    kinds: list[str] = []
    names: list[str | None] = []
    arguments: list[str] = []
    complete: list[bool] = []
    ids: list[str | None] = []
    notices: list[Notice] = []
    for event in events:
        if isinstance(event, (Text, Reasoning)):
            texts[type(event)] += event.text
        elif isinstance(event, ActionStart):
            kinds.append(event.kind)
            names.append(event.name)
            arguments.append("")
        elif isinstance(event, ActionDelta):
            arguments[event.index] += event.text
        elif isinstance(event, ActionEnd):
            names[event.index] = event.name
            ids.append(event.id)
            complete.append(event.complete)
        elif isinstance(event, Notice):
            notices.append(event)
    calls = [
        (name, json.loads(text) if is_whole and text and kind == "function" else text)
        for kind, name, text, is_whole in zip(kinds, names, arguments, complete, strict=True)
    ]
    return Said(
        text=texts[Text],
        reasoning=texts[Reasoning],
        calls=tuple(calls),
        # A header that was mended is told as it was written, after a colon.
        mended=tuple(n.text.partition(": ")[0] for n in notices if n.kind == "mended"),
        notices=tuple(
            f"{notice.kind}: {notice.text}" for notice in notices if notice.kind != "mended"
        ),
        ids=tuple(ids) if any(ids) else (),
    )


def told(codec: Codec, case: Case, pushes: list[list[int]], markers: Markers) -> list[Event]:
    stream = codec.stream(None, markers=markers, **case.options)
    pushed = itertools.chain.from_iterable(stream.push(ids) for ids in pushes)
    return [*pushed, *stream.finish(case.reason)]


def check(case: Case) -> None:
    """The case in every split of its ids, spelled, and as text."""
    codec = codec_of(case)
    ids = ids_of(codec, case.written)
    whole = told(codec, case, [ids], "ids")
    assert fold(whole) == case.said, whole
    for at in range(len(ids) + 1):
        assert fold(told(codec, case, [ids[:at], ids[at:]], "ids")) == case.said
    assert fold(told(codec, case, [[id_] for id_ in ids], "ids")) == case.said
    spelled = ids_of(codec, case.written, spelled=True)
    said = quiet(case.said)
    if case.spelled is not None:
        said = replace(said, text=case.spelled)
    assert quiet(fold(told(codec, case, [spelled], "ids_or_text"))) == said
    assert quiet(fold(told(codec, case, [[id_] for id_ in spelled], "ids_or_text"))) == said
    stream = codec.stream(None, markers="text", **case.options)
    events = [event for char in case.written for event in stream.push_text(char)]
    assert quiet(fold([*events, *stream.finish(case.reason)])) == said


def quiet(said: Said) -> Said:
    """Without other notices than of what was mended: a spelled marker may be text."""
    return replace(said, notices=())
