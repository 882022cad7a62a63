"""The check that imports run down the floors finds those that do not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "floors.py"
SPEC = importlib.util.spec_from_file_location("floors", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
floors = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(floors)

LIBRARY = "//! A crate.\n\nmod ground;\nmod other;\n\nmod first;\n\nmod top;\n"


def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> list[str]:
    """What the check says of a crate."""
    monkeypatch.setattr(floors, "ROOT", tmp_path)
    for name, text in {"lib.rs": LIBRARY, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found: list[str] = floors.rising(tmp_path)
    return found


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("ground.rs", "use crate::first::Thing;"),
        ("ground.rs", "use super::top::Thing;"),
        ("ground.rs", "use crate::other::Thing;"),
        ("first.rs", "use crate::{ground::A, top::B};"),
        ("first/part.rs", "use super::super::top::Thing;"),
        ("first/mod.rs", "fn f() { crate::top::g() }"),
        ("lost.rs", ""),
    ],
)
def test_imports_that_run_up_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, line: str
) -> None:
    assert len(check(tmp_path, monkeypatch, {file: line})) == 1


def test_imports_that_run_down_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "first.rs": "use crate::ground::A;\nuse crate::other::B; // not crate::top\n",
        "first/part.rs": "use super::Thing;\nuse crate::ground::A;\n",
        "top.rs": "use crate::{first, ground::A};\n#[cfg(test)]\nmod tests { use crate::top; }\n",
        "ground.rs": "#[cfg(test)]\nmod tests { use crate::top::Thing; }\n",
    }
    assert check(tmp_path, monkeypatch, files) == []


PAGE = (SCRIPT.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("crate", floors.CRATES)
def test_the_page_draws_the_floors(crate: str) -> None:
    known = floors.floors((SCRIPT.parent.parent / crate / "lib.rs").read_text(encoding="utf-8"))
    section = PAGE.split(f"### `{crate}`", 1)[1].split("\n#", 1)[0]
    drawn = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].isdigit():
            drawn.update(dict.fromkeys(cells[1].replace("`", "").split(", "), int(cells[0])))
    assert drawn == known


def test_the_files_that_the_pages_name_are_there() -> None:
    root = SCRIPT.parent.parent
    sources = [
        f"/{path.relative_to(root)}"
        for folder in ("rust", "tests")
        for path in (root / folder).rglob("*.rs")
    ]
    pages = [PAGE, *(page.read_text(encoding="utf-8") for page in (root / "docs").glob("*.md"))]
    named = [word for page in pages for word in re.findall(r"`([\w./]+)`", page)]
    files = [word for word in named if word.endswith(".rs")]
    folders = [word for word in named if word.startswith("rust/") and not word.endswith(".rs")]
    assert len(files) > 20
    assert [name for name in files if not any(file.endswith(f"/{name}") for file in sources)] == []
    assert [name for name in folders if not (root / name).exists()] == []


def test_each_behaviour_names_tests_that_are_there() -> None:
    section = PAGE.split("## Where is it?\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    named = {cells[0].strip(): re.findall(r"`([\w./]+)`", cells[-1]) for cells in rows[1:]}
    assert len(named) > 40
    assert [behaviour for behaviour, files in named.items() if not files] == []
    files = [file for files in named.values() for file in files]
    assert [file for file in files if not (SCRIPT.parents[1] / "tests" / file).is_file()] == []
