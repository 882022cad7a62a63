"""All tables of a run: Markdown, with the words of `page.toml`. Pure."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import targets
from .contenders import OURS
from .figures import figure, table, times, with_spread
from .paths import DATA, ROOT
from .results import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .results import Results, Row

Line = tuple[str, tuple[Key, ...]]
"""A line of a table: its label, and its rows, whose figures share a cell."""

GLANCE = (
    ("document", "fresh flat"),
    ("message", "fresh list"),
    ("many", "fresh flat"),
    ("conversation", "fresh flat"),
)
"""The rows that are shown first."""

WORDS = tomllib.loads(Path(__file__).with_name("page.toml").read_text(encoding="utf-8"))


def render(results: Results, *, plots: bool) -> str:
    """The whole page."""
    parts = [WORDS["head"], _about(results)]
    parts += ["## At a glance", WORDS["glance"], _glance(results)]
    parts += ["## Targets", targets.render(results)]
    for section, words in WORDS["sections"].items():
        rows = dict(results.of(section))
        if not rows:
            continue
        parts += [f"## {words['title']}", words["text"]]
        if plots and "plot" in words:
            parts.append(f"![{words['title']}](../docs/benchmarks/{words['plot']})")
        if "columns" in words:
            parts += [_grid(rows, words), *_notes(rows, by_vocabulary=True), words["after"]]
            continue
        for vocabulary in dict.fromkeys(key.vocabulary for key in rows):
            some = {key: row for key, row in rows.items() if key.vocabulary == vocabulary}
            parts += [f"### {vocabulary}", _table(some, paired="hot" in words), *_notes(some)]
    parts += ["## Where a peer is ahead", *_behind(results)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _about(results: Results) -> str:
    machine = results.about["machine"]
    versions = results.about["versions"]
    vocabularies = dict.fromkeys(key.vocabulary for key in results.rows)
    texts = dict.fromkeys(key.what for key in results.rows)
    return "\n".join(
        [
            "## The run",
            "",
            *(f"- {name}: {said}" for name, said in machine.items()),
            *(f"- {note}" for note in results.notes),
            "",
            WORDS["reproduce"].strip(),
            "",
            table(
                ["contender", "version", "what it is"],
                [[name, is_, WORDS["contenders"][name]] for name, is_ in versions.items()],
            ),
            "",
            _described("vocabulary", vocabularies, WORDS["vocabularies"]),
            "",
            _described("text", texts, WORDS["texts"]),
        ]
    )


def _described(head: str, names: Iterable[str], words: Mapping[str, str]) -> str:
    return table([head, "what it is"], [[name, words[name]] for name in names if name in words])


def _glance(results: Results) -> str:
    """Ratios of fresh text alone: a line for each text, a column for each vocabulary."""
    lines: dict[str, dict[str, str]] = {}
    for section, measure in GLANCE:
        for key, row in results.of(section):
            best = row.best_peer()
            if key.measure != measure or best is None or OURS not in row.cells:
                continue
            line = f"{WORDS['sections'][section]['title']}: {key.what}"
            lines.setdefault(line, {})[key.vocabulary] = f"{_ratio(row)} ({best})"
    columns = list(dict.fromkeys(name for line in lines.values() for name in line))
    made = [[name, *(line.get(column, "—") for column in columns)] for name, line in lines.items()]
    return table(["", *columns], made)


def _grid(rows: dict[Key, Row], words: Mapping[str, Any]) -> str:
    """Our own figures: a line for each vocabulary or format, and what others published."""
    columns = words["columns"]
    section = next(iter(rows)).section
    made = []
    for name in dict.fromkeys(key.vocabulary for key in rows):
        keys = (Key(section, name, what, measure) for what, measure, _ in columns)
        made.append(
            [f"`{name}`", *(_cell(rows[key], OURS) if key in rows else "—" for key in keys)]
        )
    return table(["", *(label for *_, label in columns)], [*made, *words["published"]])


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
    ahead = _ahead(row, best)
    return f"**{times(ahead)}**" if ahead > 1 else times(ahead)


def _ahead(row: Row, peer: str) -> float:
    return row.cells[peer].summary.median / row.cells[OURS].summary.median


def _notes(rows: dict[Key, Row], *, by_vocabulary: bool = False) -> Sequence[str]:
    """Notes, each once, with the texts that they are of."""
    said: dict[tuple[str, str], list[str]] = {}
    for key, row in rows.items():
        what = f"{key.vocabulary}, {key.what}" if by_vocabulary else key.what
        for name, note in row.notes.items():
            where = said.setdefault((name, note), [])
            if what not in where:
                where.append(what)
    lines = [
        f"- {name}, {', '.join(where)}: {_plain(note)}" for (name, note), where in said.items()
    ]
    return ["\n".join(lines)] if lines else []


def _plain(note: str) -> str:
    """A note as one line of Markdown that means itself, and names no place of this machine."""
    said = note.replace(str(DATA), "data").replace(str(ROOT), ".")
    return "`" + " ".join(said.split()).replace("`", "'") + "`"


def _behind(results: Results) -> Sequence[str]:
    found = []
    for key, row in results.rows.items():
        best = row.best_peer()
        if best is not None and OURS in row.cells and _ahead(row, best) < 1:
            found.append((_ahead(row, best), key, row, best))
    if not found:
        return ["In no row."]
    lines = [
        [
            ", ".join(part for part in key if part),
            figure(row.cells[OURS].summary.median, row.unit),
            f"{best} {figure(row.cells[best].summary.median, row.unit)}",
            times(ahead),
        ]
        for ahead, key, row, best in sorted(found, key=lambda each: each[0])
    ]
    return [WORDS["behind"], table(["", OURS, "the best exact peer", "best peer / ours"], lines)]
