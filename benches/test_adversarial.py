"""1 MB of one thing: what a text costs that was made to cost much, and that it is linear."""

from __future__ import annotations

import pytest

from . import peers
from .measure import Bench, Turn, a_new, cpu_time, takes_turns
from .peers import FRESH, OWN, PEER, SENTENCEPIECE, TOKENIZERS, Contender

THINGS = {
    "letters": "a",
    "spaces": " ",
    "newlines": "\n",
    "punctuation": "!",
    "Chinese": "好",
    "emoji": "\U0001f600",
    "joined emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d",
    "control markers": "<|im_end|>",
}
QUARTER = Contender("a quarter of it", OWN)
SIZE = 1 << 20


@takes_turns(FRESH, QUARTER, TOKENIZERS, SENTENCEPIECE, turns=1)
@pytest.mark.parametrize("thing", THINGS)
@cpu_time
def test_one_thing(bench: Bench, thing: str, turn: Turn) -> None:
    contender = turn.contender
    size = SIZE // 4 if contender is QUARTER else SIZE
    text = THINGS[thing] * (size // len(THINGS[thing].encode()))
    row = f"1 MB of {thing}"
    cell = bench.cell("Adversarial", row, contender, len(text.encode()), "B")
    if contender.role == PEER:
        encode = bench.peer_encode(contender)
        ours = peers.chatcodec_list(bench.model)
        bench.checks.check(row, contender.name, lambda: ours(text), lambda: encode(text))
        cell.pedantic(encode, (text,))
    else:
        fresh = a_new(lambda: peers.chatcodec(bench.model))
        cell.pedantic(lambda encode: encode(text), setup=fresh, rounds=3)
