"""The body of a request: a JSON object, of a bounded size, that comes in a bounded time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chatcodec.serve.errors import ApiError
from chatcodec.serve.finite import read_json

if TYPE_CHECKING:
    from starlette.requests import Request as HttpRequest

__all__ = ["check_kind", "parse_body", "read_body"]


def check_kind(http: HttpRequest) -> None:
    """Refuse a body that is not said to be JSON. Raises `ApiError`.

    A web page may send any other kind to any address without asking first.
    """
    kind = http.headers.get("content-type", "").partition(";")[0].strip()
    if kind.lower() != "application/json":
        found = f"`{kind:.80}`" if kind else "missing"
        raise ApiError(415, f"the header `Content-Type` is {found}, expected `application/json`")


async def read_body(http: HttpRequest, most: int, seconds: float) -> bytes:
    """Read a body of at most so many bytes, within so many seconds.

    Raises `ApiError`, and starlette's `ClientDisconnect`.
    """
    raw = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in http.stream():
                raw += piece
                if len(raw) > most:
                    raise ApiError(413, f"the body has more than {most} bytes; send less")
    except TimeoutError as error:
        raise ApiError(408, "the body did not come in time") from error
    return bytes(raw)


def parse_body(raw: bytes) -> dict[str, Any]:
    """Read a JSON object. Raises `ApiError` for anything else."""
    try:
        value = read_json(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ApiError(400, "the body is nested too deeply") from error
    except ValueError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ApiError(400, f"the body is {type(value).__name__}, expected a JSON object")
    return value
