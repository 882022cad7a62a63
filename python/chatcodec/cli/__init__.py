"""The command line: `chatcodec encode|decode|parse|stream|inspect|check|derive|serve|…`.

`main` is also for calling from Python: it takes the arguments, and returns the exit status.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from chatcodec.cli.arguments import build_parser
from chatcodec.cli.commands import COMMANDS
from chatcodec.cli.loading import UsageError
from chatcodec.cli.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

FINE, LINES_FAILED, USAGE = 0, 1, 2
# Exit statuses of a program that a signal ended, as in shells: SIGINT, SIGPIPE.
INTERRUPTED, NOT_READ = 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # UTF-8 whatever the locale; what it cannot write comes out as JSON would write it.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    if sys.stdout is None:
        # Closed: there is nobody to answer.
        return USAGE
    try:
        fine = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return NOT_READ
    except KeyboardInterrupt:
        return INTERRUPTED
    except (UsageError, OSError) as error:
        _forget_output()
        why = " ".join(str(error).split())
        sys.stderr.write(f"chatcodec: {one_line(why)}\n")
        return USAGE
    return FINE if fine else LINES_FAILED


def _run(argv: Sequence[str] | None) -> bool:
    """Run the command; return whether no line failed."""
    try:
        args = build_parser(COMMANDS).parse_args(argv)
    except SystemExit:
        # What `--help` and `--version` end with.
        return True
    fine: bool = args.run(args)
    return fine


def _forget_output() -> None:
    """Prevent a second failure when the interpreter flushes its output at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
