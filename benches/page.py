"""The page of a run: Markdown, with the words of `page.toml`. Pure."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from . import targets
from .contenders import OURS
from .figures import figure, table, times, with_spread
from .results import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .results import Results, Row

Line = tuple[str, tuple[Key, ...]]
"""A line of a table: its label, and its rows, whose figures share a cell."""

WORDS = tomllib.loads(Path(__file__).with_name("page.toml").read_text(encoding="utf-8"))


def render(results: Results, *, plots: bool) -> str:
    """The whole page."""
    parts = [WORDS["head"], _about(results), "## Targets", targets.render(results)]
    for section, words in WORDS["sections"].items():
        rows = dict(results.of(section))
        if not rows:
            continue
        parts += [f"## {words['title']}", words["text"]]
        if plots and "plot" in words:
            parts.append(f"![{words['title']}](benchmarks/{words['plot']})")
        for vocabulary in dict.fromkeys(key.vocabulary for key in rows):
            some = {key: row for key, row in rows.items() if key.vocabulary == vocabulary}
            parts += [f"### {vocabulary}", _table(some, paired="hot" in words)]
            parts += _notes(some)
    parts += ["## Where a peer is ahead", _behind(results)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _about(results: Results) -> str:
    machine = results.about["machine"]
    versions = ", ".join(f"{name} {is_}" for name, is_ in results.about["versions"].items())
    lines = [f"- {name}: {said}" for name, said in machine.items()]
    return "\n".join(
        [
            "## The run",
            "",
            *lines,
            f"- Versions: {versions}",
            *(f"- {note}" for note in results.notes),
            "",
            WORDS["reproduce"],
        ]
    )


def _table(rows: dict[Key, Row], *, paired: bool) -> str:
    columns = list(dict.fromkeys(name for row in rows.values() for name in row.cells))
    columns.sort(key=lambda name: name != OURS)
    heads = ["fresh · hot" if paired else "", *columns]
    compared = len(columns) > 1
    if compared:
        heads.append("best peer / ours")
    made = []
    for label, keys in _lines(rows, paired=paired):
        found = [rows[key] for key in keys if key in rows]
        cells = [" · ".join(_cell(row, name) for row in found) for name in columns]
        ratios = [" · ".join(_ratio(row) for row in found)] if compared else []
        made.append([label, *("" if cell.strip(" ·—") == "" else cell for cell in cells), *ratios])
    return table(heads, made)


def _lines(rows: Iterable[Key], *, paired: bool) -> Iterable[Line]:
    """Fresh and hot of the same thing share a line."""
    for key in rows:
        if not key.measure:
            continue
        label = ", ".join(part for part in (key.what, key.measure) if part not in {"", "fresh"})
        if not paired:
            yield label, (key,)
        elif key.measure.startswith("fresh"):
            out = key.measure.removeprefix("fresh ")
            hot = key._replace(measure=f"hot {out}")
            yield f"{key.what}, {out}", (key, hot)


def _cell(row: Row, name: str) -> str:
    if name not in row.cells:
        return "—"
    return with_spread(row.cells[name].summary, row.unit)


def _ratio(row: Row) -> str:
    best = row.best_peer()
    if best is None or OURS not in row.cells:
        return "—"
    return f"**{times(row.cells[best].summary.median / row.cells[OURS].summary.median)}**"


def _notes(rows: dict[Key, Row]) -> Sequence[str]:
    """Notes, each once, with the texts that they are of."""
    said: dict[tuple[str, str], list[str]] = {}
    for key, row in rows.items():
        for name, note in row.notes.items():
            where = said.setdefault((name, note), [])
            if key.what not in where:
                where.append(key.what)
    lines = [
        f"- {name}, {', '.join(where)}: {_plain(note)}" for (name, note), where in said.items()
    ]
    return ["\n".join(lines)] if lines else []


def _plain(note: str) -> str:
    """A note as one line of Markdown that means itself."""
    return "`" + " ".join(note.split()).replace("`", "'") + "`"


def _behind(results: Results) -> str:
    lines = []
    for key, row in results.rows.items():
        best = row.best_peer()
        if best is None or OURS not in row.cells:
            continue
        ours, theirs = row.cells[OURS].summary.median, row.cells[best].summary.median
        if theirs < ours:
            lines.append(
                [
                    ", ".join(part for part in key if part),
                    figure(ours, row.unit),
                    f"{best} {figure(theirs, row.unit)}",
                    times(theirs / ours),
                ]
            )
    if not lines:
        return "In no row."
    return table(["", OURS, "the best exact peer", "best peer / ours"], lines)
