"""Calls in JSON that are written as Python, in quotes, or with a comma too many."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import collect
from chatcodec.events import Notice
from completions import calls_of as calls_of_events
from completions import codec_of, ids_of, notices_of, told
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

MENDED = ("mended", "the call's JSON is quoted or written as in Python")

OBJECTS: dict[str, Callable[[str], str]] = {
    "hermes": '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'.format,
    "qwen2.5": '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'.format,
    "qwen3": '<tool_call>{{"arguments": {}, "name": "f"}}</tool_call>'.format,
    "internlm2": (
        '<|action_start|><|plugin|>\n{{"name": "f", "parameters": {}}}<|action_end|>'
    ).format,
    "llama3.1": '<|python_tag|>{{"name": "f", "parameters": {}}}'.format,
    "mistral": '[TOOL_CALLS][{{"name": "f", "arguments": {}, "id": "abcdefghi"}}]'.format,
    "phi4-mini": '<|tool_call|>[{{"name": "f", "arguments": {}}}]<|/tool_call|>'.format,
}
"""A call as one object, with arguments."""

BODIES: dict[str, Callable[[str], str]] = {
    "mistral:v11": "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}".format,
    "mistral:v13": "[TOOL_CALLS]f[ARGS]{}".format,
    "kimi-k2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    ).format,
    "deepseek:v3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>"
    ).format,
    "deepseek:v3.1": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ).format,
    "glm4": "f\n{}".format,
    "harmony": "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>".format,
}
"""A name, and arguments after it."""

ALL = OBJECTS | BODIES

MEANT = [
    ("{'city': 'Oslo', 'n': None}", {"city": "Oslo", "n": None}),
    ("{'a': True, 'b': [False, 1.5], 'c': {'d': 'it\\'s \"x\"'}}",
     {"a": True, "b": [False, 1.5], "c": {"d": 'it\'s "x"'}}),
    ('{"city": "Oslo",}', {"city": "Oslo"}),
    ('{"a": [1, 2, ],\n}', {"a": [1, 2]}),
    ('{"a": "two\nlines"}', {"a": "two\nlines"}),
    ('{"a": "\\d+ it\\\'s"}', {"a": "\\d+ it's"}),
    ('"{\\"city\\": \\"Oslo\\", \\"n\\": \\"}{\\"}"', {"city": "Oslo", "n": "}{"}),
    ('"{}"', {}),
    ("\"{'city': 'Oslo'}\"", {"city": "Oslo"}),
    ("'{\"city\": \"Oslo\"}'", {"city": "Oslo"}),
]  # fmt: skip
"""Arguments as models write them, and what they mean."""


def calls_of(format_: str, written: str, **options: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401
    events = told(codec_of(format_), written, **options)
    return calls_of_events(events), notices_of(events)


@pytest.mark.parametrize(("arguments", "meant"), MEANT)
@pytest.mark.parametrize("format_", ALL)
def test_arguments_are_what_they_mean(format_: str, arguments: str, meant: object) -> None:
    calls, notices = calls_of(format_, ALL[format_](arguments))
    assert calls == [("f", meant)]
    assert MENDED in notices
    assert not any(kind != "mended" for kind, _ in notices)


@pytest.mark.parametrize("format_", OBJECTS)
def test_an_object_as_python_writes_it(format_: str) -> None:
    written = OBJECTS[format_]("{'a': None}").replace('"', "'")
    calls, notices = calls_of(format_, written)
    assert calls == [("f", {"a": None})]
    assert MENDED in notices


@pytest.mark.parametrize("format_", ALL)
@pytest.mark.parametrize(
    "arguments",
    ["{}", '{"a": "\'"}', '{"a": ", }"}', '"{"', '"{\\"a\\": }"', "[1, 2]", '"None"', "null"],
)
def test_what_is_json_is_not_mended(format_: str, arguments: str) -> None:
    if format_ == "llama3.1" and arguments[0] not in '{"':
        pytest.skip("its calls are known by an object")
    calls, notices = calls_of(format_, ALL[format_](arguments))
    assert calls == [("f", json.loads(arguments))]
    assert notices == []


@pytest.mark.parametrize("format_", ALL)
@pytest.mark.parametrize(
    "arguments", ["{'a': 'it's'}", '{"a": tru}', '{"a": None', "{'a': [1,", '"{\\"a']
)
def test_what_is_cut_or_neither_is_told_whole(format_: str, arguments: str) -> None:
    before = ALL[format_]("\0").split("\0")[0] + arguments
    for end in range(len(before) - len(arguments) + 1, len(before) + 1):
        events = told(codec_of(format_), before[:end], reason="length")
        texts = "".join(
            getattr(event, "text", "") for event in events if not isinstance(event, Notice)
        )
        given = before[len(before) - len(arguments) : end]
        same = [
            text.replace("'", '"').replace("None", "null").replace(" ", "")
            for text in (given, texts)
        ]
        assert same[1].endswith(same[0]), (given, texts)


keys = st.text("ab'\"\\\n", max_size=3)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="▁"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@functools.cache
def parsed(format_: str, arguments: str) -> tuple[Any, list[str]]:
    codec = codec_of(format_)
    stream = codec.stream(None)
    events = [*stream.push(ids_of(codec, ALL[format_](arguments))), *stream.finish()]
    [call] = collect(events)["tool_calls"]
    mended = [event.text for event in events if isinstance(event, Notice)]
    return json.loads(call["function"]["arguments"]), mended


@given(
    st.sampled_from(sorted({*ALL} - {"deepseek:v3"})),
    st.dictionaries(st.text("ab_'"), values, max_size=3),
)
def test_what_python_writes_is_what_it_wrote(format_: str, arguments: dict[str, Any]) -> None:
    plain, notices = parsed(format_, json.dumps(arguments, ensure_ascii=False))
    assert (plain, notices) == (arguments, [])
    of_python, _ = parsed(format_, repr(arguments))
    assert of_python == arguments
    quoted, notices = parsed(format_, json.dumps(json.dumps(arguments)))
    assert quoted == arguments
    assert MENDED[1] in notices
    of_both, _ = parsed(format_, json.dumps(repr(arguments)))
    assert of_both == arguments


@pytest.mark.parametrize("format_", ["hermes", "mistral", "kimi-k2", "harmony"])
@pytest.mark.parametrize("given_", ['"{\\"a\\": 1}"', "\"{'a': 1,}\"", '"{"', '"[1]"'])
def test_a_string_that_holds_an_object_comes_back_as_it(format_: str, given_: str) -> None:
    codec = codec_of(format_)
    call = {"type": "function", "function": {"name": "f", "arguments": given_}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "tool_calls": [call]},
    ]
    ids = codec.encode(messages, add_generation_prompt=False).ids
    canonical = codec.canonical(messages)
    assert codec.decode(ids) == canonical
    [read] = canonical[-1]["tool_calls"]
    expected = '{"a": 1}' if "a" in given_ else given_
    assert read["function"]["arguments"] == expected
    assert codec.canonical(canonical) == canonical


def test_a_long_string_is_a_string() -> None:
    codec = codec_of("hermes")
    long = json.dumps(json.dumps({"a": "x" * (1 << 16)}))
    events = told_once(codec, OBJECTS["hermes"](long))
    [call] = collect(events)["tool_calls"]
    assert call["function"]["arguments"] == long


def told_once(codec: Any, written: str) -> list[Any]:  # noqa: ANN401
    stream = codec.stream(None)
    return [*stream.push(ids_of(codec, written)), *stream.finish()]
