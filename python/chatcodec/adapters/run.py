"""From an engine's ids to a response's chunks: the loop of a server, once.

`chunks` takes an iterator of ids, `achunks` an asynchronous one; `alines` gives bytes instead of
chunks. All end where the turn does, at a stop string or at a limit, and then close the iterator, so
that an engine that is behind it stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from chatcodec.adapters._adapter import Adapter, Chunk, Usage
from chatcodec.adapters.sse import Lines
from chatcodec.adapters.stops import StopStrings
from chatcodec.events import Event, Reasoning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chatcodec import Stream

__all__ = ["Generated", "achunks", "alines", "chunks"]


class Generated(NamedTuple):
    """The output of an engine's step, ids and more: an item of the engine's iterator."""

    ids: int | Sequence[int]
    logprobs: Sequence[Chunk] = ()
    """One entry for each id, as `openai_chat.logprob` makes them."""
    reason: Literal["stop", "length"] | None = None
    """The engine's reason to end, in its last item; used for a turn that is still open."""
    cached: int | None = None
    """Number of ids of the prompt that the engine had cached, where it says so."""


Ids: TypeAlias = int | Sequence[int] | Generated


class _Run:
    """One response: a step for each item of the engine's iterator.

    The writer is the adapter, which gives chunks, or `Lines` around it, which gives bytes.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        stream: Stream,
        adapter: Adapter,
        writer: Any,  # noqa: ANN401
        stop: str | Sequence[str] | StopStrings,
        limit: int | None,
        prompt_tokens: int | None,
    ) -> None:
        self.stream, self.adapter, self.writer, self.limit = stream, adapter, writer, limit
        self.stops = stop if isinstance(stop, StopStrings) else StopStrings(stop)
        self.prompt_tokens = prompt_tokens
        self.generated = 0
        self.reasoned = 0
        # The end of the last reasoning: an id may belong to two events.
        self.reasoned_to = 0
        self.reason: Literal["stop", "length"] = "stop"
        self.cached: int | None = None

    def step(self, item: Ids) -> Any:  # noqa: ANN401
        if not isinstance(item, Generated):
            item = Generated(item)
        ids, logprobs, reason, cached = item
        self.reason = reason or self.reason
        self.cached = self.cached if cached is None else cached
        step = list(ids) if isinstance(ids, Iterable) else [ids]
        if self.limit is not None:
            step = step[: self.limit - self.generated]
        self.generated += len(step)
        if self.generated == self.limit:
            self.reason = "length"
        return self.writer.push(self.read(self.stream.push(step)), logprobs)

    def read(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Reasoning):
                start, end = event.tokens
                self.reasoned += max(0, end - max(start, self.reasoned_to))
                self.reasoned_to = max(end, self.reasoned_to)
        return self.stops.push(events)

    @property
    def over(self) -> bool:
        return self.adapter.reason is not None or self.generated == self.limit

    def finish(self) -> Any:  # noqa: ANN401
        events = self.read(self.stream.finish(self.reason)) + self.stops.finish()
        usage = None
        if self.prompt_tokens is not None:
            usage = Usage(
                prompt_tokens=self.prompt_tokens,
                completion_tokens=self.generated,
                reasoning_tokens=self.reasoned,
                cached_tokens=self.cached,
            )
        self.adapter.stop_string = self.stops.matched
        return self.writer.push(events) + self.writer.finish(usage)


def chunks(  # noqa: PLR0913
    ids: Iterator[Ids],
    stream: Stream,
    adapter: Adapter,
    *,
    stop: str | Sequence[str] | StopStrings = (),
    limit: int | None = None,
    prompt_tokens: int | None = None,
) -> Iterator[Chunk]:
    """Yield the chunks of a response; each item of `ids` is an id or several.

    An item may also be `Generated`, with log probabilities for an adapter with `logprobs=True`.
    `stop` are strings that end the text, or `StopStrings` of them; `limit` is the greatest number
    of ids, of which a turn that is still open ends as `length`. With `prompt_tokens`, the response
    tells its usage. The iterator is closed in the end, if it can be. What it raises is passed on.
    """
    run = _Run(stream, adapter, adapter, stop, limit, prompt_tokens)
    source: Any = ids if hasattr(ids, "close") else _held(ids)
    with closing(source):
        yield from adapter.push(())
        for item in source:
            yield from run.step(item)
            if run.over:
                break
    yield from run.finish()


async def achunks(  # noqa: PLR0913
    ids: AsyncIterator[Ids],
    stream: Stream,
    adapter: Adapter,
    *,
    stop: str | Sequence[str] | StopStrings = (),
    limit: int | None = None,
    prompt_tokens: int | None = None,
) -> AsyncIterator[Chunk]:
    """Yield the chunks of a response as `chunks` does, without blocking.

    A consumer that closes or cancels the iteration closes `ids` too.
    """
    run = _Run(stream, adapter, adapter, stop, limit, prompt_tokens)
    source: Any = ids if hasattr(ids, "aclose") else _aheld(ids)
    async with aclosing(source):
        for chunk in adapter.push(()):
            yield chunk
        async for item in source:
            for chunk in run.step(item):
                yield chunk
            if run.over:
                break
    for chunk in run.finish():
        yield chunk


async def alines(  # noqa: PLR0913
    ids: AsyncIterator[Ids],
    stream: Stream,
    adapter: Adapter,
    *,
    stop: str | Sequence[str] | StopStrings = (),
    limit: int | None = None,
    prompt_tokens: int | None = None,
) -> AsyncIterator[bytes]:
    """Yield the server-sent events of a response: the chunks of `achunks` as bytes.

    The bytes of an item are one piece; an item that says nothing gives none.
    """
    lines = Lines(adapter)
    run = _Run(stream, adapter, lines, stop, limit, prompt_tokens)
    source: Any = ids if hasattr(ids, "aclose") else _aheld(ids)
    async with aclosing(source):
        yield lines.push(())
        async for item in source:
            if written := run.step(item):
                yield written
            if run.over:
                break
    yield run.finish()


def _held(ids: Iterator[Ids]) -> Iterator[Ids]:
    yield from ids


async def _aheld(ids: AsyncIterator[Ids]) -> AsyncIterator[Ids]:
    async for item in ids:
        yield item
