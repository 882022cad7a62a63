"""What a memory costs the gateway: `python -m benches.memory`; Linux only.

First, a conversation of many turns is read as the gateway reads it, with a memory and without, and
its answers are kept. The engine and HTTP are left out. Every prompt with a memory is checked: it
begins with the last prompt and its answer.

Then whole requests: gateways with and without a memory are processes before one scripted engine,
and answer a request with so many turns in turn, as streams. The table has the CPU time of each,
with that of the processes that read for it, as a median.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from http.client import OK, HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from chatcodec import Codec
from chatcodec.adapters.stops import StopStrings
from chatcodec.serve.apis import APIS
from chatcodec.serve.bodies import parse_body
from chatcodec.serve.demo.engine import engine
from chatcodec.serve.memory import MemoryStore, turn_of
from chatcodec.serve.memory.said import History
from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.reading import Reader
from chatcodec.serve.settings import Settings

from .gateway import free_port, gateway_command, process
from .load import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chatcodec.serve.memory import Store

    from .gateway import Server

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
ASKED = (2, 20, 100)
"""Turns of whole requests."""
TIMES = int(os.environ.get("CHATCODEC_TIMES", "30"))
"""How often each is asked."""
SETTLES = 0.02
"""Seconds after an answer in which it is kept."""


@dataclass
class Cost:
    """Seconds for one turn: to read its request, to look its history up, to keep its answer."""

    ids: int
    reading: float
    looking: float
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
        looked = time.perf_counter()
        if store is not None:
            history = History(("",), read.request.messages)
            store.find([each.key for each in reversed(history.answers)])
        looked = time.perf_counter() - looked
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
        costs.append(Cost(len(prompt), middle - start, looked, time.perf_counter() - begun))
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
        Cost(
            each[0].ids,
            min(c.reading for c in each),
            min(c.looking for c in each),
            min(c.keeping for c in each),
        )
        for each in zip(*found, strict=True)
    ]


def cpu_of(process: int | None) -> float:
    """Seconds that a process and its children ran."""
    seconds, waiting = 0.0, [] if process is None else [process]
    while waiting:
        for task in (Path("/proc") / str(waiting.pop()) / "task").iterdir():
            seconds += int((task / "schedstat").read_text("utf-8").split()[0]) / 1e9
            waiting += map(int, (task / "children").read_text("utf-8").split())
    return seconds


class Asking:
    """A gateway that is asked to go on with one conversation."""

    def __init__(self, server: Server, texts: Sequence[str]) -> None:
        """Begin the conversation."""
        self.server, self.texts = server, texts
        self.http = HTTPConnection(server.url.removeprefix("http://"))
        self.messages = [{"role": "user", "content": texts[0]}]
        self.costs: list[float] = []

    def ask(self) -> tuple[str, str]:
        """Ask for the next answer, as a stream; give its text, and what is told of the memory."""
        body = {"model": MODEL, "messages": self.messages, "stream": True}
        headers = {"content-type": "application/json"}
        self.http.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        with self.http.getresponse() as answer:
            told = answer.headers.get("x-chatcodec-memory", "")
            events = [
                line[6:] for line in answer.read().decode().splitlines() if line[:6] == "data: "
            ]
        if answer.status != OK:
            sys.exit(f"the gateway answered {answer.status}: {events}")
        deltas = [json.loads(event)["choices"] for event in events[:-1]]
        return "".join(each[0]["delta"].get("content") or "" for each in deltas if each), told

    def go_on(self, turns: int) -> None:
        """Go on up to so many turns."""
        while len(self.messages) < 2 * turns - 1:
            said = {"role": "assistant", "content": self.ask()[0]}
            asked = {"role": "user", "content": self.texts[len(self.messages)]}
            self.messages += [said, asked]

    def measure(self) -> None:
        """Ask once, and keep the CPU time."""
        start = cpu_of(self.server.process)
        _, told = self.ask()
        if "unknown=" in told and "unknown=0" not in told:
            sys.exit(f"an answer of the history is not known: {told}")
        # What is kept after the end of a stream counts, too.
        time.sleep(SETTLES)
        self.costs.append(cpu_of(self.server.process) - start)


def requests(times: int) -> list[tuple[int, list[float]]]:
    """The median CPU time of requests with so many turns: without a memory, with one, in a file."""
    chosen, codec = random.Random(2), Codec("internlm2", vocab="embedded")  # noqa: S311 (no secret)
    texts = [" ".join(chosen.choices(WORDS, k=150)) for _ in range(2 * max(ASKED))]
    sampled = [*codec.vocab.encode(texts[-1]), codec.stop_ids[0]]
    found = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        backend = stack.enter_context(engine_of(sampled))
        askings = []
        for name, options in (
            ("none", []),
            ("memory", ["--memory", "1GiB"]),
            ("file", ["--memory", "1GiB", "--memory-file", str(folder / "turns")]),
        ):
            port = free_port()
            command = [*gateway_command(backend, port), "--format", "internlm2", *options]
            url = f"http://127.0.0.1:{port}"
            cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
            server = process(name, command, url, cores, folder / name)
            askings.append(Asking(stack.enter_context(server), texts))
        for turns in ASKED:
            for asking in askings:
                asking.go_on(turns)
                asking.ask()
                asking.costs = []
            for _ in range(times):
                for asking in askings:
                    asking.measure()
            found.append((turns, [statistics.median(asking.costs) for asking in askings]))
    return found


@contextlib.contextmanager
def engine_of(sampled: list[int]) -> Iterator[str]:
    """Serve an engine that says one thing; give its URL."""
    port = free_port()
    made = engine(lambda _: sampled)
    server = uvicorn.Server(uvicorn.Config(made, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def main() -> int:
    """Prints the table."""
    codec = Codec("qwen2.5", sys.argv[1]) if sys.argv[1:] else Codec("internlm2", vocab="embedded")
    costs = {kind: best(codec, kind) for kind in ("none", "memory", "file")}
    sys.stdout.write(
        "turn     ids   read: without   memory     file   look up   keep: memory    file   (ms)\n"
    )
    for turn in SHOWN:
        none, memory, file = (costs[kind][turn - 1] for kind in ("none", "memory", "file"))
        times = [none.reading, memory.reading, file.reading, memory.looking]
        times += [memory.keeping, file.keeping]
        shown = [f"{seconds * 1000:8.2f}" for seconds in times]
        sys.stdout.write(f"{turn:4} {none.ids:7}   {'  '.join(shown)}\n")
    sys.stdout.write("\nturns   a request: without   memory     file   (ms of CPU)   more\n")
    for turns, (off, *on) in requests(TIMES):
        row = "  ".join(f"{seconds * 1000:8.2f}" for seconds in (off, *on))
        more = "  ".join(f"{each / off - 1:6.1%}" for each in on)
        sys.stdout.write(f"{turns:5}           {row}               {more}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
