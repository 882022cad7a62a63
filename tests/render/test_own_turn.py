"""The format's own first turn, where the system's row reads it: it is known by its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, Format, FormatError, MessageError
from data import appended
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

Message = dict[str, Any]

FILE = """
name = "own"
source = "this test"
guarantee = "ids"
begin = "{BOS}"
generation = { prompt = "{ASSISTANT}" }
place = { tools = "first" }
tools = { declare = "lines" }
options = { effort = ["max", "low"] }

[control]
BOS = "<s>"
SYSTEM = "<|system|>"
USER = "<|user|>"
ASSISTANT = "<|assistant|>"

[turn]
begin = "{SYSTEM}Effort: {effort:capital}"
system = "{SYSTEM}{content}"
tools = "{SYSTEM}Tools:\\n{tools}"
user = "{USER}{content}"
assistant = "{ASSISTANT}{content}"
"""
TOKENS = ("<|system|>", "<|user|>", "<|assistant|>")
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    path = tmp_path_factory.mktemp("own") / "own.toml"
    path.write_text(FILE, encoding="utf-8")
    return Codec(Format.load(path), appended(TOKENS))


def system(text: str) -> Message:
    return {"role": "system", "content": text}


MESSAGES = st.lists(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["system", "user", "assistant"]),
        st.sampled_from(["Hi", "Effort: Max", "Effort: Low", "Effort: Maximum", "x" * 40]),
    ),
    min_size=1,
    max_size=5,
)


@given(
    messages=MESSAGES,
    effort=st.sampled_from([None, "max", "low"]),
    tools=st.sampled_from([None, TOOLS]),
)
def test_it_stands_first_once(
    codec: Codec, messages: list[Message], effort: str | None, tools: list[Message] | None
) -> None:
    encoding = codec.encode(messages, tools=tools, effort=effort)
    is_given = messages[0] in (system("Effort: Max"), system("Effort: Low"))
    own = messages[0] if is_given else system(f"Effort: {(effort or 'max').capitalize()}")
    rest = messages[1:] if is_given else messages
    declared = f"<|system|>Tools:\n{TOOLS_LINE}" if tools else ""
    turns = "".join(f"<|{message['role']}|>{message['content']}" for message in rest)
    begin = f"<s><|system|>{own['content']}{declared}{turns}"
    assert encoding.text in (begin, begin + "<|assistant|>")
    read = codec.decode(encoding)
    assert read[0] == own
    assert read[1 + bool(tools) :] == rest
    again = codec.encode(read, add_generation_prompt=encoding.text != begin)
    assert again.ids.tolist() == encoding.ids.tolist()


TOOLS_LINE = '{"type": "function", "function": {"name": "f", "parameters": {}}}'


def test_white_space_and_case_do_not_matter(codec: Codec) -> None:
    question = {"role": "user", "content": "Hi"}
    for text in ("effort: max", " Effort:  LOW\n"):
        assert codec.encode([system(text), question]).text.startswith(
            f"<s><|system|>{text}<|user|>"
        )
    assert codec.encode([system("Effort: high"), question]).text.startswith(
        "<s><|system|>Effort: Max<|system|>Effort: high<|user|>"
    )


def test_an_effort_that_is_none_of_the_words_is_refused(codec: Codec) -> None:
    with pytest.raises(MessageError, match='`effort` is "Low", expected one of `max`'):
        codec.encode([{"role": "user", "content": "Hi"}], effort="Low")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("Effort: {effort:capital}", "Effort: {effort:trim}", "filter that `{effort}` cannot have"),
        ("Effort: {effort:capital}", "{?date:{date}?}{effort}", "expected literals and `{effort}`"),
        ('tools = "first"', 'tools = "first", system = "first"', "`place.system` to be `own`"),
        ("{SYSTEM}Effort", "{BOS}Effort", "is read back by no row"),
    ],
)
def test_files_that_cannot_be_read_back(tmp_path: Path, old: str, new: str, error: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(FILE.replace(old, new), encoding="utf-8")
    with pytest.raises(FormatError) as raised:
        Format.load(path)
    assert error in str(raised.value)
