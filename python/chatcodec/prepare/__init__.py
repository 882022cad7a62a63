"""Files of conversations to shards of ids, for training: what `chatcodec prepare` runs.

`sources` reads files in blocks of rows, `run` encodes the blocks, `store` keeps the encoded blocks
as parts and makes shards of them. `report` counts.

>>> from chatcodec import Codec
>>> from chatcodec.prepare import Options, prepare
>>> codec = Codec("internlm2", vocab="embedded")
>>> report = prepare(["chats.jsonl"], "out", codec, Options(labels=True))
>>> report.rows, report.rejected
(2, 0)
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyarrow") is None:
    raise ImportError("`chatcodec.prepare` needs pyarrow: `pip install pyarrow`", name="pyarrow")

from chatcodec.prepare.report import Report
from chatcodec.prepare.run import Options, prepare

__all__ = ["Options", "Report", "prepare"]
