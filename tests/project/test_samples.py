"""Samples of short runs: even, the same each time, and with new seeds all; a long run takes all."""

from __future__ import annotations

import data
import pytest

ITEMS = list(range(23))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "LONG", False)
    monkeypatch.delenv("CHATCODEC_SEEDS", raising=False)


def test_a_sample_is_even_and_the_same_each_time() -> None:
    assert data.share(ITEMS, 5) == data.share(ITEMS, 5) == [0, 5, 10, 15, 20]
    assert data.share(ITEMS, 5, first=1) == [1, 6, 11, 16, 21]
    assert data.in_turn("abc", [1, 2]) == [("a", 1), ("b", 2), ("c", 1)]


@pytest.mark.parametrize("of", [1, 2, 4, 23, 40])
def test_seeds_in_a_row_reach_all(of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    pairs: set[tuple[int, int]] = set()
    for seed in range(7, 7 + min(of, len(ITEMS))):
        monkeypatch.setenv("CHATCODEC_SEEDS", str(seed))
        sample = data.share(ITEMS, of)
        assert sample, "no test would run"
        seen += sample
        pairs |= set(data.in_turn(ITEMS, range(min(of, len(ITEMS)))))
    assert sorted(seen) == ITEMS
    assert len(pairs) == len(ITEMS) * min(of, len(ITEMS))


def test_a_long_run_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "LONG", True)
    monkeypatch.setenv("CHATCODEC_SEEDS", "3")
    assert data.share(ITEMS, 5, first=2) == ITEMS
    assert len(data.in_turn("abc", [1, 2])) == 6


def test_of_nothing_there_is_no_sample() -> None:
    assert data.share([], 3) == []


def test_the_corpus_is_read_whole_by_seeds_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []
    for seed in range(6):
        monkeypatch.setenv("CHATCODEC_SEEDS", str(seed))
        seen += data.corpus()
    monkeypatch.setattr(data, "LONG", True)
    whole = dict(data.corpus())
    assert {name for name, _ in seen} == whole.keys()
    assert sum(len(text) for _, text in seen) == sum(len(text) for text in whole.values())
    assert all(text in whole[name] for name, text in seen)
