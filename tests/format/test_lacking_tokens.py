"""Codecs on vocabularies that lack tokens of what only some conversations have."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import data
import pytest
from chatcodec import Codec, MessageError, Vocab, VocabError
from hypothesis import given
from hypothesis import strategies as st

PLAIN: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "And now?"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
CALL: dict[str, Any] = {
    "role": "assistant",
    "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}],
}


def appended() -> dict[str, list[str]]:
    """The formats whose golden cases append all of their tokens to the embedded vocabulary."""
    found = {}
    for path in sorted((data.ROOT / "tests" / "golden").glob("*.json")):
        golden = json.loads(path.read_text(encoding="utf-8"))
        if "appended" in golden["vocabs"]:
            found[golden["format"]] = golden["special_tokens"]
    return found


APPENDED = appended()
NEED_ALL = ("ernie4.5:thinking", "functiongemma", "gemma4", "qwen3:qwq", "step3")
"""The formats that no vocabulary without the tokens of calls is taken for."""
SOME = [format_ for format_ in APPENDED if format_ not in NEED_ALL]
FIRST = Vocab.embedded().size


def bind(format_: str, spellings: list[str]) -> Codec:
    """A codec on a vocabulary with some of the format's tokens, with their ids among all."""
    ids = {spelling: FIRST + at for at, spelling in enumerate(APPENDED[format_])}
    kept = {spelling: ids[spelling] for spelling in spellings}
    # The last id is there, so that no vocabulary has others than these.
    kept.setdefault("<|filler|>", FIRST + len(ids))
    return Codec(format_, Vocab.load(data.EMBEDDED_MODEL, special_tokens=kept))


def plain_tokens(format_: str) -> list[str]:
    """The tokens that a plain conversation has, in all ways in which it may be prompted."""
    codec = bind(format_, APPENDED[format_])
    used: set[int] = set()
    for last in range(1, 4):
        for system in ([], [{"role": "system", "content": "S"}]):
            # Formats without a system turn.
            with contextlib.suppress(MessageError):
                used |= {*codec.encode([*system, *PLAIN[:last]])}
    return [spelling for spelling in APPENDED[format_] if codec.vocab.control[spelling] in used]


@pytest.mark.parametrize("format_", NEED_ALL)
def test_some_formats_need_all_of_their_tokens(format_: str) -> None:
    with pytest.raises(VocabError, match="lacks control tokens of format"):
        bind(format_, plain_tokens(format_))


def test_there_are_such_formats() -> None:
    assert len(APPENDED) >= 12


@pytest.mark.parametrize("format_", data.share(SOME, 6))
def test_plain_chat_needs_the_tokens_of_plain_chat(format_: str) -> None:
    whole, few = bind(format_, APPENDED[format_]), bind(format_, plain_tokens(format_))
    for messages in (PLAIN[:1], PLAIN[:2], PLAIN):
        encoding = few.encode(messages)
        assert encoding.ids == whole.encode(messages).ids
        assert few.decode(encoding.ids) == few.canonical(messages)
    assert few.generation_prompt_ids == whole.generation_prompt_ids
    assert set(few.stop_ids) <= set(whole.stop_ids)
    # A turn of the user's ends an answer where the format has no other token for that.
    stops = [*few.stop_ids] or [few.vocab.control["<|user|>"]]
    answer = [*few.vocab.encode("Hello."), stops[0]]
    assert few.parse(answer).message == whole.parse(answer).message


@pytest.mark.parametrize("format_", data.share(SOME, 6))
def test_what_needs_a_token_that_is_not_there_says_so(format_: str) -> None:
    whole, few = bind(format_, APPENDED[format_]), bind(format_, plain_tokens(format_))
    lacking = [spelling for spelling in APPENDED[format_] if spelling not in few.vocab.control]
    result = {"role": "tool", "content": "4"}
    conversations: list[tuple[list[dict[str, Any]], Any]] = [
        ([PLAIN[0], CALL], None),
        ([PLAIN[0], CALL, result], None),
        (PLAIN[:1], TOOLS),
    ]
    for messages, tools in conversations:
        try:
            expected = whole.encode(messages, tools=tools).ids
        except MessageError:
            continue  # which the format does not have at all
        try:
            assert few.encode(messages, tools=tools).ids == expected
        except MessageError as error:
            assert any(f"`{spelling}`" in str(error) for spelling in lacking)  # noqa: PT017


@given(draw=st.data())
def test_any_tokens_give_the_whole_formats_ids_or_an_error(draw: st.DataObject) -> None:
    format_ = draw.draw(st.sampled_from(sorted(APPENDED)))
    known = APPENDED[format_]
    kept = [spelling for spelling in known if draw.draw(st.integers(0, 3))]
    try:
        codec = bind(format_, kept)
    except VocabError as error:
        assert "lacks control tokens" in str(error)  # noqa: PT017
        plain = set(plain_tokens(format_))
        # What a prompt or the model opens is closed by the model.
        plain |= {f"</{it[1:]}" for it in plain | set(kept)} & set(known)
        assert format_ in NEED_ALL or not plain <= set(kept)
        return
    whole = bind(format_, known)
    for messages in (PLAIN[:1], PLAIN, [PLAIN[0], CALL]):
        try:
            encoding = codec.encode(messages)
        except MessageError:
            continue
        assert encoding.ids == whole.encode(messages).ids
        assert codec.decode(encoding.ids) == codec.canonical(messages)


def test_r1_is_spoken_by_models_without_its_tool_tokens() -> None:
    """The distilled models have another vocabulary, with R1's turns and none of its calls."""
    ids = {"<｜begin▁of▁sentence｜>": FIRST, "<｜end▁of▁sentence｜>": FIRST + 1}
    ids |= {"<｜User｜>": FIRST + 2, "<｜Assistant｜>": FIRST + 3}
    ids |= {"<think>": FIRST + 4, "</think>": FIRST + 5}
    codec = Codec("deepseek:r1", Vocab.load(data.EMBEDDED_MODEL, special_tokens=ids))
    assert codec.format.name == "deepseek:r1"
    encode = codec.vocab.encode
    answer = codec.parse([*encode("Hm.\n"), FIRST + 5, *encode("\n\nYes."), FIRST + 1])
    assert answer.message == {"role": "assistant", "content": "Yes.", "reasoning": "Hm."}
    with pytest.raises(MessageError, match="on a vocabulary without `<｜tool▁") as raised:
        codec.encode([PLAIN[0], CALL])
    assert raised.value.path == "messages[1].tool_calls"


def test_a_part_whose_tokens_are_lacking_says_which() -> None:
    codec = bind("gemma3", plain_tokens("gemma3"))
    image = [{"role": "user", "content": [{"type": "image"}]}]
    with pytest.raises(MessageError) as caught:
        codec.encode(image)
    tokens = "`<start_of_image>` or `<end_of_image>` or `<image_soft_token>`"
    assert f'is "image", expected "text": the vocabulary lacks {tokens}' in str(caught.value)
