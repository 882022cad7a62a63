"""What a run found: every sample by row and contender, and why some have none. JSON in and out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .contenders import OURS
from .stats import Summary, extent, summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Key(NamedTuple):
    """Which row: what was done, with which vocabulary, to what, and which measure of it."""

    section: str
    vocabulary: str
    what: str
    measure: str

    def __str__(self) -> str:
        """As it stands in the file."""
        return "/".join(self)


@dataclass
class Cell:
    """A contender's samples in a row: seconds, or megabytes, for `amount` bytes, ids or calls."""

    amount: float
    samples: list[float] = field(default_factory=list)

    @property
    def summary(self) -> Summary:
        """Seconds, or megabytes, for one byte, id or call."""
        return summary([sample / self.amount for sample in self.samples])

    @property
    def extent(self) -> Summary:
        """The same with the least and the most of all samples."""
        return extent([sample / self.amount for sample in self.samples])


@dataclass
class Row:
    """The exact contenders' cells, and why the others have none."""

    unit: str
    cells: dict[str, Cell] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def best_peer(self) -> str | None:
        """The peer with the lowest median."""
        peers = [name for name in self.cells if name != OURS]
        return min(peers, key=lambda name: self.cells[name].summary.median, default=None)


@dataclass
class Results:
    """A run."""

    about: dict[str, Any] = field(default_factory=dict)
    rows: dict[Key, Row] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, key: Key, unit: str, contender: str, sample: tuple[float, float]) -> None:
        """Adds a sample."""
        value, amount = sample
        row = self.rows.setdefault(key, Row(unit))
        row.cells.setdefault(contender, Cell(amount)).samples.append(value)

    def of(self, section: str) -> Iterator[tuple[Key, Row]]:
        """The rows of a section."""
        return ((key, row) for key, row in self.rows.items() if key.section == section)

    def write(self, path: Path) -> None:
        """Writes them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = {str(key): asdict(row) for key, row in self.rows.items()}
        whole = {"about": self.about, "notes": self.notes, "rows": rows}
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False), encoding="utf-8")


def read(path: Path) -> Results:
    """Those of a file."""
    whole = json.loads(path.read_bytes())
    rows = {}
    for key, row in whole["rows"].items():
        cells = {name: Cell(**cell) for name, cell in row["cells"].items()}
        rows[Key(*key.split("/"))] = Row(row["unit"], cells, row["notes"])
    return Results(whole["about"], rows, whole["notes"])
