"""The server of the studio.

The server listens on the loopback interface alone. It answers requests that name it as their host,
with bodies of at most `BODY_BYTES`, and posts that come from its own page. A request chooses among
the vocabularies that the server offers, by number: it names no paths. Files that are dropped on the
page are at most `FILES_BYTES`, and stay on this machine.
"""

from __future__ import annotations

import contextlib
import json
import re
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from chatcodec.errors import DataError, FormatError, MessageError, TemplateError, VocabError
from chatcodec.pages.document import escaped_json, page
from chatcodec.pages.inspector import encoding_data
from chatcodec.pages.studio.attacks import attacks
from chatcodec.pages.studio.gateway import Gateway
from chatcodec.pages.studio.models import FILES_BYTES, Models
from chatcodec.pages.timeline import stream_data

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from chatcodec import Codec

__all__ = ["BODY_BYTES", "Studio"]

BODY_BYTES = 2_000_000
"""Largest body of a request, in bytes."""

_PARTS = "fields editor asking attacks compare state copy drop live choices tabs studio"
_SCRIPTS = [
    "common.js",
    "inspector.js",
    "timeline.js",
    *(f"studio/{part}.js" for part in _PARTS.split()),
]

_READ_SECONDS = 20
_MOST_SHOWN = 60_000
"""Ids of a conversation that the page shows; it counts all."""


class RefusedError(Exception):
    """A request that is not answered: its status, and the reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Studio(ThreadingHTTPServer):
    """The server; its page offers `paths`, vocabularies and models, and then the embedded one.

    Names on the hub are of models whose files are cached. Port 0 is a free port. Raises `OSError`
    for a port that is taken.
    """

    daemon_threads = True

    def __init__(
        self, paths: Sequence[str] = (), port: int = 0, gateway: str | None = None
    ) -> None:
        """Listen on `port`; `serve_forever` answers.

        The page sends its conversation to `gateway` when a user presses the button, and to no other
        server. Raises `ValueError` for an address that is none.
        """
        self.gateway = None if gateway is None else Gateway(gateway)
        self.models = Models(paths)
        super().__init__(("127.0.0.1", port), _Handler)

    def server_close(self) -> None:
        """End the server, and delete what was dropped on its page."""
        super().server_close()
        self.models.close()

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}/"

    def hosts(self) -> set[str]:
        """Give the values of the header `Host` that name this server."""
        return {f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"}

    def choices(self) -> dict[str, object]:
        """Give what the page offers."""
        address = None if self.gateway is None else self.gateway.base
        return {"kind": "studio", "bytes": FILES_BYTES, "gateway": address, **self.models.choices()}

    def encode(self, request: Mapping[str, Any]) -> dict[str, object]:
        """Answer with the data of an encoding."""
        codec = self._chosen(request)
        messages = _member(request, "messages", list)
        tools = request.get("tools") or None
        encoding = codec.encode(
            messages,
            tools=tools,
            unknown="ignore",
            on_unsupported="drop" if request.get("drop") is True else "error",
        )
        dropped = list(dict.fromkeys(str(each.path) for each in encoding.dropped))
        return {**encoding_data(encoding, most=_MOST_SHOWN), "dropped": dropped}

    def stream(self, request: Mapping[str, Any]) -> dict[str, object]:
        """Answer with the events of a completion.

        The scripted engine writes `completion`: text in which spellings of control tokens are
        control, as they are in what a model generates.
        """
        codec = self._chosen(request)
        text = _member(request, "completion", str)
        control = codec.vocab.control
        words = sorted(control, key=len, reverse=True)
        ids: list[int] = []
        done = 0
        # Without control tokens, the expression would match the empty text everywhere.
        for found in re.finditer("|".join(map(re.escape, words)), text) if words else ():
            ids += codec.vocab.encode(text[done : found.start()])
            ids.append(control[found[0]])
            done = found.end()
        ids += codec.vocab.encode(text[done:])
        return stream_data(codec, ids)

    def attacks(self, request: Mapping[str, Any]) -> dict[str, object]:
        """Answer with the attacks on what a codec writes."""
        return {"attacks": attacks(self._chosen(request))}

    def _chosen(self, request: Mapping[str, Any]) -> Codec:
        number = _member(request, "vocabulary", int)
        last = len(self.models.paths) - 1
        if not 0 <= number <= last:
            raise MessageError(f"`vocabulary` is {number}, expected 0 to {last}", "vocabulary")
        return self.models.codec(number, _member(request, "format", str))


def _member(request: Mapping[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 (JSON)
    value = request.get(name) if isinstance(request, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MessageError(f"`{name}` is {type(value).__name__}, expected {kind.__name__}", name)
    return value


def _place_of(error: Exception) -> str:
    """Name the part of a request that an error is about, such as `messages[0].role`."""
    if isinstance(error, DataError):
        return "files"
    if isinstance(error, FormatError | TemplateError):
        return "format"
    return getattr(error, "path", "") or ("vocabulary" if isinstance(error, VocabError) else "")


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Studio
    timeout = _READ_SECONDS
    server_version = "chatcodec"
    sys_version = ""
    answers: ClassVar[Mapping[str, Callable[[Studio, Mapping[str, Any]], dict[str, object]]]] = {
        "/encode": Studio.encode,
        "/stream": Studio.stream,
        "/attacks": Studio.attacks,
    }

    def do_GET(self) -> None:
        """Send the page."""
        try:
            self._check_host()
            self._check_path("/")
        except RefusedError as refused:
            self._send(refused.status, "text/plain; charset=utf-8", str(refused))
            return
        content = page(
            "chatcodec studio",
            self.server.choices(),
            _SCRIPTS,
            connect=True,
            styles=["studio/studio.css"],
        )
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", content)

    def do_POST(self) -> None:
        """Encode a conversation, or stream a completion."""
        try:
            self._check_host()
            gateway = self.server.gateway
            self._check_path(*self.answers, "/files", *(["/live"] if gateway else []))
            if self.path == "/live" and gateway is not None:
                self._stream(gateway.stream(self._body()))
                return
            if self.path == "/files":
                value = {**self.server.models.add(self._files()), "offered": self.server.choices()}
            else:
                value = self.answers[self.path](self.server, self._body())
            status = HTTPStatus.OK
        except RefusedError as refused:
            status, value = refused.status, {"error": str(refused)}
            self.close_connection = True
        except (ValueError, TypeError, OSError, RecursionError) as error:
            status = HTTPStatus.BAD_REQUEST
            value = {"error": str(error), "path": _place_of(error)}
        self._send(status, "application/json", escaped_json(value))

    def _check_host(self) -> None:
        """Refuse other names of this machine, which a page of another site may make up."""
        hosts = self.server.hosts()
        named = self.headers.get_all("Host") or []
        if len(named) != 1 or named[0] not in hosts:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, f"unknown host, expected one of {sorted(hosts)}"
            )
        origins = {f"http://{host}" for host in hosts}
        if not origins.issuperset(self.headers.get_all("Origin") or []):
            raise RefusedError(HTTPStatus.FORBIDDEN, "request of another origin")

    def _check_path(self, *known: str) -> None:
        if self.path not in known:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"expected the path {' or '.join(known)}")

    def _content(self, kind: str, most: int) -> bytes:
        """Read a body of the kind, of at most `most` bytes."""
        if self.headers.get_content_type() != kind:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected {kind}")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "expected the header Content-Length")
        if len(length) > len(str(most)) or int(length) > most:
            reason = f"body of {length[:20]} bytes, expected at most {most}"
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        return self.rfile.read(int(length))

    def _files(self) -> dict[str, bytes]:
        """Read files: their contents one after another, their names and sizes in a header."""
        content = self._content("application/octet-stream", FILES_BYTES)
        files, done = {}, 0
        for entry in json.loads(unquote(self.headers.get("X-Files", ""))):
            name, size = _member(entry, "name", str), _member(entry, "size", int)
            files[name] = content[done : done + max(size, 0)]
            done += size
        if done != len(content):
            raise DataError(f"{len(content)} bytes of files, expected {done}")
        return files

    def _body(self) -> Mapping[str, Any]:
        value = json.loads(self._content("application/json", BODY_BYTES))
        if not isinstance(value, dict):
            raise ValueError("body is no JSON object")  # noqa: TRY004
        return value

    def _stream(self, parts: Generator[bytes, None, None]) -> None:
        """Send the parts of an answer as they come; its end closes the connection."""
        next(parts)  # raises what is refused, while it can still be said
        with contextlib.suppress(OSError), contextlib.closing(parts):
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            for part in parts:
                self.wfile.write(part)

    def _send(self, status: HTTPStatus, kind: str, content: str) -> None:
        data = content.encode()
        # A page drops a request that is overtaken by the next one.
        with contextlib.suppress(ConnectionError):
            self._write(status, kind, data)

    def _write(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log."""
