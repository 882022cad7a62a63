"""A run: blocks of the input are read, encoded and stored; a stopped run goes on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from chatcodec._core import __version__, pack_table
from chatcodec.errors import DataError
from chatcodec.prepare.digest import sha256
from chatcodec.prepare.kept import KeptColumns
from chatcodec.prepare.report import Report
from chatcodec.prepare.sources import LINE, Block, Limits, Rejected, find_sources
from chatcodec.prepare.store import Part, ShardKind, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from chatcodec import Codec
    from chatcodec.options import OnLong
    from chatcodec.prepare.sources import Source

__all__ = ["Options", "Progress", "prepare"]

SHARD_IDS = 50_000_000
"""Most ids of a shard, where the number of shards is not given."""
SMALL_SHARD_IDS, SMALL_SHARDS = 4_000_000, 16
"""Least ids of a shard where there are fewer shards than the second number: each is written by a
thread of its own."""

_READ = frozenset(
    "messages conversations prompt completion instruction input output system tools".split()  # noqa: SIM905
)
"""Columns of tables that `encode_table` reads by default."""

_COUNTED = ("length", "original_length", "roles", "neutralized", "dropped", "error")
_PACKED = {"input_ids", "labels", "attention_mask"}
_LONG_TEXT = 1 << 16

_UNTRAINED = (
    "nothing to train on: none of its ids is one that a model generates; expected an assistant's "
    "message"
)
"""The reason of a row all of whose labels are ignored."""

_ADVICE = '`markup="parse"` reads them'
"""What the error of a row says whose assistant's text spells reasoning or calls."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is written, and how."""

    columns: tuple[str, ...] = ("input_ids",)
    """The new columns, as `Codec.encode_table` names them."""
    labels: bool = False
    """Add the column `labels`."""
    keep: tuple[str, ...] = ()
    """Columns of the input that are kept, by name."""
    messages: str | None = None
    """The column of messages; by default the first of the known ones."""
    max_length: int | None = None
    """Most ids of a conversation; with `pack`, that size by default."""
    on_long: OnLong = "error"
    """What becomes of longer ones, as `Codec.encode_table` has it."""
    pack: int | None = None
    """Pack conversations into rows of at most so many ids, as `chatcodec.pack_table` does. Those of
    a part, some 4 MB of rows, are packed together."""
    shards: int | None = None
    """Number of shards; by default one for each 4 million ids, up to 16, and more where these
    would have over 50 million each."""
    kind: ShardKind = "parquet"
    """The format of the shards."""
    encode: Mapping[str, Any] = field(default_factory=dict)
    """Options of `Codec.encode_table`."""
    threads: int | None = None
    """Threads; all cores by default. The output is the same for any number."""
    limits: Limits = field(default_factory=Limits)
    """Sizes that bound memory."""


class Progress(Protocol):
    """What is called while a run goes on."""

    def read(self, done: int, total: int, report: Report) -> None:
        """Take how many bytes of the input were read, and what was counted up to there."""

    def write(self, done: int, total: int) -> None:
        """Take how many rows were written to shards."""


class _Silent:
    """Shows no progress."""

    def read(self, done: int, total: int, report: Report) -> None:
        pass

    def write(self, done: int, total: int) -> None:
        pass


def prepare(  # noqa: PLR0913 (keywords)
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    codec: Codec,
    options: Options | None = None,
    *,
    restart: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Encode the conversations of files, and write their ids as shards in the folder `output`.

    Rows that cannot be encoded go to `_rejects.jsonl` with the reason. A run that was stopped goes
    on when it is called again with the same arguments; `restart` begins anew. The same inputs and
    options give the same bytes, whether or not a run was stopped.

    Raises `DataError` for inputs that are absent, for an output folder that another process uses or
    that holds something else; `ValueError` for wrong options; and `OSError` where the system cannot
    read or write.
    """
    options = options or Options()
    folder = Path(output)
    sources = find_sources([os.fspath(path) for path in inputs], folder)
    header = _header(codec, options, sources)
    store = Store(folder)
    _check(codec, options)
    with store.locked():
        if restart:
            store.clear()
        done = store.manifest()
        if done is not None:
            return _finished(store, done, header, sources)
        store.begin(header)
        progress = progress or _Silent()
        _Run(codec, options, sources, store, progress).encode()
        total = store.report()
        shards = options.shards or _shards(total.ids)
        written = 0

        def wrote(rows: int) -> None:
            nonlocal written
            written += rows
            progress.write(written, total.rows)

        hashes = [{"file": str(s.path), "bytes": s.size, "sha256": s.sha256} for s in sources]
        mapper: Any = codec.mapper()
        manifest = {**header, "made_of": mapper.describe(), "inputs": hashes}
        store.finish(shards, options.kind, manifest, options.threads or _cores(), wrote)
        return total


def _shards(ids: int) -> int:
    """Tell how many shards so many ids are worth; the number of threads does not change it."""
    return max(1, -(-ids // SHARD_IDS), min(SMALL_SHARDS, ids // SMALL_SHARD_IDS))


def _cores() -> int:
    """Tell how many cores the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check(codec: Codec, options: Options) -> None:
    """Refuse wrong options before the folder is made."""
    new = {*options.columns, *(["labels"] if options.labels else [])}
    for name in options.keep:
        if name in new:
            raise DataError(f"`keep` holds {name!r}, which is a new column; expected another")
    if options.shards is not None and options.shards < 1:
        raise DataError(f"`shards` is {options.shards}, expected 1 or more")
    if options.pack is not None:
        if options.pack < 1:
            raise DataError(f"`pack` is {options.pack}, expected 1 or more")
        if others := [*sorted(new - _PACKED), *options.keep]:
            raise DataError(
                f"`pack` is given with the column {others[0]!r}, expected input_ids, labels and "
                "attention_mask alone: a packed row has several conversations"
            )
    empty = pa.table({"messages": pa.array([], pa.string())})
    columns: Any = [*new]
    words: Any = {**options.encode, "on_long": options.on_long}
    codec.encode_table(empty, columns=columns, errors="return", **words)


def _header(codec: Codec, options: Options, sources: Sequence[Source]) -> dict[str, Any]:
    """Describe a run: two runs with the same header write the same bytes."""
    described = asdict(options)
    # The number of threads does not change what is written.
    del described["threads"]
    described["encode"] = dict(sorted(options.encode.items()))
    mapper: Any = codec.mapper()
    return {
        "chatcodec": __version__,
        "codec": mapper.digest,
        "options": described,
        "inputs": [{"file": str(source.path), "bytes": source.size} for source in sources],
    }


def _finished(
    store: Store, done: dict[str, Any], header: dict[str, Any], sources: Sequence[Source]
) -> Report:
    """Give the report of a run that is done, if it was this one."""
    header = json.loads(json.dumps(header))
    known = [{"file": item["file"], "bytes": item["bytes"]} for item in done.get("inputs", [])]
    same = all(done.get(name) == header[name] for name in ("chatcodec", "codec", "options"))
    same = same and "report" in done
    if same and known == header["inputs"]:
        for source, item in zip(sources, done["inputs"], strict=True):
            same = same and sha256(source.path) == item["sha256"]
        if same:
            # A process may have died after it wrote the manifest.
            store.tidy()
            return Report.of_dict(done["report"])
    raise DataError(
        f"{store.folder}: holds the shards of another run; expected a new or an empty folder, "
        "or use --restart",
        str(store.folder),
    )


class _Run:
    """Blocks on their way from the sources to the store."""

    def __init__(
        self,
        codec: Codec,
        options: Options,
        sources: Sequence[Source],
        store: Store,
        progress: Progress,
    ) -> None:
        self.codec = codec
        self.options = options
        self.sources = sources
        self.store = store
        self.progress = progress
        self.threads = options.threads or _cores()
        self.kept = KeptColumns(options.keep, store.schema())
        self.new = [*dict.fromkeys([*options.columns, *(["labels"] if options.labels else [])])]
        named = [] if options.messages is None else [options.messages]
        self.read = _READ | {*named}

    def encode(self) -> None:
        """Encode all blocks that the journal does not have yet, a part in each thread."""
        counted = self.store.report()
        total = sum(source.size for source in self.sources)
        workers = ThreadPoolExecutor(self.threads)
        waiting: deque[tuple[int, Future[Part]]] = deque()
        try:
            for at, read in enumerate(self._new_parts(), len(self.store.parts)):
                part = workers.submit(self._make, at, read)
                waiting.append((read.position, part))
                if self.kept.is_waiting():
                    part.result()
                self._enter(waiting, counted, total, ahead=self.threads + 1)
            self._enter(waiting, counted, total, ahead=0)
        finally:
            workers.shutdown(cancel_futures=True)
        if not self.store.parts:
            # A run without rows has a part, too, which knows the columns.
            self.store.enter([self._make(0, _Blocks())])
        self.progress.read(total, total, counted)

    def _enter(
        self, waiting: deque[tuple[int, Future[Part]]], counted: Report, total: int, *, ahead: int
    ) -> None:
        """Enter finished parts in the journal, in order; wait until only `ahead` are unfinished."""
        done: list[tuple[int, Part]] = []
        while waiting and (len(waiting) > ahead or waiting[0][1].done()):
            position, made = waiting.popleft()
            done.append((position, made.result()))
        if done:
            self.store.enter([part for _, part in done])
        for position, part in done:
            counted.add(part.report)
            self.progress.read(position, total, counted)

    def _make(self, at: int, read: _Blocks) -> Part:
        """Make a part of blocks, and write its files."""
        blocks = [self._encoded(block) for block in read.blocks]
        tables = [block.table for block in blocks if block.table is not None]
        table = pa.concat_tables(tables or [self._blank()])
        report = Report(rejected=sum(len(block.rejected) for block in blocks))
        report.markup = sum(_ADVICE in item.reason for block in blocks for item in block.rejected)
        report.count_rejected(item.reason for block in blocks for item in block.rejected)
        report.dropped = sum(block.dropped for block in blocks)
        report.count(table)
        table = table.select([*self.new, *self.options.keep])
        if self.options.pack is not None:
            table = pa.table(pack_table(table, self.options.pack))
            report.packed = len(table)
        rejects = [_line(item) for block in blocks for item in block.rejected]
        self.store.write_part(at, table, rejects)
        return Part(len(blocks), read.digest, len(table), report)

    def _new_parts(self) -> Iterator[_Blocks]:
        """Give the blocks that no part has, some megabytes of rows at a time."""
        read = _Blocks()
        for position, block, digest in self._new_blocks():
            read.blocks.append(block)
            read.size += block.size
            read.position, read.digest = position, digest
            if read.size >= self.options.limits.block // 2:
                yield read
                read = _Blocks()
        if read.blocks:
            yield read

    def _new_blocks(self) -> Iterator[tuple[int, Block, str]]:
        """Give the blocks that no part has, each with the bytes and the hash of all up to it.

        Raises `DataError` where the blocks of a part are others now.
        """
        ends = {}
        done = 0
        for part in self.store.parts:
            done += part.blocks
            ends[done] = part.digest
        chain = hashlib.sha256()
        at = 0
        for at, (position, block) in enumerate(self._blocks(), 1):
            chain.update(block.digest)
            digest = chain.hexdigest()
            if ends.get(at, digest) != digest:
                raise DataError(
                    f"{block.file}: is not the file that the run began with; use --restart",
                    block.file,
                )
            if at > done:
                yield position, block, digest
        if at < done:
            raise DataError(
                "the inputs are not the files that the run began with; use --restart",
                str(self.store.folder),
            )

    def _blocks(self) -> Iterator[tuple[int, Block]]:
        """Read blocks in a thread, two ahead; give them with the bytes read up to there."""
        blocks: queue.Queue[tuple[int, Block] | BaseException | None] = queue.Queue(2)
        stopped = threading.Event()

        def put(item: tuple[int, Block] | BaseException | None) -> None:
            while not stopped.is_set():
                with contextlib.suppress(queue.Full):
                    blocks.put(item, timeout=0.1)
                    return

        def work() -> None:
            try:
                for item in self._read_all():
                    put(item)
                    if stopped.is_set():
                        return
                put(None)
            except BaseException as error:  # noqa: BLE001 (raised in the other thread)
                put(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while (item := blocks.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            thread.join()

    def _read_all(self) -> Iterator[tuple[int, Block]]:
        before = 0
        columns = self.read | {*self.options.keep}
        for source in self.sources:
            for block in source.blocks(columns, self.options.limits):
                yield before + block.position, block
            before += source.size

    def _encoded(self, block: Block) -> _Encoded:
        """Encode the rows of a block; what was rejected is in the order of the rows."""
        rows = block.rows()
        rejected = rows.rejected
        if not rows.table.num_rows:
            return _Encoded(None, rejected)
        if rows.is_json:
            table, kept = self._json_rows(rows.table)
        else:
            table, kept = self._table_rows(rows.table)
        try:
            encoded = self._encode(table, LINE if rows.is_json else self.options.messages)
        except ValueError as error:
            # The table has no column of messages, or a damaged one.
            reason = " ".join(str(error).split())
            return _Encoded(None, [*rejected, Rejected(block.file, rows.numbers[0], reason)])
        added, reasons = self.kept.columns(kept, len(encoded))
        for name, values in added.items():
            encoded = encoded.append_column(name, values)
        reasons |= _reasons(encoded)
        for at in sorted(reasons):
            text = rows.table[LINE][at].as_py() if rows.is_json else None
            text = None if text is None or len(text) > _LONG_TEXT else text
            rejected.append(Rejected(block.file, rows.numbers[at], reasons[at], text))
        if reasons:
            encoded = encoded.filter(pa.array([at not in reasons for at in range(len(encoded))]))
        rejected.sort(key=lambda item: item.row)
        dropped = encoded["length"].null_count
        if dropped:
            encoded = encoded.filter(encoded["length"].is_valid())
        return _Encoded(encoded, rejected, dropped)

    def _encode(self, table: pa.Table, messages: str | None) -> pa.Table:
        """Encode a table; give the new columns."""
        trained = ["trained"] if "labels" in self.new else []
        columns: Any = [*dict.fromkeys([*self.new, *trained, *_COUNTED])]
        encoded = self.codec.encode_table(
            table,
            messages,
            columns=columns,
            errors="return",
            max_length=self.options.max_length or self.options.pack,
            on_long=self.options.on_long,
            threads=1,
            **self.options.encode,
        )
        return pa.table(encoded).select(columns)

    def _blank(self) -> pa.Table:
        """Give a table without rows."""
        encoded = self._encode(pa.table({LINE: pa.array([], pa.string())}), LINE)
        added, _ = self.kept.columns({}, 0)
        for name, values in added.items():
            encoded = encoded.append_column(name, values)
        return encoded

    def _json_rows(self, rows: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
        """Give the lines that `encode_table` reads, and the values of columns that are kept."""
        messages, keep = self.options.messages, self.options.keep
        if messages is None and not keep:
            return rows, {}
        objects = [_object(line) for line in rows[LINE].to_pylist()]
        kept = {name: [item.get(name) for item in objects] for name in keep}
        if messages is None:
            return rows, kept
        lines = [
            {"messages": item[messages], "tools": item.get("tools")} if messages in item else item
            for item in objects
        ]
        return pa.table({LINE: [json.dumps(line) for line in lines]}), kept

    def _table_rows(self, rows: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
        """Give the columns that `encode_table` reads, and those that are kept."""
        names = rows.column_names
        kept = {name: rows[name] for name in self.options.keep if name in names}
        return rows.select([name for name in names if name in self.read]), kept


@dataclass(slots=True)
class _Blocks:
    """Blocks that become a part, with the bytes and the hash of all blocks up to their end."""

    blocks: list[Block] = field(default_factory=list)
    size: int = 0
    position: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """An encoded block: new and kept columns, or no rows; what was rejected, and left out."""

    table: pa.Table | None
    rejected: list[Rejected]
    dropped: int = 0


def _reasons(encoded: pa.Table) -> dict[int, str]:
    """Tell why rows are not written, by their position."""
    reasons: dict[int, str] = {}
    if "trained" in encoded.column_names:
        nothing = pc.indices_nonzero(pc.equal(encoded["trained"], 0))
        reasons = dict.fromkeys(nothing.to_pylist(), _UNTRAINED)
    wrong = pc.indices_nonzero(pc.is_valid(encoded["error"]))
    return reasons | dict(
        zip(wrong.to_pylist(), encoded["error"].take(wrong).to_pylist(), strict=True)
    )


def _object(line: str) -> dict[str, Any]:
    """Read a line; an empty object for what the codec rejects with a reason."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _line(item: Rejected) -> bytes:
    """Write a rejected row as a line of JSON."""
    value: dict[str, Any] = {"file": item.file, "row": item.row, "reason": item.reason}
    if item.text is not None:
        value["text"] = item.text
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
