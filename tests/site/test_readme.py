"""The documents' code runs and prints what they claim.

In README.md and docs/*.md a block marked `python` is run, in the namespace of those before it in
the file. A block marked `text` that follows it, with nothing but white space between, is what it
prints; without one it prints nothing. A block marked `toml` that has a `name` is there as
`<name>.toml`. On the first pages the commands are run, too.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import chatcodec
import data
import docs_site
import pytest
import reference

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$(?=(\s*)(```text\n)?)", re.MULTILINE | re.DOTALL)

DOCUMENTS = sorted(
    path.relative_to(data.ROOT).as_posix()
    for path in (*data.ROOT.glob("README*.md"), *(data.ROOT / "docs").glob("*.md"))
    if "```python\n" in path.read_text(encoding="utf-8")
)


def run_blocks(text: str, folder: Path, name: str) -> int:
    """Runs the blocks of a document and checks what they print; how many there were."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    ran = 0
    for block in BLOCK.finditer(text):
        language, code, _, claim_follows = block.groups()
        line = text.count("\n", 0, block.start()) + 2
        if printed is not None:
            assert printed == code, f"{name}:{line}: not what the block before prints"
            printed = None
        elif language == "toml" and (of := tomllib.loads(code).get("name")):
            (folder / f"{of}.toml").write_text(code, encoding="utf-8")
        elif language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                # As many lines before it as in the document, for tracebacks.
                exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)  # noqa: S102
            ran += 1
            if claim_follows:
                printed = out.getvalue()
            else:
                assert not out.getvalue(), f"{name}:{line}: prints what no block after it says"
    return ran


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_code_of_a_document_prints_what_it_claims(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (data.ROOT / document).read_text(encoding="utf-8")
    assert run_blocks(text, tmp_path, document) == text.count("```python\n")


FRONT = (
    "README.md",
    "README.zh.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/quickstart.zh.md",
)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Servers, which do not end, and installation.
NOT_RUN = ("chatcodec studio", "chatcodec serve", "pip ", "make ")


@pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")
@pytest.mark.parametrize("document", FRONT)
def test_the_commands_of_the_front_pages_run_in_a_fresh_folder(
    document: str, tmp_path: Path
) -> None:
    text = (data.ROOT / document).read_text(encoding="utf-8")
    commands = "".join(SHELL.findall(text)).splitlines(keepends=True)
    script = "".join(line for line in commands if not line.startswith(NOT_RUN))
    assert "chatcodec " in script
    folder = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["/bin/sh", "-euc", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": folder},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    pages = list(tmp_path.glob("*.html"))
    assert pages
    for page in pages:
        assert page.read_bytes().startswith(b"<!doctype html>")


def test_the_site_has_each_page_and_no_link_to_nothing() -> None:
    texts = docs_site.pages()
    docs_site.check_links(texts)
    assert set(texts) > {file for _, file in docs_site.NAVIGATION} - {"changelog.md"}
    assert "### `Codec`" in texts["reference-models.md"]
    assert "(reference-encode.md#codecencode)" in texts["reference.md"]
    assert "| control token |" in texts["glossary.md"]


def test_the_reference_has_each_public_name_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reference.missing() == set()
    core = reference.definitions(reference.PACKAGE / reference.TOP)
    names = [name for task in reference.TASKS.values() for name in task.names]
    assert len(set(names)) == len(names)
    assert {name for name in chatcodec.__all__ if name in core} <= {*names}
    headings = re.findall(r"^#+ `([\w.]+)`$", "".join(reference.pages().values()), re.MULTILINE)
    assert [name for name in headings if name.rpartition(".")[2].startswith("_")] == []
    monkeypatch.setitem(reference.TASKS, "constrain", reference.Task("x", "y", "Constraint"))
    with pytest.raises(SystemExit, match=r"Codec\.constrain"):
        reference.pages()


@pytest.mark.parametrize("link", ["[x](nothing.md)", "[x](#nothing)", "[x](safety.md#nothing)"])
def test_a_link_to_nothing_ends_the_build(link: str) -> None:
    with pytest.raises(SystemExit, match="nothing"):
        docs_site.check_links({"index.md": f"# Title\n\n{link}\n", "safety.md": "# Safety\n"})


@pytest.mark.parametrize(
    "path",
    [
        *data.ROOT.glob("*.md"),
        *(data.ROOT / "docs").rglob("*.md"),
        *(data.ROOT / "benches").glob("*.md"),
    ],
    ids=lambda path: path.relative_to(data.ROOT).as_posix(),
)
def test_a_link_of_a_file_leads_to_a_file(path: Path) -> None:
    """In the repository as in the site, where the pages are in one folder."""
    text = path.read_text(encoding="utf-8")
    targets = [
        found["target"] for found in docs_site.LINK_OR_CODE.finditer(text) if found["target"]
    ]
    wrong = []
    for target in targets:
        file, _, anchor = target.partition("#")
        led = path.parent / file if file else path
        if "://" in target or (led.exists() and not anchor):
            continue
        headings = docs_site.HEADING.findall(led.read_text("utf-8")) if led.is_file() else []
        if anchor not in {docs_site.slug(heading) for heading in headings}:
            wrong.append(target)
    assert wrong == []


def test_the_readme_has_code() -> None:
    assert "README.md" in DOCUMENTS


DOCUMENT = """\
# Title

```python
x = 1
print(x)
```

```text
1
```

Prose.

```python
assert x == 1
```

Below is a picture.

```text
a picture
```

```python
print(x + 1)
```
```text
2
```
"""


def test_a_document_that_tells_the_truth_passes(tmp_path: Path) -> None:
    assert run_blocks(DOCUMENT, tmp_path, "document.md") == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("print(x)\n```\n\n```text\n1\n", "print(x)\n```\n\n```text\n2\n"),
        ("print(x)\n```\n\n```text\n1\n", "print(x)\n```\n\n```text\n1\n2\n"),
        ("print(x)\n```\n\n```text\n1\n", "print(x)\n```\n\n```text\n1 \n"),
        ("assert x == 1", "assert x == 2"),
        ("assert x == 1", "print(x)"),
        ("Below is a picture.", ""),
        ("Prose.", "```python\nprint(x)\n```\n\nProse."),
        ("text\n2\n", "text\n3\n"),
    ],
)
def test_a_document_that_does_not_fails(tmp_path: Path, before: str, after: str) -> None:
    assert before in DOCUMENT
    with pytest.raises(AssertionError):
        run_blocks(DOCUMENT.replace(before, after), tmp_path, "document.md")


def test_a_format_in_a_document_is_a_file(tmp_path: Path) -> None:
    assert run_blocks('```toml\nname = "mine"\n```\n', tmp_path, "document.md") == 0
    assert (tmp_path / "mine.toml").read_text() == 'name = "mine"\n'


def test_code_in_tables_of_the_site_has_its_bars() -> None:
    r"""GitHub reads `\|` in code of a table as a bar; the site's generator shows the backslash."""
    table = r"| `<\|a\|>` | `x` | \| |"
    assert docs_site.with_bars(table) == (r"| <code>&lt;&#124;a&#124;&gt;</code> | `x` | \| |")
    assert docs_site.with_bars(r"a `\|` b") == r"a `\|` b"
    pages = "".join(docs_site.with_bars(text) for text in docs_site.pages().values())
    rows = re.findall(r"^\|.*$", pages, re.MULTILINE)
    assert len(rows) > 100
    assert [row for row in rows if re.search(r"`[^`]*\\\|[^`]*`", row)] == []
