"""Chunks as server-sent events, the way each API writes them: bytes for the body of a response.

JSON is ASCII here: some clients take U+2028 and U+0085, which JSON may hold as they are, for the
end of a line. Writing JSON costs several times what an adapter does; `Lines` writes it once for
all deltas that differ in their text alone, and then costs a fraction.
"""

from __future__ import annotations

from json import JSONEncoder
from typing import TYPE_CHECKING

from chatcodec.events import ActionDelta, ActionStart, Event, Reasoning, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec.adapters._adapter import Adapter, Chunk, Usage

__all__ = ["DONE", "Lines", "data", "event"]

DONE = b"data: [DONE]\n\n"
"""The end of a stream of chat completion chunks."""

_encode = JSONEncoder(separators=(",", ":")).encode


def data(chunk: Chunk) -> bytes:
    """Write a chunk as chat completions do: `data: {…}`."""
    return b"data: %b\n\n" % _encode(chunk).encode("ascii")


def event(chunk: Chunk) -> bytes:
    """Write an event as Responses and Anthropic do: its `type` as `event: …`, then `data: {…}`."""
    return b"event: %b\n%b" % (str(chunk["type"]).encode("ascii"), data(chunk))


class Lines:
    """An adapter's response as bytes: the chunks of each push, written by `data` or `event`.

    It takes the adapter over: what is pushed here is not to be pushed there.
    """

    def __init__(self, adapter: Adapter) -> None:
        """Take the adapter of a response that has not begun."""
        self.adapter = adapter
        self._write = event if adapter.named_events else data
        self._begun = False
        self._code = False
        # The kind of the last event, and the index of its call, if the next one of the same makes
        # the same line but for the text before the tail, and a number after the head.
        self._kind: type[Event] | None = None
        self._index: int | None = None
        self._head = b""
        self._after_number = b""
        self._tail = b""

    def push(self, events: Iterable[Event], logprobs: Iterable[Chunk] = ()) -> bytes:
        """Return the bytes that events add to the response; often none: `b""`."""
        lines: list[bytes] = []
        if not self._begun:
            self._begun = True
            lines += map(self._write, self.adapter.push((), logprobs))
        elif self.adapter.logprobs:
            self.adapter.push((), logprobs)
        for event_ in events:
            if (
                type(event_) is self._kind
                and isinstance(event_, (Text, ActionDelta, Reasoning))
                and event_.text
                and (not isinstance(event_, ActionDelta) or event_.index == self._index)
            ):
                text = _encode(event_.text).encode("ascii")
                if self.adapter.numbered:
                    number = b"%d" % self.adapter.repeat(event_.text)
                    lines += (self._head, number, self._after_number, text, self._tail)
                else:
                    lines += (self._head, text, self._tail)
            else:
                lines += self._lines(event_)
        return b"".join(lines)

    def finish(self, usage: Usage | None = None) -> bytes:
        """Write the end of the response, `DONE` where the API has it."""
        self._kind = None
        chunks = self.adapter.finish(usage)
        done = DONE if chunks and self.adapter.ends_with_done else b""
        return b"".join(map(self._write, chunks)) + done

    def _lines(self, event_: Event) -> list[bytes]:
        lines = [*map(self._write, self.adapter.push((event_,)))]
        self._kind = None
        if isinstance(event_, ActionStart):
            self._code = event_.kind == "code"
        elif (
            len(lines) == 1
            and self.adapter.repeats
            and isinstance(event_, (Text, ActionDelta, Reasoning))
        ):
            self._learn(lines[0], event_)
        return lines

    def _learn(self, line: bytes, event_: Text | ActionDelta | Reasoning) -> None:
        """Take what is around a delta's text, if there is one place where the text can be.

        Code is text in a JSON string in another; its deltas are written one by one.
        """
        parts = line.split(_encode(event_.text).encode("ascii"))
        if len(parts) == 2 and not (isinstance(event_, ActionDelta) and self._code):  # noqa: PLR2004
            head, self._tail = parts
            if self.adapter.numbered:
                before, key, after = head.partition(b'"sequence_number":')
                head, self._after_number = before + key, after.lstrip(b"0123456789")
            self._head = head
            self._kind = type(event_)
            self._index = event_.index if isinstance(event_, ActionDelta) else None
