"""GLM-4.5 and later, as their templates prompt them and as models write calls."""

from __future__ import annotations

from typing import Any

import pytest
from completions import calls_of, codec_of, ids_of, message_of, notices_of, told

USER = "[gMASK]<sop><|user|>\nx<|assistant|>"
CALL = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>b</arg_value>\n</tool_call>"


@pytest.mark.parametrize("white", ["", "\n"])
def test_a_prompt_that_opens_reasoning(white: str) -> None:
    codec = codec_of("glm4.5")
    events = told(codec, f"Why.</think>Yes.{CALL}", f"{USER}{white}<think>")
    message = message_of(events)
    assert (message["reasoning"], message["content"]) == ("Why.", "Yes.")
    assert calls_of(events) == [("f", {"a": "b"})]
    assert notices_of(events) == []


@pytest.mark.parametrize("end", ["</think>", "<think></think>", "\n<think></think>", "\n</think>"])
def test_a_prompt_that_closes_reasoning(end: str) -> None:
    codec = codec_of("glm4.5")
    for text in (f"Yes.{CALL}", f"\nYes.{CALL}"):
        events = told(codec, text, f"{USER}{end}")
        message = message_of(events)
        assert message["content"] == "Yes."
        assert "reasoning" not in message
        assert calls_of(events) == [("f", {"a": "b"})]
        assert notices_of(events) == []


def test_a_conversation_without_newlines_before_reasoning_is_read() -> None:
    codec = codec_of("glm4.5")
    text = f"{USER}<think>Why.</think>Yes.{CALL}<|user|>\ny<|assistant|></think>No.<|user|>"
    messages = codec.decode(ids_of(codec, text))
    assert [message["role"] for message in messages[:4]] == ["user", "assistant"] * 2
    assert messages[1]["reasoning"] == "Why."
    assert messages[3]["content"] == "No."


def test_reasoning_that_is_closed_and_was_not_opened() -> None:
    for format_ in ("glm4.5", "qwen3"):
        events = told(codec_of(format_), "</think>Yes.")
        assert message_of(events) == {"role": "assistant", "content": "Yes."}
        assert notices_of(events) == [("mended", "what opens reasoning is missing")]
    events = told(codec_of("deepseek:v3.1"), "</think>Yes.", "<｜User｜>x<｜Assistant｜>")
    assert notices_of(events) == []


PAIR = "<arg_key>a</arg_key><arg_value>b</arg_value>"


@pytest.mark.parametrize(
    ("call", "arguments", "odd"),
    [
        (f"f{PAIR}", {"a": "b"}, []),
        (f" f {PAIR}", {"a": "b"}, []),
        (f"\nf\n\n{PAIR}\n", {"a": "b"}, []),
        (f"f\n{PAIR}{PAIR.replace('a<', 'c<')}", {"a": "b", "c": "b"}, []),
        (f"f note {PAIR}", {"a": "b"}, ["note "]),
        (f"f\n(see below)\n{PAIR}", {"a": "b"}, ["(see below)\n"]),
        ("f", {}, []),
        ("f\n", {}, []),
        ("\n f \n", {}, []),
    ],
)
def test_calls(call: str, arguments: dict[str, Any], odd: list[str]) -> None:
    events = told(codec_of("glm4.5"), f"<tool_call>{call}</tool_call>")
    assert calls_of(events) == [("f", arguments)]
    assert notices_of(events) == [("malformed", text) for text in odd]


@pytest.mark.parametrize("value", ['["x", 1]', '[\\"x\\", 1]', '"[\\"x\\", 1]"', "['x', 1]"])
def test_arrays_in_quotes_and_escaped(value: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    call = f"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>"
    events = told(codec_of("glm4.5"), call, tools=tools)
    assert calls_of(events) == [("f", {"a": ["x", 1]})]
    mended = ("mended", "an argument was quoted or written as in Python")
    assert notices_of(events) == ([] if value.startswith('["') else [mended])


def test_later_templates_have_no_newline_after_roles() -> None:
    codec = codec_of("glm4.5")
    text = f"[gMASK]<sop><|system|>Be brief.<|user|>x<|assistant|><think></think>Yes.{CALL}"
    messages = codec.decode(ids_of(codec, f"{text}<|user|>\ny<|assistant|></think>No.<|user|>"))
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "user", "assistant"),
    ]
    assert [message.get("content") for message in messages] == [
        "Be brief.",
        "x",
        "Yes.",
        "y",
        "No.",
    ]


@pytest.mark.parametrize(
    "answer", [CALL, f"Yes.{CALL}", "Yes.", f"\n{CALL}", f"<think></think>{CALL}"]
)
@pytest.mark.parametrize("stop", ["<|user|>", "<|observation|>", "<|endoftext|>", ""])
def test_decode_reads_an_answer_as_parse_does(answer: str, stop: str) -> None:
    codec = codec_of("glm4.5")
    prompt, completion = ids_of(codec, USER), ids_of(codec, f"{answer}{stop}")
    parsed = codec.parse(completion, prompt=prompt)
    [_, last] = codec.decode(prompt + completion)
    assert last == parsed.message


@pytest.mark.parametrize("key", ["x", "\u0085", "\u2003"])
def test_a_key_that_is_cut_is_told(key: str) -> None:
    """White space of other alphabets is text: only JSON's belongs to the tags."""
    events = told(codec_of("glm4.5"), f"<tool_call>f\n<arg_key>{key}", USER)
    assert notices_of(events) == [("malformed", key)]
