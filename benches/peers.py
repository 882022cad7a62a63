"""The contenders: what is measured, and what it is measured against.

A peer wants the vocabulary in its own form. `sentencepiece` reads the model file; for `tokenizers`
the file is turned into a `tokenizer.json`, whose merges are every split of a piece into two pieces,
ordered as SentencePiece merges them: by the score of the product.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from chatcodec import Vocab

if TYPE_CHECKING:
    from pathlib import Path

Encode = Callable[[str], Sequence[int]]

BASE = "base"
OWN = "own"
PEER = "peer"


@dataclass(frozen=True)
class Contender:
    """A column of a table. Ratios are of a peer to the bases."""

    name: str
    role: str


FRESH = Contender("fresh", BASE)
FRESH_LIST = Contender("fresh list", BASE)
HOT = Contender("hot", OWN)
CHATCODEC = Contender("chatcodec", BASE)
TOKENIZERS = Contender("tokenizers", PEER)
SENTENCEPIECE = Contender("sentencepiece", PEER)


class Kind(IntEnum):
    """The kinds of pieces of a SentencePiece model."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: Kind


# Fields of a model.
PIECES = 1
NORMALIZER = 3

# InternLM2's control tokens, whose names its model file does not have.
FIRST_CONTROL = 92538
CONTROL = (
    "<|plugin|>",
    "<|interpreter|>",
    "<|action_end|>",
    "<|action_start|>",
    "<|im_end|>",
    "<|im_start|>",
)


def chatcodec(model: Path) -> Encode:
    """A new instance, which has seen no text."""
    return Vocab.load(model).encode


def chatcodec_list(model: Path) -> Encode:
    """The same, returning what the peers return."""
    encode = Vocab.load(model).encode
    return lambda text: encode(text).tolist()


def in_full_layout(model: bytes) -> bytes:
    """A model with all ids of InternLM2's layout: the embedded one ends before the control tokens.

    Messages of a protocol buffer may follow each other in any order, so the rest is appended.
    """
    count = sum(1 for number, _ in _fields(model) if number == PIECES)
    fillers = [f"<unused_{at}>" for at in range(count, FIRST_CONTROL)]
    names = [*fillers, *CONTROL] if count < FIRST_CONTROL else []
    return model + b"".join(_control_piece(name) for name in names)


def tokenizer_json(model: bytes) -> str:
    """A SentencePiece model as `tokenizers` reads it."""
    pieces, dummy_prefix = _read(model)
    # Merging needs pieces by their own text, so the control tokens are named after it.
    ids = {piece.text: at for at, piece in enumerate(pieces)}
    merges = [[left, right] for left, right in _merges(pieces, ids)]
    for at, name in enumerate(CONTROL, FIRST_CONTROL):
        pieces[at] = Piece(name, 0.0, Kind.CONTROL)
    added = [
        {
            "id": at,
            "content": piece.text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": piece.kind is not Kind.USER_DEFINED,
        }
        for at, piece in enumerate(pieces)
        if piece.kind in {Kind.UNKNOWN, Kind.CONTROL, Kind.USER_DEFINED}
    ]
    prefix = [{"type": "Prepend", "prepend": "▁"}] if dummy_prefix else []
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    marks = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [*prefix, spaces]},
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": {
                "type": "Sequence",
                "decoders": [marks, {"type": "ByteFallback"}, {"type": "Fuse"}],
            },
            "model": {
                "type": "BPE",
                "unk_token": pieces[0].text,
                "fuse_unk": True,
                "byte_fallback": True,
                "vocab": {piece.text: at for at, piece in enumerate(pieces)},
                "merges": merges,
            },
        },
        ensure_ascii=False,
    )


def _merges(pieces: Sequence[Piece], ids: dict[str, int]) -> Iterator[tuple[str, str]]:
    normal = {piece.text for piece in pieces if piece.kind is Kind.NORMAL}
    found = []
    for product, piece in enumerate(pieces):
        if piece.kind is not Kind.NORMAL:
            continue
        for at in range(1, len(piece.text)):
            left, right = piece.text[:at], piece.text[at:]
            if left in normal and right in normal:
                found.append((-piece.score, product, ids[left], ids[right], left, right))
    for *_, left, right in sorted(found):
        yield left, right


def _read(model: bytes) -> tuple[list[Piece], bool]:
    """The pieces of a model, and whether it puts a space before text."""
    pieces = []
    dummy_prefix = True
    for number, message in _fields(model):
        if number == PIECES:
            fields = dict(_fields(message))
            score: float = struct.unpack("<f", fields.get(2, bytes(4)))[0]
            kind = Kind(fields.get(3, b"\x01")[0])
            pieces.append(Piece(fields[1].decode(), score, kind))
        elif number == NORMALIZER:
            dummy_prefix = dict(_fields(message)).get(3) != b"\x00"
    return pieces, dummy_prefix


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer: numbers and contents, a varint's as it stands."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        start = at
        if wire == 0:
            _, end = _varint(message, at)
        elif wire == 2:
            length, start = _varint(message, at)
            end = start + length
        else:
            end = at + (8 if wire == 1 else 4)
        yield number, message[start:end]
        at = end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _control_piece(name: str) -> bytes:
    """A CONTROL piece as a field of a model: short enough for lengths of one byte."""
    text = name.encode()
    piece = b"\x0a" + bytes([len(text)]) + text + b"\x18" + bytes([Kind.CONTROL])
    return b"\x0a" + bytes([len(piece)]) + piece
