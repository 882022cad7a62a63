"""Places: how many requests a process answers at once, and which request gets the next free place.

A request takes a place before its body is read. Where all are taken, or all that its key may have,
it waits: a key has a queue, and a free place goes to the first of the next key's queue that may
have one, round and round. So a client with a thousand requests delays another by one, and a request
that waits has no memory but its head and what the socket holds.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from chatcodec.serve.errors import ApiError
from chatcodec.serve.waiting import Held, first

if TYPE_CHECKING:
    from starlette.requests import Request as HttpRequest

    from chatcodec.serve.keys import Key
    from chatcodec.serve.metrics import Metrics

__all__ = ["Place", "Places"]

Queue: TypeAlias = "deque[asyncio.Future[Place]]"


@dataclass
class Place:
    """The place of one request. It is given back once, however often `leave` is called."""

    places: Places = field(repr=False)
    name: str
    is_taken: bool = True

    def leave(self) -> None:
        """Give the place back."""
        if self.is_taken:
            self.is_taken = False
            self.places.free(self.name)


@dataclass
class Places:
    """The places of a process."""

    most: int
    """Places in all."""
    most_of_key: int | None
    """Places of a key that has no limit of its own; None for no limit."""
    queued: int
    """Greatest number of requests that wait."""
    seconds: float
    """Longest wait for a place."""
    metrics: Metrics
    taken: int = field(default=0, init=False)
    _of_name: dict[str, int] = field(default_factory=dict, init=False)
    _waiting: OrderedDict[str, tuple[Key, Queue]] = field(default_factory=OrderedDict, init=False)
    """The queues of names that wait; the first is the next to get a place."""

    async def enter(self, http: HttpRequest, key: Key) -> tuple[HttpRequest, Place]:
        """Take a place for a request; give the request in the form in which it is to be read on.

        Raises `ApiError` where none is free in time, and starlette's `ClientDisconnect` where the
        client goes first.
        """
        if self._has_room(key):
            return http, self._take(key)
        held = Held(http)
        waiting = asyncio.ensure_future(self._wait(key))
        try:
            return held.http, await first(held.gone(), waiting)
        except BaseException:
            # The place may have come just then.
            _give_back(waiting)
            raise

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return sum(len(queue) for _, queue in self._waiting.values())

    def free(self, name: str) -> None:
        """Take a place back, and give it to who waits."""
        self.taken -= 1
        self._of_name[name] -= 1
        if not self._of_name[name]:
            del self._of_name[name]
        self.metrics.running.dec()
        self._give()

    def close(self) -> None:
        """Refuse all who wait."""
        for key, queue in self._waiting.values():
            for each in queue:
                _refuse(each, self._busy(key))

    def _has_room(self, key: Key) -> bool:
        most = self._most_of(key)
        return self.taken < self.most and (most is None or self._of_name.get(key.name, 0) < most)

    def _most_of(self, key: Key) -> int | None:
        if not key.name:
            return None
        return self.most_of_key if key.most is None else key.most

    def _take(self, key: Key) -> Place:
        self.taken += 1
        self._of_name[key.name] = self._of_name.get(key.name, 0) + 1
        self.metrics.running.inc()
        return Place(self, key.name)

    async def _wait(self, key: Key) -> Place:
        if not self.seconds:
            raise self._busy(key)
        self._make_room(key)
        turn: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key.name, (key, deque()))[1].append(turn)
        self.metrics.waiting.inc()
        try:
            async with asyncio.timeout(self.seconds):
                return await turn
        except BaseException as error:
            self._forget(key.name, turn)
            if isinstance(error, TimeoutError):
                raise self._busy(key) from None
            raise
        finally:
            self.metrics.waiting.dec()

    def _forget(self, name: str, turn: asyncio.Future[Place]) -> None:
        """Take a request out of its queue, and its place back if it has just got one."""
        if name in self._waiting and turn in self._waiting[name][1]:
            self._waiting[name][1].remove(turn)
            if not self._waiting[name][1]:
                del self._waiting[name]
        _give_back(turn)

    def _make_room(self, key: Key) -> None:
        """Refuse a request where the queue is full: the newest of the key that has the most.

        Raises `ApiError` where that is the one that comes.
        """
        if self.waiting < self.queued:
            return
        nobody: tuple[Key, Queue] = (key, deque())
        longest, queue = max(self._waiting.values(), key=lambda each: len(each[1]), default=nobody)
        if len(queue) <= len(self._waiting.get(key.name, nobody)[1]) + 1:
            raise self._busy(key)
        _refuse(queue.pop(), self._busy(longest))

    def _give(self) -> None:
        """Give free places to those who wait, one key after the other."""
        while (name := next(filter(self._may_have, self._waiting), None)) is not None:
            key, queue = self._waiting[name]
            turn = queue.popleft()
            if queue:
                self._waiting.move_to_end(name)
            else:
                del self._waiting[name]
            if not turn.done():
                turn.set_result(self._take(key))

    def _may_have(self, name: str) -> bool:
        return self._has_room(self._waiting[name][0])

    def _busy(self, key: Key) -> ApiError:
        own, most = self._of_name.get(key.name, 0), self._most_of(key)
        if most is not None and own >= most:
            problem = f"{own} requests of this API key are being answered; try again later"
            return ApiError(429, problem, code="rate_limit_exceeded", retry_after="1")
        return ApiError(503, f"{self.taken} requests are being answered; try again later")


def _give_back(turn: asyncio.Future[Place]) -> None:
    if turn.done() and not turn.cancelled() and turn.exception() is None:
        turn.result().leave()


def _refuse(turn: asyncio.Future[Place], error: ApiError) -> None:
    if not turn.done():
        turn.set_exception(error)
