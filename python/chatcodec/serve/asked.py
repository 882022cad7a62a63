"""What a request asks for beside its prompt: read from the fields that are no message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatcodec.adapters import Request
    from chatcodec.serve.grammars import Wish
    from chatcodec.serve.sorting import Sorted

__all__ = ["Asked", "read_asked"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a request asks for beside its prompt."""

    stream: bool
    choices: int
    with_usage: bool
    """Whether a streamed answer ends with its usage."""
    usage_in_each: bool
    """Whether each chunk of a streamed answer tells the usage so far."""
    sampling: dict[str, Any]
    """Fields for the engine, by the client's names."""
    passed: dict[str, Any]
    """Fields that the gateway does not know, for the engine as they are."""
    stop_ids: frozenset[int]
    """Ids at which the client wants the answer to end, beside those of the format."""
    keeps_stop: bool
    """Whether the stop string that ends an answer is part of it."""
    logprobs: int | None
    """How many of the likeliest ids to tell; None for no log probabilities."""
    with_ids: bool
    """Whether the answer tells the ids of the prompt and of itself."""
    wish: Wish | None
    """What the answer has to be, beside calls."""
    demands_call: bool
    """Whether the engine has to make calls, or their arguments, by a grammar."""
    prompts: tuple[int, ...] = ()
    """The numbers of ids of several prompts, which have as many choices each; () for messages."""
    with_control: bool = False
    """Whether the text of a completion spells control tokens."""

    @property
    def is_constrained(self) -> bool:
        """Whether the codec makes a grammar for the engine."""
        is_json = self.wish is not None and self.wish.response_format is not None
        return self.demands_call or is_json


def read_asked(
    request: Request, rest: Mapping[str, Any], sorted_: Sorted, most: int, wish: Wish | None
) -> Asked:
    """Read the fields that are left of a request whose types were checked.

    `most` is the greatest number of choices. Raises `ApiError`.
    """
    n = rest.get("n", 1)
    if n > most:
        raise ApiError(400, f"`n` is {n!s:.80}, expected 1 to {most}", "n")
    options = rest.get("stream_options") or {}
    demands = _demands_call(request) or request.strict
    if wish is not None and wish.raw is not None and demands:
        problem = f"`{wish.path}` is beside calls that a grammar enforces; expected one of them"
        raise ApiError(400, problem, wish.path)
    return Asked(
        stream=rest.get("stream", False),
        choices=n,
        with_usage=bool(options.get("include_usage")),
        usage_in_each=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        sampling=sorted_.engine,
        passed=sorted_.passed,
        stop_ids=frozenset(rest.get("stop_token_ids", ())),
        keeps_stop=rest.get("include_stop_str_in_output", False),
        logprobs=rest.get("top_logprobs", 0) if request.adapter.get("logprobs") else None,
        with_ids=rest.get("return_token_ids", False),
        wish=wish,
        demands_call=demands,
    )


def _demands_call(request: Request) -> bool:
    choice = request.adapter.get("tool_choice", "auto")
    return choice not in ("auto", "none") and bool(request.tools)
