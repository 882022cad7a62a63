"""Parquet to Parquet with labels, beside transformers in `datasets.map` with a mask.

`make bench-tables` prints the table. What goes in: conversations in the shapes of recorded chats,
each of other text, in Parquet. What comes out: rows with `input_ids` and `labels`.

Every sample is a process of its own. The clock of a stage is the CPU time of the process with all
its threads. The peer encodes a sample of the same rows, and its time is extrapolated; imports and
the vocabulary are counted for neither. Ids and labels of that sample are compared with ours.
Scaling is that of `chatcodec prepare`, by the clock, with all that a process does.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts, vocabularies
from .paths import DATA, ROOT, WORK

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = WORK / "tables"
BATCH = 4096
"""Rows of a batch."""
CHATS = ("glaive_toolcall_en_demo", "glaive_toolcall_zh_demo", "fastchat_dummy_conversation")
BLOCK = (
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
    "{% else %}{{ message['content'] + '<|im_end|>' + '\\n' }}{% endif %}"
)
SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant<|im_end|>\\n' }}{% endif %}"
)
MASKED = (
    SYSTEM + "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}" + BLOCK + "{% endfor %}"
)
"""Qwen2's template with the tags by which transformers makes a mask of the assistant's tokens."""


def make(rows: int) -> Path:
    """A file of so many conversations."""
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    path = FOLDER / f"chats-{rows}.parquet"
    if path.is_file():
        return path
    lengths = []
    for name in CHATS:
        chats = json.loads((DATA / "corpus" / f"chat_{name}.json").read_bytes())
        lengths += [[len(turn["value"]) for turn in chat["conversations"]] for chat in chats]
    chance = random.Random(0)  # noqa: S311 (no secret)
    drawn = [chance.choice(lengths) for _ in range(rows)]
    text = texts.longer(texts.corpus("chat"), 2 * sum(map(sum, drawn)))
    at = 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path.with_suffix(".part"), _schema(pa)) as writer:
        for start in range(0, rows, BATCH):
            messages = []
            for sizes in drawn[start : start + BATCH]:
                turns = []
                for nth, size in enumerate(sizes):
                    content = text[at : at + size].strip() or "-"
                    turns.append({"role": ("user", "assistant")[nth % 2], "content": content})
                    at += size
                messages.append(turns)
            writer.write_table(pa.table({"messages": messages}, _schema(pa)))
    path.with_suffix(".part").replace(path)
    return path


def _schema(pa: Any) -> Any:  # noqa: ANN401
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    return pa.schema([("messages", pa.list_(message))])


class Stages:
    """CPU seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Count what is done within as a stage."""
        begun = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0) + time.process_time() - begun


def ours(path: Path, threads: int) -> dict[str, Any]:
    """A file by `encode_table`, batch by batch."""
    stages = Stages()
    with stages.of("imports and vocabulary"):
        pa = importlib.import_module("pyarrow")
        pq = importlib.import_module("pyarrow.parquet")
        codec = _codec()
    pa.set_cpu_count(threads)
    before = _peak()
    out = path.with_name("ours.parquet")
    writer: Any = None
    file = pq.ParquetFile(path)
    batches = file.iter_batches(BATCH, use_threads=False)
    ids = 0
    while True:
        with stages.of("read Parquet"):
            batch = next(batches, None)
        if batch is None:
            break
        with stages.of("core"):
            encoded = codec.encode_table(batch, labels=True, threads=threads)
        with stages.of("write Parquet"):
            table = pa.table(encoded).select(["input_ids", "labels"])
            writer = writer or pq.ParquetWriter(
                out, table.schema, compression="zstd", use_dictionary=False
            )
            writer.write_table(table)
        ids += len(table["input_ids"].combine_chunks().values)
    with stages.of("write Parquet"):
        writer.close()
    return {"stages": stages.seconds, "ids": ids, "memory": _peak(), "before": before}


def peer(path: Path, rows: int) -> dict[str, Any]:
    """The first rows of the file by transformers in `datasets.map`, with a mask."""
    transformers = importlib.import_module("transformers")
    datasets = importlib.import_module("datasets")
    datasets.disable_progress_bars()
    form = vocabularies.all_of_them()["Qwen2"].forms["chat"]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=form["path"])
    tokenizer.chat_template = MASKED

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        made = tokenizer.apply_chat_template(
            row["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        pairs = zip(made["input_ids"], made["assistant_masks"], strict=True)
        labels = [token if trained else -100 for token, trained in pairs]
        return {"input_ids": made["input_ids"], "labels": labels}

    data = datasets.Dataset.from_parquet(str(path), cache_dir=str(FOLDER / "cache"))
    data = data.select(range(rows))
    encode(data[0])
    begun = time.process_time()
    mapped = data.map(encode, remove_columns=["messages"], load_from_cache_file=False)
    mapped.to_parquet(str(FOLDER / "peer.parquet"))
    return {"seconds": time.process_time() - begun}


def prepared(path: Path, cores: int) -> float:
    """Seconds by the clock of `chatcodec prepare` on so many cores."""
    out = path.with_name("prepared")
    shutil.rmtree(out, ignore_errors=True)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    vocab = DATA / "vocab" / "qwen2" / "tokenizer.json"
    options = ["--format", "qwen2", "--vocab", str(vocab), "--labels", "--quiet"]
    command = [sys.executable, "-m", "chatcodec", "prepare", str(path), str(out), *options]
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return time.perf_counter() - begun


def shared(rows: int) -> dict[str, float]:
    """CPU seconds of short conversations: with one system prompt, one each, and without."""
    pa = importlib.import_module("pyarrow")
    codec = _codec()
    text = texts.cut(texts.longer(texts.corpus("chat"), 6000), 6000)
    systems = {
        "shared": [text] * rows,
        "their own": [f"{at} {text}" for at in range(rows)],
        "none": [""] * rows,
    }
    taken: dict[str, list[float]] = {}
    for _ in range(5):
        for name, prompts in systems.items():
            chats = []
            for at, prompt in enumerate(prompts):
                chat = [("user", f"question {at}"), ("assistant", f"answer {at}")]
                whole = [("system", prompt), *chat] if prompt else chat
                chats.append([{"role": role, "content": content} for role, content in whole])
            table = pa.table({"messages": chats}, _schema(pa))
            begun = time.process_time()
            codec.encode_table(table, labels=True, threads=1)
            taken.setdefault(name, []).append(time.process_time() - begun)
    return {name: min(times) for name, times in taken.items()}


def _codec() -> Any:  # noqa: ANN401
    from chatcodec import Codec  # noqa: PLC0415 (its time is measured)

    return Codec("qwen2", vocab=DATA / "vocab" / "qwen2" / "tokenizer.json")


def _peak() -> float:
    """The most memory that the process had, in MB."""
    # `ru_maxrss` is not less than that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _child(*words: object) -> Any:  # noqa: ANN401
    command = [sys.executable, "-m", "benches.tables", "--do", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])


def _compare(rows: int) -> str:
    """Whether both wrote the same for the sample."""
    pq = importlib.import_module("pyarrow.parquet")
    other = pq.read_table(FOLDER / "peer.parquet").to_pydict()
    first = pq.read_table(FOLDER / "ours.parquet").slice(0, rows).to_pydict()
    same = [
        sum(a == b for a, b in zip(first[name], other[name], strict=True))
        for name in ("input_ids", "labels")
    ]
    return f"of {rows} rows, ids of {same[0]} and labels of {same[1]} are the same"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _stages_of(made: dict[str, Any]) -> str:
    whole = sum(made["stages"].values())
    parts = [f"{name} {1e2 * s / whole:.0f} %" for name, s in made["stages"].items()]
    return ", ".join(parts)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--peer", type=int, default=1000, help="rows that the peer encodes")
    parser.add_argument("--do", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.do:
        name, path, number = asked.do
        if name == "shared":
            _say(json.dumps(shared(int(number))))
            return
        do: dict[str, Any] = {"ours": ours, "peer": peer, "prepared": prepared}
        _say(json.dumps(do[name](Path(path), int(number))))
        return
    if not DATA.is_dir():
        sys.exit(f"{DATA}: absent; the vocabulary and the chats are read there")
    path, longer = make(asked.rows), make(4 * asked.rows)
    _say(f"{asked.rows} conversations, {path.stat().st_size / 1e6:.0f} MB of Parquet")
    cores = len(os.sched_getaffinity(0))
    large = _child("ours", longer, 1)
    one = _child("ours", path, 1)
    start = one["stages"].pop("imports and vocabulary")
    cpu = sum(one["stages"].values())
    _say(f"chatcodec, 1 thread: {cpu:.2f} s of CPU, {one['ids'] / cpu / 1e6:.1f} M ids/s")
    _say(f"  {_stages_of(one)}; imports and vocabulary {start:.2f} s more")
    rows = min(asked.peer, asked.rows)
    theirs = _child("peer", path, rows)
    extrapolated = theirs["seconds"] * asked.rows / rows
    _say(f"transformers in datasets.map: {extrapolated:.0f} s of CPU, by {rows} rows")
    _say(f"  {extrapolated / cpu:.0f} times ours; {_compare(rows)}")
    _say(f"  {extrapolated / one['stages']['core']:.0f} times the core alone")
    walls: dict[int, list[float]] = {1: [], cores: []}
    for _ in range(3):
        for number, taken in walls.items():
            taken.append(_child("prepared", longer, number))
    best = {number: min(taken) for number, taken in walls.items()}
    scaling = best[1] / best[cores] / cores
    _say(f"chatcodec prepare, {4 * asked.rows} conversations:")
    _say(f"  {best[1]:.2f} s on 1 core, {best[cores]:.2f} s on {cores}: {scaling:.2f} of linear")
    _say(f"memory: {one['memory']:.0f} MB, and {large['memory']:.0f} MB for four times the rows")
    _say(f"  {one['before']:.0f} MB of them with the vocabulary loaded, before the first row")
    prompts = _child("shared", path, 3000)
    own, once = (prompts[name] - prompts["none"] for name in ("their own", "shared"))
    _say(f"a system prompt of 6,000 characters, shared: {once / own:.2f} of one that each row has")


if __name__ == "__main__":
    main()
