"""Derendering of `/v1/completions`: an engine's ids as text, in vLLM's shape.

A whole answer has one response of the engine for each prompt, as rendering gives one request for
each. A stream is derendered as that of chat completions is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.adapters.stops import StopStrings
from chatcodec.serve.apis import APIS
from chatcodec.serve.completions import TextStream
from chatcodec.serve.derender import Derender, choices_of, ids_of
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.adapters import Chunk, Request
    from chatcodec.adapters.run import Generated
    from chatcodec.serve.reading import Read, Reader

__all__ = ["derendered_text"]

_RESPONSES = "generate_responses"


def derendered_text(body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Give the answer, or one chunk and the state, of a body. Raises `ApiError`."""
    derender = _TextDerender(body, reader)
    return derender.chunk() if body.get("stream") else derender.whole()


class _TextDerender(Derender):
    api: ClassVar = next(api for api in APIS if api.name == "completions")
    kind: ClassVar = "text_completion"
    request_key: ClassVar = "completion_request"
    read: Read | None = None

    def whole(self) -> dict[str, Any]:
        responses = self.body.get(_RESPONSES)
        if not isinstance(responses, list) or not responses:
            raise ApiError(400, f"`{_RESPONSES}` is no list of responses", _RESPONSES)
        if not all(isinstance(each, dict) for each in responses):
            raise ApiError(400, f"`{_RESPONSES}` has what is no object", _RESPONSES)
        head = self._head(responses[0])
        found: list[Chunk] = []
        index = completion = 0
        for said in responses:
            for choice in choices_of(said, _RESPONSES):
                numbered = {**choice, "index": index}
                found += self._chunks(iter([self._item(choice, whole=True)]), numbered, head)
                completion += len(choice.get("token_ids") or [])
                index += 1
        return {**self.api.collect(found), "usage": self._usage(completion)}

    def _read(self, given: dict[str, Any]) -> Request:
        self.read = self.reader.read(self.api, given)
        return self.read.request

    def _prompt(self) -> list[int] | None:
        given = self.body.get("prompt_token_ids")
        if given is not None:
            lists = [given] if self.body.get("stream") else given
            if not isinstance(lists, list):
                raise ApiError(400, "`prompt_token_ids` is no list", "prompt_token_ids")
            found = (ids_of(each, "prompt_token_ids") for each in lists if each is not None)
            return [id_ for ids in found for id_ in ids]
        return None if self.read is None else self.read.prompt.ids.tolist()

    def _usage(self, completion: int) -> dict[str, Any]:
        told = self.body.get("prompt_tokens")
        if isinstance(told, list) and all(type(each) is int for each in told):
            self.body["prompt_tokens"] = sum(told)
        return super()._usage(completion)

    def _item(self, choice: dict[str, Any], *, whole: bool) -> Generated:
        ids = choice.get("token_ids") or []
        stops = self.read.asked.stop_ids if self.read is not None else ()
        if choice.get("finish_reason") == "stop" and ids and ids[-1] in stops:
            choice = {**choice, "token_ids": ids[:-1]}
        return super()._item(choice, whole=whole)

    def _stream(self) -> TextStream:
        with_control = self.read is not None and self.read.asked.with_control
        return TextStream(self.reader.codec, with_control=with_control)

    def _stop(self) -> Sequence[str] | StopStrings:
        if self.read is None:
            return ()
        return StopStrings(self.read.request.stop, keep=self.read.asked.keeps_stop)

    def _merged(self, made: list[Chunk], index: int) -> Chunk:
        text, reason = "", None
        logprobs: dict[str, Any] | None = None
        for chunk in made:
            choice = chunk["choices"][0]
            text += choice["text"]
            reason = choice["finish_reason"] or reason
            for key, values in (choice["logprobs"] or {}).items():
                logprobs = logprobs or {}
                logprobs.setdefault(key, []).extend(values)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
