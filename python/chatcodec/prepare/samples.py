"""The first conversations of a folder that `prepare` wrote, for people to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from chatcodec.options import IGNORE_INDEX
from chatcodec.prepare.store import MANIFEST

if TYPE_CHECKING:
    import os

    from chatcodec import Codec

__all__ = ["IDS", "made_of", "samples"]

IDS = 600
"""Ids of a row that are shown."""

_ROWS = 5


def made_of(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Name what made the ids: the vocabulary, the format and the version, of the manifest."""
    manifest = json.loads((Path(folder) / MANIFEST).read_text("utf-8"))
    made = manifest["made_of"]
    return {
        "vocabulary": str(made["vocabulary"].get("name", "")),
        "format": str(made["format"]["name"]),
        "sha256 of the vocabulary": str(made["vocabulary"]["sha256"]),
        "chatcodec": str(manifest["chatcodec"]),
    }


def samples(folder: str | os.PathLike[str], codec: Codec) -> list[dict[str, Any]]:
    """Give the first rows of the first shard: texts of ids, and which ids are control and trained.

    `trained` is missing where rows have no labels.
    """
    folder = Path(folder)
    shards = json.loads((folder / MANIFEST).read_text("utf-8"))["shards"]
    if not shards:
        return []
    control = set(codec.vocab.control.values())
    rows = _rows(folder / shards[0]["file"])
    return [_sample(row, codec, control) for row in rows if "input_ids" in row]


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".arrow":
        with pa.memory_map(str(path)) as mapped:
            reader = pa.ipc.open_file(mapped)
            batch = reader.get_batch(0) if reader.num_record_batches else None
            return [] if batch is None else batch.slice(0, _ROWS).to_pylist()
    batches = pq.ParquetFile(path).iter_batches(batch_size=_ROWS)
    return next((batch.to_pylist() for batch in batches), [])


def _sample(row: dict[str, Any], codec: Codec, control: set[int]) -> dict[str, Any]:
    ids, labels = row["input_ids"], row.get("labels")
    shown = ids[:IDS]
    sample = {
        "texts": [codec.vocab.token_bytes(id_).decode("utf-8", "replace") for id_ in shown],
        "control": [int(id_ in control) for id_ in shown],
        "ids": len(ids),
    }
    if labels is not None:
        sample["trained"] = [int(label != IGNORE_INDEX) for label in labels[:IDS]]
        sample["count"] = sum(label != IGNORE_INDEX for label in labels)
    return sample
