"""Counts for Prometheus, of one process or of all that share a folder."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from chatcodec.serve.key_counts import KeyCounts
from chatcodec.serve.measures import Measures
from chatcodec.serve.memory_counts import MemoryCounts
from chatcodec.serve.processes import Workers, workers_of

if TYPE_CHECKING:
    from chatcodec.serve.prompts import Prompt

__all__ = ["SHARED", "Metrics", "summed"]

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder by which the processes of `--workers` share their counts."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_NUMBER = re.compile(r"\[\d+\]")
_PARTS = 4


class Metrics:
    """The metrics of a gateway, in a registry of its own."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "chatcodec_requests", "Answered requests", ("api", "status"), registry=registry
        )
        self.running = Gauge(
            "chatcodec_requests_running",
            "Requests that are being answered",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.waiting = Gauge(
            "chatcodec_requests_waiting",
            "Requests that wait for a place",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.of_keys = KeyCounts(registry)
        self.prompt_ids = Counter("chatcodec_prompt_ids", "Ids of prompts", registry=registry)
        self.completion_ids = Counter(
            "chatcodec_completion_ids", "Ids that backends generated", registry=registry
        )
        self.first_event = Histogram(
            "chatcodec_first_event_seconds",
            "Time from a request to the first ids of its answer",
            buckets=_SECONDS,
            registry=registry,
        )
        self.neutralized = Counter(
            "chatcodec_neutralized",
            "Spellings of control tokens in the text of prompts, which stayed text",
            ("path",),
            registry=registry,
        )
        self.notices = Counter(
            "chatcodec_notices", "Notices of streams, by kind", ("kind",), registry=registry
        )
        self.repaired = Counter(
            "chatcodec_repaired_calls",
            "Calls of histories whose arguments are no JSON, which were read all the same",
            registry=registry,
        )
        self.dropped = Counter(
            "chatcodec_dropped", "Parts of requests left out, by kind", ("kind",), registry=registry
        )
        self.backend_errors = Counter(
            "chatcodec_backend_errors", "Failures of the backend", ("status",), registry=registry
        )
        self.answers = Measures(registry)
        self.memory = MemoryCounts(registry)
        if SHARED not in os.environ:
            ProcessCollector(registry=registry)

    def prompt(self, prompt: Prompt) -> None:
        """Count a prompt."""
        self.prompt_ids.inc(len(prompt))
        for path, count in prompt.neutralized.items():
            self.neutralized.labels(path=path).inc(count)

    def text(self) -> bytes:
        """Write the metrics in the format of Prometheus."""
        if SHARED not in os.environ:
            return generate_latest(self.registry)
        return generate_latest(summed(os.environ[SHARED]))


def summed(folder: str) -> CollectorRegistry:
    """Give the metrics of all processes that share a folder."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    Workers(lambda: workers_of(folder), registry)
    return registry


def general(path: str) -> str:
    """Give a path without numbers and without keys of a client's own, so that labels are few."""
    parts = _NUMBER.sub("[]", path).split(".")
    return ".".join(part if part.isascii() and len(part) < 40 else "…" for part in parts[:_PARTS])  # noqa: PLR2004
