"""Requests to the gateway that the operator names, for the tab that shows them live."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError

if TYPE_CHECKING:
    import http.client
    from collections.abc import Generator, Mapping

__all__ = ["Gateway"]

_TIMEOUT = 120
_ANSWER_BYTES = 64 << 20
_ERROR_BYTES = 100_000


class Gateway:
    """A gateway, or another server of OpenAI's interface; its key is in CHATCODEC_SERVER_KEY.

    Raises `ValueError` for an address that is not one of HTTP.
    """

    def __init__(self, address: str) -> None:
        """Name the gateway by the address before `/v1`; nothing is asked."""
        if not address.startswith(("http://", "https://")):
            raise ValueError(f"`{address}` is no address, expected http:// or https://")
        self.base = address.rstrip("/").removesuffix("/v1")

    def stream(self, request: Mapping[str, Any]) -> Generator[bytes, None, None]:
        """Send a conversation, and give the bytes of the streamed answer as they come.

        The first item is empty: it comes when the gateway has accepted the request. Raises
        `MessageError` for a request that the gateway refuses, and `OSError` without a gateway.
        """
        with self._open("/v1/models") as answer:
            models = json.loads(answer.read(_ERROR_BYTES))["data"]
        if not models:
            raise MessageError(f"{self.base} serves no model")
        body = {key: request[key] for key in ("messages", "tools") if request.get(key)}
        body |= {"model": models[0]["id"], "stream": True, "return_token_ids": True}
        with self._open("/v1/chat/completions", body) as answer:
            yield b""
            left = _ANSWER_BYTES
            while left > 0 and (part := answer.read1(65_536)):
                left -= len(part)
                yield part

    def _open(self, path: str, body: Mapping[str, Any] | None = None) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("CHATCODEC_SERVER_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers)  # noqa: S310 (checked)
        try:
            answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
        except urllib.error.HTTPError as error:
            with error:
                message, place = _refusal(error.read(_ERROR_BYTES))
            raise MessageError(
                f"the gateway answers {error.code}: {message or error.reason}", place
            ) from error
        except urllib.error.URLError as error:
            raise OSError(f"{self.base} cannot be reached: {error.reason}") from error
        return answer


def _refusal(content: bytes) -> tuple[str, str]:
    """Read an error of OpenAI's interface: its message, and the parameter that it is about."""
    with contextlib.suppress(ValueError, AttributeError):
        error = json.loads(content).get("error")
        return str(error.get("message") or ""), str(error.get("param") or "")
    return "", ""
