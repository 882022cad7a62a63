"""`chatcodec derive`: who reads a model's completions, and whether it reads them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec.cli.loading import (
    MODEL,
    UsageError,
    is_template,
    load_codec,
    load_template_codec,
    usage_errors,
)
from chatcodec.cli.show import Look
from chatcodec.cli.terminal import one_line, picture, safe_json, wants_color
from chatcodec.derive import derive as derived_file
from chatcodec.errors import ChatCodecError
from chatcodec.proof import prove
from chatcodec.proof.found import find
from chatcodec.response import export_response

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from chatcodec import Codec
    from chatcodec.proof import Misread, PartProof, Proof
    from chatcodec.proof.found import Found

__all__ = ["derive"]

# SGR parameters, of the sixteen colours that follow a terminal's theme.
_BOLD, _DIM, _REVERSE, _GOOD, _ALARM = "1", "2", "7", "32", "1;31"

_ROWS = 24
"""Most rows of a text that is shown."""


def derive(args: Namespace) -> bool:
    """Show what is found and proved; return whether all is read back. Raises `UsageError`."""
    name = args.named or args.model
    with warnings.catch_warnings():
        # Calls that nobody reads are shown.
        warnings.simplefilter("ignore")
        is_file = name is not None and is_template(Path(name))
        codec = load_template_codec(args, name) if is_file else load_codec(args)
    named = name or os.environ.get(MODEL) or codec.format.name
    try:
        file = None if args.output is None else derived_file(codec, named)
        proof = prove(codec, count=args.count, seed=args.seed)
        spec = None if args.response_template is None else export_response(codec, proof)
    except ChatCodecError as error:
        raise UsageError(str(error)) from error
    except ValueError as error:
        raise UsageError(f"--{error}") from error
    found = find(codec)
    if args.json:
        record = {"model": named, "found": asdict(found), "proof": json.loads(proof.to_json())}
        sys.stdout.write(safe_json(json.dumps(record, ensure_ascii=False)) + "\n")
    else:
        color = wants_color(args.color, sys.stdout, os.environ)
        look = Look(color=color, ids=False, columns=shutil.get_terminal_size((100, 24)).columns)
        shown = _Shown(codec, look)
        sys.stdout.writelines(f"{line}\n" for line in shown.lines(named, found, proof))
    _write(args, file, spec)
    return proof.is_fine


def _write(args: Namespace, file: str | None, spec: dict[str, Any] | None) -> None:
    with usage_errors():
        if file is not None:
            Path(args.output).write_text(file, encoding="utf-8")
        if spec is not None:
            text = json.dumps(spec, ensure_ascii=False, indent=2)
            Path(args.response_template).write_text(text + "\n", encoding="utf-8")


class _Shown:
    """The report as lines for a terminal."""

    def __init__(self, codec: Codec, look: Look) -> None:
        self.look = look
        spellings = sorted((one for one in codec.vocab.control if one), key=len, reverse=True)
        self.control = re.compile("|".join(map(re.escape, spellings)) or "(?!)")

    def lines(self, model: str, found: Found, proof: Proof) -> Iterator[str]:
        yield self.look.paint(_BOLD, one_line(model))
        for line in found.described:
            yield from textwrap.wrap(
                one_line(line),
                max(self.look.columns, 40),
                initial_indent="  ",
                subsequent_indent="    ",
                break_on_hyphens=False,
            )
        stops = ", ".join(f"{stop.id} {self._visible(stop.text)}" for stop in found.stops)
        yield f"  reader     {found.reader}" + (f" `{found.syntax}`" if found.syntax else "")
        yield f"  guarantee  {found.guarantee or 'none'}"
        yield f"  stops at   {stops}"
        yield f"  prompt     {self._visible(found.generation_prompt) or 'nothing'}"
        if found.unread:
            yield f"  unread     {', '.join(found.unread)}"
        yield ""
        yield self.look.paint(_BOLD, f"{proof.count:,} random conversations, seed {proof.seed}")
        width = max(len(part.part) for part in proof.parts)
        for part in proof.parts:
            yield f"  {part.part:<{width}}  {self._result(part)}"
        for part in proof.parts:
            if part.example:
                yield from self._titled(part.part, part.example)
        for part in proof.parts:
            if part.misread is not None:
                yield from self._misread(part, part.misread)

    def _result(self, part: PartProof) -> str:
        _, _, result = str(part).partition(": ")
        color = _DIM if not part.written else _GOOD if part.is_fine else _ALARM
        rest = f", which writes it in {part.written} of {part.tried}"
        is_partly = 0 < part.written < part.tried
        return self.look.paint(color, result) + (rest if is_partly else "")

    def _titled(self, title: str, text: str) -> Iterator[str]:
        yield ""
        yield self.look.paint(_BOLD, f"── {title} ──")
        rows = text.splitlines(keepends=True)
        for row in rows[:_ROWS]:
            yield f"  {self._visible(row)}"
        if len(rows) > _ROWS:
            yield self.look.paint(_DIM, f"  … {len(rows) - _ROWS} more lines")

    def _misread(self, part: PartProof, found: Misread) -> Iterator[str]:
        yield from self._titled(f"not read back: {part}", found.text)
        how = {"parse": "a completion", "stream": "a stream in chunks", "decode": "decoded ids"}
        yield f"  {how[found.way]}: {one_line(found.first)}"
        yield f"  written  {_json(found.expected)}"
        yield f"  read     {_json(found.read)}"
        yield f"  given    {_json(found.conversation)}"

    def _visible(self, text: str) -> str:
        """A text with its control tokens in brackets, and signs for what cannot be seen."""
        parts, at = list[str](), 0
        for found in self.control.finditer(text):
            parts.append("".join(map(picture, text[at : found.start()])))
            parts.append(self.look.paint(_REVERSE, f"⟦{one_line(found[0])}⟧"))
            at = found.end()
        return "".join((*parts, *map(picture, text[at:])))


def _json(value: object) -> str:
    return safe_json(json.dumps(value, ensure_ascii=False))
