"""Trajectories: what a model saw and sampled in a conversation, as ids for training.

A gateway with a memory keeps them (`chatcodec serve --memory … --trajectories`), and
`chatcodec trajectories` writes them to Parquet. A branch of a conversation is a trajectory of its
own, which has the ids of the turns before the branch too.
"""

from __future__ import annotations

import importlib
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec.options import IGNORE_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["COLUMNS", "Columns", "Trajectory", "batches", "read_table"]

Columns: TypeAlias = Literal["chatcodec", "verl", "trl", "renderers"]
"""Whose names the columns of a table have."""

COLUMNS: tuple[Columns, ...] = ("chatcodec", "verl", "trl", "renderers")

_BATCH = 256
"""Trajectories of a record batch."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The ids of one conversation, up to its last answer.

    >>> ids, sampled = array("i", [1, 5, 6, 7]), array("b", [0, 0, 1, 1])
    >>> logprobs = array("f", [0, 0, -0.5, -0.25])
    >>> made = Trajectory("t", "c", ids, sampled, logprobs, array("i", [-1, -1, 1, 1]), reward=1.0)
    >>> made.labels.tolist()
    [-100, -100, 6, 7]
    >>> made.verl()["response_ids"]
    [6, 7]
    """

    id: str
    """The id of the last answer's turn."""
    conversation: str
    """The id of the first answer's turn: the same for all branches of a conversation."""
    ids: array[int]
    """All ids: prompts, and answers as they were sampled. int32."""
    sampled: array[int]
    """1 for each id that a model sampled, else 0. int8."""
    logprobs: array[float]
    """The log probability of each sampled id, natural, as the engine told it; 0 for ids of prompts,
    NaN for sampled ids whose engine told none. float32."""
    message_indices: array[int]
    """For each sampled id, the index of its answer among the client's messages; -1 for the ids of
    prompts. int32."""
    turns: int = 1
    """Number of answers."""
    reward: float | None = None
    """The reward of the last answer that has one; None where none was attached."""
    notes: tuple[str, ...] = ()
    """What the model's template would have written otherwise."""
    key: str = ""
    """The name of the client's key; empty for a gateway without keys."""
    answer: str = ""
    """The id of the last answer, as its client knows it."""
    made: float = 0.0
    """When the last answer ended, in seconds since 1970."""
    session: str = ""
    """The session that the client named; empty for none."""

    @property
    def labels(self) -> array[int]:
        """The sampled ids, and -100 in the place of all others. int32."""
        pairs = zip(self.ids, self.sampled, strict=True)
        return array("i", [id_ if is_sampled else IGNORE_INDEX for id_, is_sampled in pairs])

    @property
    def prompt_length(self) -> int:
        """Number of ids before the first that was sampled."""
        return self.sampled.index(1) if 1 in self.sampled else len(self.ids)

    def chatcodec(self) -> dict[str, Any]:
        """The fields by the names that the rest of chatcodec has for them."""
        return {
            "id": self.id,
            "conversation": self.conversation,
            "input_ids": self.ids.tolist(),
            "assistant_mask": self.sampled.tolist(),
            "labels": self.labels.tolist(),
            "logprobs": self.logprobs.tolist(),
            "message_indices": self.message_indices.tolist(),
            "turns": self.turns,
            "reward": self.reward,
            "notes": list(self.notes),
            "key": self.key,
            "answer": self.answer,
            "made": self.made,
            "session": self.session,
        }

    def verl(self) -> dict[str, Any]:
        """The fields of verl's `AgentLoopOutput`: the response has tools' results too."""
        start = self.prompt_length
        return {
            "prompt_ids": self.ids[:start].tolist(),
            "response_ids": self.ids[start:].tolist(),
            "response_mask": self.sampled[start:].tolist(),
            "response_logprobs": self.logprobs[start:].tolist(),
            "reward_score": self.reward,
            "num_turns": self.turns,
        }

    def trl(self) -> dict[str, Any]:
        """The fields that a `rollout_func` of TRL's `GRPOTrainer` returns for one prompt."""
        start = self.prompt_length
        return {
            "prompt_ids": self.ids[:start].tolist(),
            "completion_ids": self.ids[start:].tolist(),
            "logprobs": self.logprobs[start:].tolist(),
            "env_mask": self.sampled[start:].tolist(),
            "reward": self.reward,
        }

    def renderers(self) -> dict[str, Any]:
        """The fields of `RenderedTokens` of Prime Intellect's `renderers`."""
        return {
            "token_ids": self.ids.tolist(),
            "message_indices": self.message_indices.tolist(),
            "sampled_mask": [bool(is_sampled) for is_sampled in self.sampled],
            "logprobs": self.logprobs.tolist(),
            "reward": self.reward,
        }


def _arrow() -> Any:  # noqa: ANN401
    return importlib.import_module("pyarrow")


_TYPES = {
    "logprobs": "float",
    "response_logprobs": "float",
    "assistant_mask": "int8",
    "response_mask": "int8",
    "env_mask": "int8",
    "sampled_mask": "bool",
    "notes": "string",
}
"""The types of the items of lists that are no int32."""

_SCALARS = {"turns": "int32", "num_turns": "int32", "reward": "double", "reward_score": "double"}
_SCALARS |= {"made": "double"}


def schema_of(columns: Columns) -> Any:  # noqa: ANN401
    """Make the Arrow schema of a table. Raises `ImportError` without pyarrow."""
    pa = _arrow()
    none = array("i")
    empty = Trajectory("", "", none, array("b"), array("f"), none)
    fields = []
    for name, value in getattr(empty, columns)().items():
        if isinstance(value, list):
            kind = pa.list_(pa.type_for_alias(_TYPES.get(name, "int32")))
        else:
            kind = pa.type_for_alias(_SCALARS.get(name, "string"))
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def batches(trajectories: Iterable[Trajectory], columns: Columns = "chatcodec") -> Iterator[Any]:
    """Give trajectories as Arrow's record batches, of `schema_of`.

    Raises `ImportError` without pyarrow.
    """
    pa, schema = _arrow(), schema_of(columns)
    rows: list[dict[str, Any]] = []
    for each in trajectories:
        rows.append(getattr(each, columns)())
        if len(rows) == _BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def read_table(table: Any) -> list[Trajectory]:  # noqa: ANN401
    """Read a table with chatcodec's own columns: one of pyarrow, or a row each as a dict."""
    rows = table.to_pylist() if hasattr(table, "to_pylist") else table
    return [
        Trajectory(
            row["id"],
            row["conversation"],
            array("i", row["input_ids"]),
            array("b", row["assistant_mask"]),
            array("f", row["logprobs"]),
            array("i", row["message_indices"]),
            row["turns"],
            row["reward"],
            tuple(row["notes"]),
            row["key"],
            row["answer"],
            row["made"],
            row.get("session", ""),
        )
        for row in rows
    ]
