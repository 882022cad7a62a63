"""The real llama.cpp, on a model of random weights over a codec's vocabulary.

It speaks llama.cpp's `/completion` as far as the gateway uses it: ids in, ids out, a grammar. The
sampler, its grammar and the model are llama.cpp's own; the server is this file's.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import data
import numpy as np
from chatcodec.serve.demo.engine import Engine
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from pathlib import Path

    from chatcodec import Codec
    from starlette.requests import Request

llama_cpp: Any = importlib.import_module("llama_cpp")

CLOSERS = (b'"', b"}", b"]", b")", b"</", b",", b":", b"\n", b">")
LIMIT = 400


class Model:
    """A model of random weights, whose sampler likes control tokens and what closes a value."""

    def __init__(self, codec: Codec, folder: Path) -> None:
        path = folder / "model.gguf"
        names = folder / "control.json"
        vocab = codec.vocab
        tokens = [vocab.token_bytes(id_).hex() for id_ in range(vocab.size)]
        names.write_text(
            json.dumps(
                {"tokens": tokens, "control": dict(vocab.control), "stop": codec.stop_ids[0]}
            ),
            encoding="utf-8",
        )
        # A process of its own: the tests have another module of the name `gguf`.
        writer = data.ROOT / "scripts" / "random_model.py"
        subprocess.run([sys.executable, writer, names, path], check=True)
        self.codec = codec
        self.llama = llama_cpp.Llama(str(path), n_ctx=4096, n_threads=2, verbose=False)
        self.vocab = llama_cpp.llama_model_get_vocab(self.llama.model)
        self.liked = np.zeros(vocab.size, np.float32)
        for id_ in range(vocab.size):
            if vocab.token_bytes(id_).startswith(CLOSERS):
                self.liked[id_] = 1
        self.liked[[*vocab.control.values(), *codec.stop_ids]] = 1.8

    def generate(self, prompt: list[int], gbnf: str, seed: int, limit: int = LIMIT) -> list[int]:
        """A completion's ids by a grammar, up to the one that ends it."""
        grammar = llama_cpp.LlamaGrammar.from_string(gbnf, verbose=False) if gbnf else None
        eager = np.random.default_rng(seed).uniform(7, 12)

        def prefer(_: Any, scores: Any) -> Any:  # noqa: ANN401
            return scores + eager * self.liked

        self.llama.reset()
        self.llama.set_seed(seed)
        ids: list[int] = []
        options: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temp": 1.0}
        processors = llama_cpp.LogitsProcessorList([prefer])
        for id_ in self.llama.generate(
            prompt, grammar=grammar, logits_processor=processors, **options
        ):
            if llama_cpp.llama_vocab_is_eog(self.vocab, id_):
                # llama.cpp ends at a token of its own list too, as `</s>`.
                return [*ids, id_ if id_ in self.codec.stop_ids else self.codec.stop_ids[0]]
            ids.append(id_)
            if id_ in self.codec.stop_ids or len(ids) == limit:
                break
        return ids


class LlamaEngine(Engine):
    """llama.cpp's server, as far as the gateway uses it."""

    def __init__(self, model: Model) -> None:
        super().__init__(lambda _: [], 1, 0)
        self.model = model
        self.asked: list[dict[str, Any]] = []

    async def llamacpp(self, http: Request) -> JSONResponse:
        """Answer as llama.cpp's `/completion` does, whole."""
        body = await http.json()
        self.asked.append(body)
        limit = body["n_predict"] if body["n_predict"] > 0 else LIMIT
        ids = await run_in_threadpool(
            self.model.generate, body["prompt"], body.get("grammar", ""), len(self.asked), limit
        )
        kind = "eos" if ids[-1] in self.model.codec.stop_ids else "limit"
        return JSONResponse({"tokens": ids, "stop_type": kind})

    def app(self) -> Starlette:
        """The server."""
        return Starlette(
            routes=[
                Route("/completion", self.llamacpp, methods=["POST"]),
                Route("/health", self.health),
            ]
        )
