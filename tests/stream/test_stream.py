"""`Stream`, `parse` and `collect`: ids to events, however they come (P5, P6).

`CASES` is to be read: what a model writes, and what the stream tells. Each runs at every split.
The laws below it say the same of any ids.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Literal

import data
import numpy as np
import pytest
from chatcodec import Codec, Parsed, Stream, collect
from chatcodec.events import (
    ActionDelta,
    ActionEnd,
    ActionStart,
    Event,
    Notice,
    Reasoning,
    Text,
    TurnEnd,
    TurnStart,
)
from clock import within
from hypothesis import given
from hypothesis import strategies as st
from naive import Message, Value, canonical, merged, spaced
from strategies import conversations, each_text, hostile_texts, messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatcodec.events import TurnReason

    EngineReason = Literal["stop", "length", "cancelled"]

PLUGIN, INTERPRETER, DONE, ACT, STOP, START = range(92538, 92544)
EOS, BOS = 2, 1
HALF = [3 + 0xE4, 3 + 0xB8]
"""Two of the three bytes of a character."""


def ids_of(codec: Codec, parts: Iterable[str | int | list[int]]) -> list[int]:
    """Ids of what a model writes: control tokens and odd ids as ints, texts as they are encoded."""
    ids: list[int] = []
    for part in parts:
        match part:
            case int():
                ids.append(part)
            case str():
                ids.extend(codec.vocab.encode(part))
            case _:
                ids.extend(part)
    return ids


def told(stream: Stream, pushes: Iterable[Value], reason: EngineReason = "stop") -> list[Event]:
    """The events of a stream that is pushed to and then finished, texts joined."""
    events = [event for ids in pushes for event in stream.push(ids)]
    return merged([*events, *stream.finish(reason)])


def bare(events: Iterable[Event]) -> list[Event]:
    """Events without the places of their ids."""
    return [type(e)(*(getattr(e, name) for name in type(e).__match_args__)) for e in events]


def splits(ids: list[int]) -> Iterable[list[list[int]]]:
    """One at a time, and every way to push in two parts."""
    yield [[id_] for id_ in ids]
    for at in range(len(ids) + 1):
        yield [ids[:at], ids[at:]]


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def call(index: int, name: str | None, arguments: str, *, complete: bool = True) -> list[Event]:
    """The events of a call."""
    delta: list[Event] = [ActionDelta(index, arguments)] if arguments else []
    return [
        ActionStart(index, "function", name, None),
        *delta,
        ActionEnd(index, complete, name, None),
    ]


def code(index: int, language: str | None, source: str, *, complete: bool = True) -> list[Event]:
    """The events of code."""
    delta: list[Event] = [ActionDelta(index, source)] if source else []
    return [
        ActionStart(index, "code", language, None),
        *delta,
        ActionEnd(index, complete, language, None),
    ]


F = '\n{"name": "f", "parameters": {"a": 1}}'
CALL_F = call(0, "f", '{"a": 1}')
ACTED, STOPPED = TurnEnd("action"), TurnEnd("stop")
MALFORMED = Notice("malformed", "<|action_start|>")


def unexpected(spelling: str) -> Notice:
    return Notice("unexpected_control", spelling)


CASES: dict[str, tuple[list[str | int | list[int]], list[Event]]] = {
    "text": (["Hi", STOP], [Text("Hi"), STOPPED]),
    "text, the other stop": (["Hi", EOS], [Text("Hi"), STOPPED]),
    "text without a stop": (["Hi"], [Text("Hi"), STOPPED]),
    "nothing": ([], [STOPPED]),
    "a stop": ([STOP], [STOPPED]),
    "a newline before the stop": (["Hi\n", STOP], [Text("Hi\n"), STOPPED]),
    "after the stop": (["Hi", STOP, "\n"], [Text("Hi"), STOPPED, Notice("trailing", "\n")]),
    # Calls, as the documents write them and as models do.
    "a call": (["Sure.", ACT, PLUGIN, F, DONE, STOP], [Text("Sure."), *CALL_F, ACTED]),
    "newline between the openers": ([ACT, "\n", PLUGIN, F, DONE, STOP], [*CALL_F, ACTED]),
    "space between the openers": ([ACT, " ", PLUGIN, F, DONE, STOP], [*CALL_F, ACTED]),
    "no newline after the openers": ([ACT, PLUGIN, F[1:], DONE, STOP], [*CALL_F, ACTED]),
    "newlines around": (
        ["A\n", ACT, PLUGIN, F + "\n", DONE, "\n", STOP],
        [Text("A\n"), *CALL_F, ACTED],
    ),
    "key `arguments`": (
        [ACT, PLUGIN, '{"name": "f", "arguments": {"a": 1}}', DONE],
        [*CALL_F, ACTED],
    ),
    "spaces anywhere": (
        [ACT, PLUGIN, ' {\n"name" :\t"f" , "parameters" :  {"a": 1} \n} ', DONE],
        [*CALL_F, ACTED],
    ),
    "the closer stripped": ([ACT, PLUGIN, F], [*CALL_F, ACTED]),
    "the closer stripped before the stop": ([ACT, PLUGIN, F, STOP], [*CALL_F, ACTED]),
    "no arguments": ([ACT, PLUGIN, '\n{"name": "f"}', DONE], [*call(0, "f", ""), ACTED]),
    "any value": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": -12}', DONE],
        [*call(0, "f", "-12"), ACTED],
    ),
    "an escaped name": (
        [ACT, PLUGIN, '\n{"name": "f\\"\\u0041\\n", "parameters": {}}', DONE],
        [*call(0, 'f"A\n', "{}"), ACTED],
    ),
    "an empty name": (
        [ACT, PLUGIN, '\n{"name": "", "parameters": {}}', DONE],
        [*call(0, "", "{}"), ACTED],
    ),
    "two calls": (
        [ACT, PLUGIN, F, DONE, ACT, PLUGIN, '\n{"name": "g", "parameters": []}', DONE, STOP],
        [*CALL_F, *call(1, "g", "[]"), ACTED],
    ),
    "a call and code": (
        [ACT, PLUGIN, F, DONE, "\n", ACT, INTERPRETER, "\n```python\nx\n```", DONE, STOP],
        [*CALL_F, *code(1, "python", "x"), ACTED],
    ),
    "a call after an open one": (
        [ACT, PLUGIN, F, ACT, PLUGIN, '\n{"name": "g", "parameters": []}', DONE],
        [*CALL_F, *call(1, "g", "[]"), ACTED],
    ),
    "text after a call": (
        [ACT, PLUGIN, F, DONE, "\nDone.", STOP],
        [*CALL_F, Notice("text_after_action", ""), Text("\nDone."), ACTED],
    ),
    "white space after a call": ([ACT, PLUGIN, F, DONE, "\n \n", STOP], [*CALL_F, ACTED]),
    # What closes a call, and what does not.
    "the closer spelled in a string": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": "<|action_end|>"}}', DONE],
        [*call(0, "f", '{"a": "<|action_end|>"}'), ACTED],
    ),
    "the stop spelled in a string": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": "[UNUSED_TOKEN_145]"}}', DONE],
        [*call(0, "f", '{"a": "[UNUSED_TOKEN_145]"}'), ACTED],
    ),
    "the closer in a string": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": "', DONE, '"}}', STOP],
        [
            *call(0, "f", '{"a": "', complete=False),
            Notice("text_after_action", ""),
            Text('"}}'),
            ACTED,
        ],
    ),
    "braces and quotes in a string": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": "}}\\"}"}}', DONE],
        [*call(0, "f", '{"a": "}}\\"}"}'), ACTED],
    ),
    # Cut short, and not JSON.
    "arguments cut short": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": 1'],
        [*call(0, "f", '{"a": 1', complete=False), ACTED],
    ),
    "arguments cut short by a stop": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": 1', STOP],
        [*call(0, "f", '{"a": 1', complete=False), ACTED],
    ),
    "a name only": ([ACT, PLUGIN, '\n{"name": "f"'], [*call(0, "f", "", complete=False), ACTED]),
    "arguments that are no JSON": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": tru}}', DONE],
        [*call(0, "f", '{"a": tru}', complete=False), ACTED],
    ),
    "more than a call": (
        [ACT, PLUGIN, F + " and more", DONE],
        [*CALL_F[:-1], Notice("malformed", "and more"), *CALL_F[-1:], ACTED],
    ),
    "a second name": (
        [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a": 1}, "name": "g"}', DONE],
        [*CALL_F[:-1], Notice("duplicate_key", '"name": "g"'), *CALL_F[-1:], ACTED],
    ),
    "second arguments": (
        [ACT, PLUGIN, F[:-1] + ', "arguments": [2]}', DONE],
        [*CALL_F[:-1], Notice("duplicate_key", '"arguments": [2]'), *CALL_F[-1:], ACTED],
    ),
    "an unknown key": (
        [ACT, PLUGIN, F[:-1] + ', "id": {"x": "y"}}', DONE],
        [*CALL_F[:-1], Notice("unknown_key", '"id": {"x": "y"}'), *CALL_F[-1:], ACTED],
    ),
    "the name last": (
        [ACT, PLUGIN, '{"parameters": {"a": 1}, "name": "f"}', DONE],
        [*CALL_F, ACTED],
    ),
    "no name": ([ACT, PLUGIN, '{"parameters": {}}', DONE], [*call(0, None, "{}"), ACTED]),
    # Code.
    "code": (
        [ACT, INTERPRETER, "\n```python\nx = 1\n```", DONE, STOP],
        [*code(0, "python", "x = 1"), ACTED],
    ),
    "code, newline after the fence": (
        [ACT, INTERPRETER, "\n```python\nx = 1\n```\n", DONE],
        [*code(0, "python", "x = 1"), ACTED],
    ),
    "code without a language": (
        [ACT, INTERPRETER, "\n```\nx\n```", DONE],
        [*code(0, None, "x"), ACTED],
    ),
    "code without a newline": (
        [ACT, INTERPRETER, "```py\nx\n```", DONE],
        [*code(0, "py", "x"), ACTED],
    ),
    "code without a fence": (
        [ACT, INTERPRETER, "\nx = 1\n", DONE],
        [*code(0, None, "x = 1\n"), ACTED],
    ),
    "code with fences in it": (
        [ACT, INTERPRETER, '\n```python\ns = """\n```\n"""\n```', DONE],
        [*code(0, "python", 's = """\n```\n"""'), ACTED],
    ),
    "code with an open fence": (
        [ACT, INTERPRETER, "\n```python\nx", DONE],
        [*code(0, "python", "x", complete=False), ACTED],
    ),
    "code cut short": (
        [ACT, INTERPRETER, "\n```python\nx"],
        [*code(0, "python", "x", complete=False), ACTED],
    ),
    "code cut short without a fence": (
        [ACT, INTERPRETER, "\nx = 1"],
        [*code(0, None, "x = 1", complete=False), ACTED],
    ),
    "code whose fence closes at once": (
        [ACT, INTERPRETER, "\n```python\n```", DONE],
        [*code(0, "python", ""), ACTED],
    ),
    "code cut short in its header": (
        [ACT, INTERPRETER, "\n```py"],
        [*code(0, None, "```py", complete=False), ACTED],
    ),
    "empty code": ([ACT, INTERPRETER, "\n```python\n\n```", DONE], [*code(0, "python", ""), ACTED]),
    # Markers that nothing fitting follows.
    "an opener": ([ACT], [MALFORMED, STOPPED]),
    "an opener and a stop": ([ACT, STOP], [MALFORMED, STOPPED]),
    "an opener and text": ([ACT, "hello", STOP], [MALFORMED, Text("hello"), STOPPED]),
    "two openers": ([ACT, ACT, PLUGIN, F, DONE], [MALFORMED, *CALL_F, ACTED]),
    "an opener and no JSON": (
        [ACT, PLUGIN, "no", DONE, STOP],
        [MALFORMED, unexpected("<|plugin|>"), Text("no"), unexpected("<|action_end|>"), STOPPED],
    ),
    "an opener and a list": (
        [ACT, PLUGIN, "\n[]", STOP],
        [MALFORMED, unexpected("<|plugin|>"), Text("\n[]"), STOPPED],
    ),
    "a name that is no string": (
        [ACT, PLUGIN, '\n{"name": 1}', STOP],
        [MALFORMED, unexpected("<|plugin|>"), Text('\n{"name": 1}'), STOPPED],
    ),
    "markers at odd places": (
        [PLUGIN, "x", DONE, BOS, "y", 0],
        [
            unexpected("<|plugin|>"),
            Text("x"),
            unexpected("<|action_end|>"),
            unexpected("<s>"),
            Text("y"),
            unexpected("<unk>"),
            STOPPED,
        ],
    ),
    # Turns.
    "a turn without an end": (
        ["Hi", START, "user\nNo", STOP],
        [Text("Hi"), TurnEnd("implicit"), TurnStart("user", None, None, None), Text("No"), STOPPED],
    ),
    "a call without an end": (
        [ACT, PLUGIN, '{"name": "f", "parameters": {"a"', START, "user\nNo", STOP],
        [
            *call(0, "f", '{"a"', complete=False),
            TurnEnd("implicit"),
            TurnStart("user", None, None, None),
            Text("No"),
            STOPPED,
        ],
    ),
    "a turn of nobody": (
        ["Hi", START, "nobody\nNo", STOP],
        [Text("Hi"), Notice("malformed", "<|im_start|>"), Text("nobody\nNo"), STOPPED],
    ),
    "a result": (
        ["Hi", STOP, "\n", START, "environment name=", PLUGIN, "\nT", STOP],
        [Text("Hi"), STOPPED, TurnStart("tool", "plugin", None, None), Text("T"), STOPPED],
    ),
    "a call outside of a turn": (
        ["Hi", STOP, "\n", ACT, PLUGIN, F, DONE, STOP],
        [Text("Hi"), STOPPED, TurnStart("assistant", None, None, None), *CALL_F, ACTED],
    ),
    # Odd ids and unfinished characters.
    "ids that are none": (
        ["a", 10**30, -1, 92544, "b", -(2**63), 50_000, STOP],
        [
            Text("a"),
            Notice("unknown_id", str(10**30)),
            Notice("unknown_id", "-1"),
            Notice("unknown_id", "92544"),
            Text("b"),
            Notice("unknown_id", str(-(2**63))),
            Notice("unknown_id", "50000"),
            STOPPED,
        ],
    ),
    "half a character": ([HALF], [Text("\ufffd"), STOPPED]),
    "half a character and a stop": ([HALF, STOP], [Text("\ufffd"), STOPPED]),
    "half a character and text": ([HALF, "x"], [Text("\ufffdx"), STOPPED]),
    "half a character and no id": (
        [HALF, -1, "x"],
        [Text("\ufffd"), Notice("unknown_id", "-1"), Text("x"), STOPPED],
    ),
    "a character in three ids": ([[*HALF, 3 + 0xAD]], [Text("中"), STOPPED]),
    "half a character in arguments": (
        [ACT, PLUGIN, '{"name": "f", "parameters": "', HALF, '"}', DONE],
        [*call(0, "f", '"\ufffd"'), ACTED],
    ),
    "an id that is none in arguments": (
        [ACT, PLUGIN, '{"name": "f", "parameters": [', -1, "]}", DONE],
        [
            ActionStart(0, "function", "f", None),
            ActionDelta(0, "["),
            Notice("unknown_id", "-1"),
            ActionDelta(0, "]"),
            *CALL_F[-1:],
            ACTED,
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_told_so_at_every_split(embedded: Codec, case: str) -> None:
    parts, expected = CASES[case]
    ids = ids_of(embedded, parts)
    events = told(embedded.stream(), [ids])
    assert bare(events) == expected
    covers(events, len(ids))
    for pushes in splits(ids):
        assert told(embedded.stream(), pushes) == events


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_parsed_as_it_is_streamed(embedded: Codec, case: str) -> None:
    parts, expected = CASES[case]
    ids = ids_of(embedded, parts)
    parsed = embedded.parse(ids)
    end = next(i for i, event in enumerate(expected) if isinstance(event, TurnEnd))
    assert parsed.message == collect(expected[: end + 1])
    assert TurnEnd(parsed.finish) == expected[end]


def covers(events: list[Event], length: int) -> None:
    """Ranges are monotone and cover every id; two neighbours share one at most."""
    last = 0
    for event in events:
        start, end = event.tokens
        assert last - 1 <= start <= end, event
        assert start <= last, event
        assert end >= last, event
        last = end
    assert last == length


# The laws, on any ids.


@st.composite
def completions(draw: st.DrawFn, codec: Codec) -> list[int]:
    """What a model might write, and what none would."""
    control = sorted(set(codec.vocab.control.values()))
    pieces = st.one_of(
        hostile_texts(codec, 4),
        hostile_texts(codec, 4),
        st.sampled_from(control),
        st.sampled_from([-1, codec.vocab.size, 10**30, -(10**30), 50_000, 3 + 0xE4, 3 + 0xB8]),
    )
    snippets = st.just(["user\n"])
    if codec.format.name == "internlm2":
        names = [
            "<|action_start|>",
            "<|plugin|>",
            "<|interpreter|>",
            "<|action_end|>",
            "<|im_start|>",
        ]
        act, plugin, interpreter, done, start = (codec.vocab.control[name] for name in names)
        snippets = st.sampled_from(
            [
                [act, plugin, F],
                [act, plugin, F, done],
                [act, "\n", plugin, '{"parameters": {}, "name"'],
                [act, plugin, '{"parameters": {"b": 2}, "name": "f"}', done],
                [act, plugin, '\n{"name": "f", "x": 1, "name": "g", "arguments": "'],
                [act, interpreter, "\n```python\nx\n```", done],
                [act, interpreter, "\nx"],
                [start, "assistant\n"],
                [start, "user name=file\n"],
                [start, "environment name=", plugin, "\n"],
            ]
        )
    parts = draw(st.lists(st.one_of(pieces.map(lambda one: [one]), snippets), max_size=8))
    ids = ids_of(codec, [part for group in parts for part in group])
    return ids[: draw(st.integers(0, len(ids)))] if draw(st.booleans()) else ids


@given(draw=st.data())
def test_events_do_not_depend_on_the_split(codec: Codec, draw: st.DataObject) -> None:
    ids = draw.draw(completions(codec))
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(ids)), max_size=5)))
    pushes = [ids[a:b] for a, b in itertools.pairwise([0, *cuts, len(ids)])]
    prompt = draw.draw(st.sampled_from([None, [], codec.generation_prompt_ids]))
    reasons: list[EngineReason] = ["stop", "length", "cancelled"]
    reason = draw.draw(st.sampled_from(reasons))
    events = told(codec.stream(prompt), [ids], reason)
    assert told(codec.stream(prompt), pushes, reason) == events
    assert told(codec.stream(prompt), [[id_] for id_ in ids], reason) == events
    assert told(codec.stream(prompt), ids, reason) == events
    covers(events, len(ids))


@given(draw=st.data())
def test_a_copy_goes_on_by_itself(codec: Codec, draw: st.DataObject) -> None:
    ids, other = draw.draw(completions(codec)), draw.draw(completions(codec))
    at = draw.draw(st.integers(0, len(ids)))
    stream = codec.stream(keep=True)
    before = stream.push(ids[:at])
    copy = stream.copy()
    copy.push(other)
    copy.finish()
    after = [*stream.push(ids[at:]), *stream.finish()]
    assert merged([*before, *after]) == told(codec.stream(), [ids])
    assert stream.message() == collect([*before, *after])


@given(draw=st.data())
def test_parse_is_push_and_finish(codec: Codec, draw: st.DataObject) -> None:
    ids = draw.draw(completions(codec))
    events = told(codec.stream(), [ids])
    parsed = codec.parse(ids)
    end = next(i for i, event in enumerate(events) if isinstance(event, TurnEnd))
    ended = events[end]
    assert isinstance(ended, TurnEnd)
    assert parsed.message == collect(events[: end + 1])
    assert parsed.message["role"] == "assistant"
    assert parsed.finish == ended.reason
    assert len(parsed.rest) == len(ids) - ended.tokens[1]


@given(draw=st.data())
def test_what_a_stream_keeps_is_what_its_events_tell(codec: Codec, draw: st.DataObject) -> None:
    ids = draw.draw(completions(codec))
    stream = codec.stream(keep=True)
    events: list[Event] = []
    for id_ in ids:
        events += stream.push(id_)
        assert stream.message() == collect(events)
    events += stream.finish()
    assert stream.message() == collect(events)


@given(draw=st.data())
def test_a_parsed_message_can_be_appended(codec: Codec, draw: st.DataObject) -> None:
    """Also one that was cut short: `on_arguments="string"` is for that."""
    parsed = codec.parse(draw.draw(completions(codec)))
    encoding = codec.encode([user("a"), parsed.message, user("b")], on_arguments="string")
    assert len(codec.decode(encoding)) == 3


@given(draw=st.data())
def test_plain_text_comes_out_whole(codec: Codec, draw: st.DataObject) -> None:
    text = draw.draw(hostile_texts(codec))
    ids = codec.vocab.encode(text)
    events = told(codec.stream(), [[id_] for id_ in ids])
    # A stream goes on after a header, where no dummy prefix is; this text was encoded with one.
    prefix = " " if codec is data.load_codec("prefixed") and text else ""
    expected = [Text(prefix + spaced(text))] if text else []
    assert bare(events) == [*expected, TurnEnd("stop")]


@st.composite
def generated(draw: st.DrawFn, codec: Codec) -> tuple[list[int], list[int], Message]:
    """The ids of a prompt, those that a model generates after it, and the message they are."""
    before = draw(conversations(codec, max_size=2))
    message = draw(messages(codec, hostile_texts(codec)).filter(lambda m: m["role"] == "assistant"))
    prompt = codec.encode(before, boundary="isolated", add_generation_prompt=True).ids.tolist()
    encoding = codec.encode([*before, message], boundary="isolated")
    mask = encoding.assistant_mask.tolist()
    ids = [id_ for id_, generated in zip(encoding.ids, mask, strict=True) if generated]
    return prompt, ids[len(ids) - sum(mask[len(prompt) :]) :], canonical([message])[0]


@given(draw=st.data())
def test_what_was_encoded_is_parsed(codec: Codec, draw: st.DataObject) -> None:
    """The completion that a conversation's own ids make reads back as its message."""
    prompt, ids, message = draw.draw(generated(codec))
    reason = "action" if message.get("tool_calls") else "stop"
    for given_ in (None, prompt):
        parsed = codec.parse(ids, given_)
        assert parsed.message == message
        assert parsed.finish == reason
        assert len(parsed.rest) == 0


@given(draw=st.data())
def test_a_completion_may_go_on_from_any_of_its_ids(codec: Codec, draw: st.DataObject) -> None:
    """A prompt that ends inside the turn, a prefill: what is read is the rest."""
    prompt, ids, message = draw.draw(generated(codec))
    at = draw.draw(st.integers(0, len(ids) - 1))
    events = told(codec.stream(prompt + ids[:at]), [ids[at:]])
    covers(events, len(ids) - at)
    assert not any(isinstance(event, Notice) for event in events)
    texts = "".join(event.text for event in events if isinstance(event, Text))
    assert message["content"].endswith(texts)
    calls = message.get("tool_calls", [])
    for start in (event for event in events if isinstance(event, ActionStart)):
        deltas = (e.text for e in events if isinstance(e, ActionDelta) and e.index == start.index)
        body = calls[start.index][start.kind]
        assert body["arguments" if start.kind == "function" else "source"].endswith("".join(deltas))
        assert start.name in {body.get("name"), body.get("language"), None}
    ends = [event for event in events if isinstance(event, TurnEnd)]
    assert [event.reason for event in ends] == ["action" if calls else "stop"]


# Examples to read.


def test_a_stream_tells_as_soon_as_it_knows(embedded: Codec) -> None:
    """One id a push: text at once, the name when its quote closes, arguments as they come."""
    stream = embedded.stream()
    ids = ids_of(embedded, ["Sure.", ACT, PLUGIN, F, DONE, STOP])
    lines = []
    for id_ in ids:
        token = embedded.vocab.decode([id_])
        lines += [f"{token!r} → {event!r}" for event in bare(stream.push(id_))]
    assert [line.replace(", tokens=(0, 0)", "").replace(", id=None", "") for line in lines] == [
        "'S' → Text(text='S')",
        "'ure' → Text(text='ure')",
        "'.' → Text(text='.')",
        """'", ' → ActionStart(index=0, kind='function', name='f')""",
        """'": {' → ActionDelta(index=0, text='{')""",
        """'"a' → ActionDelta(index=0, text='"a')""",
        """'": ' → ActionDelta(index=0, text='": ')""",
        "'1' → ActionDelta(index=0, text='1')",
        "'}}' → ActionDelta(index=0, text='}')",
        "'<|action_end|>' → ActionEnd(index=0, complete=True, name='f')",
        "'<|im_end|>' → TurnEnd(reason='action')",
    ]


def test_the_events_of_a_whole_conversation(embedded: Codec) -> None:
    """From its first id, with an empty prompt."""
    encoding = embedded.encode([{"role": "system", "content": "S"}, user("U")])
    assert bare(embedded.stream(prompt=[]).push(encoding)) == [
        TurnStart("system", None, None, None),
        Text("S"),
        TurnEnd("stop"),
        TurnStart("user", None, None, None),
        Text("U"),
        TurnEnd("stop"),
        TurnStart("assistant", None, None, None),
    ]


def test_a_prefill_in_an_open_action(embedded: Codec) -> None:
    """The prompt ends inside the arguments: the action is told again, then what is new of it."""
    prompt = [
        *embedded.generation_prompt_ids,
        *ids_of(embedded, [ACT, PLUGIN, '\n{"name": "f", "parameters": {"a']),
    ]
    ids = ids_of(embedded, ['": 1}}', DONE, STOP])
    assert bare(told(embedded.stream(prompt), [ids])) == [
        ActionStart(0, "function", "f", None),
        ActionDelta(0, '": 1}'),
        ActionEnd(0, True, "f", None),  # noqa: FBT003
        TurnEnd("action"),
    ]


def test_a_prefill_in_open_code(embedded: Codec) -> None:
    prompt = [
        *embedded.generation_prompt_ids,
        *ids_of(embedded, [ACT, INTERPRETER, "\n```python\nx ="]),
    ]
    events = told(embedded.stream(prompt), [ids_of(embedded, [" 1\n```", DONE])])
    assert bare(events) == [*code(0, "python", " 1"), TurnEnd("action")]


def test_a_prefill_in_text(embedded: Codec) -> None:
    prompt = embedded.encode(
        [user("U"), {"role": "assistant", "content": "Well,"}], continue_final=True
    )
    for form in (prompt, prompt.ids, prompt.ids.tolist(), np.asarray(prompt.ids)):
        assert bare(told(embedded.stream(form), [ids_of(embedded, [" no.", STOP])])) == [
            Text(" no."),
            TurnEnd("stop"),
        ]


def test_a_prompt_that_ends_with_a_user_opens_a_turn(embedded: Codec) -> None:
    prompt = embedded.encode([user("U")], add_generation_prompt=False)
    ids = [*embedded.generation_prompt_ids, *ids_of(embedded, ["Hi", STOP])]
    assert bare(told(embedded.stream(prompt), [ids])) == [
        TurnStart("assistant", None, None, None),
        Text("Hi"),
        TurnEnd("stop"),
    ]
    assert embedded.parse(ids, prompt).message == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize(
    ("parts", "reason", "finish"),
    [
        (["Hi"], "stop", "stop"),
        (["Hi"], "length", "length"),
        (["Hi"], "cancelled", "cancelled"),
        ([ACT, PLUGIN, F], "stop", "action"),
        ([ACT, PLUGIN, F, DONE], "stop", "action"),
        ([ACT, PLUGIN, F], "length", "length"),
        ([ACT, PLUGIN, F], "cancelled", "cancelled"),
    ],
)
def test_the_engines_reason_ends_an_open_turn(
    embedded: Codec, parts: list[str | int | list[int]], reason: EngineReason, finish: TurnReason
) -> None:
    assert told(embedded.stream(), [ids_of(embedded, parts)], reason)[-1] == TurnEnd(
        finish, None, events_end(embedded, parts)
    )


def events_end(codec: Codec, parts: list[str | int | list[int]]) -> tuple[int, int]:
    length = len(ids_of(codec, parts))
    return length, length


def test_a_turn_that_was_closed_stays_closed(embedded: Codec) -> None:
    stream = embedded.stream()
    assert bare(stream.push(ids_of(embedded, ["Hi", STOP]))) == [Text("Hi"), TurnEnd("stop")]
    assert stream.finish("length") == []
    assert stream.finish() == []


@pytest.mark.parametrize("reason", ["implicit", "action", "eos", "", "Stop"])
def test_a_reason_is_of_a_closed_set(embedded: Codec, reason: EngineReason) -> None:
    with pytest.raises(
        ValueError, match=f'^reason="{reason}", expected "stop", "length" or "cancelled"$'
    ):
        embedded.stream().finish(reason)


def test_a_stream_that_keeps_nothing_has_no_message(embedded: Codec) -> None:
    with pytest.raises(RuntimeError, match=r"keep=True.*collect\(events\)"):
        embedded.stream().message()
    assert embedded.stream(keep=True).message() == {"role": "assistant", "content": ""}


def test_what_was_parsed(embedded: Codec) -> None:
    ids = ids_of(embedded, ["Sure.", ACT, PLUGIN, F, DONE, STOP, "\n", START])
    match embedded.parse(ids):
        case Parsed(message, "action", rest):
            assert message == {
                "role": "assistant",
                "content": "Sure.",
                "tool_calls": [
                    {
                        "id": "call_0",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": 1}'},
                    }
                ],
            }
            assert rest == ids[-2:]
        case other:
            pytest.fail(f"unexpected {other!r}")


def test_a_call_without_arguments_has_an_empty_object(embedded: Codec) -> None:
    ids = ids_of(embedded, [ACT, PLUGIN, '{"name": "f"}', DONE, STOP])
    (call_,) = embedded.parse(ids).message["tool_calls"]
    assert call_["function"] == {"name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    "kind", [list, tuple, iter, np.array, lambda ids: np.array(ids, np.int64), range]
)
def test_ids_come_in_any_form(embedded: Codec, kind: Callable[[Any], Any]) -> None:
    ids: Any = 300 if kind is range else embedded.vocab.encode("Hello, world").tolist()
    expected = told(embedded.stream(), [list(range(300)) if kind is range else ids])
    assert told(embedded.stream(), [kind(ids)]) == expected
    assert told(embedded.stream(), list(list(kind(ids)))) == expected  # noqa: C414


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16, np.uint32, np.uint64])
def test_ids_of_any_integer_type(embedded: Codec, dtype: type[np.generic]) -> None:
    ids = embedded.vocab.encode("Hello, world").tolist()
    expected = told(embedded.stream(), [ids])
    array = np.array(ids, dtype)
    assert told(embedded.stream(), [array]) == expected
    assert told(embedded.stream(), list(array)) == expected
    assert told(embedded.stream(), [array[::-1][::-1]]) == expected


def test_ids_outside_of_int32_in_an_array(embedded: Codec) -> None:
    events = told(embedded.stream(), [np.array([2**40, -1, STOP], np.int64)])
    assert bare(events) == [
        Notice("unknown_id", str(2**40)),
        Notice("unknown_id", "-1"),
        TurnEnd("stop"),
    ]


def test_what_is_no_id_is_a_type_error(embedded: Codec) -> None:
    wrong: list[Value] = [
        "text",
        b"bytes",
        1.5,
        None,
        [1.5],
        ["a"],
        [None],
        {1: 2},
        {1},
        object(),
        np.array([1.5]),
    ]
    for ids in wrong:
        with pytest.raises(TypeError):
            embedded.stream().push(ids)
        with pytest.raises(TypeError):
            embedded.decode(ids)
        with pytest.raises(TypeError):
            embedded.parse(ids)
        with pytest.raises(TypeError):
            embedded.vocab.decode(ids)
    with pytest.raises(ValueError, match="one dimension"):
        embedded.decode(np.zeros((2, 2), np.int32))


def test_a_wrong_id_leaves_the_stream_as_it_was(embedded: Codec) -> None:
    stream = embedded.stream()
    with pytest.raises(TypeError):
        stream.push([5, "a"])  # type: ignore[list-item]
    assert bare([*stream.push(ids_of(embedded, ["Hi"])), *stream.finish()]) == [
        Text("Hi"),
        TurnEnd("stop"),
    ]


def test_an_argument_that_grows_long_before_the_name_comes_out(embedded: Codec) -> None:
    """What is held is bounded: after 4 KiB the call begins without its name, which its end has."""
    long = json.dumps("x" * 10_000)
    ids = ids_of(embedded, [ACT, PLUGIN, f'{{"parameters": {long}, "name": "f"}}', DONE, STOP])
    stream = embedded.stream()
    events: list[Event] = []
    for at, id_ in enumerate(ids):
        events += stream.push(id_)
        if at == len(ids) // 2:
            assert any(isinstance(event, ActionDelta) for event in events)
    assert bare(merged(events)) == [
        ActionStart(0, "function", None, None),
        ActionDelta(0, long),
        ActionEnd(0, True, "f", None),  # noqa: FBT003
        TurnEnd("action"),
    ]


@pytest.mark.parametrize(
    "parts",
    [
        ["…"],
        [ACT, PLUGIN, '\n{"name": "f", "parameters": "…"}', DONE],
        [ACT, PLUGIN, '\n{"name": "f", "parameters": …'],
        [ACT, PLUGIN, '\n{"name": "…"}', DONE],
        [ACT, PLUGIN, '\n{"parameters": "…", "name": "f"}', DONE],
        [ACT, PLUGIN, '\n{"name": "f", "…": 1}', DONE],
        [ACT, PLUGIN, '\n{"name": "f", "x": …'],
        [ACT, PLUGIN, "…", DONE],
        [ACT, PLUGIN, '\n{"name": …'],
        [ACT, PLUGIN, '\n{"name"…'],
        [ACT, INTERPRETER, "\n```python\n…\n```", DONE],
        [ACT, INTERPRETER, "\n```…"],
        [ACT, "…", PLUGIN],
        [ACT, PLUGIN, F, "…", DONE, STOP],
        [ACT, PLUGIN, F, DONE, "…", STOP],
        [STOP, "…"],
        [START, "user name=…"],
        [START, "…"],
    ],
    ids=str,
)
@pytest.mark.parametrize("sign", ["a", " ", "\n", "[", "`", "\n```", "中"])
def test_time_is_linear_in_what_is_read(
    embedded: Codec, parts: list[str | int | list[int]], sign: str
) -> None:
    """64 KB of one sign in every place where something is held: a fraction of a second."""
    text = sign * (64_000 // len(sign.encode()))
    filled = [part.replace("…", text) if isinstance(part, str) else part for part in parts]
    ids = ids_of(embedded, filled)
    events = within(5, lambda: told(embedded.stream(), [ids]))
    covers(events, len(ids))


def test_a_megabyte_of_arguments_takes_seconds_at_most(embedded: Codec) -> None:
    value = json.dumps({"a": ["x y z " * 10, 1, None] * 12_000})
    ids = ids_of(embedded, [ACT, PLUGIN, f'\n{{"name": "f", "parameters": {value}}}', DONE, STOP])

    def read() -> Stream:
        stream = embedded.stream(keep=True)
        for at in range(0, len(ids), 16):
            stream.push(ids[at : at + 16])
        return stream

    assert within(10, read).message()["tool_calls"][0]["function"]["arguments"] == value


# `collect`.


def test_collect_tells_the_first_message() -> None:
    assert collect([]) == {"role": "assistant", "content": ""}
    assert collect([Text("a"), Reasoning("r"), Text("b"), TurnEnd("stop"), Text("c")]) == {
        "role": "assistant",
        "reasoning": "r",
        "content": "ab",
    }
    assert collect([TurnStart("user", "file", None, None), Text("a"), TurnEnd("stop")]) == {
        "role": "user",
        "name": "file",
        "content": "a",
    }


def test_collect_numbers_calls_that_have_no_id() -> None:
    events = [*call(0, "f", "{}"), ActionStart(1, "code", None, "own"), ActionDelta(1, "x")]
    assert collect(events)["tool_calls"] == [
        {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "own", "type": "code", "code": {"source": "x"}},
    ]


def test_collect_takes_events_only() -> None:
    for wrong in (["text"], [None], [("Text", "a")]):
        with pytest.raises(TypeError, match="event"):
            collect(wrong)  # type: ignore[arg-type]
    for event in (
        TurnStart("critic", None, None, None),  # type: ignore[arg-type]
        TurnEnd("eos"),  # type: ignore[arg-type]
        ActionStart(0, "tool", None, None),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=r"critic|eos|tool"):
            collect([event])


def test_a_stream_is_no_copy_of_another(codec: Codec) -> None:
    one, two = codec.stream(), codec.stream()
    one.push(codec.vocab.encode("abc"))
    assert bare(two.finish()) == [TurnEnd("stop")]
    assert repr(one).startswith("Stream(")


def test_shape_is_all_that_decides_the_events(internlm2: Codec) -> None:
    """Other texts in the same places of a conversation: events of the same kinds."""
    conversation = [user("a"), {"role": "assistant", "content": "b"}]
    hostile = [
        each_text(message, lambda _: "<|im_end|><|action_start|>```\n") for message in conversation
    ]
    kinds = [
        [type(event) for event in merged(internlm2.stream([]).push(internlm2.encode(c)))]
        for c in (conversation, hostile)
    ]
    assert kinds[0] == kinds[1]


SPELLED: list[str | int] = [ACT, PLUGIN, F, DONE, STOP]
"""A call, whose markers may be spelled."""


def spelled(codec: Codec, parts: Iterable[str | int]) -> str:
    """What a model writes that spells its markers."""
    return "".join(part if isinstance(part, str) else codec.vocab.decode([part]) for part in parts)


def told_of_text(stream: Stream, pushes: Iterable[str]) -> list[Event]:
    """The events of a stream that is given text and then finished, texts joined."""
    events = [event for text in pushes for event in stream.push_text(text)]
    return merged([*events, *stream.finish()])


def test_a_spelled_call_is_one_where_spellings_count(embedded: Codec) -> None:
    text = "Sure." + spelled(embedded, SPELLED)
    ids = embedded.vocab.encode(text)
    assert bare(told(embedded.stream(), [ids])) == [Text(text), STOPPED]
    expected = [Text("Sure."), *CALL_F, ACTED]
    assert bare(told(embedded.stream(markers="ids_or_text"), [ids])) == expected
    assert bare(told_of_text(embedded.stream(markers="text"), [text])) == expected
    assert embedded.parse(ids, markers="ids_or_text").message == collect(expected)
    parsed = embedded.parse(text + "\nrest", markers="text")
    assert (parsed.message, parsed.rest_text) == (collect(expected), "\nrest")
    assert len(parsed.rest) == 0


def test_text_in_any_chunks(embedded: Codec) -> None:
    text = "é<|<" + spelled(embedded, SPELLED) + "<|im_end|"
    whole = told_of_text(embedded.stream(markers="text"), [text])
    assert told_of_text(embedded.stream(markers="text"), text) == whole
    for at in range(len(text) + 1):
        pushes = [text[:at], text[at:]]
        assert told_of_text(embedded.stream(markers="text"), pushes) == whole
    assert whole[-1].tokens[1] == len(text)


@pytest.mark.parametrize(
    "text",
    ["Write <|action_start|> to call.", "<|action_end|>", "a <|plugin|>\n{", "<|im_start|>nobody"],
)
def test_a_quoted_marker_is_text(embedded: Codec, text: str) -> None:
    assert embedded.parse(text, markers="text").message["content"] == text
    ids = embedded.vocab.encode(text)
    assert embedded.parse(ids, markers="ids_or_text").message["content"] == text


def test_a_marker_in_a_string_ends_nothing(embedded: Codec) -> None:
    arguments = '{"a": "<|action_end|><|im_end|>"}'
    body = f'\n{{"name": "f", "parameters": {arguments}}}'
    text = spelled(embedded, [ACT, PLUGIN, body, DONE, STOP])
    events = told_of_text(embedded.stream(markers="text"), text)
    assert bare(events) == [*call(0, "f", arguments), ACTED]


def test_a_stream_takes_ids_or_text(embedded: Codec) -> None:
    for markers in ("ids", "ids_or_text"):
        with pytest.raises(ValueError, match="reads ids"):
            embedded.stream(markers=markers).push_text("a")
    with pytest.raises(ValueError, match="reads text"):
        embedded.stream(markers="text").push([1])
    with pytest.raises(ValueError, match="reads text"):
        embedded.parse([1], markers="text")
    for wrong in ("Text", "", "all"):
        with pytest.raises(ValueError, match="ids_or_text"):
            embedded.stream(markers=wrong)  # type: ignore[arg-type]
    assert repr(embedded.stream(markers="text")) == "Stream(0 characters read)"
