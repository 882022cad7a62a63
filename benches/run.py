"""Goes over tasks, rounds and contenders, in this order; keeps what is exact, notes what is not."""

from __future__ import annotations

import array
import itertools
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .contenders import BY_NAME, OURS
from .paths import WORK
from .plan import CALL, LEFT_OUT, LOAD, SIZE, TRIED, Task
from .results import Key, Results, Row
from .workers import JobError, UnsupportedError, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .plan import Effort
    from .vocabularies import Vocabulary

TIMEOUT = 40.0
"""Wall-clock seconds that a sample may take."""
PART = 10
"""The share of a text that ids are first compared on, and that slow contenders are given."""
PROCESSES = 5
"""So many of each contender, which give its samples by turns: all forks of a process have its
memory in the same places, which alone makes some figures twice what they are elsewhere."""
FAR = 2
"""A contender so many times faster than it must be, is so with other texts too."""


class OtherIdsError(Exception):
    """A contender's ids are not ours."""


@dataclass
class Turn:
    """How a contender stands in a task."""

    job: dict[str, Any]
    wanted: int
    """How many samples it is to give; known after the first."""
    samples: int = 0

    def is_due(self, round_: int, rounds: int) -> bool:
        """Whether it takes part in a round: those that give few samples do so all along."""
        return self.samples * rounds <= round_ * self.wanted


@dataclass
class Run:
    """A run: its workers and what they gave so far."""

    pythons: Mapping[str, Path]
    vocabularies: Mapping[str, Vocabulary]
    core: int
    results: Results = field(default_factory=Results)
    workers: dict[tuple[str, int], Worker] = field(default_factory=dict)
    rates: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """Seconds for a byte of the last text: by section, vocabulary and contender."""

    def do(self, tasks: Sequence[Task], out: Path) -> None:
        """Measures all tasks; what there is so far is always in the file."""
        start = time.monotonic()
        try:
            for at, task in enumerate(tasks, 1):
                begun = time.monotonic()
                self._task(task)
                self.results.write(out)
                now = time.monotonic()
                what = f"{task.section} {task.vocabulary} {task.what}"
                sys.stderr.write(
                    f"{at:3}/{len(tasks)} {now - start:5.0f} s  {what}: {now - begun:.1f} s\n"
                )
        finally:
            for worker in self.workers.values():
                worker.close()

    def _task(self, task: Task) -> None:
        texts.write(Path(task.job.get("text") or task.job["items"]))
        digests: dict[int | None, str] = {}
        notes: dict[str, str] = {}
        turns: dict[str, Turn] = {}
        forms = self.vocabularies[task.vocabulary].forms
        for name in task.effort.contenders:
            form = forms.get(BY_NAME[name].form)
            if form is not None and name in self.pythons:
                turns[name] = Turn({**task.job, "vocabulary": form}, task.effort.rounds)
        for round_ in range(task.effort.rounds):
            for name, turn in list(turns.items()):
                try:
                    if not turn.samples:
                        self._choose(task, name, turn, digests)
                    if turn.is_due(round_, task.effort.rounds):
                        self._sample(task, name, turn, digests)
                except UnsupportedError:
                    del turns[name]
                except (JobError, OtherIdsError) as error:
                    notes[name] = str(error)
                    del turns[name]
        self._note(task, notes)

    def _choose(self, task: Task, name: str, turn: Turn, digests: dict[int | None, str]) -> None:
        """Whether a contender is too slow for all of a text; compares the ids of a part."""
        if task.slow == TRIED or name == OURS:
            return
        path = Path(turn.job["text"])
        rate = self.rates.get((task.section, task.vocabulary, name))
        expected = path.stat().st_size * rate if rate is not None else 0
        if task.slow == LEFT_OUT:
            if expected > task.effort.whole:
                raise JobError(f"would take more than {task.effort.whole:.0f} s")
            return
        if rate is not None and expected < task.effort.whole / FAR:
            return
        part = {**turn.job, "limit": _characters(path) // PART, "hot": 0}
        answer = self._ask(name, part)
        if OURS in task.effort.contenders:
            ours = {**part, "vocabulary": self.vocabularies[task.vocabulary].forms["ours"]}
            if part["limit"] not in digests:
                self._compare(OURS, ours, self._ask(OURS, ours), digests)
            self._compare(name, part, answer, digests)
        seconds, _ = _fresh(answer)
        if seconds * PART > task.effort.whole:
            turn.job = {**turn.job, "limit": part["limit"]}

    def _sample(self, task: Task, name: str, turn: Turn, digests: dict[int | None, str]) -> None:
        begun = time.monotonic()
        answer = self._ask(name, turn.job, turn.samples)
        spent = time.monotonic() - begun
        self._compare(name, turn.job, answer, digests)
        turn.samples += 1
        if turn.samples == 1:
            turn.wanted = _wanted(task.effort, name, spent)
        if turn.job["do"] == "document":
            seconds, size = _fresh(answer)
            self.rates[task.section, task.vocabulary, name] = seconds / size
        for measure, figure in answer["figures"].items():
            if measure in LOAD:
                if task.keeps_load:
                    unit = SIZE if "memory" in measure else CALL
                    key = Key("load", task.vocabulary, measure, "fresh")
                    self.results.add(key, unit, name, figure)
                continue
            key = Key(task.section, task.vocabulary, task.what, measure)
            self.results.add(key, task.unit, name, figure)

    def _ask(self, name: str, job: dict[str, Any], nth: int = 0) -> dict[str, Any]:
        which = name, nth % PROCESSES
        if which not in self.workers:
            self.workers[which] = Worker(self.pythons[name], name, self.core)
        return self.workers[which].ask(job, TIMEOUT)

    def _compare(
        self,
        name: str,
        job: dict[str, Any],
        answer: dict[str, Any],
        digests: dict[int | None, str],
    ) -> None:
        """The first to come is ours; a row of peers alone is compared with its first."""
        expected = digests.setdefault(job.get("limit"), answer["digest"])
        if answer["digest"] != expected:
            raise OtherIdsError(self._difference(name, job))

    def _difference(self, name: str, job: dict[str, Any]) -> str:
        """Where a contender's ids of a text leave ours."""
        if job["do"] != "document":
            return "other ids or text"
        vocabulary = next(
            vocabulary
            for vocabulary in self.vocabularies.values()
            if job["vocabulary"] in vocabulary.forms.values()
        )
        forms = {name: job["vocabulary"], OURS: vocabulary.forms["ours"]}
        made = {}
        for who, form in forms.items():
            path = WORK / "ids" / f"{who}.bin".replace(" ", "-")
            path.parent.mkdir(parents=True, exist_ok=True)
            asked = {"do": "ids", "text": job["text"], "limit": job.get("limit"), "to": str(path)}
            self._ask(who, {**asked, "vocabulary": form})
            made[who] = array.array("i", path.read_bytes())
        ours, theirs = made[OURS], made[name]
        pairs = enumerate(itertools.zip_longest(ours, theirs))
        at = next((at for at, (one, other) in pairs if one != other), None)
        if at is None:
            return "other ids in one sample only"
        near = list(ours[max(at - 3, 0) : at + 4])
        spelled = self._ask(OURS, {"do": "spell", "vocabulary": forms[OURS], "ids": near})["text"]
        return (
            f"other ids from number {at} on: {list(ours[at : at + 3])} is ours, "
            f"{list(theirs[at : at + 3])} theirs, near {spelled[:60]!r}"
        )

    def _note(self, task: Task, notes: dict[str, str]) -> None:
        """Puts notes into the rows of a task."""
        keys = [
            key
            for key in self.results.rows
            if key[:3] == (task.section, task.vocabulary, task.what)
        ]
        if not keys and notes:
            keys = [Key(task.section, task.vocabulary, task.what, "")]
        for key in keys:
            row = self.results.rows.setdefault(key, Row(task.unit))
            row.notes |= notes
            for name in notes:
                row.cells.pop(name, None)


def _wanted(effort: Effort, name: str, seconds: float) -> int:
    """How many samples of so many seconds a contender gives; ours most, for ratios are to it."""
    least = effort.rounds if name == OURS else effort.least
    return min(effort.rounds, max(least, int(effort.seconds / seconds)))


def _fresh(answer: dict[str, Any]) -> tuple[float, float]:
    """Seconds, and for how many bytes."""
    figures: dict[str, tuple[float, float]] = answer["figures"]
    return next(figure for measure, figure in figures.items() if "fresh" in measure)


def _characters(path: Path) -> int:
    return len(path.read_bytes().decode())
