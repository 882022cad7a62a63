"""What a backend is, and what the four share: a request over HTTP, and its events as ids."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import aiohttp

from chatcodec.errors import MessageError
from chatcodec.serve.errors import ApiError, BackendError, refused
from chatcodec.serve.log import LOG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from chatcodec import Constraint

__all__ = ["Backend", "Job", "Logprob", "Step", "ids_of"]

EVENT_BYTES = 8_000_000
"""Largest event of a backend, in bytes."""

ERROR_BYTES = 100_000
"""Bytes of an error's body that are read."""

_LARGEST_ID = 2**32
_REST = 0.1
"""Longest wait for what follows the last event, in seconds."""
_QUOTED = 200
"""Characters of a backend's words that are kept."""
_FRESH = 60.0
"""Seconds for which the engine's window is not asked for again."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One generation: a prompt's ids, and how to go on."""

    model: str
    prompt: Sequence[int]
    stop_ids: Sequence[int]
    """Ids that end the answer."""
    limit: int | None
    """Greatest number of ids to generate; None for as many as the engine allows."""
    sampling: Mapping[str, Any]
    """Temperature and the like, by OpenAI's names and vLLM's."""
    constraint: Constraint | None = None
    lark: bool = False
    """Whether the engine's grammars are Lark; otherwise those of its default backend."""
    logprobs: int | None = None
    """How many of the likeliest ids to tell at each place; None for no log probabilities."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to pass on: the trace's and the request's ids."""


@dataclass(frozen=True, slots=True)
class Logprob:
    """Log probability of one generated id, natural, and those of the likeliest in its place."""

    id: int
    value: float
    top: Sequence[tuple[int, float]] = ()


@dataclass(slots=True)
class Step:
    """What an engine says at a time."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[Logprob] = field(default_factory=list)
    reason: Literal["stop", "length"] | None = None
    """Why generation ended, `stop` or `length`; None while it goes on."""

    def add(self, later: Step) -> None:
        """Append what the engine said after this."""
        self.ids += later.ids
        self.logprobs += later.logprobs
        self.reason = later.reason or self.reason


class Reader(ABC):
    """The events of one generation, read one after the other."""

    over = False
    """Whether the last event was read."""

    @abstractmethod
    def read(self, event: Mapping[str, Any]) -> Step:
        """Read one event. Raises `BackendError` for one that is malformed."""


class Backend(ABC):
    """An engine's server."""

    engine: ClassVar[str]
    streams: ClassVar[bool] = True
    """Whether the answer comes as server-sent events; otherwise as one JSON object."""
    needs_limit: ClassVar[bool] = False
    """Whether the engine cannot be asked for as many ids as fit, only for a number."""
    default_limit: ClassVar[int | None] = None
    """Ids of an answer if the request's null limit is lost on the way to the engine."""

    def __init__(self, client: aiohttp.ClientSession, url: str, window: int | None = None) -> None:
        """Take a client, the server's address, and the model's window.

        The window is how many ids a prompt and its answer may have; None to ask the server.
        """
        self.client, self.url, self.window = client, url.rstrip("/"), window
        self._asked: tuple[float, int] | None = None
        self._asking = asyncio.Lock()

    @abstractmethod
    def request(self, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the path and the body of the request.

        Raises `ApiError` for what the engine cannot do, with the client's field, and
        `MessageError` for what its grammars cannot express.
        """

    @abstractmethod
    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""

    @asynccontextmanager
    async def generate(self, job: Job) -> AsyncIterator[AsyncIterator[Step]]:
        """Begin a generation, and give its steps as they come; leaving it cancels the rest.

        Raises `ApiError` for what the engine cannot do, and `BackendError` where the server cannot
        be reached, refuses, or breaks its protocol.
        Events that came together are one step. The last step has a reason.
        """
        job = await self._limited(job)
        try:
            path, body = self.request(job)
        except MessageError as error:
            raise ApiError(400, str(error), error.path) from error
        with told_errors():
            async with self.client.post(
                self.url + path, json=body, headers=job.headers, allow_redirects=False
            ) as answer:
                if answer.status != HTTPStatus.OK:
                    later = answer.headers.get("retry-after")
                    raise refused(answer.status, await _start_of(answer), later)
                reader = self.reader(job)
                yield self._steps(answer, reader, job)
                if reader.over:
                    await _rest_of(answer)

    async def is_well(self, seconds: float) -> bool:
        """Whether the server says within so many seconds that it is well."""
        wait = aiohttp.ClientTimeout(seconds)
        try:
            url = f"{self.url}/health"
            async with self.client.get(url, timeout=wait, allow_redirects=False) as answer:
                return HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _limited(self, job: Job) -> Job:
        """Give a job without a limit the one that fills the window, where that is needed."""
        if job.limit is not None:
            return job
        window = self.window
        if window is None and self.needs_limit:
            window = await self._asked_window(job.model)
        if window is None:
            return job
        room = window - len(job.prompt)
        if room < 1:
            problem = f"the prompt has {len(job.prompt)} ids, expected fewer than {window}"
            raise ApiError(400, problem, code="context_length_exceeded")
        return replace(job, limit=room)

    async def _asked_window(self, model: str) -> int:
        """Ask the server for the window of a model. Raises `BackendError`."""
        async with self._asking:
            if self._asked is None or time.monotonic() > self._asked[0] + _FRESH:
                self._asked = time.monotonic(), await self._window_of(model)
            return self._asked[1]

    async def _window_of(self, model: str) -> int:
        url = f"{self.url}/v1/models"
        with told_errors():
            async with self.client.get(url, allow_redirects=False) as answer:
                raw = await answer.content.read(EVENT_BYTES)
        try:
            cards = json.loads(raw)["data"]
            card = next((each for each in cards if each["id"] == model), cards[0])
            window = card["max_model_len"]
            if type(window) is int and window > 0:
                return window
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            pass
        raise BackendError(
            502,
            "the request has no limit, and the backend's /v1/models tells no `max_model_len`: "
            "start the gateway with --max-model-len",
        )

    async def _steps(
        self, answer: aiohttp.ClientResponse, reader: Reader, job: Job
    ) -> AsyncIterator[Step]:
        events = events_of(answer) if self.streams else whole_of(answer)
        count = 0
        with told_errors():
            async for together in events:
                step = Step()
                for event in together:
                    step.add(self._read(reader, event))
                    if step.reason is not None:
                        reader.over = True
                        break
                count += len(step.ids)
                if job.limit is None and step.reason == "length" and count == self.default_limit:
                    advice = "a router may drop null: start the gateway with --max-model-len"
                    LOG.warning("limit", extra={"fields": {"ids": count, "advice": advice}})
                yield step
                if reader.over:
                    return
        raise BackendError(502, "the backend's answer was cut: it gave no reason for its end")

    @staticmethod
    def _read(reader: Reader, event: bytes) -> Step:
        try:
            value = json.loads(event)
        except (ValueError, RecursionError) as error:
            raise BackendError(502, "the backend sent an event that is not JSON") from error
        if not isinstance(value, dict):
            raise BackendError(502, "the backend sent an event that is no JSON object")
        if (fault := value.get("error")) is not None:
            said = fault.get("message") if isinstance(fault, dict) else fault
            raise BackendError(502, "the backend failed", said=str(said)[:_QUOTED])
        try:
            return reader.read(value)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"[:_QUOTED]
            problem = "the backend sent an unexpected event"
            raise BackendError(502, problem, said=what) from error


@contextmanager
def told_errors() -> Iterator[None]:
    """Raise errors of the connection to a backend as `BackendError`."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise BackendError(504, "the backend gave no connection in time") from error
    except aiohttp.ServerTimeoutError as error:
        raise BackendError(504, "the backend gave no answer in time") from error
    except aiohttp.ClientConnectorError as error:
        raise BackendError(503, "the backend cannot be reached; try again") from error
    except aiohttp.ClientError as error:
        raise BackendError(502, "the connection to the backend broke") from error


async def _start_of(answer: aiohttp.ClientResponse) -> bytes:
    """Read the beginning of an error's body."""
    raw = b""
    async for piece in answer.content.iter_any():
        raw += piece
        if len(raw) > ERROR_BYTES:
            break
    return raw


async def _rest_of(answer: aiohttp.ClientResponse) -> None:
    """Read the end of an answer, so that its connection serves another request."""
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_REST):
            async for _ in answer.content.iter_any():
                pass


async def events_of(answer: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """Give the data of server-sent events; those that came together are one list.

    `[DONE]`, comments and other fields are left out.
    """
    held = b""
    async for piece in answer.content.iter_any():
        # A carriage return at the end of a piece may be half of a line's end.
        held = (held + piece).replace(b"\r\n", b"\n")
        if len(held) > EVENT_BYTES:
            raise BackendError(502, f"the backend sent an event of more than {EVENT_BYTES} bytes")
        *whole, held = held.split(b"\n\n")
        if events := [data for each in whole if (data := _data(each)) and data != b"[DONE]"]:
            yield events
    if (data := _data(held)) and data != b"[DONE]":
        yield [data]


def _data(event: bytes) -> bytes:
    """Give the data of one event, its lines joined."""
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)


async def whole_of(answer: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """Give a body as the one event that it is."""
    pieces = b""
    async for piece in answer.content.iter_any():
        pieces += piece
        if len(pieces) > EVENT_BYTES:
            raise BackendError(502, f"the backend sent more than {EVENT_BYTES} bytes")
    yield [pieces]


def ids_of(value: object) -> list[int]:
    """Check that a value is a list of ids. Raises `TypeError`."""
    if not isinstance(value, list) or not all(
        type(id_) is int and 0 <= id_ < _LARGEST_ID for id_ in value
    ):
        raise TypeError("expected a list of ids")
    return value


def reason_of(value: object) -> Literal["stop", "length"] | None:
    """Give the reason of an end: `length`, or `stop` for all others. Raises for a failure."""
    kind = value.get("type") if isinstance(value, dict) else value
    if kind is None:
        return None
    if kind in {"abort", "error"}:
        said = value.get("message") if isinstance(value, dict) else None
        raise BackendError(502, "the backend gave up", said=str(said or kind)[:_QUOTED])
    return "length" if kind == "length" else "stop"


class Growing:
    """Ids of events that repeat what came before, or do not: engines have it both ways.

    `total` is how many ids the engine says it has generated. An event with as many is the whole
    answer so far; one with fewer is what is new.
    """

    def __init__(self) -> None:
        """Begin with no ids."""
        self.count = 0

    def new(self, ids: list[int], total: int | None) -> list[int]:
        """Give the ids that are new. Raises `BackendError` where ids are missing."""
        if total is not None and len(ids) == total:
            ids = ids[self.count :]
        self.count += len(ids)
        if total is not None and total != self.count:
            problem = f"the backend gave {self.count} ids of {total}"
            raise BackendError(502, problem)
        return ids


def renamed(sampling: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Give sampling options by an engine's own names.

    Raises `ApiError` for one that the engine has not.
    """
    for key in sampling:
        if key not in names:
            raise ApiError(400, f"`{key}` is not known to the backend's engine", key)
    return {names[key]: value for key, value in sampling.items()}


def same(*names: str) -> dict[str, str]:
    """Names that are the same on both sides."""
    return {name: name for name in names}


def pairs(entries: Iterable[Sequence[Any]]) -> list[tuple[int, float]]:
    """Read lists of a log probability, an id and more as pairs of an id and its log probability."""
    return [(entry[1], float(entry[0])) for entry in entries]
