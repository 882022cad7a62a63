"""Failures of the backend: their status, their place in the log, and whose words are told."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from answering import GOOD, IDS, Backend, chunk, say
from gateway import MODEL, Gateway, gateway, serving
from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

WORDS = "Traceback: worker gpu-7.internal, prompt was 'my password'"
LATE = "Wed, 21 Oct 2026 07:28:00 GMT"


def refusing(status: int, said: str = WORDS, **headers: str) -> Response:
    error = {"error": {"message": said, "type": "EngineDeadError"}}
    return JSONResponse(error, status, headers=headers or None)


async def breaking(after: bytes) -> AsyncIterator[bytes]:
    yield chunk(IDS[:2])
    yield after


ANSWERS: Any = {
    **{str(each): lambda _, each=each: refusing(each) for each in (400, 401, 413, 422, 500)},
    "429": lambda _: refusing(429, **{"retry-after": "17"}),
    "503": lambda _: refusing(503, **{"retry-after": LATE}),
    "503 without a time": lambda _: refusing(503),
    "429 nonsense": lambda _: refusing(429, **{"retry-after": WORDS}),
    "text": lambda _: Response(WORDS, 500),
    "long": lambda _: refusing(400, "This model's maximum context length is 4096 tokens."),
    "words": lambda _: JSONResponse({"error": {"message": WORDS, "type": WORDS}}, 500),
    "huge": lambda _: Response(b"x" * 5_000_000, 500),
    "error event": lambda _: breaking(
        b"data: %b\n\n" % json.dumps({"error": {"message": WORDS}}).encode()
    ),
    "malformed": lambda _: breaking(b'data: {"choices": [{"token_ids": "my password"}]}\n\n'),
    "gave up": lambda _: breaking(chunk([], "abort")),
    "cut": lambda _: breaking(b": nothing\n\n"),
}
STATUSES = {
    "400": 400,
    "401": 502,
    "413": 400,
    "422": 400,
    "429": 429,
    "429 nonsense": 429,
    "500": 502,
    "503": 503,
    "503 without a time": 503,
    "text": 502,
    "words": 502,
    "huge": 502,
    "long": 400,
}
IN_STREAMS = ("error event", "malformed", "gave up", "cut")


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with serving(Backend(ANSWERS).app()) as url:
        yield url


@pytest.fixture(scope="module")
def of(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(backend, tmp_path_factory.mktemp("errors")) as made:
        yield made


def ask(of: Gateway, text: str, *, stream: bool, path: str = "chat/completions") -> httpx.Response:
    key = "input" if path == "responses" else "messages"
    body = {"model": MODEL, key: say(text), "stream": stream}
    if path != "responses":
        body["max_tokens"] = 50
    return httpx.post(f"{of.v1}/{path}", json=body, trust_env=False, timeout=30)


def logged(of: Gateway, answer: httpx.Response) -> dict[str, Any]:
    """Give the line of the log to which an answer's error leads."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for text in of.log.read_text("utf-8").splitlines():
            line: dict[str, Any] = json.loads(text)
            if line["event"] == "request" and line.get("error_id", " ") in answer.text:
                return line
        time.sleep(0.02)
    pytest.fail("no line of the log has the id of the error")


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
@pytest.mark.parametrize("text", IN_STREAMS)
def test_a_failure_within_a_stream_has_its_own_status(of: Gateway, text: str, path: str) -> None:
    name = {"chat/completions": "chat"}.get(path, path)

    def counted(status: int) -> float:
        return of.metric(f'chatcodec_requests_total{{api="{name}",status="{status}"}}')

    before = counted(502)
    failures = of.log.read_text("utf-8").count('"failure"')
    answer = ask(of, text, stream=True, path=path)
    assert answer.status_code == 200
    assert "error" in answer.text
    assert logged(of, answer)["status"] == 502
    assert counted(502) == before + 1
    assert counted(500) == 0
    assert of.log.read_text("utf-8").count('"failure"') == failures
    assert "Traceback" not in answer.text
    assert "password" not in answer.text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", STATUSES)
def test_words_of_a_backend_are_told_to_nobody(of: Gateway, text: str, *, stream: bool) -> None:
    answer = ask(of, text, stream=stream)
    assert answer.status_code == STATUSES[text]
    line = logged(of, answer)
    assert line["status"] == STATUSES[text]
    for told in (answer.text, of.log.read_text("utf-8")):
        assert "password" not in told
        assert "gpu-7" not in told
    kinds = {"text": None, "words": None, "huge": None}
    assert line.get("backend_kind") == kinds.get(text, "EngineDeadError")


def test_a_backend_that_is_busy_says_for_how_long(of: Gateway) -> None:
    for text, later in (
        ("429", "17"),
        ("503", LATE),
        ("503 without a time", "1"),
        ("429 nonsense", None),
    ):
        assert ask(of, text, stream=True).headers.get("retry-after") == later
    error = ask(of, "429", stream=False).json()["error"]
    assert error["type"] == "rate_limit_error"
    told = ask(of, "429", stream=False, path="messages").json()
    assert told["error"]["type"] == "rate_limit_error"


def test_a_prompt_that_is_too_long_is_told(of: Gateway) -> None:
    error = ask(of, "long", stream=False).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert ask(of, "400", stream=False).json()["error"]["code"] is None


def test_words_of_a_backend_are_in_a_log_with_text(backend: str, tmp_path: Path) -> None:
    with gateway(backend, tmp_path, "--log-text") as of:
        for text in ("500", "error event"):
            answer = ask(of, text, stream=True)
            assert "password" not in answer.text
            assert logged(of, answer)["backend_said"] == WORDS


def test_the_good_answer_is_good(of: Gateway) -> None:
    assert GOOD
    assert ask(of, "fine", stream=False).json()["choices"][0]["message"]["content"].endswith("four")
