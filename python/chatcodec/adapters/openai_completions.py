"""OpenAI's completions of a text: chunks, and the completion that they make.

A completion is text alone: it has no roles, no calls and no reasoning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.adapters._adapter import Adapter, Call, Chunk, Usage
from chatcodec.adapters.openai_chat import usage_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec.events import Reasoning, Text

__all__ = ["ChunkStream", "collect"]


@dataclass(kw_only=True, eq=False, slots=True)
class ChunkStream(Adapter):
    """Events to chunks: `text_completion` objects as dicts.

    `finish_reason` is `length` for a text that was cut short, and `stop` otherwise. Where `finish`
    is given the usage, a chunk without choices tells it.
    """

    model: str
    """The name of the model."""
    created: int = 0
    """Time of the beginning of the response, in seconds since 1970."""
    choice: int = 0
    """The index of the choice."""
    usage_key: bool = False
    """Whether every chunk has `usage`, None before the last."""

    named_events: ClassVar[bool] = False
    ends_with_done: ClassVar[bool] = True

    _offset: int = field(default=0, init=False, repr=False)

    def _head(self) -> Chunk:
        head = {"id": self.id, "object": "text_completion", "created": self.created}
        return {**head, "model": self.model}

    def _piece(self, text: str, reason: str | None, entries: list[Chunk] | None) -> None:
        logprobs = None if entries is None else self._told(entries)
        choice = {"index": self.choice, "text": text, "logprobs": logprobs, "finish_reason": reason}
        usage = {"usage": None} if self.usage_key else {}
        self._chunks.append({**self._head(), "choices": [choice], **usage})

    def _told(self, entries: list[Chunk]) -> Chunk:
        offsets = []
        for entry in entries:
            offsets.append(self._offset)
            self._offset += len(entry["token"])
        tops = [{top["token"]: top["logprob"] for top in each["top_logprobs"]} for each in entries]
        return {
            "tokens": [entry["token"] for entry in entries],
            "token_logprobs": [entry["logprob"] for entry in entries],
            "top_logprobs": tops,
            "text_offset": offsets,
        }

    def _text(self, event: Text) -> None:
        self._piece(event.text, None, self._logprobs_of(event) if self.logprobs else None)

    def _close(self, usage: Usage | None) -> None:
        rest = self._entries_of.rest()
        self._piece("", "length" if self._cut else "stop", rest or None)
        if usage is not None:
            self._chunks.append({**self._head(), "choices": [], "usage": usage_of(usage)})

    def _reasoning(self, event: Reasoning) -> None:
        self._tell_hidden(event)

    def _call_start(self, call: Call) -> None:
        pass

    def _call_delta(self, call: Call, text: str) -> None:
        pass


def collect(chunks: Iterable[Chunk]) -> dict[str, Any]:
    """Fold the chunks of a response into its `text_completion`: all choices, and the usage.

    Raises `ValueError` where there are no chunks.
    """
    completion: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    texts: dict[int, list[str]] = {}
    for chunk in chunks:
        completion = completion or {key: chunk[key] for key in ("id", "object", "created", "model")}
        for choice in chunk["choices"]:
            number = choice["index"]
            made = choices.setdefault(number, {**choice, "logprobs": None})
            texts.setdefault(number, []).append(choice["text"])
            made["finish_reason"] = choice["finish_reason"] or made["finish_reason"]
            for key, values in (choice["logprobs"] or {}).items():
                made["logprobs"] = made["logprobs"] or {}
                made["logprobs"].setdefault(key, []).extend(values)
        if "usage" in chunk:
            completion["usage"] = chunk["usage"]
    if not completion:
        raise ValueError("no chunks: an adapter's `finish` gives the last ones")
    completion["choices"] = [
        {**choices[number], "text": "".join(texts[number])} for number in sorted(choices)
    ]
    return completion
