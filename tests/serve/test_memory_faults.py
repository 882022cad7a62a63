"""A store that is full, locked, broken or gone: requests go on, and are told."""

# A connection of the store is given other bounds.
# ruff: noqa: SLF001

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec.serve.demo.engine import engine
from chatcodec.serve.memory import MemoryStore, store_of
from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.settings import Settings
from gateway import gateway, serving
from gateway_here import CODEC, HI, here
from store_writer import MOST, turn, written
from test_gateway_memory import AND, MEMORY, SPLIT, STOP, told

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="open files are not deleted, and signals are those of POSIX"
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gateway_here import Here


@contextmanager
def gateway_of(path: Path) -> Iterator[Here]:
    with here(lambda _: [*SPLIT, STOP], memory=MOST, memory_file=str(path)) as of:
        yield of


def counts(of: Here, messages: list[Any]) -> dict[str, int]:
    answer = of.chat(messages=messages)
    assert answer.status_code == 200, answer.text
    return told(answer.headers.get(MEMORY))


def said(of: Here) -> list[Any]:
    answer = of.chat()
    assert answer.status_code == 200, answer.text
    return [*HI, answer.json()["choices"][0]["message"], AND]


def test_a_restart_and_another_gateway_know_it(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with gateway_of(path) as one, gateway_of(path) as two:
        messages = said(one)
        assert counts(two, messages)["known"] == 1
        seen = [*one.asked[0]["prompt"], *SPLIT, STOP]
        assert two.asked[0]["prompt"][: len(seen)] == seen
    with gateway_of(path) as again:
        assert counts(again, messages)["known"] == 1
        # A client without the name of the first has another scope; the file is one.
        assert counts(again, [{"role": "user", "content": "Ho"}, *messages[1:]])["known"] == 0


def test_two_gateways_that_write_at_once(tmp_path: Path) -> None:
    """Conversations that go from one gateway to the other, all at the same time."""
    known: list[int] = []

    def talk(name: str, gateways: list[Here]) -> None:
        messages: list[Any] = [{"role": "user", "content": name}]
        for at in range(4):
            answer = gateways[at % 2].chat(messages=messages)
            known.append(told(answer.headers.get(MEMORY)).get("known", 0) - at)
            messages = [*messages, answer.json()["choices"][0]["message"], AND]

    path = tmp_path / "memory"
    with gateway_of(path) as one, gateway_of(path) as two:
        threads = [threading.Thread(target=talk, args=(name, [one, two])) for name in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert known == [0] * 24
        for of in (one, two):
            assert of.metric("chatcodec_memory_failures_total") == 0


def test_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with gateway_of(path) as of:
        messages = said(of)
        for each in tmp_path.iterdir():
            each.write_bytes(os.urandom(each.stat().st_size))
        assert counts(of, messages) == {"known": 0, "unknown": 1, "ids": 0, "failed": 1}
        assert of.asked[-1]["prompt"] == CODEC.encode(messages).ids.tolist()
        assert of.metric('chatcodec_memory_failures_total{operation="find"}') == 1
        assert of.metric('chatcodec_memory_failures_total{operation="add"}') >= 1
        # An operator who deletes it has a new one.
        for each in tmp_path.iterdir():
            each.unlink()
        assert counts(of, said(of))["known"] == 1


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with gateway_of(path) as of:
        messages = said(of)
        for each in tmp_path.iterdir():
            each.unlink()
        assert counts(of, messages)["unknown"] == 1
        assert counts(of, messages)["unknown"] == 1
        assert counts(of, said(of))["known"] == 1
    with gateway_of(path) as of:
        assert counts(of, messages)["known"] == 1


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with gateway_of(folder / "memory") as of:
        messages = said(of)
        for each in folder.iterdir():
            each.unlink()
        folder.rmdir()
        assert counts(of, messages) == {"known": 0, "unknown": 1, "ids": 0, "failed": 1}


def test_a_locked_file(tmp_path: Path) -> None:
    """Readers do not wait; an answer is not kept, and the client has it within seconds."""
    path = tmp_path / "memory"
    with gateway_of(path) as of:
        messages = said(of)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            found = counts(of, messages)
            assert found["known"] == 1
            assert of.metric('chatcodec_memory_failures_total{operation="add"}') == 1
            other.execute("ROLLBACK")
        assert counts(of, messages)["known"] == 1
        assert of.metric('chatcodec_memory_failures_total{operation="add"}') == 1


def test_who_reads_does_not_wait_with_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with (
        closing(SqliteStore(str(path), MOST)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        store.add(turn(0))
        other.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=store.add, args=(turn(1),))
        waiting.start()
        assert store.find([b"0"])[1]
        assert waiting.is_alive()
        other.execute("ROLLBACK")
        waiting.join()
        assert store.find([b"1"])[1]


def test_a_full_disk(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "memory"), 1 << 30)
    with closing(store):
        store.add(turn(0))
        with store._writing.connection() as connection:
            connection.execute("PRAGMA max_page_count = 40")
        kept = [0]
        while True:
            try:
                store.add(turn(len(kept), 1000))
            except OSError as error:
                full = str(error)
                break
            kept.append(len(kept))
        assert "full" in full
        assert len(kept) > 5
        # What was kept is whole, and other turns come again when there is room.
        assert store.find([b"0"])[0] == 0
        assert all(store.find([b"%d" % number])[1] for number in kept)
        assert not store.find([b"%d" % len(kept)])[1]
        assert store.size == sum(turn(n, 1000 if n else 10).size for n in kept)
        store.add(turn(2000, 1000))
        assert store.find([b"2000"])[1]


def test_an_answer_is_never_lost_for_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between the answer and the write: the next prompt is encoded, and told."""

    def fail(*_: object) -> None:
        raise RuntimeError("gone")

    monkeypatch.setattr(MemoryStore, "add", fail)
    with here(lambda _: [*SPLIT, STOP], memory=MOST) as of:
        messages = said(of)
        assert counts(of, messages)["unknown"] == 1
        streamed = of.chat(stream=True).text
        assert "[DONE]" in streamed
        assert of.metric('chatcodec_memory_failures_total{operation="add"}') == 3


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    path, context = str(tmp_path / "memory"), multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    processes = [
        context.Process(target=written, args=(path, 1000 * each, 50, ready)) for each in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    with closing(SqliteStore(path, MOST)) as store:
        for each in range(3):
            for number in range(1000 * each, 1000 * each + 50):
                assert store.find([b"%d" % number])[1] == [(turn(number),)]
        assert store.size == 150 * turn(0).size


def test_a_process_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    path, context = str(tmp_path / "memory"), multiprocessing.get_context("spawn")
    ready = context.Barrier(2)
    process = context.Process(target=written, args=(path, 0, 100_000, ready))
    process.start()
    ready.wait(60)
    with closing(SqliteStore(path, MOST)) as store:
        while store.size < 20 * turn(0).size:
            pass
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(30)
        kept = 0
        while store.find([b"%d" % kept])[1]:
            kept += 1
        assert kept >= 20
        assert store.size == kept * turn(0).size
        store.add(turn(1_000_000))
        assert store.find([b"1000000"])[1]


def test_threads_share_a_store(tmp_path: Path) -> None:
    with closing(SqliteStore(str(tmp_path / "memory"), MOST)) as store:

        def work(first: int) -> None:
            for number in range(first, first + 50):
                store.add(turn(number))
                assert store.find([b"%d" % number])[1]

        threads = [threading.Thread(target=work, args=(1000 * each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.size == 200 * turn(0).size


def test_the_files_are_the_owners_alone(tmp_path: Path) -> None:
    with closing(SqliteStore(str(tmp_path / "memory"), MOST)) as store:
        store.add(turn(0))
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes["memory"] == modes["memory-wal"] == 0o600


def test_a_file_of_something_else_is_an_error_at_the_start(tmp_path: Path) -> None:
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.commit()
    with pytest.raises(ValueError, match="something else"):
        SqliteStore(str(other), MOST)
    text = tmp_path / "text"
    text.write_text("hello " * 1000)
    with pytest.raises(OSError, match="not a database"):
        SqliteStore(str(text), MOST)
    assert text.read_text().startswith("hello")
    with pytest.raises(OSError, match="No such file"):
        SqliteStore(str(tmp_path / "none" / "memory"), MOST)


def test_settings() -> None:
    assert store_of(Settings(backend="http://x")) is None
    assert isinstance(store_of(Settings(backend="http://x", memory=5)), MemoryStore)
    with pytest.raises(ValueError, match="`memory` is -1"):
        Settings(backend="http://x", memory=-1)
    with pytest.raises(ValueError, match="`memory_file` needs `memory`"):
        Settings(backend="http://x", memory_file="x")


def test_workers_share_a_file(tmp_path: Path) -> None:
    script = engine(lambda _: [*SPLIT, STOP])
    options: tuple[str, ...] = ("--format", "internlm2", "--workers", "2", "--memory", "1MiB")
    options += ("--memory-file", str(tmp_path / "memory"))
    with serving(script) as backend, gateway(backend, tmp_path, *options) as of:
        chat: Any = of.openai.chat.completions
        messages: list[Any] = list(HI)
        for known in range(6):
            raw = chat.with_raw_response.create(
                model="demo", messages=messages, extra_headers={"connection": "close"}
            )
            assert told(raw.headers.get(MEMORY)).get("known", 0) == known
            messages = [*messages, raw.parse().choices[0].message, AND]
