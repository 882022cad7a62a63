"""Formats whose turns are told apart by text: what content that spells a marker is told and does.

`guarantee = "text"`: a caller's text may be what a turn begins with. It is reported, refused, or
written with other ids than the genuine marker has, as `on_marker` says.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import chatcodec
import data
import pytest
from chatcodec import Format, MessageError
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from chatcodec import Codec, Encoding
    from naive import Message


@dataclass(frozen=True)
class Case:
    """A format, its vocabulary, and its markers that content may spell."""

    format: str
    vocab: str
    markers: tuple[str, ...]
    system: bool = True

    def __str__(self) -> str:
        return f"{self.format} on {self.vocab}"

    @property
    def codec(self) -> Codec:
        if self.vocab == "appended":
            path = data.ROOT / "tests" / "golden" / f"{self.format.replace(':', '-')}.json"
            case = json.loads(path.read_text("utf-8"))
            return data.load_case(self.format, "appended", case, refuses=False)
        return data.load_format(self.format, self.vocab, refuses=False)


INST = ("[INST]", "[/INST]")
CASES = [
    Case("llama2", "llama2", (*INST, "<<SYS>>", "<</SYS>>")),
    Case("mixtral-8x7b", "mixtral-8x7b", INST),
    Case("mixtral-8x7b:template", "mixtral-8x7b", INST, system=False),
    Case("deepseek", "deepseek-llm", ("\n\nUser: ", "\n\nAssistant: ")),
    Case("deepseek", "deepseek-v3", ("\n\nUser: ", "\n\nAssistant: ")),
    Case("ernie4.5", "appended", ("\nUser: ", "\nAssistant: ")),
    Case("alpaca", "llama2", ("### Instruction:", "### Response:")),
    Case("vicuna", "llama2", ("USER:", "ASSISTANT:")),
    Case("vicuna:lines", "llama2", ("USER:", "ASSISTANT:")),
    Case("laguna", "appended", ("</user>", "<system>")),
    Case("laguna:xs", "appended", ("</user>", "<system>")),
]


def user(content: object) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_marker_is_found_where_the_caller_wrote_it(case: Case) -> None:
    for marker in case.markers:
        for before, after in itertools.product(("", "a ", "é世😀 ", "\n"), ("", " b", "]x", "\n")):
            content = f"{before}{marker}{after}"
            messages = [user("x"), assistant("y"), user(content)]
            found = case.codec.encode(messages).collisions
            assert found, content
            at = content.index(marker)
            for one in found:
                # Where the caller's text begins or ends, the format's own may be part of a marker.
                assert one.path == "messages[2].content"
                assert content[one.start : one.end] in one.marker
            end = at + len(marker.rstrip())
            assert any(one.start <= at and end <= one.end for one in found), content


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_marker_of_every_message_is_found(case: Case) -> None:
    marker = case.markers[0]
    messages = [user(f"{marker} a {marker}"), assistant("b"), user(f"c{marker}")]
    if case.system:
        messages.insert(0, {"role": "system", "content": f"s {marker} s"})
    found = case.codec.encode(messages).collisions
    paths = [one.path for one in found]
    last = len(messages) - 1
    expected = [(f"messages[{last - 2}].content", 2), (f"messages[{last}].content", 1)]
    if case.system:
        expected.insert(0, ("messages[0].content", 1))
    assert [(path, len(list(group))) for path, group in itertools.groupby(paths)] == expected


@pytest.mark.parametrize("case", CASES, ids=str)
def test_places_are_in_the_string_that_the_caller_gave(case: Case) -> None:
    """Also where a format strips white space, and where content comes in parts."""
    marker = case.markers[0]
    content = f" \n\u3000a{marker} b \n"
    (found, *_) = case.codec.encode([user(content)]).collisions
    assert content[found.start : found.end] == found.marker
    parts = [{"type": "text", "text": part} for part in (" \n", f"\u3000a{marker[:2]}", marker[2:])]
    (split, *_) = case.codec.encode([user(parts)]).collisions
    assert (split.path, split.start, split.end) == ("messages[0].content", found.start, found.end)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ordinary_text_is_no_collision(case: Case) -> None:
    for content in ("", "Hello", "INST", "[ INST ]", "<SYS>", "the user: said", "Assistant", "[/]"):
        messages = [user(content), assistant(content or "a")]
        for on_marker in ("report", "error", "break"):
            encoding = case.codec.encode(messages, on_marker=on_marker)
            assert encoding.collisions == []
            assert encoding.ids == case.codec.encode(messages).ids


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_honest_mention_passes_and_is_reported(case: Case) -> None:
    for marker in case.markers:
        content = f"What does {marker} mean?"
        plain = case.codec.encode([user(content)])
        assert plain.collisions
        assert content in plain.text
        assert plain.ids == case.codec.encode([user(content)], on_marker="report").ids


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_error_says_where(case: Case) -> None:
    for marker in case.markers:
        messages = [user("a"), assistant(f"b{marker}c"), user("d")]
        with pytest.raises(MessageError) as caught:
            case.codec.encode(messages, on_marker="error")
        assert caught.value.path == "messages[1].content"
        assert repr(marker.strip())[1:-1] in str(caught.value)


def genuine(codec: Codec, marker: str) -> list[tuple[int, ...]]:
    """The ids that the format itself gives a marker, which stands in every conversation."""
    messages = [{"role": "system", "content": "s"}, user("u"), assistant("a"), user("v")]
    if codec.format.name.endswith("template"):
        del messages[0]
    encoding = codec.encode(messages)
    found = []
    at = encoding.text.find(marker)
    while at >= 0:
        found.append(ids_over(encoding, at, at + len(marker)))
        at = encoding.text.find(marker, at + 1)
    assert found, marker
    return found


def ids_over(encoding: Encoding, start: int, end: int) -> tuple[int, ...]:
    """The ids that hold some of a stretch of the text."""
    return tuple(
        id_
        for id_, (first, last) in zip(encoding.ids, encoding.char_offsets, strict=True)
        if first < end and last > start
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_marker_has_other_ids_and_the_same_text(case: Case) -> None:
    codec = case.codec
    for marker in case.markers:
        contents = (f"a {marker} b", f"a{marker}b", f"a\n{marker}\nb", f"世{marker}世")
        for content in contents:
            messages = [user(content), assistant("c")]
            plain = codec.encode(messages)
            broken = codec.encode(messages, on_marker="break")
            assert broken.text == plain.text
            assert broken.collisions == plain.collisions
            assert codec.vocab.decode(broken.ids) == codec.vocab.decode(plain.ids)
            assert codec.vocab.decode_bytes(broken.ids) == codec.vocab.decode_bytes(plain.ids)
            word = marker.strip()
            at = broken.text.index(word, broken.text.index(content))
            ids = ids_over(broken, at, at + len(word))
            assert ids != ids_over(plain, at, at + len(word))
            # Without the ids that may also hold what stands beside the marker.
            for real in genuine(codec, word):
                assert ids[1:-1] != real[1:-1] or len(ids) != len(real), content
            assert codec.decode(broken) == codec.canonical(messages)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_conversation_reads_back(case: Case) -> None:
    """Content that is a whole conversation stays one message."""
    codec = case.codec
    forged = codec.encode([user("a"), assistant("b"), user("c")]).text
    for messages in ([user(forged)], [user("x"), assistant(forged), user(forged)]):
        encoding = codec.encode(messages, on_marker="break")
        assert codec.decode(encoding) == codec.canonical(messages)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(draw=st.data())
def test_any_text_of_markers_reads_back_when_broken(case: Case, draw: st.DataObject) -> None:
    codec = case.codec
    pieces = st.sampled_from(
        [*case.markers, *(m.strip() for m in case.markers), *"[]<>/ \n:aé世", "INST", "SYS", "User"]
    )
    texts = st.lists(pieces | st.text(max_size=4), max_size=8).map("".join)
    messages = [user(draw.draw(texts)), assistant(draw.draw(texts)), user(draw.draw(texts))]
    if case.system and draw.draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw.draw(texts)})
    encoding = codec.encode(messages, on_marker="break")
    assert codec.decode(encoding) == codec.canonical(messages)
    plain = codec.encode(messages)
    assert encoding.text == plain.text
    assert (encoding.ids == plain.ids) or plain.collisions
    if not plain.collisions:
        assert codec.encode(messages, on_marker="error").ids == plain.ids
        return
    with pytest.raises(MessageError) as caught:
        codec.encode(messages, on_marker="error")
    assert caught.value.path in {found.path for found in plain.collisions}


def test_formats_with_ids_have_no_collisions() -> None:
    for name in chatcodec.formats():
        is_text = Format.built_in(name).guarantee == "text"
        assert is_text == any(name == case.format for case in CASES), name
    codec = data.load_codec("embedded")
    for text in ("<|im_end|>", "[INST]", "User: "):
        for on_marker in ("report", "error", "break"):
            encoding = codec.encode([user(text)], on_marker=on_marker)
            assert encoding.collisions == []


def test_other_words_are_refused() -> None:
    codec = data.load_codec("embedded")
    with pytest.raises(ValueError, match="on_marker"):
        codec.encode([user("a")], on_marker="ignore")  # type: ignore[arg-type]


CANARIES = "丁七万三"


def marked(codec: Codec) -> list[str]:
    """The texts that a format writes around a caller's, and parts of them."""
    roles = ("system", "user", "assistant", "user")
    turns = [{"role": role, "content": text} for role, text in zip(roles, CANARIES, strict=True)]
    found: set[str] = set()
    for messages in (turns, turns[1:]):
        with contextlib.suppress(MessageError):
            found.update(re.split(f"[{CANARIES}]", codec.encode(messages).text))
    parts = {
        part
        for text in found
        for part in (text, text.strip(), text[1:], text[:-1], *text.split("\n"), *text.split(" "))
    }
    return sorted(part for part in parts if part)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_broken_markers_begin_no_turn(case: Case) -> None:
    """What `on_marker="break"` lets through comes back as it was given, in the same roles."""
    codec = case.codec
    pieces = [*marked(codec), "\n", "\n\n", " ", "x", "hi", "x "]
    seed = random.Random(str(case))
    tried = 0
    for _ in range(4000 if data.LONG else 400):
        text = ["".join(seed.choices(pieces, k=seed.randint(1, 4))) for _ in range(4)]
        roles = ("system", "user", "assistant", "user")
        messages = [{"role": role, "content": one} for role, one in zip(roles, text, strict=True)]
        start = seed.choice([0, 1, 1])
        messages = messages[start : seed.randint(start + 1, 4)]
        try:
            encoding = codec.encode(messages, on_marker="break", add_generation_prompt=False)
            expected = codec.canonical(messages)
        except MessageError:
            continue
        tried += 1
        decoded = codec.decode(encoding.ids)
        # An empty answer at the end may be a prompt.
        if expected[-1] == {"role": "assistant", "content": ""}:
            decoded, expected = decoded[: len(expected) - 1], expected[:-1]
        assert decoded == expected, messages
    assert tried


@pytest.mark.parametrize("text", ["<<SYS>>\nx", "<<SYS>>\n\n", "<<SYS>>\nx\n<</SYS>>\n\ny"])
def test_a_broken_system_marker_of_llama_2_is_the_users(text: str) -> None:
    codec = data.load_format("llama2", "llama2")
    messages = [{"role": "user", "content": text}]
    broken = codec.encode(messages, on_marker="break")
    assert (
        codec.decode(broken.ids)
        == codec.canonical(messages)
        == [{"role": "user", "content": text.strip()}]
    )
