"""Several processes on one port: starting them, starting them again, and ending them.

The first process serves nothing. It passes SIGHUP on to the others, ends them by SIGTERM, and
starts another for one that died. A process that loses it ends too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import mark_process_dead

from chatcodec.serve.app import app
from chatcodec.serve.log import LOG, set_up
from chatcodec.serve.server import Server
from chatcodec.serve.signals import HANGUP, ignore_signals, without_hangups

if TYPE_CHECKING:
    import socket
    from multiprocessing.context import SpawnProcess
    from types import FrameType

    from chatcodec.serve.listening import Listening
    from chatcodec.serve.settings import Settings

__all__ = ["Workers"]

FAILED = 3
"""Exit status of a process that could not begin to serve."""
_TICK = 0.5
_PAUSE = 1.0
"""Seconds between two starts of a process that dies at once."""
_SLACK = 15.0
"""Seconds beyond drain and grace after which a process is killed."""
_SPAWN = multiprocessing.get_context("spawn")


def work(settings: Settings, listening: Listening, sockets: list[socket.socket]) -> None:
    """Serve in this process, until it gets a signal to end or loses its parent."""
    ignore_signals()
    # A terminal sends it to all processes; until this one handles it, the first one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_up()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        made = app(settings)
    except Exception:  # noqa: BLE001 (whatever it is, the log says it once, and there is no traceback)
        LOG.exception("start failed")
        sys.exit(FAILED)
    Server(made, listening).serve_on(sockets)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


class Workers:
    """The processes of a gateway, seen from the first one."""

    def __init__(self, settings: Settings, listening: Listening, folder: str) -> None:
        """Take what the processes need, and the folder by which they share their counts."""
        self.settings, self.listening, self.folder = settings, listening, folder
        self.processes: list[tuple[float, SpawnProcess]] = []
        self._ends_by: float | None = None

    def run(self, sockets: list[socket.socket]) -> bool:
        """Serve until a signal to end; say whether the processes could begin to serve."""
        for name in ("SIGTERM", "SIGINT", "SIGQUIT"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._end)
        if HANGUP is not None:
            signal.signal(HANGUP, self._hang_up)
        for _ in range(self.listening.workers):
            self._start(sockets)
        while self.processes:
            wait([process.sentinel for _, process in self.processes], _TICK)
            for started, process in list(self.processes):
                if not process.is_alive():
                    self._bury(started, process, sockets)
            if self._ends_by is not None and time.monotonic() > self._ends_by:
                for _, process in self.processes:
                    process.kill()
        return self._ends_by is not None

    def _start(self, sockets: list[socket.socket]) -> None:
        arguments = (self.settings, self.listening, sockets)
        process = _SPAWN.Process(target=work, args=arguments, name="chatcodec-worker")
        with without_hangups():
            process.start()
        self.processes.append((time.monotonic(), process))
        if self._ends_by is not None:
            process.terminate()

    def _bury(self, started: float, process: SpawnProcess, sockets: list[socket.socket]) -> None:
        """Forget a process that died, and start another unless all is over."""
        self.processes.remove((started, process))
        if process.pid is not None:
            # Its share of the gauges would stay for ever.
            mark_process_dead(process.pid, self.folder)  # type: ignore[no-untyped-call]
        if self._ends_by is not None:
            return
        fields = {"pid": process.pid, "status": process.exitcode}
        LOG.error("worker died", extra={"fields": fields})
        if process.exitcode == FAILED and not self.processes:
            return
        time.sleep(max(0.0, started + _PAUSE - time.monotonic()))
        self._start(sockets)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """End all processes."""
        del number, frame
        if self._ends_by is None:
            patience = self.listening.drain + self.listening.grace + _SLACK
            self._ends_by = time.monotonic() + patience
            for _, process in self.processes:
                process.terminate()

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        del frame
        for _, process in self.processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, number)
