"""The engine of `load` in the protocol of vLLM's engine processes, for vLLM's frontend in Rust.

The frontend, `vllm-rs frontend` of vLLM's wheel, listens on two sockets of ZeroMQ. An engine tells
it what it is, takes requests as messages of msgpack, and gives ids: one message for what all
requests got at a time. Checked with vLLM 0.33. Needs pyzmq and msgspec.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import zmq
import zmq.asyncio

from .load import MODEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from .load import Engine, Talk

ADD, ABORT = b"\x00", b"\x01"
STOP = 0
"""The reason of an answer that ended by itself."""
WINDOW = 40960

READY = {
    "max_model_len": WINDOW,
    "num_gpu_blocks": 100_000,
    "block_size": 16,
    "dp_stats_address": None,
    "dtype": "bfloat16",
    "vllm_version": "0.33.0",
    "world_size": 1,
    "data_parallel_size": 1,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "decode_context_parallel_size": 1,
    "data_parallel_rank": 0,
    "max_num_seqs": 100_000,
    "max_num_batched_tokens": 100_000,
    "instance_id": "bench",
    "supports_lora": False,
    "max_loras": 0,
}
"""What an engine says of itself."""


@dataclass
class Listeners:
    """Sockets that are bound here, and that the frontend inherits."""

    http: socket.socket
    requests: socket.socket
    outputs: socket.socket

    @staticmethod
    def bound() -> Listeners:
        """Bind them to free ports of this machine."""
        made = []
        for _ in range(3):
            one = socket.create_server(("127.0.0.1", 0), backlog=4096)
            one.set_inheritable(True)
            made.append(one)
        return Listeners(*made)

    @property
    def all(self) -> list[socket.socket]:
        """All of them."""
        return [self.http, self.requests, self.outputs]

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.http.getsockname()[1]}"

    def command(self, program: Path, model: Path) -> list[str]:
        """The command of the frontend."""
        given = {
            "model_tag": str(model),
            "served_model_name": [MODEL],
            "engine_ready_timeout_secs": 60,
            "http_timeout_keep_alive": 75,
        }
        numbers = [str(each.fileno()) for each in self.all]
        names = ("--listen-fd", "--input-listener-fd", "--output-listener-fd")
        flags = [word for pair in zip(names, numbers, strict=True) for word in pair]
        return [str(program), "frontend", *flags, "--args-json", json.dumps(given)]


class CoreEngine:
    """An engine's answers, by the requests that vLLM's frontend sends."""

    def __init__(self, engine: Engine, listeners: Listeners) -> None:
        """Take the engine's conversations, and the frontend's sockets."""
        self.engine = engine
        self.open: dict[str, Iterator[int]] = {}
        self.batch: list[list[Any]] = []
        self.again: list[tuple[str, Talk, float]] = []
        """Answers that go on as soon as the batch is sent."""
        self.wake = asyncio.Event()
        context = zmq.asyncio.Context.instance()
        self.requests = context.socket(zmq.DEALER)
        self.requests.setsockopt(zmq.IDENTITY, (0).to_bytes(2, "little"))
        self.outputs = context.socket(zmq.PUSH)
        for ours, theirs in (
            (self.requests, listeners.requests),
            (self.outputs, listeners.outputs),
        ):
            ours.setsockopt(zmq.LINGER, 0)
            ours.connect(f"tcp://127.0.0.1:{theirs.getsockname()[1]}")

    async def serve(self) -> None:
        """Say what this engine is, and answer for ever."""
        await self.requests.send(msgspec.msgpack.encode(READY))
        sending = asyncio.create_task(self._send())
        try:
            while True:
                kind, *frames = await self.requests.recv_multipart()
                if kind == ADD:
                    self._begin(msgspec.msgpack.decode(frames[0]))
                elif kind == ABORT:
                    for name in msgspec.msgpack.decode(frames[0]):
                        if self.open.pop(name, None) is not None:
                            self.engine.running -= 1
                            self.engine.cancelled += 1
                else:
                    raise SystemExit(f"the frontend asks for {kind!r} {frames!r:.300}")
        finally:
            sending.cancel()
            self.requests.close()
            self.outputs.close()

    def _begin(self, request: Sequence[Any]) -> None:
        name, prompt = request[0], tuple(request[1])
        talk = self.engine.of_prompt[prompt]
        self.open[name] = iter(talk.ids)
        self.engine.running += 1
        self.engine.sent[talk.number] = []
        self._step(name, talk, asyncio.get_running_loop().time())

    def _step(self, name: str, talk: Talk, due: float) -> None:
        """Give the next id of an answer."""
        ids = self.open.get(name)
        if ids is None:
            return
        sent = self.engine.sent[talk.number]
        sent.append(time.perf_counter())
        is_last = len(sent) == len(talk.ids)
        reason = STOP if is_last else None
        self.batch.append([name, [next(ids)], None, None, None, reason])
        self.wake.set()
        if is_last:
            del self.open[name]
            self.engine.running -= 1
        elif self.engine.pace:
            due += self.engine.pace
            asyncio.get_running_loop().call_at(due, self._step, name, talk, due)
        else:
            self.again.append((name, talk, due))

    async def _send(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            batch, self.batch = self.batch, []
            again, self.again = self.again, []
            message = [0, batch, None, time.monotonic()]
            await self.outputs.send(msgspec.msgpack.encode(message))
            for each in again:
                self._step(*each)


@asynccontextmanager
async def engine_of(engine: Engine, listeners: Listeners) -> AsyncIterator[None]:
    """Answer a frontend's requests meanwhile."""
    serving = asyncio.create_task(CoreEngine(engine, listeners).serve())
    try:
        yield
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def environment() -> dict[str, str]:
    """The variables of the frontend's process: it fetches nothing."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
