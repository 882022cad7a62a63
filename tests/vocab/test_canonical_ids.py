"""Whether ids are those that text is encoded to: `Vocab.first_uncanonical`."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import data
import pytest
from chatcodec import Vocab
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts
from test_template_codec import tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL = ("<|a|>", "<|b|>")


@functools.cache
def by_library() -> tuple[Tokenizer, Vocab]:
    """A vocabulary of the `tokenizers` library, read by it and by chatcodec."""
    made = tokenizer(SPECIAL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        made.save(str(path))
        return made, Vocab.load(path)


def naive(vocab: Vocab, ids: list[int]) -> int | None:
    """The place by the text of each run, encoded anew."""
    control, runs, start = set(vocab.control.values()), [], 0
    for at, id_ in enumerate([*ids, *control][: len(ids) + 1]):
        if at == len(ids) or id_ in control:
            runs.append((start, ids[start:at]))
            start = at + 1
    for start, run in runs:
        anew = list(vocab.encode(vocab.decode(run)))
        for at, id_ in enumerate(run):
            if anew[at : at + 1] != [id_]:
                return start + at
        if len(anew) > len(run):
            return start + len(run) - 1
    return None


@given(st.lists(hostile_texts() | st.sampled_from(SPECIAL), max_size=5))
def test_what_is_encoded_is_canonical(texts: list[str]) -> None:
    _, vocab = by_library()
    ids: list[int] = []
    for text in texts:
        control = vocab.control.get(text)
        own = [control] if control is not None else list(vocab.encode(text))
        is_text = bool(ids) and control is None and ids[-1] not in vocab.control.values()
        ids += [] if is_text else own
    assert vocab.is_canonical(ids)
    assert vocab.first_uncanonical(ids) is None


@given(st.data())
def test_the_first_place_is_that_of_the_library(draw: st.DataObject) -> None:
    library, vocab = by_library()
    ids = draw.draw(st.lists(st.integers(0, vocab.size - 1), max_size=8))
    assert vocab.first_uncanonical(ids) == naive(vocab, ids)
    if not any(library.id_to_token(id_) in SPECIAL for id_ in ids) and not vocab.control.keys() & {
        library.id_to_token(id_) for id_ in ids
    }:
        again = library.encode(library.decode(ids, skip_special_tokens=False)).ids
        assert vocab.is_canonical(ids) == (again == ids)


@pytest.mark.parametrize("name", data.CODECS)
@given(st.lists(st.integers(0, 1 << 30), max_size=6))
def test_the_first_place_in_vocabularies_of_characters(name: str, numbers: list[int]) -> None:
    vocab = data.load_codec(name).vocab
    ids = [number % vocab.size for number in numbers]
    unused = [at for at, id_ in enumerate(ids) if not vocab.token_bytes(id_)]
    if not unused:
        assert vocab.first_uncanonical(ids) == naive(vocab, ids)
    first = vocab.first_uncanonical(ids)
    assert first is None or 0 <= first < len(ids)
    if unused:
        assert first is not None
        assert first <= unused[0]


@given(hostile_texts(), st.integers(0, 1 << 30))
def test_a_token_in_parts_is_found(text: str, seed: int) -> None:
    _, vocab = by_library()
    ids = list(vocab.encode(text))
    long = [at for at, id_ in enumerate(ids) if len(vocab.token_bytes(id_)) > 1]
    if not long:
        return
    at = long[seed % len(long)]
    raw = vocab.token_bytes(ids[at])
    by_byte = {vocab.token_bytes(id_): id_ for id_ in range(vocab.size)}
    parts = [by_byte[raw[each : each + 1]] for each in range(len(raw))]
    split = [*ids[:at], *parts, *ids[at + 1 :]]
    assert vocab.first_uncanonical(split) == at


def test_ids_outside_and_spaces_of_a_dummy_prefix() -> None:
    vocab = Vocab.embedded()
    hello = list(vocab.encode("Hello"))
    assert vocab.first_uncanonical([*hello, vocab.size]) == len(hello)
    assert vocab.first_uncanonical([*hello, 1 << 30]) == len(hello)
    assert vocab.is_canonical([])
    assert not vocab.is_canonical([*vocab.encode("He"), *vocab.encode("llo")])
