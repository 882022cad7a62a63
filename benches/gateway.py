"""The gateway under load, beside the engine alone: `make bench-gateway`.

The gateway is a process on one core. The engine and the clients are this process, on another one.
Every answer is checked: it is whole, and the stream's own. With `--litellm`, litellm's proxy takes
the gateway's place too. With `--write`, the figures and a plot go into
docs/generated/gateway-load.md. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chatcodec import Codec

from . import machine
from .contenders import PLOTS
from .environments import python_of
from .load import MODEL, Connection, Engine, Talk, Usage, read, serving, talks, usage
from .load import stream as streams_of
from .paths import PLOTS as PICTURES
from .paths import ROOT, WORK, write_between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAGE = ROOT / "docs" / "generated" / "gateway-load.md"
LITELLM = ("litellm[proxy]==1.108.7",)
TASKSET = shutil.which("taskset") or "taskset"
CHAT = "/v1/chat/completions"

COUNTS = (1, 100, 1000)
"""Concurrent streams."""
FLAT_OUT = 100
"""Concurrent streams whose engine is as fast as it can be."""
IDS = 100
"""Ids of an answer."""
PACE = 0.05
"""Seconds between the ids of a paced stream: 1,000 streams are 20,000 events a second."""
PROMPTS = 25
"""Messages of a prompt, each of a kilobyte, where prompts are measured."""
CLIENTS = 16
"""Clients that ask for prompts at once."""


@dataclass
class Run:
    """The figures of one run."""

    server: str
    kind: str
    """`paced` or `flat out` streams, or `prompts`."""
    streams: int
    events: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of CPU time that the server took."""
    delays: dict[str, float] = field(default_factory=dict)
    """Percentiles of an event's time from the engine to the client, in seconds."""
    gaps: dict[str, float] = field(default_factory=dict)
    """Percentiles of the time between two events of a stream as the client sees it, in seconds."""
    firsts: dict[str, float] = field(default_factory=dict)
    """Percentiles of the time from a request to its first text, in seconds."""
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Resident bytes of the server, by the seconds since the beginning."""


@dataclass
class Server:
    """A server under load: the engine itself, or what is before it."""

    name: str
    url: str
    process: int | None = None

    def usage(self) -> Usage:
        """What the server has used; nothing of the engine alone."""
        return Usage(0.0, 0) if self.process is None else usage(self.process)


def percentiles(values: list[float]) -> dict[str, float]:
    """The median, the 99th percentile and the greatest."""
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else []
    middle = {"p50": statistics.median(values), "p99": cuts[98] if cuts else values[0]}
    return {**middle, "longest": max(values)}


async def streamed(
    engine: Engine, server: Server, some: list[Talk], seconds: float, pace: float
) -> Run:
    """Hold streams for so long."""
    run = Run(server.name, "paced" if pace else "flat out", len(some))
    engine.pace = pace
    gc.collect()
    gc.disable()
    begun, before = time.perf_counter(), server.usage()
    watching = asyncio.create_task(_watch(server, run.memory))
    answers = [each async for each in streams_of(engine, server.url, some, seconds, CHAT)]
    run.seconds = time.perf_counter() - begun
    run.cpu = server.usage().cpu - before.cpu
    watching.cancel()
    delays, gaps = [], []
    for answer in answers:
        delays += answer.check().delays
        came = [sent + delay for sent, delay in zip(answer.sent, answer.delays, strict=False)]
        gaps += [later - earlier for earlier, later in pairwise(came)]
        run.events += len(answer.talk.ids)
    run.delays, run.gaps = percentiles(delays), percentiles(gaps)
    run.firsts = percentiles([answer.first for answer in answers])
    gc.enable()
    return run


async def _watch(server: Server, memory: list[tuple[float, int]]) -> None:
    begun = time.perf_counter()
    while server.process is not None:
        memory.append((time.perf_counter() - begun, server.usage().memory))
        await asyncio.sleep(1)


async def prompted(server: Server, some: list[Talk], seconds: float) -> Run:
    """Ask for short answers to long prompts for so long."""
    run = Run(server.name, "prompts", len(some))
    deadline = time.perf_counter() + seconds
    taken: list[float] = []

    async def ask(talk: Talk) -> None:
        connection = await Connection.to(server.url)
        request = talk.request(stream=False)
        while (asked := time.perf_counter()) < deadline:
            status, events = read(await connection.ask(request))
            said = json.loads(events[0][1])["choices"][0]["message"]["content"]
            if (status, said) != (200, talk.text):
                raise SystemExit(f"{server.name}: {events[0][1]!r:.300}")
            taken.append(time.perf_counter() - asked)
        connection.close()

    begun, before = time.perf_counter(), server.usage()
    await asyncio.gather(*map(ask, some))
    run.seconds = time.perf_counter() - begun
    run.cpu = server.usage().cpu - before.cpu
    run.events = len(taken)
    run.firsts = percentiles(taken)
    return run


@contextlib.contextmanager
def process(
    name: str,
    command: list[str],
    url: str,
    cores: str,
    log: Path,
    **options: Any,  # noqa: ANN401 (of Popen)
) -> Iterator[Server]:
    """Run a server on some cores until it is no longer needed."""
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603 - our own words
            [TASKSET, "-c", cores, *command],
            stdout=output,
            stderr=output,
            **options,
        ) as ran,
    ):
        try:
            at = url.rsplit(":", 1)
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", at[1])):
                    break
                if ran.poll() is not None:
                    raise SystemExit(f"{name} ended: {log.read_text('utf-8')[-2000:]}")
                time.sleep(0.1)
            yield Server(name, url, ran.pid)
        finally:
            ran.terminate()


def gateway_command(
    backend: str, port: int, model: tuple[str, str] = ("--vocab", "embedded")
) -> list[str]:
    """The command of the gateway, by default before an engine of the embedded vocabulary."""
    command = [sys.executable, "-m", "chatcodec", "serve", "--backend", backend]
    command += ["--port", str(port), "--served-model-name", MODEL, "--max-requests", "2000"]
    return [*command, *model]


def litellm_command(backend: str, port: int) -> list[str]:
    """The command of litellm's proxy, which it is given a file of settings."""
    python = python_of(LITELLM)
    given = {"model": f"openai/{MODEL}", "api_base": f"{backend}/v1", "api_key": "sk-bench"}
    settings = {
        "model_list": [{"model_name": MODEL, "litellm_params": given}],
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
    }
    file = WORK / "litellm.yaml"
    file.write_text(json.dumps(settings), "utf-8")
    return [str(python.parent / "litellm"), "--config", str(file), "--port", str(port)]


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


async def measure(asked: argparse.Namespace) -> list[Run]:
    """Measure all there is."""
    codec = Codec("internlm2", vocab="embedded")
    long = [
        {"role": ("user", "assistant")[at % 2], "content": "Some words of a long chat. " * 38}
        for at in range(PROMPTS - 1)
    ]
    known = talks(codec, max(asked.streams), IDS)
    prompts = talks(codec, CLIENTS, 4, long)
    for talk in known:
        _ = talk.ids_as_events, talk.texts_as_events, talk.id_of_length
    # The short prompts have the same last message.
    engine, other = Engine(known), Engine(prompts)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    runs: list[Run] = []

    def say(run: Run) -> None:
        runs.append(run)
        sys.stderr.write(line_of(run) + "\n")

    async with contextlib.AsyncExitStack() as stack:
        backend = await stack.enter_async_context(serving(engine))
        long_backend = await stack.enter_async_context(serving(other))
        servers = [Server("engine alone", backend)]
        prompters = [Server("engine alone", long_backend)]
        makers: dict[str, Callable[[str, int], list[str]]] = {"gateway": gateway_command}
        if asked.litellm:
            makers["litellm"] = litellm_command
        for name, command in makers.items():
            for served, group in ((backend, servers), (long_backend, prompters)):
                port = free_port()
                url = f"http://127.0.0.1:{port}"
                log = WORK / f"{name}.log"
                ran = process(name, command(served, port), url, str(cores[0]), log)
                group.append(stack.enter_context(ran))
        for server in servers:
            await streamed(engine, server, known[:1], 1, 0.01)  # The first requests load code.
            for count in asked.streams:
                say(await streamed(engine, server, known[:count], asked.seconds, asked.pace))
            if asked.flat_out:
                say(await streamed(engine, server, known[:FLAT_OUT], asked.seconds, 0.0))
        for server in prompters:
            await prompted(server, prompts[:1], 1)
            say(await prompted(server, prompts, asked.seconds))
    return runs


def line_of(run: Run) -> str:
    """One line of a run's figures."""
    said = f"{run.server}, {run.kind}, {run.streams}: {run.events / run.seconds:,.0f}/s"
    if run.cpu:
        said += f", {run.events / run.cpu:,.0f}/s of CPU"
    for name, found in (("event", run.delays), ("first", run.firsts)):
        if found:
            said += f", {name} {found['p50'] * 1e3:.2f} and {found['p99'] * 1e3:.2f} ms"
    if run.memory:
        sizes = [size / 1e6 for _, size in run.memory]
        said += f", {min(sizes):.0f} to {max(sizes):.0f} MB, {sizes[-1]:.0f} in the end"
    return said


def table_of(runs: list[Run]) -> str:
    """The figures as a table of Markdown."""
    servers = list(dict.fromkeys(run.server for run in runs))
    found = {(run.kind, run.streams, run.server): run for run in runs}
    rows = [["", *servers], ["---"] * (len(servers) + 1)]

    def row(title: str, kind: str, streams: int, text: Callable[[Run], str]) -> None:
        cells = [found.get((kind, streams, server)) for server in servers]
        rows.append([title, *(text(run) if run is not None else "—" for run in cells)])

    for streams in dict.fromkeys(run.streams for run in runs if run.kind == "paced"):
        some = f"{streams:,} stream{'s' if streams > 1 else ''}"
        row(f"{some}: first text", "paced", streams, lambda run: _ms(run.firsts))
        row(f"{some}: one event", "paced", streams, lambda run: _ms(run.delays))
        row(f"{some}: events a second", "paced", streams, _rates)
    row(f"{FLAT_OUT} streams, flat out: events a second", "flat out", FLAT_OUT, _rates)
    row(f"prompts of {PROMPTS} messages: requests a second", "prompts", CLIENTS, _rates)
    most = max(run.streams for run in runs if run.kind == "paced")
    row(f"memory, {most:,} streams", "paced", most, _memory)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _ms(found: dict[str, float]) -> str:
    return f"{found['p50'] * 1e3:.2f} · {found['p99'] * 1e3:.2f} ms"


def _rates(run: Run) -> str:
    clock = f"{run.events / run.seconds:,.0f}"
    return f"{clock} · {run.events / run.cpu:,.0f}" if run.cpu else clock


def _memory(run: Run) -> str:
    sizes = [size / 1e6 for _, size in run.memory]
    return f"{sizes[0]:.0f} to {max(sizes):.0f} MB" if sizes else "—"


def publish(runs: list[Run], about: dict[str, str], asked: argparse.Namespace) -> None:
    """Write the table and the plot into the page."""
    results = WORK / "gateway.json"
    results.write_text(json.dumps({"runs": [asdict(run) for run in runs]}), "utf-8")
    picture = PICTURES / "gateway.svg"
    command = [str(python_of(PLOTS)), "-m", "benches.gateway_plot", str(results), str(picture)]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own module
    machine_ = f"{about['CPU']}, {about['memory']}, Python {about['Python']}"
    pace = f"{1 / asked.pace:g} ids a second each, {IDS} ids an answer, {asked.seconds:g} seconds"
    note = f"On {machine_}, commit {about['commit']}; {pace}."
    write_between(PAGE, "load", f"{table_of(runs)}\n\n{note}")


def allow_sockets() -> None:
    """Let this process have as many sockets as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> int:
    """Measure; print the figures, or write them into the page."""
    parser = argparse.ArgumentParser(prog="python -m benches.gateway", description=__doc__)
    parser.add_argument("--litellm", action="store_true", help="litellm's proxy too")
    parser.add_argument("--write", action="store_true", help="write the page and the plot")
    parser.add_argument("--seconds", type=float, default=30, help="seconds of each run")
    parser.add_argument("--pace", type=float, default=PACE, help="seconds between ids of a stream")
    parser.add_argument("--streams", type=int, nargs="+", default=list(COUNTS))
    parser.add_argument("--no-flat-out", dest="flat_out", action="store_false")
    asked = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    allow_sockets()
    about = machine.describe()
    runs = asyncio.run(measure(asked))
    sys.stdout.write(table_of(runs) + "\n")
    if asked.write:
        publish(runs, about, asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
