"""The table of keys has the keys that the loader expects, and a comment for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import data
import format_keys
import pytest
from chatcodec import Format, FormatError

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (data.ROOT / "docs" / "generated" / "format-keys.md").read_text("utf-8")
KEYS = [key.split(".") for key in re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE)]
TABLES = ["turn", "place", "generation", "calls", "results", "tools", "last", "frame", "options"]


def expected(path: Path, table: str) -> set[str]:
    """The keys that the loader names where a table has another one."""
    text = "name = 'x'\nzzz = 1\n" if not table else f"name = 'x'\n[{table}]\nzzz = 'a'\n"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError) as caught:
        Format.load(path)
    _, _, named = str(caught.value).partition("expected ")
    return set(re.findall(r"`(\w+)`", named))


def test_the_table_has_the_keys_of_the_file(tmp_path: Path) -> None:
    assert {key[0] for key in KEYS} == expected(tmp_path / "file.toml", "")


@pytest.mark.parametrize("table", TABLES)
def test_the_table_has_the_keys_of_a_table(table: str, tmp_path: Path) -> None:
    assert {key[1] for key in KEYS if key[0] == table} == expected(tmp_path / "file.toml", table)


def test_a_key_without_a_comment_is_an_error() -> None:
    known = format_keys.types()
    (member, *_) = known["TurnFile"].members
    known["TurnFile"].members[0] = format_keys.Member(member.name, member.type, "", "")
    with pytest.raises(SystemExit, match=r"TurnFile\.system"):
        list(format_keys.rows(known, format_keys.ROOT))
