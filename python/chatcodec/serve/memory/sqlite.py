"""Turns in a SQLite file, which processes of one machine share and which outlives them.

Readers never wait for writers. A writer waits a second at most for another. Where SQLite fails, the
caller gets an `OSError`, and the next call opens the file again: one that was deleted is made anew.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.serve.memory.paths import Paths
from chatcodec.serve.memory.store import MOST
from chatcodec.serve.memory.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chatcodec.serve.memory.turns import Path

__all__ = ["SqliteStore"]

_WAIT = 1.0
"""Seconds that a write waits for others."""
_VERSION = 2
"""The version of the tables."""
_APPLICATION = 0x63686174
"""What SQLite's header says of whose file it is."""
_ASKED = 500
"""Keys of one question to SQLite, which has a bound."""

_NAMES = [field.name for field in fields(Turn)]
_FIELDS = ", ".join(_NAMES)
_PAIRS = [_NAMES.index(name) for name in ("calls", "notes")]
"""Places of the fields that are written as JSON."""

_TABLES = f"""
CREATE TABLE conversations (root BLOB PRIMARY KEY, size INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE INDEX by_use ON conversations (used);
CREATE TABLE turns (
    key BLOB NOT NULL, id BLOB NOT NULL UNIQUE, before BLOB NOT NULL, root BLOB NOT NULL,
    number INTEGER NOT NULL, appended BLOB NOT NULL, sampled BLOB NOT NULL, logprobs BLOB NOT NULL,
    reasoning TEXT NOT NULL, calls TEXT NOT NULL, others BLOB NOT NULL, opened INTEGER,
    notes TEXT NOT NULL, made REAL NOT NULL, client TEXT NOT NULL, answer TEXT NOT NULL,
    choice INTEGER NOT NULL, message INTEGER NOT NULL, reward REAL, session TEXT NOT NULL,
    latest INTEGER NOT NULL
);
CREATE INDEX by_before ON turns (before);
CREATE INDEX by_answer ON turns (answer);
CREATE INDEX by_key ON turns (key, latest);
CREATE INDEX by_root ON turns (root);
CREATE TABLE total (size INTEGER NOT NULL, uses INTEGER NOT NULL);
INSERT INTO total VALUES (0, 0);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""  # noqa: S608 (constants alone)

_PATH = f"""
WITH RECURSIVE path (at, id) AS (
    SELECT 0, ? UNION ALL
    SELECT path.at + 1, turns.before FROM path JOIN turns ON turns.id = path.id
    WHERE turns.before != ?
)
SELECT {_FIELDS} FROM path JOIN turns USING (id) ORDER BY at DESC
"""  # noqa: S608 (constants alone)


class SqliteStore:
    """Turns in a file."""

    waits: ClassVar = False
    writes_at_once: ClassVar = False

    def __init__(self, path: str, most: int) -> None:
        """Open or make a file of at most so many bytes, about.

        Raises `OSError` where it cannot be opened, and `ValueError` for a file of another kind.
        """
        self.most = most
        # Two, so that who reads does not wait with who writes.
        self._reading, self._writing = _File(File(path)), _File(File(path))
        self._found = Paths()
        with self._writing.connection():
            pass

    @classmethod
    def reading(cls, path: str) -> SqliteStore:
        """Open a file that is there. Raises as the constructor does."""
        with _File(File(path), makes=False).connection():
            return cls(path, sys.maxsize)

    @property
    def size(self) -> int:
        """Bytes of all turns, about."""
        with self._reading.connection() as connection:
            size: int = connection.execute("SELECT size FROM total").fetchone()[0]
            return size

    def find(self, keys: Sequence[bytes]) -> tuple[int, list[Path]]:
        """Find the first of some keys that is known."""
        with self._reading.connection() as connection:
            for start in range(0, len(keys), _ASKED):
                asked = keys[start : start + _ASKED]
                marks = ", ".join("?" * len(asked))
                known = f"SELECT DISTINCT key FROM turns WHERE key IN ({marks})"  # noqa: S608
                found = {key for (key,) in connection.execute(known, asked)}
                for at, key in enumerate(asked):
                    if key in found:
                        return start + at, self._paths(connection, key, asked[at:])
        return len(keys), []

    def ends(self, client: str | None) -> Iterator[Path]:
        """Give the paths to the turns that no turn follows, of a client or of all."""
        last = (
            "SELECT id FROM turns AS last WHERE (? IS NULL OR client = ?) "
            "AND NOT EXISTS (SELECT 1 FROM turns WHERE before = last.id)"
        )
        with self._reading.connection() as connection:
            ids = connection.execute(last, (client, client)).fetchall()
        for id_ in ids:
            with self._reading.connection() as connection:
                path = tuple(map(_turn, connection.execute(_PATH, (*id_, b""))))
            if path and not path[0].before:
                yield path

    def reward(self, client: str, answer: str, choice: int, value: float) -> bool:
        """Attach a reward to a client's answer; say whether it is known."""
        attach = "UPDATE turns SET reward = ? WHERE answer = ? AND client = ? AND choice = ?"
        with self._writing.connection() as connection, _transaction(connection):
            return connection.execute(attach, (value, answer, client, choice)).rowcount > 0

    def _paths(
        self, connection: sqlite3.Connection, key: bytes, keys: Sequence[bytes]
    ) -> list[Path]:
        """Give the paths to the turns of a key. The path to one of some keys may be known."""
        known, size = self._found.take(keys)
        last = known[-1].id if known else b""
        latest = "SELECT id FROM turns WHERE key = ? ORDER BY latest DESC LIMIT ?"
        found: list[tuple[Path, int, Path]] = []
        for (id_,) in connection.execute(latest, (key, MOST)).fetchall():
            if id_ == last:
                found.append((known, size, ()))
                continue
            rest = tuple(map(_turn, connection.execute(_PATH, (id_, last))))
            # A conversation that is forgotten meanwhile has no path.
            if rest and not rest[0].before:
                found.append(((), 0, rest))
            elif rest and rest[0].before == last:
                found.append((known, size, rest))
        if found:
            self._found.keep(*found[0])
        return [before + rest for before, _, rest in found]

    def add(self, turn: Turn) -> None:
        """Keep a turn, and forget the conversations that were not used for the longest time."""
        with self._writing.connection() as connection, _transaction(connection):
            connection.execute("UPDATE total SET uses = uses + 1")
            (use,) = connection.execute("SELECT uses FROM total").fetchone()
            is_known = "SELECT 1 FROM turns WHERE id = ?"
            if turn.before and not connection.execute(is_known, (turn.before,)).fetchone():
                return
            again = "UPDATE turns SET latest = ? WHERE id = ?"
            if not connection.execute(again, (use, turn.id)).rowcount:
                marks = ", ".join("?" * (len(_NAMES) + 1))
                insert = f"INSERT INTO turns ({_FIELDS}, latest) VALUES ({marks})"  # noqa: S608
                connection.execute(insert, (*_row(turn), use))
                self._grow(connection, turn.root, turn.size)
            connection.execute("UPDATE conversations SET used = ? WHERE root = ?", (use, turn.root))
            self._shrink(connection)

    @staticmethod
    def _grow(connection: sqlite3.Connection, root: bytes, size: int) -> None:
        connection.execute(
            "INSERT INTO conversations VALUES (?, ?, 0) "
            "ON CONFLICT (root) DO UPDATE SET size = size + excluded.size",
            (root, size),
        )
        connection.execute("UPDATE total SET size = size + ?", (size,))

    def _shrink(self, connection: sqlite3.Connection) -> None:
        while connection.execute("SELECT size FROM total").fetchone()[0] > self.most:
            oldest = "SELECT root, size FROM conversations ORDER BY used LIMIT 1"
            root, size = connection.execute(oldest).fetchone()
            connection.execute("DELETE FROM turns WHERE root = ?", (root,))
            connection.execute("DELETE FROM conversations WHERE root = ?", (root,))
            connection.execute("UPDATE total SET size = size - ?", (size,))

    def close(self) -> None:
        """Close the file."""
        self._reading.close()
        self._writing.close()


class _File:
    """A connection to a file, for one thread after another; opened again after a failure."""

    def __init__(self, path: File, *, makes: bool = True) -> None:
        self._path, self._makes = path, makes
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Give the connection. Raises `OSError` for every error of SQLite."""
        with self._lock:
            try:
                if self._open is None or self._inode != _inode(self._path):
                    self._close()
                    self._open = _opened(self._path, makes=self._makes)
                    self._inode = _inode(self._path)
                yield self._open
            except sqlite3.Error as error:
                self._close()
                raise OSError(f"{self._path}: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()


def _opened(path: File, *, makes: bool) -> sqlite3.Connection:
    # The owner's alone, as are the files that SQLite puts beside it: conversations are in it.
    os.close(os.open(path, os.O_RDWR | (os.O_CREAT if makes else 0), 0o600))
    connection = sqlite3.connect(path, _WAIT, isolation_level=None, check_same_thread=False)
    try:
        if makes:
            connection.execute("PRAGMA journal_mode = WAL")
        # A crash of the machine may lose the last turns, which are then encoded again.
        connection.execute("PRAGMA synchronous = NORMAL")
        if makes and not _has_tables(connection):
            _make_tables(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        _check(path, is_own=application == _APPLICATION and version == _VERSION)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_tables(connection: sqlite3.Connection) -> bool:
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(count)


def _make_tables(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        # Another process may have been first.
        if not _has_tables(connection):
            for statement in filter(str.strip, _TABLES.split(";")):
                connection.execute(statement)


def _check(path: File, *, is_own: bool) -> None:
    if not is_own:
        raise ValueError(
            f"{path}: is a database of something else, or of another version; "
            "expected a file that `--memory-file` made, or none"
        )


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _inode(path: File) -> tuple[int, int] | None:
    """Name the file that a path leads to; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _row(turn: Turn) -> tuple[Any, ...]:
    row = [getattr(turn, name) for name in _NAMES]
    for at in _PAIRS:
        row[at] = json.dumps(row[at])
    return tuple(row)


def _turn(row: Sequence[Any]) -> Turn:
    made = list(row)
    for at in _PAIRS:
        made[at] = () if row[at] == "[]" else tuple(map(tuple, json.loads(row[at])))
    return Turn(*made)
