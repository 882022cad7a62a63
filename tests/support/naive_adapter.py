"""What a response says of any events, by the rules of adapters in their plainest words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
from clients import CODE, Seen

if TYPE_CHECKING:
    from collections.abc import Iterator


class Twin:
    """What is seen of events, and which of them are hidden. `finish` is the turn's own reason."""

    def __init__(self, events: list[Event], prefix: str, *, wait: bool = False) -> None:
        self.prefix, self.wait = prefix, wait
        self.seen = Seen()
        self.hidden_at: list[int] = []
        self.ids: set[str] = set()
        self.call: dict[str, Any] | None = None
        for at, event in self.own(events):
            self.read(at, event)
        self.close()
        self.hidden = [events[at] for at in sorted(self.hidden_at)]

    def own(self, events: list[Event]) -> Iterator[tuple[int, Event]]:
        """The events of the first assistant's turn, which may begin without saying so."""
        own = True
        for at, event in enumerate(events):
            over = self.seen.finish is not None
            if isinstance(event, TurnStart):
                own = event.role == "assistant"
            if over or not own:
                self.hidden_at.append(at)
            elif not isinstance(event, TurnStart):
                yield at, event

    def read(self, at: int, event: Event) -> None:
        open_index = self.call and self.call["index"]
        match event:
            case Text("") | Reasoning(""):
                pass
            case Text(text):
                self.close()
                self.seen.text += text
            case Reasoning(text):
                self.close()
                self.seen.reasoning += text
            case ActionStart():
                self.close()
                self.begin(event)
            case ActionDelta(index, text) if self.call and index == open_index:
                self.call["source"] += text
            case ActionEnd(index) if self.call and index == open_index:
                if not self.call["held"] and event.id and event.id != self.call["id"]:
                    self.hidden_at.append(at)
                self.close(event)
            case TurnEnd(reason):
                self.close()
                self.seen.finish = reason
            case _:
                self.hidden_at.append(at)

    def begin(self, event: ActionStart) -> None:
        code = event.kind == "code"
        name = CODE if code and event.name in {None, "", "python"} else event.name
        held = name is None or (self.wait and not event.id)
        self.call = {"index": event.index, "code": code, "name": name, "id": event.id}
        self.call |= {"held": held, "made": None if held else self.take_id(event.id), "source": ""}

    def take_id(self, id_: str | None) -> str:
        made = id_ if id_ and id_ not in self.ids else f"{self.prefix}_7_{len(self.ids)}"
        while made in self.ids:
            made += "_"
        self.ids.add(made)
        return made

    def close(self, end: ActionEnd | None = None) -> None:
        call, self.call = self.call, None
        if call is None:
            return
        if call["held"] and end is not None:
            call["name"] = end.name if call["name"] is None else call["name"]
            call["id"] = call["id"] or end.id
        arguments = call["source"] or ("{}" if end is not None and end.complete else "")
        if call["code"]:
            arguments = json.dumps({"code": call["source"]}, ensure_ascii=False)
        made = call["made"] or self.take_id(call["id"])
        self.seen.calls.append((made, call["name"] or "", arguments))
