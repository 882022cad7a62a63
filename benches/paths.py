"""Where things are read and written."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("CHATCODEC_TEST_DATA", ROOT.parent / "shared"))
"""Real vocabularies and texts, where they are."""
WORK = ROOT / "target" / "bench"
PAGE = ROOT / "docs" / "benchmarks.md"
PLOTS = ROOT / "docs" / "benchmarks"
