"""Writes a model of random weights for servers that load transformers' folders.

`python scripts/random_transformer.py TOKENIZER FOLDER [gpt2]`, in a Python with torch and
transformers. TOKENIZER is a folder with Qwen3's tokenizer files. The model is a Qwen3 of two
layers, or a GPT-2, 20 MB.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

SIZE = 151_669
"""Ids of the tokenizer: weights for more ids, as published models have, sample ids of no token."""


def write(tokenizer: Path, folder: Path, kind: str = "qwen3") -> None:
    """Write the model beside its tokenizer."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, folder / name)
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=64,
            n_layer=2,
            n_head=2,
            n_positions=2048,
            vocab_size=SIZE,
            bos_token_id=151643,
            eos_token_id=151645,
        )
        transformers.GPT2LMHeadModel(config).to(torch.bfloat16).save_pretrained(folder)
        return
    config = transformers.Qwen3Config(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        vocab_size=SIZE,
        max_position_embeddings=4096,
        eos_token_id=151645,
        tie_word_embeddings=True,
    )
    transformers.Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
