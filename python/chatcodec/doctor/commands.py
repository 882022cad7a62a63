"""The command lines that serve a model with text that is never control."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

__all__ = ["Commands", "commands"]

_GATEWAY = "chatcodec serve --backend http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Commands:
    """Command lines by engine; a GGUF file has llama.cpp's alone, the others are empty."""

    vllm: str
    """vLLM with the plug-in."""
    sglang: str
    """SGLang with the plug-in."""
    llamacpp: str
    """llama.cpp's server, which needs the model as a GGUF file, and the gateway before it."""
    gateway: str
    """The gateway before vLLM without the plug-in."""


def commands(model: str, format_name: str | None = None) -> Commands:
    """Write the commands for a model; `format_name` is the format in place of its template's."""
    named = shlex.quote(model)
    format_ = "" if format_name is None else f" --format {shlex.quote(format_name)}"
    variable = "" if format_name is None else f"CHATCODEC_FORMAT={shlex.quote(format_name)} "
    is_gguf = model.endswith(".gguf")
    file = named if is_gguf else "FILE.gguf"
    llamacpp = (
        f"llama-server --model {file} --port 8000 & "
        f"{_GATEWAY} --engine llamacpp --model {named}{format_}"
    )
    if is_gguf:
        return Commands(vllm="", sglang="", llamacpp=llamacpp, gateway="")
    return Commands(
        vllm=(
            f"{variable}vllm serve {named} --tokenizer-mode chatcodec --enable-auto-tool-choice "
            "--tool-call-parser chatcodec --reasoning-parser chatcodec"
        ),
        sglang=(
            f"{variable}python -m sglang.launch_server --model-path {named} "
            "--tool-call-parser chatcodec --reasoning-parser chatcodec"
        ),
        llamacpp=llamacpp,
        gateway=f"vllm serve {named} --port 8000 & {_GATEWAY} --model {named}{format_}",
    )
