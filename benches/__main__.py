"""The command line: `python -m benches [options]`, which are in `main`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from . import compare, machine, page, plan, results, summary, targets, vocabularies
from .contenders import CONTENDERS, OURS, PLOTS
from .environments import InstallError, python_of
from .paths import PAGE, RESULTS, ROOT, WORK
from .paths import PLOTS as PICTURES
from .run import Run


def main() -> int:
    """Measures, or reads what was measured; prints the table of targets."""
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the main rows, in three minutes")
    parser.add_argument("--only", metavar="WORD", help="only tasks with this in their names")
    parser.add_argument("--rounds", metavar="N", type=int, help="no more rounds than this")
    parser.add_argument("--out", type=Path, help="where results are written")
    parser.add_argument(
        "--report", metavar="FILE", type=Path, help="write the pages of a run again"
    )
    parser.add_argument(
        "--summary", action="store_true", help="write the summary of the tables again"
    )
    parser.add_argument(
        "--compare", metavar=("A", "B"), nargs=2, type=Path, help="whether two runs agree"
    )
    parser.add_argument("--install", action="store_true", help="only make the environments")
    asked = parser.parse_args()
    if asked.compare:
        one, other = map(results.read, asked.compare)
        same, said = compare.render(one, other)
        _say(said)
        return 0 if same else 1
    if asked.summary:
        _summarize()
        return 0
    if asked.report:
        _publish(results.read(asked.report), asked.report)
        return 0
    pythons, failed = _environments()
    if asked.install:
        _say("\n".join([*pythons, *failed]))
        return 0
    found = vocabularies.all_of_them()
    tasks = plan.tasks(found, quick=asked.quick)
    if asked.only:
        tasks = [
            task for task in tasks if asked.only in f"{task.section} {task.vocabulary} {task.what}"
        ]
    if asked.rounds:
        tasks = [task.at_most(asked.rounds) for task in tasks]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    run = Run(pythons, found, max(cores))
    partial = bool(asked.quick or asked.only or asked.rounds)
    run.results.about = {
        "quick": asked.quick,
        "partial": partial,
        "machine": machine.describe(),
        "versions": _versions(),
    }
    run.results.notes = failed
    out = asked.out or WORK / ("quick.json" if partial else "results.json")
    run.do(tasks, out)
    if not partial:
        _publish(run.results, out)
    else:
        _say(targets.render(run.results))
    return 0


def _publish(run: results.Results, file: Path) -> None:
    """Writes the tables, their plots and summary, and prints the table of targets."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    drawn = False
    try:
        python = python_of(PLOTS)
        command = [str(python), "-m", "benches.plots", str(file.resolve()), str(PICTURES)]
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own module
        drawn = True
    except (InstallError, subprocess.CalledProcessError) as error:
        _say(f"no plots: {error}")
    RESULTS.write_text(page.render(run, plots=drawn), encoding="utf-8")
    _summarize()
    _say(targets.render(run))


def _summarize() -> None:
    """Writes the summary, from the tables alone."""
    PAGE.write_text(summary.render(RESULTS.read_text(encoding="utf-8")), encoding="utf-8")


def _environments() -> tuple[dict[str, Path], list[str]]:
    """An interpreter for each contender, and notes on those that have none."""
    pythons, failed = {}, []
    for contender in CONTENDERS:
        try:
            pythons[contender.name] = python_of(contender.requirements)
        except InstallError as error:
            failed.append(f"{contender.name} could not be installed: {error}")
    return pythons, failed


def _versions() -> dict[str, str]:
    import chatcodec  # noqa: PLC0415 - only a run needs it

    pinned = {
        contender.name: contender.requirements[0].partition("==")[2]
        for contender in CONTENDERS
        if contender.requirements
    }
    return {OURS: chatcodec.__version__, **pinned}


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
