"""Fixtures: the contenders, each loaded once; and the tables at the end of a run."""

from __future__ import annotations

import os
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

from . import peers, report, texts
from .measure import Bench, Benchmark, Checks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHECKS = pytest.StashKey[Checks]()
RESULTS = pytest.StashKey[dict[str, Any]]()


@pytest.fixture
def bench(
    model: Path,
    benchmark: Benchmark,
    pytestconfig: pytest.Config,
    request: pytest.FixtureRequest,
) -> Bench:
    return Bench(model, benchmark, pytestconfig.stash[CHECKS], request)


@pytest.fixture
def one_core() -> Iterator[None]:
    """Keeps this thread on one core, where the system can."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if cores:
        os.sched_setaffinity(0, {max(cores)})
    yield
    if cores:
        os.sched_setaffinity(0, cores)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model file that all contenders read."""
    path = tmp_path_factory.mktemp("model") / "tokenizer.model"
    path.write_bytes(peers.in_full_layout(texts.vocabulary().read_bytes()))
    return path


@pytest.fixture(scope="session")
def tokenizer_json(model: Path) -> Path:
    """The same for `tokenizers`."""
    path = model.with_name("tokenizer.json")
    path.write_text(peers.tokenizer_json(model.read_bytes()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def sentencepiece(model: Path) -> Any:  # noqa: ANN401 - the peers have no types
    module = pytest.importorskip("sentencepiece")
    return module.SentencePieceProcessor(model_file=str(model))


@pytest.fixture(scope="session")
def tokenizers(tokenizer_json: Path) -> Any:  # noqa: ANN401 - the peers have no types
    module = pytest.importorskip("tokenizers")
    tokenizer = module.Tokenizer.from_file(str(tokenizer_json))
    # Its threads start here, while this one may use all cores: they inherit that.
    tokenizer.encode_batch(["a", "b"])
    return tokenizer


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CHECKS] = Checks()
    # The figures are always kept; pytest-benchmark's own tables come only with -v.
    if getattr(config.option, "benchmark_json", "") is None:
        figures = config.rootpath / "target" / "bench.json"
        figures.parent.mkdir(exist_ok=True)
        config.option.benchmark_json = figures
        config.option.benchmark_quiet = True


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Adds what the report says beside the figures."""
    names = ("chatcodec", "tokenizers", "sentencepiece")
    installed = {distribution.name for distribution in metadata.distributions()}
    versions = {name: metadata.version(name) for name in names if name in installed}
    output_json["vocabulary"] = "InternLM2" if texts.HAS_DATA else "embedded"
    output_json["versions"] = versions
    output_json["notes"] = sorted(config.stash[CHECKS].notes)
    config.stash[RESULTS] = output_json


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Ends the run with the tables."""
    results = config.stash.get(RESULTS, None)
    if results is not None:
        terminalreporter.write_line("")
        terminalreporter.write_line(report.render(results))
