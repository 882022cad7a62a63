"""What a codec says of itself: who reads completions, what stops the model, what prompts it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from chatcodec.errors import MessageError, TemplateError

if TYPE_CHECKING:
    from chatcodec import Codec
    from chatcodec.options import Guarantee

__all__ = ["Found", "Reader", "StopId", "find"]

Reader: TypeAlias = Literal[
    "format", "part for answers", "derived format", "response template", "text"
]
"""What reads completions: a format, built-in or the caller's; the part of a built-in format that
reads answers; a format derived from the chat template; the model's response template; text up to
the id that stops the model."""


@dataclass(frozen=True, slots=True)
class StopId:
    """An id that stops the model."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a codec says of itself."""

    described: tuple[str, ...]
    """The lines of `Codec.describe`."""
    reader: Reader
    syntax: str
    """The name of the format that reads completions; empty where no named one does."""
    guarantee: Guarantee | None
    """`"ids"` where turns are told apart by ids, `"text"` where by text; None where no format
    reads."""
    unread: tuple[str, ...]
    """What the template writes and nobody reads."""
    stops: tuple[StopId, ...]
    generation_prompt: str
    """The text that opens an answer, with control tokens spelled out."""


def find(codec: Codec) -> Found:
    """Gather what a codec says of itself."""
    reader = _reader(codec)
    is_format = reader in {"format", "part for answers"}
    return Found(
        described=tuple(codec.describe().splitlines()),
        reader=reader,
        syntax=codec.format.name if is_format else "",
        guarantee=None if reader == "response template" else codec.format.guarantee,
        unread=tuple(codec.unread),
        stops=tuple(StopId(one, codec.vocab.decode([one])) for one in codec.stop_ids),
        generation_prompt=_prompt(codec),
    )


def _prompt(codec: Codec) -> str:
    """What is written after a question to open an answer; or else what the reader begins after."""
    question = [{"role": "user", "content": "Hi"}]
    with contextlib.suppress(MessageError, TemplateError):
        prompt, whole = (codec.encode(question, add_generation_prompt=is_prompt).text
                         for is_prompt in (True, False))  # fmt: skip
        if prompt.startswith(whole):
            return prompt.removeprefix(whole)
    return codec.vocab.decode(codec.generation_prompt_ids)


def _reader(codec: Codec) -> Reader:
    if codec.response_template is not None:
        return "response template"
    if codec.template is None:
        return "format"
    told = codec.describe().splitlines()[1]
    if told.startswith("completions are read as text"):
        return "text"
    if told.startswith("completions are read as format"):
        return "part for answers"
    return "derived format" if "that was derived from the template" in told else "format"
