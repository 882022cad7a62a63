"""The end of a gateway: drain, grace, and processes that die."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chatcodec import Codec
from chatcodec.serve.demo.engine import engine, scripted
from gateway import MODEL, Gateway, free_port, gateway, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

CODEC = Codec("internlm2", vocab="embedded")
SAY: Any = [{"role": "user", "content": "one two three four " * 200}]
SHORT: Any = [{"role": "user", "content": "one two three four " * 40}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": MODEL, "messages": SAY},
    "/v1/responses": {"model": MODEL, "input": SAY},
    "/v1/messages": {"model": MODEL, "messages": SAY, "max_tokens": 5000},
}
CHAT = "/v1/chat/completions"
CLIENT = httpx.Client(trust_env=False, timeout=30)


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    """An engine that takes ten seconds for an answer."""
    with serving(engine(scripted(CODEC), together=4, delay=0.05)) as url:
        yield url


def post(url: str, path: str = CHAT, **fields: object) -> httpx.Response:
    return CLIENT.post(url + path, json={**BODIES[path], **fields})


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running(of: Gateway, count: int) -> Callable[[], bool]:
    return lambda: of.metric("chatcodec_requests_running ") == count


def test_a_drain_serves_on_while_it_is_not_ready(backend: str, tmp_path: Path) -> None:
    with gateway(backend, tmp_path, "--drain", "0.8", "--grace", "20") as of:
        assert CLIENT.get(f"{of.url}/readyz").status_code == 200
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(post, of.url, stream=True, messages=SHORT)
            until(running(of, 1))
            told = time.monotonic()
            of.process.send_signal(signal.SIGTERM)
            of.process.send_signal(signal.SIGTERM)
            until(lambda: CLIENT.get(f"{of.url}/readyz").status_code == 503)
            assert CLIENT.get(f"{of.url}/readyz").json() == {"status": "draining"}
            assert CLIENT.get(f"{of.url}/livez").status_code == 200
            fine = post(of.url, messages=[{"role": "user", "content": "Hi"}])
            assert fine.status_code == 200
            with contextlib.suppress(httpx.TransportError):
                while True:
                    assert httpx.get(f"{of.url}/livez", trust_env=False).status_code == 200
                    time.sleep(0.05)
            assert time.monotonic() - told >= 0.75
            # It listens no more, and what was open comes to its end.
            assert begun.result().text.endswith("data: [DONE]\n\n")
        assert of.process.wait(10) is not None
        assert "Traceback" not in of.log.read_text("utf-8")


def test_what_the_grace_cuts_is_told(backend: str, tmp_path: Path) -> None:
    """In the shape of each API; the process ends whatever its clients do, and logs no failure."""
    with gateway(backend, tmp_path, "--grace", "0.5") as of, ThreadPoolExecutor(8) as pool:
        streams = {path: pool.submit(post, of.url, path, stream=True) for path in BODIES}
        many = pool.submit(post, of.url, n=2, stream=True)
        whole = pool.submit(post, of.url)
        deaf = socket.create_connection(("127.0.0.1", int(of.url.rsplit(":", 1)[1])))
        body = json.dumps({**BODIES[CHAT], "stream": True})
        head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        deaf.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        half = socket.create_connection(("127.0.0.1", int(of.url.rsplit(":", 1)[1])))
        half.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
        until(running(of, 7))
        begun = time.monotonic()
        of.process.terminate()
        assert of.process.wait(10) is not None
        assert time.monotonic() - begun < 4
        for path, each in {**streams, "many": many}.items():
            answer = each.result()
            assert answer.status_code == 200
            last = answer.text.removesuffix("data: [DONE]\n\n").rstrip().rsplit("\n\n", 1)[-1]
            event = json.loads(last.partition("data: ")[2])
            assert "shutting down" in json.dumps(event), (path, last)
            assert "error" in last
        assert whole.result().status_code == 503
        assert "shutting down" in whole.result().json()["error"]["message"]
        deaf.close()
        half.close()
    log = of.log.read_text("utf-8")
    assert "Traceback" not in log
    statuses = [json.loads(line).get("status") for line in log.splitlines()]
    assert statuses.count(503) >= 5


def workers_of(of: Gateway) -> list[int]:
    """Ids of the processes that serve."""
    task = Path(f"/proc/{of.process.pid}/task/{of.process.pid}/children")
    children = [int(pid) for pid in task.read_text("utf-8").split()]
    return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are read in /proc")
def test_processes_are_started_again_and_their_gauges_fall(backend: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sk-1\n")
    port = free_port()
    options = ("--workers", "2", "--api-key-file", str(keys), "--metrics-port", str(port))

    def metric(start: str) -> float:
        lines = CLIENT.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start))

    def status(key: str) -> int:
        headers = {"x-api-key": key, "connection": "close"}
        return httpx.get(f"{of.v1}/models", headers=headers, trust_env=False).status_code

    def stream() -> str:
        body = {**BODIES[CHAT], "stream": True}
        with contextlib.suppress(httpx.TransportError):
            return CLIENT.post(
                of.v1 + "/chat/completions", json=body, headers={"x-api-key": "sk-1"}
            ).text
        return "broken"

    with gateway(backend, tmp_path, *options) as of, ThreadPoolExecutor(6) as pool:
        assert CLIENT.get(f"{of.url}/metrics").status_code == 404
        until(lambda: len(workers_of(of)) == 2)
        before = workers_of(of)
        # New keys for all processes, which go on with what they have.
        streams = [pool.submit(stream) for _ in range(6)]
        until(lambda: metric("chatcodec_requests_running ") == 6)
        keys.write_text("sk-2\n")
        of.process.send_signal(signal.SIGHUP)
        until(lambda: {status("sk-2") for _ in range(8)} == {200})
        assert {status("sk-1") for _ in range(8)} == {401}
        assert workers_of(of) == before
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert {each.result() for each in streams} <= {"broken"}
        until(lambda: metric("chatcodec_requests_running ") == 0)
        until(lambda: len(workers_of(of)) == 2)
        assert not set(workers_of(of)) & set(before)
        until(lambda: status("sk-2") == 200)
        # Who loses the first process ends, too.
        after = workers_of(of)
        of.process.kill()
        until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in after))


def failed(*options: str) -> str:
    """Start a gateway that cannot serve; give what it says."""
    command = [sys.executable, "-m", "chatcodec", "serve", "--backend", "http://x", *options]
    command += ["--vocab", "embedded"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    return ran.stderr


def test_a_port_in_use_is_a_plain_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = failed("--port", port, "--workers", "2")
        assert f"127.0.0.1 port {port}: Address already in use" in said
        said = failed("--port", "0", "--metrics-port", port)
        number = errno.EADDRINUSE
        assert said == f"chatcodec: [Errno {number}] --metrics-port {port}: {os.strerror(number)}\n"


@pytest.mark.parametrize("name", ["SIGQUIT", "SIGINT"])
def test_other_signals_end_it_in_order(backend: str, tmp_path: Path, name: str) -> None:
    """SIGQUIT as SIGTERM, and SIGINT without a drain."""
    drain = () if name == "SIGQUIT" else ("--drain", "30")
    with gateway(backend, tmp_path, *drain) as of, ThreadPoolExecutor(1) as pool:
        begun = pool.submit(post, of.url, stream=True, messages=SHORT, max_tokens=60)
        until(running(of, 1))
        of.process.send_signal(getattr(signal, name))
        assert of.process.wait(10) is not None
        assert begun.result().text.endswith("data: [DONE]\n\n")
        assert "Traceback" not in of.log.read_text("utf-8")
