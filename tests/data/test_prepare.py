"""`chatcodec.prepare` and the command: files of conversations to shards of ids."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chatcodec
import models
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from chatcodec import Codec, DataError, Format, Template
from chatcodec.cli import main
from chatcodec.prepare import Options, Report, prepare
from chatcodec.prepare.report import _bucket
from chatcodec.prepare.sources import LINE, Limits, find_sources
from chatcodec.prepare.store import Store
from hypothesis import given
from hypothesis import strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import datasets
    import transformers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.prepare.store import ShardKind

EMBEDDED = ("--vocab", "embedded")
CODEC = Codec("internlm2", vocab="embedded")
OTHER = Codec(
    Template("{% for m in messages %}{{ m.content }}{% endfor %}"), CODEC.vocab, reader=CODEC.format
)
TINY = Limits(block=600, line=4000, document=100_000)


def said(number: int, text: str = "Hello") -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"{text} {number}"},
        {"role": "assistant", "content": f"{number} " * (number % 40)},
    ]


def rows_of(count: int) -> list[dict[str, Any]]:
    return [{"id": at, "messages": said(at)} for at in range(count)]


def lines_of(rows: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def ids_of(rows: Sequence[dict[str, Any]]) -> list[list[int]]:
    return [CODEC.encode(row["messages"]).ids.tolist() for row in rows]


def written(folder: Path) -> pa.Table:
    return pq.read_table(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rejects(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "_rejects.jsonl").read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_kind_of_file_gives_the_same_ids(folder: Path) -> None:
    rows = rows_of(50)
    data = lines_of(rows)
    table = pa.Table.from_pylist(rows)
    Path("a.jsonl").write_bytes(data)
    Path("b.ndjson").write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    Path("c.jsonl.gz").write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]))
    with pa.CompressedOutputStream("d.jsonl.zst", "zstd") as file:
        file.write(data)
    Path("e.json").write_text(json.dumps(rows, indent=2))
    Path("f.json").write_bytes(data.removesuffix(b"\n"))
    pq.write_table(table, "g.parquet", row_group_size=7)
    with pa.ipc.new_file("h.arrow", table.schema) as file:
        file.write_table(table, 9)
    with pa.ipc.new_stream("i.arrow", table.schema) as file:
        file.write_table(table, 9)
    Path("j.jsonl").write_bytes(b"")
    inputs = sorted(path.name for path in folder.iterdir())
    report = prepare(inputs, "out", CODEC, Options(shards=4, limits=TINY, keep=("id",)))
    assert (report.rows, report.rejected) == (9 * 50, 0)
    assert written(folder / "out")["input_ids"].to_pylist() == ids_of(rows) * 9
    assert written(folder / "out")["id"].to_pylist() == [row["id"] for row in rows] * 9
    shards = sorted(path.name for path in (folder / "out").glob("*.parquet"))
    assert shards == [f"shard-{at:05}-of-00004.parquet" for at in range(4)]
    sizes = {pq.read_metadata(folder / "out" / name).num_rows for name in shards}
    assert max(sizes) - min(sizes) <= 1
    assert not (folder / "out" / ".prepare").exists()
    assert not (folder / "out" / ".lock").exists()
    manifest = json.loads((folder / "out" / "_manifest.json").read_text())
    assert [item["file"] for item in manifest["inputs"]] == inputs


@pytest.mark.usefixtures("folder")
def test_labels_and_other_columns_are_those_of_encode() -> None:
    Path("a.jsonl").write_bytes(lines_of(rows_of(20)))
    columns = ("input_ids", "attention_mask", "position_ids", "length")
    options = Options(columns=columns, labels=True, kind="arrow", shards=1)
    report = prepare(["a.jsonl"], "out", CODEC, options)
    with pa.ipc.open_file("out/shard-00000-of-00001.arrow") as file:
        table = file.read_all()
    assert table.column_names == [*columns, "labels"]
    encodings = [CODEC.encode(row["messages"]) for row in rows_of(20)]
    assert table["labels"].to_pylist() == [e.labels().tolist() for e in encodings]
    assert table["length"].to_pylist() == [len(e) for e in encodings]
    assert report.trained == sum(label != -100 for e in encodings for label in e.labels())


@given(data=st.data(), block=st.integers(1, 60), longest=st.integers(8, 60))
def test_lines_are_cut_as_a_naive_reader_cuts_them(
    data: st.DataObject, block: int, longest: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    line = st.sampled_from([b"", b" ", b"\r", b"{}", b'{"a": "\xff"}', b"x" * 30, b"[1]\r"])
    lines = data.draw(st.lists(line | st.binary(max_size=40).map(lambda b: b.replace(b"\n", b""))))
    ends = data.draw(st.booleans())
    file = tmp_path_factory.mktemp("lines") / "a.jsonl"
    file.write_bytes(b"\n".join(lines) + (b"\n" if ends and lines else b""))
    texts, wrong = [], []
    for number, found in enumerate(lines, 1):
        found = found.removeprefix(b"\xef\xbb\xbf") if number == 1 else found  # noqa: PLW2901
        try:
            text = found.decode()
        except UnicodeDecodeError:
            wrong.append(number)
            continue
        if len(found) > longest:
            wrong.append(number)
        elif text.strip():
            texts.append((number, text))
    (source,) = find_sources([str(file)], Path("out"))
    read = list(source.blocks(None, Limits(block=block, line=longest)))
    rows = [found.rows() for found in read]
    got = [
        (number, text)
        for found in rows
        for number, text in zip(found.numbers, found.table[LINE].to_pylist(), strict=True)
    ]
    assert got == texts
    assert sorted({item.row for found in rows for item in found.rejected}) == wrong
    assert all(
        [*found.numbers][-1:] <= [block.last] for found, block in zip(rows, read, strict=True)
    )
    assert sum(found.size for found in read) <= file.stat().st_size


WRONG = [
    (b'{"messages": [{"role": "critic", "content": ""}]}', "`messages[0].role`"),
    (b'{"messages": [', "is no JSON"),
    (b'{"text": "x"}', "none of the columns"),
    (b'{"messages": "\xff"}', "is not UTF-8, at byte 14"),
    (b"[" * 100_000, "is longer than 4000 bytes"),
    (b"[" * 3000, "recursion limit"),
    (b"7", "expected a list"),
]


def test_rejected_rows_are_listed_and_the_rest_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = rows_of(len(WRONG))
    pairs = zip(good, (line for line, _ in WRONG), strict=True)
    Path("a.jsonl").write_bytes(b"".join(lines_of([row]) + line + b"\n" for row, line in pairs))
    report = prepare(["a.jsonl"], "out", CODEC, Options(shards=2, limits=TINY))
    assert (report.rows, report.rejected) == (len(good), len(WRONG))
    assert written(folder / "out")["input_ids"].to_pylist() == ids_of(good)
    for at, (item, (line, reason)) in enumerate(zip(rejects(folder / "out"), WRONG, strict=True)):
        assert item["file"] == "a.jsonl"
        assert item["row"] == 2 * at + 2
        assert reason in item["reason"]
        assert len(line) > 4000 or item["text"] == line.decode(errors="backslashreplace")
    assert main(["prepare", "a.jsonl", "again", "--quiet", *EMBEDDED]) == 1
    assert "again/_rejects.jsonl: 7 rows were rejected" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("pack", [None, 64])
def test_rows_without_anything_to_train_on_are_rejected(pack: int | None) -> None:
    asked = [{"role": "user", "content": "Hi"}]
    rows = [*rows_of(2), {"messages": asked}, {"messages": []}, *rows_of(1)]
    Path("a.jsonl").write_bytes(lines_of(rows))
    report = prepare(["a.jsonl"], "out", CODEC, Options(labels=True, pack=pack))
    assert (report.rows, report.rejected) == (3, 2)
    assert [item["row"] for item in rejects(Path("out"))] == [3, 4]
    assert {item["reason"].split(":")[0] for item in rejects(Path("out"))} == {
        "nothing to train on"
    }
    # Without labels nothing is trained on here.
    assert prepare(["a.jsonl"], "ids", CODEC, Options()).rejected == 0


@pytest.mark.usefixtures("folder")
def test_reasons_are_counted_without_the_numbers_of_messages() -> None:
    critic, user = {"role": "critic", "content": ""}, {"role": "user", "content": "Hi"}
    rows = [{"messages": [user] * nth + [critic]} for nth in range(3)]
    Path("a.jsonl").write_bytes(lines_of([*rows, *rows_of(1)]) + b"7\n")
    report = prepare(["a.jsonl"], "out", CODEC, Options(limits=TINY))
    assert report.rejected == sum(report.reasons.values()) == 4
    (critics, _), (reason, count) = sorted(report.reasons.items(), key=lambda item: -item[1])[:2]
    assert critics.startswith('`messages[].role` is "critic"')
    assert "list" in reason
    assert count == 1
    lines = report.text().splitlines()
    assert lines[1].startswith('         3  `messages[].role` is "critic"')
    assert Report.of_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert main(["prepare", "a.jsonl", "page", "--quiet", "--html", *EMBEDDED]) == 1
    assert '"title":"Rejected rows"' in Path("page/_report.html").read_text(encoding="utf-8")


def broken_files() -> dict[str, bytes]:
    rows = rows_of(300)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    parquet = sink.getvalue()
    packed = gzip.compress(lines_of(rows))
    return {
        "a.parquet": parquet[: len(parquet) // 2],
        "b.parquet": b"PAR1" + b"\0" * 100 + b"PAR1",
        "c.jsonl.gz": packed[: len(packed) // 2],
        "d.jsonl.gz": b"not gzip",
        "e.jsonl.zst": b"\x28\xb5\x2f\xfd" + b"\xff" * 50,
        "f.json": b'[{"messages": [',
        "g.json": b"[" + b" " * 200_000 + b"]",
        "h.arrow": b"ARROW1\0\0" + b"\xff" * 100,
        "i.arrow": b"",
        "j.parquet": b"",
        "k.json": b"[" * 90_000,
        "l.parquet": parquet.replace(b"user", b"\xff\xff\xff\xff"),
    }


@pytest.mark.parametrize("name", list(broken_files()))
def test_a_broken_file_is_a_reject_and_the_others_are_written(folder: Path, name: str) -> None:
    Path("0.jsonl").write_bytes(lines_of(rows_of(5)))
    Path(name).write_bytes(broken_files()[name])
    Path("z.jsonl").write_bytes(lines_of(rows_of(5)))
    report = prepare(["0.jsonl", name, "z.jsonl"], "out", CODEC, Options(shards=1, limits=TINY))
    found = written(folder / "out")["input_ids"].to_pylist()
    assert found[:5] == found[-5:] == ids_of(rows_of(5))
    assert report.rejected >= 1
    assert {item["file"] for item in rejects(folder / "out")} == {name}
    assert all(item["reason"] for item in rejects(folder / "out"))


def test_kept_columns_have_one_type(folder: Path) -> None:
    given_rows = [
        {"messages": said(1), "id": 1, "tag": "x", "meta": {"a": 1}, "yes": True, "late": None},
        {"messages": said(2), "id": 2, "tag": 7, "meta": [1], "yes": None, "late": 4},
        {"messages": said(3), "id": "three", "tag": None, "yes": False},
        {"messages": said(4), "id": True, "yes": False},
    ]
    Path("a.jsonl").write_bytes(lines_of(given_rows[:1]))
    Path("b.jsonl").write_bytes(lines_of(given_rows[1:]))
    pq.write_table(pa.table({"messages": [said(5)], "id": [5], "tag": ["y"]}), "c.parquet")
    keep = ("id", "tag", "meta", "yes", "late")
    options = Options(keep=keep, shards=1, limits=Limits(block=1))
    report = prepare(["a.jsonl", "b.jsonl", "c.parquet"], "out", CODEC, options)
    table = written(folder / "out").select(keep)
    assert report.rejected == 2
    assert [item["row"] for item in rejects(folder / "out")] == [2, 3]
    assert "`id` is 'three', expected int64" in rejects(folder / "out")[0]["reason"]
    assert table.to_pylist() == [
        {"id": 1, "tag": "x", "meta": '{"a": 1}', "yes": True, "late": None},
        {"id": 2, "tag": "7", "meta": "[1]", "yes": None, "late": "4"},
        {"id": 5, "tag": "y", "meta": None, "yes": None, "late": None},
    ]


@pytest.mark.parametrize(("kind", "shards"), [("parquet", 1), ("arrow", 1), ("parquet", 3)])
def test_datasets_and_collators_read_the_folder(
    folder: Path, kind: ShardKind, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
    datasets.disable_progress_bars()
    Path("a.jsonl").write_bytes(lines_of(rows_of(9)) + b"7\n")
    prepare(["a.jsonl"], "out", CODEC, Options(labels=True, kind=kind, shards=shards))
    data = datasets.load_dataset(str(folder / "out"), split="train")
    assert data["input_ids"][:] == ids_of(rows_of(9))
    tokens = {str(at): at for at in range(10)}
    fast: Any = transformers.PreTrainedTokenizerFast
    tokenizer = fast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(tokens)),
        pad_token="0",  # noqa: S106 (no password)
    )
    collate = transformers.DataCollatorForSeq2Seq(tokenizer, return_tensors="np")
    batch = collate([data[at] for at in (1, 8)])
    lengths = [len(ids) for ids in data["input_ids"][:] if len(ids)]
    assert batch["input_ids"].shape == batch["labels"].shape == (2, max(lengths[1], lengths[8]))
    for row, at in enumerate((1, 8)):
        labels = CODEC.encode(said(at)).labels().tolist()
        assert batch["labels"][row].tolist()[: len(labels)] == labels
        assert set(batch["labels"][row][len(labels) :]) <= {-100}
        assert batch["attention_mask"][row].sum() == len(labels)


def test_the_column_of_messages_can_be_named(folder: Path) -> None:
    rows = [{"chat": said(at), "messages": []} for at in range(3)]
    Path("a.jsonl").write_bytes(lines_of(rows))
    pq.write_table(pa.table({"chat": [row["chat"] for row in rows]}), "b.parquet")
    prepare(["a.jsonl", "b.parquet"], "out", CODEC, Options(messages="chat", shards=1))
    expected = ids_of([{"messages": row["chat"]} for row in rows])
    assert written(folder / "out")["input_ids"].to_pylist() == expected * 2


@pytest.mark.usefixtures("folder")
def test_long_conversations_are_shortened_and_packed() -> None:
    rows = rows_of(40)
    Path("a.jsonl").write_bytes(lines_of([{"messages": said(3) + row["messages"]} for row in rows]))
    whole = [len(CODEC.encode(said(3) + row["messages"])) for row in rows]
    alone = [len(CODEC.encode(row["messages"])) for row in rows]
    limit = 80
    for on_long, lengths in (
        ("error", [n for n in whole if n <= limit]),
        ("drop", [n for n in whole if n <= limit]),
        ("cut", [min(n, limit) for n in whole]),
        ("oldest", [n if n <= limit else m for n, m in zip(whole, alone, strict=True)]),
    ):
        lengths = [n for n in lengths if n <= limit]  # noqa: PLW2901 (the last turn is too long)
        options = Options(labels=True, max_length=limit, on_long=on_long, shards=1)  # type: ignore[arg-type]
        report = prepare(["a.jsonl"], on_long, CODEC, options)
        found = written(Path(on_long))["input_ids"].to_pylist()
        assert [len(ids) for ids in found] == lengths
        assert report.rows + report.dropped + report.rejected == 40
        assert bool(report.dropped) == (on_long == "drop")
        assert bool(report.shortened) == (on_long in {"cut", "oldest"})
        options = Options(labels=True, pack=limit, on_long=on_long, shards=3)  # type: ignore[arg-type]
        packed = prepare(["a.jsonl"], on_long + "-packed", CODEC, options)
        table = written(Path(on_long + "-packed"))
        names = ["input_ids", "labels", "position_ids", "sequence_lengths"]
        assert table.column_names == names
        assert packed.packed == len(table) < len(lengths)
        assert packed.rows == len(lengths)
        counts = [n for row in table["sequence_lengths"].to_pylist() for n in row]
        assert sorted(counts) == sorted(lengths)
        assert max(len(ids) for ids in table["input_ids"].to_pylist()) <= limit
        assert f"packed into {len(table)} rows" in packed.text()
    for wrong, problem in (
        (Options(pack=5, keep=("id",)), "`pack` is given with the column 'id'"),
        (Options(pack=0), "`pack` is 0"),
        (Options(shards=0), "`shards` is 0"),
        (Options(on_long="x"), '`on_long` is "x"'),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=problem):
            prepare(["a.jsonl"], "wrong", CODEC, wrong)
    assert not Path("wrong").exists()


class Stop(Exception):  # noqa: N818 (no error)
    pass


class StopAt:
    """Stops a run at a call."""

    def __init__(self, call: int) -> None:
        self.calls = call

    def read(self, done: int, total: int, report: Report) -> None:
        assert 0 <= done <= total
        assert report.rows >= 0
        self.write(done, total)

    def write(self, done: int, total: int) -> None:
        assert 0 <= done <= total
        self.calls -= 1
        if self.calls == 0:
            raise Stop


def inputs_of_a_run(folder: Path) -> list[str]:
    rows = rows_of(120)
    (folder / "a.jsonl").write_bytes(lines_of(rows[:50]) + b"wrong\n" + lines_of(rows[50:60]))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines_of(rows[60:90]), mtime=0))
    pq.write_table(pa.Table.from_pylist(rows[90:]), folder / "c.parquet")
    return ["a.jsonl", "b.jsonl.gz", "c.parquet"]


def test_a_run_that_was_stopped_anywhere_gives_the_same_bytes(folder: Path) -> None:
    inputs = inputs_of_a_run(folder)
    options = Options(labels=True, shards=3, keep=("id",), limits=TINY)
    prepare(inputs, "whole", CODEC, options)
    expected = contents(folder / "whole")
    assert sum(pq.read_metadata(p).num_rows for p in (folder / "whole").glob("*.parquet")) == 120
    call = 0
    while True:
        call += 3
        out = folder / f"stopped-{call}"
        try:
            prepare(inputs, out, CODEC, options, progress=StopAt(call))
        except Stop:
            assert not (out / "_manifest.json").exists()
            prepare(inputs, out, CODEC, options)
            assert contents(out) == expected
        else:
            break
    assert call > 24
    before = {path: path.stat().st_mtime_ns for path in (folder / "whole").iterdir()}
    assert prepare(inputs, "whole", CODEC, options).rows == 120
    assert {path: path.stat().st_mtime_ns for path in (folder / "whole").iterdir()} == before


def test_a_process_may_die_before_its_first_part_and_after_its_manifest(folder: Path) -> None:
    inputs = inputs_of_a_run(folder)
    options = Options(labels=True, shards=3, keep=("id",), limits=TINY)
    (folder / "out" / ".prepare").mkdir(parents=True)
    prepare(inputs, "out", CODEC, options)
    expected = contents(folder / "out")
    (folder / "out" / ".prepare").mkdir()
    (folder / "out" / ".prepare" / "part-000000.arrow").write_bytes(b"x")
    assert prepare(inputs, "out", CODEC, options).rows == 120
    assert contents(folder / "out") == expected


@pytest.mark.parametrize("threads", [1, 2, 7, 32])
def test_the_number_of_threads_changes_no_byte(folder: Path, threads: int) -> None:
    inputs = inputs_of_a_run(folder)
    options = Options(labels=True, shards=3, keep=("id",), limits=TINY)
    prepare(inputs, "default", CODEC, options)
    prepare(inputs, "given", CODEC, Options(**{**vars_of(options), "threads": threads}))
    assert contents(folder / "given") == contents(folder / "default")


def test_a_run_ends_at_the_first_part_that_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = inputs_of_a_run(folder)
    options = Options(labels=True, shards=3, keep=("id",), limits=TINY, threads=4)
    prepare(inputs, "whole", CODEC, options)
    write_part = Store.write_part

    def fail(store: Store, at: int, table: pa.Table, rejects: Sequence[bytes]) -> None:
        if at == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_part(store, at, table, rejects)

    before = threading.active_count()
    monkeypatch.setattr(Store, "write_part", fail)
    with pytest.raises(OSError, match="No space left"):
        prepare(inputs, "out", CODEC, options)
    assert threading.active_count() == before
    journal = folder / "out" / ".prepare" / "journal.jsonl"
    assert journal.read_bytes().count(b"\n") <= 6
    monkeypatch.setattr(Store, "write_part", write_part)
    prepare(inputs, "out", CODEC, options)
    assert contents(folder / "out") == contents(folder / "whole")


def vars_of(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in Options.__dataclass_fields__}


@pytest.mark.usefixtures("folder")
def test_inputs_with_fewer_blocks_than_before_are_refused() -> None:
    Path("a.jsonl").write_bytes(lines_of(rows_of(60)))
    options = Options(shards=2, limits=TINY)
    with pytest.raises(Stop):
        prepare(["a.jsonl"], "out", CODEC, options, progress=StopAt(6))
    Path("a.jsonl").write_bytes(b" " * Path("a.jsonl").stat().st_size)
    with pytest.raises(DataError, match=r"files? that the run began with"):
        prepare(["a.jsonl"], "out", CODEC, options)
    assert not list(Path("out").glob("*.parquet"))


SLOW = """
import sys, time
from chatcodec import Codec
from chatcodec.prepare import Options, prepare
from chatcodec.prepare.sources import Limits

class Slow:
    def read(self, done, total, report):
        time.sleep(0.02)
    def write(self, done, total):
        time.sleep(0.05)

limits = Limits(block=600, line=4000, document=100_000)
options = Options(labels=True, shards=3, keep=("id",), limits=limits)
prepare(sys.argv[2:], sys.argv[1], Codec("internlm2", vocab="embedded"), options, progress=Slow())
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_process_is_gone_on_with(folder: Path) -> None:
    inputs = inputs_of_a_run(folder)
    options = Options(labels=True, shards=3, keep=("id",), limits=TINY)
    prepare(inputs, "whole", CODEC, options)
    journal = folder / "out" / ".prepare" / "journal.jsonl"
    kills = 0
    for lines in (3, 6, 9):
        with subprocess.Popen([sys.executable, "-c", SLOW, "out", *inputs]) as process:
            while process.poll() is None:
                if journal.exists() and journal.read_bytes().count(b"\n") >= lines:
                    with pytest.raises(DataError, match="another process is writing"):
                        prepare(inputs, "out", CODEC, options)
                    process.kill()
                    kills += 1
                    break
                time.sleep(0.005)
    assert kills >= 2
    with journal.open("ab") as file:
        file.write(b'{"blocks": 1, "dig')  # as a process that dies while it writes leaves it
    (journal.parent / "part-000900.arrow.tmp").write_bytes(b"x")
    prepare(inputs, "out", CODEC, options)
    assert contents(folder / "out") == contents(folder / "whole")


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_no_space_is_an_error_and_the_run_can_go_on(folder: Path) -> None:
    rows = [{"messages": said(at, "Hello " * 300)} for at in range(400)]
    Path("a.jsonl").write_bytes(lines_of(rows))
    command = [sys.executable, "-m", "chatcodec", "prepare", "a.jsonl", "out", "--quiet", *EMBEDDED]

    resource = pytest.importorskip("resource")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list((folder / "out").glob("*.parquet"))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert len(written(folder / "out")) == 400


def test_a_long_line_does_not_take_its_size_in_memory(folder: Path) -> None:
    size = 400 << 20
    with gzip.open("a.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(lines_of(rows_of(2)))
        for _ in range(size >> 20):
            file.write(b" " * (1 << 20))
        file.write(b"\n" + lines_of(rows_of(2)))
    script = textwrap.dedent("""
        import resource
        from chatcodec import Codec
        from chatcodec.prepare import Options, prepare
        from chatcodec.prepare.sources import Limits
        limits = Limits(block=1 << 20, line=8 << 20)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        codec = Codec("internlm2", vocab="embedded")
        report = prepare(["a.jsonl.gz"], "out", codec, Options(limits=limits))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(report.rows, report.rejected, (after - before) >> 10)
    """)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    rows, rejected, megabytes = map(int, ran.stdout.split())
    assert (rows, rejected) == (4, 1)
    assert rejects(folder / "out")[0]["row"] == 3
    assert megabytes < 200


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_gone_on_with_is_refused() -> None:
    Path("a.jsonl").write_bytes(lines_of(rows_of(60)))
    options = Options(shards=2, limits=TINY)
    with pytest.raises(Stop):
        prepare(["a.jsonl"], "out", CODEC, options, progress=StopAt(4))
    with pytest.raises(DataError, match=r"unfinished run with other options \(shards 2\)"):
        prepare(["a.jsonl"], "out", CODEC, Options(shards=3, limits=TINY))
    with pytest.raises(DataError, match="unfinished run with other codec"):
        prepare(["a.jsonl"], "out", OTHER, options)
    changed = Path("a.jsonl").read_bytes().replace(b"Hello 1 ", b"Hallo 1 ", 1)
    changed = changed.replace(b"Hello 0", b"Hallo 0", 1)
    kept = Path("a.jsonl").read_bytes()
    Path("a.jsonl").write_bytes(changed)
    with pytest.raises(DataError, match=r"a\.jsonl: is not the file that the run began with"):
        prepare(["a.jsonl"], "out", CODEC, options)
    Path("a.jsonl").write_bytes(kept)
    prepare(["a.jsonl"], "out", CODEC, options)
    Path("a.jsonl").write_bytes(changed)
    with pytest.raises(DataError, match="holds the shards of another run"):
        prepare(["a.jsonl"], "out", CODEC, options)
    prepare(["a.jsonl"], "out", CODEC, options, restart=True)
    Path("other").mkdir()
    Path("other/mine.txt").write_text("x")
    with pytest.raises(DataError, match=r"is not empty, it holds 'mine\.txt'"):
        prepare(["a.jsonl"], "other", CODEC, options)
    assert Path("other/mine.txt").read_text() == "x"
    with pytest.raises(DataError, match="is a file, expected a folder"):
        prepare(["a.jsonl"], "a.jsonl", CODEC, options)


@pytest.mark.parametrize(
    ("given_inputs", "problem"),
    [
        (["absent.jsonl"], r"absent\.jsonl: no such file"),
        (["*.parquet"], r"\*\.parquet: no file of that name"),
        (["empty"], r"empty: no file of conversations; expected \.jsonl, \.ndjson, \.json, also"),
        (["a.txt"], r"a\.txt: is of no known kind"),
        (["b.parquet.gz"], r"b\.parquet\.gz: is of no known kind"),
    ],
)
def test_inputs_that_are_not_there_are_named(
    folder: Path, given_inputs: list[str], problem: str
) -> None:
    (folder / "empty").mkdir()
    Path("a.txt").write_text("")
    Path("b.parquet.gz").write_text("")
    with pytest.raises(DataError, match=problem):
        prepare(given_inputs, "out", CODEC)
    assert not (folder / "out").exists()


def test_folders_and_patterns_are_searched_once(folder: Path) -> None:
    for name in ("data/a.jsonl", "data/sub/b.jsonl", "data/.c.jsonl", "data/_d/e.jsonl"):
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_bytes(lines_of(rows_of(1)))
    Path("data/readme.md").write_text("x")
    found = find_sources(["data/sub/b.jsonl", "data", "data/*.jsonl"], folder / "data" / "sub")
    assert [source.path.as_posix() for source in found] == ["data/sub/b.jsonl", "data/a.jsonl"]
    # A second run does not read what the first one wrote.
    prepare(["data"], "data/out", CODEC)
    with pytest.raises(DataError, match="no file of conversations"):
        find_sources(["data/out"], folder / "data" / "out")


def test_rows_without_conversations_give_shards_with_columns(folder: Path) -> None:
    Path("a.jsonl").write_bytes(b"\n \n")
    assert prepare(["a.jsonl"], "out", CODEC, Options(labels=True, keep=("id",))).rows == 0
    assert written(folder / "out").schema.names == ["input_ids", "labels", "id"]


@pytest.mark.usefixtures("folder")
def test_the_command_prepares_and_shows_the_picture(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*rows_of(40), {"messages": said(1, "<|im_end|>")}]
    Path("a.jsonl").write_bytes(lines_of(rows))
    options = ["--labels", "--shards", "2", "--threads", "1"]
    assert main(["prepare", "a.jsonl", "out", *options, *EMBEDDED]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "41 conversations, " in shown.out
    assert "█" in shown.out
    assert "1  messages[].content  <|im_end|>" in shown.out
    assert "messages: user 41, assistant 41" in shown.out
    for arguments, problem in (
        (["a.jsonl"], "the following arguments are required: OUT"),
        (["a.jsonl", "x", "--columns", "ids", *EMBEDDED], '`columns` holds "ids"'),
        (["a.jsonl", "x", "--model", "m", "--vocab", "v"], "a vocabulary is given beside a model"),
        (
            ["a.jsonl", "x", "--keep", "labels", "--labels", *EMBEDDED],
            "`keep` holds 'labels', which is a new column",
        ),
        (["-", "x", *EMBEDDED], "-: no such file"),
    ):
        assert main(["prepare", *arguments]) == 2
        assert problem in capsys.readouterr().err


@given(lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=50), share=st.floats(0, 1))
def test_quantiles_are_near_those_of_the_lengths(lengths: list[int], share: float) -> None:
    report = Report(rows=len(lengths), longest=max(lengths), lengths=Counter(map(_bucket, lengths)))
    ordered = sorted(lengths)
    # The least length that so many have at most.
    exact = next(n for n in ordered if sum(m <= n for m in ordered) >= share * len(ordered))
    assert exact <= report.quantile(share) <= exact + exact / 16
    again = Report.of_dict(json.loads(json.dumps(report.to_dict())))
    assert again == report
    assert f"{len(lengths):,} conversations" in report.text()


def test_the_report_is_a_page_that_a_new_run_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes(lines_of([*rows_of(9), {"messages": said(0, "<|im_end|>")}]))
    arguments = ["prepare", "a.jsonl", "out", "--quiet", *EMBEDDED]
    assert main([*arguments, "--html"]) == 0
    page = Path("out/_report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert '["messages[].content","\\u003c|im_end|\\u003e"],1]' in page
    assert main([*arguments, "--restart"]) == 0
    assert not Path("out/_report.html").exists()


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("labels", [[], ["--labels"]])
@pytest.mark.usefixtures("folder")
def test_the_page_names_the_model_and_shows_the_first_rows(kind: str, labels: list[str]) -> None:
    conversation = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho."}]
    Path("a.jsonl").write_bytes(lines_of([{"messages": conversation}] * 9))
    arguments = ["prepare", "a.jsonl", "out", "--quiet", "--html", "--to", kind]
    assert main([*arguments, *labels, *EMBEDDED]) == 0
    page = Path("out/_report.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    made = dict(data["made"])
    assert (made["vocabulary"], made["format"]) == ("embedded", "internlm2")
    assert made["written"].endswith("UTC")
    encoding = CODEC.encode(conversation)
    assert dict(data["facts"])["ids at 50%"] == len(encoding)
    assert len(data["samples"]) == 5
    first = data["samples"][0]
    assert "".join(first["texts"]) == encoding.text
    assert first["control"] == encoding.is_control.tolist()
    if labels:
        trained = [int(label != -100) for label in encoding.labels()]
        assert (first["trained"], first["count"]) == (trained, sum(trained))
    else:
        assert "trained" not in first


@pytest.mark.usefixtures("folder")
def test_what_is_left_out_is_counted_by_place(capsys: pytest.CaptureFixture[str]) -> None:
    named = [{"role": "user", "name": "Ann", "content": "Hi"}]
    thought = [*said(2), {"role": "assistant", "reasoning": "hm", "content": "b"}]
    rows = [*rows_of(3), {"messages": [*named, *named]}, {"messages": thought}]
    Path("a.jsonl").write_bytes(lines_of(rows))
    report = prepare(["a.jsonl"], "refused", OTHER, Options())
    assert (report.rejected, report.parts_dropped) == (2, Counter())
    report = prepare(["a.jsonl"], "out", OTHER, Options(encode={"on_unsupported": "drop"}))
    counts = {
        ("messages[].name", "unsupported"): 2,
        ("messages[].reasoning", "unsupported"): 1,
    }
    assert (report.rejected, report.parts_dropped) == (0, counts)
    assert Report.of_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert "parts that are not in the ids: 3\n         2  messages[].name  " in report.text()
    manifest = json.loads(Path("out/_manifest.json").read_text("utf-8"))
    assert manifest["report"]["parts_dropped"][0]["count"] == 2
    arguments = ["prepare", "a.jsonl", "named", "--html", "--on-unsupported", "drop", *EMBEDDED]
    assert main(arguments) == 0
    assert "parts that are not in the ids: 1" in capsys.readouterr().out
    assert "Not in the ids" in Path("named/_report.html").read_text("utf-8")


def made_of(folder: Path) -> list[dict[str, Any]]:
    """What the manifest and each shard say that the ids are made of."""
    manifest = json.loads((folder / "_manifest.json").read_text())
    told = [{name: manifest[name] for name in ("chatcodec", "codec", "made_of")}]
    told += [
        json.loads(pq.read_schema(path).metadata[b"chatcodec"])
        for path in sorted(folder.glob("*.parquet"))
    ]
    return told


@pytest.mark.usefixtures("folder")
def test_the_output_names_what_it_is_made_of() -> None:
    Path("a.jsonl").write_bytes(lines_of(rows_of(4)))
    model = models.folder(Path("my-model"))
    assert (
        main(["prepare", "a.jsonl", "out", "--quiet", "--shards", "2", "--model", "my-model"]) == 0
    )
    first, *shards = made_of(Path("out"))
    assert shards == [first, first]
    codec = Codec.from_pretrained(model)
    mapper: Any = codec.mapper()
    assert first["chatcodec"] == chatcodec.__version__
    assert first["codec"] == mapper.digest
    made = first["made_of"]
    assert made["vocabulary"]["name"] == "my-model"
    assert made["format"]["name"] == codec.format.name
    # The same files elsewhere, under the same name.
    other = models.folder(Path("elsewhere-my-model"))
    Path("there").mkdir()
    moved = other.rename("there/my-model")
    prepare(["a.jsonl"], "again", Codec.from_pretrained(moved), Options(shards=1))
    assert made_of(Path("again"))[0] == first


@pytest.mark.usefixtures("folder")
def test_what_differs_has_another_hash() -> None:
    Path("a.jsonl").write_bytes(lines_of(rows_of(4)))
    model = models.folder(Path("model"))
    source = (model / "chat_template.jinja").read_text()
    codecs = {
        "template": Codec.from_pretrained(model),
        "format": Codec.from_pretrained(model, "chatml"),
        "file": Codec("chatml", vocab=model / "tokenizer.model"),
        "embedded": CODEC,
    }
    (model / "chat_template.jinja").write_text(source + " ")
    codecs["changed"] = Codec.from_pretrained(model)
    made = {}
    for name, codec in codecs.items():
        prepare(["a.jsonl"], name, codec)
        made[name] = made_of(Path(name))[0]["made_of"]
    names = {name: each["vocabulary"]["name"] for name, each in made.items()}
    assert names == {
        "template": "model",
        "format": "model",
        "file": "model/tokenizer.model",
        "embedded": "embedded",
        "changed": "model",
    }
    assert made["template"]["template"] != made["changed"]["template"]
    assert made["format"]["template"] is None
    text = Format.built_in("chatml").text
    expected = {"name": "chatml", "sha256": hashlib.sha256(text.encode()).hexdigest()}
    assert made["format"]["format"] == made["file"]["format"] == expected
    assert made["format"]["vocabulary"]["sha256"] != made["embedded"]["vocabulary"]["sha256"]
