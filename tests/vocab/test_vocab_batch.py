"""`Vocab.encode_batch`: many texts at once have the ids that each has alone."""

from __future__ import annotations

import copy
from typing import Any

import data
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from chatcodec import IntArray, MessageError, Vocab, VocabError
from hypothesis import given
from hypothesis import strategies as st

TEXTS = ["", "Hello", " world", "", "<|im_end|>", "中文 é 😀", "a" * 40_000, "x y " * 30]


@pytest.fixture(
    scope="module", params=["embedded", "qwen2", "llama2", "deepseek-v3", "falcon-gguf"]
)
def vocab(request: pytest.FixtureRequest) -> Vocab:
    if request.param == "embedded":
        return Vocab.embedded()
    return Vocab.load(data.find(f"vocab/{request.param}"))


@pytest.mark.parametrize("threads", [None, 1, 2, 7])
def test_texts_have_the_ids_that_each_has_alone(vocab: Vocab, threads: int | None) -> None:
    for texts in (
        [],
        [""],
        TEXTS,
        TEXTS * 40,
        ["Some words. " * 60_000],
        ["é words " * 60_000] * 2,
    ):
        batch = vocab.encode_batch(texts, threads=threads)
        alone = [vocab.encode(text).tolist() for text in texts]
        assert len(batch) == len(texts)
        assert [ids.tolist() for ids in batch] == alone
        assert batch.ids.tolist() == [id_ for ids in alone for id_ in ids]
        assert np.diff(np.asarray(batch.offsets)).tolist() == [len(ids) for ids in alone]


@given(st.lists(st.text(), max_size=20), st.integers(1, 4))
def test_any_texts(texts: list[str], threads: int) -> None:
    vocab = Vocab.embedded()
    batch = vocab.encode_batch(iter(texts), threads=threads)
    assert [ids.tolist() for ids in batch] == [vocab.encode(text).tolist() for text in texts]


def test_a_batch_is_a_sequence_of_arrays_and_an_arrow_array() -> None:
    batch = Vocab.embedded().encode_batch(TEXTS)
    assert isinstance(batch[1], IntArray)
    assert batch[-1] == batch[len(TEXTS) - 1]
    with pytest.raises(IndexError, match="TextBatch index out of range"):
        batch[len(TEXTS)]
    assert repr(batch) == "TextBatch(8 texts)"
    lists = [ids.tolist() for ids in batch]
    read = pa.array(batch)
    read.validate(full=True)
    assert read.to_pylist() == lists == pl.Series(batch).to_list()
    again = copy.copy(batch)
    assert [ids.tolist() for ids in again] == lists


def test_only_a_whole_batch_is_restored() -> None:
    batch = Vocab.embedded().encode_batch(["one", "two"])
    restore, _ = batch.__reduce__()
    made: Any = restore
    wrong = batch.offsets[::-1]
    for offsets in (wrong, batch.offsets[:2], batch.offsets[:0], batch.offsets[1:], batch.ids):
        with pytest.raises(ValueError, match="must rise from 0 to the number of its ids"):
            made(batch.ids, offsets)


def test_what_is_no_text_is_named() -> None:
    vocab = Vocab.embedded()
    texts: Any = ["fine", 3]
    with pytest.raises(TypeError, match=r"`texts\[1\]`: expected a `str`, found `int`"):
        vocab.encode_batch(texts)
    with pytest.raises(TypeError, match="expected a sequence of texts, found one `str`"):
        vocab.encode_batch("text")
    for text in ("\ud800", "words é " * 60_000 + "\ud800"):
        with pytest.raises(MessageError, match=r"`texts\[2\]` holds half of a surrogate pair"):
            vocab.encode_batch(["fine", "", text])


@pytest.mark.parametrize("threads", [1, 3])
def test_a_text_without_a_token_is_named(threads: int) -> None:
    vocab = Vocab.load(data.find("vocab/starcoder"))
    for before in (["ab"], ["ab"] * 100, ["ab" * 30_000] * 5):
        with pytest.raises(VocabError, match=rf"no token for .* in `texts\[{len(before)}\]`"):
            vocab.encode_batch([*before, "ab\U00040000", "ab"], threads=threads)
