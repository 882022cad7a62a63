"""Processes that read large requests, so that the streams of others go on meanwhile.

The interpreter reads JSON, makes messages of it, and writes grammars without a pause for other
threads: a second for a body of 7 MB, and as long for a schema of 200 KB. Such a body goes as it
came to a process, and comes back as ids and what is asked for. Small ones are read at once.

A process starts with the first body that needs it, and ends with the gateway.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import traceback
from array import array
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatcodec.serve.apis import APIS
from chatcodec.serve.backends.written import Written
from chatcodec.serve.bodies import parse_body
from chatcodec.serve.errors import ApiError
from chatcodec.serve.log import LOG
from chatcodec.serve.memory.far import FarStore, Find
from chatcodec.serve.reading import Read, Reader
from chatcodec.serve.small import SMALL, made

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from chatcodec import Codec
    from chatcodec.serve.apis import Api
    from chatcodec.serve.memory import Finder
    from chatcodec.serve.settings import Settings

__all__ = ["ReadingPool"]

LARGE = 65_536
"""Bytes of a body that is read by another process: about 5 ms of work at most are less."""
LARGE_WITH_GRAMMAR = 4096
"""The same for a body that may ask for a grammar, which takes much longer."""
_GRAMMARS = (
    b'"response_format"',
    b'"tool_choice"',
    b'"strict"',
    b"json_schema",
    b'"output_config"',
)
"""What is in bodies that may ask for a grammar."""
_LAST_WORDS = 1.0
"""Seconds for a process that closed its connection to end."""
_NICENESS = 5
"""The system prefers the process that has the streams, if they share a core."""


class ReadingPool:
    """Works on the bodies of requests, on large ones in other processes."""

    def __init__(self, reader: Reader, processes: int) -> None:
        """Take what reads, and the greatest number of processes; 0 for none."""
        self.reader, self.processes = reader, processes
        self._threads = ThreadPoolExecutor(max(1, processes), "chatcodec-reader")
        self._free = asyncio.Semaphore(max(1, processes))
        self.idle: list[_Process] = []
        self.alive: set[_Process] = set()
        self._works = False
        """Whether a process ever answered."""

    def is_large(self, raw: bytes) -> bool:
        """Whether another process is to read a body."""
        if self.processes == 0 or len(raw) <= LARGE_WITH_GRAMMAR:
            return False
        return len(raw) > LARGE or any(word in raw for word in _GRAMMARS)

    async def read(self, api: Api, raw: bytes, client: str = "", session: str = "") -> Read:
        """Read a body of a client and encode its prompt. Raises `ApiError`."""
        if not self.is_large(raw):
            body, store = parse_body(raw), self.reader.store
            if store is not None and store.waits:
                return await asyncio.to_thread(self.reader.read, api, body, client, session)
            return self.reader.read(api, body, client, session)
        read: Read = await self._elsewhere(api.name, raw, client, session)
        return replace(read, request=replace(read.request, codec=self.reader.codec))

    async def made(self, path: str, raw: bytes) -> bytes:
        """Give the answer to a body that no engine is asked for. Raises `ApiError`."""
        if not self.is_large(raw):
            return made(path, raw, self.reader)
        answer: bytes = await self._elsewhere(path, raw)
        return answer

    async def _elsewhere(self, name: str, raw: bytes, *caller: str) -> Any:  # noqa: ANN401
        """Let a process work on a body. Raises `ApiError`.

        Where the caller is cancelled, the process goes on to the end, and its result is left.
        """
        async with self._free:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._threads, self._ask, name, raw, caller)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # Until then, its thread and its process are not free.
                with suppress(Exception):
                    await work
                raise

    def close(self) -> None:
        """End the processes."""
        for process in list(self.alive):
            process.process.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, name: str, raw: bytes, caller: tuple[str, ...]) -> Read | bytes:
        """Give a body to a process that is idle, or to a new one. Called in a thread."""
        process = self.idle.pop() if self.idle else self._started()
        try:
            result = process.ask(name, raw, caller)
        except (EOFError, OSError) as error:
            self.alive.discard(process)
            if process.end() or self._works:
                problem = "the process that read the request ended; try again"
                raise ApiError(503, problem) from error
            return self._here(name, raw, caller)
        self._works = True
        self.idle.append(process)
        if isinstance(result, str):
            raise RuntimeError(result)  # noqa: TRY004 (a traceback)
        if isinstance(result, ApiError):
            raise result
        return result

    def _here(self, name: str, raw: bytes, caller: tuple[str, ...]) -> Read | bytes:
        """Work on a body where no process starts: in a program without a `__main__` guard."""
        self.processes = 0
        advice = "call it under `if __name__ == '__main__'`, or set `readers` to 0"
        LOG.warning("readers", extra={"fields": {"problem": "no process starts", "advice": advice}})
        return worked(name, raw, self.reader, caller)

    def _started(self) -> _Process:
        process = _Process(self.reader.codec, self.reader.settings, self.reader.store)
        self.alive.add(process)
        return process


class _Process:
    """One process, with one request at a time."""

    def __init__(self, codec: Codec, settings: Settings, store: Finder | None) -> None:
        self.store = store
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(theirs, codec, settings), name="chatcodec-reader", daemon=True
        )
        self.process.start()
        theirs.close()

    def ask(self, name: str, raw: bytes, caller: tuple[str, ...]) -> Read | bytes | ApiError | str:
        """Give a body, wait, and take the result, an error, or a traceback.

        Answers what the process asks the store of this one meanwhile.
        """
        self.connection.send((name, caller))
        self.connection.send_bytes(raw)
        result: Read | ApiError | str | None
        asked: Any
        while isinstance(asked := pickle.loads(self.connection.recv_bytes()), Find):  # noqa: S301 (of an own process)
            self.connection.send(asked.answer(self.store))
        result = asked
        if result is None:
            return self.connection.recv_bytes()
        if not isinstance(result, Read):
            return result
        ids = array("i", self.connection.recv_bytes())
        written = Written(self.connection.recv_bytes())
        return replace(result, prompt=replace(result.prompt, ids=ids, written=written))

    def end(self) -> bool:
        """End the process, whatever it does; say whether something else had killed it."""
        self.connection.close()
        self.process.join(_LAST_WORDS)
        was_killed = (self.process.exitcode or 0) < 0
        self.process.kill()
        return was_killed


def _serve(connection: Connection, codec: Codec, settings: Settings) -> None:
    """Read what comes, until the gateway is gone."""
    # A terminal sends its signals to all processes; this one ends when its gateway does.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):
            signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    reader = Reader(codec, settings, FarStore(connection) if settings.memory else None)
    with suppress(EOFError, OSError):
        while True:
            name, caller = connection.recv()
            for part in _parts(name, connection.recv_bytes(), reader, caller):
                connection.send_bytes(part)


def worked(name: str, raw: bytes, reader: Reader, caller: tuple[str, ...]) -> Read | bytes:
    """Read a body for the API of a name, or give the answer for a path. Raises `ApiError`."""
    if name in SMALL:
        return made(name, raw, reader)
    api = next(each for each in APIS if each.name == name)
    return reader.read(api, parse_body(raw), *caller)


def _parts(
    name: str, raw: bytes, reader: Reader, caller: tuple[str, ...]
) -> list[bytes | array[int]]:
    """Work on a body; give what the result is, and its large parts."""
    try:
        result = worked(name, raw, reader, caller)
    except ApiError as error:
        return [pickle.dumps(error)]
    except Exception:  # noqa: BLE001 (whatever it is, the gateway logs it)
        return [pickle.dumps(traceback.format_exc())]
    if isinstance(result, bytes):
        return [pickle.dumps(None), result]
    prompt = result.prompt
    # What the answer does not need is not sent: a conversation of 7 MB, for example.
    unused: dict[str, Any] = {"codec": None, "messages": [], "places": (), "dropped": ()}
    bare = replace(
        result,
        request=replace(result.request, **unused),
        prompt=replace(prompt, ids=array("i"), written=Written()),
    )
    return [pickle.dumps(bare, pickle.HIGHEST_PROTOCOL), prompt.ids.tobytes(), prompt.written]
