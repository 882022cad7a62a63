"""Writes the tables of formats, keys, commands and metrics into docs/generated and docs/agents.md.

`python scripts/tables.py` writes them, `--check` fails where they are not up to date.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cli_tables
import format_keys
from chatcodec import Codec, Format, MessageError, Vocab, formats
from chatcodec.prefix import audit_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.prefix import Place

ROOT = Path(__file__).parent.parent
GENERATED = ROOT / "docs" / "generated"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""

    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def golden(name: str) -> dict[str, Any]:
    """A format's golden cases."""
    path = ROOT / "tests" / "golden" / f"{name.replace(':', '-')}.json"
    cases: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return cases


def file_of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a format's file says, and what of it a variant says by itself."""
    base, _, variant = name.partition(":")
    path = ROOT / "rust" / "core" / "formats" / f"{base}.toml"
    file = tomllib.loads(path.read_text(encoding="utf-8"))
    return file, file.get("variant", {}).get(variant, {})


def shown(name: str) -> set[str]:
    """What a format parses and renders beside text, as its golden cases show."""
    cases = golden(name)
    messages = [message for case in cases["encode"] for message in case["messages"]]
    events = [event["event"] for case in cases["stream"] for event in case["events"]]
    found = set()
    if "Reasoning" in events or any("reasoning" in message for message in messages):
        found.add("reasoning")
    if "ActionStart" in events or any("tool_calls" in message for message in messages):
        found.add("calls")
    if any(message["role"] in {"tool", "environment", "observation"} for message in messages):
        found.add("results")
    if any("tools" in case for case in cases["encode"]):
        found.add("tools")
    return found


def parts(name: str) -> str:
    """What a format parses and renders; a variant also what it has from its format's file."""
    file, own = file_of(name)
    found = shown(name)
    if own and own.get("call", file.get("call")):
        found |= shown(name.partition(":")[0])
    if {**file["turn"], **own.get("turn", {})}.get("tools"):
        found.add("tools")
    return ", ".join(["text", *(part for part in PARTS if part in found)])


def codec_of(name: str) -> Codec:
    """A codec of a format on the embedded vocabulary, with the control tokens that it lacks."""
    file, own = file_of(name)
    control = {**file.get("control", {}), **own.get("control", {})}
    named = [[value] if isinstance(value, str) else value or [] for value in control.values()]
    embedded = Vocab.load(EMBEDDED)
    lacking = [spelling for spellings in named for spelling in spellings[:1]]
    lacking = [spelling for spelling in lacking if spelling not in embedded.control]
    if "append_at" in file:
        lacking = []  # The codec appends them.
    tokens = {spelling: embedded.size + nth for nth, spelling in enumerate(lacking)}
    vocab = Vocab.load(EMBEDDED, special_tokens=tokens)
    return Codec(name, vocab, check_template=False)


def constrained(name: str) -> str:
    """What a format constrains, and the backends that can say it."""
    codec = codec_of(name)
    tools = [{"type": "function", "function": {"name": "f"}}]
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    asked: dict[str, dict[str, Any]] = {
        "calls": {"tools": tools, "tool_choice": "required"},
        "JSON": {"response_format": {"type": "json_schema", "schema": schema}},
    }
    found, backends = [], set(BACKENDS)
    for part, options in asked.items():
        try:
            constraint = codec.constrain(**options)
        except MessageError:
            continue
        found.append(part)
        for backend, method in BACKENDS.items():
            try:
                getattr(constraint, method)()
            except MessageError:
                backends.discard(backend)
    return f"{', '.join(found)}: {', '.join(name for name in BACKENDS if name in backends)}"


BACKENDS = {"llguidance": "lark", "xgrammar": "structural_tag", "llama.cpp": "gbnf"}
EMBEDDED = ROOT / "rust" / "vocab" / "src" / "vocab" / "embedded.model"
PARTS = ("reasoning", "calls", "results", "tools")


def formats_table() -> str:
    """Name, guarantee, what is parsed and rendered, vocabularies and source of every format."""
    rows = []
    for name in formats():
        known = Format.built_in(name)
        is_spelled = golden(name)["vocabs"] == ["appended"]
        checked = "spellings" if is_spelled else "ids"
        written = (known.guarantee, parts(name), checked, constrained(name))
        rows.append((f"`{name}`", *written, known.vocabulary, known.source))
    head = (
        "format",
        "guarantee",
        "parse and render",
        "checked",
        "constrain",
        "vocabulary",
        "source",
    )
    return table(head, rows)


def losses_table() -> str:
    """What each built-in format loses beside what all of them do."""
    losses = {name: Format.built_in(name).losses for name in formats()}
    shared = set.intersection(*map(set, losses.values()))
    rows = [("all", loss) for loss in losses[formats()[0]] if loss in shared]
    by_loss: dict[str, list[str]] = {}
    for name, of_format in losses.items():
        for loss in of_format:
            if loss not in shared:
                by_loss.setdefault(loss, []).append(f"`{name}`")
    rows += [(", ".join(names), loss) for loss, names in by_loss.items()]
    return table(("format", "what a round trip loses"), rows)


PLACES: dict[Place, str] = {
    "prompt to answer": "prompt → answer",
    "call to result": "call → result",
    "answered turn to next user": "answered turn → next user",
    "next user to answer": "next user → answer",
}


def prefix_table() -> str:
    """The formats whose longer conversations do not begin with the ids of the shorter ones."""
    rows = []
    for name in formats():
        found = audit_prefix(codec_of(name))
        if found.lost:
            at = (str(found.lost_at(place) or "") for place in PLACES)
            parts = ["reasoning"] * found.has_reasoning + ["a call"] * found.has_calls
            rows.append((f"`{name}`", ", ".join(parts) or "text", *at, str(found.seen)))
    return table(("format", "samples with", *PLACES.values(), "of"), rows)


def updated(text: str, name: str, content: str) -> str:
    """The text with a table between its marks."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def main() -> int:
    """Writes or checks; the exit code."""
    stale = []
    for path, name, content in [
        (GENERATED / "all-formats.md", "formats", formats_table()),
        (GENERATED / "losses.md", "losses", losses_table()),
        (ROOT / "docs" / "agents.md", "prefix", prefix_table()),
        (GENERATED / "format-keys.md", "keys", format_keys.table()),
        (GENERATED / "commands.md", "commands", cli_tables.commands()),
        (GENERATED / "metrics.md", "metrics", cli_tables.metrics()),
    ]:
        text = path.read_text(encoding="utf-8")
        new = updated(text, name, content)
        if new != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.stderr.write(f"not up to date: {', '.join(stale)}; run scripts/tables.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
