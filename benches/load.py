"""Many streams at once: an engine, clients, and a check that every answer is its own.

The engine and the clients are one process with one loop, so that an event's times of sending and of
arrival are times of one clock. Both are plain asyncio with answers that are made beforehand: they
have to cost less than a gateway between them. The engine speaks vLLM's `/v1/completions` with ids,
and `/v1/chat/completions` with text, for clients without a gateway.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from chatcodec import Codec

MODEL = "demo"
WORDS = ["one", "two", "three", "four", "five", "six", "red", "green", "blue", "white", "black"]
MODELS = b'{"data": [{"id": "any", "max_model_len": 10000000}]}'
"""The answer to each GET: of `/v1/models`, as engines give it."""

START = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n",
)
END = b"0\r\n\r\n"


class WrongAnswerError(Exception):
    """An answer that is not the stream's own, or not whole."""


@dataclass(frozen=True)
class Talk:
    """One stream's conversation, and the answer that no other stream gets."""

    number: int
    messages: list[dict[str, str]]
    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    """The text that each id of the answer adds."""

    @cached_property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(self.texts)

    @cached_property
    def id_of_length(self) -> dict[int, int]:
        """The place of the id after which the text has a length."""
        places: dict[int, int] = {}
        length = 0
        for at, text in enumerate(self.texts):
            length += len(text)
            if text:
                places[length] = at
        return places

    @cached_property
    def ids_as_events(self) -> list[bytes]:
        """The events of vLLM's completions, each as a chunk of HTTP."""
        return [
            framed(
                {
                    "id": f"cmpl-{self.number}",
                    "object": "text_completion",
                    "created": 1,
                    "model": MODEL,
                    "choices": [
                        {
                            "index": 0,
                            "text": text,
                            "logprobs": None,
                            "finish_reason": "stop" if at == len(self.ids) - 1 else None,
                            "stop_reason": None,
                            "token_ids": [id_],
                            "prompt_token_ids": None,
                        }
                    ],
                    "usage": None,
                }
            )
            for at, (id_, text) in enumerate(zip(self.ids, self.texts, strict=True))
        ]

    @cached_property
    def texts_as_events(self) -> list[bytes]:
        """The events of chat completions, each as a chunk of HTTP."""
        return [
            framed(
                {
                    "id": f"chatcmpl-{self.number}",
                    "object": "chat.completion.chunk",
                    "created": 1,
                    "model": MODEL,
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"content": text},
                            "logprobs": None,
                            "finish_reason": "stop" if at == len(self.ids) - 1 else None,
                        }
                    ],
                }
            )
            for at, text in enumerate(self.texts)
        ]

    @cached_property
    def whole(self) -> bytes:
        """The body of an answer that is not streamed."""
        message = {"role": "assistant", "content": self.text}
        usage = {"prompt_tokens": len(self.prompt), "completion_tokens": len(self.ids)}
        return json.dumps(
            {
                "id": f"chatcmpl-{self.number}",
                "object": "chat.completion",
                "created": 1,
                "model": MODEL,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {**usage, "total_tokens": len(self.prompt) + len(self.ids)},
            }
        ).encode()

    def request(self, path: str = "/v1/chat/completions", *, stream: bool = True) -> bytes:
        """The client's request."""
        body = {"model": MODEL, "messages": self.messages, "stream": stream}
        written = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer sk-bench\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(written)}\r\n\r\n"
        return head.encode() + written


def talks(codec: Codec, count: int, ids: int, before: Sequence[dict[str, str]] = ()) -> list[Talk]:
    """Conversations whose answers have so many ids; `before` are messages that all begin with."""
    made = []
    for number in range(count):
        messages = [*before, {"role": "user", "content": f"Stream {number}: go on."}]
        prompt = codec.encode(messages, add_generation_prompt=True)
        words = random.Random(number).choices(WORDS, k=ids)  # noqa: S311 - no secret
        text = f"Stream {number} says {' '.join(words)}"
        answer = [*codec.vocab.encode(text)[: ids - 1], codec.stop_ids[0]]
        stream = codec.stream(prompt=prompt)
        texts = ["".join(getattr(e, "text", "") for e in stream.push(id_)) for id_ in answer]
        made.append(Talk(number, messages, tuple(prompt.ids), tuple(answer), tuple(texts)))
    return made


def framed(value: object) -> bytes:
    """An event as a chunk of HTTP."""
    data = b"data: %b\n\n" % json.dumps(value).encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


DONE = b"%x\r\n%b\r\n" % (len(b"data: [DONE]\n\n"), b"data: [DONE]\n\n") + END


class Engine:
    """The engine. Its answers go on by an id each `pace` seconds, or as fast as they are read."""

    def __init__(self, known: Sequence[Talk]) -> None:
        """Take the conversations, by whose prompts it knows them."""
        self.pace = 0.0
        self.of_prompt = {talk.prompt: talk for talk in known}
        self.of_text = {talk.messages[-1]["content"]: talk for talk in known}
        self.sent: dict[int, list[float]] = {}
        """By the number of a stream, when each id of its last answer was sent."""
        self.running = 0
        self.cancelled = 0

    def talk(self, path: str, body: dict[str, Any]) -> Talk:
        """The conversation of a request."""
        if path == "/v1/completions":
            return self.of_prompt[tuple(body["prompt"])]
        said = body["messages"][-1]["content"]
        return self.of_text[said if isinstance(said, str) else said[0]["text"]]


class _Serving(asyncio.Protocol):
    """A connection to the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.held = b""
        self.events: Iterator[bytes] | None = None
        self.paused = False
        self.waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def connection_lost(self, _: Exception | None) -> None:
        if self.events is not None:
            self.engine.cancelled += 1
            self._over()

    def data_received(self, data: bytes) -> None:
        self.held += data
        head, found, rest = self.held.partition(b"\r\n\r\n")
        length = _length(head)
        if not found or len(rest) < length:
            return
        self.held = rest[length:]
        path = head.split(b" ", 2)[1].decode()
        if not length:
            self.transport.write(START[1] % len(MODELS) + MODELS)
            return
        body = json.loads(rest[:length])
        talk = self.engine.talk(path, body)
        if not body.get("stream"):
            self.transport.write(START[1] % len(talk.whole) + talk.whole)
            return
        events = talk.ids_as_events if path == "/v1/completions" else talk.texts_as_events
        self.events, self.left = iter(events), len(events)
        self.engine.running += 1
        self.sent = self.engine.sent[talk.number] = []
        self.transport.write(START[0])
        self.loop = asyncio.get_running_loop()
        self.due = self.loop.time()
        self._send()

    def _send(self) -> None:
        if self.events is None:
            return
        if self.paused:
            self.waits = True
            return
        self.sent.append(time.perf_counter())
        self.transport.write(next(self.events))
        self.left -= 1
        if not self.left:
            self.transport.write(DONE)
            self._over()
        elif self.engine.pace:
            self.due += self.engine.pace
            self.loop.call_at(self.due, self._send)
        else:
            self.loop.call_soon(self._send)

    def _over(self) -> None:
        self.events = None
        self.engine.running -= 1

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self.waits:
            self.waits = False
            self._send()


def _length(head: bytes) -> int:
    """The length of a body, by its head."""
    _, found, after = head.lower().partition(b"content-length:")
    return int(after.split(b"\r\n", 1)[0]) if found else 0


@asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[str]:
    """Serve an engine; give its URL."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Serving(engine), "127.0.0.1", 0, backlog=4096)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class Piece(NamedTuple):
    """Bytes that came together."""

    at: float
    data: bytes


class Connection(asyncio.Protocol):
    """A client's connection, for one request at a time."""

    def __init__(self) -> None:
        """Begin without a request."""
        self.pieces: list[Piece] = []
        self.done: asyncio.Future[None] | None = None
        self.begun = asyncio.Event()
        """Set when the first piece of the first answer has come."""

    @staticmethod
    async def to(url: str) -> Connection:
        """Connect to a server of this machine."""
        port = urlsplit(url).port or 80
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(Connection, "127.0.0.1", port)
        return made

    async def ask(self, request: bytes) -> list[Piece]:
        """Send a request; give the answer's pieces, its head among them."""
        self.pieces = []
        self.size = 0
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        await self.done
        return self.pieces

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport: Any = transport

    def connection_lost(self, error: Exception | None) -> None:
        """End a request whose answer is not complete."""
        if self.done is not None and not self.done.done():
            self.done.set_exception(WrongAnswerError(f"the connection was closed: {error}"))

    def data_received(self, data: bytes) -> None:
        """Keep a piece, and see whether it is the last one."""
        self.pieces.append(Piece(time.perf_counter(), data))
        if len(self.pieces) == 1:
            self.begun.set()
            head, _, rest = data.partition(b"\r\n\r\n")
            self.size = _length(head)
            self.got = len(rest)
        else:
            self.got += len(data)
        over = self.got >= self.size if self.size else data.endswith(END)
        if over and self.done is not None and not self.done.done():
            self.done.set_result(None)


def read(pieces: Sequence[Piece]) -> tuple[int, list[tuple[float, bytes]]]:
    """Give an answer's status and its events, with the time at which each was complete."""
    head, _, held = pieces[0].data.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if size := _length(head):
        body = held + b"".join(piece.data for piece in pieces[1:])
        return status, [(pieces[-1].at, body[:size])]
    events = []
    body = b""
    for nth, piece in enumerate(pieces):
        held = held if not nth else held + piece.data
        while True:
            size_, found, rest = held.partition(b"\r\n")
            if not found or len(rest) < (size := int(size_, 16)) + 2:
                break
            body += rest[:size]
            held = rest[size + 2 :]
        *whole, body = body.split(b"\n\n")
        events += [(piece.at, each[6:]) for each in whole if each.startswith(b"data: ")]
    if held:
        raise WrongAnswerError(f"the answer ends within a chunk: {held[:80]!r}")
    return status, events


@dataclass
class Answer:
    """An answer as it came."""

    talk: Talk
    asked: float
    pieces: list[Piece]
    sent: list[float]
    delays: list[float] = field(default_factory=list)
    """Seconds from the engine's sending of each id with text to the arrival of its text."""
    first: float = 0.0
    """Seconds from the request to the first text."""

    def check(self) -> Answer:
        """Check that it is whole and the stream's own, and take its times.

        Raises `WrongAnswerError`.
        """
        status, events = read(self.pieces)
        text = ""
        reason = None
        last = -1
        for at, data in events:
            if status != 200 or (data != b"[DONE]" and b'"error"' in data):
                raise WrongAnswerError(f"stream {self.talk.number}: {status} {data[:300]!r}")
            for choice in json.loads(data)["choices"] if data != b"[DONE]" else ():
                reason = choice.get("finish_reason") or reason
                if not (more := choice["delta"].get("content")):
                    continue
                text += more
                self.first = self.first or at - self.asked
                place = self.talk.id_of_length.get(len(text), last)
                self.delays += [at - self.sent[id_] for id_ in range(last + 1, place + 1)]
                last = place
        if text != self.talk.text or reason != "stop" or events[-1][1] != b"[DONE]":
            raise WrongAnswerError(f"stream {self.talk.number}: {reason} after {text!r:.300}")
        self.pieces = []
        return self


async def stream(
    engine: Engine, url: str, some: Sequence[Talk], seconds: float, path: str
) -> AsyncIterator[Answer]:
    """Hold the conversations over and over, all at once, for so long; give the answers.

    They begin one after the other within the time of one answer. Each gives one answer or more.
    """
    answers: asyncio.Queue[Answer | None] = asyncio.Queue()
    deadline = time.perf_counter() + seconds
    spread = max(engine.pace * len(some[0].ids), 0.1) / len(some)

    async def hold(nth: int, talk: Talk) -> None:
        await asyncio.sleep(nth * spread)
        connection = await Connection.to(url)
        request = talk.request(path)
        asked = 0.0
        while asked < deadline:
            asked = time.perf_counter()
            pieces = await connection.ask(request)
            answers.put_nowait(Answer(talk, asked, pieces, engine.sent[talk.number]))
        connection.close()

    async def hold_all() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for nth, talk in enumerate(some):
                    group.create_task(hold(nth, talk))
        finally:
            answers.put_nowait(None)

    holding = asyncio.create_task(hold_all())
    while (answer := await answers.get()) is not None:
        yield answer
    await holding


class Usage(NamedTuple):
    """What processes have used."""

    cpu: float
    """Seconds of CPU time."""
    memory: int
    """Resident bytes."""


def usage(process: int) -> Usage:
    """What a process and its children have used. Linux only."""
    cpu, memory = 0.0, 0
    waiting = [process]
    while waiting:
        folder = Path("/proc") / str(waiting.pop())
        fields = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
        cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        memory += int((folder / "statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for task in (folder / "task").iterdir():
            waiting += map(int, (task / "children").read_text("utf-8").split())
    return Usage(cpu, memory)
