"""Every path of the gateway: keys, places, kinds of bodies and web pages hold for all of them."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chatcodec import Codec
from chatcodec.serve import Settings
from chatcodec.serve.app import app
from gateway import MODEL, Gateway, gateway
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Iterator

NOWHERE = "http://127.0.0.1:9"
OPEN = {"/livez", "/readyz", "/health", "/metrics"}
ROUTES = [
    (method, route.path.replace("{name:path}", MODEL))
    for route in app(Settings(backend=NOWHERE), Codec("internlm2", vocab="embedded")).routes
    if isinstance(route, Route)
    for method in sorted(route.methods or ())
    if method != "HEAD"
]
POSTS = [path for method, path in ROUTES if method == "POST"]
KEY = {"x-api-key": "sk-1"}
CLIENT = httpx.Client(trust_env=False, timeout=20)


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("routes")
    keys = folder / "keys"
    keys.write_text("sk-1\n")
    options = ("--max-requests", "1", "--queue-timeout", "0", "--api-key-file", str(keys))
    with gateway(NOWHERE, folder, *options) as made:
        yield made


def test_there_are_paths() -> None:
    assert len(POSTS) > 5
    assert {path for method, path in ROUTES if method == "GET"} >= OPEN


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_path_is_guarded(of: Gateway, method: str, path: str) -> None:
    body: Any = {} if method == "POST" else None

    def status(headers: dict[str, str]) -> int:
        return CLIENT.request(method, of.url + path, json=body, headers=headers).status_code

    assert status({**KEY, "origin": "https://evil.example"}) == 403
    assert status({**KEY, "host": "evil.example"}) == 403
    for wrong in ({}, {"x-api-key": "sk-2"}, {"authorization": "Basic sk-1"}):
        assert (status(wrong) == 401) == (path not in OPEN)
    if method == "POST":
        text = CLIENT.post(of.url + path, content=b"{}", headers=KEY)
        assert text.status_code == 415
    gone = CLIENT.request(method, f"{of.url}{path}/", json=body, headers=KEY)
    assert gone.status_code in {404, 405}
    assert "location" not in gone.headers


def test_every_path_with_a_body_takes_a_place(of: Gateway) -> None:
    host, port = of.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        head = "POST /tokenize HTTP/1.1\r\nhost: localhost\r\nx-api-key: sk-1\r\n"
        client.sendall(
            f"{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{".encode()
        )
        deadline = time.monotonic() + 10
        while of.metric("chatcodec_requests_running ") != 1:
            assert time.monotonic() < deadline
        found = {path: CLIENT.post(of.url + path, json={}, headers=KEY) for path in POSTS}
        assert {path: each.status_code for path, each in found.items()} == dict.fromkeys(POSTS, 503)
