"""How cells are measured: which clock, which core, in which order, and only what is exact.

Contenders of a row take turns (`takes_turns`), so that what else the machine does meanwhile hits
all of them alike; the report takes the median over all rounds of all turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest

from .peers import TOKENIZERS, Contender, Encode

if TYPE_CHECKING:
    from pathlib import Path

TURNS = 3

Setup = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
Test = Callable[..., None]


class Turn(NamedTuple):
    """Whose turn it is, and which."""

    number: int
    contender: Contender


class Benchmark(Protocol):
    """What is used of pytest-benchmark's fixture."""

    group: str | None
    extra_info: dict[str, object]

    def pedantic(  # noqa: PLR0913 - as it is there
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        *,
        setup: Setup | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> object: ...


@dataclass
class Checks:
    """Which peers give our ids for which texts; what was left out because it does not."""

    ours: dict[str, object] = field(default_factory=dict)
    exact: dict[tuple[str, str], bool] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)

    def check(
        self, what: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object]
    ) -> None:
        """Compares results before they are timed; skips for a peer whose differ."""
        if what not in self.ours:
            self.ours[what] = ours()
        if (what, peer) not in self.exact:
            self.exact[what, peer] = theirs() == self.ours[what]
        if not self.exact[what, peer]:
            note = f"{what}: {peer} gives another result and is left out"
            self.notes.add(note)
            pytest.skip(note)


@dataclass(frozen=True)
class Bench:
    """What a test measures with."""

    model: Path
    benchmark: Benchmark
    checks: Checks
    request: pytest.FixtureRequest

    def cell(
        self, section: str, row: str, contender: Contender, amount: int = 0, unit: str = ""
    ) -> Benchmark:
        """The benchmark, told which cell of which table it is for.

        `amount` bytes (`"B"`) or ids (`"id"`) are handled in a round: the report says how fast.
        """
        self.benchmark.group = f"{section}: {row}"
        self.benchmark.extra_info |= {
            "section": section,
            "row": row,
            "column": contender.name,
            "role": contender.role,
            "amount": amount,
            "unit": unit,
        }
        return self.benchmark

    def peer(self, contender: Contender) -> Any:  # noqa: ANN401 - the peers have no types
        """A peer's tokenizer, loaded once."""
        return self.request.getfixturevalue(contender.name)

    def peer_encode(self, contender: Contender) -> Encode:
        """A peer's plain encode."""
        loaded = self.peer(contender)
        if contender is TOKENIZERS:
            return lambda text: loaded.encode(text, add_special_tokens=False).ids
        encode: Encode = loaded.encode
        return encode


def cpu_time(test: Test) -> Test:
    """Measures the CPU time of the process, on one core."""
    clock = pytest.mark.benchmark(timer=time.process_time, disable_gc=True)
    marked: Test = pytest.mark.usefixtures("one_core")(clock(test))
    return marked


def wall_clock(test: Test) -> Test:
    """Measures the time that passes, on all cores."""
    marked: Test = pytest.mark.benchmark(timer=time.perf_counter, disable_gc=True)(test)
    return marked


def takes_turns(*contenders: Contender, turns: int = TURNS) -> pytest.MarkDecorator:
    """Runs a test for each contender, then for all of them again: a, b, c, a, b, c."""
    order = [Turn(number, contender) for number in range(turns) for contender in contenders]
    names = [f"{turn.number}-{turn.contender.name}" for turn in order]
    return pytest.mark.parametrize("turn", order, ids=names)


def each(items: Iterable[object]) -> Setup:
    """Gives a round the next item."""
    rest = iter(items)
    return lambda: ((next(rest),), {})


def a_new(make: Callable[[], object]) -> Setup:
    """Gives every round a new instance."""
    return lambda: ((make(),), {})
