"""Rendering: the request to the engine, as it would be sent, for routers that send it themselves.

The shape is that of the engine: vLLM's `/inference/v1/generate` with `token_ids`, as its own
`/render` gives it, or SGLang's `/generate` with `input_ids`. No engine is asked for anything.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatcodec.serve.backends.base import Job, bounded
from chatcodec.serve.backends.lmdeploy import LmDeploy
from chatcodec.serve.backends.sglang import Sglang
from chatcodec.serve.backends.vllm_generate import VllmGenerate
from chatcodec.serve.backends.written import Written, pieces
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.serve.backends.base import Backend
    from chatcodec.serve.reading import Reader
    from chatcodec.serve.settings import Engine

__all__ = ["completions_rendered", "rendered"]

SHAPES: dict[Engine, type[Backend]] = {"sglang": Sglang, "lmdeploy": LmDeploy}
"""Engines whose own request is the shape; for the others it is vLLM's."""


def rendered(job: Job, engine: Engine, window: int | None, prefix: str, *, stream: bool) -> bytes:
    """Write the request of a job. Raises `ApiError` for a prompt that is longer than the window."""
    return b"".join(pieces(_fields(job, engine, window, prefix, stream=stream)))


def _fields(
    job: Job, engine: Engine, window: int | None, prefix: str, *, stream: bool
) -> dict[str, Any]:
    shape = SHAPES.get(engine, VllmGenerate)
    _, fields = shape.salted(bounded(job, window))
    # What the gateway itself needs: it reads a stream, whatever the client gets.
    fields.pop("stream_options", None)
    name = "request_id" if shape is VllmGenerate else "rid"
    return {name: prefix + secrets.token_hex(12), **fields, "stream": stream}


def completions_rendered(body: dict[str, Any], reader: Reader) -> bytes:
    """Write the requests of a legacy completion: a list, one for each prompt.

    A prompt that is text is text alone: nothing in it is control. Raises `ApiError`.
    """
    settings = reader.settings
    prompts = _prompts(body.pop("prompt", None), reader)
    model = body.pop("model", None)
    sorted_ = reader.sorter.sort("chat", body)
    reader.ids.check({**body, **sorted_.engine})
    known = {"max_tokens", "stream", "stream_options", "stop", "stop_token_ids", "n"}
    for key in body.keys() - known:
        raise ApiError(400, f"`{key:.80}` is not rendered here", key)
    job = Job(
        model=settings.backend_model or reader.check_model(model),
        prompt=Written(),
        prompt_ids=0,
        stop_ids=[*reader.codec.stop_ids, *body.get("stop_token_ids", ())],
        limit=body.get("max_tokens"),
        sampling=sorted_.engine,
        passed=sorted_.passed,
    )
    stream = body.get("stream", False)
    requests = [
        _fields(
            replace(job, prompt=Written.of(list(ids)), prompt_ids=len(ids)),
            settings.engine,
            settings.max_model_len,
            "cmpl-",
            stream=stream,
        )
        for ids in prompts
    ]
    return b"".join(pieces(requests))


def _prompts(given: Any, reader: Reader) -> list[Sequence[int]]:  # noqa: ANN401
    """Read a prompt or several, each as text or as ids."""
    several = isinstance(given, list) and not (given and type(given[0]) is int)
    prompts = given if several else [given]
    if not prompts:
        raise ApiError(400, "`prompt` is an empty list, expected one prompt or more", "prompt")
    return [_ids(each, reader) for each in prompts]


def _ids(prompt: Any, reader: Reader) -> Sequence[int]:  # noqa: ANN401
    vocab = reader.codec.vocab
    if isinstance(prompt, str):
        return list(vocab.encode(prompt))
    if isinstance(prompt, list) and all(
        type(id_) is int and 0 <= id_ < vocab.size for id_ in prompt
    ):
        return prompt
    found = type(prompt).__name__
    raise ApiError(400, f"`prompt` is {found}, expected text or ids of the vocabulary", "prompt")
