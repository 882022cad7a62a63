"""The command `trajectories`: what a gateway remembers, as Parquet."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec.trajectory import batches, schema_of

if TYPE_CHECKING:
    from chatcodec.trajectory import Columns

__all__ = ["write_trajectories"]


def write_trajectories(memory: str, output: str, columns: Columns, key: str | None) -> int:
    """Write the trajectories of a file, of all clients or of one; give their number.

    Raises `ImportError` without pyarrow, `OSError` for a file that cannot be read or written, and
    `ValueError` for one of another kind.
    """
    # Some interpreters are built without SQLite.
    from chatcodec.serve.memory.sqlite import SqliteStore  # noqa: PLC0415
    from chatcodec.serve.memory.trajectories import trajectories  # noqa: PLC0415

    parquet: Any = importlib.import_module("pyarrow.parquet")
    if not Path(memory).is_file():
        raise FileNotFoundError(f"{memory}: no such file")
    store, count = SqliteStore.reading(memory), 0
    try:
        with parquet.ParquetWriter(output, schema_of(columns)) as writer:
            for batch in batches(trajectories(store, key), columns):
                writer.write_batch(batch)
                count += batch.num_rows
    finally:
        store.close()
    return count
