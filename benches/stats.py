"""Medians, spread, and ratios with their spread. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Summary:
    """A median between two bounds."""

    low: float
    median: float
    high: float


def summary(samples: Sequence[float]) -> Summary:
    """The quartiles of samples; of a single one, itself."""
    if len(samples) == 1:
        return Summary(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Summary(low, median, high)


def extent(samples: Sequence[float]) -> Summary:
    """The median between the least and the most: of few samples, quartiles say little."""
    return Summary(min(samples), statistics.median(samples), max(samples))


def ratio(theirs: Summary, ours: Summary) -> Summary:
    """How many times as much theirs is as ours, and at most and at least by the bounds."""
    return Summary(theirs.low / ours.high, theirs.median / ours.median, theirs.high / ours.low)


def agree(one: Summary, other: Summary, slack: float = 0.0) -> bool:
    """Whether two spreads, each widened by a share `slack`, have a value in common."""
    return one.low * (1 - slack) <= other.high * (1 + slack) and other.low * (1 - slack) <= (
        one.high * (1 + slack)
    )
