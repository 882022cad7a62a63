"""Derendering: an engine's ids as the answer of an API, for routers that have the ids.

The shapes are vLLM's. A whole answer is one question. For a stream, each question has one chunk of
the engine and the state that the last answer gave: the ids so far, which are read again, because
the server keeps nothing; with their log probabilities, where the request asks for them. The cost of
a stream is therefore the square of its length.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.adapters import openai_chat
from chatcodec.adapters.run import Generated, chunks
from chatcodec.errors import MessageError
from chatcodec.serve.apis import APIS
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chatcodec import Stream, Vocab
    from chatcodec.adapters import Adapter, Chunk, Request
    from chatcodec.adapters.stops import StopStrings
    from chatcodec.serve.completions import TextStream
    from chatcodec.serve.reading import Reader

__all__ = ["Derender", "choices_of", "derendered", "ids_of", "object_of"]

_LENGTH = {"length", "max_tokens"}


class _PauseError(Exception):
    """The ids so far have been read; the answer goes on."""


def derendered(body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Give the answer, or one chunk and the state, of a body. Raises `ApiError`."""
    derender = Derender(body, reader)
    return derender.chunk() if body.get("stream") else derender.whole()


class Derender:
    """The answer of chat completions; another API has its own shapes."""

    api: ClassVar = APIS[0]
    kind: ClassVar = "chat.completion.chunk"
    """The `object` of a chunk."""
    request_key: ClassVar = "chat_request"

    def __init__(self, body: dict[str, Any], reader: Reader) -> None:
        """Read the request, if the body has it, and its prompt. Raises `ApiError`."""
        self.body, self.reader = body, reader
        self.model = reader.check_model(body.get("model"))
        self.request = self._request(body.get(self.request_key))
        self.prompt = self._prompt()

    def whole(self) -> dict[str, Any]:
        """Give a whole answer."""
        said = object_of(self.body, "generate_response")
        choices = choices_of(said, "generate_response")
        head = self._head(said)
        found: list[Chunk] = []
        for choice in choices:
            found += self._chunks(iter([self._item(choice, whole=True)]), choice, head)
        answer = openai_chat.collect(found)
        completion = sum(len(choice.get("token_ids") or []) for choice in choices)
        return {**answer, "usage": self._usage(completion)}

    def chunk(self) -> dict[str, Any]:
        """Give the chunk of an engine's chunk, and the state."""
        said = object_of(self.body, "generate_chunk")
        choices = choices_of(said, "generate_chunk", most=1)
        state = self._state(said)
        before, lengths = state["output_token_ids"], state["output_chunk_lens"]
        head = {"id": state["id"], "created": state["created"]}
        told: Chunk = {**head, "object": self.kind, "model": self.model}
        told["choices"] = []
        for choice in choices:
            added = self._added(choice, state, head)
            told["choices"].append(self._merged(added, choice.get("index", 0)))
            new = choice.get("token_ids") or []
            before, lengths = [*before, *new], [*lengths, *([len(new)] if new else [])]
            state["output_logprobs"] += self._told_of(choice)
        told["usage"] = self._usage(len(before)) if said.get("usage") else None
        kept: dict[str, Any] = {"output_token_ids": before, "output_chunk_lens": lengths}
        if self._tells_logprobs:
            kept["output_logprobs"] = state["output_logprobs"]
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
                ids = state["output_token_ids"][at : at + length]
                told = state["output_logprobs"][at : at + length]
                yield Generated(ids, self._entries(told))
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
        adapter: Adapter = self.api.adapter(**options)
        stream: Any = self._stream()
        return chunks(items, stream, adapter, stop=self._stop())

    def _stream(self) -> Stream | TextStream:
        """Begin to read after the prompt."""
        tools = self.request.tools if self.request else None
        return self.reader.codec.stream(self.prompt, tools=tools or None)

    def _stop(self) -> Sequence[str] | StopStrings:
        return self.request.stop if self.request else ()

    def _merged(self, made: list[Chunk], index: int) -> Chunk:
        """Make one choice of a chunk of those of several."""
        return _merged(made, index)

    def _item(self, choice: dict[str, Any], *, whole: bool) -> Generated:
        reason = choice.get("finish_reason", "stop" if whole else None)
        told = None if reason is None else "length" if reason in _LENGTH else "stop"
        entries = self._entries(self._told_of(choice))
        return Generated(choice.get("token_ids") or [], entries, told)  # type: ignore[arg-type]

    @property
    def _tells_logprobs(self) -> bool:
        return self.request is not None and bool(self.request.adapter.get("logprobs"))

    def _told_of(self, choice: dict[str, Any]) -> list[Any]:
        """Give a choice's log probabilities as the engine tells them, if they are asked for."""
        told = choice.get("logprobs")
        content = told.get("content") if isinstance(told, dict) else None
        if not self._tells_logprobs or content is None:
            return []
        if not isinstance(content, list):
            raise ApiError(400, "`logprobs.content` is no list", "logprobs")
        return content

    def _entries(self, told: list[Any]) -> list[Chunk]:
        return _entries(told, self.reader.codec.vocab)

    def _request(self, given: object) -> Request | None:
        if given is None:
            return None
        if not isinstance(given, dict):
            raise ApiError(400, f"`{self.request_key}` is no object", self.request_key)
        try:
            return self._read(dict(given))
        except MessageError as error:
            path = f"{self.request_key}.{error.path}"
            raise ApiError(400, str(error).replace(error.path, path, 1), path) from error

    def _read(self, given: dict[str, Any]) -> Request:
        """Read the request. Raises `ApiError` and `MessageError`."""
        return self.reader.request(self.api, given, constrained=True)[1]

    def _prompt(self) -> list[int] | None:
        """Give the ids of the prompt: those of the body, or those of its request."""
        given = self.body.get("prompt_token_ids")
        if given is not None:
            return ids_of(given, "prompt_token_ids")
        if self.request is None:
            return None
        return self.reader.encode(self.request).ids.tolist()

    def _head(self, said: dict[str, Any]) -> dict[str, Any]:
        given = said.get("request_id")
        own = self.api.prefix + secrets.token_hex(12)
        id_ = given if isinstance(given, str) and given else own
        return {"id": id_, "created": int(time.time())}

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
        before = ids_of(given.get("output_token_ids", []), "stream_state")
        lengths = ids_of(given.get("output_chunk_lens", []), "stream_state")
        if sum(lengths) != len(before):
            problem = f"`stream_state` has {len(before)} ids in chunks of {sum(lengths)}"
            raise ApiError(400, problem, "stream_state")
        head = self._head(said)
        id_, created = given.get("id", head["id"]), given.get("created", head["created"])
        told = given.get("output_logprobs") or []
        is_told = isinstance(told, list) and len(told) <= len(before)
        if not isinstance(id_, str) or type(created) is not int or not is_told:
            raise ApiError(400, "`stream_state` is not what an answer gave", "stream_state")
        return {
            "id": id_,
            "created": created,
            "output_token_ids": before,
            "output_chunk_lens": lengths,
            "output_logprobs": [*told],
            "role_sent": given.get("role_sent") is True,
        }


def object_of(body: dict[str, Any], key: str) -> dict[str, Any]:
    """Give a member that is an object. Raises `ApiError` for another."""
    value = body.get(key)
    if not isinstance(value, dict):
        raise ApiError(400, f"`{key}` is {type(value).__name__}, expected an object", key)
    return value


def choices_of(said: dict[str, Any], key: str, most: int | None = None) -> list[dict[str, Any]]:
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
        ids_of(each.get("token_ids") or [], f"{key}.choices")
        if type(each.get("index", 0)) is not int:
            raise ApiError(400, f"`{key}.choices` has an index that is no number", key)
    return choices


def ids_of(value: object, key: str) -> list[int]:
    """Give a value that is a list of ids. Raises `ApiError` for another."""
    if not isinstance(value, list) or not all(
        type(id_) is int and 0 <= id_ < _LARGEST for id_ in value
    ):
        raise ApiError(400, f"`{key}` has no list of ids", key)
    return value


_LARGEST = 2**32


def _entries(told: list[Any], vocab: Vocab) -> list[Chunk]:
    """Make the entries of log probabilities that are told by id."""
    try:
        return [
            openai_chat.logprob(
                vocab,
                each["token_id"],
                float(each["logprob"]),
                [(top["token_id"], float(top["logprob"])) for top in each.get("top_logprobs", [])],
            )
            for each in told
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
