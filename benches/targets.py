"""What the project aims at, as data; and whether a run met it. Pure.

A target is a bound on our own figure, or on how far ahead of a peer of the same run we are. Where
machines differ, ratios hold: so what can be said as a ratio, is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .contenders import OURS
from .figures import figure, table, times
from .results import Key
from .texts import ADVERSARIAL, MEGABYTE, RANDOM
from .vocabularies import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .results import Results, Row

BEST = "the best exact peer"
MET, NOT_MET, NOT_MEASURED = "met", "not met", "not measured"
TEXT_ALONE = Key("stream", "InternLM2", "ids to text", "one id a push")
"""Peers' streams: ids to text, and no events."""
ROUNDING = 1.0005
"""A figure that equals its bound in three digits meets it."""


@dataclass(frozen=True)
class Ahead:
    """At least `times` as fast as a peer, or the best one."""

    times: float
    peer: str = BEST

    def __str__(self) -> str:
        """As the table says it."""
        return f"≥ {self.times:.3g}x {self.peer}"


@dataclass(frozen=True)
class AtMost:
    """At most so many seconds (or megabytes) for `amount` bytes, ids or calls."""

    value: float
    amount: float = 1
    unit: str = "call"

    def __str__(self) -> str:
        """As the table says it."""
        return f"≤ {figure(self.value, self.unit)}"


@dataclass(frozen=True)
class Linear:
    """A byte of the first row costs at most so many times what a byte of the second does."""

    times: float

    def __str__(self) -> str:
        """As the table says it."""
        return f"≤ {self.times:.3g}x a byte"


@dataclass(frozen=True)
class Target:
    """A line of the table. Of several rows, the one furthest from the bound counts."""

    label: str
    bound: Ahead | AtMost | Linear
    rows: tuple[Key, ...]
    beside: Key | None = None
    """A row of peers that do less, where none does the same."""
    published: str = ""
    """What others were measured at elsewhere, where they cannot be run here."""


@dataclass(frozen=True)
class Verdict:
    """What a run says of a target."""

    target: Target
    verdict: str
    ours: str = ""
    peer: str = ""
    ratio: str = ""


def _document(vocabulary: str, text: str, bound: Ahead) -> Target:
    key = Key("document", vocabulary, text, "fresh flat")
    return Target(f"{vocabulary}, 5 MB document, fresh flat: {text}", bound, (key,))


def _message(vocabulary: str, measure: str, bound: Ahead) -> Target:
    key = Key("message", vocabulary, "English", measure)
    return Target(f"{vocabulary}, message of 2.8 KB, {measure}", bound, (key,))


def _conversation(vocabulary: str, size: str, measure: str, bound: Ahead | AtMost) -> Target:
    key = Key("conversation", vocabulary, size, measure)
    return Target(f"{vocabulary}, messages to ids, {size}, {measure}", bound, (key,))


def _conversations(vocabulary: str) -> Iterable[Target]:
    for size, fresh, hot, ahead in (
        ("2 KB", 40e-6, 15e-6, 40.0),
        ("25 KB", 250e-6, 100e-6, 100.0),
    ):
        peer = Ahead(ahead, "transformers")
        yield _conversation(vocabulary, size, "fresh flat", peer)
        yield _conversation(vocabulary, size, "fresh flat", AtMost(fresh))
        yield _conversation(vocabulary, size, "hot flat", AtMost(hot))


def _formats(target: Target) -> Iterable[Target]:
    """A target of InternLM2's streams, and the same of all formats' streams."""
    rows = tuple(target.rows[0]._replace(vocabulary=name) for name in FORMATS)
    yield replace(target, label=f"streams, internlm2: {target.label}")
    yield replace(target, label=f"streams, the slowest format: {target.label}", rows=rows)


def _push(label: str, measure: str, nanoseconds: float) -> Iterable[Target]:
    bound = AtMost(nanoseconds * 1e-9, unit="id")
    row = Key("format", "internlm2", "text", measure)
    return _formats(Target(label, bound, (row,), beside=TEXT_ALONE))


def _call(size: str, seconds: float, published: str = "") -> Iterable[Target]:
    row = Key("format", "internlm2", f"{size} of arguments", "one id a push")
    label = f"a call with {size} of arguments"
    return _formats(Target(label, AtMost(seconds), (row,), published=published))


def _load(vocabulary: str, seconds: float) -> Iterable[Target]:
    timed = Key("load", vocabulary, "load and first call", "fresh")
    grown = Key("load", vocabulary, "memory after the text", "fresh")
    yield Target(f"{vocabulary}: load and first call", AtMost(seconds), (timed,))
    label = f"{vocabulary}: memory after 5 MB of text"
    yield Target(label, AtMost(60, unit="MB"), (grown,))


def _adversarial(vocabulary: str) -> Iterable[Target]:
    things = (*ADVERSARIAL, RANDOM)
    rows = tuple(Key("adversarial", vocabulary, thing, "fresh flat") for thing in things)
    bound = AtMost(0.1, MEGABYTE)
    yield Target(f"{vocabulary}, 1 MB of one thing, the worst", bound, rows)
    pairs = tuple(
        Key("adversarial", vocabulary, what, "fresh flat")
        for thing in things
        for what in (thing, f"{thing}, a quarter")
    )
    yield Target(f"{vocabulary}, 1 MB beside 256 KB of it, the worst", Linear(1.5), pairs)


TARGETS: tuple[Target, ...] = (
    _document("InternLM2", "English", Ahead(5, "fastokens")),
    _document("InternLM2", "chat", Ahead(5, "fastokens")),
    _document("InternLM2", "Chinese", Ahead(2)),
    _document("Llama-2", "English", Ahead(3)),
    _document("Llama-2", "chat", Ahead(3)),
    _document("Qwen2", "English", Ahead(1.3)),
    _document("Qwen2", "code", Ahead(1.1)),
    _document("Qwen2", "Chinese", Ahead(1.6)),
    _message("Qwen2", "fresh list", Ahead(1 / 0.8)),
    _message("Qwen2", "hot list", Ahead(1 / 0.5)),
    _message("Qwen2", "hot flat", Ahead(1 / 0.8)),
    _message("InternLM2", "fresh list", Ahead(1 / 0.3)),
    Target(
        "Qwen2, 2,000 short messages, fresh",
        Ahead(1.3),
        (Key("many", "Qwen2", "English", "fresh flat"),),
    ),
    *_conversations("InternLM2"),
    *_conversations("Qwen2"),
    *_push("one id a push, no event", "one id a push, no event", 60),
    *_push("one id a push, text", "one id a push, text", 250),
    *_push("an id of an array at once", "an array at once", 30),
    *_call("64 KB", 5e-3, "vLLM hermes 2.6 s, SGLang qwen25 102 s, measured elsewhere"),
    *_call("1 MB", 50e-3),
    *_load("InternLM2", 0.15),
    *_load("Qwen2", 0.3),
    *_adversarial("InternLM2"),
    *_adversarial("Qwen2"),
)


def judge(target: Target, results: Results) -> Verdict:
    """What a run says of a target."""
    rows = [results.rows[key] for key in target.rows if key in results.rows]
    if len(rows) < len(target.rows) or any(OURS not in row.cells for row in rows):
        return Verdict(target, NOT_MEASURED)
    if isinstance(target.bound, Ahead):
        return _ahead(target, target.bound, rows)
    if isinstance(target.bound, Linear):
        return _linear(target, target.bound, rows)
    beside = results.rows.get(target.beside) if target.beside else None
    return _at_most(target, target.bound, rows, beside)


def _ahead(target: Target, bound: Ahead, rows: list[Row]) -> Verdict:
    found = []
    for row in rows:
        best = row.best_peer()
        against = best if bound.peer == BEST else bound.peer
        if best is None or against not in row.cells:
            return Verdict(target, NOT_MEASURED, _ours(row))
        ahead = _median(row, against) / _median(row, OURS)
        found.append((ahead, row, against))
    ahead, row, against = min(found, key=lambda each: each[0])
    met = ahead * ROUNDING >= bound.times
    return Verdict(target, _word(met=met), _ours(row), _named(row, against), times(ahead))


def _at_most(target: Target, bound: AtMost, rows: list[Row], beside: Row | None) -> Verdict:
    row = max(rows, key=lambda row: _median(row, OURS))
    value = _median(row, OURS) * bound.amount
    others = row if beside is None else beside
    best = others.best_peer()
    peer, ratio = target.published, ""
    if best is not None:
        theirs = _median(others, best) * bound.amount
        peer = f"{best} {figure(theirs, bound.unit)}"
        if beside is None:
            ratio = times(theirs / value)
        else:
            peer += ", text alone"
    met = value <= bound.value * ROUNDING
    return Verdict(target, _word(met=met), figure(value, bound.unit), peer, ratio)


def _linear(target: Target, bound: Linear, rows: list[Row]) -> Verdict:
    pairs = zip(rows[::2], rows[1::2], strict=True)
    worst = max(_median(whole, OURS) / _median(part, OURS) for whole, part in pairs)
    return Verdict(target, _word(met=worst <= bound.times * ROUNDING), times(worst))


def _median(row: Row, name: str) -> float:
    return row.cells[name].summary.median


def _ours(row: Row) -> str:
    return figure(_median(row, OURS), row.unit)


def _named(row: Row, name: str) -> str:
    """A peer's figure, and the best one's where that is another."""
    best = row.best_peer()
    said = f"{name} {figure(_median(row, name), row.unit)}"
    if best is not None and best != name:
        said += f" (best: {best} {figure(_median(row, best), row.unit)})"
    return said


def _word(*, met: bool) -> str:
    return MET if met else NOT_MET


def render(results: Results) -> str:
    """The table of targets; of a run of some rows, those that it measured."""
    verdicts = [judge(target, results) for target in TARGETS]
    measured = [each for each in verdicts if each.verdict != NOT_MEASURED]
    shown = measured if results.about.get("partial") else verdicts
    heads = ["", "target", "chatcodec", "best exact peer", "ratio", ""]
    lines = [
        [
            each.target.label,
            str(each.target.bound),
            each.ours,
            each.peer,
            each.ratio,
            each.verdict,
        ]
        for each in shown
    ]
    met = sum(each.verdict == MET for each in verdicts)
    said = f"{met} of {len(measured)} measured targets are met; there are {len(TARGETS)}."
    if results.about.get("quick"):
        said += " A quick run: documents of 1 MB."
    return f"{table(heads, lines)}\n\n{said}"
