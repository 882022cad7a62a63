"""What a process keeps of the latest requests: nothing else is found than without it."""

from __future__ import annotations

import multiprocessing
import random
import threading
import tracemalloc
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec.serve.memory import Histories, MemoryStore, far, sqlite
from chatcodec.serve.memory.far import FarStore, Find
from chatcodec.serve.memory.histories import Scope
from chatcodec.serve.memory.paths import Paths
from chatcodec.serve.memory.said import History
from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.memory.turns import Turn, id_of
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

CALL = {"id": "call_1", "function": {"name": "look", "arguments": '{"n": 1}'}}
MESSAGES: list[Any] = [
    {"role": "user", "content": "Hi"},
    {"role": "user", "content": [{"type": "image", "n": 1}]},
    {"role": "user", "content": [{"type": "image", "n": True}]},
    {"role": "user", "content": [{"type": "image", "n": 1.0}]},
    {"role": "assistant", "content": "Hello"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "\ud800"},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"},
    "other",
]
SCOPES = [
    Scope(client, session, "codec", tools, {"thinking": thinking})
    for client in ("a", "b")
    for session in ("", "s")
    for tools in ([], [{"n": 1}], [{"n": True}])
    for thinking in (True, None)
]
REQUESTS = st.tuples(
    st.sampled_from(SCOPES), st.integers(0, 9), st.lists(st.sampled_from(MESSAGES), max_size=6)
)


@given(st.lists(REQUESTS, max_size=12), st.sampled_from([0, 400, 8000, 1 << 20]))
def test_a_history_is_the_same_whatever_was_read_before(
    requests: list[tuple[Scope, int, list[Any]]], most: int
) -> None:
    lately, last = Histories("codec", most), list[Any]()
    for scope, kept, new in requests:
        last = [*last[: len(last) - kept], *new] if kept < len(last) else [*last, *new]
        read, naive = lately.read(scope, last), History(scope.words(), last)
        assert (read.base, read.answers) == (naive.base, naive.answers)
        assert lately.read(scope, last).answers == naive.answers


@pytest.mark.parametrize("other", MESSAGES[:4])
@pytest.mark.parametrize("one", MESSAGES[:4])
def test_a_history_with_another_message_is_another(one: Any, other: Any) -> None:  # noqa: ANN401
    lately = Histories("codec")
    lately.read(SCOPES[0], [one, MESSAGES[0]])
    messages = [other, MESSAGES[0], MESSAGES[4]]
    read = lately.read(SCOPES[0], messages)
    assert read.answers == History(SCOPES[0].words(), messages).answers


def test_messages_that_were_read_are_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[Any]()
    own = History._read  # noqa: SLF001

    def counted(self: History, messages: list[Any], at: int) -> int:
        read.append(messages[at])
        return own(self, messages, at)

    monkeypatch.setattr(History, "_read", counted)
    lately, messages = Histories("codec"), MESSAGES[:1]
    for _ in range(50):
        lately.read(SCOPES[0], messages)
        messages = [*messages, MESSAGES[4], {"role": "user", "content": "And?"}]
    assert len(read) == 1 + 49 * 2


def test_histories_have_a_bound() -> None:
    lately = Histories("codec", 10_000)
    for number in range(100):
        lately.read(SCOPES[0], [{"role": "user", "content": f"{number}" * 400}])
        assert 400 <= lately.size <= 10_000


def test_tools_and_short_messages_count_for_the_bound() -> None:
    tracemalloc.start()
    try:
        lately = Histories("codec", 1 << 20)
        for number in range(2000):
            tools = [{"name": f"{number:04}" * 500}] if number < 1000 else []
            scope = Scope("client", "", "codec", tools, {})
            lately.read(scope, [{"role": "user", "content": f"{number}"}])
            assert lately.size <= 1 << 20
        assert tracemalloc.get_traced_memory()[0] < 3 << 20
    finally:
        tracemalloc.stop()


def turn(before: list[Turn], said: int) -> Turn:
    key, ids = b"%d:%d" % (len(before), said), bytes([said]) * 400
    last = before[-1].id if before else b""
    id_ = id_of(key, last, ids, ids)
    root = before[0].id if before else id_
    return Turn(key, id_, last, root, len(before), appended=ids, sampled=ids)


def answered(connection: Connection, store: MemoryStore, sent: list[int]) -> None:
    """Answer as the gateway's process does, and count the turns that are sent."""
    while isinstance(asked := connection.recv(), Find):
        found = asked.answer(store)
        assert not isinstance(found, OSError)
        sent.append(sum(len(turns) for _, turns in found[1]))
        connection.send(found)


@contextmanager
def read_elsewhere(store: MemoryStore, sent: list[int]) -> Iterator[FarStore]:
    """A store as another process sees it."""
    ours, theirs = multiprocessing.Pipe()
    thread = threading.Thread(target=answered, args=(ours, store, sent))
    thread.start()
    with closing(ours), closing(theirs):
        yield FarStore(theirs)
        theirs.send(None)
        thread.join()


@pytest.mark.parametrize("most", [0, 2000, 1 << 20])
def test_a_process_that_reads_finds_what_the_store_has(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far, "Paths", partial(Paths, most))
    choose, store, paths = random.Random(1), MemoryStore(1 << 20), [list[Turn]()]
    with read_elsewhere(store, []) as reading:
        for _ in range(200):
            path = choose.choice(paths)
            path = path[: choose.randrange(len(path) + 1)] if choose.random() < 0.2 else path
            path = [*path, turn(path, choose.randrange(3))]
            store.add(path[-1])
            paths = [*paths[-3:], path]
            keys = [each.key for each in reversed(path)][choose.randrange(2) :]
            assert reading.find(keys) == store.find(keys)
            assert reading.paths.size <= most


def test_turns_that_a_process_has_are_not_sent_again() -> None:
    store, sent = MemoryStore(1 << 20), list[int]()
    with read_elsewhere(store, sent) as reading:
        for path in growing(30):
            store.add(path[-1])
            reading.find([each.key for each in reversed(path)])
    assert sent == [1] * 30


def test_turns_that_were_read_from_a_file_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, own = list[int](), sqlite._turn  # noqa: SLF001

    def counted(row: Sequence[Any]) -> Turn:
        rows.append(1)
        return own(row)

    monkeypatch.setattr(sqlite, "_turn", counted)
    with closing(SqliteStore(str(tmp_path / "turns"), 1 << 20)) as store:
        for path in growing(30):
            store.add(path[-1])
            for _ in range(2):
                _, (found,) = store.find([each.key for each in reversed(path)])
                assert found == tuple(path)
    assert len(rows) == 30


def growing(turns: int) -> Iterator[list[Turn]]:
    """A conversation after each of its turns."""
    path = list[Turn]()
    for _ in range(turns):
        path = [*path, turn(path, 1)]
        yield path
