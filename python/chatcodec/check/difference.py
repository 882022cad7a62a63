"""The first difference between what a template and a format file write, and the key that writes it.

A key is named only where the place of the difference decides it. Between the texts of two keys
either may lack what the template writes there: both are named.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Encoding

__all__ = ["Difference", "Keys", "Token", "first_difference"]

Keys: TypeAlias = list[tuple[int, str]]
"""Keys of a format file, each with the first byte that it writes."""

_SHOWN_BEFORE, _SHOWN_AFTER = 24, 48
"""Most characters and control tokens that are shown before a difference, and from there on."""

_SPELLED = (
    "the template writes the control token, and the file its spelling: name the token in a "
    "pattern; a default system message with tokens is `turn.without_system`"
)
"""What to do where a file writes a control token as text."""

_ALIKE = 12
"""The number of characters and control tokens by which two places are the same."""


@dataclass(frozen=True, slots=True)
class Token:
    """A control token, or text between control tokens."""

    text: str
    is_control: bool


class _Unit(NamedTuple):
    """A control token or a character."""

    text: str
    is_control: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a template and a format file write something else."""

    before: tuple[Token, ...]
    """The end of what both write before."""
    template: tuple[Token, ...]
    """What the template writes from there on; nothing where its text ends."""
    file: tuple[Token, ...]
    """What the file writes from there on."""
    keys: tuple[str, ...]
    """The key of the file that writes there; two where either may lack something; or none."""
    place: str
    """Where in the conversation it is, in words."""
    hint: str
    """What to do about it, where that is known."""


class _Written:
    """A conversation's text as characters and control tokens, and where each is."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.units: list[_Unit] = []
        self.starts: list[int] = []
        """The first code point of each unit."""
        text, at = encoding.text, 0
        for is_control, (start, end) in zip(
            encoding.is_control, encoding.char_offsets, strict=True
        ):
            if is_control:
                self._text(text, at, start)
                self.units.append(_Unit(text[start:end], is_control=True))
                self.starts.append(start)
                at = end
        self._text(text, at, len(text))

    def _text(self, text: str, start: int, end: int) -> None:
        self.units += [_Unit(char, is_control=False) for char in text[start:end]]
        self.starts += range(start, end)

    def bytes_before(self) -> list[int]:
        """Give the first byte of each unit, and the number of all bytes."""
        return [0, *accumulate(len(text.encode()) for text, _ in self.units)]

    def source(self, unit: int) -> tuple[str | None, int]:
        """Give the path of the caller's text that a unit holds, and the index of its message."""
        if unit >= len(self.starts):
            return None, -1
        start = self.starts[unit]
        encoding = self.encoding
        for nth, (first, end) in enumerate(encoding.char_offsets):
            if first <= start < end:
                return encoding.sources[nth], encoding.message_indices[nth]
        return None, -1

    def tokens(self, start: int, end: int) -> tuple[Token, ...]:
        """Give a part as control tokens and the texts between them."""
        found: list[Token] = []
        for text, is_control in self.units[max(start, 0) : end]:
            if found and not is_control and not found[-1].is_control:
                found[-1] = Token(found[-1].text + text, is_control=False)
            else:
                found.append(Token(text, is_control))
        return tuple(found)


def first_difference(
    template: Encoding, file: Encoding, keys: Keys, messages: Sequence[object]
) -> Difference | None:
    """Return the first difference between two encodings of messages; None for the same ids."""
    if template.ids == file.ids:
        return None
    expected, found = _Written(template), _Written(file)
    pairs = zip(expected.units, found.units, strict=False)
    same = min(len(expected.units), len(found.units))
    at = next((nth for nth, (one, other) in enumerate(pairs) if one != other), same)
    if at == len(expected.units) == len(found.units):
        return _other_ids(expected, found)
    named, hint = _responsible(expected, found, at, keys, messages)
    return Difference(
        before=found.tokens(at - _SHOWN_BEFORE, at),
        template=expected.tokens(at, at + _SHOWN_AFTER),
        file=found.tokens(at, at + _SHOWN_AFTER),
        keys=named,
        place=_place(found, at, len(messages)),
        hint=hint,
    )


def _other_ids(expected: _Written, found: _Written) -> Difference:
    """Describe the same text with other ids: the texts are split at other places."""
    pairs = zip(expected.encoding.ids, found.encoding.ids, strict=False)
    nth = next((nth for nth, (one, other) in enumerate(pairs) if one != other), -1)
    start = found.encoding.char_offsets[nth][0]
    at = bisect_right(found.starts, start) - 1
    return Difference(
        before=found.tokens(at - _SHOWN_BEFORE, at),
        template=expected.tokens(at, at + _SHOWN_AFTER),
        file=found.tokens(at, at + _SHOWN_AFTER),
        keys=(),
        place=f"id {nth}",
        hint="the text is the same and the ids differ: a text is split at another place, see `{/}`",
    )


class _Part(NamedTuple):
    """What a key writes: its first unit and one past its last."""

    key: str
    start: int
    end: int


def _parts(found: _Written, keys: Keys) -> list[_Part]:
    """Give the parts of the text in order, without those that write nothing."""
    bytes_before = found.bytes_before()
    firsts = [bisect_right(bytes_before, first - 1) for first, _ in keys]
    ends = [*firsts[1:], len(found.units)]
    parts: list[_Part] = []
    for (_, key), start, end in zip(keys, firsts, ends, strict=True):
        if start < end:
            parts.append(_Part(key, start, end))
    return parts


def _responsible(
    expected: _Written, found: _Written, at: int, keys: Keys, messages: Sequence[object]
) -> tuple[tuple[str, ...], str]:
    """Return the keys that may be responsible for a difference, and a hint where there is one."""
    parts = _parts(found, keys)
    here = next((part for part in parts if part.start <= at < part.end), None)
    before = next((part for part in reversed(parts) if part.end <= at), None)
    if here is None:
        last = () if before is None else (before.key,)
        return last, "the file's text ends here, and the template's goes on" if last else ""
    if at == len(expected.units):
        return (here.key,), "the template's text ends here, and the file's goes on"
    if here.start == at and _alike(expected.units[at:], found.units[here.end :]):
        return (here.key,), "the template writes nothing there"
    if _comes_later(expected, found, here, at):
        if before is None or here.start < at:
            return (), _what_stands_before(here, messages)
        if before.key != here.key:
            return (before.key, here.key), "the template writes more between what these two write"
    return (here.key,), _SPELLED if _spells(found.units[at:], expected.units[at]) else ""


def _spells(units: Sequence[_Unit], token: _Unit) -> bool:
    """Whether text spells a control token."""
    if not token.is_control or not units or units[0].is_control:
        return False
    return "".join(text for text, _ in units[: len(token.text)]) == token.text


def _alike(units: Sequence[_Unit], others: Sequence[_Unit]) -> bool:
    return bool(units) and units[:_ALIKE] == others[:_ALIKE]


def _comes_later(expected: _Written, found: _Written, part: _Part, at: int) -> bool:
    """Whether the template writes what the file has from a part on, up to `at` at least, later."""
    sought = found.units[part.start : max(part.start + _ALIKE, at + 1)]
    size = len(sought)
    starts = range(at if part.start == at else part.start + 1, len(expected.units) - size + 1)
    return any(expected.units[start : start + size] == sought for start in starts)


def _what_stands_before(part: _Part, messages: Sequence[object]) -> str:
    """Say that the template writes something of its own before a part of the file."""
    first = messages[0] if messages else None
    keys = ["`turn.begin`"]
    if part.start == 0:
        keys.insert(0, "`begin`")
    if isinstance(first, dict) and first.get("role") != "system":
        keys = ["`default_system`", "`turn.without_system`", *keys]
    listed = ", ".join(keys)
    return f"the template writes text before `{part.key}`, where the file may have {listed}"


def _place(found: _Written, at: int, count: int) -> str:
    """Say where in the conversation a difference is."""
    path, message = found.source(at)
    if path is not None:
        return path
    if 0 <= message < count:
        return f"messages[{message}]"
    if at >= len(found.units):
        return "the end"
    start = found.starts[at]
    later = zip(found.encoding.char_offsets, found.encoding.message_indices, strict=True)
    follows = any(begin > start and index >= 0 for (begin, _), index in later)
    return "before the messages" if follows else "after the messages"
