"""pytest-benchmark's figures as Markdown tables: medians, rates and ratios to each peer.

`python benches/report.py FILE` prints them again for a run's file.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass
class Cell:
    """What was measured of one contender in one row."""

    role: str
    amount: int
    unit: str
    note: str = ""
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        """The median, the rate where the row has one, and what else was measured."""
        parts = [_time(self.median)]
        if self.amount and self.unit == "B":
            parts.append(f"{self.amount / self.median / 1e6:.3g} MB/s")
        elif self.amount:
            parts.append(f"{_time(self.median / self.amount)} per {self.unit}")
        if self.note:
            parts.append(self.note)
        return ", ".join(parts)


Row = dict[str, Cell]
Section = dict[str, Row]

ORDER = ("Plain encode", "Conversation", "Stream", "Load", "Adversarial")
"""How sections begin, in reading order."""


def render(results: Mapping[str, Any]) -> str:
    """All tables of a run."""
    cpu = results.get("machine_info", {}).get("cpu", {})
    versions = ", ".join(f"{name} {is_}" for name, is_ in results["versions"].items())
    lines = [
        f"{results['vocabulary']} vocabulary; {versions}; {cpu.get('brand_raw', 'unknown CPU')}"
    ]
    for name, section in _sections(results["benchmarks"]).items():
        lines += ["", f"### {name}", "", *_table(section)]
    lines += ["", *(f"- {note}" for note in results["notes"])]
    return "\n".join(lines).rstrip()


def _sections(benchmarks: Iterable[Mapping[str, Any]]) -> dict[str, Section]:
    """The cells, in reading order; turns of one contender are joined."""
    sections: dict[str, Section] = {}
    for benchmark in benchmarks:
        info = benchmark["extra_info"]
        row = sections.setdefault(info["section"], {}).setdefault(info["row"], {})
        made = Cell(info["role"], info["amount"], info["unit"], info.get("note", ""))
        row.setdefault(info["column"], made).seconds += benchmark["stats"]["data"]
    place = {
        name: at for at, start in enumerate(ORDER) for name in sections if name.startswith(start)
    }
    return dict(sorted(sections.items(), key=lambda section: place.get(section[0], len(ORDER))))


def _table(section: Section) -> list[str]:
    roles = {name: cell.role for row in section.values() for name, cell in row.items()}
    own = [name for name, role in roles.items() if role != "peer"]
    peers = [name for name, role in roles.items() if role == "peer"]
    bases = [name for name, role in roles.items() if role == "base"] if peers else []
    heads = ["", *own, *peers, *(f"{peer} / {', '.join(bases)}" for peer in peers)]
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    for name, row in section.items():
        cells = [str(row[column]) if column in row else "" for column in (*own, *peers)]
        lines.append(_line([name, *cells, *(_ratios(row, peer, bases) for peer in peers)]))
    return lines


def _ratios(row: Row, peer: str, bases: Sequence[str]) -> str:
    """How many times as long a peer takes as each of our ways."""
    known = [row[base].median for base in bases if base in row and peer in row]
    return ", ".join(f"{row[peer].median / median:.3g}x" for median in known)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(render(json.loads(text)) + "\n")
