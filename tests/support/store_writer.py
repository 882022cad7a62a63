"""A process that writes turns into a file, for the tests of stores."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.memory.turns import Turn

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

MOST = 1 << 20
"""Bytes of a file."""


def turn(number: int, size: int = 10) -> Turn:
    """A conversation of one turn, with so many ids."""
    id_ = b"%d" % number
    return Turn(
        key=id_, id=id_, before=b"", root=id_, number=0, appended=bytes(4 * size), sampled=b""
    )


def written(path: str, first: int, count: int, ready: Barrier) -> None:
    """Write turns, when the other processes are ready."""
    with closing(SqliteStore(path, MOST)) as store:
        ready.wait(60)
        for number in range(first, first + count):
            store.add(turn(number))
