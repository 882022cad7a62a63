"""What a release publishes: the pages of the packages, and the one place of the address."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import data
import docs_site
import pytest

README = {
    "pyproject.toml": "python/README.md",
    "rust/core/Cargo.toml": "rust/core/README.md",
    "rust/vocab/Cargo.toml": "rust/vocab/README.md",
}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def manifest(name: str) -> dict[str, Any]:
    table = tomllib.loads((data.ROOT / name).read_text("utf-8"))
    package: dict[str, Any] = table["project"] if name == "pyproject.toml" else table["package"]
    return package


@pytest.mark.parametrize(("name", "page"), README.items())
def test_the_page_of_a_package_has_no_relative_links(name: str, page: str) -> None:
    """A registry shows the page far from the files."""
    folder, _, _ = name.rpartition("/")
    assert f"{folder}/{manifest(name)['readme']}".lstrip("/") == page
    text = (data.ROOT / page).read_text("utf-8")
    assert [link for link in LINK.findall(text) if "://" not in link] == []
    assert "guarantee" in text or "never becomes" in text


def test_the_page_of_the_crate_has_the_example_that_is_run() -> None:
    page = (data.ROOT / "rust/core/README.md").read_text("utf-8")
    (code,) = re.findall(r"```rust\n(.*?)```", page, re.DOTALL)
    lesson = (data.ROOT / "rust/core/src/lib.rs").read_text("utf-8")
    for line in code.splitlines():
        assert f"//! {line}\n" in lesson or not line


def test_the_page_of_the_wheel_names_the_extras() -> None:
    page = (data.ROOT / "python/README.md").read_text("utf-8")
    extras = manifest("pyproject.toml")["optional-dependencies"]
    rows = "".join(line for line in page.splitlines() if line.startswith("|"))
    assert {*re.findall(r"`(\w+)`", rows)} == extras.keys()


def test_the_address_of_the_project_has_one_place() -> None:
    """Cargo.toml, from which the crates and the site take it."""
    address = docs_site.address()
    crates = [manifest(name).get("repository") for name in README if name.startswith("rust")]
    assert crates == [{"workspace": True} if address else None] * 2
    assert "urls" not in manifest("pyproject.toml")
    written = [
        path.relative_to(data.ROOT).as_posix()
        for path in (*data.ROOT.glob("*.md"), *(data.ROOT / "docs").rglob("*.md"),
                     *(data.ROOT / name for name in README.values()))
        if re.search(r"github\.com/[\w-]+/chatcodec\b", path.read_text("utf-8"))
    ]  # fmt: skip
    assert written == []


def test_no_page_tells_people_to_install_a_name_that_nobody_has() -> None:
    """Until the name is the project's: pages of the repository say a clone, or a wheel's file."""
    pages = [*data.ROOT.glob("*.md"), *(data.ROOT / "docs").rglob("*.md")]
    wrong = [
        f"{path.name}: {line}"
        for path in pages
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"pip install [^`]*\bchatcodec\b(?![/\\-])", line) and ".whl" not in line
    ]
    assert wrong == []
