"""A format beside what a model's folder says about itself."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, FormatError, Vocab, VocabError, formats
from tokenizers.pre_tokenizers import ByteLevel

if TYPE_CHECKING:
    from pathlib import Path

QWEN3 = (data.ROOT / "rust" / "core" / "formats" / "qwen3.toml").read_text(encoding="utf-8")
"""All that the format writes, as a template would have it."""

CHATML = "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
TOKENS = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>"]
TOKENS += ["</tool_response>", "<|endoftext|>", "<think>", "</think>"]


def folder(path: Path, config: dict[str, Any], files: dict[str, str] | None = None) -> Path:
    """A folder with a small vocabulary that has the control tokens of several formats."""
    vocab = {symbol: at for at, symbol in enumerate(sorted(ByteLevel.alphabet()))}
    added = [{"id": 256 + at, "content": token, "special": True} for at, token in enumerate(TOKENS)]
    tokenizer = {
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "added_tokens": added,
    }
    (path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, text in (files or {}).items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("config", "files"),
    [
        ({"chat_template": QWEN3}, {}),
        ({"chat_template": [{"name": "default", "template": QWEN3}]}, {}),
        ({}, {"chat_template.jinja": QWEN3}),
        ({"chat_template": CHATML}, {"chat_template.jinja": QWEN3}),
        ({}, {"chat_template.json": json.dumps({"chat_template": QWEN3})}),
    ],
    ids=["config", "named", "jinja", "jinja first", "json"],
)
def test_a_template_that_has_none_of_a_format_refuses_it(
    tmp_path: Path, config: dict[str, Any], files: dict[str, str]
) -> None:
    path = folder(tmp_path, config, files)
    assert Codec("chatml", path).format.name == "chatml"
    with pytest.raises(FormatError, match=r"which has no .* expected `qwen3`") as raised:
        Codec("qwen3-coder", path)
    assert raised.value.file == "qwen3-coder"
    for vocab in (Vocab.load(path), Vocab.from_pretrained(path)):
        with pytest.raises(FormatError):
            Codec("qwen3-coder", vocab)
    with pytest.raises(FormatError):
        Codec.from_pretrained(path, "qwen3-coder")
    for codec in (
        Codec("qwen3-coder", path, check_template=False),
        Codec.from_pretrained(path, "qwen3-coder", check_template=False),
        Codec("qwen3-coder", path / "tokenizer.json"),
    ):
        assert codec.format.name == "qwen3-coder"


@pytest.mark.parametrize(
    ("config", "files"),
    [
        ({}, {}),
        ({"chat_template": 5, "tokenizer_class": "A"}, {}),
        ({"chat_template": [{"name": "a"}]}, {}),
        ({}, {"chat_template.json": "no JSON", "chat_template.jinja": ""}),
        ({"chat_template": "{{ '<|' + role + '|>' }}"}, {}),
        ({"tokenizer_class": "Qwen2Tokenizer"}, {}),
    ],
)
def test_what_says_nothing_refuses_nothing(
    tmp_path: Path, config: dict[str, Any], files: dict[str, str]
) -> None:
    path = folder(tmp_path, config, files)
    for name in ("chatml", "qwen3-coder", "qwen3"):
        assert Codec(name, path).format.name == name


def test_a_class_speaks_for_a_format(tmp_path: Path) -> None:
    path = folder(tmp_path, {"tokenizer_class": "InternLM2Tokenizer"})
    with pytest.raises(FormatError, match="`InternLM2Tokenizer` speak; expected `internlm2`"):
        Codec("chatml", path)
    assert Codec("chatml", path, check_template=False).format.name == "chatml"


def test_a_vocabulary_without_the_tokens_says_whose_it_has(tmp_path: Path) -> None:
    path = folder(tmp_path, {})
    with pytest.raises(VocabError, match=r"lacks control tokens .*; it has those of format `qwen"):
        Codec("harmony", path)


def test_a_models_name_is_no_format_but_names_one() -> None:
    for name in ("gpt-oss", "openai/gpt-oss-120b", "GPT_OSS"):
        with pytest.raises(FormatError, match=r"similar names: `harmony`"):
            Codec(name, Vocab.embedded())


FOLDERS = {
    "internlm2": ({"internlm2", "chatml", "yi"}, "chatml"),
    "phi3/phi-3-mini": ({"phi3"}, "phi3"),
    "qwen2": ({"chatml", "qwen2", "qwen2:instruct", "yi"}, "chatml"),
    "qwen3": (
        {"qwen3", "qwen3:instruct", "qwen3:qwq", "qwen3:thinking", "nanbeige4.1", "chatml", "yi"},
        "qwen3",
    ),
    "gpt-oss": ({"harmony", "harmony:full"}, None),
}


WITHOUT_HINTS = ("lacks control tokens", "before the appended tokens")
"""Of the errors that say nothing about another format."""


@pytest.mark.parametrize("name", FOLDERS)
def test_published_folders_take_their_own_formats(name: str) -> None:
    taken, likely = FOLDERS[name]
    vocab = Vocab.load(data.find(f"vocab/{name}"))
    errors: dict[str, Exception | None] = {}
    for format_ in formats():
        try:
            errors[format_] = Codec(format_, vocab) and None
        except (FormatError, VocabError) as error:
            errors[format_] = error
    found = {format_ for format_, error in errors.items() if error is None}
    # Where no template says more, a format whose turns have these tokens may be meant.
    assert taken <= found
    assert found == taken or name != "qwen3"
    for reason in filter(None, errors.values()):
        assert any(part in str(reason) for part in (f"expected `{likely}`", *WITHOUT_HINTS))


def test_a_pickled_codec_is_checked_no_more(tmp_path: Path) -> None:
    path = folder(tmp_path, {"chat_template": QWEN3})
    codec = Codec("qwen3-coder", path, check_template=False)
    shutil.rmtree(tmp_path)
    restored = pickle.loads(pickle.dumps(codec))  # noqa: S301
    assert restored.format.name == "qwen3-coder"


def test_tokens_are_appended_to_the_vocabulary_of_the_model_alone() -> None:
    """ChatGLM3's tokens would get other ids on any other vocabulary, without a word."""
    for vocab in (Vocab.embedded(), Vocab.load(data.find("vocab/llama2/tokenizer.model"))):
        with pytest.raises(FormatError, match=rf"has {vocab.size} ids; expected .*64789") as raised:
            Codec("chatglm3", vocab)
        assert (raised.value.file, raised.value.key) == ("chatglm3", "append_at")
        codec = Codec("chatglm3", vocab, check_template=False)
        restored = pickle.loads(pickle.dumps(codec))  # noqa: S301
        assert restored.vocab.size == codec.vocab.size
    codec = Codec("chatglm3", data.find("vocab/chatglm3/tokenizer.model"))
    assert codec.vocab.control["<|observation|>"] == 64797
