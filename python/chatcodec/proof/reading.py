"""One conversation: written by a codec, read back, and compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec._core import Codec, ToolTypes
from chatcodec.check.reading import first_change
from chatcodec.errors import ChatCodecError
from chatcodec.proof.conversations import TOOLS, words_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from chatcodec import Encoding
    from chatcodec.proof.conversations import Conversation, Message

__all__ = ["Misread", "Way", "Written", "misread", "write"]

Way: TypeAlias = Literal["parse", "stream", "decode"]
"""What reads: `Codec.parse` after the prompt, a stream in chunks, `Codec.decode`."""

_TYPES = ToolTypes(TOOLS)

_ID_BYTES = 4


@dataclass(frozen=True, slots=True)
class Written:
    """A conversation in ids."""

    encoding: Encoding
    """The whole conversation."""
    prompt: memoryview
    """The ids before the last answer."""
    ids: memoryview
    """The ids of the last answer, up to one that stops the model; or of a whole conversation."""
    text: str
    """The text of what is read, with control tokens spelled out."""
    first: int
    """The index of the first message that is compared."""

    @property
    def shown(self) -> str:
        """The text, without what a whole conversation has before the messages that are compared."""
        if len(self.ids) < len(self.encoding):
            return self.text
        places = zip(self.encoding.message_indices, self.encoding.char_offsets, strict=True)
        start = (start for index, (start, _) in places if index >= self.first > 0)
        return self.text[next(start, 0) :]


@dataclass(frozen=True, slots=True)
class Misread:
    """A conversation that is read as another one."""

    conversation: dict[str, Any]
    """The arguments of `Codec.encode`: `messages` and, where there are calls, `tools`."""
    way: Way
    """What reads it so: `"parse"`, `"stream"` or `"decode"`."""
    text: str
    """The text that was written, with control tokens spelled out."""
    expected: tuple[dict[str, Any], ...]
    """The messages that were written."""
    read: tuple[dict[str, Any], ...]
    """The messages that were read instead."""
    first: str
    """Where the first difference is, what was read there, and what was expected."""


def write(codec: Codec, conversation: Conversation) -> Written | None:
    """Write a conversation.

    None where a text, a name, a key or a number of a message that is compared is not in the
    written text: the template leaves the part out. Raises the error of a codec that refuses the
    conversation.
    """
    options: dict[str, Any] = {"tools": conversation.tools, "on_unsupported": "drop"}
    messages = conversation.messages
    # What a model generates begins with an id of its own, whatever stands before it.
    options["boundary"] = "reference" if conversation.is_whole else "isolated"
    whole = codec.encode(messages, add_generation_prompt=False, **options)
    if whole.collisions:
        # A text spells a marker of turns that is ordinary text: nothing is promised.
        return None
    if conversation.is_whole:
        if not _is_written(conversation, whole.text):
            return None
        ids = memoryview(whole.ids)
        return Written(whole, ids[:0], ids, whole.text, len(messages) - len(conversation.compared))
    prompt = codec.encode(messages[:-1], add_generation_prompt=True, **options)
    for begun, rest in _answers(prompt, whole):
        answer = _up_to(codec.stop_ids, rest)
        text = codec.vocab.decode(answer)
        if _is_written(conversation, text):
            return Written(whole, begun, answer, text, len(messages) - 1)
    return None


def _answers(prompt: Encoding, whole: Encoding) -> Iterator[tuple[memoryview, memoryview]]:
    """Give what may be the ids before the last answer of a conversation, and those of the answer.

    Some templates write other text before an answer of the past than they prompt with. Then the
    answer follows the end of the prompt: its last control token and the text after it, or what the
    conversation does not begin with. Else it follows the common beginning.
    """
    begun, ids = memoryview(prompt.ids), memoryview(whole.ids)
    if ids[: len(begun)] == begun:
        yield begun, ids[len(begun) :]
        return
    # What the prompt goes on with may be what the answer's own text begins with.
    last = max(whole.message_indices, default=-1)
    said = zip(whole.message_indices, whole.is_content, strict=True)
    own = next((nth for nth, (of, is_own) in enumerate(said) if is_own and of == last), len(ids))
    pairs = enumerate(zip(begun, ids[:own], strict=False))
    same = next((nth for nth, (one, other) in pairs if one != other), own)
    last_control = bytes(memoryview(prompt.is_control)).rfind(1)
    for start, head in ((0, begun[max(last_control, 0) :]), (same, begun[same:])):
        at = _last_place(bytes(head), bytes(ids[start:]))
        if at is not None:
            yield begun, ids[start + at + len(head) :]
    yield ids[:same], ids[same:]


def _up_to(stops: Sequence[int], ids: memoryview) -> memoryview:
    """Cut what no model generates: all after an id that stops it."""
    end = next((nth for nth, one in enumerate(ids, 1) if one in stops), len(ids))
    return ids[:end]


def _last_place(head: bytes, ids: bytes) -> int | None:
    """Give the last index of some ids in others; None if there is none."""
    at = ids.rfind(head)
    while at > 0 and at % _ID_BYTES:
        at = ids.rfind(head, 0, at + len(head) - 1)
    return at // _ID_BYTES if at >= 0 else None


def _is_written(conversation: Conversation, text: str) -> bool:
    messages = conversation.compared
    if not conversation.is_whole:
        messages = messages[-1:]
    return all(word in text for message in messages for word in words_of(_values(message)))


def _values(message: Message) -> list[Any]:
    """The texts, names and arguments of a message."""
    calls = [one["function"] for one in message.get("tool_calls", ())]
    called = [value for one in calls for value in (one["name"], one["arguments"])]
    return [message["content"], message.get("reasoning_content", ""), *called]


def misread(
    reader: Codec, conversation: Conversation, written: Written, seed: random.Random
) -> Misread | None:
    """Read a conversation back; None where all is as it was written."""
    if conversation.is_whole:
        return _misdecoded(reader, conversation, written)
    parsed = reader.parse(written.ids, written.prompt, tools=_TYPES)
    expected = conversation.messages[-1:]
    if not _are_same(expected, [parsed.message]):
        return _misread(conversation, written, "parse", expected, [parsed.message])
    stream = reader.stream(written.prompt, keep=True, tools=_TYPES)
    at, end = 0, len(written.ids) - len(parsed.rest)
    while at < end:
        size = seed.randint(1, 8)
        stream.push(written.ids[at : min(at + size, end)])
        at += size
    stream.finish()
    streamed = stream.message()
    if streamed != parsed.message:
        return _misread(conversation, written, "stream", [parsed.message], [streamed])
    return None


def _misdecoded(reader: Codec, conversation: Conversation, written: Written) -> Misread | None:
    expected = conversation.compared
    try:
        told = reader.decode(written.ids, tools=_TYPES)
    except ChatCodecError:
        told = []
    roles = {one["role"] for one in expected}
    found = [one for one in told if one["role"] in roles]
    if "tool" in roles:
        # Some templates declare tools in a message of their own, before the conversation.
        found = [one for one in found if one.get("content") or one.get("tool_calls")]
        found = found[-len(expected) :]
    if _are_same(expected, found):
        return None
    return _misread(conversation, written, "decode", expected, found)


def _misread(
    conversation: Conversation,
    written: Written,
    way: Way,
    expected: Sequence[Message],
    found: Sequence[Message],
) -> Misread:
    given = conversation.to_json()
    if any(one.path == "tools" for one in written.encoding.dropped):
        del given["tools"]
    first = first_change([*map(_seen, found)], [*map(_seen, expected)], "messages")
    return Misread(given, way, written.shown, tuple(expected), tuple(found), first)


def _are_same(written: Sequence[Message], read: Sequence[Message]) -> bool:
    return _is_same([*map(_seen, written)], [*map(_seen, read)])


def _seen(message: Message) -> dict[str, Any]:
    """What is compared of a message: no ids of calls, and no white space around texts."""
    calls = [one["function"] for one in message.get("tool_calls") or ()]
    reasoning = message.get("reasoning") or message.get("reasoning_content") or ""
    return {
        "role": message["role"],
        "content": (message.get("content") or "").strip(),
        "reasoning": reasoning.strip(),
        "tool_calls": [
            {"name": one["name"], "arguments": _loaded(one["arguments"])} for one in calls
        ],
    }


def _loaded(arguments: Any) -> Any:  # noqa: ANN401
    """The arguments of a call; a text where they are no JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _is_same(written: Any, read: Any) -> bool:  # noqa: ANN401
    """Whether two values are the same. Some templates write all values of arguments as texts."""
    if isinstance(written, dict) and isinstance(read, dict):
        return written.keys() == read.keys() and all(
            _is_same(value, read[key]) for key, value in written.items()
        )
    if isinstance(written, list) and isinstance(read, list):
        return len(written) == len(read) and all(map(_is_same, written, read))
    if isinstance(read, str) and not isinstance(written, str):
        return read.lower() == str(written).lower() or _loaded(read) == written
    if isinstance(written, bool) or isinstance(read, bool):
        return written is read
    return bool(written == read)
