"""Random conversations, each with one part that a chat template may write.

Every text has a word of its own, which shows whether a template wrote the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["PARTS", "Conversation", "Part", "shorter", "words_of"]

Part: TypeAlias = Literal[
    "an answer of text",
    "whole conversations of texts",
    "a call",
    "two calls",
    "text beside a call",
    "a result of a call",
    "reasoning",
    "reasoning before a call",
    "nested arguments",
]
"""What a conversation has, and what is read back from it."""

PARTS: Final[tuple[Part, ...]] = get_args(Part)

Message: TypeAlias = dict[str, Any]
Value: TypeAlias = Any
"""A JSON value."""

_KINDS = ("string", "integer", "number", "boolean", "array", "object")
_KEYS = ("text", "count", "ratio", "sure", "items", "filter")
_PLAIN = "abc XYZ .,!? é漢"
_HARD = "abc XYZ 0129 .,!? é漢🦜 <>{}[]\"' \\ :_"
_BREAKS = _HARD + "\n"


def _tool(name: str) -> dict[str, Any]:
    kinds = {**dict(zip(_KEYS, _KINDS, strict=True)), "nothing": "null"}
    # Some templates read a description of each parameter, and the schema of a list's items.
    properties: dict[str, Any] = {
        key: {"type": kind, "description": "A value."} for key, kind in kinds.items()
    }
    properties["items"]["items"] = {"type": "string"}
    parameters = {"type": "object", "properties": properties}
    function = {"name": name, "description": "Looks.", "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: Final = [_tool("look_up"), _tool("add")]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, as `Codec.encode` takes it."""

    part: Part
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None

    @staticmethod
    def random(part: Part, seed: random.Random) -> Conversation:
        """Make a conversation with a part."""
        return _MAKERS[part](part, seed)

    def with_named_ids(self) -> Conversation:
        """Give the same conversation with ids of calls that hold the name: `functions.look_up:0`.

        Some templates write the id alone.
        """
        ids: dict[str, str] = {}
        messages: list[Message] = []
        for message in self.messages:
            calls = []
            for call in message.get("tool_calls", ()):
                ids[call["id"]] = f"functions.{call['function']['name']}:{len(ids)}"
                calls.append({**call, "id": ids[call["id"]]})
            changed: Message = {"tool_calls": calls} if calls else {}
            if "tool_call_id" in message:
                changed["tool_call_id"] = ids[message["tool_call_id"]]
            messages.append({**message, **changed})
        return replace(self, messages=messages)

    @property
    def compared(self) -> list[Message]:
        """The messages that have to be read back."""
        if self.part == "whole conversations of texts":
            return self.messages
        return [one for one in self.messages[1:] if one["role"] != "user"]

    @property
    def is_whole(self) -> bool:
        """Whether all of the conversation is read, not its last answer alone."""
        return self.part in {"whole conversations of texts", "a result of a call"}

    def to_json(self) -> dict[str, Any]:
        """The arguments of `Codec.encode`, and a line that `chatcodec encode` reads."""
        tools = {} if self.tools is None else {"tools": self.tools}
        return {"messages": self.messages, **tools}


def words_of(value: Value) -> Iterator[str]:
    """Give the longest word of each text in a value, and its numbers: what no template escapes."""
    if isinstance(value, str):
        yield max(re.findall("[A-Za-z0-9]+", value), key=len, default="")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *words_of(item))
    elif isinstance(value, list):
        for item in value:
            yield from words_of(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


def shorter(conversation: Conversation) -> Iterator[Conversation]:
    """Give conversations with the same part that lack something of this one."""
    part, tools, messages = conversation.part, conversation.tools, conversation.messages
    if conversation.is_whole and tools is None and len(messages) > 1:
        yield Conversation(part, messages[2:] or messages[:1])
        yield Conversation(part, messages[:-1])
    for at, message in enumerate(messages):
        for changed in _shorter_messages(message):
            yield Conversation(part, [*messages[:at], changed, *messages[at + 1 :]], tools)


def _shorter_messages(message: Message) -> Iterator[Message]:
    for field in ("content", "reasoning_content"):
        for text in _shorter_values(message.get(field)):
            yield {**message, field: text}
    for at, call in enumerate(message.get("tool_calls", ())):
        for arguments in _shorter_values(call["function"]["arguments"]):
            function = {**call["function"], "arguments": arguments}
            calls = list(message["tool_calls"])
            calls[at] = {**call, "function": function}
            yield {**message, "tool_calls": calls}


def _shorter_values(value: Value) -> Iterator[Value]:
    """Give values that lack something: a member, an item, a part of a text beside its word."""
    if isinstance(value, str):
        (word,) = words_of(value)
        middle = len(value) // 2
        texts = (word, value[:middle].strip(), value[middle:].strip())
        yield from (text for text in texts if word in text and text != value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if len(value) > 1:
                yield {other: kept for other, kept in value.items() if other != key}
            for changed in _shorter_values(item):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield value[:at] + value[at + 1 :]
            for changed in _shorter_values(item):
                yield [*value[:at], changed, *value[at + 1 :]]


def _word(seed: random.Random) -> str:
    """Make a word that no template has."""
    return "".join(seed.choices("bcdfgkpqvwxz", k=5))


def _text(seed: random.Random, letters: str = _HARD, longest: int = 24) -> str:
    """Make a text with a word in it, and without white space at its ends."""
    chars = seed.choices(letters, k=seed.randint(0, longest))
    chars.insert(seed.randint(0, len(chars)), _word(seed))
    return "".join(chars).strip()


def _user(seed: random.Random) -> Message:
    return {"role": "user", "content": _text(seed)}


def _call(seed: random.Random, arguments: Mapping[str, Value], nth: int = 1) -> dict[str, Any]:
    function = {"name": seed.choice(("look_up", "add")), "arguments": dict(arguments)}
    # Nine letters and digits: some templates refuse other ids.
    return {"id": f"call0000{nth}", "type": "function", "function": function}


def _flat(seed: random.Random) -> dict[str, Value]:
    """Make arguments of one level, without quotes and braces."""
    given = {
        "text": _text(seed, _PLAIN, 9),
        "count": seed.randint(10_000, 99_999),
        "sure": seed.choice((True, False)),
    }
    return dict(list(given.items())[: seed.randint(1, 3)])


def _nested(seed: random.Random) -> dict[str, Value]:
    """Make arguments of several levels, with every kind of value and all sorts of characters."""
    made: dict[str, Callable[[], Value]] = {
        "text": lambda: _text(seed, _BREAKS),
        "count": lambda: -seed.randint(10_000, 99_999),
        "ratio": lambda: seed.randint(1, 9999) / 16,
        "sure": lambda: seed.choice((True, False)),
        "items": lambda: [_value(seed, 2) for _ in range(seed.randint(0, 3))],
        "filter": lambda: _object(seed, 2),
        "nothing": lambda: None,
    }
    keys = seed.sample(list(made), seed.randint(1, 4))
    # One of several levels at least.
    if not {"items", "filter"} & set(keys):
        keys.append(seed.choice(("items", "filter")))
    return {key: made[key]() for key in keys}


def _object(seed: random.Random, depth: int) -> dict[str, Value]:
    return {_word(seed): _value(seed, depth - 1) for _ in range(seed.randint(0, 3))}


def _value(seed: random.Random, depth: int) -> Value:
    made: list[Callable[[], Value]] = [
        lambda: seed.randint(10_000, 99_999),
        lambda: seed.choice((True, False, None)),
        lambda: _text(seed, _BREAKS),
        lambda: _text(seed, _BREAKS),
    ]
    if depth:
        made.append(lambda: [_value(seed, depth - 1) for _ in range(seed.randint(0, 3))])
        made.append(lambda: _object(seed, depth))
    return seed.choice(made)()


def _answer(seed: random.Random, calls: Sequence[Mapping[str, Value]] = (), **more: str) -> Message:
    message: Message = {"role": "assistant", "content": "", **more}
    if calls:
        message["tool_calls"] = [_call(seed, one, nth + 1) for nth, one in enumerate(calls)]
    return message


def _thought(seed: random.Random) -> str:
    return " ".join(_text(seed, _PLAIN, 9) for _ in range(seed.randint(1, 2)))


def _asked(*answers: Message, part: Part, seed: random.Random) -> Conversation:
    has_calls = any("tool_calls" in one for one in answers)
    return Conversation(part, [_user(seed), *answers], TOOLS if has_calls else None)


def _texts(part: Part, seed: random.Random) -> Conversation:
    messages = []
    for _ in range(seed.randint(1, 3)):
        messages += [_user(seed), _answer(seed, content=_text(seed))]
    if part == "whole conversations of texts":
        messages = messages[: seed.randint(1, len(messages))]
    return Conversation(part, messages)


def _with_answer(part: Part, seed: random.Random) -> Conversation:
    """Make a question and an answer."""
    calls = [_flat(seed) for _ in range({"reasoning": 0, "two calls": 2}.get(part, 1))]
    more = {}
    if part in {"text beside a call", "reasoning"}:
        more["content"] = _text(seed)
    if part.startswith("reasoning"):
        more["reasoning_content"] = _thought(seed)
    if part == "nested arguments":
        calls = [_nested(seed)]
    return _asked(_answer(seed, calls, **more), part=part, seed=seed)


def _with_result(part: Part, seed: random.Random) -> Conversation:
    calling = _answer(seed, [_flat(seed)])
    found = seed.choice((_text(seed, _PLAIN), f'{{"found": "{_word(seed)}", "number": 12}}'))
    name = calling["tool_calls"][0]["function"]["name"]
    result = {"role": "tool", "content": found, "name": name, "tool_call_id": "call00001"}
    later = [_answer(seed, content=_text(seed))] if seed.choice((True, False)) else []
    return _asked(calling, result, *later, part=part, seed=seed)


_MAKERS: dict[Part, Callable[[Part, random.Random], Conversation]] = {
    "an answer of text": _texts,
    "whole conversations of texts": _texts,
    "a call": _with_answer,
    "two calls": _with_answer,
    "text beside a call": _with_answer,
    "a result of a call": _with_result,
    "reasoning": _with_answer,
    "reasoning before a call": _with_answer,
    "nested arguments": _with_answer,
}
