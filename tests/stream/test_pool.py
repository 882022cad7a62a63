"""`StreamPool`: many streams tell what each alone tells, however their ids are mixed."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from chatcodec import Codec, StreamPool
from chatcodec.events import ActionDelta, ActionStart, Event, Notice, Text, TurnEnd
from hypothesis import given
from hypothesis import strategies as st
from naive import Value, merged
from test_stream import ACT, DONE, PLUGIN, STOP, bare, completions, ids_of, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def push(pool: StreamPool, slots: Value, ids: Value) -> list[tuple[int, Event]]:
    """Slots with their events."""
    return list(zip(*pool.push(slots, ids), strict=True))


def sorted_out(pushed: Iterable[tuple[int, Event]], slots: int) -> list[list[Event]]:
    """The events of each slot."""
    events: list[list[Event]] = [[] for _ in range(slots)]
    for slot, event in pushed:
        events[slot].append(event)
    return events


@given(draw=st.data())
def test_a_pool_tells_what_its_streams_alone_tell(codec: Codec, draw: st.DataObject) -> None:
    """Every mixture of their ids, in pushes of every size."""
    prompts = st.sampled_from([None, [], codec.generation_prompt_ids])
    opened = draw.draw(st.lists(st.tuples(completions(codec), prompts), min_size=1, max_size=6))
    order = [slot for slot, (ids, _) in enumerate(opened) for _ in ids]
    order = draw.draw(st.permutations(order))
    waiting = [iter(ids) for ids, _ in opened]
    steps = [(slot, next(waiting[slot])) for slot in order]
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(steps)), max_size=6)))
    pool = StreamPool(codec)
    assert [pool.open(prompt, keep=True) for _, prompt in opened] == list(range(len(opened)))
    pushed: list[tuple[int, Event]] = []
    for start, end in itertools.pairwise([0, *cuts, len(steps)]):
        part = steps[start:end]
        pushed += push(pool, [slot for slot, _ in part], [id_ for _, id_ in part])
    for slot, events in enumerate(sorted_out(pushed, len(opened))):
        ids, prompt = opened[slot]
        alone = codec.stream(prompt, keep=True)
        assert merged([*events, *pool.finish(slot)]) == told(alone, ids)
        assert pool.message(slot) == alone.message()
        pool.close(slot)
    assert len(pool) == 0


def test_thousands_of_streams_in_steps(embedded: Codec) -> None:
    """An engine that generates for all at once; streams end and others take their slots."""
    texts = ["Hello, world", "Die Würde 世界", '{"a": 1}', "\n```\n", "😀"]
    call = '\n{"name": "f", "parameters": {"a": [1, "b"]}}'
    kinds = [ids_of(embedded, [text, STOP]) for text in texts]
    kinds.append(ids_of(embedded, [ACT, PLUGIN, call, DONE, STOP]))
    expected = [told(embedded.stream(), [ids]) for ids in kinds]
    chance = random.Random(4)
    pool = StreamPool(embedded)
    active: dict[int, tuple[int, int]] = {}
    events: dict[int, list[Event]] = {}
    begun = ended = 0
    while ended < 5000:
        while begun < 5000 and len(active) < 3000:
            slot = pool.open()
            assert slot not in active
            active[slot], events[slot] = (begun % len(kinds), 0), []
            begun += 1
        slots = chance.sample(sorted(active), max(1, len(active) * 3 // 4))
        ids = [kinds[active[slot][0]][active[slot][1]] for slot in slots]
        for slot, event in push(pool, np.array(slots), np.array(ids, np.int32)):
            events[slot].append(event)
        for slot in slots:
            kind, at = active[slot]
            active[slot] = kind, at + 1
            if at + 1 == len(kinds[kind]):
                assert merged([*events[slot], *pool.finish(slot)]) == expected[kind]
                pool.close(slot)
                del active[slot]
                ended += 1
    assert len(pool) == 0


def test_a_pool_is_to_be_read(embedded: Codec) -> None:
    pool = StreamPool(embedded)
    one, two = pool.open(keep=True), pool.open()
    assert (one, two, len(pool), repr(pool)) == (0, 1, 2, "StreamPool(2 open)")
    letter, call = embedded.vocab.encode("a").tolist(), [ACT, PLUGIN]
    assert pool.push([one, two, two], [*letter, *call]) == ([one], [Text("a", (0, 1))])
    ids = embedded.vocab.encode('{"name": "f", "parameters": {}').tolist()
    slots, events = pool.push([two] * len(ids), ids)
    assert slots == [two] * len(events)
    kinds = [type(event) for event in events]
    assert kinds == [ActionStart] + [ActionDelta] * (len(kinds) - 1)
    assert pool.push(one, STOP) == ([one], [TurnEnd("stop", None, (1, 2))])
    assert pool.message(one)["content"] == "a"
    pool.close(one)
    assert pool.open() == one


def test_what_holds_no_stream_is_told_before_anything_is_read(embedded: Codec) -> None:
    pool = StreamPool(embedded)
    slot, closed = pool.open(), pool.open()
    pool.close(closed)
    letter = embedded.vocab.encode("a").tolist()
    for wrong in (closed, 2, -1, 2**31, -(2**70)):
        with pytest.raises(IndexError, match=f"slot {wrong} "):
            pool.push([slot, wrong], [*letter, *letter])
        if abs(wrong) < 2**63:
            for use in (pool.finish, pool.message, pool.close):
                with pytest.raises(IndexError, match="holds no stream"):
                    use(wrong)
    with pytest.raises(ValueError, match="1 `slots` and 2 `ids`"):
        pool.push([slot], [*letter, *letter])
    odd: list[tuple[Value, Value]] = [([slot], ["a"]), (["a"], letter), ("a", letter)]
    for slots, ids in odd:
        with pytest.raises(TypeError):
            pool.push(slots, ids)
    with pytest.raises(ValueError, match="reason="):
        pool.finish(slot, "other")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="keep=True"):
        pool.message(slot)
    assert bare([*pool.push([slot], letter)[1], *pool.finish(slot)]) == [
        Text("a"),
        TurnEnd("stop"),
    ]


def test_ids_that_are_none_are_told_in_their_place(embedded: Codec) -> None:
    pool = StreamPool(embedded)
    one, two = pool.open(), pool.open()
    letter = embedded.vocab.encode("a").tolist()
    pushed = push(pool, [one, two, one], [10**30, *letter, -1])
    assert [(slot, bare([event])) for slot, event in pushed] == [
        (one, [Notice("unknown_id", str(10**30))]),
        (two, [Text("a")]),
        (one, [Notice("unknown_id", "-1")]),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda of: np.array(of, np.int32),
        lambda of: np.repeat(of, 2)[::2],
    ],
)
def test_slots_and_ids_come_in_any_form(embedded: Codec, kind: Callable[[Any], Any]) -> None:
    pool = StreamPool(embedded)
    slots = [pool.open() for _ in range(400)]
    ids = embedded.vocab.encode("word " * 100).tolist()
    each: Value = [ids[slot % len(ids)] for slot in slots]
    expected = [(slot, *embedded.stream().push(id_)) for slot, id_ in zip(slots, each, strict=True)]
    assert push(pool, kind(slots), kind(each)) == expected


def test_threads_share_a_pool(embedded: Codec) -> None:
    """Each thread pushes to slots of its own; they and their streams come and go."""
    pool = StreamPool(embedded)
    ids = ids_of(embedded, ["Die Würde des Menschen 世界 😀", STOP])
    expected = told(embedded.stream(), [ids])

    def work(number: int) -> None:
        for _ in range(20):
            slots = [pool.open() for _ in range(50 + 300 * (number % 2))]
            events: dict[int, list[Event]] = {slot: [] for slot in slots}
            for id_ in ids:
                for slot, event in push(pool, slots, [id_] * len(slots)):
                    events[slot].append(event)
            for slot in slots:
                assert merged([*events[slot], *pool.finish(slot)]) == expected
                pool.close(slot)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(pool) == 0


def test_streams_of_every_marker_policy_share_a_pool(embedded: Codec) -> None:
    pool = StreamPool(embedded)
    ids = embedded.vocab.encode("Hi<|im_end|>")
    plain, spelled, text = (pool.open(markers=m) for m in ("ids", "ids_or_text", "text"))
    with pytest.raises(ValueError, match="reads text"):
        pool.push([plain, text], [ids[0], ids[0]])
    with pytest.raises(ValueError, match="reads ids"):
        pool.push_text(plain, "Hi")
    with pytest.raises(ValueError, match="ids_or_text"):
        pool.open(markers="anything")  # type: ignore[arg-type]
    slots = [slot for _ in ids for slot in (plain, spelled)]
    events = sorted_out(push(pool, slots, [id_ for id_ in ids for _ in range(2)]), 2)
    policies: list[tuple[int, Any]] = [(plain, "ids"), (spelled, "ids_or_text")]
    for slot, policy in policies:
        expected = told(embedded.stream(markers=policy), [ids])
        assert merged([*events[slot], *pool.finish(slot)]) == expected
    said = [*pool.push_text(text, "Hi<|im_"), *pool.push_text(text, "end|>"), *pool.finish(text)]
    assert bare(merged(said)) == [Text("Hi"), TurnEnd("stop")]
