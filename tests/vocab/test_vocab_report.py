"""`Vocab.report`: why a vocabulary is read as it is."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import data
import pytest
from chatcodec import Codec, Vocab, VocabReport

if TYPE_CHECKING:
    from pathlib import Path

REAL = {
    "kimi-k2": ("bytes", "nothing", "the fingerprint of 163584 ranks", "631f1f4b1cb86245"),
    "qwen3": ("bytes", "NFC", "the file", None),
    "command-r-gguf": ("bytes", "NFC", "`tokenizer.ggml.pre`, which is `command-r`", None),
    "telechat": ("characters", "nothing", "the file", None),
    "hunyuan-a13b": ("bytes", "NFC", "the fingerprint of 127957 ranks", "9d77c580a2c7de55"),
}
"""Engine, normaliser, how the way to part text is known, fingerprint."""


@pytest.mark.parametrize("name", REAL)
def test_what_real_vocabularies_report(name: str) -> None:
    report = Vocab.load(data.find(f"vocab/{name}")).report
    engine, normalizer, known_by, fingerprint = REAL[name]
    assert (report.engine, report.normalizer) == (engine, normalizer)
    assert report.known_by.startswith(known_by)
    assert (report.fingerprint, report.losses, report.missing_bytes) == (fingerprint, (), b"")


def test_bytes_without_a_token_are_named() -> None:
    vocab = Vocab.load(data.find("vocab/starcoder"))
    assert vocab.report.missing_bytes == b"\xf1"
    (loss,) = vocab.report.losses
    assert "0xF1" in loss


def test_tokens_that_are_text_have_their_rule() -> None:
    vocab = Vocab.load(data.find("vocab/phi2"), text_tokens=["<|endoftext|>"])
    rules = vocab.report.text_rules
    assert rules.keys() == vocab.text_tokens.keys()
    assert {text: rule for text, rule in rules.items() if text != "<|endoftext|>"} == (
        vocab.text_reasons
    )
    assert rules["<|endoftext|>"] == "the caller says so"
    assert rules[" " * 31] == "white space or one sign repeated, which no file calls special"


def test_tokens_that_a_format_appended_are_named() -> None:
    vocab = Vocab.load(data.find("vocab/chatglm3/tokenizer.model"))
    assert vocab.report.appended == {}
    codec = Codec("chatglm3", vocab, check_template=False)
    assert codec.vocab.report.appended["<|user|>"] == 64795
    assert "appended: 64795 <|user|>" in str(codec.vocab.report).splitlines()


def test_who_says_how_text_is_parted(tmp_path: Path) -> None:
    ranks = "".join(f"{base64.b64encode(bytes([b])).decode()} {b}\n" for b in range(256))
    path = tmp_path / "some.tiktoken"
    path.write_text(ranks)
    report = Vocab.load(path, pattern=r"\p{N}|\P{N}+").report
    assert report.known_by == "`pattern` of the caller"
    assert report.pre_tokenizer == r"`\p{N}|\P{N}+`"
    assert report.fingerprint == Vocab.load(path, pattern=r"\s+").report.fingerprint
    (tmp_path / "specials.json").write_text(r'{"pattern": "\\s+"}')
    report = Vocab.load(tmp_path).report
    assert (report.known_by, report.pre_tokenizer) == ("`pattern` in `specials.json`", r"`\s+`")


def test_reports_are_values() -> None:
    report = Vocab.embedded().report
    assert isinstance(report, VocabReport)
    assert report == Vocab.embedded().report
    assert hash(report) == hash(Vocab.embedded().report)
    assert repr(report) == 'VocabReport(engine="characters", losses=0)'
    with pytest.raises(AttributeError):
        report.engine = "bytes"  # type: ignore[misc]
