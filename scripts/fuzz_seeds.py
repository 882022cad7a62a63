"""Write the seeds of the fuzz targets from the golden cases, or compare them.

Of every format the shortest conversation and streams, as text that a reader can change.
``fuzz_seeds.py --check`` writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SEEDS = ROOT / "rust" / "fuzz" / "seeds"
STREAMS = 2
"""How many streams of each format, the shortest."""

TEXT = "\x01"
"""Before a control token's spelling that is text."""

POLICIES = ("ids", "ids_or_text", "text")


def generated(parts: list[Any], control: set[str]) -> str:
    """What a case's parts are as a seed."""
    written = []
    for part in parts:
        if isinstance(part, str):
            for spelling in sorted(control, key=len, reverse=True):
                part = part.replace(spelling, TEXT + spelling)  # noqa: PLW2901
            written.append(part)
        else:
            written += [item for item in part if isinstance(item, str)]
    return "".join(written)


def seeds() -> dict[str, str]:
    """The seeds, by their paths."""
    found = {}
    for path in sorted((ROOT / "tests" / "golden").glob("*.json")):
        cases = json.loads(path.read_text("utf-8"))
        listed = [*cases["encode"], *cases["read"], *cases["stream"]]
        parts = [part for case in listed for part in case["parts"] if isinstance(part, list)]
        control = {item for part in parts for item in part if isinstance(item, str)}
        whole = [("start", generated(case["parts"], control)) for case in cases["encode"]]
        prompted = [
            ("prompt", generated(case["parts"], control))
            for case in cases["stream"]
            if case.get("after") is None
        ]
        by_size = [sorted(kind, key=lambda seed: len(seed[1])) for kind in (whole, prompted)]
        chosen = [*by_size[0][:1], *by_size[1][:STREAMS]]
        for nth, (start, text) in enumerate(chosen):
            policy = POLICIES[nth % len(POLICIES)]
            head = f"{cases['format']} {start} {policy}\n"
            found[f"stream_splits/{path.stem}-{nth}"] = head + text
    return found


def main() -> int:
    """Write or check every seed."""
    parser = argparse.ArgumentParser(description="Write the seeds of the fuzz targets.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    expected = seeds()
    there = {
        str(path.relative_to(SEEDS)): path.read_text("utf-8")
        for path in (SEEDS / "stream_splits").rglob("*")
        if path.is_file()
    }
    stale = sorted(name for name in expected | there if expected.get(name) != there.get(name))
    if not check:
        for name in stale:
            path = SEEDS / name
            if name in expected:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(expected[name], "utf-8")
            else:
                path.unlink()
    print(f"{'differs' if check else 'written'}: {', '.join(stale) or 'nothing'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
