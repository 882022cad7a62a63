"""The window of the model: what the operator says, what the engine says, and what it does not."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import pytest
from answering import CODEC, IDS, Backend, chunk, say
from chatcodec.serve.backends import window as windows
from chatcodec.serve.backends.window import Window
from chatcodec.serve.errors import BackendError
from gateway import MODEL, Gateway, gateway, serving
from gateway_here import here
from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

WINDOW = 60
LONG = "one two three four " * 60


def prompt_ids(text: str) -> int:
    return len(CODEC.encode(say(text), add_generation_prompt=True))


class Endless:
    """An engine that ignores every limit."""

    def __init__(self) -> None:
        self.open = 0

    async def pieces(self, _: dict[str, Any]) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            while True:
                yield chunk(IDS)
                await asyncio.sleep(0)
        finally:
            self.open -= 1


@pytest.fixture(scope="module")
def endless() -> Endless:
    return Endless()


@pytest.fixture(scope="module")
def backend(endless: Endless) -> Backend:
    return Backend({"endless": endless.pieces})


@pytest.fixture(scope="module")
def of(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("window")
    options = ("--max-model-len", str(WINDOW))
    with serving(backend.app()) as url, gateway(url, folder, *options) as made:
        yield made


def ask(of: Gateway, text: str, **fields: object) -> httpx.Response:
    body = {"model": MODEL, "messages": say(text), **fields}
    return httpx.post(f"{of.v1}/chat/completions", json=body, trust_env=False, timeout=60)


@pytest.mark.parametrize("limit", [None, 1, 5, 10**9])
def test_no_prompt_is_longer_than_the_window(
    of: Gateway, backend: Backend, limit: int | None
) -> None:
    asked = len(backend.asked)
    fields = {} if limit is None else {"max_tokens": limit}
    answer = ask(of, LONG, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert len(backend.asked) == asked


@pytest.mark.parametrize("limit", [None, 5, 40, 10**9])
def test_prompt_and_limit_fit_into_the_window(
    of: Gateway, backend: Backend, limit: int | None
) -> None:
    room = WINDOW - prompt_ids("Hi")
    fields = {} if limit is None else {"max_tokens": limit}
    assert ask(of, "Hi", **fields).status_code == 200
    assert backend.asked[-1]["max_tokens"] == min(room, limit or room)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("limit", [None, 7, 10**9])
def test_an_engine_that_does_not_stop_is_stopped(
    of: Gateway, endless: Endless, limit: int | None, *, stream: bool
) -> None:
    fields: dict[str, Any] = {} if limit is None else {"max_tokens": limit}
    if stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    answer = ask(of, "endless", **fields)
    assert answer.status_code == 200
    room = min(WINDOW - prompt_ids("endless"), limit or WINDOW)
    if stream:
        events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if "{" in line]
        usage = events[-1]["usage"]
        reason = events[-2]["choices"][0]["finish_reason"]
    else:
        usage = answer.json()["usage"]
        reason = answer.json()["choices"][0]["finish_reason"]
    assert usage["completion_tokens"] == room
    assert reason == "length"
    deadline = time.monotonic() + 5
    while endless.open:
        assert time.monotonic() < deadline, "the engine still generates"
        time.sleep(0.01)


def test_a_window_that_is_not_told_in_time_holds_up_nobody(tmp_path: Path) -> None:
    """All wait for one question, for two seconds at most; later requests do not wait."""

    async def hang() -> Response:
        await asyncio.sleep(60)
        return Response()

    backend = Backend({}, hang)
    took: list[float] = []

    def once(of: Gateway) -> None:
        begun = time.monotonic()
        assert ask(of, "Hi").status_code == 200
        took.append(time.monotonic() - begun)

    with serving(backend.app()) as url, gateway(url, tmp_path, "--read-timeout", "30") as of:
        begun = time.monotonic()
        assert ask(of, "Hi", max_tokens=9).status_code == 200
        assert time.monotonic() - begun < windows.PATIENCE
        threads = [threading.Thread(target=once, args=(of,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(took) == 6
        assert max(took) < windows.PATIENCE + 2
        begun = time.monotonic()
        assert ask(of, "Hi").status_code == 200
        assert time.monotonic() - begun < windows.PATIENCE
        assert backend.asked_models == 1
        # An engine's own limit is 16 ids, and such an answer would look like a whole one.
        assert backend.asked[-1]["max_tokens"] > 1000
        assert "--max-model-len" in of.log.read_text("utf-8")


class Told(Window):
    """A window whose server is a list of what it does: a body, an error, or to hang."""

    def __init__(self, said: int | None, *replies: bytes | Exception | None) -> None:
        super().__init__(None, "http://x", said)  # type: ignore[arg-type]
        self.replies = list(replies)
        self.questions = 0

    async def _get(self) -> bytes:
        self.questions += 1
        reply = self.replies.pop(0)
        if reply is None:
            await asyncio.sleep(60)
        if isinstance(reply, Exception):
            raise reply
        return reply or b""


def cards(**windows: object) -> bytes:
    listed = [{"id": name, "max_model_len": size} for name, size in windows.items()]
    return json.dumps({"data": listed}).encode()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are old at once, waits short."""
    for name, seconds in (("FRESH", 0.0), ("FAILED", 0.0), ("PATIENCE", 0.05), ("BOUND", 0.1)):
        monkeypatch.setattr(windows, name, seconds)


@pytest.mark.usefixtures("quick")
def test_an_old_window_serves_while_it_is_asked_for_again() -> None:
    async def asked() -> None:
        window = Told(None, cards(demo=10), None, aiohttp.ClientError(), cards(demo=20))
        assert await window.of("demo") == 10
        for _ in range(5):  # the server hangs
            with pytest.raises(StopIteration, match="10"):
                window.of("demo").send(None)  # which waits for nothing
            await asyncio.sleep(0)
        assert window.questions == 2
        await asyncio.sleep(0.15)
        assert await window.of("demo") == 10  # the server fails
        await asyncio.sleep(0.01)
        assert await window.of("demo") == 10
        await asyncio.sleep(0.01)
        assert await window.of("demo") == 20

    asyncio.run(asked())


def test_a_failure_is_remembered() -> None:
    async def asked() -> None:
        window = Told(None, aiohttp.ClientError(), cards(demo=20))
        assert [await window.of("demo") for _ in range(3)] == [None] * 3
        assert window.questions == 1

    asyncio.run(asked())


@pytest.mark.parametrize(
    "reply", [b"x", b"{}", b'{"data": []}', b"[]", b"[" * 100_000, cards(demo="x"), cards(demo=-1)]
)
def test_a_server_that_does_not_tell_is_an_error_for_all(reply: bytes) -> None:
    async def asked() -> None:
        window = Told(None, reply)
        for _ in range(3):
            with pytest.raises(BackendError, match="--max-model-len"):
                await window.of("demo")
        assert window.questions == 1

    asyncio.run(asked())


def test_each_model_has_its_window() -> None:
    async def asked() -> None:
        window = Told(None, cards(a=10, b=20))
        assert [await window.of(each) for each in ("a", "b", "c")] == [10, 20, 10]
        assert await Told(5).of("a") == 5

    asyncio.run(asked())


@pytest.mark.parametrize("text", ["Hi", "one two " * 20_000])
def test_tokenize_tells_the_window_that_the_backend_tells(text: str) -> None:
    backend = Backend({})
    with here(engine_app=backend.app()) as of:
        for _ in range(2):
            told = of.post("/tokenize", {"prompt": text}).json()
            assert told["max_model_len"] == 4096
            assert (told["count"], set(told)) == (
                len(told["tokens"]),
                {"count", "max_model_len", "tokens"},
            )
    assert backend.asked_models == 1


@pytest.mark.parametrize("reply", [{"data": []}, {"data": [{"id": MODEL}]}])
def test_tokenize_tells_no_window_where_nobody_does(reply: dict[str, Any]) -> None:
    async def models() -> Response:
        return JSONResponse(reply)

    with here(engine_app=Backend({}, models).app()) as of:
        told = of.post("/tokenize", {"prompt": "Hi"}).json()
    assert told["max_model_len"] is None
