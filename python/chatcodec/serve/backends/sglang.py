"""SGLang: `/generate` with `input_ids`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.serve.backends.base import Backend, Job, Logprob, Reader, Step
from chatcodec.serve.backends.values import (
    Growing,
    count_of,
    ids_of,
    pairs,
    reason_of,
    renamed,
    same,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Sglang"]

SAMPLING = same(
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "ignore_eos",
) | {"min_tokens": "min_new_tokens", "seed": "sampling_seed"}
FIELDS = same(
    "custom_logit_processor",
    "data_parallel_rank",
    "extra_key",
    "lora_path",
    "priority",
    "rid",
    "session_params",
) | {"cache_salt": "extra_key"}


class Sglang(Backend):
    """SGLang's own server, 0.5 or newer."""

    engine: ClassVar[str] = "sglang"
    # The second is older, and SGLang's router passes it on, the first it does not.
    salts = ("cache_salt", "extra_key")
    default_limit: ClassVar[int | None] = 128
    own_grammars = same("regex", "structural_tag") | {"grammar": "ebnf"}
    sampling = SAMPLING | same("custom_params")
    fields = FIELDS

    @classmethod
    def request(cls, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the request."""
        sampling: dict[str, Any] = {
            "skip_special_tokens": False,
            "no_stop_trim": True,
            "stop_token_ids": list(job.stop_ids),
            # None is as many as fit; a request that does not say so gets 128.
            "max_new_tokens": job.limit,
            **renamed(job.sampling, cls.sampling),
        }
        if job.grammar is not None:
            sampling["ebnf" if job.grammar.kind == "lark" else job.grammar.kind] = job.grammar.text
        body: dict[str, Any] = {
            **job.passed,
            **renamed(job.sampling, cls.fields),
            "input_ids": job.prompt,
            "sampling_params": sampling,
            "stream": True,
        }
        if job.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": job.logprobs}
        return "/generate", body

    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""
        return _Reader(job)


class _Reader(Reader):
    def __init__(self, job: Job) -> None:
        self.with_logprobs = job.logprobs is not None
        self.ids = Growing()
        self.told = 0

    def read(self, event: Mapping[str, Any]) -> Step:
        about = event["meta_info"]
        new = self.ids.new(ids_of(event["output_ids"]), about.get("completion_tokens"))
        cached = count_of(about.get("cached_tokens"))
        step = Step(new, reason=reason_of(about.get("finish_reason")), cached=cached)
        if self.with_logprobs:
            values = pairs(about["output_token_logprobs"])
            tops = about.get("output_top_logprobs") or [None] * len(values)
            fresh = len(values) - self.told if len(values) > len(new) else len(values)
            self.told += fresh
            for (id_, value), top in list(zip(values, tops, strict=True))[len(values) - fresh :]:
                step.logprobs.append(Logprob(id_, value, pairs(top or ())))
        return step
