"""Checks the workflows and the issue forms of `.github`.

Their schemas, the security rules of zizmor, shellcheck on what the steps run, and whether each
`make` target that a step names exists. actionlint runs too where it is installed: its package
fetches a program from GitHub, so it is no part of the tools that every run needs. The workflow
`ci.yml` installs it, and asks for it with ``--actionlint``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}
)
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)")


def tool(name: str) -> str | None:
    """The path of a tool of this environment, or of the machine."""
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    return beside or shutil.which(name)


def run(name: str, *arguments: str | Path, stdin: str | None = None) -> bool:
    """Run a tool; whether it found nothing."""
    path = tool(name)
    if path is None:
        print(f"{name} is missing: `make lint` installs it")
        return False
    done = subprocess.run(
        [path, *arguments], check=False, cwd=ROOT, input=stdin, capture_output=True, text=True
    )
    if done.returncode:
        print(done.stdout + done.stderr)
    return done.returncode == 0


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of all jobs of a workflow."""
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def check_steps(path: Path, targets: set[str]) -> bool:
    """Whether what the steps of a workflow run is sound."""
    sound = True
    for step in steps(YAML(typ="safe").load(path.read_text("utf-8"))):
        script = step.get("run", "")
        unknown = set(TARGET.findall(script)) - targets
        if unknown:
            print(f"{path.name}: the Makefile has no target {', '.join(sorted(unknown))}")
            sound = False
        if script:
            # An expression is replaced before the shell sees it.
            shell = EXPRESSION.sub("expression", script)
            sound &= run("shellcheck", "--shell=bash", "--severity=style", "-", stdin=shell)
    return sound


def check_fuzzed() -> bool:
    """Whether the nightly run fuzzes each target."""
    nightly = YAML(typ="safe").load((GITHUB / "workflows" / "nightly.yml").read_text("utf-8"))
    fuzzed = set(nightly["jobs"]["fuzz"]["strategy"]["matrix"]["target"])
    manifest = tomllib.loads((ROOT / "rust" / "fuzz" / "Cargo.toml").read_text("utf-8"))
    known = {target["name"] for target in manifest["bin"]}
    for target in sorted(fuzzed ^ known):
        print(f"nightly.yml: fuzzes {target}: {target in fuzzed}; is a target: {target in known}")
    return fuzzed == known


def main() -> int:
    """Run the command line; return the exit code."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    schema = "--builtin-schema"
    sound = [
        run("check-jsonschema", schema, "vendor.github-workflows", *WORKFLOWS),
        run("check-jsonschema", schema, "vendor.github-issue-forms", *FORMS),
        run(
            *("check-jsonschema", schema, "vendor.github-issue-config"),
            GITHUB / "ISSUE_TEMPLATE" / "config.yml",
        ),
        run("zizmor", "--offline", "--no-progress", "--persona=pedantic", GITHUB / "workflows"),
        *(check_steps(path, targets) for path in WORKFLOWS),
        check_fuzzed(),
    ]
    if tool("actionlint") or "--actionlint" in sys.argv:
        sound.append(run("actionlint"))
    else:
        print("actionlint is not installed: the workflow ci.yml runs it")
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main())
