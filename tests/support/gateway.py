"""A gateway as a process before an engine in a thread, for the tests of `chatcodec serve`."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import openai
import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

MODEL = "demo"


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def serving(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serve an application in a thread; give its URL."""
    port = port or free_port()
    config = uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(f"http://127.0.0.1:{port}/")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 30
    # One client for all tries: to make one takes as long as ten of them.
    with httpx.Client(trust_env=False) as client:
        while True:
            try:
                client.get(url)
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return


def metric(url: str, start: str) -> float:
    """Add up the samples of a server's metric whose lines begin so."""
    lines = httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start))


@dataclass
class Clients:
    """The clients of a gateway at an address."""

    url: str

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    @cached_property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.v1, api_key="-", max_retries=0)

    @cached_property
    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.url, api_key="-", max_retries=0)

    def close(self) -> None:
        for name in ("openai", "anthropic"):
            if name in self.__dict__:
                getattr(self, name).close()


@dataclass
class Gateway(Clients):
    process: subprocess.Popen[str]
    log: Path

    def posted(self, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401
        """Post a body, and give the answer, which has to be a success."""
        answer = httpx.post(self.url + path, json=body, trust_env=False, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()

    def metric(self, start: str) -> float:
        """Add up the samples of a metric whose lines begin so."""
        return metric(self.url, start)


@contextmanager
def gateway(
    backend: str, folder: Path, *options: str, environment: dict[str, str] | None = None
) -> Iterator[Gateway]:
    """Run `chatcodec serve` with the embedded vocabulary."""
    port = free_port()
    log = folder / f"gateway-{port}.log"
    command = [sys.executable, "-m", "chatcodec", "serve", "--backend", backend]
    command += ["--port", str(port), "--served-model-name", MODEL, *options]
    if "--model" not in options:
        command += ["--vocab", "embedded"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stderr=output, text=True, env={**os.environ, **(environment or {})}
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/metrics")
            made = Gateway(f"http://127.0.0.1:{port}", process, log)
            with contextlib.closing(made):
                yield made
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
