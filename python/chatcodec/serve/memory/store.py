"""Where answered turns are kept. A store has a bound, and forgets whole conversations.

The conversation that got no answer for the longest time is forgotten first, with all its branches:
a turn without the turns before it would be of no use.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chatcodec.serve.memory.turns import Path, Turn

__all__ = ["MOST", "Finder", "MemoryStore", "Store"]

MOST = 16
"""Answers that are kept for one key, the latest: samples whose texts are the same."""


class Finder(Protocol):
    """What finds turns: a store, or the way to one."""

    waits: ClassVar[bool]
    """Whether a question may wait for another machine, so that it is asked in a thread."""

    def find(self, keys: Sequence[bytes]) -> tuple[int, list[Path]]:
        """Find the first of some keys that is known.

        Gives its place among the keys, and the paths to its turns, the latest first; the number of
        keys and no path where none is known. Raises `OSError`.
        """
        ...


class Store(Finder, Protocol):
    """A store of turns. Any thread may call it. Every method may raise `OSError`."""

    writes_at_once: ClassVar[bool]
    """Whether a turn is kept without a wait, so that no thread is needed."""

    def add(self, turn: Turn) -> None:
        """Keep a turn, unless the turn before it is gone. Its conversation counts as used."""
        ...

    def ends(self, client: str | None) -> Iterator[Path]:
        """Give the paths to the turns that no turn follows, of a client or of all."""
        ...

    def reward(self, client: str, answer: str, choice: int, value: float) -> bool:
        """Attach a reward to a client's answer; say whether it is known."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all turns, about."""
        ...

    def close(self) -> None:
        """Let go of what the store holds open."""
        ...


class MemoryStore:
    """Turns in the memory of this process."""

    waits: ClassVar = False
    writes_at_once: ClassVar = True

    def __init__(self, most: int) -> None:
        """Keep at most so many bytes, about."""
        self.most = most
        self._lock = threading.Lock()
        self._trees: OrderedDict[bytes, _Tree] = OrderedDict()
        self._by_key: dict[bytes, list[Turn]] = {}
        self._answers: dict[tuple[str, str, int], tuple[bytes, bytes]] = {}
        """The conversation and the turn of each answer, by its client, its id and its choice."""
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of all turns, about."""
        return self._size

    def find(self, keys: Sequence[bytes]) -> tuple[int, list[Path]]:
        """Find the first of some keys that is known."""
        with self._lock:
            for at, key in enumerate(keys):
                if turns := self._by_key.get(key):
                    return at, [self._path(turn) for turn in reversed(turns)]
        return len(keys), []

    def _path(self, turn: Turn) -> Path:
        tree = self._trees[turn.root]
        path = [turn]
        while path[-1].before:
            path.append(tree.turns[path[-1].before])
        return tuple(reversed(path))

    def add(self, turn: Turn) -> None:
        """Keep a turn, and forget the conversations that were not used for the longest time."""
        with self._lock:
            tree = self._trees.get(turn.root)
            if turn.before:
                if tree is None or turn.before not in tree.turns:
                    return
            elif tree is None:
                tree = self._trees[turn.root] = _Tree()
            if tree is None:
                return
            self._trees.move_to_end(turn.root)
            others = [each for each in self._by_key.get(turn.key, ()) if each.id != turn.id]
            self._by_key[turn.key] = [*others, turn][-MOST:]
            if turn.id in tree.turns:
                return
            tree.turns[turn.id] = turn
            self._answers[turn.client, turn.answer, turn.choice] = (turn.root, turn.id)
            tree.size += turn.size
            self._size += turn.size
            while self._size > self.most and self._trees:
                self._forget(*self._trees.popitem(last=False))

    def ends(self, client: str | None) -> Iterator[Path]:
        """Give the paths to the turns that no turn follows, of a client or of all."""
        with self._lock:
            trees = list(self._trees.values())
            followed = {turn.before for tree in trees for turn in tree.turns.values()}
            paths = [
                self._path(turn)
                for tree in trees
                for turn in tree.turns.values()
                if turn.id not in followed and client in {None, turn.client}
            ]
        yield from paths

    def reward(self, client: str, answer: str, choice: int, value: float) -> bool:
        """Attach a reward to a client's answer; say whether it is known."""
        with self._lock:
            root, id_ = self._answers.get((client, answer, choice), (b"", b""))
            if root not in self._trees:
                return False
            turns = self._trees[root].turns
            turn = turns[id_] = replace(turns[id_], reward=value)
            same = self._by_key[turn.key]
            same[:] = [turn if each.id == id_ else each for each in same]
            return True

    def _forget(self, root: bytes, tree: _Tree) -> None:
        self._size -= tree.size
        for turn in tree.turns.values():
            self._answers.pop((turn.client, turn.answer, turn.choice), None)
            left = [each for each in self._by_key.get(turn.key, ()) if each.root != root]
            if left:
                self._by_key[turn.key] = left
            else:
                self._by_key.pop(turn.key, None)

    def close(self) -> None:
        """Nothing is open."""


class _Tree:
    """A conversation with its branches."""

    __slots__ = ("size", "turns")

    def __init__(self) -> None:
        self.turns: dict[bytes, Turn] = {}
        self.size = 0
