"""What a gateway remembers: prompts go on with the ids that were seen and sampled.

Agents with scripts run before the gateway's reading and keeping, on formats and templates.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import data
import pytest
import rollouts
from chatcodec import formats
from chatcodec.errors import ChatCodecError, VocabError
from chatcodec.serve.errors import ApiError
from chatcodec.serve.memory import MemoryStore
from chatcodec.serve.memory.said import History, said_of
from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.memory.turns import Turn
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_law import codec
from rollouts import Desk, Message, respelled, results
from test_template_codec import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Codec
    from chatcodec.serve.memory import Store
    from rollouts import Asked

HELLO: list[Message] = [{"role": "user", "content": "Begin"}]


def names() -> list[str]:
    """The formats and templates of a run: a sample, or all in a long one."""
    return [*data.share(sorted(formats()), 4), *data.share(PUBLISHED, 8)]


def rollout(name: str, seed: int, tools: list[Message] | None) -> Counter[str]:
    """An agent that only appends: each prompt begins with the last one and its answer, or says."""
    choose = random.Random(seed)
    desk = Desk(codec(name), choose, tools=tools)
    messages, last = HELLO, None
    counts: Counter[str] = Counter()
    for _ in range(5):
        try:
            asked = desk.ask(messages)
        except ApiError:
            break  # a format without a place for it
        check_said(desk.codec, messages, tools, asked.prompt)
        if last is not None:
            seen = last.prompt + last.sampled
            is_exact = asked.prompt[: len(seen)] == seen
            counts["exact" if is_exact else "told"] += 1
            told = asked.recalled
            assert told.known + told.unknown == len(desk.asked) - 1
            assert is_exact or told.unknown, (name, told)
            assert is_exact or told.ids < len(seen)
        last = asked
        messages = [*messages, respelled(asked.message, choose), *results(asked.message, choose)]
    return counts


def check_said(
    codec: Codec, messages: list[Message], tools: list[Message] | None, prompt: list[int]
) -> None:
    """What a client said last is in the prompt, if a new encoding has it."""
    try:
        anew = codec.encode(messages, tools=tools, on_arguments="string").text
    except ChatCodecError:
        return
    text = codec.vocab.decode(prompt)
    for message in messages[-2:]:
        if message["role"] != "assistant":
            said = message["content"].strip()
            assert text.count(said) >= min(anew.count(said), 1), (codec, said)


def test_a_prompt_begins_with_what_was_seen_and_sampled() -> None:
    counts: Counter[str] = Counter()
    for name in names():
        try:
            codec(name)
        except VocabError:
            continue  # a format whose control tokens the vocabulary has as text
        for tools in (None, rollouts.TOOLS):
            for seed in range(30 if data.LONG else 3):
                counts += rollout(name, data.seed() + seed, tools)
    assert counts["exact"] > 100
    # Answers that no model of the format gives: a call that is cut in its head, stray control.
    assert counts["told"] < counts["exact"] * 0.05, counts


ACTIONS = ("append", "retry", "branch", "edit", "compact", "stranger")


@given(st.lists(st.sampled_from(ACTIONS), min_size=2, max_size=12), st.integers(0, 1 << 30))
def test_whatever_a_client_does_a_prompt_begins_with_what_it_has_seen(
    actions: list[str], seed: int
) -> None:
    choose = random.Random(seed)
    desk = Desk(codec("qwen3"), choose, tools=rollouts.TOOLS)
    threads: list[list[Message]] = [HELLO]
    answered: dict[str, list[tuple[list[Message], Asked]]] = {"": [], "stranger": []}
    for action in actions:
        desk.client = "stranger" if action == "stranger" else ""
        own = answered[desk.client]
        messages = changed(action, threads, choose)
        asked = desk.ask(messages)
        seen = [made.prompt + made.sampled for _, made in own]
        ids = asked.recalled.ids
        # Only what this client has seen, and all of it that its history begins with.
        assert ids == 0 or asked.prompt[:ids] in seen
        known = [made for said, made in own if plain(messages[: len(said)]) == plain(said)]
        longest = max((len(made.messages) for made in known), default=0)
        latest = [made for made in known if len(made.messages) == longest]
        exact = [made for made in latest if len(made.prompt) + len(made.sampled) == ids]
        assert exact or not latest or asked.recalled.unknown, (action, asked.recalled)
        said = [*messages, respelled(asked.message, choose)]
        own.append((said, asked))
        if not desk.client:
            threads.append([*said, *results(asked.message, choose)])


def plain(messages: list[Message]) -> str:
    """What messages say, without reasoning, ids and white space around it."""
    said = []
    for message in messages:
        content = message["content"] or ""
        text = content if isinstance(content, str) else content[0]["text"]
        calls = [call["function"] for call in message.get("tool_calls", ())]
        told = [(call["name"], "".join(call["arguments"].split())) for call in calls]
        said.append((message["role"], text.strip(), told))
    return json.dumps(said)


def changed(action: str, threads: list[list[Message]], choose: random.Random) -> list[Message]:
    """The messages of a client's next request."""
    messages = threads[-1]
    if action == "retry" and len(threads) > 1:
        return threads[-2]
    if action == "branch":
        return choose.choice(threads)
    if action == "compact":
        calls = [at for at, message in enumerate(messages) if message["role"] == "user"]
        return [{"role": "user", "content": "In short: all is well."}, *messages[calls[-1] :]]
    if action == "edit":
        at = choose.randrange(len(messages))
        if messages[at]["role"] != "tool":
            edited = {**messages[at], "content": "No, this."}
            return [*messages[:at], edited, *messages[at + 1 :]]
    return messages


def test_samples_with_one_text_are_told_apart_by_what_a_client_sends_back() -> None:
    """Reasoning, or the ids of calls, say which of two samples a client goes on with."""
    desk = Desk(codec("qwen3"), random.Random(0))
    encode, stop = desk.codec.vocab.encode, desk.codec.stop_ids[0]
    made = []
    for thought in ("One.", "Two."):
        think = [desk.codec.vocab.control[word] for word in ("<think>", "</think>")]
        ids = [think[0], *encode(f"\n{thought}\n"), think[1], *encode("\n\nYes."), stop]
        desk.answers = [ids]
        desk.random = random.Random(1)  # which cuts nothing
        made.append(desk.ask(HELLO))
    assert len({tuple(each.sampled) for each in made}) == 2
    assert len({each.message["content"] for each in made}) == 1
    for each in made:
        again = desk.ask([*HELLO, each.message, {"role": "user", "content": "And?"}])
        seen = each.prompt + each.sampled
        assert again.prompt[: len(seen)] == seen
    # Without it, the latest.
    bare = {key: value for key, value in made[0].message.items() if key != "reasoning_content"}
    again = desk.ask([*HELLO, bare, {"role": "user", "content": "And?"}])
    seen = made[1].prompt + made[1].sampled
    assert again.prompt[: len(seen)] == seen
    # A reasoning that was never said is another answer.
    lied = {**made[0].message, "reasoning_content": "Three."}
    assert desk.ask([*HELLO, lied, {"role": "user", "content": "And?"}]).recalled.unknown == 1


def test_an_answer_that_was_cut_goes_on() -> None:
    """With `continue_final_message`, the prompt is the last one and all that was sampled."""
    desk = Desk(codec("qwen3"), random.Random(0))
    encode, stop = desk.codec.vocab.encode, desk.codec.stop_ids[0]
    desk.sample = lambda: ([*encode("He"), *encode("llo")], "length")  # type: ignore[method-assign]
    first = desk.ask(HELLO)
    more = {"continue_final_message": True, "add_generation_prompt": False}
    desk.sample = lambda: ([*encode(" there"), stop], "stop")  # type: ignore[method-assign]
    second = desk.ask([*HELLO, first.message], **more)
    assert second.prompt == first.prompt + first.sampled
    whole = {"role": "assistant", "content": "Hello there"}
    third = desk.ask([*HELLO, whole, {"role": "user", "content": "And?"}])
    seen = second.prompt + second.sampled
    assert third.prompt[: len(seen)] == seen
    assert (third.recalled.known, third.recalled.unknown) == (1, 0)


@contextmanager
def stores(most: int) -> Iterator[list[Store]]:
    """A store of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        made: list[Store] = [MemoryStore(most), SqliteStore(f"{folder}/memory", most)]
        yield made
        for store in made:
            store.close()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.sampled_from("fa")), max_size=40),
    st.integers(0, 12_000),
)
def test_a_store_keeps_to_its_bound_and_forgets_whole_conversations(
    steps: list[tuple[int, int, str]], most: int
) -> None:
    with stores(most) as made:
        for store in made:
            check_bound(store, steps, most)


def check_bound(store: Store, steps: list[tuple[int, int, str]], most: int) -> None:
    trees: dict[bytes, list[Turn]] = {}
    order: list[bytes] = []
    for tree, length, what in steps:
        root = b"%d" % tree
        turns = trees.get(root, [])
        if what == "f":
            found = store.find([b"none", *(turn.key for turn in turns[-1:])])
            assert found == ((1, [tuple(turns)]) if turns else (1, []))
            continue
        made = turn(root, turns, length)
        store.add(made)
        trees[root] = [*turns, made]
        order = [*(each for each in order if each != root), root]
        while sum(each.size for all_ in trees.values() for each in all_) > most:
            del trees[order.pop(0)]
        assert store.size == sum(each.size for all_ in trees.values() for each in all_) <= most


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=20))
def test_stores_find_the_same(steps: list[tuple[int, int]]) -> None:
    """Branches, turns with one key, turns that come again, and turns whose turn before is gone."""
    with stores(1 << 20) as (one, other):
        check_same(one, other, steps)


def check_same(one: Store, other: Store, steps: list[tuple[int, int]]) -> None:
    turns = [turn(b"root", [], 1)]
    for which, number in steps:
        before = turns[which % len(turns)]
        made = Turn(
            key=b"key %d" % number,
            id=b"%b-%d" % (before.id[-20:], number),
            before=before.id if number else b"gone",
            root=b"root",
            number=before.number + 1,
            appended=b"",
            sampled=b"",
            calls=(("a", "b"),),
            notes=(("ids", "x"),),
            opened=number or None,
        )
        for store in (one, other):
            store.add(turns[0])
            store.add(made)
        if number:
            turns.append(made)
        for key in (b"key root", *(b"key %d" % each for each in range(4))):
            assert one.find([b"", key]) == other.find([b"", key])
    assert one.size == other.size


def turn(root: bytes, before: list[Turn], length: int) -> Turn:
    id_ = root if not before else b"%b-%d" % (root, len(before))
    return Turn(
        key=b"key " + id_,
        id=id_,
        before=before[-1].id if before else b"",
        root=root,
        number=len(before),
        appended=bytes(4 * length),
        sampled=b"",
    )


SPELLINGS: list[Any] = [
    {"role": "assistant", "content": "a", "tool_calls": []},
    {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
    {"role": "assistant", "content": "a\n", "refusal": None},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    {"role": "assistant", "content": "a", "reasoning_content": "r"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "a"}],
    },
]


def test_an_answer_has_one_key_however_it_is_spelled() -> None:
    def key(*messages: Any) -> bytes:  # noqa: ANN401
        return History(("client",), [*HELLO, *messages]).answers[-1].key

    assert len({key(message) for message in SPELLINGS}) == 1
    call = {"name": "f", "arguments": '{"a": 1, "b": [2]}'}
    calls: list[Any] = [
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": call}]}],
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "2", "function": {**call, "arguments": '{"b":[2],"a":1}'}}],
            }
        ],
        [{"type": "reasoning", "summary": []}, {"type": "function_call", "call_id": "3", **call}],
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "4", "name": "f", "input": {"a": 1, "b": [2]}}
                ],
            }
        ],
    ]
    assert len({key(*messages) for messages in calls}) == 1
    others = [
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "a"},
        calls[0][0],
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {**call, "name": "g"}}]},
    ]
    keys = {key(message) for message in [SPELLINGS[0], others[0], *others[2:]]}
    assert len(keys) == 4
    assert History(("other",), [*HELLO, SPELLINGS[0]]).answers[-1].key not in keys


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_histories_have_one_key_only_if_they_are_the_same(one: list[str], other: list[str]) -> None:
    def key(texts: list[str]) -> bytes:
        messages = [{"role": "user", "content": text} for text in texts]
        return History((), [*messages, {"role": "assistant", "content": "a"}]).answers[0].key

    assert (key(one) == key(other)) == (one == other)


def test_marks_of_a_cache_and_ids_of_calls_say_nothing() -> None:
    def key(mark: bool, id_: str) -> bytes:  # noqa: FBT001
        marked = {"cache_control": {"type": "ephemeral"}} if mark else {}
        block = {"type": "tool_use", "id": id_, "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": id_, "content": "r", **marked}
        messages = [
            {"role": "user", "content": [{"type": "text", "text": "Begin", **marked}]},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "a"},
        ]
        return History((), messages).answers[-1].key

    assert len({key(mark, id_) for mark in (True, False) for id_ in ("x", "y")}) == 1


@pytest.mark.parametrize("message", SPELLINGS)
def test_what_is_said_is_read(message: Message) -> None:
    assert said_of([message]).text.strip() == "a"


KEYS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "call_id",
        "tool_call_id",
        "output",
        "summary",
        "thinking",
        "reasoning",
        "input",
        "x",
    ]
)
WORDS_OF_A_CLIENT = st.sampled_from(
    [
        "assistant",
        "user",
        "tool",
        "text",
        "function_call",
        "reasoning",
        "tool_use",
        "tool_result",
        "thinking",
        "message",
        "output_text",
        "{",
        "�",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS_OF_A_CLIENT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(VALUES | st.dictionaries(KEYS, VALUES, max_size=5), max_size=4))
def test_any_messages_have_keys(messages: list[Any]) -> None:
    """What is no message is refused by what encodes it, with its path."""
    history = History(("client",), messages)
    ends = [0]
    for said in history.answers:
        assert ends[-1] <= said.start < said.end <= len(messages)
        ends.append(said.end)
    assert History(("client",), messages).base == history.base
