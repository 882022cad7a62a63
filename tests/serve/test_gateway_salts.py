"""Salts of prefix caches: each client's own, before the engines that know them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import httpx
import pytest
from chatcodec import Codec
from chatcodec.serve.app import app
from chatcodec.serve.demo.engine import engine, scripted
from chatcodec.serve.salt import CACHE_SECRET, salt_of, share_secret
from chatcodec.serve.settings import KEYS as KEYS_VARIABLE
from chatcodec.serve.settings import Engine, Settings
from gateway import MODEL, serving

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

CODEC = Codec("internlm2", vocab="embedded")
CLIENT = httpx.Client(trust_env=False, timeout=20)
ENGINES = get_args(Engine)
KNOW_SALTS = {"vllm", "vllm-generate", "sglang"}


def test_a_salt_is_the_clients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It depends on the secret, the name, and the salt that the client asks for."""
    salts = set()
    for secret in ("one", "two"):
        monkeypatch.setenv(CACHE_SECRET, secret)
        share_secret()
        for name in ("a", "b"):
            salts |= {salt_of(name), salt_of(name, "a"), salt_of(name, "b")}
            assert salt_of(name) == salt_of(name)
    assert len(salts) == 12
    monkeypatch.setenv(CACHE_SECRET, " ")
    with pytest.raises(ValueError, match="is empty"):
        share_secret()


@pytest.mark.parametrize("name", ENGINES)
def test_engines_that_know_salts_get_them(monkeypatch: pytest.MonkeyPatch, name: Engine) -> None:
    asked: list[dict[str, Any]] = []

    async def remember(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            waiting = [await receive()]
            asked.append(json.loads(waiting[0]["body"]))

            async def again() -> Message:
                return waiting.pop() if waiting else await receive()

            await inner(scope, again, send)
        else:
            await inner(scope, receive, send)

    inner = engine(scripted(CODEC))
    monkeypatch.setenv(KEYS_VARIABLE, "sk-a")
    monkeypatch.setenv(CACHE_SECRET, "secret")
    with serving(remember) as url:
        settings = Settings(backend=url, engine=name, names=(MODEL,))
        with serving(app(settings, CODEC)) as of:
            body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
            headers = {"x-api-key": "sk-a"}
            for own in ({}, {"cache_salt": "own"}) if name in KNOW_SALTS else ({},):
                answer = CLIENT.post(
                    f"{of}/v1/chat/completions", json={**body, **own}, headers=headers
                )
                assert answer.status_code == 200, answer.text
    if name not in KNOW_SALTS:
        assert [body.get("cache_salt") for body in asked] == [None]
        return
    first, second = asked
    assert first["cache_salt"] not in {None, second["cache_salt"], "own"}
    assert "own" not in second["cache_salt"]
    if name == "sglang":
        assert first["extra_key"] == first["cache_salt"]
        assert second["extra_key"] == second["cache_salt"] + " own"
