"""Writes the tables of formats, prefixes, keys, commands and metrics into docs/generated.

`python scripts/tables.py` writes them, `--check` fails where they are not up to date. The table of
chat templates is written where these are, in `../shared/templates`.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cli_tables
import format_keys
from chatcodec import Codec, Format, MessageError, Template, Vocab, formats
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


TEMPLATES = ROOT.parent / "shared" / "templates"
MODELS = {
    "Apriel 1.6 15B Thinker": "Apriel-1.6-15b-Thinker-fixed",
    "DeepSeek R1 Distill Qwen 32B": "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "DeepSeek V2": "otc-deepseek-v2",
    "DeepSeek V3, as vLLM has it": "examples_tool_chat_template_deepseekv3",
    "DeepSeek V3.2": "deepseek-ai-DeepSeek-V3.2",
    "DeepSeek V4": "deepseek-ai-DeepSeek-V4",
    "Gemma 4 31B": "google-gemma-4-31B-it-interleaved",
    "Granite 20B, as vLLM has it": "examples_tool_chat_template_granite_20b_fc",
    "Jamba": "jamba",
    "Laguna S 2.1": "poolside-Laguna-S-2.1",
    "Laguna XS.2": "poolside-Laguna-XS.2",
    "Llama 4, as vLLM has it": "examples_tool_chat_template_llama4_json",
    "MiniCPM-V 4.5, as vLLM has it": "vllm_transformers_utils_template_minicpmv45",
    "MiniCPM5 1B": "openbmb-MiniCPM5-1B",
    "MiniMax M2": "MiniMax-M2",
    "Mistral 3, as vLLM has it": "examples_tool_chat_template_mistral3",
    "Nemotron 3 Nano": "trl_nemotron_3_nano",
    "Qwen3": "qwen3",
    "QwQ 32B": "Qwen-QwQ-32B",
    "Reka Edge": "Reka-Edge",
}
"""Models, with the files of their chat templates."""
SPELLED = re.compile("<([|\uff5c])[^|<>\\s'\"{}]{1,40}\\1>|</?[a-z_]{2,30}>|\\[/?[A-Z_]{2,24}\\]")
"""What is a control token where a template spells it."""


def templates_table() -> str:
    """Models whose templates write earlier turns otherwise, as `audit --prefix` finds it."""
    rows = []
    for model, name in MODELS.items():
        source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
        embedded = Vocab.load(EMBEDDED)
        spelled = [
            one
            for one in dict.fromkeys(found[0] for found in SPELLED.finditer(source))
            if one != "</s>"
        ]
        tokens = {one: embedded.size + nth for nth, one in enumerate(spelled) if one != "<s>"}
        template = Template(source, bos_token="<s>", eos_token="</s>")  # noqa: S106 (no password)
        found = audit_prefix(Codec(template, Vocab.load(EMBEDDED, special_tokens=tokens)))
        at = (str(found.lost_at(place) or "") for place in PLACES)
        parts = ["reasoning"] * found.has_reasoning + ["a call"] * found.has_calls
        share = f"{found.lost / found.seen:.0%}"
        rows.append((model, ", ".join(parts) or "text", *at, str(found.seen), share))
    return table(("model", "samples with", *PLACES.values(), "of", "lost"), rows)


def updated(text: str, name: str, content: str) -> str:
    """The text with a table between its marks."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def main() -> int:
    """Writes or checks; the exit code."""
    stale = []
    page = GENERATED / "prefixes.md"
    templates = [(page, "templates", templates_table())] if TEMPLATES.is_dir() else []
    for path, name, content in [
        (GENERATED / "all-formats.md", "formats", formats_table()),
        (GENERATED / "losses.md", "losses", losses_table()),
        (page, "prefix", prefix_table()),
        *templates,
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
