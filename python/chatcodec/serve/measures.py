"""Histograms of answers: how long they take, how they flow, and how large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["Measures"]

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_GAPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10)
_IDS = tuple(2**power for power in range(0, 21, 2))


class Measures:
    """The histograms, with one label: the API."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Begin at zero."""

        def made(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            name = f"chatcodec_{name}"
            return Histogram(name, about, ("api",), buckets=buckets, registry=registry)

        self.seconds = made(
            "request_seconds", "Time from a request to the end of its answer", _SECONDS
        )
        self.gaps = made("gap_seconds", "Time from ids of an answer to its next ids", _GAPS)
        self.prompts = made("prompt_length_ids", "Ids of one prompt", _IDS)
        self.completions = made("completion_length_ids", "Ids of one answer, all choices", _IDS)
        self.cached = made(
            "cached_prompt_ids", "Ids of one prompt that the engine had cached, if it says", _IDS
        )
        self.cached_ids = Counter(
            "chatcodec_cached_ids", "Ids of prompts that engines had cached", registry=registry
        )

    def answered(
        self, api: str, seconds: float, prompt: int, completion: int, cached: int | None
    ) -> None:
        """Count an answer that is over."""
        self.seconds.labels(api).observe(seconds)
        self.prompts.labels(api).observe(prompt)
        self.completions.labels(api).observe(completion)
        if cached is not None:
            self.cached.labels(api).observe(cached)
            self.cached_ids.inc(cached)
