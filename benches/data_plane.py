"""The gateway, LiteLLM's proxy and vLLM's frontend in Rust before the same scripted engine.

`make bench-data-plane` runs it. Each server is measured on one core and on all: events a second of
streams whose engine is as fast as it can be; the gaps between the events of paced streams as
clients see them; and memory. The engine and the clients are this process, on the last core, which a
server that has all cores shares with them. The engine speaks HTTP, and to vLLM's frontend the
protocol of vLLM's engine processes. Every answer is checked. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec import Codec

from . import machine
from .gateway import (
    FLAT_OUT,
    IDS,
    PACE,
    Run,
    Server,
    allow_sockets,
    free_port,
    gateway_command,
    line_of,
    litellm_command,
    process,
    streamed,
)
from .load import Engine, serving, talks
from .paths import DATA, ROOT, WORK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .load import Talk

MODEL_FILES = ("tokenizer.json", "tokenizer_config.json")
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
    "eos_token_id": 151645,
}
"""A model without weights: what a frontend asks for."""
SERVERS = ("gateway", "litellm", "vllm-rs")
COLUMNS = (
    "server",
    "",
    "flat out: ids a second",
    "a second of CPU",
    "paced: ids a second",
    "gap p50 · p99 · longest",
    "first text p50 · p99",
    "memory",
)


@dataclass
class Place:
    """Where a server runs."""

    name: str
    cores: list[int]

    @property
    def text(self) -> str:
        """The cores, as `taskset` takes them."""
        return ",".join(map(str, self.cores))


def model_of(source: Path) -> Path:
    """A folder of a model with a tokenizer's files."""
    folder = WORK / "data-plane-model"
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODEL_FILES:
        shutil.copyfile(source / name, folder / name)
    (folder / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    return folder


@contextlib.asynccontextmanager
async def running(
    name: str, place: Place, engine: Engine, model: Path, program: Path
) -> AsyncIterator[Server]:
    """Run one server before the engine."""
    log, workers = WORK / f"{name}.log", str(len(place.cores))
    async with contextlib.AsyncExitStack() as stack:
        if name == "vllm-rs":
            from .vllm_core import Listeners, engine_of, environment  # noqa: PLC0415 (pyzmq)

            listeners = Listeners.bound()
            command, url = listeners.command(program, model), listeners.url
            given = {"pass_fds": [each.fileno() for each in listeners.all]}
            options = {**given, "env": environment()}
            ran = process(name, command, url, place.text, log, **options)
            made = stack.enter_context(ran)
            await stack.enter_async_context(engine_of(engine, listeners))
            # The sockets are the frontend's now.
            for each in listeners.all:
                each.close()
            yield made
            return
        backend = await stack.enter_async_context(serving(engine))
        port = free_port()
        if name == "gateway":
            command = gateway_command(backend, port, ("--model", str(model)))
            command += ["--workers", workers] if len(place.cores) > 1 else []
        else:
            command = [*litellm_command(backend, port), "--num_workers", workers]
        url = f"http://127.0.0.1:{port}"
        yield stack.enter_context(process(name, command, url, place.text, log))


async def ready(engine: Engine, server: Server, talk: Talk) -> None:
    """Wait until a server answers: it may listen before it can."""
    for _ in range(60):
        with contextlib.suppress(Exception):
            async with asyncio.timeout(20):
                await streamed(engine, server, [talk], 0.1, 0.001)
                return
        await asyncio.sleep(1)
    raise SystemExit(f"{server.name} does not answer: see {WORK / server.name}.log")


async def measure(asked: argparse.Namespace) -> list[tuple[str, Run]]:
    """Measure all servers; give the places with the figures."""
    model = model_of(asked.tokenizer)
    codec = Codec.from_pretrained(str(model))
    known = talks(codec, max(asked.streams, FLAT_OUT), IDS)
    for talk in known:
        _ = talk.ids_as_events, talk.texts_as_events, talk.id_of_length
    every = sorted(os.sched_getaffinity(0))
    places = [Place("one core", every[:1]), Place("all cores", every)]
    os.sched_setaffinity(0, {every[-1]})
    runs: list[tuple[str, Run]] = []
    for name in asked.servers:
        for place in places:
            engine = Engine(known)
            async with running(name, place, engine, model, asked.vllm_rs) as server:
                await ready(engine, server, known[0])
                some = known[: asked.streams]
                for found in (
                    await streamed(engine, server, some, asked.seconds, asked.pace),
                    await streamed(engine, server, known[:FLAT_OUT], asked.seconds, 0.0),
                ):
                    runs.append((place.name, found))
                    sys.stderr.write(f"{place.name}: {line_of(found)}\n")
    return runs


def table_of(runs: list[tuple[str, Run]]) -> str:
    """The figures as a table of Markdown."""
    rows = [f"| {' | '.join(COLUMNS)} |", f"| {' | '.join(['---'] * len(COLUMNS))} |"]
    found = {(place, run.server, run.kind): run for place, run in runs}
    for place, server in dict.fromkeys((place, run.server) for place, run in runs):
        flat, paced = found[place, server, "flat out"], found[place, server, "paced"]
        gaps = " · ".join(f"{paced.gaps[key] * 1e3:.1f}" for key in ("p50", "p99", "longest"))
        firsts = " · ".join(f"{paced.firsts[key] * 1e3:.1f}" for key in ("p50", "p99"))
        memory = max((size for _, size in paced.memory), default=0) / 1e6
        cells = [server, place, f"{flat.events / flat.seconds:,.0f}"]
        cells += [f"{flat.events / flat.cpu:,.0f}" if flat.cpu else "—"]
        cells += [f"{paced.events / paced.seconds:,.0f}", f"{gaps} ms", f"{firsts} ms"]
        rows.append(f"| {' | '.join([*cells, f'{memory:.0f} MB'])} |")
    return "\n".join(rows)


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benches.data_plane", description=__doc__)
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--seconds", type=float, default=30, help="seconds of each run")
    parser.add_argument("--streams", type=int, default=500, help="paced streams at once")
    parser.add_argument("--pace", type=float, default=PACE, help="seconds between ids of a stream")
    folders = [DATA / "vocab" / "qwen3", DATA / "qwen3"]
    own = next(filter(Path.exists, folders), folders[0])
    parser.add_argument("--tokenizer", type=Path, default=own, help="folder of Qwen3's tokenizer")
    given = ROOT / "target" / "engines" / "vllm-0.33.0" / "vllm" / "vllm-rs"
    parser.add_argument("--vllm-rs", type=Path, default=given, help="vLLM's frontend")
    asked = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    allow_sockets()
    about = machine.describe()
    runs = asyncio.run(measure(asked))
    results = WORK / "data_plane.json"
    told = [{"place": place, **asdict(run)} for place, run in runs]
    results.write_text(json.dumps({"machine": about, "runs": told}), "utf-8")
    sys.stdout.write(f"{table_of(runs)}\n\n{about}; {asked.streams} paced streams of ")
    sys.stdout.write(f"{1 / asked.pace:g} ids a second, {FLAT_OUT} flat out, {asked.seconds:g} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
