"""`chatcodec serve --demo`: a scripted engine, the gateway before it, and a page as its client.

Nothing is fetched and nothing is generated: the engine calls the first tool, and then repeats what
it is told. Requests, ids and streams are those of every gateway.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from chatcodec.serve.app import app
from chatcodec.serve.demo.engine import engine, running, scripted
from chatcodec.serve.demo.page import page_routes
from chatcodec.serve.log import LOG
from chatcodec.serve.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

    from chatcodec import Codec
    from chatcodec.serve.listening import Listening
    from chatcodec.serve.settings import Settings

__all__ = ["demo_app", "run_demo"]

_DELAY = 0.03
"""Seconds between two ids of the scripted engine."""


@contextmanager
def demo_app(settings: Settings, port: int, codec: Codec | None = None) -> Iterator[Starlette]:
    """Run the scripted engine, and make a gateway before it with the page of the demonstration.

    The page is served on `port` of this machine. `codec` is used instead of the one that the
    settings name.
    """
    codec = settings.codec() if codec is None else codec
    hosts = ("127.0.0.1", "localhost")
    origins = tuple(f"http://{host}:{port}" for host in hosts)
    with running(engine(scripted(codec), delay=_DELAY)) as backend:
        made = app(
            replace(
                settings,
                backend=backend,
                engine="vllm",
                host=settings.host or hosts[0],
                allow_origins=(*settings.allow_origins, *origins),
            ),
            codec,
        )
        made.router.routes += page_routes(made.state.gateway)
        yield made


def run_demo(settings: Settings, listening: Listening) -> bool:
    """Serve until a signal to end; say whether the gateway could begin to serve.

    Raises what loading the codec raises, and `OSError` for a port in use.
    """
    codec = settings.codec()
    sockets = listening.sockets()
    port: int = sockets[0].getsockname()[1]
    # The terminal is for the address of the page.
    LOG.setLevel(logging.WARNING)
    with demo_app(settings, port, codec) as made:
        server = Server(made, listening)
        host = "127.0.0.1" if ":" in listening.host else listening.host
        print(_GREETING.format(url=f"http://{host}:{port}", model=settings.served[0]), flush=True)  # noqa: T201
        server.serve_on(sockets)
        return server.started


_GREETING = """\
chatcodec serve --demo: open {url}/
Clients of OpenAI: base_url {url}/v1, model {model}; clients of Anthropic: {url}
The engine is a script, in the place of vLLM. Ctrl+C ends it."""
