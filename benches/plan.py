"""Which rows there are: a list of tasks, from the vocabularies and texts that are there."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import texts
from .contenders import CONTENDERS, OURS
from .vocabularies import EMBEDDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .vocabularies import Vocabulary

BYTE, ID, CALL, SIZE = "B", "id", "call", "MB"
"""What a figure is for one of: a byte, an id, a call; or megabytes of memory."""

LOAD = ("load", "first call", "load and first call", "memory", "memory after the text")
"""What a document's sample says beside the document."""

PLAIN = tuple(
    contender.name
    for contender in CONTENDERS
    if contender.form in {"ours", "json", "ranks", "model", "harmony"}
)
CHAT = (OURS, "transformers", "mistral-common")
FASTEST = (OURS, "fastokens", "gigatoken", "tokenizers rc", "splintr", "tokenizers")

MESSAGE = 2800
SHORT = 100
SEEN, UNSEEN = 100, 40
DOCUMENT = 5_000_000
LENGTHS = tuple(1 << power for power in range(16, 27, 2))
STREAMED = 80_000


@dataclass(frozen=True)
class Effort:
    """Who takes part in a task, and for how long."""

    contenders: tuple[str, ...] = PLAIN
    rounds: int = 7
    seconds: float = 1.5
    """After so much wall-clock time a contender has samples enough, if it has `least`."""
    least: int = 3
    whole: float = 3.0
    """A contender that would take longer for a whole text is given a part of it, or left out."""

    def of(self, *contenders: str) -> Effort:
        """The same with others."""
        return replace(self, contenders=contenders)


FULL = Effort()
QUICK = Effort((OURS, "fastokens", "gigatoken", "tokenizers rc", "tokenizers"), 3, 1.0, whole=0.4)


@dataclass(frozen=True)
class Task:
    """Samples of one job, by contenders in turns: one row of results for each figure of the job."""

    section: str
    vocabulary: str
    what: str
    unit: str
    job: Mapping[str, Any]
    effort: Effort
    partial: bool = False
    """A contender that is too slow for the whole text is given a part of it."""
    keeps_load: bool = False
    """Figures of loading and memory are kept."""

    def at_most(self, rounds: int) -> Task:
        """The same with no more rounds."""
        effort = replace(self.effort, rounds=min(rounds, self.effort.rounds))
        return replace(self, effort=effort)


def tasks(vocabularies: Mapping[str, Vocabulary], *, quick: bool) -> list[Task]:
    """All tasks of a run, those whose vocabulary or text is not there left out."""
    made = _quick() if quick else _full()
    return [task for task in made if task.vocabulary in vocabularies]


def _quick() -> Iterator[Task]:
    for name in _main():
        yield from _documents(name, ("English", "chat", "Chinese"), 1_000_000, QUICK)
        yield from _messages(name, ("English",), QUICK)
        yield from _conversations(name, QUICK.of(*CHAT))
    yield from _many(_main()[-1], ("English",), QUICK)
    yield from _streams(_main()[0], QUICK)
    yield from _adversarial(_main()[0], Effort((OURS,), 1))


def _full() -> Iterator[Task]:
    for name in _main():
        yield from _documents(name, texts.KINDS, DOCUMENT, FULL)
        yield _document("document", name, "English", DOCUMENT, FULL, out="list")
    for name in ("Llama-2", "Llama-3"):
        yield from _documents(name, ("English", "chat", "Chinese", "code"), DOCUMENT, FULL)
    if EMBEDDED not in _main():
        yield from _documents(EMBEDDED, ("English", "code"), DOCUMENT, FULL)
        yield from _documents("gpt-oss", ("English",), DOCUMENT, FULL)
    for name in _main():
        yield from _messages(name, ("English", "chat", "Chinese"), FULL)
        yield from _many(name, ("English", "chat"), FULL)
        yield from _conversations(name, FULL.of(*CHAT))
    yield from _conversations("Mixtral 8x22B", FULL.of(*CHAT))
    yield from _streams(_main()[0], FULL)
    yield from _streamed("gpt-oss", FULL.of("openai-harmony"))
    for name in _main():
        yield from _adversarial(name, Effort(rounds=3, seconds=0.5, least=1))
    for size in LENGTHS:
        yield _document(
            "length", _main()[0], "English", size, Effort(FASTEST, 3, least=1, whole=6.0), hot=False
        )
    for name in _main():
        yield from _threads(name, Effort((*FASTEST, "tiktoken", "sentencepiece"), 3, 2.0))


def _main() -> tuple[str, ...]:
    """The vocabularies that all texts are measured with."""
    return ("InternLM2", "Qwen2") if "chat" in texts.KINDS else (EMBEDDED,)


def _documents(name: str, kinds: Iterable[str], size: int, effort: Effort) -> Iterator[Task]:
    for kind in kinds:
        if kind in texts.KINDS:
            yield _document("document", name, kind, size, effort)


def _document(  # noqa: PLR0913 - the columns of a table
    section: str,
    name: str,
    kind: str,
    size: int,
    effort: Effort,
    *,
    hot: bool = True,
    out: str = "flat",
) -> Task:
    return Task(
        section,
        name,
        kind if section == "document" else _size(size),
        BYTE,
        {"do": "document", "text": str(texts.document(kind, size)), "out": out, "hot": hot},
        effort,
        partial=section == "document",
        keeps_load=section == "document" and kind == "English" and out == "flat",
    )


def _messages(name: str, kinds: Iterable[str], effort: Effort) -> Iterator[Task]:
    for kind in kinds:
        if kind in texts.KINDS:
            items = texts.pieces_of(kind, SEEN + 2 * UNSEEN, MESSAGE)
            job = {"do": "messages", "items": str(items), "seen": SEEN, "unseen": UNSEEN, "hot": 50}
            yield Task("message", name, kind, CALL, job, effort)


def _many(name: str, kinds: Iterable[str], effort: Effort) -> Iterator[Task]:
    for kind in kinds:
        if kind in texts.KINDS:
            job = {"do": "many", "items": str(texts.pieces_of(kind, 2000, SHORT))}
            yield Task("many", name, kind, BYTE, job, effort)


def _conversations(name: str, effort: Effort) -> Iterator[Task]:
    for size, seen, unseen in ((2_000, 100, 40), (25_000, 8, 8)):
        items = str(texts.conversations(seen + 2 * unseen, size))
        job = {"do": "conversations", "items": items, "seen": seen, "unseen": unseen, "hot": 20}
        yield Task("conversation", name, f"{size // 1000} KB", CALL, job, effort)


def _streams(name: str, effort: Effort) -> Iterator[Task]:
    ours = effort.of(OURS)
    text = str(texts.document("English", STREAMED))
    yield Task("stream", name, "text", ID, {"do": "pushes", "text": text}, ours)
    yield from _streamed(name, effort)
    for what, size in (("64 KB", 1 << 16), ("1 MB", 1 << 20)):
        job = {"do": "arguments", "text": str(texts.document("English", size))}
        yield Task("arguments", name, what, CALL, job, ours)
    pool = {"do": "pool", "text": text, "streams": 1000, "steps": 50}
    yield Task("stream", name, "a pool of 1,000", ID, pool, ours)


def _streamed(name: str, effort: Effort) -> Iterator[Task]:
    text = str(texts.document("English", STREAMED))
    yield Task("stream", name, "ids to text", ID, {"do": "stream", "text": text}, effort)


def _adversarial(name: str, effort: Effort) -> Iterator[Task]:
    for thing in (*texts.ADVERSARIAL, texts.RANDOM):
        for what, size, who in (
            (thing, texts.MEGABYTE, effort),
            (f"{thing}, a quarter", texts.MEGABYTE // 4, effort.of(OURS)),
        ):
            path = str(texts.adversarial(thing, size))
            job = {"do": "document", "text": path, "out": "flat"}
            yield Task("adversarial", name, what, BYTE, job, who)


def _threads(name: str, effort: Effort) -> Iterator[Task]:
    cores = os.cpu_count() or 1
    counts = sorted({*(1 << power for power in range(cores.bit_length())), cores})
    items = str(texts.pieces_of("English", 1000, MESSAGE))
    chats = str(texts.conversations(1000, 2_000))
    for threads in counts:
        many = {"do": "many", "items": items, "threads": threads}
        yield Task("threads", name, "messages", BYTE, many, effort)
        batch = {"do": "conversation_batch", "items": chats, "threads": threads}
        yield Task("threads", name, "conversations", BYTE, batch, effort.of(OURS))


def _size(size: int) -> str:
    return f"{size >> 20} MB" if size >= texts.MEGABYTE else f"{size >> 10} KB"
