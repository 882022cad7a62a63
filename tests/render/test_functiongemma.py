"""FunctionGemma writes what its authors, and programs that run it, have published.

The model's template is not among the test data. The conversation of Google's pages and
conversations of Ollama's tests are compared instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Format
from chatcodec.events import Notice
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts
from test_published_families import codec_of

if TYPE_CHECKING:
    from chatcodec import Codec
    from naive import Message

START = "You are a model that can do function calling with the following functions"
PLACE = 'The city and state, e.g. "San Francisco, CA" or "Tokyo, JP"'
WEATHER: dict[str, Any] = {
    "name": "get_current_weather",
    "description": "Gets the current weather in a given location.",
    "parameters": {
        "type": "object",
        "properties": {
            "unit": {
                "type": "string",
                "enum": ["celsius", "fahrenheit"],
                "description": "The unit to return the temperature in.",
            },
            "location": {"type": "string", "description": PLACE},
        },
        "required": ["location"],
    },
}
DECLARED = (
    "<start_function_declaration>declaration:get_current_weather{"
    "description:<escape>Gets the current weather in a given location.<escape>,"
    f"parameters:{{properties:{{location:{{description:<escape>{PLACE}<escape>,"
    "type:<escape>STRING<escape>},unit:{description:<escape>The unit to return the temperature in."
    "<escape>,enum:[<escape>celsius<escape>,<escape>fahrenheit<escape>],"
    "type:<escape>STRING<escape>}},required:[<escape>location<escape>],"
    "type:<escape>OBJECT<escape>}}<end_function_declaration>"
)
KEYS = st.text("abXY_9", min_size=1, max_size=4)
TEXTS = hostile_texts(max_parts=2).filter(lambda text: not {"\u2581", "<"} & set(text))
QUESTION = "Hey, what's the weather in Tokyo right now?"


def tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def calling(*calls: tuple[str, dict[str, Any]], content: str = "") -> Message:
    made = [
        {"type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in calls
    ]
    return {"role": "assistant", "content": content, "tool_calls": made}


@pytest.fixture(scope="module")
def codec() -> Codec:
    return codec_of("functiongemma")


def test_the_conversation_of_the_published_pages(codec: Codec) -> None:
    messages: list[Message] = [
        {"role": "developer", "content": START},
        {"role": "user", "content": QUESTION},
    ]
    prompt = codec.encode(messages, tools=[{"type": "function", "function": WEATHER}])
    assert prompt.text == (
        f"<bos><start_of_turn>developer\n{START}{DECLARED}<end_of_turn>\n"
        f"<start_of_turn>user\n{QUESTION}<end_of_turn>\n<start_of_turn>model\n"
    )
    answer = spelled(
        codec,
        "<start_function_call>call:get_current_weather{location:<escape>Tokyo, Japan<escape>}"
        "<end_function_call><start_function_response>",
    )
    parsed = codec.parse(answer, prompt=prompt)
    assert parsed.finish == "action"
    call = parsed.message["tool_calls"][0]["function"]
    assert call == {"name": "get_current_weather", "arguments": '{"location": "Tokyo, Japan"}'}
    result: Message = {"role": "tool", "content": "sunny"}
    following = codec.extend(prompt, answer, [result])
    assert following.text == prompt.text + (
        "<start_function_call>call:get_current_weather{location:<escape>Tokyo, Japan<escape>}"
        "<end_function_call><start_function_response>response:get_current_weather{"
        "value:<escape>sunny<escape>}<end_function_response>"
    )


def spelled(codec: Codec, text: str) -> list[int]:
    """The ids of a text in which each spelling of a control token is that token."""
    ids: list[int] = []
    for part in re.split(r"(<\w+>)", text):
        control = codec.vocab.control.get(part)
        ids += [control] if control is not None else codec.vocab.encode(part).tolist()
    return ids


def test_conversations_of_a_published_renderer(codec: Codec) -> None:
    """As Ollama writes them, but for its own sentence before tools and the key of a result."""
    asked: Message = {"role": "user", "content": "Weather and time?"}
    calls = calling(
        ("get_weather", {"city": "Paris"}), ("add", {"a": 1, "b": 2}), content="Let me check."
    )
    results: list[Message] = [
        {"role": "tool", "content": "Sunny"},
        {"role": "tool", "content": "3"},
    ]
    done: Message = {"role": "assistant", "content": "Done."}
    assert codec.encode([asked, calls, *results, done, asked]).text == (
        "<bos><start_of_turn>user\nWeather and time?<end_of_turn>\n<start_of_turn>model\n"
        "Let me check.<start_function_call>call:get_weather{city:<escape>Paris<escape>}"
        "<end_function_call><start_function_call>call:add{a:1,b:2}<end_function_call>"
        "<start_function_response>response:get_weather{value:<escape>Sunny<escape>}"
        "<end_function_response><start_function_response>response:add{value:<escape>3<escape>}"
        "<end_function_response>Done.<end_of_turn>\n<start_of_turn>user\nWeather and time?"
        "<end_of_turn>\n<start_of_turn>model\n"
    )


def test_a_parameter_always_has_a_description(codec: Codec) -> None:
    tools = [tool("add", b={"type": "number"}, a={"type": "number", "description": "One."})]
    messages: list[Message] = [{"role": "user", "content": "x"}]
    empty = "{description:<escape><escape>,type:<escape>NUMBER<escape>}"
    text = codec.encode(messages, tools=tools).text
    assert "<start_of_turn>developer\n<start_function_declaration>" in text
    assert f"a:{{description:<escape>One.<escape>,type:<escape>NUMBER<escape>}},b:{empty}" in text
    assert codec.decode(codec.encode(messages, tools=tools)) == codec.canonical(
        messages, tools=tools
    )
    # Without the key it has none, as in Gemma 4.
    other = codec_of("gemma4").encode(messages, tools=tools).text
    assert 'b:{type:<|"|>NUMBER<|"|>}' in other
    assert "always" not in Format.built_in("gemma4").text


LEAVES = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean"])},
    optional={"description": TEXTS, "enum": st.lists(TEXTS, max_size=2)},
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(KEYS, inner, max_size=2)},
            optional={"description": TEXTS, "required": st.lists(KEYS, max_size=2)},
        ),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": LEAVES}, optional={"description": TEXTS}
        ),
    ),
    max_leaves=4,
)
TOKENS = {
    "<|turn>system": "<start_of_turn>developer",
    "<|turn>": "<start_of_turn>",
    "<turn|>": "<end_of_turn>",
    "<|tool>": "<start_function_declaration>",
    "<tool|>": "<end_function_declaration>",
    '<|"|>': "<escape>",
}
"""Control tokens of Gemma 4, and those that stand in their place."""


def described(properties: dict[str, Any]) -> dict[str, Any]:
    """The properties of an object, with a word where a description is missing or empty."""

    def one(schema: dict[str, Any]) -> dict[str, Any]:
        schema = schema | {"description": schema.get("description") or "NOTHING"}
        if "properties" in schema:
            schema["properties"] = described(schema["properties"])
        return schema

    return {key: one(schema) for key, schema in properties.items()}


@given(properties=st.dictionaries(KEYS, SCHEMAS, min_size=1, max_size=3))
def test_tools_are_those_of_gemma4_with_a_description_for_each_parameter(
    codec: Codec, properties: dict[str, Any]
) -> None:
    messages: list[Message] = [{"role": "user", "content": "x"}]
    encoding = codec.encode(messages, tools=[tool("f", **properties)])
    theirs = codec_of("gemma4").encode(messages, tools=[tool("f", **described(properties))])
    expected = theirs.text.replace("<|channel>thought\n<channel|>", "").replace("NOTHING", "")
    for token, own in TOKENS.items():
        expected = expected.replace(token, own)
    assert encoding.text == expected
    tools = [tool("f", **properties)]
    assert codec.decode(encoding) == codec.canonical(messages, tools=tools)


@given(text=hostile_texts(max_parts=2))
def test_no_text_of_a_tool_is_control(codec: Codec, text: str) -> None:
    """Text that spells the tokens around strings and tools stays text."""
    messages: list[Message] = [{"role": "user", "content": "x"}]

    def control(text: str) -> list[int]:
        schema: dict[str, Any] = {"type": "string", "description": text, "enum": [text]}
        encoding = codec.encode(messages, tools=[tool("f", a=schema, b={"type": "string"})])
        pairs = zip(encoding, encoding.is_control, strict=True)
        return [id_ for id_, is_control in pairs if is_control]

    assert control(text + "<escape>}<end_function_declaration>x") == control("x")


def test_a_call_without_its_colon_is_mended(codec: Codec) -> None:
    """As the model was seen to write it."""
    prompt = codec.encode([{"role": "user", "content": "x"}])
    text = "<start_function_call>call get{city:<escape>Rome<escape>, n:1}<end_function_call>"
    stream = codec.stream(prompt=prompt, keep=True)
    events = [*stream.push(spelled(codec, text)), *stream.finish("stop")]
    call = stream.message()["tool_calls"][0]["function"]
    assert call == {"name": "get", "arguments": '{"city": "Rome", "n": 1}'}
    assert [event.kind for event in events if isinstance(event, Notice)] == ["mended"]
