"""The page of the documents: a summary of the tables that `page` made. Pure.

What goes in: the text of `benches/RESULTS.md`. What comes out: that of
`docs/generated/benchmarks.md`. Each figure is a cell of a table, as it stands there; only rows are
counted here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .contenders import OURS
from .figures import table
from .page import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

DOT = " · "
"""Between fresh and hot of a cell."""
BEST, RATIO = "best exact peer", "ratio"
THEIRS_BY_OURS = "best peer / ours"
"""The column of ratios in the tables."""
SPREAD = re.compile(r" ±\d+%")
SIZES = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "MB": 1.0}
NONE = "—"


@dataclass(frozen=True)
class Line:
    """A line of a table. Where fresh and hot share a line, a cell has both figures."""

    vocabulary: str
    label: str
    figures: Mapping[str, Sequence[str]]
    """By contender, without spread."""
    ratios: Sequence[str]

    @property
    def ours(self) -> str:
        """Our figures."""
        return DOT.join(self.figures[OURS])

    def best(self, at: int = 0) -> str:
        """The best peer and its figure: fresh, or at 1 hot."""
        peers = {
            name: figures[at]
            for name, figures in self.figures.items()
            if name != OURS and figures[at] != NONE
        }
        if not peers:
            return NONE
        name, figure = min(peers.items(), key=lambda each: _cost(each[1]))
        return f"{name} {figure}"

    @property
    def bests(self) -> str:
        """The best peers; a name once where fresh and hot have the same."""
        made = [self.best(at) for at in range(len(self.figures[OURS]))]
        name = made[0].rpartition(" ")[0].rpartition(" ")[0]
        return DOT.join([made[0], *(each.removeprefix(f"{name} ") for each in made[1:])])


def render(tables: str) -> str:
    """The whole page."""
    words, parts = WORDS["summary"], _parts(tables, "## ")
    made = [words["head"], "## How to read it", words["reading"]]
    made += ["## The run", *_run(parts["The run"]), words["reproduce"]]
    made += ["## At a glance", words["glance"], "## Targets", *_targets(parts["Targets"])]
    for section, about in WORDS["sections"].items():
        if (found := parts.get(about["title"])) is None:
            continue
        made += [f"## {about['title']}", about["short"]]
        if "plot" in about and about["plot"] in found:
            made.append(f"![{about['title']}](../benchmarks/{about['plot']})")
        shorten: Callable[[str, Any], str] = SHORT.get(section, _kept)
        made.append(shorten(found, about))
    made += ["## Where a peer is ahead", *_behind(parts)]
    return "\n\n".join(part.strip("\n") for part in made if part) + "\n"


def _parts(text: str, mark: str) -> dict[str, str]:
    """What stands below each heading."""
    made = {}
    for part in f"\n{text}".split(f"\n{mark}")[1:]:
        title, _, rest = part.partition("\n")
        made[title.strip()] = rest
    return made


def _cells(text: str) -> list[list[str]]:
    """The lines of the tables of a text, heads with them and rules without."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [line for line in cells if set(line[0]) != {"-"}]


def _lines(section: str) -> Iterator[Line]:
    """The lines of a section that has a table for each vocabulary."""
    for vocabulary, text in _parts(section, "### ").items():
        heads, *rows = _cells(text)
        for label, *cells in rows:
            by_name = dict(zip(heads[1:], cells, strict=True))
            ratios = by_name.pop(THEIRS_BY_OURS, NONE).split(DOT)
            figures = {
                name: SPREAD.sub("", cell).split(DOT) for name, cell in by_name.items() if cell
            }
            yield Line(vocabulary, label, figures, ratios)


def _cost(figure: str) -> float:
    """A figure as a number: the lower, the better."""
    value, unit = figure.split(" ")
    return 1 / float(value) if unit == "MB/s" else float(value) * SIZES[unit]


def _run(text: str) -> Sequence[str]:
    """The machine in a line, what could not be measured, and the versions in a sentence."""
    lines = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    about = [line for line in lines if "could not be installed" not in line]
    rows = _cells(text.partition("\n| vocabulary")[0])[1:]
    versions = ", ".join(f"{name} {version}" for name, version, _ in rows)
    failed = [f"- {line}" for line in lines if line not in about]
    return ["; ".join(about) + ".", f"Versions: {versions}.", *failed]


def _targets(text: str) -> Sequence[str]:
    """How many are met, and a table of those that are not."""
    heads, *rows = _cells(text)
    missed = [[*row[:3], row[4]] for row in rows if row[-1] == "not met"]
    counted = next((line for line in text.splitlines() if "targets are met" in line), "")
    if not missed:
        return [counted]
    return [counted, WORDS["summary"]["targets"], table([*heads[:3], heads[4]], missed)]


def _kept(text: str, about: Mapping[str, Any]) -> str:
    """The lines that the summary keeps of each vocabulary."""
    lines = [line for line in _lines(text) if line.label in about["kept"]]
    heads = ["fresh · hot" if "hot" in about else "", OURS, BEST, RATIO]
    return table(
        heads,
        [
            [
                f"{line.vocabulary}, {_thing(line)}",
                line.ours if OURS in line.figures else NONE,
                line.bests if OURS in line.figures else line.best(),
                DOT.join(line.ratios),
            ]
            for line in lines
        ],
    )


def _documents(text: str, _: object) -> str:
    """Our speed for English, and the ratios of fresh text: a line for each vocabulary."""
    lines = [line for line in _lines(text) if line.label.endswith(", flat")]
    names = {line.label.removesuffix(", flat"): None for line in lines}
    by_vocabulary: dict[str, dict[str, Line]] = {}
    for line in lines:
        kind = line.label.removesuffix(", flat")
        by_vocabulary.setdefault(line.vocabulary, {})[kind] = line
    made = []
    for vocabulary, kinds in by_vocabulary.items():
        english = kinds.get("English")
        speed = english.figures[OURS][0] if english else NONE
        peer = english.best() if english else NONE
        ratios = (kinds[name].ratios[0] if name in kinds else NONE for name in names)
        made.append([vocabulary, speed, peer, *ratios])
    return table(["", "English", BEST, *(f"{name}, {RATIO}" for name in names)], made)


def _formats(text: str, _: object) -> str:
    """The fastest and the slowest format of each column, and what others published."""
    heads, *rows = _cells(text)
    ours = [row for row in rows if row[0].startswith("`")]
    columns = [
        sorted((SPREAD.sub("", row[at]) for row in ours if row[at] != NONE), key=_cost) or [NONE]
        for at in range(1, len(heads))
    ]
    made = [
        ["chatcodec, fastest", *(column[0] for column in columns)],
        ["chatcodec, slowest", *(column[-1] for column in columns)],
    ]
    return table(heads, made + [row for row in rows if not row[0].startswith("`")])


def _loads(text: str, _: object) -> str:
    """Time and memory: a line for each vocabulary."""
    made: dict[str, list[str]] = {}
    for line in _lines(text):
        if line.label in {"load and first call", "memory after the text"}:
            made.setdefault(line.vocabulary, []).extend([line.ours, line.bests, *line.ratios])
    heads = ["", "load and first call", BEST, RATIO]
    heads += ["memory", BEST, RATIO]
    filled = [[name, *cells, *[NONE] * (6 - len(cells))] for name, cells in made.items()]
    return table(heads, filled)


def _adversarial(text: str, _: object) -> str:
    """The slowest text, and the least and the greatest ratio: a line for each vocabulary."""
    by_vocabulary: dict[str, list[Line]] = {}
    for line in _lines(text):
        if "a quarter" not in line.label:
            by_vocabulary.setdefault(line.vocabulary, []).append(line)
    made = []
    for vocabulary, lines in by_vocabulary.items():
        slowest = max(lines, key=lambda line: _cost(line.ours))
        compared = sorted(
            (line for line in lines if line.ratios[0] != NONE), key=lambda line: _value(line.ratios)
        )
        ends = [
            f"{_thing(line)}: {line.ratios[0]}" for line in (*compared[:1], *compared[-1:])
        ] or [NONE, NONE]
        made.append([vocabulary, f"{_thing(slowest)}: {slowest.ours}", *ends])
    return table(["", "slowest text", "least ratio", "greatest ratio"], made)


def _thing(line: Line) -> str:
    return line.label.removesuffix(", fresh flat")


def _threads(text: str, _: object) -> str:
    """By number of threads: a line for each vocabulary and thing, figures in the order of heads."""
    by_thing: dict[str, list[Line]] = {}
    for line in _lines(text):
        thing = f"{line.vocabulary}, {line.label.rpartition(', ')[0]}"
        by_thing.setdefault(thing, []).append(line)
    numbers = [_number(line) for lines in by_thing.values() for line in lines]
    heads = ["", *(f"threads: {number}" for number in dict.fromkeys(numbers)), BEST, RATIO]
    made = []
    for thing, lines in by_thing.items():
        speeds = {_number(line): line.ours for line in lines}
        cells = [speeds.get(number, NONE) for number in dict.fromkeys(numbers)]
        made.append([thing, *cells, lines[-1].best(), lines[-1].ratios[0]])
    return table(heads, made)


def _number(line: Line) -> str:
    return line.label.rpartition(", ")[2].removesuffix(" threads")


def _value(ratios: Sequence[str]) -> float:
    return float(ratios[0].strip("*x"))


SHORT: dict[str, Callable[[str, Any], str]] = {
    "document": _documents,
    "format": _formats,
    "load": _loads,
    "adversarial": _adversarial,
    "threads": _threads,
}
"""The sections with a table of their own form; the others keep lines."""


def _behind(parts: Mapping[str, str]) -> Sequence[str]:
    """Counts of rows by section, and the rows of fresh text."""
    rows = _cells(parts["Where a peer is ahead"])[1:]
    if not rows:
        return ["In no row."]
    counted = []
    for section, about in WORDS["sections"].items():
        compared = [
            ratio
            for line in _lines(parts.get(about["title"], ""))
            for ratio in line.ratios
            if ratio != NONE
        ]
        ours = [row for row in rows if row[0].startswith(f"{section}, ")]
        hot = [row for row in ours if ", hot " in row[0]]
        furthest = ": ".join((ours[0][0].partition(", ")[2], ours[0][3])) if ours else NONE
        counts = (len(compared), len(ours) - len(hot), len(hot))
        if ours:
            counted.append([about["title"], *map(str, counts), furthest])
    heads = ["", "rows", "peer ahead, fresh", "peer ahead, hot", "furthest"]
    return [WORDS["summary"]["behind"], table(heads, counted)]
