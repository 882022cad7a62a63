"""Errors of the gateway, in the shapes that clients of each API read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["ApiError", "BackendError", "chat_body", "messages_body"]

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
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

    def __str__(self) -> str:
        """Give the message."""
        return self.message

    @property
    def type(self) -> str:
        """The kind of error, as both APIs name it."""
        return _TYPES.get(self.status, "api_error")


class BackendError(ApiError):
    """A failure of the engine's server: 502, 503 or 504 for the client."""


def chat_body(error: ApiError) -> dict[str, Any]:
    """Make OpenAI's body of an error."""
    fields = {"message": error.message, "type": error.type, "param": error.param}
    return {"error": {**fields, "code": error.code}}


def messages_body(error: ApiError) -> dict[str, Any]:
    """Make Anthropic's body of an error."""
    where = f" ({error.param})" if error.param and error.param not in error.message else ""
    return {"type": "error", "error": {"type": error.type, "message": error.message + where}}


def chat_event(error: ApiError) -> bytes:
    """Write an error into a stream of chat completions; OpenAI's client raises it."""
    return b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chat_body(error)).encode()


def responses_event(error: ApiError) -> bytes:
    """Write an error into a stream of Responses."""
    fields = {"code": error.code or error.type, "message": error.message, "param": error.param}
    data = {"type": "error", "sequence_number": -1, **fields}
    return b"event: error\ndata: %b\n\n" % json.dumps(data).encode()


def messages_event(error: ApiError) -> bytes:
    """Write an error into a stream of Anthropic's messages."""
    return b"event: error\ndata: %b\n\n" % json.dumps(messages_body(error)).encode()
