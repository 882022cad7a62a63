"""Keys of the gateway: how files of keys are read, compared and read again. They fail closed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
from chatcodec.serve.keys import Keys, given_key, hash_of, read_keys
from chatcodec.serve.settings import KEYS, Settings
from gateway import Gateway, gateway
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are those of POSIX")

NOWHERE = "http://127.0.0.1:9"
COMMENTED = """\
# production keys
sk-alice  # alice@example.com
\t# sk-old
bob: sk-bob\t#bob's
"""


@pytest.fixture(scope="module")
def open_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(NOWHERE, tmp_path_factory.mktemp("open")) as of:
        yield of


def keys(folder: Path, text: str) -> Keys:
    path = folder / "keys"
    path.write_text(text, "utf-8")
    return Keys(str(path), None)


def name(of: Keys, key: str | bytes) -> str | None:
    found = of.find(key if isinstance(key, bytes) else key.encode())
    return None if found is None else found.name


def test_comments_are_no_keys(tmp_path: Path) -> None:
    of = keys(tmp_path, COMMENTED)
    assert len(of) == 2
    assert name(of, "sk-bob") == "bob"
    assert name(of, "sk-alice") is not None
    for word in {
        *COMMENTED.split(),
        *COMMENTED.splitlines(),
        "",
        "sk-old",
        "bob",
        "sk-bob\t#bob's",
    }:
        assert (name(of, word) is not None) == (word in {"sk-alice", "sk-bob"}), word


@given(
    st.lists(st.sampled_from(["# a b", "sk-1", "x: sk-2", "", "y: sk-3 # c", " #sk-1", "sk-4 #"])),
    st.sampled_from(["\n", "\r\n"]),
)
def test_keys_are_those_that_lines_have(lines: list[str], end: str) -> None:
    """Beside a naive reading: of what is before the comment, the last word."""
    naive = {line.partition("#")[0].split()[-1] for line in lines if line.partition("#")[0].strip()}
    words = {word for line in lines for word in line.split()}
    found = {key.digest for key in read_keys(end.join(lines).split("\n"), "keys")}
    assert {word for word in words if hashlib.sha256(word.encode()).digest() in found} == naive


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sk-alice alice@example.com", "text after the key"),
        ("sk-alice max-requests=0", "text after the key"),
        ("sk-alice max-requests=1 max-requests=1", "text after the key"),
        ("alice:sk-alice", "white space"),
        ("alice:", "`name: key`"),
        ("sha256:12", "64 hexadecimal digits"),
        ("sha256: " + "0" * 64, "the name is `sha256`"),
        ("a" * 65 + ": sk-alice", "the name"),
        ("sk-\x00alice", "control characters"),
        ("a: sk-other\nb: sk-other", "`a` and `b` have the same key"),
        ("a: sk-1 max-requests=1\na: sk-2", "different limits"),
        ("", "has no key"),
        ("# sk-alice", "has no key"),
    ],
)
def test_a_line_that_is_no_key_is_refused(tmp_path: Path, line: str, said: str) -> None:
    text = line if said == "has no key" else f"sk-first\n{line}\n"
    with pytest.raises(ValueError, match=said) as caught:
        keys(tmp_path, text)
    assert "sk-" not in str(caught.value)


def test_a_hash_and_a_limit(tmp_path: Path) -> None:
    upper = "sha256:" + hash_of("sk-2").removeprefix("sha256:").upper()
    of = keys(tmp_path, f"alice: {hash_of('sk-1')} max-requests=8\n{upper}")
    found = of.find(b"sk-1")
    assert found is not None
    assert (found.name, found.most) == ("alice", 8)
    assert name(of, "sk-2") is not None
    assert name(of, hash_of("sk-1")) is None
    assert name(of, hash_of("sk-1").removeprefix("sha256:")) is None
    # The name of a key without one is the same for its hash.
    assert name(of, "sk-2") == name(keys(tmp_path, "sk-2"), "sk-2")
    assert "sk" not in (name(of, "sk-2") or "")


@pytest.mark.parametrize("key", ["schlüssel-à", "ключ", "sk-ÿ", "à"])
def test_keys_outside_ascii(tmp_path: Path, key: str) -> None:
    of = keys(tmp_path, f"{key}\n{hash_of('x' + key)}\n")
    sent = [key.encode()]
    if all(ord(each) < 256 for each in key):
        sent.append(key.encode("latin-1"))
    for each in sent:
        for header, value in ((b"authorization", b"Bearer " + each), (b"x-api-key", each)):
            given_as = given_key(Headers(raw=[(header, value)]))
            assert name(of, given_as) is not None
            assert name(of, b"x" + given_as) is not None
            assert name(of, given_as + b"x") is None


@pytest.mark.parametrize(
    "value", ["", " ", ",", "\n", "# production", "a: sk-1", "a:sk-1", "sha256:"]
)
def test_a_variable_without_keys_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(KEYS, value)
    with pytest.raises(ValueError, match=KEYS):
        Keys.of(Settings(backend=NOWHERE))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"sk-1\n\xff\n")
    with pytest.raises(ValueError, match="not UTF-8 at byte 5"):
        Keys(str(path), None)
    for wrong in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match=str(tmp_path)):
            Keys(str(wrong), None)


@pytest.mark.parametrize("worse", ["", "# none", "sk-1 and more", None, b"\xff"])
def test_a_reload_that_fails_keeps_the_keys(tmp_path: Path, worse: str | bytes | None) -> None:
    of = keys(tmp_path, "sk-1")
    path = tmp_path / "keys"
    if worse is None:
        path.unlink()
    else:
        path.write_bytes(worse if isinstance(worse, bytes) else worse.encode())
    of.reload()
    assert name(of, "sk-1") is not None
    path.write_text("sk-2")
    of.reload()
    assert name(of, "sk-1") is None
    assert name(of, "sk-2") is not None


@posix
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """`--api-key-file <(…)`: a second reading would wait for a writer for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(path.write_text, "sk-1")
        of = Keys(str(path), None)
    of.reload()
    assert name(of, "sk-1") is not None


def serve(*arguments: str, given: str = "", variable: str | None = None) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "chatcodec", "serve", "--vocab", "embedded", *arguments]
    environment = {**os.environ} if variable is None else {**os.environ, KEYS: variable}
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        input=given,
        env=environment,
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_the_command_refuses_to_be_open_by_accident() -> None:
    for workers in ("1", "2"):
        status, _, said = serve("--backend", NOWHERE, "--workers", workers, variable="")
        assert status == 2
        assert said == f"chatcodec: {KEYS}: has no key, expected at least one\n"


def test_the_hash_of_a_key() -> None:
    status, said, _ = serve("--hash-key", given="sk-alice\n")
    assert status == 0
    assert said == f"sha256:{hashlib.sha256(b'sk-alice').hexdigest()}\n"
    status, said, why = serve("--hash-key")
    assert (status, said) == (2, "")
    assert why.startswith("chatcodec: --hash-key: the key is empty")


def status_with(url: str, key: str) -> int:
    headers = {"x-api-key": key}
    return httpx.get(f"{url}/v1/models", headers=headers, trust_env=False).status_code


def wait_for_status(url: str, key: str, status: int) -> None:
    deadline = time.monotonic() + 10
    while status_with(url, key) != status:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@posix
def test_keys_are_read_again(tmp_path: Path) -> None:
    """On SIGHUP, and when the file has changed; a file that is wrong changes nothing."""
    path = tmp_path / "keys"
    path.write_text("sk-1\n")
    with gateway(NOWHERE, tmp_path, "--api-key-file", str(path)) as of:
        assert [status_with(of.url, key) for key in ("sk-1", "sk-2")] == [200, 401]
        path.write_text("sk-2\n")
        wait_for_status(of.url, "sk-1", 401)
        assert status_with(of.url, "sk-2") == 200
        # As a secret that is mounted changes: another file takes the name.
        other = tmp_path / "other"
        other.write_text("sk-3\n")
        other.replace(path)
        of.process.send_signal(signal.SIGHUP)
        wait_for_status(of.url, "sk-3", 200)
        path.write_text("# nothing\n")
        of.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while "has no key" not in of.log.read_text("utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert status_with(of.url, "sk-3") == 200
        assert {status_with(of.url, key) for key in ("#", "nothing", "")} == {401}
        logged = [json.loads(line) for line in of.log.read_text("utf-8").splitlines()]
        assert any(line["level"] == "error" and line["event"] == "keys" for line in logged)


@posix
@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_a_signal_does_not_end_it(open_gateway: Gateway, name: str) -> None:
    open_gateway.process.send_signal(getattr(signal, name))
    time.sleep(0.1)
    assert status_with(open_gateway.url, "-") == 200
    assert open_gateway.process.poll() is None
