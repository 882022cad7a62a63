"""What a request asks of a response: stop strings, log probabilities, choices, calls."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import data
import pytest
from anthropic.types import Message
from chatcodec import Codec
from chatcodec.adapters import Usage, anthropic, openai_chat, openai_responses, plain, sse
from chatcodec.adapters.run import Generated, achunks, chunks
from chatcodec.adapters.stops import StopStrings
from chatcodec.events import (
    ActionDelta,
    ActionEnd,
    ActionStart,
    Event,
    Notice,
    Reasoning,
    Text,
    TurnEnd,
)
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ALPHABET = "abE "
CALL: list[Event] = [
    ActionStart(0, "function", "f"),
    ActionDelta(0, "{}"),
    ActionEnd(0, complete=True, name="f"),
]
SECOND: list[Event] = [
    ActionStart(1, "function", "g"),
    ActionDelta(1, "{}"),
    ActionEnd(1, complete=True, name="g"),
]


def chat(**options: Any) -> openai_chat.ChunkStream:  # noqa: ANN401
    return openai_chat.ChunkStream(id="chatcmpl-7", model="m", **options)


# Stop strings.


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def naive(whole: str, strings: list[str]) -> tuple[str, str | None]:
    """What a server keeps that looks at all of the text after each character."""
    for end in range(len(whole) + 1):
        found = [(whole.index(stop), stop) for stop in strings if stop in whole[:end]]
        if found:
            start, stop = min(found)
            return whole[:start], stop
    return whole, None


@given(
    st.lists(st.text(ALPHABET, max_size=5), max_size=8),
    st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3, unique=True),
)
def test_text_ends_where_a_stop_string_begins(parts: list[str], strings: list[str]) -> None:
    whole = "".join(parts)
    stops = StopStrings(strings)
    events: list[Event] = []
    for at, part in enumerate(parts):
        events += stops.push([Text(part, (at, at + 1))])
        longest = max(map(len, strings), default=1)
        if stops.matched is None:
            assert len("".join(parts[: at + 1])) - len(text_of(events)) < longest
    events += stops.finish()
    kept, matched = naive(whole, strings)
    assert (text_of(events), stops.matched) == (kept, matched)
    assert (matched is not None) == (bool(events) and isinstance(events[-1], TurnEnd))


def test_a_stop_string_is_of_text_alone() -> None:
    stops = StopStrings("END")
    events: list[Event] = [Reasoning("END"), *CALL, Text("EN"), Notice("malformed", "END")]
    assert stops.push(events) == [Reasoning("END"), *CALL, Notice("malformed", "END")]
    assert stops.push([ActionStart(0, "code", None)]) == [Text("EN"), ActionStart(0, "code", None)]
    assert stops.push([Text("a END b", (3, 5)), TurnEnd("length")]) == [
        Text("a ", (3, 5)),
        TurnEnd("stop", tokens=(5, 5)),
    ]
    assert stops.push([Text("more")]) == stops.finish() == []
    with pytest.raises(ValueError, match="stop string is empty"):
        StopStrings(["a", ""])


# The loop of a server.


class Source:
    """Ids of an engine that says whether it was closed."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self.given = 0
        self.closed = False

    def plain(self) -> Iterator[int]:
        try:
            for id_ in self.ids:
                self.given += 1
                yield id_
        finally:
            self.closed = True

    async def awaited(self) -> AsyncIterator[int]:
        try:
            for id_ in self.ids:
                await asyncio.sleep(0)
                self.given += 1
                yield id_
        finally:
            self.closed = True


@pytest.mark.parametrize(
    ("options", "said", "finish", "given"),
    [
        ({}, "one two three", "stop", None),
        ({"stop": "two"}, "one ", "stop", None),
        ({"stop": ["e t"]}, "on", "stop", None),
        ({"limit": 2}, None, "length", 2),
        ({"limit": 0}, "", "length", 1),
    ],
)
@pytest.mark.parametrize("awaited", [False, True])
def test_a_response_ends_and_its_engine_is_closed(  # noqa: PLR0913, PLR0917
    embedded: Codec,
    options: dict[str, Any],
    said: str | None,
    finish: str,
    given: int | None,
    awaited: bool,  # noqa: FBT001
) -> None:
    ids = [*embedded.vocab.encode("one two three"), embedded.stop_ids[0], 5, 6]
    source, stream, adapter = Source(ids), embedded.stream(), chat()
    if awaited:

        async def all_chunks() -> list[Any]:
            run = achunks(source.awaited(), stream, adapter, prompt_tokens=3, **options)
            return [chunk async for chunk in run]

        told = asyncio.run(all_chunks())
    else:
        told = list(chunks(source.plain(), stream, adapter, prompt_tokens=3, **options))
    completion = openai_chat.collect(told)
    choice = completion["choices"][0]
    assert source.closed
    assert choice["finish_reason"] == finish
    if said is None:
        said = embedded.vocab.decode(ids[:2])
    assert choice["message"]["content"] == said
    assert source.given == given or (given is None and source.given < len(ids))
    most = options.get("limit", source.given)
    assert completion["usage"]["completion_tokens"] == min(source.given, most)


def test_a_consumer_that_leaves_closes_the_engine(embedded: Codec) -> None:
    source = Source([*embedded.vocab.encode("one two three")])
    run = chunks(source.plain(), embedded.stream(), chat())
    next(run)
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert source.closed

    async def leave() -> Source:
        source = Source([*embedded.vocab.encode("one two three")])
        run = achunks(source.awaited(), embedded.stream(), chat())
        await anext(run)
        await anext(run)
        await run.aclose()  # type: ignore[attr-defined]
        return source

    assert asyncio.run(leave()).closed


def test_items_may_be_several_ids_and_any_iterator(embedded: Codec) -> None:
    ids = [*embedded.vocab.encode("one two"), embedded.stop_ids[0]]
    told = list(chunks(iter([ids[:1], ids[1:]]), embedded.stream(), plain.DeltaStream()))
    assert plain.collect(told)["content"] == "one two"


# Log probabilities.


def entry(at: int) -> dict[str, Any]:
    return {"token": str(at), "logprob": -float(at), "bytes": None, "top_logprobs": []}


@given(draw=st.data())
def test_each_entry_goes_with_the_text_of_its_id(draw: st.DataObject) -> None:
    codec = Codec("internlm2", vocab="embedded")
    control, encode = codec.vocab.control, codec.vocab.encode
    text = draw.draw(st.text("aé🦜 ①", max_size=20))
    call = [control["<|action_start|>"], control["<|plugin|>"], *encode('\n{"name": "f", ')]
    call += [*encode('"parameters": {}}'), control["<|action_end|>"]]
    ids = [*encode(text), *(call if draw.draw(st.booleans()) else []), codec.stop_ids[0]]
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    bounds = [0, *cuts, len(ids)]
    stream, adapter, lines = codec.stream(), chat(logprobs=True), sse.Lines(chat(logprobs=True))
    told, body = [], b""
    for start, end in itertools.pairwise(bounds):
        events = stream.push(ids[start:end])
        entries = [entry(at) for at in range(start, end)]
        told += adapter.push(events, entries)
        body += lines.push(events, entries)
    events = stream.finish()
    told += adapter.push(events) + adapter.finish()
    body += lines.push(events) + lines.finish()
    assert body == b"".join(map(sse.data, told)) + sse.DONE
    for chunk in told:
        ChatCompletionChunk.model_validate(chunk)
    completion = ChatCompletion.model_validate(openai_chat.collect(told))
    logprobs = completion.choices[0].logprobs
    known = logprobs.content if logprobs is not None else []
    assert [found.token for found in known or []] == [str(at) for at in range(len(encode(text)))]
    assert completion.choices[0].message.refusal is None


def test_an_entry_is_made_of_an_id() -> None:
    vocab = Codec("internlm2", vocab="embedded").vocab
    (parrot, *_) = vocab.encode("🦜")
    made = openai_chat.logprob(vocab, parrot, -math.inf, [(5, -0.5)])
    assert made["bytes"] == list(vocab.token_bytes(parrot))
    assert (made["logprob"], made["top_logprobs"][0]["logprob"]) == (-9999.0, -0.5)
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_responses_carry_log_probabilities() -> None:
    adapter = openai_responses.EventStream(id="resp_7", model="m", logprobs=True)
    told = adapter.push([Text("ab", (1, 3)), TurnEnd("stop", tokens=(3, 4))], map(entry, range(4)))
    told += adapter.finish()
    deltas = [event for event in told if event["type"] == "response.output_text.delta"]
    assert deltas[0]["logprobs"] == [entry(1), entry(2)]
    part = openai_responses.collect(told)["output"][0]["content"][0]
    assert part["logprobs"] == [entry(1), entry(2)]


# Several choices, and what the request allows.


def test_choices_have_ids_of_their_own_and_one_usage() -> None:
    choices = openai_chat.Choices(3, id="chatcmpl-7", model="m")
    told = [chunk for n in (2, 0, 1, 2) for chunk in choices.push(n, CALL if n else [Text("a")])]
    told += choices.finish(Usage(prompt_tokens=5, completion_tokens=9))
    completion = ChatCompletion.model_validate(openai_chat.collect(told))
    assert completion.usage is not None
    assert completion.usage.total_tokens == 14
    assert sum("usage" in chunk for chunk in told) == 1
    ids = [call.id for choice in completion.choices for call in choice.message.tool_calls or []]
    assert len(ids) == len(set(ids)) == 3
    assert completion.choices[0].message.content == "a"


@pytest.mark.parametrize(
    ("options", "names", "finish"),
    [
        ({}, ["f", "g"], "tool_calls"),
        ({"tool_choice": "required"}, ["f", "g"], "tool_calls"),
        ({"tool_choice": "none"}, [], "stop"),
        ({"parallel_tool_calls": False}, ["f"], "tool_calls"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            ["f", "g"],
            "stop",
        ),
    ],
)
def test_a_request_says_which_calls_are_shown(
    options: dict[str, Any], names: list[str], finish: str
) -> None:
    hidden: list[Event] = []
    events = [*CALL, *SECOND, TurnEnd("action")]
    adapter = chat(on_hidden=hidden.append, **options)
    told = [chunk for event in events for chunk in adapter.push([event])] + adapter.finish()
    lines = sse.Lines(chat(**options))
    body = b"".join(lines.push([event]) for event in events) + lines.finish()
    assert body == b"".join(map(sse.data, told)) + sse.DONE
    (choice,) = openai_chat.collect(told)["choices"]
    calls = choice["message"].get("tool_calls", [])
    assert [call["function"]["name"] for call in calls] == names
    assert choice["finish_reason"] == finish
    shown = 3 * len(names)
    assert hidden == [*CALL, *SECOND][shown:]


# A loop that is there already tells what the APIs do.


def asked() -> tuple[Codec, Any]:
    codec = Codec("internlm2", vocab="embedded")
    return codec, codec.encode([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize(
    ("stop", "reason", "told"),
    [
        ("ENE", "end_turn", None),
        ("END", "stop_sequence", "END"),
        (["x", "EN"], "stop_sequence", "EN"),
    ],
)
def test_a_stop_string_is_told_where_the_api_tells_it(
    stop: str | list[str], reason: str, told: str | None
) -> None:
    codec, prompt = asked()
    ids = [*codec.vocab.encode("so ENDS it"), codec.stop_ids[0]]
    adapter = anthropic.EventStream(id="msg_7", model="m")
    run = chunks(iter(ids), codec.stream(prompt), adapter, stop=stop, prompt_tokens=len(prompt))
    message = Message.model_validate(anthropic.collect(run))
    assert (message.stop_reason, message.stop_sequence) == (reason, told)
    assert message.content[0].type == "text"
    assert message.content[0].text == ("so ENDS it" if told is None else "so ")


def test_reasoning_is_counted() -> None:
    """The ids that it was read from, which what opens it is one of."""
    codec = data.load_format("qwen3", "qwen3")
    prompt = codec.encode([{"role": "user", "content": "Hi"}])
    control, encode = codec.vocab.control, codec.vocab.encode
    thought = encode("I think, so 🦜.")
    ids = [control["<think>"], *thought, control["</think>"], *encode("So"), codec.stop_ids[0]]
    for step in (1, 3, len(ids)):
        items = (ids[at : at + step] for at in range(0, len(ids), step))
        run = chunks(items, codec.stream(prompt), chat(), prompt_tokens=len(prompt))
        usage = openai_chat.collect(run)["usage"]
        assert usage["completion_tokens_details"]["reasoning_tokens"] == len(thought) + 1
        assert usage["completion_tokens"] == len(ids)


def test_log_probabilities_come_with_the_ids() -> None:
    codec, prompt = asked()
    ids = [*codec.vocab.encode("a 🦜 b END c"), codec.stop_ids[0]]
    entries = [openai_chat.logprob(codec.vocab, id_, -float(at)) for at, id_ in enumerate(ids)]

    async def source(step: int) -> AsyncIterator[Generated]:
        for at in range(0, len(ids), step):
            yield Generated(ids[at : at + step], entries[at : at + step])

    async def run(step: int, **options: Any) -> list[Any]:  # noqa: ANN401
        stream = codec.stream(prompt)
        told = achunks(source(step), stream, chat(logprobs=True), **options)
        return [chunk async for chunk in told]

    for step in (1, 2, len(ids)):
        (whole,) = openai_chat.collect(asyncio.run(run(step)))["choices"]
        assert whole["logprobs"]["content"] == entries[:-1]
        (cut,) = openai_chat.collect(asyncio.run(run(step, stop="END")))["choices"]
        known = cut["logprobs"]["content"]
        told = b"".join(bytes(entry["bytes"]) for entry in known).decode()
        assert told == cut["message"]["content"]
        assert [each["logprob"] for each in known] == [-float(at) for at in range(len(known))]


def test_choices_are_run_one_by_one_and_told_one_usage() -> None:
    codec, prompt = asked()
    choices = openai_chat.Choices(2, id="chatcmpl-7", model="m")
    told: list[Any] = []
    for adapter, text in zip(choices.adapters, ["a", "b"], strict=True):
        ids = [*codec.vocab.encode(text), codec.stop_ids[0]]
        told += chunks(iter(ids), codec.stream(prompt), adapter)
    usage = Usage(prompt_tokens=len(prompt), completion_tokens=4)
    told += choices.finish(usage) + choices.finish(usage)
    for chunk in told:
        ChatCompletionChunk.model_validate(chunk)
    assert sum("usage" in chunk for chunk in told) == 1
    completion = ChatCompletion.model_validate(openai_chat.collect(told))
    assert [choice.message.content for choice in completion.choices] == ["a", "b"]
