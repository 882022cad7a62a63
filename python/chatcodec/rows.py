"""Dataset rows in other schemas, converted to the conversations that `encode_batch` takes.

>>> from chatcodec import Codec, rows
>>> row = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
>>> rows.from_sharegpt(row)["messages"]
[{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Hello'}]
>>> Codec("internlm2", vocab="embedded").encode_batch(map(rows.from_sharegpt, [row]))
Batch(1 conversations)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["from_sharegpt"]

ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "function_call": "function_call",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
}
"""Values of `from` with their roles; `function_call` holds only calls."""


def from_sharegpt(row: Mapping[str, Any], *, key: str = "conversations") -> dict[str, Any]:
    """Read a row of ShareGPT: `{"conversations": [{"from": "human", "value": "Hi"}, …]}`.

    `system` and `tools` of the row are the system message and the tools; `from` may also be
    `"function_call"`, with a call or a list of calls as JSON, and `"observation"`, its result. A
    message's own `role` and `content` are read, too. Other columns stay as they are.

    Raises `MessageError` with the path of what is something else.
    """
    turns: Any = row.get(key)
    if not isinstance(turns, (list, tuple)) and not hasattr(turns, "tolist"):
        raise MessageError(f"`{key}` is {_kind(turns)}, expected a list of turns", key)
    read = {name: value for name, value in row.items() if name not in {key, "system", "tools"}}
    messages: list[dict[str, Any]] = []
    if row.get("system"):
        messages.append({"role": "system", "content": row["system"]})
    for at, turn in enumerate(turns):
        messages.append(_message(turn, f"{key}[{at}]"))
    read["messages"] = messages
    if row.get("tools"):
        read["tools"] = _tools(row["tools"])
    return read


def _message(turn: object, path: str) -> dict[str, Any]:
    if not hasattr(turn, "items"):
        raise MessageError(f"`{path}` is {_kind(turn)}, expected a dict", path)
    fields = dict(turn.items())
    said, value = fields.pop("from", None), fields.pop("value", None)
    if said is None and value is None:
        return fields
    role = ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        known = "`, `".join(ROLES)
        raise MessageError(
            f"`{path}.from` is {said!r:.80}, expected one of `{known}`", f"{path}.from"
        )
    if not isinstance(value, str):
        raise MessageError(f"`{path}.value` is {_kind(value)}, expected a string", f"{path}.value")
    if role == "function_call":
        return {"role": "assistant", "tool_calls": _calls(value, f"{path}.value"), **fields}
    return {"role": role, "content": value, **fields}


def _calls(text: str, path: str) -> list[dict[str, Any]]:
    """Read one call, or a list of them."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"`{path}` is no JSON, expected a call: {error}", path) from error
    calls = []
    for call in value if isinstance(value, list) else [value]:
        match call:
            case {"name": str(name), **rest} if rest.keys() <= {"arguments", "parameters", "id"}:
                arguments = rest.get("arguments", rest.get("parameters", {}))
                arguments = (
                    arguments
                    if isinstance(arguments, str)
                    else json.dumps(arguments, ensure_ascii=False)
                )
                function = {"name": name, "arguments": arguments}
                calls.append({"id": rest.get("id"), "type": "function", "function": function})
            case _:
                raise MessageError(
                    f'`{path}` is no call, expected `{{"name": …, "arguments": …}}`', path
                )
    return calls


def _tools(tools: object) -> object:
    """Read tools, which datasets often hold as JSON."""
    if not isinstance(tools, str):
        return tools
    try:
        return json.loads(tools)
    except (ValueError, RecursionError):
        return tools


def _kind(value: object) -> str:
    return "missing" if value is None else f"`{type(value).__name__}`"
