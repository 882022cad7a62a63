"""Whether the ids of a conversation are read back as its messages: decoded, and streamed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from chatcodec._core import ActionDelta, Codec, Reasoning, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chatcodec import Encoding
    from chatcodec.check.scenarios import Scenario
    from chatcodec.events import Event

__all__ = ["events_of", "first_change", "misread"]

_NUMBER = re.compile(r"call_\d+")
"""The id that a reader gives a call of a format without ids."""

_SHOWN = 60
"""Most characters of a value that are shown."""


def misread(codec: Codec, scenario: Scenario, encoding: Encoding) -> str:
    """Say what is read from the ids in place of the messages; empty where all is right."""
    if encoding.collisions:
        # The format's markers are text, and the caller's text spells one: nothing is promised.
        return ""
    expected = codec.canonical(scenario.messages, tools=scenario.tools, **scenario.options)
    found = codec.decode(encoding, tools=scenario.tools)
    if found != expected:
        return f"decoded: {first_change(found, expected, 'messages')}"
    if scenario.messages[-1]["role"] != "assistant":
        return ""
    return _misstreamed(codec, scenario, expected[-1])


def _misstreamed(codec: Codec, scenario: Scenario, expected: dict[str, Any]) -> str:
    """Say what a stream of the last answer gets wrong, in one piece or id by id."""
    prompt, ids = _completion(codec, scenario)
    if not ids:
        return ""
    whole = events_of(codec, prompt, [ids], tools=scenario.tools)
    single = events_of(codec, prompt, [[id_] for id_ in ids], tools=scenario.tools)
    if single != whole:
        return "streamed id by id, the ids give other events than in one piece"
    found = codec.parse(ids, prompt, tools=scenario.tools).message
    found, expected = _without_numbers(found), _without_numbers(expected)
    if found != expected:
        return f"streamed: {first_change(found, expected, 'message')}"
    return ""


def _without_numbers(message: dict[str, Any]) -> dict[str, Any]:
    """Leave out the ids of calls that the reader numbers: a completion's begin with 0 again."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    numbered = [
        {key: value for key, value in call.items() if key != "id" or not _NUMBER.fullmatch(value)}
        for call in calls
    ]
    return {**message, "tool_calls": numbered}


def _completion(codec: Codec, scenario: Scenario) -> tuple[list[int], list[int]]:
    """Return the ids that a model generates for the last message, and those before them first."""
    encoding = codec.encode(
        scenario.messages,
        tools=scenario.tools,
        add_generation_prompt=False,
        stop_final=True,
        boundary="isolated",
        **scenario.options,
    )
    last = len(scenario.messages) - 1
    places = zip(encoding.assistant_mask, encoding.message_indices, strict=True)
    own = [at for at, (mask, message) in enumerate(places) if mask and message == last]
    ids = encoding.ids.tolist()
    return (ids[: own[0]], ids[own[0] : own[-1] + 1]) if own else (ids, [])


def events_of(
    codec: Codec,
    prompt: list[int] | None,
    pushes: Iterable[Sequence[int]],
    *,
    reason: Literal["stop", "length", "cancelled"] = "stop",
    **options: Any,  # noqa: ANN401 (those of `Codec.stream`)
) -> list[Event]:
    """Return the events of a completion, with neighbouring texts of one kind joined."""
    stream = codec.stream(prompt, **options)
    pushed = [event for ids in pushes for event in stream.push(ids)]
    joined: list[Event] = []
    for event in [*pushed, *stream.finish(reason)]:
        match joined[-1:], event:
            case [Text(text, tokens=(start, _))], Text(more, tokens=(_, end)):
                joined[-1] = Text(text + more, (start, end))
            case [Reasoning(text, tokens=(start, _))], Reasoning(more, tokens=(_, end)):
                joined[-1] = Reasoning(text + more, (start, end))
            case [ActionDelta(nth, text, tokens=(start, _))], ActionDelta(
                other, more, tokens=(_, end)
            ) if nth == other:
                joined[-1] = ActionDelta(nth, text + more, (start, end))
            case _:
                joined.append(event)
    return joined


def first_change(found: object, expected: object, path: str) -> str:
    """Say where a JSON value first differs from another: its path and both values."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in [*expected, *found]:
            if found.get(key) != expected.get(key):
                return first_change(found.get(key), expected.get(key), f"{path}.{key}")
    if isinstance(found, list) and isinstance(expected, list):
        for nth, (one, other) in enumerate(zip(found, expected, strict=False)):
            if one != other:
                return first_change(one, other, f"{path}[{nth}]")
        return f"`{path}` has {len(found)} items, expected {len(expected)}"
    return f"`{path}` is {_shown(found)}, expected {_shown(expected)}"


def _shown(value: object) -> str:
    text = "absent" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
