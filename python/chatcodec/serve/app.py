"""The application: paths, limits, keys, and from a request to its answer."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from chatcodec.serve.answer import Answer
from chatcodec.serve.apis import APIS, Api
from chatcodec.serve.backends import BACKENDS
from chatcodec.serve.backends.base import Job
from chatcodec.serve.beats import in_time, stopped
from chatcodec.serve.bodies import check_kind, read_body
from chatcodec.serve.completions import jobs_of
from chatcodec.serve.errors import ApiError, BackendError, chat_body
from chatcodec.serve.exports import exports
from chatcodec.serve.guard import Guard
from chatcodec.serve.health import Health
from chatcodec.serve.keys import ANYONE, Key, Keys, given_key, watched
from chatcodec.serve.log import LOG
from chatcodec.serve.memory import store_of
from chatcodec.serve.metrics import Metrics
from chatcodec.serve.places import Places
from chatcodec.serve.pool import ReadingPool
from chatcodec.serve.reading import Reader
from chatcodec.serve.render import rendered
from chatcodec.serve.request_log import fields_of
from chatcodec.serve.salt import salt_of, share_secret
from chatcodec.serve.sessions import PREFIX, session_of, without_session
from chatcodec.serve.settings import BACKEND_KEY, Settings
from chatcodec.serve.small import SMALL
from chatcodec.serve.spans import Span
from chatcodec.serve.streamed import Events
from chatcodec.serve.tokens import with_window
from chatcodec.serve.waiting import Endings, until_gone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from chatcodec import Codec
    from chatcodec.serve.backends.base import Backend
    from chatcodec.serve.reading import Read

__all__ = ["Gateway", "app"]

T = TypeVar("T")

PASSED_ON = ("traceparent", "tracestate", "baggage", "x-request-id")
"""Headers that go on to the backend."""

_IDLE = 2.0
"""Seconds for which a connection to the backend is kept open without a request: engines' servers
close theirs after five, and a request that meets the end of its connection would fail."""


class Gateway:
    """What the requests of one process share; of earlier requests only what a memory has."""

    def __init__(self, settings: Settings, codec: Codec | None = None) -> None:
        """Load the codec, unless one is given, and read the keys."""
        self.settings = settings
        self.codec = settings.codec() if codec is None else codec
        self.keys = Keys.of(settings)
        self.reloads: list[Callable[[], None]] = [] if self.keys is None else [self.keys.reload]
        self.store = store_of(settings)
        self.reader = Reader(self.codec, settings, self.store)
        self.pool = ReadingPool(self.reader, settings.readers)
        share_secret()
        self.metrics = Metrics()
        self.places = Places(
            settings.max_requests,
            settings.max_requests_per_key,
            settings.max_queue,
            settings.queue_timeout,
            self.metrics,
        )
        self.started = int(time.time())
        self.backend: Backend
        self.health = Health(lambda: self.backend, settings.connect_timeout)
        self.endings = Endings()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect to the backend for as long as the gateway serves."""
        settings = self.settings
        key = os.environ.get(BACKEND_KEY)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE),
            headers={"authorization": f"Bearer {key}"} if key else {},
            skip_auto_headers=("accept-encoding",),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=settings.connect_timeout, sock_read=settings.read_timeout
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as client:
            self.backend = BACKENDS[settings.engine](
                client, settings.backend, settings.max_model_len
            )
            try:
                yield
            finally:
                self.pool.close()
                if self.store is not None:
                    self.store.close()

    @property
    def model_behind(self) -> str:
        """The name of the model at the backend."""
        return self.settings.backend_model or self.settings.served[0]

    def reload(self) -> None:
        """Read again what an operator may change while the gateway serves: its keys."""
        for reload in self.reloads:
            reload()

    def end(self) -> None:
        """Tell the clients of all open answers that the gateway ends."""
        self.places.close()
        self.endings.tell()

    # Answers.

    def answering(self, api: Api) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Make the endpoint of an API."""

        async def endpoint(http: HttpRequest) -> Response:
            began = time.perf_counter()
            stack = AsyncExitStack()
            answer = None
            try:
                http, raw = await self.admitted(http, stack)
                answer = self.answer(api, await self.read(api, raw, http), http, began)
                if not answer.asked.stream:
                    whole = await until_gone(http, self.whole_of(answer, stack), self.endings)
                    self.log(http, answer, 200)
                    closing = BackgroundTask(stack.aclose)
                    return JSONResponse(whole, headers=answer.headers, background=closing)
                starting = asyncio.ensure_future(answer.start(stack))
                stack.push_async_callback(stopped, starting)
                await until_gone(http, in_time(starting, self.settings.heartbeat), self.endings)
            except ApiError as error:
                await stack.aclose()
                return self.failed(api, http, answer, error)
            except ClientDisconnect:
                await stack.aclose()
                self.log(http, answer, 499)
                return Response(status_code=499)
            except BaseException:
                await stack.aclose()
                raise
            return Events(self, http, answer, stack, starting)

        return endpoint

    async def read(self, api: Api, raw: bytes, http: HttpRequest) -> Read:
        """Read a request and encode its prompt. Raises `ApiError`."""
        client: Key = http.state.key
        session = session_of(http)
        return await self.off_loop(http, raw, self.pool.read(api, raw, client.name, session))

    async def off_loop(self, http: HttpRequest, raw: bytes, work: Awaitable[T]) -> T:
        """Await work on a body; where another process does it, the client may go meanwhile."""
        if not self.pool.is_large(raw):
            return await work
        return await until_gone(http, work, self.endings)

    async def whole_of(self, answer: Answer, stack: AsyncExitStack) -> dict[str, Any]:
        """Give an answer as one object."""
        await answer.start(stack)
        return await answer.whole()

    async def admitted(self, http: HttpRequest, stack: AsyncExitStack) -> tuple[HttpRequest, bytes]:
        """Check the key of a request, wait for a place, and take the body. Raises `ApiError`.

        Gives the request in the form in which it is to be read on; closing the stack gives the
        place back, if the answer has not done so.
        """
        key = self.check_key(http)
        check_kind(http)
        http, place = await self.places.enter(http, key)
        stack.callback(place.leave)
        http.state.place = place
        raw = await read_body(http, self.settings.max_body, self.settings.client_timeout)
        return http, raw

    def answer(self, api: Api, read: Read, http: HttpRequest, began: float) -> Answer:
        """Make the answer to a request that was read."""
        settings = self.settings
        request, asked, prompt = read.request, read.asked, read.prompt
        self.metrics.prompt(prompt)
        read.told.count(self.metrics)
        span = Span(api.name, settings.served[0], http.headers)
        job = self.job(read, http, span.headers)
        return Answer(
            api=api,
            request=request,
            asked=asked,
            prompt=prompt,
            job=job,
            backend=self.backend,
            metrics=self.metrics,
            id=api.prefix + secrets.token_hex(12),
            created=int(time.time()),
            told=read.told,
            span=span,
            began=began,
            over=http.state.place.leave,
            store=self.store,
            recalled=read.recalled,
        )

    def job(self, read: Read, http: HttpRequest, traced: Mapping[str, str]) -> Job:
        """Make the job for the backend; `traced` are the headers of a span around it."""
        settings = self.settings
        request, asked, prompt = read.request, read.asked, read.prompt
        passed_on = (*PASSED_ON, *settings.pass_headers)
        own = {key: http.headers[key] for key in passed_on if key in http.headers}
        return Job(
            model=self.model_behind,
            prompt=prompt.written,
            prompt_ids=len(prompt),
            stop_ids=[*self.codec.stop_ids, *asked.stop_ids],
            limit=request.limit,
            sampling=asked.sampling,
            passed=asked.passed,
            grammar=read.grammar,
            cache_salt=self.salt(http.state.key, asked.sampling.get("cache_salt")),
            logprobs=self.logprobs(asked.logprobs),
            headers={**own, **traced},
        )

    def logprobs(self, asked: int | None) -> int | None:
        """Give how many likeliest ids to ask for; trajectories have the sampled ids' own."""
        is_kept = self.settings.trajectories and BACKENDS[self.settings.engine].tells_logprobs
        return 0 if asked is None and is_kept else asked

    def salt(self, key: Key, own: object) -> str | None:
        """Give the salt of a client's prefix cache, with the one that the client asks for."""
        return salt_of(key.name, own) if self.settings.cache_salt == "key" and key.name else None

    def check_key(self, http: HttpRequest) -> Key:
        """Give the key of a request. Raises `ApiError` for one that is missing or not known."""
        key = ANYONE if self.keys is None else self.keys.find(given_key(http.headers))
        if key is None:
            raise ApiError(401, "the API key is missing or wrong", code="invalid_api_key")
        http.state.key = key
        return key

    def failed(
        self, api: Api | None, http: HttpRequest, answer: Answer | None, error: ApiError
    ) -> Response:
        """Answer with an error."""
        if isinstance(error, BackendError):
            self.metrics.backend_errors.labels(status=error.status).inc()
        self.log(http, answer, error.status, error)
        body = (api.error_body if api else chat_body)(error)
        return JSONResponse(body, error.status, error.headers)

    def log(
        self,
        http: HttpRequest,
        answer: Answer | None,
        status: int,
        error: BaseException | None = None,
    ) -> None:
        """Count and log a request that is over."""
        path = without_session(http.url.path)
        name = next((api.name for api in APIS if api.path == path), "other")
        self.metrics.requests.labels(api=name, status=status).inc()
        key: Key = getattr(http.state, "key", ANYONE)
        self.metrics.of_keys.count(key.name, status, answer)
        if answer is not None:
            answer.count(status, time.perf_counter() - answer.began)
        fields = fields_of(http, answer, status, error, with_text=self.settings.log_text)
        LOG.info("request", extra={"fields": fields})

    # Other paths.

    async def models(self, http: HttpRequest) -> Response:
        """List the names of the model."""
        self.check_key(http)
        fields = {"object": "model", "created": self.started, "owned_by": "chatcodec"}
        listed = [{"id": name, **fields} for name in self.settings.served]
        return JSONResponse({"object": "list", "data": listed})

    async def model(self, http: HttpRequest) -> Response:
        """Describe one model."""
        self.check_key(http)
        name = http.path_params["name"]
        self.reader.check_model(name)
        fields = {"object": "model", "created": self.started, "owned_by": "chatcodec"}
        return JSONResponse({"id": name, **fields})

    def rendering(self, api: Api) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Make the endpoint that gives what would be sent to the engine."""

        async def endpoint(http: HttpRequest) -> Response:
            async with AsyncExitStack() as stack:
                http, raw = await self.admitted(http, stack)
                read = await self.read(api, raw, http)
                job, settings = self.job(read, http, {}), self.settings
                window, stream = settings.max_model_len, read.asked.stream
                jobs = jobs_of(job, read.prompt, read.asked.prompts)
                return json_response(rendered(jobs, settings.engine, window, api, stream=stream))

        return endpoint

    def small(self, path: str) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Make the endpoint of a function; its requests have the limits of all others."""

        async def endpoint(http: HttpRequest) -> Response:
            async with AsyncExitStack() as stack:
                http, raw = await self.admitted(http, stack)
                made = await self.off_loop(http, raw, self.pool.made(path, raw))
            if path == "/tokenize":
                made = with_window(made, await self.backend.window.known(self.model_behind))
            return json_response(made)

        return endpoint

    async def measured(self, _: HttpRequest) -> Response:
        """Give the metrics."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def errored(self, http: HttpRequest, error: Exception) -> Response:
        """Answer with an error that an endpoint raised."""
        if isinstance(error, ClientDisconnect):
            self.log(http, None, 499)
            return Response(status_code=499)
        if isinstance(error, HTTPException):
            error = ApiError(
                error.status_code, f"{http.method} {http.url.path[:80]}: {error.detail}"
            )
        if not isinstance(error, ApiError):
            LOG.error("failure", exc_info=error, extra={"fields": {"path": http.url.path}})
            error = ApiError(500, "the gateway failed; its log says why")
        return self.refused(http, error)

    def refused(self, http: HttpRequest, error: ApiError) -> Response:
        """Answer with an error to a request that nothing is known of but its path."""
        path = without_session(http.url.path)
        api = next((api for api in APIS if f"{path}/".startswith(f"{api.path}/")), None)
        return self.failed(api, http, None, error)


def json_response(raw: bytes) -> Response:
    """Answer with what is JSON already."""
    return Response(raw, media_type="application/json")


def app(settings: Settings, codec: Codec | None = None) -> Starlette:
    """Make the application. `codec` is used instead of the one that the settings name.

    Raises what loading the codec raises, and `ValueError` for a file of keys that has none.
    """
    gateway = Gateway(settings, codec)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, float]]:
        async with gateway.connected(), watched(gateway.keys, gateway.reload):
            yield {"client_timeout": settings.client_timeout}

    def post(path: str, endpoint: Callable[[HttpRequest], Awaitable[Response]]) -> Route:
        return Route(path, endpoint, methods=["POST"])

    of_sessions = [
        *(post(api.path, gateway.answering(api)) for api in APIS),
        *(post(f"{api.path}/render", gateway.rendering(api)) for api in APIS),
        Route("/v1/models", gateway.models),
        Route("/v1/models/{name:path}", gateway.model),
        *exports(gateway),
    ]
    routes = [
        *of_sessions,
        Mount(PREFIX, routes=of_sessions),
        *(post(path, gateway.small(path)) for path in SMALL),
        *gateway.health.routes,
        *([Route("/metrics", gateway.measured)] if settings.metrics_port is None else []),
    ]
    kinds = (HTTPException, ApiError, ClientDisconnect, Exception)
    errors = dict.fromkeys(kinds, gateway.errored)
    guard = Middleware(Guard, settings=settings, refuse=gateway.refused)
    made = Starlette(
        routes=routes, lifespan=lifespan, exception_handlers=errors, middleware=[guard]
    )
    # The address of a redirect would be whatever the header `Host` says.
    made.router.redirect_slashes = False
    made.state.gateway = gateway
    return made
