"""The commands of the command line and the metrics of the gateway, as Markdown.

What goes in: the parsers of `chatcodec.cli` and the registry of `chatcodec.serve.metrics`. What
comes out: the generated parts of two files of docs/generated, which `tables.py` writes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from chatcodec.cli.arguments import build_parser
from chatcodec.cli.commands import COMMANDS
from chatcodec.serve.metrics import Metrics
from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

if TYPE_CHECKING:
    from collections.abc import Iterator


def escaped(text: str) -> str:
    """A text for a cell of a table: the placeholders of argparse are filled by the caller."""
    return " ".join(text.split()).replace("|", "\\|")


def parsers_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands of a parser, with the words that call each; those of commands after it."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its commands
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for child in action.choices.values():
                yield child.prog, child
                yield from parsers_of(child)


def value_of(action: argparse.Action) -> str:
    """The name of an option's value, or its words; empty without one."""
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    name = action.metavar or action.dest.upper()
    return " ".join(name) if isinstance(name, tuple) else name


def rows_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A row for each argument and option, without `--help`."""
    for action in parser._actions:  # noqa: SLF001
        hidden = action.help == argparse.SUPPRESS
        if hidden or isinstance(action, argparse._HelpAction | argparse._SubParsersAction):  # noqa: SLF001
            continue
        names = ", ".join(action.option_strings)
        called = f"{names} {value_of(action)}".strip() if names else value_of(action)
        values: dict[str, Any] = {**vars(action), "prog": parser.prog}
        described = escaped((action.help or "") % values)
        yield f"| `{escaped(called)}` | {described} |"


def commands() -> str:
    """A heading, the summary and the options of each command."""
    parts = []
    for prog, parser in parsers_of(build_parser(COMMANDS)):
        summary = (parser.description or "").partition("\n")[0]
        rows = list(rows_of(parser))
        parts.append(f"## `{prog}`\n\n{summary[:1].upper()}{summary[1:]}.")
        if rows:
            parts.append("\n".join(["| argument | meaning |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def metrics() -> str:
    """A row for each metric: its name as Prometheus has it, its kind, labels and meaning."""
    rows = []
    for metric in Metrics().registry._collector_to_names:  # noqa: SLF001 - it alone has labels
        if isinstance(metric, MetricWrapperBase):
            ends = "_total" if isinstance(metric, Counter) else ""
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)  # noqa: SLF001
            kind, meaning = metric._type, escaped(metric._documentation)  # noqa: SLF001
            rows.append(f"| `{metric._name}{ends}` | {kind} | {labels} | {meaning} |")  # noqa: SLF001
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *sorted(rows)])
