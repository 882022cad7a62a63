"""Writes a GGUF model of random weights, for the real llama.cpp.

`python scripts/random_model.py VOCAB.json MODEL.gguf`. VOCAB.json has `tokens`: the bytes of each
id in hex, `control`: the ids of control tokens by their spellings, `stop`: the id that ends a turn.
Two layers generate some hundred ids a second on a processor.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

gguf: Any = importlib.import_module("gguf")

WIDTH = 64
LAYERS = 2
HEADS = 4
CONTEXT = 4096


def write(vocab: dict[str, Any], path: str, seed: int = 0) -> None:
    """Write the model."""
    pieces = [bytes.fromhex(token) for token in vocab["tokens"]]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(pieces))
    control = {id_: spelling for spelling, id_ in vocab["control"].items()}
    tokens, types, known, byte_pieces = [], [], set(), set()
    for id_, token in enumerate(pieces):
        if id_ in control:
            text, kind = control[id_].encode(), gguf.TokenType.CONTROL
        elif len(token) == 1 and token not in byte_pieces:
            byte_pieces.add(token)
            text, kind = b"<0x%02X>" % token[0], gguf.TokenType.BYTE
        else:
            text, kind = token.replace(b" ", "\u2581".encode()), gguf.TokenType.NORMAL
        if not text or text in known:
            text, kind = b"<unused %d>" % id_, gguf.TokenType.UNUSED
        known.add(text)
        tokens.append(text)
        types.append(kind)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([float(-id_) for id_ in range(len(pieces))])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(vocab["stop"])
    writer.add_add_bos_token(False)  # noqa: FBT003
    random = np.random.default_rng(seed)

    def add(name: str, *shape: int) -> None:
        weights = random.normal(0, 0.5, shape) if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(name, weights.astype(np.float32))

    add("token_embd.weight", len(pieces), WIDTH)
    add("output.weight", len(pieces), WIDTH)
    add("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}.weight", WIDTH)
        add(f"blk.{layer}.ffn_gate.weight", 2 * WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_up.weight", 2 * WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, 2 * WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2])
