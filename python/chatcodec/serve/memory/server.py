"""Turns in a Redis or Valkey server, which the gateways of several machines share.

A conversation is one hash of the server, with all its branches: a server that evicts it for want of
memory forgets a whole conversation. Every change is a script of the server, all or nothing. Where
the server fails, or takes longer than a quarter of a second, the caller gets an `OSError`, and the
server is left alone for some seconds: requests do not wait for one that is gone.

A turn is JSON, with bytes in base64: what a server says is never run.
"""

from __future__ import annotations

import json
import os
import time
from base64 import b64decode, b64encode
from contextlib import contextmanager
from dataclasses import fields, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chatcodec.serve.memory.paths import Paths
from chatcodec.serve.memory.store import MOST
from chatcodec.serve.memory.turns import Turn
from chatcodec.serve.settings import MEMORY_PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chatcodec.serve.memory.turns import Path

__all__ = ["ServerStore"]

_WAIT = 0.25
"""Seconds that the server may take."""
_REST = 5.0
"""Seconds for which a server that failed is left alone."""
_PREFIX = "{chatcodec:1}"
"""What all names begin with: the version, in the braces that keep a cluster's names together."""
_SCHEMES = ("redis", "rediss", "unix")

_BYTES = {field.name for field in fields(Turn) if field.type == "bytes"}
_PAIRS = {"calls", "notes"}

_FIND = """
local known = ARGV[1]
for at = 2, #ARGV do
  local key = ARGV[at]
  local paths, turns, seen = {}, {}, {}
  for _, entry in ipairs(redis.call('LRANGE', KEYS[1] .. 'key:' .. key, 0, -1)) do
    local root, id = string.match(entry, '(.*):(.*)')
    local path = {}
    while id and id ~= '' do
      local got = redis.call('HMGET', KEYS[1] .. 'of:' .. root, 't:' .. id, 'b:' .. id, 'r:' .. id)
      if not got[1] then path = nil break end
      table.insert(path, id)
      if not seen[id] then
        seen[id] = true
        table.insert(turns, {id, got[1], got[3] or ''})
      end
      id = got[2]
      if id == known then break end
    end
    if path then table.insert(paths, path) end
  end
  if #paths > 0 then return {at - 2, paths, turns} end
end
return {#ARGV - 1, {}, {}}
"""

_ADD = """
local P = KEYS[1]
local root, id, before, key, answer, turn = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local size, most, latest = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local of = P .. 'of:' .. root
if before ~= '' and redis.call('HEXISTS', of, 't:' .. before) == 0 then return end
redis.call('ZADD', P .. 'used', redis.call('INCR', P .. 'uses'), root)
local entry = root .. ':' .. id
redis.call('LREM', P .. 'key:' .. key, 0, entry)
redis.call('LPUSH', P .. 'key:' .. key, entry)
redis.call('LTRIM', P .. 'key:' .. key, 0, latest - 1)
if redis.call('HEXISTS', of, 't:' .. id) == 1 then return end
redis.call('HSET', of, 't:' .. id, turn, 'b:' .. id, before, 'k:' .. id, key, 'a:' .. id, answer)
redis.call('SET', P .. 'answer:' .. answer, entry)
redis.call('HINCRBY', P .. 'sizes', root, size)
local total = redis.call('INCRBY', P .. 'size', size)
while total > most do
  local oldest = redis.call('ZPOPMIN', P .. 'used')[1]
  if not oldest then break end
  local gone = P .. 'of:' .. oldest
  for _, field in ipairs(redis.call('HKEYS', gone)) do
    local kind, turn_id = string.match(field, '(.):(.*)')
    if kind == 'k' then
      local name = P .. 'key:' .. redis.call('HGET', gone, field)
      redis.call('LREM', name, 0, oldest .. ':' .. turn_id)
    elseif kind == 'a' then
      redis.call('DEL', P .. 'answer:' .. redis.call('HGET', gone, field))
    end
  end
  redis.call('DEL', gone)
  total = redis.call('DECRBY', P .. 'size', redis.call('HGET', P .. 'sizes', oldest) or 0)
  redis.call('HDEL', P .. 'sizes', oldest)
end
"""

_REWARD = """
local entry = redis.call('GET', KEYS[1] .. 'answer:' .. ARGV[1])
if not entry then return 0 end
local root, id = string.match(entry, '(.*):(.*)')
local of = KEYS[1] .. 'of:' .. root
if redis.call('HEXISTS', of, 't:' .. id) == 0 then return 0 end
redis.call('HSET', of, 'r:' .. id, ARGV[2])
return 1
"""


class ServerStore:
    """Turns in a server."""

    waits: ClassVar = True
    writes_at_once: ClassVar = False

    def __init__(self, url: str, most: int) -> None:
        """Keep at most so many bytes, about, in the server of a URL. Connects with the first call.

        Raises `ValueError` for a URL of something else.
        """
        self.most = most
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            raise ValueError(
                f"the memory's server is {url.partition(':')[0][:40]}, expected "
                "redis://HOST:PORT/NUMBER, rediss:// with TLS, or unix://PATH"
            )
        self._shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        options: dict[str, Any] = {"socket_timeout": _WAIT, "socket_connect_timeout": _WAIT}
        # A connection that the server closed meanwhile is made again.
        options["retry"] = Retry(NoBackoff(), 1, (redis.ConnectionError,))
        if password := os.environ.get(MEMORY_PASSWORD):
            options["password"] = password
        self._server = redis.Redis.from_url(url, **options)
        self._find, self._add, self._reward = map(
            self._server.register_script, (_FIND, _ADD, _REWARD)
        )
        self._failed = -_REST
        self._found = Paths()

    @property
    def size(self) -> int:
        """Bytes of all turns, about."""
        with self._errors():
            return int(self._named("get", "size") or 0)

    def find(self, keys: Sequence[bytes]) -> tuple[int, list[Path]]:
        """Find the first of some keys that is known."""
        known, size = self._found.take(keys)
        last = known[-1].id if known else b""
        with self._errors():
            at, paths, turns = self._run(self._find, [last.hex(), *(key.hex() for key in keys)])
            new = {id_: _turn(raw, reward) for id_, raw, reward in turns}
        found: list[tuple[Path, int, Path]] = []
        for path in paths:
            rest = tuple(new[id_] for id_ in reversed(path))
            is_known = bool(last) and rest[0].before == last
            found.append((known, size, rest) if is_known else ((), 0, rest))
        if found:
            self._found.keep(*found[0])
        return at, [before + rest for before, _, rest in found]

    def add(self, turn: Turn) -> None:
        """Keep a turn, and forget the conversations that were not used for the longest time."""
        names = (turn.root.hex(), turn.id.hex(), turn.before.hex(), turn.key.hex())
        answer = _answer(turn.client, turn.answer, turn.choice)
        with self._errors():
            self._run(self._add, [*names, answer, _json(turn), turn.size, self.most, MOST])

    def ends(self, client: str | None) -> Iterator[Path]:
        """Give the paths to the turns that no turn follows, of a client or of all."""
        with self._errors():
            roots = self._named("zrange", "used", 0, -1)
        for root in roots:
            with self._errors():
                of: dict[bytes, bytes] = self._named("hgetall", f"of:{root.decode()}")
                found = [
                    _turn(raw, of.get(b"r:" + name[2:], b""))
                    for name, raw in of.items()
                    if name.startswith(b"t:")
                ]
            turns = {turn.id: turn for turn in found}
            followed = {turn.before for turn in found}
            for last in found:
                if last.id in followed or client not in {None, last.client}:
                    continue
                path = [last]
                while path[-1].before:
                    path.append(turns[path[-1].before])
                yield tuple(reversed(path))

    def reward(self, client: str, answer: str, choice: int, value: float) -> bool:
        """Attach a reward to a client's answer; say whether it is known."""
        with self._errors():
            return bool(self._run(self._reward, [_answer(client, answer, choice), repr(value)]))

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _run(self, script: Callable[..., Any], arguments: Sequence[Any]) -> Any:  # noqa: ANN401
        return script(keys=[_PREFIX], args=arguments)

    def _named(self, command: str, name: str, *arguments: Any) -> Any:  # noqa: ANN401
        return getattr(self._server, command)(_PREFIX + name, *arguments)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise `OSError` for every error of the server, and at once after one of the network."""
        left = self._failed + _REST - time.monotonic()
        if left > 0:
            raise OSError(f"{self._shown}: failed; it is tried again in {left:.1f} s")
        try:
            yield
        except redis.RedisError as error:
            if isinstance(error, (redis.ConnectionError, redis.TimeoutError)):
                self._failed = time.monotonic()
            raise OSError(f"{self._shown}: {error}") from error
        except ValueError as error:
            raise OSError(f"{self._shown}: {error}") from error


def _answer(client: str, answer: str, choice: int) -> str:
    return sha256(json.dumps([client, answer, choice]).encode()).hexdigest()


def _json(turn: Turn) -> str:
    made = {field.name: getattr(turn, field.name) for field in fields(Turn)}
    return json.dumps(
        {
            name: b64encode(value).decode() if name in _BYTES else value
            for name, value in made.items()
        }
    )


def _turn(raw: bytes, reward: bytes) -> Turn:
    """Read a turn. Raises `ValueError` for what is none."""
    try:
        made = json.loads(raw)
        for name in _BYTES:
            made[name] = b64decode(made[name])
        for name in _PAIRS:
            made[name] = tuple(map(tuple, made[name]))
        turn = Turn(**made)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{raw!r:.40} is no turn") from error
    return replace(turn, reward=float(reward)) if reward else turn
