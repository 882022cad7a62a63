"""Where test data is: real vocabularies, corpora and documents, which are no part of the project.

They are looked for in `../shared`, seen from the project's root, or where `CHATCODEC_TEST_DATA`
points. What is not there is skipped, by name; what is there must be right.
"""

from __future__ import annotations

import functools
import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import models
import pytest
import references
from chatcodec import Codec, Format, Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")
U = TypeVar("U")

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("CHATCODEC_TEST_DATA", ROOT.parent / "shared"))
EMBEDDED_MODEL = ROOT / "rust" / "vocab" / "src" / "vocab" / "embedded.model"

LONG = os.environ.get("CHATCODEC_LONG") == "1"
"""Whether runs are long: whole corpora, every file of the standard library, many examples."""


def seed() -> int:
    """What chooses the samples of a short run: `CHATCODEC_SEEDS`, or always the same."""
    number = os.environ.get("CHATCODEC_SEEDS", "")
    return int(number) if number.isdecimal() else 0


def share(items: Iterable[T], of: int, first: int = 0) -> list[T]:
    """One of so many items, from the first on; all of them in a long run.

    For tests whose items are alike: what each format, template or file of a kind has to hold. Tests
    that walk the same way begin with different items, and runs with another seed begin with
    others: no item is left out for good. What a law of Rust proves of all, and what nightly runs
    walk through, needs no more each time.
    """
    every = [*items]
    of = 1 if LONG else max(1, min(of, len(every)))
    return every[(first + seed()) % of :: of]


def in_turn(items: Iterable[T], others: Sequence[U]) -> list[tuple[T, U]]:
    """Each item with one of the others, in turn; with each of them in a long run."""
    if LONG:
        return [(item, other) for item in items for other in others]
    begun = enumerate(items, start=seed())
    return [(item, others[nth % len(others)]) for nth, item in begun]


MODELS = {
    "internlm2": "vocab/internlm2/tokenizer.model",
    "llama2": "vocab/llama2/tokenizer.model",
    "mixtral-8x7b": "vocab/mixtral-8x7b/tokenizer.model.v1",
    "yi": "vocab/yi/tokenizer.model",
    "chatglm3": "vocab/chatglm3/tokenizer.model",
    "telechat": "vocab/telechat/tokenizer.model",
}
"""The real SentencePiece vocabularies."""

FILES = {
    **MODELS,
    "glm4": "vocab/glm4/tokenizer.model",
    "gpt-oss": "vocab/gpt-oss/o200k_base.tiktoken",
    "deepseek-llm": "vocab/deepseek-llm/deepseek-llm.gguf",
    "deepseek-v3": "vocab/deepseek-v3/deepseek.tiktoken",
    "deepseek-v3.2": "vocab/deepseek-v3.2/tokenizer.json",
    "kimi-k2": "vocab/kimi-k2/kimi_k2.tiktoken",
    "llama3": "vocab/llama3/tokenizer.model",
    "mistral": "vocab/mixtral-8x22b/tokenizer.model.v7",
    "mixtral-8x22b": "vocab/mixtral-8x22b/tokenizer.model.v3",
    "mixtral-8x22b-v2": "vocab/mixtral-8x22b/tokenizer.model.v2",
    "phi3": "vocab/phi3/phi-3/tokenizer.json",
    "phi3-medium": "vocab/phi3/phi-3-medium/tokenizer.json",
    "phi3-mini": "vocab/phi3/phi-3-mini/tokenizer.json",
    "phi3-vision": "vocab/phi3/phi-3-vision/tokenizer.json",
    "minimax-m1": "vocab/minimax-m1/tokenizer.json",
    "qwen2": "vocab/qwen2/tokenizer.json",
    "qwen2.5": "vocab/qwen2.5/tokenizer_config.json",
    "qwen3": "vocab/qwen3/tokenizer.json",
    "qwen3.5": "vocab/qwen3.5/tokenizer.json",
}
"""The real vocabularies that formats are tested on."""

INTERNLM2 = ("embedded", "internlm2", "prefixed")
"""The codecs of the format `internlm2`; the last has a vocabulary that puts a space before text."""

CODECS = (*INTERNLM2, "yi")
"""The codecs that every law is checked on: those, and one of the format `chatml`."""


def find(relative: str) -> Path:
    """The path of a piece of test data; skips the test where it is absent."""
    path = DATA / relative
    if not path.exists():
        pytest.skip(f"no test data `{relative}` in {DATA}")
    return path


def qwen3_folder() -> Path:
    """The folder of Qwen3's tokenizer, for tests of servers; skips a module where it is absent."""
    folders = [DATA / "vocab" / "qwen3", DATA / "qwen3"]
    found = next((folder for folder in folders if folder.exists()), None)
    if found is None:
        pytest.skip(f"no vocabulary in {folders[-1]}", allow_module_level=True)
    return found


def model_path(name: str) -> Path:
    """The SentencePiece model of a vocabulary of `MODELS`, or the embedded one."""
    return EMBEDDED_MODEL if name == "embedded" else find(MODELS[name])


def model_bytes(name: str) -> bytes:
    """The content of a vocabulary's file."""
    return models.with_dummy_prefix() if name == "prefixed" else model_path(name).read_bytes()


@functools.cache
def load_vocab(name: str) -> Vocab:
    """A vocabulary of `MODELS` or of `CODECS`."""
    if name == "embedded":
        return Vocab.embedded()
    with tempfile.NamedTemporaryFile() as file:
        file.write(model_bytes(name))
        file.flush()
        return Vocab.load(file.name)


@functools.cache
def load_file(name: str) -> Vocab:
    """A vocabulary of `FILES`, or the embedded one."""
    if name == "embedded":
        return Vocab.embedded()
    if name.startswith("tekken-"):
        return Vocab.load(references.tekken(name))
    if name == "qwen2.5":
        return load_qwen25()
    more = references.DEEPSEEK_TOOLS if name == "deepseek-v3" else None
    return Vocab.load(find(FILES[name]), special_tokens=more)


def load_qwen25() -> Vocab:
    """Qwen2.5's vocabulary: Qwen2's, with control tokens of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (FILES["qwen2.5"], "vocab/qwen2/vocab.json", "vocab/qwen2/merges.txt"):
            (Path(folder) / Path(path).name).symlink_to(find(path).resolve())
        return Vocab.load(folder)


@functools.cache
def whole(format_: str) -> Format:
    """A built-in format that refuses nothing.

    Its table writes and reads also what the template of its models writes otherwise.
    """
    name, _, variant = format_.partition(":")
    lines = Format.built_in(format_).text.splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.toml")
        text = "".join(line for line in lines if not line.startswith("refuses = "))
        path.write_text(text, encoding="utf-8")
        return Format.load(path, variant=variant or None)


@functools.cache
def load_format(format_: str, vocab: str, *, refuses: bool = True) -> Codec:
    """A codec of a built-in format and a vocabulary of `FILES`."""
    return Codec(format_ if refuses else whole(format_), load_file(vocab))


@functools.cache
def appended(spellings: tuple[str, ...]) -> Vocab:
    """The embedded vocabulary with tokens after its last."""
    first = Vocab.embedded().size
    tokens = {spelling: first + nth for nth, spelling in enumerate(spellings)}
    return Vocab.load(EMBEDDED_MODEL, special_tokens=tokens)


@functools.cache
def load_appended(format_: str, spellings: tuple[str, ...], *, refuses: bool = True) -> Codec:
    """A codec on the embedded vocabulary with tokens after its last."""
    return Codec(format_ if refuses else whole(format_), appended(spellings))


def load_case(format_: str, vocab: str, case: dict[str, Any], *, refuses: bool = True) -> Codec:
    """A codec of a format and of a vocabulary that a golden case names."""
    if vocab == "appended":
        return load_appended(format_, tuple(case["special_tokens"]), refuses=refuses)
    return load_format(format_, vocab, refuses=refuses)


@functools.cache
def load_codec(name: str) -> Codec:
    """A codec of `CODECS`."""
    if name == "embedded":
        return Codec("internlm2", vocab="embedded")
    return Codec("chatml" if name == "yi" else "internlm2", load_vocab(name))


@functools.cache
def reference(name: str) -> Callable[[str], list[int]]:
    """Plain `encode` of the sentencepiece library, on the same file."""
    return models.sentencepiece(model_bytes(name))[0]


STRETCH = 20_000
"""Characters of a text of the corpus that are encoded at once in a short run."""


def corpus(of: int = 6, first: int = 0) -> Iterator[tuple[str, str]]:
    """The names and texts of the corpus; in a short run one of so many stretches of all texts."""
    texts = [
        (path.name, path.read_text(encoding="utf-8"))
        for path in sorted(find("corpus").iterdir())
        if path.name != "README.md"
    ]
    if LONG:
        yield from texts
        return
    stretches = [
        (name, text[at : at + STRETCH])
        for name, text in texts
        for at in range(0, len(text), STRETCH)
    ]
    yield from share(stretches, of, first)


def chats() -> Iterator[tuple[list[dict[str, Any]], str | None]]:
    """Real conversations of the corpus, with calls and results, and their tools."""
    roles = {"human": "user", "gpt": "assistant", "observation": "tool"}
    for path in sorted(find("corpus").glob("chat_*.json")):
        for chat in json.loads(path.read_text(encoding="utf-8")):
            messages: list[dict[str, Any]] = []
            for turn in chat["conversations"]:
                if turn["from"] == "function_call":
                    function = json.loads(turn["value"])
                    call = {"type": "function", "function": function}
                    messages.append({"role": "assistant", "tool_calls": [call]})
                else:
                    messages.append({"role": roles[turn["from"]], "content": turn["value"]})
            yield messages, chat.get("tools") or None


def jinja_template(heading: str) -> str:
    """The chat template that stands under a heading of the list of conversation templates."""
    seeds = find("seeds")
    for path in sorted(seeds.iterdir()):
        text = path.read_text(encoding="utf-8")
        section = rf"^## {re.escape(heading)}\n(?:(?!^## ).*\n)*?"
        template = r"\*\*jinja template\*\*.*\n.*\n```\n(.*)\n```"
        is_list = text.startswith("# Supported Conversation Template")
        if is_list and (found := re.search(section + template, text, re.MULTILINE)):
            return found[1]
    pytest.skip(f"no test data: no document in {seeds} has a template for {heading}")
