"""Log probabilities of a text: the entries of its ids, whose bytes make the text and no more.

An event's range has the ids of all that it was read from: markers before the text, white space that
a format drops, half a character. An entry is given with the event that completes it, and one that
is only partly text is cut to that part. So the entries of an answer, joined, are its content.
An entry without `bytes` is given with the text of its range.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Entries"]

Entry = dict[str, Any]


class Entries:
    """The entries of one answer, in the order of its ids. Cost: linear in their bytes."""

    def __init__(self) -> None:
        """Begin before the first id."""
        self._waiting: deque[Entry] = deque()
        self._first = 0
        """The number of the first id that waits."""
        self._open: list[Entry] = []
        """Entries that may still be text."""
        self._begun: tuple[int, int] | None = None
        """The bytes of the first open entry that are text of earlier events."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Append the entries of the next ids."""
        self._waiting.extend(entries)

    def of(self, text: str, start: int, end: int) -> list[Entry]:
        """Return the entries that a text completes, which was read from a range of ids."""
        while self._waiting and self._first < end:
            entry = self._waiting.popleft()
            if self._first >= start:
                self._open.append(entry)
            self._first += 1
        found = self._place(text)
        if found is None:
            # Text that no id has, as where a spelling is mended.
            given, entries = self.rest(), self._open
            self._open = []
            return given + [entry for entry in entries if entry.get("bytes") is None]
        return self._take(*found)

    def rest(self) -> list[Entry]:
        """Return the entry whose text goes on after the end of the answer, cut to the answer."""
        if self._begun is None:
            return []
        given = [_part(self._open.pop(0), *self._begun)]
        self._begun = None
        return given

    def _take(self, at: int, end: int) -> list[Entry]:
        """Return the entries of a part of the open bytes, and keep what is after it."""
        given = []
        if at and self._begun is not None:
            at, end = at + self._begun[1], end + self._begun[1]
            skipped = len(_bytes(self._open[0]))
            given = self.rest()
            at, end = at - skipped, end - skipped
        place = 0
        while self._open:
            entry, size = self._open[0], len(_bytes(self._open[0]))
            first, self._begun = self._begun or (0, 0), None
            place -= first[1]
            before = first[0] if first[1] else max(at - place, 0)
            if place + size > end:
                if before < end - place:
                    self._begun = (before, end - place)
                return given
            del self._open[0]
            place += size
            if place > at and size:
                given.append(_part(entry, before, size))
        return given

    def _place(self, text: str) -> tuple[int, int] | None:
        """Return the open bytes that a text is, counted after those that were text before."""
        entries, skip = self._open, self._begun[1] if self._begun else 0
        joined = b"".join(map(_bytes, entries))[skip:]
        starts, place, after = [], -skip, 0
        for entry in entries:
            if not _bytes(entry):
                after = max(place, 0)
            starts.append(max(place, 0))
            place += len(_bytes(entry))
        if "\ufffd" not in text:
            # Surrogates are no text of an id.
            whole = text.encode(errors="replace")
            own = (start for start in starts if start >= after and joined.startswith(whole, start))
            places = (next(own, -1), joined.find(whole, after), joined.find(whole))
            at = next((place for place in places if place >= 0), None)
            return None if at is None else (at, at + len(whole))
        wanted = _pattern(text)
        found = wanted.search(joined, after) or wanted.search(joined)
        return found.span() if found else None


def _pattern(text: str) -> re.Pattern[bytes]:
    """Return the bytes that a text may come from: a replacement character is half of another."""
    parts = (re.escape(part.encode(errors="replace")) for part in text.split("\ufffd"))
    return re.compile(rb"(?:\xef\xbf\xbd|[\x80-\xff]{1,3})".join(parts))


def _bytes(entry: Entry) -> bytes:
    return bytes(entry.get("bytes") or ())


def _part(entry: Entry, start: int, end: int) -> Entry:
    """Return an entry with some of its bytes."""
    whole = _bytes(entry)
    if (start, end) == (0, len(whole)):
        return entry
    part = whole[start:end]
    return {**entry, "token": part.decode("utf-8", "replace"), "bytes": list(part)}
