"""The turns of a conversation as a trajectory."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from chatcodec.trajectory import Trajectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec.serve.memory.store import Store
    from chatcodec.serve.memory.turns import Path

__all__ = ["trajectories", "trajectory_of"]

_NONE = float("nan")


def trajectories(store: Store, client: str | None, session: str = "") -> Iterator[Trajectory]:
    """Give the trajectories of a client, or of all: one for each answer that nothing follows.

    A session's name leaves others out.
    """
    for path in store.ends(client):
        if session in ("", path[-1].session):
            yield trajectory_of(path)


def trajectory_of(path: Path) -> Trajectory:
    """Make the trajectory of the turns from the first of a conversation to an answer."""
    ids, sampled, logprobs = array("i"), array("b"), array("f")
    indices = array("i")
    for turn in path:
        for raw, is_sampled in ((turn.appended, 0), (turn.sampled, 1)):
            new = array("i")
            new.frombytes(raw)
            ids += new
            sampled.extend([is_sampled] * len(new))
            indices.extend([turn.message if is_sampled else -1] * len(new))
            told = array("f")
            told.frombytes(turn.logprobs if is_sampled else b"")
            missing = 0.0 if not is_sampled else _NONE
            told.extend([missing] * (len(new) - len(told)))
            logprobs += told
    rewards = [turn.reward for turn in path if turn.reward is not None]
    last = path[-1]
    return Trajectory(
        last.id.hex(),
        last.root.hex(),
        ids,
        sampled,
        logprobs,
        indices,
        len({turn.number for turn in path}),
        rewards[-1] if rewards else None,
        tuple(f"{kind}: {text}" for kind, text in last.notes),
        last.client,
        last.answer,
        last.made,
        last.session,
    )
