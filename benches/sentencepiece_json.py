"""A SentencePiece model as a `tokenizer.json`, for the libraries that read no model file.

Its merges are every split of a NORMAL piece into two NORMAL pieces, in the order in which
SentencePiece merges: by the score of the product, then by ids.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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


def tokenizer_json(model: bytes, control: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The `tokenizer.json`. `control` names ids that the model names otherwise."""
    pieces, dummy_prefix = read(model)
    ids = {piece.text: at for at, piece in enumerate(pieces)}
    merges = [[left, right] for left, right in _merges(pieces, ids)]
    for name, at in (control or {}).items():
        pieces[at] = Piece(name, 0.0, Kind.CONTROL)
    added = [
        _added(at, piece.text, special=piece.kind is not Kind.USER_DEFINED)
        for at, piece in enumerate(pieces)
        if piece.kind in {Kind.UNKNOWN, Kind.CONTROL, Kind.USER_DEFINED}
    ]
    prefix = [{"type": "Prepend", "prepend": "▁"}] if dummy_prefix else []
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    marks = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
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
            "ignore_merges": False,
            "vocab": {_spelled(piece): at for at, piece in enumerate(pieces)},
            "merges": merges,
        },
    }


def read(model: bytes) -> tuple[list[Piece], bool]:
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


def _spelled(piece: Piece) -> str:
    """The piece; sentencepiece takes one of a NUL for unused, so it is spelled as no text is."""
    return "<unused NUL>" if piece.text == "\0" else piece.text


def _added(at: int, content: str, *, special: bool) -> dict[str, Any]:
    return {
        "id": at,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _merges(pieces: Sequence[Piece], ids: Mapping[str, int]) -> Iterator[tuple[str, str]]:
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
