"""Paths that were found lately, so that only the turns after them are read anew."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.serve.memory.turns import Path

__all__ = ["Paths", "rest_of"]

_MOST = 1 << 24
"""Bytes of turns that are kept, about."""


class Paths:
    """The paths to the latest turns that were found. Any thread may call it."""

    def __init__(self, most: int = _MOST) -> None:
        """Keep so many bytes of turns, about."""
        self._most = most
        self._lock = threading.Lock()
        self._paths: OrderedDict[bytes, tuple[Path, int]] = OrderedDict()
        """Paths and their bytes, by the key of the last turn."""
        self.size = 0
        """Bytes of the turns of all paths, about."""

    def take(self, keys: Sequence[bytes]) -> tuple[Path, int]:
        """Take out the path to the first of some keys that has one, and its bytes."""
        with self._lock:
            return self._take(keys)

    def _take(self, keys: Sequence[bytes]) -> tuple[Path, int]:
        key = next((key for key in keys if key in self._paths), None)
        if key is None:
            return (), 0
        path, size = self._paths.pop(key)
        self.size -= size
        return path, size

    def keep(self, known: Path, size: int, rest: Path) -> None:
        """Keep the path that goes on from one with so many bytes, or from none."""
        path = known + rest
        size += sum(turn.size for turn in rest)
        with self._lock:
            self._take([path[-1].key])
            self._paths[path[-1].key] = path, size
            self.size += size
            while self.size > self._most:
                _, (_, oldest) = self._paths.popitem(last=False)
                self.size -= oldest


def rest_of(path: Path, known: bytes) -> tuple[int, Path]:
    """Give the turns of a path after the one with an id, and how many are before them."""
    # A turn's id is a hash of all before it, too.
    ends = (at + 1 for at in reversed(range(len(path))) if path[at].id == known)
    start = next(ends, 0)
    return start, path[start:]
