"""What plug-ins share: a model's codec, values of requests, and completions read by ids."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chatcodec._core import Codec, Format
from chatcodec.adapters import openai_chat
from chatcodec.adapters.stops import StopStrings

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NAME", "Reading", "calls_of", "codec_of", "has_media", "plain"]

NAME = "chatcodec"
"""The name of everything that a plug-in registers."""

_TEXTS = {None, "text", "input_text", "output_text", "refusal", "thinking"}


@functools.lru_cache(maxsize=8)
def codec_of(model: str, revision: str | None = None) -> Codec:
    """Load the codec of a model, by its folder or by the setting `CHATCODEC_FORMAT`.

    The setting names a built-in format or a format file. Raises what `Codec.from_pretrained` and
    `Format.load` raise.
    """
    named = os.environ.get("CHATCODEC_FORMAT")
    form: str | Format | None = named
    if named is not None and Path(named).is_file():
        form = Format.load(named)
    return Codec.from_pretrained(model, format=form, revision=revision)


def plain(value: Any) -> Any:  # noqa: ANN401
    """Give a value of a request as JSON has it, without the keys that are null."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)) or hasattr(value, "__next__"):
        return [plain(item) for item in value]
    return value


def has_media(messages: Sequence[Any]) -> bool:
    """Whether a message has a part that is no text."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in _TEXTS:
                return True
    return False


class Reading:
    """One completion, from ids to deltas of a message."""

    def __init__(  # noqa: PLR0913
        self,
        codec: Codec,
        prompt: Sequence[int] | None,
        *,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = None,  # noqa: ANN401
        parallel: bool = True,
        reasoning: Literal["apart", "content", "hidden"] = "apart",
        stop: str | Sequence[str] | None = None,
    ) -> None:
        """Begin after a prompt; without one, after the format's usual generation prompt.

        `tools`, `tool_choice` and `parallel` are the request's. `reasoning` has a key of its own,
        is part of the content, or is hidden. `stop` are strings that end the text and are not
        shown.
        """
        declared = [plain(tool) for tool in tools or ()]
        choice = plain(tool_choice)
        given: dict[str, Any] = {}
        if declared and choice not in (None, "auto"):
            given["tool_choice"] = choice
        self._stream = codec.stream(
            None if prompt is None else list(prompt), tools=declared or None
        )
        self._stops = StopStrings(stop or ())
        self._merges = reasoning == "content"
        self._adapter = openai_chat.ChunkStream(
            id="chatcmpl-" + os.urandom(8).hex(),
            model=NAME,
            reasoning_key=None if reasoning == "hidden" else "reasoning",
            parallel_tool_calls=parallel,
            **given,
        )
        self._is_over = False
        self.count = 0
        """Ids that were pushed."""

    def push(self, ids: Sequence[int], *, end: str | None = None) -> dict[str, Any]:
        """Read ids; give the delta of a message: `content`, `reasoning` and `tool_calls`.

        `end` is why these ids are the last: `stop`, `length` or `cancelled`.
        """
        self.count += len(ids)
        chunks = list(self._adapter.push(self._stops.push(self._stream.push(list(ids)))))
        if end is not None and not self._is_over:
            self._is_over = True
            reason: Any = end if end in {"stop", "length"} else "cancelled"
            events = self._stops.push(self._stream.finish(reason)) + self._stops.finish()
            chunks += self._adapter.push(events) + self._adapter.finish()
        delta: dict[str, Any] = {"tool_calls": []}
        for chunk in chunks:
            for choice in chunk["choices"]:
                for key, value in choice["delta"].items():
                    if key == "tool_calls":
                        delta["tool_calls"] += value
                    elif key != "role" and value:
                        name = "content" if self._merges else key
                        delta[name] = delta.get(name, "") + value
        return delta


def calls_of(delta: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the whole calls of a delta, in order: `id`, `name` and `arguments` of each."""
    calls: dict[int, dict[str, Any]] = {}
    for part in delta["tool_calls"]:
        call = calls.setdefault(part["index"], {"id": None, "name": "", "arguments": ""})
        call["id"] = part.get("id") or call["id"]
        call["name"] += part["function"].get("name") or ""
        call["arguments"] += part["function"].get("arguments") or ""
    return [calls[index] for index in sorted(calls)]
