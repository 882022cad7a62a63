"""Writes `python/chatcodec/_core.pyi` from the binary; `--check` says whether it is up to date.

`maturin generate-stubs` does nearly all of it. The patches below add what it cannot express, and
each must apply, so that none outlives its reason.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "chatcodec" / "_core.pyi"
HEADER = "# Written by scripts/stubs.py from the binary; not edited by hand.\n"

# What stands in the generated stub once, and what stands there instead.
PATCHES = [
    # What tests alone use.
    (', "_Panics", "_ask_for_panic"', ""),
    (
        '''\
@final
class _Panics:
    """
    What panics when it is read, for tests: as ids, as a value of a message, and in a method.
    """
    def __len__(self, /) -> int: ...
    def __new__(cls, /) -> _Panics: ...
    @property
    def value(self, /) -> int: ...

def _ask_for_panic(place: str) -> None:
    """
    Asks for one panic, for tests: in an `"away"` thread, or a `"worker"` of a batch.
    """

''',
        "",
    ),
    # A base class at run time by `Sequence.register`.
    ("class IntArray:\n", "class IntArray(Sequence[int]):\n"),
    ("class Encoding:\n", "class Encoding(Sequence[int]):\n"),
    (
        '''\
    def __contains__(self, value: Any, /) -> bool:
        """
        Whether an id occurs.
''',
        '''\
    def __contains__(self, value: object, /) -> bool:
        """
        Whether an id occurs.
''',
    ),
    # Type checkers know the buffer protocol by this method; CPython 3.11 has no such attribute.
    (
        "    def __contains__(self, value: Any, /) -> bool: ...\n",
        """\
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __contains__(self, value: object, /) -> bool: ...
""",
    ),
    # It returns `NotImplemented` for what is no sequence.
    (
        "    def __eq__(self, other: object, /) -> Any: ...\n",
        "    def __eq__(self, other: object, /) -> bool: ...\n",
    ),
    (
        "    def __getitem__(self, index: Any, /) -> Any: ...\n",
        """\
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> IntArray: ...
""",
    ),
    (
        "    def engine(self, /) -> str:\n",
        '    def engine(self, /) -> Literal["bytes", "characters", "tokenizers"]:\n',
    ),
    (
        """\
    def __getitem__(self, index: Any, /) -> Any:
        \"\"\"
        The id at an index, or the ids of a slice.
        \"\"\"
""",
        """\
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int:
        \"\"\"
        The id at an index, or the ids of a slice.
        \"\"\"
    @overload
    def __getitem__(self, index: slice, /) -> IntArray: ...
""",
    ),
    # Words of closed sets.
    ("    def read_by(self, /) -> str:\n", "    def read_by(self, /) -> ReadBy:\n"),
    ("    def guarantee(self, /) -> str:\n", "    def guarantee(self, /) -> Guarantee:\n"),
    ("    def dummy_prefix(self, /) -> str:\n", "    def dummy_prefix(self, /) -> DummyPrefix:\n"),
    ("    def kind(self, /) -> str:\n", "    def kind(self, /) -> VocabKind:\n"),
    (
        "def collect(events: Any) -> dict[str, Any]:",
        "def collect(events: Iterable[Event]) -> dict[str, Any]:",
    ),
]

# Defaults that introspection shows as `...`, and what they are; the signatures say the same.
DEFAULTS = {
    'tokens: "tuple[int, int]" = ...': "(0, 0)",
    'ignore_index: "int" = ...': "-100",
    "stop: SupportsIndex = ...": "9223372036854775807",
}

# What the signatures call `**options`, and where its names and types are.
OPTIONS = ROOT / "python" / "chatcodec" / "options.py"

# Methods whose default of `unknown` is not the first of its words.
IGNORES_UNKNOWN = ("encode_batch", "encode_table")

# Names that annotations in quotes use, which introspection does not see.
IMPORTS = """\
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Literal, SupportsIndex, final, overload

from typing_extensions import Buffer

from chatcodec.audit import Audit
from chatcodec.events import CallKind, Event, MediaKind, NoteKind, NoticeKind, Role, TurnReason
from chatcodec.mapper import Mapper
from chatcodec.options import (
    BareCalls,
    Boundary,
    CallsInReasoning,
    DummyPrefix,
    Guarantee,
    History,
    Markers,
    Markup,
    OnArguments,
    OnError,
    OnLong,
    OnMarker,
    OnReasoning,
    OnUnknown,
    OnUnsupported,
    ReadBy,
    TableColumn,
    VocabKind,
)
"""


def generate() -> str:
    """Give the stub of the library that tests use, patched."""
    maturin = Path(sys.executable).with_name("maturin")
    with tempfile.TemporaryDirectory() as out:
        command: list[str | Path] = [maturin, "generate-stubs", "--out", out]
        command += ["--profile", "checked", "--features", "testing"]
        subprocess.run(command, cwd=ROOT, check=True)
        text = (Path(out) / "chatcodec" / "_core.pyi").read_text(encoding="utf-8")
    return HEADER + patch(text)


def patch(text: str) -> str:
    """Apply every patch once, and say which does not apply."""
    for old, new in PATCHES:
        if text.count(old) != 1:
            sys.exit(f"a patch of the stub applies {text.count(old)} times, not once: {old!r}")
        text = text.replace(old, new)
    for shown, default in DEFAULTS.items():
        if shown not in text:
            sys.exit(f"a default of the stub is not there: {shown!r}")
        text = text.replace(shown, shown.removesuffix("...") + default)
    if "= ..." in text:
        sys.exit("a default of the stub is shown as `...`: add it to DEFAULTS")
    text = re.sub(r"(?m)^    def (\w+)\(.*\*\*options: \"Unpack\[(\w+)\]\".*", with_options, text)
    text = re.sub(r"(?m)^from [\w.]+ import .*\n", "", text)
    first = text.index("__all__")
    text = text[:first].rstrip() + "\n\n" + IMPORTS + "\n" + text[first:]
    # `match` needs to know the names of the positions, not only that they are strings.
    return re.sub(r"(?s)@final\nclass \w+.*?(?=\n@final|\n\ndef |\Z)", literal_match_args, text)


def with_options(match: re.Match[str]) -> str:
    """Write out the options of a method, and `Any` for the variables of a template.

    A type checker takes no other name beside `Unpack[EncodeOptions]`, but a template has variables.
    """
    line, method, options = match[0], match[1], match[2]
    before, _, after = line.partition(f'**options: "Unpack[{options}]"')
    named = []
    for name, type_, default in options_of(options):
        is_ignored = name == "unknown" and method in IGNORES_UNKNOWN
        shown = repr("ignore") if is_ignored else default
        named.append(f'{name}: "{type_}" = {shown}')
    star = "" if " *, " in before else "*, "
    return f'{before}{star}{", ".join(named)}, **options: "Any"{after}'


def options_of(name: str) -> list[tuple[str, str, str]]:
    """Give the options of a class of `chatcodec.options`: name, type and default.

    The default of a word is the first of its words, of a bool `False`; else `None`. Options that a
    format declares are left out: they are among its variables.
    """
    module = ast.parse(OPTIONS.read_text(encoding="utf-8"))
    words = {
        node.target.id: ast.unparse(node.value.slice.elts[0])
        for node in module.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Subscript)
        and isinstance(node.value.slice, ast.Tuple)
    }
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    found: list[tuple[str, str, str]] = []
    while name != "FormatOptions":
        for node in classes[name].body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                type_ = ast.unparse(node.annotation)
                default = "False" if type_ == "bool" else words.get(type_, "None")
                found.append((node.target.id, type_, default))
        name = ast.unparse(classes[name].bases[0])
    return found


def literal_match_args(match: re.Match[str]) -> str:
    """Give `__match_args__` of one class as literals: its public fields in order."""
    body = match.group()
    constructor = re.search(r"def __new__\(cls, /, (.*)\) ->", body)
    if "__match_args__: Final[tuple" not in body:
        return body
    if constructor:
        names = re.findall(r"(\w+): ", constructor.group(1))
        names = [name for name in names if name != "tokens"]
    else:
        names = MATCH_ARGS[re.findall(r"class (\w+)", body)[0]]
    literals = ", ".join(f'Literal["{name}"]' for name in names)
    return re.sub(r"__match_args__: .*", f"__match_args__: Final[tuple[{literals}]]", body)


# Classes that Python code does not construct.
MATCH_ARGS = {
    "Neutralized": ["path", "start", "end", "spelling", "id"],
    "Note": ["kind", "text", "tokens", "message"],
    "Collision": ["path", "start", "end", "marker"],
    "Placeholder": ["path", "kind", "start", "end", "around"],
    "Parsed": ["message", "finish", "rest"],
}


def main() -> None:
    """Write the stub, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and fail if it differs")
    arguments = parser.parse_args()
    text = generate()
    if not arguments.check:
        STUB.write_text(text, encoding="utf-8")
        return
    known = STUB.read_text(encoding="utf-8")
    if known != text:
        difference = difflib.unified_diff(
            known.splitlines(), text.splitlines(), "committed", "generated", lineterm=""
        )
        advice = f"{STUB.relative_to(ROOT)} is out of date: run `make stubs`"
        sys.exit("\n".join([*difference, advice]))


if __name__ == "__main__":
    main()
