"""Keys of clients: how they are written, which one a request has, and reading them again.

Keys are kept as their SHA-256. That is enough for keys that are random, such as those of
`openssl rand -base64 32`; a key that a person can remember can be guessed from its hash.

A file has one key a line:

    # a comment is a line of its own, or stands after white space at the end of one
    sk-4f0c…                                    a key without a name
    alice: sk-91be…                             a name and its key
    bob: sha256:3a6e… max-requests=8            a hash instead of the key, and a limit

A name may have several keys, so that a client can change from one to the next.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import stat
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec.serve.log import LOG
from chatcodec.serve.settings import KEYS
from chatcodec.serve.signals import on_hangup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from starlette.datastructures import Headers

    from chatcodec.serve.settings import Settings

__all__ = ["ANYONE", "Key", "Keys", "given_key", "hash_of", "read_keys", "watched"]

HASH = "sha256:"
_LIMIT = "max-requests="
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_NAMED = re.compile(r"([^\s:]+):\s+(.*)")
_LONGEST_NAME = 64
_INTERVAL = 0.5
"""Seconds between two looks at the file."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a client."""

    name: str
    """Name of the client, for limits, counts and the log; never the key itself."""
    digest: bytes = field(repr=False)
    most: int | None = None
    """Greatest number of requests of the name at once; None for the server's limit."""


ANYONE = Key("", b"")
"""What every request has where no keys are asked for."""


def hash_of(key: str) -> str:
    """Give the hash of a key, as a file of keys has it. Raises `ValueError` for what is no key."""
    return HASH + _digest_of(key).hex()


def given_key(headers: Headers) -> bytes:
    """Give the key that a request has: its bearer token, or `x-api-key`; empty for none."""
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    given = bearer if kind.lower() == "bearer" else headers.get("x-api-key", "")
    return given.encode("latin-1").strip(b" \t")


def read_keys(lines: Iterable[str], where: str) -> Iterator[Key]:
    """Read the lines of a file of keys. Raises `ValueError`, which names the line and no key."""
    for number, line in enumerate(lines, 1):
        text = re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip()
        if not text:
            continue
        try:
            yield _read(text)
        except ValueError as error:
            raise ValueError(f"{where}, line {number}: {error}") from None


def _read(text: str) -> Key:
    named = _NAMED.fullmatch(text)
    name, rest = named.groups() if named else ("", text)
    key, *options = rest.split()
    if not named and ":" in key and not key.startswith(HASH):
        raise ValueError("has `:` without white space after it, expected `name: key`")
    # A hash with a space in it would be a key: what is in the file would open the server.
    if len(name) > _LONGEST_NAME or not name.isprintable() or name + ":" == HASH:
        raise ValueError(
            f"the name is `{HASH[:-1]}`, has more than {_LONGEST_NAME} characters, or odd ones"
        )
    digest = _digest_of(key)
    return Key(name or _name_of(digest), digest, _limit_of(options))


def _limit_of(options: list[str]) -> int | None:
    """Read what follows a key. Text that is neither an option nor a comment is no key either."""
    if not options:
        return None
    number = options[0].removeprefix(_LIMIT)
    if options != [_LIMIT + number] or not re.fullmatch("[1-9][0-9]{0,8}", number):
        raise ValueError(
            f"has text after the key, expected `{_LIMIT}N` there, or a comment that begins with `#`"
        )
    return int(number)


def _digest_of(key: str) -> bytes:
    if key.startswith(HASH):
        if not _DIGEST.fullmatch(key.removeprefix(HASH)):
            raise ValueError(f"`{HASH}` is not followed by 64 hexadecimal digits")
        return bytes.fromhex(key.removeprefix(HASH))
    if not key or not key.isprintable() or key.split() != [key]:
        raise ValueError("the key is empty, or has white space or control characters")
    return hashlib.sha256(key.encode()).digest()


def _name_of(digest: bytes) -> str:
    """Name a key that has no name: the same in each process, and after each reading."""
    return "key-" + hashlib.sha256(b"name:" + digest).hexdigest()[:8]


class Keys:
    """The keys of a server, read again when their file changes or `reload` is called."""

    def __init__(self, path: str | None, variable: str | None) -> None:
        """Read the keys of a file and of the variable's value; None for a source that is not.

        Raises `ValueError` for a source without keys, or with a line that is none, and `OSError`
        for a file that cannot be read. An empty source would open the server to everyone.
        """
        self._path = None if path is None else Path(path)
        self._variable = variable
        self._seen = self._state()
        self._table = self._load()

    @staticmethod
    def of(settings: Settings) -> Keys | None:
        """Read the keys that settings and the environment name; None where neither names any."""
        variable = os.environ.get(KEYS)
        if settings.keys_file is None and variable is None:
            return None
        return Keys(settings.keys_file, variable)

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._table)

    def find(self, given: bytes) -> Key | None:
        """Find the key that a request has. Each key is compared in full, in constant time.

        A header has no encoding: characters outside ASCII may come as UTF-8 or as latin-1.
        """
        digests = [hashlib.sha256(given).digest()]
        if not given.isascii():
            digests.append(hashlib.sha256(given.decode("latin-1").encode()).digest())
        found = [
            key
            for key in self._table
            if sum(hmac.compare_digest(digest, key.digest) for digest in digests)
        ]
        return found[0] if found else None

    def reload(self) -> None:
        """Read the keys again. Where that fails, the log says why, and the old keys stay."""
        self._seen = self._state()
        try:
            self._table = self._load_again()
        except (OSError, ValueError) as error:
            fields = {"problem": str(error), "advice": "the keys of before are still in force"}
            LOG.error("keys", extra={"fields": fields})
        else:
            LOG.info("keys", extra={"fields": {"count": len(self)}})

    async def watch(self) -> None:
        """Read the keys again whenever their file has changed, and has stopped to change."""
        if self._path is None:
            return
        before = self._seen
        while True:
            await asyncio.sleep(_INTERVAL)
            now = await asyncio.to_thread(self._state)
            if now == before and now != self._seen:
                self.reload()
            before = now

    def _state(self) -> tuple[int, ...]:
        """Describe the file, so that a change of it is seen; empty for a file that is away."""
        if self._path is None:
            return ()
        try:
            about = self._path.stat()
        except OSError:
            return ()
        if not stat.S_ISREG(about.st_mode):
            return ()
        return about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino, about.st_dev

    def _load_again(self) -> tuple[Key, ...]:
        if self._path is not None and self._path.exists() and not self._path.is_file():
            # Reading a pipe again would wait for ever.
            raise ValueError(f"{self._path}: is no file that can be read again")
        return self._load()

    def _load(self) -> tuple[Key, ...]:
        found: list[Key] = []
        if self._variable is not None:
            found += _checked(KEYS, _of_variable(self._variable))
        if self._path is not None:
            try:
                lines = self._path.read_text("utf-8-sig").split("\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{self._path}: is not UTF-8 at byte {error.start}") from None
            found += _checked(str(self._path), lines)
        limits: dict[str, int | None] = {}
        names: dict[bytes, str] = {}
        for key in found:
            if limits.setdefault(key.name, key.most) != key.most:
                raise ValueError(f"the keys of `{key.name}` have different limits, expected one")
            if names.setdefault(key.digest, key.name) != key.name:
                first = names[key.digest]
                raise ValueError(f"`{first}` and `{key.name}` have the same key, expected two")
        return tuple(found)


def _of_variable(value: str) -> list[str]:
    """Split a variable, which has keys or hashes alone, at white space and commas."""
    keys = value.replace(",", " ").split()
    if any(key.startswith("#") for key in keys):
        raise ValueError(f"{KEYS}: has a comment; those belong into a file of keys")
    return keys


def _checked(where: str, lines: list[str]) -> list[Key]:
    keys = list(read_keys(lines, where))
    if not keys:
        raise ValueError(f"{where}: has no key, expected at least one")
    return keys


@asynccontextmanager
async def watched(keys: Keys | None, reload: Callable[[], None]) -> AsyncIterator[None]:
    """Read keys again when their file changes, and call `reload` on SIGHUP, while a server runs."""
    watching = None if keys is None else asyncio.create_task(keys.watch())
    try:
        with on_hangup(reload):
            yield
    finally:
        if watching is not None:
            watching.cancel()
