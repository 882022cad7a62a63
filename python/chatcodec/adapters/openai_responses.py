"""OpenAI's Responses: events, and the response that they make.

A message, reasoning and each call is an item of the output: added, told in deltas, done. The items
stand in the order in which they were generated. The last event has the whole response, so what was
generated is kept until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chatcodec.adapters._adapter import Adapter, Call, Chunk, Usage
from chatcodec.adapters._request import Body, Request
from chatcodec.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chatcodec import Codec
    from chatcodec.adapters._drops import OnParts
    from chatcodec.events import Reasoning, Text

__all__ = ["EventStream", "collect", "read_request"]

DEFAULTS: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""The fields that every response has, with what they are where a request says nothing."""

PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}
"""The prefixes of ids of items."""


@dataclass(kw_only=True, eq=False, slots=True)
class EventStream(Adapter):
    """Events to Responses' events, as dicts.

    A turn that was cut short ends with `response.incomplete`, any other with `response.completed`.
    """

    model: str
    """The name of the model."""
    created_at: int = 0
    """Time of the beginning of the response, in seconds since 1970."""
    reasoning: Literal["text", "summary"] | None = "text"
    """Whether reasoning is shown as its text or as a summary; None to leave it out."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the request that the response repeats: `instructions`, `tools` …"""

    numbered: ClassVar[bool] = True

    _sequence: int = field(default=0, init=False, repr=False)
    _output: list[Chunk] = field(default_factory=list, init=False, repr=False)
    _item: Chunk | None = field(default=None, init=False, repr=False)
    _parts: list[str] = field(default_factory=list, init=False, repr=False)
    _entries: list[Chunk] = field(default_factory=list, init=False, repr=False)

    def _say(self, type_: str, fields: Chunk) -> None:
        self._chunks.append({"type": type_, "sequence_number": self._sequence, **fields})
        self._sequence += 1

    def _response(self, status: str, usage: Usage | None = None) -> Chunk:
        cut = {"reason": "max_output_tokens"} if self.reason == "length" else None
        return {
            "response": {
                **DEFAULTS,
                **self.request,
                "id": self.id,
                "object": "response",
                "created_at": self.created_at,
                "completed_at": self.created_at if status == "completed" else None,
                "status": status,
                "error": None,
                "incomplete_details": cut,
                "model": self.model,
                "output": list(self._output),
                "usage": None if usage is None else _usage(usage),
            }
        }

    def repeat(self, text: str) -> int:
        """Take a delta that is like the last but for its text; give its number."""
        self._parts.append(text)
        self._sequence += 1
        return self._sequence - 1

    def _open(self) -> None:
        self._say("response.created", self._response("in_progress"))
        self._say("response.in_progress", self._response("in_progress"))

    def _close(self, usage: Usage | None) -> None:
        status = "incomplete" if self._cut else "completed"
        self._end_item(status)
        self._say(f"response.{status}", self._response(status, usage))

    def fail(self, code: str, message: str, param: str | None = None) -> list[Chunk]:
        """End the response with an error: of what went wrong on the way to its end.

        OpenAI's client raises the last event for its key `error`, and others read the one before.
        """
        if self._finished:
            return []
        chunks = self.push(())
        self._end_item("incomplete")
        response = self._response("failed")
        response["response"]["error"] = {"code": code, "message": message}
        self._say("response.failed", response)
        fields = {"code": code, "message": message, "param": param}
        self._say("error", {**fields, "error": {"type": code, **fields}})
        self._finished = self._hidden = True
        return chunks

    # Items. One is open at a time, and has one part at most.

    def _begin_item(self, type_: str, fields: Chunk) -> None:
        self._end_item("completed")
        place = len(self._output)
        item_id = self._made_id(place, PREFIXES[type_])
        self._item = {"type": type_, "id": item_id, "status": "in_progress", **fields}
        self._say("response.output_item.added", {"output_index": place, "item": self._item})

    def _place(self) -> Chunk:
        """Return the place of the open item, as fields of an event."""
        item_id = self._item["id"] if self._item else ""
        return {"item_id": item_id, "output_index": len(self._output)}

    def _end_item(self, status: str) -> None:
        item, whole = self._item, "".join(self._parts)
        if item is None:
            return
        done: Chunk = {}
        match item["type"]:
            case "message":
                entries, self._entries = self._entries + self._entries_of.rest(), []
                part = {**_text_part(whole), "logprobs": entries}
                self._end_part("response.output_text.done", whole, part, {"logprobs": entries})
                done = {"content": [part]}
            case "reasoning" if self.reasoning == "summary":
                place = {**self._place(), "summary_index": 0}
                part = {"type": "summary_text", "text": whole}
                self._say("response.reasoning_summary_text.done", {**place, "text": whole})
                self._say("response.reasoning_summary_part.done", {**place, "part": part})
                done = {"summary": [part]}
            case "reasoning":
                part = {"type": "reasoning_text", "text": whole}
                self._end_part("response.reasoning_text.done", whole, part, {})
                done = {"content": [part]}
            case "function_call":
                fields = {**self._place(), "arguments": whole}
                self._say("response.function_call_arguments.done", fields)
                done = {"arguments": whole}
            case "custom_tool_call":
                self._say("response.custom_tool_call_input.done", {**self._place(), "input": whole})
                done = {"input": whole}
        item = {**item, **done, "status": status}
        self._say("response.output_item.done", {"output_index": len(self._output), "item": item})
        self._output.append(item)
        self._item = None
        self._parts = []

    def _end_part(self, type_: str, whole: str, part: Chunk, more: Chunk) -> None:
        place = {**self._place(), "content_index": 0}
        self._say(type_, {**place, "text": whole, **more})
        self._say("response.content_part.done", {**place, "part": part})

    # The contents of items.

    def _text(self, event: Text) -> None:
        if self._item is None or self._item["type"] != "message":
            self._begin_item("message", {"role": "assistant", "content": []})
            place = {**self._place(), "content_index": 0}
            self._say("response.content_part.added", {**place, "part": _text_part("")})
        logprobs = self._logprobs_of(event) if self.logprobs else []
        self._entries += logprobs
        place = {"content_index": 0, "logprobs": logprobs}
        self._delta("response.output_text.delta", event.text, place)

    def _reasoning(self, event: Reasoning) -> None:
        summary = self.reasoning == "summary"
        if self.reasoning is None:
            return self._tell_hidden(event)
        if self._item is None or self._item["type"] != "reasoning":
            if summary:
                self._begin_item("reasoning", {"summary": []})
                part = {"summary_index": 0, "part": {"type": "summary_text", "text": ""}}
                added = "response.reasoning_summary_part.added"
            else:
                self._begin_item("reasoning", {"summary": [], "content": []})
                part = {"content_index": 0, "part": {"type": "reasoning_text", "text": ""}}
                added = "response.content_part.added"
            self._say(added, {**self._place(), **part})
        if summary:
            kind, place = "response.reasoning_summary_text.delta", {"summary_index": 0}
        else:
            kind, place = "response.reasoning_text.delta", {"content_index": 0}
        self._delta(kind, event.text, place)
        return None

    def _call_start(self, call: Call) -> None:
        fields = {"call_id": call.id, "name": call.name}
        if call.custom is None:
            self._begin_item("function_call", {**fields, "arguments": ""})
        else:
            self._begin_item("custom_tool_call", {**fields, "input": ""})

    def _call_delta(self, call: Call, text: str) -> None:
        kind = "function_call_arguments" if call.custom is None else "custom_tool_call_input"
        self._delta(f"response.{kind}.delta", text, {})

    def _call_end(self, call: Call, *, complete: bool) -> None:
        del call
        self._end_item("completed" if complete else "incomplete")

    def _delta(self, type_: str, text: str, place: Chunk) -> None:
        self._parts.append(text)
        self._say(type_, {**self._place(), **place, "delta": text})


def _text_part(text: str) -> Chunk:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


UNREAD = {
    "previous_response_id": "send the items of the response in `input`",
    "conversation": "send its items in `input`",
    "prompt": "send its text in `instructions` and `input`",
}
"""Fields that refer to a server's state, with the alternative."""

REPEATED = tuple(
    key
    for key in DEFAULTS
    if key not in {"background", "previous_response_id", "service_tier", "store"}
)
"""The fields of the request that a response repeats."""


def read_request(
    body: object,
    codec: Codec,
    *,
    on_unsupported: OnParts = "error",
    constrained: bool = False,
) -> Request:
    """Read the body of a request for a response, as `openai_chat.read_request` does.

    Read are `input`, `instructions`, `tools`, `tool_choice`, `parallel_tool_calls`, `reasoning`,
    `include`, `chat_template_kwargs` and the limit. All other fields are in `Request.rest`.
    """
    read = Body(body, codec, on_unsupported, constrained=constrained)
    read.adapter["request"] = {key: read.fields[key] for key in REPEATED if key in read.fields}
    given = read.take("input", (str, list))
    if given is None:
        raise MessageError("`input` is missing, expected a text or a list of items", "input")
    if isinstance(given, str):
        items, places = [{"role": "user", "content": given}], ["input"]
    else:
        items, places = given, [f"input[{at}]" for at in range(len(given))]
    messages, placed = read.system_first("instructions", items, places)
    choice = read.fields.pop("tool_choice", None)
    read.read_tools(read.take("tools", list), "tools", choice, "tool_choice")
    read.read_template_arguments()
    reasoning = read.take("reasoning", dict) or {}
    effort = read.check(reasoning.get("effort"), "reasoning.effort", str)
    read.exert(effort, "reasoning.effort")
    if reasoning.get("summary") is not None:
        read.adapter["reasoning"] = "summary"
    included = read.check(read.fields.get("include"), "include", list) or []
    if "message.output_text.logprobs" in included:
        read.adapter["logprobs"] = True
    read.read_end()
    read.refuse(UNREAD)
    return read.request(messages, placed, [], read.read_limit("max_output_tokens"))


def collect(events: Iterable[Chunk]) -> dict[str, Any]:
    """Return the response of events: the last event has it.

    Raises `ValueError` where it is not among them.
    """
    for event in events:
        if event["type"] in {"response.completed", "response.incomplete"}:
            response: dict[str, Any] = event["response"]
            return response
    raise ValueError("no `response.completed`: an adapter's `finish` gives it")
