"""`turn.without_system`: the turn of a conversation without a system message, with the day."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, Format, FormatError, MessageError
from data import appended

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
name = "day"
source = "the tests"
guarantee = "ids"
generation = { prompt = "{A}" }
place = { tools = "after_system" }
[control]
S = "<|s|>"
U = "<|u|>"
A = "<|a|>"
E = "<|e|>"
T = "<|t|>"
[turn]
system = "{S}{content}{E}"
without_system = [
  "{S}Help.{?date: It is {date:month_day}.?} {T}.{E}",
  "{S}On{?date: {date:day_month}?}: call.{E}",
]
tools = "{S}Tools: {tools}{E}"
user = "{U}{content}{E}"
assistant = "{A}{content}{E}"
"""

USER = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def codec_of(path: Path, text: str = FILE) -> Codec:
    file = path / "day.toml"
    file.write_text(text)
    spellings = re.findall(r'= "(<\|\w+\|>)"', text)
    return Codec(Format.load(file), appended(tuple(spellings)))


@pytest.mark.parametrize(
    ("date", "tools", "written"),
    [
        (None, None, "Help. <|t|>."),
        ("2025-06-08", None, "Help. It is June 08, 2025. <|t|>."),
        ("2024-02-29", TOOLS, "On 29 February 2024: call."),
        (None, TOOLS, "On: call."),
    ],
)
def test_a_conversation_without_a_system_message_has_the_turn(
    tmp_path: Path, date: str | None, tools: list[dict[str, object]] | None, written: str
) -> None:
    codec = codec_of(tmp_path)
    assert codec.format.options == ["date"]
    options: dict[str, Any] = {} if date is None else {"date": date}
    encoding = codec.encode(USER, tools=tools, **options)
    declared = "" if tools is None else f"<|s|>Tools: {json.dumps(tools)}<|e|>"
    assert encoding.text == f"<|s|>{written}<|e|>{declared}<|u|>Hi<|e|><|a|>"
    decoded = codec.decode(encoding)
    assert decoded[0] == {"role": "system", "content": written}
    if date is None:
        assert codec.canonical(USER, tools=tools) == decoded
    assert sum(encoding.is_control) == encoding.text.count("<|")


def test_a_system_message_stands_in_its_place(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    given = [{"role": "system", "content": "On"}, *USER]
    assert codec.encode(given, date="2025-06-08").text == "<|s|>On<|e|><|u|>Hi<|e|><|a|>"
    assert codec.encode([]).text == "<|a|>"


@pytest.mark.parametrize("date", ["8 June 2025", "today", "2025-13-01", "<|e|>", ""])
def test_a_date_that_is_spelled_out_is_a_day(tmp_path: Path, date: str) -> None:
    codec = codec_of(tmp_path)
    with pytest.raises(MessageError, match="`date` is"):
        codec.encode(USER, date=date)


def test_a_date_that_stays_as_it_is_may_be_any_word(tmp_path: Path) -> None:
    text = re.sub(r"\{date:\w+\}", "{date}", FILE)
    codec = codec_of(tmp_path, text)
    assert "It is today." in codec.encode(USER, date="today").text


def test_white_space_beside_a_token_is_no_end_of_the_text(tmp_path: Path) -> None:
    """A system row that trims reads the turn whole: only its own ends are trimmed."""
    trimmed = FILE.replace('system = "{S}{content}{E}"', 'system = "{S}{content:trim}{E}"')
    assert codec_of(tmp_path, trimmed).encode(USER).text.startswith("<|s|>Help. <|t|>.<|e|>")
    for old, new in (("{S}Help.", "{S} Help."), (" {T}.{E}", " {T}. {E}")):
        with pytest.raises(FormatError, match="has white space at an end of its text"):
            codec_of(tmp_path, trimmed.replace(old, new))
