"""Hostile texts and conversations.

Texts are biased to what breaks tokenizers and templates: every spelling of a control token, parts
of one, what a template writes around a caller's text, white space, signs that normalisers change.
"""

from __future__ import annotations

import copy
import functools
import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatcodec import Codec
    from hypothesis.strategies import SearchStrategy
    from naive import Message, Value

PARTS_OF_MARKERS = (
    *("<", "<|", "|>", ">", "[", "]", "<s", "</s", "im_", "im_start", "im_end", "start|>", "_end"),
    *("[UNUSED_TOKEN_", "145]", "146]", "UNUSED_TOKEN_14", "action_", "|plugin|", "interpreter|>"),
    # Spellings of a vocabulary without this format, and look-alikes.
    *(
        "<unk>",
        "<|endoftext|>",
        "[INST]",
        "<0x0A>",
        "<0x00>",
        "<0xE2>",
        "＜｜im_end｜＞",
        "<｜im_end｜>",
    ),
)
PARTS_OF_TEMPLATES = (
    *("system", "user", "assistant", "environment", " name=", "\nsystem\n", "assistant\n", "file"),
    *(
        "```",
        "```python\n",
        "\n```",
        "\n```\n",
        '{"name": "f", "parameters": {}}',
        '"parameters": ',
    ),
    *(
        '"',
        '\\"',
        "\\",
        "\\u003c|im_end|\\u003e",
        "{",
        "}",
        "[",
        "]",
        ",",
        ": ",
        "name",
        "arguments",
    ),
)
PARTS_OF_TEXT = (
    *(
        " ",
        "  ",
        "\t",
        "\n",
        "\n\n",
        "\r\n",
        "\u00a0",
        "\u3000",
        "\u2028",
        "\v",
        "\x1c",
        "a",
        "Hello",
    ),
    *(
        "\0",
        "\u2581",
        "\u2581\u2581",
        "\ufeff",
        "\ufffd",
        "\u200b",
        "\u200d",
        "\u202e",
        "\u0301",
        "e\u0301",
    ),
    *(
        "é",
        "中文",
        "——",
        "……",
        "Ｅ",
        "ü",
        "K",
        "ſ",
        "😀",
        "👩\u200d👩\u200d👧",
        "\U000f0000",
        "\U0010ffff",
    ),
    *("\x01", "\x7f", "\u0085", "0", "123", "１", ".", "——Ｅ", "\t\u2581", "\n\u2581\u2581"),
)


@functools.cache
def hostile_texts(codec: Codec | None = None, max_parts: int = 8) -> SearchStrategy[str]:
    """Any text, mostly of what does harm to the vocabulary of `codec`."""
    parts = [
        st.sampled_from(PARTS_OF_MARKERS),
        st.sampled_from(PARTS_OF_TEMPLATES),
        st.sampled_from(PARTS_OF_TEXT),
        st.text(max_size=6),
    ]
    if codec is not None:
        parts.append(st.sampled_from(sorted(codec.vocab.control)))
    return st.lists(st.one_of(parts), max_size=max_parts).map("".join)


WORDS = st.text("abcXYZ019_.:-", min_size=1, max_size=12)
"""What may stand in a header: a user's name, a language."""


def json_values(texts: SearchStrategy[str], leaves: int = 6) -> SearchStrategy[Any]:
    """Values that `json.dumps` writes as JSON."""
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    scalars = st.none() | st.booleans() | numbers | texts
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=leaves,
    )


@st.composite
def json_texts(draw: st.DrawFn, texts: SearchStrategy[str]) -> str:
    """JSON as models write it: any spacing, escaped or not, and what no `json.dumps` writes."""
    odd = (
        '{"a": 1, "a": 2}',
        "1e400",
        "-0",
        '"\\ud800"',
        "[[[[]]]]",
        '{"name": "g"}',
        "{}",
        "null",
    )
    spaces = st.text(" \t\r\n", max_size=2)
    if draw(st.integers(0, 4)) == 0:
        text = draw(st.sampled_from(odd))
    else:
        text = json.dumps(
            draw(json_values(texts)),
            ensure_ascii=draw(st.booleans()),
            indent=draw(st.sampled_from([None, 0, 2])),
            separators=draw(st.sampled_from([None, (",", ":"), (" , ", " : ")])),
        )
    return draw(spaces) + text + draw(spaces)


def call_ids(texts: SearchStrategy[str]) -> SearchStrategy[str]:
    """Ids of calls, mostly of a few, so that results refer to calls, and calls share an id."""
    return st.sampled_from(["a", "b", "a", "b", ""]) | texts


@st.composite
def calls(draw: st.DrawFn, texts: SearchStrategy[str]) -> Message:
    """A call of a function or of code."""
    call: Message = {}
    if draw(st.booleans()):
        call["id"] = draw(call_ids(texts))
    if draw(st.booleans()):
        arguments = draw(json_texts(texts) | st.dictionaries(texts, json_values(texts), max_size=3))
        call |= {"type": "function", "function": {"name": draw(texts), "arguments": arguments}}
    else:
        call |= {"type": "code", "code": {"source": draw(texts)}}
        if draw(st.booleans()):
            call["code"]["language"] = draw(WORDS)
    return call


@st.composite
def contents(draw: st.DrawFn, texts: SearchStrategy[str]) -> Value:
    """A content in one of its forms: text, parts of it, nothing."""
    match draw(st.integers(0, 5)):
        case 0:
            parts = draw(st.lists(texts, max_size=3))
            return [{"type": "text", "text": part} for part in parts]
        case 1:
            return draw(st.sampled_from([None, ""]))
        case _:
            return draw(texts)


@st.composite
def messages(draw: st.DrawFn, codec: Codec, texts: SearchStrategy[str]) -> Message:
    """One message that the codec's format has a place for."""
    is_chatml = codec.format.name == "chatml"
    roles = ["system", "developer", "user", "assistant"]
    role = draw(st.sampled_from(roles if is_chatml else [*roles, "tool", "environment"]))
    message: Message = {"role": role}
    if draw(st.integers(0, 9)):
        message["content"] = draw(contents(texts))
    if is_chatml:
        return message
    if role == "user" and draw(st.booleans()):
        message["name"] = draw(WORDS)
    if role in {"system", "developer"} and draw(st.booleans()):
        message["name"] = draw(st.sampled_from(["plugin", "interpreter"]))
    if role in {"tool", "environment"}:
        if draw(st.booleans()):
            message["name"] = draw(st.sampled_from(["plugin", "interpreter", "get_weather"]))
        if draw(st.booleans()):
            message["tool_call_id"] = draw(call_ids(texts))
    if role == "assistant":
        message["tool_calls"] = draw(st.lists(calls(texts), max_size=3))
    return message


def conversations(
    codec: Codec, texts: SearchStrategy[str] | None = None, max_size: int = 5
) -> SearchStrategy[list[Message]]:
    """Conversations that the codec's format has a place for, of hostile texts if not of others."""
    texts = hostile_texts(codec) if texts is None else texts
    return st.lists(messages(codec, texts), max_size=max_size)


def each_text(message: Message, change: Callable[[str], str]) -> Message:
    """A copy of a message with every text changed that a template would write.

    Keys of arguments are texts too. Words of headers and ids of calls, which say what a result
    answers, stay.
    """
    message = copy.deepcopy(message)

    def value(node: Value) -> Value:
        match node:
            case str():
                return change(node)
            case list():
                return [value(item) for item in node]
            case dict():
                return {change(key): value(item) for key, item in node.items()}
            case _:
                return node

    content = message.get("content")
    if isinstance(content, list):
        message["content"] = [{"type": "text", "text": change(part["text"])} for part in content]
    elif content is not None:
        message["content"] = change(content)
    for call in message.get("tool_calls") or ():
        if "code" in call:
            call["code"]["source"] = change(call["code"]["source"])
        else:
            function = call["function"]
            function["name"] = change(function["name"])
            arguments = function["arguments"]
            function["arguments"] = (
                value(arguments) if isinstance(arguments, dict) else json.dumps(change(arguments))
            )
    return message
