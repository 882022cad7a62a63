"""`Codec.encode_table` gives a row the same ids, whatever the types and chunks of the table."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from chatcodec import Codec, DataError
from hypothesis import given
from hypothesis import strategies as st

CODEC = Codec("internlm2", vocab="embedded")
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
ANSWERS: list[dict[str, Any]] = [
    {"role": "assistant", "content": "b 🦜"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "content": ""},
]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "messages": st.builds(
                lambda text, answers: [{"role": "user", "content": text}, *answers],
                st.text("a<|im_end|>é🦜\n", max_size=12),
                st.lists(st.sampled_from(ANSWERS), max_size=2),
            ),
            "tools": st.sampled_from([None, [], TOOLS]),
        }
    ),
    min_size=1,
    max_size=6,
)
EXAMPLE: dict[str, Any] = {
    "messages": [{"role": "user", "content": "a"}, ANSWERS[1]],
    "tools": TOOLS,
}
TEXTS = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "dictionary of views": pa.dictionary(pa.uint16(), pa.large_string()),
}
LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}


def schema_of(text: pa.DataType, lists: Any) -> pa.Schema:  # noqa: ANN401
    """The schema of the rows, made of these types."""
    call = pa.struct([("name", text), ("arguments", text)])
    calls = lists(pa.struct([("id", text), ("type", text), ("function", call)]))
    message = pa.struct([("role", text), ("content", text), ("tool_calls", calls)])
    parameters = pa.struct([("type", text)])
    function = pa.struct([("name", text), ("parameters", parameters)])
    tool = pa.struct([("type", text), ("function", function)])
    return pa.schema([("messages", lists(message)), ("tools", lists(tool))])


def ids(table: Any, **words: Any) -> list[list[int] | None]:  # noqa: ANN401
    encoded = pa.table(CODEC.encode_table(table, errors="return", **words))
    read: list[list[int] | None] = encoded["input_ids"].to_pylist()
    return read


def expected(rows: list[dict[str, Any]]) -> list[list[int] | None]:
    batch = CODEC.encode_batch(rows, errors="return")
    return [None if at in batch.errors else batch[at].ids.tolist() for at in range(len(rows))]


def in_chunks(table: pa.Table, cuts: list[int]) -> pa.Table:
    """The table in slices that share its buffers."""
    ends = [0, *sorted(min(cut, len(table)) for cut in cuts), len(table)]
    parts = [table.slice(a, b - a) for a, b in itertools.pairwise(ends)]
    return pa.concat_tables(parts)


@given(
    rows=ROWS,
    text=st.sampled_from([*TEXTS]),
    lists=st.sampled_from([*LISTS]),
    cuts=st.lists(st.integers(0, 6), max_size=3),
    start=st.integers(0, 5),
    length=st.integers(0, 6),
)
def test_types_chunks_and_slices_do_not_change_a_row(  # noqa: PLR0913, PLR0917 (draws)
    rows: list[dict[str, Any]], text: str, lists: str, cuts: list[int], start: int, length: int
) -> None:
    schema = schema_of(TEXTS[text], LISTS[lists])
    table = pa.Table.from_pylist([{**EXAMPLE}, *rows], schema=schema)[1:]
    chunked = in_chunks(table, cuts)
    assert ids(chunked) == expected(rows)
    assert ids(chunked[start : start + length]) == expected(rows)[start : start + length]
    assert ids(pa.Table.from_batches(chunked.to_batches(), schema)) == expected(rows)


@given(rows=ROWS, cuts=st.lists(st.integers(0, 6), max_size=3), start=st.integers(0, 5))
def test_frames_of_polars_do_not_change_a_row(
    rows: list[dict[str, Any]], cuts: list[int], start: int
) -> None:
    table = in_chunks(pa.Table.from_pylist(rows), cuts)
    frame = pl.DataFrame(table)
    assert ids(frame) == expected(rows)
    assert ids(frame[start:]) == expected(rows)[start:]
    assert ids(frame.lazy().slice(start).collect()) == expected(rows)[start:]
    assert ids(frame.rechunk().with_columns(tools=None)) == ids(table.drop_columns("tools"))


def wrapped(table: pa.Table, wrap: Any) -> pa.Table:  # noqa: ANN401
    return pa.table({name: wrap(table[name].combine_chunks()) for name in table.column_names})


class Marked(pa.ExtensionType):  # type: ignore[misc]
    """An extension type around any other."""

    def __init__(self, inner: pa.DataType) -> None:
        super().__init__(inner, "test.marked")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, inner: pa.DataType, _data: bytes) -> Marked:
        return cls(inner)


def fixed(array: pa.Array) -> pa.Array:
    """Lists of one size, with a slice before them."""
    size = len(array[0])
    items = pa.concat_arrays([array.flatten()[:size], array.flatten()])
    return pa.FixedSizeListArray.from_arrays(items, size)[1:]


def runs(array: pa.Array) -> pa.Array:
    """Each value twice, as runs, and then every other of them."""
    ends = pa.array(range(2, 2 * len(array) + 1, 2), pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, array)[: len(array)]


def test_other_types_of_arrow_are_read() -> None:
    said = [[{"role": "user", "content": f"{n}"}, ANSWERS[0]] for n in range(4)]
    table = pa.table({"messages": said})
    rows = [{"messages": messages} for messages in said]
    assert ids(wrapped(table, lambda a: pa.ExtensionArray.from_storage(Marked(a.type), a))) == (
        expected(rows)
    )
    assert ids(wrapped(table, fixed)) == expected(rows)
    twice = [rows[0], rows[0], rows[1], rows[1]]
    assert ids(wrapped(table, runs)) == expected(twice)
    assert ids(wrapped(table, runs)[1:3]) == expected(twice)[1:3]
    json = pa.table({"messages": pa.array(['[{"role": "user", "content": "0"}]'], pa.json_())})
    assert ids(json) == expected([{"messages": said[0][:1]}])


def test_columns_of_type_null_are_read() -> None:
    rows = [{"messages": [{"role": "user", "content": "a"}], "tools": None, "other": None}]
    nested = [{"messages": [{"role": "user", "content": "a", "name": None}]}]
    for frame in (pl.DataFrame(rows), pa.Table.from_pylist(rows), pl.DataFrame(nested)):
        assert ids(frame) == expected(rows[:1])
        assert pa.table(CODEC.encode_table(frame)).num_rows == 1
    empty = pl.DataFrame({"messages": [None, None]})
    assert ids(empty) == [None, None]


def test_an_array_of_structs_may_have_no_null_rows() -> None:
    rows = pa.array([{"messages": [{"role": "user", "content": "a"}]}])
    assert ids(rows) == expected(rows.to_pylist())
    with_null = pa.array([*rows.to_pylist(), None])
    for given_rows in (with_null, pa.chunked_array([with_null])):
        with pytest.raises(DataError, match="has null rows, expected record batches"):
            CODEC.encode_table(given_rows)


def test_a_stream_is_read_once() -> None:
    table = pa.table({"messages": [[{"role": "user", "content": "a"}]]})

    class Once:
        capsule = table.__arrow_c_stream__()

        def __arrow_c_stream__(self, _schema: object = None) -> object:
            return self.capsule

    once = Once()
    assert len(CODEC.encode_table(once)) == 1
    with pytest.raises(DataError, match=r"no table of Arrow's: .*was read already"):
        CODEC.encode_table(once)


@pytest.mark.parametrize("kind", [pa.binary(), pa.date32(), pa.decimal128(5, 2), pa.duration("s")])
def test_values_without_a_place_in_json_are_named(kind: pa.DataType) -> None:
    values = {pa.binary(): b"x", pa.date32(): 1, pa.decimal128(5, 2): None, pa.duration("s"): 1}
    content = pa.array([values[kind]], kind)
    if content.null_count:
        content = pa.array([1], pa.int32()).cast(pa.decimal128(12, 2))
    message = pa.StructArray.from_arrays([pa.array(["user"]), content], ["role", "content"])
    table = pa.table({"messages": pa.ListArray.from_arrays([0, 1], message)})
    error = pa.table(CODEC.encode_table(table, errors="return"))["error"][0].as_py()
    assert error.startswith("`messages[0].content` is ")
    assert "expected" in error
