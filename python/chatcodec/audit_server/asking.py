"""A running server, and how it tells what its prompts are: by ids, or by their number alone."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec.errors import ChatCodecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatcodec.audit import Made

__all__ = ["Prompt", "Server", "Way"]

Way: TypeAlias = Literal["prompt_token_ids", "/tokenize", "/apply-template", "usage"]
"""How a server tells a prompt: with an answer of one token; by vLLM's `/tokenize` of messages; by
llama.cpp's `/apply-template` and `/tokenize`; by the number of ids in the usage of an answer."""

_TIMEOUT = 120
"""Seconds for an answer of one token; a server may load its model first."""

_REFUSED = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    # llama.cpp, of a conversation that the template refuses.
    HTTPStatus.INTERNAL_SERVER_ERROR,
}
_NOT_OFFERED = {*_REFUSED, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED,
                HTTPStatus.NOT_IMPLEMENTED}  # fmt: skip

_QUESTION: Made = ([{"role": "user", "content": "Good morning"}], None)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of the server's."""

    count: int
    """Number of its ids."""
    ids: tuple[int, ...] | None
    """The ids; None where the server tells their number alone."""


class StatusError(ChatCodecError):
    """An answer with a status of an error."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Server:
    """A server of OpenAI's chat completions.

    `address` is the one before `/v1`. The variable `CHATCODEC_SERVER_KEY` is its key. Raises
    `ChatCodecError` for a server that tells no prompt in any of the ways.
    """

    def __init__(self, address: str) -> None:
        """Find the model, and the first way in which the server tells its prompts."""
        self.base = address.rstrip("/").removesuffix("/v1")
        if not self.base.startswith(("http://", "https://")):
            raise ChatCodecError(f"`--server` is `{address}`; expected an address of http or https")
        self.model = self._first_model()
        self._ways: dict[Way, Callable[[Made], Prompt | None]] = {
            "prompt_token_ids": self._by_answer,
            "/tokenize": self._by_tokenize,
            "/apply-template": self._by_template,
            "usage": self._by_usage,
        }
        self.way: Way = self._first_way()

    def prompt(self, made: Made) -> Prompt | None:
        """Return the prompt of a conversation; None where the server refuses it.

        Raises `ChatCodecError` for a server that fails otherwise.
        """
        try:
            return self._ways[self.way](made)
        except StatusError as error:
            if error.status in _REFUSED:
                return None
            raise

    def _first_way(self) -> Way:
        why = ""
        for way, ask in self._ways.items():
            try:
                if ask(_QUESTION) is not None:
                    return way
            except StatusError as error:
                if error.status not in _NOT_OFFERED:
                    raise
                why = f": {error}"
        raise ChatCodecError(
            f"{self.base}: tells no prompt; expected `prompt_token_ids` or `usage.prompt_tokens` "
            f"of chat completions, `/tokenize` of messages, or `/apply-template`{why}"
        )

    def _by_answer(self, made: Made) -> Prompt | None:
        answer = self._answer(made, return_token_ids=True)
        ids = answer.get("prompt_token_ids")
        if ids is None and answer.get("choices"):
            ids = answer["choices"][0].get("prompt_token_ids")
        return _of_ids(ids)

    def _by_tokenize(self, made: Made) -> Prompt | None:
        messages, tools = _as_json(made)
        body = {"model": self.model, "messages": messages, "add_generation_prompt": True, **tools}
        return _of_ids(self._ask("/tokenize", body).get("tokens"))

    def _by_template(self, made: Made) -> Prompt | None:
        messages, tools = _as_json(made)
        text = self._ask("/apply-template", {"messages": messages, **tools}).get("prompt")
        if not isinstance(text, str):
            return None
        # As llama.cpp tokenizes the prompts of its chat completions.
        body = {"content": text, "add_special": True, "parse_special": True}
        return _of_ids(self._ask("/tokenize", body).get("tokens"))

    def _by_usage(self, made: Made) -> Prompt | None:
        usage = self._answer(made).get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        return Prompt(count, None) if isinstance(count, int) else None

    def _answer(self, made: Made, **more: object) -> dict[str, Any]:
        messages, tools = _as_json(made)
        body = {"model": self.model, "messages": messages, "max_tokens": 1, **tools, **more}
        return self._ask("/v1/chat/completions", body)

    def _first_model(self) -> str:
        try:
            return str(self._ask("/v1/models")["data"][0]["id"])
        except (KeyError, IndexError, TypeError) as error:
            raise ChatCodecError(f"{self.base}: `/v1/models` names no model") from error

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("CHATCODEC_SERVER_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                value = json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(500).decode(errors="replace")
            message = f"{self.base}{path}: status {error.code}: {said}"
            raise StatusError(message, error.code) from error
        except (OSError, ValueError) as error:
            raise ChatCodecError(f"{self.base}{path}: {error}") from error
        return value if isinstance(value, dict) else {}


def _of_ids(ids: object) -> Prompt | None:
    if not isinstance(ids, list) or not all(isinstance(id_, int) for id_ in ids):
        return None
    return Prompt(len(ids), tuple(ids))


def _as_json(made: Made) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Give messages and tools as clients send them: arguments are JSON text."""
    messages, tools = made
    sent = []
    for message in messages:
        calls = message.get("tool_calls")
        sent.append(message if calls is None else {**message, "tool_calls": [*map(_call, calls)]})
    return sent, {} if tools is None else {"tools": tools}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": {**function, "arguments": arguments}}
