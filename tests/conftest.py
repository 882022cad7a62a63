"""Hypothesis profiles, the fixtures that every file uses, and the summary of skipped tests."""

from __future__ import annotations

import itertools
import os
import secrets
from collections import Counter
from typing import TYPE_CHECKING

import data
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from chatcodec import Codec

SEEDS = os.environ.get("CHATCODEC_SEEDS") or ("new" if data.LONG else "")
"""A number chooses the examples of laws, `new` chooses others each time. Empty: they are fixed."""

# Laws are checked without a deadline: a machine that does something else meanwhile is no bug.
# How long things take is tested where it is promised.
settings.register_profile(
    "quick",
    max_examples=25,
    deadline=None,
    derandomize=not SEEDS,
    # The same number is to give the same examples, whatever failed before.
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("long", parent=settings.get_profile("quick"), max_examples=1000)
settings.load_profile("long" if data.LONG else "quick")


def pytest_configure(config: pytest.Config) -> None:
    if SEEDS and config.getoption("hypothesis_seed", None) is None:
        # Workers of xdist get the number of the process that starts them.
        seed = str(secrets.randbelow(2**32)) if SEEDS == "new" else SEEDS
        if not seed.isdecimal():
            raise pytest.UsageError(f"CHATCODEC_SEEDS={seed}; expected `new` or a number")
        os.environ["CHATCODEC_SEEDS"] = seed
        config.option.hypothesis_seed = seed
    if "CHATCODEC_TEST_DATA" in os.environ and not data.DATA.is_dir():
        # Asked for by name: to skip everything would look like success.
        raise pytest.UsageError(f"CHATCODEC_TEST_DATA={data.DATA} is no folder")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of constraints that take the same format run one after another.

    What llguidance makes of a vocabulary takes longer than most of these tests, and is too large
    to be kept for each.
    """
    by_format: dict[str, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        format_ = callspec.params.get("format_") if callspec else None
        if format_ and item.path.name.startswith("test_constrain"):
            by_format.setdefault(format_, []).append(item)
        else:
            others.append(item)
    items[:] = [*itertools.chain.from_iterable(by_format.values()), *others]


NO_DATA = "no test data"
"""The beginning of the reason of a test that is skipped for want of a vocabulary or a text."""


def repeat(failed: list[str]) -> list[str]:
    """The command that runs each failed test with the same examples, if they are not fixed."""
    seed = os.environ.get("CHATCODEC_SEEDS")
    long = "CHATCODEC_LONG=1 " if data.LONG else ""
    command = f"{long}CHATCODEC_SEEDS={seed} .venv/bin/python -m pytest -n 0"
    return [f'repeat: {command} "{test}"' for test in failed if seed]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how to repeat failures, and what was skipped: a short run looks like a whole one."""
    for line in repeat([report.nodeid for report in terminalreporter.stats.get("failed", [])]):
        terminalreporter.line(line)
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        reasons[NO_DATA if reason.startswith(NO_DATA) else reason] += 1
    if not reasons:
        return
    terminalreporter.section("skipped")
    if without := reasons.pop(NO_DATA, 0):
        terminalreporter.line(
            f"{counted(without)}: files are not in {data.DATA}; "
            "`make test-data` fetches those that are public"
        )
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{counted(count)}: {reason}")


def counted(tests: int) -> str:
    """A number of tests, for people to read."""
    return f"{tests} test" if tests == 1 else f"{tests} tests"


@pytest.fixture(scope="session", params=data.share(data.CODECS, 2))
def codec(request: pytest.FixtureRequest) -> Codec:
    """Codecs of `data.CODECS`: every second one in a short run, as laws of Rust have all."""
    return data.load_codec(request.param)


@pytest.fixture(scope="session", params=data.INTERNLM2)
def internlm2(request: pytest.FixtureRequest) -> Codec:
    """Every codec of the format `internlm2`."""
    return data.load_codec(request.param)


@pytest.fixture(scope="session")
def embedded() -> Codec:
    """The codec that needs no test data."""
    return data.load_codec("embedded")
