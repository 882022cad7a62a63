"""llama.cpp's server: `/completion` with the prompt as ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.serve.backends.base import Backend, GrammarKind, Job, Logprob, Reader, Step
from chatcodec.serve.backends.values import count_of, ids_of, renamed, same

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LlamaCpp"]

SAMPLING = same(
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "ignore_eos",
    "lora",
    "typical_p",
) | {"repetition_penalty": "repeat_penalty"}


class LlamaCpp(Backend):
    """llama.cpp's server.

    The answer is asked for whole: an event of its streams has no ids for tokens that end within a
    character, so a stream would lose them.
    """

    engine: ClassVar[str] = "llamacpp"
    own_grammars = same("grammar")
    sampling = SAMPLING
    streams: ClassVar[bool] = False
    grammars: ClassVar[tuple[GrammarKind, ...]] = ("gbnf",)

    @classmethod
    def request(cls, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the request."""
        body: dict[str, Any] = {
            **job.passed,
            "prompt": job.prompt,
            "stream": False,
            "return_tokens": True,
            "cache_prompt": True,
            "n_predict": -1 if job.limit is None else job.limit,
            **renamed(job.sampling, SAMPLING),
        }
        if job.grammar is not None:
            body["grammar"] = job.grammar.text
        if job.logprobs is not None:
            body["n_probs"] = max(job.logprobs, 1)
        return "/completion", body

    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""
        return _Reader(job)


class _Reader(Reader):
    def __init__(self, job: Job) -> None:
        self.logprobs = job.logprobs

    def read(self, event: Mapping[str, Any]) -> Step:
        ids = ids_of(event["tokens"])
        step = Step(ids, reason="length" if event["stop_type"] == "limit" else "stop")
        step.cached = count_of((event.get("timings") or {}).get("cache_n"))
        if self.logprobs is not None:
            for each in event["completion_probabilities"][: len(ids)]:
                top = [(other["id"], float(other["logprob"])) for other in each["top_logprobs"]]
                entry = Logprob(each["id"], float(each["logprob"]), top[: self.logprobs])
                step.logprobs.append(entry)
        return step
