"""Errors of the gateway, in the shapes that clients of each API read."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from chatcodec.adapters import sse

if TYPE_CHECKING:
    from chatcodec.adapters.openai_responses import EventStream

__all__ = ["ApiError", "BackendError", "chat_body", "messages_body", "refused"]

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


@dataclass
class ApiError(Exception):
    """A request that gets an error for an answer."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: str | None = None
    """When to try again, as the header says it: seconds, or a date."""

    def __reduce__(self) -> tuple[object, ...]:
        """Let the error go from one process to another."""
        return type(self), (self.status, self.message, self.param, self.code, self.retry_after)

    def __str__(self) -> str:
        """Give the message."""
        return self.message

    @property
    def type(self) -> str:
        """The kind of error, as both APIs name it."""
        return _TYPES.get(self.status, "api_error")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer with this error."""
        headers = {}
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        if self.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["retry-after"] = "1"
        if self.retry_after is not None:
            headers["retry-after"] = self.retry_after
        return headers


@dataclass
class BackendError(ApiError):
    """A failure of the engine's server: 429, 502, 503 or 504 for the client, 400 for a refusal.

    The server's own words may name hosts or quote prompts. They are in `said`, for a log that has
    text; clients get the message, and an id by which the operator finds the line of the log.
    """

    said: str | None = None
    """The server's own words."""
    kind: str | None = None
    """The server's name for the kind of error, if it is a single word."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    """The id of the error, in the log and in the message."""

    def __post_init__(self) -> None:
        """Name the id in the message."""
        self.message += f" (error {self.id})"


_WORD = re.compile(r"[A-Za-z_]{1,40}")
_RETRY = re.compile(r"\d{1,6}|[A-Z][a-z]{2}, [\w :]{20,24} GMT")
_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|max(imum)?[ _](model|context|seq\w*)[ _]len"
    r"|(prompt|input|request) .{0,60}(too (long|large)|exceed|longer than)",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED = 200
"""Characters of the server's own words that are kept."""


def refused(status: int, body: bytes, retry_after: str | None = None) -> BackendError:
    """Make the error of a status that a backend answered with.

    A request that the engine refuses is the client's to mend. Of the reasons, one is told: that the
    prompt is too long.
    """
    said, kind = _words(body)
    told: dict[str, Any] = {"said": said[:_QUOTED], "kind": kind}
    if retry_after is not None and _RETRY.fullmatch(retry_after):
        told["retry_after"] = retry_after
    if status in {400, 413, 422}:
        what = f"the engine refused the request ({status})"
        if _TOO_LONG.search(said):
            what = "the engine refused the request: its prompt and answer are too long"
            told["code"] = "context_length_exceeded"
        return BackendError(400, what, **told)
    what = f"the backend answered {status}"
    return BackendError(status if status in {429, 503} else 502, what, **told)


def _words(body: bytes) -> tuple[str, str | None]:
    """Find the message of an error's body, and its type if that is a single word."""
    try:
        value = json.loads(body)
        inner = value.get("error")
        fields = inner if isinstance(inner, dict) else value
        said = fields.get("message") or inner
        kind = fields.get("type")
    except (ValueError, AttributeError, RecursionError):
        said = kind = None
    if said is None:
        said = body.decode("utf-8", "replace")
    return str(said), kind if isinstance(kind, str) and _WORD.fullmatch(kind) else None


def chat_body(error: ApiError) -> dict[str, Any]:
    """Make OpenAI's body of an error."""
    fields = {"message": error.message, "type": error.type, "param": error.param}
    return {"error": {**fields, "code": error.code}}


def messages_body(error: ApiError) -> dict[str, Any]:
    """Make Anthropic's body of an error."""
    where = f" ({error.param})" if error.param and error.param not in error.message else ""
    fields: dict[str, Any] = {"type": error.type, "message": error.message + where}
    if error.code is not None:
        # Anthropic's client reads these, and goes on without what is not done.
        fields["details"] = {"error_code": error.code, "unsupported": [error.param]}
    return {"type": "error", "error": fields}


def chat_event(error: ApiError, _: object) -> bytes:
    """Write an error into a stream of chat completions; OpenAI's client raises it."""
    return b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chat_body(error)).encode()


def responses_event(error: ApiError, adapter: EventStream) -> bytes:
    """Write an error into a stream of Responses: the response has failed."""
    chunks = adapter.fail(error.code or error.type, error.message, error.param)
    return b"".join(map(sse.event, chunks))


def messages_event(error: ApiError, _: object) -> bytes:
    """Write an error into a stream of Anthropic's messages."""
    return b"event: error\ndata: %b\n\n" % json.dumps(messages_body(error)).encode()
