"""Custom tools: tools of a client's own whose input is one text, such as a patch.

A model is shown a function with one parameter, `input`, and its call is told as the API tells calls
of custom tools: with the text alone. A grammar for the text is shown to the model, not enforced.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["as_functions", "custom_names", "function_of", "input_of"]

INPUT = "input"
"""The parameter that the text is."""


def custom_of(tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what a custom tool says of itself; None for another tool.

    Anthropic's tools of the type `custom` have a schema, and are functions.
    """
    if tool.get("type") != "custom" or "input_schema" in tool:
        return None
    inner = tool.get("custom", tool)
    return inner if isinstance(inner, dict) else None


def function_of(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the function that a custom tool is shown as; None for another tool."""
    custom = custom_of(tool)
    if custom is None:
        return None
    shown = {"type": "string", "description": _about(custom.get("format"))}
    parameters = {"type": "object", "properties": {INPUT: shown}, "required": [INPUT]}
    named = {key: custom[key] for key in ("name", "description") if custom.get(key) is not None}
    return {**named, "parameters": {**parameters, "additionalProperties": False}}


def custom_names(tools: object) -> frozenset[str]:
    """Return the names of the custom tools of a request."""
    given = tools if isinstance(tools, list) else ()
    found = (custom_of(tool) for tool in given if isinstance(tool, dict))
    names = (custom.get("name") for custom in found if custom is not None)
    return frozenset(name for name in names if isinstance(name, str))


def input_of(arguments: str) -> str:
    """Return the text of a call's arguments: what was generated, where it is no such object."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = value.get(INPUT) if isinstance(value, dict) and len(value) == 1 else None
    return text if isinstance(text, str) else arguments


def as_functions(messages: Sequence[Any]) -> None:
    """Turn the calls and results of custom tools in a history into those of functions."""
    for message in messages:
        if not isinstance(message, dict):
            continue
        match message:
            case {"type": "custom_tool_call", "input": str(text)}:
                del message["input"]
                message |= {"type": "function_call", "arguments": _arguments(text)}
            case {"type": "custom_tool_call_output"}:
                message["type"] = "function_call_output"
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            match call:
                case {"type": "custom", "custom": {"name": name, "input": str(text)}}:
                    del call["custom"]
                    function = {"name": name, "arguments": _arguments(text)}
                    call |= {"type": "function", "function": function}


def _arguments(text: str) -> str:
    return json.dumps({INPUT: text}, ensure_ascii=False)


def _about(format_: object) -> str:
    match format_:
        case {"type": "grammar", "syntax": str(syntax), "definition": str(definition)}:
            return f"Text of this {syntax} grammar:\n{definition}"
        case {"type": "grammar", "grammar": {"syntax": str(syntax), "definition": str(definition)}}:
            return f"Text of this {syntax} grammar:\n{definition}"
    return "Free text."
