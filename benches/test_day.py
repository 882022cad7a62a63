"""For day-to-day use: `pytest benches`, ours alone, with pytest-benchmark's own comparisons.

`pytest benches --benchmark-save=before`, and after a change `--benchmark-compare`; `pip install
--group bench` first. The vocabulary is the embedded one, and InternLM2's where it is. What a figure
is worth beside other libraries is told by `python -m benches`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec
from chatcodec.adapters import openai_chat, sse

from . import texts
from .paths import DATA

if TYPE_CHECKING:
    from chatcodec.events import Event
    from pytest_benchmark.fixture import BenchmarkFixture

FILES = {"embedded": None, "internlm2": DATA / "vocab" / "internlm2" / "tokenizer.model"}


@pytest.fixture(scope="module", params=FILES)
def codec(request: pytest.FixtureRequest) -> Codec:
    path = FILES[request.param]
    if path is not None and not path.is_file():
        pytest.skip(f"needs {path}")
    return Codec("internlm2", vocab=path or "embedded")


@pytest.fixture(scope="module")
def english() -> str:
    return texts.cut(texts.corpus("English"), texts.MEGABYTE)


@pytest.fixture(scope="module")
def conversation() -> list[dict[str, Any]]:
    path = texts.conversations(1, 2_000)
    texts.write(path)
    messages: list[dict[str, Any]] = json.loads(path.read_bytes())[0]
    return messages


def test_encode_fresh(benchmark: BenchmarkFixture, codec: Codec, english: str) -> None:
    messages = iter(texts.pieces(english, 2800))
    benchmark.pedantic(codec.vocab.encode, setup=lambda: ((next(messages),), {}), rounds=300)


def test_encode_hot(benchmark: BenchmarkFixture, codec: Codec, english: str) -> None:
    benchmark(codec.vocab.encode, texts.cut(english, 2800))


def test_conversation(
    benchmark: BenchmarkFixture, codec: Codec, conversation: list[dict[str, Any]]
) -> None:
    benchmark(lambda: codec.encode(conversation).ids)


def test_stream(benchmark: BenchmarkFixture, codec: Codec, english: str) -> None:
    ids = codec.vocab.encode(texts.cut(english, 2800)).tolist()

    def pushes() -> None:
        push = codec.stream().push
        for id_ in ids:
            push(id_)

    benchmark(pushes)


@pytest.fixture
def pushes(codec: Codec, english: str) -> list[list[Event]]:
    """The events of a text, an id a push."""
    stream = codec.stream()
    return [stream.push(id_) for id_ in codec.vocab.encode(texts.cut(english, 2800)).tolist()]


def test_chunks(benchmark: BenchmarkFixture, pushes: list[list[Event]]) -> None:
    def chunks() -> None:
        push = openai_chat.ChunkStream(id="chatcmpl-0", model="m").push
        for events in pushes:
            push(events)

    benchmark(chunks)


def test_chunks_as_lines(benchmark: BenchmarkFixture, pushes: list[list[Event]]) -> None:
    def lines() -> None:
        push = sse.Lines(openai_chat.ChunkStream(id="chatcmpl-0", model="m")).push
        for events in pushes:
            push(events)

    benchmark(lines)


def test_parse(benchmark: BenchmarkFixture, codec: Codec, english: str) -> None:
    benchmark(codec.parse, codec.vocab.encode(texts.cut(english, 28_000)))
