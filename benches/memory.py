"""What a memory costs the gateway: `python -m benches.memory`; Linux only.

First, a conversation of many turns is read as the gateway reads it, with a memory and without, and
its answers are kept. The engine and HTTP are left out. Every prompt with a memory is checked: it
begins with the last prompt and its answer. Looking up is what a memory does to a request beside the
codec's work; it has the way of large requests to the process with the store.

Then whole requests: gateways with and without a memory are processes before one scripted engine,
and answer a request with so many turns in turn, as streams. The table has the CPU time of each,
with that of the processes that read for it, as a median, and how much of it looking up and keeping
are by the first part.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from http.client import OK, HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import uvicorn
from chatcodec import Codec
from chatcodec.adapters.stops import StopStrings
from chatcodec.serve import reading
from chatcodec.serve.apis import APIS
from chatcodec.serve.bodies import parse_body
from chatcodec.serve.demo.engine import engine
from chatcodec.serve.memory import MemoryStore, recall, turn_of
from chatcodec.serve.memory.far import FarStore
from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.pool import LARGE
from chatcodec.serve.reading import Reader
from chatcodec.serve.settings import Settings

from .gateway import free_port, gateway_command, process
from .load import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from chatcodec import Stream
    from chatcodec.adapters import Request
    from chatcodec.serve.memory import Store
    from chatcodec.serve.reading import Read

    from .gateway import Server

TURNS = 100
SHOWN = (2, 5, 10, 20, 50, 100)
REPEATED = 5
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
    """Seconds of CPU for one turn: to read its request, looking up among them, and to keep it."""

    ids: int
    reading: float
    looking: float
    keeping: float


def talk(codec: Codec, store: Store | None) -> list[Cost]:
    """The costs of each turn of a conversation."""
    chosen = random.Random(1)  # noqa: S311 (no secret)

    def text() -> str:
        return " ".join(chosen.choices(WORDS, k=150))

    settings = Settings(backend="http://-", names=("m",), readers=0)
    far = None if store is None else FarStore(cast("Connection", Near(store)))
    readers = [Reader(codec, settings, each) for each in (store, far)]
    messages, costs, seen = [{"role": "user", "content": text()}], [], list[int]()
    for number in range(TURNS):
        raw = json.dumps({"messages": messages}).encode()
        start, looked = time.thread_time(), list[float]()
        with patch.object(reading, "recall", partial(recalled, looked)):
            read = readers[len(raw) > LARGE].read(APIS[0], parse_body(raw))
        middle = time.thread_time()
        said = text()
        sampled = [*codec.vocab.encode(said), codec.stop_ids[0]]
        prompt = read.prompt.ids.tolist()
        if store is not None and prompt[: len(seen)] != seen:
            sys.exit("a prompt does not begin with the last one and its answer")
        stream, begun = codec.stream(prompt), time.thread_time()
        keep(store, read, stream, sampled, f"chatcmpl-{number}")
        costs.append(Cost(len(prompt), middle - start, sum(looked), time.thread_time() - begun))
        seen = [*prompt, *sampled]
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": text()}]
    return costs


class Timed:
    """A codec that counts the seconds of its work."""

    def __init__(self, codec: Codec) -> None:
        """Begin."""
        self.codec, self.spent = codec, 0.0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Give what the codec has, with a clock around methods."""
        found = getattr(self.codec, name)
        if not callable(found):
            return found

        def timed(*given: Any, **more: Any) -> Any:  # noqa: ANN401
            start = time.thread_time()
            try:
                return found(*given, **more)
            finally:
                self.spent += time.thread_time() - start

        return timed


def recalled(looked: list[float], request: Request, *rest: Any) -> Any:  # noqa: ANN401
    """Recall, and keep the seconds but for those of the codec."""
    codec, start = Timed(request.codec), time.thread_time()
    found = recall(replace(request, codec=cast("Codec", codec)), *rest)
    looked.append(time.thread_time() - start - codec.spent)
    return found


class Near:
    """A connection to a store in this process, with all that is sent over it."""

    def __init__(self, store: Store) -> None:
        """Take the store."""
        self.store, self.answer = store, b""

    def send_bytes(self, asked: bytes) -> None:
        """Take a question, and answer it."""
        self.answer = pickle.dumps(pickle.loads(asked).answer(self.store))  # noqa: S301 (our own)

    def recv(self) -> Any:  # noqa: ANN401
        """Give the answer."""
        return pickle.loads(self.answer)  # noqa: S301 (our own)


def keep(
    store: Store | None, read: Read, stream: Stream, sampled: Sequence[int], answer: str
) -> None:
    """Keep an answer that has ended, as the gateway does."""
    if store is None or read.recalled is None:
        return
    turn = turn_of(
        recalled=read.recalled,
        request=read.request,
        prompt=read.prompt.ids,
        stream=stream,
        sampled=sampled,
        logprobs=[],
        reason="stop",
        stops=StopStrings(()),
        id=answer,
        choice=0,
    )
    store.add(turn)


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
    sys.stdout.write("\nturns   a request: without   memory     file   (ms of CPU)   share of it\n")
    for turns, (off, *on) in requests(TIMES):
        row = "  ".join(f"{seconds * 1000:8.2f}" for seconds in (off, *on))
        own = (costs[kind][turns - 1] for kind in ("memory", "file"))
        spent = [cost.looking + cost.keeping for cost in own]
        share = "  ".join(f"{one / all_:6.1%}" for one, all_ in zip(spent, on, strict=True))
        sys.stdout.write(f"{turns:5}           {row}               {share}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
