"""Which rows of a column of labels have nothing to train on."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["IGNORED", "untrained_rows"]

IGNORED = -100
"""The label of ids that are not trained on."""


def untrained_rows(labels: pa.ChunkedArray, ignored: int = IGNORED) -> list[int]:
    """Return the positions of rows with ids all of whose labels are ignored; null rows are none.

    >>> labels = pa.chunked_array([[[-100, 7], [-100, -100], [], None]])
    >>> untrained_rows(labels)
    [1, 2]
    """
    whole = labels.combine_chunks()
    is_trained = pc.not_equal(pc.list_flatten(whole), ignored)
    trained = {*pc.list_parent_indices(whole).filter(is_trained).unique().to_pylist()}
    is_written = whole.is_valid().to_pylist()
    return [at for at, written in enumerate(is_written) if written and at not in trained]
