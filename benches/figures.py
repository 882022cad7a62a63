"""Figures as people read them, and Markdown tables of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .stats import Summary


def figure(value: float, unit: str) -> str:
    """Seconds for a byte as a rate, for anything else as a time; megabytes as they are."""
    if unit == "B":
        return f"{digits(1e-6 / value)} MB/s"
    if unit == "MB":
        return f"{digits(value)} MB"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size * 0.9995:
            return f"{digits(value / size)} {name}"
    return f"{digits(value / 1e-9)} ns"


def with_spread(summary: Summary, unit: str) -> str:
    """A median, and half the distance of its quartiles in per cent; of a single sample, itself."""
    if summary.low == summary.high:
        return figure(summary.median, unit)
    share = (summary.high - summary.low) / 2 / summary.median * 100 if summary.median else 0
    return f"{figure(summary.median, unit)} ±{share:.0f}%"


def times(ratio: float) -> str:
    """A ratio."""
    return f"{digits(ratio)}x"


def digits(value: float) -> str:
    """Three digits, never in powers of ten."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up."""
    widths = [max(3, *(len(line[at]) for line in (heads, *lines))) for at in range(len(heads))]

    def row(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = f"| {' | '.join('-' * width for width in widths)} |"
    return "\n".join([row(heads), rule, *map(row, lines)])
