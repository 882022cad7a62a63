"""A virtual environment for each contender, made once per set of pinned versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .paths import WORK

if TYPE_CHECKING:
    from collections.abc import Sequence


class InstallError(Exception):
    """What pip said."""


def python_of(requirements: Sequence[str]) -> Path:
    """The interpreter of an environment with these packages; makes it where it is not there.

    Only wheels are taken: what would have to be built is left out, and the results say so. Needs
    the package index the first time, and nothing later.
    """
    if not requirements:
        return Path(sys.executable)
    folder = WORK / "envs" / requirements[0].replace("==", "-")
    ready = folder / "ready"
    python = folder / "bin" / "python"
    wanted = "\n".join(requirements)
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run(sys.executable, "-m", "venv", str(folder))
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(*pip, "--only-binary=:all:", *requirements)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or str(error)).strip().splitlines()
        raise InstallError(lines[-1] if lines else "pip failed") from error
    ready.write_text(wanted, encoding="utf-8")
    return python


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - no user's words
