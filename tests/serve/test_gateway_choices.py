"""Several choices of a request are generated together; the engine's usage is told."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from answering import CODEC, END, GOOD, IDS, Backend, chunk, say
from gateway import MODEL, Gateway, gateway, serving
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from starlette.requests import Request

CACHED = 7


class LlamaCpp:
    """A server that answers when so many requests are open at once, and fails each `fails`th."""

    def __init__(self, together: int) -> None:
        self.together, self.fails = together, 0
        self.open = self.count = 0
        self.seeds: list[int] = []
        self.all = asyncio.Event()

    async def answer(self, http: Request) -> Response:
        body = await http.json()
        self.seeds.append(body.get("seed", 0))
        self.open += 1
        self.count += 1
        if self.count == self.fails:
            return JSONResponse({"error": {"message": "no"}}, 500)
        if self.open == self.together:
            self.all.set()
        try:
            async with asyncio.timeout(10):
                await self.all.wait()
        except TimeoutError:
            return JSONResponse({"error": {"message": "the others do not come"}}, 500)
        timings = {"cache_n": CACHED, "prompt_n": 1}
        return JSONResponse({"tokens": [*IDS, END], "stop_type": "eos", "timings": timings})


def ask(of: Gateway, path: str = "chat/completions", **fields: object) -> Any:  # noqa: ANN401
    key = "input" if path == "responses" else "messages"
    body = {"model": MODEL, key: say("Hi"), **fields}
    answer = httpx.post(f"{of.v1}/{path}", json=body, trust_env=False, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.text if fields.get("stream") else answer.json()


@pytest.fixture(scope="module")
def llamacpp(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Gateway, Callable[[LlamaCpp], None]]]:
    """A gateway, and what chooses the server behind it."""
    chosen: list[LlamaCpp] = []

    async def answer(http: Request) -> Response:
        return await chosen[-1].answer(http)

    app = Starlette(routes=[Route("/completion", answer, methods=["POST"])])
    folder = tmp_path_factory.mktemp("llamacpp")
    with serving(app) as url, gateway(url, folder, "--engine", "llamacpp") as of:
        yield of, chosen.append


def test_choices_before_llamacpp_are_generated_together(
    llamacpp: tuple[Gateway, Callable[[LlamaCpp], None]],
) -> None:
    of, choose = llamacpp
    engine = LlamaCpp(4)
    choose(engine)
    answer = ask(of, n=4, seed=5)
    assert [each["message"]["content"] for each in answer["choices"]] == ["one two three four"] * 4
    assert sorted(engine.seeds) == [5, 6, 7, 8]
    assert answer["usage"]["completion_tokens"] == 4 * (len(IDS) + 1)
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": CACHED}


def test_a_choice_that_fails_ends_the_others(
    llamacpp: tuple[Gateway, Callable[[LlamaCpp], None]],
) -> None:
    of, choose = llamacpp
    engine = LlamaCpp(100)
    engine.fails = 3
    choose(engine)
    body = {"model": MODEL, "messages": say("Hi"), "n": 3}
    answer = httpx.post(f"{of.v1}/chat/completions", json=body, trust_env=False, timeout=5)
    assert answer.status_code == 502
    assert of.metric("chatcodec_requests_running ") == 0


def usage(**fields: object) -> bytes:
    about = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, **fields}
    return b"data: %b\n\n" % json.dumps({"choices": [], "usage": about}).encode()


async def late(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0.02)


TOLD = usage(prompt_tokens_details={"cached_tokens": CACHED})
BODIES: dict[str, list[bytes]] = {
    "with usage": [chunk(IDS), chunk([END], "stop"), TOLD, b"data: [DONE]\n\n"],
    "at once": [chunk(IDS) + chunk([END], "stop") + TOLD + b"data: [DONE]\n\n"],
    "in the last": [
        chunk(IDS),
        chunk([END], "stop", usage={"prompt_tokens_details": {"cached_tokens": CACHED}}),
    ],
    "without details": [chunk(IDS), chunk([END], "stop"), usage(), b"data: [DONE]\n\n"],
    "null": [chunk([*IDS, END], "stop"), usage(prompt_tokens_details=None)],
    "nonsense": [chunk([*IDS, END], "stop"), usage(prompt_tokens_details={"cached_tokens": "x"})],
    "negative": [chunk([*IDS, END], "stop"), usage(prompt_tokens_details={"cached_tokens": -1})],
    "broken": [chunk([*IDS, END], "stop"), b"data: x\n\n"],
    "error": [chunk([*IDS, END], "stop"), b'data: {"error": {"message": "x"}}\n\n'],
    "none": [GOOD],
}
KNOWN = {"with usage", "at once", "in the last"}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Gateway]]:
    chosen = [""]
    backend = Backend({"Hi": lambda _: late(BODIES[chosen[0]])})
    with serving(backend.app()) as url, gateway(url, tmp_path_factory.mktemp("usage")) as of:

        def choose(name: str) -> Gateway:
            chosen[0] = name
            return of

        yield choose


@pytest.mark.parametrize("name", BODIES)
def test_cached_ids_are_those_that_the_engine_tells(
    told: Callable[[str], Gateway], name: str
) -> None:
    of = told(name)
    prompt = len(CODEC.encode(say("Hi"), add_generation_prompt=True))
    known = name in KNOWN
    chat = ask(of)["usage"]
    assert chat["prompt_tokens"] == prompt
    assert chat.get("prompt_tokens_details") == ({"cached_tokens": CACHED} if known else None)
    message = ask(of, "messages", max_tokens=50)["usage"]
    assert message.get("cache_read_input_tokens") == (CACHED if known else None)
    assert message["input_tokens"] == prompt - (CACHED if known else 0)
    response = ask(of, "responses")["usage"]
    # The schema of Responses requires the number.
    assert response["input_tokens_details"]["cached_tokens"] == (CACHED if known else 0)
    stream = ask(of, stream=True, stream_options={"include_usage": True})
    assert ('"cached_tokens"' in stream) == known


def test_sglang_tells_cached_ids_in_each_event(tmp_path: Path) -> None:
    async def answer(_: Request) -> Response:
        about = {"completion_tokens": 5, "finish_reason": {"type": "stop"}, "cached_tokens": CACHED}
        event = json.dumps({"output_ids": [*IDS, END], "meta_info": about}).encode()
        return Response(b"data: %b\n\n" % event, media_type="text/event-stream")

    app = Starlette(routes=[Route("/generate", answer, methods=["POST"])])
    with serving(app) as url, gateway(url, tmp_path, "--engine", "sglang") as of:
        details = ask(of, max_tokens=50)["usage"]["prompt_tokens_details"]
        assert details == {"cached_tokens": CACHED}
