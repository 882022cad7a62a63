"""What the core does, stated a second time: short, slow, and apart from it.

The formats `internlm2` and `chatml` as `render` writes them, segment by segment; what a
conversation reads as after a round trip; where spellings of control tokens are. Laws compare.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from chatcodec.events import ActionDelta, Event, Reasoning, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chatcodec import Encoding

Message = dict[str, Any]

Value: TypeAlias = Any
"""What a caller may give: JSON as a rule, anything at worst."""

ROLES = {"developer": "system", "environment": "tool"}


def join(content: Value) -> str:
    """A content as one text."""
    return "".join(part["text"] for part in content) if isinstance(content, list) else content or ""


def spaced(text: str) -> str:
    """What a SentencePiece vocabulary loses: its mark for a space is one."""
    return text.replace("\u2581", " ")


def canonical(messages: list[Message]) -> list[Message]:
    """What `decode` gives for an encoded conversation of `internlm2` or `chatml`."""
    read: list[Message] = []
    number = 0
    made: list[tuple[Any, str, str]] = []
    answered = 0
    for message in messages:
        role = {"developer": "system", "environment": "tool"}.get(message["role"], message["role"])
        result: Message = {"role": role, "content": spaced(join(message.get("content")))}
        name = message.get("name") or None
        if message.get("tool_calls"):
            made, answered = [], 0
            result["tool_calls"] = []
            for call in message["tool_calls"]:
                id_, number = f"call_{number}", number + 1
                is_code = "code" in call
                made.append((call.get("id") or None, id_, "interpreter" if is_code else "plugin"))
                result["tool_calls"].append({"id": id_, **canonical_body(call)})
        if role == "tool":
            kinds = {given: kind for given, _, kind in reversed(made) if given is not None}
            by_order = made[answered] if answered < len(made) else (None, None, None)
            answered += 1
            if name not in {"plugin", "interpreter"}:
                name = kinds.get(message.get("tool_call_id")) or by_order[2] or "plugin"
            if by_order[1] is not None:
                result["tool_call_id"] = by_order[1]
        if name is not None:
            result["name"] = name
        read.append(result)
    return read


def canonical_body(call: Message) -> Message:
    """A call without its id, as `decode` gives it."""
    if "code" in call:
        code = call["code"]
        body = {"source": spaced(code["source"])}
        if code.get("language"):
            body["language"] = code["language"]
        return {"type": "code", "code": body}
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    body = {"name": spaced(name), "arguments": spaced(arguments.strip(" \t\r\n"))}
    return {"type": "function", "function": body}


@dataclass(frozen=True)
class Segment:
    """A stretch of the rendered text."""

    text: str
    message: int = -1
    path: str | None = None
    is_control: bool = False
    is_generated: bool = False
    given: str | None = None
    """The caller's own string, where it is not written as it is."""


@dataclass
class Renderer:
    """Writes a conversation as segments."""

    is_chatml: bool
    segments: list[Segment] = field(default_factory=list)
    message: int = -1
    is_generated: bool = False

    def control(self, text: str) -> None:
        self.segments.append(
            Segment(text, self.message, is_control=True, is_generated=self.is_generated)
        )

    def literal(self, text: str) -> None:
        self.segments.append(Segment(text, self.message, is_generated=self.is_generated))

    def slot(self, text: str, path: str, given: str | None = None) -> None:
        place = path if path == "tools" else f"messages[{self.message}].{path}"
        self.segments.append(
            Segment(text, self.message, place, is_generated=self.is_generated, given=given)
        )

    def header(self, role: str, name: str | None = None) -> None:
        self.control("<|im_start|>")
        self.literal(role)
        if name is not None:
            self.literal(" name=")
            self.control(f"<|{name}|>")
        self.literal("\n")

    def end(self) -> None:
        self.control("<|im_end|>")
        self.is_generated = False
        self.literal("\n")

    def tools(self, tools: str) -> None:
        self.message = -1
        self.header("system", "plugin")
        self.slot(tools, "tools")
        self.end()

    def turn(self, message: Message, canonical: Message, *, is_open: bool) -> None:
        role = canonical["role"]
        if role == "user" and message.get("name"):
            self.control("<|im_start|>")
            self.literal("user name=")
            self.slot(message["name"], "name")
            self.literal("\n")
        else:
            self.header("environment" if role == "tool" else role, canonical.get("name"))
        self.is_generated = role == "assistant"
        self.slot(join(message.get("content")), "content")
        for i, call in enumerate(message.get("tool_calls") or ()):
            self.call(call, f"tool_calls[{i}]")
        if not is_open:
            self.end()
        self.is_generated = False

    def call(self, call: Message, path: str) -> None:
        self.control("<|action_start|>")
        if "code" in call:
            self.control("<|interpreter|>")
            self.literal("\n```")
            self.slot(call["code"].get("language") or "", f"{path}.code.language")
            self.literal("\n")
            self.slot(call["code"]["source"], f"{path}.code.source")
            self.literal("\n```")
        else:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            if isinstance(arguments, dict):
                arguments = json.dumps(arguments, ensure_ascii=False)
            escaped = json.dumps(name, ensure_ascii=False)[1:-1]
            self.control("<|plugin|>")
            self.literal('\n{"name": "')
            self.slot(escaped, f"{path}.function.name", given=name)
            self.literal('", "parameters": ')
            self.slot(arguments.strip(" \t\r\n"), f"{path}.function.arguments", given=arguments)
            self.literal("}")
        self.control("<|action_end|>")


def render(
    messages: list[Message],
    *,
    is_chatml: bool,
    tools: str | None = None,
    prompt: bool | None = None,
    continue_final: bool = False,
) -> list[Segment]:
    """The segments of a conversation, empty ones left out."""
    renderer = Renderer(is_chatml)
    if not is_chatml:
        renderer.control("<s>")
    leading = True
    for at, (message, told) in enumerate(zip(messages, canonical(messages), strict=True)):
        if leading and told["role"] != "system":
            leading = False
            if tools:
                renderer.tools(tools)
        renderer.message = at
        renderer.turn(message, told, is_open=continue_final and at + 1 == len(messages))
    if leading and tools:
        renderer.tools(tools)
    renderer.message = -1
    if prompt is None:
        prompt = not (messages and messages[-1]["role"] == "assistant")
    if prompt:
        renderer.header("assistant")
    return [segment for segment in renderer.segments if segment.text]


def spelled(text: str, control: Mapping[str, int]) -> Iterator[tuple[int, int, str, int]]:
    """Spellings of control tokens in a text: leftmost, and of those the longest."""
    spellings = sorted(control, key=len, reverse=True)
    for found in re.finditer("|".join(map(re.escape, spellings)), text):
        yield found.start(), found.end(), found[0], control[found[0]]


def runs(encoding: Encoding) -> list[tuple[str, list[int]]]:
    """The stretches of text between control tokens, with their ids."""
    found: list[tuple[bytes, list[int]]] = [(b"", [])]
    raw = encoding.text.encode()
    tokens = zip(encoding.ids, encoding.is_control, encoding.offsets, strict=True)
    for id_, control, (start, end) in tokens:
        if control:
            found.append((b"", []))
        else:
            text, ids = found[-1]
            found[-1] = (text + raw[start:end], [*ids, id_])
    return [(text.decode(), ids) for text, ids in found]


def merged(events: Iterable[Event]) -> list[Event]:
    """Events with neighbouring texts of one kind joined, and their ranges united."""
    joined: list[Event] = []
    for event in events:
        match joined[-1:], event:
            case [Text(text, tokens=(start, _))], Text(more, tokens=(_, end)):
                joined[-1] = Text(text + more, (start, end))
            case [Reasoning(text, tokens=(start, _))], Reasoning(more, tokens=(_, end)):
                joined[-1] = Reasoning(text + more, (start, end))
            case [ActionDelta(i, text, tokens=(start, _))], ActionDelta(
                j, more, tokens=(_, end)
            ) if i == j:
                joined[-1] = ActionDelta(i, text + more, (start, end))
            case _:
                joined.append(event)
    return joined
