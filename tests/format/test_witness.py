"""A refused format file shows a conversation that it would read as another one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from chatcodec import Format, FormatError, Vocab, VocabError, Witness
from chatcodec.check.vocabulary import vocabulary_of
from clock import within

if TYPE_CHECKING:
    from pathlib import Path

MINE = """
name = "mine"
guarantee = "ids"
source = "a test"
generation = { prompt = "{START}assistant\\n" }
[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
[turn]
system = "{START}system\\n{content}{STOP}\\n"
user = "{START}user\\n{content}{STOP}\\n"
assistant = "{START}assistant\\n{content}{STOP}\\n"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def found(path: Path) -> Witness:
    with pytest.raises(FormatError):
        Format.load(path)
    witness = Format.witness(path, Vocab.embedded())
    assert witness is not None
    return witness


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{START}user\\n", "{START}"),
        ("{START}assistant\\n", "{START}"),
        ("{START}user", "{START}system"),
    ],
)
def test_a_refused_file_shows_messages_that_come_back_as_others(
    tmp_path: Path, old: str, new: str
) -> None:
    witness = found(written(tmp_path, MINE.replace(old, new)))
    assert witness.messages
    assert witness.read != witness.expected or witness.notices
    assert witness.tools is None
    content = [message["content"] for message in witness.messages]
    assert all(text in witness.text for text in content)


def test_the_conversation_is_small_and_always_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, MINE.replace("{START}user\\n", "{START}"))
    first, second = found(path), found(path)
    assert (first.text, first.messages) == (second.text, second.messages)
    assert len(first.messages) == 1
    assert len(first.text) < 80
    assert repr(first) == f"Witness({first.text!r})".replace("'", '"')


def test_a_file_that_loads_has_none(tmp_path: Path) -> None:
    assert Format.witness(written(tmp_path, MINE), Vocab.embedded()) is None


def test_what_is_no_format_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, MINE.replace("{STOP}", "{STPO}"))
    with pytest.raises(FormatError, match="STPO"):
        Format.witness(path, Vocab.embedded())
    path = written(tmp_path, MINE.replace("im_start", "begin").replace("{START}user\\n", "{START}"))
    with pytest.raises(VocabError, match=re.escape("<|begin|>")):
        Format.witness(path, Vocab.embedded())
    with pytest.raises(FileNotFoundError):
        Format.witness(tmp_path / "none.toml", Vocab.embedded())


ENDLESS = """
name = "random"
source = "the tests"
guarantee = "ids"
reasoning = "since_last_answer"
[control]
U = "<|u|>"
T = "<|t|>"
TE = "<|te|>"
C = "<|c|>"
CE = "<|ce|>"
K = "<|k|>"
KE = "<|ke|>"
[generation]
prompt = "\\n\\n{T}\\n\\n\\n"
no_thinking = ""
[turn]
user = "{U}\\n\\n{content}"
assistant = [
  "\\n\\n{T}\\n\\n{reasoning}\\n{TE}\\n\\n{content}{?calls:{calls}?}",
  "\\n\\n{T}\\n\\n\\n{TE}\\n\\n{content}{?calls:{calls}?}",
]
[after_tool]
assistant = "{content}{?calls:{calls}?}"
[call.function]
item = "{C}\\n{call}{CE}"
object = { name = "name", arguments = "arguments" }
[call.code]
item = "{K}{language}\\n{source}\\n{KE}"
"""
"""A refused file by which a stream reads the same text again without an end."""


def test_reading_that_would_never_end_is_ended(tmp_path: Path) -> None:
    path = written(tmp_path, ENDLESS)
    with pytest.raises(FormatError):
        Format.load(path)
    within(5, lambda: Format.witness(path, vocabulary_of(ENDLESS)))


def test_a_large_file_takes_bounded_time(tmp_path: Path) -> None:
    # The loader refuses the file, and no conversation shows why: all of them are tried.
    more = f"""
default_system = "{"a b " * 200_000}"
end = "{{X}}"
place = {{ tools = "first" }}
[control]
X = "<|plugin|>"
"""
    text = MINE.replace("\n[control]", more, 1) + 'tools = "{START}system\\nA{X}{tools}{STOP}\\n"\n'
    path = written(tmp_path, text)
    with pytest.raises(FormatError, match=r"`turn\.tools` has `\{X\}`"):
        Format.load(path)
    assert within(5, lambda: Format.witness(path, Vocab.embedded())) is None
