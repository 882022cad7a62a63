"""Byte-level vocabularies: the ids of tiktoken and of Hugging Face's tokenizers."""

from __future__ import annotations

import base64
import functools
import unicodedata
from typing import TYPE_CHECKING

import data
import pytest
import tiktoken
from chatcodec import Vocab
from clock import within
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split
from tokenizers.trainers import BpeTrainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    (
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
)
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+")

RANKS = {
    "qwen2/qwen.tiktoken": QWEN2,
    "llama3/tokenizer.model": LLAMA3,
    "gpt-oss/o200k_base.tiktoken": O200K,
    "glm4/tokenizer.model": LLAMA3,
    "phi3/phi-3-small/cl100k_base.tiktoken": CL100K,
    "deepseek-v3/deepseek.tiktoken": None,
}
"""Files of ranks, each with its pattern; DeepSeek-V3 has three, one after another."""

SIGNS = " \n\r\t'/.aAzZsSdlLrve019-_!(中ひカ가٣½Ⅷ€+😀ǅʰªßẞ𝔸一龥\x85\xa0\u180e\u2028\u3000\x00\x1f"
MARKS = "\u0301\u0e33\u200d\u200b\ufeff\u0800"
WORDS = ["'ſ", "'LL", "123456", "//\n", "中AA", "ʰA", "the", "ing", "don't", "HELLO", "Hello"]

nasty = st.lists(
    st.one_of(
        st.sampled_from([*SIGNS, *MARKS, *WORDS, " of", "  ", "\n\n", " \n "]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
).map("".join)
"""Texts of what patterns part in different ways."""


@functools.cache
def vocab(path: str) -> Vocab:
    return Vocab.load(data.find(f"vocab/{path}"))


@functools.cache
def reference(path: str) -> Callable[[str], list[int]]:
    """What tiktoken makes of a text, parted as the vocabulary is."""
    rows = [row.split() for row in data.find(f"vocab/{path}").read_bytes().splitlines() if row]
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    pattern = RANKS[path]
    name = path.replace("/", "-")
    if pattern is not None:
        return tiktoken.Encoding(
            name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        ).encode_ordinary
    # Ids 0, 1 and 2 are control.
    ranks = {token: rank for token, rank in ranks.items() if rank > 2}
    whole = tiktoken.Encoding(
        name, pat_str=r"(?s:.+)", mergeable_ranks=ranks, special_tokens={}, explicit_n_vocab=None
    )
    splitter = Sequence([Split(Regex(regex), "isolated") for regex in DEEPSEEK_V3])

    def encode(text: str) -> list[int]:
        pieces = splitter.pre_tokenize_str(text)
        return [id_ for piece, _ in pieces for id_ in whole.encode_ordinary(piece)]

    return encode


def composed(path: str, text: str) -> str:
    """The text as the vocabulary's tokenizer normalises it."""
    return unicodedata.normalize("NFC", text) if path.startswith("qwen2") else text


@pytest.mark.parametrize("path", RANKS)
def test_ids_of_the_corpus_are_tiktokens(path: str) -> None:
    for name, text in data.corpus(12, [*RANKS].index(path)):
        expected = reference(path)(composed(path, text))
        assert vocab(path).encode(text).tolist() == expected, name


@pytest.mark.parametrize("path", RANKS)
@given(text=nasty)
def test_ids_are_tiktokens(path: str, text: str) -> None:
    # The library composes by its own version of Unicode: what is composed already is left alone.
    text = composed(path, text)
    assert vocab(path).encode(text).tolist() == reference(path)(text)


@pytest.mark.parametrize("path", RANKS)
@pytest.mark.parametrize("filling", [" ", "a", "A", "'", "\n", "中", "中A", "1", "\u0301", "!"])
def test_long_runs_are_linear(path: str, filling: str) -> None:
    text = filling * (1_000_000 // len(filling.encode()))
    loaded = vocab(path)
    ids = within(10, lambda: loaded.encode(text))
    assert loaded.decode(ids) == text


def split(*patterns: str, digits: bool = False) -> list[PreTokenizer]:
    splits: list[PreTokenizer] = [Split(Regex(pattern), "isolated") for pattern in patterns]
    alone: list[PreTokenizer] = [Digits(individual_digits=True)] if digits else []
    return [*splits, *alone, ByteLevel(add_prefix_space=False, use_regex=False)]


KINDS: dict[str, list[PreTokenizer]] = {
    "gpt2": [ByteLevel(add_prefix_space=False)],
    "digits": [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)],
    "runs of digits": [Digits(individual_digits=False), ByteLevel(add_prefix_space=False)],
    "deepseek-coder": split(*DEEPSEEK_CODER, digits=True),
    "deepseek-v3": split(*DEEPSEEK_V3),
    "llama3": split(LLAMA3),
    "qwen2": split(QWEN2),
    "o200k": split(O200K),
    "tekken": split(TEKKEN),
    "ends of lines": split(r"[ \t]+$", GPT2),
    "possessive": split(CL100K),
}

TRAINING = [
    "the theme of these others, the THEATRE and The Theory of 1234 12345 things; don't, I'll",
    "aa aaa aaaa  aaa   aa\n\n\nab abab ababab //\n /\n ... !!! ?!?! (((())))\t\t\tx\r\n",
    "中文中文汉字汉字 ひらがな ひらがな カタカナ 가나다 가나다 café cafe\u0301 straße 😀😀 ½½ ٣٣",
] * 20


def trained(kind: str) -> Tokenizer:
    """A small tokenizer of Hugging Face's, with merges of its own."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Sequence(KINDS[kind])
    alphabet = ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


@pytest.fixture(scope="module", params=KINDS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, Vocab]:
    """A tokenizer and its file, loaded."""
    tokenizer = trained(request.param)
    path: Path = tmp_path_factory.mktemp("json") / "tokenizer.json"
    tokenizer.save(str(path))
    return tokenizer, Vocab.load(path)


@given(text=nasty)
def test_ids_are_those_of_tokenizers(pair: tuple[Tokenizer, Vocab], text: str) -> None:
    tokenizer, loaded = pair
    assert loaded.encode(text).tolist() == tokenizer.encode(text).ids


def test_ids_of_qwen2_are_those_of_tokenizers() -> None:
    path = data.find("vocab/qwen2/tokenizer.json")
    tokenizer, loaded = Tokenizer.from_file(str(path)), Vocab.load(path)
    for name, text in data.corpus(12):
        assert loaded.encode(text).tolist() == tokenizer.encode(text).ids, name
