"""While an engine is silent, a stream says that it lives, and its end is told all the same."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from itertools import product
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from answering import CODEC, END, GOOD, IDS, Backend, chunk, say
from clients import anthropic_seen, chat_seen
from gateway import MODEL, Gateway, gateway, serving
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

SILENCE = 0.3
BEAT = 0.06
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
COMMENT = b": waiting\n\n"
PATHS = {"chat/completions": COMMENT, "responses": COMMENT, "messages": PING}


async def silent(_: dict[str, Any]) -> AsyncIterator[bytes]:
    await asyncio.sleep(SILENCE)
    yield chunk(IDS[:2])
    await asyncio.sleep(SILENCE)
    yield chunk([*IDS[2:], END], "stop")


async def failing(_: dict[str, Any]) -> AsyncIterator[bytes]:
    await asyncio.sleep(SILENCE)
    yield b'data: {"error": {"message": "x"}}\n\n'


async def busy(_: dict[str, Any]) -> AsyncIterator[bytes]:
    for _at in range(20):
        yield chunk(IDS[:1])
        await asyncio.sleep(BEAT / 5)
    yield GOOD


async def for_ever(_: dict[str, Any]) -> AsyncIterator[bytes]:
    await asyncio.sleep(60)
    yield GOOD


ANSWERS: Any = {"silent": silent, "failing": failing, "busy": busy, "for ever": for_ever}


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with serving(Backend(ANSWERS).app()) as url:
        yield url


@pytest.fixture(scope="module")
def of(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("heartbeat")
    options = ("--heartbeat", str(BEAT), "--client-timeout", "2")
    with gateway(backend, folder, *options) as made:
        yield made


def body(text: str, path: str = "chat/completions") -> dict[str, Any]:
    key = "input" if path == "responses" else "messages"
    made = {"model": MODEL, key: say(text), "stream": True}
    return made if path == "responses" else {**made, "max_tokens": 50}


def streamed(of: Gateway, text: str, path: str = "chat/completions") -> bytes:
    answer = httpx.post(f"{of.v1}/{path}", json=body(text, path), trust_env=False, timeout=30)
    assert answer.status_code == 200
    return answer.content


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_of_a_silent_engine_says_that_it_lives(of: Gateway, path: str) -> None:
    answer = streamed(of, "silent", path)
    beat = PATHS[path]
    # Two silences; on a busy machine there may be fewer beats than seconds allow.
    assert 2 <= answer.count(beat) <= 2 * SILENCE / BEAT + 1
    plain = streamed(of, "plain", path)
    assert beat not in plain
    events = [each for each in answer.replace(beat, b"").split(b"\n\n") if each]
    assert all(each.startswith((b"data: ", b"event: ")) for each in events)
    assert events[-1].split(b"\n")[0] == plain.split(b"\n\n")[-2].split(b"\n")[0]


def test_an_engine_that_is_not_silent_needs_none(of: Gateway) -> None:
    begun = time.monotonic()
    # A busy machine may be silent itself, but not each time.
    assert any(COMMENT not in streamed(of, "busy") for _ in range(5))
    assert time.monotonic() - begun > 2 * BEAT


def test_clients_do_not_see_them(of: Gateway) -> None:
    text = ""
    for each in of.openai.chat.completions.create(**body("silent")):
        text += "".join(choice.delta.content or "" for choice in each.choices)
    assert text == "one two three four"
    asked: Any = {"model": MODEL, "messages": say("silent"), "max_tokens": 50}
    with of.anthropic.messages.stream(**asked) as events:
        assert anthropic_seen(events.get_final_message()).text == text
    whole = of.openai.chat.completions.create(model=MODEL, messages=say("silent"))
    assert chat_seen(whole).text == text


def test_a_failure_after_a_silence_is_told(of: Gateway) -> None:
    answer = streamed(of, "failing")
    assert COMMENT in answer
    assert b'"error"' in answer
    assert answer.endswith(b"data: [DONE]\n\n")


def test_a_client_that_goes_in_a_silence_is_noticed(of: Gateway) -> None:
    raw = json.dumps(body("for ever")).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
    head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(raw)
    host, port = of.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head + raw)
        client.settimeout(10)
        while COMMENT not in client.recv(65_536):
            pass
    deadline = time.monotonic() + 10
    while of.metric("chatcodec_requests_running "):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_without_heartbeats_there_are_none(backend: str, tmp_path: Path) -> None:
    with gateway(backend, tmp_path, "--heartbeat", "0") as of:
        assert COMMENT not in streamed(of, "silent")


def test_an_engine_that_answers_whole_is_silent_before_its_head(tmp_path: Path) -> None:
    """llama.cpp answers when all is generated: the stream has to begin before."""

    async def answer(http: Request) -> Response:
        text = str(CODEC.decode((await http.json())["prompt"])[-1]["content"])
        await asyncio.sleep(SILENCE)
        if text != "200":
            return JSONResponse({"error": {"message": "x"}}, int(text))
        return JSONResponse({"tokens": [*IDS, END], "stop_type": "eos"})

    app = Starlette(routes=[Route("/completion", answer, methods=["POST"])])
    options = ("--engine", "llamacpp", "--heartbeat", str(BEAT))
    with serving(app) as url, gateway(url, tmp_path, *options) as of:
        for (path, beat), status in product(PATHS.items(), ("200", "400", "500")):
            found = streamed(of, status, path)
            assert beat in found
            assert (b"(error " in found) == (status != "200")
            assert (b"four" in found) == (status == "200")
        deadline = time.monotonic() + 5
        for counted in (200, 400, 502):
            while of.metric(f'chatcodec_requests_total{{api="chat",status="{counted}"}}') != 1:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert "Traceback" not in of.log.read_text("utf-8")
