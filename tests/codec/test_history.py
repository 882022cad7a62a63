"""`encode(messages, history="append")`: answered turns stay as they were when they were last."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec
from chatcodec.errors import ChatCodecError, MessageError
from completions import codec_of
from each_codec import each_codec
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts

if TYPE_CHECKING:
    from chatcodec import Encoding

Message = dict[str, Any]
CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "look", "arguments": {"at": "Oslo"}},
}
TOOLS = [{"type": "function", "function": {"name": "look"}}]
ASK: Message = {"role": "user", "content": "Do I?"}


def answer(number: int, **more: Any) -> Message:  # noqa: ANN401
    said = {"role": "assistant", "content": f"Answer {number}.", **more}
    return {**said, "reasoning_content": f"Thought {number}, so."}


def conversation(*, has_reasoning: bool, has_calls: bool) -> list[Message]:
    called = answer(1, tool_calls=[CALL])
    result = {"role": "tool", "tool_call_id": "call00001", "name": "look", "content": "rain"}
    messages = [ASK, *([called, result] if has_calls else [])]
    messages += [answer(2), ASK, answer(3), ASK]
    for message in messages if not has_reasoning else ():
        message.pop("reasoning_content", None)
    return copy.deepcopy(messages)


def test_each_turn_is_written_as_it_was_when_it_was_last() -> None:
    checked = refused = 0
    for codec in each_codec(formats_of=5, templates_of=12):
        for has_reasoning in (True, False):
            for has_calls in (True, False):
                messages = conversation(has_reasoning=has_reasoning, has_calls=has_calls)
                tools = TOOLS if has_calls else None
                try:
                    codec.encode(messages, tools=tools)
                except ChatCodecError:
                    continue
                try:
                    check(codec, messages, tools)
                except ChatCodecError:
                    # What nobody reads, or no prompt of the format asks for.
                    refused += 1
                else:
                    checked += 1
    assert checked > 30
    assert refused < checked * 0.1, (refused, checked)


def check(codec: Codec, messages: list[Message], tools: list[Message] | None) -> None:
    whole = codec.encode(messages, tools=tools, history="append")
    plain = codec.encode(messages, tools=tools).text
    for message in messages:
        assert message["content"] in whole.text or message["content"] not in plain
    if {note.kind for note in whole.notes} - {"reasoning", "moved"}:
        return  # what no prompt of the template asks for, which the notes say
    generated = labelled(whole)
    at = 0
    for end, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        said = codec.encode(
            messages[: end + 1], tools=tools, add_generation_prompt=False, boundary="isolated"
        )
        own = [id_ for id_ in said.labels(last_only=True) if id_ != -100]
        # What follows an answer may be of its turn: the token that opens the next one, a newline.
        places = [n for n in range(at, at + 3) if generated[n : n + len(own)] == own]
        assert places, (codec, end)
        at = places[0] + len(own)
        thought = message.get("reasoning_content", "")
        assert thought in whole.text or thought not in said.text
    assert len(generated) - at < 3
    # The longer one begins with the shorter one, up to what asks for its next answer.
    shorter = codec.encode(
        messages[:-2], tools=tools, history="append", add_generation_prompt=False
    )
    same = shorter.ids.tolist()
    while same and same != whole.ids.tolist()[: len(same)]:
        same.pop()
    assert len(shorter) - len(same) <= 2
    if whole.text != plain:
        assert whole.notes


def labelled(encoding: Encoding) -> list[int]:
    return [id_ for id_ in encoding.labels() if id_ != -100]


@given(st.lists(hostile_texts(), min_size=1, max_size=4))
def test_what_nothing_leaves_out_is_what_encode_gives(texts: list[str]) -> None:
    codec = Codec("internlm2", vocab="embedded")
    messages: list[Message] = [ASK]
    for text in texts:
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": text}]
    append = codec.encode(messages, history="append", boundary="isolated")
    assert append.ids == codec.encode(messages, boundary="isolated").ids
    assert append.sources == codec.encode(messages, boundary="isolated").sources


def test_notes_say_what_is_left_out_otherwise() -> None:
    codec = codec_of("qwen3")
    messages = conversation(has_reasoning=True, has_calls=False)
    append = codec.encode(messages, history="append")
    assert append.text.count("Thought") == 2
    assert codec.encode(messages).text.count("Thought") == 0
    assert {note.kind for note in append.notes} == {"reasoning"}
    assert (
        codec.decode(append.ids)
        == codec.decode([*codec.encode(messages[:2], add_generation_prompt=False).ids])
        + codec.decode(append.ids)[2:]
    )
    assert codec.encode(messages[:2], history="append").ids == codec.encode(messages[:2]).ids


def test_what_is_wrong_has_its_path() -> None:
    codec = Codec("internlm2", vocab="embedded")
    messages = conversation(has_reasoning=False, has_calls=False)
    for at in (0, 2, len(messages) - 1):
        wrong = [*messages]
        wrong[at] = {"role": "critic", "content": "x"}
        with pytest.raises(MessageError) as error:
            codec.encode(wrong, history="append")
        assert error.value.path == f"messages[{at}].role"
    with pytest.raises(ValueError, match='expected one of "template", "append"'):
        codec.encode(messages, history="keep")  # type: ignore[arg-type]
    with pytest.raises(MessageError):
        codec.encode(["x"], history="append")  # type: ignore[list-item]
    with pytest.raises(TypeError):
        codec.encode(messages, history="append", effort=3)
