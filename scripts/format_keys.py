"""The keys of format files, from the Rust types that read them, as Markdown.

What goes in: the structs and enums of `rust/core/src/format/file.rs` and its neighbours, with the
comment of each field and of each word. What comes out: the generated part of
docs/generated/format-keys.md, which `tables.py` writes. A field without a comment is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent.parent / "rust" / "core" / "src" / "format"
FILES = ("file.rs", "media.rs", "refused.rs", "mod.rs")
BEGIN = re.compile(r"^pub(?:\(\w+\))? (struct|enum) (\w+) \{$")
FIELD = re.compile(r"^    (?:pub(?:\(\w+\))? )?(?:r#)?(\w+): (.+),$")
WORD = re.compile(r"^    (\w+),$")
RENAME = re.compile(r'rename = "([^"]+)"')
OUTER = re.compile(r"^(Option|Vec|BTreeMap)<(?:String, )?(.+)>$")
KINDS = {"OneOrMany": "string, or list", "String": "string", "TokenId": "number", "bool": "boolean"}
ROOT = "File"


@dataclass(frozen=True)
class Member:
    """A field of a struct, or a word of an enum."""

    name: str
    type: str
    about: str
    attributes: str


@dataclass(frozen=True)
class Type:
    """A struct or an enum of the files."""

    kind: str
    members: list[Member] = field(default_factory=list)


def types() -> dict[str, Type]:
    """The types by name."""
    found: dict[str, Type] = {}
    for name in FILES:
        inside: Type | None = None
        about: list[str] = []
        attributes: list[str] = []
        for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
            if begin := BEGIN.match(line):
                inside = found[begin[2]] = Type(begin[1])
            elif line == "}":
                inside = None
            if inside is None or BEGIN.match(line):
                about, attributes = [], []
            elif line.startswith("    ///"):
                about.append(line.removeprefix("    ///").strip())
            elif line.startswith("    #["):
                attributes.append(line.strip())
            elif member := (FIELD if inside.kind == "struct" else WORD).match(line):
                kind = member[2] if inside.kind == "struct" else ""
                said = " ".join(about)
                inside.members.append(Member(member[1], kind, said, " ".join(attributes)))
                about, attributes = [], []
    return found


def words_of(kind: Type, *, has_default: bool) -> str:
    """The words of an enum, each with its meaning."""
    said = []
    for member in kind.members:
        renamed = RENAME.search(member.attributes)
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", member.name).lower()
        default = " (default)" if has_default and "#[default]" in member.attributes else ""
        meaning = member.about.rstrip(".")
        word = renamed[1] if renamed else snake
        said.append(f"`{word}`{default}: {meaning[:1].lower()}{meaning[1:]}")
    return "; ".join(said)


def rows(known: dict[str, Type], of: str, before: str = "") -> Iterator[str]:
    """A row for each key of a struct and of the structs in it."""
    for member in known[of].members:
        kind, is_map, is_list = member.type, False, False
        while outer := OUTER.match(kind):
            is_map, is_list = is_map or outer[1] == "BTreeMap", is_list or outer[1] == "Vec"
            kind = outer[2]
        renamed = RENAME.search(member.attributes)
        key = f"{before}{renamed[1] if renamed else member.name}"
        inner = known.get(kind)
        if "flatten" in member.attributes:
            continue
        if inner and inner.kind == "struct":
            yield from rows(known, kind, f"{key}.X." if is_map else f"{key}.")
            continue
        if not member.about:
            raise SystemExit(f"`{of}.{member.name}` of {FOLDER.name} has no comment")
        said, value = member.about, KINDS.get(kind, "")
        if inner and inner.members:
            optional = member.type.startswith("Option")
            said = f"{said} {words_of(inner, has_default=not optional)}."
            value = "a word"
        elif is_map:
            value = f"table: {value or 'values'}"
        if is_list:
            value = f"list of {'words' if inner else value + 's'}"
        is_needed = "default" not in member.attributes and not member.type.startswith("Option")
        key = f"{key}.V" if renamed else key
        yield f"| `{key}` | {value or 'table'}{', needed' if is_needed else ''} | {said} |"


def table() -> str:
    """All keys."""
    return "\n".join(["| key | value | meaning |", "|---|---|---|", *rows(types(), ROOT)])
