"""`chatcodec check`: the facts about a model, as text, JSON or a page."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec import Format
from chatcodec.cli.loading import UsageError, load_codec, named_by
from chatcodec.cli.show import Look
from chatcodec.cli.terminal import one_line, safe_json, wants_color
from chatcodec.doctor import Origin, diagnose, undiagnosed
from chatcodec.doctor.sections import sections
from chatcodec.errors import ChatCodecError
from chatcodec.pages import doctor_page
from chatcodec.reference import TokenizerError, load_tokenizer, transformers_version

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from chatcodec.doctor import Diagnosis
    from chatcodec.doctor.sections import Mark, Row

__all__ = ["doctor"]

# SGR parameters, of the sixteen colours that follow a terminal's theme.
_BOLD = "1"
_COLORS: dict[Mark, str] = {"": "", "good": "32", "wrong": "1;31", "code": ""}


def doctor(args: Namespace) -> bool:
    """Show the diagnosis of a model; return whether there is no problem. Raises `UsageError`."""
    diagnosis = _diagnosis(args)
    if args.json:
        sys.stdout.write(safe_json(diagnosis.to_json()) + "\n")
    elif args.html:
        sys.stdout.write(doctor_page(diagnosis.model, sections(diagnosis)))
    else:
        color = wants_color(args.color, sys.stdout, os.environ)
        look = Look(color=color, ids=False, columns=shutil.get_terminal_size((100, 24)).columns)
        sys.stdout.writelines(f"{line}\n" for line in _lines(diagnosis, look))
    return not diagnosis.problems


def _diagnosis(args: Namespace) -> Diagnosis:
    named = named_by(args)
    model = named.model
    try:
        with warnings.catch_warnings():
            # Calls that nobody reads are a problem of the diagnosis.
            warnings.simplefilter("ignore")
            codec = load_codec(args)
    except UsageError as error:
        if model is None or not Path(model).exists():
            raise
        return undiagnosed(Origin(model, Path(model)), f"{error}{_advice(model)}")
    if model is None:
        return diagnose(codec, Origin(named.name))
    tokenizer, why = (None, "") if args.no_transformers else _tokenizer(model)
    return diagnose(codec, Origin(model, _folder(model), named.format), tokenizer, why)


def _folder(model: str) -> Path:
    """Return the folder or the file of a model; of a name, the folder in the hub's cache."""
    if Path(model).exists():
        return Path(model)
    from chatcodec.hub import fetch  # noqa: PLC0415 (an extra)

    return fetch(model, revision=None, token=None, local_files_only=True)


def _tokenizer(model: str) -> tuple[Any, str]:
    """Load the tokenizer of transformers; or give None and the reason."""
    if Path(model).is_file():
        return None, "transformers loads folders"
    if not transformers_version():
        return None, "transformers is not installed"
    try:
        return load_tokenizer(model), ""
    except TokenizerError as error:
        return None, f"transformers does not load the tokenizer: {error}"


def _advice(model: str) -> str:
    """Name the built-in format of a model that may need one to be named."""
    try:
        known = Format.for_model(Path(model).resolve().name)
    except ChatCodecError:
        return "; `--format` takes a name of `chatcodec formats`"
    return f"; try `--format {known.name}`"


def _lines(diagnosis: Diagnosis, look: Look) -> Iterator[str]:
    count = len(diagnosis.problems)
    verdict = "fine" if not count else "1 problem" if count == 1 else f"{count} problems"
    color = _COLORS["wrong" if count else "good"]
    yield f"{look.paint(_BOLD, one_line(diagnosis.model))}: {look.paint(color, verdict)}"
    for section in sections(diagnosis):
        yield ""
        yield look.paint(_BOLD, one_line(section.title))
        width = max(len(row.name) for row in section.rows)
        for row in section.rows:
            yield from _row(row, width, look)


def _row(row: Row, width: int, look: Look) -> Iterator[str]:
    """Give the lines of a row; a line to copy is not wrapped."""
    indent = "  " + (f"{one_line(row.name):<{width}}  " if row.name else "")
    value = one_line(row.value)
    columns = max(look.columns, len(indent) + 40)
    lines = [value]
    if row.mark != "code":
        lines = textwrap.wrap(value, columns - len(indent), break_on_hyphens=False) or [""]
    for nth, line in enumerate(lines):
        before = indent if nth == 0 else " " * (len(indent) if row.name else 4)
        yield (before + look.paint(_COLORS[row.mark], line)).rstrip()
