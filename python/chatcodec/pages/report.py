"""The page of a report of `chatcodec prepare`: lengths, roles, control spelled in text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from chatcodec.pages.document import bars_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["report_page"]

_FACTS = {
    "rows": "conversations",
    "ids": "ids",
    "trained": "labels that are trained on",
    "longest": "ids in the longest conversation",
    "rejected": "rows rejected",
    "shortened": "shortened",
    "dropped": "left out",
    "packed": "packed rows",
}
_ALWAYS = ("rows", "ids", "rejected")


def report_page(
    report: Mapping[str, Any],
    title: str = "Prepared conversations",
    *,
    made: Mapping[str, str] | None = None,
    quantiles: Mapping[str, int] | None = None,
    samples: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Make the page of a report: the object `report` of `_manifest.json`.

    `made` says of what and when; `quantiles` are lengths by their names; `samples` are rows.
    """
    facts = [
        (name, report[key])
        for key, name in _FACTS.items()
        if report.get(key) or (key in _ALWAYS and key in report)
    ]
    facts += [(f"ids {name}", length) for name, length in (quantiles or {}).items()]
    roles = Counter(report["roles"]).most_common()
    found = sorted(report["neutralized"], key=lambda item: -item["count"])
    dropped = sorted(report.get("parts_dropped", ()), key=lambda item: -item["count"])
    rejected = sorted(report.get("reasons", ()), key=lambda item: -item["count"])
    charts = [
        {
            "title": "Lengths",
            "about": "Conversations by their number of ids.",
            "columns": ["ids", "conversations", "share"],
            "rows": [([label], count) for label, count in _steps(report["lengths"])],
        },
        {
            "title": "Messages",
            "about": "Messages by their role.",
            "columns": ["role", "messages", "share"],
            "rows": [([role or "(none)"], count) for role, count in roles],
        },
        {
            "title": "Control spelled in text",
            "about": "Texts of callers that spell a control token. All of them are ids of text.",
            "columns": ["place", "spelling", "times", "share"],
            "rows": [([item["path"], item["spelling"]], item["count"]) for item in found],
        },
    ]
    if rejected:
        charts.append(
            {
                "title": "Rejected rows",
                "about": "Rows that were not written, by their reason; _rejects.jsonl has each.",
                "columns": ["reason", "rows", "share"],
                "rows": [([item["reason"]], item["count"]) for item in rejected],
            }
        )
    if dropped:
        charts.append(
            {
                "title": "Not in the ids",
                "about": "Parts of conversations that the template or the format leaves out.",
                "columns": ["place", "why", "times", "share"],
                "rows": [([item["path"], item["why"]], item["count"]) for item in dropped],
            }
        )
    return bars_page(title, facts, charts, made=made, samples=samples)


def _steps(lengths: Mapping[str, int]) -> list[tuple[str, int]]:
    """Give the counts of lengths in steps, four between two powers of 2."""
    steps: Counter[int] = Counter()
    for length, count in lengths.items():
        shift = max(0, int(length).bit_length() - 3)
        steps[int(length) >> shift << shift] += count
    named = []
    first = min(steps, default=0)
    while steps and first <= max(steps):
        following = first + (1 << max(0, first.bit_length() - 3))
        last = following - 1
        named.append((f"{first:,}" if first == last else f"{first:,} to {last:,}", steps[first]))
        first = following
    return named
