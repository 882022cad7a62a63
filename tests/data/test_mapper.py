"""`Codec.mapper` in the tools that it is made for, and its pickles."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import models
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chatcodec import Codec, VocabError
from models import Model, Piece

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import datasets

if TYPE_CHECKING:
    from pathlib import Path

CODEC = Codec("internlm2", vocab="embedded")
SAID = [{"role": "user", "content": "Hello 🦜"}, {"role": "assistant", "content": "b"}]
WRONG = [{"role": "nobody", "content": ""}]
ROWS = [{"id": n, "messages": SAID * n} for n in range(1, 5)]
IDS = [CODEC.encode(row["messages"]).ids.tolist() for row in ROWS]  # type: ignore[arg-type]
LABELS = [CODEC.encode(row["messages"]).labels().tolist() for row in ROWS]  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()


def again(value: Any) -> Any:  # noqa: ANN401
    return pickle.loads(pickle.dumps(value))  # noqa: S301


def test_tables_and_frames_come_back_as_they_are() -> None:
    mapper = CODEC.mapper(labels=True)
    table = pa.Table.from_pylist(ROWS)
    for batch in (table, pl.DataFrame(ROWS), pd.DataFrame(ROWS)):
        encoded = mapper(batch)
        assert type(encoded) is type(batch)
        assert [list(ids) for ids in encoded["input_ids"].to_numpy()] == IDS
        assert [list(labels) for labels in encoded["labels"].to_numpy()] == LABELS
    assert mapper(table.to_batches()[0])["input_ids"].to_pylist() == IDS


@pytest.mark.parametrize("options", [{"labels": True}, {"columns": ["labels"], "prefix": "new_"}])
def test_conversations_without_anything_to_train_on_are_warned_of(options: dict[str, Any]) -> None:
    mapper = CODEC.mapper(**options)
    rows = [ROWS[0], {"id": 0, "messages": SAID[:1]}]
    for batch in (pa.Table.from_pylist(rows), pl.DataFrame(rows), {"messages": [SAID, SAID[:1]]}):
        with pytest.warns(UserWarning, match="^1 of 2 conversations have nothing to train on"):
            mapper(batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mapper(pa.Table.from_pylist(ROWS))
        CODEC.mapper()(pa.Table.from_pylist(rows))


def test_dicts_give_the_new_columns() -> None:
    columns = {"id": [1, 2], "messages": [SAID, WRONG]}
    encoded = CODEC.mapper(errors="return", columns=["input_ids", "length"])(columns)
    assert [*encoded] == ["input_ids", "length", "error"]
    assert [ids.tolist() for ids in encoded["input_ids"]] == [IDS[0], []]
    assert {ids.dtype for ids in encoded["input_ids"]} == {np.dtype(np.int32)}
    assert encoded["length"] == [len(IDS[0]), 0]
    assert not encoded["error"][0]
    assert "nobody" in encoded["error"][1]


def test_dicts_of_mixed_contents_are_read() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    text = [{"role": "user", "content": "a"}]
    first, second = CODEC.mapper()({"messages": [parts, text]})["input_ids"]
    assert first.tolist() == second.tolist() == CODEC.encode(text).ids.tolist()


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_datasets_store_lists_of_ints(size: int) -> None:
    rows = datasets.Dataset.from_list([*ROWS, {"id": 5, "messages": WRONG}])
    mapper = CODEC.mapper(labels=True, errors="return")
    mapped = rows.map(mapper, batched=True, batch_size=size)
    assert mapped.features["input_ids"] == datasets.List(datasets.Value("int32"))
    assert mapped.features["error"] == datasets.Value("string")
    assert mapped["input_ids"][:] == [*IDS, []]
    assert mapped["labels"][:] == [*LABELS, []]
    assert mapped["id"][:] == [1, 2, 3, 4, 5]


def test_a_column_of_arrays_is_never_stored_as_something_else() -> None:
    """What `datasets.map` does with an array that it does not know is to store `{}`."""
    rows = datasets.Dataset.from_list(ROWS)

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        encoding = CODEC.encode(row["messages"])
        return {"ids": encoding.ids, "encoding": encoding, "labels": encoding.labels()}

    mapped = rows.map(encode)
    assert mapped["ids"][:] == mapped["encoding"][:] == IDS
    assert mapped["labels"][:] == LABELS


def test_datasets_of_arrow_and_several_processes_are_mapped() -> None:
    rows = datasets.Dataset.from_list(ROWS)
    mapper = CODEC.mapper()
    formatted = rows.with_format("arrow").map(mapper, batched=True)
    assert formatted.with_format(None)["input_ids"][:] == IDS
    shared = rows.map(mapper, batched=True, num_proc=2, remove_columns=["messages"])
    assert shared["input_ids"][:] == IDS
    assert shared.column_names == ["id", "input_ids"]


FINGERPRINT = """
import warnings
warnings.simplefilter("ignore")
from chatcodec import Codec
from datasets.fingerprint import Hasher
print(Hasher.hash(Codec("internlm2", vocab="embedded").mapper(labels=True, errors="return")))
"""


def test_the_fingerprint_is_stable_between_processes() -> None:
    seen = set()
    for _ in range(2):
        command = [sys.executable, "-c", FINGERPRINT]
        seen.add(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert len(seen) == 1
    other = datasets.fingerprint.Hasher.hash(CODEC.mapper(labels=True))
    assert other not in seen


def test_a_mapper_of_a_file_is_pickled_as_a_recipe(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    write_vocab(path, "abc")
    codec = Codec("chatml", path)
    mapper = codec.mapper(labels=True)
    pickled = pickle.dumps(mapper)
    assert len(pickled) < 1500
    assert str(path).encode() in pickled
    assert again(mapper) == mapper
    assert hash(again(mapper)) == hash(mapper)
    assert mapper != codec.mapper()


CHILD = """
import pickle, sys
import pyarrow as pa
mapper = pickle.loads(bytes.fromhex(sys.stdin.read()))
table = pa.table({"messages": [[{"role": "user", "content": "Hi"}]]})
print(mapper(table)["input_ids"].to_pylist())
"""


def loaded_elsewhere(mapper: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD]
    text = pickle.dumps(mapper).hex()
    return subprocess.run(command, input=text, check=False, capture_output=True, text=True)


def test_another_process_loads_the_recipe() -> None:
    said = [{"role": "user", "content": "Hi"}]
    done = loaded_elsewhere(CODEC.mapper())
    assert done.stdout.strip() == str([CODEC.encode(said).ids.tolist()]), done.stderr


def encode_in_child(mapper: Any) -> list[list[int]]:  # noqa: ANN401
    ids: list[list[int]] = mapper(pa.Table.from_pylist(ROWS))["input_ids"].to_pylist()
    return ids


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_forked_process_uses_the_mapper() -> None:
    mapper = CODEC.mapper()
    assert encode_in_child(mapper) == IDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(encode_in_child, [mapper] * 4) == [IDS] * 4


def test_spark_is_given_the_new_columns() -> None:
    mapper = CODEC.mapper(columns=["input_ids", "attention_mask", "length"], errors="return")
    batches = list(mapper.spark(pa.Table.from_pylist(ROWS).to_batches()))
    assert [batch.schema.names for batch in batches] == [
        ["input_ids", "attention_mask", "length", "error"]
    ]
    assert mapper.spark_schema == (
        "`input_ids` array<int>, `attention_mask` array<tinyint>, `length` int, `error` string"
    )


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match='errors="other"'):
        CODEC.mapper(errors="other")
    with pytest.raises(TypeError, match="colour"):
        CODEC.mapper(colour="red")


def write_vocab(path: Path, signs: str) -> None:
    pieces = [Piece("\u2581"), *(Piece(sign, -9) for sign in signs)]
    pieces += [Piece("<|im_start|>", -1), Piece("<|im_end|>", -1)]
    path.write_bytes(Model([*models.specials(), *pieces]).proto())


def test_the_files_of_a_recipe_are_loaded_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    write_vocab(path, "abc")
    codec = Codec("chatml", path)
    mapper = codec.mapper()
    done = loaded_elsewhere(mapper)
    expected = codec.encode([{"role": "user", "content": "Hi"}]).ids.tolist()
    assert done.stdout.strip() == str([expected]), done.stderr
    write_vocab(path, "abcd")
    done = loaded_elsewhere(mapper)
    assert VocabError.__name__ in done.stderr
    assert "the files differ from those that the mapper was made of" in done.stderr
    path.unlink()
    assert "FileNotFoundError" in loaded_elsewhere(mapper).stderr
