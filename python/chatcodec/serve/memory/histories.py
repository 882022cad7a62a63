"""Histories that were read lately: what goes on with one is hashed from its end on.

A client sends its whole history with each request. Messages whose bytes are those of the last
request are compared, and not hashed again. Cost: a copy of the messages' bytes and a comparison;
a hash of each new message.
"""

from __future__ import annotations

import json
import marshal
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.serve.memory.said import History, is_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Histories", "Scope"]

_MOST = 1 << 24
"""Bytes of histories that are kept, about."""
_OVERHEAD = 1 << 10
"""Bytes of a history beside what it was read from, about."""
_TRIES = 4
"""Places at which the last request may have ended, the latest first."""
_HEADER = 5
"""Bytes of `marshal` before the first item of a list: its type and its length."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a history depends on beside its messages; it parts clients, too."""

    client: str
    session: str
    codec: str
    tools: Sequence[Any]
    options: Mapping[str, Any]

    def words(self) -> tuple[str, ...]:
        """Give the words to hash."""
        told = (
            json.dumps(each, sort_keys=True, default=str) for each in (self.tools, self.options)
        )
        return (self.client, self.session, self.codec, *told)


@dataclass(frozen=True, slots=True)
class _Known:
    """A history that was read, and all that it was read from."""

    history: History
    scope: bytes
    messages: bytes

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return len(self.scope) + len(self.messages) + _OVERHEAD


_Place = tuple[str, str, int, object]
"""Where a history ends: client, session, number of messages, text of the last."""


class Histories:
    """The histories of the latest requests of this process."""

    def __init__(self, codec: str, most: int = _MOST) -> None:
        """Keep so many bytes of histories, about, before the codec with a hash."""
        self.codec = codec
        self._most = most
        self.size = 0
        """Bytes of all histories, about."""
        self._lock = threading.Lock()
        self._known: OrderedDict[_Place, _Known] = OrderedDict()

    def read(self, scope: Scope, messages: Sequence[Any]) -> History:
        """Read the messages of a request."""
        try:
            # This version writes equal values alike, and other types otherwise: 1, 1.0 and true.
            raw = marshal.dumps([*messages], 2)[_HEADER:]
            own = marshal.dumps([scope.tools, scope.options], 2)
        except ValueError:  # a value of another kind than JSON's
            return History(scope.words(), messages)
        known = self._take(scope, messages, own, raw)
        history = History(() if known else scope.words(), messages, known)
        if messages and not is_answer(messages[-1]):
            self._keep(_place(scope, messages, len(messages)), _Known(history, own, raw))
        return history

    def _take(
        self, scope: Scope, messages: Sequence[Any], own: bytes, raw: bytes
    ) -> History | None:
        """Take out the longest history that the messages go on with."""
        for place in _places(scope, messages):
            with self._lock:
                known = self._known.get(place)
                if known is None or known.scope != own or not raw.startswith(known.messages):
                    continue
                self.size -= known.size
                del self._known[place]
                return known.history
        return None

    def _keep(self, place: _Place, known: _Known) -> None:
        with self._lock:
            before = self._known.pop(place, None)
            self._known[place] = known
            self.size += known.size - (0 if before is None else before.size)
            while self.size > self._most:
                _, oldest = self._known.popitem(last=False)
                self.size -= oldest.size


def _places(scope: Scope, messages: Sequence[Any]) -> Iterator[_Place]:
    """Give the places before an answer, where a request may have ended, and the end."""
    tries = 0
    for at in range(len(messages), 0, -1):
        follows = at == len(messages) or is_answer(messages[at])
        if follows and not is_answer(messages[at - 1]):
            yield _place(scope, messages, at)
            tries += 1
            if tries == _TRIES:
                return


def _place(scope: Scope, messages: Sequence[Any], count: int) -> _Place:
    last = messages[count - 1]
    content = last.get("content") if isinstance(last, dict) else None
    return scope.client, scope.session, count, content if isinstance(content, str) else None
