"""The command `prepare`: its progress on standard error, its report on standard output."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec.cli.loading import UsageError, load_codec, load_options
from chatcodec.cli.terminal import one_line
from chatcodec.pages import report_page

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import TextIO

    from chatcodec.prepare import Report

__all__ = ["prepare"]

_LINE_SECONDS, _BAR_SECONDS = 10.0, 0.2


def prepare(args: Namespace) -> bool:
    """Prepare files of conversations; return whether no row was rejected."""
    try:
        from chatcodec.prepare import Options  # noqa: PLC0415 (an extra)
        from chatcodec.prepare import prepare as run  # noqa: PLC0415
        from chatcodec.prepare.store import PAGE  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"prepare: {error}") from error
    codec = load_codec(args)
    options = Options(
        labels=args.labels,
        columns=args.columns,
        keep=tuple(args.keep),
        messages=args.messages,
        max_length=args.max_length,
        on_long=args.on_long,
        pack=args.pack,
        shards=args.shards,
        kind=args.to,
        encode=load_options(args),
        threads=args.threads,
    )
    progress: Bar | None = Bar(sys.stderr) if not args.quiet and sys.stderr is not None else None
    try:
        report = run(
            args.inputs, args.output, codec, options, restart=args.restart, progress=progress
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    finally:
        if progress is not None:
            progress.close()
    if args.html:
        from chatcodec.prepare.samples import made_of, samples  # noqa: PLC0415 (needs pyarrow)

        page = report_page(
            report.to_dict(),
            made={
                **made_of(args.output),
                "written": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            },
            quantiles={f"at {share:.0%}": report.quantile(share) for share in (0.5, 0.9, 0.99)},
            samples=samples(args.output, codec),
        )
        (Path(args.output) / PAGE).write_text(page, encoding="utf-8")
    sys.stdout.write(report.text())
    if report.rejected:
        sys.stderr.write(f"{args.output}/_rejects.jsonl: {report.rejected:,} rows were rejected\n")
    return report.rejected == 0


class Bar:
    """A line that is redrawn on a terminal; elsewhere a new line every ten seconds."""

    def __init__(self, stream: TextIO) -> None:
        """Begin to count the time."""
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._began = self._shown = time.monotonic()
        self._first: tuple[int, int, int] | None = None
        self._is_drawn = False

    def read(self, done: int, total: int, report: Report) -> None:
        """Show the encoded part of the input."""
        if self._first is None:
            # The rate does not count the work of an earlier run.
            self._first = (done, report.rows, report.ids)
        if not self._is_due():
            return
        seconds = max(time.monotonic() - self._began, 1e-3)
        read = done - self._first[0]
        left = seconds * (total - done) / read if read > 0 else 0.0
        rows, ids = report.rows - self._first[1], report.ids - self._first[2]
        self._show(
            done / total if total else 1.0,
            f"{report.rows:,} conversations, {rows / seconds:,.0f}/s, {ids / seconds:,.0f} ids/s, "
            f"{report.rejected:,} rejected, {_time(left)} left",
        )

    def write(self, done: int, total: int) -> None:
        """Show the written part of the output."""
        if self._is_due():
            self._show(done / total if total else 1.0, f"{done:,} rows written to shards")

    def close(self) -> None:
        """End the line."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now - self._shown < (_BAR_SECONDS if self._is_terminal else _LINE_SECONDS):
            return False
        self._shown = now
        return True

    def _show(self, share: float, text: str) -> None:
        if not self._is_terminal:
            self._stream.write(one_line(f"{share:4.0%}  {text}") + "\n")
        else:
            columns = shutil.get_terminal_size().columns
            drawn = "█" * int(20 * share)
            line = f"{drawn:░<20} {share:4.0%}  {text}"
            self._stream.write("\r\x1b[K" + line[: columns - 1])
            self._is_drawn = True
        self._stream.flush()


def _time(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
