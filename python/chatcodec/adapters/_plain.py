"""A client's values as dicts and lists, without the values that were not given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chatcodec.errors import MessageError

ABSENT = {"NotGiven", "Omit"}
"""The classes of the clients' libraries for an argument that was not given."""


def body_of(body: object) -> dict[str, Any]:
    """Return the fields of a request's body, without those that are None."""
    try:
        fields = plain(body)
    except RecursionError:
        raise MessageError("`body` is nested too deeply to be read", "body") from None
    if not isinstance(fields, dict):
        kind = type(body).__name__
        raise MessageError(f"`body` is `{kind}`, expected the request's body as a dict", "body")
    # Fields that a client's library adds to the body.
    extra = fields.pop("extra_body", None)
    fields |= extra if isinstance(extra, dict) else {}
    return {key: value for key, value in fields.items() if value is not None}


def plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value with dicts for mappings and pydantic's objects, and lists for iterables."""
    if value is None or isinstance(value, (str, int, float, bytes)):
        return value
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return plain(value.model_dump(by_alias=True))
    if isinstance(value, Mapping):
        given = ((key, each) for key, each in value.items() if type(each).__name__ not in ABSENT)
        return {key: plain(each) for key, each in given}
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return value
