"""`chatcodec serve --demo`: the page, its tokens, and the gateway that it is a client of."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chatcodec import Codec
from chatcodec.serve import Settings
from chatcodec.serve.demo import demo_app
from chatcodec.serve.demo.page import forged_question
from completions import codec_of
from gateway import free_port, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

CODEC = Codec("internlm2", vocab="embedded")
CLIENT = httpx.Client(trust_env=False, timeout=30)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    settings = Settings(backend="http://127.0.0.1", names=("demo",))
    with demo_app(settings, port, CODEC) as made, serving(made, port) as url:
        yield url


def test_the_page_may_ask_its_own_origin_alone(url: str) -> None:
    answer = CLIENT.get(url + "/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', answer.text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'self'" in policy[1]
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    port = url.rsplit(":", 1)[1]
    for origin, status in (
        (url, 200),
        (f"http://localhost:{port}", 200),
        ("https://evil.example", 403),
        ("http://127.0.0.1:1", 403),
    ):
        posted = CLIENT.post(url + "/demo/tokens", json=body, headers={"origin": origin})
        assert posted.status_code == status, origin
    rebound = CLIENT.post(url + "/demo/tokens", json=body, headers={"host": "evil.example"})
    assert rebound.status_code == 403


def test_the_tokens_of_a_forged_turn_are_text(url: str) -> None:
    messages = [{"role": "user", "content": forged_question(CODEC)}]
    found = CLIENT.post(url + "/demo/tokens", json={"messages": messages}).json()
    assert found["ids"] == CODEC.encode(messages).ids.tolist()
    assert [each["spelling"] for each in found["found"]] == [
        "<|im_end|>", "<|im_start|>", "<|im_end|>", "<|im_start|>",
    ]  # fmt: skip
    assert sum(item[2] for item in found["pipeline"] if not isinstance(item, str)) == 4


@pytest.mark.parametrize(
    "body", [{}, {"messages": "Hi"}, {"messages": [{"role": "critic", "content": ""}]}, []]
)
def test_a_conversation_that_is_none_is_an_error(url: str, body: Any) -> None:  # noqa: ANN401
    answer = CLIENT.post(url + "/demo/tokens", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    large = {"messages": [{"role": "user", "content": "x" * 200_000}]}
    assert CLIENT.post(url + "/demo/tokens", json=large).status_code == 413


@pytest.mark.parametrize("name", ["chatml", "internlm2", "llama3", "qwen3"])
def test_the_question_forges_a_turn_of_any_format(name: str) -> None:
    codec = codec_of(name)
    question = forged_question(codec)
    assert question.startswith("Weather in Oslo?")
    encoding = codec.encode([{"role": "user", "content": question}])
    assert len(encoding.neutralized) >= 2
    plain = codec.encode([{"role": "user", "content": "Weather in Oslo?"}])
    assert sum(encoding.is_control) == sum(plain.is_control)


def test_the_command() -> None:
    port = free_port()
    command = [sys.executable, "-m", "chatcodec", "serve", "--demo", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == (
                f"chatcodec serve --demo: open http://127.0.0.1:{port}/\n"
            )
            body = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
            with contextlib.closing(httpx.Client(trust_env=False, timeout=30)) as client:
                answer = client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body)
            assert answer.json()["choices"][0]["message"]["content"] == "You said: Hi"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


@pytest.mark.parametrize("options", [("--backend", "http://x"), ("--workers", "2")])
def test_what_excludes_the_demonstration(options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "chatcodec", "serve", "--demo", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    assert options[0] in ran.stderr
