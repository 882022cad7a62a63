"""The texts that a server is tried with: spellings of control tokens, and a caller's own corpus."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec.audit import IN_PARTS, PLACES, spellings
from chatcodec.errors import DataError, MessageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from chatcodec import Codec

__all__ = ["Attack", "read_attacks", "spelled_attacks"]

_MOST_TOKENS = 64
"""Control tokens of a vocabulary that are tried: those of the format's own prompts first."""

_NAMED = 40
"""Characters of a text that name an attack without a name."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A text, and where it is put."""

    name: str
    """Kind of the spellings, such as `plain`; or the name in a file of attacks."""
    given: Any
    """The text, or a list of parts."""
    tokens: tuple[str, ...] = ()
    """Control tokens that the text spells, of the attacks that are made here."""
    places: tuple[str, ...] = tuple(PLACES)
    """Places of a conversation, as `chatcodec.audit` names them."""

    def alone(self) -> Iterator[Attack]:
        """Give the attack with each of its control tokens alone."""
        for token in self.tokens:
            yield from _spelled([token], self.name)


def spelled_attacks(codec: Codec) -> list[Attack]:
    """Make the attacks of a codec: its control tokens in several spellings, all in one text."""
    return list(_spelled(_tokens(codec), None))


def _spelled(tokens: Sequence[str], only: str | None) -> Iterator[Attack]:
    texts: dict[str, list[Any]] = {}
    for token in tokens:
        for kind, _, given in spellings(token):
            if only in {None, kind}:
                texts.setdefault(kind, []).append(given)
    for kind, given in texts.items():
        if kind == "in parts":
            parts = [part for halves in given for part in (*halves, _part(" and "))]
            yield Attack(kind, [*parts, _part("no more")], tuple(tokens), IN_PARTS)
        else:
            text = "".join(f"{spelling} and " for spelling in given) + "no more"
            yield Attack(kind, text, tuple(tokens))


def _part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _tokens(codec: Codec) -> list[str]:
    """Return control tokens: first those of the format's own prompts, then others."""
    spelled: dict[int, list[str]] = {}
    for token, id_ in codec.vocab.control.items():
        if token:
            spelled.setdefault(id_, []).append(token)
    try:
        written = codec.encode([{"role": "user", "content": "x"}], add_generation_prompt=True).ids
    except MessageError:
        written = codec.vocab.encode("")
    ids = dict.fromkeys([*written.tolist(), *codec.stop_ids, *spelled])
    return [token for id_ in ids for token in spelled.get(id_, ())][:_MOST_TOKENS]


def read_attacks(path: str | os.PathLike[str]) -> list[Attack]:
    """Read a corpus of attacks: a text a line, or a JSON object with `text`, `name` and `place`.

    A line that begins with a quote is a JSON string. `place` is one place or a list, all by
    default. Raises `DataError` with the line, and `OSError` for a file that cannot be read.
    """
    attacks = []
    for number, line in enumerate(Path(path).read_text("utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            attacks.append(_attack(line))
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}", str(path)) from error
    return attacks


def _attack(line: str) -> Attack:
    if not line.lstrip().startswith(("{", '"')):
        return Attack(_name(line), line)
    value = json.loads(line)
    if isinstance(value, str):
        return Attack(_name(value), value)
    text = value.get("text")
    if not isinstance(text, str):
        raise ValueError("has no `text`, expected a string")  # noqa: TRY004
    place = value.get("place", list(PLACES))
    places = place if isinstance(place, list) else [place]
    for each in places:
        if each not in PLACES:
            raise ValueError(f"`place` is {each!r}, expected one of {', '.join(PLACES)}")
    return Attack(str(value.get("name") or _name(text)), text, places=tuple(places))


def _name(text: str) -> str:
    return text if len(text) <= _NAMED else f"{text[:_NAMED]}…"
