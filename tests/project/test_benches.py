"""The benchmarks without peers: statistics, targets, comparison, tables, and our own worker."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches import compare, figures, page, plan, ranks_json, stats, summary, targets, texts
from benches.contenders import CONTENDERS, OURS
from benches.paths import DATA, PAGE, RESULTS
from benches.results import Key, Results, read
from benches.run import Turn
from benches.targets import Ahead, AtMost, Linear, Target
from benches.vocabularies import EMBEDDED, Vocabulary
from benches.workers import JobError, UnsupportedError, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = Key("document", "InternLM2", "English", "fresh flat")
ABOUT = {"machine": {"CPU": "one"}, "versions": {OURS: "1"}}
SAMPLES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=9)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker(Path(sys.executable), OURS, 0)
    yield made
    made.close()


def results(ours: list[float], **peers: list[float]) -> Results:
    """Seconds for a megabyte."""
    made = Results(about=ABOUT)
    for name, samples in {OURS: ours, **peers}.items():
        for sample in samples:
            made.add(KEY, "B", name, (sample, 1e6))
    return made


def judged(bound: Ahead | AtMost | Linear, found: Results, *rows: Key) -> tuple[str, str]:
    verdict = targets.judge(Target("it", bound, rows or (KEY,)), found)
    return verdict.verdict, verdict.ratio


@given(SAMPLES)
def test_quartiles_stand_around_the_median(samples: list[float]) -> None:
    found = stats.summary(samples)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)


def test_a_median_is_not_a_mean() -> None:
    assert stats.summary([1, 2, 99]).median == 2
    assert stats.summary([3]) == stats.Summary(3, 3, 3)


@given(SAMPLES, SAMPLES)
def test_a_ratio_stands_between_its_bounds(theirs: list[float], ours: list[float]) -> None:
    found = stats.ratio(stats.summary(theirs), stats.summary(ours))
    assert found.low <= found.median * 1.001
    assert found.median <= found.high * 1.001


def test_spreads_agree_where_they_meet() -> None:
    one = stats.Summary(1, 2, 3)
    assert stats.agree(one, stats.Summary(3, 4, 5))
    assert stats.agree(stats.Summary(3, 4, 5), one)
    assert not stats.agree(one, stats.Summary(3.1, 4, 5))
    assert not stats.agree(stats.Summary(3.1, 4, 5), one)


def test_ahead_of_a_named_peer() -> None:
    found = results([1.0], fastokens=[5.0], gigatoken=[2.0])
    assert judged(Ahead(5, "fastokens"), found) == (targets.MET, "5x")
    assert judged(Ahead(5.1, "fastokens"), found) == (targets.NOT_MET, "5x")


def test_ahead_of_the_best_peer() -> None:
    found = results([1.0], fastokens=[5.0], gigatoken=[2.0])
    assert judged(Ahead(2), found) == (targets.MET, "2x")
    assert judged(Ahead(3), found) == (targets.NOT_MET, "2x")


def test_a_target_without_its_peer_is_not_measured() -> None:
    assert judged(Ahead(2), results([1.0])) == (targets.NOT_MEASURED, "")
    assert judged(Ahead(2, "splintr"), results([1.0], fastokens=[5.0]))[0] == targets.NOT_MEASURED
    assert judged(Ahead(2), Results()) == (targets.NOT_MEASURED, "")


def test_at_most_counts_for_its_amount() -> None:
    found = results([1.0], fastokens=[3.0])
    assert judged(AtMost(1.0, 1_000_000), found) == (targets.MET, "3x")
    assert judged(AtMost(1.0, 1_002_000), found) == (targets.NOT_MET, "3x")


def test_the_worst_of_several_rows_counts() -> None:
    found = results([1.0])
    other = KEY._replace(what="chat")
    assert judged(AtMost(1.5, 1e6), found, KEY, other)[0] == targets.NOT_MEASURED
    found.add(other, "B", OURS, (2.0, 1e6))
    assert judged(AtMost(1.5, 1e6), found, KEY, other)[0] == targets.NOT_MET
    assert judged(AtMost(2.0, 1e6), found, KEY, other)[0] == targets.MET


def test_linear_is_a_byte_beside_a_byte() -> None:
    found = results([4.0])
    part = KEY._replace(what="part")
    found.add(part, "B", OURS, (1.0, 0.25e6))
    assert judged(Linear(1.5), found, KEY, part)[0] == targets.MET
    assert judged(Linear(0.9), found, KEY, part)[0] == targets.NOT_MET


def test_the_targets_are_rows_that_are_measured() -> None:
    """A target whose row no task makes would never be judged."""
    names = {row.vocabulary for target in targets.TARGETS for row in target.rows}
    if "chat" not in texts.KINDS:
        pytest.skip("no test data: the vocabularies of the targets")
    vocabularies = {name: Vocabulary(name) for name in names}
    made = {
        (task.section, task.vocabulary, task.what) for task in plan.tasks(vocabularies, quick=False)
    }
    for target in targets.TARGETS:
        for row in target.rows:
            assert row.section == "load" or row[:3] in made


@given(st.integers(1, 9).flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most))))
def test_samples_are_spread_over_the_rounds(given_: tuple[int, int]) -> None:
    rounds, wanted = given_
    turn = Turn({}, rounds)
    taken = []
    for round_ in range(rounds):
        if turn.is_due(round_, rounds):
            taken.append(round_)
            turn.samples += 1
            turn.wanted = wanted
    assert len(taken) == wanted
    gaps = {after - before for before, after in itertools.pairwise([*taken, rounds])}
    assert max(gaps) - min(gaps) <= 1


def test_without_data_there_is_something_to_measure() -> None:
    made = plan.tasks({EMBEDDED: Vocabulary(EMBEDDED)}, quick=False)
    assert made


def test_the_same_run_agrees_with_itself() -> None:
    found = results([1.0, 1.1, 1.2], fastokens=[5.0, 5.5, 6.0])
    assert compare.render(found, found)[0]


def test_other_ratios_do_not_agree() -> None:
    one = results([1.0, 1.1, 1.2], fastokens=[5.0, 5.5, 6.0])
    other = results([1.0, 1.1, 1.2], fastokens=[9.0, 9.5, 10.0])
    same, said = compare.render(one, other)
    assert not same
    assert "document/InternLM2/English/fresh flat" in said
    assert "0 of 1" in said


def test_another_machine_keeps_the_ratios() -> None:
    one = results([1.0, 1.1, 1.2], fastokens=[5.0, 5.5, 6.0])
    other = results([2.0, 2.2, 2.4], fastokens=[10.0, 11.0, 12.0])
    assert compare.render(one, other)[0]


def test_what_has_no_spread_may_differ_a_little() -> None:
    one = results([100.0], fastokens=[200.0])
    assert compare.render(one, results([100.0], fastokens=[203.0]))[0]
    assert not compare.render(one, results([100.0], fastokens=[210.0]))[0]


def test_runs_with_nothing_in_common_do_not_agree() -> None:
    assert not compare.render(Results(), Results())[0]


def test_results_read_as_written(tmp_path: Path) -> None:
    found = results([1.0, 2.0], fastokens=[5.0])
    found.rows[KEY].notes["splintr"] = "other ids"
    found.notes.append("a note")
    found.write(tmp_path / "results.json")
    assert read(tmp_path / "results.json") == found


def test_figures_as_people_read_them() -> None:
    assert figures.figure(1e-8, "B") == "100 MB/s"
    assert figures.figure(1.5e-6, "B") == "0.667 MB/s"
    assert figures.figure(0.0123, "call") == "12.3 ms"
    assert figures.figure(2.5e-7, "id") == "250 ns"
    assert figures.figure(123456, "MB") == "123456 MB"
    assert figures.figure(0.99999e-3, "call") == "1 ms"


def test_the_page_says_where_a_peer_is_ahead() -> None:
    found = results([2.0], fastokens=[1.0])
    found.rows[KEY].notes["splintr"] = "other ids from number 3 on\nnear `it`"
    said = page.render(found, plots=False)
    behind = said.partition("## Where a peer is ahead")[2]
    assert "fastokens 1 MB/s" in behind
    assert "0.5x" in behind
    assert "splintr, English: `other ids from number 3 on near 'it'`" in said
    found.rows[KEY].notes["splintr"] = f"no file {DATA / 'vocab'}"
    assert "- splintr, English: `no file data/vocab`" in page.render(found, plots=False)
    assert "In no row." in page.render(results([1.0], fastokens=[2.0]), plots=False)


def test_the_page_has_words_for_all() -> None:
    assert set(page.WORDS["contenders"]) == {contender.name for contender in CONTENDERS}
    assert set(texts.KINDS) <= set(page.WORDS["texts"])
    tasks = plan.tasks({EMBEDDED: Vocabulary(EMBEDDED)}, quick=False)
    assert {task.section for task in tasks} <= set(page.WORDS["sections"])


def test_the_page_begins_with_ratios() -> None:
    said = page.render(results([1.0], fastokens=[2.0], gigatoken=[3.0]), plots=False)
    glance = said.partition("## At a glance")[2].partition("##")[0]
    assert "| A document: English | **2x** (fastokens) |" in glance


def test_streams_of_formats_are_a_line_each() -> None:
    found = results([1.0])
    for name in ("internlm2", "chatglm3"):
        key = Key("format", name, "text", "one id a push, text")
        found.add(key, "id", OURS, (2e-7, 1.0))
    grid = page.render(found, plots=False).partition("## Streams of every format")[2]
    assert "| `chatglm3`            | 200 ns " in grid
    assert "| vLLM, hermes parser" in grid


def test_the_page_is_the_summary_of_the_tables() -> None:
    """`python -m benches --summary` writes it."""
    tables = RESULTS.read_text(encoding="utf-8")
    said = PAGE.read_text(encoding="utf-8")
    assert said == summary.render(tables)
    found = re.findall(r"[\d.]+(?:x|\*| [MK]B/s| [mµn]?s)", said.partition("## Targets")[2])
    assert len(found) > 100
    assert not [figure for figure in found if figure not in tables]


def test_the_tables_have_the_words_of_the_page() -> None:
    tables = RESULTS.read_text(encoding="utf-8")
    about = [words["text"] for words in page.WORDS["sections"].values()]
    for words in (page.WORDS["head"], page.WORDS["glance"], page.WORDS["behind"], *about):
        assert words.strip() in tables


def test_a_summary_has_the_best_peer_fresh_and_hot() -> None:
    found = results([1.0], fastokens=[4.0], gigatoken=[8.0])
    for measure, ours, theirs in (("fresh list", 1e-6, 4e-6), ("hot list", 5e-7, 1e-7)):
        key = Key("message", "Qwen2", "English", measure)
        for name, seconds in ((OURS, ours), ("fastokens", theirs), ("gigatoken", 5e-6)):
            found.add(key, "call", name, (seconds, 1.0))
    said = summary.render(page.render(found, plots=True))
    assert (
        "| Qwen2, English, list | 1 µs · 500 ns | fastokens 4 µs · 100 ns | **4x** · 0.2x |" in said
    )
    assert "| InternLM2 | 1 MB/s  | fastokens 0.25 MB/s | **4x**" in said
    assert "(../benchmarks/messages.svg)" in said
    assert "| A message of 2.8 KB | 2    | 0                 | 1 " in said
    assert "](../benchmarks/" not in summary.render(page.render(found, plots=False))


def test_a_summary_has_the_targets_that_are_not_met() -> None:
    said = summary.render(page.render(results([1.0], fastokens=[4.0]), plots=False))
    missed = said.partition("## Targets")[2].partition("\n## ")[0]
    assert "0 of 1 measured targets are met" in missed
    assert "≥ 5x fastokens | 1 MB/s    | 4x" in missed
    assert "In no row." in said


def test_every_version_is_pinned() -> None:
    for contender in CONTENDERS:
        assert all("==" in requirement for requirement in contender.requirements)
        assert bool(contender.requirements) == (contender.name != OURS)


@given(st.text(max_size=40), st.integers(4, 12))
def test_pieces_are_the_text(text: str, size: int) -> None:
    pieces = list(texts.pieces(text, size))
    assert "".join(pieces) == text
    assert all(0 < len(piece.encode()) <= size for piece in pieces)


@given(st.text(min_size=1, max_size=40), st.integers(1, 300))
def test_a_longer_text_begins_with_the_text(text: str, size: int) -> None:
    made = texts.longer(text, size)
    assert made.startswith(text)
    assert len(made.encode()) >= size


def test_ranks_become_merges() -> None:
    ranks = {b"a": 0, b"b": 1, b" ": 2, b"ab": 3, b" a": 4, b" ab": 5}
    model = ranks_json.tokenizer_json(ranks, r"\w+")["model"]
    assert model["vocab"]["Ġab"] == 5
    # Both ways to the last one, by the ranks of the halves.
    assert model["merges"] == [["a", "b"], ["Ġ", "a"], ["Ġ", "ab"], ["Ġa", "b"]]


def test_a_worker_measures_a_document(worker: Worker, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Hello, Wörld! 好\r\n" * 50, encoding="utf-8", newline="")
    form = {"path": None, "format": "internlm2"}
    job = {"do": "document", "vocabulary": form, "text": str(text), "hot": True}
    flat, listed = (worker.ask({**job, "out": out}, 60) for out in ("flat", "list"))
    assert flat["digest"] == listed["digest"]
    assert {"fresh flat", "hot flat", "load", "first call", "memory"} <= set(flat["figures"])
    assert flat["figures"]["fresh flat"][1] == text.stat().st_size
    part = worker.ask({**job, "out": "flat", "limit": 100}, 60)
    assert part["digest"] != flat["digest"]


def test_a_worker_measures_our_streams(worker: Worker, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text('He said: "Wörld!" 好\n' * 20, encoding="utf-8")
    form = {"path": None, "format": "internlm2"}
    for do, measures in (
        ("pushes", {"one id a push, text", "one id a push, no event", "an array at once"}),
        ("arguments", {"one id a push", "parse"}),
    ):
        answer = worker.ask({"do": do, "vocabulary": form, "text": str(text)}, 60)
        assert measures <= set(answer["figures"])


def test_a_failing_job_is_an_error_and_the_next_one_works(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="FileNotFoundError"):
        worker.ask({"do": "many", "items": str(tmp_path / "none")}, 60)
    job = {"do": "spell", "vocabulary": {"path": None}, "ids": [300]}
    assert worker.ask(job, 60)["text"]
    with pytest.raises(UnsupportedError):
        worker.ask({**job, "do": "stream", "text": str(Path(__file__))}, 60)


def test_a_job_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Hello, world! " * 100_000, encoding="utf-8")
    slow = Worker(Path(sys.executable), OURS, 0)
    job = {"do": "document", "vocabulary": {"path": None}, "text": str(text), "out": "list"}
    with pytest.raises(JobError, match="more than 0 s"):
        slow.ask(job, 0.0001)
    assert slow.ask({"do": "spell", "vocabulary": {"path": None}, "ids": [300]}, 60)["text"]
    slow.close()
