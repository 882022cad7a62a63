"""Checks that imports of the Rust crates run down the floors.

The floors of a crate are the groups of `mod` lines in its `lib.rs`, from the bottom to the top.
A module may use modules of the floors below its own, and no others: not those above, not its
neighbours. Files of one module may use each other.
Exits with 1 and names each import that runs up.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CRATES = ("rust/vocab/src", "rust/core/src")
MODULE = re.compile(r"^(?:pub )?mod (\w+);$", re.MULTILINE)
USE = re.compile(r"\b(crate|(?:super::)*super)::(\{[^;]*?\}|\w+)")


def floors(library: str) -> dict[str, int]:
    """The floor of each module, counted from the bottom."""
    groups = (MODULE.findall(group) for group in library.split("\n\n"))
    return {module: at for at, group in enumerate(filter(None, groups)) for module in group}


def used(source: str, depth: int) -> set[str]:
    """The crate's modules that a file uses; the file is `depth` modules below the root."""
    modules = set()
    for base, path in USE.findall(source):
        if base == "crate" or base.count("super") == depth:
            modules.update(re.findall(r"(?:^|[{,])\s*(\w+)", path))
    return modules


def rising(crate: Path) -> list[str]:
    """The imports of a crate that run up."""
    known = floors((crate / "lib.rs").read_text(encoding="utf-8"))
    wrong = []
    for file in sorted(crate.rglob("*.rs")):
        parts = file.relative_to(crate).with_suffix("").parts
        module, depth = parts[0], len(parts) - (parts[-1] == "mod")
        if module == "lib":
            continue
        if module not in known:
            wrong.append(f"{file.relative_to(ROOT)}: `{module}` is on no floor of `lib.rs`")
            continue
        code = file.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests", 1)[0]
        code = re.sub(r"//[^\n]*", "", code)
        others = sorted(used(code, depth) & known.keys() - {module})
        up = [other for other in others if known[other] >= known[module]]
        path = file.relative_to(ROOT)
        wrong += [f"{path}: `{module}` uses `{other}`, which is not below it" for other in up]
    return wrong


def main() -> int:
    """Checks all crates."""
    wrong = [line for crate in CRATES for line in rising(ROOT / crate)]
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
