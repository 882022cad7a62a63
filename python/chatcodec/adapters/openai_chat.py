"""OpenAI's chat completions: chunks, and the completion that they make.

The first delta has the role, and `content`: `""` where text begins the message, None where
something else does. A call's first delta has its index, id, type and name, each once; its arguments
follow in fragments, which make exactly what was generated. A whole call without arguments has `{}`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.adapters._adapter import Adapter, Call, Chunk, Usage
from chatcodec.adapters._request import Body, Request
from chatcodec.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from chatcodec import Codec, Vocab
    from chatcodec.adapters._drops import OnParts
    from chatcodec.events import Event, Reasoning, Text

__all__ = ["Choices", "ChunkStream", "collect", "logprob", "read_request", "usage_of", "with_code"]

_KINDS = (("function", "arguments"), ("custom", "input"))
"""The type of a call, and the key of its text: of a function, and of a custom tool."""

LEAST = -9999.0
"""The API's value for a probability of zero, whose logarithm JSON cannot express."""


@dataclass(kw_only=True, eq=False, slots=True)
class ChunkStream(Adapter):
    """Events to chunks: `chat.completion.chunk` objects as dicts.

    `finish_reason` is `length` for a turn that was cut short, `tool_calls` for one with calls, and
    `stop` otherwise, also for a call of the function that `tool_choice` names. Where `finish` is
    given the usage, a chunk without choices tells it.
    """

    model: str
    """The name of the model."""
    created: int = 0
    """Time of the beginning of the response, in seconds since 1970."""
    choice: int = 0
    """The index of the choice, where a response has several: one adapter each, of the same id.
    `Choices` holds them together."""
    reasoning_key: str | None = "reasoning_content"
    """The key of reasoning in deltas and in the message; some clients read `reasoning`. None to
    leave it out."""

    usage_key: bool = False
    """Whether every chunk has `usage`, None before the last: as OpenAI's `include_usage` has it."""

    named_events: ClassVar[bool] = False
    ends_with_done: ClassVar[bool] = True

    _begun: bool = field(default=False, init=False, repr=False)

    def _delta(
        self, delta: Chunk, finish_reason: str | None = None, logprobs: Chunk | None = None
    ) -> None:
        usage = {"usage": None} if self.usage_key else {}
        self._chunks.append(
            {
                "id": self.id,
                "object": "chat.completion.chunk",
                "created": self.created,
                "model": self.model,
                "choices": [
                    {
                        "index": self.choice,
                        "delta": delta,
                        "logprobs": logprobs,
                        "finish_reason": finish_reason,
                    }
                ],
                **usage,
            }
        )

    def _begin(self, content: str | None) -> None:
        self._begun = True
        self._delta({"role": "assistant", "content": content})

    def _text(self, event: Text) -> None:
        if not self._begun:
            self._begin("")
        logprobs = None
        if self.logprobs:
            logprobs = {"content": self._logprobs_of(event), "refusal": None}
        self._delta({"content": event.text}, logprobs=logprobs)

    def _reasoning(self, event: Reasoning) -> None:
        if self.reasoning_key is None:
            return self._tell_hidden(event)
        if not self._begun:
            self._begin(None)
        self._delta({self.reasoning_key: event.text})
        return None

    @property
    def _branch(self) -> str:
        return str(self.choice) if self.choice else ""

    def _call_start(self, call: Call) -> None:
        if not self._begun:
            self._begin(None)
        kind, text = _KINDS[call.custom is not None]
        about = {"name": call.name, text: ""}
        made = {"index": call.number, "id": call.id, "type": kind, kind: about}
        self._delta({"tool_calls": [made]})

    def _call_delta(self, call: Call, text: str) -> None:
        kind, key = _KINDS[call.custom is not None]
        self._delta({"tool_calls": [{"index": call.number, kind: {key: text}}]})

    def _close(self, usage: Usage | None) -> None:
        if not self._begun:
            self._begin("")
        calls = self._call_ids and isinstance(self.tool_choice, str)
        reason = "length" if self._cut else "tool_calls" if calls else "stop"
        rest = self._entries_of.rest()
        self._delta({}, reason, {"content": rest, "refusal": None} if rest else None)
        if usage is not None:
            self._chunks.append(self._usage_chunk(usage))

    def _usage_chunk(self, usage: Usage) -> Chunk:
        head = {"id": self.id, "object": "chat.completion.chunk", "created": self.created}
        return {**head, "model": self.model, "choices": [], "usage": usage_of(usage)}


class Choices:
    """Several choices of one response: an adapter for each, ids of calls that differ, one usage.

    >>> choices = Choices(2, id="chatcmpl-1", model="m")
    >>> len(choices.adapters)
    2
    """

    def __init__(self, n: int, **options: Any) -> None:  # noqa: ANN401
        """Take the number of choices, and the options of `ChunkStream` for all of them."""
        self.adapters = [ChunkStream(choice=choice, **options) for choice in range(n)]
        self._told = False

    def push(
        self, choice: int, events: Iterable[Event], logprobs: Iterable[Chunk] = ()
    ) -> list[Chunk]:
        """Return the chunks that events of one choice add to the response."""
        return self.adapters[choice].push(events, logprobs)

    def finish(self, usage: Usage | None = None) -> list[Chunk]:
        """End the choices that are open, then the response: `usage` is that of all together."""
        chunks = [chunk for each in self.adapters for chunk in each.finish()]
        if usage is not None and not self._told:
            self._told = True
            chunks.append(self.adapters[0]._usage_chunk(usage))  # noqa: SLF001
        return chunks


def logprob(
    vocab: Vocab, id_: int, value: float, top: Iterable[tuple[int, float]] = ()
) -> dict[str, Any]:
    """Make the entry of one generated id: `value` is its log probability, natural.

    `top` are the likeliest ids in its place, with theirs. A control token has no bytes. Raises
    `VocabError` for an id outside of the vocabulary.
    """
    entry = _logprob(vocab, id_, value)
    return {**entry, "top_logprobs": [_logprob(vocab, other, theirs) for other, theirs in top]}


def _logprob(vocab: Vocab, id_: int, value: float) -> dict[str, Any]:
    raw = vocab.token_bytes(id_)
    # Twice: a first space alone may be one that a vocabulary puts before text.
    is_text = vocab.decode((id_, id_), control="skip") != ""
    token = raw.decode("utf-8", errors="replace")
    return {"token": token, "logprob": max(value, LEAST), "bytes": list(raw) if is_text else []}


def usage_of(usage: Usage) -> dict[str, Any]:
    """Give a usage as the API has it."""
    told: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if usage.cached_tokens is not None:
        told["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return told


def collect(chunks: Iterable[Chunk]) -> dict[str, Any]:
    """Fold the chunks of a response into its `chat.completion`: all choices, and the usage.

    Raises `ValueError` where there are no chunks.
    """
    completion: dict[str, Any] = {}
    choices: dict[int, _Choice] = {}
    for chunk in chunks:
        if not completion:
            completion = {key: chunk[key] for key in ("id", "object", "created", "model")}
        for choice in chunk["choices"]:
            choices.setdefault(choice["index"], _Choice()).push(choice)
        if "usage" in chunk:
            completion["usage"] = chunk["usage"]
    if not completion:
        raise ValueError("no chunks: an adapter's `finish` gives the last ones")
    completion["object"] = "chat.completion"
    completion["choices"] = [
        {"index": index, **choices[index].whole()} for index in sorted(choices)
    ]
    return completion


UNREAD = {
    "documents": "put them into a message",
    "chat_template": "choose the format that a codec is made with",
    "input_ids": "give them to the engine",
    "web_search_options": "give the model a function that searches",
    "audio": "answers are text",
}
"""Fields that would change the prompt or the answer, with the alternative."""


def read_request(
    body: object,
    codec: Codec,
    *,
    on_unsupported: OnParts = "error",
    constrained: bool = False,
) -> Request:
    """Read the body of a request for a chat completion: what `encode`, streams and adapters need.

    The body is a dict, or a pydantic object; dicts in it may be such objects, too. Read are
    messages, tools, `tool_choice`, `parallel_tool_calls`, `functions`, `function_call`,
    `reasoning_effort`, `chat_template_kwargs`, `enable_thinking`, `thinking`, `reasoning`,
    `include_reasoning`, `continue_final_message`, `add_generation_prompt`, `stop`, `logprobs` and
    the limit. All other fields are in `Request.rest`.

    Raises `MessageError` for what the codec's format cannot express, by its field; with
    `on_unsupported="drop"`, `Request.dropped` lists it; a set of kinds leaves out those alone,
    `{"name", "web_search"}` for example. Calls that are required, or of a named
    function, are taken where the engine constrains what it generates: `constrained=True`.
    """
    read = Body(body, codec, on_unsupported, constrained=constrained)
    messages = read.take("messages", list)
    if messages is None:
        raise MessageError("`messages` is missing, expected a list of messages", "messages")
    tools, functions = read.take("tools", list), read.take("functions", list)
    choice, called = read.fields.pop("tool_choice", None), read.fields.pop("function_call", None)
    in_functions = tools is None and functions is not None
    read.read_tools(
        *((functions, "functions") if in_functions else (tools, "tools")),
        *((called, "function_call") if choice is None else (choice, "tool_choice")),
    )
    read.read_template_arguments()
    _read_reasoning(read)
    read.read_end()
    if read.take("logprobs", bool):
        read.adapter["logprobs"] = True
    if read.take("include_reasoning", bool) is False:
        read.adapter["reasoning_key"] = None
    modalities = read.take("modalities", list) or ["text"]
    if modalities != ["text"]:
        read.unsupported("modalities", "modalities", 'asks for more than `["text"]`')
    read.refuse(UNREAD)
    messages, places = read.with_known_roles(
        messages, [f"messages[{at}]" for at in range(len(messages))]
    )
    limit = read.read_limit("max_completion_tokens", "max_tokens")
    return read.request(messages, places, read.read_stop("stop"), limit)


def _read_reasoning(read: Body) -> None:
    """Read the fields that ask for reasoning, the most explicit first."""
    read.think(read.take("enable_thinking", bool), "enable_thinking")
    thinking = read.take("thinking", (dict, bool))
    if isinstance(thinking, dict):
        thinking = {"enabled": True, "disabled": False}.get(str(thinking.get("type")))
    read.think(thinking, "thinking")
    reasoning = read.take("reasoning", dict) or {}
    enabled = read.check(reasoning.get("enabled"), "reasoning.enabled", bool)
    read.think(enabled, "reasoning.enabled")
    read.exert(read.take("reasoning_effort", str), "reasoning_effort")
    effort = read.check(reasoning.get("effort"), "reasoning.effort", str)
    read.exert(effort, "reasoning.effort")


def with_code(
    messages: Iterable[Mapping[str, Any]],
    *,
    code_name: str = "code_interpreter",
    language: str | None = "python",
    others: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return a client's messages with calls of `code_name` turned back into code.

    They are code again for `Codec.encode`, in `language`; calls of `others` are code in the
    language, or for the tool, of that name. A call whose arguments are anything but
    `{"code": "…"}` stays a call.
    """
    languages = {other: other for other in others} | {code_name: language}
    read = [dict(message) for message in messages]
    for message in read:
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [_as_code(call, languages) for call in calls]
    return read


def _as_code(call: Any, languages: Mapping[str, str | None]) -> Any:  # noqa: ANN401
    match call:
        case {"function": {"name": str(name), "arguments": str(arguments)}} if name in languages:
            try:
                value = json.loads(arguments)
            except (ValueError, RecursionError):
                return call
            match value:
                case {"code": str(source), **rest} if not rest:
                    code = {"language": languages[name], "source": source}
                    return {"id": call.get("id"), "type": "code", "code": code}
    return call


class _Choice:
    """A choice that is being folded; texts are joined at the end, in linear time."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {"content": []}
        self.role = "assistant"
        self.calls: list[dict[str, Any]] = []
        self.arguments: list[list[str]] = []
        self.finish_reason: str | None = None
        self.logprobs: list[Chunk] | None = None

    def push(self, choice: Chunk) -> None:
        if choice["logprobs"] is not None:
            self.logprobs = self.logprobs or []
            self.logprobs += choice["logprobs"]["content"]
        for key, value in choice["delta"].items():
            if key == "tool_calls":
                for call in value:
                    self.push_call(call)
            elif key != "role" and value is not None:
                self.texts.setdefault(key, []).append(value)
        self.finish_reason = choice["finish_reason"] or self.finish_reason

    def push_call(self, call: Chunk) -> None:
        kind, key = next(each for each in _KINDS if each[0] in call)
        if "id" in call:
            self.calls.append({"id": call["id"], "type": kind, kind: call[kind]})
            self.arguments.append([])
        self.arguments[call["index"]].append(call[kind][key])

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant"}
        for key, parts in self.texts.items():
            message[key] = "".join(parts) if parts else None
        message["refusal"] = None
        if self.calls:
            message["tool_calls"] = [
                {**call, kind: {**call[kind], key: "".join(parts)}}
                for call, parts in zip(self.calls, self.arguments, strict=True)
                for kind, key in _KINDS
                if kind in call
            ]
        entries = self.logprobs
        logprobs = None if entries is None else {"content": entries, "refusal": None}
        return {"message": message, "logprobs": logprobs, "finish_reason": self.finish_reason}
