"""`chatcodec.events`: small frozen classes, made for `match`."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, get_args

import chatcodec
import pytest
from chatcodec import Codec, events
from chatcodec.events import (
    ActionDelta,
    ActionEnd,
    ActionStart,
    Event,
    Media,
    Notice,
    Reasoning,
    Text,
    TurnEnd,
    TurnStart,
)
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts

if TYPE_CHECKING:
    from collections.abc import Callable

COMPLETE = True
ODD: Any = [1.5]

EXAMPLES: list[tuple[Event, dict[str, Any], str]] = [
    (
        TurnStart("user", "file", None, None, (0, 4)),
        {"role": "user", "name": "file", "channel": None, "recipient": None},
        "TurnStart(role='user', name='file', channel=None, recipient=None, tokens=(0, 4))",
    ),
    (Text("a\n", (4, 6)), {"text": "a\n"}, "Text(text='a\\n', tokens=(4, 6))"),
    (Reasoning("r", (0, 1)), {"text": "r"}, "Reasoning(text='r', tokens=(0, 1))"),
    (
        ActionStart(0, "function", "f", None, (6, 9)),
        {"index": 0, "kind": "function", "name": "f", "id": None},
        "ActionStart(index=0, kind='function', name='f', id=None, tokens=(6, 9))",
    ),
    (
        ActionDelta(1, "{}", (9, 10)),
        {"index": 1, "text": "{}"},
        "ActionDelta(index=1, text='{}', tokens=(9, 10))",
    ),
    (
        ActionEnd(1, COMPLETE, None, "x", (10, 11)),
        {"index": 1, "complete": True, "name": None, "id": "x"},
        "ActionEnd(index=1, complete=True, name=None, id='x', tokens=(10, 11))",
    ),
    (
        TurnEnd("stop", None, (11, 12)),
        {"reason": "stop", "id": None},
        "TurnEnd(reason='stop', id=None, tokens=(11, 12))",
    ),
    (
        Media("image", 4, 1, (12, 16)),
        {"kind": "image", "count": 4, "rows": 1},
        "Media(kind='image', count=4, rows=1, tokens=(12, 16))",
    ),
    (
        Notice("unknown_id", "-1", (12, 13)),
        {"kind": "unknown_id", "text": "-1"},
        "Notice(kind='unknown_id', text='-1', tokens=(12, 13))",
    ),
]

each_example = pytest.mark.parametrize(
    ("event", "fields", "text"), EXAMPLES, ids=[type(event).__name__ for event, _, _ in EXAMPLES]
)


def test_every_event_has_an_example() -> None:
    assert {type(event) for event, _, _ in EXAMPLES} == set(get_args(Event))
    words = {"CallKind", "Event", "MediaKind", "NoteKind", "NoticeKind", "Role", "TurnReason"}
    assert {*events.__all__} == words | {type(event).__name__ for event, _, _ in EXAMPLES}


@each_example
def test_fields(event: Event, fields: dict[str, Any], text: str) -> None:
    assert type(event).__match_args__ == tuple(fields)
    assert {name: getattr(event, name) for name in fields} == fields
    assert repr(event) == text
    assert eval(text, vars(events)) == event  # noqa: S307
    by_name = type(event)(**fields, tokens=event.tokens)
    assert by_name == event
    assert type(event)(**fields).tokens == (0, 0)


@each_example
def test_events_are_values(event: Event, fields: dict[str, Any], text: str) -> None:
    del text
    same, elsewhere = (
        type(event)(**fields, tokens=event.tokens),
        type(event)(**fields, tokens=(98, 99)),
    )
    assert (event == same, event == elsewhere) == (True, False)
    assert (event != same, event != elsewhere) == (False, True)
    assert hash(event) == hash(same)
    assert {event, same, elsewhere} == {event, elsewhere}
    assert event != tuple(fields.values())
    assert copy.copy(event) == copy.deepcopy(event) == event


@each_example
def test_events_cannot_be_changed(event: Event, fields: dict[str, Any], text: str) -> None:
    del text
    for name in (*fields, "tokens", "other"):
        with pytest.raises(AttributeError):
            setattr(event, name, None)


@each_example
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_events_are_pickled(event: Event, fields: dict[str, Any], text: str, protocol: int) -> None:
    restored = pickle.loads(pickle.dumps(event, protocol))  # noqa: S301
    assert restored == event
    assert repr(restored) == text
    assert all(getattr(restored, name) == value for name, value in fields.items())


@given(
    text=hostile_texts(),
    index=st.integers(0, 2**32 - 1),
    tokens=st.tuples(*[st.integers(0, 2**32 - 1)] * 2),
)
def test_events_hold_any_text(text: str, index: int, tokens: tuple[int, int]) -> None:
    for event in (
        Text(text, tokens),
        ActionDelta(index, text, tokens),
        Notice("malformed", text, tokens),
    ):
        assert event.text == text
        assert event.tokens == tokens
        assert pickle.loads(pickle.dumps(event)) == event  # noqa: S301
        assert eval(repr(event), vars(events)) == event  # noqa: S307


def test_events_are_made_for_match(embedded: Codec) -> None:
    stream = embedded.stream()
    ids = embedded.vocab.encode("Sure.").tolist()
    call = embedded.vocab.encode('\n{"name": "f", "parameters": {"a": 1}}').tolist()
    heard = []
    for event in [*stream.push([*ids, 92541, 92538, *call, 92540, -1, 92542]), *stream.finish()]:
        match event:
            case Text(text):
                heard.append(text)
            case ActionStart(index, "function", name):
                heard.append(f"{index}: {name}(")
            case ActionDelta(_, text):
                heard.append(text)
            case ActionEnd(complete=True):
                heard.append(")")
            case Notice("unknown_id", id_):
                heard.append(f"? {id_}")
            case TurnEnd("action" | "stop", tokens=(_, end)):
                heard.append(f"end at {end}")
            case other:
                pytest.fail(f"unexpected {other!r}")
    assert "".join(heard[:-2]) == 'Sure.0: f({"a": 1})'
    assert heard[-2:] == ["? -1", f"end at {len(ids) + len(call) + 5}"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Text(ODD),
        Text,
        lambda: Text("a", ODD),
        lambda: Text("a", (-1, 0)),
        lambda: ActionDelta(-1, "a"),
        lambda: ActionDelta(ODD, "a"),
        TurnStart,
        lambda: Text("\ud800"),
    ],
)
def test_wrong_fields_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        wrong()


def test_collect_is_of_the_package() -> None:
    assert chatcodec.collect([Text("a")]) == {"role": "assistant", "content": "a"}
