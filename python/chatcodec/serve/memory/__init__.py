"""What the gateway remembers: the ids of answered turns, so that prompts go on with them.

A client of chat completions sends text back. The ids that a model sampled are not those to which
the text is encoded, and a template may leave reasoning out. With a store of turns, the next prompt
begins with exactly the ids that the model saw and sampled.

`said` reads a client's history, `histories` those that go on with one that was read, `recall` makes
the prompt, `record` makes the turn of an answer, and a `Store` keeps it.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING

from chatcodec.serve.memory.histories import Histories
from chatcodec.serve.memory.recall import Recalled, recall
from chatcodec.serve.memory.record import turn_of
from chatcodec.serve.memory.store import Finder, MemoryStore, Store

if TYPE_CHECKING:
    from chatcodec import Codec
    from chatcodec.serve.settings import Settings

__all__ = [
    "Finder",
    "Histories",
    "MemoryStore",
    "Recalled",
    "Store",
    "fingerprint",
    "recall",
    "store_of",
    "turn_of",
]


def store_of(settings: Settings) -> Store | None:
    """Open the store that the settings ask for; None for none.

    Raises `OSError` and `ValueError` for a file that cannot be opened as one, and `ValueError` for
    a server's URL that is none.
    """
    if not settings.memory:
        return None
    if settings.memory_server is not None:
        # The package of its client is an extra.
        from chatcodec.serve.memory.server import ServerStore  # noqa: PLC0415

        return ServerStore(settings.memory_server, settings.memory)
    if settings.memory_file is None:
        return MemoryStore(settings.memory)
    # Some interpreters are built without SQLite.
    from chatcodec.serve.memory.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore(settings.memory_file, settings.memory)


def fingerprint(codec: Codec) -> str:
    """Hash a codec: the ids of another one are never sent to its engine."""
    return hashlib.sha256(pickle.dumps(codec)).hexdigest()
