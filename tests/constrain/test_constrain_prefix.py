"""Constraints on vocabularies that put a space before text: a prompt of the format has it too."""

from __future__ import annotations

import functools
import json
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import chatcodec
import data
import pytest
import walks
from chatcodec import Codec, Vocab
from chatcodec.errors import ChatCodecError

FILES = ("llama2", "mixtral-8x7b", "mixtral-8x22b", "mistral", "phi3-mini", "yi")
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {
                "type": "object",
                "properties": {"at": {"enum": ["a", "b"]}},
                "required": ["at"],
                "additionalProperties": False,
            },
        },
    }
]
REQUESTS: list[dict[str, Any]] = [
    {},
    {"response_format": {"type": "json_object"}},
    {"tools": TOOLS},
    {"tools": TOOLS, "tool_choice": "required"},
]


def spellings(name: str) -> list[str]:
    """The control tokens of a built-in format."""
    file_name, _, variant = name.partition(":")
    path = data.ROOT / "rust" / "core" / "formats" / f"{file_name}.toml"
    file = tomllib.loads(path.read_text(encoding="utf-8"))
    control = file["control"] | file.get("variant", {}).get(variant, {}).get("control", {})
    return [one if isinstance(one, str) else one[0] for one in control.values() if one]


@functools.cache
def codec_of(name: str, vocab: str) -> Codec:
    """A format on a vocabulary, with the control tokens that it lacks after its last id."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.model")
        if vocab == "prefixed":
            path.write_bytes(data.model_bytes(vocab))
        else:
            path = data.find(data.FILES[vocab])
        known = Vocab.load(path)
        lacking = [one for one in spellings(name) if one not in known.control]
        more = {one: known.size + nth for nth, one in enumerate(lacking)}
        return Codec(name, Vocab.load(path, special_tokens=more))


@pytest.mark.parametrize("vocab", ["prefixed", *(FILES if data.LONG else FILES[:1])])
def test_every_format_constrains_its_own_prompt(vocab: str) -> None:
    made = 0
    names = data.share(chatcodec.formats(), 3)
    for name in names:
        try:
            codec = codec_of(name, vocab)
        except ChatCodecError:
            # ChatGLM3 has a layout of ids of its own.
            continue
        for request in REQUESTS:
            try:
                codec.constrain(**request)
            except ChatCodecError as error:
                # What a format has no place for.
                assert "`prompt`" not in str(error), (name, request)  # noqa: PT017
                assert "`format`" not in str(error), (name, request)  # noqa: PT017
            else:
                made += 1
            prompt = codec.encode([{"role": "user", "content": "x"}])
            if not request:
                codec.constrain(prompt=prompt.ids)
    assert made > 1.9 * len(names)


@pytest.mark.parametrize("name", ["chatml", "hermes", "qwen3", "granite3", "kimi-k2", "llama3.1"])
def test_a_walked_answer_is_read_back(name: str) -> None:
    codec = codec_of(name, "prefixed")
    walker = walks.Walker(codec)
    request = REQUESTS[3] if name != "chatml" else REQUESTS[1]
    lark = codec.constrain(**request).lark()
    ended = 0
    for seed in range(100 if data.LONG else 15):
        ids = walker.walk(walker.matcher(lark), seed, walker.tags(lark))
        if ids is None:
            continue
        ended += 1
        message = codec.parse(ids, tools=TOOLS).message
        if name == "chatml":
            assert isinstance(json.loads(message["content"]), dict)
            continue
        for call in message["tool_calls"]:
            assert call["function"]["name"] == "look"
            assert json.loads(call["function"]["arguments"])["at"] in {"a", "b"}
    assert ended
