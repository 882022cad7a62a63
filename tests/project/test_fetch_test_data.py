"""`scripts/fetch_test_data.py` writes exactly the files of its list, or nothing."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import data
import fetch_test_data
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = b"a text\n" * 20_000


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


WHEEL = zipped({"in/wheel.txt": b"wheel", "in/inner.zip": zipped({"deep.txt": b"deep"})})
SDIST = tarred({"in/sdist.txt": b"sdist"})
LONG = b"x" * (1 << 24)
SERVED = {"/long": LONG, "/text": TEXT, "/wheel.whl": WHEEL, "/sdist.tar.gz": SDIST, "/short": TEXT}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `SERVED`; `/short` promises all of its bytes and closes after half of them."""

    def do_GET(self) -> None:
        body = SERVED.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/short" else body)

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Says nothing of clients that hang up, as they are meant to."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def pinned(content: bytes) -> str:
    return f'sha256 = "{hashlib.sha256(content).hexdigest()}"\nsize = {len(content)}\n'


def entry(path: str, content: bytes, source: str, licence: str = "MIT") -> str:
    return f'[[files]]\npath = "{path}"\nlicence = "{licence}"\n{source}\n{pinned(content)}\n'


class Fetch:
    """The script with a manifest of the test's own, and the folder that it writes to."""

    def __init__(self, tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.manifest, self.folder = tmp_path / "manifest.toml", tmp_path / "data"
        self.address, self.capsys = address, capsys

    def __call__(self, manifest: str, *options: str) -> tuple[int, str]:
        self.manifest.write_text(manifest.replace("SERVER", self.address), "utf-8")
        code = fetch_test_data.main([str(self.folder), "--manifest", str(self.manifest), *options])
        said = self.capsys.readouterr()
        return code, said.out + said.err

    def files(self) -> dict[str, bytes]:
        """Everything in the folder, hidden files included."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def fetch(tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]) -> Fetch:
    return Fetch(tmp_path, address, capsys)


def test_files_come_from_addresses_and_archives(fetch: Fetch) -> None:
    text = b'{"special_tokens": {"<|a|>": 3}}\n'
    code, said = fetch(
        f'[archives.wheel]\nurl = "SERVER/wheel.whl"\n{pinned(WHEEL)}'
        f'[archives.sdist]\nurl = "SERVER/sdist.tar.gz"\n{pinned(SDIST)}'
        + entry("a/text", TEXT, 'url = "SERVER/text"')
        + entry("b/wheel.txt", b"wheel", 'archive = "wheel"\nmember = "in/wheel.txt"')
        + entry("b/deep.txt", b"deep", 'archive = "wheel"\nmember = "in/inner.zip!deep.txt"')
        + entry("c/sdist.txt", b"sdist", 'archive = "sdist"\nmember = "in/sdist.txt"')
        + entry("d/specials.json", text, f"text = '''\n{text.decode()}'''")
    )
    assert code == 0, said
    assert fetch.files() == {
        "a/text": TEXT,
        "b/wheel.txt": b"wheel",
        "b/deep.txt": b"deep",
        "c/sdist.txt": b"sdist",
        "d/specials.json": text,
    }
    assert said.endswith(
        f"5 of 5 files are in {fetch.folder}: CHATCODEC_TEST_DATA={fetch.folder} make test\n"
    )


@pytest.mark.parametrize(
    ("source", "content", "reason"),
    [
        ('url = "SERVER/text"', TEXT[:-1] + b"?", "has the sha256"),
        ('url = "SERVER/text"', TEXT[:-1], f"has {len(TEXT)} bytes; expected {len(TEXT) - 1}"),
        ('url = "SERVER/short"', TEXT, f"has {len(TEXT) // 2} bytes; expected {len(TEXT)}"),
        ('url = "SERVER/absent"', TEXT, "answers 404 Not Found"),
        ('url = "http://localhost/text"', TEXT, "is not an https address"),
        ('url = "file:///etc/hostname"', TEXT, "is not an https address"),
        ('url = "http://127.0.0.1:9/text"', TEXT, "cannot be read"),
        ('archive = "wheel"\nmember = "in/wheel.txt"', b"whee!", "has the sha256"),
        (
            'archive = "wheel"\nmember = "in/absent.txt"',
            b"wheel",
            "`in/absent.txt` is not in wheel.whl",
        ),
        ('archive = "wheel"\nmember = "in/inner.zip!x"', b"deep", "`in/inner.zip!x` is not in"),
        ('archive = "changed"\nmember = "in/wheel.txt"', b"wheel", "has the sha256"),
    ],
)
def test_what_differs_is_refused_and_leaves_nothing(
    fetch: Fetch, source: str, content: bytes, reason: str
) -> None:
    changed = WHEEL[:-1] + b"?"
    code, said = fetch(
        f'[archives.wheel]\nurl = "SERVER/wheel.whl"\n{pinned(WHEEL)}'
        f'[archives.changed]\nurl = "SERVER/wheel.whl"\n{pinned(changed)}'
        + entry("bad", content, source)
        + entry("good", TEXT, 'url = "SERVER/text"')
    )
    assert code == 1
    assert reason in said
    assert fetch.files() == {"good": TEXT}


def test_a_download_that_is_too_long_is_not_read_to_its_end(fetch: Fetch) -> None:
    _, said = fetch(entry("a", TEXT, 'url = "SERVER/long"'))
    found = re.search(r"has (\d+) bytes", said)
    assert found
    assert len(TEXT) < int(found[1]) < len(LONG)
    assert not fetch.files()


def test_a_file_that_is_there_is_kept_or_named(fetch: Fetch) -> None:
    manifest = entry("a", TEXT, 'url = "SERVER/text"') + entry("b", TEXT, 'url = "SERVER/absent"')
    fetch.folder.mkdir()
    (fetch.folder / "b").write_bytes(TEXT)
    assert fetch(manifest)[0] == 0
    (fetch.folder / "a").write_bytes(b"mine")
    code, said = fetch(manifest)
    assert code == 1
    assert "Remove the file to fetch it again" in said
    assert fetch.files() == {"a": b"mine", "b": TEXT}


def test_a_folder_with_an_unknown_licence_is_asked_for(fetch: Fetch) -> None:
    text = 'url = "SERVER/text"'
    manifest = entry("a/x", TEXT, text, licence="unknown") + entry("a/y", TEXT, text)
    manifest += entry("b/x", TEXT, text)
    code, said = fetch(manifest)
    assert code == 0
    assert "a: skipped, a licence is unknown" in said
    assert set(fetch.files()) == {"b/x"}
    assert fetch(manifest, "--unknown-licences")[0] == 0
    assert set(fetch.files()) == {"a/x", "a/y", "b/x"}


def test_files_are_chosen_by_their_path(fetch: Fetch) -> None:
    manifest = entry("a/x", TEXT, 'url = "SERVER/text"') + entry("b/x", TEXT, 'url = "SERVER/text"')
    assert fetch(manifest, "--only", "b/*")[0] == 0
    assert set(fetch.files()) == {"b/x"}


def test_what_the_tests_lack_is_one_line(fetch: Fetch) -> None:
    manifest = entry("a", TEXT, 'url = "SERVER/text"') + entry("b", TEXT, 'url = "SERVER/text"')
    assert fetch(manifest, "--missing")[1].startswith("Test data: nothing in")
    fetch.folder.mkdir()
    (fetch.folder / "a").write_bytes(TEXT)
    code, said = fetch(manifest, "--missing")
    assert code == 0
    assert said.startswith("Test data: 1 of 2 files are not in")
    assert said.count("\n") == 1
    (fetch.folder / "b").write_bytes(TEXT)
    assert fetch(manifest, "--missing") == (0, "")


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b"])
def test_a_path_stays_in_the_folder(fetch: Fetch, path: str) -> None:
    with pytest.raises(SystemExit, match="is not a path within a folder"):
        fetch(entry(path, TEXT, 'url = "SERVER/text"'))


PACKAGE = zipped(
    {
        "pinned/data.txt": b"data",
        "pinned-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pinned\nVersion: 1.0\n",
        "pinned-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        "pinned-1.0.dist-info/RECORD": b"",
    }
)


PACKAGE_FILE = "pinned-1.0-py3-none-any.whl"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An index that has one package."""
    (tmp_path / PACKAGE_FILE).write_bytes(PACKAGE)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("requirement", "content", "problem"),
    [
        ("pinned==1.0", PACKAGE, ""),
        ("pinned==1.0", PACKAGE + b"?", "bytes; expected"),
        ("pinned==2.0", PACKAGE, f"pip has no `{PACKAGE_FILE}` for `pinned==2.0`"),
    ],
)
def test_a_requirement_is_downloaded_by_pip(
    fetch: Fetch, requirement: str, content: bytes, problem: str
) -> None:
    archive = f'requirement = "{requirement}"\nfile = "{PACKAGE_FILE}"\n{pinned(content)}\n'
    file = entry("x", b"data", 'archive = "a"\nmember = "pinned/data.txt"')
    code, said = fetch(f"[archives.a]\n{archive}{file}")
    assert problem in said
    assert (code, fetch.files()) == ((1, {}) if problem else (0, {"x": b"data"}))


ARCHIVES, FILES = fetch_test_data.read_manifest(fetch_test_data.MANIFEST)


def test_the_manifest_is_sound() -> None:
    assert len({file.path for file in FILES}) == len(FILES)
    for pin in (*ARCHIVES.values(), *FILES):
        assert re.fullmatch("[0-9a-f]{64}", pin.sha256)
        assert pin.size > 0
    for file in FILES:
        assert bool(file.url) + bool(file.archive) + bool(file.text) == 1, file.path
        assert file.licence, file.path
        assert not file.archive or file.archive in ARCHIVES
    addresses = [file.url for file in FILES] + [archive.url for archive in ARCHIVES.values()]
    for address in filter(None, addresses):
        assert urlsplit(address).scheme == "https"
    for archive in ARCHIVES.values():
        assert bool(archive.url) != bool(archive.requirement)
        assert bool(archive.requirement) == bool(archive.file)
    # Two members of one nested archive would need two readings of it.
    outer = [(file.archive, file.member.partition("!")[0]) for file in FILES if file.archive]
    assert len(set(outer)) == len(outer)


def test_skipped_tests_are_summed_up(tmp_path: Path) -> None:
    tests = ["tests/vocab/test_vocab_surface.py", "-k", "test_a_real_folder and not yi"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests],
        check=True,
        capture_output=True,
        cwd=data.ROOT,
        env=os.environ | {"CHATCODEC_TEST_DATA": str(tmp_path)},
        text=True,
    )
    assert re.search(rf"^\d+ tests: files are not in {tmp_path}; `make", run.stdout, re.MULTILINE)


OTHERS = {
    *("vocab/qwen2/tokenizer_config.json", "vocab/qwen3/tokenizer.json"),
    *(file.path for file in FILES if file.path.endswith((".inp", ".out"))),
}
"""Files of which several versions do for the tests."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path)
def test_the_manifest_pins_the_files_that_the_tests_read(file: fetch_test_data.File) -> None:
    if file.text:
        text = file.text.encode()
        file.check(file.path, len(text), hashlib.sha256(text).hexdigest())
    path = data.find(file.path)
    if file.text:
        there = json.loads(path.read_text("utf-8"))
        assert there | json.loads(file.text) == there
    elif file.path not in OTHERS:
        assert fetch_test_data.has(data.DATA, file)
