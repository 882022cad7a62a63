"""The APIs that clients speak: how each reads a request, shows an answer and tells an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.adapters import anthropic, openai_chat, openai_responses
from chatcodec.serve import errors
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatcodec.adapters import Adapter, Chunk, Request

__all__ = ["APIS", "Api", "Asked"]

SAMPLING = (
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
)
"""Fields that are passed on to the engine."""

UNUSED = {
    "background",
    "cache_control",
    "include",
    "inference_geo",
    "max_tool_calls",
    "metadata",
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "return_token_ids",
    "safety_identifier",
    "service_tier",
    "skip_special_tokens",
    "speed",
    "store",
    "thinking",
    "truncation",
    "user",
    "user_profile_id",
    "verbosity",
}
"""Fields without a meaning here: hints, accounts, and what only a server with a memory keeps."""

OF_ROUTERS = {
    "include_reasoning": True,
    "no_stop_trim": False,
    "priority": 0,
    "return_hidden_states": False,
    "separate_reasoning": True,
    "stream_reasoning": True,
}
"""Fields that the routers of engines add to requests, with the values that ask for nothing."""

_KINDS: dict[str, type] = {"logit_bias": dict, "ignore_eos": bool, "seed": int}
_BOUNDS = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
_TOP_LOGPROBS = 20


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a request asks for beside its prompt."""

    stream: bool
    choices: int
    with_usage: bool
    """Whether a streamed answer ends with its usage."""
    sampling: dict[str, Any]
    logprobs: int | None
    """How many of the likeliest ids to tell; None for no log probabilities."""
    is_constrained: bool
    """Whether the engine has to follow a grammar."""


@dataclass(frozen=True)
class Api:
    """One API."""

    name: str
    path: str
    read_request: Callable[..., Request]
    adapter: Callable[..., Adapter]
    collect: Callable[[Iterable[Chunk]], dict[str, Any]]
    prefix: str
    """What ids of answers begin with."""
    error_body: Callable[[ApiError], dict[str, Any]]
    error_event: Callable[[ApiError], bytes]
    dates: str | None = None
    """Option of the adapter for the time of the answer."""

    def asked(self, request: Request, most_choices: int) -> Asked:
        """Read the fields that are for the engine. Raises `ApiError` for wrong ones."""
        rest = dict(request.rest)
        stream = _take(rest, "stream", bool, default=False)
        n = _take(rest, "n", int, default=1) if self.name == "chat" else 1
        if not 1 <= n <= most_choices:
            raise ApiError(400, f"`n` is {n}, expected 1 to {most_choices}", "n")
        options = _take(rest, "stream_options", dict, default={})
        top = _take(rest, "top_logprobs", int, default=0)
        if not 0 <= top <= _TOP_LOGPROBS:
            problem = f"`top_logprobs` is {top}, expected 0 to {_TOP_LOGPROBS}"
            raise ApiError(400, problem, "top_logprobs")
        answers = _take(rest, "response_format", dict, default={}) or (
            _take(rest, "text", dict, default={}).get("format") or {}
        )
        for key in rest.keys() & {"output_config"}:
            raise ApiError(400, f"`{key}` has fields that are not read here", key)
        is_constrained = answers.get("type", "text") != "text" or _demands_call(request)
        return Asked(
            stream=stream,
            choices=n,
            with_usage=bool(options.get("include_usage")),
            sampling=_sampling(rest),
            logprobs=top if request.adapter.get("logprobs") else None,
            is_constrained=is_constrained or request.strict,
        )


def _demands_call(request: Request) -> bool:
    choice = request.adapter.get("tool_choice", "auto")
    return choice not in ("auto", "none") and bool(request.tools)


def _sampling(rest: dict[str, Any]) -> dict[str, Any]:
    """Take the sampling options of the remaining fields; refuse fields that nobody knows."""
    sampling = {key: rest.pop(key) for key in SAMPLING if key in rest}
    for key, value in sampling.items():
        _check(key, value)
    for key, value in rest.items():
        if key not in UNUSED and not (key in OF_ROUTERS and value == OF_ROUTERS[key]):
            raise ApiError(400, f"`{key:.80}` is not a field that is known here", key)
    return sampling


def _check(key: str, value: object) -> None:
    kind = _KINDS.get(key, (int, float))
    is_flag = isinstance(value, bool) and kind is not bool
    if is_flag or not isinstance(value, kind):
        names = {bool: "a flag", dict: "an object"}
        expected = names.get(kind, "a number") if isinstance(kind, type) else "a number"
        raise ApiError(400, f"`{key}` is {value!r:.80}, expected {expected}", key)
    if key in _BOUNDS and isinstance(value, (int, float)):
        least, most = _BOUNDS[key]
        if not least <= value <= most:
            raise ApiError(400, f"`{key}` is {value}, expected {least} to {most}", key)


def _take(rest: dict[str, Any], key: str, kind: type, *, default: Any) -> Any:  # noqa: ANN401
    value = rest.pop(key, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        problem = f"`{key}` is {value!r:.80}, expected {kind.__name__}"
        raise ApiError(400, problem, key)
    return value


APIS = (
    Api(
        "chat",
        "/v1/chat/completions",
        openai_chat.read_request,
        openai_chat.ChunkStream,
        openai_chat.collect,
        "chatcmpl-",
        errors.chat_body,
        errors.chat_event,
        "created",
    ),
    Api(
        "responses",
        "/v1/responses",
        openai_responses.read_request,
        openai_responses.EventStream,
        openai_responses.collect,
        "resp_",
        errors.chat_body,
        errors.responses_event,
        "created_at",
    ),
    Api(
        "messages",
        "/v1/messages",
        anthropic.read_request,
        anthropic.EventStream,
        anthropic.collect,
        "msg_",
        errors.messages_body,
        errors.messages_event,
    ),
)
