"""A vocabulary for a format file alone: its control tokens, and each byte as a token of text."""

from __future__ import annotations

import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from chatcodec._core import Vocab

__all__ = ["special_tokens_of", "vocabulary_of"]


def vocabulary_of(text: str) -> Vocab:
    """Return a byte-level vocabulary with a format file's control tokens. Its ids are no model's.

    Raises `tomllib.TOMLDecodeError` for text that is not TOML.
    """
    tokens = _spellings(tomllib.loads(text))
    alphabet = _alphabet()
    added = [
        {"id": len(alphabet) + nth, "content": spelling, "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for nth, spelling in enumerate(tokens)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    file = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level | {"trim_offsets": True},
        "post_processor": None,
        "decoder": byte_level | {"trim_offsets": True},
        "model": {
            "type": "BPE",
            "vocab": {char: n for n, char in enumerate(alphabet)},
            "merges": [],
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        path.write_text(json.dumps(file), encoding="utf-8")
        return Vocab.load(path)


def special_tokens_of(text: str) -> dict[str, str]:
    """Return a template's `bos_token` and `eos_token`: a format file's tokens `BOS` and `EOS`."""
    control = tomllib.loads(text).get("control", {})
    found = {name: control.get(name) for name in ("BOS", "EOS")}
    return {
        f"{name.lower()}_token": spelling if isinstance(spelling, str) else spelling[0]
        for name, spelling in found.items()
        if spelling
    }


def _spellings(file: dict[str, Any]) -> list[str]:
    """Return one spelling of each control token, those of variants and the appended ones last."""
    found: list[object] = []
    for table in (file, *_members(file, "variant")):
        # The first spelling of a list; a variant takes a token away with `false`.
        found += [text[0] if text and isinstance(text, list) else text
                  for text in _members(table, "control")]  # fmt: skip
    appended = file.get("append")
    found += appended if isinstance(appended, list) else []
    return list(dict.fromkeys(text for text in found if text and isinstance(text, str)))


def _members(table: object, key: str) -> list[Any]:
    """Return the values of a table within a table; none where there is no such table."""
    inner = table.get(key) if isinstance(table, dict) else None
    return list(inner.values()) if isinstance(inner, dict) else []


def _alphabet() -> list[str]:
    """Return the characters that stand for the 256 bytes in byte-level vocabularies."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    chars = {byte: chr(byte) for byte in shown}
    chars |= {byte: chr(256 + nth) for nth, byte in enumerate(others)}
    return [chars[byte] for byte in range(256)]
