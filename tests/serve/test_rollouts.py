"""A memory before random agents, on every built-in format and every template at hand.

`make test-rollouts` runs a thousand on each, and prints the figures; here are a few.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import data
import pytest
import rollout_law
import rollouts
from chatcodec.serve.memory import MemoryStore
from chatcodec.serve.reading import Reader
from rollout_law import Figures, law, names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from chatcodec.serve.memory.turns import Path as TurnPath
    from chatcodec.serve.memory.turns import Turn
    from chatcodec.serve.reading import Read


def test_prompts_begin_with_what_was_sampled_or_the_client_is_told() -> None:
    found = Figures()
    for name in data.share(names(), 8):
        found.add(law(name, 20 if data.LONG else 3, data.seed()))
    assert not found.broken, "\n".join(found.broken[:3])
    assert found.counts["appended"] > 2 * found.counts["rollouts"]
    assert found.hits >= 0.99
    taken = {step for step, count in found.steps.items() if count}
    assert taken >= {"append", "branch", "choices", "compact", "edit", "image", "retry", "tools"}


class Wrong(MemoryStore):
    """A memory that swaps two sampled ids."""

    def find(self, keys: Sequence[bytes]) -> tuple[int, list[TurnPath]]:
        at, paths = super().find(keys)
        return at, [(*path[:-1], swapped(path[-1])) for path in paths]


def swapped(turn: Turn) -> Turn:
    return replace(turn, sampled=turn.sampled[4:8] + turn.sampled[:4] + turn.sampled[8:])


class Repeats(Reader):
    """Writes the end of a prompt twice."""

    def read(self, *asked: Any) -> Read:  # noqa: ANN401
        read = super().read(*asked)
        ids = read.prompt.ids
        return replace(read, prompt=replace(read.prompt, ids=ids + ids[-3:]))


class Silent(Reader):
    """Tells no notes."""

    def read(self, *asked: Any) -> Read:  # noqa: ANN401
        read = super().read(*asked)
        assert read.recalled is not None
        return replace(read, recalled=replace(read.recalled, kinds=Counter()))


class Forgets(MemoryStore):
    """A memory that has every other answer."""

    def add(self, turn: Turn) -> None:
        if turn.number % 2 == 0:
            super().add(turn)


@pytest.mark.parametrize(
    ("module", "name", "wrong", "problem"),
    [
        (rollout_law, "MemoryStore", Wrong, "ids were changed"),
        (rollout_law, "MemoryStore", Forgets, "of the ids that could be found were"),
        (rollouts, "Reader", Repeats, "other text follows the answer"),
        (rollouts, "Reader", Silent, "no note tells"),
    ],
)
def test_the_law_can_fail(
    module: ModuleType, name: str, wrong: type, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, wrong)
    monkeypatch.setattr(rollout_law, "MANY", 20)
    broken = law("qwen3", 10).broken
    assert any(problem in each for each in broken)
