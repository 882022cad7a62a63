"""A chat template run by chatcodec, beside the libraries that run it: `make bench-templates`.

Messages of 2 KB in all, in Qwen3's vocabulary, with its published template. Each number is the
median of rounds in which all take turns. With `--write`, the figures go into docs/templates.md.
"""

# Libraries take any value.
# ruff: noqa: ANN401
from __future__ import annotations

import gc
import importlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec import Codec, Template, Vocab

from . import figures, machine, texts
from .forgeries import MODELS, folder_of
from .paths import DATA, ROOT, write_between

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = list[dict[str, Any]]

ROUNDS = 15
CONVERSATIONS = 40
MESSAGES = 10
BYTES = 2048
LONG = 100
"""How many times as many messages a long conversation has."""
PAGE = ROOT / "docs" / "templates.md"
READ = {
    "name": "read_file",
    "description": "Lines of a file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["path"],
    },
}
TOOLS = [{"type": "function", "function": READ}]


def conversations(count: int) -> list[Messages]:
    """Conversations with texts that none of the others has."""
    size = BYTES // MESSAGES
    text = texts.corpus("chat")
    step = len(text) // (count * MESSAGES + 1)
    parts = [texts.cut(text[at * step : at * step + size], size) for at in range(count * MESSAGES)]
    roles = ["user", "assistant"] * (MESSAGES // 2)
    return [
        [
            {"role": role, "content": parts[nth * MESSAGES + at]}
            for at, role in enumerate(roles[:-1])
        ]
        for nth in range(count)
    ]


def agents(count: int) -> list[Messages]:
    """Conversations in which an agent calls a tool, each with arguments of its own."""
    size = BYTES // MESSAGES
    text = texts.corpus("chat")
    step = len(text) // (count * MESSAGES + 1)
    parts = [texts.cut(text[at * step : at * step + size], size) for at in range(count * MESSAGES)]

    def called(path: str, lines: int) -> dict[str, Any]:
        return {
            "type": "function",
            "function": {"name": "read_file", "arguments": {"path": path, "lines": lines}},
        }

    made: list[Messages] = []
    for nth in range(count):
        own = parts[nth * MESSAGES : (nth + 1) * MESSAGES]
        messages: Messages = [
            {"role": "system", "content": own[0]},
            {"role": "user", "content": own[1]},
        ]
        for at in range(2, MESSAGES - 1, 2):
            call = called(f"/src/{nth}/{at}.py", 100 * nth + at)
            messages += [
                {"role": "assistant", "content": own[at], "tool_calls": [call]},
                {"role": "tool", "content": own[at + 1]},
            ]
        made.append(messages)
    return made


def medians(contenders: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    """The median time of each; a call gets the number of its round."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for each in contenders.values():
        each(0)
    gc.disable()
    for round_ in range(1, ROUNDS + 1):
        # Who comes first finds the caches of the one before.
        first, names = round_ % len(contenders), list(contenders)
        for name in names[first:] + names[:first]:
            each = contenders[name]
            begun = time.perf_counter()
            each(round_)
            taken[name].append(time.perf_counter() - begun)
    gc.enable()
    return {name: statistics.median(times) for name, times in taken.items()}


def report(title: str, found: dict[str, float], count: int) -> None:
    """Print times of one call, and ratios to the first contender."""
    first = next(iter(found.values()))
    sys.stdout.write(f"{title}\n")
    for name, seconds in found.items():
        micro = 1e6 * seconds / count
        sys.stdout.write(f"  {name:<44}{micro:>10.1f} µs{seconds / first:>8.2f}\n")


def main() -> None:
    """Measure and print."""
    if not DATA.is_dir():
        sys.exit(f"no test data in {DATA}")
    with tempfile.TemporaryDirectory() as folder:
        path = folder_of(next(model for model in MODELS if model.name == "Qwen3"), Path(folder))
        measure(path)


def measure(path: Path) -> None:
    """All tables, for the model of a folder."""
    transformers = importlib.import_module("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(path)
    source = json.loads((path / "tokenizer_config.json").read_text("utf-8"))["chat_template"]
    template = Template(source)
    vocab = Vocab.load(path)
    ours = Codec(template, vocab, reader="qwen3")
    # With a vocabulary of its own: two codecs of one vocabulary share what it remembers of texts.
    table = Codec("qwen3", Vocab.load(path))

    def apply(messages: Messages, **options: Any) -> Any:
        return theirs.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False, **options
        )

    count = CONVERSATIONS * (ROUNDS + 1)
    chats, calling = conversations(count), agents(count)
    assert all(ours.encode(one).ids.tolist() == apply(one) for one in chats[:20])
    assert all(
        ours.encode(one, tools=TOOLS).ids.tolist() == apply(one, tools=TOOLS)
        for one in calling[:20]
    )

    def each_of(every: list[Messages], encode: Callable[..., Any], **options: Any) -> Any:
        def run(round_: int) -> None:
            for one in every[round_ * CONVERSATIONS : (round_ + 1) * CONVERSATIONS]:
                encode(one, **options)

        return run

    def known(encode: Callable[..., Any]) -> Any:
        def run(_: int) -> None:
            for _ in range(CONVERSATIONS):
                encode(chats[0])

        return run

    ways: dict[str, Callable[..., Any]] = {
        "chatcodec, the template": lambda messages, **options: ours.encode(messages, **options).ids,
        "chatcodec, the built-in format": (
            lambda messages, **options: table.encode(messages, **options).ids
        ),
        "transformers, apply_chat_template": apply,
    }
    lines: list[list[str]] = []
    for title, kind in (
        ("a chat, new texts", lambda way: each_of(chats, way)),
        ("the same chat again", known),
        ("an agent's calls, new each time", lambda way: each_of(calling, way, tools=TOOLS)),
    ):
        found = medians({name: kind(way) for name, way in ways.items()})
        report(title, found, CONVERSATIONS)
        seconds = [each / CONVERSATIONS for each in found.values()]
        ratios = [seconds[0] / seconds[1], seconds[2] / seconds[0]]
        lines.append(
            [
                title,
                *(figures.figure(each, "call") for each in seconds),
                *map(figures.times, ratios),
            ]
        )
    heads = ["", "the template", "the format", "transformers", "template / format"]
    rows = figures.table([*heads, "transformers / template"], lines)
    if "--write" in sys.argv:
        about = machine.describe()
        note = f"On {about['CPU']}, {about['memory']}, Python {about['Python']}."
        write_between(PAGE, "speed", f"{rows}\n\n{note}")

    measure_rendering(source, chats[0])


def measure_rendering(source: str, messages: Messages) -> None:
    """Tables of the template alone."""
    template = Template(source)

    def known(render: Callable[[Messages], Any]) -> Callable[[int], None]:
        def run(_: int) -> None:
            for _ in range(CONVERSATIONS):
                render(messages)

        return run

    environment = importlib.import_module("transformers.utils.chat_template_utils")
    jinja = environment._compile_jinja_template(source)  # noqa: SLF001
    renders: dict[str, Callable[[Messages], Any]] = {
        "chatcodec": lambda messages: template.render(messages, add_generation_prompt=True),
        "jinja2": lambda messages: jinja.render(messages=messages, add_generation_prompt=True),
    }
    compiles: dict[str, Callable[[int], Any]] = {"chatcodec": lambda _: Template(source)}
    try:
        minijinja = importlib.import_module("minijinja")
    except ImportError:
        sys.stdout.write("minijinja is not installed: `make bench-templates` installs it\n")
    else:
        made = minijinja.Environment(
            templates={"chat": source}, trim_blocks=True, lstrip_blocks=True
        )
        made.pycompat = True
        renders["minijinja"] = lambda messages: made.render_template(
            "chat", messages=messages, add_generation_prompt=True
        )
        compiles["minijinja"] = lambda _: minijinja.Environment(templates={"chat": source})
    rendered = [str(getattr(way(messages), "text", way(messages))) for way in renders.values()]
    assert len(set(rendered)) == 1
    report(
        "rendering alone",
        medians({name: known(way) for name, way in renders.items()}),
        CONVERSATIONS,
    )
    report("compiling the template", medians(compiles), 1)
    long = [message for _ in range(LONG) for message in messages[:-1]] + messages[-1:]
    lengths: dict[str, Callable[[int], Any]] = {
        "ten messages": lambda _: template.render(messages),
        f"{LONG} times as many": lambda _: template.render(long),
    }
    report("a long conversation", medians(lengths), 1)


if __name__ == "__main__":
    main()
