"""GGUF files in the tokenizers library: their tokens and merges, and the steps that split a text.

The steps are those of the model's own `tokenizer.json`. Nothing of this project takes part.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


def hex_ranges(ranges: str) -> str:
    """Code points and ranges of them, as a class of characters has them."""
    return re.sub(r"[0-9A-F]+", r"\\x{\g<0>}", ranges).replace(" ", "")


GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CHINESE = r"[一-龥ࠀ-一가-\x{D7FF}]+"
CASED = hex_ranges(
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F "
    "386 388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD "
    "1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 "
    "1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 "
    "1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 "
    "2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 "
    "2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 "
    "A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 "
    "104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943"
)
SIGNS = "!-/:-~！-／：-～‘-‟\u3000-。"
DEEPSEEK_LLM = (r"[\r\n]", rf"\s?[{CASED}]+", rf"\s?[{SIGNS}]+", r"\s+$", CHINESE, "Digits")
"""How DeepSeek-LLM splits text."""


def metadata(path: Path) -> dict[str, Any]:
    """The metadata of a GGUF file, version 2 or 3."""
    content = path.read_bytes()
    at = 24
    formats = ["B", "b", "H", "h", "I", "i", "f", "?", ".", ".", "Q", "q", "d"]

    def number(code: str) -> Any:  # noqa: ANN401
        nonlocal at
        value = struct.unpack_from(f"<{code}", content, at)[0]
        at += struct.calcsize(code)
        return value

    def value(kind: int) -> Any:  # noqa: ANN401
        nonlocal at
        if kind == 8:
            size = number("Q")
            at += size
            return content[at - size : at].decode()
        if kind == 9:
            item, count = number("I"), number("Q")
            return [value(item) for _ in range(count)]
        return number(formats[kind])

    assert content[:4] == b"GGUF"
    return {value(8): value(number("I")) for _ in range(struct.unpack_from("<Q", content, 16)[0])}


def encoder(path: Path, steps: Iterable[str]) -> Callable[[str], list[int]]:
    """The tokens and merges of a byte-level GGUF file in the tokenizers library.

    `steps` split a text one after the other: patterns, or names of the library's pre-tokenizers.
    """
    import tokenizers as library  # noqa: PLC0415

    split = library.pre_tokenizers
    known = {
        "Digits": split.Digits(individual_digits=True),
        "Punctuation": split.Punctuation("contiguous"),
        "GPT-2": split.Split(library.Regex(GPT2), "isolated"),
    }
    values = metadata(path)
    tokens, types = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in values["tokenizer.ggml.merges"]]
    vocab = {token: id_ for id_, token in enumerate(tokens)}
    made = library.Tokenizer(library.models.BPE(vocab=vocab, merges=merges))
    parts = [known.get(step) or split.Split(library.Regex(step), "isolated") for step in steps]
    bytes_ = split.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = split.Sequence([*parts, bytes_])
    added = [token for token, kind in zip(tokens, types, strict=True) if kind == 4]
    made.add_tokens([library.AddedToken(token, normalized=False) for token in added])
    return lambda text: list(made.encode(text, add_special_tokens=False).ids)


def control(path: Path) -> dict[str, int]:
    """The tokens that a file types CONTROL."""
    values = metadata(path)
    kinds = zip(values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"], strict=True)
    return {token: id_ for id_, (token, kind) in enumerate(kinds) if kind == 3}
