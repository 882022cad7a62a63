"""Conversations of bounded length: `Codec.fit`, `max_length` of tables, and packing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from chatcodec import Codec, MessageError, Template, pack, pack_table
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from chatcodec.options import OnLong

CODEC = Codec("internlm2", vocab="embedded")
TEMPLATE = Codec(
    Template(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    CODEC.vocab,
)
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
Messages = list[dict[str, Any]]


@st.composite
def conversations(draw: st.DrawFn, *, calls: bool = True) -> Messages:
    """Draw a conversation whose turns may have calls with results."""
    texts = st.text(st.sampled_from("ab <|im_end|>"), max_size=30)
    messages: Messages = [
        {"role": "system", "content": draw(texts)} for _ in range(draw(st.integers(0, 2)))
    ]
    for _ in range(draw(st.integers(1, 6))):
        messages.append({"role": "user", "content": draw(texts)})
        if calls and draw(st.booleans()):
            messages.append({"role": "assistant", "content": draw(texts), "tool_calls": [CALL]})
            messages.append({"role": "tool", "content": draw(texts), "tool_call_id": "a"})
        if draw(st.booleans()):
            messages.append({"role": "assistant", "content": draw(texts)})
    return messages


def naive_fit(codec: Codec, messages: Messages, tokens: int) -> Messages | None:
    """Leave out one turn after another."""
    system = [m for m in messages if m["role"] == "system"]
    rest = messages[len(system) :]
    while True:
        if len(codec.encode([*system, *rest])) <= tokens:
            return [*system, *rest]
        users = [at for at, message in enumerate(rest) if message["role"] == "user" and at > 0]
        if not users:
            return None
        rest = rest[users[0] :]


@pytest.mark.parametrize("codec", [CODEC, TEMPLATE], ids=["format", "template"])
@given(data=st.data(), tokens=st.integers(0, 200))
def test_fit_leaves_out_as_few_turns_as_it_can(
    codec: Codec, data: st.DataObject, tokens: int
) -> None:
    messages = data.draw(conversations(calls=codec is CODEC))
    expected = naive_fit(codec, messages, tokens)
    if expected is None:
        with pytest.raises(MessageError, match=f"expected at most {tokens}") as raised:
            codec.fit(messages, tokens)
        assert raised.value.path == "messages"
        return
    fitted = codec.fit(messages, tokens)
    assert fitted == expected
    assert all(any(message is given for given in messages) for message in fitted)
    assert len(codec.encode(fitted)) <= tokens


def test_fit_takes_tools_and_options() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "user", "content": "Hello"}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    whole = len(CODEC.encode(messages, tools=tools))
    assert CODEC.fit(messages, whole, tools=tools) == messages
    assert CODEC.fit(messages, whole - 1, tools=tools) == messages[1:]
    prompt = len(CODEC.encode(messages, add_generation_prompt=False))
    assert CODEC.fit(messages, prompt, add_generation_prompt=False) == messages
    assert CODEC.fit(messages, prompt) == messages[1:]
    with pytest.raises(OverflowError):
        CODEC.fit(messages, -1)
    with pytest.raises(MessageError, match=r"messages\[1\]\.role"):
        CODEC.fit([messages[0], {"role": "nobody", "content": ""}], 5)


COLUMNS: list[Any] = [
    "input_ids",
    "labels",
    "attention_mask",
    "position_ids",
    "message_indices",
    "length",
    "original_length",
]


@given(
    given_rows=st.lists(conversations(), min_size=1, max_size=4),
    limit=st.integers(1, 150),
    on_long=st.sampled_from(["error", "drop", "oldest", "cut"]),
)
def test_long_rows_of_a_table(given_rows: list[Messages], limit: int, on_long: OnLong) -> None:
    table = pa.Table.from_pylist([{"messages": row} for row in given_rows])
    encoded = pa.table(
        CODEC.encode_table(
            table,
            columns=COLUMNS,
            max_length=limit,
            on_long=on_long,
            errors="return",
            markup="text",
        )
    )
    for row, messages in zip(encoded.to_pylist(), given_rows, strict=True):
        whole = CODEC.encode(messages)
        fitted = naive_fit(CODEC, messages, limit)
        if len(whole) <= limit:
            expected = whole.ids.tolist()
        elif on_long == "cut":
            expected = whole.ids.tolist()[:limit]
            assert row["labels"] == whole.labels().tolist()[:limit]
            assert row["message_indices"] == whole.message_indices.tolist()[:limit]
        elif on_long == "oldest" and fitted is not None:
            expected = CODEC.encode(fitted).ids.tolist()
        else:
            assert all(row[name] is None for name in COLUMNS)
            assert (row["error"] is None) == (on_long == "drop")
            continue
        assert row["input_ids"] == expected
        assert row["error"] is None
        assert row["length"] == len(expected) == len(row["labels"]) == len(row["attention_mask"])
        assert row["original_length"] == len(whole)
        assert row["position_ids"] == [*range(len(expected))]


def test_message_indices_are_the_callers() -> None:
    messages: Messages = [{"role": "user", "content": str(at)} for at in range(5)]
    table = pa.Table.from_pylist([{"messages": messages}])
    limit = len(CODEC.encode(messages[3:]))
    encoded = CODEC.encode_table(
        table, columns=["message_indices"], max_length=limit, on_long="oldest"
    )
    assert {*pa.table(encoded)["message_indices"][0].as_py()} == {-1, 3, 4}


def test_long_rows_are_named() -> None:
    table = pa.table({"messages": [[{"role": "user", "content": "Hi"}]]})
    with pytest.raises(
        MessageError, match=r"`rows\[0\]\.messages` have 13 ids, expected at most 3"
    ):
        CODEC.encode_table(table, max_length=3)
    with pytest.raises(MessageError, match="without the turns before the last"):
        CODEC.encode_table(table, max_length=3, on_long="oldest")
    with pytest.raises(ValueError, match='`on_long` is "half", expected `error`, `drop`'):
        CODEC.encode_table(table, max_length=3, on_long="half")  # type: ignore[arg-type]


def naive_bins(lengths: list[int], size: int) -> list[int]:
    """Give the sums of best fit decreasing, by looking at every bin."""
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms[rooms.index(min(fitting))] -= length
        else:
            rooms.append(size - length)
    return sorted(rooms)


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(30, 60))
def test_bins_are_those_of_the_naive_algorithm(lengths: list[int], size: int) -> None:
    bins = pack(lengths, size)
    assert sorted(item for found in bins for item in found) == [*range(len(lengths))]
    assert all(found == sorted(found) for found in bins)
    assert bins == sorted(bins)
    rooms = sorted(size - sum(lengths[item] for item in found) for found in bins)
    assert rooms == naive_bins(lengths, size)


def test_what_cannot_be_packed_is_named() -> None:
    assert pack([], 5) == []
    with pytest.raises(ValueError, match=r"`lengths\[1\]` is 6, expected at most 5 \(`size`\)"):
        pack([1, 6], 5)
    with pytest.raises(ValueError, match=r"`lengths\[0\]` is -1, expected 0 or more"):
        pack([-1], 5)
    ids = {"input_ids": [[1, 2, 3]]}
    for columns, problem in (
        ({"ids": [[1]]}, "the table has no column `input_ids`"),
        ({"input_ids": ["x"]}, "column `input_ids` is `Utf8`, expected lists of int32"),
        ({"input_ids": [[1.5]]}, "column `input_ids` is `Float64`, expected lists of int32"),
        ({"input_ids": [[1, None]]}, "column `input_ids` has a null within a list"),
        ({"input_ids": [[2**40]]}, "column `input_ids` holds an int over 32 bits"),
        ({**ids, "labels": [[1]]}, r"`rows\[0\]\.labels` has 1 items, expected 3 as `input_ids`"),
        ({"input_ids": [[1], [2] * 9]}, r"`rows\[1\]\.input_ids` has 9 ids, expected at most 4"),
    ):
        with pytest.raises(ValueError, match=problem):
            pack_table(pa.table(columns), 4)


@given(data=st.data(), size=st.integers(60, 120))
def test_packed_rows_have_every_conversation_whole(data: st.DataObject, size: int) -> None:
    texts = data.draw(st.lists(st.text("ab ", max_size=30), max_size=12))
    rows: list[Any] = [
        [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
        for text in texts
    ]
    rows += [[{"role": "nobody", "content": ""}]]
    encoded = pa.table(
        CODEC.encode_table(
            pa.table({"messages": rows}), labels=True, columns=["input_ids"], errors="return"
        )
    )
    kind = data.draw(st.sampled_from([pa.int32(), pa.int64()]))
    lists = data.draw(st.sampled_from([pa.list_, pa.large_list]))
    given_table = pa.table({n: encoded[n].cast(lists(kind)) for n in ("input_ids", "labels")})
    batches = pa.Table.from_batches(given_table.to_batches(max_chunksize=3), given_table.schema)
    packed = pa.table(pack_table(batches, size))
    names = ["input_ids", "labels", "position_ids", "sequence_lengths"]
    assert packed.column_names == names
    found = []
    for row in packed.to_pylist():
        assert len(row["input_ids"]) <= size
        assert sum(row["sequence_lengths"]) == len(row["input_ids"])
        start = 0
        for length in row["sequence_lengths"]:
            piece = slice(start, start + length)
            assert row["position_ids"][piece] == [*range(length)]
            found.append((row["input_ids"][piece], row["labels"][piece]))
            start += length
    expected = []
    for ids, labels in zip(*(encoded[n].to_pylist() for n in ("input_ids", "labels")), strict=True):
        if ids is not None:
            expected.append((ids, [-100, *labels[1:]]))
    assert sorted(found) == sorted(expected)
