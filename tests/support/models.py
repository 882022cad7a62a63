"""SentencePiece models made for a test: trained, or written piece by piece.

The wire format of `sentencepiece_model.proto`, as far as is needed to change a model: a message is
a list of fields, and a field that nobody changes is written as it was read.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import io
import json
import struct
import textwrap
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import ModuleType

Field = tuple[int, int | bytes]
"""A field's number and value: an int for a varint, bytes for all else that models hold."""

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2


def varint(value: int) -> bytes:
    """An unsigned int in groups of seven bits."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def delimited(number: int, value: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(fields: Iterable[Field]) -> bytes:
    """A message of varints and bytes."""
    return b"".join(
        varint(number << 3) + varint(value) if isinstance(value, int) else delimited(number, value)
        for number, value in fields
    )


@dataclass(frozen=True)
class Piece:
    """One piece of a vocabulary."""

    text: str
    score: float = 0.0
    kind: int = NORMAL

    def proto(self) -> bytes:
        """The piece as a message."""
        score = varint(2 << 3 | 5) + struct.pack("<f", self.score)
        return delimited(1, self.text.encode()) + score + message([(3, self.kind)])


@dataclass(frozen=True)
class Model:
    """A model with the fields of its trainer's and its normalizer's specs by their numbers."""

    pieces: list[Piece]
    trainer: dict[int, int | bytes] = field(default_factory=lambda: {3: BPE, 35: 1})
    normalizer: dict[int, int | bytes] = field(default_factory=lambda: {1: b"identity", 3: 0, 4: 0})

    def proto(self) -> bytes:
        """The model as the content of a `.model` file."""
        pieces = b"".join(delimited(1, piece.proto()) for piece in self.pieces)
        trainer = delimited(2, message(self.trainer.items()))
        return pieces + trainer + delimited(3, message(self.normalizer.items()))


def fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, a float as its four bytes."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(content):
        tag = number()
        match tag & 7:
            case 0:
                yield tag >> 3, number()
            case kind:
                size = {1: 8, 5: 4}.get(kind) or number()
                yield tag >> 3, content[at : at + size]
                at += size


def read(content: bytes) -> Model:
    """A model as the library wrote it, of the fields that matter here."""
    model = Model([], {}, {})
    for number, value in fields(content):
        if number == 1 and isinstance(value, bytes):
            of = dict(fields(value))
            text, score = of[1], of.get(2, bytes(4))
            if isinstance(text, bytes) and isinstance(score, bytes):
                score = struct.unpack("<f", score)[0]
                model.pieces.append(Piece(text.decode(), score, int(of.get(3, NORMAL))))
        elif number in {2, 3} and isinstance(value, bytes):
            spec = model.trainer if number == 2 else model.normalizer
            wanted = {2: (3, 24, 35), 3: (1, 2, 3, 4, 5)}[number]
            spec |= {key: value for key, value in fields(value) if key in wanted}
    return model


def specials() -> list[Piece]:
    """What every model with byte fallback begins with: ids 0 to 258."""
    control = [
        Piece("<unk>", kind=UNKNOWN),
        Piece("<s>", kind=CONTROL),
        Piece("</s>", kind=CONTROL),
    ]
    return control + [Piece(f"<0x{byte:02X}>", kind=BYTE) for byte in range(256)]


CHINESE = """\
话说天下大势，分久必合，合久必分。周末七国分争，并入于秦。——及秦灭之后，楚、汉分争，又并入于汉……
汉朝自高祖斩白蛇而起义，一统天下，后来光武中兴，传至献帝，遂分为三国。推其致乱之由，殆始于桓、灵二帝。
"""


def import_sentencepiece() -> ModuleType:
    """The library, whose generated module warns about itself when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import sentencepiece  # noqa: PLC0415
    return sentencepiece


@functools.lru_cache(maxsize=32)
def sentencepiece(model: bytes) -> tuple[Callable[[str], list[int]], Callable[[list[int]], str]]:
    """Plain `encode` and `decode` of the sentencepiece library."""
    processor = import_sentencepiece().SentencePieceProcessor(model_proto=model)
    return processor.encode, processor.decode


ENGLISH = inspect.getdoc(argparse) or ""


@functools.cache
def train(**flags: str | int | bool) -> bytes:
    """A model of a few hundred pieces, trained with flags of sentencepiece's trainer."""
    code = inspect.getsource(argparse).splitlines()
    english, chinese = textwrap.wrap(ENGLISH, 60), CHINESE.splitlines()
    lines = [*code, *english * 20, *chinese * 40, *("12,345.67 — 890\tx  y",) * 40]
    model = io.BytesIO()
    defaults = {
        "vocab_size": 700,
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "character_coverage": 0.999,
        "minloglevel": 2,
    }
    import_sentencepiece().SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, **(defaults | flags)
    )
    return model.getvalue()


def with_dummy_prefix() -> bytes:
    """A small vocabulary of InternLM2's control tokens that puts a space before text."""
    control = "<|plugin|>,<|interpreter|>,<|action_end|>,<|action_start|>,<|im_end|>,<|im_start|>"
    return train(control_symbols=control, remove_extra_whitespaces=False)


TURNS = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template of turns of text."""


def folder(path: Path) -> Path:
    """A model's folder: a small vocabulary, and a template of turns."""
    path.mkdir(exist_ok=True)
    (path / "tokenizer.model").write_bytes(with_dummy_prefix())
    (path / "chat_template.jinja").write_text(TURNS, encoding="utf-8")
    config = {"bos_token": "<s>", "eos_token": "<|im_end|>"}
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def gguf(template: str) -> bytes:
    """A GGUF file of single bytes, `<s>`, `<|im_start|>` and `<|im_end|>`, with a template."""
    byte_level = [chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))]
    byte_level += [chr(256 + nth) for nth in range(256 - len(byte_level))]
    tokens = ["<s>", "<|im_start|>", "<|im_end|>", *sorted(byte_level)]
    string, numbers, array, number = 8, 5, 9, 4

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def member(key: str, kind: int, value: bytes) -> bytes:
        return text(key) + struct.pack("<I", kind) + value

    listed = struct.pack("<IQ", string, len(tokens)) + b"".join(map(text, tokens))
    types = struct.pack("<IQ259i", numbers, 259, 3, 3, 3, *[1] * 256)
    members = [
        member("tokenizer.ggml.model", string, text("gpt2")),
        member("tokenizer.ggml.pre", string, text("gpt-2")),
        member("tokenizer.ggml.tokens", array, listed),
        member("tokenizer.ggml.token_type", array, types),
        member("tokenizer.ggml.merges", array, struct.pack("<IQ", string, 0)),
        member("tokenizer.ggml.bos_token_id", number, struct.pack("<I", 0)),
        member("tokenizer.chat_template", string, text(template)),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(members)) + b"".join(members)
