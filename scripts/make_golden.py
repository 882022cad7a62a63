# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "jinja2", "mistral-common", "regex", "sentencepiece==0.2.3", "tiktoken", "tokenizers",
# ]
# ///
"""Fill in the ids of the golden cases, or compare them.

The cases in ``tests/golden/*.json`` are written by hand: messages, and beside them what they are
written as, control tokens and text told apart.  This script adds the ids that the reference gives:
of every run of text between two control tokens those of the library that the vocabulary comes with
(``tests/support/references.py``), of every control token its id.  Mixtral's are compared with what
``mistral-common`` gives the messages.  Nothing of this project takes part in that.

* ``make_golden.py`` writes the ids of every vocabulary that a case names.
* ``make_golden.py --check`` compares, and writes nothing.

Run it when the embedded vocabulary has been trained anew.  The real vocabularies are looked for in
``../shared``, or where ``CHATCODEC_TEST_DATA`` points; of one that is absent the ids stay as they
are.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import references  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"
WIDTH = 100

PACKAGED = ("mixtral-8x7b", "mixtral-8x22b")
"""Formats whose reference is a package that takes messages."""


def fill(case: dict[str, Any], special_tokens: list[str]) -> None:
    """Set the ids of one case, for every vocabulary it names."""
    for name in case["ids"]:
        known = references.reference("embedded" if name == "appended" else name)
        if known is not None and name == "appended":
            known = copy.copy(known)
            size = 1 + max(known.control.values())
            appended = {spelling: size + nth for nth, spelling in enumerate(special_tokens)}
            known.control = known.control | appended
        if known is None:
            print(f"skipped: no `{references.FILES[name]}`", file=sys.stderr)
            continue
        case["ids"][name] = known.ids(case["parts"])


def check_package(name: str, case: dict[str, Any]) -> None:
    """Compare the ids of parts with what mistral-common gives the messages."""
    ids = references.mistral(name, case["messages"], case.get("tools"))
    if ids != case["ids"][name]:
        raise ValueError(f"{name}: {case['name']}: mistral-common gives {ids}")


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
            fill(case, cases.get("special_tokens", []))
        if cases["format"] in PACKAGED:
            for case in cases["encode"]:
                for name in filter(references.reference, case["ids"]):
                    check_package(name, case)
        after = write(cases) + "\n"
        if after != before:
            stale.append(path.name)
            if not check:
                path.write_text(after, encoding="utf-8")
    print(f"{'differs' if check else 'written'}: {', '.join(stale) or 'nothing'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
