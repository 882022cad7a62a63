"""The audit of a running server: what its prompts' lengths tell."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, MessageError
from chatcodec.audit_server import audit_server
from chatcodec.cli import main
from completions import codec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from naive import Value

EMBEDDED = ("--vocab", "embedded")
CODEC = Codec("internlm2", vocab="embedded")


def by_codec(messages: list[dict[str, Any]], codec: Codec = CODEC) -> int:
    return len(codec.encode(messages, add_generation_prompt=True).ids)


def forging(*tokens: str) -> Callable[[list[dict[str, Any]]], int]:
    """The length of a prompt in which spellings of some tokens are one id each."""

    def length(messages: list[dict[str, Any]]) -> int:
        forged = 0
        for token in tokens:
            saved = len(CODEC.vocab.encode(token)) - 1
            forged += saved * sum(message["content"].count(token) for message in messages)
        return by_codec(messages) - forged

    return length


@contextmanager
def server(
    length: Callable[[list[dict[str, Any]]], int] | None,
    *,
    status: int = 200,
    seen: list[Value] | None = None,
    models: Value = None,
) -> Iterator[str]:
    """A server whose prompts have the length that a function says."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self, value: Value) -> None:
            said = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def do_GET(self) -> None:
            self.answer(models or {"data": [{"id": "m"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if seen is not None:
                seen.append((body, self.headers.get("Authorization")))
            usage = {} if length is None else {"prompt_tokens": length(body["messages"])}
            self.answer({"usage": usage})

        def log_message(self, *_given: Value) -> None:
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}"
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_a_server_of_the_codecs_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setenv("CHATCODEC_SERVER_KEY", "secret")
    with server(by_codec, seen=seen) as url:
        found = audit_server(CODEC, f"{url}/v1/")
    assert found.is_kept
    assert found.forged == ()
    assert "no control token was forged" in found.table()
    assert len(seen) == 2
    for body, key in seen:
        assert (body["model"], body["max_tokens"], key) == ("m", 1, "Bearer secret")
    roles = [message["role"] for message in seen[1][0]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    for message in seen[1][0]["messages"]:
        assert all(token in message["content"] for token in found.tokens)
    assert {"<|im_end|>", "<|im_start|>", "<|action_start|>", "</s>"} <= set(found.tokens)


@pytest.mark.parametrize("forged", [("<|im_end|>",), ("<|im_start|>", "</s>")])
def test_what_a_server_forges_is_named(forged: tuple[str, ...]) -> None:
    with server(forging(*forged)) as url:
        found = audit_server(CODEC, url)
    assert not found.is_kept
    assert set(found.forged) == set(forged)
    assert found.harmless[0] == found.harmless[1]
    assert found.hostile[0] < found.hostile[1]
    assert "forged: " in found.table()


def test_another_template_is_not_taken_for_a_forgery() -> None:
    with server(lambda messages: by_codec(messages) + 3) as url:
        found = audit_server(CODEC, url)
    assert (found.is_kept, found.forged) == (False, ())
    assert "another template" in found.table()


@pytest.mark.parametrize("name", ["chatml", "gemma2", "llama2", "mistral", "qwen3"])
def test_formats_are_asked_in_the_roles_that_they_have(name: str) -> None:
    codec = codec_of(name)
    with server(lambda messages: by_codec(messages, codec)) as url:
        assert audit_server(codec, url).is_kept


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with server(by_codec) as url:
        assert main(["audit", *EMBEDDED, "--server", url]) == 0
        assert capsys.readouterr().out.endswith("no control token was forged\n")
        assert main(["audit", *EMBEDDED, "--server", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kept"] is True
        assert main(["audit", *EMBEDDED, "--server", url, "--html"]) == 2
    with server(forging("<|im_end|>")) as url:
        assert main(["audit", *EMBEDDED, "--server", url]) == 1
        assert "forged: <|im_end|>\n" in capsys.readouterr().out
    with pytest.raises(MessageError):
        by_codec([{"role": "critic", "content": ""}])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"length": None}, "has no `usage.prompt_tokens`"),
        ({"length": by_codec, "status": 401}, "/v1/models: status 401"),
        ({"length": by_codec, "models": {"data": []}}, "`/v1/models` names no model"),
    ],
)
def test_a_server_that_answers_otherwise(
    given: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(**given) as url:
        assert main(["audit", *EMBEDDED, "--server", url]) == 2
    assert said in capsys.readouterr().err


def test_an_address_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *EMBEDDED, "--server", "localhost:8000"]) == 2
    assert "expected an address of http" in capsys.readouterr().err
    assert main(["audit", *EMBEDDED, "--server", "http://127.0.0.1:9"]) == 2
    assert "chatcodec: http://127.0.0.1:9/v1/models" in capsys.readouterr().err
