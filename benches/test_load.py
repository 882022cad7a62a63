"""What comes before the first id: loading a vocabulary, the first call, and the memory they take.

Each is measured in a fresh process, by that process itself: the benchmark's clock is the sum of
what the processes say.
"""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from . import texts
from .measure import Bench, Turn, takes_turns
from .peers import CHATCODEC, SENTENCEPIECE, TOKENIZERS, Contender

FIRST_USE = Path(__file__).with_name("first_use.py")
ROUNDS = 3


class Clock:
    """Shows the seconds that were put on it."""

    __name__ = "processes"
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


clock = Clock()


@takes_turns(CHATCODEC, TOKENIZERS, SENTENCEPIECE, turns=1)
@pytest.mark.parametrize("vocabulary", ["InternLM2", "embedded"])
@pytest.mark.parametrize("figure", ["load", "first call"])
@pytest.mark.benchmark(timer=clock)
def test_first_use(bench: Bench, figure: str, vocabulary: str, turn: Turn) -> None:
    contender = turn.contender
    told = _processes(contender.name, _file(bench, vocabulary, contender))
    row = f"{vocabulary}: {figure}"
    cell = bench.cell("Load and memory, in a fresh process", row, contender)
    rounds = iter(told)

    def run() -> None:
        clock.seconds += next(rounds)[figure]

    cell.pedantic(run, rounds=ROUNDS)
    if figure == "load":
        grown, after_text = (
            statistics.median(process[name] for process in told) / 1e6
            for name in ("grown", "grown after text")
        )
        cell.extra_info["note"] = f"{grown:.3g} MB, after 1 MB of text {after_text:.3g} MB"


def _file(bench: Bench, vocabulary: str, contender: Contender) -> str:
    """The file that a contender loads; the embedded vocabulary is part of the package."""
    if vocabulary == "embedded" and contender is CHATCODEC:
        return ""
    if contender is not CHATCODEC:
        pytest.importorskip(contender.name)
    if vocabulary == "embedded" and contender is TOKENIZERS:
        pytest.skip("the embedded vocabulary ends before the control tokens, no JSON is made of it")
    if vocabulary == "embedded":
        return str(texts.EMBEDDED)
    if not texts.HAS_DATA:
        pytest.skip("needs the vocabulary of InternLM2: ../shared, or CHATCODEC_TEST_DATA")
    if contender is TOKENIZERS:
        return str(bench.request.getfixturevalue("tokenizer_json"))
    return str(texts.vocabulary())


@functools.cache
def _processes(contender: str, path: str) -> list[dict[str, float]]:
    """What some processes say of their first use of a vocabulary."""
    command = [sys.executable, str(FIRST_USE), contender, path]
    text = texts.document("English").encode()
    return [
        json.loads(subprocess.run(command, input=text, capture_output=True, check=True).stdout)  # noqa: S603 - our own script
        for _ in range(ROUNDS)
    ]
