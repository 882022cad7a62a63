"""`Constraint.structural_tag` with the real xgrammar: `make test-xgrammar`.

xgrammar asks for torch when it is imported, and its bindings do without it: masks are arrays of
NumPy here.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import random
import sys
import types
from typing import Any

import jsonschema
import numpy as np
import pytest
from test_constrain import (
    CHOICES,
    CONSTRAINED,
    SCHEMAS,
    SEARCH,
    TOOLS,
    WEATHER,
    call_of,
    codec_of,
    read,
    walker_of,
    written,
)

if not os.environ.get("CHATCODEC_XGRAMMAR"):
    pytest.skip("`make test-xgrammar` runs these", allow_module_level=True)

WALKS = int(os.environ.get("CHATCODEC_WALKS", "6"))
MAX_TOKENS = 200


class _Absent(types.ModuleType):
    """A module whose every name is a class that does nothing."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda _self, *_given, **_named: None})
        setattr(self, name, made)
        return made


@functools.cache
def backend() -> Any:  # noqa: ANN401
    importlib.import_module("tvm_ffi")  # which looks at torch, if it is there
    if importlib.util.find_spec("torch") is None:
        for name in ("torch", "transformers"):
            sys.modules[name] = _Absent(name)
    return importlib.import_module("xgrammar")


@functools.cache
def tokenizer_of(format_: str) -> Any:  # noqa: ANN401
    xg, codec = backend(), codec_of(format_)
    return xg.TokenizerInfo(
        codec.constrain().xgrammar_tokens(),
        vocab_type=xg.VocabType.RAW,
        vocab_size=codec.vocab.size,
        stop_token_ids=[codec.stop_ids[0]],
    )


class Matcher:
    """A matcher of xgrammar's, with the mask as an array of booleans."""

    def __init__(self, format_: str, choice: str) -> None:
        xg, codec = backend(), codec_of(format_)
        self.size = codec.vocab.size
        tag = codec.constrain(tools=TOOLS, **CHOICES[choice]).structural_tag()
        grammar = xg.Grammar.from_structural_tag(json.dumps(json.loads(tag)))
        compiler = xg.GrammarCompiler(tokenizer_of(format_), max_threads=1)
        self.compiled = compiler.compile_grammar(grammar)
        self.matcher = xg.GrammarMatcher(self.compiled)

    def again(self) -> Matcher:
        self.matcher.reset()
        return self

    def mask(self) -> Any:  # noqa: ANN401
        bits = np.full((1, (self.size + 31) // 32), -1, np.int32)
        self.matcher.fill_next_token_bitmask(bits)
        shown = np.unpackbits(bits.view(np.uint8)[0], bitorder="little")
        return shown[: self.size].astype(bool)

    def refused_at(self, ids: list[int]) -> int:
        for at, id_ in enumerate(ids):
            if not self.mask()[id_] or not self.matcher.accept_token(id_):
                return at
        return len(ids)


@functools.cache
def matcher_of(format_: str, choice: str) -> Matcher:
    return Matcher(format_, choice)


def walk(matcher: Matcher, format_: str, seed: str) -> list[int] | None:
    codec = codec_of(format_)
    chooser = random.Random(seed)
    stops, control = {*codec.stop_ids}, {*codec.vocab.control.values()}
    eager = chooser.choice([0.2, 0.5])
    closers = [
        id_
        for id_ in range(codec.vocab.size)
        if id_ not in control and codec.vocab.token_bytes(id_)[:1] in {b'"', b"}", b"]", b">"}
    ]
    ids: list[int] = []
    matcher.again()
    while len(ids) < MAX_TOKENS:
        # No text is encoded to a byte's own token where another token has the byte.
        usual = walker_of(format_).text | walker_of(format_).special
        options = np.flatnonzero(matcher.mask() & usual)
        assert len(options), codec.vocab.decode(ids)
        special = [id_ for id_ in options if id_ in control or id_ in stops]
        closing = np.intersect1d(options, closers)
        if special and chooser.random() < eager:
            options = np.array(special)
        elif len(closing) and chooser.random() < eager:
            options = closing
        ids.append(int(chooser.choice(options)))
        assert matcher.matcher.accept_token(ids[-1])
        if ids[-1] in stops:
            return ids
    return None


@pytest.mark.parametrize("format_", CONSTRAINED)
def test_xgrammar_admits_what_is_read(format_: str) -> None:
    codec = codec_of(format_)
    ended = 0
    for choice in CHOICES:
        matcher = matcher_of(format_, choice)
        for seed in range(WALKS):
            ids = walk(matcher, format_, f"{choice} {seed}")
            if ids is None:
                continue
            ended += 1
            calls = read(codec, ids)
            assert int(choice not in {"auto", "none"}) <= len(calls) <= (99, 1)[choice == "one"]
            assert choice != "none" or not calls
            for call in calls:
                arguments = json.loads(call["function"]["arguments"])
                jsonschema.validate(arguments, SCHEMAS[call["function"]["name"]])
        for made in ([], [WEATHER], [SEARCH], [WEATHER, SEARCH]):
            fits = {"auto": True, "none": not made, "one": len(made) == 1, "required": bool(made)}
            calls = [call_of(codec, name, arguments) for name, arguments in made]
            if calls and format_.startswith("kimi"):
                calls[-1]["id"] = calls[-1]["id"].replace(":0", f":{len(made) - 1}")
            message = {"content": ""} | ({"tool_calls": calls} if calls else {"content": "No."})
            written_ids = written(codec, message)
            if written_ids is None or written_ids.count(codec.stop_ids[0]) > 1:
                continue
            if len(made) > 1 and len(read(codec, written_ids)) < len(made):
                continue  # A call of harmony's ends the completion.
            admitted = matcher.again().refused_at(written_ids) == len(written_ids)
            assert admitted == fits.get(choice, made == [SEARCH]), (choice, made)
    assert ended > WALKS // 3


# What grammars of others admit, beside ours: the table in docs/constrain.md.

PEERS = {"qwen3:instruct": "qwen_3", "kimi-k2": "kimi"}
"""Formats whose calls are marked by control tokens, and xgrammar's names for them."""

SCHEMA_OF_REQUIRED = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "anyOf": [
            {
                "properties": {"name": {"enum": [name]}, "parameters": schema},
                "required": ["name", "parameters"],
            }
            for name, schema in SCHEMAS.items()
        ],
    },
}
"""How vLLM 0.33 enforces `tool_choice="required"` where it has no structural tag."""


@functools.cache
def peer_of(format_: str) -> Matcher:
    """The grammar of xgrammar itself for a family, over tokens as an engine makes them."""
    xg, codec = backend(), codec_of(format_)
    tokens = xg.TokenizerInfo(
        [codec.vocab.token_bytes(id_) for id_ in range(codec.vocab.size)],
        vocab_type=xg.VocabType.RAW,
        vocab_size=codec.vocab.size,
        stop_token_ids=[codec.stop_ids[0]],
    )
    own = importlib.import_module("xgrammar.builtin_structural_tag")
    tag = own.get_model_structural_tag(PEERS[format_], tools=TOOLS, reasoning="disabled")
    compiled = xg.GrammarCompiler(tokens, max_threads=1).compile_grammar(
        xg.Grammar.from_structural_tag(tag)
    )
    matcher = Matcher.__new__(Matcher)
    matcher.size, matcher.matcher = codec.vocab.size, xg.GrammarMatcher(compiled)
    return matcher


def ours(format_: str, ids: list[int], **options: Any) -> bool:  # noqa: ANN401
    """Whether our constraint admits a completion, for llguidance and for xgrammar."""
    walker = walker_of(format_)
    lark = walker.codec.constrain(tools=TOOLS, **options).lark()
    by_lark = walker.refused_at(walker.matcher(lark), ids) == len(ids)
    if not options:
        assert by_lark == (matcher_of(format_, "auto").again().refused_at(ids) == len(ids))
    return by_lark


@pytest.mark.parametrize("format_", PEERS)
def test_published_failures(format_: str) -> None:
    codec, peer = codec_of(format_), peer_of(format_)
    vocab = codec.vocab
    place = {"city": "Oslo and Rome"}
    call = written(codec, {"content": "", "tool_calls": [call_of(codec, "get_weather", place)]})
    assert call is not None
    assert peer.again().refused_at(call) == len(call)
    assert ours(format_, call)
    stop = codec.stop_ids[0]

    # Markers in the ids of text: a call for the grammar, text for a reader by ids.
    spelled = [*vocab.encode(vocab.decode(call[:-1])), stop]
    assert peer.again().refused_at(spelled) == len(spelled)
    assert "tool_calls" not in codec.parse(spelled, tools=TOOLS).message
    assert ours(format_, spelled)  # It is text, and read as text.
    assert not ours(format_, spelled, tool_choice="required")

    # A text that names a marker.
    prose = [*vocab.encode(f"A call begins with {vocab.decode(call[:1])} and a name."), stop]
    assert peer.again().refused_at(prose) < len(prose)
    assert ours(format_, prose)

    # A control token in the middle of a string.
    at = next(at for at in range(len(call)) if vocab.decode(call[:at]).endswith("Oslo and"))
    forged = [*call[:at], vocab.control["</s>"], *call[at:]]
    assert peer.again().refused_at(forged) == len(forged)
    assert not ours(format_, forged)

    # `required` as a list of JSON.
    walker = walker_of(format_)
    listed = walker.matcher(f"start: %json {json.dumps(SCHEMA_OF_REQUIRED)}")
    text = vocab.encode(json.dumps([{"name": "get_weather", "parameters": place}])).tolist()
    assert walker.refused_at(listed, text) == len(text)
    assert "tool_calls" not in codec.parse([*text, stop], tools=TOOLS).message
    assert walker.refused_at(listed, call) == 0
    assert not ours(format_, [*text, stop], tool_choice="required")


def test_the_end_of_reasoning_is_in_the_grammar() -> None:
    """A prompt that opens reasoning, and a call that has to follow it."""
    walker = walker_of("qwen3:thinking")
    codec, vocab = walker.codec, walker.codec.vocab
    call = call_of(codec, "get_weather", {"city": "Oslo"})
    ids = written(codec, {"content": "", "reasoning": "Hm.", "tool_calls": [call]})
    assert ids is not None
    listed = walker.matcher(f"start: %json {json.dumps(SCHEMA_OF_REQUIRED)}")
    assert walker.refused_at(listed, ids) == 0
    assert vocab.control["</think>"] in ids
    assert ours("qwen3:thinking", ids, tool_choice="required")
