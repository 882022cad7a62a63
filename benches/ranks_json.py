"""A file of tiktoken ranks as a `tokenizer.json`, for the libraries that read no ranks.

Bytes are spelled as byte-level BPE spells them. A rank's merges are all its splits into two ranks,
in the order of the ranks of their halves; `ignore_merges` does what tiktoken does with a whole
pre-token that is in the table.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def read(ranks: bytes) -> dict[bytes, int]:
    """The tokens of a file of ranks."""
    pairs = (line.split() for line in ranks.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def tokenizer_json(ranks: Mapping[bytes, int], pattern: str) -> dict[str, Any]:
    """The `tokenizer.json`, without added tokens."""
    spelled = _spelling()
    vocab = {"".join(map(spelled.__getitem__, token)): rank for token, rank in ranks.items()}
    merges = [
        ["".join(map(spelled.__getitem__, half)) for half in halves] for halves in _merges(ranks)
    ]
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    bytes_ = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes_]},
        "post_processor": None,
        "decoder": bytes_,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": vocab,
            "merges": merges,
        },
    }


def _merges(ranks: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    for token in sorted(ranks, key=ranks.__getitem__):
        splits = ((token[:at], token[at:]) for at in range(1, len(token)))
        found = [(left, right) for left, right in splits if left in ranks and right in ranks]
        yield from sorted(found, key=lambda halves: (ranks[halves[0]], ranks[halves[1]]))


def _spelling() -> list[str]:
    """The character that stands for each byte: itself where it is visible, else one from U+0100."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    free = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(free)) for byte in range(0x100)]
