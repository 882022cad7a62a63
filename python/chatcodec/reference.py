"""A model's tokenizer of transformers, where that library is installed."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from typing import Any

__all__ = ["TokenizerError", "load_tokenizer", "transformers_version"]


class TokenizerError(Exception):
    """A tokenizer that transformers does not load; the message is the library's, one line."""


def transformers_version() -> str:
    """Return the version of transformers; empty where it is not installed."""
    if find_spec("transformers") is None:
        return ""
    # Not that there is no PyTorch, which a tokenizer does without.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    return str(importlib.import_module("transformers").__version__)


def load_tokenizer(model: str) -> Any:  # noqa: ANN401
    """Load a model's tokenizer from files that are on this machine; no code of the model runs.

    Raises `TokenizerError`.
    """
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    try:
        return transformers.AutoTokenizer.from_pretrained(
            model, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        # transformers raises what it likes.
        raise TokenizerError(str(error).strip().partition("\n")[0]) from error
