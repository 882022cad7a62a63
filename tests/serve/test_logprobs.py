"""Log probabilities of an answer: joined, their tokens are its content, however it comes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec
from chatcodec.adapters import openai_chat, openai_responses
from chatcodec.adapters.run import Generated, chunks
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

ASKED: dict[str, Any] = {"role": "user", "content": "?"}
TEXT = st.text(" a\nb<é🦜tｈink>/|im_end\t1.", max_size=24)
CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": "b"}}}


def codecs() -> list[str]:
    return ["internlm2", "qwen3", "harmony", "llama2"]


def load(name: str) -> Codec:
    files = {"qwen3": "qwen3", "harmony": "gpt-oss", "llama2": "llama2"}
    if name not in files:
        return Codec(name, vocab="embedded")
    data.find(data.FILES[files[name]])
    return data.load_format(name, files[name])


@pytest.mark.parametrize("name", codecs())
@settings(max_examples=40 * (10 if data.LONG else 1))
@given(draw=st.data())
def test_entries_joined_are_the_content(name: str, draw: st.DataObject) -> None:
    codec = load(name)
    answer: dict[str, Any] = {"role": "assistant", "content": draw.draw(TEXT)}
    thinks = "thinking" in codec.format.options
    if thinks and draw.draw(st.booleans()):
        answer["reasoning_content"] = draw.draw(TEXT)
    if name != "llama2" and draw.draw(st.booleans()):
        answer["tool_calls"] = [CALL]
    request = openai_chat.read_request({"messages": [ASKED], "logprobs": True}, codec)
    prompt = request.encode()
    ids = codec.encode([ASKED, answer]).ids.tolist()[len(prompt) :]
    # A broken header of harmony's has text that no id has.
    extra = (
        draw.draw(st.lists(st.sampled_from(ids or [0]), max_size=2)) if name != "harmony" else []
    )
    ids = ids[: draw.draw(st.integers(0, len(ids)))] + extra
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    stop = draw.draw(st.lists(st.sampled_from(["im_e", "a", "\n", "🦜"]), max_size=2))

    def source() -> Iterator[Generated]:
        for start, end in itertools.pairwise([0, *cuts, len(ids)]):
            part = range(start, end)
            yield Generated(
                ids[start:end],
                [openai_chat.logprob(codec.vocab, ids[at], -float(at)) for at in part],
            )

    adapter = openai_chat.ChunkStream(id="chatcmpl-1", **request.adapter)
    told = list(chunks(source(), request.stream(prompt), adapter, stop=stop))
    (choice,) = openai_chat.collect(told)["choices"]
    entries = (choice["logprobs"] or {"content": []})["content"]
    joined = b"".join(bytes(entry["bytes"]) for entry in entries)
    # An answer may end within a character.
    assert joined.decode(errors="replace") == (choice["message"]["content"] or "")
    order = [-entry["logprob"] for entry in entries]
    assert order == sorted(set(order))
    events = openai_responses.EventStream(id="resp_1", model="m", logprobs=True)
    whole = openai_responses.collect(chunks(source(), request.stream(prompt), events, stop=stop))
    parts = [
        part for item in whole["output"] if item["type"] == "message" for part in item["content"]
    ]
    for part in parts:
        joined = b"".join(bytes(each["bytes"]) for each in part["logprobs"])
        assert joined.decode(errors="replace") == part["text"]


def test_reasoning_and_markers_are_no_content() -> None:
    codec = load("qwen3")
    answer = {"role": "assistant", "reasoning_content": "You", "content": "You said"}
    request = openai_chat.read_request({"messages": [ASKED], "logprobs": True}, codec)
    prompt = request.encode()
    ids = codec.encode([ASKED, answer]).ids.tolist()[len(prompt) :]
    adapter = openai_chat.ChunkStream(id="chatcmpl-1", **request.adapter)
    made = [openai_chat.logprob(codec.vocab, id_, -1.0) for id_ in ids]
    told = list(chunks(iter([Generated(ids, made)]), request.stream(prompt), adapter))
    (choice,) = openai_chat.collect(told)["choices"]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["You", " said"]


def test_a_control_token_has_no_bytes() -> None:
    vocab = Codec("internlm2", vocab="embedded").vocab
    entry = openai_chat.logprob(vocab, vocab.control["<|im_end|>"], -1.0)
    assert (entry["token"], entry["bytes"]) == ("<|im_end|>", [])
