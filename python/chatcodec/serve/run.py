"""Run the gateway until it is told to end."""

from __future__ import annotations

import importlib
import os
import tempfile
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from chatcodec.serve.app import app
from chatcodec.serve.keys import Keys
from chatcodec.serve.log import LOG, set_up
from chatcodec.serve.metrics import SHARED
from chatcodec.serve.protocol import Protocol
from chatcodec.serve.salt import share_secret
from chatcodec.serve.settings import KEYS, Settings

__all__ = ["run"]

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


_FILES_OF_REQUEST = 2
"""A connection of the client, one to the backend."""

_KEEP_ALIVE = 75
"""Seconds for which a client's connection is kept without a request: longer than load balancers
keep theirs, 60 as a rule, since a request that meets the end of its connection fails there."""


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


def run(settings: Settings, host: str, port: int, workers: int, grace: int) -> None:
    """Serve on a host and a port; at an end, wait `grace` seconds for answers that are open."""
    set_up()
    allow_files(_FILES_OF_REQUEST * settings.max_requests + 100)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "timeout_graceful_shutdown": grace,
        "timeout_keep_alive": _KEEP_ALIVE,
        "http": Protocol,
        "access_log": False,
        "log_config": None,
        "log_level": "warning",
        "server_header": False,
        "lifespan": "on",
    }
    if Keys.of(settings) is None and host not in _LOOPBACK:
        LOG.warning(
            "open", extra={"fields": {"host": host, "advice": f"set {KEYS} to require keys"}}
        )
    # Without a password that the address may have.
    backend = urlsplit(settings.backend)
    shown = backend._replace(netloc=backend.netloc.rpartition("@")[2]).geturl()
    about = {"url": f"http://{host}:{port}", "backend": shown, "engine": settings.engine}
    if workers == 1:
        made = app(settings)
        described = made.state.gateway.codec.describe()
        LOG.info("start", extra={"fields": {**about, "codec": str(described)}})
        uvicorn.run(made, **options)
    else:
        settings.codec()  # which fails here, and not in every process
        share_secret()
        settings.store()
        LOG.info("start", extra={"fields": {**about, "workers": workers}})
        with tempfile.TemporaryDirectory(prefix="chatcodec-") as folder:
            os.environ[SHARED] = folder
            uvicorn.run("chatcodec.serve.app:stored_app", factory=True, workers=workers, **options)
