"""A thousand streams through one gateway: nothing is lost, mixed or leaked, and every answer ends.

Each stream gets one answer, and other clients go in the middle of theirs. `make test-load` does it
for five minutes, and then the gateway's memory has to be flat.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
import time
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

STREAMS = 1000
IDS = 40
IS_LONG = os.environ.get("CHATCODEC_LONG") == "1"
SECONDS, PACE = (300.0, 0.2) if IS_LONG else (0.0, 0.05)
LIMITS = ("--max-requests", "4000", "--connect-timeout", "60")
"""Limits that a busy machine does not reach: a client that goes is noticed later."""
LEAVERS = 20
GROWTH = 10_000_000
"""Bytes by which the gateway may grow after the first third of the time."""
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


async def load(folder: Path) -> tuple[int, list[int]]:
    """Hold the streams; give the number of answers, and the gateway's memory from time to time."""
    known = talks(Codec("internlm2"), STREAMS + LEAVERS, IDS)
    engine = Engine(known)
    engine.pace = PACE
    answers, memory = 0, []
    async with serving(engine) as backend:
        with gateway(backend, folder, *LIMITS) as of:
            files = open_files(of)
            deadline = time.perf_counter() + SECONDS
            leaving = [asyncio.create_task(leave(of.url, t, deadline)) for t in known[STREAMS:]]
            async for answer in stream(engine, of.url, known[:STREAMS], SECONDS, CHAT):
                answer.check()
                answers += 1
                if answers % STREAMS == 0:
                    memory.append(usage(of.process.pid).memory)
            left = sum(await asyncio.gather(*leaving))
            await until(lambda: engine.running == 0, "the engine still generates")
            await until(
                lambda: of.metric("chatcodec_requests_running ") == 0, "a request does not end"
            )
            await until(lambda: open_files(of) <= files + 1, "connections stay open")
            for status, count in (("200", answers), ("499", left)):
                name = f'chatcodec_requests_total{{api="chat",status="{status}"}}'
                assert of.metric(name) == count
            # Where a busy machine notices late, an answer is over before it is cancelled.
            assert 0 < engine.cancelled <= left
    return answers, memory


def test_a_thousand_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        answers, memory = asyncio.run(load(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answers >= STREAMS
    if not IS_LONG:
        return
    settled = memory[len(memory) // 3 :]
    with capsys.disabled():
        said = f"{answers} answers, {settled[0] / 1e6:.1f} to {max(settled) / 1e6:.1f} MB"
        sys.stdout.write(f"\n{said}\n")
    assert max(settled) - settled[0] <= GROWTH


@pytest.mark.parametrize("fault", ["lost", "mixed", "cut"])
def test_the_check_finds_a_wrong_answer(fault: str) -> None:
    """The load is of no use if a wrong answer passes."""

    async def asked() -> None:
        one, other = talks(Codec("internlm2"), 2, IDS)
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
