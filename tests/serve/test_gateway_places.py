"""Places of the gateway: who is answered, who waits, and that a place is given back in time."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chatcodec import Codec
from chatcodec.serve.errors import ApiError
from chatcodec.serve.keys import ANYONE, Key
from chatcodec.serve.metrics import Metrics
from chatcodec.serve.places import Place, Places
from gateway import MODEL, Gateway, gateway, serving
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.types import Message

CODEC = Codec("internlm2", vocab="embedded")
IDS = [*CODEC.vocab.encode("one two"), CODEC.stop_ids[0]]
KEYS = [Key(name, b"", most) for name, most in (("a", None), ("b", None), ("c", 1))]
HEAD = "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CLIENT = httpx.Client(trust_env=False, timeout=20)


def places(
    most: int = 2, of_key: int | None = None, queued: int = 100, seconds: float = 5
) -> Places:
    return Places(most, of_key, queued, seconds, Metrics())


async def quiet() -> Message:
    """A client that sends nothing and stays."""
    await asyncio.Event().wait()
    raise AssertionError


def request(receive: Any = quiet) -> Request:  # noqa: ANN401
    return Request({"type": "http", "headers": []}, receive)


async def enter(of: Places, key: Key = ANYONE) -> Place:
    return (await of.enter(request(), key))[1]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Crowd:
    """Requests that come, end and go in any order, and what has to be true of them."""

    def __init__(self, most: int, of_key: int | None) -> None:
        self.most, self.of_key = most, of_key
        self.places = places(most, of_key)
        self.waiting: list[tuple[Key, asyncio.Task[Place]]] = []
        self.taken: list[tuple[Key, Place]] = []

    async def step(self, what: str, number: int) -> None:
        if what == "enter":
            key = KEYS[number % 3]
            self.waiting.append((key, asyncio.create_task(enter(self.places, key))))
        elif what == "leave" and self.taken:
            _, place = self.taken.pop(number % len(self.taken))
            place.leave()
            place.leave()
        elif what == "cancel" and self.waiting:
            self.waiting.pop(number % len(self.waiting))[1].cancel()
        if number % 2:
            await self.check()

    async def check(self) -> None:
        await settle()
        self.taken += [(key, task.result()) for key, task in self.waiting if task.done()]
        self.waiting = [(key, task) for key, task in self.waiting if not task.done()]
        assert self.places.taken == len(self.taken) <= self.most
        assert self.places.waiting == len(self.waiting)
        counts = Counter(key.name for key, _ in self.taken)
        limits = {key.name: key.most or self.of_key or self.most for key in KEYS}
        assert all(counts[name] <= limit for name, limit in limits.items())
        # Nobody waits who may have a place.
        if len(self.taken) < self.most:
            assert all(counts[key.name] == limits[key.name] for key, _ in self.waiting)

    async def end(self) -> None:
        await self.check()
        for _, task in self.waiting:
            task.cancel()
        await settle()
        for _, place in self.taken:
            place.leave()
        assert (self.places.taken, self.places.waiting) == (0, 0)


STEPS = st.tuples(st.sampled_from(["enter", "enter", "leave", "cancel"]), st.integers(0, 9))


@given(st.integers(1, 4), st.none() | st.integers(1, 3), st.lists(STEPS, max_size=60))
def test_places_are_never_lost_or_given_twice(
    most: int, of_key: int | None, steps: list[tuple[str, int]]
) -> None:
    async def run() -> None:
        crowd = Crowd(most, of_key)
        for what, number in steps:
            await crowd.step(what, number)
        await crowd.end()

    asyncio.run(run())


def test_the_queue_is_fair() -> None:
    """A key with many requests delays another one by one request."""

    async def run() -> list[str]:
        of, order = places(1), list[str]()

        async def ask(key: Key) -> None:
            place = await enter(of, key)
            order.append(key.name)
            await asyncio.sleep(0)
            place.leave()

        a, b, _ = KEYS
        before = await enter(of, a)
        asked = [asyncio.create_task(ask(a)) for _ in range(20)]
        await settle()
        asked += [asyncio.create_task(ask(b)) for _ in range(3)]
        await settle()
        before.leave()
        await asyncio.gather(*asked)
        return order

    order = asyncio.run(run())
    assert Counter(order) == {"a": 20, "b": 3}
    assert order[:6] == ["a", "b", "a", "b", "a", "b"]


def test_a_full_queue_refuses_who_has_most() -> None:
    async def run() -> None:
        of = places(1, queued=4)
        a, b, _ = KEYS
        await enter(of, a)
        first = [asyncio.create_task(enter(of, a)) for _ in range(5)]
        await settle()
        # The fifth was one too many.
        assert [task.done() for task in first] == [False] * 4 + [True]
        second = [asyncio.create_task(enter(of, b)) for _ in range(4)]
        await settle()
        # Two of each wait: the newest of the first have gone, and what came last.
        assert [task.done() for task in first] == [False, False, True, True, True]
        assert [task.done() for task in second] == [False, False, True, True]
        for task in (*first[2:], *second[2:]):
            error = task.exception()
            assert isinstance(error, ApiError)
            assert error.status == 503
        of.close()
        await settle()
        assert all(task.done() and task.exception() for task in (*first, *second))

    asyncio.run(run())


def test_a_wait_ends() -> None:
    async def run() -> None:
        of = places(2, of_key=1, seconds=0.01)
        a, b, _ = KEYS
        await enter(of, a)
        with pytest.raises(ApiError) as caught:
            await enter(of, a)
        assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
        await enter(of, b)
        with pytest.raises(ApiError) as caught:
            await enter(of, KEYS[2])
        assert caught.value.status == 503
        assert of.taken == 2
        assert not of.waiting

    asyncio.run(run())


@pytest.mark.parametrize("ends", ["client", "server"])
@pytest.mark.parametrize("place_first", [True, False])
def test_a_place_that_comes_as_a_wait_ends_is_not_lost(*, ends: str, place_first: bool) -> None:
    async def run(ticks: int) -> None:
        of = places(1)
        place = await enter(of)
        gone: asyncio.Queue[Message] = asyncio.Queue()
        waiting = asyncio.create_task(of.enter(request(gone.get), ANYONE))
        await settle()

        def end() -> None:
            if ends == "server":
                waiting.cancel()
            else:
                gone.put_nowait({"type": "http.disconnect"})

        for step in (place.leave, end) if place_first else (end, place.leave):
            step()
            for _ in range(ticks):
                await asyncio.sleep(0)
        for found in await asyncio.gather(waiting, return_exceptions=True):
            if not isinstance(found, BaseException):
                found[1].leave()
        assert (of.taken, of.waiting) == (0, 0)

    for ticks in range(8):
        asyncio.run(run(ticks))


def test_a_client_that_goes_waits_no_longer() -> None:
    """Its body is kept while it waits: the request is read on after."""

    async def run() -> None:
        of = places(1)
        place = await enter(of)
        sent: asyncio.Queue[Message] = asyncio.Queue()
        waiting = asyncio.create_task(of.enter(request(sent.get), ANYONE))
        sent.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
        await settle()
        place.leave()
        http, place = await waiting
        sent.put_nowait({"type": "http.request", "body": b"}", "more_body": False})
        assert await http.body() == b"{}"
        gone: asyncio.Queue[Message] = asyncio.Queue()
        leaving = asyncio.create_task(of.enter(request(gone.get), ANYONE))
        await settle()
        gone.put_nowait({"type": "http.disconnect"})
        with pytest.raises(ClientDisconnect):
            await leaving
        assert not of.waiting
        place.leave()
        assert of.taken == 0

    asyncio.run(run())


class Late:
    """An engine that ends its stream long after the answer."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.hold = asyncio.Event()

    async def answer(self, http: Request) -> StreamingResponse:
        body = await http.json()
        self.asked.append(body)
        text = str(CODEC.decode(body["prompt"])[-1]["content"])

        async def lines() -> AsyncIterator[bytes]:
            if text == "hold":
                await self.hold.wait()
            choice = {"index": 0, "token_ids": IDS, "finish_reason": "stop"}
            yield b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()
            await asyncio.sleep(5)

        return StreamingResponse(lines(), media_type="text/event-stream")

    async def models(self, _: Request) -> JSONResponse:
        return JSONResponse({"data": [{"id": MODEL, "max_model_len": 4096}]})

    def app(self) -> Starlette:
        routes = [Route("/v1/completions", self.answer, methods=["POST"])]
        return Starlette(routes=[*routes, Route("/v1/models", self.models)])


@contextmanager
def before(late: Late, folder: Path, *options: str) -> Iterator[Gateway]:
    with serving(late.app()) as url, gateway(url, folder, *options) as of:
        yield of


def ask(of: Gateway, text: str = "Hi", key: str = "-", **fields: Any) -> httpx.Response:  # noqa: ANN401
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}
    return CLIENT.post(f"{of.v1}/chat/completions", json=body, headers={"x-api-key": key})


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with one place and no queue."""
    options = ("--max-requests", "1", "--queue-timeout", "0")
    with before(Late(), tmp_path_factory.mktemp("one"), *options) as of:
        yield of


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"n": 3}, {"n": 2, "stream": True}])
def test_a_place_is_given_back_with_the_answer(one: Gateway, fields: dict[str, Any]) -> None:
    """One client, one request after the other: none may find its own place taken."""
    begun = time.monotonic()
    found = [ask(one, **fields) for _ in range(12)]
    assert [answer.status_code for answer in found] == [200] * 12
    assert all("two" in answer.text for answer in found)
    if not fields:
        # Nor does an answer wait for the rest of the engine's stream, 5 seconds each.
        assert time.monotonic() - begun < 5


def test_a_stream_that_is_read_to_its_end_is_over(one: Gateway) -> None:
    """A client asks again when it has read `[DONE]`, before the connection says the end."""
    messages = [{"role": "user", "content": "x"}]
    body = json.dumps({"model": MODEL, "messages": messages, "stream": True})
    head = HEAD.format("/v1/chat/completions")
    host, port = one.url.removeprefix("http://").split(":")
    for _ in range(12):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            got = b""
            while b"[DONE]" not in got:
                piece = client.recv(65_536)
                assert piece
                got += piece
            assert got.startswith(b"HTTP/1.1 200"), got


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
def test_small_requests_have_the_same_limits(one: Gateway, path: str) -> None:
    """A body that does not come to its end holds the one place."""
    host, port = one.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"{HEAD.format(path)}content-length: 100\r\n\r\n{{".encode())
        deadline = time.monotonic() + 5
        while one.metric("chatcodec_requests_running ") != 1:
            assert time.monotonic() < deadline
        for other in ("/tokenize", "/detokenize", "/v1/chat/completions"):
            refused = CLIENT.post(one.url + other, json={"prompt": "", "tokens": []})
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
    deadline = time.monotonic() + 5
    while one.metric("chatcodec_requests_running ") != 0:
        assert time.monotonic() < deadline
    assert CLIENT.post(one.url + "/tokenize", json={"prompt": "Hi"}).status_code == 200
    assert CLIENT.post(one.url + "/detokenize", json={"tokens": []}).status_code == 200


def test_keys_have_limits_salts_and_counts(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("alice: sk-a max-requests=1\nbob: sk-b\nbob: sk-b2\nsk-none\n")
    late = Late()
    options = ("--api-key-file", str(keys), "--max-requests-per-key", "2")
    with ExitStack() as stack:
        of = stack.enter_context(before(late, tmp_path, *options, "--queue-timeout", "0"))
        pool = stack.enter_context(ThreadPoolExecutor(8))
        held = [pool.submit(ask, of, "hold", key) for key in ("sk-a", "sk-b", "sk-b2")]
        deadline = time.monotonic() + 5
        while of.metric("chatcodec_requests_running ") != 3:
            assert time.monotonic() < deadline
        for key, status in (("sk-a", 429), ("sk-b", 429), ("sk-b2", 429), ("sk-none", 200)):
            answer = ask(of, "Hi", key)
            assert answer.status_code == status
            if status == 429:
                assert answer.json()["error"]["code"] == "rate_limit_exceeded"
                assert answer.headers["retry-after"] == "1"
        late.hold.set()
        assert {each.result().status_code for each in held} == {200}
        counts = 'chatcodec_key_requests_total{key="%s",status="%s"}'
        assert of.metric(counts % ("alice", 200)) == 1
        assert of.metric(counts % ("bob", 200)) == 2
        assert of.metric(counts % ("bob", 429)) == 2
        assert of.metric('chatcodec_key_completion_ids_total{key="bob"}') == 2 * len(IDS)
        assert of.metric('chatcodec_key_prompt_ids_total{key="bob"}') > 0
        logged = [json.loads(line) for line in of.log.read_text("utf-8").splitlines()]
        assert {line["key"] for line in logged if line["event"] == "request"} > {"alice", "bob"}
        assert "sk-" not in of.log.read_text("utf-8")
    salts = [body["cache_salt"] for body in late.asked]
    assert sorted(Counter(salts).values()) == [1, 1, 2]
    assert all(len(salt) == 43 for salt in salts)
