"""Text to ids: what `Vocab.encode` costs, beside the plain encode of the peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import peers, texts
from .measure import TURNS, Bench, Turn, a_new, cpu_time, each, takes_turns, wall_clock
from .peers import FRESH, FRESH_LIST, HOT, PEER, SENTENCEPIECE, TOKENIZERS, Contender

if TYPE_CHECKING:
    from pathlib import Path

by_kind = pytest.mark.parametrize("kind", texts.KINDS)


@takes_turns(FRESH, FRESH_LIST, HOT, TOKENIZERS, SENTENCEPIECE)
@by_kind
@cpu_time
def test_document(bench: Bench, kind: str, turn: Turn) -> None:
    """Fresh: each round has a new instance."""
    contender = turn.contender
    text = texts.document(kind)
    size = len(text.encode())
    cell = bench.cell("Plain encode: a document", kind, contender, size, "B")
    if contender.role == PEER:
        encode = bench.peer_encode(contender)
        ours = peers.chatcodec_list(bench.model)
        what = f"document, {kind}"
        bench.checks.check(what, contender.name, lambda: ours(text), lambda: encode(text))
        cell.pedantic(encode, (text,))
    elif contender is HOT:
        cell.pedantic(_load(contender, bench.model), (text,), warmup_rounds=2, rounds=5)
    else:
        fresh = a_new(lambda: _load(contender, bench.model))
        cell.pedantic(lambda encode: encode(text), setup=fresh, rounds=3)


@takes_turns(FRESH, FRESH_LIST, HOT, TOKENIZERS, SENTENCEPIECE)
@by_kind
@cpu_time
def test_message(bench: Bench, kind: str, turn: Turn) -> None:
    """Fresh: an instance that has seen half of the document; each round has another message."""
    contender = turn.contender
    messages = texts.messages(kind)
    half = len(messages) // 2
    unseen = messages[half + turn.number :: TURNS]
    section = "Plain encode: a message of 2.8 KB"
    cell = bench.cell(section, kind, contender, texts.MESSAGE_BYTES, "B")
    if contender is HOT:
        encode = _load(contender, bench.model)
        cell.pedantic(encode, (unseen[0],), warmup_rounds=2, rounds=30, iterations=10)
        return
    if contender.role == PEER:
        encode = bench.peer_encode(contender)
        ours = peers.chatcodec_list(bench.model)
        bench.checks.check(
            f"messages, {kind}",
            contender.name,
            lambda: [ours(message) for message in messages],
            lambda: [encode(message) for message in messages],
        )
    else:
        encode = _load(contender, bench.model)
        for message in messages[:half]:
            encode(message)
    cell.pedantic(encode, setup=each(unseen), rounds=len(unseen))


@takes_turns(FRESH_LIST, TOKENIZERS, SENTENCEPIECE)
@by_kind
@wall_clock
def test_messages(bench: Bench, kind: str, turn: Turn) -> None:
    """Ours is a loop on one core, `Vocab` has no batch; the peers' batches use all cores."""
    contender = turn.contender
    messages = texts.messages(kind)
    size = sum(len(message.encode()) for message in messages)
    section = "Plain encode: a document's messages at once, all cores"
    cell = bench.cell(section, kind, contender, size, "B")
    if contender is FRESH_LIST:
        fresh = a_new(lambda: _load(contender, bench.model))
        cell.pedantic(lambda encode: [encode(m) for m in messages], setup=fresh, rounds=3)
        return
    peer = bench.peer(contender)

    def tokenizers() -> object:
        encodings = peer.encode_batch(messages, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def sentencepiece() -> object:
        return peer.encode(messages, num_threads=-1)

    cell.pedantic(tokenizers if contender is TOKENIZERS else sentencepiece)


def _load(contender: Contender, model: Path) -> peers.Encode:
    return peers.chatcodec_list(model) if contender is FRESH_LIST else peers.chatcodec(model)
