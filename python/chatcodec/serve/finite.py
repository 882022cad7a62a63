"""JSON without numbers that JSON does not have: `NaN`, `Infinity`, and what is too large."""

from __future__ import annotations

import json
import math
from typing import Any

from chatcodec.serve.errors import ApiError

__all__ = ["read_json"]


def read_json(text: str) -> Any:  # noqa: ANN401
    """Read JSON. Raises `ApiError` with the path of a number that is not finite.

    Raises what `json.loads` raises.
    """
    found = []

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            found.append(word)
        return value

    value = json.loads(text, parse_float=number, parse_constant=number)
    if found:
        path = _path_of(value)
        raise ApiError(400, f"`{path:.80}` is {found[0]:.80}, expected a finite number", path)
    return value


def _path_of(value: object) -> str:
    """Find the first number that is not finite; another value of the same key may hide it."""
    open_: list[tuple[str, object]] = [("", value)]
    while open_:
        path, value = open_.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return path
        if isinstance(value, dict):
            items = [(f"{path}.{key}".removeprefix("."), each) for key, each in value.items()]
            open_ += reversed(items)
        elif isinstance(value, list):
            open_ += reversed([(f"{path}[{at}]", each) for at, each in enumerate(value)])
    return ""
