"""TLS of the gateway: its certificate, those of clients, and a new certificate while it serves."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chatcodec.cli import main
from chatcodec.serve.listening import Certificates
from gateway import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPENSSL = shutil.which("openssl")
pytestmark = [
    pytest.mark.skipif(OPENSSL is None, reason="certificates are made with openssl"),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP"),
]


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate that signs itself, and its key."""
    made, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = [
        OPENSSL or "",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]
    command += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    command += ["-out", str(made), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@contextlib.contextmanager
def secured(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    port = free_port()
    command = [sys.executable, "-m", "chatcodec", "serve", "--backend", "http://127.0.0.1:9"]
    command += ["--vocab", "embedded", "--port", str(port), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert "https://" in process.stderr.readline()
        yield f"https://127.0.0.1:{port}/livez", process
    finally:
        process.terminate()
        process.communicate(timeout=10)


def get(url: str, authority: Path, own: tuple[Path, Path] | None = None) -> int:
    context = ssl.create_default_context(cafile=str(authority))
    if own is not None:
        context.load_cert_chain(*map(str, own))
    return httpx.get(url, verify=context, trust_env=False).status_code


def test_a_certificate_that_changes(tmp_path: Path) -> None:
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    used = certificate(tmp_path, "used")
    for source, target in zip(first, used, strict=True):
        shutil.copy(source, target)
    with secured("--ssl-certfile", str(used[0]), "--ssl-keyfile", str(used[1])) as (url, process):
        assert get(url, first[0]) == 200
        with pytest.raises(httpx.TransportError):
            get(url, second[0])
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http"), trust_env=False)
        # A certificate without its key changes nothing, and then both change.
        shutil.copy(second[0], used[0])
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert get(url, first[0]) == 200
        shutil.copy(second[1], used[1])
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while True:
            try:
                assert get(url, second[0]) == 200
            except httpx.TransportError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                break


def test_clients_need_certificates(tmp_path: Path) -> None:
    server, client, other = (certificate(tmp_path, name) for name in ("server", "client", "other"))
    options = ("--ssl-certfile", str(server[0]), "--ssl-keyfile", str(server[1]))
    with secured(*options, "--ssl-ca-certs", str(client[0])) as (url, _):
        assert get(url, server[0], client) == 200
        for own in (None, other):
            with pytest.raises(httpx.TransportError):
                get(url, server[0], own)


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    made, key = certificate(tmp_path, "made")
    other = certificate(tmp_path, "other")[1]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"certificate": "/nowhere"}, "--ssl-certfile /nowhere: "),
        ({"certificate": str(made)}, f"--ssl-certfile {made}: "),
        ({"certificate": str(made), "key": str(other)}, f"--ssl-keyfile {other}: "),
        ({"certificate": str(made), "key": str(key), "authorities": str(key)}, "--ssl-ca-certs "),
        ({"certificate": str(made), "key": str(key), "ciphers": "none"}, "--ssl-ciphers none: "),
    ]
    for files, said in wrong:
        with pytest.raises(ValueError, match=re.escape(said)):
            Certificates(**files).check()
    Certificates(certificate=str(made), key=str(key), authorities=str(made)).check()
    command = [sys.executable, "-m", "chatcodec", "serve", "--backend", "http://x"]
    command += ["--vocab", "embedded", "--ssl-certfile", str(made), "--ssl-keyfile", str(other)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"chatcodec: --ssl-certfile {made} --ssl-keyfile {other}: ")
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--ssl-keyfile", "--ssl-ca-certs", "--ssl-cert-reqs"])
def test_a_key_without_a_certificate_is_refused(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["serve", "--backend", "http://x", "--vocab", "embedded", option, "2"]) == 2
    assert f"{option}: needs `--ssl-certfile` too" in capsys.readouterr().err
