"""Run the gateway until it is told to end."""

from __future__ import annotations

import importlib
import os
import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prometheus_client import start_http_server

from chatcodec.serve.app import app
from chatcodec.serve.guard import is_loopback
from chatcodec.serve.keys import Keys
from chatcodec.serve.log import LOG, set_up
from chatcodec.serve.memory import MemoryStore, store_of
from chatcodec.serve.metrics import SHARED, summed
from chatcodec.serve.salt import share_secret
from chatcodec.serve.server import Server
from chatcodec.serve.settings import KEYS, Settings
from chatcodec.serve.workers import Workers

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from chatcodec.serve.listening import Listening

__all__ = ["run"]

_FILES_OF_REQUEST = 2
"""A connection of the client, one to the backend."""


def allow_files(count: int) -> None:
    """Raise the limit of open files of this process, as far as it may."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < count:
        LOG.warning("files", extra={"fields": {"allowed": allowed, "needed": count}})


def run(settings: Settings, listening: Listening) -> bool:
    """Serve until a signal to end; say whether the gateway could begin to serve.

    Raises `ValueError` for keys or certificates that are none, and `OSError` for files that cannot
    be read and for a port in use.
    """
    set_up()
    allow_files(_FILES_OF_REQUEST * settings.max_requests + 100)
    if Keys.of(settings) is None and not is_loopback(listening.host):
        fields = {"host": listening.host, "advice": f"set {KEYS} to require keys"}
        LOG.warning("open", extra={"fields": fields})
    if listening.certificates is not None:
        listening.certificates.check()
    share_secret()
    if listening.workers == 1:
        made = app(settings)
        about: dict[str, Any] = {"codec": str(made.state.gateway.codec.describe())}
        server = Server(made, listening)
        sockets = listening.sockets()
        show_metrics(settings, listening, made.state.gateway.metrics.registry)
        told_start(settings, listening, sockets[0].getsockname()[1], about)
        server.serve_on(sockets)
        return server.started
    settings.codec()  # which fails here, and not in every process
    check_memory(settings)
    with tempfile.TemporaryDirectory(prefix="chatcodec-") as folder:
        os.environ[SHARED] = folder
        sockets = listening.sockets()
        show_metrics(settings, listening, summed(folder))
        about = {"workers": listening.workers}
        told_start(settings, listening, sockets[0].getsockname()[1], about)
        return Workers(settings, listening, folder).run(sockets)


def check_memory(settings: Settings) -> None:
    """Open what processes share of answers, and close it. Raises `OSError` and `ValueError`."""
    store = store_of(settings)
    if store is not None:
        store.close()
    if isinstance(store, MemoryStore):
        advice = "give `--memory-file`: each process remembers its own answers alone"
        LOG.warning("memory", extra={"fields": {"advice": advice}})


def show_metrics(settings: Settings, listening: Listening, registry: CollectorRegistry) -> None:
    """Serve the metrics on a port of their own, if there is one. Raises `OSError`."""
    port = settings.metrics_port
    if port is not None:
        try:
            start_http_server(port, listening.host, registry)
        except OSError as error:
            raise OSError(
                error.errno, f"--metrics-port {port}: {os.strerror(error.errno or 0)}"
            ) from None


def told_start(settings: Settings, listening: Listening, port: int, about: dict[str, Any]) -> None:
    """Log that the gateway listens."""
    # Without a password that the address may have.
    backend = urlsplit(settings.backend)
    shown = backend._replace(netloc=backend.netloc.rpartition("@")[2]).geturl()
    scheme = "http" if listening.certificates is None else "https"
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    where = {"url": f"{scheme}://{host}:{port}", "backend": shown, "engine": settings.engine}
    LOG.info("start", extra={"fields": {**where, **about}})
