"""docs/data.md's code for Spark, run by Spark: `make test-spark`, which needs Java."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import data
import pytest
from test_readme import BLOCK

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(os.environ.get("CHATCODEC_SPARK") != "1", reason="no CHATCODEC_SPARK=1"),
    pytest.mark.filterwarnings("ignore"),
]


def test_the_document_is_true_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYARROW_IGNORE_TIMEZONE", "1")
    text = (data.ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    blocks = [match.groups()[:2] for match in BLOCK.finditer(text)]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    (spark,) = (code for language, code in blocks if language == "py")
    before = [code for language, code in blocks if language == "python"]
    exec(before[0] + "\nimport pandas as pd\n", namespace)  # noqa: S102
    exec(spark, namespace)  # noqa: S102
    assert capsys.readouterr().out.split() == ["True", "True"]
    rows = namespace["encoded"].collect()
    labels = [
        namespace["codec"].encode(row["messages"]).labels().tolist() for row in namespace["rows"]
    ]
    assert [row.labels for row in rows] == labels
    plain = [row.messages for row in namespace["frame"].collect()]
    with pytest.raises(ValueError, match=r"`Row`.*`\.asDict\(recursive=True\)` makes a dict"):
        namespace["codec"].encode(plain[0])
    namespace["spark"].stop()
