"""Web pages cannot use a gateway of their reader: kinds of bodies, `Origin`, `Host`, redirects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chatcodec import Codec
from chatcodec.serve.demo.engine import engine, scripted
from gateway import MODEL, Gateway, gateway, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = "https://page.example"
HI = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}).encode()
JSON = {"content-type": "application/json"}
JSON_HEADER = {"content_type": "application/json"}
CLIENT = httpx.Client(trust_env=False)
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/tokenize", "/detokenize")


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    options = ("--allow-origin", PAGE + "/", "--allow-host", "gateway.example", "Other:80")
    with (
        serving(engine(scripted(Codec("internlm2", vocab="embedded")))) as url,
        gateway(url, tmp_path_factory.mktemp("pages"), *options) as made,
    ):
        yield made


def ask(of: Gateway, path: str = PATHS[0], **headers: str) -> httpx.Response:
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    return CLIENT.post(of.url + path, content=HI, headers=given)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "", "json"]
)
def test_a_body_has_to_be_json_by_its_header(of: Gateway, path: str, kind: str | None) -> None:
    """The kinds that a page may send without asking first are none of them JSON."""
    headers = {} if kind is None else {"content_type": kind}
    answer = ask(of, path, **headers)
    assert answer.status_code == 415
    assert "Content-Type" in answer.json()["error"]["message"]


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_json(of: Gateway, kind: str) -> None:
    assert ask(of, content_type=kind).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", PAGE + ".evil", "http://page.example"]
)
def test_a_page_that_is_not_listed_is_refused(of: Gateway, origin: str) -> None:
    for path in PATHS:
        answer = ask(of, path, **JSON_HEADER, origin=origin)
        assert answer.status_code == 403
        assert "--allow-origin" in answer.json()["error"]["message"]
        assert "access-control-allow-origin" not in answer.headers
    headers = {"origin": origin, "access-control-request-method": "POST"}
    for path in (*PATHS, "/v1/models", "/metrics", "/nowhere"):
        for method in ("OPTIONS", "GET"):
            answer = CLIENT.request(method, of.url + path, headers=headers)
            assert answer.status_code == 403


def test_a_page_that_is_listed_reads_answers(of: Gateway) -> None:
    asking = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    url = f"{of.v1}/chat/completions"
    allowed = CLIENT.request("OPTIONS", url, headers=asking)
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-origin"] == PAGE
    assert allowed.headers["access-control-allow-headers"] == "authorization,content-type"
    assert "POST" in allowed.headers["access-control-allow-methods"]
    answer = ask(of, **JSON_HEADER, origin=PAGE)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["vary"] == "Origin"
    # An error can be read too, and the preflight alone does nothing.
    assert ask(of, origin=PAGE).headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-origin" not in ask(of, **JSON_HEADER).headers
    assert CLIENT.request("OPTIONS", url).status_code == 405


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("evil.example:8080", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("10.0.0.1", 403),
        ("127.0.0.1", 200),
        ("127.0.0.2:99", 200),
        ("localhost:8080", 200),
        ("LOCALHOST.", 200),
        ("[::1]:8080", 200),
        ("Gateway.example:443", 200),
        ("other", 200),
    ],
)
def test_the_host_is_this_machine_or_listed(of: Gateway, host: str, status: int) -> None:
    """A page whose name resolves to a loopback address has its own name in `Host`."""
    assert ask(of, **JSON_HEADER, host=host).status_code == status
    for path in ("/v1/models", "/metrics"):
        found = CLIENT.get(of.url + path, headers={"host": host})
        assert found.status_code == status


@pytest.mark.parametrize("path", [*PATHS, "/v1/models", "/health", "/metrics"])
def test_a_trailing_slash_is_not_redirected(of: Gateway, path: str) -> None:
    for method in ("GET", "POST"):
        headers: dict[str, Any] = {**JSON, "host": "gateway.example"}
        answer = CLIENT.request(method, f"{of.url}{path}/", headers=headers)
        assert answer.status_code in {404, 405}
        assert "location" not in answer.headers
