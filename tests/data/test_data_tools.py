"""What encodings hold, in the tools of data engineers: nothing is stored as something else."""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chatcodec import Codec, MessageError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import datasets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chatcodec import Batch, Encoding, IntArray

CONVERSATIONS = [
    [{"role": "user", "content": "Hello 🦜"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
]
WRONG = [{"role": "nobody", "content": ""}]


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()
    datasets.disable_caching()


@pytest.fixture
def encoding(embedded: Codec) -> Encoding:
    return embedded.encode(CONVERSATIONS[1])


@pytest.fixture
def batch(embedded: Codec) -> Batch:
    return embedded.encode_batch(CONVERSATIONS)


def arrays(encoding: Encoding) -> dict[str, IntArray]:
    return {
        "ids": encoding.ids,
        "labels": encoding.labels(),
        "assistant_mask": encoding.assistant_mask,
        "message_indices": encoding.message_indices,
    }


def test_a_mapped_dataset_holds_the_ids(encoding: Encoding) -> None:
    data = datasets.Dataset.from_dict({"x": [1, 2]})
    expected = {name: array.tolist() for name, array in arrays(encoding).items()}
    made: list[Callable[[Any], dict[str, Any]]] = [
        lambda _: dict(arrays(encoding)),
        lambda _: {name: np.asarray(array) for name, array in arrays(encoding).items()},
    ]
    for make in made:
        for row in data.map(make, remove_columns="x", new_fingerprint="a"):
            assert row == expected
    batched = data.map(
        lambda rows: {name: [array] * len(rows["x"]) for name, array in arrays(encoding).items()},
        batched=True,
        remove_columns="x",
        new_fingerprint="b",
    )
    assert batched[1] == expected
    assert data.map(lambda _: {"x": encoding}, new_fingerprint="c")[0] == {"x": expected["ids"]}


def test_a_dataset_made_of_arrays_holds_the_ids(encoding: Encoding) -> None:
    rows = [arrays(encoding)]
    expected = {name: array.tolist() for name, array in rows[0].items()}
    made = [
        datasets.Dataset.from_list(rows),
        datasets.Dataset.from_dict({name: [array] for name, array in rows[0].items()}),
    ]
    for data in made:
        assert data[0] == expected


@pytest.mark.parametrize("read", [pa.array, lambda array: pa.array(pl.Series(array))])
def test_an_array_is_an_arrow_array(encoding: Encoding, read: Callable[[Any], Any]) -> None:
    for array in [*arrays(encoding).values(), encoding.ids[:0]]:
        assert read(array).to_pylist() == array.tolist()
    assert read(encoding).to_pylist() == encoding.ids.tolist()


def test_arrow_has_the_types_of_numpy_and_copies_nothing(encoding: Encoding, batch: Batch) -> None:
    for array in [encoding.ids, encoding.is_control, batch.offsets]:
        read = pa.array(array)
        assert read.type == pa.from_numpy_dtype(np.asarray(array).dtype)
        assert read.buffers()[1].address == np.asarray(array).ctypes.data


def test_arrow_keeps_what_it_reads(embedded: Codec) -> None:
    def ids_and_list() -> tuple[Any, list[int]]:
        ids = embedded.encode([{"role": "user", "content": "word " * 1000}]).ids
        return pa.array(ids), ids.tolist()

    read, expected = ids_and_list()
    others = [ids_and_list() for _ in range(20)]
    assert read.to_pylist() == expected
    assert all(other.to_pylist() == known for other, known in others)


def test_capsules_that_nobody_reads_are_released(batch: Batch) -> None:
    for _ in range(100):
        assert len(batch.__arrow_c_array__()) == 2
        assert len(batch.ids.__arrow_c_array__()) == 2


def test_a_batch_is_an_arrow_array_of_lists(embedded: Codec, batch: Batch) -> None:
    expected = [encoding.ids.tolist() for encoding in batch]
    read = pa.array(batch)
    read.validate(full=True)
    assert read.to_pylist() == expected
    assert pl.Series(batch).to_list() == expected
    assert pa.table({"ids": batch}).column("ids").to_pylist() == expected
    many = [CONVERSATIONS[0], WRONG] * 9
    some = embedded.encode_batch(many, errors="return")
    lists = [some[at].ids.tolist() if at % 2 == 0 else None for at in range(len(many))]
    read = pa.array(some)
    read.validate(full=True)
    assert read.to_pylist() == lists
    assert read.null_count == 9
    assert pl.Series(some).to_list() == lists
    empty = pa.array(embedded.encode_batch([]))
    empty.validate(full=True)
    assert empty.to_pylist() == []


def test_pandas_keeps_a_column_of_arrays(encoding: Encoding) -> None:
    frame = pd.DataFrame({"ids": [encoding.ids]})
    assert frame["ids"][0].tolist() == encoding.ids.tolist()
    assert pd.Series(encoding.ids).dtype == np.int32
    with pytest.raises(pa.ArrowInvalid, match="IntArray"):
        pa.array([encoding.ids])  # which knows lists, tuples and NumPy's arrays alone


def test_numpy_takes_an_encoding(encoding: Encoding) -> None:
    assert np.asarray(encoding).dtype == np.int32
    assert np.asarray(encoding).tolist() == list(encoding)
    assert np.shares_memory(np.asarray(encoding), np.asarray(encoding.ids))
    wide = np.asarray(encoding, dtype=np.int64)
    assert wide.dtype == np.int64
    copied = encoding.ids.__array__(copy=True)
    assert copied.flags.writeable
    assert not encoding.ids.__array__(copy=False).flags.writeable
    with pytest.raises(ValueError, match="`copy` is False"):
        encoding.ids.__array__(np.float32, copy=False)


def test_columns_are_conversations(embedded: Codec) -> None:
    """`encode_batch` takes a column of any of them, and `encode` one of its values."""
    rows = [{"messages": messages, "n": n} for n, messages in enumerate(CONVERSATIONS)]
    expected = [embedded.encode(messages).ids for messages in CONVERSATIONS]
    table, polars, frame = pa.Table.from_pylist(rows), pl.DataFrame(rows), pd.DataFrame(rows)
    columns: list[Any] = [
        table["messages"],
        table["messages"].combine_chunks(),
        polars["messages"],
        frame["messages"],
        datasets.Dataset.from_list(rows)["messages"],
        table.to_struct_array(),
        polars.to_struct().to_list(),
        frame.to_dict("records"),
    ]
    for column in columns:
        assert [encoding.ids for encoding in embedded.encode_batch(column)] == expected
    for column in columns[:5]:
        one: Any = column[1]
        assert embedded.encode(one).ids == expected[1]
        assert embedded.count(one) == len(expected[1])
    # None in a struct's field is none.
    more = pa.array([[*CONVERSATIONS[1], {"role": "user", "content": "c", "name": "bob"}]])
    named = embedded.encode_batch(more)[0]
    assert named.ids == embedded.encode(more.to_pylist()[0]).ids


def test_lists_of_arrays_have_a_type_where_it_is_given(encoding: Encoding) -> None:
    expected = encoding.ids.tolist()
    for item in (encoding, encoding.ids, np.asarray(encoding)):
        items: list[Any] = [item, item]
        assert pa.array(items, type=pa.list_(pa.int32())).to_pylist() == [expected] * 2
        series = pl.Series(items, dtype=pl.List(pl.Int32))
        assert series.to_list() == [expected] * 2
        assert pd.Series(items)[1].tolist() == expected


def test_they_are_sequences(encoding: Encoding, batch: Batch) -> None:
    assert encoding.tolist() == encoding.ids.tolist() == [*encoding]
    assert [*reversed(encoding)] == encoding.tolist()[::-1]
    assert [len(each) for each in reversed(batch)] == [len(each) for each in batch][::-1]
    assert encoding[-1] == encoding[len(encoding) - 1] == encoding[-2:][1]
    assert operator.indexOf(encoding, encoding[3]) <= 3
    assert operator.countOf(encoding, -7) == 0


def test_rows_with_names_are_refused_with_the_call() -> None:
    class Said(NamedTuple):
        role: str
        content: str

    said: Any = Said("user", "Hi")
    with pytest.raises(MessageError, match=r"`Said`.*`\._asdict\(\)` makes a dict of it") as error:
        Codec("internlm2", vocab="embedded").encode([said])
    assert error.value.path == "messages[0]"
