"""Which rows there are: a list of tasks, from the vocabularies and texts that are there."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import texts
from .contenders import CONTENDERS, OURS
from .vocabularies import EMBEDDED, FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .vocabularies import Vocabulary

BYTE, ID, CALL, SIZE = "B", "id", "call", "MB"
"""What a figure is for one of: a byte, an id, a call; or megabytes of memory."""

LOAD = ("load", "first call", "load and first call", "memory", "memory after the text")
"""What a document's sample says beside the document."""

ANCHORS = (OURS, "fastokens", "gigatoken", "tokenizers rc")
"""Those that are fastest somewhere: they take part in all rows of plain encoding."""
PLAIN = tuple(
    contender.name
    for contender in CONTENDERS
    if contender.form in {"ours", "json", "ranks", "model", "harmony"}
)
"""All that encode plain text; those that are behind everywhere are measured on English."""
CHAT = (OURS, "transformers", "mistral-common")

TRIED, PART_OF_IT, LEFT_OUT = "tried", "part of it", "left out"

MESSAGE = 2800
SHORT = 100
SEEN, UNSEEN = 100, 40
DOCUMENT = 5_000_000
LENGTHS = tuple(1 << power for power in range(16, 27, 2))
LONG = 16_000_000
STREAMED = 80_000
ARGUMENTS = (("64 KB of arguments", 1 << 16), ("1 MB of arguments", 1 << 20))


@dataclass(frozen=True)
class Effort:
    """Who takes part in a task, and for how long."""

    contenders: tuple[str, ...] = ANCHORS
    rounds: int = 5
    seconds: float = 3.0
    """So much wall-clock time a contender is given, which says how many samples it gives."""
    least: int = 3
    """Fewer samples than this it never gives."""
    whole: float = 1.5
    """Seconds: a contender that would take longer for a whole text is too slow for it."""

    def of(self, *contenders: str) -> Effort:
        """The same with others."""
        return replace(self, contenders=contenders)


FULL = Effort()
OTHERS = Effort(seconds=2.0)
"""For vocabularies beside the main ones."""
FURTHER = Effort(seconds=1.0)
"""For vocabularies whose rows say little that those of others do not."""
LONGER = Effort(rounds=3, seconds=2.0, whole=4.0)
QUICK = Effort(rounds=3, seconds=2.0, least=2, whole=0.4)


@dataclass(frozen=True)
class Task:
    """Samples of one job, by contenders in turns: one row of results for each figure of the job."""

    section: str
    vocabulary: str
    what: str
    unit: str
    job: Mapping[str, Any]
    effort: Effort
    slow: str = TRIED
    """What becomes of a contender that would take too long for a whole text."""
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
    yield from _formats(FORMATS, replace(QUICK, rounds=2).of(OURS))
    for name in _main():
        yield from _adversarial(name, Effort((OURS,), 1, least=1))


def _full() -> Iterator[Task]:
    """The rows of the targets first: a run that is broken off has them."""
    others = ("Llama-2", "Llama-3", EMBEDDED) if EMBEDDED not in _main() else ()
    for name in _main():
        yield from _documents(name, texts.KINDS, DOCUMENT, FULL)
        yield _document("document", name, "English", DOCUMENT, FULL, out="list")
        yield from _messages(name, ("English", "chat", "Chinese"), FULL)
        yield from _many(name, ("English", "chat"), FULL)
        yield from _conversations(name, FULL.of(*CHAT))
    yield from _formats(FORMATS, FULL.of(OURS))
    yield from _streams(_main()[0])
    for name in others[:1]:
        yield from _documents(name, texts.KINDS, DOCUMENT, OTHERS)
    for name in _main():
        effort = Effort((*ANCHORS, "splintr"), 3, seconds=1.0)
        yield from _adversarial(name, effort)
    for name in _main():
        for size in LENGTHS:
            yield _document("length", name, "English", size, LONGER, hot=False)
    for name in _main():
        yield from _threads(name, Effort(seconds=2.0))
    yield from _conversations("Mixtral 8x22B", FULL.of(*CHAT))
    for name in others[1:]:
        yield from _documents(name, texts.KINDS, DOCUMENT, OTHERS)
    for name in ("gpt-oss", "DeepSeek-V3", "Qwen3.5", "Kimi-K2", "GLM-4", "MiniMax-M1"):
        yield from _documents(name, ("English", "Chinese", "code", "emoji"), DOCUMENT, FURTHER)


def _main() -> tuple[str, ...]:
    """The vocabularies that all texts are measured with."""
    return ("InternLM2", "Qwen2") if "chat" in texts.KINDS else (EMBEDDED,)


def _documents(name: str, kinds: Iterable[str], size: int, effort: Effort) -> Iterator[Task]:
    for kind in kinds:
        if kind in texts.KINDS:
            all_of_them = kind == "English" and size == DOCUMENT
            who = effort.of(*PLAIN) if all_of_them else effort
            yield _document("document", name, kind, size, who)


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
        slow=PART_OF_IT if section == "document" else LEFT_OUT,
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


def _formats(formats: Iterable[str], effort: Effort) -> Iterator[Task]:
    text = str(texts.document("English", STREAMED))
    for name in formats:
        yield Task("format", name, "text", ID, {"do": "pushes", "text": text}, effort)
        for what, size in ARGUMENTS:
            job = {"do": "arguments", "text": str(texts.document("English", size))}
            yield Task("format", name, what, CALL, job, effort)


def _streams(name: str) -> Iterator[Task]:
    text = str(texts.document("English", STREAMED))
    job = {"do": "stream", "text": text}
    yield Task("stream", name, "ids to text", ID, job, FULL.of(OURS, "tokenizers", "splintr"))
    yield Task("stream", "gpt-oss", "ids to text", ID, job, FULL.of(OURS, "openai-harmony"))
    pool = {"do": "pool", "text": text, "streams": 1000, "steps": 50}
    yield Task("stream", name, "a pool of 1,000", ID, pool, FULL.of(OURS))


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
    rows = (
        ("messages", "many", {"items": str(texts.pieces_of("English", 1000, MESSAGE))}, effort),
        (
            "conversations",
            "conversation_batch",
            {"items": str(texts.conversations(1000, 2_000))},
            effort.of(OURS),
        ),
        (
            "one document",
            "threaded",
            {"text": str(texts.document("English", LONG))},
            effort.of(OURS),
        ),
    )
    for what, do, given, who in rows:
        for threads in counts:
            yield Task("threads", name, what, BYTE, {"do": do, "threads": threads, **given}, who)


def _size(size: int) -> str:
    return f"{size >> 20} MB" if size >= texts.MEGABYTE else f"{size >> 10} KB"
