"""The plots of a run as SVG: `python -m benches.plots RESULTS FOLDER`, where matplotlib is."""

from __future__ import annotations

import collections
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .contenders import CONTENDERS, OURS
from .results import Key, Results, read

if TYPE_CHECKING:
    from collections.abc import Sequence

pyplot: Any = importlib.import_module("matplotlib.pyplot")
ticker: Any = importlib.import_module("matplotlib.ticker")
matplotlib: Any = importlib.import_module("matplotlib")

COLOURS = dict(
    zip(
        (contender.name for contender in CONTENDERS),
        (
            "#c0392b",
            "#2471a3",
            "#148f77",
            "#7d3c98",
            "#a6acaf",
            "#d68910",
            "#616a6b",
            "#45b39d",
            "#5d6d7e",
            "#85929e",
            "#b7950b",
        ),
        strict=True,
    )
)

LOWEST = {"MB/s": 0.5, "µs": 10}
"""Where the axes begin that have no zero."""


def main() -> None:
    """Draws all there is."""
    results, folder = read(Path(sys.argv[1])), Path(sys.argv[2])
    matplotlib.rcParams |= {
        "svg.hashsalt": "chatcodec",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    _bars(results, "document", "flat", "MB/s", folder / "documents.svg")
    _bars(results, "message", "list", "µs", folder / "messages.svg")
    _bars(results, "conversation", "flat", "µs", folder / "conversations.svg")
    _length(results, folder / "length.svg")
    _threads(results, folder / "threads.svg")


def _bars(results: Results, section: str, out: str, unit: str, path: Path) -> None:
    """A panel for each vocabulary: a group for each text, a full bar fresh and an outline hot."""
    keys = [key for key, _ in results.of(section) if key.measure == f"fresh {out}"]
    counts = collections.Counter(key.vocabulary for key in keys)
    vocabularies = [vocabulary for vocabulary, count in counts.items() if count > 1]
    if not vocabularies:
        return
    figure, axes = pyplot.subplots(
        len(vocabularies), 1, figsize=(9, 2.4 * len(vocabularies)), squeeze=False
    )
    for axis, vocabulary in zip(axes[:, 0], vocabularies, strict=True):
        some = [key for key in keys if key.vocabulary == vocabulary]
        names = _names(results, some)
        width = 0.8 / len(names)
        for at, name in enumerate(names):
            for measure, filled in (("fresh", True), ("hot", False)):
                places, heights = [], []
                for group, key in enumerate(some):
                    row = results.rows.get(key._replace(measure=f"{measure} {out}"))
                    if row is not None and name in row.cells:
                        places.append(group + at * width)
                        heights.append(_value(row.cells[name].summary.median, unit))
                style = {"color": COLOURS[name]} if filled else {"fill": False, "edgecolor": "#888"}
                label = name if filled else None
                axis.bar(places, heights, width, label=label, linewidth=0.6, **style)
        axis.set_yscale("log")
        axis.set_ylim(bottom=LOWEST[unit])
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        middle = (len(names) - 1) * width / 2
        axis.set_xticks([group + middle for group in range(len(some))], [key.what for key in some])
        axis.set_ylabel(unit)
        axis.set_title(f"{vocabulary}, {out}: filled fresh, outlined hot", loc="left")
        axis.legend(ncols=6, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.1))
    _save(figure, path)


def _length(results: Results, path: Path) -> None:
    """Time and length, both by doublings: a straight line that rises by one for one is linear."""
    keys = [key for key, _ in results.of("length") if key.measure == "fresh flat"]
    vocabularies = list(dict.fromkeys(key.vocabulary for key in keys))
    if not vocabularies:
        return
    figure, axes = pyplot.subplots(
        1, len(vocabularies), figsize=(5.5 * len(vocabularies), 4), squeeze=False, sharey=True
    )
    for axis, vocabulary in zip(axes[0], vocabularies, strict=True):
        some = [key for key in keys if key.vocabulary == vocabulary]
        for name in _names(results, some):
            cells = [
                results.rows[key].cells[name] for key in some if name in results.rows[key].cells
            ]
            sizes = [cell.amount for cell in cells]
            seconds = [cell.summary.median * cell.amount for cell in cells]
            axis.plot(sizes, seconds, marker="o", color=COLOURS[name], label=name)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        sizes = [max(cell.amount for cell in results.rows[key].cells.values()) for key in some]
        axis.set_xticks(sizes, [key.what for key in some])
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g} s"))
        axis.set_title(f"{vocabulary}, English, fresh, flat, one thread", loc="left")
        axis.grid(visible=True, linewidth=0.3)
        axis.legend(frameon=False)
    _save(figure, path)


def _threads(results: Results, path: Path) -> None:
    """A line of panels for each vocabulary."""
    keys = [key for key, _ in results.of("threads") if key.measure]
    vocabularies = list(dict.fromkeys(key.vocabulary for key in keys))
    things = list(dict.fromkeys(key.what for key in keys))
    if not keys:
        return
    size = (3.2 * len(things), 3.2 * len(vocabularies))
    figure, axes = pyplot.subplots(len(vocabularies), len(things), figsize=size, squeeze=False)
    for line, vocabulary in zip(axes, vocabularies, strict=True):
        for axis, thing in zip(line, things, strict=True):
            some = [key for key in keys if (key.vocabulary, key.what) == (vocabulary, thing)]
            for name in _names(results, some):
                points = sorted(
                    (int(key.measure.split()[0]), _value(row.cells[name].summary.median, "MB/s"))
                    for key in some
                    if name in (row := results.rows[key]).cells
                )
                axis.plot(*zip(*points, strict=True), marker="o", color=COLOURS[name], label=name)
            axis.set_ylim(bottom=0)
            axis.set_xticks(sorted({int(key.measure.split()[0]) for key in some}))
            axis.set_xlabel("threads")
            axis.set_ylabel("MB/s")
            axis.set_title(f"{vocabulary}, {thing}", loc="left", fontsize=8)
            if some:
                axis.legend(frameon=False, fontsize=7)
    _save(figure, path)


def _names(results: Results, keys: Sequence[Key]) -> list[str]:
    """The contenders of some rows, in the order of the table of contenders."""
    there = {name for key in keys for name in results.rows[key].cells}
    return [OURS, *(each for each in COLOURS if each in there and each != OURS)]


def _value(seconds: float, unit: str) -> float:
    return 1e-6 / seconds if unit == "MB/s" else seconds * 1e6


def _save(figure: Any, path: Path) -> None:  # noqa: ANN401 - matplotlib's
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
