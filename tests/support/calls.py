"""Calls by a format's shape: conversations with calls, and what is read of a completion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatcodec import Codec
    from chatcodec.events import Event
    from naive import Message


def answer(*arguments: object, name: str = "f") -> list[Message]:
    """A question, and an answer with a call of `name` for each of the arguments."""
    function = [{"name": name, "arguments": json.dumps(a, ensure_ascii=False)} for a in arguments]
    calls: list[Any] = [{"type": "function", "function": call} for call in function]
    return [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "", "tool_calls": calls},
    ]


def read_arguments(message: Message) -> list[Any]:
    """The arguments of a message's calls."""
    return [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]]


def completion(codec: Codec, arguments: object) -> tuple[list[int], list[int]]:
    """The ids of a prompt, and those of the answer that calls, up to the end of its turn."""
    prompt = codec.encode(answer(arguments)[:1], add_generation_prompt=True).ids.tolist()
    ids = codec.encode(answer(arguments), stop_final=True).ids.tolist()[len(prompt) :]
    return prompt, ids[: ids.index(codec.vocab.control["<|im_end|>"]) + 1]


def read(
    codec: Codec, *parts: str, tools: list[dict[str, Any]] | None = None
) -> tuple[list[Event], Message]:
    """The events and the message of parts, each a text or a control token."""
    control = codec.vocab.control
    ids: list[int] = []
    for part in parts:
        ids += [control[part]] if part in control else codec.vocab.encode(part)
    prompt = codec.encode(answer({})[:1], add_generation_prompt=True)
    stream = codec.stream(prompt=prompt.ids, keep=True, tools=tools)
    events = [*stream.push(ids), *stream.finish("stop")]
    assert stream.message() == codec.parse(ids, prompt=prompt.ids, tools=tools).message
    return events, stream.message()
