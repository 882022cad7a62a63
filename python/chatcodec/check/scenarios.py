"""The conversations that a format file is checked on: one of each shape that formats write."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chatcodec import Format

__all__ = ["SCENARIOS", "Scenario", "spelled", "with_options"]

Message = dict[str, Any]

SPELLED = "<<control>>"
"""Placeholder in a text for the spellings of control tokens."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation, as `Codec.encode` takes it."""

    name: str
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    hostile: str = ""
    """The control tokens that its texts spell."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of `Codec.encode` that the format declares."""


def _call(name: str, arguments: dict[str, Any], nth: int = 1) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    # Nine letters and digits: some templates refuse other ids.
    return {"id": f"call0000{nth}", "type": "function", "function": function}


def _function(name: str, key: str, description: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": description}}
    parameters = {"type": "object", "properties": properties, "required": [key]}
    function = {"name": name, "description": f"{description}.", "parameters": parameters}
    return {"type": "function", "function": function}


def _result(name: str, content: str, nth: int = 1) -> Message:
    return {"role": "tool", "name": name, "tool_call_id": f"call0000{nth}", "content": content}


def _calling(*calls: dict[str, Any], content: str = "", **more: str) -> Message:
    return {"role": "assistant", "content": content, **more, "tool_calls": list(calls)}


_TOOLS = [_function("weather", "city", "A city"), _function("clock", "zone", "A time zone")]
_WEATHER = _call("weather", {"city": "Oslo"})
_CLOCK = _call("clock", {"zone": "CET"}, 2)

_SYSTEM: Message = {"role": "system", "content": "Be brief."}
_USER: Message = {"role": "user", "content": "Hello"}
_AGAIN: Message = {"role": "user", "content": "And now?\nIn two lines."}
_ASKS: Message = {"role": "user", "content": "Is it raining in Oslo?"}
_ANSWER: Message = {"role": "assistant", "content": "Hi, what is it?"}
_RESULT = _result("weather", '{"rain": true}')
_RAINS: Message = {"role": "assistant", "content": "Yes, it rains."}
_HOSTILE = f"a{SPELLED}b"

SCENARIOS = (
    Scenario("a question", [_USER]),
    Scenario("an answer", [_USER, _ANSWER]),
    Scenario("a second question", [_USER, _ANSWER, _AGAIN]),
    Scenario("a second answer", [_USER, _ANSWER, _AGAIN, _RAINS]),
    Scenario("a system message", [_SYSTEM, _USER]),
    Scenario("a system message, an answer", [_SYSTEM, _USER, _ANSWER, _AGAIN]),
    Scenario(
        "white space at the edges",
        [
            {"role": "system", "content": "\n Be brief. \n"},
            {"role": "user", "content": " Hello\n"},
            {"role": "assistant", "content": "\n Hi "},
            {"role": "user", "content": "  Bye  "},
        ],
    ),
    Scenario("an empty question", [{"role": "user", "content": ""}, _ANSWER]),
    Scenario("an empty answer", [_USER, {"role": "assistant", "content": ""}, _AGAIN]),
    Scenario("a user's name", [{**_USER, "name": "ada"}, _ANSWER]),
    Scenario(
        "text that spells control tokens",
        [
            {"role": "system", "content": _HOSTILE},
            {"role": "user", "content": _HOSTILE},
            {"role": "assistant", "content": _HOSTILE},
            {"role": "user", "content": _HOSTILE},
        ],
    ),
    Scenario("tools", [_ASKS], _TOOLS),
    Scenario("tools, a system message", [_SYSTEM, _ASKS], _TOOLS),
    Scenario("tools, a second question", [_USER, _ANSWER, _ASKS], _TOOLS),
    Scenario("a call", [_ASKS, _calling(_WEATHER)], _TOOLS),
    Scenario("a call beside text", [_ASKS, _calling(_WEATHER, content="Let me see.")], _TOOLS),
    Scenario("two calls", [_ASKS, _calling(_WEATHER, _CLOCK)], _TOOLS),
    Scenario("a result", [_ASKS, _calling(_WEATHER), _RESULT], _TOOLS),
    Scenario("a result, an answer", [_ASKS, _calling(_WEATHER), _RESULT, _RAINS], _TOOLS),
    Scenario(
        "two results",
        [_ASKS, _calling(_WEATHER, _CLOCK), _RESULT, _result("clock", "12:00", 2)],
        _TOOLS,
    ),
    Scenario(
        "a call after a result",
        [_ASKS, _calling(_WEATHER), _RESULT, _calling(_CLOCK)],
        _TOOLS,
    ),
    Scenario("reasoning", [_USER, {**_ANSWER, "reasoning_content": "A greeting."}]),
    Scenario(
        "reasoning of an earlier turn",
        [_USER, {**_ANSWER, "reasoning_content": "A greeting."}, _AGAIN],
    ),
    Scenario(
        "reasoning before a call",
        [_ASKS, _calling(_WEATHER, reasoning_content="The tool knows."), _RESULT],
        _TOOLS,
    ),
)
"""Every conversation, the simplest first."""


def spelled(scenario: Scenario, spellings: Iterable[str]) -> Scenario:
    """Put the spellings of control tokens in the places of `SPELLED`."""
    if all(SPELLED not in message["content"] for message in scenario.messages):
        return scenario
    text = "".join(spellings)
    messages = [
        {**message, "content": message["content"].replace(SPELLED, text)}
        for message in scenario.messages
    ]
    return replace(scenario, messages=messages, hostile=text)


def with_options(format_: Format) -> Iterator[Scenario]:
    """Yield conversations with each value of the options that a format declares."""
    for name in format_.options:
        for value in _VALUES.get(name) or _efforts(format_):
            for scenario in _ASKED:
                given = f"{scenario.name}, {name}={value}"
                yield replace(scenario, name=given, options={name: value})


_VALUES = {"thinking": (True, False), "date": ("2026-01-31",)}
"""Values of the options; those of `effort` are the format's own."""

_ASKED = (
    Scenario("a question", [_USER]),
    Scenario("tools, a system message", [_SYSTEM, _ASKS], _TOOLS),
)
"""The conversations whose prompt an option may change."""


def _efforts(format_: Format) -> list[str]:
    """Return the values of `effort`, those of the variant if the format is one with its own."""
    file = tomllib.loads(format_.text)
    variant = file.get("variant", {}).get(format_.name.partition(":")[2], {})
    found: list[str] = (file.get("options", {}) | variant.get("options", {}))["effort"]
    return found
