"""What is encoded: a vocabulary, documents of 1 MB, messages cut from them, conversations.

The real vocabulary and corpora are used where they are (`../shared`, or `CHATCODEC_TEST_DATA`).
Elsewhere the embedded vocabulary, the standard library's manual as English and its source as code;
there is no Chinese and no chat then.
"""

from __future__ import annotations

import functools
import json
import os
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("CHATCODEC_TEST_DATA", ROOT.parent / "shared"))
HAS_DATA = DATA.is_dir()

EMBEDDED = ROOT / "rust" / "core" / "vocab" / "embedded.model"

DOCUMENT_BYTES = 1 << 20
MESSAGE_BYTES = 2800

Conversation = list[dict[str, str]]


def vocabulary() -> Path:
    """The vocabulary file that is measured."""
    if HAS_DATA:
        return DATA / "vocab" / "internlm2" / "tokenizer.model"
    return EMBEDDED


@functools.cache
def document(kind: str) -> str:
    """About 1 MB of text of one kind; skips where there is none."""
    return next(pieces(_READ[kind](), DOCUMENT_BYTES))


@functools.cache
def messages(kind: str) -> list[str]:
    """A document cut into messages of equal size."""
    cut = list(pieces(document(kind), MESSAGE_BYTES))
    return cut[:-1]


@functools.cache
def conversations(count: int, size: int, turns: int = 10) -> list[Conversation]:
    """Conversations of `size` bytes of content, each of other text than the others."""
    kinds = ("chat", "English", "code") if HAS_DATA else ("English", "code")
    contents = pieces("\n".join(_READ[kind]() for kind in kinds), size // turns)
    roles = ["system", *["user", "assistant"] * (turns // 2 - 1), "user"]
    return [[{"role": role, "content": next(contents)} for role in roles] for _ in range(count)]


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


def _corpus(name: str) -> str:
    if not HAS_DATA:
        pytest.skip("needs the corpora: ../shared, or the folder that CHATCODEC_TEST_DATA names")
    return (DATA / "corpus" / name).read_text(encoding="utf-8")


def _english() -> str:
    if HAS_DATA:
        return _corpus("en_wiki_demo.txt")
    from pydoc_data.topics import topics  # noqa: PLC0415 - half a megabyte, rarely wanted

    return "\n".join(topics.values())


def _chinese() -> str:
    return _corpus("zh_prose_hongloumeng.txt")


def _code() -> str:
    """The standard library's source."""
    text = ""
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += file.read_text(encoding="utf-8")
        if len(text) > 3 * DOCUMENT_BYTES:
            break
    return text


def _chat() -> str:
    """What people, models and tools say in recorded chats, English and Chinese by turns."""
    names = ("glaive_toolcall_en_demo", "glaive_toolcall_zh_demo", "fastchat_dummy_conversation")
    said = [_said(json.loads(_corpus(f"chat_{name}.json"))) for name in names]
    return "\n".join(text for group in zip(*said, strict=False) for text in group)


def _said(chats: list[dict[str, object]]) -> Iterator[str]:
    for chat in chats:
        turns = chat["conversations"]
        assert isinstance(turns, list)
        yield "\n".join(turn["value"] for turn in turns)


_READ = {"English": _english, "Chinese": _chinese, "code": _code, "chat": _chat}
KINDS = tuple(_READ)
