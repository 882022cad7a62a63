"""What a worker does for one sample, in a process that has imported the library and nothing else.

A job is a JSON object: `do` names a function here, the other keys are its arguments. It returns
`figures`, a measure's seconds (or megabytes) and over how much they go; and `digest`, of all ids or
texts that were made, which the harness compares between contenders.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import resource
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import adapters
from .adapters import UnsupportedError, id_bytes, joined, read_items, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Figure = tuple[float, float]
"""Seconds, or megabytes; and the bytes, ids or calls that it goes over."""
Job = dict[str, Any]
T = TypeVar("T")

RARE = "\U0001fae8"
"""A character that vocabularies spell in several ids."""
FIRST = "Hello, world! What is new?"
"""What a library encodes first of all."""


def run(name: str, job: Job) -> dict[str, Any]:
    """Does a job."""
    return JOBS[job["do"]](name, job)


def document(name: str, job: Job) -> dict[str, Any]:
    """One text by a new instance; with `hot`, the same text the third time, as messages are."""
    text = read_text(job["text"])[: job.get("limit")]
    size = len(text.encode())
    before = _resident()
    load_time, loaded = _timed(lambda: adapters.load(name, job["vocabulary"]))
    encode = _known(loaded.listed if job["out"] == "list" else loaded.flat)
    first_time, _ = _timed(lambda: encode(FIRST))
    grown = _resident() - before
    fresh_time, ids = _timed(lambda: encode(text))
    grown_after = _resident() - before
    digest = _digest(id_bytes(ids))
    del ids
    out = job["out"]
    figures: dict[str, Figure] = {
        f"fresh {out}": (fresh_time, size),
        "load": (load_time, 1),
        "first call": (first_time, 1),
        "load and first call": (load_time + first_time, 1),
        "memory": (grown / 1e6, 1),
        "memory after the text": (grown_after / 1e6, 1),
    }
    if job.get("hot"):
        encode(text)
        figures[f"hot {out}"] = (_timed(lambda: encode(text))[0], size)
    return {"figures": figures, "digest": digest}


def messages(name: str, job: Job) -> dict[str, Any]:
    """Messages that an instance has not seen, after others that it has; then one of them again."""
    loaded = adapters.load(name, job["vocabulary"])
    return _each(job, _known(loaded.listed), _known(loaded.flat))


def conversations(name: str, job: Job) -> dict[str, Any]:
    """The same for whole conversations."""
    loaded = adapters.load(name, job["vocabulary"])
    return _each(job, _known(loaded.conversation_list), _known(loaded.conversation))


def _each(
    job: Job, listed: Callable[[Any], Sequence[int]], flat: Callable[[Any], object]
) -> dict[str, Any]:
    items = read_items(job["items"])
    seen, unseen = job["seen"], job["unseen"]
    for item in items[:seen]:
        listed(item)
    figures: dict[str, Figure] = {}
    made: list[object] = []
    start = seen
    for out, encode in (("list", listed), ("flat", flat)):
        new = items[start : start + unseen]
        start += unseen
        seconds, results = _timed_each(encode, new)
        figures[f"fresh {out}"] = (seconds, len(new))
        made += results
        encode(items[seen])
        # What comes out is not kept, so that no new pages of memory are in the figure.
        again = [items[seen]] * job["hot"]
        figures[f"hot {out}"] = (_timed(partial(_each_for, encode, again))[0], len(again))
    return {"figures": figures, "digest": _digest(joined(made))}


def many(name: str, job: Job) -> dict[str, Any]:
    """Many texts in one call by a new instance; with `threads`, in wall-clock time."""
    texts = read_items(job["items"])
    threads = job.get("threads", 0)
    if threads:
        _use_cores(threads)
    loaded = adapters.load(name, job["vocabulary"])
    encode = _known(loaded.many)
    encode([FIRST, FIRST], max(threads, 1))
    clock = time.perf_counter if threads else _cpu_time
    start = clock()
    ids = encode(texts, max(threads, 1))
    seconds = clock() - start
    size = sum(len(text.encode()) for text in texts)
    measure = f"{threads} threads" if threads else "fresh flat"
    return {"figures": {measure: (seconds, size)}, "digest": _digest(id_bytes(ids))}


def conversation_batch(name: str, job: Job) -> dict[str, Any]:
    """Many conversations in one call of ours."""
    items = read_items(job["items"])
    threads = job["threads"]
    _use_cores(threads)
    codec = adapters.load(name, job["vocabulary"]).itself
    start = time.perf_counter()
    batch = codec.encode_batch(items, threads=threads)
    seconds = time.perf_counter() - start
    size = sum(len(message["content"].encode()) for item in items for message in item)
    return {
        "figures": {f"{threads} threads": (seconds, size)},
        "digest": _digest(id_bytes(batch.ids)),
    }


def stream(name: str, job: Job) -> dict[str, Any]:
    """The ids of a text to its text, one at a time."""
    loaded = adapters.load(name, job["vocabulary"])
    streamed = _known(loaded.streamed)
    ids = list(_known(loaded.listed)(read_text(job["text"])))
    streamed(ids[:100])
    seconds, text = _timed(lambda: streamed(ids))
    return {"figures": {"one id a push": (seconds, len(ids))}, "digest": _digest(text.encode())}


def threaded(name: str, job: Job) -> dict[str, Any]:
    """One text by a new instance on several threads, in wall-clock time."""
    text = read_text(job["text"])
    threads = job["threads"]
    _use_cores(threads)
    encode = _known(adapters.load(name, job["vocabulary"]).threaded)
    encode(FIRST, threads)
    start = time.perf_counter()
    ids = encode(text, threads)
    seconds = time.perf_counter() - start
    return {
        "figures": {f"{threads} threads": (seconds, len(text.encode()))},
        "digest": _digest(id_bytes(ids)),
    }


def pushes(name: str, job: Job) -> dict[str, Any]:
    """An answer of text by our own streams: one id a push, with and without events; in bulk."""
    codec = adapters.load(name, job["vocabulary"]).itself
    ids = _completion(codec, {"content": read_text(job["text"])})
    _each_for(codec.stream().push, ids)
    with_event, _ = _timed(lambda: _each_for(codec.stream().push, ids))
    figures: dict[str, Figure] = {"one id a push, text": (with_event, len(ids))}
    before, id_ = _quiet(codec)
    waiting = [codec.stream() for _ in range(2000)]
    for stream_ in waiting:
        stream_.push(before)
    given = [stream_.push for stream_ in waiting]
    without, _ = _timed(lambda: _push_once(given, id_))
    figures["one id a push, no event"] = (without, len(given))
    # What the interpreter takes for as many calls that do nothing but to return a new list.
    calls: list[Callable[[], list[int]]] = [[].copy for _ in given]
    figures["a call"] = (_timed(lambda: _call_each(calls))[0], len(calls))
    said = ""
    flat = importlib.import_module("array").array("i", ids)
    for measure, some in (("a list at once", ids), ("an array at once", flat)):
        seconds, (events,) = _timed_each(codec.stream().push, [some])
        figures[measure] = (seconds, len(ids))
        said = "".join(getattr(event, "text", "") for event in events)
    figures["parse"] = (_timed(lambda: codec.parse(flat))[0], len(ids))
    return {"figures": figures, "digest": _digest(said.encode())}


def arguments(name: str, job: Job) -> dict[str, Any]:
    """One call with long arguments: streamed one id a push, and parsed whole."""
    codec = adapters.load(name, job["vocabulary"]).itself
    json = importlib.import_module("json")
    content = {"text": read_text(job["text"])}
    function = {"name": "write", "arguments": json.dumps(content)}
    call = {"id": "abcdefgh1", "type": "function", "function": function}
    ids = _completion(codec, {"tool_calls": [call]})
    _each_for(codec.stream().push, ids)
    streamed, _ = _timed(lambda: _each_for(codec.stream().push, ids))
    parsed, message = _timed(lambda: codec.parse(ids).message)
    told = message["tool_calls"][0]["function"]["arguments"]
    if json.loads(told) != content:
        raise ValueError("the arguments were not read back")
    return {
        "figures": {"one id a push": (streamed, 1), "parse": (parsed, 1)},
        "digest": _digest(told.encode()),
    }


def _completion(codec: Any, answer: dict[str, Any]) -> list[int]:  # noqa: ANN401 - of no known type
    """The ids that a model generates to give an answer."""
    question = [{"role": "user", "content": "Write."}]
    prompt: list[int] = codec.encode(question, add_generation_prompt=True).ids.tolist()
    answered = [*question, {"role": "assistant", **answer}]
    whole: list[int] = codec.encode(answered, add_generation_prompt=False).ids.tolist()
    if whole[: len(prompt)] != prompt:
        raise UnsupportedError
    return whole[len(prompt) :]


def _quiet(codec: Any) -> tuple[list[int], int]:  # noqa: ANN401 - of no known type
    """Ids of an answer that begins with text, and the next one, which does not end a character."""
    ids = _completion(codec, {"content": f"Hello {RARE * 2}"})
    push = codec.stream().push
    said = [bool(push(id_)) for id_ in ids]
    at = next(at for at, event in enumerate(said) if not event and any(said[:at]))
    return ids[:at], ids[at]


def pool(name: str, job: Job) -> dict[str, Any]:
    """A step of an engine: one id for each of many streams, in one call."""
    codec = adapters.load(name, job["vocabulary"]).itself
    streams, steps = job["streams"], job["steps"]
    ids = codec.vocab.encode(read_text(job["text"])).tolist()[:steps]
    streams_pool = importlib.import_module("chatcodec").StreamPool(codec)
    slots = [streams_pool.open() for _ in range(streams)]
    array = importlib.import_module("array").array
    given = [array("i", [id_] * streams) for id_ in ids]
    where = array("i", slots)
    seconds, _ = _timed(lambda: [streams_pool.push(where, step) for step in given])
    return {"figures": {"one id a stream": (seconds, steps * streams)}, "digest": ""}


def ids(name: str, job: Job) -> dict[str, Any]:
    """Writes the ids of a text to a file."""
    text = read_text(job["text"])[: job.get("limit")]
    loaded = adapters.load(name, job["vocabulary"])
    Path(job["to"]).write_bytes(id_bytes(_known(loaded.flat)(text)))
    return {"figures": {}, "digest": ""}


def spell(name: str, job: Job) -> dict[str, Any]:
    """The text of some ids."""
    loaded = adapters.load(name, job["vocabulary"])
    vocab = getattr(loaded.itself, "vocab", loaded.itself)
    return {"figures": {}, "digest": "", "text": vocab.decode(job["ids"])}


JOBS: dict[str, Callable[[str, Job], dict[str, Any]]] = {
    function.__name__: function
    for function in (
        document,
        messages,
        conversations,
        many,
        conversation_batch,
        stream,
        threaded,
        pushes,
        arguments,
        pool,
        ids,
        spell,
    )
}


def _each_for(function: Callable[[Any], object], given: Iterable[Any]) -> None:
    for one in given:
        function(one)


def _push_once(pushes: Iterable[Callable[[int], object]], id_: int) -> None:
    for push in pushes:
        push(id_)


def _call_each(calls: Iterable[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _known(function: T | None) -> T:
    if function is None:
        raise UnsupportedError
    return function


def _timed_each(function: Callable[[Any], T], given: Iterable[Any]) -> tuple[float, list[T]]:
    start = _cpu_time()
    results = [function(one) for one in given]
    return _cpu_time() - start, results


def _timed(function: Callable[[], T]) -> tuple[float, T]:
    start = _cpu_time()
    result = function()
    return _cpu_time() - start, result


def _cpu_time() -> float:
    return time.process_time_ns() / 1e9


def _use_cores(threads: int) -> None:
    """As many cores as threads; libraries on rayon read the number from the environment."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(min(threads, os.cpu_count() or 1)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _resident() -> int:
    """Bytes of resident memory; where the system does not tell, the most there ever were."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
