"""LMDeploy: `/generate` with `input_ids`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.serve.backends.base import Backend, GrammarKind, Job, Reader, Step
from chatcodec.serve.backends.values import Growing, count_of, ids_of, reason_of, renamed, same
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LmDeploy"]

_UNLIMITED = 1_000_000
"""A limit that the engine cuts to what fits; without one, an answer has 128 ids."""

SAMPLING = same("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "ignore_eos")


class LmDeploy(Backend):
    """LMDeploy's server, InternLM's own, 0.10 or newer."""

    engine: ClassVar[str] = "lmdeploy"
    sampling = SAMPLING
    tells_logprobs = False
    grammars: ClassVar[tuple[GrammarKind, ...]] = ()

    @classmethod
    def request(cls, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the request. The engine tells no log probabilities by id."""
        if job.logprobs is not None:
            raise ApiError(400, "log probabilities are not told by an LMDeploy backend", "logprobs")
        body: dict[str, Any] = {
            **job.passed,
            "input_ids": job.prompt,
            "stream": True,
            "skip_special_tokens": False,
            "stop_token_ids": list(job.stop_ids),
            "max_tokens": _UNLIMITED if job.limit is None else job.limit,
            **renamed(job.sampling, SAMPLING),
        }
        return "/generate", body

    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""
        del job
        return _Reader()


class _Reader(Reader):
    def __init__(self) -> None:
        self.ids = Growing()

    def read(self, event: Mapping[str, Any]) -> Step:
        about = event["meta_info"]
        ids = ids_of(event.get("output_ids") or [])
        new = self.ids.new(ids, about.get("completion_tokens"))
        cached = count_of(about.get("cached_tokens"))
        return Step(new, reason=reason_of(about.get("finish_reason")), cached=cached)
