"""Constraints beside xgrammar's own grammar for the same family: made, compiled, masks.

`make bench-constraints` prints the table: medians of one process, ours and theirs in turn. Tools
have 2 KB each, and new names each time, so that nothing is kept, except in the row that says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from chatcodec import Codec, Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parent.parent
EMBEDDED = ROOT / "rust" / "vocab" / "src" / "vocab" / "embedded.model"
FORMAT, PEER = "qwen3:instruct", "qwen_3"
COUNTS = (1, 8, 32)
TIMES = {1: 15, 8: 9, 32: 5}
WORDS = "a parameter of this tool, described at some length for the model that calls it"


class _Absent(types.ModuleType):
    """A module of classes that do nothing: xgrammar imports torch, and needs none here."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda _self, *_given, **_named: None})
        setattr(self, name, made)
        return made


def load_xgrammar() -> tuple[Any, Any]:
    """xgrammar, and the module of its own structural tags."""
    importlib.import_module("tvm_ffi")
    if importlib.util.find_spec("torch") is None:
        for name in ("torch", "transformers"):
            sys.modules[name] = _Absent(name)
    own = importlib.import_module("xgrammar.builtin_structural_tag")
    return importlib.import_module("xgrammar"), own


def load_codec() -> Codec:
    """The embedded vocabulary with the format's control tokens."""
    vocab = Vocab.load(EMBEDDED)
    spellings = ["<|endoftext|>", "<tool_call>", "</tool_call>"]
    spellings += ["<tool_response>", "</tool_response>", "<|im_start|>", "<|im_end|>"]
    lacking = [spelling for spelling in spellings if spelling not in vocab.control]
    tokens = {spelling: vocab.size + nth for nth, spelling in enumerate(lacking)}
    return Codec(FORMAT, Vocab.load(EMBEDDED, special_tokens=tokens))


def tools_of(count: int, salt: int) -> list[dict[str, Any]]:
    """So many tools of 2 KB."""

    def part(kind: str) -> dict[str, str]:
        return {"type": kind, "description": WORDS}

    def tool(nth: int) -> dict[str, Any]:
        properties: dict[str, Any] = {
            f"{kind}_{nth}_{at}": part(kind)
            for at in range(4)
            for kind in ("string", "integer", "boolean")
        }
        properties["inner"] = {
            "type": "object",
            "properties": {
                f"field_{at}": {"type": "string", "description": WORDS} for at in range(4)
            },
            "required": ["field_0"],
            "additionalProperties": False,
        }
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [f"string_{nth}_0"],
            "additionalProperties": False,
        }
        function = {"name": f"tool_{salt}_{nth}", "description": WORDS, "parameters": parameters}
        return {"type": "function", "function": function}

    return [tool(nth) for nth in range(count)]


def timed(calls: dict[str, Callable[[int], object]], times: int) -> dict[str, float]:
    """The median milliseconds of each, taken in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for nth in range(times):
        for name, call in calls.items():
            begun = time.perf_counter()
            call(nth)
            seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(taken) * 1e3 for name, taken in seconds.items()}


def mask_times(matcher: Any, ids: Sequence[int], size: int) -> float:  # noqa: ANN401
    """The median microseconds of a mask of xgrammar's, along a completion."""
    taken = []
    for id_ in ids:
        bits = np.full((1, (size + 31) // 32), -1, np.int32)
        begun = time.perf_counter()
        matcher.fill_next_token_bitmask(bits)
        taken.append(time.perf_counter() - begun)
        if not matcher.accept_token(id_):
            raise ValueError(id_)
    return statistics.median(taken) * 1e6


def main() -> None:
    """Measure and print."""
    xgrammar, own = load_xgrammar()
    codec = load_codec()
    llguidance = importlib.import_module("llguidance")

    def info(tokens: list[bytes]) -> Any:  # noqa: ANN401
        raw = xgrammar.VocabType.RAW
        stops = [*codec.stop_ids]
        return xgrammar.TokenizerInfo(
            tokens, vocab_type=raw, vocab_size=codec.vocab.size, stop_token_ids=stops
        )

    ours = info(codec.constrain().xgrammar_tokens())
    theirs = info([codec.vocab.token_bytes(id_) for id_ in range(codec.vocab.size)])

    def compiled(tokens: Any, tag: Any) -> Any:  # noqa: ANN401
        compiler = xgrammar.GrammarCompiler(tokens, max_threads=1, cache_enabled=False)
        return compiler.compile_grammar(xgrammar.Grammar.from_structural_tag(tag))

    def masks(tokens: Any, tag: Any, ids: Sequence[int]) -> float:  # noqa: ANN401
        matcher = xgrammar.GrammarMatcher(compiled(tokens, tag))
        return mask_times(matcher, ids, codec.vocab.size)

    def row(count: int) -> dict[str, float]:
        given = [tools_of(count, salt) for salt in range(TIMES[count])]

        def peer(nth: int) -> Any:  # noqa: ANN401
            return own.get_model_structural_tag(PEER, tools=given[nth], reasoning="disabled")

        def lark(nth: int) -> str:
            return codec.constrain(tools=given[nth], parallel=False).lark()

        def gbnf(nth: int) -> str:
            return codec.constrain(tools=given[nth], tool_choice="required").gbnf()

        tag = codec.constrain(tools=given[0]).structural_tag()
        checked = llguidance.grammar_from("grammar", lark(0))
        ids = call_of(codec, given[0][0]["function"])
        return {
            **timed(
                {
                    "tag": lambda nth: codec.constrain(tools=given[nth]).structural_tag(),
                    "peer": lambda nth: peer(nth).model_dump_json(),
                    "lark": lark,
                    "gbnf": gbnf,
                    "kept": lambda _: codec.constrain(tools=given[-1]).structural_tag(),
                },
                TIMES[count],
            ),
            **timed(
                {
                    "compiled": lambda _: compiled(ours, tag),
                    "peer compiled": lambda _: compiled(theirs, peer(0)),
                    "checked": lambda _: llguidance.LLMatcher.validate_grammar(checked),
                },
                3,
            ),
            "mask": masks(ours, tag, ids),
            "peer mask": masks(theirs, peer(0), ids),
        }

    rows = [row(count) for count in COUNTS]
    size = len(json.dumps(tools_of(1, 0)[0]))
    lines = [f"{FORMAT} beside xgrammar's {PEER!r}, tools of {size} bytes, {codec.vocab.size} ids"]
    lines.append("| tools |" + "".join(f" {count} |" for count in COUNTS))
    lines.append("|---|" + "---|" * len(COUNTS))
    for title, key in TABLE:
        cells = [f"{each[key]:.2f}" for each in rows]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    sys.stdout.write("\n".join([*lines, ""]))


def call_of(codec: Codec, function: dict[str, Any]) -> list[int]:
    """The ids of a call, up to the one that ends the turn."""
    name = next(iter(function["parameters"]["properties"]))
    call = {"name": function["name"], "arguments": json.dumps({name: "Oslo and Rome"})}
    answer = {"role": "assistant", "tool_calls": [{"type": "function", "function": call}]}
    asked = {"role": "user", "content": "?"}
    prompt = codec.encode([asked], add_generation_prompt=True, boundary="isolated")
    whole = codec.encode([asked, {"content": "", **answer}], boundary="isolated").ids.tolist()
    return whole[len(prompt) : whole.index(codec.stop_ids[0], len(prompt))]


TABLE = [
    ("made and printed for xgrammar, ms", "tag"),
    ("xgrammar's own, ms", "peer"),
    ("made and printed for llguidance, ms", "lark"),
    ("made and printed for llama.cpp, ms", "gbnf"),
    ("asked for again, ms", "kept"),
    ("compiled by xgrammar, ms", "compiled"),
    ("xgrammar's own, compiled, ms", "peer compiled"),
    ("checked by llguidance, ms", "checked"),
    ("a mask in xgrammar, µs", "mask"),
    ("a mask of xgrammar's own, µs", "peer mask"),
]


if __name__ == "__main__":
    main()
