"""A streamed answer: its events, signs of life, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from chatcodec.serve.beats import Beats
from chatcodec.serve.errors import ApiError, BackendError
from chatcodec.serve.log import LOG
from chatcodec.serve.waiting import disconnected, ended

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from starlette.requests import Request as HttpRequest
    from starlette.types import Receive, Scope, Send

    from chatcodec.serve.answer import Answer
    from chatcodec.serve.app import Gateway

__all__ = ["Events"]

_EVENTS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # nginx would hold events back until its buffer is full.
    (b"x-accel-buffering", b"no"),
]


class Events(Response):
    """A streamed answer. It ends when the client goes, and always says how it ended."""

    def __init__(
        self,
        gateway: Gateway,
        http: HttpRequest,
        answer: Answer,
        stack: AsyncExitStack,
        starting: asyncio.Future[None],
    ) -> None:
        """Take an answer that has begun, or is `starting`, and what is to be closed after it."""
        self.gateway, self.http, self.answer, self.stack = gateway, http, answer, stack
        self.starting = starting
        settings = gateway.settings
        self.beats = Beats(settings.heartbeat, answer.api.beat, settings.client_timeout)
        self.background = None
        self.is_ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        del scope
        gateway, answer = self.gateway, self.answer
        writing = asyncio.create_task(self.write(send))
        others = [asyncio.create_task(disconnected(receive))]
        others.append(asyncio.create_task(self.beats.run(send)))
        try:
            with gateway.endings.told() as ending:
                waited: set[asyncio.Future[Any]] = {writing, ending, *others}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if ending.done() and not writing.done():
                self.is_ended = True
                writing.cancel()
                await asyncio.wait({writing, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, *others):
                task.cancel()
            status: int = 499
            error: BaseException | None = None
            done = (await asyncio.gather(writing, *others, return_exceptions=True))[0]
            if done is None or isinstance(done, ApiError):
                status, error = (done.status if done else 200), done
            elif isinstance(done, Exception) and not isinstance(done, (OSError, TimeoutError)):
                status, error = 500, done
                LOG.error("failure", exc_info=done)
            await self.stack.aclose()
            gateway.log(self.http, answer, status, error)

    async def write(self, send: Send) -> ApiError | None:
        """Send the events; give the error that ended them, if one did."""
        async with asyncio.timeout(None) as limit:
            return await self.write_within(limit, send)

    async def write_within(self, limit: asyncio.Timeout, send: Send) -> ApiError | None:
        """Send the events; `limit` bounds each wait for the client."""
        wait = self.gateway.settings.client_timeout
        now = asyncio.get_running_loop().time

        async def say(body: bytes, *, more: bool) -> None:
            limit.reschedule(now() + wait)
            with self.beats:
                await send({"type": "http.response.body", "body": body, "more_body": more})
            limit.reschedule(None)

        own = ((key.encode(), value.encode()) for key, value in self.answer.headers.items())
        headers = [*_EVENTS, *own]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self.beats.begin()
        lines = self.answer.lines()
        failed: ApiError | None = None
        try:
            await self.starting
            async for line in lines:
                await say(line, more=True)
        except ApiError as error:
            failed = error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.is_ended or task is None:
                raise
            task.uncancel()
            failed = ended()
        except (OSError, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 (whatever it is, the client is told)
            LOG.exception("failure")
            failed = ApiError(500, "the gateway failed; its log says why")
        finally:
            await lines.aclose()
        if failed is not None:
            if isinstance(failed, BackendError):
                self.gateway.metrics.backend_errors.labels(status=failed.status).inc()
            await say(self.answer.error_event(failed), more=True)
        await say(b"", more=False)
        return failed
