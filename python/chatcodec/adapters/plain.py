"""Small dicts for a protocol of your own, and the message that they make.

| `type` | keys |
|---|---|
| `text`, `reasoning` | `text` |
| `call` | `index`, `id`, `kind`: `function` or `code`, `name`: the function's, or the language |
| `call_delta` | `index`, `text`: of the arguments, or of the code |
| `call_end` | `index`, `complete` |
| `end` | `reason`, as of `TurnEnd`; None for a turn without an end; `usage`, if it was given |
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.adapters._adapter import Adapter, Call, Chunk, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec.events import Reasoning, Text

__all__ = ["DeltaStream", "collect"]


@dataclass(kw_only=True, eq=False, slots=True)
class DeltaStream(Adapter):
    """Events to deltas. Code stays code here: `code_name` and `code_language` are not used."""

    id: str = ""
    """The id of the response; calls are `call_0` … without one."""

    named_events: ClassVar[bool] = False

    _code_is_json: ClassVar[bool] = False

    def _text(self, event: Text) -> None:
        self._chunks.append({"type": "text", "text": event.text})

    def _reasoning(self, event: Reasoning) -> None:
        self._chunks.append({"type": "reasoning", "text": event.text})

    def _call_start(self, call: Call) -> None:
        kind, name = ("code", call.language) if call.code else ("function", call.name)
        self._chunks.append(
            {"type": "call", "index": call.number, "id": call.id, "kind": kind, "name": name}
        )

    def _call_delta(self, call: Call, text: str) -> None:
        self._chunks.append({"type": "call_delta", "index": call.number, "text": text})

    def _call_end(self, call: Call, *, complete: bool) -> None:
        self._chunks.append({"type": "call_end", "index": call.number, "complete": complete})

    def _close(self, usage: Usage | None) -> None:
        end: Chunk = {"type": "end", "reason": self.reason}
        self._chunks.append(end if usage is None else {**end, "usage": asdict(usage)})


def collect(deltas: Iterable[Chunk]) -> dict[str, Any]:
    """Fold deltas into the assistant's message, as `Codec.encode` takes it."""
    texts: dict[str, list[str]] = {"text": [], "reasoning": []}
    calls: list[tuple[Chunk, list[str]]] = []
    for delta in deltas:
        match delta["type"]:
            case "text" | "reasoning" as type_:
                texts[type_].append(delta["text"])
            case "call":
                calls.append((delta, []))
            case "call_delta":
                calls[delta["index"]][1].append(delta["text"])
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts["text"])}
    if texts["reasoning"]:
        message["reasoning"] = "".join(texts["reasoning"])
    if calls:
        message["tool_calls"] = [_call(call, "".join(parts)) for call, parts in calls]
    return message


def _call(call: Chunk, whole: str) -> dict[str, Any]:
    if call["kind"] == "code":
        body = {"language": call["name"], "source": whole}
        if call["name"] is None:
            del body["language"]
    else:
        body = {"name": call["name"], "arguments": whole}
    return {"id": call["id"], "type": call["kind"], call["kind"]: body}
