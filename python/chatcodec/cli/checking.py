"""`chatcodec formats check`: loads what is compared, shows the report, and watches the file."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec import Template, Vocab
from chatcodec.check import check_file, line_of, read_golden
from chatcodec.cli.loading import (
    UsageError,
    check_files,
    is_template,
    load_template_codec,
    model_of,
    usage_errors,
)
from chatcodec.cli.show import Look
from chatcodec.cli.terminal import one_line, picture, safe_json, wants_color, width
from chatcodec.errors import ChatCodecError
from chatcodec.named import EMBEDDED

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from chatcodec import Codec
    from chatcodec.check import Misreading, Refusal, Report, Result, Status, Token
    from chatcodec.check.golden import GoldenCase

__all__ = ["check"]

# SGR parameters, of the sixteen colours that follow a terminal's theme.
_BOLD, _DIM, _REVERSE, _ALARM = "1", "2", "7", "1;31"
_STATUS: dict[Status, str] = {
    "ok": "32",
    "alone": "2",
    "refused": "33",
    "missing": "33",
    "differs": "1;31",
    "misread": "1;31",
}

_POLL_SECONDS = 0.2
"""The time between two looks at a watched file."""

_AROUND = 2
"""The number of lines shown before and after the line of a key."""

_NAMED = 3
"""Most conversations that are named beside a difference."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What a file is checked with."""

    file: str
    vocab: Vocab | None
    template: Codec | Template | None
    golden: list[GoldenCase]
    variant: str | None


def check(args: Namespace) -> bool:
    """Check a format file; return whether all is right. Raises `UsageError`."""
    check_files([args.file])
    given = _load(args)
    if args.watch:
        return _watch(args, given)
    return _once(args, given)


def _load(args: Namespace) -> _Given:
    """Load the model or vocabulary, and the golden cases."""
    try:
        golden = [] if args.golden is None else read_golden(args.golden)
    except OSError as error:
        raise UsageError(f"{args.golden}: {(error.strerror or str(error)).lower()}") from error
    except ChatCodecError as error:
        raise UsageError(str(error)) from error
    model = args.model if is_template(Path(args.model or "")) else model_of(args)
    if model is not None and args.vocab is None and is_template(Path(model)):
        check_files([model])
        with usage_errors():
            return _Given(args.file, None, Template.load(model), golden, args.variant)
    if model is not None:
        with warnings.catch_warnings():
            # What reads the model's calls is the file that is checked.
            warnings.simplefilter("ignore")
            template = load_template_codec(args, model)
        return _Given(args.file, template.vocab, template, golden, args.variant)
    if args.vocab is None:
        return _Given(args.file, None, None, golden, args.variant)
    with usage_errors():
        vocab = Vocab.embedded() if args.vocab == EMBEDDED else Vocab.load(args.vocab)
    return _Given(args.file, vocab, None, golden, args.variant)


def _once(args: Namespace, given: _Given) -> bool:
    try:
        report = check_file(
            given.file, given.vocab, given.template, given.golden, variant=given.variant
        )
    except OSError as error:
        raise UsageError(f"{given.file}: {(error.strerror or str(error)).lower()}") from error
    if args.json:
        sys.stdout.write(safe_json(report.to_json()) + "\n")
    else:
        text = Path(given.file).read_text(encoding="utf-8", errors="replace")
        color = wants_color(args.color, sys.stdout, os.environ)
        look = Look(color=color, ids=False, columns=shutil.get_terminal_size((100, 24)).columns)
        sys.stdout.writelines(f"{line}\n" for line in _lines(report, given.file, text, look))
    return report.is_fine


def _watch(args: Namespace, given: _Given) -> bool:
    """Check whenever the file changes, until Ctrl+C; a file that is gone is waited for."""
    seen: tuple[int, int] | None = None
    while True:
        state = _state(given.file)
        if state is not None and state != seen:
            if seen is not None and not args.json:
                sys.stdout.write(f"\n── {time.strftime('%H:%M:%S')} ──\n")
            seen = state
            try:
                _once(args, given)
            except UsageError as error:
                sys.stderr.write(f"chatcodec: {one_line(str(error))}\n")
            sys.stdout.flush()
        time.sleep(_POLL_SECONDS)


def _state(path: str) -> tuple[int, int] | None:
    """Return the time of a file's last change and its size; None for no file."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _lines(report: Report, path: str, text: str, look: Look) -> Iterator[str]:
    """Return the lines that show a report."""
    if report.refusal is not None:
        yield from _refused(report.refusal, path, text, look)
        return
    names = max(len(result.scenario) for result in report.results)
    for result in report.results:
        status = look.paint(_STATUS[result.status], f"{result.status:<8}")
        keys = " or ".join(result.difference.keys) if result.difference else ""
        name = f"{one_line(result.scenario):<{names}}"
        yield f"{status} {name}  {one_line(result.why or keys)}".rstrip()
    different = [result for result in report.results if result.difference is not None]
    variant = report.format.partition(":")[2] or None
    for _, group in _grouped(different):
        yield ""
        yield from _differs(group, text, look, variant)
    yield ""
    yield _summary(report, path, look)


def _grouped(results: Sequence[Result]) -> Iterator[tuple[object, list[Result]]]:
    """Group results with the same difference, in the order of the first of each."""
    groups: dict[object, list[Result]] = {}
    for result in results:
        difference = result.difference
        same = difference and (difference.keys, difference.hint, difference.template[:1])
        groups.setdefault(same, []).append(result)
    yield from groups.items()


def _summary(report: Report, path: str, look: Look) -> str:
    found = report.counts
    counts = ", ".join(f"{found[status]} {status}" for status in _STATUS if found[status])
    how = "compared with the chat template" if report.compared else "checked by itself"
    verdict = look.paint(_BOLD if report.is_fine else _ALARM, "fine" if report.is_fine else "wrong")
    return f"{one_line(path)}: {verdict}, format `{one_line(report.format)}` {how}: {counts}"


def _differs(
    results: Sequence[Result], text: str, look: Look, variant: str | None
) -> Iterator[str]:
    """Show the difference of the first of some conversations."""
    difference = results[0].difference
    if difference is None:
        return
    named = " · ".join(result.scenario for result in results[:_NAMED])
    more = f" and {len(results) - _NAMED} more" if len(results) > _NAMED else ""
    yield look.paint(_BOLD, f"── {named}{more} ──")
    yield f"   where     {difference.place}"
    if difference.keys:
        keys = (f"`{key}`{_at_line(text, key, variant)}" for key in difference.keys)
        yield f"   key       {' or '.join(keys)}"
    if difference.hint:
        yield f"   note      {difference.hint}"
    columns = max(look.columns - len("   template  "), 20)
    yield f"   both      {_shown(difference.before, look, columns, from_end=True)}"
    yield f"   template  {_shown(difference.template, look, columns)}"
    yield f"   file      {_shown(difference.file, look, columns)}"


def _at_line(text: str, key: str, variant: str | None) -> str:
    line = line_of(text, key, variant)
    return "" if line is None else f" (line {line})"


def _shown(tokens: Sequence[Token], look: Look, columns: int, *, from_end: bool = False) -> str:
    """Show tokens in one line: control tokens in brackets, and what cannot be seen as signs."""
    if not tokens:
        return look.paint(_DIM, "nothing")
    parts = [
        (_REVERSE, f"⟦{token.text}⟧")
        if token.is_control
        else ("", "".join(map(picture, token.text)))
        for token in tokens
    ]
    fitting: list[str] = []
    for style, part in reversed(parts) if from_end else parts:
        room = columns - 1
        cut = part if width(part) <= room else f"…{part[-room:]}" if from_end else f"{part[:room]}…"
        fitting.append(look.paint(style, cut))
        columns -= width(cut)
        if columns <= 1:
            break
    return "".join(reversed(fitting) if from_end else fitting)


def _refused(refusal: Refusal, path: str, text: str, look: Look) -> Iterator[str]:
    """Show why a file is refused, with the lines around the key."""
    yield f"{one_line(path)}: {look.paint(_ALARM, 'refused')}"
    yield one_line(refusal.problem.removeprefix(f"format `{path}`: "))
    if refusal.line is not None:
        yield from _around(refusal.line, text, look)
    if refusal.witness is not None:
        yield from _misread(refusal.witness, look)


def _misread(witness: Misreading, look: Look) -> Iterator[str]:
    """Show a conversation that a file would read as another one."""
    columns = max(look.columns - len("   instead   "), 20)
    yield ""
    yield look.paint(_BOLD, "── a conversation that would be read wrongly ──")
    # The messages before the first that differs are read rightly, and are left out.
    pairs = zip(witness.expected, witness.read, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    text = "".join(map(picture, witness.text))
    if same and width(text) > columns:
        text = f"…{text[-columns + 1 :]}"
    yield f"   text      {_cut(text, columns)}"
    for name, messages in (("meant", witness.expected), ("read", witness.read)):
        place = f"messages[{same}:] is " if same else ""
        shown = json.dumps(messages[same:], ensure_ascii=False)
        yield f"   {name:<9} {_cut(place + shown, columns)}"
    for notice in witness.notices[:_NAMED]:
        yield f"   notice    {_cut(notice, columns)}"


def _around(line_number: int, text: str, look: Look) -> Iterator[str]:
    """Show the lines around one that holds a key."""
    lines = text.splitlines()
    first = max(line_number - _AROUND, 1)
    shown = itertools.islice(enumerate(lines, 1), first - 1, line_number + _AROUND)
    digits = len(str(line_number + _AROUND))
    yield ""
    for number, line in shown:
        is_it = number == line_number
        row = (
            f"{'>' if is_it else ' '} {number:>{digits}} │ {_cut(line, look.columns - digits - 5)}"
        )
        yield look.paint(_ALARM if is_it else _DIM, row)


def _cut(line: str, columns: int) -> str:
    text = "".join(map(picture, line))
    return text if width(text) <= columns else f"{text[: max(columns - 1, 1)]}…"
