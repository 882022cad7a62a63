"""A memory before random agents, on every built-in format and every template at hand.

`make test-rollouts` runs a thousand on each, and prints the figures; here are a few.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import data
import rollout_law
from chatcodec.serve.memory import MemoryStore
from rollout_law import Figures, law, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest
    from chatcodec.serve.memory.turns import Path as TurnPath
    from chatcodec.serve.memory.turns import Turn


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


def test_the_law_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_law, "MemoryStore", Wrong)
    broken = law("internlm2", 10).broken
    assert any("ids were changed" in each for each in broken)
