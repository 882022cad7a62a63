"""The harness's end of a worker process: asks, waits, and ends it where it takes too long."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from .paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 60.0
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
}


class JobError(Exception):
    """What the contender failed with."""


class UnsupportedError(Exception):
    """The contender has no such call."""


class Worker:
    """A contender's process; begun when it is first asked, and again after it was ended."""

    def __init__(self, python: Path, contender: str, core: int) -> None:
        """`core` is where it runs."""
        self._command = [str(python), "-m", "benches.worker", contender, str(core)]
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """What a job returns, within so many seconds of wall-clock time."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                self._command,
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            started = self._answer(START_SECONDS)
            if "error" in started:
                self.close()
                raise JobError(started["error"])
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answer(seconds)
        if "unsupported" in answer:
            raise UnsupportedError
        if "error" in answer:
            raise JobError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process, and what it began."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        # A worker writes a line at once, so a first byte says that all of it comes.
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                self.close()
                raise JobError(f"took more than {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise JobError("its process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer
