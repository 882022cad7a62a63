"""Every vocabulary of the test data beside another library that reads it: `oracles.VOCABS`.

Ids are the oracle's, unless the oracle lets text become control. What a vocabulary has no token for
is an error where the oracle loses it. Control is never made from text, and text comes back.
"""

from __future__ import annotations

import contextlib
import functools
import random
from typing import TYPE_CHECKING

import data
import oracles
import pytest
from chatcodec import Vocab, VocabError
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import hostile_texts

if TYPE_CHECKING:
    from pathlib import Path

LACKING = {"starcoder", "starcoder-gguf", "falcon-gguf"}
"""Vocabularies without tokens for some bytes."""

LISTED = (
    *("command-r-gguf", "deepseek-coder", "deepseek-llm", "falcon-gguf", "llama2/llama-spm.gguf"),
    *("llama2/tokenizer.model", "llama3", "phi3", "qwen2", "qwen2/merges.txt"),
    *("qwen2/qwen.tiktoken", "qwen2/vocab.json", "starcoder-gguf"),
)
"""Vocabularies whose folders list texts and their ids."""

CODE = """\
def f(x: int = 0x1F) -> str:\r
\t\tif x >= 10_000 and not (y := x ** 2):\n\n
                return f"{x!r:>{8}}"   # don't, WE'LL; naïve
    /* ---- ==== ____ "" '''' ||  && */ <div class="a">&nbsp;</div>\t \n     \t
"""
SCRIPTS = (
    *("Größe ǅ İstanbul ſ ﬁ", "Viê\u0323t e\u0301 \u212b", "Ελλάδα ι\u0308\u0301", "Їжак е\u0308"),
    *("עִבְרִית", "العَرَبِيَّة ٣٤٥", "हिन्दी १२३ \u0958", "বাংলা \u09c7\u09be", "ไทยกำลัง", "ភាសាខ្មែរ"),
    *("한국어 \u1100\u1161\u11a8", "日本語か\u3099ｶﾞ", "中文，“引号”……——", "𠮷𝒳 Ⅷ ½ ²"),
)
EMOJI = ("👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "🦜🦜", "☎️", "™®©", "\u200b\ufeff")
DIGITS = ("0", "12", "123", "1234567890", "3.14", "１２３", "1,000,000", "2026-11-23")
SPACE = (" ", "  ", "        ", "\t", "\n", "\n\n\n", "\r\n", "\u00a0", "\u2028", "\u3000", "\0")


@functools.cache
def load(name: str) -> Vocab:
    """A vocabulary of `oracles.VOCABS`."""
    return data.load_qwen25() if name == "qwen2.5" else Vocab.load(data.find(f"vocab/{name}"))


@functools.cache
def oracle(name: str) -> oracles.Oracle:
    """Its oracle."""
    return oracles.VOCABS[name].oracle()


@functools.cache
def control(name: str) -> frozenset[int]:
    """Its control ids."""
    return frozenset(load(name).control.values())


def agree(name: str, text: str) -> None:
    """P1 and P4 on any text, P3 where the oracle makes no control token of it."""
    vocab, expected = load(name), oracle(name)(text)
    try:
        ids = vocab.encode(text).tolist()
    except VocabError as error:
        if error.component != "text" or name not in LACKING:
            raise
        # What has no token is dropped by the oracle.
        present = b"".join(vocab.token_bytes(id_) for id_ in expected)
        assert present != text.encode(), text
        return
    assert control(name).isdisjoint(ids), text
    if control(name).isdisjoint(expected):
        assert ids == expected, text
    normal = oracles.nfc(text) if vocab.report.normalizer == "NFC" else text
    assert vocab.decode(ids) in {normal, text.replace("\u2581", " ")}, text


def texts(name: str) -> st.SearchStrategy[str]:
    """Code, scripts, emoji, digits, white space and spellings of control tokens."""
    parts = [CODE, *CODE.splitlines(keepends=True), *SCRIPTS, *EMOJI, *DIGITS, *SPACE, *SPACE]
    parts += sorted(load(name).control)[:50] + sorted(load(name).text_tokens)[:50]
    mixed = st.lists(st.sampled_from(parts) | st.text(max_size=6), max_size=12).map("".join)
    return mixed | hostile_texts(max_parts=16)


@pytest.fixture(scope="module", params=data.share(oracles.VOCABS, 3))
def name(request: pytest.FixtureRequest) -> str:
    """Vocabularies: other files here try most of them in their own way, each time."""
    data.find(f"vocab/{request.param}")
    return str(request.param)


@given(drawn=st.data())
def test_any_text_has_the_ids_of_the_oracle(name: str, drawn: st.DataObject) -> None:
    agree(name, drawn.draw(texts(name)))


def test_the_corpus_has_the_ids_of_the_oracle(name: str) -> None:
    for _, text in data.corpus(24, [*oracles.VOCABS].index(name)):
        part = text[:20_000]
        agree(name, part)
        agree(name, part.replace("\n", "\n        ").replace(",", "\t\t\t"))


def test_every_character_of_the_lists_has_the_ids_of_the_oracle(name: str) -> None:
    for part in (CODE, *SCRIPTS, *EMOJI, *DIGITS, *SPACE):
        for around in ("{}", "{0}{0}", " {}", "x{}y", "{}\n", "1{}1"):
            agree(name, around.format(part.replace("{", "{{").replace("}", "}}")))


@settings(max_examples=1)
@given(seed=st.integers(0, 1 << 32))
def test_a_long_text_has_the_ids_of_the_oracle_each_time(name: str, seed: int) -> None:
    """Sections of a text that came twice are copied, those of a text that grew too."""
    chance = random.Random(seed)
    parts = [*CODE.splitlines(keepends=True), *SCRIPTS, *EMOJI, *DIGITS, *SPACE, " it's", "don'T"]
    text = "".join(chance.choices(chance.sample(parts, 12), k=30_000))[:150_000]
    # Most texts are ASCII for the greater part.
    grown = text + "".join(chance.choices(["word ", "Wort, ", *DIGITS], k=20_000))
    for each in (text, grown):
        agree(name, each)
        with contextlib.suppress(VocabError):
            ids = load(name).encode(each)
            assert all(load(name).encode(each) == ids for _ in range(3))


@pytest.mark.parametrize("name", LISTED)
def test_listed_texts_have_the_listed_ids(name: str) -> None:
    listed = oracles.listed(name)
    assert len(listed) > 40
    for text, ids in listed:
        assert load(name).encode(text).tolist() == ids, text
        assert oracle(name)(text) == ids, text


# No vocabulary without an oracle.


def is_vocabulary(path: Path) -> bool:
    """Whether a file of the test data is a vocabulary, or half of one."""
    names = {"vocab.json", "merges.txt", "vocab_only_tokenizer.json", "tokenizer.json"}
    suffixes = {".tiktoken", ".gguf"}
    by_name = path.name in names or path.name.startswith("tokenizer.model")
    return by_name or path.suffix in suffixes


def test_every_folder_has_an_oracle() -> None:
    root = data.find("vocab")
    named = {root / name for name in oracles.VOCABS}
    missing = []
    for folder in [root, *sorted(path for path in root.rglob("*") if path.is_dir())]:
        files = {path for path in folder.iterdir() if path.is_file() and is_vocabulary(path)}
        # A folder that is named stands for the one file of it that is not.
        rest = sorted(files - named)
        if len(rest) > (folder in named):
            missing += rest
        # Of Qwen2.5 there is a configuration alone.
        is_empty = not any(path.is_dir() for path in folder.iterdir()) and not files
        if is_empty and folder not in named:
            missing.append(folder)
    assert not missing, f"`oracles.VOCABS` has no oracle for {', '.join(map(str, missing))}"
    assert {name for name in oracles.VOCABS if oracles.listed(name)} == set(LISTED)
