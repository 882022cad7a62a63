"""The files of a model that `Codec.from_pretrained` reads."""

from __future__ import annotations

from pathlib import Path

__all__ = ["MODEL_FILES", "found_files"]

MODEL_FILES = (
    "added_tokens.json",
    "additional_chat_templates/*.jinja",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tekken.json",
    "tiktoken.model",
    "tokenizer.json",
    "tokenizer.model*",
    "tokenizer_config.json",
    "vocab.json",
    "*.tiktoken",
)
"""Patterns of their names, without GGUF files: those are weights for the most part."""


def found_files(path: str | Path) -> list[Path]:
    """Return the files of a model's folder, in order; or the file that `path` names."""
    path = Path(path)
    if path.is_file():
        return [path]
    found = {file for pattern in (*MODEL_FILES, "*.gguf") for file in path.glob(pattern)}
    return sorted(file for file in found if file.is_file())
