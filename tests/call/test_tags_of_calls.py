"""Tags around a call's pairs that begin as the call itself does: no reader tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, Format
from chatcodec.errors import VocabError

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
name = "tags"
guarantee = "ids"
source = "a test"
vocabulary = "the embedded one"
generation = { prompt = "{A}bot\\n" }
[control]
A = "<|im_start|>"
B = "<|im_end|>"
C = "<|action_start|>"
D = "<|action_end|>"
[turn]
user = "{A}you\\n{content}{B}"
assistant = "{A}bot\\n{content}{?calls:{calls}?}{B}"
[call.function]
item = "{C}\\n<function={name}>\\n{arguments}</function>\\n{D}"
pair = "<parameter={key}>\\n{value}\\n</parameter>\\n"
"""
CALL: dict[str, Any] = {
    "type": "function",
    "id": "call_0",
    "function": {"name": "f", "arguments": '{"a": 1}'},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
]


@pytest.mark.parametrize("opener", ["<function=", "<f="])
def test_other_text_before_the_name_comes_back(tmp_path: Path, opener: str) -> None:
    path = tmp_path / "tags.toml"
    path.write_text(FILE.replace("<function=", opener), encoding="utf-8")
    codec = Codec(Format.load(path), vocab="embedded")
    assert codec.decode(codec.encode(MESSAGES).ids) == MESSAGES


@pytest.mark.parametrize("opener", ["<", "<p", "</"])
def test_the_beginning_of_a_tag_before_the_name_is_refused(tmp_path: Path, opener: str) -> None:
    path = tmp_path / "tags.toml"
    path.write_text(FILE.replace("<function=", opener), encoding="utf-8")
    with pytest.raises(VocabError, match="begins as a call does before its name"):
        Codec(Format.load(path), vocab="embedded")
