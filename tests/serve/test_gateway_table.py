"""The table of faults: each named test exists."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = {file.name: file for file in HERE.parent.rglob("test_*.py")}
TABLE = tomllib.loads((HERE / "gateway_faults.toml").read_text("utf-8"))
ROWS = {f"{part} {number}": row for part in TABLE for number, row in TABLE[part].items()}


def defined_in(file: str) -> set[str]:
    """Names of the tests that a file defines."""
    tree = ast.parse(FILES[file].read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_is_whole() -> None:
    assert list(TABLE["gateway"]) == [str(number) for number in range(1, 33)]
    assert all(set(row) == {"fault", "tests"} and row["fault"] for row in ROWS.values())


@pytest.mark.parametrize("row", ROWS)
def test_each_named_test_exists(row: str) -> None:
    assert ROWS[row]["tests"], "a fault without a test"
    for named in ROWS[row]["tests"]:
        file, _, name = named.partition("::")
        assert name.startswith("test_"), named
        assert file in FILES, named
        assert name in defined_in(file), named
