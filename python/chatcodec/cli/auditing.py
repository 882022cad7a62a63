"""`chatcodec audit`: of a codec, or of a running server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec.audit_cases import junit, sarif
from chatcodec.cli.loading import (
    UsageError,
    load_codec,
    load_sanitizing,
    model_of,
    usage_errors,
)
from chatcodec.cli.terminal import one_line, safe_json
from chatcodec.prefix import audit_prefix

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from chatcodec import Codec
    from chatcodec.audit_cases import Case

__all__ = ["audit"]

_OWNER = "try servers of others only if their owner agrees"


def audit(args: Namespace) -> bool:
    """Show what a caller can forge; return whether nothing is. Raises `UsageError`."""
    if args.server is None:
        for option in ("attacks", "fail_on"):
            if getattr(args, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')}: needs `--server` too")
    elif args.html:
        raise UsageError("`--html` has no page of a server; leave it out, or use `--json`")
    if args.prefix:
        return _of_prefixes(args)
    codec = load_codec(args)
    return _of_codec(args, codec) if args.server is None else _of_server(args, codec)


def _of_codec(args: Namespace, codec: Codec) -> bool:
    model = None if args.no_transformers else model_of(args)
    report = codec.audit(None if model is None else load_sanitizing(model))
    if args.html:
        sys.stdout.write(report.to_html())
    else:
        sys.stdout.write(report.to_json() + "\n" if args.json else report.table())
    _write(args, report.model, report.cases())
    return report.forged == 0


def _of_prefixes(args: Namespace) -> bool:
    for option in ("server", "html", "junit", "sarif"):
        if getattr(args, option):
            raise UsageError(f"`--prefix` is of a codec, and has no `--{option}`")
    with usage_errors():
        found = audit_prefix(load_codec(args))
    sys.stdout.write(found.to_json() + "\n" if args.json else found.table())
    return found.lost == 0


def _of_server(args: Namespace, codec: Codec) -> bool:
    # The modules of a client of HTTP take longer to import than most commands run.
    from chatcodec.audit_server import audit_server, read_attacks  # noqa: PLC0415

    with usage_errors():
        attacks = [] if args.attacks is None else read_attacks(args.attacks)
        sys.stderr.write(f"{one_line(args.server)}: {_OWNER}\n")
        found = audit_server(codec, args.server, attacks)
    if args.json:
        sys.stdout.write(safe_json(found.to_json()) + "\n")
    else:
        sys.stdout.writelines(f"{one_line(line)}\n" for line in found.table().splitlines())
    _write(args, found.server, found.cases())
    return not found.is_forged if args.fail_on == "forged" else found.is_kept


def _write(args: Namespace, subject: str, cases: Sequence[Case]) -> None:
    """Write the files for tools that read test results."""
    with usage_errors():
        for path, written in ((args.junit, junit), (args.sarif, sarif)):
            if path is not None:
                Path(path).write_text(written(subject, cases), encoding="utf-8")
