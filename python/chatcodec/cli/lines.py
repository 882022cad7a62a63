"""JSON lines, in and out, with the place of every line that fails.

Files are read in blocks, so that memory is bounded by the longest line, and what a pipe has so far
is answered before more is waited for. Every line in has its place in what goes out: one that fails
is an object with `error` and `line`, an empty one stays empty.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, TypeVar

from chatcodec.cli.terminal import one_line, safe_json

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Line", "Reply", "Worker", "attempt", "dumps", "each", "kind", "process", "read"]

BLOCK_BYTES = 1 << 20

# The errors of a line: a value that is refused (chatcodec's errors, text that is not JSON or
# not UTF-8), a value of another type, and one nested deeper than the JSON reader allows.
LINE_ERRORS = (ValueError, TypeError, RecursionError)

Given = TypeVar("Given")
Result = TypeVar("Result")

Reply: TypeAlias = str | Exception
"""The reply to a line, or the error."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, as bytes."""

    file: str
    number: int
    data: bytes

    @property
    def place(self) -> str:
        """The place of the line: `file:line`."""
        return f"{self.file}:{self.number}"

    def text(self) -> str:
        """Decode the line; `ValueError` if it is not UTF-8."""
        try:
            text = self.data.decode()
        except UnicodeDecodeError as error:
            message = f"is not UTF-8, at byte {error.start}"
            raise ValueError(message) from error
        return text.removeprefix("\ufeff") if self.number == 1 else text

    def value(self, for_text: str | None = None) -> object:
        """Read the line as JSON; `ValueError` if it is not JSON.

        The error names `for_text`, the option of a command that reads lines of text.
        """
        text = self.text()
        try:
            value: object = json.loads(text)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, " if error.lineno > 1 else ""
            message = f"is not JSON, at {place}column {error.colno}: {error.msg.lower()}"
            if text.strip() in {"[", "{"}:
                message += "; for a value of several lines: --document"
            elif for_text is not None:
                message += f"; for lines of text: {for_text}"
            raise ValueError(message) from error
        except RecursionError as error:
            raise ValueError("is nested too deeply") from error
        return value


Worker: TypeAlias = Callable[[Sequence[Line]], Iterator[Reply]]
"""Takes lines and gives a reply for each, in order."""


def read(paths: Sequence[str], *, document: bool) -> Iterator[list[Line]]:
    """Yield the lines of files, in groups as they arrive; with `document`, a file is one line."""
    for path in paths or ["-"]:
        name = "<stdin>" if path == "-" else path
        number = 1
        with _open(path) as file:
            for group in [[file.read()]] if document else _groups(file):
                yield [Line(name, number + index, data) for index, data in enumerate(group)]
                number += len(group)


def _open(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    return Path(path).open("rb")


def _groups(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the complete lines that a file has ready, repeatedly."""
    begun: list[bytes] = []
    # `read1` returns what is there: a pipe that writes a line and waits for its answer gets one.
    while block := file.read1(BLOCK_BYTES):  # type: ignore[attr-defined]
        end = block.rfind(b"\n")
        if end < 0:
            begun.append(block)
            continue
        begun.append(block[:end])
        yield b"".join(begun).split(b"\n")
        begun = [block[end + 1 :]]
    if last := b"".join(begun):
        yield [last]


def attempt(answer: Callable[[Given], Result], given: Given) -> Result | Exception:
    """Return the reply to a line, or its error."""
    try:
        return answer(given)
    except LINE_ERRORS as error:
        return error


def each(answer: Callable[[Line], str]) -> Worker:
    """Answer lines one by one."""
    return lambda lines: (attempt(answer, line) for line in lines)


def process(
    groups: Iterable[Sequence[Line]],
    worker: Worker,
    *,
    refuse: Callable[[Line, str], str],
    skip_empty: bool = True,
) -> bool:
    """Write the replies to all lines; return whether none failed.

    `refuse` gives what stands for a line that failed; why it did also goes to standard error.
    """
    fine = True
    for group in groups:
        replies = worker([line for line in group if not skip_empty or line.data.strip()])
        for line in group:
            reply = "\n" if skip_empty and not line.data.strip() else next(replies)
            if isinstance(reply, Exception):
                fine = False
                why = one_line(str(reply))
                sys.stderr.write(f"{one_line(line.place)}: {why}\n")
                reply = refuse(line, why)
            sys.stdout.write(reply)
        sys.stdout.flush()
    return fine


def dumps(value: object) -> str:
    """Write a value as a line of JSON."""
    return safe_json(json.dumps(value, ensure_ascii=False)) + "\n"


def kind(value: object) -> str:
    """Return the name of a JSON value's type."""
    names: dict[type, str] = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names[type(value)]
