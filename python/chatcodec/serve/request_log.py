"""The line of the log for one request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chatcodec.serve.errors import ApiError, BackendError
from chatcodec.serve.keys import ANYONE, Key
from chatcodec.serve.log import backend_fields

if TYPE_CHECKING:
    from starlette.requests import Request as HttpRequest

    from chatcodec.serve.answer import Answer

__all__ = ["fields_of"]

_LOGGED = 200
"""Characters of a client's header or path that are logged."""


def fields_of(
    http: HttpRequest,
    answer: Answer | None,
    status: int,
    error: BaseException | None,
    *,
    with_text: bool,
) -> dict[str, object]:
    """Describe a request that is over. Text of a client or a backend is there only if asked for."""
    key: Key = getattr(http.state, "key", ANYONE)
    fields: dict[str, object] = {"path": http.url.path[:_LOGGED], "status": status}
    if key.name:
        fields["key"] = key.name
    if answer is not None:
        fields |= described(answer)
        if with_text:
            fields["prompt"] = answer.prompt.text
    for name in ("traceparent", "x-request-id"):
        if name in http.headers:
            fields[name] = http.headers[name][:_LOGGED]
    if isinstance(error, BackendError):
        fields |= backend_fields(error, with_words=with_text)
    elif error is not None and with_text:
        fields["problem"] = str(error)
    elif isinstance(error, ApiError):
        # The message of a client's error may quote the client's text.
        fields["param"] = error.param
    return fields


def described(answer: Answer) -> dict[str, object]:
    """Describe an answer, without its text."""
    fields: dict[str, object] = {
        "id": answer.id,
        "stream": answer.asked.stream,
        "prompt_ids": len(answer.prompt),
        "completion_ids": answer.generated,
        "seconds": round(time.perf_counter() - answer.began, 4),
        "neutralized": answer.prompt.neutralized.total(),
        "notices": answer.notices,
        **answer.told.logged(),
    }
    if answer.first_event is not None:
        fields["first_event_seconds"] = round(answer.first_event, 4)
    return fields
