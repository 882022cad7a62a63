"""Liveness and readiness of the gateway, before engines that are well, ill, slow or away."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import aiohttp
import httpx
import pytest
from chatcodec.serve.backends.vllm import Vllm
from gateway import Gateway, free_port, gateway, serving
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

CLIENT = httpx.Client(trust_env=False, timeout=20)
FRESH = 1.0


class Ill:
    """An engine's server whose health is what a test says."""

    def __init__(self) -> None:
        self.status, self.wait, self.asked = 200, 0.0, 0

    async def health(self, _: Request) -> Response:
        self.asked += 1
        await asyncio.sleep(self.wait)
        return Response(status_code=self.status, headers={"location": "/"})


@pytest.fixture(scope="module")
def ill() -> Ill:
    return Ill()


@pytest.fixture(scope="module")
def of(ill: Ill, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    app = Starlette(routes=[Route("/health", ill.health)])
    with serving(app) as url, gateway(url, tmp_path_factory.mktemp("health")) as made:
        yield made


def status(of: Gateway, path: str) -> int:
    return CLIENT.get(of.url + path).status_code


@pytest.mark.parametrize(
    ("said", "expected"),
    [(200, True), (204, True), (401, False), (404, False), (307, False), (500, False)],
)
def test_only_success_of_the_engine_is_health(said: int, *, expected: bool) -> None:
    ill = Ill()
    ill.status = said

    async def ask(url: str) -> bool:
        async with aiohttp.ClientSession() as client:
            return await Vllm(client, url).is_well(5)

    with serving(Starlette(routes=[Route("/health", ill.health)])) as url:
        assert asyncio.run(ask(url)) == expected


def test_both_paths_of_readiness_say_what_the_engine_says(of: Gateway, ill: Ill) -> None:
    for said, expected in ((404, 503), (200, 200)):
        ill.status = said
        time.sleep(FRESH + 0.05)
        assert {status(of, path) for path in ("/readyz", "/health")} == {expected}
        assert status(of, "/livez") == 200


def test_many_who_ask_share_one_request(of: Gateway, ill: Ill) -> None:
    time.sleep(FRESH + 0.05)
    before = ill.asked
    ill.wait = 0.2
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: status(of, "/readyz"), range(24))) == {200}
    ill.wait = 0.0
    assert ill.asked == before + 1


def test_an_engine_that_hangs_is_waited_for_in_bounds(of: Gateway, ill: Ill) -> None:
    ill.wait = 30.0
    time.sleep(FRESH + 0.05)
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: status(of, "/readyz"), range(8))) == {503}
        assert set(pool.map(lambda _: status(of, "/livez"), range(8))) == {200}
    # One wait for all of them, shorter than the 5 seconds of `--connect-timeout`.
    assert time.monotonic() - begun < 4
    ill.wait = 0.0


def test_an_engine_that_is_away_leaves_the_gateway_alive(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    with gateway(away, tmp_path_factory.mktemp("away")) as of:
        assert [status(of, path) for path in ("/livez", "/readyz", "/health")] == [200, 503, 503]
