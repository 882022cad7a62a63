"""`from_pretrained`: the real client of the Hugging Face hub, and a hub of our own on 127.0.0.1.

Each load is a process of its own: the client reads its environment when it is imported, and keeps
what it knows in memory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import data
import models
import pytest
from chatcodec import Codec, FormatError, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

has_client = pytest.mark.skipif(
    importlib.util.find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed"
)

NAME = "someone/some-model"
TOKEN = "hf_of_one_who_may"  # noqa: S105 (no password)


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


@dataclass
class Model:
    """What the hub has under a name. Who reads a gated one needs the token."""

    files: dict[str, bytes]
    revision: str = "main"
    gated: int = 0

    @property
    def commit(self) -> str:
        """The commit that the revision is."""
        return hashlib.sha1(repr(self.files).encode(), usedforsecurity=False).hexdigest()

    def info(self, name: str) -> dict[str, object]:
        """What `model_info` reads."""
        siblings = [{"rfilename": file} for file in self.files]
        return {"id": name, "sha": self.commit, "siblings": siblings}

    def tree(self) -> list[dict[str, object]]:
        """What `list_repo_tree` reads."""
        return [
            {"type": "file", "path": path, "size": len(content), "oid": oid(content)}
            for path, content in self.files.items()
        ]

    def resolve(self, file: str, authorization: str | None) -> Answer:
        """Answer who asks for a file."""
        if self.gated and authorization != f"Bearer {TOKEN}":
            return self.gated, {"X-Error-Code": "GatedRepo"}, b""
        headers = {"X-Repo-Commit": self.commit}
        if file not in self.files:
            return 404, headers | {"X-Error-Code": "EntryNotFound"}, b""
        return 200, headers | {"ETag": f'"{oid(self.files[file])}"'}, self.files[file]


@dataclass
class Hub:
    """A server of as much of the hub's protocol as the client needs, and what it was asked."""

    models: dict[str, Model] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    broken: bool = False
    server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, headers, body = hub.answer(self.path, self.headers["authorization"])
                hub.asked.append(f"{self.command} {urlsplit(self.path).path}")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 (the name is http.server's)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        """Leave, so that nothing listens there any more."""
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str, authorization: str | None) -> Answer:
        """Answer a request: status, headers and body."""
        if self.broken:
            return 503, {}, b"come back later"
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        owner, name, verb, revision, *file = parts[2:] if is_api else parts
        model = self.models.get(f"{owner}/{name}")
        if model is None:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        if revision not in {model.revision, model.commit}:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if is_api:
            answers = {"revision": model.info(f"{owner}/{name}"), "tree": model.tree()}
            return 200, {}, json.dumps(answers[verb]).encode()
        assert verb == "resolve"
        return model.resolve("/".join(file), authorization)


def oid(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    hub.models[NAME] = Model(
        {
            "tokenizer.model": data.EMBEDDED_MODEL.read_bytes(),
            "tokenizer_config.json": b"{}",
            "config.json": b"{}",
            "README.md": b"# Hello",
            "model.safetensors": bytes(1000),
            "gguf/model.gguf": b"GGUF" + bytes(1000),
        }
    )
    yield hub
    hub.stop()


PROGRAM = """
import json, sys, time
import chatcodec
# The client waits before it asks once more; what it asks stays the same.
time.sleep = lambda _: None
cls, arguments, options = json.load(sys.stdin)
try:
    made = getattr(chatcodec, cls).from_pretrained(*arguments, **options)
except Exception as error:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    places = {name: getattr(error, name, None) for name in ("file", "component", "filename")}
    json.dump({"error": str(error), "kinds": kinds, **places}, sys.stdout)
else:
    vocab = made if cls == "Vocab" else made.vocab
    ids = vocab.encode("Hello, <s>").tolist()
    json.dump({"ids": ids, "control": vocab.control, "repr": repr(made)}, sys.stdout)
"""


@dataclass
class Client:
    """A user with a home of its own, and so with a cache."""

    hub: Hub
    home: Path

    def environment(self) -> dict[str, str]:
        """The environment of a process of the user."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        return {
            **kept,
            "HF_ENDPOINT": self.hub.url,
            "HF_HOME": str(self.home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
        }

    def load(
        self,
        *arguments: str,
        cls: str = "Vocab",
        environ: dict[str, str] | None = None,
        **options: object,
    ) -> dict[str, Any]:
        """Call `from_pretrained` in a process of its own; say what came out."""
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps([cls, arguments, options]),
            capture_output=True,
            check=False,
            text=True,
            cwd=self.home,
            env=self.environment() | (environ or {}),
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def cached(self) -> set[str]:
        """The names of the files in the cache."""
        snapshots = (self.home / "hub").glob("models--*/snapshots/*")
        return {
            path.relative_to(snapshot).as_posix()
            for snapshot in snapshots
            for path in snapshot.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def client(hub: Hub, tmp_path: Path) -> Client:
    return Client(hub, tmp_path)


IDS = Vocab.load(data.EMBEDDED_MODEL).encode("Hello, <s>").tolist()


@has_client
def test_only_the_files_of_the_vocabulary_are_fetched(hub: Hub, client: Client) -> None:
    assert client.load(NAME)["ids"] == IDS
    assert client.cached() == {"tokenizer.model", "tokenizer_config.json"}
    assert not any("safetensors" in path or "gguf" in path for path in hub.asked)


@has_client
def test_a_second_load_asks_nobody(hub: Hub, client: Client) -> None:
    first = client.load(NAME)
    hub.asked.clear()
    assert client.load(NAME) == first
    assert hub.asked == []
    hub.stop()
    assert client.load(NAME) == client.load(NAME, local_files_only=True) == first
    assert client.load(NAME, environ={"HF_HUB_OFFLINE": "1"}) == first


@has_client
def test_what_is_cached_in_part_is_fetched_in_full(hub: Hub, client: Client) -> None:
    """A cache that others filled, file by file: half of a vocabulary is another vocabulary."""
    program = f"import huggingface_hub as h; h.hf_hub_download({NAME!r}, 'tokenizer.model')"
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(client.home)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert client.cached() == {"tokenizer.model"}
    hub.broken = True
    failed = client.load(NAME)
    assert "ConnectionError" in failed["kinds"]
    # Unless it is asked for.
    assert client.load(NAME, local_files_only=True)["ids"] == IDS
    hub.broken = False
    assert client.load(NAME)["ids"] == IDS
    assert client.cached() == {"tokenizer.model", "tokenizer_config.json"}


@has_client
def test_a_file_that_vanished_from_the_cache_is_fetched_again(client: Client) -> None:
    client.load(NAME)
    for path in (client.home / "hub").glob("models--*/snapshots/*/tokenizer.model"):
        path.unlink()
    failed = client.load(NAME, local_files_only=True)
    assert "FileNotFoundError" in failed["kinds"]
    assert client.load(NAME)["ids"] == IDS


@has_client
def test_a_revision(hub: Hub, client: Client) -> None:
    model = hub.models[NAME]
    hub.models[NAME] = Model(model.files, revision="v2")
    assert client.load(NAME, revision="v2")["ids"] == IDS
    assert client.load(NAME, revision=model.commit)["ids"] == IDS
    failed = client.load(NAME)
    assert failed["error"] == f"model `{NAME}` has no revision `main`"
    failed = client.load(NAME, revision="v3")
    assert failed["error"] == f"model `{NAME}` has no revision `v3`"
    assert (failed["kinds"][0], failed["file"], failed["component"]) == ("VocabError", NAME, "hub")


@has_client
@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_model(hub: Hub, client: Client, status: int) -> None:
    hub.models[NAME].gated = status
    failed = client.load(NAME)
    assert failed["error"] == (
        f"model `{NAME}` is gated: ask for access at {hub.url}/{NAME}, "
        "and give `token=` or run `hf auth login`"
    )
    assert (failed["kinds"][0], failed["file"], failed["component"]) == ("VocabError", NAME, "hub")
    assert client.load(NAME, token=f"{TOKEN}_not")["kinds"][0] == "VocabError"
    assert client.load(NAME, token=TOKEN)["ids"] == IDS


@has_client
def test_a_name_that_the_hub_does_not_have(client: Client) -> None:
    failed = client.load("someone/else")
    assert failed["error"] == (
        "model `someone/else` is not on the hub, or is private; expected a folder, a name such as "
        "`owner/name`, or `token=` of one who may read it"
    )
    assert (failed["kinds"][0], failed["component"]) == ("VocabError", "hub")


@has_client
def test_a_model_without_a_vocabulary(hub: Hub, client: Client) -> None:
    hub.models[NAME] = Model({"model.safetensors": b"x", "README.md": b"x"})
    for _ in range(2):
        failed = client.load(NAME)
        why = "has no tokenizer's files, such as `tokenizer.json`"
        assert failed["error"] == f"model `{NAME}` {why}"
        assert (failed["kinds"][0], failed["component"]) == ("VocabError", "hub")
    assert client.cached() == set()


@has_client
def test_a_hub_that_cannot_be_reached(hub: Hub, client: Client) -> None:
    hub.broken = True
    failed = client.load(NAME)
    assert "ConnectionError" in failed["kinds"]
    assert failed["error"].startswith(
        f"model `{NAME}`: no such file or folder, and the hub cannot be reached: "
    )
    assert "503" in failed["error"]
    hub.stop()
    failed = client.load(NAME)
    assert "ConnectionError" in failed["kinds"]
    assert failed["error"].startswith(
        f"model `{NAME}`: no such file or folder, and the hub cannot be reached: "
    )


@has_client
def test_what_is_not_cached_is_not_fetched_unless_it_may_be(hub: Hub, client: Client) -> None:
    for options in ({"local_files_only": True}, {"environ": {"HF_HUB_OFFLINE": "1"}}):
        failed = client.load(NAME, **options)
        assert failed["kinds"][0] == "FileNotFoundError"
        assert failed["filename"] == NAME
    assert hub.asked == []


@has_client
def test_a_codec(hub: Hub, client: Client) -> None:
    hub.models[NAME].files["tokenizer.model"] = data.model_bytes("prefixed")
    made = client.load(NAME, cls="Codec", format="internlm2")
    assert made["repr"] == 'Codec("internlm2", size=700)'
    assert "<|im_start|>" in made["control"]
    hub.asked.clear()
    failed = client.load(NAME, cls="Codec", format="internlm3")
    assert failed["kinds"][0] == "FormatError"
    assert hub.asked == []


@has_client
def test_a_command_is_about_a_model_of_the_hub(hub: Hub, client: Client, tmp_path: Path) -> None:
    """By the argument and by the variable; what is prepared says the name and the commit."""
    pytest.importorskip("pyarrow")
    folder = models.folder(tmp_path / "files")
    hub.models[NAME] = Model({path.name: path.read_bytes() for path in folder.iterdir()})
    messages = [{"role": "user", "content": "Hi"}]
    (tmp_path / "chats.jsonl").write_text(json.dumps(messages) + "\n")

    def run(*argv: str, **environ: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "chatcodec", *argv],
            capture_output=True,
            check=False,
            text=True,
            cwd=tmp_path,
            env=client.environment() | environ,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    expected = {"ids": Codec.from_pretrained(folder).encode(messages).ids.tolist()}
    assert json.loads(run("encode", "--model", NAME, "chats.jsonl")) == expected
    hub.stop()
    assert json.loads(run("encode", "chats.jsonl", CHATCODEC_MODEL=NAME)) == expected
    run("prepare", "--quiet", "--model", NAME, "chats.jsonl", "out")
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    vocabulary = manifest["made_of"]["vocabulary"]
    assert (vocabulary["name"], vocabulary["revision"]) == (NAME, hub.models[NAME].commit)
    checked = json.loads(run("check", NAME, "--json", "--no-transformers"))
    assert [file["name"] for file in checked["files"]] == sorted(hub.models[NAME].files)
    assert f"--model {NAME}" in checked["commands"]["gateway"]


@has_client
@pytest.mark.parametrize(
    "name", ["./nowhere", "/no/such/folder", "a/b/c", "a b", "", "ü/x", "a/.."]
)
def test_what_is_no_name_is_no_such_file(name: str) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder, and no name") as caught:
        Vocab.from_pretrained(name)
    assert caught.value.filename == name


def test_a_folder_or_a_file_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "chatcodec.hub", raising=False)
    path = tmp_path / "tokenizer.model"
    path.write_bytes(data.model_bytes("prefixed"))
    for given in (tmp_path, str(tmp_path), path, str(path)):
        vocab = Vocab.from_pretrained(given)
        assert vocab.size == 700
        codec = Codec.from_pretrained(given, format="internlm2")
        assert codec.vocab.encode("a") == vocab.encode("a")
    monkeypatch.chdir(tmp_path.parent)
    assert Vocab.from_pretrained(tmp_path.name).size == 700
    with pytest.raises(FileNotFoundError):
        Vocab.from_pretrained(tmp_path / "none")
    with pytest.raises(FormatError):
        Codec.from_pretrained("someone/model", format="none")


def test_without_the_client_its_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "chatcodec.hub", raising=False)
    with pytest.raises(ImportError, match="pip install huggingface_hub") as caught:
        Vocab.from_pretrained("someone/model")
    assert caught.value.name == "huggingface_hub"
