"""What a codec says of itself: who reads completions, what stops the model, what prompts it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatcodec.errors import MessageError, TemplateError

if TYPE_CHECKING:
    from chatcodec import Codec
    from chatcodec.options import Guarantee, ReadBy

__all__ = ["Found", "StopId", "find"]


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
    reader: ReadBy
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
    is_format = codec.read_by in {"format", "part for answers"}
    return Found(
        described=tuple(codec.describe().splitlines()),
        reader=codec.read_by,
        syntax=codec.format.name if is_format else "",
        guarantee=None if codec.read_by == "response template" else codec.format.guarantee,
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
