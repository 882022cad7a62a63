"""Faults around the gateway: backends and clients that fail. Every answer ends, and says how."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import httpx
import openai
import pytest
from chatcodec import Codec
from chatcodec.serve.demo.engine import engine, scripted
from gateway import MODEL, Gateway, free_port, gateway, serving
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request

CODEC = Codec("internlm2", vocab="embedded")
IDS = list(CODEC.vocab.encode("one two three four"))
END = CODEC.stop_ids[0]
ASK: Any = [{"role": "user", "content": "Hi"}]
CLIENT_TIMEOUT = 2
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
)


def chunk(ids: object, reason: str | None = None) -> bytes:
    choice = {"index": 0, "token_ids": ids, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


GOOD = b"".join((chunk(IDS[:2]), chunk([*IDS[2:], END], "stop"), b"data: [DONE]\n\n"))
BODIES = {
    "line ends": b": a comment\r\n\r\nevent: x\r\n" + GOOD.replace(b"\n", b"\r\n"),
    "after the end": GOOD + chunk(IDS, "stop"),
    "unknown ids": chunk([*IDS, 10**6, END], "stop"),
    "cut": chunk(IDS[:2]),
    "half an event": chunk(IDS[:2]) + b'data: {"choices": [{"tok',
    "not JSON": chunk(IDS[:2]) + b"data: nonsense\n\n",
    "ids as text": chunk(IDS[:2]) + chunk("x"),
    "error event": chunk(IDS[:2]) + b'data: {"error": {"message": "worker died"}}\n\n',
}


class Faulty:
    """A backend whose fault is named by the prompt's text."""

    def __init__(self) -> None:
        self.open = 0
        self.cancelled = 0

    async def answer(self, http: Request) -> Response:
        body = await http.json()
        fault = str(CODEC.decode(body["prompt"])[-1]["content"])
        match fault:
            case "status 500":
                return JSONResponse({"error": {"message": "out of memory"}}, 500)
            case "status 400":
                return JSONResponse({"message": "the prompt is too long"}, 400)
            case "status 413" | "status 422":
                return JSONResponse({"message": "no"}, int(fault[-3:]))
            case "status 503":
                return Response("busy", 503)
            case "html":
                return Response("<html>proxy</html>", 502)
        return StreamingResponse(self.lines(fault), media_type="text/event-stream")

    async def lines(self, fault: str) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            async for line in self.faulty(fault):
                yield line
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1

    async def faulty(self, fault: str) -> AsyncIterator[bytes]:
        if fault == "byte by byte":
            for at in range(len(GOOD)):
                yield GOOD[at : at + 1]
        elif fault == "slow":
            yield chunk(IDS[:2])
            await asyncio.sleep(60)
        elif fault == "flood":
            while True:
                yield chunk(IDS * 1000)
                await asyncio.sleep(0)
        elif fault == "endless":
            while True:
                yield chunk(IDS)
                await asyncio.sleep(0.01)
        else:
            yield BODIES.get(fault, GOOD)

    async def health(self, _: Request) -> Response:
        return Response()

    async def models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": MODEL, "max_model_len": 4096}]})

    def app(self) -> Starlette:
        routes = [Route("/v1/completions", self.answer, methods=["POST"])]
        routes.append(Route("/v1/models", self.models))
        return Starlette(routes=[*routes, Route("/health", self.health)])


@pytest.fixture(scope="module")
def faulty() -> Faulty:
    return Faulty()


@pytest.fixture(scope="module")
def of(faulty: Faulty, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("faults")
    limits = ("--read-timeout", "1", "--client-timeout", str(CLIENT_TIMEOUT))
    with serving(faulty.app()) as url, gateway(url, folder, *limits) as made:
        yield made


def say(fault: str) -> Any:  # noqa: ANN401
    return [{"role": "user", "content": fault}]


def streamed(of: Gateway, fault: str) -> str:
    text = ""
    for each in of.openai.chat.completions.create(model=MODEL, messages=say(fault), stream=True):
        text += "".join(choice.delta.content or "" for choice in each.choices)
    return text


@pytest.mark.parametrize("fault", ["byte by byte", "at once", "line ends", "after the end"])
def test_chunking_is_not_seen(of: Gateway, fault: str) -> None:
    assert streamed(of, fault) == "one two three four"
    whole = of.openai.chat.completions.create(model=MODEL, messages=say(fault))
    assert whole.choices[0].message.content == "one two three four"
    assert whole.choices[0].finish_reason == "stop"


def test_ids_out_of_the_vocabulary_are_counted(of: Gateway) -> None:
    before = of.metric('chatcodec_notices_total{kind="unknown_id"}')
    assert streamed(of, "unknown ids") == "one two three four"
    assert of.metric('chatcodec_notices_total{kind="unknown_id"}') == before + 1


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("status 500", 502),
        ("status 400", 400),
        ("status 413", 400),
        ("status 422", 400),
        ("status 503", 503),
        ("html", 502),
        ("cut", 502),
        ("half an event", 502),
        ("not JSON", 502),
        ("ids as text", 502),
        ("error event", 502),
        ("slow", 504),
    ],
)
def test_a_fault_of_the_backend_is_told(of: Gateway, fault: str, status: int) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        of.openai.chat.completions.create(model=MODEL, messages=say(fault))
    assert caught.value.status_code == status
    with pytest.raises(openai.APIError):
        streamed(of, fault)
    for path, key in (("/v1/responses", "input"), ("/v1/messages", "messages")):
        body = {"model": MODEL, key: say(fault), "stream": True, "max_tokens": 50}
        if path == "/v1/responses":
            body["max_output_tokens"] = body.pop("max_tokens")
        answer = httpx.post(of.url + path, json=body, trust_env=False, timeout=20)
        if answer.status_code == 200:
            assert "event: error\n" in answer.text
        else:
            assert answer.status_code == status
            assert answer.json()["error"]["message"]
    assert streamed(of, "fine") == "one two three four"


def wait_until(condition: Any, seconds: float = 10) -> None:  # noqa: ANN401
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def connected(of: Gateway) -> socket.socket:
    host, port = of.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)))


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_ends_the_generation(
    of: Gateway, faulty: Faulty, *, stream: bool
) -> None:
    wait_until(lambda: faulty.open == 0)
    body = json.dumps({"model": MODEL, "messages": say("endless"), "stream": stream}).encode()
    with connected(of) as client:
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: faulty.open == 1)
    wait_until(lambda: faulty.open == 0)
    wait_until(lambda: of.metric("chatcodec_requests_running ") == 0)


def test_a_client_that_does_not_read_ends_the_generation(of: Gateway, faulty: Faulty) -> None:
    wait_until(lambda: faulty.open == 0)
    # Without a limit, the gateway would end it at the window.
    asked = {"model": MODEL, "messages": say("flood"), "stream": True, "max_tokens": 10**9}
    body = json.dumps(asked).encode()
    with connected(of) as client:
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: faulty.open == 1)
        begun = time.monotonic()
        wait_until(lambda: faulty.open == 0, 30)
        assert time.monotonic() - begun >= CLIENT_TIMEOUT
        wait_until(lambda: of.metric("chatcodec_requests_running ") == 0)


def test_a_stop_string_and_a_limit_end_the_generation(of: Gateway, faulty: Faulty) -> None:
    create = of.openai.chat.completions.create
    stopped = create(model=MODEL, messages=say("endless"), stop="four")
    assert stopped.choices[0].message.content == "one two three "
    cut = create(model=MODEL, messages=say("endless"), max_tokens=3)
    assert cut.choices[0].finish_reason == "length"
    wait_until(lambda: faulty.open == 0)


def test_half_a_body(of: Gateway) -> None:
    begun = HEAD + b"content-length: 100\r\n\r\n{"
    with connected(of) as client:
        client.sendall(begun)
        assert client.recv(100).startswith(b"HTTP/1.1 408")
    with connected(of) as client:
        client.sendall(begun)
    assert streamed(of, "fine") == "one two three four"


def test_a_late_head(of: Gateway) -> None:
    """Nothing, half a head, and half the head of a second request."""
    whole = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(of)) for _ in range(3)]
        begins = time.monotonic()
        for client, begun in zip(clients, (b"", HEAD, whole + HEAD), strict=True):
            client.settimeout(CLIENT_TIMEOUT + 8)
            client.sendall(begun)
        for client, answers in zip(clients, (0, 0, 1), strict=True):
            got = b""
            while piece := client.recv(65_536):
                got += piece
            assert time.monotonic() - begins >= CLIENT_TIMEOUT - 0.5
            assert got.count(b"HTTP/1.1 200") == answers
    assert streamed(of, "fine") == "one two three four"


def test_a_head_without_end_or_sense(of: Gateway) -> None:
    with connected(of) as client:
        client.settimeout(10)
        client.sendall(HEAD)
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                client.sendall(b"x-more: " + b"a" * 10_000 + b"\r\n")
                time.sleep(0.001)
            pytest.fail("a head of 10 MB was taken")
    with connected(of) as client:
        client.sendall(b"no request\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    assert all(json.loads(line) for line in of.log.read_text("utf-8").splitlines())
    # One that is large but allowed, and a body that comes with the head.
    headers = {"x-more": "a" * 40_000}
    body = {"model": MODEL, "messages": say("fine"), "user": "u" * 100_000}
    url = f"{of.v1}/chat/completions"
    assert httpx.post(url, json=body, headers=headers, trust_env=False).status_code == 200
    assert len(of.log.read_text("utf-8").splitlines()[-1]) < 2000


def test_a_backend_that_is_away_and_comes_back(tmp_path: Path) -> None:
    port = free_port()
    with gateway(f"http://127.0.0.1:{port}", tmp_path) as of:
        for _ in range(2):
            with pytest.raises(openai.InternalServerError) as caught:
                of.openai.chat.completions.create(model=MODEL, messages=ASK)
            assert caught.value.status_code == 503
            assert httpx.get(f"{of.url}/health", trust_env=False).status_code == 503
            with serving(engine(scripted(CODEC)), port):
                answer = of.openai.chat.completions.create(model=MODEL, messages=ASK)
                assert answer.choices[0].message.content == "You said: Hi"


def test_too_many_requests_at_once(faulty: Faulty, tmp_path: Path) -> None:
    with (
        serving(faulty.app()) as url,
        gateway(url, tmp_path, "--max-requests", "1", "--queue-timeout", "0") as of,
    ):
        with of.openai.chat.completions.create(
            model=MODEL, messages=say("endless"), stream=True
        ) as first:
            next(iter(first))
            with pytest.raises(openai.InternalServerError) as caught:
                of.openai.chat.completions.create(model=MODEL, messages=ASK)
            assert caught.value.status_code == 503
            assert caught.value.response.headers["retry-after"] == "1"
        wait_until(lambda: of.metric("chatcodec_requests_running ") == 0)
        assert streamed(of, "fine") == "one two three four"


def test_it_ends_when_it_is_told(faulty: Faulty, tmp_path: Path) -> None:
    with serving(faulty.app()) as url, gateway(url, tmp_path, "--grace", "1") as of:
        done = threading.Event()

        def watch() -> None:
            with pytest.raises(openai.APIError):
                streamed(of, "endless")
            done.set()

        thread = threading.Thread(target=watch)
        thread.start()
        wait_until(lambda: of.metric("chatcodec_requests_running ") == 1)
        of.process.terminate()
        assert of.process.wait(15) is not None
        assert done.wait(5)
        thread.join()


EMBEDDED = ("--vocab", "embedded")


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chatcodec", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--backend"),
        (("--backend", "localhost:8000"), "expected a URL"),
        (("--backend", "http://x", "--workers", "0"), "--workers 0: expected 1 or more"),
        (("--backend", "http://x", "--max-model-len", "0"), "--max-model-len 0: expected"),
        (("--backend", "http://x", "--pass-header", "Authorization"), "--pass-header Auth"),
        (("--backend", "http://x", "--engine", "other"), "--engine"),
        (("--backend", "http://x", "--model", "/nowhere"), "/nowhere"),
        (("--backend", "http://x", "--api-key-file", "/nowhere", *EMBEDDED), "/nowhere"),
        (("--backend", "http://x"), "--model"),
        (("--backend", "http://x", "--vocab", "/nowhere"), "/nowhere"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], said: str) -> None:
    ran = serve(*arguments)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert ran.stderr.startswith("chatcodec: ")
    assert len(ran.stderr.splitlines()) == 1


def test_a_file_of_keys_without_keys_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("\n")
    ran = serve("--backend", "http://x", "--api-key-file", str(keys), *EMBEDDED)
    assert ran.returncode == 2
    assert "has no key" in ran.stderr


def test_the_demonstration_ends_by_itself() -> None:
    script = Path(__file__).parents[2] / "examples" / "run_gateway.py"
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert 'call       get_weather({"city": "Oslo"})' in ran.stdout
    assert "was text" in ran.stdout


def test_a_redirect_of_the_backend_is_not_followed(tmp_path: Path) -> None:
    """The conversation goes to the address that the operator gave, and to no other."""
    asked: list[str] = []

    async def redirect(_: Request) -> Response:
        return Response(status_code=307, headers={"location": "/elsewhere"})

    async def elsewhere(request: Request) -> Response:
        asked.append(request.url.path)
        return Response(GOOD, media_type="text/event-stream")

    app = Starlette(
        routes=[
            Route("/v1/completions", redirect, methods=["POST"]),
            Route("/elsewhere", elsewhere, methods=["POST"]),
        ]
    )
    with serving(app) as url, gateway(url, tmp_path) as made:
        with pytest.raises(openai.APIStatusError) as found:
            made.openai.chat.completions.create(model=MODEL, messages=ASK, max_tokens=9)
        assert found.value.status_code == 502
    assert not asked


CARDS = ["{}", '{"data": []}', '{"data": [{"id": "demo"}]}', "x", "404"]


@pytest.mark.parametrize("cards", data.share(CARDS, 3))
def test_a_backend_that_does_not_tell_its_window(tmp_path: Path, cards: str) -> None:
    """An answer that ends after 16 ids, as vLLM's does without a limit, would look like one."""

    async def models(_: Request) -> Response:
        return Response(cards, 404 if cards == "404" else 200)

    async def answer(_: Request) -> Response:
        return Response(GOOD, media_type="text/event-stream")

    routes = [Route("/v1/models", models), Route("/v1/completions", answer, methods=["POST"])]
    with serving(Starlette(routes=routes)) as url:
        with gateway(url, tmp_path) as of:
            with pytest.raises(openai.InternalServerError, match="--max-model-len") as caught:
                of.openai.chat.completions.create(model=MODEL, messages=ASK)
            assert caught.value.status_code == 502
            limited = of.openai.chat.completions.create(model=MODEL, messages=ASK, max_tokens=99)
            assert limited.choices[0].message.content == "one two three four"
        with gateway(url, tmp_path, "--max-model-len", "100") as of:
            assert streamed(of, "fine") == "one two three four"


def test_a_lost_limit_is_in_the_log(tmp_path: Path) -> None:
    """A router that drops null leaves SGLang's own limit, 128."""

    async def answer(_: Request) -> Response:
        about = {"completion_tokens": 128, "finish_reason": {"type": "length"}}
        event = json.dumps({"output_ids": [IDS[0]] * 128, "meta_info": about}).encode()
        return Response(b"data: %b\n\n" % event, media_type="text/event-stream")

    app = Starlette(routes=[Route("/generate", answer, methods=["POST"])])
    with serving(app) as url, gateway(url, tmp_path, "--engine", "sglang") as of:
        create = of.openai.chat.completions.create
        create(model=MODEL, messages=ASK, max_tokens=128)
        assert "--max-model-len" not in of.log.read_text("utf-8")
        assert create(model=MODEL, messages=ASK).choices[0].finish_reason == "length"
        wait_until(lambda: "--max-model-len" in of.log.read_text("utf-8"))
