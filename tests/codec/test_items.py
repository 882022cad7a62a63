"""Items of OpenAI's Responses: the assistant's items in a row are one turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import MessageError
from chatcodec.adapters import openai_responses
from completions import codec_of
from gateway_here import here
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatcodec import Codec

Item = dict[str, Any]

CODEC = codec_of("qwen3")
TEXTS = st.text(alphabet="ab <\n", min_size=1, max_size=6).map(lambda text: f"x{text}y")
ASKED: Item = {"role": "user", "content": "What is six times seven?"}


def easy(text: str) -> Item:
    """A message as a client writes one."""
    return {"role": "assistant", "content": text}


def said(text: str) -> Item:
    """A message as a response has it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    whole = {"id": "m", "status": "completed", "content": [part]}
    return {"type": "message", "role": "assistant", **whole}


def thought(text: str) -> Item:
    return {"id": "r", "type": "reasoning", "summary": [], "content": [_thought(text)]}


def summed(text: str) -> Item:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def _thought(text: str) -> Item:
    return {"type": "reasoning_text", "text": text}


def call(id_: str) -> Item:
    return {"type": "function_call", "call_id": id_, "name": f"f_{id_}", "arguments": "{}"}


def output(id_: str) -> Item:
    return {"type": "function_call_output", "call_id": id_, "output": f"of {id_}"}


def asked(text: str) -> Item:
    return {"role": "user", "content": text}


IDS = st.sampled_from("abc")
ASSISTANTS = st.one_of(
    TEXTS.map(easy), TEXTS.map(said), TEXTS.map(thought), TEXTS.map(summed), IDS.map(call)
)
OTHERS = st.one_of(IDS.map(output), TEXTS.map(asked))
LISTS = st.lists(st.one_of(ASSISTANTS, ASSISTANTS, OTHERS), max_size=9)


def folded(items: Sequence[Item]) -> list[Item]:
    """The items as messages of chat completions: those of the assistant in a row are one.

    Two messages without a type are two turns, as they are in chat completions.
    """
    messages: list[Item] = []
    has_item = False
    for item in items:
        kind = item.get("type")
        if kind == "function_call_output":
            result = {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
            messages.append(result)
        elif item.get("role") == "user":
            messages.append(item)
        else:
            last = messages[-1] if messages else ASKED
            if last["role"] != "assistant" or not (has_item or kind):
                has_item = False
                messages.append(last := {"role": "assistant"})
            has_item = has_item or kind is not None
            _add(last, item)
    return messages


def _add(turn: Item, item: Item) -> None:
    match item:
        case {"type": "function_call", "call_id": id_, "name": name, "arguments": arguments}:
            function = {"name": name, "arguments": arguments}
            made = {"id": id_, "type": "function", "function": function}
            turn["tool_calls"] = [*turn.get("tool_calls", []), made]
        case {"type": "reasoning"}:
            texts = [part["text"] for part in item.get("content") or item["summary"]]
            turn["reasoning"] = turn.get("reasoning", "") + "".join(texts)
        case {"content": str(text)} | {"content": [{"text": text}]}:
            turn["content"] = turn.get("content", "") + text


def prompts(codec: Codec, given: list[Item]) -> list[list[int]]:
    """The ids of items by each door of the library."""
    read = openai_responses.read_request({"input": given, "model": "m"}, codec)
    encoded = codec.encode(given, add_generation_prompt=True)
    return [encoded.ids.tolist(), read.encode(add_generation_prompt=True).ids.tolist()]


@given(LISTS)
def test_items_of_the_assistant_in_a_row_are_one_turn(items: list[Item]) -> None:
    messages = folded([ASKED, *items])
    expected = CODEC.encode(messages, add_generation_prompt=True)
    for ids in prompts(CODEC, [ASKED, *items]):
        assert ids == expected.ids.tolist(), messages
    assert CODEC.canonical([ASKED, *items]) == CODEC.canonical(messages)
    assert CODEC.count([ASKED, *items]) == CODEC.count(messages)


@pytest.mark.parametrize("message", [easy, said])
def test_a_message_and_its_calls_are_one_turn(message: Callable[[str], Item]) -> None:
    turn = [thought("Six times seven."), message("Let me see."), call("a"), call("b")]
    history = [ASKED, *turn, output("a"), output("b")]
    assert folded(history) == [
        ASKED,
        {
            "role": "assistant",
            "reasoning": "Six times seven.",
            "content": "Let me see.",
            "tool_calls": [
                {"id": id_, "type": "function", "function": {"name": f"f_{id_}", "arguments": "{}"}}
                for id_ in "ab"
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "of a"},
        {"role": "tool", "tool_call_id": "b", "content": "of b"},
    ]
    with here(codec=CODEC) as of:
        assert of.post("/v1/responses", {"input": history}).status_code == 200
        by_items = of.asked[-1]["prompt"]
        assert of.chat(messages=folded(history)).status_code == 200
    assert of.asked[-1]["prompt"] == by_items
    assert prompts(CODEC, history) == [by_items, by_items]


def test_messages_of_chat_completions_are_turns_of_their_own() -> None:
    two = [ASKED, easy("One."), easy("Two.")]
    start = CODEC.vocab.control["<|im_start|>"]
    assert CODEC.encode(two, add_generation_prompt=False).ids.tolist().count(start) == len(two)


def test_parts_of_joined_items_are_named_as_the_client_sent_them() -> None:
    codec = codec_of("internlm2")
    history = [ASKED, thought("Hm."), said("Look."), summed("So."), call("a"), output("a")]
    found = codec.encode(history, on_unsupported="drop").dropped
    assert [(each.path, each.what) for each in found] == [
        ("messages[1]", "reasoning"),
        ("messages[3]", "reasoning"),
    ]
    with pytest.raises(MessageError) as caught:
        codec.encode(history)
    assert caught.value.path == "messages[1].reasoning"
