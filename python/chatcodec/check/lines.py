r"""The line of a TOML file that holds a key, for an error that names the key.

>>> line_of('name = "x"\n[turn]\nuser = [\n  "a",\n  "b",\n]\n', "turn.user[1]")
5
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["line_of"]

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]")
_MEMBER = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=[ \t]*")
_INLINE = re.compile(rf"[{{,]\s*({_DOTTED})\s*=\s*")
# A string, whatever it holds; strings of several lines before those of one.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', re.DOTALL
)
_INDEX = re.compile(r"\[(\d+)\]$")


def line_of(text: str, key: str, variant: str | None = None) -> int | None:
    """Return the line of a dotted key, from 1; of its nearest table if the key is not there.

    A list's item is `turn.user[1]`. A key that the variant has is the variant's. None where the
    file has nothing of the key.
    """
    found = _INDEX.search(key)
    path = tuple(key[: found.start()].split(".")) if found else tuple(key.split("."))
    places = dict(_places(text))
    if variant is not None and ("variant", variant, *path) in places:
        path = ("variant", variant, *path)
    at = places.get(path)
    if at is not None and found:
        at = _item(text, at, int(found[1]))
    while at is None and len(path) > 1:
        path = path[:-1]
        at = places.get(path)
    return None if at is None else text.count("\n", 0, at) + 1


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in re.findall(_NAME, dotted))


def _places(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each table and key of the file with its position."""
    table: tuple[str, ...] = ()
    at = 0
    while at < len(text):
        if header := _HEADER.match(text, at):
            table = _path(header[1])
            yield table, header.start(1)
        elif member := _MEMBER.match(text, at):
            path = (*table, *_path(member[1]))
            yield path, member.start(1)
            end = _end(text, member.end())
            yield from _members(text, path, member.end(), end)
            at = end
        following = text.find("\n", at)
        at = len(text) if following < 0 else following + 1


def _members(
    text: str, path: tuple[str, ...], start: int, end: int
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the members of an inline table."""
    if text.startswith("{", start):
        plain = _STRING.sub(lambda string: " " * len(string[0]), text[start:end])
        for member in _INLINE.finditer(plain):
            yield (*path, *_path(member[1])), start + member.start(1)


def _end(text: str, at: int) -> int:
    """Return the end of a value: of a string, or of a line outside of brackets and strings."""
    depth = 0
    while at < len(text):
        string = _STRING.match(text, at)
        if string:
            at = string.end()
            continue
        char = text[at]
        if char == "#":
            at = _line_end(text, at)
            continue
        depth += (char in "[{") - (char in "]}")
        if char == "\n" and depth <= 0:
            return at
        at += 1
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _item(text: str, key_at: int, number: int) -> int:
    """Return the position of an item of a list of strings; of the key if there is no such item."""
    at, found = text.find("=", key_at), 0
    end = _end(text, at + 1)
    while at < end:
        if string := _STRING.match(text, at):
            if found == number:
                return at
            found, at = found + 1, string.end()
        elif text[at] == "#":
            at = _line_end(text, at)
        else:
            at += 1
    return key_at
