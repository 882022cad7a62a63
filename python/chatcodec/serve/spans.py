"""Spans of OpenTelemetry: one for each answer, around the engine's own.

They are made where `opentelemetry-api` is installed and a program has set up where spans go, as
`opentelemetry-instrument chatcodec serve …` does. Elsewhere nothing is made, and a trace's headers
go on as they came. Names are those of OpenTelemetry's conventions for generative AI.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

try:
    from opentelemetry import propagate, trace
except ImportError:
    trace = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Span", "is_set_up"]

_FAILED = 500


def is_set_up() -> bool:
    """Whether a program has said where spans go."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class Span:
    """The span of one answer, or nothing."""

    def __init__(self, api: str, model: str, headers: Mapping[str, str]) -> None:
        """Begin, below the span that the client's headers name."""
        self.headers: dict[str, str] = {}
        """The headers that name this span to the backend."""
        self._span: Any = None
        if trace is None or not is_set_up():
            return
        about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        self._span = trace.get_tracer("chatcodec.serve").start_span(
            f"chat {model}",
            context=propagate.extract(headers),
            kind=trace.SpanKind.SERVER,
            attributes={**about, "gen_ai.provider.name": "chatcodec", "chatcodec.api": api},
            start_time=time.time_ns(),
        )
        if self._span.is_recording():
            propagate.inject(self.headers, context=trace.set_span_in_context(self._span))

    def end(self, status: int, told: Mapping[str, int | float | None]) -> None:
        """End with the status for the client, and numbers by their names; those of None are not."""
        if self._span is None or not self._span.is_recording():
            return
        numbers = {key: value for key, value in told.items() if value is not None}
        self._span.set_attributes({"http.response.status_code": status, **numbers})
        if status >= _FAILED:
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()
