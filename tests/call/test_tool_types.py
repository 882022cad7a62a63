"""Arguments without quotes, read as what the tools' schemas say that they are."""

from __future__ import annotations

import ast
import contextlib
import json
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
from chatcodec import MessageError, StreamPool, ToolTypes
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Codec

QWEN3_CODER = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"),
    *("<tool_response>", "</tool_response>"),
)
KINDS = ("string", "integer", "number", "boolean", "object", "array")
LOOKS = (
    *("5", "-3", "2.5", "1e3", "true", "True", "false", "FALSE", "null", "None", "[1, 2]", "{}"),
    *('{"a": [1]}', '"quoted"', "007", "1 2", "[1, ", "", " x ", "3 days", "{'a': 1}", "天气"),
    *("[True, 'x']", '"[1, 2]"', '[\\"a\\", 1]', "\"{'a': None}\"", "{'a': }"),
)


def codec() -> Codec:
    return data.load_appended("qwen3-coder", QWEN3_CODER)


def tools(**properties: object) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": properties}
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def completion(**values: str) -> list[int]:
    """The ids of a call whose values are written as they stand."""
    vocab = codec().vocab
    pairs = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in values.items())
    inside = vocab.encode(f"\n<function=f>\n{pairs}</function>\n")
    return [vocab.control["<tool_call>"], *inside, vocab.control["</tool_call>"]]


def arguments(message: dict[str, Any]) -> Any:  # noqa: ANN401
    return json.loads(message["tool_calls"][0]["function"]["arguments"])


def converted(text: str, kind: str) -> object:
    """What a parser makes of a text that converts it to its declared type, if it can."""
    try:
        match kind:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean" if text.strip().lower() in {"true", "false"}:
                return text.strip().lower() == "true"
            case "object" | "array":
                wanted = dict if kind == "object" else list
                found = (value for value in read_as(text) if isinstance(value, wanted))
                return next(found, text)
    except ValueError:
        pass
    return text


def read_as(text: str) -> Iterator[object]:
    """What JSON, a JSON string of it, the inside of one, and Python say that a text is."""
    for quoted in (text, f'"{text}"'):
        with contextlib.suppress(ValueError):
            inner = json.loads(quoted)
            yield inner
            if isinstance(inner, str) and inner != text:
                yield from read_as(inner)
    with contextlib.suppress(ValueError, SyntaxError):
        yield ast.literal_eval(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", LOOKS)
def test_values_are_what_a_parser_converts_them_to(text: str, kind: str) -> None:
    declared = tools(a={"type": kind})
    told = arguments(codec().parse(completion(a=text), tools=declared).message)["a"]
    expected = converted(text, kind)
    if (text, kind) == ("1e3", "integer"):
        expected = 1000
    assert (told, isinstance(told, str)) == (expected, isinstance(expected, str))


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"type": ["string", "integer"]}, "5.5", "5.5"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "None", None),
        # The template of Qwen3-Coder writes null so.
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "None", None),
        ({"type": ["boolean", "null"]}, "NULL", None),
        ({"type": "boolean"}, " TRUE ", True),
        ({"type": "string"}, "TRUE", "TRUE"),
        ({"type": "varchar"}, "5", "5"),
        ({"type": "Optional[str]"}, "5", "5"),
        ({"type": "Optional[str]"}, "null", None),
        ({"type": "int64"}, " 5 ", 5),
        ({"type": "int | None"}, "None", None),
        ({"type": "uint32"}, "five", "five"),
        ({"type": "double"}, "2.50", 2.5),
        ({"type": "double"}, "+.5", 0.5),
        ({"type": "tuple"}, "['a', None]", ["a", None]),
        ({"type": "list[str]"}, "['a']", ["a"]),
        ({"type": "|".join(["int"] * 100)}, "5", 5),
        ({"type": "optional[" * 100}, "5", 5),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"const": 1}, "1", 1),
        ({"$ref": "#/$defs/id"}, "1", 1),
        ({"type": "string", "nullable": True}, "null", None),
        ({}, "5", 5),
        (True, "5", 5),
    ],
)
def test_schemas(schema: object, text: str, value: object) -> None:
    told = arguments(codec().parse(completion(a=text), tools=tools(a=schema)).message)["a"]
    assert (told, type(told)) == (value, type(value))


def test_a_reference_within_the_parameters() -> None:
    declared = tools(a={"$ref": "#/$defs/id"})
    declared[0]["function"]["parameters"]["$defs"] = {"id": {"type": "string"}}
    assert arguments(codec().parse(completion(a="1"), tools=declared).message) == {"a": "1"}


@given(
    values=st.dictionaries(st.sampled_from("abcd"), st.sampled_from(LOOKS)),
    kinds=st.fixed_dictionaries({key: st.sampled_from(KINDS) for key in "abc"}),
    cut=st.integers(0, 60),
)
def test_every_way_in_tells_the_same(
    values: dict[str, str], kinds: dict[str, str], cut: int
) -> None:
    ids = completion(**values)
    declared = tools(**{key: {"type": kind} for key, kind in kinds.items()})
    types = ToolTypes(declared)
    parsed = codec().parse(ids, tools=declared).message
    ways = []
    for given_ in (declared, types, json.dumps(declared)):
        stream = codec().stream(keep=True, tools=given_)
        stream.push(ids[:cut])
        stream.push(ids[cut:])
        stream.finish()
        ways.append(stream.message())
        pool = StreamPool(codec())
        slot = pool.open(keep=True, tools=given_)
        pool.push([slot] * len(ids), ids)
        pool.finish(slot)
        ways.append(pool.message(slot))
        ways.append(codec().parse(ids, tools=given_).message)
        ways.append(codec().decode([*codec().generation_prompt_ids, *ids], tools=given_)[-1])
        by_text = codec().vocab.decode(ids, "spell")
        ways.append(codec().parse(by_text, markers="text", tools=given_).message)
    assert all(message == parsed for message in ways)


def test_a_text_that_is_no_list_of_tools_says_nothing() -> None:
    ids = completion(a="5")
    silent: list[Any] = ["Call f(a) to search.", "{}", [], None]
    for nothing in silent:
        assert arguments(codec().parse(ids, tools=nothing).message) == {"a": 5}


@pytest.mark.parametrize("wrong", [5, {"name": "f"}, [5], [[]], [{"name": object()}]])
def test_what_are_no_tools(wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(MessageError, match="tools"):
        ToolTypes(wrong)
    with pytest.raises(MessageError, match="tools"):
        codec().stream(tools=wrong)


@pytest.mark.parametrize(("declared", "told"), [("string", '{"a": "[1, 2'), ("array", '{"a": ')])
def test_strings_are_told_as_they_come(declared: str, told: str) -> None:
    stream = codec().stream(tools=tools(a={"type": declared}))
    vocab = codec().vocab
    begun = vocab.encode("\n<function=f>\n<parameter=a>\n[1, 2")
    events = stream.push([vocab.control["<tool_call>"], *begun])
    deltas = [event.text for event in events if isinstance(event, chatcodec.events.ActionDelta)]
    assert "".join(deltas) == told


def test_one_schema_that_is_nested_too_deep_leaves_the_others() -> None:
    nested: dict[str, Any] = {}
    for _ in range(200):
        nested = {"items": nested}
    text = {"properties": {"b": {"type": "string"}}}
    tools = [
        {"type": "function", "function": {"name": "f", "parameters": text}},
        {"type": "function", "function": {"name": "other", "parameters": nested}},
    ]
    codec = data.load_appended("qwen3-coder", QWEN3_CODER)
    call = "<tool_call>\n<function=f>\n<parameter=b>\n5\n</parameter>\n</function>\n</tool_call>"
    parsed = codec.parse(call, markers="text", tools=tools)
    assert parsed.message["tool_calls"][0]["function"]["arguments"] == '{"b": "5"}'


def test_a_text_that_would_not_be_read_back_is_refused() -> None:
    codec = data.load_appended("qwen3-coder", QWEN3_CODER)
    value = "[" + "1, " * 1500 + "1]\nand then text"
    function = {"name": "f", "arguments": {"body": value}}
    call = {"id": "call_0", "type": "function", "function": function}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    with pytest.raises(MessageError, match="would be read as JSON"):
        codec.encode(messages)


def test_what_a_prompt_ends_with_is_not_told_again() -> None:
    codec = data.load_appended("qwen3-coder", QWEN3_CODER)
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Dear Bob,\n\n"},
    ]
    prompt = codec.encode(messages, continue_final=True)
    completion = codec.vocab.encode("thanks")
    assert codec.parse(completion, prompt=prompt).message["content"] == "thanks"
