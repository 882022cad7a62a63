"""What OpenAI's and Anthropic's servers ask of a request's messages and tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_shapes"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NEED_CONTENT = {"system", "developer", "user", "tool", "function"}


def check_shapes(body: Mapping[str, Any]) -> None:
    """Check that there are messages, that each says something, and that tools have names.

    Raises `ApiError`. What is no list or no dict is for the adapter to refuse.
    """
    for key in ("messages", "input"):
        given = body.get(key)
        if given == []:
            _refuse(key, "is empty, expected one message or more")
        for at, message in enumerate(given if isinstance(given, list) else ()):
            if isinstance(message, dict):
                _check_message(f"{key}[{at}]", message)
    for key in ("tools", "functions"):
        _check_names(key, body.get(key))


def _check_message(path: str, message: Mapping[str, Any]) -> None:
    role = message.get("role")
    if isinstance(role, str) and role in _NEED_CONTENT and message.get("content") is None:
        _refuse(f"{path}.content", "is missing, expected text")


def _check_names(key: str, tools: object) -> None:
    seen: dict[str, str] = {}
    for at, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, dict):
            continue
        inner = next(
            (each for each in ("function", "custom") if isinstance(tool.get(each), dict)), ""
        )
        name = (tool[inner] if inner else tool).get("name")
        if not isinstance(name, str) or not name:
            continue
        path = ".".join(filter(None, (f"{key}[{at}]", inner, "name")))
        if not _NAME.fullmatch(name):
            expected = "expected 1 to 64 letters, digits, `_`, `-` and `.`"
            _refuse(path, f"is {name!r:.80}, {expected}")
        if name in seen:
            _refuse(path, f"is {name!r}, which `{seen[name]}` is, too; expected another name")
        seen[name] = path


def _refuse(path: str, problem: str) -> NoReturn:
    raise ApiError(400, f"`{path}` {problem}", path)
