"""Protocols of engines' servers: one file each, one class each.

A backend takes the ids of a prompt and gives ids. It reads no text, and knows no chat format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatcodec.serve.backends.llamacpp import LlamaCpp
from chatcodec.serve.backends.lmdeploy import LmDeploy
from chatcodec.serve.backends.sglang import Sglang
from chatcodec.serve.backends.vllm import Vllm
from chatcodec.serve.backends.vllm_generate import VllmGenerate

if TYPE_CHECKING:
    from chatcodec.serve.backends.base import Backend
    from chatcodec.serve.settings import Engine

__all__ = ["BACKENDS"]

BACKENDS: dict[Engine, type[Backend]] = {
    "vllm": Vllm,
    "vllm-generate": VllmGenerate,
    "sglang": Sglang,
    "lmdeploy": LmDeploy,
    "llamacpp": LlamaCpp,
}
