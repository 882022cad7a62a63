"""Conversations in which every answered turn stays as it was written when it was last.

Many formats and templates write an answered turn otherwise once the conversation goes on. With
`history="append"`, `Codec.encode` writes each turn once: as its prompt and its answer were, and
what follows after them, by `Codec.extend`. Cost: the square of the number of answered turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError
from chatcodec.options import IGNORE_INDEX, PROMPT_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatcodec import Codec, Encoding

__all__ = ["appended"]

_ENDS = ("add_generation_prompt", "continue_final", "stop_final", "thinking")
"""Options of the end of a conversation, which its earlier turns had otherwise."""


def appended(
    codec: Codec, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> Encoding:
    """Encode messages, and every answer that is followed by another message as if it was last.

    Raises what `Codec.encode` and `Codec.extend` raise, with the paths of `messages`.
    """
    given = list(messages)
    if not all(isinstance(each, Mapping) for each in given):
        return codec.encode(given, **options)  # which raises
    return _Appended(codec, given, dict(options)).encoding()


class _Appended:
    """One conversation."""

    def __init__(
        self, codec: Codec, messages: list[Mapping[str, Any]], options: dict[str, Any]
    ) -> None:
        self.codec, self.messages, self.options = codec, messages, options
        self.earlier = {key: each for key, each in options.items() if key not in _ENDS}

    def encoding(self) -> Encoding:
        last = len(self.messages) - 1
        answers = [at for at, each in enumerate(self.messages) if _is_answer(each) and at < last]
        if not answers:
            return self.codec.encode(self.messages, **self.options)
        encoding: Encoding | None = None
        for at, end in zip(answers, [*answers[1:], last + 1], strict=True):
            header, completion = self.said(at)
            if encoding is None:
                encoding = self.prompt(header, at)
            encoding = self.extended(encoding, completion, at, end)
        return encoding or self.codec.encode(self.messages, **self.options)

    def prompt(self, header: list[int], at: int) -> Encoding:
        """Encode the prompt of the first answer."""

        def write(**options: Any) -> Encoding:  # noqa: ANN401
            return self.codec.encode(self.messages[:at], **self.earlier | options)

        return _asked(write, header)

    def extended(self, prompt: Encoding, completion: list[int], at: int, end: int) -> Encoding:
        """Write the messages after an answer, up to the next one or to the end."""
        new = self.messages[at + 1 : end]
        options = {key: each for key, each in self.options.items() if key not in PROMPT_OPTIONS}
        if end == len(self.messages):
            return self.extend(prompt, completion, new, self.default | options, at)
        options = {key: each for key, each in options.items() if key not in _ENDS}

        def write(**more: Any) -> Encoding:  # noqa: ANN401
            return self.extend(prompt, completion, new, options | more, at)

        return _asked(write, self.said(end)[0])

    @property
    def default(self) -> dict[str, Any]:
        """The option that asks for what a prompt asks for by default.

        A template keeps the variables of earlier prompts, which may have asked otherwise.
        """
        if self.codec.template is None:
            return {}
        first = self.messages[: next(n for n, each in enumerate(self.messages) if _is_answer(each))]
        options = self.earlier | {"add_generation_prompt": True}
        asked = self.codec.encode(first, **options).ids
        for thinking in (True, False):
            try:
                made = self.codec.encode(first, **options, thinking=thinking).ids
            except (MessageError, TypeError):
                return {}
            if made == asked:
                return {"thinking": thinking}
        return {}

    def said(self, at: int) -> tuple[list[int], list[int]]:
        """Give an answer as it is written when it is last: its header, and what is generated."""
        options = self.earlier | {"add_generation_prompt": False, "boundary": "isolated"}
        return _parts(self.codec.encode(self.messages[: at + 1], **options), at)

    def extend(
        self,
        prompt: Encoding,
        completion: list[int],
        new: list[Mapping[str, Any]],
        options: dict[str, Any],
        at: int,
    ) -> Encoding:
        try:
            return self.codec.extend(prompt, completion, new, **options)
        except MessageError as error:
            raise _moved(error, at) from error


def _asked(write: Callable[..., Encoding], header: list[int]) -> Encoding:
    """Write a prompt that ends with the header of an answer, with reasoning or without it.

    Where none does, the prompt is the default one, and a note of the extension says so.
    """
    default = write(add_generation_prompt=True)
    if _ends_with(default, header):
        return default
    for thinking in (True, False):
        try:
            made = write(add_generation_prompt=True, thinking=thinking)
        except (MessageError, TypeError):
            continue
        if _ends_with(made, header):
            return made
    return default


def _is_answer(message: Mapping[str, Any]) -> bool:
    return message.get("role") in {"assistant", "model", "gpt", "bot"}


def _parts(said: Encoding, at: int) -> tuple[list[int], list[int]]:
    """Give the header of the last answer, and the ids that a model generates."""
    ids, labels = said.ids.tolist(), said.labels(last_only=True)
    start = next((n for n, id_ in enumerate(labels) if id_ != IGNORE_INDEX), len(ids))
    end = next((n for n in range(len(ids), start, -1) if labels[n - 1] != IGNORE_INDEX), start)
    own = said.message_indices
    begin = start
    while begin > 0 and own[begin - 1] == at:
        begin -= 1
    sources = said.sources
    if any(sources[n] for n in range(start) if own[n] == at):
        problem = "begins before what a model is known to generate, expected that alone"
        raise MessageError(f"`messages[{at}]` {problem}", f"messages[{at}]")
    return ids[begin:start], ids[start:end]


def _ends_with(prompt: Encoding, header: list[int]) -> bool:
    return prompt.ids.tolist()[len(prompt) - len(header) :] == header


def _moved(error: MessageError, at: int) -> MessageError:
    """Give an error with the path in the whole conversation."""
    path = error.path
    if path.startswith("new_messages["):
        number, _, rest = path.removeprefix("new_messages[").partition("]")
        told = f"messages[{at + 1 + int(number)}]{rest}"
    elif path.startswith("completion"):
        told = f"messages[{at}]"
    else:
        return error
    return MessageError(str(error).replace(path, told, 1), told)
