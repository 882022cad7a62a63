"""The store of the gateway's process, as a process that reads requests sees it.

The reading process asks by the connection over which it was given the request, and waits.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from chatcodec.serve.memory.store import Finder
    from chatcodec.serve.memory.turns import Path

__all__ = ["FarStore", "Find"]

Found = tuple[int, "list[Path]"]


@dataclass(frozen=True)
class Find:
    """A question of a process that reads."""

    keys: Sequence[bytes]

    def answer(self, store: Finder | None) -> Found | OSError:
        """Ask the store."""
        if store is None:
            return len(self.keys), []
        try:
            return store.find(self.keys)
        except OSError as error:
            return OSError(str(error))


class FarStore:
    """A store at the other end of a connection, in which a process that reads finds turns."""

    waits: ClassVar = False

    def __init__(self, connection: Connection) -> None:
        """Take the connection to the process that has the store."""
        self._connection = connection

    def find(self, keys: Sequence[bytes]) -> Found:
        """Find the first of some keys that is known."""
        self._connection.send_bytes(pickle.dumps(Find(keys)))
        found: Found | OSError = self._connection.recv()
        if isinstance(found, OSError):
            raise found
        return found
