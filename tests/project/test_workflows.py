"""The workflows of `.github` hold together: names of programs, needs, permissions, compilers.

`scripts/lint_workflows.py` checks their schemas and what the steps run. Here are the rules of this
project, each tried on a workflow that breaks it.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import data
import lint_workflows
import pytest
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Workflow = dict[str, Any]
Job = dict[str, Any]

FOLDER = data.ROOT / ".github" / "workflows"
FILES = {path.name: YAML(typ="safe").load(path.read_text("utf-8")) for path in FOLDER.glob("*.yml")}
CHANNEL = tomllib.loads((data.ROOT / "rust-toolchain.toml").read_text("utf-8"))["toolchain"][
    "channel"
]
PYTHON_BY_VERSION = re.compile(r"\bpython3(\.\d+t?)?\b")
RUST = re.compile(r"rustup toolchain install (\S+)")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)(.*)")


def systems(job: Job) -> str:
    """The names of the machines that a job runs on."""
    matrix = job.get("strategy", {}).get("matrix", {})
    return " ".join([job.get("runs-on", ""), json.dumps(matrix)])


def steps(job: Job) -> list[dict[str, Any]]:
    return list(job.get("steps", []))


def shells(workflow: Workflow) -> Iterator[str]:
    """Steps of bash that PowerShell would run."""
    default = workflow.get("defaults", {}).get("run", {}).get("shell")
    for name, job in workflow["jobs"].items():
        for step in steps(job):
            if "windows" in systems(job) and "run" in step and step.get("shell", default) != "bash":
                yield f"{name}: `{step['run']}` is not for bash on Windows"


def programs(workflow: Workflow) -> Iterator[str]:
    """Pythons by a name that Windows lacks, and targets that need a Python nobody set up."""
    for name, job in workflow["jobs"].items():
        is_windows = "windows" in systems(job)
        versions = [step.get("with", {}).get("python-version") for step in steps(job)]
        for step in steps(job):
            script = step.get("run", "")
            for target, rest in MAKE.findall(script):
                if is_windows and "PYTHON=python" not in rest:
                    yield f"{name}: `make {target}` calls python3"
                if "PYTHON=python" in rest and not any(versions):
                    yield f"{name}: `make {target}` has no Python"
            if is_windows and PYTHON_BY_VERSION.search(script):
                yield f"{name}: `{script}` calls a Python that Windows does not have"
            # A name of a container may stand where another system takes a path.
            for line in step.get("with", {}).get("args", "").split("${{"):
                if is_windows and PYTHON_BY_VERSION.search(line) and "python-path ||" not in line:
                    yield f"{name}: `{line.strip()}` is no path of a Python"


def needs_of(job: Job) -> list[str]:
    needs = job.get("needs", [])
    return [needs] if isinstance(needs, str) else list(needs)


def before(workflow: Workflow, name: str) -> set[str]:
    """The jobs that end before a job begins."""
    own = needs_of(workflow["jobs"][name])
    return {*own, *itertools.chain.from_iterable(before(workflow, need) for need in own)}


def needs(workflow: Workflow) -> Iterator[str]:
    """Needs of jobs that do not exist, and publishing before all is built and tried."""
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        if unknown := set(needs_of(job)) - jobs.keys():
            yield f"{name}: needs {unknown}"
        elif "environment" in job and not {"version", "wheels"} <= before(workflow, name):
            yield f"{name}: publishes what was not tried"


def permissions(workflow: Workflow) -> Iterator[str]:
    """Rights beyond reading, but for jobs that publish, each in an environment of its own."""
    if workflow["permissions"] != {}:
        yield "the workflow has rights of its own"
    environments = []
    for name, job in workflow["jobs"].items():
        rights = {right for right in job["permissions"].items() if right != ("contents", "read")}
        if rights - {("id-token", "write")} or bool(rights) != ("environment" in job):
            yield f"{name}: {rights}"
        environments += [job["environment"]["name"]] if "environment" in job else []
        uses_secret = "secrets." in json.dumps(job)
        if uses_secret and "environment" not in job:
            yield f"{name}: a secret outside an environment"
    if len(set(environments)) != len(environments):
        yield f"two jobs share an environment: {environments}"


def compilers(workflow: Workflow) -> Iterator[str]:
    """Compilers that rust-toolchain.toml does not name; Miri is of the nightly one."""
    if "RUSTUP_TOOLCHAIN" in json.dumps(workflow):
        yield "RUSTUP_TOOLCHAIN overrides rust-toolchain.toml"
    for name, job in workflow["jobs"].items():
        scripts = "\n".join(step.get("run", "") for step in steps(job))
        allowed = {CHANNEL, "nightly"} if "make miri" in scripts else {CHANNEL}
        if other := set(RUST.findall(scripts)) - allowed:
            yield f"{name}: {other}, but rust-toolchain.toml has {CHANNEL}"


def actions(workflow: Workflow) -> Iterator[str]:
    """Actions that are not pinned by a commit, files of workflows that do not exist."""
    for name, job in workflow["jobs"].items():
        for uses in [job.get("uses", ""), *(step.get("uses", "") for step in steps(job))]:
            if uses.startswith("./"):
                if uses.rpartition("/")[2] not in FILES:
                    yield f"{name}: {uses} does not exist"
            elif uses and not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", uses):
                yield f"{name}: {uses} is not pinned"


def outputs(workflow: Workflow) -> Iterator[str]:
    """Outputs of steps that do not come before."""
    for name, job in workflow["jobs"].items():
        known: set[str] = set()
        for step in steps(job):
            asked = set(re.findall(r"steps\.([\w-]+)\.", json.dumps(step)))
            if asked - known:
                yield f"{name}: no step {asked - known} before"
            known |= {step["id"]} if "id" in step else set()


RULES = (shells, programs, needs, permissions, compilers, actions, outputs)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_workflow_keeps_a_rule(name: str, rule: Callable[[Workflow], Iterator[str]]) -> None:
    assert list(rule(FILES[name])) == []


BREAKS: list[tuple[str, Callable[[Workflow], object], str]] = [
    ("ci.yml", lambda flow: flow.pop("defaults"), "shells"),
    ("ci.yml", lambda flow: flow["jobs"]["rust"]["steps"][-1].update(run="make test-rust"),
     "programs"),
    ("ci.yml", lambda flow: flow["jobs"]["rust"]["steps"].pop(1), "programs"),
    ("wheels.yml", lambda flow: flow["jobs"]["wheel"]["steps"].append({"run": "python3.11 x.py"}),
     "programs"),
    ("wheels.yml", lambda flow: flow["jobs"]["wheel"]["steps"][3]["with"].update(
        args="--interpreter python3.11"), "programs"),
    ("release.yml", lambda flow: flow["jobs"]["pypi"].update(needs="wheel"), "needs"),
    ("release.yml", lambda flow: flow["jobs"]["crates"].update(needs="version"), "needs"),
    ("release.yml", lambda flow: flow["jobs"]["version"]["permissions"].update(contents="write"),
     "permissions"),
    ("release.yml", lambda flow: flow["jobs"]["crates"].pop("environment"), "permissions"),
    ("release.yml", lambda flow: flow.update(permissions="write-all"), "permissions"),
    ("ci.yml", lambda flow: flow["env"].update(RUSTUP_TOOLCHAIN="1.95.0"), "compilers"),
    ("ci.yml", lambda flow: flow["jobs"]["deny"]["steps"].append(
        {"run": "rustup toolchain install 1.90.0"}), "compilers"),
    ("release.yml", lambda flow: flow["jobs"]["wheels"].update(uses="./.github/workflows/x.yml"),
     "actions"),
    ("ci.yml", lambda flow: flow["jobs"]["deny"]["steps"].append({"uses": "a/b@v1"}), "actions"),
    ("wheels.yml", lambda flow: flow["jobs"]["wheel"]["steps"].pop(1), "outputs"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "rule"), BREAKS)
def test_a_broken_workflow_is_found(
    name: str, change: Callable[[Workflow], object], rule: str
) -> None:
    flow = copy.deepcopy(FILES[name])
    change(flow)
    assert {each.__name__ for each in RULES if list(each(flow))} == {rule}


def test_each_fuzz_target_is_run_each_night() -> None:
    assert lint_workflows.check_fuzzed()
    makefile = (data.ROOT / "Makefile").read_text("utf-8")
    (targets,) = re.findall(r"^FUZZ_TARGETS := (.*)$", makefile, re.MULTILINE)
    matrix = FILES["nightly.yml"]["jobs"]["fuzz"]["strategy"]["matrix"]
    assert sorted(targets.split()) == sorted(matrix["target"])


def test_the_parts_of_a_release_meet() -> None:
    """What is uploaded is what is published: no two parts have one name."""
    jobs = FILES["wheels.yml"]["jobs"]
    uploads = [steps(job)[-1]["with"]["name"] for job in jobs.values()]
    assert uploads == ["dist-sdist", "dist-${{ matrix.name }}"]
    names = [entry["name"] for entry in jobs["wheel"]["strategy"]["matrix"]["include"]]
    assert len(set(names)) == len(names)
    download = steps(FILES["release.yml"]["jobs"]["pypi"])[0]["with"]
    assert (download["pattern"], download["merge-multiple"]) == ("dist-*", True)


def test_every_kind_of_dependency_is_watched() -> None:
    updates = YAML(typ="safe").load((data.ROOT / ".github/dependabot.yml").read_text("utf-8"))
    kinds = {update["package-ecosystem"] for update in updates["updates"]}
    assert kinds == {"github-actions", "pip", "cargo"}
    (cargo,) = (each for each in updates["updates"] if each["package-ecosystem"] == "cargo")
    assert all((data.ROOT / path[1:] / "Cargo.toml").exists() for path in cargo["directories"])
