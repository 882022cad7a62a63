"""What a memory costs the gateway: `python -m benches.memory`.

A conversation of many turns is read as the gateway reads it, with a memory and without, and its
answers are kept. The engine and HTTP are left out. Every prompt with a memory is checked: it begins
with the last prompt and its answer.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatcodec import Codec
from chatcodec.adapters.stops import StopStrings
from chatcodec.serve.apis import APIS
from chatcodec.serve.bodies import parse_body
from chatcodec.serve.memory import MemoryStore, turn_of
from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.reading import Reader
from chatcodec.serve.settings import Settings

if TYPE_CHECKING:
    from chatcodec.serve.memory import Store

TURNS = 100
SHOWN = (1, 5, 10, 20, 50, 100)
REPEATED = 3
WORDS = [
    "the",
    "of",
    "weather",
    "file",
    "search",
    "result",
    "error",
    "value",
    "number",
    "line",
    "function",
    "return",
    "test",
    "data",
]
MOST = 1 << 30


@dataclass
class Cost:
    """Seconds for one turn: to read its request, and to keep its answer."""

    ids: int
    reading: float
    keeping: float


def talk(codec: Codec, store: Store | None) -> list[Cost]:
    """The costs of each turn of a conversation."""
    chosen = random.Random(1)  # noqa: S311 (no secret)

    def text() -> str:
        return " ".join(chosen.choices(WORDS, k=150))

    reader = Reader(codec, Settings(backend="http://-", names=("m",), readers=0), store)
    messages, costs, seen = [{"role": "user", "content": text()}], [], list[int]()
    for number in range(TURNS):
        raw = json.dumps({"messages": messages}).encode()
        start = time.perf_counter()
        read = reader.read(APIS[0], parse_body(raw))
        middle = time.perf_counter()
        said = text()
        sampled = [*codec.vocab.encode(said), codec.stop_ids[0]]
        prompt = read.prompt.ids.tolist()
        if store is not None and prompt[: len(seen)] != seen:
            sys.exit("a prompt does not begin with the last one and its answer")
        stream, begun = codec.stream(prompt), time.perf_counter()
        if store is not None and read.recalled is not None:
            turn = turn_of(
                recalled=read.recalled,
                request=read.request,
                prompt=read.prompt.ids,
                stream=stream,
                sampled=sampled,
                logprobs=[],
                reason="stop",
                stops=StopStrings(()),
                id=f"chatcmpl-{number}",
                choice=0,
            )
            store.add(turn)
        costs.append(Cost(len(prompt), middle - start, time.perf_counter() - begun))
        seen = [*prompt, *sampled]
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": text()}]
    return costs


def best(codec: Codec, kind: str) -> list[Cost]:
    """The least of several conversations, each with a store of its own."""
    found: list[list[Cost]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(REPEATED):
            stores: dict[str, Store | None] = {
                "none": None,
                "memory": MemoryStore(MOST),
                "file": SqliteStore(f"{folder}/{number}", MOST),
            }
            found.append(talk(codec, stores[kind]))
    return [
        Cost(each[0].ids, min(c.reading for c in each), min(c.keeping for c in each))
        for each in zip(*found, strict=True)
    ]


def main() -> int:
    """Prints the table."""
    codec = Codec("qwen2.5", sys.argv[1]) if sys.argv[1:] else Codec("internlm2", vocab="embedded")
    costs = {kind: best(codec, kind) for kind in ("none", "memory", "file")}
    sys.stdout.write(
        "turn     ids   read: without   memory     file   keep: memory    file   (ms)\n"
    )
    for turn in SHOWN:
        none, memory, file = (costs[kind][turn - 1] for kind in ("none", "memory", "file"))
        times = (none.reading, memory.reading, file.reading, memory.keeping, file.keeping)
        shown = [f"{seconds * 1000:8.2f}" for seconds in times]
        sys.stdout.write(f"{turn:4} {none.ids:7}   {'  '.join(shown)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
