"""Calls that a model writes before its reasoning has ended: what servers take them for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chatcodec import StreamPool, collect
from completions import calls_of, codec_of, ids_of, message_of, notices_of, told

if TYPE_CHECKING:
    from typing import Literal

NOTICE = ("mended", "a call in reasoning was read as reasoning")

HERMES = '<tool_call>\n{"name": "f", "arguments": {"a": "b"}}\n</tool_call>'
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
    '<|tool_call_argument_begin|>{"a": "b"}<|tool_call_end|><|tool_calls_section_end|>'
)
LFM2 = '<|tool_call_start|>[f(a="b")]<|tool_call_end|>'
CALLS = {
    "qwen3": HERMES,
    "qwen3:thinking": HERMES,
    "glm4.5": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>b</arg_value>\n</tool_call>",
    "deepseek:r1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n"
    '```json\n{"a": "b"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek:v3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>"
    '{"a": "b"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "minimax-m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">b</parameter>\n'
    "</invoke>\n</minimax:tool_call>",
    "kimi-k2.5": KIMI,
    "kimi-k2:thinking": KIMI,
    "lfm2": LFM2,
    "lfm2:2.5": LFM2,
    "lfm2:2.5-thinking": LFM2,
}
"""A call as each format that has reasoning writes it."""

EXECUTED = {"kimi-k2.5", "kimi-k2:thinking"}
"""Where servers take a call within reasoning for one, which ends it."""


def prompt_of(format_: str) -> str:
    """A prompt that has opened reasoning."""
    thinking = True if format_ == "deepseek:v3.1" else None
    prompt = codec_of(format_).encode([{"role": "user", "content": "x"}], thinking=thinking).text
    if prompt.rstrip("\n").endswith("<think>"):
        return prompt
    return f"{prompt}\n<think>" if format_ == "glm4.5" else f"{prompt}<think>"


@pytest.mark.parametrize("asked", [None, "text", "call"])
@pytest.mark.parametrize("format_", CALLS)
def test_what_a_call_in_reasoning_is(format_: str, asked: Literal["text", "call"] | None) -> None:
    codec, call = codec_of(format_), CALLS[format_]
    text = f"One.{call}Two.</think>Three."
    events = told(codec, text, prompt_of(format_), calls_in_reasoning=asked)
    message = message_of(events)
    is_call = asked == "call" or (asked is None and format_ in EXECUTED)
    assert message["content"] == "Three."
    if is_call:
        assert calls_of(events) == [("f", {"a": "b"})]
        assert message["reasoning"] == "One.Two."
        assert NOTICE not in notices_of(events)
    else:
        assert calls_of(events) == []
        assert message["reasoning"] == f"One.{call}Two."
        assert notices_of(events)[0] == NOTICE


UNCLOSED = ("mended", "what closes reasoning is missing")


def stop_of(format_: str) -> str:
    """The token that ends the model's turn."""
    codec = codec_of(format_)
    return codec.vocab.decode([codec.stop_ids[0]])


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("format_", CALLS)
def test_calls_right_before_the_end_count(format_: str, count: int, *, is_stopped: bool) -> None:
    codec, call = codec_of(format_), CALLS[format_]
    text = f"One.{call}" * count + (stop_of(format_) if is_stopped else "")
    # What comes between two calls makes the first a draft.
    events = told(codec, text, prompt_of(format_), calls_in_reasoning="text")
    assert calls_of(events) == [("f", {"a": "b"})]
    assert message_of(events)["reasoning"] == f"One.{call}" * (count - 1) + "One."
    assert UNCLOSED in notices_of(events)
    assert (NOTICE in notices_of(events)) == (count > 1)


@pytest.mark.parametrize("begun", ["<|im_start|>", "<|im_start|>assistant\n", "<|im_start|>user\n"])
@pytest.mark.parametrize("written", ["", "\n", "\n</"])
@pytest.mark.parametrize("format_", ["qwen3.5", "qwen3.8:low"])
def test_a_call_that_another_turn_ends_counts_as_at_the_end(
    format_: str, written: str, begun: str
) -> None:
    """What closes the call is missing, and what closes its turn."""
    codec = codec_of(format_)
    call = "<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>"
    prompt = prompt_of(format_)
    ends = [
        calls_of(told(codec, f"One.{call}{written}{end}", prompt, calls_in_reasoning="text"))
        for end in ("", stop_of(format_), begun)
    ]
    assert ends == [[("f", {"a": "b"})]] * 3


@pytest.mark.parametrize("format_", CALLS)
def test_a_call_that_is_cut_or_followed_by_text_is_a_draft(format_: str) -> None:
    codec, call = codec_of(format_), CALLS[format_]
    stop = stop_of(format_)
    for text in (f"One.{call}Two.{stop}", f"One.{call[: call.rindex('b')]}", f"One.{call}Two."):
        events = told(codec, text, prompt_of(format_), calls_in_reasoning="text")
        assert calls_of(events) == []
        assert UNCLOSED not in notices_of(events)
    events = told(
        codec, f"One.{call}", prompt_of(format_), calls_in_reasoning="text", reason="length"
    )
    assert calls_of(events) == []
    assert message_of(events)["reasoning"] == f"One.{call}"


@pytest.mark.parametrize(("size", "counts"), [(60_000, 1), (70_000, 0)])
def test_calls_that_are_held_have_a_bound(size: int, counts: int) -> None:
    codec = codec_of("qwen3")
    call = HERMES.replace('"b"', f'"{"b " * (size // 2)}"')
    stream = codec.stream(ids_of(codec, prompt_of("qwen3")))
    events = [*stream.push(ids_of(codec, f"One.{call}<|im_end|>")), *stream.finish()]
    assert len(calls_of(events)) == counts
    # A call that is too long for that is reasoning as it came.
    assert (call in message_of(events)["reasoning"]) == (counts == 0)


@pytest.mark.parametrize("format_", CALLS)
def test_calls_after_reasoning_are_calls(format_: str) -> None:
    codec, call = codec_of(format_), CALLS[format_]
    text = f"Draft: {call}</think>{call}"
    events = told(codec, text, prompt_of(format_), calls_in_reasoning="text")
    assert calls_of(events) == [("f", {"a": "b"})]
    assert message_of(events)["reasoning"] == f"Draft: {call}"


@pytest.mark.parametrize("format_", CALLS)
def test_reasoning_with_a_drafted_call_is_written_and_read_back(format_: str) -> None:
    codec, call = codec_of(format_), CALLS[format_]
    events = told(
        codec, f"Draft: {call}</think>Yes.", prompt_of(format_), calls_in_reasoning="text"
    )
    messages = [{"role": "user", "content": "x"}, message_of(events)]
    encoding = codec.encode(messages, add_generation_prompt=False)
    assert codec.decode(encoding.ids) == codec.canonical(messages)


def test_every_way_in_takes_the_option() -> None:
    codec = codec_of("qwen3:thinking")
    prompt, ids = ids_of(codec, prompt_of("qwen3:thinking")), ids_of(codec, f"{HERMES}</think>")
    history = ids_of(codec, f"<|im_start|>assistant\n<think>\n{HERMES}</think>")
    cases: list[tuple[Literal["text", "call"] | None, int]] = [(None, 0), ("text", 0), ("call", 1)]
    for asked, number in cases:
        parsed = codec.parse(ids, prompt, calls_in_reasoning=asked)
        assert len(parsed.message.get("tool_calls", [])) == number
        (message,) = codec.decode(history, calls_in_reasoning=asked)
        assert len(message.get("tool_calls", [])) == number
        pool = StreamPool(codec)
        slot = pool.open(prompt, calls_in_reasoning=asked)
        _, events = pool.push([slot] * len(ids), ids)
        message = collect([*events, *pool.finish(slot)])
        assert len(message.get("tool_calls", [])) == number
    with pytest.raises(ValueError, match='calls_in_reasoning="no", expected "text" or "call"'):
        codec.stream(calls_in_reasoning="no")  # type: ignore[arg-type]
