"""Calls in JSON between tokens, as models write them: several in one block, and in lists."""

from __future__ import annotations

import pytest
from completions import calls_of, codec_of, ids_of, notices_of, told

F = '{"name": "f", "arguments": {"a": "}{"}}'
G = '{"arguments": {}, "name": "g"}'
BOTH = [("f", {"a": "}{"}), ("g", {})]
BLOCK = ("mended", "calls stand in one block")
LIST = ("mended", "calls stand in a list")

AROUND = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "qwen2.5": ("<tool_call>\n", "\n</tool_call>"),
    "qwen3": ("<tool_call>\n", "\n</tool_call>"),
    "internlm2": ("<|action_start|><|plugin|>\n", "<|action_end|>"),
}
"""What stands around a call."""


@pytest.mark.parametrize("between", ["", "\n", ",", " , ", "\n\n"])
@pytest.mark.parametrize("format_", AROUND)
def test_several_objects_in_one_block(format_: str, between: str) -> None:
    before, after = AROUND[format_]
    events = told(codec_of(format_), f"Hi.{before}{F}{between}{G}{after}")
    assert calls_of(events) == BOTH
    assert notices_of(events) == [BLOCK]


@pytest.mark.parametrize("format_", AROUND)
def test_a_list_of_objects(format_: str) -> None:
    before, after = AROUND[format_]
    codec = codec_of(format_)
    for text in (f"[{F}, {G}]", f" [ {F}\n,{G} ] ", f"[{F} {G}"):
        events = told(codec, f"{before}{text}{after}")
        assert calls_of(events) == BOTH
        assert notices_of(events) == [LIST, BLOCK]
    one = told(codec, f"{before}[{F}]{after}")
    assert calls_of(one) == BOTH[:1]
    assert notices_of(one) == [LIST]


@pytest.mark.parametrize("format_", AROUND)
def test_blocks_after_each_other_are_as_they_were(format_: str) -> None:
    before, after = AROUND[format_]
    events = told(codec_of(format_), f"{before}{F}{after}\n{before}{G}{after}")
    assert calls_of(events) == BOTH
    assert notices_of(events) == []


@pytest.mark.parametrize("format_", AROUND)
@pytest.mark.parametrize("rest", ["}", "]", ",", ", x", "x", '"{', ",,"])
def test_what_follows_an_object_and_is_no_call_is_told(format_: str, rest: str) -> None:
    before, after = AROUND[format_]
    events = told(codec_of(format_), f"{before}{F}{rest}{after}")
    assert calls_of(events) == BOTH[:1]
    assert [(kind, text.strip()) for kind, text in notices_of(events)] == [("malformed", rest)]


@pytest.mark.parametrize("format_", AROUND)
@pytest.mark.parametrize("object_", ["{}", '{"a": 1}', '{"nam', "{x"])
def test_an_object_that_is_no_call_is_lost_nowhere(format_: str, object_: str) -> None:
    before, after = AROUND[format_]
    events = told(codec_of(format_), f"{before}{F}, {object_}{after}")
    assert calls_of(events) == BOTH[:1]
    texts = "".join(getattr(event, "text", "") for event in events)
    assert object_ in texts


@pytest.mark.parametrize("format_", AROUND)
@pytest.mark.parametrize("text", ["[", "[1]", "[]", "[[", "[{}]"])
def test_a_list_of_what_are_no_calls_is_text(format_: str, text: str) -> None:
    before, after = AROUND[format_]
    events = told(codec_of(format_), f"{before}{text}{after}")
    assert calls_of(events) == []
    texts = "".join(getattr(event, "text", "") for event in events)
    assert text in texts


@pytest.mark.parametrize("format_", AROUND)
def test_what_is_cut_off_is_not_mended(format_: str) -> None:
    before, _ = AROUND[format_]
    codec = codec_of(format_)
    text = f"{before}[{F}, {G}"
    for end in range(len(before) + 1, len(text)):
        events = told(codec, text[:end], reason="length")
        assert "what closes the call is missing" not in dict(notices_of(events)).values()


@pytest.mark.parametrize("format_", AROUND)
def test_an_object_without_a_name_is_text_with_the_stop_id_and_without(format_: str) -> None:
    """An engine may leave the id out that stopped the model."""
    codec = codec_of(format_)
    before, _ = AROUND[format_]
    written = before + '{"nom": "f", "arguments": {}}'
    ids = ids_of(codec, written)
    message = codec.parse(ids, None).message
    assert "tool_calls" not in message
    assert codec.parse([*ids, codec.stop_ids[0]], None).message == message
    assert '"nom"' in message["content"]
    # A name may come after the arguments where the stream is cut.
    stream = codec.stream(None)
    assert calls_of(stream.push(ids) + stream.finish("length")) == [("", {})]
