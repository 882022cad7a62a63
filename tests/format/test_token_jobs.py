"""A control token of a format file has one job; a file whose token has two is refused with both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from chatcodec import Format, FormatError

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
name = "mine"
source = "a test"
guarantee = "ids"
generation = { prompt = "{A}" }
calls = { open = "{L}", close = "{LE}" }
[turn]
system = "{S}{content}{E}"
user = "{U}u\\n{content}{E}"
assistant = "{A}{?reasoning:{T}{reasoning}{TE}?}{content}{?calls:{calls}?}{E}"
tool = "{R}{content}{RE}"
[call.function]
item = "{C}{call}{CE}"
object = { name = "name", arguments = "arguments" }
"""

TEXT_ANSWER = """\
name = "mine"
source = "a test"
guarantee = "ids"
order = "alternate"
generation = { prompt = "" }
end = "{Z}"
[turn]
user = "{U}{content}{UE}"
assistant = "{content}{E}"
"""


def load(tmp_path: Path, text: str) -> Format:
    """The format of a file without its table of control tokens."""
    names = sorted(
        {name for group in re.findall(r"{([A-Z|]+)}", text) for name in group.split("|")}
    )
    control = "".join(f'{name} = "<|{name.lower()}|>"\n' for name in names)
    path = tmp_path / "mine.toml"
    path.write_text(f"{text}[control]\n{control}", encoding="utf-8")
    return Format.load(path)


@pytest.mark.parametrize("text", [FILE, TEXT_ANSWER])
def test_a_file_whose_tokens_have_one_job_each_loads(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).name == "mine"


AFTER_TOOL = '[after_tool]\nassistant = "{content}{S}"\n[call.function]'
WITHOUT_SYSTEM = '[turn]\nwithout_system = "{S}Use {U}.{E}"'

TWO_JOBS = [
    ("{C}{call}", "{U}f\\n{call}", "call.function.item", "U", "opens another's turn", "turn.user"),
    ('"{LE}"', '"{U}"', "turn.user", "U", "opens or closes calls", "calls.close"),
    ("u\\n{content}{E}", "u\\n{content}{S}", "turn.user", "S", "opens a turn", "turn.system"),
    ("[call.function]", AFTER_TOOL, "after_tool.assistant", "S", "opens a turn", "turn.system"),
    ('"{LE}"', '"{LE}{E}"', "calls.close", "E", "ends a turn", "turn.assistant"),
    ("{S}{content}", "{S}{content}{U}", "turn.system", "U", "opens or closes a turn", "turn.user"),
    ("{T}", "{RE}", "turn.assistant", "RE", "has another use", "turn.tool"),
    ("{TE}", "{T}", "turn.assistant", "T", "closes what it opens", "turn.assistant"),
    ("u\\n{content}", "u\\n{R}{content}{X}", "turn.user", "R", "has a use beside", "turn.tool"),
    ("u\\n{content}", "u\\n{X}{content}{X}", "turn.user", "X", "closes what it", "turn.user"),
    ("calls =", 'begin = "{U}"\ncalls =', "begin", "U", "opens a turn", "turn.user"),
    ("[turn]", WITHOUT_SYSTEM, "turn.without_system", "U", "opens or closes", "turn.user"),
]


@pytest.mark.parametrize("case", TWO_JOBS)
def test_a_token_with_two_jobs_is_refused_with_both_places(
    tmp_path: Path, case: tuple[str, str, str, str, str, str]
) -> None:
    old, new, key, token, does, other = case
    with pytest.raises(FormatError) as caught:
        load(tmp_path, FILE.replace(old, new))
    problem = str(caught.value)
    assert f"`{key}` has `{{{token}}}`, which {does}" in problem
    assert f"in `{other}`; expected another token in one of the two" in problem


def test_what_ends_a_conversation_is_not_what_closes_an_empty_answer(tmp_path: Path) -> None:
    for answer in ("{content}", "{/}{content}"):
        text = TEXT_ANSWER.replace("{Z}", "{E}").replace("{content}{E}", answer + "{E}")
        with pytest.raises(FormatError, match=r"`end` has `{E}`, which closes a turn that may be"):
            load(tmp_path, text)
