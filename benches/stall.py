"""How long one client's large bodies hold up another client's stream.

`python -m benches.stall` runs an engine that sends an event every 20 ms, the gateway, one stream,
and then five large bodies at once, again and again while the stream goes on. It prints the gaps of
the stream without and with the bodies. `--readers 0` is the gateway without processes that read.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import statistics
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from chatcodec import Codec
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

tests: Any = importlib.import_module("tests.support.gateway")
PACE = 0.02
BODIES = 5
MESSAGES = 200_000
INTEGERS = 3000


def chunk(ids: list[int], reason: str | None = None) -> bytes:
    choice = {"index": 0, "token_ids": ids, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


def engine(port: int) -> None:
    """Answer small bodies for ever, large ones with one event, and read neither."""
    codec = Codec("internlm2", vocab="embedded")
    word, end = codec.vocab.encode("word")[0], codec.stop_ids[0]

    async def answer(http: Request) -> Response:
        size = 0
        async for piece in http.stream():
            size += len(piece)

        async def lines() -> AsyncIterator[bytes]:
            due = time.perf_counter()
            while size < 5000:
                yield chunk([word])
                due += PACE
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            yield chunk([word, end], "stop")

        return StreamingResponse(lines(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/completions", answer, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error")


def messages() -> dict[str, Any]:
    roles = ("user", "assistant")
    said = [{"role": roles[each % 2], "content": "x"} for each in range(MESSAGES - 1)]
    return {"messages": said}


def schema(number: int) -> dict[str, Any]:
    """Make a schema that no earlier one is like: the codec keeps what it has written."""
    names = [f"p{each}" for each in range(INTEGERS)]
    whole = {
        "type": "object",
        "properties": {
            name: {"type": "integer", "minimum": at, "maximum": 1_000_000 + 7 * at + number}
            for at, name in enumerate(names)
        },
        "required": names,
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": whole}}
    return {"messages": [{"role": "user", "content": "x"}], "response_format": wanted}


def request(body: dict[str, Any]) -> bytes:
    raw = json.dumps(
        {"model": tests.MODEL, "max_tokens": 1_000_000, "stream": True, **body}
    ).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


async def send(port: int, raw: bytes) -> float:
    """Send a body and read the whole answer; give its seconds."""
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    answer = await reader.read()
    writer.close()
    if b"[DONE]" not in answer:
        raise RuntimeError(answer[:300].decode("utf-8", "replace"))
    return time.perf_counter() - begun


def disturb(port: int, kind: str, seconds: float, told: Any) -> None:  # noqa: ANN401
    """Send bodies, five at once; a process of its own, so that only the gateway is measured."""
    plain = request(messages())

    async def rounds() -> list[float]:
        took: list[float] = []
        deadline = time.perf_counter() + seconds
        while not took or time.perf_counter() < deadline:
            numbers = range(len(took), len(took) + BODIES)
            bodies = [plain if kind == "messages" else request(schema(each)) for each in numbers]
            took += await asyncio.gather(*(send(port, raw) for raw in bodies))
        return took

    told.put(None)
    told.put(asyncio.run(rounds()))


async def gaps(port: int, goes_on: Callable[[], bool]) -> list[float]:
    """Follow one stream as long as a condition holds; give the times between its events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request({"messages": [{"role": "user", "content": "Hi"}]}))
    for _ in range(20):
        await reader.readuntil(b"\n\n")
    found, last = [], time.perf_counter()
    while goes_on():
        await reader.readuntil(b"\n\n")
        now = time.perf_counter()
        found.append((now - last) * 1000)
        last = now
    writer.close()
    return found


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def told(name: str, found: list[float]) -> str:
    cuts = statistics.quantiles(found, n=100)
    return f"{name}: p50 {cuts[49]:.1f}, p99 {cuts[98]:.1f}, longest {max(found):.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", default="2")
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    context = get_context("spawn")
    port = tests.free_port()
    server = context.Process(target=engine, args=(port,), daemon=True)
    server.start()
    tests.wait_for(f"http://127.0.0.1:{port}/")
    options = ("--readers", given.readers, "--connect-timeout", "60")
    folder = Path(tempfile.mkdtemp())
    with tests.gateway(f"http://127.0.0.1:{port}", folder, *options) as of:
        own = int(of.url.rsplit(":", 1)[1])
        until = time.perf_counter() + given.seconds
        say(told("alone", asyncio.run(gaps(own, lambda: time.perf_counter() < until))))
        asyncio.run(send(own, request(schema(10**6))))  # a process that reads starts
        for kind in ("messages", "integers"):
            results = context.Queue()
            disturbing = context.Process(target=disturb, args=(own, kind, given.seconds, results))
            disturbing.start()
            results.get()
            found = asyncio.run(gaps(own, results.empty))
            took = results.get()
            disturbing.join()
            line = told(f"beside {BODIES} bodies with many {kind}", found)
            say(f"{line}; {len(took)} answers, {statistics.median(took):.2f} s each")
    server.kill()


if __name__ == "__main__":
    main()
