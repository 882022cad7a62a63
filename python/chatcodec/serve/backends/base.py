"""What a backend is, and what all share: a request over HTTP, and its events as ids."""

from __future__ import annotations

import asyncio
import json
import re
import time
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import aiohttp

from chatcodec.serve.backends.window import Window
from chatcodec.serve.backends.wire import REST, events_of, rest_of, start_of, told_errors, whole_of
from chatcodec.serve.backends.written import PIECE, Written, pieces, sent
from chatcodec.serve.errors import ApiError, BackendError, refused
from chatcodec.serve.log import LOG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from chatcodec import Constraint

__all__ = ["Backend", "Grammar", "Job", "Logprob", "Reader", "Step", "bounded"]

_QUOTED = 200
"""Characters of a backend's words that are kept."""
_WITHOUT_WINDOW = 2048
"""Limit of an answer where the engine needs one and its window is not known."""
_PAUSE = 60.0
"""Seconds for which usage is not waited for after a wait in vain."""

GrammarKind = Literal["structural_tag", "lark", "gbnf"]


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """What the engine has to follow."""

    kind: str
    """A `GrammarKind`, or the engine's field for a client's own grammar."""
    text: Written
    """The grammar as JSON: a string, or a list of choices."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One generation: a prompt's ids, and how to go on."""

    model: str
    prompt: Written
    """The ids, as a JSON list."""
    prompt_ids: int
    """Number of ids of the prompt."""
    stop_ids: Sequence[int]
    """Ids that end the answer."""
    limit: int | None
    """Greatest number of ids to generate; None for as many as the engine allows."""
    sampling: Mapping[str, Any]
    """Temperature and the like, by OpenAI's names and vLLM's."""
    passed: Mapping[str, Any] = field(default_factory=dict)
    """Fields that go to the engine as they are, unless the gateway sets them itself."""
    grammar: Grammar | None = None
    logprobs: int | None = None
    """How many of the likeliest ids to tell at each place; None for no log probabilities."""
    cache_salt: str | None = None
    """Text that keeps the cached prompts of this client from others, for engines that know it."""
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
    cached: int | None = None
    """Ids of the prompt that the engine had cached; None where it does not say."""

    def add(self, later: Step) -> None:
        """Append what the engine said after this."""
        self.ids += later.ids
        self.logprobs += later.logprobs
        self.reason = later.reason or self.reason
        self.cached = self.cached if later.cached is None else later.cached

    def cut(self, count: int) -> None:
        """Keep so many ids, and end there."""
        del self.ids[count:], self.logprobs[count:]
        self.reason = "length"


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
    tells_logprobs: ClassVar[bool] = True
    """Whether the engine tells log probabilities by id."""
    needs_limit: ClassVar[bool] = False
    """Whether the engine cannot be asked for as many ids as fit, only for a number."""
    salts: ClassVar[tuple[str, ...]] = ()
    """Fields that keep what the engine caches of a client from others."""
    default_limit: ClassVar[int | None] = None
    """Ids of an answer if the request's null limit is lost on the way to the engine."""
    grammars: ClassVar[tuple[GrammarKind, ...]] = ("structural_tag", "lark")
    """Kinds of grammars that the engine takes, its default backend's first."""
    own_grammars: ClassVar[Mapping[str, str]] = {}
    """The engine's fields for grammars that a client writes: for `regex`, `choice`, `grammar` and
    `structural_tag`."""
    sampling: ClassVar[Mapping[str, str]]
    """The engine's names of the sampling options that it knows, by the client's names."""
    fields: ClassVar[Mapping[str, str]] = {}
    """The engine's names of other fields of a request's body, by the client's names."""
    usage_follows: ClassVar[bool] = False
    """Whether an event with the usage comes after the one with the reason."""

    def __init__(self, client: aiohttp.ClientSession, url: str, window: int | None = None) -> None:
        """Take a client, the server's address, and the model's window.

        The window is how many ids a prompt and its answer may have; None to ask the server.
        """
        self.client, self.url = client, url.rstrip("/")
        self.window = Window(client, self.url, window)
        self._no_usage_until = 0.0

    @classmethod
    @abstractmethod
    def request(cls, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the path and the body of the request.

        Raises `ApiError` for what the engine cannot do, with the client's field.
        """

    @classmethod
    def salted(cls, job: Job) -> tuple[str, dict[str, Any]]:
        """Make the path and the body of the request, with the salt of the cache. As `request`."""
        path, fields = cls.request(job)
        for name in cls.salts if job.cache_salt is not None else ():
            own = fields.get(name) if name != "cache_salt" else None  # which is in the salt
            fields[name] = job.cache_salt if own is None else f"{job.cache_salt} {own}"
        return path, fields

    @abstractmethod
    def reader(self, job: Job) -> Reader:
        """Make the reader of the answer."""

    @classmethod
    def grammar(cls, constraint: Constraint, *, lark: bool) -> Grammar:
        """Write a constraint for the engine.

        Raises `ApiError` where the engine takes none, and `MessageError` for what its grammars
        cannot express.
        """
        if not cls.grammars:
            problem = "calls and JSON cannot be enforced by this backend"
            raise ApiError(400, problem, "tool_choice")
        kind = "lark" if lark and "lark" in cls.grammars else cls.grammars[0]
        text: str = getattr(constraint, kind)()
        return Grammar(kind=kind, text=Written.of(text))

    @classmethod
    def own_grammar(cls, kind: str, value: Any, path: str) -> Grammar:  # noqa: ANN401
        """Write a client's own grammar for the engine.

        Raises `ApiError` where the engine takes none of the kind. `path` is the client's field.
        """
        if kind == "choice" and kind not in cls.own_grammars and "regex" in cls.own_grammars:
            kind, value = "regex", "|".join(map(re.escape, value))
        if kind not in cls.own_grammars:
            raise ApiError(400, f"`{path}` is not known to the backend's engine", path)
        if kind == "structural_tag" and not isinstance(value, str):
            value = json.dumps(value)
        return Grammar(kind=cls.own_grammars[kind], text=Written.of(value))

    @classmethod
    def known(cls) -> frozenset[str]:
        """Give the fields of clients that the engine knows."""
        return frozenset(cls.sampling) | frozenset(cls.fields)

    @asynccontextmanager
    async def generate(self, job: Job) -> AsyncIterator[AsyncIterator[Step]]:
        """Begin a generation, and give its steps as they come; leaving it cancels the rest.

        Raises `ApiError` for what the engine cannot do, and `BackendError` where the server cannot
        be reached, refuses, or breaks its protocol.
        Events that came together are one step. The last step has a reason.
        """
        job = await self._limited(job)
        path, fields = self.salted(job)
        body = pieces(fields)
        size = sum(map(len, body))
        headers = {
            **job.headers,
            "content-type": "application/json",
            "content-length": str(size),
        }
        with told_errors():
            async with self.client.post(
                self.url + path,
                data=b"".join(body) if size <= PIECE else sent(body),
                headers=headers,
                allow_redirects=False,
            ) as answer:
                if answer.status != HTTPStatus.OK:
                    later = answer.headers.get("retry-after")
                    raise refused(answer.status, await start_of(answer), later)
                reader = self.reader(job)
                yield self._steps(answer, reader, job)
                if reader.over:
                    await rest_of(answer)

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
        """Bound the ids of a job by the window.

        The operator's window bounds every job, the server's those that need a limit and have none.
        """
        window = self.window.said
        if window is None and job.limit is None and self.needs_limit:
            window = await self.window.of(job.model)
            if window is None:
                advice = "the backend's /v1/models does not answer: give --max-model-len"
                fields = {"limit": _WITHOUT_WINDOW, "advice": advice}
                LOG.warning("window", extra={"fields": fields})
                return replace(job, limit=_WITHOUT_WINDOW)
        return bounded(job, window)

    async def _steps(
        self, answer: aiohttp.ClientResponse, reader: Reader, job: Job
    ) -> AsyncIterator[Step]:
        events = events_of(answer) if self.streams else whole_of(answer)
        count = 0
        with told_errors():
            async for together in events:
                step = Step()
                for event in together:
                    self._read(reader, event, step)
                room = None if job.limit is None else job.limit - count
                # An engine that does not end is not read further.
                goes_on = step.reason is None
                if room is not None and len(step.ids) + goes_on > room:
                    step.cut(room)
                count += len(step.ids)
                if step.reason is None:
                    yield step
                    continue
                self._check_lost_limit(job, step, count)
                if reader.over and step.cached is None:
                    await self._await_usage(events, reader, step)
                yield step
                return
        raise BackendError(502, "the backend's answer was cut: it gave no reason for its end")

    def _check_lost_limit(self, job: Job, step: Step, count: int) -> None:
        if job.limit is None and step.reason == "length" and count == self.default_limit:
            advice = "a router may drop null: start the gateway with --max-model-len"
            LOG.warning("limit", extra={"fields": {"ids": count, "advice": advice}})

    async def _await_usage(
        self, events: AsyncIterator[list[bytes]], reader: Reader, step: Step
    ) -> None:
        """Read what follows the reason, if the engine tells its usage there."""
        if not self.usage_follows or time.monotonic() < self._no_usage_until:
            return
        try:
            async with asyncio.timeout(REST):
                async for together in events:
                    for event in together:
                        self._read(reader, event, step)
                    return
        except TimeoutError:
            self._no_usage_until = time.monotonic() + _PAUSE

    @staticmethod
    def _read(reader: Reader, event: bytes, step: Step) -> None:
        """Add what an event says to a step; of those after the last, the usage alone."""
        try:
            value = json.loads(event)
        except (ValueError, RecursionError) as error:
            if reader.over:
                return
            raise BackendError(502, "the backend sent an event that is not JSON") from error
        if reader.over:
            with suppress(KeyError, IndexError, TypeError, AttributeError, ValueError, ApiError):
                step.cached = reader.read(value).cached
            return
        if not isinstance(value, dict):
            raise BackendError(502, "the backend sent an event that is no JSON object")
        if (fault := value.get("error")) is not None:
            said = fault.get("message") if isinstance(fault, dict) else fault
            raise BackendError(502, "the backend failed", said=str(said)[:_QUOTED])
        try:
            step.add(reader.read(value))
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"[:_QUOTED]
            problem = "the backend sent an unexpected event"
            raise BackendError(502, problem, said=what) from error
        reader.over = step.reason is not None


def bounded(job: Job, window: int | None) -> Job:
    """Bound the ids of a job by a window, if there is one.

    Raises `ApiError` for a prompt that is longer.
    """
    if window is None:
        return job
    room = window - job.prompt_ids
    if room < 1:
        problem = f"the prompt has {job.prompt_ids} ids, expected fewer than {window}"
        raise ApiError(400, problem, code="context_length_exceeded")
    return replace(job, limit=room if job.limit is None else min(job.limit, room))
