"""The tools of a request and the rules for their use, for every API."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec.adapters._custom import function_of
from chatcodec.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Tool: TypeAlias = dict[str, Any]
Unsupported: TypeAlias = Callable[..., None]
"""Raises, or records a part that is left out: its path, its kind, the problem, and other names of
its kind."""

NOT_FOR_MODELS = {
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
    "strict",
}
"""Keys of a function that concern the API, and are not written into a prompt."""

DATED = re.compile(r"_\d{8}$")
"""The date in the name of a tool's type: `web_search_20250305`."""

WORDS = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


@dataclass(frozen=True)
class Choice:
    """The rules of a request for calls."""

    mode: Literal["auto", "none", "required"] = "auto"
    only: tuple[str, ...] | None = None
    """The names of the functions that may be called; None for all."""
    named: bool = False
    """Whether the request names a single function that must be called."""
    parallel: bool = True

    @property
    def option(self) -> str | dict[str, Any]:
        """The arguments of an adapter."""
        if self.named and self.only:
            return {"type": "function", "function": {"name": self.only[0]}}
        return self.mode


def read_tools(tools: object, path: str, unsupported: Unsupported) -> list[Tool]:
    """Return tools in the form of chat completions: `{"type": "function", "function": …}`.

    Takes Anthropic's `input_schema` and Responses' flat functions, too. What a server runs itself
    is unsupported.
    """
    if not isinstance(tools, list):
        raise MessageError(f"`{path}` is `{type(tools).__name__}`, expected a list", path)
    read = []
    for at, tool in enumerate(tools):
        where = f"{path}[{at}]"
        if not isinstance(tool, dict):
            kind = type(tool).__name__
            raise MessageError(f"`{where}` is `{kind}`, expected a dict", where)
        function = _function(tool)
        if function is None:
            kind = f"{tool.get('type')!s:.80}"
            problem = f"is a tool of type `{kind}`, which the server would run; expected a function"
            unsupported(where, "tool", problem, kind, DATED.sub("", kind))
            continue
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise MessageError(f"`{where}` has no name, expected a function's", where)
        read.append({"type": "function", "function": function})
    return read


def is_strict(tools: object) -> bool:
    """Whether one of the tools asks that its arguments follow its schema: `strict`."""
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(function, dict) and function.get("strict") is True:
            return True
    return False


def _function(tool: Tool) -> dict[str, Any] | None:
    """Return the function of a tool, if the tool is a function or is shown as one."""
    if (custom := function_of(tool)) is not None:
        return custom
    match tool:
        case {"function": dict(function)}:
            pass
        case {"input_schema": schema, **rest} if rest.get("type") in (None, "custom"):
            named = {key: rest[key] for key in rest if key in ("name", "description")}
            function = {**named, "parameters": schema}
        case {"type": "function", **rest}:
            function = rest
        case {"name": _} if "type" not in tool:
            function = tool
        case _:
            return None
    said = ((key, value) for key, value in function.items() if value is not None)
    return {key: value for key, value in said if key not in NOT_FOR_MODELS}


def read_choice(choice: object, path: str, unsupported: Unsupported) -> Choice:
    """Read `tool_choice` of any API, and OpenAI's former `function_call`."""
    match choice:
        case None:
            return Choice()
        case str() if choice in WORDS:
            return _mode(choice)
        case {"type": "allowed_tools", **rest}:
            return _allowed(rest, path)
        case (
            {"type": "function", "function": {"name": str(name)}}
            | {"type": "function", "name": str(name)}
            | {"type": "tool", "name": str(name)}
            | {"type": "custom", "name": str(name)}
            | {"type": "custom", "custom": {"name": str(name)}}
        ):
            read = Choice("required", (name,), named=True)
        case {"type": str(word)} if word in WORDS:
            read = _mode(word)
        case {"name": str(name), **rest} if not rest:
            read = Choice("required", (name,), named=True)
        case {"type": str(kind)} if kind not in {"function", "tool"}:
            problem = f"names a tool of type `{kind:.80}`, which the server would run"
            unsupported(path, "tool_choice", problem, kind)
            return Choice()
        case _:
            known = '`"auto"`, `"none"`, `"required"`, or a function\'s name in a dict'
            raise MessageError(f"`{path}` is {choice!r:.80}, expected {known}", path)
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use"):
        read = replace(read, parallel=False)
    return read


def _mode(word: str) -> Choice:
    return Choice("required" if word == "any" else word)  # type: ignore[arg-type]


def _allowed(rest: Mapping[Any, Any], path: str) -> Choice:
    allowed = rest.get("allowed_tools", rest)
    match allowed:
        case {"mode": "auto" | "required" as mode, "tools": list(tools)}:
            functions = (_function(tool) for tool in tools if isinstance(tool, dict))
            names = (function.get("name") for function in functions if function is not None)
            return Choice(mode, tuple(name for name in names if isinstance(name, str)))
        case _:
            expected = 'expected `{"mode": "auto" or "required", "tools": […]}`'
            raise MessageError(f"`{path}.allowed_tools` is something else, {expected}", path)


def allowed_tools(tools: list[Tool], choice: Choice, path: str) -> list[Tool]:
    """Return the tools that the model may call, which the prompt declares.

    Raises `MessageError` where calls are asked for that no tool is there for.
    """
    names = [tool["function"]["name"] for tool in tools]
    for name in choice.only or ():
        if name not in names:
            known = f"one of `{'`, `'.join(names)}`" if names else "`tools` with it"
            raise MessageError(f"`{path}` names `{name:.80}`, expected {known:.500}", path)
    if choice.mode == "required" and not tools:
        raise MessageError(f"`{path}` asks for a call, expected `tools` to call", path)
    if choice.mode == "none":
        return []
    if choice.only is None:
        return tools
    return [tool for tool in tools if tool["function"]["name"] in choice.only]
