"""What is encoded: texts of seven kinds, in every shape that the plan asks for, as files.

Real corpora are used where they are (`paths.DATA`), elsewhere the standard library's manual as
English and its source as code. A text longer than its corpus goes on with slices of the corpus, cut
at other places and in another order: no line or paragraph comes twice in the same surroundings, but
words do, as they do in real text.
"""

from __future__ import annotations

import functools
import json
import random
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .paths import DATA, WORK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLICE = (400, 4000)
"""Characters of a slice."""

ADVERSARIAL = {
    "letters": "a",
    "spaces": " ",
    "punctuation": "!",
    "digits": "7",
    "newlines": "\n",
    "CJK": "好",
    "emoji": "\U0001f600",
    "joined emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d",
    "markers": "<|im_end|>",
}
RANDOM = "random bytes as text"
MEGABYTE = 1 << 20

_MAKERS: dict[Path, Callable[[], str]] = {}


def document(kind: str, size: int) -> Path:
    """About `size` bytes of text of one kind."""
    return _file(f"{kind}-{size}.txt", lambda: cut(longer(corpus(kind), size), size))


def pieces_of(kind: str, count: int, size: int) -> Path:
    """`count` pieces of `size` bytes each, of text of one kind."""
    return _file(
        f"{kind}-{count}x{size}.json",
        lambda: _json([*pieces(longer(corpus(kind), (count + 1) * size), size)][:count]),
    )


def conversations(count: int, size: int, turns: int = 10) -> Path:
    """Conversations of ten messages and `size` bytes of content, each of other text."""
    kinds = [kind for kind in ("chat", "English", "code") if kind in KINDS]

    def make() -> str:
        need = (count + 1) * size // len(kinds)
        text = "\n".join(cut(longer(corpus(kind), need), need) for kind in kinds)
        contents = [*pieces(text, size // turns)]
        random.Random(size).shuffle(contents)  # noqa: S311 - no secret
        roles = ["system", *["user", "assistant"] * (turns // 2 - 1), "user"]
        # A template may strip what a message begins or ends with.
        made = [
            [{"role": role, "content": contents.pop().strip() or "-"} for role in roles]
            for _ in range(count)
        ]
        return _json(made)

    return _file(f"conversations-{count}x{size}.json", make)


def adversarial(thing: str, size: int = MEGABYTE) -> Path:
    """`size` bytes of one thing."""

    def make() -> str:
        if thing == RANDOM:
            # Every byte is a character of its own: no word, hardly a merge.
            return cut(random.Random(1).randbytes(size).decode("latin-1"), size)  # noqa: S311 - no secret
        unit = ADVERSARIAL[thing]
        return unit * (size // len(unit.encode()))

    return _file(f"{thing}-{size}.txt".replace(" ", "-"), make)


def pieces(text: str, size: int) -> Iterator[str]:
    """`text` in pieces of at most `size` bytes."""
    data = text.encode()
    start = 0
    while start < len(data):
        end = min(start + size, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end


def cut(text: str, size: int) -> str:
    """The first bytes of a text, at most `size`."""
    return next(pieces(text, size), "")


def longer(text: str, size: int) -> str:
    """A text of at least `size` bytes: the text, then slices of it in another order."""
    parts = [text]
    have = len(text.encode())
    chance = random.Random(size)  # noqa: S311 - no secret
    while have < size:
        start = chance.randrange(len(text))
        part = text[start : start + chance.randint(*SLICE)]
        parts.append(part)
        have += len(part.encode())
    return "".join(parts)


@functools.cache
def corpus(kind: str) -> str:
    """All there is of one kind."""
    return KINDS[kind]()


def _file(name: str, make: Callable[[], str]) -> Path:
    """A file that `write` writes when it is wanted: most are long, and not all are used."""
    path = WORK / "texts" / name
    _MAKERS[path] = make
    return path


def write(path: Path) -> None:
    """Writes a file, where it is not there yet."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        # As it is: newlines are part of the text.
        path.write_bytes(_MAKERS[path]().encode())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read(name: str) -> str:
    return (DATA / "corpus" / name).read_bytes().decode()


def _manual() -> str:
    from pydoc_data.topics import topics  # noqa: PLC0415 - half a megabyte, rarely wanted

    return "\n".join(topics.values())


def _code() -> str:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "".join(file.read_bytes().decode() for file in files)


def _chat() -> str:
    """What people, models and tools say in recorded chats, English and Chinese by turns."""
    names = ("glaive_toolcall_en_demo", "glaive_toolcall_zh_demo", "fastchat_dummy_conversation")
    said = [_said(json.loads(_read(f"chat_{name}.json"))) for name in names]
    return "\n".join(text for group in zip(*said, strict=False) for text in group)


def _said(chats: list[dict[str, Any]]) -> Iterator[str]:
    for chat in chats:
        yield "\n".join(turn["value"] for turn in chat["conversations"])


KINDS: dict[str, Callable[[], str]] = {
    "English": lambda: _read("en_wiki_demo.txt"),
    "Chinese": lambda: _read("zh_prose_hongloumeng.txt"),
    "Japanese": lambda: _read("ja_prose_wagahaiwa_nekodearu.txt"),
    "code": _code,
    "JSON": lambda: _read("json_travelplanning_query_en.json"),
    "chat": _chat,
    "emoji": lambda: _read("emoji_mixed_DERIVED.txt"),
}
if not DATA.is_dir():
    KINDS = {"English": _manual, "code": _code}
