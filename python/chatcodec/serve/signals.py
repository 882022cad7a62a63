"""Signals that must not end a gateway: SIGHUP reads its keys again, SIGUSR1 and 2 do nothing."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["HANGUP", "ignore_signals", "on_hangup", "without_hangups"]

HANGUP: int | None = getattr(signal, "SIGHUP", None)
"""The signal to read keys again; None on Windows, which has none."""

_HARMLESS = [
    getattr(signal, name) for name in ("SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
]


def ignore_signals() -> None:
    """Ignore signals whose default is to end the process.

    A process does so before it has keys to read again: it reads them after that anyway.
    """
    for number in _HARMLESS:
        signal.signal(number, signal.SIG_IGN)
    if HANGUP is not None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {HANGUP})


@contextmanager
def without_hangups() -> Iterator[None]:
    """Hold SIGHUP back, also in processes that are started, until they ignore or handle it."""
    if HANGUP is None:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {HANGUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def on_hangup(do: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGHUP, in the running loop; only the main thread gets signals."""
    loop = asyncio.get_running_loop()
    try:
        if HANGUP is not None:
            loop.add_signal_handler(HANGUP, do)
    except (ValueError, RuntimeError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        if HANGUP is not None:
            loop.remove_signal_handler(HANGUP)
            signal.signal(HANGUP, signal.SIG_IGN)
