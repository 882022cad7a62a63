"""On what a run was made."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path


def describe() -> dict[str, str]:
    """The processor, the system, and the versions of what builds and runs the project."""
    return {
        "CPU": f"{_cpu()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "OS": f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        "Python": platform.python_version(),
        "Rust": _said("rustc", "--version") or "unknown",
        "commit": _commit(),
    }


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _memory() -> str:
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return "unknown"
    return f"{pages / (1 << 30):.0f} GB"


def _commit() -> str:
    """What is checked out; `-dirty` where anything differs but the pages, which runs write."""
    pages = (":!/docs", ":!/benches/RESULTS.md")
    commit = _said("git", "describe", "--always") or "unknown"
    changed = _said("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", *pages)
    return f"{commit}-dirty" if changed else commit


def _said(*command: str) -> str:
    """What a program prints; nothing where it is not there or fails."""
    program = shutil.which(command[0])
    if program is None:
        return ""
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)  # noqa: S603 - no user's words
    return done.stdout.strip()
