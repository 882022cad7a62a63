"""`IntArray`: a sequence of ints that NumPy reads without a copy."""

from __future__ import annotations

import array
import copy
import gc
import pickle
import struct
import sys
from collections.abc import Sequence
from typing import Any

import chatcodec
import numpy as np
import pytest
from chatcodec import Codec, IntArray, Vocab
from hypothesis import given
from hypothesis import strategies as st

# Ints of ids are kept and shared up to a bound, others are made anew.
EDGES = [-(2**31), -1, 0, 1, 256, 257, 2**18 - 1, 2**18, 2**31 - 1]
INT32 = st.lists(st.integers(-(2**31), 2**31 - 1) | st.sampled_from(EDGES), max_size=20)


def int_array(items: list[int], code: str = "i") -> IntArray:
    """An array of any items, as unpickling makes one."""
    empty = Vocab.embedded().encode("")
    restore, _ = empty.__reduce__()
    made = restore(array.array(code, items).tobytes(), code)  # type: ignore[operator]
    assert isinstance(made, IntArray)
    return made


CODES = {"i": np.int32, "q": np.int64, "B": np.uint8}


def test_ids_are_int32_masks_uint8_offsets_int64(embedded: Codec) -> None:
    encoding = embedded.encode([{"role": "user", "content": "a"}])
    batch = embedded.encode_batch([[{"role": "user", "content": "a"}]])
    for items, dtype in [
        (encoding.ids, np.int32),
        (encoding.message_indices, np.int32),
        (encoding.is_control, np.uint8),
        (encoding.is_content, np.uint8),
        (encoding.assistant_mask, np.uint8),
        (batch.ids, np.int32),
        (batch.offsets, np.int64),
        (embedded.vocab.encode("a"), np.int32),
        (embedded.parse([5]).rest, np.int32),
    ]:
        assert np.asarray(items).dtype == dtype


def test_numpy_reads_without_a_copy(embedded: Codec) -> None:
    ids = embedded.encode([{"role": "user", "content": "Hello"}]).ids
    one, two = np.asarray(ids), np.asarray(ids)
    assert np.shares_memory(one, two)
    assert one.base is not None
    assert not one.flags.writeable
    assert one.flags.c_contiguous
    assert one.tolist() == list(ids)
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 5
    with pytest.raises(ValueError, match="WRITEABLE"):
        one.flags.writeable = True


def test_a_view_keeps_the_items_alive(embedded: Codec) -> None:
    encoding = embedded.encode([{"role": "user", "content": "Hello " * 1000}])
    expected = encoding.ids.tolist()
    view, memory = np.asarray(encoding.ids), memoryview(encoding.ids)
    del encoding
    gc.collect()
    assert view.tolist() == memory.tolist() == expected


def test_the_buffer_says_what_it_is(embedded: Codec) -> None:
    ids = embedded.vocab.encode("a b")
    with memoryview(ids) as view:
        assert (view.format, view.itemsize, view.ndim, view.readonly) == ("i", 4, 1, True)
        assert (view.shape, view.strides, view.nbytes) == ((len(ids),), (4,), 4 * len(ids))
        assert view.obj is ids
        assert view.c_contiguous
    assert bytes(ids) == np.asarray(ids).tobytes()
    assert array.array("i", bytes(ids)).tolist() == ids.tolist()


def test_views_are_released(embedded: Codec) -> None:
    """However many are taken, the object's count of references comes back."""
    ids = embedded.vocab.encode("a b")
    before = sys.getrefcount(ids)
    for _ in range(1000):
        np.asarray(ids)
        memoryview(ids).release()
    gc.collect()
    assert sys.getrefcount(ids) == before


def test_an_empty_array_has_a_buffer(embedded: Codec) -> None:
    empty = embedded.vocab.encode("")
    assert np.asarray(empty).shape == (0,)
    assert memoryview(empty).nbytes == 0
    assert empty == []
    assert (len(empty), empty.tolist(), bool(empty)) == (0, [], False)


def test_where_with_a_mask_gives_labels(embedded: Codec) -> None:
    """What the masks are for: labels for training, with the sign that int32 has."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    encoding = embedded.encode(messages)
    labels = np.where(np.asarray(encoding.assistant_mask), np.asarray(encoding.ids), -100)
    assert labels.dtype in {np.dtype(np.int32), np.dtype(np.int64)}
    assert labels[0] == -100
    assert [label for label in labels if label >= 0] == [*embedded.vocab.encode("b"), 92542]


@given(items=INT32)
def test_it_is_a_sequence_like_a_list(items: list[int]) -> None:
    ids = int_array(items)
    assert isinstance(ids, Sequence)
    assert len(ids) == len(items)
    assert list(ids) == ids.tolist() == items
    assert list(reversed(ids)) == items[::-1]
    assert [ids[i] for i in range(-len(items), len(items))] == items + items
    for value in (*items, 7):
        assert (value in ids) == (value in items)
        assert ids.count(value) == items.count(value)
    assert repr(ids) == f"IntArray({items})"


def test_ints_of_ids_are_shared_and_counted() -> None:
    """A list holds references, as many as are given back when it is dropped."""
    ids = int_array([70_001, 70_002, 70_001])
    first, _, third = ids.tolist()
    assert first is third is ids[0] is next(iter(ids))
    before = sys.getrefcount(first)
    lists = [ids.tolist() for _ in range(100)]
    assert sys.getrefcount(first) == before + 200
    del lists
    assert sys.getrefcount(first) == before


@given(
    items=INT32,
    start=st.none() | st.integers(-25, 25),
    stop=st.none() | st.integers(-25, 25),
    step=st.integers(-4, 4),
)
def test_slices_are_those_of_a_list(
    items: list[int], start: int | None, stop: int | None, step: int
) -> None:
    for code, dtype in CODES.items():
        values = [item % 256 for item in items]
        ids = int_array(values, code)
        if step == 0:
            with pytest.raises(ValueError, match="zero"):
                ids[start:stop:step]
            return
        part = ids[start:stop:step]
        assert isinstance(part, IntArray)
        assert part == values[start:stop:step]
        assert np.asarray(part).dtype == dtype


@given(items=INT32, value=st.integers(-3, 3), start=st.integers(-25, 25), stop=st.integers(-25, 25))
def test_index_is_that_of_a_list(items: list[int], value: int, start: int, stop: int) -> None:
    items = [item % 5 - 2 for item in items]
    ids = int_array(items)
    for bounds in ((), (start,), (start, stop)):
        try:
            expected: int | None = items.index(value, *bounds)
        except ValueError:
            expected = None
        if expected is None:
            with pytest.raises(ValueError, match="not in"):
                ids.index(value, *bounds)
        else:
            assert ids.index(value, *bounds) == expected


@given(items=INT32, other=INT32)
def test_equality_is_that_of_the_items(items: list[int], other: list[int]) -> None:
    ids = int_array(items)
    assert (ids == int_array(other)) == (ids == other) == (items == other)
    assert ids == items == ids
    assert ids == tuple(items)
    assert ids == int_array(items, "q")
    assert (ids != items) is False
    assert hash(ids) == hash(int_array(items))
    assert {ids: 1}[int_array(items)] == 1


@pytest.mark.parametrize("other", ["ab", b"ab", None, 5, {1, 2}, [1, "2"], [1, 2.5], object()])
def test_what_is_no_sequence_of_ints_is_unequal(other: object) -> None:
    assert int_array([1, 2]) != other
    assert int_array([97, 98]) != other


def test_odd_values_are_not_in_it() -> None:
    ids = int_array([1, 2])
    for value in ("1", None, 1.5, 10**30, [1]):
        assert value not in ids
        assert ids.count(value) == 0
        with pytest.raises(ValueError, match="not in"):
            ids.index(value)


def test_an_index_outside_of_it_is_an_error() -> None:
    ids = int_array([1, 2])
    for index in (2, -3, 2**62, -(2**62)):
        with pytest.raises(IndexError):
            ids[index]
    wrong: list[Any] = ["0", None, 1.0]
    for index in wrong:
        with pytest.raises(TypeError):
            ids[index]
    of_numpy: Any = np.int64(1)
    assert ids[of_numpy] == 2


def test_it_cannot_be_changed() -> None:
    ids = int_array([1, 2])
    with pytest.raises(TypeError):
        ids[0] = 5  # type: ignore[index]
    with pytest.raises(TypeError):
        del ids[0]  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        IntArray()
    with pytest.raises((TypeError, BufferError)):
        struct.pack_into("i", ids, 0, 5)
    assert ids == [1, 2]


@given(items=INT32)
def test_it_is_pickled_and_copied(items: list[int]) -> None:
    for code, dtype in CODES.items():
        ids = int_array([item % 256 for item in items], code)
        for same in (pickle.loads(pickle.dumps(ids)), copy.copy(ids), copy.deepcopy(ids)):  # noqa: S301
            assert same == ids
            assert np.asarray(same).dtype == dtype


@pytest.mark.parametrize(
    "arguments", [(b"abc", "i"), (b"", "x"), (b"abcd", ""), ("abcd", "i"), (b"1234567", "q")]
)
def test_what_is_no_pickle_of_it_is_refused(arguments: tuple[Any, Any]) -> None:
    restore, _ = int_array([1]).__reduce__()
    with pytest.raises((ValueError, TypeError)):
        restore(*arguments)  # type: ignore[operator]


def test_the_class_is_of_the_package() -> None:
    assert chatcodec.IntArray is IntArray
    assert issubclass(IntArray, Sequence)


def test_a_long_array_shows_its_ends(embedded: Codec) -> None:
    ids = embedded.encode([{"role": "user", "content": "word " * 2000}]).ids
    shown = repr(ids)
    assert len(shown) < 1000
    assert shown.startswith(f"IntArray([{ids[0]}, ")
    assert shown.endswith(f", {ids[-1]}], len={len(ids)})")
