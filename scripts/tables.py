"""Writes the tables of formats into README.md and docs/formats.md, from the format files.

`python scripts/tables.py` writes them, `--check` fails where they are not up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec import Format, formats

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""

    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def formats_table() -> str:
    """Name, guarantee, kinds of vocabulary and source of every built-in format."""
    rows = []
    for name in formats():
        known = Format.built_in(name)
        rows.append((f"`{name}`", known.guarantee, known.vocabulary, known.source))
    return table(("format", "guarantee", "vocabulary", "source"), rows)


def losses_table() -> str:
    """What each built-in format loses beside what all of them do."""
    losses = {name: Format.built_in(name).losses for name in formats()}
    shared = set.intersection(*map(set, losses.values()))
    rows = [("all", loss) for loss in losses[formats()[0]] if loss in shared]
    by_loss: dict[str, list[str]] = {}
    for name, of_format in losses.items():
        for loss in of_format:
            if loss not in shared:
                by_loss.setdefault(loss, []).append(f"`{name}`")
    rows += [(", ".join(names), loss) for loss, names in by_loss.items()]
    return table(("format", "what a round trip loses"), rows)


def updated(text: str, name: str, content: str) -> str:
    """The text with a table between its marks."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def main() -> int:
    """Writes or checks; the exit code."""
    stale = []
    for path, name, content in [
        (ROOT / "README.md", "formats", formats_table()),
        (ROOT / "docs" / "formats.md", "losses", losses_table()),
    ]:
        text = path.read_text(encoding="utf-8")
        new = updated(text, name, content)
        if new != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.stderr.write(f"not up to date: {', '.join(stale)}; run scripts/tables.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
