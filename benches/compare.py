"""Whether two runs give the same ratios of peers to us, within their spread. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .contenders import OURS
from .figures import table, times
from .stats import agree, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .results import Key, Results
    from .stats import Summary

MAY_DIFFER = 0.05
"""The share of ratios that may differ in runs that are the same: spreads are of few samples."""
SLACK = 0.02
"""What differs by no more is the same: some figures, as of memory, have hardly a spread."""

Pair = tuple["Key", str, "Summary", "Summary"]


def pairs(one: Results, other: Results) -> Iterator[Pair]:
    """Every ratio that both runs have."""
    for key, row in one.rows.items():
        beside = other.rows.get(key)
        if beside is None or OURS not in row.cells or OURS not in beside.cells:
            continue
        for name, cell in row.cells.items():
            if name != OURS and name in beside.cells:
                ratios = (
                    ratio(each.extent, ours.extent)
                    for each, ours in (
                        (cell, row.cells[OURS]),
                        (beside.cells[name], beside.cells[OURS]),
                    )
                )
                yield (key, name, *ratios)  # type: ignore[misc] # two of them


def render(one: Results, other: Results) -> tuple[bool, str]:
    """Whether they agree, and where not."""
    if one.about.get("quick") != other.about.get("quick"):
        return False, "A quick run and a full one have texts of other lengths."
    found = list(pairs(one, other))
    apart = [pair for pair in found if not agree(pair[2], pair[3], SLACK)]
    lines = [[str(key), name, _said(first), _said(second)] for key, name, first, second in apart]
    same = bool(found) and len(apart) <= MAY_DIFFER * len(found)
    said = f"{len(found) - len(apart)} of {len(found)} ratios are the same within their spread."
    if lines:
        said = f"{table(['row', 'peer', 'first run', 'second run'], lines)}\n\n{said}"
    return same, said


def _said(summary: Summary) -> str:
    return f"{times(summary.median)} ({times(summary.low)} to {times(summary.high)})"
