"""The store of the gateway's process, as a process that reads requests sees it.

The reading process asks by the connection over which it was given the request, and waits. It keeps
the paths that it was given last, and is sent the turns after them alone.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chatcodec.serve.memory.paths import Paths, rest_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from chatcodec.serve.memory.store import Finder
    from chatcodec.serve.memory.turns import Path

__all__ = ["FarStore", "Find"]

Rest = tuple[int, "Path"]
"""How many of the turns of a path are known, and those after them."""
Found = tuple[int, list[Rest]]


@dataclass(frozen=True)
class Find:
    """A question of a process that reads."""

    keys: Sequence[bytes]
    known: bytes
    """The id of the last turn of the path that the process has; empty for none."""

    def answer(self, store: Finder | None) -> Found | OSError:
        """Ask the store."""
        if store is None:
            return len(self.keys), []
        try:
            at, paths = store.find(self.keys)
        except OSError as error:
            return OSError(str(error))
        return at, [rest_of(path, self.known) for path in paths]


class FarStore:
    """A store at the other end of a connection, in which a process that reads finds turns."""

    waits: ClassVar = False

    def __init__(self, connection: Connection) -> None:
        """Take the connection to the process that has the store."""
        self._connection = connection
        self.paths = Paths()

    def find(self, keys: Sequence[bytes]) -> tuple[int, list[Path]]:
        """Find the first of some keys that is known."""
        known, size = self.paths.take(keys)
        asked = Find(keys, known[-1].id if known else b"")
        self._connection.send_bytes(pickle.dumps(asked))
        found: Found | OSError = self._connection.recv()
        if isinstance(found, OSError):
            raise found
        at, rests = found
        paths = [known[:start] + turns for start, turns in rests]
        if rests:
            start, turns = rests[0]
            self.paths.keep(known[:start], size if start else 0, turns)
        return at, paths
