"""The turn of one choice, as it is generated, for the store.

An answer is never lost for the store: where the store fails, the log and the metrics say so, and
the client has its answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chatcodec.serve.log import LOG
from chatcodec.serve.memory import turn_of

if TYPE_CHECKING:
    from chatcodec import Stream
    from chatcodec.serve.answer import Answer
    from chatcodec.serve.backends.base import Step
    from chatcodec.serve.completions import TextStream
    from chatcodec.serve.memory import Store
    from chatcodec.serve.memory.turns import Turn

__all__ = ["Keeping"]


def _kept(store: Store, turn: Turn) -> int:
    """Keep a turn; give the bytes of all."""
    store.add(turn)
    return store.size


class Keeping:
    """The ids of one choice so far."""

    def __init__(self, answer: Answer, choice: int, stream: Stream | TextStream) -> None:
        """Begin before the first id of a choice; the stream has read the prompt alone."""
        self.answer, self.choice, self.stream = answer, choice, stream
        self.steps: list[Step] = []

    def add(self, step: Step) -> None:
        """Take what an engine generated."""
        self.steps.append(step)

    async def keep(self) -> None:
        """Keep the turn."""
        answer = self.answer
        store, recalled = answer.store, answer.recalled
        if store is None or recalled is None:
            return
        steps = self.steps
        sampled = [id_ for step in steps for id_ in step.ids]
        if not sampled:
            return
        reasons = [step.reason for step in steps if step.reason]
        try:
            turn = turn_of(
                recalled=recalled,
                request=answer.request,
                prompt=answer.prompt.ids,
                stream=self.stream,
                sampled=sampled,
                logprobs=[each.value for step in steps for each in step.logprobs],
                reason=reasons[-1] if reasons else "stop",
                stops=answer.stops(),
                id=answer.id,
                choice=self.choice,
            )
            if store.writes_at_once:
                size = _kept(store, turn)
            else:
                size = await asyncio.to_thread(_kept, store, turn)
            answer.metrics.memory.size.set(size)
        except Exception as error:  # noqa: BLE001 (whatever it is, the client has its answer)
            answer.metrics.memory.failures.labels("add").inc()
            LOG.error("memory", extra={"fields": {"add": f"{type(error).__name__}: {error}"}})
