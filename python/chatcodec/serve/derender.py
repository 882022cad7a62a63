"""Derendering: an engine's ids as the answer of chat completions, for routers that have the ids.

The shapes are vLLM's. A whole answer is one question. For a stream, each question has one chunk of
the engine and the state that the last answer gave: the ids so far, which are read again, because
the server keeps nothing. The cost of a stream is therefore the square of its length.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chatcodec.adapters import openai_chat
from chatcodec.adapters.run import Generated, chunks
from chatcodec.errors import MessageError
from chatcodec.serve.apis import APIS
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Vocab
    from chatcodec.adapters import Chunk, Request
    from chatcodec.serve.reading import Reader

__all__ = ["derendered"]

_CHAT = APIS[0]
_LENGTH = {"length", "max_tokens"}


class _PauseError(Exception):
    """The ids so far have been read; the answer goes on."""


def derendered(body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Give the answer, or one chunk and the state, of a body. Raises `ApiError`."""
    derender = _Derender(body, reader)
    return derender.chunk() if body.get("stream") else derender.whole()


class _Derender:
    def __init__(self, body: dict[str, Any], reader: Reader) -> None:
        self.body, self.reader = body, reader
        self.model = reader.check_model(body.get("model"))
        self.request = self._request(body.get("chat_request"))
        self.prompt = self._prompt()

    def whole(self) -> dict[str, Any]:
        """Give a whole answer."""
        said = _object(self.body, "generate_response")
        choices = _choices(said, "generate_response")
        head = {"id": _id(said), "created": int(time.time())}
        found: list[Chunk] = []
        for choice in choices:
            found += self._chunks(iter([self._item(choice, whole=True)]), choice, head)
        answer = openai_chat.collect(found)
        completion = sum(len(choice.get("token_ids") or []) for choice in choices)
        return {**answer, "usage": self._usage(completion)}

    def chunk(self) -> dict[str, Any]:
        """Give the chunk of an engine's chunk, and the state."""
        said = _object(self.body, "generate_chunk")
        choices = _choices(said, "generate_chunk", most=1)
        state = self._state(said)
        before, lengths = state["output_token_ids"], state["output_chunk_lens"]
        head = {"id": state["id"], "created": state["created"]}
        told: Chunk = {**head, "object": "chat.completion.chunk", "model": self.model}
        told["choices"] = []
        for choice in choices:
            added = self._added(choice, state, head)
            told["choices"].append(_merged(added, choice.get("index", 0)))
            new = choice.get("token_ids") or []
            before, lengths = [*before, *new], [*lengths, *([len(new)] if new else [])]
        told["usage"] = self._usage(len(before)) if said.get("usage") else None
        kept = {"output_token_ids": before, "output_chunk_lens": lengths}
        role_sent = state["role_sent"] or bool(choices)
        return {"chunk": told, "stream_state": {**head, **kept, "role_sent": role_sent}}

    def _added(
        self, choice: dict[str, Any], state: dict[str, Any], head: dict[str, Any]
    ) -> list[Chunk]:
        """Read the ids before without a word, and give what a chunk adds."""
        tells = state["role_sent"] is False

        def items() -> Iterator[Generated]:
            nonlocal tells
            at = 0
            for length in state["output_chunk_lens"]:
                yield Generated(state["output_token_ids"][at : at + length])
                at += length
            tells = True
            yield self._item(choice, whole=False)
            if choice.get("finish_reason") is None:
                raise _PauseError

        found: list[Chunk] = []
        with suppress(_PauseError):
            for chunk in self._chunks(items(), choice, head):
                found += [chunk] if tells else []
        return found

    def _chunks(
        self, items: Iterator[Generated], choice: dict[str, Any], head: dict[str, Any]
    ) -> Iterator[Chunk]:
        request = self.request
        options: dict[str, Any] = dict(request.adapter) if request else {}
        options |= {**head, "model": self.model, "choice": choice.get("index", 0)}
        stream = self.reader.codec.stream(
            self.prompt, tools=(request.tools or None) if request else None
        )
        stop = request.stop if request else ()
        return chunks(items, stream, openai_chat.ChunkStream(**options), stop=stop)

    def _item(self, choice: dict[str, Any], *, whole: bool) -> Generated:
        reason = choice.get("finish_reason", "stop" if whole else None)
        told = None if reason is None else "length" if reason in _LENGTH else "stop"
        entries: list[Chunk] = []
        if self.request is not None and self.request.adapter.get("logprobs"):
            entries = _entries(choice, self.reader.codec.vocab)
        return Generated(choice.get("token_ids") or [], entries, told)  # type: ignore[arg-type]

    def _request(self, given: object) -> Request | None:
        if given is None:
            return None
        if not isinstance(given, dict):
            raise ApiError(400, "`chat_request` is no object", "chat_request")
        try:
            return self.reader.request(_CHAT, dict(given), constrained=True)[1]
        except MessageError as error:
            path = f"chat_request.{error.path}"
            raise ApiError(400, str(error).replace(error.path, path, 1), path) from error

    def _prompt(self) -> list[int] | None:
        """Give the ids of the prompt: those of the body, or those of its request."""
        given = self.body.get("prompt_token_ids")
        if given is not None:
            return _ids(given, "prompt_token_ids")
        if self.request is None:
            return None
        return self.reader.encode(self.request).ids.tolist()

    def _usage(self, completion: int) -> dict[str, Any]:
        prompt = self.body.get("prompt_tokens")
        if type(prompt) is not int:
            prompt = len(self.prompt or [])
        total = {"prompt_tokens": prompt, "completion_tokens": completion}
        return {**total, "total_tokens": prompt + completion}

    def _state(self, said: dict[str, Any]) -> dict[str, Any]:
        """Read the state that the last answer gave, or begin."""
        given = self.body.get("stream_state")
        given = {} if given is None else given
        if not isinstance(given, dict):
            raise ApiError(400, "`stream_state` is no object", "stream_state")
        before = _ids(given.get("output_token_ids", []), "stream_state")
        lengths = _ids(given.get("output_chunk_lens", []), "stream_state")
        if sum(lengths) != len(before):
            problem = f"`stream_state` has {len(before)} ids in chunks of {sum(lengths)}"
            raise ApiError(400, problem, "stream_state")
        id_, created = given.get("id", _id(said)), given.get("created", int(time.time()))
        if not isinstance(id_, str) or type(created) is not int:
            raise ApiError(400, "`stream_state` is not what an answer gave", "stream_state")
        return {
            "id": id_,
            "created": created,
            "output_token_ids": before,
            "output_chunk_lens": lengths,
            "role_sent": given.get("role_sent") is True,
        }


def _object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    if not isinstance(value, dict):
        raise ApiError(400, f"`{key}` is {type(value).__name__}, expected an object", key)
    return value


def _id(said: dict[str, Any]) -> str:
    given = said.get("request_id")
    return given if isinstance(given, str) and given else _CHAT.prefix + secrets.token_hex(12)


def _choices(said: dict[str, Any], key: str, most: int | None = None) -> list[dict[str, Any]]:
    """Read the choices of vLLM's shape, or the one of SGLang's."""
    if "output_ids" in said:
        about = said.get("meta_info")
        reason = about.get("finish_reason") if isinstance(about, dict) else None
        kind = reason.get("type") if isinstance(reason, dict) else reason
        choices: Any = [{"index": 0, "token_ids": said["output_ids"], "finish_reason": kind}]
    else:
        choices = said.get("choices")
    if not isinstance(choices, list) or not all(isinstance(each, dict) for each in choices):
        raise ApiError(400, f"`{key}.choices` is no list of objects", key)
    if (most is None and not choices) or (most is not None and len(choices) > most):
        expected = "one or more" if most is None else f"at most {most}"
        raise ApiError(400, f"`{key}.choices` has {len(choices)}, expected {expected}", key)
    for each in choices:
        _ids(each.get("token_ids") or [], f"{key}.choices")
        if type(each.get("index", 0)) is not int:
            raise ApiError(400, f"`{key}.choices` has an index that is no number", key)
    return choices


def _ids(value: object, key: str) -> list[int]:
    if not isinstance(value, list) or not all(
        type(id_) is int and 0 <= id_ < _LARGEST for id_ in value
    ):
        raise ApiError(400, f"`{key}` has no list of ids", key)
    return value


_LARGEST = 2**32


def _entries(choice: dict[str, Any], vocab: Vocab) -> list[Chunk]:
    """Make the entries of log probabilities that are told by id."""
    try:
        content = (choice.get("logprobs") or {}).get("content") or []
        return [
            openai_chat.logprob(
                vocab,
                each["token_id"],
                float(each["logprob"]),
                [(top["token_id"], float(top["logprob"])) for top in each.get("top_logprobs", [])],
            )
            for each in content
        ]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ApiError(400, "`logprobs` are not told by id", "logprobs") from error


def _merged(made: list[Chunk], index: int) -> Chunk:
    """Make one choice of a chunk of several; a call is one entry of the list."""
    delta: Chunk = {}
    calls: dict[int, Chunk] = {}
    entries: list[Chunk] = []
    reason = None
    for chunk in made:
        choice = chunk["choices"][0]
        reason = choice["finish_reason"] or reason
        entries += (choice["logprobs"] or {}).get("content") or []
        for key, value in choice["delta"].items():
            if key == "tool_calls":
                for call in value:
                    _add_call(calls, call)
            elif isinstance(value, str) and isinstance(delta.get(key), str) and key != "role":
                delta[key] += value
            else:
                delta[key] = value
    if calls:
        delta["tool_calls"] = list(calls.values())
    logprobs = {"content": entries} if entries else None
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}


def _add_call(calls: dict[int, Chunk], call: Chunk) -> None:
    if call["index"] not in calls:
        calls[call["index"]] = {**call, "function": dict(call["function"])}
    else:
        calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
