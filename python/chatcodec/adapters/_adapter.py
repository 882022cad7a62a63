"""The shared part of all adapters: reads one assistant's message from events, one item at a time.

A shape says what to write when the message opens, for text, for reasoning, for a call and its
arguments, and at the end. Any sequence of events is fine: what begins closes what is open, and what
fits nowhere is not shown. Cost: a dispatch and a dict per event; nothing is kept but what a shape
repeats at the end, and the arguments of a call whose name is not known yet.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from chatcodec.adapters._custom import input_of
from chatcodec.adapters._logprobs import Entries
from chatcodec.events import (
    ActionDelta,
    ActionEnd,
    ActionStart,
    Event,
    Reasoning,
    Text,
    TurnEnd,
    TurnStart,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

Chunk: TypeAlias = dict[str, Any]
"""A piece of a response, ready for JSON."""

ENDED = frozenset({"stop", "action", "implicit"})
"""The reasons of turns that a model ended; any other turn was cut short."""

KIND = re.compile(r"^[a-z]+[-_]")
"""The prefixes of response ids: `chatcmpl-`, `resp_`, `msg_`."""

quote = JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The usage of a response, in ids. Each API has its own names for it."""

    prompt_tokens: int
    """Number of ids of the prompt, cached ones included."""
    completion_tokens: int
    """Number of generated ids, reasoning included."""
    reasoning_tokens: int = 0
    """Number of generated ids of reasoning."""
    cached_tokens: int | None = None
    """Number of cached ids of the prompt. None where the engine does not say: then it is absent
    from the response, except from Responses, whose schema requires it."""


class Call:
    """A call: of a function, or of code as a function."""

    __slots__ = (
        "code",
        "custom",
        "held",
        "id",
        "index",
        "language",
        "name",
        "number",
        "written_id",
        "wrote",
    )

    def __init__(self, event: ActionStart, code_name: str, code_language: str | None) -> None:
        """Read the event that starts the call.

        Code is a call of `code_name`, or of its own language where that is another.
        """
        self.index = event.index
        self.code = event.kind == "code"
        own = event.name or code_language
        self.name = code_name if self.code and own == code_language else event.name
        self.language = event.name if self.code else None
        self.written_id = event.id
        """The id that the model wrote."""
        self.id = ""
        """The id that clients see."""
        self.number = 0
        """Its index among the shown calls."""
        self.wrote = False
        """Whether a part of its arguments was shown."""
        self.held: list[str] | None = []
        """Its arguments so far, until it is shown."""
        self.custom: list[str] | None = None
        """Its arguments so far, if it is of a custom tool."""


@dataclass(kw_only=True, eq=False, slots=True)
class Adapter(ABC):
    """One assistant's message in the shape of an API. Every shape has these options.

    An adapter is for one response and one thread. It knows no clock and draws no random numbers:
    what it says depends on the events and its options alone.
    """

    id: str
    """The id of the response. Ids of calls and items are made from its part after `chatcmpl-`."""
    code_name: str = "code_interpreter"
    """The function's name for a call of code, with arguments `{"code": …}`."""
    code_language: str | None = "python"
    """The language of such code, and of code without one. Code in another, or for another tool
    (`browser.search`), is a call of a function of that name, with such arguments."""
    call_id: Callable[[int], str] | None = None
    """Makes the id of a call from its number, where the model writes none. By default `call_`, the
    response's id and the number."""
    wait_for_ids: bool = False
    """Whether a call is held until its end for the id that the model may write there. Otherwise
    a call is shown as soon as it has a name, and an id that comes later goes to `on_hidden`."""
    on_hidden: Callable[[Event], object] | None = None
    """Is called with every event that no chunk shows: notices, reasoning that was not asked for,
    calls that the request does not allow, other turns and what they say."""
    tool_choice: str | Mapping[str, Any] = "auto"
    """The request's `tool_choice`. With `"none"`, no call is shown. Where it names a function, the
    response ends with the reason that the API has for that."""
    parallel_tool_calls: bool = True
    """The request's `parallel_tool_calls`. Without, the first call is shown alone."""
    custom: Collection[str] = ()
    """The names of custom tools: a call of one is told as its input, a text, at its end."""
    logprobs: bool = False
    """Whether deltas of text carry the log probabilities that `push` is given, in shapes that have
    a place for them: chat completions and Responses."""

    reason: str | None = field(default=None, init=False)
    """The reason of the `TurnEnd`; None before it. No later event is shown."""
    stop_string: str | None = field(default=None, init=False)
    """The stop string that ended the turn, for APIs that tell it: `StopStrings.matched`, to be set
    before `finish`; `chatcodec.adapters.run` does."""

    named_events: ClassVar[bool] = True
    """Whether the API names its events in lines `event: …`."""
    ends_with_done: ClassVar[bool] = False
    """Whether a line `[DONE]` ends its streams."""
    numbered: ClassVar[bool] = False
    """Whether each event has a `sequence_number`, after its type."""

    _prefix: ClassVar[str] = "call"
    _code_is_json: ClassVar[bool] = True

    _chunks: list[Chunk] = field(default_factory=list, init=False, repr=False)
    _started: bool = field(default=False, init=False, repr=False)
    _finished: bool = field(default=False, init=False, repr=False)
    _hidden: bool = field(default=False, init=False, repr=False)
    _call: Call | None = field(default=None, init=False, repr=False)
    _call_ids: set[str] = field(default_factory=set, init=False, repr=False)
    _tokens: int = field(default=0, init=False, repr=False)
    _entries_of: Entries = field(default_factory=Entries, init=False, repr=False)

    def push(self, events: Iterable[Event], logprobs: Iterable[Chunk] = ()) -> list[Chunk]:
        """Return the pieces that events add. The first push, even of no events, opens the response.

        `logprobs` are the entries of the ids that were pushed to the stream since the last call,
        one for each id in order, in the shape of the API; `openai_chat.logprob` makes them. A delta
        of text carries those whose bytes it completes, whenever it comes, so that the entries of
        an answer, joined, are its content. Entries of other ids are left out.
        """
        if self.logprobs:
            self._entries_of.add(logprobs)
        chunks: list[Chunk] = []
        self._chunks = chunks
        if not self._started:
            self._started = True
            self._open()
        for event in events:
            call = self._call
            if self._hidden:
                self._hide(event)
            elif isinstance(event, Text) and call is None and event.text:
                self._text(event)
            elif isinstance(event, ActionDelta) and call is not None and call.index == event.index:
                self._write(call, event.text)
            elif isinstance(event, Reasoning) and call is None and event.text:
                self._reasoning(event)
            else:
                self._shape(event)
        return chunks

    def finish(self, usage: Usage | None = None) -> list[Chunk]:
        """End the response. Push nothing after it.

        Push what `Stream.finish` gave before: a turn without an end counts as cut short.
        """
        if self._finished:
            return []
        chunks = self.push(())
        self._end_call(complete=False)
        self._finished = self._hidden = True
        self._close(usage)
        return chunks

    @property
    def repeats(self) -> bool:
        """Whether deltas of one kind differ only in their text."""
        return not self.logprobs

    def repeat(self, text: str) -> int:  # noqa: ARG002
        """Record a delta that differs from the last only in its text; return its number, if any.

        For `sse.Lines`, which has written it.
        """
        return 0

    def _shape(self, event: Event) -> None:
        """Handle an event that opens or closes an item."""
        match event:
            case Text(text="") | Reasoning(text="") | TurnStart(role="assistant"):
                pass
            case Text():
                self._end_call(complete=False)
                self._text(event)
            case Reasoning():
                self._end_call(complete=False)
                self._reasoning(event)
            case ActionStart():
                self._end_call(complete=False)
                if self._allows_call:
                    self._begin_call(event)
                else:
                    self._tell_hidden(event)
            case ActionEnd(index) if self._call is not None and self._call.index == index:
                self._name_call(self._call, event)
                self._end_call(complete=event.complete)
            case TurnStart():
                self._hidden = True
                self._tell_hidden(event)
            case TurnEnd(reason):
                self._end_call(complete=False)
                self.reason = reason
                self._tokens = event.tokens[1]
                self._hidden = True
            case _:
                self._tell_hidden(event)

    def _hide(self, event: Event) -> None:
        """Handle an event after the turn, or of another turn."""
        over = self._finished or self.reason is not None
        if isinstance(event, TurnStart) and event.role == "assistant" and not over:
            self._hidden = False
        else:
            self._tell_hidden(event)

    def _tell_hidden(self, event: Event) -> None:
        if self.on_hidden is not None:
            self.on_hidden(event)

    def _logprobs_of(self, event: Text) -> list[Chunk]:
        """Take the entries that an event's text completes."""
        return self._entries_of.of(event.text, *event.tokens)

    # Calls.

    @property
    def _allows_call(self) -> bool:
        """Whether the request allows one more call."""
        return self.tool_choice != "none" and (self.parallel_tool_calls or not self._call_ids)

    def _begin_call(self, event: ActionStart) -> None:
        self._call = call = Call(event, self.code_name, self.code_language)
        waits = call.name is None or (self.wait_for_ids and not call.written_id)
        if not waits:
            self._show_call(call)

    def _name_call(self, call: Call, event: ActionEnd) -> None:
        """Record a name and an id that follow the arguments."""
        if call.held is not None:
            call.name = call.name if call.name is not None else event.name
            call.written_id = call.written_id or event.id
        elif event.id and event.id != call.written_id:
            self._tell_hidden(event)

    def _show_call(self, call: Call) -> None:
        held, call.held = call.held, None
        call.number = len(self._call_ids)
        call.name = call.name or ""
        call.custom = [] if call.name in self.custom else None
        call.id = self._unused_id(call)
        self._call_ids.add(call.id)
        self._call_start(call)
        if call.code and self._code_is_json:
            self._call_delta(call, '{"code": "')
        for text in held or ():
            self._write(call, text)

    def _unused_id(self, call: Call) -> str:
        """Make an id that is unique among the calls of the response."""
        made = call.written_id
        if not made or made in self._call_ids:
            made = self.call_id(call.number) if self.call_id else self._made_id(call.number)
        while made in self._call_ids:
            made += "_"
        return made

    def _made_id(self, number: int, prefix: str = "") -> str:
        own = KIND.sub("", self.id)
        return "_".join(filter(None, (prefix or self._prefix, own, self._branch, str(number))))

    @property
    def _branch(self) -> str:
        """The part of an id that distinguishes the choices of a response."""
        return ""

    def _write(self, call: Call, text: str) -> None:
        if call.held is not None:
            call.held.append(text)
        elif call.custom is not None:
            call.custom.append(text)
        elif text:
            call.wrote = True
            self._call_delta(call, quote(text)[1:-1] if call.code and self._code_is_json else text)

    def _end_call(self, *, complete: bool) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        if call.held is not None:
            self._show_call(call)
        if call.custom is not None:
            self._call_delta(call, input_of("".join(call.custom)))
        elif not call.code:
            # A complete call without arguments has an empty object.
            if complete and not call.wrote:
                self._call_delta(call, "{}")
        elif self._code_is_json:
            self._call_delta(call, '"}')
        self._call_end(call, complete=complete)

    @property
    def _cut(self) -> bool:
        """Whether the turn was cut short."""
        return self.reason not in ENDED

    # The methods of an API's adapter.

    def _open(self) -> None:  # noqa: B027
        """Return the pieces at the beginning of the response."""

    @abstractmethod
    def _text(self, event: Text) -> None: ...

    @abstractmethod
    def _reasoning(self, event: Reasoning) -> None: ...

    @abstractmethod
    def _call_start(self, call: Call) -> None: ...

    @abstractmethod
    def _call_delta(self, call: Call, text: str) -> None: ...

    def _call_end(self, call: Call, *, complete: bool) -> None:  # noqa: B027
        """Return the pieces at the end of a call."""

    @abstractmethod
    def _close(self, usage: Usage | None) -> None: ...
