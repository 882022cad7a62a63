"""What a command imports is in its extra: each runs where nothing else is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from typing import TYPE_CHECKING

import pytest
from chatcodec.cli.serving import _NEEDED
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from pathlib import Path

ALONE = """
import json, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name in ABSENT else self.finder.find_spec(name, path, target)

ABSENT = set(json.loads(sys.argv[1]))
sys.meta_path[:] = map(Without, sys.meta_path)
del sys.argv[1]
"""
PREPARE = "from chatcodec.cli import main; sys.exit(main())"
SERVE = "import chatcodec.serve.demo, chatcodec.serve.protocol, chatcodec.serve.run"
SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def closure(names: set[str]) -> set[str]:
    """Distributions with all that they require."""
    found: set[str] = set()
    waiting = {name.lower().replace("_", "-") for name in names}
    while waiting:
        name = waiting.pop()
        found.add(name)
        for line in requires(name) or []:
            each = Requirement(line)
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                waiting |= {each.name.lower().replace("_", "-")} - found
    return found


def run_with(names: set[str], script: str, *arguments: str) -> None:
    """Run a script where of all third-party packages only these are there."""
    present = closure(names)
    absent = [
        module
        for module, owners in packages_distributions().items()
        if not any(owner.lower().replace("_", "-") in {*present, "chatcodec"} for owner in owners)
    ]
    assert "numpy" in absent
    command = [sys.executable, "-c", ALONE + script, json.dumps(absent), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def extra(name: str) -> set[str]:
    """The packages of an extra."""
    asked = map(Requirement, requires("chatcodec") or [])
    return {each.name for each in asked if each.marker and each.marker.evaluate({"extra": name})}


@pytest.mark.parametrize("more", [(), ("--html",), ("--pack", "64"), ("--keep", "id")])
def test_files_are_prepared_with_pyarrow_alone(tmp_path: Path, more: tuple[str, ...]) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"id": 1, "messages": SAID}) + "\n")
    words = ["prepare", "--vocab", "embedded", "--labels", str(file), str(tmp_path / "out"), *more]
    run_with(extra("arrow"), PREPARE, *words)


def test_the_gateway_needs_what_its_error_names() -> None:
    run_with(extra("serve"), SERVE)
    run_with({name.replace("_", "-") for name in _NEEDED}, SERVE)


@pytest.mark.parametrize("name", _NEEDED)
def test_what_the_error_names_is_needed(name: str) -> None:
    script = ALONE + SERVE
    command = [sys.executable, "-c", script, json.dumps([name])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"No module named '{name}'" in done.stderr
