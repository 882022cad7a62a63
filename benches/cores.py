"""How work is shared among cores.

`make bench-cores` counts the instructions of the calling thread beside those of all threads, under
callgrind: what one thread alone does is the same share on any machine, also on one of two cores.
`make bench-cores ARGS="--cores 1,2,4,8,16"` measures times instead, as medians, and prints the
share of what so many cores could do at most; it is for machines that have them. With `--write` the
table goes into docs/generated/cores.md.

What goes in: conversations of six messages of English, other ones each time, on Qwen 3's
vocabulary; needs ../shared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from . import machine, tables, texts
from .paths import DATA, ROOT, WORK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOLDER = WORK / "cores"
PAGE = ROOT / "docs" / "generated" / "cores.md"
HEAD = """\
# The work of many cores

For people who prepare data on large machines: what one thread does alone limits all others.
`make bench-cores ARGS=--write` writes this page.
[How text becomes ids](../encoder.md#8-threads-share-a-batch) says what the shares come from.

Conversations have six messages of 160 bytes of English, on Qwen 3's vocabulary.
`texts` is `Vocab.encode_batch` of their messages; `encode_table` makes labels too.
"""
COUNTS = """\
Instructions, counted by callgrind with 16 threads: the shares do not depend on the machine.
"""
TIMES = """\
Seconds by the number of cores, medians of five runs, and the share of linear at the most cores.
"""
VOCABULARY = DATA / "vocab" / "qwen3"
COUNTED = {"texts": 2000, "encode_batch": 1000, "encode_table": 1000}
"""Conversations of each kind of work under callgrind, which takes 50 times as long."""
TIMED = {"texts": 40_000, "encode_batch": 40_000, "encode_table": 40_000, "prepare": 200_000}
THREADS = 16
"""Threads that are asked for under callgrind, whatever the machine has."""
RUNS = 5
MARKED = {
    "texts": "_core::text_batch::encode_texts",
    "encode_batch": "_core::codec::Codec::__pymethod_encode_batch__",
    "encode_table": "_core::table::EncodedTable::encode",
}
"""The function within which instructions count."""
SHARED = "_core::batch::share"
"""The function in which the thread that calls takes part in what all do."""


def conversations(count: int) -> list[list[dict[str, str]]]:
    """So many conversations, each of other text."""
    file = texts.pieces_of("English", count * 6, 160)
    texts.write(file)
    pieces = json.loads(file.read_text("utf-8"))
    roles = ("user", "assistant")
    said = [{"role": roles[at % 2], "content": text} for at, text in enumerate(pieces)]
    return [said[at : at + 6] for at in range(0, len(said), 6)]


def work(name: str, count: int, threads: int) -> Callable[[], object]:
    """A piece of work, made ready."""
    from chatcodec import Codec, Vocab  # noqa: PLC0415 (in the process that is measured)

    codec = Codec("qwen3", vocab=Vocab.from_pretrained(VOCABULARY))
    if name == "prepare":
        from chatcodec.prepare import Options, prepare  # noqa: PLC0415

        source, options = tables.make(count), Options(labels=True, threads=threads)
        return lambda: prepare([source], FOLDER / "out", codec, options, restart=True)
    chats = conversations(count)
    if name == "texts":
        said = [message["content"] for chat in chats for message in chat]
        return lambda: codec.vocab.encode_batch(said, threads=threads)
    if name == "encode_batch":
        return lambda: codec.encode_batch(chats, threads=threads)
    import pyarrow as pa  # noqa: PLC0415

    table = pa.table({"messages": chats})
    return lambda: codec.encode_table(table, labels=True, threads=threads)


def run(name: str, count: int, threads: int, runs: int) -> None:
    """Do the work in this process, and print the times."""
    job = work(name, count, threads)
    times = []
    for _ in range(runs):
        shutil.rmtree(FOLDER / "out", ignore_errors=True)
        begun = time.perf_counter()
        job()
        times.append(time.perf_counter() - begun)
    sys.stdout.write(json.dumps(times))


def _ran(name: str, count: int, threads: int, runs: int, *before: str) -> list[float]:
    job = f"from benches.cores import run; run({name!r}, {count}, {threads}, {runs})"
    command = [*before, sys.executable, "-c", job]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    times: list[float] = json.loads(done.stdout)
    return times


def timed(cores: Sequence[int]) -> list[str]:
    """Lines of seconds, and of the share of linear, by the number of cores."""
    head = f"| work | {' | '.join(map(str, cores))} | of linear |"
    lines = [head, "|---" * (len(cores) + 2) + "|"]
    for name, count in TIMED.items():
        seconds = []
        for number in cores:
            run_on = ["taskset", "-c", ",".join(map(str, range(number)))]
            seconds.append(statistics.median(_ran(name, count, number, RUNS, *run_on)))
        share = seconds[0] * cores[0] / seconds[-1] / cores[-1]
        shown = " | ".join(f"{value:.2f}" for value in seconds)
        lines.append(f"| `{name}`, {count:,} | {shown} | {share:.2f} |")
    return lines


def counted() -> list[str]:
    """Lines of the share of instructions that one thread alone does."""
    lines = [
        "| work | instructions a conversation | of them by one thread alone |",
        "|---|---|---|",
    ]
    for name, count in COUNTED.items():
        whole, alone = _instructions(name, count)
        lines.append(f"| `{name}` | {whole / count:,.0f} | {alone / whole:.1%} |")
    return lines


def _instructions(name: str, count: int) -> tuple[float, float]:
    """Instructions of a run by all threads, and by one thread alone, in the mean of two runs."""
    whole = _threads(name, count, 2) - _threads(name, count, 1)
    marked = _threads(name, count, 2, MARKED[name])
    if not marked:
        sys.exit("no function was found in the extension; `make bench-cores` builds it with names")
    alone = marked - _threads(name, count, 2, SHARED)
    return whole, alone / 2


def _threads(name: str, count: int, runs: int, within: str | None = None) -> int:
    """Instructions of all threads, or of the thread that runs a function, within that function."""
    out = FOLDER / "callgrind"
    for old in FOLDER.glob("callgrind*"):
        old.unlink()
    options = [f"--toggle-collect={within}"] if within else []
    command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", *options]
    _ran(name, count, THREADS, runs, *command, f"--callgrind-out-file={out}")
    totals = [
        int(line.partition(":")[2])
        for path in FOLDER.glob("callgrind-*")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("totals:")
    ]
    return max(totals) if within else sum(totals)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", help="numbers of cores, as 1,2,4; times instead of instructions")
    parser.add_argument("--write", action="store_true", help="write docs/generated/cores.md")
    given: Any = parser.parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    cores = [int(number) for number in given.cores.split(",")] if given.cores else []
    if cores and max(cores) > len(os.sched_getaffinity(0)):
        parser.error(f"--cores {given.cores}: this machine has {len(os.sched_getaffinity(0))}")
    on = "; ".join(f"{name}: {value}" for name, value in machine.describe().items()) + "."
    table = "\n".join(timed(cores) if cores else counted())
    sys.stdout.write(f"{on}\n\n{table}\n")
    if given.write:
        PAGE.write_text("\n".join([HEAD, TIMES if cores else COUNTS, table, "", on, ""]), "utf-8")


if __name__ == "__main__":
    main()
