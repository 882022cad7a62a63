"""Stop strings, which end a response when its text contains one.

Engines that stop at a string do so between ids; the text of the last id may go past it.
`StopStrings` takes events and gives those that come before the string, cut at its first character.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatcodec.events import ActionStart, Event, Reasoning, Text, TurnEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["StopStrings"]


class StopStrings:
    """Events up to the first stop string in the text of a turn. For one response and one thread.

    The string is looked for in the text alone, wherever it is split; reasoning and arguments of
    calls may hold it. Text that may be its beginning is held back, as long as the longest string at
    most. Cost: linear in the text, for a few short strings.

    >>> stops = StopStrings(["END"])
    >>> stops.push([Text("a E")]), stops.push([Text("NDing"), Text("b")]), stops.matched
    ([Text(text='a ', tokens=(0, 0))], [TurnEnd(reason='stop', id=None, tokens=(0, 0))], 'END')
    """

    def __init__(self, strings: str | Sequence[str], *, keep: bool = False) -> None:
        """Take one string or several, and whether the string that is found is part of the text.

        `ValueError` for an empty one.
        """
        self._keep = keep
        self.strings = [strings] if isinstance(strings, str) else list(strings)
        """The stop strings."""
        if not all(self.strings):
            raise ValueError("a stop string is empty; expected one character or more")
        self._held: list[Text] = []
        self.matched: str | None = None
        """The stop string that was found; then the response is over."""

    def push(self, events: Iterable[Event]) -> list[Event]:
        """Return the events before a stop string; after it, none.

        Where the string begins, the turn ends: with a `TurnEnd` of the reason `stop`.
        """
        if not self.strings:
            return list(events)
        out: list[Event] = []
        for event in events:
            if self.matched is not None:
                break
            if isinstance(event, Text):
                self._held.append(event)
                self._search(out)
            else:
                if isinstance(event, (Reasoning, ActionStart, TurnEnd)):
                    self._release(out, len(self._text()))
                out.append(event)
        return out

    def finish(self) -> list[Event]:
        """Return the held text. Push the events of `Stream.finish` first."""
        out: list[Event] = []
        self._release(out, len(self._text()))
        return out

    def _text(self) -> str:
        return "".join(event.text for event in self._held)

    def _search(self, out: list[Event]) -> None:
        text = self._text()
        found = [(at, stop) for stop in self.strings if (at := text.find(stop)) >= 0]
        if found:
            # The string that is whole first, however the text is split; the longest of several.
            start, self.matched = min(found, key=lambda each: (each[0] + len(each[1]), each[0]))
            last = self._held[-1].tokens
            self._release(out, start + (len(self.matched) if self._keep else 0))
            self._held = []
            out.append(TurnEnd("stop", tokens=(last[1], last[1])))
        else:
            self._release(out, len(text) - self._overlap(text))

    def _overlap(self, text: str) -> int:
        """Return the length of the text's end that begins a stop string."""
        most = min(len(text), max(map(len, self.strings), default=1) - 1)
        ends = (text[-length:] for length in range(most, 0, -1))
        begins = (len(end) for end in ends if any(s.startswith(end) for s in self.strings))
        return next(begins, 0)

    def _release(self, out: list[Event], count: int) -> None:
        """Give so many characters of the held text; what is cut in two keeps its range."""
        while self._held and count > 0:
            event = self._held.pop(0)
            if len(event.text) > count:
                self._held.insert(0, Text(event.text[count:], event.tokens))
                event = Text(event.text[:count], event.tokens)
            count -= len(event.text)
            out.append(event)
