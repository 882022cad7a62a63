"""Random conversations as people have them: no text spells a marker, whatever else it holds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import data
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

Message = dict[str, Any]

TEXTS = (
    "",
    " ",
    "\n",
    "Hi",
    "Hello there",
    " lead",
    "trail ",
    "\nline",
    "line\n",
    "a\n\nb",
    "\n\n two \n\n",
    "emoji 😀 é",
    'say "quote"',
    "it's",
    "<b>&amp;</b>",
    "tab\tx",
    "x: y, {z}",
    "[1, 2]",
    "日本語",
    "back\\slash",
    "true",
    "None",
    "3",
    "multi\nline\ntext",
)
NAMES = ("get_weather", "add", "search")
KEYS = ("city", "unit", "n", "b", "a")
NUMBERS = (1.5, -0.25, 1e20, 100.0, 1e-7)
TYPES = ("string", "integer", "number", "boolean", "array", "object")
DESCRIPTIONS = ("Weather of a place", 'Add, "now" <b>', "日本")


@dataclass(frozen=True)
class Conversation:
    """Messages, tools, and what else is asked for."""

    messages: list[Message]
    tools: list[dict[str, Any]] | None
    prompt: bool
    thinking: bool | None

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [call for message in self.messages for call in message.get("tool_calls", ())]

    @property
    def reasons(self) -> bool:
        return any("reasoning_content" in message for message in self.messages)


def check(law: Callable[[random.Random], bool], *, examples: int, least: int) -> None:
    """Check a law, ten times as often in a long run.

    `law` says whether an example counts. A law that refuses nearly all of them would always hold,
    so `least` of them have to count.
    """
    counted = 0

    @settings(max_examples=examples * (10 if data.LONG else 1))
    # Drawn value by value, conversations are of the simplest kinds, which some templates refuse.
    @given(seed=st.integers(0, 2**32))
    def one(seed: int) -> None:
        nonlocal counted
        counted += law(random.Random(seed))

    one()
    assert counted >= least


def conversation(draw: random.Random) -> Conversation:
    """A conversation of one to three questions."""
    messages: list[Message] = []
    if draw.random() < 0.4:
        messages.append({"role": "system", "content": _text(draw)})
    tools = None
    if draw.random() < 0.4:
        tools = [_tool(draw, name) for name in draw.sample(NAMES, draw.choice([1, 1, 2]))]
    reasons, calls = draw.random() < 0.4, draw.random() < (0.8 if tools else 0.1)
    for _ in range(draw.choice([1, 1, 2, 3])):
        messages.append({"role": "user", "content": _text(draw)})
        if calls and draw.random() < 0.7:
            for _ in range(draw.choice([1, 1, 2])):
                messages += _called(draw, len(messages), reasons=reasons)
        messages.append(_answer(draw, reasons=reasons))
    prompt = draw.random() < 0.5
    while prompt and messages[-1]["role"] == "assistant":
        messages.pop()
    thinking = draw.random() < 0.5 if draw.random() < 0.3 else None
    return Conversation(messages, tools, prompt, thinking)


def _text(draw: random.Random) -> str:
    return draw.choice(TEXTS)


def _answer(draw: random.Random, *, reasons: bool) -> Message:
    message = {"role": "assistant", "content": _text(draw)}
    if reasons and draw.random() < 0.7:
        message["reasoning_content"] = _text(draw)
    return message


def _called(draw: random.Random, first: int, *, reasons: bool) -> list[Message]:
    """A message with calls, and their results."""
    message = _answer(draw, reasons=reasons)
    if draw.random() < 0.6:
        message["content"] = ""
    calls = [_call(draw, first + at) for at in range(draw.choice([1, 1, 2, 3]))]
    results = [
        {
            "role": "tool",
            "content": _text(draw),
            "tool_call_id": call["id"],
            "name": call["function"]["name"],
        }
        for call in calls
    ]
    return [{**message, "tool_calls": calls}, *results]


def _call(draw: random.Random, at: int) -> dict[str, Any]:
    keys = draw.sample(KEYS, draw.randrange(4))
    function = {"name": draw.choice(NAMES), "arguments": {key: _value(draw) for key in keys}}
    return {"type": "function", "id": f"call{at:05}", "function": function}


def _value(draw: random.Random, depth: int = 0) -> Any:  # noqa: ANN401
    kind = draw.randrange(9 if depth < 2 else 7)
    if kind < 4:
        return draw.choice([draw.choice([True, False]), None, draw.randrange(-5, 100), *NUMBERS])
    if kind < 7:
        return _text(draw)
    if kind == 7:
        return [_value(draw, depth + 1) for _ in range(draw.randrange(3))]
    keys = draw.sample(("k", "b key", "a", "z"), draw.randrange(3))
    return {key: _value(draw, depth + 1) for key in keys}


def _tool(draw: random.Random, name: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key in draw.sample(("city", "unit", "n", "deep", "flag"), draw.randrange(4)):
        kind = draw.choice(TYPES)
        schema: dict[str, Any] = {"type": kind}
        if kind == "array" and draw.random() < 0.7:
            schema["items"] = {"type": "string"}
        if kind == "object" and draw.random() < 0.7:
            schema["properties"] = {"x": {"type": "number"}}
        if draw.random() < 0.6:
            schema["description"] = draw.choice(("The city", 'it\'s "so"', "é <b>"))
        if kind == "string" and draw.random() < 0.3:
            schema["enum"] = ["c", "f"]
        if draw.random() < 0.15:
            schema["default"] = 3
        properties[key] = schema
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if properties and draw.random() < 0.7:
        parameters["required"] = draw.sample(list(properties), draw.randrange(len(properties)) + 1)
    function = {"name": name, "description": draw.choice(DESCRIPTIONS), "parameters": parameters}
    return {"type": "function", "function": function}
