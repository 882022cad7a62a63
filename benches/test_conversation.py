"""Messages to ids: `Codec.encode`, beside a template rendered to a string that is then tokenized.

The peers' way is what serving stacks do: jinja2 renders the format's template, and the string is
encoded with the control tokens matched in it. sentencepiece does not know InternLM2's, so its
string is cut at them and the runs between are encoded one by one. The contents spell no control
token, so all must give the same ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jinja2
import pytest
from chatcodec import Codec

from . import peers, texts
from .measure import TURNS, Bench, Turn, a_new, cpu_time, each, takes_turns, wall_clock
from .peers import FRESH, FRESH_LIST, HOT, PEER, SENTENCEPIECE, TOKENIZERS, Contender
from .texts import Conversation

if TYPE_CHECKING:
    from pathlib import Path

# The chat template of InternLM2's tokenizer_config.json.
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
BOS = "<s>"

SEEN_BYTES = 300_000
"""Conversations that a codec has seen before it is timed."""
UNSEEN = 12
"""Conversations that it is timed on in one turn."""
BATCH = 1000
BATCH_BYTES = 2_000

ToIds = Callable[[Conversation], Sequence[int]]

_ENVIRONMENT = jinja2.Environment(keep_trailing_newline=True, autoescape=False)  # noqa: S701 - text
_TEMPLATE = _ENVIRONMENT.from_string(TEMPLATE)
_CONTROL = re.compile(f"({'|'.join(map(re.escape, ['<s>', *peers.CONTROL]))})")


@takes_turns(FRESH, FRESH_LIST, HOT, TOKENIZERS, SENTENCEPIECE)
@pytest.mark.parametrize("size", [2_000, 25_000])
@cpu_time
def test_conversation(bench: Bench, size: int, turn: Turn) -> None:
    """Fresh: a codec that has seen other conversations; each round has another one."""
    contender = turn.contender
    seen = SEEN_BYTES // size
    conversations = texts.conversations(seen + TURNS * UNSEEN, size)
    start = seen + turn.number * UNSEEN
    unseen = conversations[start : start + UNSEEN]
    row = f"10 messages, {size // 1000} KB"
    cell = bench.cell("Conversation: messages to ids", row, contender, size, "B")
    codec = _codec(bench.model)
    if contender is HOT:
        cell.pedantic(_to_ids(HOT, codec), (unseen[0],), warmup_rounds=2, rounds=20, iterations=10)
        return
    if contender.role == PEER:
        encode = _peer(bench, contender, codec)
        ours = _to_ids(FRESH_LIST, codec)
        bench.checks.check(
            row,
            contender.name,
            lambda: [ours(conversation) for conversation in conversations],
            lambda: [encode(conversation) for conversation in conversations],
        )
    else:
        encode = _to_ids(contender, codec)
        for conversation in conversations[:seen]:
            encode(conversation)
    cell.pedantic(encode, setup=each(unseen), rounds=UNSEEN)


@takes_turns(FRESH, FRESH_LIST, HOT, TOKENIZERS, SENTENCEPIECE)
@wall_clock
def test_batch(bench: Bench, turn: Turn) -> None:
    """Fresh: each round has a new codec."""
    contender = turn.contender
    batch = texts.conversations(BATCH, BATCH_BYTES)
    section = f"Conversation: {BATCH} at once, all cores"
    row = f"10 messages, {BATCH_BYTES // 1000} KB each"
    cell = bench.cell(section, row, contender, BATCH * BATCH_BYTES, "B")
    codec = _codec(bench.model)
    if contender is HOT:
        cell.pedantic(lambda: codec.encode_batch(batch).ids, warmup_rounds=1, rounds=3)
    elif contender.role == PEER:
        encode = _peer_batch(bench, contender, codec)
        ours = _to_ids(FRESH_LIST, codec)
        bench.checks.check(
            section,
            contender.name,
            lambda: [ours(conversation) for conversation in batch],
            lambda: encode(batch),
        )
        cell.pedantic(encode, (batch,))
    else:
        runs = {
            FRESH: lambda codec: codec.encode_batch(batch).ids,
            FRESH_LIST: lambda codec: [e.ids.tolist() for e in codec.encode_batch(batch)],
        }
        cell.pedantic(runs[contender], setup=a_new(lambda: _codec(bench.model)), rounds=3)


def _codec(model: Path) -> Codec:
    return Codec("internlm2", vocab=model)


def _to_ids(contender: Contender, codec: Codec) -> ToIds:
    if contender is FRESH_LIST:
        return lambda conversation: codec.encode(conversation).ids.tolist()
    return lambda conversation: codec.encode(conversation).ids


def _render(conversation: Conversation) -> str:
    return _TEMPLATE.render(messages=conversation, bos_token=BOS, add_generation_prompt=True)


def _peer(bench: Bench, contender: Contender, codec: Codec) -> ToIds:
    encode = bench.peer_encode(contender)
    control = codec.vocab.control

    def tokenizers(conversation: Conversation) -> Sequence[int]:
        return encode(_render(conversation))

    def sentencepiece(conversation: Conversation) -> Sequence[int]:
        ids: list[int] = []
        # Text and control tokens by turns.
        for at, part in enumerate(_CONTROL.split(_render(conversation))):
            if at % 2:
                ids.append(control[part])
            else:
                ids += encode(part)
        return ids

    return tokenizers if contender is TOKENIZERS else sentencepiece


def _peer_batch(
    bench: Bench, contender: Contender, codec: Codec
) -> Callable[[list[Conversation]], list[list[int]]]:
    peer = bench.peer(contender)
    control = codec.vocab.control

    def tokenizers(batch: list[Conversation]) -> list[list[int]]:
        rendered = [_render(conversation) for conversation in batch]
        return [e.ids for e in peer.encode_batch(rendered, add_special_tokens=False)]

    def sentencepiece(batch: list[Conversation]) -> list[list[int]]:
        split = [_CONTROL.split(_render(conversation)) for conversation in batch]
        runs = iter(peer.encode([run for parts in split for run in parts[::2]], num_threads=-1))
        made = []
        for parts in split:
            ids = next(runs)
            for spelling in parts[1::2]:
                ids.append(control[spelling])
                ids += next(runs)
            made.append(ids)
        return made

    return tokenizers if contender is TOKENIZERS else sentencepiece
