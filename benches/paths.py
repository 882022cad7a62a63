"""Where things are read and written."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("CHATCODEC_TEST_DATA", ROOT.parent / "shared"))
"""Real vocabularies and texts, where they are."""
WORK = ROOT / "target" / "bench"
RESULTS = ROOT / "benches" / "RESULTS.md"
"""All tables of the last full run."""
PAGE = ROOT / "docs" / "generated" / "benchmarks.md"
"""Their summary."""
PLOTS = ROOT / "docs" / "benchmarks"


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands in a page between the comments of this name."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    whole = page.read_text("utf-8")
    before, after = whole.partition(begin)[0], whole.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")
