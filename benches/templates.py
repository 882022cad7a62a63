"""A chat template run by chatcodec, beside the libraries that run it: `make bench-templates`.

Ten messages of 2 KB in all, in Qwen3's vocabulary, with its published template. Each number is the
median of rounds in which all take turns, as a ratio to chatcodec's.
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

from . import texts
from .forgeries import MODELS, folder_of
from .paths import DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = list[dict[str, str]]

ROUNDS = 15
CONVERSATIONS = 40
MESSAGES = 10
BYTES = 2048
LONG = 100
"""How many times as many messages a long conversation has."""


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


def medians(contenders: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    """The median time of each; a call gets the number of its round."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for each in contenders.values():
        each(0)
    gc.disable()
    for round_ in range(1, ROUNDS + 1):
        for name, each in contenders.items():
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
    table = Codec("qwen3", vocab)

    def apply(messages: Messages) -> Any:
        return theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)

    every = conversations(CONVERSATIONS * (ROUNDS + 1))
    assert all(ours.encode(one).ids.tolist() == apply(one) for one in every[:20])

    def fresh(encode: Callable[[Messages], Any]) -> Callable[[int], None]:
        def run(round_: int) -> None:
            for one in every[round_ * CONVERSATIONS : (round_ + 1) * CONVERSATIONS]:
                encode(one)

        return run

    def known(encode: Callable[[Messages], Any]) -> Callable[[int], None]:
        def run(_: int) -> None:
            for _ in range(CONVERSATIONS):
                encode(every[0])

        return run

    ways: dict[str, Callable[[Messages], Any]] = {
        "chatcodec, the template": lambda messages: ours.encode(messages).ids,
        "chatcodec, the built-in format": lambda messages: table.encode(messages).ids,
        "transformers, apply_chat_template": apply,
    }
    for title, kind in (("ids of new texts", fresh), ("ids of the same texts", known)):
        report(title, medians({name: kind(way) for name, way in ways.items()}), CONVERSATIONS)

    measure_rendering(source, every[0])


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
