"""One answer: the engine's ids, read by a stream and shown by an adapter, whole or as events."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chatcodec.adapters import Usage, openai_chat
from chatcodec.adapters.run import Generated, achunks, alines
from chatcodec.adapters.sse import DONE, data, event
from chatcodec.adapters.stops import StopStrings
from chatcodec.events import Notice
from chatcodec.serve.completions import TextStream, jobs_of
from chatcodec.serve.keeping import Keeping
from chatcodec.serve.token_ids import TokenIds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from contextlib import AsyncExitStack

    from chatcodec import Stream, Vocab
    from chatcodec.adapters import Adapter, Chunk, Request
    from chatcodec.events import Event
    from chatcodec.serve.apis import Api
    from chatcodec.serve.asked import Asked
    from chatcodec.serve.backends.base import Backend, Job, Logprob, Step
    from chatcodec.serve.errors import ApiError
    from chatcodec.serve.memory import Recalled, Store
    from chatcodec.serve.metrics import Metrics
    from chatcodec.serve.prompts import Prompt
    from chatcodec.serve.spans import Span
    from chatcodec.serve.told import Told

__all__ = ["Answer"]

_LONG = 20_000
"""Ids of a prompt that is read in a thread."""
_QUEUED = 16
"""Chunks of several choices that wait for a slow client."""


@dataclass(kw_only=True)
class Answer:
    """One request that is being answered."""

    api: Api
    request: Request
    asked: Asked
    prompt: Prompt
    job: Job
    backend: Backend
    metrics: Metrics
    id: str
    created: int
    told: Told
    span: Span
    began: float
    """When the request came, by `time.perf_counter`."""
    over: Callable[[], None]
    """Called when all has been generated, before the last piece is given."""
    store: Store | None = None
    """Where the turn is kept."""
    recalled: Recalled | None = None
    """What is known of the history; None where nothing is kept."""
    generated: int = field(default=0, init=False)
    """Ids so far, of all choices."""
    cached: int | None = field(default=None, init=False)
    """Ids of the prompt that the engine had cached, where it says so."""
    first_event: float | None = field(default=None, init=False)
    """Seconds from the request to the first ids."""
    notices: int = field(default=0, init=False)
    _stream: Stream | TextStream = field(init=False, repr=False)
    _adapters: list[Adapter] = field(default_factory=list, init=False)
    _counts: Counter[int] = field(default_factory=Counter, init=False)
    """Ids so far, of each choice."""
    _ids: TokenIds | None = field(default=None, init=False)
    """The ids of both sides, where the client asks for them."""
    _kept: list[Keeping] = field(default_factory=list, init=False)
    """What is kept of each choice, where turns are kept."""
    _sources: list[AsyncIterator[Step]] = field(default_factory=list, init=False)
    _ended: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin to keep ids, if they are asked for."""
        if self.asked.with_ids:
            self._ids = TokenIds(self.prompt.parts(self.asked.prompts), self.asked.choices)

    @property
    def _each(self) -> int:
        """The number of choices of each prompt."""
        return self.asked.choices // max(len(self.asked.prompts), 1)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer that are the gateway's own."""
        return {"x-request-id": self.id, **self.told.headers()}

    def count(self, status: int, seconds: float) -> None:
        """Count the answer, which had a status and took so long."""
        numbers = (len(self.prompt), self.generated, self.cached)
        self.metrics.answers.answered(self.api.name, seconds, *numbers)
        prompt, completion, cached = numbers
        self.span.end(
            status,
            {
                "gen_ai.usage.input_tokens": prompt,
                "gen_ai.usage.output_tokens": completion,
                "gen_ai.usage.cache_read.input_tokens": cached,
                "gen_ai.response.time_to_first_chunk": self.first_event,
            },
        )

    def error_event(self, error: ApiError) -> bytes:
        """Write an error into the stream of the answer, which may not have begun."""
        adapter = self._adapters[0] if self._adapters else self._adapter(0)
        return self.api.error_event(error, adapter)

    async def start(self, stack: AsyncExitStack) -> None:
        """Begin a generation for each choice; closing the stack cancels them.

        Raises `ApiError` where the backend refuses: then nothing has been sent to the client.
        """
        jobs = jobs_of(self.job, self.prompt, self.asked.prompts)

        async def begin(choice: int) -> AsyncIterator[Step]:
            prompt, number = divmod(choice, self._each)
            job = jobs[prompt]
            if number and "seed" in job.sampling:
                sampling = {**job.sampling, "seed": job.sampling["seed"] + number}
                job = replace(job, sampling=sampling)
            return await stack.enter_async_context(self.backend.generate(job))

        self._stream = await self._made_stream()
        if self.store is not None and self.recalled is not None:
            self._kept = [
                Keeping(self, choice, self._stream.copy()) for choice in range(self.asked.choices)
            ]
        if self.asked.choices == 1:
            self._sources.append(await begin(0))
            return
        # Together: an engine without streams answers when it has generated.
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(begin(each)) for each in range(self.asked.choices)]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        self._sources += [task.result() for task in tasks]

    async def _made_stream(self) -> Stream | TextStream:
        """Begin to read after the prompt; a long one is read in a thread, which others share."""
        codec, tools = self.request.codec, self.request.tools or None
        if self.api.name == "completions":
            return TextStream(codec, with_control=self.asked.with_control)
        if len(self.prompt) < _LONG:
            return codec.stream(self.prompt.ids, tools=tools)
        return await asyncio.to_thread(codec.stream, self.prompt.ids, tools=tools)

    async def whole(self) -> dict[str, Any]:
        """Give the answer as one object."""
        made = self.api.collect([chunk async for chunk in self._chunks(with_usage=True)])
        return made if self._ids is None else self._ids.whole(made)

    async def lines(self) -> AsyncGenerator[bytes]:
        """Give the answer as server-sent events."""
        with_usage = not self.api.in_chunks or self.asked.with_usage
        if self._is_plain:
            arguments, options = self._arguments(0, with_usage=with_usage)
            async for line in alines(*arguments, **options):
                yield line
        else:
            write = data if self.api.in_chunks else event
            async for chunk in self._chunks(with_usage=with_usage):
                yield write(self._more(chunk))
            if self.api.in_chunks:
                yield DONE

    @property
    def _is_plain(self) -> bool:
        """Whether the events are those of one adapter, and no more."""
        return self.asked.choices == 1 and self._ids is None and not self.asked.usage_in_each

    def _more(self, chunk: Chunk) -> Chunk:
        """Give a chunk with what the request asks for beside it."""
        if self._ids is not None:
            chunk = self._ids.piece(chunk)
        if self.asked.usage_in_each and chunk["choices"]:
            count = self._counts[chunk["choices"][0]["index"]]
            usage = Usage(prompt_tokens=len(self.prompt), completion_tokens=count)
            chunk = {**chunk, "usage": openai_chat.usage_of(usage)}
        return chunk

    async def _chunks(self, *, with_usage: bool) -> AsyncGenerator[Chunk]:
        if self.asked.choices == 1:
            arguments, options = self._arguments(0, with_usage=with_usage)
            async for chunk in achunks(*arguments, **options):
                yield chunk
            return
        usages: list[Chunk] = []
        async for chunk in self._merged():
            if chunk["choices"]:
                yield chunk
            else:
                usages.append(chunk)
        if with_usage and usages:
            yield _total(usages)

    async def _merged(self) -> AsyncGenerator[Chunk]:
        """Give the chunks of all choices as they come."""
        queue: asyncio.Queue[Chunk] = asyncio.Queue(_QUEUED)

        async def run(choice: int) -> None:
            arguments, options = self._arguments(choice, with_usage=True)
            async for chunk in achunks(*arguments, **options):
                await queue.put(chunk)

        async def run_all() -> None:
            async with asyncio.TaskGroup() as group:
                for choice in range(self.asked.choices):
                    group.create_task(run(choice))

        task = asyncio.create_task(run_all())
        try:
            while not (task.done() and queue.empty()):
                getting = asyncio.create_task(queue.get())
                await asyncio.wait({getting, task}, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    yield getting.result()
                else:
                    getting.cancel()
            await _first_error(task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _adapter(self, choice: int) -> Adapter:
        options: dict[str, Any] = dict(self.request.adapter)
        if self.api.dates:
            options[self.api.dates] = self.created
        if self.api.name == "messages":
            options["prompt_tokens"] = len(self.prompt)
        if self.asked.choices > 1:
            options["choice"] = choice
        if self.api.in_chunks and self.asked.stream:
            options["usage_key"] = self.asked.with_usage
        adapter: Adapter = self.api.adapter(id=self.id, on_hidden=self._hidden, **options)
        self._adapters.append(adapter)
        return adapter

    def _arguments(
        self, choice: int, *, with_usage: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        adapter = self._adapter(choice)
        alone = self.asked.choices == 1 and not self._kept
        stream = self._stream if alone else self._stream.copy()
        named = {
            "stop": self.stops(),
            "limit": self.request.limit,
            "prompt_tokens": len(self.prompt) if with_usage else None,
        }
        return (self._items(choice), stream, adapter), named

    async def _items(self, choice: int) -> AsyncGenerator[Generated]:
        """Give what the backend generates for a choice."""
        codec = self.request.codec
        stops = self.asked.stop_ids.difference(codec.stop_ids)
        last = None
        try:
            async for step in self._sources[choice]:
                ends = next((at for at, id_ in enumerate(step.ids) if id_ in stops), None)
                if ends is not None:
                    step.cut(ends)
                    step.reason = "stop"
                if step.ids:
                    last = self._timed(last)
                self._take(choice, step)
                asked = self.asked.logprobs is not None
                entries = [_entry(codec.vocab, each) for each in step.logprobs if asked]
                yield Generated(step.ids, entries, step.reason, step.cached)
                if ends is not None:
                    return
        finally:
            # Before the client has the last piece: its next request may come at once.
            if self._kept:
                await self._kept[choice].keep()
            self._ended += 1
            if self._ended == self.asked.choices:
                self.over()

    def _timed(self, last: float | None) -> float:
        """Measure the time of ids that came, after others of the choice."""
        now = time.perf_counter()
        if last is not None:
            self.metrics.answers.gaps.labels(self.api.name).observe(now - last)
        if self.first_event is None:
            self.first_event = now - self.began
            self.metrics.first_event.observe(self.first_event)
        return now

    def _take(self, choice: int, step: Step) -> None:
        """Count and keep what the backend said."""
        if step.cached is not None:
            self.cached = step.cached
        self.generated += len(step.ids)
        self._counts[choice] += len(step.ids)
        if self._ids is not None:
            self._ids.add(choice, step.ids)
        if self._kept:
            self._kept[choice].add(step)
        self.metrics.completion_ids.inc(len(step.ids))

    def stops(self) -> StopStrings:
        """The stop strings of one choice, which have read nothing."""
        return StopStrings(self.request.stop, keep=self.asked.keeps_stop)

    def _hidden(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notices += 1
            self.metrics.notices.labels(kind=event.kind).inc()


def _entry(vocab: Vocab, told: Logprob) -> Chunk:
    """Make the entry of an id; a model may give ids that the vocabulary has not."""
    size = vocab.size
    if told.id >= size:
        return {"token": "", "logprob": told.value, "bytes": [], "top_logprobs": []}
    top = [(id_, value) for id_, value in told.top if 0 <= id_ < size]
    return openai_chat.logprob(vocab, told.id, told.value, top)


async def _first_error(task: asyncio.Task[None]) -> None:
    """Raise the first error of a group's tasks by itself."""
    try:
        await task
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def _total(usages: list[Chunk]) -> Chunk:
    """Add up the usage of choices that share a prompt."""
    first = usages[0]["usage"]
    completion = sum(each["usage"]["completion_tokens"] for each in usages)
    reasoning = sum(
        each["usage"]["completion_tokens_details"]["reasoning_tokens"] for each in usages
    )
    usage = {
        **first,
        "completion_tokens": completion,
        "total_tokens": first["prompt_tokens"] + completion,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    return {**usages[0], "usage": usage}
