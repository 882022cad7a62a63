"""A contender's process: imports it, then serves jobs, each in a fork of its own.

    python -m benches.worker CONTENDER CORE

Reads a JSON object a line, writes one a line: what the job returned, or `{"error": …}`, or
`{"unsupported": true}` where the library has no such call. The process
itself never uses the library: so every fork begins as a process that has just imported it, and a
library that aborts takes only its fork with it. Only the standard library and the contender are
imported here.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any, TextIO

from . import adapters, jobs


def main() -> None:
    """Serves until its input ends."""
    name, core = sys.argv[1:]
    # What a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    try:
        adapters.import_library(name)
    except ImportError as error:
        _write(answers, {"error": f"cannot be imported: {error}"})
        return
    _write(answers, {"ready": True})
    for line in sys.stdin:
        _serve(name, json.loads(line), answers)


def _serve(name: str, job: dict[str, Any], answers: TextIO) -> None:
    child = os.fork()
    if not child:
        _write(answers, _answer(name, job))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        _write(answers, {"error": f"the process ended: {os.waitstatus_to_exitcode(status)}"})


def _answer(name: str, job: dict[str, Any]) -> dict[str, Any]:
    gc.disable()
    try:
        return jobs.run(name, job)
    except adapters.UnsupportedError:
        return {"unsupported": True}
    except BaseException as error:  # noqa: BLE001 - a panic of a library is no `Exception`
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
