"""Limits of the gateway: arguments that make no sense are refused before it serves."""

from __future__ import annotations

from typing import Any

import pytest
from chatcodec.cli import main
from chatcodec.serve import Settings

SECONDS = ("connect_timeout", "read_timeout", "client_timeout")


@pytest.mark.parametrize("value", ["-1", "0", "nan", "inf", "1e300", "-inf"])
@pytest.mark.parametrize("name", SECONDS)
def test_seconds_are_more_than_none(
    capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    option = "--" + name.replace("_", "-")
    assert main(["serve", "--backend", "http://x", f"{option}={value}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"chatcodec: {option} {float(value)}: expected seconds, more than 0")
    given: Any = {name: float(value)}
    with pytest.raises(ValueError, match=f"`{name}` is {float(value)}".replace("+", r"\+")):
        Settings(backend="http://x", **given)


@pytest.mark.parametrize("value", ["-5", "-1"])
def test_a_grace_is_not_negative(capsys: pytest.CaptureFixture[str], value: str) -> None:
    assert main(["serve", "--backend", "http://x", "--grace", value]) == 2
    assert f"--grace {float(value)}: expected seconds, 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["max_requests", "max_body", "max_choices", "max_model_len"])
def test_counts_are_one_or_more(capsys: pytest.CaptureFixture[str], name: str) -> None:
    option = "--" + name.replace("_", "-")
    assert main(["serve", "--backend", "http://x", option, "0"]) == 2
    assert f"{option} 0: expected 1 or more" in capsys.readouterr().err
    given: Any = {name: -1}
    with pytest.raises(ValueError, match="expected 1 or more"):
        Settings(backend="http://x", **given)
