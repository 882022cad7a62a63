"""`/v1/completions`: a text or ids go on, without messages and without a format.

A prompt that is text has no control id, whatever it spells; one that is ids is given to the engine
as it is. The answer is the text of the ids that come back.
"""

from __future__ import annotations

import codecs
from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from chatcodec.adapters._request import Body
from chatcodec.errors import VocabError
from chatcodec.events import Event, Text, TurnEnd
from chatcodec.serve.asked import Asked, read_asked
from chatcodec.serve.backends.written import Written
from chatcodec.serve.errors import ApiError
from chatcodec.serve.grammars import read_wish
from chatcodec.serve.prompts import Prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec
    from chatcodec.adapters import Request
    from chatcodec.serve.backends.base import Job
    from chatcodec.serve.sorting import Sorted

__all__ = ["TextRead", "TextStream", "jobs_of", "read_completion"]

_LIMIT = 16
"""Ids of an answer where the request says nothing, as the API has it."""


@dataclass(frozen=True)
class TextRead:
    """A request for completions that was read."""

    request: Request
    asked: Asked
    prompt: Prompt


def read_completion(
    body: dict[str, Any], codec: Codec, sorted_: Sorted, most: int, *, canonical: bool = False
) -> TextRead:
    """Read a body whose fields were checked. `most` is the greatest number of choices.

    With `canonical`, ids are those to which text is encoded, and control tokens between. Raises
    `ApiError` and `MessageError`.
    """
    given = body.pop("prompt", None)
    prompts = _prompts(given, codec)
    if canonical:
        _check_canonical(given, prompts, codec)
    with_control = body.pop("skip_special_tokens", True) is False
    top = body.pop("logprobs", None)
    read = Body(body, codec, "error", constrained=False)
    read.adapter = {"model": read.adapter["model"]}
    if top is not None:
        read.adapter["logprobs"] = True
        read.fields["top_logprobs"] = top
    limit = read.read_limit("max_tokens")
    request = read.request([], [], read.read_stop("stop"), _LIMIT if limit is None else limit)
    wish = read_wish(request.rest)
    if wish is not None and wish.raw is None:
        _refuse(wish.path, "is not done for a text; ask for a chat completion")
    asked = read_asked(request, request.rest, sorted_, most, wish)
    choices = asked.choices * len(prompts)
    if choices > most:
        _refuse("prompt", f"asks for {choices} answers, expected at most {most}")
    ids = array("i", (id_ for prompt in prompts for id_ in prompt))
    lengths = tuple(map(len, prompts))
    asked = replace(asked, choices=choices, prompts=lengths, with_control=with_control)
    return TextRead(request, asked, Prompt(ids, Written.of(ids.tolist())))


def _prompts(given: object, codec: Codec) -> list[Sequence[int]]:
    """Read a prompt, or a list of prompts: each is a text or a list of ids."""
    if isinstance(given, str) or _is_ids(given):
        return [_prompt("prompt", given, codec)]
    if not isinstance(given, list) or not given:
        _refuse("prompt", f"is {given!r:.80}, expected a text, ids, or a list of them")
    return [_prompt(f"prompt[{at}]", each, codec) for at, each in enumerate(given)]


def _check_canonical(given: Any, prompts: list[Sequence[int]], codec: Codec) -> None:  # noqa: ANN401
    """Refuse ids to which no text is encoded."""
    is_one = isinstance(given, str) or _is_ids(given)
    for nth, (own, ids) in enumerate(zip([given] if is_one else given, prompts, strict=True)):
        at = None if isinstance(own, str) else codec.vocab.first_uncanonical(ids)
        if at is not None:
            place = "prompt" if is_one else f"prompt[{nth}]"
            problem = "is another id than that to which the text there is encoded"
            _refuse(f"{place}[{at}]", f"({ids[at]}) {problem}; this server takes no such ids")


def _is_ids(given: object) -> bool:
    return isinstance(given, list) and bool(given) and type(given[0]) is int


def _prompt(path: str, given: Any, codec: Codec) -> Sequence[int]:  # noqa: ANN401
    if isinstance(given, str):
        try:
            ids: Sequence[int] = list(codec.vocab.encode(given))
        except (VocabError, UnicodeError, ValueError) as error:
            raise ApiError(400, f"`{path}` cannot be encoded: {error}", path) from error
    elif _is_ids(given):
        ids = given
        size = codec.vocab.size
        for at, id_ in enumerate(ids):
            if type(id_) is not int or not 0 <= id_ < size:
                _refuse(f"{path}[{at}]", f"is {id_!r:.40}, expected an id below {size}")
    else:
        _refuse(path, f"is {given!r:.80}, expected a text or a list of ids")
    if not ids:
        _refuse(path, "is empty, expected a text")
    return ids


def jobs_of(job: Job, prompt: Prompt, lengths: Sequence[int]) -> list[Job]:
    """Give the job of each of several prompts, by the numbers of their ids."""
    if len(lengths) < 2:  # noqa: PLR2004
        return [job]
    parts = prompt.parts(lengths)
    return [replace(job, prompt=Written.of(ids), prompt_ids=len(ids)) for ids in parts]


def _refuse(path: str, problem: str) -> NoReturn:
    raise ApiError(400, f"`{path}` {problem}", path)


class TextStream:
    """Generated ids as events of text, as `Stream` has them, but without a format."""

    def __init__(self, codec: Codec, *, with_control: bool) -> None:
        """Take the vocabulary; `with_control` tells control tokens by their spelling."""
        self.codec, self.with_control = codec, with_control
        self._stops = frozenset(codec.stop_ids)
        self._control = frozenset(codec.vocab.control.values()) | self._stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._count = self._from = 0
        self._over = False

    def copy(self) -> TextStream:
        """Begin another answer. Nothing was pushed before."""
        return TextStream(self.codec, with_control=self.with_control)

    def push(self, ids: Sequence[int]) -> list[Event]:
        """Read ids; those after the end are not read."""
        events: list[Event] = []
        for id_ in ids:
            self._count += 1
            if self._over:
                continue
            if id_ in self._stops:
                events += self.finish("stop")
                continue
            text = self._decoder.decode(self._bytes(id_))
            if text:
                events.append(Text(text, (self._from, self._count)))
                self._from = self._count
        return events

    def finish(self, reason: str = "stop") -> list[Event]:
        """End the text: what is left of a character is told, then the reason."""
        if self._over:
            return []
        self._over = True
        left = self._decoder.decode(b"", final=True)
        events: list[Event] = [Text(left, (self._from, self._count))] if left else []
        place = (self._count, self._count)
        return [*events, TurnEnd("length" if reason == "length" else "stop", tokens=place)]

    def _bytes(self, id_: int) -> bytes:
        if id_ in self._control and not self.with_control:
            return b""
        try:
            return self.codec.vocab.token_bytes(id_)
        except (VocabError, OverflowError):
            return b""
