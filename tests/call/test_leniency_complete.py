"""Written calls that are damaged: nothing of them is lost, and what is complete is JSON."""

from __future__ import annotations

import functools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import data
import pytest
from calls import answer
from chatcodec import MessageError, formats
from chatcodec.events import ActionDelta, ActionEnd, ActionStart, Notice
from completions import codec_of, ids_of
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from chatcodec import Codec
    from chatcodec.events import Event

LETTERS, KEY_LETTERS = "αβγδ", "жцшю"
"""Letters of values and of keys, which are in no marker."""

WORDS = st.text(LETTERS, min_size=1, max_size=3)
KEYS = st.text(KEY_LETTERS, min_size=1, max_size=3)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=3,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=3)
EDITS = st.lists(
    st.tuples(st.integers(0, 999), st.sampled_from(["drop", "twice", "swap", "cut"])),
    min_size=1,
    max_size=3,
)


def completion(codec: Codec, *arguments: object) -> tuple[list[int], list[int]]:
    """The ids of a prompt, and those of an answer that calls."""
    messages = answer(*arguments)
    prompt = codec.encode(messages[:1], add_generation_prompt=True).ids.tolist()
    ids = codec.encode(messages, stop_final=True).ids.tolist()
    common = next((at for at, (a, b) in enumerate(zip(prompt, ids, strict=False)) if a != b), None)
    begin = min(len(prompt), len(ids)) if common is None else common
    return ids[:begin], ids[begin:]


@functools.cache
def calling_formats() -> list[str]:
    """The formats that write calls."""
    found = []
    for name in formats():
        try:
            completion(codec_of(name), {"a": "b"})
        except (MessageError, ValueError, KeyError):
            continue
        found.append(name)
    return found


def damaged(ids: list[int], edits: list[tuple[int, str]]) -> list[int]:
    for at, edit in edits:
        if not ids:
            break
        place = at % len(ids)
        if edit == "cut":
            ids = ids[: place + 1]
        elif edit == "swap":
            ids = [*ids[:place], *reversed(ids[place : place + 2]), *ids[place + 2 :]]
        else:
            ids = [*ids[:place], *ids[place : place + 1] * (edit == "twice") * 2, *ids[place + 1 :]]
    return ids


def letters(text: str, format_: str) -> Counter[str]:
    """The letters of arguments. Nested tags have each key twice."""
    known = LETTERS if format_.startswith("minimax-m3") else LETTERS + KEY_LETTERS
    return Counter(letter for letter in text if letter in known)


def arguments_of(events: list[Event]) -> list[tuple[str, bool]]:
    """The text of each function's arguments, and whether the call is complete."""
    found, text, kind = [], "", ""
    for event in events:
        if isinstance(event, ActionStart):
            text, kind = "", event.kind
        elif isinstance(event, ActionDelta):
            text += event.text
        elif isinstance(event, ActionEnd) and kind == "function":
            found.append((text, event.complete))
    return found


@pytest.mark.parametrize("format_", data.share(formats(), 3, first=1))
@settings(max_examples=400 if data.LONG else 15)
@given(arguments=st.lists(ARGUMENTS, min_size=1, max_size=2), edits=EDITS)
def test_what_is_complete_says_all_of_it(
    format_: str, arguments: list[dict[str, Any]], edits: list[tuple[int, str]]
) -> None:
    if format_ not in calling_formats():
        pytest.skip("it writes no calls")
    codec = codec_of(format_)
    try:
        prompt, ids = completion(codec, *arguments)
    except MessageError:
        return
    ids = damaged(ids, edits)
    stream = codec.stream(prompt)
    events = [*stream.push(ids), *stream.finish()]
    lost = "".join(event.text for event in events if isinstance(event, Notice))
    for text, is_complete in arguments_of(events):
        if is_complete:
            json.loads(text or "{}")
            assert text or len(arguments) > 1 or not letters(lost, format_), events
    told = "".join(getattr(event, "text", "") for event in events)
    told += "".join(event.name or "" for event in events if isinstance(event, ActionEnd))
    assert letters(told, format_) == letters(codec.vocab.decode(ids), format_), events


PAIR = "<tool_call>f\n<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>{}\n</tool_call>"
OBJECT = '<tool_call>\n{{"name": "f", "arguments": {{"a": {}}}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("format_", "stray", "written", "is_complete"),
    [
        ("qwen3", "</think>", OBJECT.format('"x</think>y"'), False),
        ("qwen3", "</think>", OBJECT.format("1</think>2"), False),
        ("glm4.5", "</think>", PAIR.format("a</think>b", "c", ""), False),
        ("glm4.5", "</think>", PAIR.format("a", "c</think>d", ""), False),
        ("glm4.5", "</think>", PAIR.format("a", "</think>c", ""), False),
        ("glm4.5", "</think>", PAIR.format("</think>a", "c", ""), False),
        # A tag that stands twice, or a token between the parts of a call, takes nothing from them.
        ("glm4.5", "<arg_value>", PAIR.format("a", "<arg_value>c", ""), True),
        ("glm4.5", "</think>", PAIR.format("a", "c", "</think>"), True),
        (
            "qwen3-coder",
            "<|im_start|>",
            (
                "<tool_call>\n<function=f>\n<parameter=a>\nx<|im_start|>y\n</parameter>\n"
                "</function>\n</tool_call>"
            ),
            False,
        ),
        (
            "kimi-k2",
            "<|im_user|>",
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
                '<|tool_call_argument_begin|>{"a": "x<|im_user|>y"}'
                "<|tool_call_end|><|tool_calls_section_end|>"
            ),
            False,
        ),
    ],
)
def test_a_call_whose_text_lacks_a_token_is_not_complete(
    format_: str, stray: str, written: str, *, is_complete: bool
) -> None:
    codec = codec_of(format_)
    events = codec.stream(None).push(ids_of(codec, written))
    assert [event.complete for event in events if isinstance(event, ActionEnd)] == [is_complete]
    assert stray in [event.text for event in events if isinstance(event, Notice)]
