"""The folder that a run writes: a lock, parts while it runs, shards when it is done.

A part is an encoded stretch of the input in Arrow's format, in `.prepare`; `journal.jsonl` there
has a line for each. Every file is written under a temporary name, made durable and renamed, so
that a file with its own name is whole. Shards are cut from the parts when all are there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from chatcodec.errors import DataError
from chatcodec.prepare.digest import sha256
from chatcodec.prepare.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

__all__ = ["Part", "ShardKind", "Store"]

ShardKind: TypeAlias = Literal["parquet", "arrow"]

# `datasets.load_dataset` reads the kind of file that a folder has most of, and Parquet or Arrow if
# kinds are equally many: so there is one file of JSON.
MANIFEST, REPORT, REJECTS = "_manifest.json", "_report.txt", "_rejects.jsonl"
PAGE = "_report.html"
METADATA = "chatcodec"
"""Key of a shard's metadata: what wrote it, and of what, as the manifest has it."""
_WORK, _JOURNAL, _LOCK = ".prepare", "journal.jsonl", ".lock"


@dataclass(frozen=True, slots=True)
class Part:
    """A line of the journal."""

    blocks: int
    """Blocks of the input that the part holds."""
    digest: str
    """Hash of the blocks up to the end of the part."""
    rows: int
    """Rows, after packing."""
    report: Report
    """Counts of its conversations."""

    def to_dict(self) -> dict[str, Any]:
        """Give the line as JSON has it."""
        return {
            "blocks": self.blocks,
            "digest": self.digest,
            "rows": self.rows,
            "report": self.report.to_dict(),
        }

    @classmethod
    def of_dict(cls, value: dict[str, Any]) -> Part:
        """Read what `to_dict` gives."""
        return cls(**{**value, "report": Report.of_dict(value["report"])})


class Store:
    """A folder that one run writes at a time."""

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        self.folder = folder
        self.work = folder / _WORK
        self.parts: list[Part] = []

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and keep other runs out of it.

        Raises `DataError` where another process writes to the folder.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: is a file, expected a folder", str(self.folder))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _LOCK
        with _lock(path) as is_ours:
            if not is_ours:
                raise DataError(
                    f"{self.folder}: another process is writing to this folder", str(self.folder)
                )
            yield
            with contextlib.suppress(OSError):
                path.unlink()

    def manifest(self) -> dict[str, Any] | None:
        """Give the manifest of a run that is done, or nothing."""
        try:
            found: dict[str, Any] = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DataError(
                f"{self.folder / MANIFEST}: is no manifest: {error}", str(self.folder / MANIFEST)
            ) from error
        return found

    def begin(self, header: dict[str, Any]) -> None:
        """Begin a run, or go on with one that has the same header.

        Raises `DataError` for a folder that holds another run or other files.
        """
        header = json.loads(json.dumps(header))
        journal = self.work / _JOURNAL
        if journal.exists():
            lines = journal.read_bytes().split(b"\n")
            # A line without its end was being written when a process died.
            whole = [json.loads(line) for line in lines[:-1]]
            if whole:
                self._check(whole[0], header)
                self.parts = [Part.of_dict(line) for line in whole[1:]]
            with journal.open("r+b") as file:
                file.truncate(len(b"".join(line + b"\n" for line in lines[:-1])))
            if whole:
                self._sweep()
                return
        elif others := [p.name for p in self.folder.iterdir() if p.name not in {_LOCK, _WORK}]:
            raise DataError(
                f"{self.folder}: is not empty, it holds {min(others)!r}; "
                "expected a new or an empty folder",
                str(self.folder),
            )
        self.work.mkdir(exist_ok=True)
        self._append(header)

    def _check(self, found: dict[str, Any], header: dict[str, Any]) -> None:
        """Refuse to go on with a run of other inputs or options."""
        for name, expected in header.items():
            if found.get(name) != expected:
                what = _difference(name, found.get(name), expected)
                raise DataError(
                    f"{self.folder}: holds an unfinished run with other {what}; "
                    "run it again with those, or use --restart",
                    str(self.folder),
                )

    def _sweep(self) -> None:
        for path in self.work.glob("*.tmp"):
            path.unlink()

    def schema(self) -> pa.Schema | None:
        """Give the schema of the parts, if there are any."""
        if not self.parts:
            return None
        with pa.memory_map(str(self.work / "part-000000.arrow")) as mapped:
            return pa.ipc.open_file(mapped).schema

    def tidy(self) -> None:
        """Delete the parts of a run that is done."""
        shutil.rmtree(self.work, ignore_errors=True)

    def clear(self) -> None:
        """Delete what a run wrote here: its parts, shards, report and manifest."""
        self.tidy()
        names = [MANIFEST, REPORT, REJECTS, PAGE]
        for path in [*self.folder.glob("shard-*-of-*"), *(self.folder / name for name in names)]:
            path.unlink(missing_ok=True)

    def write_part(self, at: int, table: pa.Table, rejects: Sequence[bytes]) -> None:
        """Write the rows and the rejects of a part; `enter` enters it in the journal."""
        path = self.work / f"part-{at:06}.arrow"
        with self._written(path) as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        with self._written(self.work / f"part-{at:06}.jsonl") as file:
            file.writelines(rejects)

    def enter(self, parts: Sequence[Part]) -> None:
        """Enter written parts in the journal, after those that it has."""
        self._append(*(part.to_dict() for part in parts))
        self.parts += parts

    def _append(self, *lines: dict[str, Any]) -> None:
        with (self.work / _JOURNAL).open("ab") as file:
            file.writelines(json.dumps(line).encode() + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def _written(self, path: Path) -> Iterator[BinaryIO]:
        """Give a file that has its name when it is whole, and not before."""
        temporary = self.work / (path.name + ".tmp")
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)

    def finish(
        self,
        shards: int,
        kind: ShardKind,
        manifest: dict[str, Any],
        threads: int,
        done: Callable[[int], None],
    ) -> None:
        """Write the shards, the rejects, the report and last the manifest; delete the parts.

        Each shard is written by one of `threads`.

        The metadata of each shard has the manifest's `chatcodec`, `codec` and `made_of`.
        `done` is called with the number of rows of each shard that is written.
        """
        rows = sum(part.rows for part in self.parts)
        cuts = [rows * at // shards for at in range(shards + 1)]
        names = [f"shard-{at:05}-of-{shards:05}.{kind}" for at in range(shards)]
        made = {name: manifest[name] for name in ("chatcodec", "codec", "made_of")}

        def write(at: int) -> dict[str, Any]:
            path = self.folder / names[at]
            if not path.exists():
                self._write_shard(path, kind, cuts[at], cuts[at + 1], made)
            done(cuts[at + 1] - cuts[at])
            rows = cuts[at + 1] - cuts[at]
            return {"file": path.name, "rows": rows, "sha256": sha256(path)}

        with ThreadPoolExecutor(threads) as pool:
            written = list(pool.map(write, range(shards)))
        with self._written(self.folder / REJECTS) as file:
            for at in range(len(self.parts)):
                with (self.work / f"part-{at:06}.jsonl").open("rb") as part:
                    shutil.copyfileobj(part, file)
        report = self.report()
        whole = {**manifest, "report": report.to_dict(), "shards": written}
        texts = {
            REPORT: report.text(),
            MANIFEST: json.dumps(whole, indent=1, ensure_ascii=False) + "\n",
        }
        for name, text in texts.items():
            with self._written(self.folder / name) as file:
                file.write(text.encode())
        self.tidy()

    def report(self) -> Report:
        """Add up the reports of all parts."""
        total = Report()
        for part in self.parts:
            total.add(part.report)
        return total

    def _write_shard(
        self, path: Path, kind: ShardKind, start: int, end: int, made: dict[str, Any]
    ) -> None:
        with self._written(path) as file:
            writer: Any = None
            for rows in self._rows(start, end):
                known = rows.schema.metadata or {}
                table = rows.replace_schema_metadata({**known, METADATA: json.dumps(made)})
                if writer is None:
                    writer = _writer(file, kind, table.schema)
                writer.write_table(table)
            writer.close()

    def _rows(self, start: int, end: int) -> Iterator[pa.Table]:
        """Give the rows from `start` to `end` part by part, or a table without rows."""
        first, is_given = 0, False
        for at, part in enumerate(self.parts):
            low, high = max(start, first), min(end, first + part.rows)
            is_last = at + 1 == len(self.parts)
            if low < high or (is_last and not is_given):
                with pa.memory_map(str(self.work / f"part-{at:06}.arrow")) as mapped:
                    table = pa.ipc.open_file(mapped).read_all()
                    yield table.slice(max(0, low - first), max(0, high - low))
                is_given = True
            first += part.rows


def _writer(file: BinaryIO, kind: ShardKind, schema: pa.Schema) -> Any:  # noqa: ANN401 (pyarrow's)
    if kind == "arrow":
        return pa.ipc.new_file(file, schema)
    return pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False)


def _difference(name: str, found: Any, expected: Any) -> str:  # noqa: ANN401 (JSON)
    """Say what differs in a header."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return name
    keys = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    shown = ", ".join(f"{key} {found.get(key)!r:.60}" for key in keys[:3])
    return f"{name} ({shown})"


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Lock a file while the process lives; says whether it could be locked."""
    while True:
        with path.open("ab") as file:
            if not _try_lock(file):
                yield False
                return
            # The run before deletes the file when it ends.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                yield True
                return


def _try_lock(file: BinaryIO) -> bool:
    try:
        import fcntl  # noqa: PLC0415 (POSIX)
    except ImportError:
        import msvcrt  # noqa: PLC0415 (Windows)

        lock: Any = msvcrt
        try:
            lock.locking(file.fileno(), lock.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where folders can be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
