"""Ids to events: what `Stream.push` costs an id, one at a time and in bulk, and that it is linear.

tokenizers' `DecodeStream` is beside it for text: it gives text alone and reads no turns or calls.
The rows of one id a push hold Python's loop and call too, some 10 ns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from chatcodec import Codec

from . import texts
from .measure import Bench, Turn, cpu_time, takes_turns
from .peers import CHATCODEC, TOKENIZERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECTION = "Stream: ids to events"
TEXT_IDS = 20_000
RARE = "\U0001fae8\U0001fabf\U0001fad8"
"""Characters that vocabularies spell in four bytes: three of four pushes give no event."""
SIZES = {"64 KB": 1 << 16, "1 MB": 1 << 20}


@pytest.fixture(scope="module")
def codec(model: Path) -> Codec:
    return Codec("internlm2", vocab=model)


@pytest.fixture(scope="module")
def text_ids(codec: Codec) -> list[int]:
    return codec.vocab.encode(texts.document("English")).tolist()[:TEXT_IDS]


@takes_turns(CHATCODEC, TOKENIZERS)
@cpu_time
def test_push_text(bench: Bench, codec: Codec, text_ids: list[int], turn: Turn) -> None:
    """Nearly each push gives one event."""
    row = "text, one id a push"
    cell = bench.cell(SECTION, row, turn.contender, len(text_ids), "id")
    if turn.contender is CHATCODEC:
        cell.pedantic(_push_each, (codec, text_ids), warmup_rounds=1, rounds=5)
        return
    tokenizer = bench.peer(TOKENIZERS)
    decoders = pytest.importorskip("tokenizers.decoders")

    def decode_each() -> list[str | None]:
        step = decoders.DecodeStream(skip_special_tokens=False).step
        return [step(tokenizer, id_) for id_ in text_ids]

    bench.checks.check(
        row,
        TOKENIZERS.name,
        lambda: codec.parse(text_ids).message["content"],
        lambda: "".join(text or "" for text in decode_each()),
    )
    cell.pedantic(decode_each, rounds=2)


@takes_turns(CHATCODEC)
@cpu_time
def test_push_bytes(bench: Bench, codec: Codec, turn: Turn) -> None:
    """Few pushes give an event."""
    ids = codec.vocab.encode(RARE * 1000).tolist()
    row = f"characters of {len(ids) // 3000} ids, one id a push"
    cell = bench.cell(SECTION, row, turn.contender, len(ids), "id")
    cell.pedantic(_push_each, (codec, ids), warmup_rounds=1, rounds=5)


@takes_turns(CHATCODEC)
@cpu_time
def test_push_list(bench: Bench, codec: Codec, text_ids: list[int], turn: Turn) -> None:
    cell = bench.cell(SECTION, "text, a list at once", turn.contender, len(text_ids), "id")
    cell.pedantic(lambda: codec.stream().push(text_ids), warmup_rounds=1, rounds=10)


@takes_turns(CHATCODEC)
@cpu_time
def test_push_array(bench: Bench, codec: Codec, text_ids: list[int], turn: Turn) -> None:
    ids = codec.vocab.encode(codec.vocab.decode(text_ids))
    cell = bench.cell(SECTION, "text, an array at once", turn.contender, len(ids), "id")
    cell.pedantic(lambda: codec.stream().push(ids), warmup_rounds=1, rounds=10)


@takes_turns(CHATCODEC)
@cpu_time
def test_parse(bench: Bench, codec: Codec, text_ids: list[int], turn: Turn) -> None:
    cell = bench.cell(SECTION, "text, parse", turn.contender, len(text_ids), "id")
    cell.pedantic(codec.parse, (text_ids,), warmup_rounds=1, rounds=10)


@takes_turns(CHATCODEC)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["one id a push", "parse"])
@cpu_time
def test_arguments(bench: Bench, codec: Codec, way: str, size: str, turn: Turn) -> None:
    """The time per id must not grow with the size."""
    ids = _call(codec, SIZES[size])
    row = f"a call with {size} of arguments, {way}"
    cell = bench.cell(SECTION, row, turn.contender, len(ids), "id")

    if way == "parse":
        cell.pedantic(codec.parse, (ids,), rounds=3)
    else:
        cell.pedantic(_push_each, (codec, ids), rounds=3)


def _push_each(codec: Codec, ids: Sequence[int]) -> None:
    push = codec.stream().push
    for id_ in ids:
        push(id_)


def _call(codec: Codec, size: int) -> list[int]:
    """The ids that a model generates for one call with about so many bytes of arguments."""
    text = next(texts.pieces(texts.document("English") + texts.document("code"), size))
    arguments = json.dumps({"text": text}, ensure_ascii=False)
    function = {"name": "write", "arguments": arguments}
    question = [{"role": "user", "content": "Write."}]
    answer = {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}
    ids = codec.encode([*question, answer]).ids.tolist()
    return ids[len(codec.encode(question).ids) :]
