"""Whether a codec reads back what the model's chat template writes, tried on random conversations.

Each conversation is written by the template, and its last answer is read after its prompt, at once
and in chunks; whole conversations and results of calls are decoded. `chatcodec derive` shows it.

>>> from chatcodec import Codec, prove
>>> proof = prove(Codec("internlm2", vocab="embedded"), count=90)
>>> proof.is_fine, str(proof.parts[2])
(True, 'a call: read 10 of 10')
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from chatcodec.errors import MessageError, TemplateError
from chatcodec.proof.conversations import PARTS, TOOLS, Conversation, Part, shorter
from chatcodec.proof.reading import Misread, Written, misread, write

if TYPE_CHECKING:
    from chatcodec import Codec

__all__ = ["Misread", "Part", "PartProof", "Proof", "prove", "prove_reader"]

_FIRST = 8
"""The number of conversations after which a part is given up that was written in none of them."""
_REFUSALS = 16
"""Most refusals of a part; a part that is never written has `_FIRST_REFUSALS`. A template that runs
into its bounds takes its time for each."""
_FIRST_REFUSALS = 3
_SHORTENED = 40
"""Most conversations that are tried to find a shorter one that fails."""
_SECONDS = 30.0
"""The longest time that all conversations may take."""


@dataclass(frozen=True, slots=True)
class PartProof:
    """What was tried of one part."""

    part: Part
    tried: int
    """The number of random conversations."""
    written: int
    """Those in which the template writes the part."""
    read: int
    """Those of them that were read back."""
    example: str
    """The text of one of them, with control tokens spelled out: of the answer, or of all where a
    whole conversation is read. Empty where the template does not write the part."""
    misread: Misread | None = None
    """The shortest conversation that was found to be read as another one."""
    refusal: str = ""
    """Why the codec does not write the part, where it says so."""

    @property
    def is_fine(self) -> bool:
        """Whether all that was written was read back."""
        return self.read == self.written

    def __str__(self) -> str:
        """Return the part and its numbers."""
        if not self.written:
            return f"{self.part}: not written by the template"
        return f"{self.part}: read {self.read} of {self.written}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What was tried of all parts."""

    count: int
    """The number of conversations that were asked for."""
    seed: int
    """What the conversations were made from."""
    parts: tuple[PartProof, ...]

    @property
    def is_fine(self) -> bool:
        """Whether all that the template writes was read back."""
        return all(part.is_fine for part in self.parts)

    def to_json(self) -> str:
        """Return all of it as a JSON object in one line."""
        return json.dumps(asdict(self) | {"is_fine": self.is_fine}, ensure_ascii=False)


def prove(codec: Codec, *, count: int = 1000, seed: int = 0) -> Proof:
    """Try whether a codec reads back what it writes, on `count` random conversations.

    Each has one part: an answer of text, a call, reasoning, nested arguments and so on. It counts
    if the written text has its texts, names and numbers; texts that the template trims, and values
    that it writes as texts, are read back if their text is. The same `seed` makes the same
    conversations.

    >>> from chatcodec import Codec, prove
    >>> proof = prove(Codec("chatml", vocab="embedded"), count=18)
    >>> for part in proof.parts[:3]:
    ...     print(part)
    an answer of text: read 2 of 2
    whole conversations of texts: read 2 of 2
    a call: not written by the template

    Raises `ValueError` for a `count` below the number of parts; `MessageError` or `TemplateError`
    for a template that writes none of the conversations, or takes more than half a minute.
    """
    proof = prove_reader(codec, codec, PARTS, count=count, seed=seed)
    if any(part.written for part in proof.parts):
        return proof
    why = next((part.refusal for part in proof.parts if part.refusal), "its texts are left out")
    raise TemplateError(f"template: writes none of the conversations: {why}; expected their texts")


def prove_reader(
    writer: Codec, reader: Codec, parts: tuple[Part, ...], *, count: int, seed: int
) -> Proof:
    """Try whether `reader` reads some parts of what `writer` writes. See `prove`."""
    if count < len(parts):
        raise ValueError(f"count: is {count}, expected {len(parts)} at least, one for each part")
    tries = _Tries(writer, reader, time.monotonic() + _SECONDS)
    shares = ((count + nth) // len(parts) for nth in reversed(range(len(parts))))
    found = [
        tries.part(part, share, random.Random(f"{seed} {part}"))  # noqa: S311
        for part, share in zip(parts, shares, strict=True)
    ]
    return Proof(count, seed, tuple(found))


class _Tried(NamedTuple):
    """A conversation that was written, and what it is read as if that is another one."""

    conversation: Conversation
    written: Written
    misread: Misread | None


class _Tries:
    """The two codecs, and until when they may work."""

    def __init__(self, writer: Codec, reader: Codec, end: float) -> None:
        self.writer = writer
        self.reader = reader
        self.end = end
        self.needs_tools = _needs_tools(writer)
        self.names_by_id = _names_by_id(writer)

    def conversation(self, part: Part, seed: random.Random) -> Conversation:
        """Make a random conversation, with tools for a template that needs them."""
        made = Conversation.random(part, seed)
        made = made.with_named_ids() if self.names_by_id else made
        return replace(made, tools=TOOLS) if self.needs_tools else made

    def part(self, part: Part, count: int, seed: random.Random) -> PartProof:
        """Try a part."""
        found: list[_Tried] = []
        refusals: list[str] = []
        tried = 0
        while tried < count:
            if len(refusals) >= (_REFUSALS if found else _FIRST_REFUSALS):
                break
            if not found and tried >= _FIRST:
                break
            tried += 1
            if time.monotonic() > self.end:
                raise TemplateError(
                    f"template: conversations take more than {_SECONDS:.0f} s to write and read; "
                    "expected fewer, a lower `count`"
                )
            try:
                one = self.one(self.conversation(part, seed), seed)
            except (MessageError, TemplateError) as error:
                refusals.append(str(error))
            else:
                found += [] if one is None else [one]
        failed = [one for one in found if one.misread is not None]
        return PartProof(
            part,
            tried=tried,
            written=len(found),
            read=len(found) - len(failed),
            example=min(found, key=_length).written.shown if found else "",
            misread=self.shortest(failed, seed).misread if failed else None,
            refusal=refusals[0] if refusals else "",
        )

    def one(self, conversation: Conversation, seed: random.Random) -> _Tried | None:
        """Write a conversation and read it back; None where the part is not written."""
        written = write(self.writer, conversation)
        if written is None:
            return None
        return _Tried(conversation, written, misread(self.reader, conversation, written, seed))

    def shortest(self, failed: list[_Tried], seed: random.Random) -> _Tried:
        """Leave out what a failure does not need."""
        best = min(failed, key=_length)
        candidates = shorter(best.conversation)
        for _ in range(_SHORTENED):
            candidate = next(candidates, None)
            if candidate is None or time.monotonic() > self.end:
                break
            with contextlib.suppress(MessageError, TemplateError):
                one = self.one(candidate, seed)
                if one is not None and one.misread is not None and _length(one) < _length(best):
                    best, candidates = one, shorter(candidate)
        return best


def _needs_tools(writer: Codec) -> bool:
    """Whether a template fails on a question without tools, and writes one with tools."""
    question = [{"role": "user", "content": "Hi"}]
    with contextlib.suppress(MessageError, TemplateError):
        try:
            writer.encode(question)
        except TemplateError:
            writer.encode(question, tools=TOOLS)
            return True
    return False


def _names_by_id(writer: Codec) -> bool:
    """Whether a template writes the name of a function in the id of its call alone."""
    made = Conversation.random("a call", random.Random(0))  # noqa: S311
    named = made.with_named_ids()
    with contextlib.suppress(MessageError, TemplateError):
        return write(writer, made) is None and write(writer, named) is not None
    return False


def _length(tried: _Tried) -> int:
    return len(json.dumps(tried.conversation.messages, ensure_ascii=False))
