"""Calls of a client's history whose arguments are no JSON, as a limit leaves them.

A call that is cut is told to the client as it was generated, so its arguments come back as half a
JSON text, or as none; Anthropic's clients send them back in the object of `INVALID`. Each of them
is readable: as text where a format writes any JSON, inside an object where it writes one's members.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chatcodec.adapters._plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["INVALID", "broken", "unwrap", "with_objects"]

INVALID = "INVALID_JSON"
"""The key of an object around arguments that are no JSON, as Anthropic documents it."""

BLANK = " \t\r\n"
"""What JSON takes for white space."""

Held = tuple[str, dict[str, Any], str]
"""The path of a call's arguments, the dict that has them, and their key."""


def broken(messages: Sequence[Any], places: Sequence[str]) -> tuple[str, ...]:
    """Return the client's paths of arguments that are texts without being JSON."""
    return tuple(
        path
        for path, holder, key in _arguments(messages, places)
        if isinstance(text := holder[key], str) and not _is_json(text)
    )


def unwrap(messages: Sequence[Any]) -> None:
    """Take the texts out of the objects around them, so that every API's history is the same."""
    for _, holder, key in _arguments(messages, ()):
        match holder[key]:
            case {"INVALID_JSON": str(text), **rest} if not rest and not _is_json(text):
                holder[key] = text


def with_objects(messages: Sequence[Any]) -> list[Any]:
    """Return messages with an object in the place of each text that is none."""
    copied: list[Any] = plain(messages)
    for _, holder, key in _arguments(copied, ()):
        if isinstance(text := holder[key], str) and not _is_object(text):
            holder[key] = {INVALID: text}
    return copied


def _arguments(messages: Sequence[Any], places: Sequence[str]) -> Iterator[Held]:
    """Yield the arguments of all calls, in each API's shape of a message."""
    for at, message in enumerate(messages):
        if isinstance(message, dict):
            place = places[at] if at < len(places) else ""
            for path, holder, key in _of_message(message):
                if key in holder:
                    yield f"{place}{path}.{key}", holder, key


def _of_message(message: dict[str, Any]) -> Iterator[Held]:
    if message.get("type") == "function_call":
        yield "", message, "arguments"
    if isinstance(function := message.get("function_call"), dict):
        yield ".function_call", function, "arguments"
    for at, call in enumerate(_list(message.get("tool_calls"))):
        if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
            yield f".tool_calls[{at}].function", function, "arguments"
    for at, part in enumerate(_list(message.get("content"))):
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield f".content[{at}]", part, "input"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _is_object(text: str) -> bool:
    # An empty text is an object without members for `encode`.
    inner = text.strip(BLANK)
    return not inner or (_is_json(text) and inner.startswith("{"))


def _refuse(word: str) -> None:
    raise ValueError(word)
