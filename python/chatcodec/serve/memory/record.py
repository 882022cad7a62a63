"""From an engine's answer to the turn that a store keeps."""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING, Any

from chatcodec import collect
from chatcodec.adapters import openai_chat
from chatcodec.adapters._custom import as_functions
from chatcodec.events import TurnEnd
from chatcodec.serve.memory.said import said_of
from chatcodec.serve.memory.turns import Turn, id_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Stream
    from chatcodec.adapters import Request
    from chatcodec.adapters.stops import StopStrings
    from chatcodec.events import Event
    from chatcodec.serve.completions import TextStream
    from chatcodec.serve.memory.recall import Recalled

__all__ = ["turn_of"]

_SHOWN = ("tool_choice", "parallel_tool_calls", "custom")
"""Options of an adapter that say what of an answer a client sees."""


def turn_of(  # noqa: PLR0913
    *,
    recalled: Recalled,
    request: Request,
    prompt: array[int],
    stream: Stream | TextStream,
    sampled: Sequence[int],
    logprobs: Sequence[float],
    reason: str,
    stops: StopStrings,
    id: str,  # noqa: A002
    choice: int,
) -> Turn:
    """Make the turn of an answer: its ids, and the key of what the client was told.

    `stream` begins after the prompt. The answer is read once more, as a whole.
    """
    ids = list(sampled if request.limit is None else sampled[: request.limit])
    events = stream.push(ids)
    ends = (event.tokens[1] for event in events if isinstance(event, TurnEnd))
    ids = ids[: next(ends, len(ids))]
    events += stream.finish("length" if reason == "length" else "stop")
    read = collect(events)
    if stops.strings or "tool_calls" in read:
        message = _shown(events, request, stops, id, choice)
    else:
        message = {"role": "assistant", "content": read["content"]}
    reasoning = read.get("reasoning") or ""
    opened = None
    if recalled.said is not None:
        opened = len(recalled.said)
        message["content"] = recalled.said + (message.get("content") or "")
        reasoning = recalled.reasoning + reasoning
    said = said_of([message])
    told = [call.id for call in said.calls]
    own = [str(call.get("id") or "") for call in read.get("tool_calls", ())]
    key = said.key_after(recalled.base)
    appended = prompt[recalled.ids :].tobytes()
    raw = array("i", ids).tobytes()
    id_ = id_of(key, recalled.before, appended, raw)
    return Turn(
        key=key,
        id=id_,
        before=recalled.before,
        root=recalled.root or id_,
        number=recalled.number,
        appended=appended,
        sampled=raw,
        logprobs=array("f", logprobs[: len(ids)]).tobytes(),
        reasoning=reasoning,
        calls=tuple(zip(told, own, strict=False)),
        others=recalled.others,
        opened=opened,
        notes=recalled.notes,
        made=time.time(),
        client=recalled.client,
        session=recalled.session,
        answer=id,
        choice=choice,
        message=recalled.message,
    )


def _shown(
    events: Sequence[Event],
    request: Request,
    stops: StopStrings,
    id: str,  # noqa: A002
    choice: int,
) -> dict[str, Any]:
    """Give an answer as its client saw it: up to a stop string, and with the ids of its calls."""
    shown: dict[str, Any] = {key: request.adapter[key] for key in _SHOWN if key in request.adapter}
    adapter = openai_chat.ChunkStream(id=id, model="", choice=choice, **shown)
    chunks = adapter.push(stops.push(events)) + adapter.push(stops.finish()) + adapter.finish()
    message: dict[str, Any] = openai_chat.collect(chunks)["choices"][0]["message"]
    as_functions([message])
    return message
