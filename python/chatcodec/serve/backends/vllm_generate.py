"""vLLM: `/inference/v1/generate`, ids in and ids out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.serve.backends.base import Backend, Job, Logprob, Reader
from chatcodec.serve.backends.values import renamed
from chatcodec.serve.backends.vllm import FIELDS, OWN_GRAMMARS, SAMPLING, ChoiceReader, structured

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["VllmGenerate"]


class VllmGenerate(Backend):
    """vLLM's server with `--enable-scale-out` or `--tokens-only`, 0.32 or newer.

    The engine decodes no text. It takes no sampling options from the model's folder.
    """

    engine: ClassVar[str] = "vllm-generate"
    own_grammars = OWN_GRAMMARS
    sampling = SAMPLING
    fields = FIELDS
    usage_follows: ClassVar[bool] = True
    salts = ("cache_salt",)

    @classmethod
    def request(cls, job: Job) -> tuple[str, dict[str, Any]]:
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
            **job.passed,
            **renamed(job.sampling, cls.fields),
            "model": job.model,
            "token_ids": job.prompt,
            "sampling_params": sampling,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if job.grammar is not None:
            sampling["structured_outputs"] = structured(job.grammar)
            # The grammar has the reasoning, too: the engine must not wait for its end.
            body["reasoning_ended"] = True
        return "/inference/v1/generate", body

    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""
        return _Reader(job)


class _Reader(ChoiceReader):
    def logprobs(self, ids: list[int], told: Any, top: int) -> Iterator[Logprob]:  # noqa: ANN401
        if not ids:
            return
        for each in told["content"]:
            # vLLM tells the sampled id first, whether or not it is among the likeliest.
            others = [
                (other["token_id"], float(other["logprob"])) for other in each["top_logprobs"]
            ]
            others.sort(key=lambda pair: -pair[1])
            yield Logprob(each["token_id"], float(each["logprob"]), others[:top])
