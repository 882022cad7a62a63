"""A gateway in a thread of the tests, before an engine that remembers what it was asked."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from chatcodec import Codec
from chatcodec.serve.app import app
from chatcodec.serve.demo.engine import engine, scripted
from chatcodec.serve.settings import Settings
from gateway import MODEL, Clients, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec.serve.demo.engine import Script
    from naive import Value
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CODEC = Codec("internlm2", vocab="embedded")


@dataclass
class Here(Clients):
    """A gateway, and the bodies that its engine got."""

    client: httpx.Client
    asked: list[dict[str, Any]] = field(default_factory=list)
    codec: Codec = CODEC

    @property
    def prompt(self) -> str:
        """The text of the last prompt that the engine got."""
        body = self.asked[-1]
        ids: Any = body.get("prompt") or body.get("token_ids") or body.get("input_ids")
        return self.codec.vocab.decode(ids)

    def post(self, path: str, body: object, **options: Value) -> httpx.Response:
        if isinstance(body, dict) and path.startswith("/v1/"):
            body = {"model": MODEL, **body}
        return self.client.post(self.url + path, json=body, **options)

    def chat(self, **fields: Value) -> httpx.Response:
        return self.post("/v1/chat/completions", {"messages": HI, **fields})

    def metric(self, start: str) -> float:
        lines = self.client.get(f"{self.url}/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start))


HI: Any = [{"role": "user", "content": "Hi"}]


@contextmanager
def here(
    script: Script | None = None,
    codec: Codec = CODEC,
    *,
    engine_app: ASGIApp | None = None,
    **settings: Value,
) -> Iterator[Here]:
    """Serve an engine, with a script or of one's own, and a gateway before it."""
    asked: list[dict[str, Any]] = []
    inner = engine_app or engine(scripted(codec) if script is None else script, together=3)
    with serving(remembering(inner, asked)) as backend:
        made = app(Settings(backend=backend, names=(MODEL,), **settings), codec)
        client = httpx.Client(trust_env=False, timeout=30)
        with serving(made) as url, client, closing(Here(url, client, asked, codec)) as of:
            yield of


def remembering(inner: ASGIApp, asked: list[dict[str, Any]]) -> ASGIApp:
    """An application that remembers the bodies of the requests to another."""

    async def remember(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        whole = b""
        while True:
            message = await receive()
            whole += message["body"]
            if not message.get("more_body"):
                break
        asked.append(json.loads(whole))
        waiting: list[Message] = [{"type": "http.request", "body": whole, "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await inner(scope, again, send)

    return remember
