"""Requests that no engine is asked for: each is a function of its body alone, by its path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError
from chatcodec.serve.bodies import parse_body
from chatcodec.serve.derender import derendered
from chatcodec.serve.derender_text import derendered_text
from chatcodec.serve.reading import told_error
from chatcodec.serve.tokens import COUNTED, detokenized, tokenized

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatcodec.serve.reading import Reader

__all__ = ["SMALL", "made"]

SMALL: dict[str, Callable[[dict[str, Any], Reader], dict[str, Any]]] = {
    "/v1/chat/completions/derender": derendered,
    "/v1/completions/derender": derendered_text,
    "/tokenize": tokenized,
    "/detokenize": detokenized,
    **COUNTED,
}
"""The functions."""


def made(path: str, raw: bytes, reader: Reader) -> bytes:
    """Give the answer to a body, as JSON. Raises `ApiError`."""
    body = parse_body(raw)
    reader.check_model(body.get("model"))
    try:
        answer = SMALL[path](body, reader)
    except MessageError as error:
        raise told_error(error) from error
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
