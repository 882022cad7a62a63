"""A real Redis or Valkey server for the tests: `CHATCODEC_REDIS` is the program."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PROGRAM", "Running", "server"]

PROGRAM = os.environ.get("CHATCODEC_REDIS", "")


@dataclass
class Running:
    """A server that runs, or is gone for a while."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        options = ("--port", str(self.port), "--save", "", "--appendonly", "no")
        self.process = subprocess.Popen(
            [PROGRAM, *options, "--bind", "127.0.0.1"], stdout=subprocess.DEVNULL
        )
        for _ in range(200):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError(f"{PROGRAM} does not listen on {self.port}")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def server() -> Iterator[Running]:
    """Run a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        running = Running(free.getsockname()[1])
    running.start()
    try:
        yield running
    finally:
        running.kill()
