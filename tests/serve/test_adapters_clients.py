"""`chatcodec.adapters`: what the real clients make of every golden stream is what `parse` reads."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import clients
import data
import pytest
from anthropic.types import Message
from chatcodec import Codec, StreamPool, collect
from chatcodec.adapters import Adapter, Usage, anthropic, openai_chat, openai_responses, plain
from chatcodec.events import ActionEnd, ActionStart, TurnEnd, TurnStart
from clients import message_seen, with_inputs
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from test_golden import cases, here, ids_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec.adapters import Chunk
    from chatcodec.events import Event

Case = dict[str, Any]

USAGE = Usage(prompt_tokens=11, completion_tokens=7, cached_tokens=4)


def adapters() -> list[Adapter]:
    return [
        openai_chat.ChunkStream(id="chatcmpl-1", model="m"),
        openai_responses.EventStream(id="resp_1", model="m"),
        anthropic.EventStream(id="msg_1", model="m"),
        plain.DeltaStream(),
    ]


def chunks_of(adapter: Adapter, pushes: Iterable[list[Event]]) -> list[Chunk]:
    chunks = [chunk for events in pushes for chunk in adapter.push(events)]
    return chunks + adapter.finish(USAGE)


def pushes_of(
    codec: Codec, prompt: list[int] | None, pushes: Iterable[list[int]], case: Case
) -> list[list[Event]]:
    stream = codec.stream(prompt)
    return [*map(stream.push, pushes), stream.finish(case.get("reason", "stop"))]


def turn_of(events: Iterable[Event]) -> list[Event]:
    """The events of the first assistant's turn."""
    turns: list[list[Event]] = [[]]
    for event in events:
        turns[-1].append(event)
        if isinstance(event, TurnEnd):
            turns.append([])
    for turn in turns:
        if turn and not (isinstance(turn[0], TurnStart) and turn[0].role != "assistant"):
            return turn
    return []


def without_ids(message: Chunk) -> Chunk:
    """A message without the ids of its calls, which a codec makes its own way."""
    calls = [{**call, "id": None} for call in message.get("tool_calls", ())]
    return {**message, "tool_calls": calls}


def check(message: Chunk, chunks: list[list[Chunk]], finish: tuple[str, str, str]) -> None:
    """What clients make of chunks in all shapes is the message, streamed or not."""
    chat, responses, messages, deltas = chunks
    assert without_ids(plain.collect(deltas)) == without_ids(message)
    expected = message_seen(message).said()
    seen = clients.chat_accumulated(chat)
    assert seen.said() == expected
    assert seen.tokens == (11, 7)
    assert clients.chat_by_hand(chat) == seen
    assert clients.chat_whole(openai_chat.collect(chat)) == seen
    assert seen.finish == finish[0]
    seen = clients.responses_accumulated(responses)
    assert seen.said() == expected
    assert seen.tokens == (11, 7)
    assert clients.responses_whole(openai_responses.collect(responses)) == seen
    assert seen.finish == finish[1]
    seen = clients.anthropic_accumulated(messages)
    assert seen.said() == with_inputs(message_seen(message)).said()
    assert seen.tokens == (11, 7)
    assert clients.anthropic_whole(anthropic.collect(messages)) == seen
    assert seen.finish == finish[2]


def finish_of(message: Chunk, events: Iterable[Event]) -> tuple[str, str, str]:
    """How each shape says why the turn ended."""
    reason = next((event.reason for event in events if isinstance(event, TurnEnd)), "length")
    if reason in {"length", "cancelled"}:
        return "length", "incomplete", "max_tokens"
    if "tool_calls" in message:
        return "tool_calls", "completed", "tool_use"
    return "stop", "completed", "end_turn"


def golden(codec: Codec, case: Case) -> tuple[list[int] | None, list[int]]:
    """A golden stream's prompt and ids."""
    after = case.get("after", "prompt")
    if after == "conversation":
        return [], ids_of(codec, case["parts"])
    prompt = None if isinstance(after, str) else ids_of(codec, after)
    return prompt, ids_of(codec, case["parts"])


@pytest.mark.parametrize(("format_", "case"), data.share(cases("stream"), 6))
def test_clients_reassemble_what_was_parsed(format_: str, case: Case) -> None:
    for vocab in here(case["vocabs"]):
        codec = data.load_case(format_, vocab, case)
        prompt, ids = golden(codec, case)
        pushes = pushes_of(codec, prompt, [[id_] for id_ in ids], case)
        turn = turn_of(itertools.chain(*pushes))
        message = collect(turn)
        parsed = codec.parse(ids, prompt).message
        # What is parsed as a whole was stopped by the model; a stream may have been cut.
        is_same = without_ids(message) == without_ids(parsed)
        assert is_same or parsed["role"] != "assistant" or "reason" in case
        by_one = [chunks_of(adapter, pushes) for adapter in adapters()]
        check(message, by_one, finish_of(message, turn))
        random_ = random.Random(len(ids))
        splits = [[ids]] + [[ids[:at], ids[at:]] for at in random_.sample(range(len(ids) + 1), 1)]
        for split in splits:
            parts = pushes_of(codec, prompt, split, case)
            for adapter, chunks in zip(adapters(), by_one, strict=True):
                assert folded(adapter, chunks_of(adapter, parts)) == folded(adapter, chunks)


@pytest.mark.parametrize(("format_", "case"), data.share(cases("stream"), 3, first=2))
def test_ids_that_a_model_wrote_are_kept(format_: str, case: Case) -> None:
    """As soon as they come; or whenever they come, where calls wait for them."""
    vocab = here(case["vocabs"])[0]
    codec = data.load_case(format_, vocab, case)
    prompt, ids = golden(codec, case)
    pushes = pushes_of(codec, prompt, [[id_] for id_ in ids], case)
    turn = turn_of(itertools.chain(*pushes))
    for wait, kind in ((False, ActionStart), (True, ActionEnd)):
        written = [event.id for event in turn if isinstance(event, kind)]
        expected = [id_ or f"made_{n}" for n, id_ in enumerate(written)]
        adapter = openai_chat.ChunkStream(
            id="-", model="m", wait_for_ids=wait, call_id=lambda n: f"made_{n}"
        )
        (choice,) = openai_chat.collect(chunks_of(adapter, pushes))["choices"]
        assert [call["id"] for call in choice["message"].get("tool_calls", ())] == expected


def folded(adapter: Adapter, chunks: list[Chunk]) -> Chunk:
    """What an adapter's chunks make."""
    match adapter:
        case openai_chat.ChunkStream():
            return openai_chat.collect(chunks)
        case openai_responses.EventStream():
            return openai_responses.collect(chunks)
        case anthropic.EventStream():
            return anthropic.collect(chunks)
        case _:
            return plain.collect(chunks)


@pytest.mark.parametrize(("format_", "case"), data.share(cases("stream"), 3, first=1))
def test_a_stream_may_be_cut_after_any_id(format_: str, case: Case) -> None:
    codec = data.load_case(format_, here(case["vocabs"])[0], case)
    prompt, ids = golden(codec, case)
    for at in range(len(ids)):
        pushes = pushes_of(codec, prompt, [ids[:at]], {"reason": "length"})
        turn = turn_of(itertools.chain(*pushes))
        message = collect(turn)
        chat, responses, messages, deltas = (
            folded(adapter, chunks_of(adapter, pushes)) for adapter in adapters()
        )
        finish = finish_of(message, turn)
        assert without_ids(deltas) == without_ids(message)
        seen = clients.chat_seen(ChatCompletion.model_validate(chat))
        assert (seen.said(), seen.finish) == (message_seen(message).said(), finish[0])
        seen = clients.responses_seen(Response.model_validate(responses))
        assert (seen.said(), seen.finish) == (message_seen(message).said(), finish[1])
        seen = clients.anthropic_seen(Message.model_validate(messages))
        assert seen.said() == with_inputs(message_seen(message)).said()
        assert seen.finish == finish[2]


@pytest.mark.parametrize("format_", ["internlm2", "mixtral-8x22b", "qwen2"])
def test_streams_of_a_pool_do_not_mix(format_: str) -> None:
    """A pool's streams, an id of each at a time, give each adapter what it would have alone."""
    case_list = [case for name, case in (p.values for p in cases("stream")) if name == format_]
    case_list = [case for case in case_list if "after" not in case and "reason" not in case]
    vocab = here(case_list[0]["vocabs"])[0]
    codec = data.load_format(format_, vocab)
    completions = [ids_of(codec, case["parts"]) for case in case_list]
    pool = StreamPool(codec)
    slots = [pool.open() for _ in completions]
    told = {slot: adapters() for slot in slots}
    chunks: dict[int, list[list[Chunk]]] = {slot: [[], [], [], []] for slot in slots}
    for step in range(max(map(len, completions))):
        running = [
            (slot, ids[step])
            for slot, ids in zip(slots, completions, strict=True)
            if step < len(ids)
        ]
        for slot, event in zip(*pool.push(*map(list, zip(*running, strict=True))), strict=True):
            for adapter, out in zip(told[slot], chunks[slot], strict=True):
                out.extend(adapter.push([event]))
    for slot, ids in zip(slots, completions, strict=True):
        last = pool.finish(slot)
        for adapter, out in zip(told[slot], chunks[slot], strict=True):
            out.extend(adapter.push(last) + adapter.finish(USAGE))
        alone = pushes_of(codec, None, [[id_] for id_ in ids], {})
        assert chunks[slot] == [chunks_of(adapter, alone) for adapter in adapters()]
