"""Rendering: the request to the engine, as it would be sent, for routers that send it themselves.

The shape is that of the engine: vLLM's `/inference/v1/generate` with `token_ids`, as its own
`/render` gives it, or SGLang's `/generate` with `input_ids`. No engine is asked for anything.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from chatcodec.serve.backends.base import Job, bounded
from chatcodec.serve.backends.lmdeploy import LmDeploy
from chatcodec.serve.backends.sglang import Sglang
from chatcodec.serve.backends.vllm_generate import VllmGenerate
from chatcodec.serve.backends.written import pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.serve.apis import Api
    from chatcodec.serve.backends.base import Backend
    from chatcodec.serve.settings import Engine

__all__ = ["rendered"]

SHAPES: dict[Engine, type[Backend]] = {"sglang": Sglang, "lmdeploy": LmDeploy}
"""Engines whose own request is the shape; for the others it is vLLM's."""


def rendered(
    jobs: Sequence[Job], engine: Engine, window: int | None, api: Api, *, stream: bool
) -> bytes:
    """Write the request of a job; of completions, a list with that of each prompt.

    Raises `ApiError` for a prompt that is longer than the window.
    """
    requests = [_fields(job, engine, window, api.prefix, stream=stream) for job in jobs]
    return b"".join(pieces(requests if api.name == "completions" else requests[0]))


def _fields(
    job: Job, engine: Engine, window: int | None, prefix: str, *, stream: bool
) -> dict[str, Any]:
    shape = SHAPES.get(engine, VllmGenerate)
    _, fields = shape.salted(bounded(job, window))
    # What the gateway itself needs: it reads a stream, whatever the client gets.
    fields.pop("stream_options", None)
    name = "request_id" if shape is VllmGenerate else "rid"
    return {name: prefix + secrets.token_hex(12), **fields, "stream": stream}
