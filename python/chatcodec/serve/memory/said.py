"""What a client's history says, and the keys by which the gateway knows an answer again.

A client sends an answer back as it likes: with `content` as a text, as parts or as null, with
arguments whose JSON is spelled otherwise, with or without its reasoning. A key is a hash of what
all of these have in common: the roles, the texts, the names and values of calls, of all messages up
to an answer. Cost: one hash of each message and of the key before it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Call", "History", "Said", "call_id_of", "hash_of", "is_answer", "said_of"]

_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text")
"""Types of parts that are text. No set: a client may send what has no hash."""
_EPHEMERAL = {"cache_control", "id", "status", "annotations", "logprobs"}
"""Keys of messages and parts that say nothing to a model."""

_KNOWN = {"role", "content", "output", "type", "tool_call_id", "tool_use_id", "call_id"}
"""Keys of messages that are read one by one."""
_PLAIN = {"role", "content"}
"""Keys of a message of text alone."""
_READ = _KNOWN | _EPHEMERAL

_ASKING = ("user", "system", "developer")
"""Roles whose messages of text alone are hashed at once."""
_HEADS = {role: b"%d:%b4:text" % (len(role), role.encode()) for role in (*_ASKING, "assistant")}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an answer."""

    id: str
    name: str
    arguments: str
    """The arguments as JSON with sorted keys; text that is no JSON as it is."""


@dataclass(slots=True)
class Said:
    """An answer in a client's history: one message, or several items of Responses."""

    start: int
    """Index of its first message in the history."""
    end: int
    """Index of the message after it."""
    text: str
    calls: tuple[Call, ...]
    reasoning: str
    """The reasoning that the client sent with it; empty for none."""
    base: bytes = b""
    """The hash of the history before it."""
    key: bytes = b""
    """The hash of the history up to it, itself included; white space around it says nothing."""

    def key_after(self, base: bytes) -> bytes:
        """Give its key after a history with a hash."""
        text = self.text.strip()
        if not self.calls:
            return _chained(base, "assistant", text)
        calls = [word for call in self.calls for word in (call.name, call.arguments)]
        return hash_of("assistant", "calls", text, *calls, after=base)


class History:
    """A client's messages: their answers, with their keys."""

    def __init__(
        self, scope: Sequence[str], messages: Sequence[Any], before: History | None = None
    ) -> None:
        """Read messages. `scope` is all else that a prompt depends on; it parts clients, too.

        `before` is the history of the first messages, in the same scope. The last message of
        `before` is no answer.
        """
        self._ids: dict[str, int] = {} if before is None else {**before._ids}  # noqa: SLF001
        self.answers: list[Said] = [] if before is None else [*before.answers]
        self.base: bytes = hash_of(*scope) if before is None else before.base
        """The hash of all messages."""
        self.end = len(messages)
        at = 0 if before is None else before.end
        while at < len(messages):
            at = self._read(messages, at)

    def _read(self, messages: Sequence[Any], at: int) -> int:
        """Read a message, or an answer of several items; give the index of what follows."""
        message = messages[at]
        if (text := _plain(message)) is not None:
            role = message["role"]
            if role in _ASKING:
                self.base = _chained(self.base, role, text)
                return at + 1
            if role == "assistant" and not any(map(_is_item, messages[at + 1 : at + 2])):
                base, self.base = self.base, _chained(self.base, role, text.strip())
                self.answers.append(Said(at, at + 1, text, (), "", base, self.base))
                return at + 1
        if (end := _end_of(messages, at)) > at:
            self._answer(said_of(messages[at:end]), at, end)
            return end
        self.base = hash_of(*self._words(message), after=self.base)
        return at + 1

    def _answer(self, said: Said, start: int, end: int) -> None:
        for call in said.calls:
            self._ids.setdefault(call.id, len(self._ids))
        base, self.base = self.base, said.key_after(self.base)
        self.answers.append(
            Said(start, end, said.text, said.calls, said.reasoning, base, self.base)
        )

    def _words(self, message: Any) -> list[str]:  # noqa: ANN401
        """Give the words of a message that is no answer."""
        if not isinstance(message, dict):
            return ["other", _json(message)]
        words = [str(message.get("role", message.get("type"))), *self._answered(message)]
        words += self._content(message.get("content", message.get("output")))
        rest = {key: value for key, value in message.items() if key not in _READ}
        return [*words, "rest", _json(rest)] if rest else words

    def _content(self, content: Any) -> list[str]:  # noqa: ANN401
        parts = content if isinstance(content, list) else [content]
        return [word for part in parts for word in self._part(part)]

    def _part(self, part: Any) -> list[str]:  # noqa: ANN401
        match part:
            case str(text) | {"type": ("text" | "input_text"), "text": str(text)}:
                return ["text", text]
            case {"type": "tool_result"}:
                words = ["result", *self._answered(part), *self._content(part.get("content"))]
                return [*words, str(bool(part.get("is_error")))]
            case _:
                return ["part", _json(part)]

    def _answered(self, holder: Mapping[str, Any]) -> list[str]:
        """Name the call that a result answers by its number, whatever its id is."""
        id_ = call_id_of(holder)
        return [] if id_ is None else [str(self._ids.get(id_, id_))]


def call_id_of(holder: Mapping[str, Any]) -> str | None:
    """Give the id of the call that a message, an item or a block answers."""
    for key in ("tool_call_id", "tool_use_id", "call_id"):
        if isinstance(id_ := holder.get(key), str):
            return id_
    return None


def said_of(messages: Sequence[Mapping[str, Any]]) -> Said:
    """Read an answer: an assistant's message of any API, or the items of one turn."""
    if len(messages) == 1 and (text := _plain(messages[0])) is not None:
        return Said(0, 0, text, (), "")
    texts: list[str] = []
    calls: list[Call] = []
    reasoning: list[str] = []
    for message in messages:
        match message.get("type"):
            case "function_call":
                calls.append(_call(message.get("call_id"), message, "arguments"))
            case "reasoning":
                reasoning += _texts(_list(message.get("content")) or _list(message.get("summary")))
            case _:
                texts += _texts(_blocks(message))
                calls += _calls(message)
                reasoning += _reasoning(message)
    return Said(0, 0, "".join(texts), tuple(calls), "".join(reasoning).strip())


def _plain(message: Any) -> str | None:  # noqa: ANN401
    """Give the text of a message that has nothing else; None for any other message."""
    if not isinstance(message, dict) or message.keys() != _PLAIN:
        return None
    content = message["content"]
    return content if isinstance(content, str) and isinstance(message["role"], str) else None


def _reasoning(message: Mapping[str, Any]) -> list[str]:
    keys = ("reasoning_content", "reasoning", "thinking")
    own = (text for key in keys if isinstance(text := message.get(key), str))
    blocks = (block for block in _blocks(message) if isinstance(block, dict))
    thoughts = (block.get("thinking") for block in blocks if block.get("type") == "thinking")
    return [*list(own)[:1], *(text for text in thoughts if isinstance(text, str))]


def _calls(message: Mapping[str, Any]) -> Iterator[Call]:
    for block in _blocks(message):
        if isinstance(block, dict) and block.get("type") == "tool_use":
            yield _call(block.get("id"), block, "input")
    for call in _list(message.get("tool_calls")):
        if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
            yield _call(call.get("id"), function, "arguments")
    if isinstance(function := message.get("function_call"), dict):
        yield _call(None, function, "arguments")


def _end_of(messages: Sequence[Any], start: int) -> int:
    """Give the index after an answer that begins at a message; the same where none does."""
    first = messages[start]
    if not isinstance(first, dict):
        return start
    if first.get("role") != "assistant" and not _is_item(first):
        return start
    is_message = "type" not in first and not any(map(_is_item, messages[start : start + 2]))
    if is_message:
        return start + 1
    end = start
    while end < len(messages) and (_is_item(messages[end]) or _is_own(messages[end])):
        end += 1
    return end


def is_answer(message: object) -> bool:
    """Whether a message is an answer, or a part of one."""
    return _is_own(message) or _is_item(message)


def _is_item(message: object) -> bool:
    """Whether an item of Responses is a part of an answer by its type alone."""
    return isinstance(message, dict) and message.get("type") in ("function_call", "reasoning")


def _is_own(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return [content] if isinstance(content, str) else _list(content)


def _texts(parts: Sequence[Any]) -> list[str]:
    found = []
    for part in parts:
        match part:
            case str(text):
                found.append(text)
            case {"type": type_, "text": str(text)} if type_ in _TEXTS:
                found.append(text)
            case {"type": "refusal", "refusal": str(text)}:
                found.append(text)
    return found


def _call(id_: object, holder: Mapping[str, Any], key: str) -> Call:
    arguments = holder.get(key)
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = _json(json.loads(arguments))
    else:
        arguments = _json(arguments)
    return Call(id_ if isinstance(id_, str) else "", str(holder.get("name")), arguments)


def _json(value: Any) -> str:  # noqa: ANN401
    return json.dumps(_lasting(value), sort_keys=True, separators=(",", ":"), default=str)


def _lasting(value: Any) -> Any:  # noqa: ANN401
    """Give a value without marks of a cache, which clients move from message to message."""
    if isinstance(value, dict):
        return {key: _lasting(each) for key, each in value.items() if key != "cache_control"}
    return [_lasting(each) for each in value] if isinstance(value, list) else value


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def hash_of(*words: str, after: bytes = b"") -> bytes:
    """Hash words, each with its length, so that no two lists of words are the same bytes."""
    made = sha256(after)
    for word in words:
        raw = word.encode("utf-8", "surrogatepass")
        made.update(b"%d:" % len(raw))
        made.update(raw)
    return made.digest()


def _chained(base: bytes, role: str, text: str) -> bytes:
    """Hash a message of text alone: as `hash_of` of its role, the word `text` and its text."""
    raw = text.encode("utf-8", "surrogatepass")
    return sha256(b"%b%b%d:%b" % (base, _HEADS[role], len(raw), raw)).digest()
