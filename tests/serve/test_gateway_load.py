"""A thousand streams at once, or 400: nothing is lost, mixed or leaked, and every answer ends.

Each stream gets one answer, other clients go in the middle of theirs, and others send large bodies.
`make test-load` does it for five minutes with bodies of 7 MB, and then the gateway's memory has to
be flat.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import statistics
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chatcodec import Codec
from gateway import Gateway, gateway

from benches.load import Answer as Load
from benches.load import (
    Connection,
    Engine,
    Talk,
    WrongAnswerError,
    read,
    serving,
    stream,
    talks,
    usage,
)

if TYPE_CHECKING:
    from collections.abc import Callable

if not sys.platform.startswith("linux"):
    pytest.skip("memory and open files are read in /proc", allow_module_level=True)

IDS = 40
IS_LONG = os.environ.get("CHATCODEC_LONG") == "1"
STREAMS = 1000 if IS_LONG else 400
SECONDS, PACE = (300.0, 0.2) if IS_LONG else (0.0, 0.05)
LIMITS = ("--max-requests", "4000", "--connect-timeout", "60")
"""Limits that a busy machine does not reach: a client that goes is noticed later."""
LEAVERS = 20
LARGE = 2 if IS_LONG else 1
"""Clients that send large bodies, one after the other."""
MESSAGES = 190_000 if IS_LONG else 2_000
"""Messages of a large body: 7 MB, or just enough for another process to read it."""
GROWTH = 20_000_000
"""Bytes by which the gateway may grow from the second third of the time to the last: the least of
each counts, as large bodies come and go."""
CHAT = "/v1/chat/completions"
WAIT = 30


async def leave(url: str, talk: Talk, deadline: float) -> int:
    """Begin answers and go in the middle; give their number."""
    begun = 0
    while not begun or time.perf_counter() < deadline:
        connection = await Connection.to(url)
        connection.transport.write(talk.request(CHAT))
        await connection.begun.wait()
        connection.close()
        begun += 1
        await asyncio.sleep(1)
    return begun


async def until(condition: Callable[[], bool], failure: str) -> None:
    for _ in range(WAIT * 10):
        if condition():
            return
        await asyncio.sleep(0.1)
    pytest.fail(failure)


def open_files(of: Gateway) -> int:
    return len(list(Path(f"/proc/{of.process.pid}/fd").iterdir()))


def resident(of: Gateway) -> int:
    """The bytes of the gateway's own process."""
    pages = Path(f"/proc/{of.process.pid}/statm").read_text("utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Held:
    """What a load was like."""

    answers: int = 0
    memory: list[int] = field(default_factory=list)
    """The gateway's bytes from time to time, without its processes that read."""
    most: int = 0
    """The greatest bytes with them."""
    delays: list[float] = field(default_factory=list)
    """Seconds from the engine to the client, of each event of the last answers."""
    large: list[float] = field(default_factory=list)
    """Seconds of each answer to a large body."""


def large_talks(codec: Codec) -> list[Talk]:
    roles = ("user", "assistant")
    before = [{"role": roles[each % 2], "content": "x"} for each in range(MESSAGES)]
    made = talks(codec, LARGE, IDS, before)
    return [replace(talk, number=10**6 + talk.number) for talk in made]


async def send_large(engine: Engine, url: str, talk: Talk, deadline: float) -> list[float]:
    """Send a body again and again, and check each answer; give their seconds."""
    took: list[float] = []
    request = talk.request(CHAT)
    while not took or time.perf_counter() < deadline:
        asked = time.perf_counter()
        connection = await Connection.to(url)
        pieces = await connection.ask(request)
        connection.close()
        Load(talk, asked, pieces, engine.sent[talk.number]).check()
        took.append(time.perf_counter() - asked)
        await asyncio.sleep(1)
    return took


async def load(folder: Path) -> Held:
    """Hold the streams."""
    codec = Codec("internlm2", vocab="embedded")
    known, large = talks(codec, STREAMS + LEAVERS, IDS), large_talks(codec)
    engine = Engine([*known, *large])
    engine.pace = PACE
    held = Held()
    async with serving(engine) as backend:
        with gateway(backend, folder, *LIMITS) as of:
            # The processes that read start here: each has files.
            firsts = await asyncio.gather(*(send_large(engine, of.url, each, 0) for each in large))
            files = open_files(of)
            deadline = time.perf_counter() + SECONDS
            leaving = [asyncio.create_task(leave(of.url, t, deadline)) for t in known[STREAMS:]]
            sending = [
                asyncio.create_task(send_large(engine, of.url, talk, deadline)) for talk in large
            ]
            async for answer in stream(engine, of.url, known[:STREAMS], SECONDS, CHAT):
                answer.check()
                held.answers += 1
                held.delays += answer.delays
                if held.answers % STREAMS == 0:
                    held.memory.append(resident(of))
                    held.most = max(held.most, usage(of.process.pid).memory)
            left = sum(await asyncio.gather(*leaving))
            for took in await asyncio.gather(*sending):
                held.large += took
            asked = held.answers + len(held.large) + len(firsts)
            await until(lambda: engine.running == 0, "the engine still generates")
            await until(
                lambda: of.metric("chatcodec_requests_running ") == 0, "a request does not end"
            )
            await until(lambda: open_files(of) <= files + 1, "connections stay open")
            counts = {
                status: of.metric(f'chatcodec_requests_total{{api="chat",status="{status}"}}')
                for status in ("200", "499")
            }
            # Where a busy machine notices late, an answer is over before its client has gone.
            assert sum(counts.values()) == asked + left
            assert 0 < counts["499"] <= left
            assert 0 < engine.cancelled <= left
    return held


def test_a_thousand_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        held = asyncio.run(load(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert held.answers >= STREAMS
    assert len(held.large) >= LARGE
    if not IS_LONG:
        return
    third = len(held.memory) // 3
    second, last = min(held.memory[third : 2 * third]), min(held.memory[2 * third :])
    cuts = statistics.quantiles(held.delays, n=1000)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{held.answers} answers; "
            f"memory {held.memory[0] / 1e6:.1f}, then {second / 1e6:.1f}, then {last / 1e6:.1f}, "
            f"at most {max(held.memory) / 1e6:.1f} MB, with those that read {held.most / 1e6:.1f}\n"
            f"an event: {cuts[499] * 1e3:.1f} ms, p99 {cuts[989] * 1e3:.1f}, p99.9 "
            f"{cuts[998] * 1e3:.1f}, longest {max(held.delays) * 1e3:.1f} ms\n"
            f"{len(held.large)} large bodies: {statistics.median(held.large):.2f} s, "
            f"longest {max(held.large):.2f} s\n"
        )
    assert last - second <= GROWTH


@pytest.mark.parametrize("fault", ["lost", "mixed", "cut"])
def test_the_check_finds_a_wrong_answer(fault: str) -> None:
    """The load is of no use if a wrong answer passes."""

    async def asked() -> None:
        one, other = talks(Codec("internlm2", vocab="embedded"), 2, IDS)
        engine = Engine([one, other])
        async with serving(engine) as url:
            connection = await Connection.to(url)
            pieces = await connection.ask(one.request(CHAT))
            connection.close()
        assert Load(one, 0, list(pieces), engine.sent[0]).check().first
        assert read(pieces)[0] == 200
        whole = b"".join(piece.data for piece in pieces)
        event = one.texts_as_events[7]
        assert event in whole
        broken = {
            "lost": whole.replace(event, b""),
            "mixed": whole.replace(event, other.texts_as_events[1]),
            "cut": whole[: whole.index(event)],
        }[fault]
        piece = pieces[0]._replace(data=broken)
        with pytest.raises(WrongAnswerError):
            Load(one, 0, [piece], engine.sent[0]).check()

    asyncio.run(asked())
