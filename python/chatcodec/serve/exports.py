"""`/v1/trajectories`: what a client's conversations are, as ids for training; and their rewards."""

from __future__ import annotations

import asyncio
import importlib
import io
import math
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from chatcodec.serve.bodies import check_kind, parse_body, read_body
from chatcodec.serve.errors import ApiError
from chatcodec.serve.memory.trajectories import trajectories
from chatcodec.serve.sessions import session_of
from chatcodec.trajectory import COLUMNS, batches, schema_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response

    from chatcodec.serve.app import Gateway
    from chatcodec.serve.memory import Store

__all__ = ["exports"]

PATH = "/v1/trajectories"
_TYPE = "application/vnd.apache.arrow.stream"
_REWARD = 100_000
"""Bytes of a body with a reward."""


def exports(gateway: Gateway) -> list[Route]:
    """Make the endpoints, where the operator asks for them.

    Raises `ImportError` where they are asked for without pyarrow.
    """
    store = gateway.store
    if store is None or not gateway.settings.trajectories:
        return []
    importlib.import_module("pyarrow")

    async def export(http: HttpRequest) -> Response:
        key = gateway.check_key(http)
        columns = http.query_params.get("columns", COLUMNS[0])
        if columns not in COLUMNS:
            problem = f"`columns` is {columns!r:.40}, expected one of {list(COLUMNS)}"
            raise ApiError(400, problem, "columns")
        parts = _pieces(store, key.name, session_of(http), columns)
        return StreamingResponse(_in_thread(parts), media_type=_TYPE)

    async def reward(http: HttpRequest) -> Response:
        key = gateway.check_key(http)
        check_kind(http)
        settings = gateway.settings
        body = parse_body(await read_body(http, _REWARD, settings.client_timeout))
        answer, choice, value = _reward_of(body)
        try:
            is_known = await asyncio.to_thread(store.reward, key.name, answer, choice, value)
        except OSError as error:
            raise ApiError(503, "the memory does not take it now; try again") from error
        if not is_known:
            raise ApiError(404, f"`id` is {answer!r:.80}, which is no answer that is kept", "id")
        told = {"object": "reward", "id": answer, "choice": choice, "reward": value}
        return JSONResponse(told)

    return [Route(PATH, export), Route(f"{PATH}/rewards", reward, methods=["POST"])]


def _reward_of(body: dict[str, Any]) -> tuple[str, int, float]:
    """Read the id of an answer, the index of its choice, and a reward. Raises `ApiError`."""
    answer, choice, value = body.get("id"), body.get("choice", 0), body.get("reward")
    if not isinstance(answer, str):
        raise ApiError(400, f"`id` is {answer!r:.80}, expected the id of an answer", "id")
    if type(choice) is not int or choice < 0:
        problem = f"`choice` is {choice!r:.80}, expected an index of choices"
        raise ApiError(400, problem, "choice")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ApiError(400, f"`reward` is {value!r:.80}, expected a number", "reward")
    return answer, choice, float(value)


def _pieces(store: Store, client: str, session: str, columns: Any) -> Iterator[bytes]:  # noqa: ANN401
    """Write a client's trajectories as an Arrow stream, in pieces."""
    pa: Any = importlib.import_module("pyarrow")
    sink = io.BytesIO()

    def written() -> bytes:
        piece = sink.getvalue()
        sink.seek(0)
        sink.truncate()
        return piece

    with pa.ipc.new_stream(sink, schema_of(columns)) as writer:
        for batch in batches(trajectories(store, client, session), columns):
            writer.write_batch(batch)
            yield written()
    yield written()


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Give pieces that are made in a thread, one after another."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
