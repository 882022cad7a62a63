"""Counts by the names of keys: which client asks for how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter

if TYPE_CHECKING:
    from chatcodec.serve.answer import Answer

__all__ = ["KeyCounts"]


class KeyCounts:
    """Counts of the clients that have keys. Their names are the operator's, so they are few."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Begin at zero."""
        self.requests = Counter(
            "chatcodec_key_requests",
            "Answered requests, by the name of the key",
            ("key", "status"),
            registry=registry,
        )
        self.prompt_ids = Counter(
            "chatcodec_key_prompt_ids",
            "Ids of prompts, by the name of the key",
            ("key",),
            registry=registry,
        )
        self.completion_ids = Counter(
            "chatcodec_key_completion_ids",
            "Ids that backends generated, by the name of the key",
            ("key",),
            registry=registry,
        )

    def count(self, name: str, status: int, answer: Answer | None) -> None:
        """Count a request that is over; one without a key has no name, and is not counted."""
        if not name:
            return
        self.requests.labels(key=name, status=status).inc()
        if answer is not None:
            self.prompt_ids.labels(key=name).inc(len(answer.prompt))
            self.completion_ids.labels(key=name).inc(answer.generated)
