"""Anthropic's messages: events, and the message that they make.

Text, thinking and each call is a block of the content: started, told in deltas, stopped. A call's
input has to be a JSON object that clients can read, so arguments are told at their end: as they
were generated, or as `{"INVALID_JSON": "…"}` if they are none. With `eager_input` they are told as
they come.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatcodec.adapters._adapter import Adapter, Call, Chunk, Usage, quote
from chatcodec.adapters._history import INVALID, unwrap
from chatcodec.adapters._request import Body, Request
from chatcodec.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec import Codec
    from chatcodec.adapters._drops import OnParts
    from chatcodec.events import Reasoning, Text

__all__ = ["EventStream", "collect", "read_request"]

DEPTH = 128
"""Maximum nesting of an input; Anthropic's client reads 200 levels."""


@dataclass(kw_only=True, eq=False, slots=True)
class EventStream(Adapter):
    """Events to the events of a message, as dicts.

    `stop_reason` is `max_tokens` for a turn that was cut short, `stop_sequence` for one that a stop
    string ended, `tool_use` for one with calls, and `end_turn` otherwise. Without usage, the
    output's tokens are the ids up to the turn's end.
    """

    model: str
    """The name of the model."""
    prompt_tokens: int = 0
    """Number of ids of the prompt, for `message_start`."""
    thinking: bool = True
    """Whether reasoning is shown, as thinking with a signature that nothing checks."""
    eager_input: bool = False
    """Whether arguments are streamed, although the client raises if they are not JSON."""

    _block: str | None = field(default=None, init=False, repr=False)
    _blocks: int = field(default=0, init=False, repr=False)
    _input: list[str] = field(default_factory=list, init=False, repr=False)

    _prefix = "toolu"

    def _open(self) -> None:
        message: Chunk = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self.prompt_tokens, "output_tokens": 0},
        }
        self._chunks.append({"type": "message_start", "message": message})

    def _start(self, block: Chunk) -> None:
        self._stop()
        self._block = block["type"]
        self._chunks.append(
            {"type": "content_block_start", "index": self._blocks, "content_block": block}
        )

    def _stop(self) -> None:
        if self._block == "thinking":
            # Clients keep the signature and send it back; nothing here reads it.
            self._delta(
                {"type": "signature_delta", "signature": self._made_id(self._blocks, "sig")}
            )
        if self._block is not None:
            self._chunks.append({"type": "content_block_stop", "index": self._blocks})
            self._block = None
            self._blocks += 1

    def _delta(self, delta: Chunk) -> None:
        self._chunks.append({"type": "content_block_delta", "index": self._blocks, "delta": delta})

    def _text(self, event: Text) -> None:
        if self._block != "text":
            self._start({"type": "text", "text": ""})
        self._delta({"type": "text_delta", "text": event.text})

    def _reasoning(self, event: Reasoning) -> None:
        if not self.thinking:
            self._tell_hidden(event)
        else:
            if self._block != "thinking":
                self._start({"type": "thinking", "thinking": "", "signature": ""})
            self._delta({"type": "thinking_delta", "thinking": event.text})

    def _call_start(self, call: Call) -> None:
        self._start({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})

    def _call_delta(self, call: Call, text: str) -> None:
        del call
        if not self.eager_input:
            self._input.append(text)
        else:
            self._delta({"type": "input_json_delta", "partial_json": text})

    def _call_end(self, call: Call, *, complete: bool) -> None:
        del call, complete
        if not self.eager_input:
            whole, self._input = "".join(self._input), []
            if _object(whole) is None:
                whole = _invalid(whole) if whole else "{}"
            self._delta({"type": "input_json_delta", "partial_json": whole})
        self._stop()

    def _close(self, usage: Usage | None) -> None:
        self._stop()
        reason = "max_tokens" if self._cut else "tool_use" if self._call_ids else "end_turn"
        if self.stop_string is not None:
            reason = "stop_sequence"
        self._chunks.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": self.stop_string},
                "usage": {"output_tokens": self._tokens} if usage is None else _usage(usage),
            }
        )
        self._chunks.append({"type": "message_stop"})


def _usage(usage: Usage) -> dict[str, int]:
    if usage.cached_tokens is None:
        return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }


def _invalid(text: str) -> str:
    """Arguments that are not an object, inside one, as Anthropic documents for results."""
    return f'{{"{INVALID}": {quote(text)}}}'


def _object(text: str) -> dict[str, Any] | None:
    """Return arguments that are an object and safe for a client; None for others."""
    try:
        value = json.loads(text)
        if "\\u" in text:
            quote(value).encode()  # not if half of a surrogate pair is in it
    except (ValueError, RecursionError):
        return None
    deep = text.count("{") + text.count("[") > DEPTH and _is_deep(value)
    return value if isinstance(value, dict) and not deep else None


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for outer in level
            for inner in (
                outer.values()
                if isinstance(outer, dict)
                else outer
                if isinstance(outer, list)
                else ()
            )
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


UNREAD = {
    "mcp_servers": "give the model their tools as functions",
    "container": "give the model a function that runs code",
    "context_management": "send the messages that the model is to see",
}
"""Fields by which a server would change the prompt, with the alternative."""


def read_request(
    body: object,
    codec: Codec,
    *,
    on_unsupported: OnParts = "error",
    constrained: bool = False,
) -> Request:
    """Read the body of a request for a message, as `openai_chat.read_request` does.

    Read are `messages`, `system`, `tools`, `tool_choice`, `thinking`, `output_config.effort`,
    `chat_template_kwargs`, `stop_sequences` and the limit. An assistant's message at the end is
    continued. A budget for thinking and all other fields are in `Request.rest`.
    """
    read = Body(body, codec, on_unsupported, constrained=constrained)
    given = read.take("messages", list)
    if given is None:
        raise MessageError("`messages` is missing, expected a list of messages", "messages")
    unwrap(given)
    places = [f"messages[{at}]" for at in range(len(given))]
    messages, placed = read.system_first("system", given, places)
    choice = read.fields.pop("tool_choice", None)
    read.read_tools(read.take("tools", list), "tools", choice, "tool_choice")
    read.read_template_arguments()
    _read_thinking(read)
    if given and isinstance(given[-1], dict) and given[-1].get("role") == "assistant":
        read.fields.setdefault("continue_final_message", True)
    read.read_end()
    if _keeps_all(read.fields.get("context_management")):
        del read.fields["context_management"]
    read.refuse(UNREAD)
    stop = read.read_stop("stop_sequences")
    return read.request(messages, placed, stop, read.read_limit("max_tokens"))


def _keeps_all(management: object) -> bool:
    """Whether the rules for old messages leave all of them, as those of Claude Code do."""
    match management:
        case {"edits": list(edits), **rest} if not rest:
            return all(edit in KEEP_ALL for edit in edits)
    return management == {}


KEEP_ALL = [{"type": "clear_thinking_20251015", "keep": keep} for keep in ("all", {"type": "all"})]
"""Rules that clear nothing."""


def _read_thinking(read: Body) -> None:
    """Read whether to think, and how much; `adaptive` is a yes where the format can."""
    thinking = read.take("thinking", dict) or {}
    kind, rest = thinking.get("type"), {k: v for k, v in thinking.items() if k != "type"}
    match kind:
        case "enabled" | "disabled":
            read.think(kind == "enabled", "thinking")
        case "adaptive" if "thinking" in read.codec.format.options:
            read.think(value=True, path="thinking")
        case None | "adaptive":
            pass
        case _:
            known = '`"enabled"`, `"disabled"` or `"adaptive"`'
            problem = f"`thinking.type` is {kind!r:.80}, expected {known}"
            raise MessageError(problem, "thinking.type")
    if rest:
        read.fields["thinking"] = rest
    config = read.take("output_config", dict) or {}
    read.exert(
        read.check(config.pop("effort", None), "output_config.effort", str), "output_config.effort"
    )
    if config:
        read.fields["output_config"] = config


def collect(events: Iterable[Chunk]) -> dict[str, Any]:
    """Fold the events of a message into the message.

    Raises `ValueError` where `message_start` is not among them.
    """
    message: dict[str, Any] | None = None
    parts: list[str] = []
    for event in events:
        match event:
            case {"type": "message_start", "message": dict(start)}:
                message = {**start, "content": []}
            case _ if message is None:
                break
            case {"type": "content_block_start", "content_block": dict(block)}:
                message["content"].append({**block})
                parts = []
            case {"type": "content_block_delta", "delta": {"signature": str(signature)}}:
                message["content"][-1]["signature"] = signature
            case {"type": "content_block_delta", "delta": dict(delta)}:
                parts.append(delta[KEYS[delta["type"]]])
            case {"type": "content_block_stop"}:
                _fill(message["content"][-1], "".join(parts))
            case {"type": "message_delta", "delta": dict(delta), "usage": dict(usage)}:
                message |= delta
                message["usage"] = {**message["usage"], **usage}
    if message is None:
        raise ValueError("no `message_start`: an adapter's first push gives it")
    return message


KEYS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""The key of each delta's text."""


def _fill(block: Chunk, whole: str) -> None:
    if block["type"] == "tool_use":
        block["input"] = json.loads(_invalid(whole)) if (value := _object(whole)) is None else value
    else:
        block[block["type"]] = whole
