"""An answered turn: the ids that a model saw and sampled, as a store keeps them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from operator import attrgetter
from typing import Any

__all__ = ["Path", "Turn", "id_of", "ids_of"]

_OVERHEAD = 600
"""Bytes of a turn beside its ids and texts, about."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer, and the ids of its prompt that come after those of the turn before.

    The turns of a conversation are a tree: a branch begins where a client goes on in two ways.
    """

    key: bytes
    """The hash of the client's history up to the answer (`said.History`)."""
    id: bytes
    """The hash of all ids up to the end of the answer, and of the key."""
    before: bytes
    """The id of the turn before, as far as it is known; empty for none."""
    root: bytes
    """The id of the first turn of the conversation; its own for the first."""
    number: int
    """Number of answers in the history before it."""
    appended: bytes
    """The ids of the prompt after those of the turn before, int32."""
    sampled: bytes
    """The ids that were sampled, int32; what came after the end of the turn is left out."""
    logprobs: bytes = b""
    """Their log probabilities, float32; empty where the engine told none."""
    reasoning: str = ""
    """The reasoning of the answer, which a client may not send back."""
    calls: tuple[tuple[str, str], ...] = ()
    """The ids of its calls: as the client was told, and as the model's format has them."""
    others: bytes = b""
    """The hash of the answers between the turn before and this one; empty for none."""
    opened: int | None = None
    """Characters of the answer that were said before; None for an answer of its own."""
    notes: tuple[tuple[str, str], ...] = field(default=())
    """What the model's template would write otherwise, as kinds and texts, up to the prompt."""
    made: float = 0.0
    """When the answer ended, in seconds since 1970."""
    client: str = ""
    """The name of the client's key; empty for a gateway without keys."""
    answer: str = ""
    """The id of the response, as the client knows it."""
    choice: int = 0
    """The index of the answer among several choices."""
    message: int = -1
    """The index of the answer among the client's messages."""
    reward: float | None = None
    """What a caller says that the answer is worth; None for nothing."""
    session: str = ""
    """The session that the client names; empty for none."""

    def __reduce__(self) -> tuple[type[Turn], tuple[Any, ...]]:
        """Pickle the values alone: a process that reads is sent all turns of a conversation."""
        return Turn, _VALUES(self)

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        ids = len(self.appended) + len(self.sampled) + len(self.logprobs)
        notes = sum(len(kind) + len(text) + 100 for kind, text in self.notes)
        return ids + 2 * len(self.reasoning) + notes + _OVERHEAD


_VALUES = attrgetter(*(field.name for field in fields(Turn)))

Path = tuple[Turn, ...]
"""The turns from the first of a conversation to one of its answers."""


def id_of(key: bytes, before: bytes, appended: bytes, sampled: bytes) -> bytes:
    """Make the id of a turn."""
    made = blake2b(digest_size=20)
    for part in (key, before, appended, sampled):
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


def ids_of(path: Path) -> tuple[array[int], array[int]]:
    """Give the ids of the last turn's prompt, and those that were sampled for it."""
    parts = [part for turn in path for part in (turn.appended, turn.sampled)]
    sampled = parts.pop()
    return array("i", b"".join(parts)), array("i", sampled)
