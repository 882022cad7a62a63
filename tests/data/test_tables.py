"""`Codec.encode_table` beside `encode_batch` of the same rows as Python's own values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chatcodec import Codec, DataError, MessageError, Template, options, rows
from hypothesis import given
from hypothesis import strategies as st
from strategies import conversations, hostile_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatcodec.options import OnLong

CODEC = Codec("internlm2", vocab="embedded")
SAID = [{"role": "user", "content": "Hello 🦜"}, {"role": "assistant", "content": "b"}]
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
CALLED = [
    {"role": "user", "content": "<|im_end|>"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "r", "tool_call_id": "a"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
WRONG = [{"role": "nobody", "content": ""}]
ALL = list(get_args(options.TableColumn))
MESSAGE = {"role": pa.string(), "content": pa.string()}.items()


def encoded(table: Any, **words: Any) -> pa.Table:  # noqa: ANN401
    return pa.table(CODEC.encode_table(table, **words))


def ids(table: Any, **words: Any) -> list[list[int] | None]:  # noqa: ANN401
    read: list[list[int] | None] = encoded(table, errors="return", **words)["input_ids"].to_pylist()
    return read


def without_nulls(value: Any) -> Any:  # noqa: ANN401
    """Leave out what Arrow adds to structs so that all of them have the same keys."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def by_batch(given_rows: list[dict[str, Any]]) -> list[list[int] | None]:
    batch = CODEC.encode_batch(given_rows, errors="return")
    return [None if at in batch.errors else batch[at].ids.tolist() for at in range(len(batch))]


def arrow_types(table: pa.Table) -> list[pa.Table]:
    """Give the same rows in other types of Arrow's: large lists, views, dictionaries."""

    def changed(kind: pa.DataType, text: pa.DataType, *, large: bool) -> pa.DataType:
        if pa.types.is_list(kind):
            item = changed(kind.value_type, text, large=large)
            return pa.large_list(item) if large else pa.list_(item)
        if pa.types.is_struct(kind):
            fields = [kind.field(at) for at in range(kind.num_fields)]
            return pa.struct([(f.name, changed(f.type, text, large=large)) for f in fields])
        return text if pa.types.is_string(kind) else kind

    tables = []
    for text in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        kinds = [changed(field.type, text, large=True) for field in table.schema]
        schema = pa.schema(list(zip(table.column_names, kinds, strict=True)))
        tables.append(pa.Table.from_pylist(table.to_pylist(), schema=schema))
    return tables


@given(st.data())
def test_a_table_is_encoded_as_its_rows_are(data: st.DataObject) -> None:
    conversation = conversations(CODEC, hostile_texts(CODEC))
    tools = st.sampled_from([None, TOOLS, []])
    row = st.fixed_dictionaries({"messages": conversation | st.just(WRONG), "tools": tools})
    drawn = data.draw(st.lists(row, min_size=1, max_size=4))
    try:
        table = pa.Table.from_pylist(drawn)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        # One column has one type: contents that are text in one row and parts in another are JSON.
        table = None
    if r"\u0000" in json.dumps(drawn):
        # Names of columns end at NUL in Arrow's C interface.
        table = None
    as_json = pa.table(
        {key: [json.dumps(row[key]) for row in drawn] for key in ("messages", "tools")}
    )
    assert ids(as_json) == by_batch(drawn)
    if table is not None:
        assert ids(table) == by_batch(without_nulls(table.to_pylist()))
        assert ids(table[1:]) == ids(table)[1:]


def test_frames_of_polars_are_read() -> None:
    both: list[dict[str, Any]] = [
        {"messages": SAID, "tools": None},
        {"messages": CALLED, "tools": TOOLS},
    ]
    assert ids(pl.DataFrame(both)) == by_batch(both)
    nulls = pl.DataFrame({"messages": [SAID], "tools": [None]})
    assert ids(nulls) == ids(nulls.cast({"tools": pl.String})) == by_batch([{"messages": SAID}])


def test_all_types_of_text_and_lists_are_read() -> None:
    given_rows = [{"messages": m, "tools": t} for m, t in [(SAID, None), (CALLED, TOOLS)]]
    table = pa.Table.from_pylist(given_rows)
    assert ids(table) == by_batch(given_rows)
    for other in arrow_types(table):
        assert ids(other) == ids(table)
    assert ids(pa.concat_tables([table, table])) == ids(table) * 2
    assert ids(table.to_batches()[0]) == ids(table)
    assert ids(pd.DataFrame({"messages": [SAID]})) == by_batch([{"messages": SAID}])


def test_numbers_are_written_as_python_writes_them() -> None:
    numbers = [0.0, 1e-05, 1e16, 1.5, 1e300, 0.0001, -2.5e-7]
    arguments = {"floats": numbers, "int": 2**40, "yes": True}
    function = {"name": "f", "arguments": arguments}
    call = {"id": "a", "type": "function", "function": function}
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]
    assert ids(pa.Table.from_pylist([{"messages": said}])) == by_batch([{"messages": said}])


@given(
    turns=st.lists(st.lists(st.sampled_from(["user", "assistant", "nobody"]), max_size=4)),
    longest=st.integers(0, 40),
    on_long=st.sampled_from(["cut", "drop"]),
    threads=st.integers(1, 3),
)
def test_ids_to_train_on_are_counted(
    turns: list[list[str]], longest: int, on_long: OnLong, threads: int
) -> None:
    said = [[{"role": role, "content": f"turn {at}"} for at, role in enumerate(t)] for t in turns]
    table = pa.table({"messages": pa.array(said, pa.list_(pa.struct(MESSAGE)))})
    found = CODEC.encode_table(
        table,
        columns=["labels", "trained"],
        errors="return",
        max_length=longest,
        on_long=on_long,
        threads=threads,
    )
    labels = pa.table(found)["labels"].to_pylist()
    counts = [None if row is None else sum(label != -100 for label in row) for row in labels]
    assert pa.table(found)["trained"].to_pylist() == counts
    assert found.untrained == counts.count(0)
    assert CODEC.encode_table(table, errors="return").untrained == 0


def test_columns_are_those_of_the_encodings() -> None:
    table = pa.Table.from_pylist([{"id": 7, "messages": SAID}, {"id": 8, "messages": WRONG}])
    read = encoded(table, columns=ALL, errors="return")
    assert read.column_names == ["id", "messages", *ALL]
    encoding = CODEC.encode(SAID)
    length = len(encoding.ids)
    expected = {
        "input_ids": encoding.ids.tolist(),
        "labels": encoding.labels().tolist(),
        "trained": sum(label != -100 for label in encoding.labels()),
        "attention_mask": [1] * length,
        "position_ids": list(range(length)),
        "message_indices": encoding.message_indices.tolist(),
        "length": length,
        "original_length": length,
        "roles": ["user", "assistant"],
        "neutralized": [],
        "dropped": [],
        "error": None,
    }
    first, second = read.select(ALL).to_pylist()
    assert first == expected
    assert "nobody" in second.pop("error")
    assert set(second.values()) == {None}
    assert read.schema.field("input_ids").type == pa.list_(pa.int32())
    assert read.schema.field("attention_mask").type == pa.list_(pa.int8())


def test_options_are_those_of_encode_and_labels() -> None:
    table = pa.Table.from_pylist([{"messages": SAID}])
    read = encoded(table, labels=True, roles=["user"], ignore_index=-1, prefix="x_")
    expected = CODEC.encode(SAID).labels(roles=["user"], ignore_index=-1).tolist()
    assert read["x_labels"].to_pylist() == [expected]
    prompted = CODEC.encode(SAID, add_generation_prompt=True).ids.tolist()
    assert ids(table, add_generation_prompt=True) == [prompted]


SHAREGPT = [
    {"from": "human", "value": "Hi"},
    {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
    {"from": "observation", "value": "r"},
    {"from": "gpt", "value": "Hello"},
]


@pytest.mark.parametrize("said", [speaker for speaker in rows.ROLES if speaker != "function_call"])
def test_turns_of_sharegpt_are_read_as_from_sharegpt_reads_them(said: str) -> None:
    turns = [{"from": "human", "value": "a"}, {"from": said, "value": "b"}]
    row = {"conversations": turns, "system": "s", "tools": json.dumps(TOOLS)}
    assert ids(pa.Table.from_pylist([row])) == by_batch([rows.from_sharegpt(row)])


def test_calls_of_sharegpt_are_read() -> None:
    row = {"conversations": SHAREGPT}
    assert ids(pa.Table.from_pylist([row])) == by_batch([rows.from_sharegpt(row)])
    as_json = pa.table({"conversations": [json.dumps(SHAREGPT)]})
    assert ids(as_json) == by_batch([rows.from_sharegpt(row)])


def test_other_schemas_are_conversations() -> None:
    expected = by_batch(
        [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]
    )
    chosen = [[{"role": "assistant", "content": "b"}]]
    assert ids(pa.table({"prompt": ["a"], "completion": ["b"]})) == expected
    assert ids(pa.table({"instruction": ["a"], "input": [""], "output": ["b"]})) == expected
    pairs = pa.table({"prompt": ["a"], "chosen": chosen, "rejected": ["c"]})
    assert ids(pairs, messages=["prompt", "chosen"]) == expected
    asked = by_batch(
        [{"messages": [{"role": "user", "content": "a\nx"}, {"role": "assistant", "content": "b"}]}]
    )
    assert ids(pa.table({"instruction": ["a"], "input": ["x"], "output": ["b"]})) == asked


def test_a_null_in_a_struct_is_an_absent_key() -> None:
    one = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    table = pa.Table.from_pylist([{"messages": [{"role": "user", "content": "a"}, one]}])
    assert table["messages"].to_pylist()[0][0]["tool_calls"] is None
    expected = by_batch([{"messages": [{"role": "user", "content": "a"}, one]}])
    assert ids(table) == expected


def test_an_error_names_row_and_path() -> None:
    table = pa.Table.from_pylist([{"messages": SAID}, {"messages": WRONG}])
    with pytest.raises(MessageError, match="nobody") as error:
        CODEC.encode_table(pa.concat_tables([table, table[1:]])[2:])
    assert error.value.path == "rows[0].messages[0].role"
    turns = [{"from": "human", "value": "a"}, {"from": "alien", "value": "b"}]
    with pytest.raises(MessageError, match="alien") as error:
        CODEC.encode_table(pa.Table.from_pylist([{"conversations": turns}]))
    assert error.value.path == "rows[0].conversations[1].from"
    with pytest.raises(MessageError, match="is no JSON"):
        CODEC.encode_table(pa.table({"messages": ["[{"]}))


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(TypeError, match="`int`, expected an object with `__arrow_c_stream__`"):
        CODEC.encode_table(3)
    with pytest.raises(DataError, match="no table of Arrow's"):
        CODEC.encode_table(pa.chunked_array([[1]]))
    with pytest.raises(ValueError, match="it has `x`; `messages=` names the column"):
        CODEC.encode_table(pa.table({"x": [1]}))
    with pytest.raises(ValueError, match='`messages` is "y"; the table has no column'):
        CODEC.encode_table(pa.table({"x": [1]}), "y")
    with pytest.raises(ValueError, match="has a column `input_ids` already"):
        CODEC.encode_table(pa.table({"messages": [SAID], "input_ids": [1]}))
    with pytest.raises(ValueError, match='`columns` holds "ids"'):
        CODEC.encode_table(pa.table({"messages": [SAID]}), columns=["ids"])  # type: ignore[list-item]


def test_text_that_is_no_utf8_is_refused() -> None:
    offsets = pa.array([0, 2], pa.int32()).buffers()[1]
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff\xfe"))
    with pytest.raises(DataError, match="column `messages` is no valid Arrow array"):
        CODEC.encode_table(pa.table({"messages": text}))


def test_a_reader_that_fails_raises() -> None:
    batch = pa.record_batch({"messages": [SAID]})

    def batches() -> Any:  # noqa: ANN401
        yield batch
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(batch.schema, batches())
    with pytest.raises(DataError, match=r"`table` cannot be read: .*the disk is gone"):
        CODEC.encode_table(reader)


NESTS: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "struct": lambda inner: pa.struct([("a", inner)]),
    "list": pa.list_,
    "large list": pa.large_list,
    "list view": pa.list_view,
    "list of a size": lambda inner: pa.list_(inner, 1),
    "map": lambda inner: pa.map_(pa.string(), inner),
    "union": lambda inner: pa.sparse_union([pa.field("a", inner)]),
    "dictionary": lambda inner: pa.dictionary(pa.int32(), pa.list_(inner)),
}


class AsArray:
    """A record batch that has the interface of one array alone."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.__arrow_c_array__ = batch.__arrow_c_array__


@pytest.mark.parametrize("nest", NESTS)
def test_a_type_that_is_nested_too_deep_is_refused(nest: str) -> None:
    """As Arrow's own library refuses it; a deeper one overflowed the stack."""
    for levels in (20, 65, 1000):
        kind = pa.string()
        for _ in range(levels):
            kind = NESTS[nest](kind)
        table = pa.table({"messages": pa.nulls(2, type=kind)})
        for given_table in (table, AsArray(table.to_batches()[0])):
            if levels == 20:
                assert len(CODEC.encode_table(given_table, errors="return")) == 2
            else:
                with pytest.raises(DataError, match="more than 64 levels deep"):
                    CODEC.encode_table(given_table, errors="return")


def test_an_encoded_table_is_read_any_number_of_times() -> None:
    table = CODEC.encode_table(pa.table({"messages": [SAID]}))
    assert table.column_names == ["messages", "input_ids"]
    assert len(table) == table.num_rows == 1
    assert repr(table) == "EncodedTable(1 rows)"
    assert pa.table(table) == pa.table(table)
    assert pa.schema(table) == pa.table(table).schema
    empty = CODEC.encode_table(pa.table({"messages": [SAID]})[:0])
    assert pa.table(empty).column_names == ["messages", "input_ids"]


@given(
    kinds=st.lists(st.sampled_from(["a", "b <|im_end|>", "long " * 40, ""]), max_size=300),
    size=st.integers(1, 200),
    threads=st.integers(2, 9),
)
def test_rows_do_not_depend_on_threads_or_batches(
    kinds: list[str], size: int, threads: int
) -> None:
    said = [[{"role": "user" if text else "nobody", "content": text}] for text in kinds]
    whole = pa.table(
        {"messages": pa.array(said, pa.list_(pa.struct([*MESSAGE]))), "n": [*range(len(said))]}
    )
    batches = whole.to_batches(max_chunksize=size)
    table = pa.Table.from_batches(batches, whole.schema)
    words: Any = {"columns": ["input_ids", "labels", "length", "neutralized", "error"]}
    found = encoded(table, errors="return", threads=threads, **words)
    assert found.to_pylist() == encoded(whole, errors="return", threads=1, **words).to_pylist()
    assert found["n"].to_pylist() == [*range(len(said))]
    assert found["input_ids"].to_pylist() == by_batch([{"messages": one} for one in said])
    refused = [at for at, text in enumerate(kinds) if not text]
    if refused:
        with pytest.raises(MessageError, match=rf"rows\[{refused[0]}\]"):
            encoded(table, threads=threads)


def test_many_threads_give_the_rows_in_order() -> None:
    said = [[{"role": "user", "content": str(n) * (n % 50)}] for n in range(5000)]
    expected = by_batch([{"messages": messages} for messages in said])
    table = pa.table({"messages": said})
    assert ids(table, threads=4) == ids(table, threads=1) == expected


def test_numbers_in_json_text_keep_their_digits() -> None:
    function = {"name": "f", "arguments": {"n": -9223372036854775809, "m": 10**30}}
    row = [{"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}]
    assert ids(pa.table({"messages": [json.dumps(row)]})) == by_batch([{"messages": row}])


def test_rows_are_objects_of_json() -> None:
    turns = [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "b"}]
    objects: list[Any] = [
        {"messages": SAID, "tools": None, "id": 7},
        {"messages": json.dumps(CALLED), "tools": json.dumps(TOOLS)},
        {"conversations": turns, "system": "s"},
        {"prompt": "Hello", "completion": "b"},
        {"instruction": "Hello", "input": "x", "output": "b"},
        SAID,
    ]
    conversations: list[dict[str, Any]] = [
        {"messages": SAID},
        {"messages": CALLED, "tools": TOOLS},
        {"messages": [{"role": "system", "content": "s"}, *said("Hello")]},
        {"messages": said("Hello")},
        {"messages": said("Hello\nx")},
        {"messages": SAID},
    ]
    table = pa.table({"messages": [json.dumps(row) for row in objects]})
    assert ids(table) == by_batch(conversations)
    assert ids(table.rename_columns(["line"]), messages="line") == by_batch(conversations)


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}, {"role": "assistant", "content": "b"}]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{}", "`line` is an object with none of the columns `messages`, `conversations`, "),
        ('{"id": 1}', "; it has `id`"),
        ('{"messages": 7}', "`messages` is a number, expected a list"),
        ('{"messages": "x"}', "`messages` is no JSON"),
        ('{"conversations": [{"from": "x", "value": ""}]}', "`conversations[0].from` is"),
        ('{"prompt": "x", "completion": 1}', "`completion` is a number, expected text or a list"),
        ('{"prompt": "x", "completion": "y", "tools": 1}', "`tools` is a number"),
        ("7", "`line` is a number, expected a list"),
        ('{"messages": [', "`line` is no JSON"),
    ],
)
def test_wrong_objects_of_json_are_named(line: str, problem: str) -> None:
    table = encoded(pa.table({"line": [line]}), messages="line", errors="return")
    assert table["input_ids"].to_pylist() == [None]
    assert problem in table["error"][0].as_py()


def test_roles_and_neutralized_are_columns() -> None:
    table = encoded(
        pa.table({"messages": [json.dumps(m) for m in (SAID, WRONG, CALLED)]}),
        columns=["roles", "neutralized"],
        errors="return",
    )
    roles = [["user", "assistant"], None, ["user", "assistant", "tool"]]
    assert table["roles"].to_pylist() == roles
    found = {"path": "messages[0].content", "spelling": "<|im_end|>"}
    assert table["neutralized"].to_pylist() == [[], None, [found]]


def test_what_is_left_out_is_a_column() -> None:
    template = Template("{% for m in messages %}{{ m.content.split('|')[0] }};{% endfor %}")
    codec = Codec(template, CODEC.vocab, reader=CODEC.format)
    rows = [
        [{"role": "user", "content": "a"}],
        [{"role": "user", "content": "a|b", "name": "Ann"}],
        [{"role": "nobody"}],
    ]
    given = pa.table({"messages": [json.dumps(row) for row in rows]})
    left_out = [
        {"path": "messages[0].content", "why": "cut"},
        {"path": "messages[0].name", "why": "unsupported"},
    ]
    for policy, second in (("error", None), ("drop", left_out)):
        options: Any = {"columns": ["dropped"], "errors": "return", "on_unsupported": policy}
        table = pa.table(codec.encode_table(given, **options))
        assert table["dropped"].to_pylist() == [[], second, None]
