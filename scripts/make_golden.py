# /// script
# requires-python = ">=3.11"
# dependencies = ["sentencepiece==0.2.3"]
# ///
"""Fill in the ids of the golden cases, or compare them.

The cases in ``tests/golden/*.json`` are written by hand: messages, and beside them what they are
written as, control tokens and text told apart.  This script adds the ids that the reference gives:
of every run of text between two control tokens those of PyPI ``sentencepiece``, plain ``encode``;
of every control token its id.  Nothing of this project takes part in that.

* ``make_golden.py`` writes the ids of every vocabulary that a case names.
* ``make_golden.py --check`` compares, and writes nothing.

Run it when the embedded vocabulary has been trained anew.  The real vocabularies are looked for in
``../shared``, or where ``CHATCODEC_TEST_DATA`` points; of one that is absent the ids stay as they
are.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import sentencepiece

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
SHARED = Path(os.environ.get("CHATCODEC_TEST_DATA", ROOT.parent / "shared"))
WIDTH = 100

MODELS = {
    "embedded": ROOT / "rust" / "core" / "vocab" / "embedded.model",
    "internlm2": SHARED / "vocab" / "internlm2" / "tokenizer.model",
    "yi": SHARED / "vocab" / "yi" / "tokenizer.model",
}

CHAT_TOKENS = {
    "<|plugin|>": 92538,
    "<|interpreter|>": 92539,
    "<|action_end|>": 92540,
    "<|action_start|>": 92541,
    "<|im_end|>": 92542,
    "<|im_start|>": 92543,
}
"""InternLM2's; its file spells them `[UNUSED_TOKEN_141]` to `[UNUSED_TOKEN_146]`, in this order."""

Part = str | list[str | int]
"""Text; or in a list a control token's spelling, ids as they are, or nothing: a cut."""


class Reference:
    """One vocabulary as sentencepiece reads it."""

    def __init__(self, name: str) -> None:
        """Read the model of the vocabulary ``name``."""
        self.name = name
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(MODELS[name]))
        self.control = {piece: self.processor.piece_to_id(piece) for piece in ("<s>", "</s>")}
        if name == "yi":
            for spelling in ("<|im_start|>", "<|im_end|>"):
                self.control[spelling] = self.processor.piece_to_id(spelling)
        else:
            self.control |= CHAT_TOKENS

    def text(self, run: str) -> list[int]:
        """Give the ids of a run; a spelling that the reference would take as control is refused."""
        ids: list[int] = self.processor.encode(run)
        if leaked := set(ids) & set(self.control.values()):
            raise ValueError(f"{self.name}: text became control {leaked}: {run!r}")
        return ids

    def ids(self, parts: list[Part]) -> list[int]:
        """Give the ids of parts: text is joined up to the next part that is none."""
        ids: list[int] = []
        run = ""
        for part in [*parts, []]:
            if isinstance(part, str):
                run += part
                continue
            if run:
                ids += self.text(run)
                run = ""
            ids += [item if isinstance(item, int) else self.control[item] for item in part]
        return ids


@functools.cache
def reference(name: str) -> Reference | None:
    """Give a vocabulary, or nothing where its file is absent."""
    return Reference(name) if MODELS[name].exists() else None


def fill(case: dict[str, Any]) -> None:
    """Set the ids of one case, for every vocabulary it names."""
    for name in case["ids"]:
        if (known := reference(name)) is not None:
            case["ids"][name] = known.ids(case["parts"])
        else:
            print(f"skipped: no `{MODELS[name]}`", file=sys.stderr)


def write(value: object, depth: int = 0) -> str:
    """Write JSON for people: what fits on a line on one, ids filled like text."""
    line = json.dumps(value, ensure_ascii=False)
    indent = " " * (depth + 1)
    if len(line) + depth <= WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {write(item, depth + 1)}" for key, item in value.items()]
        brackets = "{}"
    elif all(type(item) is int for item in value):
        filled = textwrap.fill(line[1:-1], WIDTH, initial_indent=indent, subsequent_indent=indent)
        return f"[\n{filled}\n{' ' * depth}]"
    else:
        items = [write(item, depth + 1) for item in value]
        brackets = "[]"
    inside = ",\n".join(indent + item for item in items)
    return f"{brackets[0]}\n{inside}\n{' ' * depth}{brackets[1]}"


def main() -> int:
    """Write or check every file."""
    parser = argparse.ArgumentParser(description="Fill in the ids of the golden cases.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    stale = []
    for path in sorted(GOLDEN.glob("*.json")):
        before = path.read_text(encoding="utf-8")
        cases = json.loads(before)
        for case in [*cases["encode"], *cases["read"]]:
            fill(case)
        after = write(cases) + "\n"
        if after != before:
            stale.append(path.name)
            if not check:
                path.write_text(after, encoding="utf-8")
    print(f"{'differs' if check else 'written'}: {', '.join(stale) or 'nothing'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
