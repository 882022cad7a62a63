"""The tables of formats and vocabularies are true of the real vocabularies.

`scripts/tables.py` writes the table of formats from the format files and the golden cases. Here
both tables are read, and what they claim is tried on every vocabulary of the test data.
"""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import chatcodec
import data
import oracles
import pytest
import references
from chatcodec import Codec, Vocab
from chatcodec.options import VocabKind
from test_vocab_oracles import load

PAGE = "".join(
    (data.ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("generated/all-formats.md", "models.md")
)


def rows(heading: str) -> list[dict[str, str]]:
    """The rows of the first table after a heading, by the names of its columns."""
    lines = PAGE.partition(f"\n## {heading}\n")[2].splitlines()
    start = next(nth for nth, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        table.append([cell.replace("\\|", "|").strip() for cell in cells])
    head, _, *body = table
    return [dict(zip(head, row, strict=True)) for row in body]


FORMATS = {row["format"].strip("`"): row for row in rows("Formats")}

WORDS: dict[str, VocabKind] = {
    "SentencePiece": "sentencepiece",
    "tokenizer.json": "tokenizer.json",
    "tiktoken ranks": "tiktoken",
    "vocab.json": "vocab.json",
    "tekken.json": "tekken",
    "GGUF": "gguf",
}
"""How the tables call a kind of vocabulary."""

DEEPSEEK_V3 = ("deepseek-v3", "deepseek-v3.2")
QWEN2 = ("qwen2", "qwen2/merges.txt", "qwen2/qwen.tiktoken", "qwen2/vocab.json")
MIXTRAL = ("mixtral-8x22b/tokenizer.model.v2", "mixtral-8x22b/tokenizer.model.v3")
PHI3 = ("phi3", "phi3/phi-3", "phi3/phi-3-medium", "phi3/phi-3-mini", "phi3/phi-3-vision")

OWN: dict[str, tuple[str, ...]] = {
    "chatglm3": ("chatglm3",),
    "chatml": ("qwen2", "qwen2.5", "yi"),
    "deepseek": ("deepseek-llm",),
    "deepseek:r1": DEEPSEEK_V3,
    "deepseek:v3": DEEPSEEK_V3,
    "deepseek:v3.1": DEEPSEEK_V3,
    "deepseek:v3.2": ("deepseek-v3.2",),
    "glm4": ("glm4",),
    "harmony": ("gpt-oss",),
    "harmony:full": ("gpt-oss",),
    "internlm2": ("internlm2",),
    "kimi-k2": ("kimi-k2",),
    "kimi-k2.5": ("kimi-k2",),
    "kimi-k2.5:full": ("kimi-k2",),
    "kimi-k2:thinking": ("kimi-k2",),
    "llama2": ("llama2/llama-spm.gguf", "llama2/tokenizer.model"),
    "llama3": ("llama3",),
    "llama3.1": ("llama3",),
    "llama3.2": ("llama3",),
    "minimax-m2": ("minimax-m1",),
    "mistral": ("mixtral-8x22b/tokenizer.model.v7",),
    "mixtral-8x22b": MIXTRAL,
    "mixtral-8x22b:template": MIXTRAL,
    "mixtral-8x7b": ("mixtral-8x7b",),
    "mixtral-8x7b:template": ("mixtral-8x7b",),
    "phi3": PHI3,
    "qwen2": QWEN2,
    "qwen2.5": ("qwen2.5",),
    "qwen2:instruct": QWEN2,
    "qwen3": ("qwen3",),
    "qwen3-coder": ("qwen3",),
    "qwen3.5": ("qwen3.5",),
    "qwen3.5:small": ("qwen3.5",),
    "qwen3:instruct": ("qwen3",),
    "qwen3:thinking": ("qwen3",),
    "yi": ("yi",),
}
"""The vocabularies of the test data that are those of a format's models."""

NO_CHAT = {
    *("command-r-gguf", "deepseek-coder", "falcon-gguf", "hunyuan-a13b", "phi2"),
    *("starcoder", "starcoder-gguf", "telechat", "phi3/phi-3-small"),
    "chatglm3/vocab_only_tokenizer.json",
}
"""Vocabularies whose models no built-in format is for, or none with golden ids of them."""


def golden(name: str) -> dict[str, Any]:
    """A format's golden cases."""
    path = data.ROOT / "tests" / "golden" / f"{name.replace(':', '-')}.json"
    cases: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return cases


def kinds(cell: str) -> set[VocabKind]:
    """The kinds that a cell names."""
    return {kind for word, kind in WORDS.items() if word in cell}


def test_every_format_has_a_row() -> None:
    assert [*FORMATS] == chatcodec.formats()
    assert OWN.keys() <= FORMATS.keys()


def test_every_vocabulary_is_some_formats_or_none() -> None:
    """A vocabulary that is new has to be given to the formats that it is for."""
    own = {name for names in OWN.values() for name in names}
    assert own | NO_CHAT == oracles.VOCABS.keys()
    assert own.isdisjoint(NO_CHAT)


@pytest.mark.parametrize(
    ("format_", "name"), data.share([(f, name) for f in OWN for name in OWN[f]], 3)
)
def test_a_format_binds_to_the_kinds_that_its_row_names(format_: str, name: str) -> None:
    # Qwen3-Coder has Qwen3's vocabulary, and the folder is Qwen3's.
    codec = Codec(format_, load(name), check_template=format_ != "qwen3-coder")
    cell = FORMATS[format_]["vocabulary"]
    assert codec.vocab.kind in kinds(cell) or cell.startswith("any with")
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    encoding = codec.encode(messages)
    assert codec.decode(encoding) == codec.canonical(messages)


@pytest.mark.parametrize("format_", FORMATS)
def test_ids_are_checked_where_the_row_says_so(format_: str) -> None:
    """Golden ids of the model's own vocabulary; where there is none here, spellings alone."""
    is_checked = FORMATS[format_]["checked"] == "ids"
    assert is_checked == (format_ in OWN)
    cases = golden(format_)
    real = {name for case in cases["encode"] for name in case["ids"]} - {"appended", "embedded"}
    assert bool(real) == is_checked
    assert all(all(case["ids"].values()) for case in cases["encode"] if case["parts"])
    if is_checked:
        root = references.SHARED / "vocab"
        own = {root / name for name in OWN[format_]}
        files = {references.FILES[name] for name in real}
        assert any(file in own or file.parent in own for file in files), files


# Vocabularies.

KINDS = {row["kind"]: row for row in rows("Vocabularies")}


def test_every_kind_of_vocabulary_has_a_row() -> None:
    assert all(len(kinds(cell)) == 1 for cell in KINDS), KINDS
    named = [kind for cell in KINDS for kind in kinds(cell)]
    assert sorted(named) == sorted(get_args(VocabKind))


FILES: dict[VocabKind, tuple[str, ...]] = {
    "sentencepiece": ("tokenizer.model",),
    "tokenizer.json": ("tokenizer.json", "vocab_only_tokenizer.json"),
    "tiktoken": (".tiktoken", "tokenizer.model"),
    "vocab.json": ("vocab.json", "merges.txt", "tokenizer_config.json"),
    "gguf": (".gguf",),
    "tekken": ("tekken.json",),
}
"""How files of a kind are called, or how their names end."""


@pytest.mark.parametrize("name", data.share(oracles.VOCABS, 3))
def test_a_vocabulary_is_of_the_kind_that_its_files_are(name: str) -> None:
    path = data.find(f"vocab/{name}")
    names = [path.name] if path.is_file() else [file.name for file in path.iterdir()]
    ends = FILES[load(name).kind]
    assert any(file.startswith(end) or file.endswith(end) for file in names for end in ends)
    assert load(name).kind in {kind for cell in KINDS for kind in kinds(cell)}


def test_every_kind_is_tried() -> None:
    data.find("vocab")
    pytest.importorskip("mistral_common")
    tried = {load(name).kind for name in oracles.VOCABS}
    assert {*tried, Vocab.load(references.tekken("tekken-v7")).kind} == {*get_args(VocabKind)}
