"""Calls that begin with text: as the published templates write them, and what text reads as one."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, MessageError, collect
from chatcodec.events import ActionStart, Notice, Text

if TYPE_CHECKING:
    from collections.abc import Callable

Message = dict[str, Any]

CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
MESSAGES: dict[str, Message] = {
    "user": {"role": "user", "content": " Weather in Paris? 天气\n"},
    "answer": {"role": "assistant", "content": " Sunny."},
    "call": {"role": "assistant", "content": None, "tool_calls": [CALL]},
    "tool": {"role": "tool", "content": 'sunny, "warm" 天气'},
}
TOKENS = {
    "llama3.1": [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
    ],
    "llama4": [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|header_start|>",
        "<|header_end|>",
        "<|eom|>",
        "<|eot|>",
        "<|python_start|>",
        "<|python_end|>",
    ],
    "phi4-mini": [
        "<|endoftext|>",
        "<|assistant|>",
        "<|end|>",
        "<|user|>",
        "<|system|>",
        "<|tool|>",
        "<|/tool|>",
        "<|tool_call|>",
        "<|/tool_call|>",
        "<|tool_response|>",
    ],
}
TOKENS["llama3.2"] = TOKENS["llama3.1"]


def codec(name: str) -> Codec:
    """The format over the embedded vocabulary and its own tokens."""
    return data.load_appended(name, tuple(TOKENS[name]))


def llama31(messages: list[Message], tools: list[Any] | None, *, prompt: bool) -> str:
    """What the template of Llama 3.1 does, said in other words."""

    def turn(role: str, text: str) -> str:
        return f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>"

    system, rest = "", messages
    if messages[0]["role"] == "system":
        system, rest = messages[0]["content"].strip(), messages[1:]
    dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
    environment = "Environment: ipython\n" if tools else ""
    parts = ["<|begin_of_text|>", turn("system", environment + dates + system)]
    if tools:
        asked = (
            "Given the following functions, please respond with a JSON for a function call with "
            "its proper arguments that best answers the given prompt.\n\nRespond in the format "
            '{"name": function name, "parameters": dictionary of argument name and its value}.'
            "Do not use variables.\n\n"
        )
        listed = [json.dumps(tool, indent=4, ensure_ascii=False) + "\n\n" for tool in tools]
        parts.append(turn("user", asked + "".join(listed) + rest[0]["content"].strip()))
        rest = rest[1:]
    for message in rest:
        if message.get("tool_calls"):
            called = message["tool_calls"][0]["function"]
            arguments = json.dumps(called["arguments"], ensure_ascii=False)
            text = f'{{"name": "{called["name"]}", "parameters": {arguments}}}'
            parts.append(turn("assistant", text))
        elif message["role"] == "tool":
            parts.append(turn("ipython", json.dumps(message["content"], ensure_ascii=False)))
        else:
            parts.append(turn(message["role"], message["content"].strip()))
    if prompt:
        parts.append("<|start_header_id|>assistant<|end_header_id|>\n\n")
    return "".join(parts)


def phi4_mini(messages: list[Message], tools: list[Any] | None, *, prompt: bool) -> str:
    """What the template of Phi-4-mini does; of calls, what the model card has."""
    parts = []
    for message in messages:
        text = message["content"] or ""
        if tools and message["role"] == "system":
            listed = json.dumps([tool["function"] for tool in tools])
            text += f"<|tool|>{listed}<|/tool|>"
        if message.get("tool_calls"):
            call = {"name": "weather", "arguments": {"city": "Paris"}}
            text += f"<|tool_call|>{json.dumps([call])}<|/tool_call|>"
        role = "tool_response" if message["role"] == "tool" else message["role"]
        parts.append(f"<|{role}|>{text}<|end|>")
    return "".join(parts) + ("<|assistant|>" if prompt else "<|endoftext|>")


def conversations() -> list[list[Message]]:
    """Every sequence of a few kinds after a question, with a system message and without."""
    found = []
    for length in range(4):
        for names in itertools.product(["user", "answer", "call", "tool"], repeat=length):
            rest = [MESSAGES["user"], *(MESSAGES[name] for name in names)]
            found += [rest, [{"role": "system", "content": " Be brief. "}, *rest]]
    return found


@pytest.mark.parametrize(("name", "written"), [("llama3.1", llama31), ("phi4-mini", phi4_mini)])
def test_conversations_are_those_of_the_template(name: str, written: Callable[..., str]) -> None:
    known = codec(name)
    for messages, prompt in itertools.product(conversations(), (False, True)):
        for tools in (None, [TOOL, TOOL]):
            if tools and name == "phi4-mini" and messages[0]["role"] != "system":
                # The template has tools in a system message only.
                continue
            expected = written(messages, tools, prompt=prompt)
            encoding = known.encode(messages, tools=tools, add_generation_prompt=prompt)
            assert encoding.text == expected


CALLS = [
    ("llama3.1", '{"name": "f", "parameters": {"a": 1}}', '{"name": "f", "parameters": {'),
    ("llama3.1", '  {"name":"f","arguments":{}} so', '{"name":"f","arguments":{'),
    ("llama3.2", "[f(a=1)]", "[f(a=1"),
    ("llama4", "[f()]", "[f()"),
    (
        "phi4-mini",
        'functools[{"name": "f", "arguments": {}}]',
        'functools[{"name": "f", "arguments": {',
    ),
]


@pytest.mark.parametrize(("name", "text", "marker"), CALLS)
def test_text_that_reads_as_a_call_is_told(name: str, text: str, marker: str) -> None:
    known = codec(name)
    question = {"role": "user", "content": text}
    messages = [question, {"role": "assistant", "content": text}]
    [collision] = known.encode(messages).collisions
    assert (collision.path, collision.marker) == ("messages[1].content", marker)
    assert text[collision.start : collision.end] == marker
    for policy in ("error", "break"):
        with pytest.raises(MessageError, match=r"messages\[1\]\.content.* begins as a call"):
            known.encode(messages, on_marker=policy)
    # Nobody else's text is a call, nor is one that stands later.
    assert not known.encode([question]).collisions
    later = [question, {"role": "assistant", "content": "Like " + text}]
    assert not known.encode(later).collisions
    assert known.decode(known.encode(later, on_marker="error").ids) == known.canonical(later)


def test_code_that_reads_as_a_call_is_told() -> None:
    source = '{"name": "f", "parameters": {}}'
    call = {"type": "code", "code": {"source": source}}
    messages = [MESSAGES["user"], {"role": "assistant", "tool_calls": [call]}]
    [collision] = codec("llama3.1").encode(messages).collisions
    assert collision.path == "messages[1].tool_calls[0].code.source"


@pytest.mark.parametrize(
    ("name", "message", "problem"),
    [
        ("llama3.1", {"content": "Let me see.", "tool_calls": [CALL]}, "stand beside content"),
        ("llama4", {"content": "Let me see.", "tool_calls": [CALL]}, "stand beside content"),
        ("llama3.1", {"tool_calls": [("f", "3")]}, "no JSON object"),
        ("llama3.1", {"tool_calls": [("a b", "{}")]}, "expected letters"),
        ("llama4", {"tool_calls": [("f:g", "{}")]}, "expected one such as"),
        ("llama4", {"tool_calls": [("f", '{"a b": 1}')]}, "expected a name"),
        ("llama3.1", {"tool_calls": ["1 + 1", ("f", "{}")]}, "stands after another call"),
    ],
)
def test_what_could_not_be_read_is_refused(name: str, message: Message, problem: str) -> None:
    def call(given: Any) -> Any:  # noqa: ANN401
        if isinstance(given, str):
            return {"type": "code", "code": {"source": given}}
        if isinstance(given, tuple):
            return {"type": "function", "function": {"name": given[0], "arguments": given[1]}}
        return given

    calls = [call(given) for given in message["tool_calls"]]
    answer = {"role": "assistant", **message, "tool_calls": calls}
    with pytest.raises(MessageError, match=problem) as error:
        codec(name).encode([MESSAGES["user"], answer])
    assert error.value.path.startswith("messages[1].tool_calls")


NEAR_CALLS = [
    '{"name": "Bob", "age": 3}',
    '{"name": "f", "parameters": 3}',
    '{"name": "f", "parameters": [{}]}',
    '{"name": 5',
    '{"name": "f"}',
    '{"name": "a b", "parameters": {}}',
    '{"parameters": {}, "name": "f"}',
    "{" + " " * 65536 + '"name": "f", "parameters": {}}',
    "[1, 2, 3]",
    "[link](url)",
    "[f(x) for x in y]",
    "[f(",
    "[" + "f(" * 65536,
    "[f(" * 349525,
    "functools is a module",
    "functools",
    'functools[{"name": 1}]',
    " functools[1, 2]",
]


@pytest.mark.parametrize("name", ["llama3.1", "llama3.2", "llama4", "phi4-mini"])
@pytest.mark.parametrize("text", NEAR_CALLS, ids=lambda text: text[:20])
def test_what_is_no_call_is_text(name: str, text: str) -> None:
    known = codec(name)
    ids = known.vocab.encode(text)
    for policy in ("ids", "ids_or_text"):
        stream = known.stream(markers=policy)
        events = [*stream.push(ids), *stream.finish()]
        assert not any(isinstance(event, ActionStart | Notice) for event in events)
        assert "".join(event.text for event in events if isinstance(event, Text)) == text
    stream = known.stream(markers="text")
    events = [*stream.push_text(text), *stream.finish()]
    assert collect(events)["content"] == text


@pytest.mark.parametrize("name", ["llama3.1", "llama3.2", "llama4", "phi4-mini"])
def test_nothing_is_lost_wherever_a_call_is_cut(name: str) -> None:
    known = codec(name)
    for text in [case[1] for case in CALLS if case[0] == name]:
        ids = known.vocab.encode(text)
        for end in range(len(ids) + 1):
            stream = known.stream(keep=True)
            events = [*stream.push(ids[:end]), *stream.finish("length")]
            assert events[-1].tokens[1] == end
            if not any(isinstance(event, ActionStart) for event in events):
                assert stream.message()["content"] == known.vocab.decode(ids[:end])
