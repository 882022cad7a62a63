"""Prompts of requests that are being answered, kept for the reading of their answers.

Some engines give the prompt to no one when an answer comes, only the request. An answer is read
from the state that its prompt ends in, so one whose prompt is not known cannot be read.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any

from chatcodec.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Prompts", "lost"]

_LOG = logging.getLogger(__name__)


class Prompts:
    """The ids of prompts, by the request objects that asked for them."""

    def __init__(self, engine: str) -> None:
        """Take the engine's name, for errors."""
        self._engine = engine
        # Requests have no hash, so they are found by `id()`, which the reference frees in time.
        self._kept: dict[int, tuple[weakref.ref[Any], Sequence[int]]] = {}

    def __len__(self) -> int:
        """Return the number of prompts that are kept."""
        return len(self._kept)

    def keep(self, request: Any, ids: Sequence[int]) -> None:  # noqa: ANN401
        """Keep a prompt for as long as its request lives."""
        key = id(request)

        def forget(dead: weakref.ref[Any]) -> None:
            kept = self._kept.get(key)
            if kept is not None and kept[0] is dead:
                del self._kept[key]

        self._kept[key] = (weakref.ref(request, forget), ids)

    def of(self, request: Any) -> Sequence[int]:  # noqa: ANN401
        """Return the prompt of a request. Raises `PluginError`, and logs it, where none is kept."""
        kept = self._kept.get(id(request))
        if kept is None:
            raise lost(self._engine)
        return kept[1]


def lost(engine: str) -> PluginError:
    """Log that a prompt is not known, and return the error that refuses its request."""
    error = PluginError(
        f"chatcodec's plug-in: {engine} asks for the answer of a request whose prompt the plug-in "
        "does not know, so the answer would be read from the wrong state. The request may have "
        f"been copied on its way: report it with the version of {engine}, and use the gateway "
        "until then (docs/gateway.md)",
        engine=engine,
    )
    _LOG.error("%s", error)
    return error
