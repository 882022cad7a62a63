"""nginx before the gateway, by the configuration of docs/gateway.md: `make test-proxy`.

client → nginx, TLS → gateway → engine
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import re
import shutil
import ssl
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import data
import httpx
import pytest
from answering import CODEC, GOOD, IDS, Backend, chunk, say
from gateway import MODEL, free_port, gateway, serving
from test_gateway_tls import certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

if os.environ.get("CHATCODEC_NGINX") != "1":
    pytest.skip("`make test-proxy` runs these", allow_module_level=True)
NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
if NGINX is None:
    pytest.skip("nginx is not there", allow_module_level=True)

SILENCE = 3
"""Seconds for which nginx waits for the gateway."""
BEAT = 0.3
"""Seconds after which a silent stream has a sign of life."""
LARGE = "one two three four " * 80_000


def configuration(folder: Path, upstream: str, port: int) -> str:
    """The page's configuration, with the addresses and files of this test."""
    page = (data.ROOT / "docs" / "gateway.md").read_text("utf-8")
    (found,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    made, key = certificate(folder, "nginx")
    for own, here in (
        ("127.0.0.1:8080", upstream.removeprefix("http://")),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/llm.pem", str(made)),
        ("/etc/ssl/llm.key", str(key)),
        ("150s", f"{SILENCE}s"),
    ):
        assert found.count(own) == 1
        found = found.replace(own, here)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    # Processes of root would become another user's, who may not write here.
    user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
    return f"""
        {user} daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
        events {{}}
        http {{ access_log off; {paths} {found} }}
    """


@contextlib.contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[str]:
    port, file = free_port(), folder / "nginx.conf"
    file.write_text(configuration(folder, upstream, port))
    command = [str(NGINX), "-c", str(file), "-e", str(folder / "error.log")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                with contextlib.suppress(httpx.HTTPError):
                    httpx.get(f"https://127.0.0.1:{port}/", verify=False, trust_env=False)  # noqa: S501
                    break
                time.sleep(0.05)
            yield f"https://127.0.0.1:{port}"
        finally:
            process.terminate()


@dataclass
class Held:
    """An engine that says one word, and goes on when it is told."""

    goes_on: threading.Event = field(default_factory=threading.Event)
    open: int = 0

    async def pieces(self, _: dict[str, Any]) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            yield chunk(IDS[:1])
            while not self.goes_on.is_set():  # noqa: ASYNC110 (a thread sets it)
                await asyncio.sleep(0.01)
            yield chunk(IDS[1:]) + GOOD.split(b"\n\n", 1)[1]
        finally:
            self.open -= 1


@dataclass
class Running:
    client: httpx.Client
    held: Held
    backend: Backend
    direct: str
    """The gateway without nginx."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("nginx")
    held = Held()
    backend = Backend({"hold": held.pieces})
    context = ssl.create_default_context(cafile=None)
    with (
        serving(backend.app()) as engine,
        gateway(engine, folder, "--heartbeat", str(BEAT)) as of,
        nginx(folder, of.url) as url,
    ):
        context.load_verify_locations(folder / "nginx.pem")
        with httpx.Client(base_url=url, verify=context, trust_env=False, timeout=30) as client:
            yield Running(client, held, backend, of.url)


@pytest.fixture
def held(running: Running) -> Held:
    running.held.goes_on.clear()
    return running.held


def asked(text: str, *, stream: bool = True) -> dict[str, Any]:
    return {"model": MODEL, "messages": say(text), "stream": stream, "max_tokens": 50}


def texts(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["delta"].get("content") or ""


PATH = "/v1/chat/completions"


def test_a_stream_is_not_held_back(running: Running, held: Held) -> None:
    """The first word is there before the engine says the second, after many signs of life."""
    with running.client.stream("POST", PATH, json=asked("hold")) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        first = next(filter(None, texts(lines)))
        begun = time.monotonic()
        while time.monotonic() < begun + 1.4 * SILENCE:
            assert next(lines) in {": waiting", ""}
        held.goes_on.set()
        rest = "".join(texts(lines))
    assert first + rest == CODEC.vocab.decode(IDS)


def test_a_client_that_goes_ends_the_generation(running: Running, held: Held) -> None:
    with running.client.stream("POST", PATH, json=asked("hold")) as answer:
        next(filter(None, texts(answer.iter_lines())))
        assert held.open == 1
    deadline = time.monotonic() + 10
    while held.open:
        assert time.monotonic() < deadline, "the engine still generates"
        time.sleep(0.01)


def test_a_large_body_passes(running: Running) -> None:
    body = asked(LARGE, stream=False)
    # The process that reads it starts here, which may take longer than nginx waits.
    assert httpx.post(running.direct + PATH, json=body, trust_env=False, timeout=60).is_success
    answer = running.client.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == CODEC.vocab.decode(IDS)
    expected = CODEC.encode(say(LARGE), add_generation_prompt=True).ids.tolist()
    assert running.backend.asked[-1]["prompt"] == expected


def test_other_paths_are_not_there(running: Running) -> None:
    for path in ("/metrics", "/tokenize", "/readyz"):
        assert running.client.get(path).status_code == 404


def test_errors_have_the_gateways_shape(running: Running) -> None:
    error = running.client.post(PATH, json={"messages": 5}).json()["error"]
    assert error["param"] == "messages"
