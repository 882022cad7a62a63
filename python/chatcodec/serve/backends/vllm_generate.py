"""vLLM: `/inference/v1/generate`, ids in and ids out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.serve.backends.base import (
    Backend,
    Job,
    Logprob,
    Reader,
    Step,
    ids_of,
    reason_of,
    renamed,
)
from chatcodec.serve.backends.vllm import SAMPLING, grammar_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VllmGenerate"]


class VllmGenerate(Backend):
    """vLLM's server with `--enable-scale-out` or `--tokens-only`, 0.32 or newer.

    The engine decodes no text. It takes no sampling options from the model's folder.
    """

    engine: ClassVar[str] = "vllm-generate"

    def request(self, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the request."""
        sampling: dict[str, Any] = {
            "detokenize": False,
            "stop_token_ids": list(job.stop_ids),
            **renamed(job.sampling, SAMPLING),
        }
        # Without the field, as many as fit; null would be an endless answer.
        if job.limit is not None:
            sampling["max_tokens"] = job.limit
        if job.logprobs is not None:
            # vLLM 0.32 counts the sampled id among those that it tells; it tells 20 at most.
            sampling["logprobs"] = job.logprobs and max(job.logprobs, min(job.logprobs + 1, 20))
        body: dict[str, Any] = {
            "model": job.model,
            "token_ids": list(job.prompt),
            "sampling_params": sampling,
            "stream": True,
        }
        if job.constraint is not None:
            sampling["structured_outputs"] = grammar_of(job, job.constraint)
            # The grammar has the reasoning, too: the engine must not wait for its end.
            body["reasoning_ended"] = True
        return "/inference/v1/generate", body

    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""
        return _Reader(job)


class _Reader(Reader):
    def __init__(self, job: Job) -> None:
        self.top = job.logprobs

    def read(self, event: Mapping[str, Any]) -> Step:
        if not event["choices"]:
            return Step()
        choice = event["choices"][0]
        ids = ids_of(choice.get("token_ids") or [])
        step = Step(ids, reason=reason_of(choice.get("finish_reason")))
        if self.top is not None and ids:
            for each in choice["logprobs"]["content"]:
                # vLLM tells the sampled id first, whether or not it is among the likeliest.
                top = [
                    (other["token_id"], float(other["logprob"])) for other in each["top_logprobs"]
                ]
                top.sort(key=lambda pair: -pair[1])
                entry = Logprob(each["token_id"], float(each["logprob"]), top[: self.top])
                step.logprobs.append(entry)
        return step
