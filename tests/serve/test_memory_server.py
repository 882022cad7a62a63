"""Turns in a real Redis or Valkey server, which may be absent, slow, full, or gone meanwhile.

`make test-memory-server` runs them; `CHATCODEC_REDIS` names the program.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis
from chatcodec.serve.memory import MemoryStore, server, store_of
from chatcodec.serve.memory.server import ServerStore
from chatcodec.serve.memory.trajectories import trajectories
from chatcodec.serve.settings import MEMORY_PASSWORD, Settings
from gateway_here import CODEC, HI, here
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_server import PROGRAM, Running
from memory_server import server as running
from store_writer import MOST, turn
from test_gateway_memory import AND, SPLIT, STOP
from test_memory_faults import counts, said
from test_memory_lately import growing
from test_remembered import check_bound, check_same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec.serve.memory.turns import Turn
    from gateway_here import Here

pytestmark = pytest.mark.skipif(
    not PROGRAM, reason="CHATCODEC_REDIS names no server: make test-memory-server"
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running() as made:
        yield made


@pytest.fixture
def own() -> Iterator[Running]:
    with running() as made:
        yield made


@pytest.fixture(autouse=True)
def rests_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_REST", 0.3)


@contextmanager
def store(of: Running, most: int = MOST) -> Iterator[ServerStore]:
    """A store in a server that has nothing."""
    with closing(redis.Redis.from_url(of.url)) as client:
        client.flushall()
    with closing(ServerStore(of.url, most)) as made:
        yield made


@contextmanager
def gateway_of(of: Running) -> Iterator[Here]:
    with here(lambda _: [*SPLIT, STOP], memory=MOST, memory_server=of.url) as made:
        yield made


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.sampled_from("fa")), max_size=40),
    st.integers(0, 12_000),
)
def test_it_keeps_to_its_bound_and_forgets_whole_conversations(
    shared: Running, steps: list[tuple[int, int, str]], most: int
) -> None:
    with store(shared, most) as made:
        check_bound(made, steps, most)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=20))
def test_it_finds_what_a_memory_finds(shared: Running, steps: list[tuple[int, int]]) -> None:
    with store(shared) as made:
        check_same(MemoryStore(MOST), made, steps)


def test_nothing_is_left_of_what_is_forgotten(shared: Running) -> None:
    with store(shared, 3 * turn(0).size) as made, closing(redis.Redis.from_url(shared.url)) as raw:
        for number in range(50):
            made.add(turn(number))
        kept = raw.dbsize()
        for number in range(50, 100):
            made.add(turn(number))
        assert raw.dbsize() == kept
        assert [bool(made.find([b"%d" % number])[1]) for number in range(95, 100)] == [
            False,
            False,
            True,
            True,
            True,
        ]


def test_gateways_of_two_machines_share_it(shared: Running) -> None:
    with store(shared), gateway_of(shared) as one, gateway_of(shared) as two:
        messages = said(one)
        assert counts(two, messages)["known"] == 1
        seen = [*one.asked[0]["prompt"], *SPLIT, STOP]
        assert two.asked[0]["prompt"][: len(seen)] == seen


def test_two_gateways_that_write_at_once_lose_nothing(shared: Running) -> None:
    with store(shared) as one, closing(ServerStore(shared.url, MOST)) as two:

        def work(made: ServerStore, first: int) -> None:
            for number in range(first, first + 100):
                made.add(turn(number))
                assert made.find([b"%d" % number])[1]

        threads = [
            threading.Thread(target=work, args=(made, 1000 * nth))
            for nth, made in enumerate((one, two, one, two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one.size == 400 * turn(0).size
        found = {made.id for made in (path[0] for path in one.ends(None))}
        assert found == {b"%d" % (1000 * nth + each) for nth in range(4) for each in range(100)}


def test_rewards_and_trajectories(shared: Running) -> None:
    with store(shared), here(lambda _: [*SPLIT, STOP], memory=MOST, memory_server=shared.url) as of:
        first = of.chat().json()
        of.chat(messages=[*HI, first["choices"][0]["message"], AND])
        with closing(ServerStore(shared.url, MOST)) as made:
            assert made.reward("", first["id"], 0, 0.5)
            assert not made.reward("other", first["id"], 0, 1.0)
            (rollout,) = trajectories(made, None)
            assert rollout.reward == 0.5
            assert rollout.ids.tolist() == [*of.asked[-1]["prompt"], *SPLIT, STOP]
            assert not list(made.ends("other"))


def test_a_server_that_is_not_there(own: Running) -> None:
    own.kill()
    with gateway_of(own) as of:
        messages = said(of)
        assert counts(of, messages) == {"known": 0, "unknown": 1, "ids": 0, "failed": 1}
        assert of.asked[-1]["prompt"] == CODEC.encode(messages).ids.tolist()
        own.start()
        time.sleep(0.4)
        assert counts(of, said(of))["known"] == 1


def test_a_server_that_is_gone_while_requests_run(own: Running) -> None:
    """It comes back without what it had: the next answers are known again."""
    with gateway_of(own) as of:
        messages = said(of)
        assert counts(of, messages)["known"] == 1
        own.kill()
        assert counts(of, messages)["failed"] == 1
        # It is left alone for a while: the requests meanwhile do not wait for it.
        assert counts(of, messages)["failed"] == 1
        own.start()
        time.sleep(0.4)
        assert counts(of, messages) == {"known": 0, "unknown": 1, "ids": 0}
        assert counts(of, said(of))["known"] == 1


def test_a_server_that_is_slow(own: Running) -> None:
    with gateway_of(own) as of:
        messages = said(of)
        with closing(redis.Redis.from_url(own.url)) as raw:
            raw.client_pause(1500)
        assert counts(of, messages)["failed"] == 1
        time.sleep(1.6)
        assert counts(of, messages)["known"] == 1


def test_streams_go_on_while_a_server_is_slow(
    own: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question waits in a thread: other requests are answered meanwhile."""
    monkeypatch.setattr(server, "_WAIT", 3.0)
    with gateway_of(own) as of:
        messages = said(of)
        with closing(redis.Redis.from_url(own.url)) as raw:
            raw.client_pause(2000)
        waiting = threading.Thread(target=counts, args=(of, messages))
        waiting.start()
        time.sleep(0.1)
        assert of.client.get(f"{of.url}/health").status_code == 200
        assert waiting.is_alive()
        waiting.join()


def test_a_full_server(own: Running) -> None:
    """What it has is found; what it does not take is encoded the next time, and told."""
    with gateway_of(own) as of, closing(redis.Redis.from_url(own.url)) as raw:
        messages = said(of)
        raw.config_set("maxmemory", 1)
        assert counts(of, messages)["known"] == 1
        assert of.metric('chatcodec_memory_failures_total{operation="add"}') == 1
        raw.config_set("maxmemory", 0)
        assert counts(of, messages)["known"] == 1
        assert of.metric('chatcodec_memory_failures_total{operation="add"}') == 1


def test_a_server_that_evicts_a_conversation(shared: Running) -> None:
    """A turn without its conversation is not found, and its next turn is not kept."""
    with store(shared) as made, closing(redis.Redis.from_url(shared.url)) as raw:
        made.add(turn(0))
        for name in raw.keys("*of:*"):
            raw.delete(name)
        assert made.find([b"0"]) == (1, [])
        made.add(turn(0))
        assert made.find([b"0"])[1]


def test_what_a_server_has_is_not_run(shared: Running) -> None:
    with store(shared) as made, closing(redis.Redis.from_url(shared.url)) as raw:
        made.add(turn(0))
        (name,) = raw.keys("*of:*")
        raw.hset(name, "t:" + b"0".hex(), b"\x80\x04junk")
        with pytest.raises(OSError, match="is no turn"):
            made.find([b"0"])


def test_a_password(own: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(redis.Redis.from_url(own.url)) as raw:
        raw.config_set("requirepass", "secret word")
    with closing(ServerStore(own.url, MOST)) as made, pytest.raises(OSError, match="uthenti"):
        made.add(turn(0))
    monkeypatch.setenv(MEMORY_PASSWORD, "secret word")
    with closing(ServerStore(own.url, MOST)) as made:
        made.add(turn(0))
        assert made.find([b"0"])[1]


def test_settings() -> None:
    at: dict[str, Any] = {"backend": "http://x", "memory_server": "redis://h:1"}
    assert isinstance(store_of(Settings(**at, memory=5)), ServerStore)
    with pytest.raises(ValueError, match="`memory_server` needs `memory`"):
        Settings(**at)
    with pytest.raises(ValueError, match="expected one of them"):
        Settings(**at, memory=5, memory_file="x")
    with pytest.raises(ValueError, match="memory's server is http, expected redis://"):
        ServerStore("http://h", 5)


def test_turns_that_a_gateway_has_are_not_sent_again(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, own = list[int](), server._turn  # noqa: SLF001

    def counted(*told: bytes) -> Turn:
        sent.append(1)
        return own(*told)

    monkeypatch.setattr(server, "_turn", counted)
    with store(shared, 1 << 20) as made:
        for path in growing(30):
            made.add(path[-1])
            _, (found,) = made.find([each.key for each in reversed(path)])
            assert found == tuple(path)
    assert len(sent) == 30
