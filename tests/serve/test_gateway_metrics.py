"""Histograms, cached ids, metrics of processes, and spans."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from answering import CODEC, END, IDS, Backend, chunk, say
from chatcodec.serve import spans
from gateway import MODEL, Gateway, gateway, serving
from opentelemetry import trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

CACHED = 7
GAP = 0.03
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def slow(_: dict[str, Any]) -> AsyncIterator[bytes]:
    yield chunk(IDS[:1])
    await asyncio.sleep(GAP)
    yield chunk(IDS[1:])
    await asyncio.sleep(GAP)
    yield chunk([END], "stop", usage={"prompt_tokens_details": {"cached_tokens": CACHED}})


ANSWERS: Any = {"slow": slow}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Backend(ANSWERS).app()) as made:
        yield made


def ask(of: Gateway, text: str, **fields: object) -> None:
    body = {"model": MODEL, "messages": say(text), "max_tokens": 50, **fields}
    answer = httpx.post(f"{of.v1}/chat/completions", json=body, trust_env=False, timeout=30)
    assert answer.status_code == 200


def test_answers_are_measured(url: str, tmp_path: Path) -> None:
    with gateway(url, tmp_path) as of:
        ask(of, "slow", stream=True)
        ask(of, "fine")
        label = '{api="chat"}'

        def total(name: str) -> tuple[float, float]:
            name = f"chatcodec_{name}"
            return of.metric(f"{name}_count{label}"), of.metric(f"{name}_sum{label}")

        prompts = sum(
            len(CODEC.encode(say(text), add_generation_prompt=True)) for text in ("slow", "fine")
        )
        assert total("prompt_length_ids") == (2, prompts)
        assert total("completion_length_ids") == (2, 2 * (len(IDS) + 1))
        # Only one of the engine's answers says it.
        assert total("cached_prompt_ids") == (1, CACHED)
        assert of.metric("chatcodec_cached_ids_total ") == CACHED
        count, seconds = total("request_seconds")
        assert count == 2
        assert seconds >= 2 * GAP
        count, seconds = total("gap_seconds")
        # A busy machine reads events together.
        assert count >= 1
        assert 0 < seconds < 5
        assert of.metric("process_resident_memory_bytes ") > 1e6
        assert of.metric("process_cpu_seconds_total ") > 0


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are read in /proc")
def test_metrics_of_processes_are_those_of_all_workers(url: str, tmp_path: Path) -> None:
    with gateway(url, tmp_path, "--workers", "2") as of:
        ask(of, "fine")
        found = {of.metric("process_max_fds ") for _ in range(6)}
        assert len(found) == 1
        pids = Path(f"/proc/{of.process.pid}/task/{of.process.pid}/children").read_text().split()
        workers = [
            pid
            for pid in pids
            if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert len(workers) == 2
        deadline = time.monotonic() + 20
        while True:
            pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in workers]
            memory = of.metric("process_resident_memory_bytes ")
            # One that is still starting has no metrics yet.
            if memory == pytest.approx(4096 * sum(pages), rel=0.2):
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert of.metric('chatcodec_prompt_length_ids_count{api="chat"}') == 1


class Recorded(trace.NonRecordingSpan):
    """A span that remembers."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        parent = trace.get_current_span(options["context"]).get_span_context()
        flags = trace.TraceFlags(1)
        super().__init__(
            trace.SpanContext(parent.trace_id, 0xABC, is_remote=False, trace_flags=flags)
        )
        self.name = name
        self.attributes: dict[str, Any] = dict(options["attributes"])
        self.status: object = None
        self.ended = False

    def is_recording(self) -> bool:
        return not self.ended

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        self.attributes.update(attributes)

    def set_status(self, status: object, description: str | None = None) -> None:
        del description
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        del end_time
        self.ended = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """Spans that are made, instead of those of the library."""
    found: list[Recorded] = []

    class Tracer:
        def start_span(self, name: str, **options: Any) -> Recorded:  # noqa: ANN401
            found.append(Recorded(name, options))
            return found[-1]

    monkeypatch.setattr(trace, "get_tracer", lambda _: Tracer())
    monkeypatch.setattr(spans, "is_set_up", lambda: True)
    return found


def test_a_span_is_between_the_clients_and_the_engines(made: list[Recorded]) -> None:
    span = spans.Span("chat", MODEL, {"traceparent": PARENT})
    (recorded,) = made
    assert recorded.name == f"chat {MODEL}"
    version, trace_id, own, _ = span.headers["traceparent"].split("-")
    assert (version, trace_id, int(own, 16)) == ("00", PARENT.split("-")[1], 0xABC)
    span.end(502, {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": None})
    assert recorded.ended
    assert recorded.status is not None
    assert recorded.attributes["gen_ai.usage.input_tokens"] == 5
    assert "gen_ai.usage.output_tokens" not in recorded.attributes
    assert recorded.attributes["http.response.status_code"] == 502
    span.end(200, {})
    assert recorded.attributes["http.response.status_code"] == 502


@pytest.mark.parametrize("missing", [True, False])
def test_without_a_place_for_spans_nothing_is_made(
    monkeypatch: pytest.MonkeyPatch, *, missing: bool
) -> None:
    if missing:
        monkeypatch.setattr(spans, "trace", None)
    span = spans.Span("chat", MODEL, {"traceparent": PARENT})
    assert span.headers == {}
    span.end(200, {"gen_ai.usage.input_tokens": 5})
