"""The APIs that clients speak: how each reads a request, shows an answer and tells an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.adapters import anthropic, openai_chat, openai_completions, openai_responses
from chatcodec.serve import errors
from chatcodec.serve.beats import COMMENT, PING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatcodec.adapters import Adapter, Chunk, Request
    from chatcodec.serve.errors import ApiError

__all__ = ["APIS", "Api"]


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
    error_event: Callable[[ApiError, Any], bytes]
    """Writes an error into a stream that an adapter has begun."""
    dates: str | None = None
    """Option of the adapter for the time of the answer."""
    in_chunks: bool = False
    """Whether a stream is of chunks, which tell usage only to those who ask for it."""
    beat: bytes = COMMENT
    """What a stream says while the engine is silent."""


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
        in_chunks=True,
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
        beat=PING,
    ),
    Api(
        "completions",
        "/v1/completions",
        openai_chat.read_request,
        openai_completions.ChunkStream,
        openai_completions.collect,
        "cmpl-",
        errors.chat_body,
        errors.chat_event,
        "created",
        in_chunks=True,
    ),
)
