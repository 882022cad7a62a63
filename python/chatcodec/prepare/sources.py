"""Input files as blocks of rows: which files, how each is read, and what of it cannot be read.

In: paths, folders and patterns. Out: `Block`s of a bounded size, in an order that the files alone
decide. A file or a line that cannot be read becomes a `Rejected` in its block.
"""

from __future__ import annotations

import glob
import hashlib
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chatcodec.errors import DataError
from chatcodec.prepare.digest import sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["LINE", "Block", "Limits", "Rejected", "Rows", "Source", "find_sources"]

Kind: TypeAlias = Literal["lines", "json", "parquet", "arrow"]

KINDS: dict[str, Kind] = {
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
"""Suffixes and how their files are read; JSON may also be compressed."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}

LINE = "line"
"""The column of lines of JSON, each an object of a row."""

_BROKEN = (pa.ArrowException, EOFError, ValueError)
"""What pyarrow raises for a file with wrong contents, beside `OSError` without a number."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that bound memory, in bytes."""

    block: int = 4 << 20
    """Rows that a thread encodes at once."""
    line: int = 64 << 20
    """The longest line of JSON; a longer one is rejected."""
    document: int = 256 << 20
    """The largest file that is one list of JSON."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that was not written, or a file that cannot be read on from a row."""

    file: str
    row: int
    """The line of JSON or the row of a table, from 1; 0 for a file that cannot be opened."""
    reason: str
    text: str | None = None
    """The line, if it is short enough to be kept."""


@dataclass(slots=True)
class Rows:
    """Rows of a file, in order, and what cannot be read among them."""

    table: pa.Table
    """Lines of JSON in the column `LINE`, or the columns of a table."""
    numbers: Sequence[int]
    """The number of each row in its file."""
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def is_json(self) -> bool:
        """Whether the rows are lines of JSON."""
        return [*self.table.column_names] == [LINE]


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a file, whose rows any thread may read."""

    file: str
    rows: Callable[[], Rows]
    last: int
    """The number of its last row in the file, or of the row before it."""
    size: int
    """Bytes of the rows."""
    position: int
    """Bytes of the file that were read up to here, for progress."""
    digest: bytes
    """Hash of the file up to here: a resumed run compares it."""


class Reader(Protocol):
    """A file, or what it holds uncompressed."""

    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes; none at the end."""


class _Hashed:
    """A file that hashes what is read from it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.hash = hashlib.sha256()
        self.position = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.hash.update(data)
        self.position += len(data)
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self._file.close()


@dataclass(slots=True)
class Source:
    """An input file."""

    path: Path
    kind: Kind
    compression: str | None
    size: int
    """Bytes of the file."""
    sha256: str = ""
    """Hash of the whole file, once it was read."""

    def blocks(self, columns: frozenset[str] | None, limits: Limits) -> Iterator[Block]:
        """Read the file; of a table only `columns`, or all of them.

        Raises `OSError` where the system cannot read. Wrong contents are in the last block.
        """
        done = 0
        reader = self._tables(columns, limits) if self.kind in {"parquet", "arrow"} else None
        try:
            for block in reader or self._json(limits):
                done = block.last
                yield block
        except (*_BROKEN, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            why = " ".join(str(error).split()) or type(error).__name__
            reason = f"cannot be read after row {done}: {why}" if done else f"cannot be read: {why}"
            rejected = [Rejected(str(self.path), done + 1 if done else 0, reason)]
            yield Block(
                file=str(self.path),
                rows=partial(_texts, str(self.path), done + 1, b"", limits.line, rejected),
                last=done,
                size=0,
                position=self.size,
                digest=f"broken {done}".encode(),
            )
            self.sha256 = self.sha256 or sha256(self.path)

    def _json(self, limits: Limits) -> Iterator[Block]:
        file = _Hashed(self.path)
        try:
            stream: Reader = file
            if self.compression is not None:
                stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), self.compression)
            first = _read(stream, max(limits.block, 3))  # a mark of the byte order is whole
            if self.kind == "json" and first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
                lines = self._list(first, stream, limits)
            else:
                lines = self._lines(first, stream, limits)
            for number, data, too_long in lines:
                yield Block(
                    file=str(self.path),
                    rows=partial(_texts, str(self.path), number, data, limits.line, too_long),
                    last=number + data.removesuffix(b"\n").count(b"\n"),
                    size=len(data),
                    position=file.position,
                    digest=file.hash.digest(),
                )
            while file.read(1 << 20):
                pass  # what follows a compressed stream is part of the file's hash
            self.sha256 = file.hash.hexdigest()
        finally:
            file.close()

    def _lines(
        self, data: bytes, stream: Reader, limits: Limits
    ) -> Iterator[tuple[int, bytes, list[Rejected]]]:
        """Give whole lines, with the number of the first and what was too long among them."""
        number, rest = 1, b""
        data = data.removeprefix(b"\xef\xbb\xbf") or _read(stream, limits.block)
        while data:
            end = data.rfind(b"\n") + 1
            if end:
                block = rest + data[:end]
                yield number, block, []
                number += block.count(b"\n")
                rest = b""
            rest += data[end:]
            data = b""
            if len(rest) > limits.line:
                reason = f"is longer than {limits.line} bytes"
                yield number, b"", [Rejected(str(self.path), number, reason)]
                rest, data = b"", _after_line(stream, limits.block)
                number += 1
            data = data or _read(stream, limits.block)
        if rest:
            yield number, rest, []

    def _list(
        self, data: bytes, stream: Reader, limits: Limits
    ) -> Iterator[tuple[int, bytes, list[Rejected]]]:
        """Give the items of a list of JSON as lines."""
        parts, size = [data], len(data)
        while size <= limits.document and (data := _read(stream, limits.block)):
            parts.append(data)
            size += len(data)
        if size > limits.document:
            raise ValueError(
                f"is one list of JSON of more than {limits.document} bytes; "
                "write an item a line (`jq -c '.[]'`) and name the file .jsonl"
            )
        try:
            items = json.loads(b"".join(parts).decode("utf-8-sig"))
        except RecursionError as error:
            raise ValueError("is nested too deeply") from error
        lines: list[bytes] = []
        first, size = 1, 0
        for number, item in enumerate(items, 1):
            text = json.dumps(item, ensure_ascii=False).encode("utf-8", "surrogatepass")
            lines.append(text)
            size += len(text) + 1
            if size >= limits.block:
                yield first, b"\n".join([*lines, b""]), []
                lines, first, size = [], number + 1, 0
        if lines:
            yield first, b"\n".join([*lines, b""]), []

    def _tables(self, columns: frozenset[str] | None, limits: Limits) -> Iterator[Block]:
        self.sha256 = sha256(self.path)
        first = 1
        for batch, total in self._batches(columns, limits):
            numbers = range(first, first + batch.num_rows)
            first += batch.num_rows
            yield Block(
                file=str(self.path),
                rows=partial(Rows, pa.Table.from_batches([batch]), numbers),
                last=first - 1,
                size=batch.nbytes,
                position=self.size * (first - 1) // total if total else 0,
                digest=f"{self.sha256} {first}".encode(),
            )

    def _batches(
        self, columns: frozenset[str] | None, limits: Limits
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Give batches of rows, and the number of rows of the file, or 0 if it is not known."""
        if self.kind == "parquet":
            with pq.ParquetFile(self.path, pre_buffer=False) as file:
                groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
                total = file.metadata.num_rows
                each = sum(group.total_byte_size for group in groups) // max(1, total)
                count = max(1, min(1 << 14, limits.block // max(1, each)))
                names = file.schema_arrow.names
                taken = None if columns is None else [name for name in names if name in columns]
                for batch in file.iter_batches(count, columns=taken):
                    yield batch, total
            return
        with pa.memory_map(str(self.path)) as mapped:
            try:
                opened = pa.ipc.open_file(mapped)
                batches = (opened.get_batch(at) for at in range(opened.num_record_batches))
            except pa.ArrowInvalid:
                mapped.seek(0)
                batches = iter(pa.ipc.open_stream(mapped))
            for batch in batches:
                names = batch.schema.names
                kept = batch.select([n for n in names if columns is None or n in columns])
                count = max(1, limits.block // max(1, kept.nbytes // max(1, kept.num_rows)))
                for start in range(0, kept.num_rows, count):
                    yield kept.slice(start, count), 0


def find_sources(inputs: Sequence[str], output: Path) -> list[Source]:
    """Find the input files: paths, patterns, and folders with all that they hold.

    A file that is found twice is read once; files within `output` are left out of folders and
    patterns. Raises `DataError` for a path without a file, and for a file of another kind.
    """
    found: dict[Path, Source] = {}
    for given in inputs:
        path = Path(given)
        if path.is_file():
            files = [path]
        elif path.is_dir():
            files = _within(sorted(file for file in path.rglob("*") if _kind(file)), path, output)
        elif any(sign in given for sign in "*?["):
            matches = sorted(map(Path, glob.glob(given, recursive=True)))  # noqa: PTH207
            files = _within([file for file in matches if file.is_file()], None, output)
        else:
            raise DataError(f"{given}: no such file", given)
        if not files:
            what = "no file of conversations" if path.is_dir() else "no file of that name"
            raise DataError(f"{given}: {what}; expected {_expected()}", given)
        for file in files:
            kind = _kind(file)
            if kind is None:
                raise DataError(f"{file}: is of no known kind; expected {_expected()}", str(file))
            source = Source(file, *kind, size=file.stat().st_size)
            found.setdefault(file.resolve(), source)
    return list(found.values())


def _expected() -> str:
    json_suffixes = ", ".join(suffix for suffix, kind in KINDS.items() if kind in {"lines", "json"})
    others = ", ".join(suffix for suffix, kind in KINDS.items() if kind not in {"lines", "json"})
    return f"{json_suffixes}, also with {' or '.join(COMPRESSIONS)}, {others}"


def _kind(path: Path) -> tuple[Kind, str | None] | None:
    """Tell how a file is read by its name."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if compression is not None:
        suffixes.pop()
    kind = KINDS.get(suffixes[-1]) if suffixes else None
    if kind is None or (compression is not None and kind not in {"lines", "json"}):
        return None
    return kind, compression


def _within(files: list[Path], folder: Path | None, output: Path) -> list[Path]:
    """Leave out hidden files of a folder, and what an earlier run wrote."""

    def is_hidden(file: Path) -> bool:
        parts = file.relative_to(folder).parts if folder is not None else ()
        return any(part.startswith((".", "_")) for part in parts)

    written = output.resolve()
    return [file for file in files if not is_hidden(file) and written not in file.resolve().parents]


def _read(stream: Reader, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end."""
    parts: list[bytes] = []
    while size and (data := stream.read(size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _after_line(stream: Reader, size: int) -> bytes:
    """Read past the end of a line; give what was read of the lines after it."""
    while data := _read(stream, size):
        _, newline, after = data.partition(b"\n")
        if newline and after:
            return after
        if newline:
            break
    return b""


def _texts(file: str, first: int, data: bytes, longest: int, too_long: Sequence[Rejected]) -> Rows:
    """Give lines that are not empty as text, with their numbers; reject what is no UTF-8."""
    rejected = [*too_long]
    data = data.removesuffix(b"\n")
    if not data:
        return Rows(pa.table({LINE: pa.array([], pa.large_string())}), [], rejected)
    lines = pc.split_pattern(pa.scalar(data, pa.large_binary()), b"\n").values
    numbers: Sequence[int] = range(first, first + len(lines))
    lengths = pc.binary_length(lines)
    try:
        texts = lines.cast(pa.large_string())
    except pa.ArrowInvalid:
        decoded = [_decoded(line) for line in lines.to_pylist()]
        for at, text in enumerate(decoded):
            if isinstance(text, UnicodeDecodeError):
                reason = f"is not UTF-8, at byte {text.start}"
                shown = lines[at].as_py().decode(errors="backslashreplace")
                rejected.append(Rejected(file, first + at, reason, shown))
        texts = pa.array(
            [None if isinstance(text, UnicodeDecodeError) else text for text in decoded],
            pa.large_string(),
        )
    if (pc.max(lengths).as_py() or 0) > longest:
        is_long = pc.greater(lengths, longest)
        reason = f"is longer than {longest} bytes"
        long = pc.indices_nonzero(is_long).to_pylist()
        rejected += [Rejected(file, first + at, reason) for at in long]
        texts = pc.if_else(is_long, pa.scalar(None, pa.large_string()), texts)
    if pc.min(lengths).as_py() < len(" \t\r"):
        is_empty = pc.equal(pc.utf8_trim_whitespace(texts), "")
        texts = pc.if_else(is_empty, pa.scalar(None, pa.large_string()), texts)
    if texts.null_count:
        is_there = pc.is_valid(texts)
        numbers = [first + at for at in pc.indices_nonzero(is_there).to_pylist()]
        texts = texts.filter(is_there)
    return Rows(pa.table({LINE: texts}), numbers, rejected)


def _decoded(line: bytes) -> str | UnicodeDecodeError:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return error
