"""What is wrong is refused at the id where it goes wrong, beside an oracle that knows no grammar.

The arguments of a tool have so few values that all of them can be written: by jsonschema and
`encode` alone. A completion with a mutation goes wrong at the first id with which no written
completion goes on.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
from typing import Any

import data
import jsonschema
import pytest
import test_constrain as constrained
from ebnf import Grammar

MUTATIONS = 60
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["C", "F"]},
        "days": {"type": "integer", "minimum": 9, "maximum": 11},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["x", "yz"]}, "maxItems": 2},
    },
    "required": ["unit"],
    "additionalProperties": False,
}
TOOLS = constrained.function("search", parameters=PARAMETERS)
CHOICE: dict[str, Any] = {"tool_choice": "required", "parallel": False}

Symbol = str | int


@functools.cache
def all_arguments() -> list[dict[str, Any]]:
    absent: list[Any] = [...]
    tags = [
        list(some) for count in range(4) for some in itertools.product(["x", "yz"], repeat=count)
    ]
    values = [
        [("unit", value) for value in [*absent, "C", "F", "K"]],
        [("days", value) for value in [*absent, *range(8, 13)]],
        [("exact", value) for value in [*absent, True, False, None]],
        [("tags", value) for value in [*absent, *tags]],
    ]
    found = []
    for members in itertools.product(*values):
        arguments = {name: value for name, value in members if value is not ...}
        if jsonschema.Draft202012Validator(PARAMETERS).is_valid(arguments):
            found.append(arguments)
    return found


@functools.lru_cache(maxsize=8)
def completions(format_: str) -> list[list[int]]:
    """Every completion of one call."""
    codec = constrained.codec_of(format_)
    found = []
    for arguments in all_arguments():
        call = constrained.call_of(codec, "search", arguments)
        ids = constrained.written(codec, {"content": "", "tool_calls": [call]})
        assert ids is not None
        found.append(ids)
    return found


def symbols_of(format_: str, ids: list[int]) -> list[tuple[int, int]]:
    return constrained.symbols_of(constrained.codec_of(format_), ids)


Trie = dict[int, Any]


@functools.lru_cache(maxsize=8)
def oracle(format_: str) -> Trie:
    """All completions as a tree of bytes and control tokens."""
    root: Trie = {}
    for ids in completions(format_):
        node = root
        for symbol, _ in symbols_of(format_, ids):
            node = node.setdefault(symbol, {})
    return root


def wrong_at(format_: str, symbols: list[tuple[int, int]]) -> int | None:
    """The number of symbols after which no completion goes on; none, if it goes on to the end."""
    node = oracle(format_)
    for at, (symbol, _) in enumerate(symbols):
        if symbol not in node:
            return at
        node = node[symbol]
    return None


def shared(format_: str) -> int:
    """How many symbols all completions begin with: in them other answers may go on."""
    node, count = oracle(format_), 0
    while len(node) == 1:
        (node,) = node.values()
        count += 1
    return count


def mutated(format_: str, chooser: random.Random, begin: int) -> list[int]:
    """A completion with an id that is removed, replaced or added after the first symbols."""
    codec = constrained.codec_of(format_)
    ids = list(chooser.choice(completions(format_)))
    places = [at for symbol, (_, at) in enumerate(symbols_of(format_, ids)) if symbol >= begin]
    at = chooser.choice(places)
    control = [*codec.vocab.control.values(), *codec.stop_ids]
    others = [*itertools.chain.from_iterable(chooser.sample(completions(format_), 3))]
    texts = ['"', "}", "]", ",", " ", "1", "0", "C", "x", "yz", "true", "\n", "<", "é", '"}', ", "]
    spelled = list(codec.vocab.encode(chooser.choice(texts)))
    more = chooser.choice([spelled, [chooser.choice(control)], [chooser.choice(others)]])
    kind = chooser.choice(["remove", "replace", "add"])
    return [*ids[:at], *(more if kind != "remove" else []), *ids[at + (kind != "add") :]]


def cases(format_: str) -> list[tuple[list[int], list[tuple[int, int]], int]]:
    """Mutated completions, their symbols, and how many of these are right."""
    chooser, begin = random.Random(format_), shared(format_)
    found: list[tuple[list[int], list[tuple[int, int]], int]] = []
    while len(found) < MUTATIONS:
        ids = mutated(format_, chooser, begin)
        symbols = symbols_of(format_, ids)
        at = wrong_at(format_, symbols)
        if at is not None and at >= begin and not is_in_id(symbols[:at]):
            found.append((ids, symbols, at))
    return found


def is_in_id(symbols: list[tuple[int, int]]) -> bool:
    """Whether an id of a call follows, which may be any other."""
    text = bytes(symbol for symbol, _ in symbols if symbol < 256)
    begun = [b"a1B2c3D4e"[:count] for count in range(1, 10)]
    return text.endswith((b'"id": "', *begun)) and b'"id": "' in text


@pytest.mark.parametrize("format_", data.share(constrained.CONSTRAINED, 3))
def test_all_completions_are_admitted(format_: str) -> None:
    walker = constrained.walker_of(format_)
    codec = walker.codec
    matcher = walker.matcher(codec.constrain(tools=TOOLS, **CHOICE).lark())
    for ids in data.share(completions(format_), 10):
        assert walker.refused_at(matcher, ids) == len(ids), codec.vocab.decode(ids)


@pytest.mark.parametrize("format_", data.share(constrained.CONSTRAINED, 3))
def test_llguidance_refuses_the_id_that_is_wrong(format_: str) -> None:
    walker = constrained.walker_of(format_)
    codec = walker.codec
    matcher = walker.matcher(codec.constrain(tools=TOOLS, **CHOICE).lark())
    tried = 0
    for ids, symbols, at in cases(format_):
        if symbols[at][0] == ord(" ") or goes_on(format_, symbols[:at], ord(" ")):
            continue  # JSON has one space there or none.
        tried += 1
        found, expected = walker.refused_at(matcher, ids), symbols[at][1]
        decode = codec.vocab.decode
        assert found == expected, (decode(ids[:found]), decode(ids[:expected]), decode(ids))
    assert tried > MUTATIONS // 3


def goes_on(format_: str, symbols: list[tuple[int, int]], symbol: int) -> bool:
    """Whether a completion goes on with a symbol after others."""
    node = oracle(format_)
    for known, _ in symbols:
        node = node[known]
    return symbol in node


@pytest.mark.parametrize(
    ("format_", "backend"),
    data.in_turn(data.share(constrained.CONSTRAINED, 3), ("gbnf", "structural_tag")),
)
def test_rules_refuse_the_symbol_that_is_wrong(format_: str, backend: str) -> None:
    codec = constrained.codec_of(format_)
    grammar = Grammar(
        constrained_text(codec.constrain(tools=TOOLS, **CHOICE), backend),
    )
    tried = 0
    for ids, symbols, at in cases(format_):
        if any(symbol - 256 in codec.stop_ids for symbol, _ in symbols[: at + 1]):
            continue  # The engine's: it follows where the grammar is complete.
        right = [symbol for symbol, _ in symbols[:at]]
        items = characters(right)
        wrong = characters([symbol for symbol, _ in symbols[at:]])
        if items is None or wrong is None:
            continue  # Within a character.
        tried += 1
        assert grammar.refused_at([*items, *wrong]) == len(items), codec.vocab.decode(ids)
    assert tried > MUTATIONS // 3


def constrained_text(constraint: Any, backend: str) -> str:  # noqa: ANN401
    text: str = getattr(constraint, backend)()
    if backend == "structural_tag":
        grammar: str = json.loads(text)["format"]["grammar"]
        return grammar
    return text


def characters(symbols: list[int]) -> list[Symbol] | None:
    """Bytes and control tokens as characters and ids; none, if a character is not whole."""
    found: list[Symbol] = []
    for is_text, group in itertools.groupby(symbols, key=lambda symbol: symbol < 256):
        part = list(group)
        try:
            found += bytes(part).decode() if is_text else [symbol - 256 for symbol in part]
        except UnicodeDecodeError:
            return None
    return found


@pytest.mark.parametrize("format_", data.share(constrained.CONSTRAINED, 3))
def test_what_is_admitted_can_be_completed(format_: str) -> None:
    """No mask leads to an end that no completion has: each id on a walk leaves another one."""
    walker = constrained.walker_of(format_)
    lark = walker.codec.constrain(tools=TOOLS, **CHOICE).lark()
    matcher = walker.matcher(lark)
    ended = [walker.walk(matcher, seed, walker.tags(lark)) for seed in range(20)]
    assert any(ended)
