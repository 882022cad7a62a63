"""Counts of what the gateway remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge

if TYPE_CHECKING:
    from chatcodec.serve.memory import Recalled

__all__ = ["MemoryCounts"]


class MemoryCounts:
    """Counts of answers in histories, by whether their ids were known."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Begin at zero."""
        self.answers = Counter(
            "chatcodec_memory_answers",
            "Answers in histories: known by their ids, or unknown and encoded",
            ("found",),
            registry=registry,
        )
        self.ids = Counter(
            "chatcodec_memory_ids",
            "Ids of prompts that were seen or sampled before, and sent again unchanged",
            registry=registry,
        )
        self.notes = Counter(
            "chatcodec_memory_notes",
            "What the model's template would write otherwise, by kind",
            ("kind",),
            registry=registry,
        )
        self.failures = Counter(
            "chatcodec_memory_failures",
            "Failures of the store: prompts that were encoded, answers that were not kept",
            ("operation",),
            registry=registry,
        )
        self.size = Gauge(
            "chatcodec_memory_bytes",
            "Bytes of the turns that are kept, about",
            registry=registry,
            multiprocess_mode="livemax",
        )

    def recalled(self, recalled: Recalled) -> None:
        """Count what is known of one history."""
        self.answers.labels("known").inc(recalled.known)
        self.answers.labels("unknown").inc(recalled.unknown)
        self.ids.inc(recalled.ids)
        for kind, count in recalled.kinds.items():
            self.notes.labels(kind).inc(count)
        if recalled.failed:
            self.failures.labels("find").inc()
