"""`Constraint.gbnf` and `Constraint.structural_tag`: what they admit is what the reader reads.

A plain matcher of this repository reads the grammars. `make test-xgrammar` runs the real xgrammar.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
from typing import TYPE_CHECKING, Any

import data
import pytest
import walks
from ebnf import Grammar
from test_constrain import (
    BARE_STRINGS,
    CHOICES,
    CONSTRAINED,
    NO_CALLS,
    SCHEMAS,
    TOOLS,
    WEATHER,
    call_of,
    codec_of,
    function,
    read,
    walker_of,
    written,
    written_answers,
)

if TYPE_CHECKING:
    from chatcodec import Codec

WALKS = 60 if data.LONG else 1
MAX_ITEMS = 400
PLAIN: tuple[str, dict[str, Any]] = ("get_weather", {"city": "São Paulo", "days": 3, "unit": "C"})


@functools.lru_cache(maxsize=16)
def grammar_of(format_: str, choice: str, backend: str) -> Grammar:
    constraint = codec_of(format_).constrain(tools=TOOLS, **CHOICES[choice])
    if backend == "gbnf":
        return Grammar(constraint.gbnf())
    tag = json.loads(constraint.structural_tag())
    assert tag["type"] == "structural_tag"
    assert tag["format"]["type"] == "grammar"
    return Grammar(tag["format"]["grammar"])


def items_of(codec: Codec, ids: list[int], backend: str = "gbnf") -> list[str | int]:
    """A completion as characters and control ids; a stop id at its end is the engine's.

    xgrammar knows the first of them alone: a tag names the others.
    """
    vocab = codec.vocab
    control = {*vocab.control.values(), *codec.stop_ids}
    if ids and ids[-1] in codec.stop_ids[: None if backend == "gbnf" else 1]:
        ids = ids[:-1]
    items: list[str | int] = []
    for is_control, group in itertools.groupby(ids, key=lambda id_: id_ in control):
        found = list(group)
        items += found if is_control else b"".join(map(vocab.token_bytes, found)).decode()
    return items


def ids_of(format_: str, items: list[str | int]) -> list[int]:
    """Characters and control ids as the ids of a completion."""
    walker = walker_of(format_)
    ids: list[int] = []
    for is_text, group in itertools.groupby(items, key=lambda item: isinstance(item, str)):
        found = list(group)
        ids += walker.encode("".join(map(str, found))) if is_text else map(int, found)
    stops = walker.codec.stop_ids
    return ids if ids and ids[-1] in stops else [*ids, stops[0]]


MARKED = {"nemotron-nano2": ["\n</think>\n\n", "<TOOLCALL>["]}
"""Texts of formats whose markers are text."""


WALKED = data.in_turn(data.share(CONSTRAINED, 3, first=1), ("gbnf", "structural_tag"))


@pytest.mark.parametrize(("format_", "backend"), WALKED)
def test_what_is_admitted_is_read(format_: str, backend: str) -> None:
    codec = codec_of(format_)
    ended = 0
    for choice in CHOICES:
        grammar = grammar_of(format_, choice, backend)
        for seed in range(WALKS):
            chooser = random.Random(f"{choice} {seed}")
            items = grammar.walk(chooser, MAX_ITEMS, MARKED.get(format_, ()))
            if items is None:
                continue
            ended += 1
            ids = ids_of(format_, items)
            calls = read(codec, ids)
            names = {call["function"]["name"] for call in calls}
            least, most = int(choice not in {"auto", "none"}), {"one": 1, "none": 0}.get(choice, 99)
            assert least <= len(calls) <= most, codec.vocab.decode(ids)
            assert choice != "named" or names == {"search"}
            for call in calls:
                arguments = json.loads(call["function"]["arguments"])
                walks.validate(arguments, SCHEMAS[call["function"]["name"]])
    assert ended >= WALKS


@pytest.mark.parametrize(("format_", "backend"), WALKED)
def test_what_is_written_is_admitted(format_: str, backend: str) -> None:
    codec = codec_of(format_)
    weather = PLAIN if backend == "gbnf" else WEATHER
    admitted = 0
    for choice, ids in written_answers(codec, weather):
        grammar, items = grammar_of(format_, choice, backend), items_of(codec, ids, backend)
        at = grammar.refused_at(items)
        assert at == len(items), (choice, items[:at], items[at:])
        assert grammar.admits(items)
        admitted += 1
    assert admitted > 4


@pytest.mark.parametrize(("format_", "backend"), WALKED)
def test_what_breaks_the_choice_is_refused(format_: str, backend: str) -> None:
    codec = codec_of(format_)
    name, arguments = PLAIN
    wrong: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
        ("required", [("get_time", {})]),
        ("required", [(name, arguments | {"unit": "K"})]),
        ("required", [(name, arguments | {"zip": 1})]),
        ("auto", [(name, {"days": 3})]),
        ("none", [PLAIN]),
        ("required", []),
        ("named", [PLAIN]),
    ]
    if format_ not in BARE_STRINGS:
        wrong.append(("required", [(name, arguments | {"city": 5})]))
    for choice, calls in wrong:
        made = [call_of(codec, name, arguments) for name, arguments in calls]
        ids = written(
            codec, {"content": ""} | ({"tool_calls": made} if made else {"content": "No."})
        )
        if ids is not None:
            assert not grammar_of(format_, choice, backend).admits(items_of(codec, ids, backend)), (
                choice
            )


def test_text_of_llama_cpp_spells_no_control_token() -> None:
    codec = codec_of("internlm2")
    gbnf = Grammar(codec.constrain(tools=TOOLS).gbnf())
    tag = Grammar(json.loads(codec.constrain(tools=TOOLS).structural_tag())["format"]["grammar"])
    for spelling in codec.vocab.control:
        for text in (spelling, f"a{spelling}", f"{spelling} b"):
            assert not gbnf.admits(list(text))
            assert tag.admits(list(text))
        assert gbnf.admits(list(spelling[:-1]))


def test_tokens_of_xgrammar_mark_control() -> None:
    codec = codec_of("internlm2")
    tokens = codec.constrain().xgrammar_tokens()
    assert len(tokens) == codec.vocab.size
    control = set(codec.vocab.control.values())
    for id_, token in enumerate(tokens):
        own = codec.vocab.token_bytes(id_)
        assert token == (b"\xff" + own if id_ in control or not own else own)


@pytest.mark.parametrize("backend", ["gbnf", "structural_tag"])
def test_schemas(backend: str) -> None:
    codec = codec_of("internlm2")
    tree = {
        "type": "object",
        "properties": {
            "value": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "kind": {"enum": ["leaf", 1, None]},
            "children": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        },
        "required": ["value"],
    }

    def admits(schema: dict[str, Any], arguments: object) -> bool:
        tools = function(parameters=schema)
        grammar = getattr(codec.constrain(tools=tools, tool_choice="required"), backend)()
        if backend == "structural_tag":
            grammar = json.loads(grammar)["format"]["grammar"]
        ids = written(codec, {"tool_calls": [call_of(codec, "f", arguments)]})  # type: ignore[arg-type]
        assert ids is not None
        return Grammar(grammar).admits(items_of(codec, ids, backend))

    leaf = {"value": 1, "kind": "leaf"}
    assert admits(tree, leaf)
    assert admits(tree, {"value": None, "children": [leaf, {"value": 2, "children": [leaf]}]})
    assert not admits(tree, {"value": "x"})
    assert not admits(tree, {"kind": "leaf"})
    assert not admits(tree, {"value": 1, "children": []})
    assert admits({}, {"any": [1, {"thing": None}]})


def test_many_tools_take_linear_space() -> None:
    codec = codec_of("llama3.2")
    parameters = SCHEMAS["search"]
    sizes = []
    for count in (10, 40):
        tools = [tool for at in range(count) for tool in function(f"f{at}", parameters=parameters)]
        sizes.append(len(codec.constrain(tools=tools).structural_tag()))
    assert sizes[1] < 4 * sizes[0]


@pytest.mark.parametrize("format_", sorted(NO_CALLS))
def test_formats_without_calls_constrain_text(format_: str) -> None:
    codec = codec_of(format_)
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    answer = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    for print_ in ("gbnf", "structural_tag"):
        assert getattr(codec.constrain(), print_)()
        assert getattr(codec.constrain(response_format=answer), print_)()
