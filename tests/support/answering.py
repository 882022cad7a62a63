"""A backend of vLLM's protocol whose answer is chosen by the text of the prompt, for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from chatcodec import Codec
from gateway import MODEL
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

CODEC = Codec("internlm2", vocab="embedded")
IDS = list(CODEC.vocab.encode("one two three four"))
END = CODEC.stop_ids[0]

Answer: TypeAlias = "Callable[[dict[str, Any]], Response | AsyncIterator[bytes]]"
"""Makes an answer, or the pieces of a stream, from a request's body."""


def chunk(ids: object, reason: str | None = None, **fields: object) -> bytes:
    choice = {"index": 0, "token_ids": ids, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"choices": [choice], **fields}).encode()


GOOD = chunk(IDS) + chunk([END], "stop") + b"data: [DONE]\n\n"


def say(text: str) -> Any:  # noqa: ANN401
    return [{"role": "user", "content": text}]


class Backend:
    """Remembers the bodies that it was sent."""

    def __init__(
        self,
        answers: dict[str, Answer],
        models: Callable[[], Awaitable[Response]] | None = None,
    ) -> None:
        self.answers, self.models = answers, models
        self.asked: list[dict[str, Any]] = []
        self.asked_models = 0

    async def answer(self, http: Request) -> Response:
        body = json.loads(await http.body())
        self.asked.append(body)
        text = str(CODEC.decode(body["prompt"])[-1]["content"])
        if text not in self.answers:
            return Response(GOOD, media_type="text/event-stream")
        made = self.answers[text](body)
        if isinstance(made, Response):
            return made
        return StreamingResponse(made, media_type="text/event-stream")

    async def cards(self, _: Request) -> Response:
        self.asked_models += 1
        if self.models is not None:
            return await self.models()
        return JSONResponse({"data": [{"id": MODEL, "max_model_len": 4096}]})

    def app(self) -> Starlette:
        routes = [Route("/v1/completions", self.answer, methods=["POST"])]
        return Starlette(routes=[*routes, Route("/v1/models", self.cards)])
