"""Messages that a format reads and does not write: its models' template writes them otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, Format, MessageError

if TYPE_CHECKING:
    from pathlib import Path

    from naive import Message

FORMAT = """
name = "mine"
guarantee = "ids"
source = "a test"
refuses = [{refuses}]
reasoning = "since_last_user"
place = {{ tools = "system" }}
generation = {{ prompt = "{{START}}assistant\\n", thinking = "{{START}}assistant\\n{{THINK}}\\n" }}

[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
THINK = "<think>"
THINK_END = "</think>"
CALL = "<tool_call>"
CALL_END = "</tool_call>"

[turn]
system = "{{START}}system\\n{{content}}{{STOP}}\\n"
tools = "{{START}}system\\n{{?system:{{system}}\\n\\n?}}# Tools\\n{{tools}}{{STOP}}\\n"
user = "{{START}}user\\n{{content}}{{STOP}}\\n"
assistant = [
  "{{START}}assistant\\n{{THINK}}\\n{{reasoning}}\\n{{THINK_END}}\\n{{content}}{{?calls:{{calls}}?}}{{STOP}}\\n",
  "{{START}}assistant\\n{{content}}{{?calls:{{calls}}?}}{{STOP}}\\n",
]
tool = "{{START}}tool\\n{{content}}{{STOP}}\\n"

[call.function]
item = "{{CALL}}{{call}}{{CALL_END}}"
object = {{ name = "name", arguments = "arguments" }}
"""
TOKENS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
QUESTION = {"role": "user", "content": "x"}


def answer(content: str = "y", **more: Any) -> Message:  # noqa: ANN401
    return {"role": "assistant", "content": content, **more}


def calling(arguments: dict[str, Any], content: str = "") -> Message:
    function = {"name": "f", "arguments": json.dumps(arguments, ensure_ascii=False)}
    return answer(content, tool_calls=[{"type": "function", "id": "c", "function": function}])


def result(**more: Any) -> Message:  # noqa: ANN401
    return {"role": "tool", "content": "r", "tool_call_id": "c", **more}


def tool(description: str) -> list[dict[str, Any]]:
    function = {"name": "f", "description": description, "parameters": {"type": "object"}}
    return [{"type": "function", "function": function}]


KINDS: dict[str, tuple[str, list[Message], dict[str, Any]]] = {
    "empty system": ("messages[0].content", [{"role": "system", "content": ""}, QUESTION], {}),
    "blank system": ("messages[0].content", [{"role": "system", "content": " \n"}, QUESTION], {}),
    "empty answer": ("messages[1].content", [QUESTION, answer(" ")], {}),
    "empty reasoning": ("messages[1].reasoning", [QUESTION, answer(reasoning="\n")], {}),
    "white space before answers": ("messages[1].content", [QUESTION, answer(" y")], {}),
    "line break before answers": ("messages[1].content", [QUESTION, answer("\ny")], {}),
    "white space beside calls": ("messages[1].content", [QUESTION, calling({}, "y ")], {}),
    "nested arguments": (
        "messages[1].tool_calls[0]",
        [QUESTION, calling({"a": 1, "b": {"c": []}})],
        {},
    ),
    "reasoning of earlier answers": (
        "messages[1].reasoning",
        [QUESTION, answer(reasoning="hm"), QUESTION],
        {},
    ),
    "mixed reasoning": (
        "messages[3].reasoning",
        [QUESTION, {**calling({}), "reasoning": "hm"}, result(), answer()],
        {},
    ),
    "calls without tools": (
        "messages[1].tool_calls",
        [QUESTION, calling({}), result(), QUESTION, answer(reasoning="hm")],
        {},
    ),
    "several results": (
        "messages[3].role",
        [QUESTION, calling({}), result(), result()],
        {},
    ),
    "named results": ("messages[2].name", [QUESTION, calling({}), result(name="f")], {}),
    "JSON beyond ASCII": ("messages[1].tool_calls[0]", [QUESTION, calling({"a": "é"})], {}),
    "thinking beside tools": ("thinking", [QUESTION], {"tools": tool("a"), "thinking": True}),
}
"""For each kind: where it is, messages, and options."""


def codec_of(folder: Path, *refuses: str) -> Codec:
    path = folder / "mine.toml"
    listed = ", ".join(json.dumps(kind) for kind in refuses)
    path.write_text(FORMAT.format(refuses=listed), encoding="utf-8")
    return Codec(Format.load(path), data.appended(TOKENS))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_is_written_without_the_key(kind: str, tmp_path: Path) -> None:
    path, messages, options = KINDS[kind]
    encoding = codec_of(tmp_path).encode(messages, **options)
    codec = codec_of(tmp_path, kind)
    with pytest.raises(
        MessageError, match="which the template of the models of format `mine`"
    ) as e:
        codec.encode(messages, **options)
    assert e.value.path == path
    # A reader takes it all the same.
    assert codec.decode(encoding) == codec_of(tmp_path).decode(encoding)
    with pytest.raises(MessageError):
        codec_of(tmp_path, *KINDS).encode(messages, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_of_no_kind_is_written(kind: str, tmp_path: Path) -> None:
    plain = [QUESTION, calling({"a": 1}), result(), answer(), QUESTION, answer()]
    encoding = codec_of(tmp_path, kind).encode(plain, tools=tool("a"))
    assert encoding.text == codec_of(tmp_path).encode(plain, tools=tool("a")).text


@pytest.mark.parametrize(
    ("kind", "messages"),
    [
        ("empty system", [{"role": "system", "content": " \n"}, QUESTION]),
        ("line break before answers", [QUESTION, answer(" \ny")]),
    ],
)
def test_white_space_is_not_refused_by_a_narrower_kind(
    kind: str, messages: list[Message], tmp_path: Path
) -> None:
    encoding = codec_of(tmp_path, kind).encode(messages)
    assert encoding.text == codec_of(tmp_path).encode(messages).text


def test_what_says_nothing_is_left_out_by_request(tmp_path: Path) -> None:
    for kind in ("empty system", "empty reasoning", "named results"):
        _, messages, options = KINDS[kind]
        codec = codec_of(tmp_path, kind)
        encoding = codec.encode(messages, on_unsupported="drop", **options)
        assert len(encoding.dropped) == 1, kind
    _, messages, options = KINDS["white space beside calls"]
    with pytest.raises(MessageError):
        codec_of(tmp_path, "white space beside calls").encode(messages, on_unsupported="drop")


def test_what_a_model_wrote_is_extended(tmp_path: Path) -> None:
    """Only new messages are refused."""
    codec = codec_of(tmp_path, *KINDS)
    prompt = codec.encode([QUESTION], add_generation_prompt=True)
    _, messages, _ = KINDS["white space beside calls"]
    written = codec_of(tmp_path).encode(messages)
    completion = written.ids[len(prompt.ids) :]
    extended = codec.extend(prompt, completion, [{"role": "tool", "content": "r"}])
    assert extended.ids[: len(prompt.ids)].tolist() == prompt.ids.tolist()
    assert codec.decode(extended)[1]["content"].startswith("y ")
    with pytest.raises(MessageError, match=r"new_messages\[0\].content"):
        codec.extend(prompt, completion, [{"role": "system", "content": ""}, QUESTION])


def test_a_kind_that_is_unknown_or_given_twice(tmp_path: Path) -> None:
    from chatcodec import FormatError  # noqa: PLC0415

    with pytest.raises(FormatError, match="unknown variant `empty user`"):
        codec_of(tmp_path, "empty user")
    with pytest.raises(FormatError, match="refuses"):
        codec_of(tmp_path, "empty answer", "empty answer")
