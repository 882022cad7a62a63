"""`chatcodec.adapters`: what each shape says, and the laws for any events at all.

`CASES` is to be read: events, and the deltas of chat completion chunks that they become. The other
shapes have the same machine: their laws are below, against a twin of a few lines.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import clients
import pytest
from anthropic.types import RawMessageStreamEvent
from chatcodec.adapters import (
    Adapter,
    Chunk,
    Usage,
    anthropic,
    openai_chat,
    openai_responses,
    plain,
    sse,
)
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
from clients import with_inputs
from hypothesis import example, given
from hypothesis import strategies as st
from naive_adapter import Twin
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter
from strategies import hostile_texts
from test_stream import completions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from chatcodec import Codec
    from chatcodec.adapters import Chunk
    from chatcodec.events import TurnReason
    from naive import Value

COMPLETE, CUT = True, False
STOP, ACTION, LENGTH = TurnEnd("stop"), TurnEnd("action"), TurnEnd("length")


def chat(**options: Value) -> openai_chat.ChunkStream:
    return openai_chat.ChunkStream(id="chatcmpl-7", model="m", **options)


def told(adapter: Adapter, events: Iterable[Event]) -> list[Chunk]:
    """The chunks of a response, an event a push."""
    chunks = [chunk for event in events for chunk in adapter.push([event])]
    return chunks + adapter.finish()


def deltas(chunks: list[Chunk]) -> list[Any]:
    """The deltas of chunks, calls without what is around them; at the end the finish reason."""
    told = []
    for chunk in chunks:
        (choice,) = chunk["choices"]
        told.append(choice["finish_reason"] or choice["delta"])
        for call in choice["delta"].get("tool_calls", ()):
            index, function = call["index"], call["function"]
            told[-1] = (
                (index, call["id"], function["name"])
                if "id" in call
                else (index, function["arguments"])
            )
    return told


ROLE: dict[str, str | None] = {"role": "assistant", "content": ""}
ROLE_ONLY: dict[str, str | None] = {"role": "assistant", "content": None}
F = ActionStart(0, "function", "f")
END_F = ActionEnd(0, COMPLETE, "f")
NOTICE = Notice("malformed", "<|action_start|>")

CASES: dict[str, tuple[list[Event], list[Any]]] = {
    "text": ([Text("A"), Text("b"), STOP], [ROLE, {"content": "A"}, {"content": "b"}, "stop"]),
    "nothing": ([STOP], [ROLE, "stop"]),
    "no events": ([], [ROLE, "length"]),
    "text cut short": ([Text("A"), LENGTH], [ROLE, {"content": "A"}, "length"]),
    "a caller who gave up": ([Text("A"), TurnEnd("cancelled")], [ROLE, {"content": "A"}, "length"]),
    "a turn that ran into another": (
        [Text("A"), TurnEnd("implicit")],
        [ROLE, {"content": "A"}, "stop"],
    ),
    "a turn without an end": ([Text("A")], [ROLE, {"content": "A"}, "length"]),
    "a call": (
        [F, ActionDelta(0, '{"a"'), ActionDelta(0, ": 1}"), END_F, ACTION],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, '{"a"'), (0, ": 1}"), "tool_calls"],
    ),
    "text and a call": (
        [Text("A"), F, ActionDelta(0, "{}"), END_F, ACTION],
        [ROLE, {"content": "A"}, (0, "call_7_0", "f"), (0, "{}"), "tool_calls"],
    ),
    "text after a call": (
        [F, ActionDelta(0, "{}"), END_F, Notice("text_after_action", ""), Text("A"), STOP],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, "{}"), {"content": "A"}, "tool_calls"],
    ),
    "two calls": (
        [
            F,
            ActionDelta(0, "[]"),
            END_F,
            ActionStart(1, "function", "g"),
            ActionEnd(1, COMPLETE),
            ACTION,
        ],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, "[]"), (1, "call_7_1", "g"), (1, "{}"), "tool_calls"],
    ),
    "a call without arguments": (
        [F, END_F, ACTION],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, "{}"), "tool_calls"],
    ),
    "a call cut before its arguments": (
        [F, ActionEnd(0, CUT, "f"), LENGTH],
        [ROLE_ONLY, (0, "call_7_0", "f"), "length"],
    ),
    "a call cut short": (
        [F, ActionDelta(0, '{"a'), ActionEnd(0, CUT, "f"), LENGTH],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, '{"a'), "length"],
    ),
    "a name at the end": (
        [ActionStart(0, "function"), ActionDelta(0, "{"), ActionDelta(0, "}"), END_F, ACTION],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, "{"), (0, "}"), "tool_calls"],
    ),
    "no name at all": (
        [ActionStart(0, "function"), ActionDelta(0, "{}"), ActionEnd(0, COMPLETE), ACTION],
        [ROLE_ONLY, (0, "call_7_0", ""), (0, "{}"), "tool_calls"],
    ),
    "an id of the model's": (
        [ActionStart(0, "function", "f", "functions.f:0"), ActionDelta(0, "{}"), END_F, ACTION],
        [ROLE_ONLY, (0, "functions.f:0", "f"), (0, "{}"), "tool_calls"],
    ),
    "an id at the end": (
        [F, ActionDelta(0, "{}"), ActionEnd(0, COMPLETE, "f", "x"), ACTION],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, "{}"), "tool_calls"],
    ),
    "a name and an id at the end": (
        [
            ActionStart(0, "function"),
            ActionDelta(0, "{}"),
            ActionEnd(0, COMPLETE, "f", "x"),
            ACTION,
        ],
        [ROLE_ONLY, (0, "x", "f"), (0, "{}"), "tool_calls"],
    ),
    "an id that was given": (
        [ActionStart(0, "function", "f", "x"), END_F, ActionStart(1, "function", "g", "x"), ACTION],
        [ROLE_ONLY, (0, "x", "f"), (0, "{}"), (1, "call_7_1", "g"), "tool_calls"],
    ),
    "an id that would have been made": (
        [
            ActionStart(0, "function", "f", "call_7_1"),
            END_F,
            ActionStart(1, "function", "g"),
            ACTION,
        ],
        [ROLE_ONLY, (0, "call_7_1", "f"), (0, "{}"), (1, "call_7_1_", "g"), "tool_calls"],
    ),
    "code": (
        [
            ActionStart(0, "code", "python"),
            ActionDelta(0, 'print("'),
            ActionDelta(0, "\n"),
            END_F,
            ACTION,
        ],
        [
            ROLE_ONLY,
            (0, "call_7_0", "code_interpreter"),
            (0, '{"code": "'),
            (0, 'print(\\"'),
            (0, "\\n"),
            (0, '"}'),
            "tool_calls",
        ],
    ),
    "code for another tool": (
        [ActionStart(0, "code", "browser.search"), ActionDelta(0, "{}"), END_F, ACTION],
        [
            ROLE_ONLY,
            (0, "call_7_0", "browser.search"),
            (0, '{"code": "'),
            (0, "{}"),
            (0, '"}'),
            "tool_calls",
        ],
    ),
    "code cut short": (
        [ActionStart(0, "code"), ActionDelta(0, "x"), LENGTH],
        [
            ROLE_ONLY,
            (0, "call_7_0", "code_interpreter"),
            (0, '{"code": "'),
            (0, "x"),
            (0, '"}'),
            "length",
        ],
    ),
    "reasoning": (
        [Reasoning("Hm"), Reasoning("."), Text("A"), STOP],
        [
            ROLE_ONLY,
            {"reasoning_content": "Hm"},
            {"reasoning_content": "."},
            {"content": "A"},
            "stop",
        ],
    ),
    "a notice": ([NOTICE, Text("A"), NOTICE, STOP], [ROLE, {"content": "A"}, "stop"]),
    "another turn": (
        [Text("A"), STOP, TurnStart("user"), Text("B"), STOP, TurnStart("assistant"), F, ACTION],
        [ROLE, {"content": "A"}, "stop"],
    ),
    "after another's turn": (
        [TurnStart("user"), Text("B"), STOP, TurnStart("assistant"), Text("A"), STOP],
        [ROLE, {"content": "A"}, "stop"],
    ),
    # What no stream says.
    "a call that another begins in": (
        [F, ActionDelta(0, "{"), ActionStart(1, "function", "g"), ActionDelta(0, "}"), END_F],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, "{"), (1, "call_7_1", "g"), "length"],
    ),
    "arguments of no call": ([ActionDelta(3, "{}"), END_F, STOP], [ROLE, "stop"]),
    "calls that skip numbers": (
        [
            ActionStart(9, "function", "f"),
            ActionEnd(9, COMPLETE),
            ActionStart(4, "function", "g"),
            ACTION,
        ],
        [ROLE_ONLY, (0, "call_7_0", "f"), (0, "{}"), (1, "call_7_1", "g"), "tool_calls"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_events_become_these_deltas(case: str) -> None:
    events, expected = CASES[case]
    assert deltas(told(chat(), events)) == expected
    adapter = chat()
    assert deltas(adapter.push(events) + adapter.finish()) == expected


def test_a_chunk_has_what_the_caller_gave() -> None:
    adapter = chat(created=5, choice=2)
    (first, _) = adapter.push([Text("A")])
    assert first == {
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 5,
        "model": "m",
        "choices": [{"index": 2, "delta": ROLE, "logprobs": None, "finish_reason": None}],
    }
    usage = Usage(prompt_tokens=3, completion_tokens=2, reasoning_tokens=1, cached_tokens=1)
    last = adapter.finish(usage)[-1]
    assert last == {
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 5,
        "model": "m",
        "choices": [],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }
    assert (
        adapter.finish(usage) == adapter.push([Text("B"), TurnStart("assistant"), Text("C")]) == []
    )


@pytest.mark.parametrize("key", ["reasoning", None])
def test_reasoning_has_a_key_of_choice(key: str | None) -> None:
    hidden: list[Event] = []
    chunks = told(chat(reasoning_key=key, on_hidden=hidden.append), [Reasoning("Hm"), Text("A")])
    shown = [{"role": "assistant", "content": None}, {"reasoning": "Hm"}] if key else [ROLE]
    assert deltas(chunks) == [*shown, {"content": "A"}, "length"]
    assert hidden == ([] if key else [Reasoning("Hm")])


def test_calls_may_wait_for_their_ids() -> None:
    events: list[Event] = [
        F,
        ActionDelta(0, "{"),
        ActionDelta(0, "}"),
        ActionEnd(0, COMPLETE, "f", "x"),
        ACTION,
    ]
    hidden: list[Event] = []
    assert deltas(told(chat(wait_for_ids=True, on_hidden=hidden.append), events)) == [
        ROLE_ONLY,
        (0, "x", "f"),
        (0, "{"),
        (0, "}"),
        "tool_calls",
    ]
    assert not hidden
    told(chat(on_hidden=hidden.append), events)
    assert hidden == [events[3]]


def test_choices_of_a_response_are_folded_together() -> None:
    one, two = chat(choice=0), chat(choice=1)
    chunks = two.push([Text("B")]) + one.push([Text("A"), STOP]) + two.finish()
    chunks += one.finish(Usage(prompt_tokens=1, completion_tokens=2))
    completion = openai_chat.collect(chunks)
    assert [choice["message"]["content"] for choice in completion["choices"]] == ["A", "B"]
    assert [choice["finish_reason"] for choice in completion["choices"]] == ["stop", "length"]
    assert completion["usage"]["total_tokens"] == 3


def test_the_reason_is_there_when_the_turn_is_over() -> None:
    adapter = chat()
    adapter.push([Text("A")])
    assert adapter.reason is None
    adapter.push([TurnEnd("implicit"), TurnStart("user"), Text("B"), STOP])
    assert adapter.reason == "implicit"


def test_what_was_cut_is_incomplete() -> None:
    reasons: dict[TurnReason, str] = {"length": "incomplete", "stop": "completed"}
    for reason, status in reasons.items():
        events: list[Event] = [
            F,
            ActionDelta(0, '{"a'),
            ActionEnd(0, CUT),
            Text("A"),
            TurnEnd(reason),
        ]
        chunks = told(openai_responses.EventStream(id="resp_7", model="m"), events)
        response = openai_responses.collect(chunks)
        assert [item["status"] for item in response["output"]] == ["incomplete", status]
        details = {"reason": "max_output_tokens"} if reason == "length" else None
        assert (response["status"], response["incomplete_details"]) == (status, details)


def test_code_comes_back_as_code(embedded: Codec) -> None:
    """The next turn's prompt is what it would be with the message that was parsed."""
    act, code, done = (
        embedded.vocab.control[f"<|{name}|>"]
        for name in ("action_start", "interpreter", "action_end")
    )
    fenced = embedded.vocab.encode('\n```python\nprint("é")\n```').tolist()
    ids = [*embedded.vocab.encode("So:"), act, code, *fenced, done, embedded.stop_ids[0]]
    adapter = chat()
    chunks = adapter.push(embedded.stream().push(ids)) + adapter.finish()
    (choice,) = openai_chat.collect(chunks)["choices"]
    asked = {"role": "user", "content": "?"}
    result = {"role": "tool", "content": "é", "tool_call_id": "call_7_0"}
    read = openai_chat.with_code([asked, choice["message"], result])
    parsed = embedded.parse(ids).message
    told_back = embedded.encode(read)
    assert told_back.ids == embedded.encode([asked, parsed, {**result, "tool_call_id": None}]).ids
    assert told_back.ids[len(embedded.encode([asked])) :][: len(ids)] == ids


@pytest.mark.parametrize(
    "function",
    [
        {"name": "f", "arguments": '{"code": "x"}'},
        {"name": "code_interpreter", "arguments": '{"code": 1}'},
        {"name": "code_interpreter", "arguments": '{"code": "x", "a": 1}'},
        {"name": "code_interpreter", "arguments": '{"code": "x'},
        {"name": "code_interpreter", "arguments": "[" * 100_000},
        {"name": "code_interpreter", "arguments": None},
        None,
    ],
)
def test_other_calls_stay_calls(function: Value) -> None:
    messages = [{"role": "assistant", "tool_calls": [{"id": "x", "function": function}]}]
    assert openai_chat.with_code(messages) == messages
    assert openai_chat.with_code([{"role": "user", "content": "A", "tool_calls": None}]) == [
        {"role": "user", "content": "A", "tool_calls": None}
    ]


@pytest.mark.parametrize(
    ("options", "language", "name"),
    [
        ({}, None, "code_interpreter"),
        ({}, "python", "code_interpreter"),
        ({}, "browser.search", "browser.search"),
        ({"code_name": "python"}, "python", "python"),
        ({"code_name": "shell", "code_language": "bash"}, "bash", "shell"),
        ({"code_name": "shell", "code_language": "bash"}, "python", "python"),
        ({"code_language": None}, None, "code_interpreter"),
        ({"code_language": None}, "python", "python"),
    ],
)
def test_code_is_named_by_what_it_is_for(options: Value, language: str | None, name: str) -> None:
    """And comes back from a client as the code that it was."""
    adapter = openai_chat.ChunkStream(id="chatcmpl-7", model="m", **options)
    events: list[Event] = [ActionStart(0, "code", language), ActionDelta(0, "x"), END_F, ACTION]
    (choice,) = openai_chat.collect(adapter.push(events) + adapter.finish())["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": name, "arguments": '{"code": "x"}'}
    (read,) = openai_chat.with_code(
        [choice["message"]],
        code_name=adapter.code_name,
        language=adapter.code_language,
        others={"python", "browser.search"},
    )
    expected = {"language": language or adapter.code_language, "source": "x"}
    assert read["tool_calls"] == [{"id": call["id"], "type": "code", "code": expected}]
    if name != adapter.code_name:
        assert openai_chat.with_code([choice["message"]]) == [choice["message"]]


@pytest.mark.parametrize("shape", ["chat", "anthropic", "eager", "plain"])
def test_nothing_is_kept_of_what_was_said(shape: str) -> None:
    """The state after many deltas is as large as after few."""

    def size(count: int) -> int:
        adapter = LINES[shape][0]()
        adapter.push([Reasoning("a"), Text("b")] * count)
        adapter.push([F, *[ActionDelta(0, "ab")] * count, END_F, *[Text("cd")] * count])
        adapter.push([])
        return sum(len(repr(getattr(adapter, field.name))) for field in fields(adapter))

    assert size(10_000) <= size(10) + len("10000")


@pytest.mark.parametrize("module", [openai_chat, openai_responses, anthropic])
def test_nothing_is_not_folded(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="no "):
        module.collect([])


def test_no_client_library_is_needed() -> None:
    code = """if True:
        import sys
        sys.modules |= dict.fromkeys(["openai", "anthropic", "pydantic", "httpx2"])
        from chatcodec.adapters import anthropic, openai_chat, openai_responses, plain, sse
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_events_as_lines() -> None:
    chunk = {"type": "a", "text": "b\n\u2028é"}
    data = b'data: {"type":"a","text":"b\\n\\u2028\\u00e9"}\n\n'
    assert sse.data(chunk) == data
    assert sse.event(chunk) == b"event: a\n" + data
    assert sse.DONE == b"data: [DONE]\n\n"


# Anthropic's inputs.


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ("{}", True),
        ("", True),
        (' {"a": [1, {"b": null}], "a": 2} ', True),
        ('{"a": 1e400, "b": "\\u0000\\ud83d\\ude00"}', True),
        ('{"a":' * 100 + "1" + "}" * 100, True),
        ('{"a": "' + "{[" * 500 + '"}', True),
        ('{"a": "\\ud800"}', False),
        ('{"a":' * 300 + "1" + "}" * 300, False),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, False),
        ('{"a": ' + "1" * 5000 + "}", False),
        ('{"a": tru}', False),
        ('{"a": 1', False),
        ("[]", False),
        ("-12", False),
        ("no", False),
    ],
)
@pytest.mark.parametrize("complete", [COMPLETE, CUT])
def test_inputs_are_objects(arguments: str, read: bool, complete: bool) -> None:  # noqa: FBT001
    events: list[Event] = [F, ActionDelta(0, arguments), ActionEnd(0, complete), ACTION]
    chunks = told(anthropic.EventStream(id="msg_7", model="m"), events)
    seen = clients.anthropic_accumulated(chunks)
    assert clients.anthropic_whole(anthropic.collect(chunks)) == seen
    ((_, _, value),) = seen.calls
    assert value == (json.loads(arguments or "{}") if read else {"INVALID_JSON": arguments})
    (delta,) = (c["delta"] for c in chunks if c["type"] == "content_block_delta")
    if read:
        assert delta["partial_json"] == (arguments or "{}")


def test_inputs_may_come_as_they_are_generated() -> None:
    fragments = ['{"a', '": ', "1", "}"]
    events: list[Event] = [F, *(ActionDelta(0, text) for text in fragments), END_F, ACTION]
    chunks = told(anthropic.EventStream(id="msg_7", model="m", eager_input=True), events)
    parts = [c["delta"]["partial_json"] for c in chunks if c["type"] == "content_block_delta"]
    assert parts == fragments
    assert clients.anthropic_accumulated(chunks).calls == [("toolu_7_0", "f", {"a": 1})]


# The laws, for any events.


def texts() -> st.SearchStrategy[str]:
    return st.one_of(hostile_texts(), st.sampled_from(["", "a", "{}", '{"a": ', '"', "\\", "}"]))


NAMES = st.sampled_from([None, None, "f", "g", "", "\n"])
IDS = st.sampled_from([None, None, None, "", "x", "call_7_1"])
INDICES = st.integers(0, 2)
KINDS = st.sampled_from(["function", "function", "code"])
REASONS = st.sampled_from(["stop", "action", "length", "implicit", "cancelled"])


def any_event() -> st.SearchStrategy[Event]:
    return st.one_of(
        st.builds(Text, texts()),
        st.builds(Reasoning, texts()),
        st.builds(ActionStart, INDICES, KINDS, NAMES, IDS),
        st.builds(ActionDelta, INDICES, texts()),
        st.builds(ActionEnd, INDICES, st.booleans(), NAMES, IDS),
        st.builds(Notice, st.just("malformed"), texts()),
        st.builds(TurnStart, st.sampled_from(["assistant", "user"])),
        st.builds(TurnEnd, REASONS),
    )


def a_call() -> st.SearchStrategy[list[Event]]:
    return st.builds(
        lambda index, kind, name, id_, fragments, complete, more: [
            ActionStart(index, kind, name, id_),
            *(ActionDelta(index, text) for text in fragments),
            ActionEnd(index, complete, *more),
        ],
        *(INDICES, KINDS, NAMES, IDS, st.lists(texts(), max_size=4), st.booleans()),
        st.tuples(NAMES, IDS),
    )


def any_events() -> st.SearchStrategy[list[Event]]:
    parts = st.one_of(any_event().map(lambda event: [event]), a_call())
    return st.lists(parts, max_size=12).map(lambda lists: [*itertools.chain(*lists)])


def long_runs() -> st.SearchStrategy[list[Event]]:
    """Events that go on with what the one before began, or nearly."""
    text = st.sampled_from(["ab", '"', "text", ""])
    deltas = st.lists(st.builds(ActionDelta, st.sampled_from([0, 0, 0, 1]), text), max_size=9)
    run = st.one_of(
        st.lists(st.builds(Text, text), max_size=9),
        st.lists(st.builds(Reasoning, text), max_size=9),
        st.builds(lambda kind, run: [ActionStart(0, kind, "f"), *run, END_F], KINDS, deltas),
        deltas,
    )
    return st.lists(run, max_size=6).map(lambda lists: [*itertools.chain(*lists)])


ENDINGS = {"stop", "action", "implicit"}
"""Reasons of turns that a model ended."""

CHUNK = TypeAdapter(ChatCompletionChunk)
RESPONSE_EVENT = TypeAdapter[Any](ResponseStreamEvent)
MESSAGE_EVENT = TypeAdapter[Any](RawMessageStreamEvent)


def unknown(model: object) -> Iterator[str]:
    """The keys of a client's object that the client does not know."""
    if isinstance(model, BaseModel):
        yield from model.__pydantic_extra__ or ()
        for name in type(model).model_fields:
            yield from unknown(getattr(model, name))
    elif isinstance(model, list):
        for item in model:
            yield from unknown(item)


def finish_of(seen: clients.Seen, words: tuple[str, str, str]) -> str:
    """How a shape says why a turn ended; of words for a cut, for calls, and for other ends."""
    cut, calls, other = words
    return cut if seen.finish not in ENDINGS else calls if seen.calls else other


@given(events=any_events(), wait=st.booleans())
def test_chat_clients_see_what_was_said(events: list[Event], wait: bool) -> None:  # noqa: FBT001
    twin = Twin(events, "call", wait=wait)
    expected = twin.seen
    hidden: list[Event] = []
    chunks = told(chat(wait_for_ids=wait, on_hidden=hidden.append), events)
    assert hidden == twin.hidden
    whole = chat(wait_for_ids=wait)
    assert whole.push(events) + whole.finish() == chunks
    for chunk in chunks:
        assert {*unknown(CHUNK.validate_python(chunk))} <= {"reasoning_content"}
    expected.finish = finish_of(expected, ("length", "tool_calls", "stop"))
    assert clients.chat_by_hand(chunks) == expected
    assert clients.chat_accumulated(chunks) == expected
    assert clients.chat_whole(openai_chat.collect(chunks)) == expected


def grammar(chunks: list[Chunk], words: dict[str, str]) -> str:
    """The types of events as letters."""
    return "".join(words[chunk["type"]] for chunk in chunks)


RESPONSE_WORDS = {
    "response.created": "(",
    "response.in_progress": "-",
    "response.output_item.added": "[",
    "response.content_part.added": "p",
    "response.output_text.delta": "t",
    "response.output_text.done": "T",
    "response.reasoning_text.delta": "r",
    "response.reasoning_text.done": "R",
    "response.content_part.done": "P",
    "response.reasoning_summary_part.added": "q",
    "response.reasoning_summary_text.delta": "s",
    "response.reasoning_summary_text.done": "S",
    "response.reasoning_summary_part.done": "Q",
    "response.function_call_arguments.delta": "a",
    "response.function_call_arguments.done": "A",
    "response.output_item.done": "]",
    "response.completed": ")",
    "response.incomplete": ")",
}
RESPONSE = re.compile(r"\(-(\[(pt+TP|pr+RP|qs+SQ|a*A)\])*\)")


@given(events=any_events(), how=st.sampled_from(["text", "summary", None]))
def test_responses_clients_see_what_was_said(events: list[Event], how: Value) -> None:
    twin = Twin(events, "call")
    expected = twin.seen
    hidden: list[Event] = []
    adapter = openai_responses.EventStream(
        id="resp_7", model="m", reasoning=how, on_hidden=hidden.append
    )
    chunks = told(adapter, events)
    if how is None:
        expected.reasoning = ""
        hidden = [event for event in hidden if not isinstance(event, Reasoning)]
        twin.hidden = [event for event in twin.hidden if not isinstance(event, Reasoning)]
    assert hidden == twin.hidden
    assert RESPONSE.fullmatch(grammar(chunks, RESPONSE_WORDS))
    assert [chunk["sequence_number"] for chunk in chunks] == [*range(len(chunks))]
    for chunk in chunks:
        # The server sends `store`, which the client's type leaves out.
        assert {*unknown(RESPONSE_EVENT.validate_python(chunk))} <= {"store"}
    expected.finish = finish_of(expected, ("incomplete", "completed", "completed"))
    assert clients.responses_accumulated(chunks) == expected
    assert clients.responses_whole(openai_responses.collect(chunks)) == expected
    done = [chunk["item"] for chunk in chunks if chunk["type"] == "response.output_item.done"]
    assert openai_responses.collect(chunks)["output"] == done
    assert len({item["id"] for item in done}) == len(done)


MESSAGE_WORDS = {
    "message_start": "(",
    "content_block_start": "[",
    "content_block_delta": "d",
    "content_block_stop": "]",
    "message_delta": "-",
    "message_stop": ")",
}


@given(events=any_events(), thinking=st.booleans())
def test_anthropic_clients_see_what_was_said(events: list[Event], thinking: bool) -> None:  # noqa: FBT001
    expected = Twin(events, "toolu").seen
    adapter = anthropic.EventStream(id="msg_7", model="m", thinking=thinking)
    chunks = told(adapter, events)
    assert re.fullmatch(r"\((\[d+\])*-\)", grammar(chunks, MESSAGE_WORDS))
    for chunk in chunks:
        assert not {*unknown(MESSAGE_EVENT.validate_python(chunk))}
    expected = with_inputs(expected)
    expected.finish = finish_of(expected, ("max_tokens", "tool_use", "end_turn"))
    expected.tokens = (0, 0)
    if not thinking:
        expected.reasoning = ""
    assert clients.anthropic_accumulated(chunks) == expected
    assert clients.anthropic_whole(anthropic.collect(chunks)) == expected


@given(events=any_events())
def test_plain_deltas_are_the_message(events: list[Event]) -> None:
    expected = Twin(events, "call").seen
    chunks = told(plain.DeltaStream(id="7"), events)
    assert chunks[-1] == {"type": "end", "reason": expected.finish}
    expected.finish = None
    assert clients.message_seen(plain.collect(chunks)) == expected


LINES: dict[str, tuple[Callable[[], Adapter], Callable[[Chunk], bytes], bytes]] = {
    "chat": (chat, sse.data, sse.DONE),
    "responses": (lambda: openai_responses.EventStream(id="r", model="m"), sse.event, b""),
    "anthropic": (lambda: anthropic.EventStream(id="m", model="m"), sse.event, b""),
    "eager": (lambda: anthropic.EventStream(id="m", model="m", eager_input=True), sse.event, b""),
    "plain": (plain.DeltaStream, sse.data, b""),
}


@pytest.mark.parametrize("shape", LINES)
@given(events=st.one_of(long_runs(), long_runs(), any_events()), size=st.integers(1, 9))
@example([ActionStart(0, "code"), ActionDelta(0, "ab"), ActionDelta(0, '"')], 1)
@example([F, ActionDelta(0, "ab"), ActionDelta(1, "ab"), ActionDelta(0, "cd")], 1)
@example([Text("ab"), Text("ab"), Text(""), Text("m"), Text("content"), Text("ab")], 1)
@example([Text("A"), Text("ab"), STOP, Text("cd")], 1)
def test_lines_are_what_chunks_are_written_as(shape: str, events: list[Event], size: int) -> None:
    make, write, done = LINES[shape]
    chunks = told(make(), events)
    lines = sse.Lines(make())
    written = b"".join(lines.push(events[at : at + size]) for at in range(0, len(events), size))
    assert written + lines.finish() == b"".join(map(write, chunks)) + done
    assert lines.push(events) + lines.finish() == b""


def test_lines_like_the_last_are_not_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of one delta is replaced by the next one's, whatever is in it."""
    lines = sse.Lines(chat())
    assert lines.push([Text("ab"), Text("cd")]).count(b"data: ") == 3
    monkeypatch.setattr(openai_chat.ChunkStream, "push", None)
    line = lines.push([Text('"\u2028\n')])
    assert json.loads(line[6:])["choices"][0]["delta"] == {"content": '"\u2028\n'}


@given(drawn=st.data())
def test_completions_are_told_as_they_are_parsed(internlm2: Codec, drawn: st.DataObject) -> None:
    """Whatever a model writes: the message of `parse`, whole, and no id of it is wrong."""
    ids = drawn.draw(completions(internlm2))
    at = drawn.draw(st.integers(0, len(ids)))
    stream, adapter = internlm2.stream(), plain.DeltaStream()
    chunks = adapter.push(stream.push(ids[:at])) + adapter.push(stream.push(ids[at:]))
    chunks += adapter.push(stream.finish()) + adapter.finish()
    message = internlm2.parse(ids).message
    assert plain.collect(chunks) == message
    if message["role"] == "assistant":
        assert clients.message_seen(message) == clients.message_seen(plain.collect(chunks))
