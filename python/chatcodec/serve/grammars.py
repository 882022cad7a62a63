"""What a request says an answer has to look like, by the names of all APIs and engines.

JSON by a schema becomes a `response_format`, for which the codec makes a grammar around the
model's own tokens. Regular expressions, choices and grammars go to the engine as they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Wish", "read_wish"]

_OPTIONS = {
    "backend",
    "disable_additional_properties",
    "disable_any_whitespace",
    "disable_fallback",
    "whitespace_pattern",
}
_RAW = {
    "guided_regex": "regex",
    "regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "ebnf": "grammar",
    "structural_tag": "structural_tag",
}
"""Kinds of the grammars that go to the engine as they are, by the names of fields."""


@dataclass(frozen=True)
class Wish:
    """What an answer has to be."""

    path: str
    """The client's field."""
    response_format: dict[str, Any] | None = None
    """JSON, as `Codec.constrain` reads it."""
    raw: tuple[str, Any] | None = None
    """A grammar of the engine's own: `regex`, `choice`, `grammar` or `structural_tag`."""


def check_raw(wish: Wish) -> None:
    """Check the type of a grammar that goes to the engine. Raises `ApiError`."""
    kind, value = wish.raw or ("", "")
    given = value if isinstance(value, list) else [value]
    if kind == "choice":
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in given):
            _refuse(wish.path, f"is {value!r:.80}, expected a list of texts")
    elif not isinstance(value, (str, dict) if kind == "structural_tag" else str):
        _refuse(wish.path, f"is {value!r:.80}, expected a text")


def read_wish(fields: dict[str, Any]) -> Wish | None:
    """Take the wish out of the fields of a request. Raises `ApiError` where there are several."""
    wishes = list(_wishes(fields))
    if len(wishes) > 1:
        first, second = wishes[:2]
        _refuse(second.path, f"is beside `{first.path}`, expected one of them")
    for wish in wishes:
        check_raw(wish)
    return wishes[0] if wishes else None


def _wishes(fields: dict[str, Any]) -> Iterator[Wish]:
    yield from _formats(fields)
    for key in ("guided_json", "json_schema"):
        if (schema := fields.pop(key, None)) is not None:
            yield _json(key, schema)
    for key, kind in _RAW.items():
        if (value := fields.pop(key, None)) is not None:
            yield Wish(key, raw=(kind, value))
    options = fields.pop("structured_outputs", None)
    for key, value in (options or {}).items():
        path = f"structured_outputs.{key:.80}"
        if value is None or value is False or key in _OPTIONS:
            continue
        if key == "json":
            yield _json(path, value)
        elif key == "json_object":
            yield Wish(path, {"type": "json_object"})
        elif key in {"regex", "choice", "grammar", "structural_tag"}:
            yield Wish(path, raw=(key, value))
        else:
            known = "`json`, `json_object`, `regex`, `choice`, `grammar`, `structural_tag`"
            _refuse(path, f"is not known here, expected one of {known}")


def _formats(fields: dict[str, Any]) -> Iterator[Wish]:
    """Yield the formats of OpenAI's and Anthropic's APIs."""
    text, config = fields.pop("text", None) or {}, fields.pop("output_config", None) or {}
    for path, given in (
        ("response_format", fields.pop("response_format", None)),
        ("text.format", text.get("format")),
        ("output_config.format", config.get("format")),
        ("output_format", fields.pop("output_format", None)),
    ):
        if given is None:
            continue
        kind = given.get("type", "text") if isinstance(given, dict) else given
        if kind == "structural_tag":
            yield Wish(path, raw=("structural_tag", given))
        elif kind != "text":
            yield Wish(path, given)


def _json(path: str, schema: object) -> Wish:
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"`{path}` is not JSON: {error}", path) from error
    if not isinstance(schema, dict):
        _refuse(path, f"is {schema!r:.80}, expected a schema")
    inner = {"name": "answer", "schema": schema, "strict": True}
    return Wish(path, {"type": "json_schema", "json_schema": inner})


def _refuse(path: str, problem: str) -> NoReturn:
    raise ApiError(400, f"`{path}` {problem}", path)
