"""Vocabularies of every kind of file give the ids of the libraries that their models come with."""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import data
import oracles
import pytest
from chatcodec import Vocab
from gguf import GPT2
from hypothesis import given
from hypothesis import strategies as st
from oracles import QWEN, QWEN35
from references import CL100K, KIMI, KIMI_TOKENS, O200K

RANKS = {
    "llama3/tokenizer.model": CL100K,
    "qwen2/qwen.tiktoken": QWEN,
    "glm4/tokenizer.model": CL100K,
    "gpt-oss/o200k_base.tiktoken": O200K,
    "kimi-k2/kimi_k2.tiktoken": KIMI,
    "hunyuan-a13b/hy.tiktoken": QWEN,
    "phi3/phi-3-small/cl100k_base.tiktoken": CL100K,
}
"""Files of ranks, and the patterns that their models' own code has."""

TEKKEN = ("tekken_240718.json", "tekken_240911.json")
"""Files that come with mistral-common."""

TEXT = st.one_of(
    st.text(),
    st.text(st.sampled_from(" \t\r\n\u3000aZ0'9éü中\u0301\u2581<>|/.,!_-"), max_size=40),
)


@functools.cache
def tekken(name: str) -> tuple[Vocab, Any]:
    """A vocabulary of mistral-common, and its own reader of it."""
    tokenizers = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    spec = importlib.util.find_spec("mistral_common")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "data" / name
    return Vocab.load(path), tokenizers.Tekkenizer.from_file(path)


@pytest.mark.parametrize("name", TEKKEN)
def test_tekken_on_real_text(name: str) -> None:
    vocab, reference = tekken(name)
    for title, text in data.corpus():
        assert vocab.encode(text).tolist() == reference.encode(text, bos=False, eos=False), title


@pytest.mark.parametrize("name", TEKKEN)
@given(text=TEXT)
def test_tekken_on_any_text(name: str, text: str) -> None:
    vocab, reference = tekken(name)
    assert vocab.encode(text).tolist() == reference.encode(text, bos=False, eos=False)


@pytest.mark.parametrize("name", TEKKEN)
def test_tekken_has_the_same_control_tokens(name: str) -> None:
    vocab, reference = tekken(name)
    count = reference.num_special_tokens
    assert vocab.size == reference.n_words
    assert vocab.control == {reference.id_to_piece(id_): id_ for id_ in range(count)}
    ids = set(range(count))
    for spelling in vocab.control:
        assert not ids.intersection(vocab.encode(f"a{spelling} {spelling}"))


def test_ranks_alone_know_what_is_special_among_them(tmp_path: Path) -> None:
    """Ids 0, 1, 2 of DeepSeek-V3 stand among the ranks; nothing beside the file says so."""
    path = tmp_path / "deepseek.tiktoken"
    path.write_bytes(data.find("vocab/deepseek-v3/deepseek.tiktoken").read_bytes())
    assert set(Vocab.load(path).control.values()) == {0, 1, 2}


@pytest.mark.parametrize("name", RANKS)
def test_other_ranks_need_a_pattern(name: str, tmp_path: Path) -> None:
    """Ranks are known by their content: one token less, and they are others."""
    lines = data.find(f"vocab/{name}").read_bytes().splitlines(keepends=True)
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(ValueError, match="give `pattern=`"):
        Vocab.load(path)
    vocab = Vocab.load(path, pattern=RANKS[name])
    text = "".join(random.Random(0).sample("don't 12345 中文 \n\n Ünïcode", 20))
    assert vocab.encode(text).tolist() == oracles.tiktoken(path, RANKS[name])(text)


# Special tokens that a model's code appends to its ranks.


def test_ranks_alone_have_the_special_tokens_of_the_code(tmp_path: Path) -> None:
    ranks = data.find("vocab/kimi-k2/kimi_k2.tiktoken").read_bytes()
    path = tmp_path / "tiktoken.model"
    path.write_bytes(ranks)
    vocab = Vocab.load(path)
    assert vocab.control == KIMI_TOKENS
    assert vocab.size == 163584 + 256
    assert "23 special tokens are those of its code" in vocab.report.known_by
    # What the caller names has its id and its spelling.
    mine = {"<|mine|>": 163589, "<|im_start|>": 163587, "[PAD]": 163800}
    said = Vocab.load(path, special_tokens=mine)
    assert said.control.items() >= mine.items()
    assert "<|im_user|>" not in said.control
    # A file with ids says all of them: a later model has the same ranks and other tokens.
    later = {"163586": {"content": "<|end_of_msg|>"}, "163587": {"content": "<|open|>"}}
    config = {"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": later}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert Vocab.load(path).control == {"<|end_of_msg|>": 163586, "<|open|>": 163587}


def test_names_without_ids_leave_the_special_tokens_of_the_code() -> None:
    vocab = Vocab.load(data.find("vocab/hunyuan-a13b"))
    named = ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"]
    spellings = [*named, *(f"<|extra_{number}|>" for number in range(204))]
    assert vocab.control == {spelling: 127957 + nth for nth, spelling in enumerate(spellings)}
    text = "".join(spellings)
    assert set(vocab.control.values()).isdisjoint(vocab.encode(text))
    assert vocab.decode(vocab.encode(text)) == text


# Ranks that are known by how many they are.


def derived(name: str) -> list[bytes]:
    """The bytes of the tokens of a `tokenizer.json`, by id."""
    tokenizers = pytest.importorskip("tokenizers")
    vocab = json.loads(data.find(f"vocab/{name}/tokenizer.json").read_text("utf-8"))["model"][
        "vocab"
    ]
    decoder = tokenizers.decoders.ByteLevel()
    assert decoder.decode(["\u0120"]) == " "
    chars = {char: byte for byte, char in enumerate(alphabet())}
    return [bytes(chars[c] for c in token) for token in sorted(vocab, key=vocab.__getitem__)]


def alphabet() -> list[str]:
    """The characters of GPT-2's alphabet, by the bytes that they stand for."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


@pytest.mark.parametrize("name", ["qwen3.5", "gpt2", "whisper", "p50k"])
def test_ranks_that_are_known_by_their_count(name: str, tmp_path: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    pattern = QWEN35 if name == "qwen3.5" else GPT2
    if name == "qwen3.5":
        tokens = dict(enumerate(derived("qwen3.5")))
    else:
        # Phi-2's text tokens are GPT-2's.
        tokens = dict(enumerate(derived("phi2")[:50256]))
    if name == "p50k":
        tokens |= {50257 + nth: b" " * (nth + 2) for nth in range(24)}
        known = set(list(tokens.values())[:50256])
        tokens = {id_: token for id_, token in tokens.items() if id_ < 50256 or token not in known}
        tokens[50280] = b" " * 25
    lines = [f"{base64.b64encode(token).decode()} {id_}" for id_, token in tokens.items()]
    if name == "whisper":
        lines.append("= 50256")
    path = tmp_path / "ranks.tiktoken"
    path.write_text("\n".join(lines) + "\n")
    ranks = {token: id_ for id_, token in tokens.items()}
    reference = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    vocab = Vocab.load(path)
    special = {"qwen3.5": 0, "gpt2": 1, "p50k": 0, "whisper": 102}
    assert vocab.size == max(tokens) + 1 + special[name]
    assert vocab.lossless
    assert len(vocab.control) == {"p50k": 1, "whisper": 101}.get(name, special[name])
    for title, whole in data.corpus(24):
        for part in (whole[:20_000], whole[:9000].replace(" ", "   \n ")):
            text = oracles.nfc(part) if name == "qwen3.5" else part
            expected = reference.encode_ordinary(text)
            assert vocab.encode(part).tolist() == expected, title


def test_a_class_goes_before_ranks_that_are_known(tmp_path: Path) -> None:
    """StableLM 2 takes cl100k_base's ranks, and splits text as Qwen does."""
    ranks = data.find("vocab/phi3/phi-3-small/cl100k_base.tiktoken")
    path = tmp_path / "arcade100k.tiktoken"
    path.write_bytes(ranks.read_bytes())
    plain = Vocab.load(path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Arcade100kTokenizer"}')
    vocab, reference = Vocab.load(path), oracles.tiktoken(path, QWEN)
    assert vocab.encode("12345").tolist() != plain.encode("12345").tolist()
    for title, text in data.corpus():
        assert vocab.encode(text).tolist() == reference(oracles.nfc(text)), title
    assert vocab.encode("e\u0301").tolist() == reference("\u00e9")


def test_a_folder_of_whisper_is_read_as_its_class_says(tmp_path: Path) -> None:
    """Its vocabulary has an empty token, and its files name the tokens of languages and times."""
    spec = json.loads(data.find("vocab/phi2/tokenizer.json").read_text("utf-8"))
    tokens = {token: id_ for token, id_ in spec["model"]["vocab"].items() if id_ < 50256}
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in spec["model"]["merges"]]
    tokens |= {"": 50256, "<|endoftext|>": 50257}
    times = [f"<|{step * 0.02:.2f}|>" for step in range(1501)]
    names = ["<|startoftranscript|>", "<|en|>", "<|zh|>", "<|transcribe|>", "<|notimestamps|>"]
    added = {spelling: 50258 + nth for nth, spelling in enumerate([*names, *times])}
    (tmp_path / "vocab.json").write_text(json.dumps(tokens))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    config = {"tokenizer_class": "WhisperTokenizer", "eos_token": "<|endoftext|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    vocab = Vocab.load(tmp_path)
    assert vocab.lossless
    assert vocab.report.engine == "bytes"
    assert vocab.control == {"<|endoftext|>": 50257} | added
    whole = Vocab.load(data.find("vocab/phi2"), text_tokens=[])
    for title, text in data.corpus(24):
        words = " ".join(text[:20_000].split())
        assert vocab.encode(words).tolist() == whole.encode(words).tolist(), title
    assert set(vocab.control.values()).isdisjoint(vocab.encode("<|0.00|> a <|en|><|29.98|>"))


# Runs of white space that were added.


def phi2(tmp_path: Path, *, flags: bool) -> Path:
    """Phi-2's vocabulary as its slow tokenizer has it: merges, and added tokens beside them."""
    spec = json.loads(data.find("vocab/phi2/tokenizer.json").read_text("utf-8"))
    (tmp_path / "vocab.json").write_text(json.dumps(spec["model"]["vocab"]))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in spec["model"]["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    tokens = {token["content"]: token for token in spec["added_tokens"]}
    config: dict[str, object] = {
        "tokenizer_class": "CodeGenTokenizer",
        "eos_token": "<|endoftext|>",
    }
    if flags:
        config["added_tokens_decoder"] = {str(t["id"]): t for t in tokens.values()}
    else:
        added = {text: token["id"] for text, token in tokens.items() if not token["special"]}
        (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize("flags", [True, False])
def test_runs_beside_merges_are_those_of_the_json(tmp_path: Path, flags: bool) -> None:  # noqa: FBT001
    whole = Vocab.load(data.find("vocab/phi2"))
    beside = Vocab.load(phi2(tmp_path, flags=flags))
    assert beside.text_tokens == whole.text_tokens
    assert beside.control == whole.control == {"<|endoftext|>": 50256}
    for title, text in data.corpus():
        indented = text[:50_000].replace("\n", "\n        ").replace(",", "\t\t\t")
        assert beside.encode(indented).tolist() == whole.encode(indented).tolist(), title


def test_a_run_that_a_file_names_special_is_control(tmp_path: Path) -> None:
    path = phi2(tmp_path, flags=False)
    config = {
        "tokenizer_class": "CodeGenTokenizer",
        "pad_token": " " * 4,
        "eos_token": "<|endoftext|>",
    }
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    vocab = Vocab.load(path)
    assert " " * 4 in vocab.control
    assert " " * 5 in vocab.text_tokens
    assert vocab.control[" " * 4] not in vocab.encode(" " * 4 + "x" + " " * 9).tolist()


def test_a_long_text_with_runs_is_the_same_on_many_threads() -> None:
    vocab = Vocab.load(data.find("vocab/phi2"))
    text = "def f(x):\n        return x\t\t# 12\n\n" * 60_000
    assert vocab.encode(text, threads=4).tolist() == vocab.encode(text).tolist()
