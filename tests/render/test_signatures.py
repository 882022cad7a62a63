"""Tools as signatures of TypeScript: half of a surrogate pair is refused, not left out."""

from __future__ import annotations

import copy
import json
from typing import Any

import data
import pytest
from chatcodec import Codec, MessageError

TOOL: dict[str, Any] = {
    "name": "f",
    "description": "Does it.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "What.", "enum": ["x"]}},
        "required": ["a"],
    },
}
HALF = "\ud800"


@pytest.fixture(scope="module")
def codec() -> Codec:
    golden = json.loads((data.ROOT / "tests" / "golden" / "gigachat3.json").read_text("utf-8"))
    return Codec("gigachat3", vocab=data.appended(tuple(golden["special_tokens"])))


def put(*path: str | int) -> dict[str, Any]:
    """The tool with half of a surrogate pair there."""
    tool = copy.deepcopy(TOOL)
    at: Any = tool
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = HALF
    return tool


@pytest.mark.parametrize(
    "tool",
    [
        put("name"),
        put("description"),
        put("parameters", "properties", "a", "description"),
        put("parameters", "properties", "a", "enum", 0),
        put("parameters", "properties", "a", "default"),
        put("parameters", "required", 0),
        {**TOOL, "parameters": {"type": "object", "properties": {HALF: {"type": "string"}}}},
    ],
)
def test_half_of_a_surrogate_pair_is_refused(codec: Codec, tool: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    codec.encode(messages, tools=[{"type": "function", "function": TOOL}])
    with pytest.raises(
        MessageError, match=r"`tools\[0\](\.function\.name)?` holds half of a surrogate pair"
    ):
        codec.encode(messages, tools=[{"type": "function", "function": tool}])
