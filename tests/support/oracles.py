"""Vocabularies of the test data, and what other libraries make of their files: text to ids.

sentencepiece and tokenizers read their own files. tiktoken is given the ranks and the pattern that
the model's code publishes. A GGUF file's tokens and merges are put together with tokenizers, and
with the steps that the model's own `tokenizer.json` has. Nothing of this project takes part.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import data
import gguf
import models
import pytest
import references
from references import CL100K, KIMI, O200K

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Oracle: TypeAlias = "Callable[[str], list[int]]"


QWEN = CL100K.replace("{1,3}", "")
QWEN35 = QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(
    r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]"
)


def nfc(text: str) -> str:
    """Composed, by the tables that the tokenizers library has."""
    tokenizers = pytest.importorskip("tokenizers")
    return tokenizers.normalizers.NFC().normalize_str(text)  # type: ignore[no-any-return]


def tiktoken(path: Path, pattern: str, special: Iterable[str] = ()) -> Oracle:
    """`encode_ordinary` of the tiktoken library, on the same ranks without the special ones."""
    pytest.importorskip("tiktoken")
    return references.tiktoken_encode(path, pattern, special)


def sentencepiece(path: Path) -> Oracle:
    """Plain `encode` of the sentencepiece library."""
    return models.sentencepiece(path.read_bytes())[0]


def tokenizers(path: Path) -> Oracle:
    """`encode` of the tokenizers library, which takes no special token for one."""
    library = pytest.importorskip("tokenizers").Tokenizer.from_file(str(path))
    library.encode_special_tokens = True
    return lambda text: list(library.encode(text, add_special_tokens=False).ids)


# The vocabularies.


@dataclass(frozen=True)
class Known:
    """How a vocabulary's file is read by another library."""

    path: str
    """The file that the oracle reads."""
    read: Callable[[Path], Oracle]
    normalise: Callable[[str], str] = str

    def oracle(self) -> Oracle:
        """The oracle; skips the test where its file or its library is absent."""
        encode, normalise = self.read(data.find(f"vocab/{self.path}")), self.normalise
        return lambda text: encode(normalise(text))


def ranks(path: str, pattern: str, normalise: Callable[[str], str] = str) -> Known:
    """A file of ranks."""
    return Known(path, lambda found: tiktoken(found, pattern), normalise)


def deepseek_v3(path: Path) -> Oracle:
    """Ranks of which some are special, and three patterns."""
    pytest.importorskip("regex")
    special = json.loads(path.with_name("specials.json").read_text("utf-8"))["special_tokens"]
    return references.in_steps(tiktoken(path, r"(?s:.)+", special))


def of_gguf(path: str, *steps: str, normalise: Callable[[str], str] = str) -> Known:
    """A byte-level GGUF file."""

    def read(found: Path) -> Oracle:
        pytest.importorskip("tokenizers")
        return gguf.encoder(found, steps)

    return Known(path, read, normalise)


LLAMA2 = Known("llama2/tokenizer.model", sentencepiece)
QWEN2 = Known("qwen2/tokenizer.json", tokenizers)

VOCABS: dict[str, Known] = {
    "chatglm3": Known("chatglm3/tokenizer.model", sentencepiece),
    "chatglm3/vocab_only_tokenizer.json": Known("chatglm3/vocab_only_tokenizer.json", tokenizers),
    "command-r-gguf": of_gguf(
        "command-r-gguf/ggml-vocab-command-r.gguf", "Digits", "GPT-2", normalise=nfc
    ),
    "deepseek-coder": of_gguf(
        "deepseek-coder/deepseek-coder.gguf",
        *(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", gguf.CHINESE, "Digits"),
    ),
    "deepseek-llm": of_gguf(
        "deepseek-llm/deepseek-llm.gguf",
        *gguf.DEEPSEEK_LLM,
    ),
    "deepseek-v3": Known("deepseek-v3/deepseek.tiktoken", deepseek_v3),
    "deepseek-v3.2": Known("deepseek-v3.2/tokenizer.json", tokenizers),
    "falcon-gguf": of_gguf(
        "falcon-gguf/ggml-vocab-falcon.gguf",
        *("Punctuation", "GPT-2", "[0-9][0-9][0-9]"),
    ),
    "glm4": ranks("glm4/tokenizer.model", CL100K),
    "gpt-oss": ranks("gpt-oss/o200k_base.tiktoken", O200K),
    "hunyuan-a13b": ranks("hunyuan-a13b/hy.tiktoken", QWEN, nfc),
    "internlm2": Known("internlm2/tokenizer.model", sentencepiece),
    "kimi-k2": ranks("kimi-k2/kimi_k2.tiktoken", KIMI),
    "llama2/llama-spm.gguf": LLAMA2,
    "llama2/tokenizer.model": LLAMA2,
    "llama3": ranks("llama3/tokenizer.model", CL100K),
    "minimax-m1": Known("minimax-m1/tokenizer.json", tokenizers),
    "mixtral-8x22b/tokenizer.model.v2": Known("mixtral-8x22b/tokenizer.model.v2", sentencepiece),
    "mixtral-8x22b/tokenizer.model.v3": Known("mixtral-8x22b/tokenizer.model.v3", sentencepiece),
    "mixtral-8x22b/tokenizer.model.v7": Known("mixtral-8x22b/tokenizer.model.v7", sentencepiece),
    "mixtral-8x7b": Known("mixtral-8x7b/tokenizer.model.v1", sentencepiece),
    "phi2": Known("phi2/tokenizer.json", tokenizers),
    "phi3": LLAMA2,
    "phi3/phi-3": Known("phi3/phi-3/tokenizer.json", tokenizers),
    "phi3/phi-3-medium": Known("phi3/phi-3-medium/tokenizer.json", tokenizers),
    "phi3/phi-3-mini": Known("phi3/phi-3-mini/tokenizer.json", tokenizers),
    "phi3/phi-3-small": ranks("phi3/phi-3-small/cl100k_base.tiktoken", CL100K),
    "phi3/phi-3-vision": Known("phi3/phi-3-vision/tokenizer.json", tokenizers),
    "qwen2": QWEN2,
    "qwen2/merges.txt": QWEN2,
    "qwen2/qwen.tiktoken": ranks("qwen2/qwen.tiktoken", QWEN, nfc),
    "qwen2/vocab.json": QWEN2,
    "qwen2.5": QWEN2,
    "qwen3": Known("qwen3/tokenizer.json", tokenizers),
    "qwen3.5": Known("qwen3.5/tokenizer.json", tokenizers),
    "starcoder": Known("starcoder/tokenizer.json", tokenizers),
    "starcoder-gguf": of_gguf("starcoder-gguf/ggml-vocab-starcoder.gguf", "Digits", "GPT-2"),
    "telechat": Known("telechat/tokenizer.model", sentencepiece),
    "yi": Known("yi/tokenizer.model", sentencepiece),
}
"""Folders and files of `../shared/vocab`, each as it is loaded, and its oracle."""


def listed(name: str) -> list[tuple[str, list[int]]]:
    """The texts and ids that a folder lists beside its vocabulary, if it does."""
    folder = data.find(f"vocab/{name}")
    folder = folder if folder.is_dir() else folder.parent
    found: list[tuple[str, list[int]]] = []
    for path in sorted(folder.glob("*.inp")):
        texts = path.read_text("utf-8").split("\n__ggml_vocab_test__\n")
        lines = path.with_suffix(".out").read_text("utf-8").splitlines()
        # Some files end with a separator.
        assert len(lines) in {len(texts), len(texts) - 1}
        found += zip(texts, ([int(id_) for id_ in line.split()] for line in lines), strict=False)
    return found
