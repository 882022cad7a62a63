"""The files of `deploy`: their options and metrics exist, and systemd takes the unit."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec.cli.arguments import build_parser
from chatcodec.cli.commands import COMMANDS
from chatcodec.serve.metrics import Metrics
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY = data.ROOT / "deploy"
ENTRYPOINT = ("serve", "--host", "0.0.0.0")  # noqa: S104 (in a container)


def loaded(name: str) -> Any:  # noqa: ANN401
    return YAML(typ="safe").load((DEPLOY / name).read_text(encoding="utf-8"))


def expressions() -> list[str]:
    """The expressions of the alerts and of the dashboard."""
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text(encoding="utf-8"))
    (group,) = loaded("alerts.yaml")["groups"]
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [rule["expr"] for rule in group["rules"]] + shown


def test_the_command_of_the_unit_is_one(tmp_path: Path) -> None:
    unit = (DEPLOY / "chatcodec.service").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *argv = shlex.split(command)
    args = build_parser(COMMANDS).parse_args(argv)
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert args.drain + args.grace + 2 < int(stop)
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not there")
    here = tmp_path / "chatcodec.service"
    here.write_text(unit.replace(program, "/bin/true"), encoding="utf-8")
    ran = subprocess.run(
        [analyze, "verify", "--man=no", here], capture_output=True, text=True, check=False
    )
    # Units of the machine that are wrong are none of this one's.
    wrong = [line for line in ran.stderr.splitlines() if "chatcodec.service" in line]
    assert (ran.returncode, wrong) == (0, [])


def test_the_containers_run_commands_of_the_gateway() -> None:
    services = loaded("compose.yaml")["services"]
    gateway = services["gateway"]
    args = build_parser(COMMANDS).parse_args([*ENTRYPOINT, *gateway["command"]])
    assert args.backend == "http://engine:8000"
    assert args.drain + args.grace + 2 < int(gateway["stop_grace_period"].removesuffix("s"))
    assert (DEPLOY / gateway["build"]["context"] / gateway["build"]["dockerfile"]).is_file()
    # Clients reach the engine by the gateway alone.
    assert "ports" not in services["engine"]
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)
    assert json.loads(entrypoint) == ["chatcodec", *ENTRYPOINT]


def test_the_image_gets_the_files_that_a_build_needs() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    given = re.findall(r"^!(.*)$", ignored, re.MULTILINE)
    assert [name for name in given if not (data.ROOT / name).exists()] == []
    project = tomllib.loads((data.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workspace = tomllib.loads((data.ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    folders = {member.partition("/")[0] for member in workspace["members"]}
    readme, _, _ = project["readme"].partition("/")
    needed = {"Cargo.toml", "Cargo.lock", "pyproject.toml", "python", readme}
    assert {*needed, *project["license-files"], *folders} == {*given}


def test_the_metrics_that_are_watched_are_measured() -> None:
    measured = {
        sample: metric
        for metric in Metrics().registry.collect()
        for sample in (
            [f"{metric.name}_bucket"] if metric.type == "histogram"
            else [f"{metric.name}_total"] if metric.type == "counter" else [metric.name]
        )
    }  # fmt: skip
    asked = {name for each in expressions() for name in re.findall(r"chatcodec_\w+", each)}
    assert asked <= measured.keys()
    assert {"chatcodec_neutralized_total", "chatcodec_backend_errors_total"} <= asked


def test_the_labels_that_are_watched_exist() -> None:
    metrics = Metrics()
    metrics.requests.labels(api="chat", status=200).inc()
    metrics.neutralized.labels(path="messages[].content").inc()
    metrics.backend_errors.labels(status=503).inc()
    metrics.dropped.labels(kind="name").inc()
    metrics.notices.labels(kind="x").inc()
    text = metrics.text().decode()
    for each in expressions():
        for labels, name in re.findall(r"by \((?!le\))(\w+)\) \(\w+\((chatcodec_\w+)", each):
            assert re.search(rf"^{name}\{{[^}}]*\b{labels}=", text, re.MULTILINE), each


def test_each_alert_says_what_to_do() -> None:
    page = (data.ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (group,) = loaded("alerts.yaml")["groups"]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [
        rule["alert"] for rule in group["rules"]
    ]
