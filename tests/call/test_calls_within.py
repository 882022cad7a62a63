"""Calls whose name and arguments stand in an object of their own, as clients of OpenAI have them.

`object = { within = "function", … }`:
`{"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}`.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import walks
from chatcodec import Codec, Format
from chatcodec.errors import FormatError
from chatcodec.events import ActionStart, Notice

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
name = "within"
guarantee = "ids"
source = "a test"
vocabulary = "the embedded one"
generation = { prompt = "{A}bot\\n" }
calls = { open = "{C}[", between = ", ", close = "]{D}" }
[control]
A = "<|im_start|>"
B = "<|im_end|>"
C = "<|action_start|>"
D = "<|action_end|>"
[turn]
user = "{A}you\\n{content}{B}"
assistant = "{A}bot\\n{content}{?calls:{calls}?}{B}"
tool = "{A}tool\\n{content}{B}"
[call.function]
item = "{call}"
object = { id = "id", within = "function", name = "name", arguments = "arguments" }
"""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    }
]


def codec_of(folder: Path, file: str = FILE) -> Codec:
    path = folder / "within.toml"
    path.write_text(file, encoding="utf-8")
    return Codec(Format.load(path), vocab="embedded")


def called(codec: Codec, body: str) -> tuple[list[Any], list[Any]]:
    """The ids and names of calls of a completion, and its notices."""
    control = codec.vocab.control
    ids = [control["<|action_start|>"], *codec.vocab.encode(body)]
    ids += [control["<|action_end|>"], control["<|im_end|>"]]
    whole = codec.stream()
    told = [*whole.push(ids), *whole.finish()]
    single = codec.stream(keep=True)
    for id_ in ids:
        single.push(id_)
    single.finish()
    assert single.message() == codec.parse(ids).message
    names = [event.name for event in told if isinstance(event, ActionStart)]
    return names, [event.kind for event in told if isinstance(event, Notice)]


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    seed = random.Random(0)
    for _ in range(50):
        arguments = {
            "".join(seed.choices('abc"}{', k=3)): seed.choice([1, "}", {"name": "g"}, [None], "é"])
            for _ in range(seed.randint(0, 3))
        }
        calls: list[dict[str, Any]] = [
            {
                "id": f"call{nth}",
                "type": "function",
                "function": {"name": "f", "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            for nth in range(seed.randint(1, 3))
        ]
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": calls},
        ]
        encoding = codec.encode(messages)
        expected = json.loads(calls[0]["function"]["arguments"])
        written = json.loads(encoding.text.partition("[")[2].partition("]<|")[0].join("[]"))
        assert written[0]["function"] == {"name": "f", "arguments": expected}
        assert written[0]["type"] == "function"
        assert codec.decode(encoding.ids) == messages


@pytest.mark.parametrize(
    ("body", "names", "notices"),
    [
        ('[{"function": {"arguments": {}, "name": "f"}, "type": "function"}]', ["f"], []),
        ('[{"name": "f", "arguments": {}}]', ["f"], []),
        ('[{"type": "function", "function": {"name": "f", "arguments": {}, "x": 1}}]', ["f"],
         ["unknown_key"]),
        ('[{"type": "function", "function": "f"}]', [],
         ["malformed", "unexpected_control"]),
    ],
)  # fmt: skip
def test_what_models_write_otherwise(
    tmp_path: Path, body: str, names: list[str], notices: list[str]
) -> None:
    assert called(codec_of(tmp_path), body) == (names, notices)


def test_what_is_admitted_is_read(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    constraint = codec.constrain(tools=TOOLS, tool_choice="required")
    walker = walks.Walker(codec)
    lark = constraint.lark()
    grammar, closers = walker.matcher(lark), walker.tags(lark)
    ended = [ids for seed in range(20) if (ids := walker.walk(grammar, seed, closers))]
    for ids in ended:
        told = codec.stream(tools=TOOLS).push(ids)
        assert not [event for event in told if isinstance(event, Notice)]
        assert {call["function"]["name"] for call in codec.parse(ids).message["tool_calls"]} == {
            "f"
        }
    assert ended


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ('within = "type"', "within` is no key"),
        ('within = "a b"', "within` is no key"),
        ('within = "function", order = ["name", "arguments", "id"]', "order` is unknown"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, given: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        codec_of(tmp_path, FILE.replace('within = "function"', given))
