"""vLLM: `/v1/completions` with the prompt as ids."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.serve.backends.base import Backend, Job, Logprob, Reader, Step
from chatcodec.serve.backends.values import cached_of, ids_of, reason_of, renamed, same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chatcodec.serve.backends.base import Grammar
    from chatcodec.serve.backends.written import Written

__all__ = ["SAMPLING", "ChoiceReader", "Vllm", "structured"]

SAMPLING = same(
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "logit_bias",
    "min_tokens",
    "ignore_eos",
    "allowed_token_ids",
    "bad_words",
    "logprob_token_ids",
    "repetition_detection",
    "thinking_token_budget",
    "truncate_prompt_tokens",
    "truncation_side",
    "watermarking",
)
FIELDS = same(
    "cache_salt", "ec_transfer_params", "kv_transfer_params", "priority", "request_id", "session_id"
)
OWN_GRAMMARS = same("regex", "choice", "grammar", "structural_tag")

_NAMED = "token_id:"


def structured(grammar: Grammar) -> dict[str, Written]:
    """Give a grammar as vLLM's `structured_outputs`."""
    return {"grammar" if grammar.kind in {"lark", "gbnf"} else grammar.kind: grammar.text}


class Vllm(Backend):
    """vLLM's OpenAI server, 0.10 or newer."""

    engine: ClassVar[str] = "vllm"
    needs_limit: ClassVar[bool] = True
    own_grammars = OWN_GRAMMARS
    sampling = SAMPLING
    fields = FIELDS | same("vllm_xargs")
    usage_follows: ClassVar[bool] = True
    salts = ("cache_salt",)

    @classmethod
    def request(cls, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the request."""
        body: dict[str, Any] = {
            **job.passed,
            **renamed(job.sampling, cls.fields),
            "model": job.model,
            "prompt": job.prompt,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "skip_special_tokens": False,
            "stop_token_ids": list(job.stop_ids),
            # null would be 16.
            "max_tokens": job.limit,
            **renamed(job.sampling, SAMPLING),
        }
        if job.logprobs is not None:
            body |= {"logprobs": job.logprobs, "return_tokens_as_token_ids": True}
        if job.grammar is not None:
            body["structured_outputs"] = structured(job.grammar)
        return "/v1/completions", body

    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""
        return _Reader(job)


class ChoiceReader(Reader):
    """Reads a choice with `token_ids`, in the events of both protocols."""

    def __init__(self, job: Job) -> None:
        """Read for a job."""
        self.top = job.logprobs

    def read(self, event: Mapping[str, Any]) -> Step:
        """Read an event."""
        cached = cached_of(event.get("usage"))
        if not event["choices"]:
            return Step(cached=cached)
        choice = event["choices"][0]
        ids = ids_of(choice.get("token_ids") or [])
        step = Step(ids, reason=reason_of(choice.get("finish_reason")), cached=cached)
        if self.top is not None:
            step.logprobs += self.logprobs(ids, choice.get("logprobs"), self.top)
        return step

    @abstractmethod
    def logprobs(self, ids: list[int], told: Any, top: int) -> Iterator[Logprob]:  # noqa: ANN401
        """Give what is told of each id, with at most `top` others."""


class _Reader(ChoiceReader):
    def logprobs(self, ids: list[int], told: Any, top: int) -> Iterator[Logprob]:  # noqa: ANN401
        if not told:
            return
        tops = told.get("top_logprobs") or [{} for _ in ids]
        for id_, value, others in zip(ids, told["token_logprobs"], tops, strict=True):
            likeliest = [
                (int(name.removeprefix(_NAMED)), float(each))
                for name, each in (others or {}).items()
            ]
            # vLLM adds the sampled id where it is not among the likeliest.
            likeliest.sort(key=lambda each: -each[1])
            yield Logprob(id_, float(value), likeliest[:top])
