"""Conversations with tools, calls and reasoning, written as the models' own templates do."""

from __future__ import annotations

import itertools
import json
from typing import Any

import clock
import data
import jinja2
import pytest
from chatcodec import MessageError

Message = dict[str, Any]

CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
MESSAGES: dict[str, Message] = {
    "user": {"role": "user", "content": "Weather in Paris? 天气"},
    "answer": {"role": "assistant", "content": "Sunny."},
    "call": {"role": "assistant", "content": "", "tool_calls": [CALL]},
    "calls": {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, CALL]},
    "reasons": {"role": "assistant", "content": "Sunny.", "reasoning_content": "It is\nwarm."},
    "tool": {"role": "tool", "content": "sunny"},
}


def template(name: str, file: str = "tokenizer_config.json") -> jinja2.Template:
    """The template of a model's configuration."""
    config = json.loads(data.find(f"vocab/{name}/{file}").read_text("utf-8"))
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    begin = config.get("bos_token")
    environment.globals["bos_token"] = begin["content"] if isinstance(begin, dict) else begin
    return environment.from_string(config["chat_template"])


def conversations(kinds: list[str]) -> list[list[Message]]:
    """Every sequence of a few kinds after a question, with a system message and without."""
    found = []
    for length in range(4):
        for names in itertools.product(kinds, repeat=length):
            rest = [MESSAGES["user"], *(MESSAGES[name] for name in names)]
            found += [rest, [{"role": "system", "content": "Be brief."}, *rest]]
    return found


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("qwen2.5", ["user", "answer", "call", "calls", "tool"]),
        ("qwen3", ["user", "answer", "call", "calls", "reasons", "tool"]),
    ],
)
def test_conversations_are_those_of_the_template(name: str, kinds: list[str]) -> None:
    written = template(name)
    codec = data.load_appended(name, TOKENS)
    for messages, prompt in itertools.product(conversations(kinds), (False, True)):
        if prompt and messages[-1]["role"] == "assistant":
            # What comes last is written otherwise there, though another turn follows.
            continue
        for tools in (None, [TOOL]):
            expected = written.render(messages=messages, tools=tools, add_generation_prompt=prompt)
            encoding = codec.encode(messages, tools=tools, add_generation_prompt=prompt)
            assert encoding.text == expected


def test_a_prompt_that_asks_for_no_reasoning() -> None:
    messages = [MESSAGES["user"]]
    expected = template("qwen3").render(
        messages=messages, add_generation_prompt=True, enable_thinking=False
    )
    codec = data.load_appended("qwen3", TOKENS)
    assert codec.encode(messages, thinking=False).text == expected


def called(message: Message) -> Message:
    """Arguments as text, and no content as none at all: as DeepSeek's template takes them."""
    if "tool_calls" not in message:
        return message
    calls = [{**call, "function": {**call["function"]}} for call in message["tool_calls"]]
    for call in calls:
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return {**message, "tool_calls": calls}


def test_deepseek_v3_1() -> None:
    written = template("deepseek-v3", "tokenizer_config_v31.json")
    codec = data.load_format("deepseek:v3.1", "deepseek-v3")
    count = 0
    for messages in conversations(["user", "answer", "call", "calls", "tool"]):
        roles = [message["role"] for message in messages]
        if ("assistant", "assistant") in itertools.pairwise(roles):
            # The template writes no header for the second.
            continue
        given = [called(message) for message in messages]
        for prompt, thinking in itertools.product((False, True), (None, False, True)):
            keys = {} if thinking is None else {"thinking": thinking}
            expected = written.render(messages=given, add_generation_prompt=prompt, **keys)
            if prompt and roles[-1] == "assistant":
                # Nor any prompt there.
                continue
            encoding = codec.encode(messages, add_generation_prompt=prompt, thinking=thinking)
            assert encoding.text == expected
            assert codec.decode(encoding) == codec.canonical(messages)
            count += 1
    assert count > 500


def glm4_messages(message: Message) -> list[Message]:
    """A message as GLM-4's template takes it: a call is a message with the function's name."""
    if message["role"] == "tool":
        return [{**message, "role": "observation"}]
    functions = [call["function"] for call in message.get("tool_calls", [])]
    calls = [
        {
            "role": "assistant",
            "metadata": function["name"],
            "content": json.dumps(function["arguments"]),
        }
        for function in functions
    ]
    content = {key: value for key, value in message.items() if key != "tool_calls"}
    return [content, *calls] if content["content"] else calls


def test_glm4() -> None:
    written = template("glm4")
    codec = data.load_appended("glm4", GLM4)
    for messages in conversations(["user", "answer", "call", "calls", "tool"]):
        roles = [message["role"] for message in messages]
        if ("assistant", "assistant") in itertools.pairwise(roles):
            # Calls alone after an answer would read as a part of it, and are refused.
            continue
        given = [each for message in messages for each in glm4_messages(message)]
        for prompt in (False, True):
            expected = written.render(messages=given, add_generation_prompt=prompt)
            encoding = codec.encode(messages, add_generation_prompt=prompt)
            assert encoding.text == expected


def test_where_reasoning_begins_is_found_once() -> None:
    codec = data.load_appended("qwen3", TOKENS)
    rounds = [MESSAGES["call"], MESSAGES["tool"]] * 60_000
    messages = [MESSAGES["user"], *rounds]
    assert len(clock.within(8, lambda: codec.encode(messages))) > len(messages)


@pytest.mark.parametrize("role", ["user", "tool", "system"])
def test_reasoning_of_others_is_refused(role: str) -> None:
    codec = data.load_appended("qwen3", TOKENS)
    odd = {"role": role, "content": "Hi", "reasoning": "hm"}
    for messages in ([odd], [odd, MESSAGES["user"]]):
        with pytest.raises(MessageError, match=r"messages\[0\]\.reasoning.* has no place"):
            codec.encode(messages)


@pytest.mark.parametrize("option", [{"thinking": "no"}, {"thinkng": False}])
def test_an_option_that_is_none(option: dict[str, Any]) -> None:
    codec = data.load_appended("qwen3", TOKENS)
    with pytest.raises(TypeError, match=next(iter(option))):
        codec.encode([MESSAGES["user"]], **option)


GLM4 = (
    "<|endoftext|>",
    "[gMASK]",
    "<sop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
)

TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
