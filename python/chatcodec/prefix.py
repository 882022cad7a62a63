"""Whether a longer conversation begins with the ids of the shorter one, tried out.

An engine keeps what it computed for a prompt and its answer. The next prompt uses that as far as it
begins with the same ids. Many formats and chat templates write something else once the conversation
goes on: an answered turn loses its reasoning, for example. Two sample conversations, one with a
call, are encoded turn by turn, and compared at each boundary.

>>> from chatcodec import Codec
>>> audit_prefix(Codec("internlm2", vocab="embedded")).lost
0
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec.errors import MessageError, TemplateError
from chatcodec.options import IGNORE_INDEX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec, Encoding
    from chatcodec.options import FormatOptions

__all__ = ["Boundary", "Place", "PrefixAudit", "audit_prefix"]

Place: TypeAlias = Literal[
    "prompt to answer", "call to result", "answered turn to next user", "next user to answer"
]
"""Where a conversation goes on."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """One place at which a sample conversation goes on."""

    place: Place
    has_calls: bool
    """Whether it is of the sample that declares tools and has a call."""
    seen: int
    """Number of ids before the boundary: a prompt, and its answer where one was given."""
    lost: int
    """Number of them, from the first that is another one, that come again as other ids or not at
    all: an engine computes what comes there anew."""
    was: str
    """The text from the first id that is lost, shortened; empty where none is."""
    becomes: str
    """The text in its place."""


@dataclass(frozen=True, slots=True)
class PrefixAudit:
    """The boundaries of the sample conversations."""

    model: str
    """What was audited: the format's name, or `template`."""
    has_reasoning: bool
    """Whether the answers of the samples have reasoning."""
    boundaries: tuple[Boundary, ...]

    @property
    def has_calls(self) -> bool:
        """Whether one of the samples has a call and its result."""
        return any(each.has_calls for each in self.boundaries)

    @property
    def seen(self) -> int:
        """Number of ids before all boundaries."""
        return sum(boundary.seen for boundary in self.boundaries)

    @property
    def lost(self) -> int:
        """Number of ids that are lost at all boundaries."""
        return sum(boundary.lost for boundary in self.boundaries)

    def lost_at(self, place: Place) -> int:
        """Number of ids that are lost at the boundaries of one place."""
        return sum(each.lost for each in self.boundaries if each.place == place)

    def to_json(self) -> str:
        """All of it as a JSON object."""
        record = asdict(self) | {"seen": self.seen, "lost": self.lost}
        return json.dumps(record, ensure_ascii=False)

    def table(self) -> str:
        """A table for a terminal: each boundary, and what is lost there."""
        rows = [("sample", "boundary", "ids before", "lost", "was", "becomes")]
        for each in self.boundaries:
            shown = (_quoted(each.was), _quoted(each.becomes)) if each.lost else ("", "")
            sample = "with a call" if each.has_calls else "plain"
            rows.append((sample, each.place, str(each.seen), str(each.lost or "-"), *shown))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        samples = "with reasoning" if self.has_reasoning else "without reasoning"
        lines.append(
            f"{self.model}: of {self.seen} ids of conversations {samples}, {self.lost} are lost "
            "where they go on"
        )
        return "\n".join(lines) + "\n"

    __str__ = table


def described(codec: Codec) -> str | None:
    """Give a line for `Codec.describe`; None where nothing is lost, or nothing is written."""
    try:
        found = audit_prefix(codec)
    except (MessageError, TemplateError):
        return None
    if not found.lost:
        return None
    lost = {each.place: found.lost_at(each.place) for each in found.boundaries}
    most = max(lost, key=lambda place: lost[place])
    return (
        f"a longer conversation does not begin with the ids of the shorter one: {found.lost} of "
        f"{found.seen} ids of samples are lost, most from {most}"
    )


_NEXT: Place = "answered turn to next user"
_SHOWN = 48
"""Characters of a text that are shown."""

_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city today.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "The city."}},
                "required": ["city"],
            },
        },
    }
]
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "weather", "arguments": {"city": "Oslo"}},
}


def _answer(content: str, reasoning: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"role": "assistant", "content": content, "reasoning_content": reasoning, **more}


_SAMPLE: list[dict[str, Any]] = [
    {"role": "user", "content": "Do I need an umbrella in Oslo today?"},
    _answer("", "I do not know the weather. A tool can tell it.", tool_calls=[_CALL]),
    {"role": "tool", "tool_call_id": "call00001", "name": "weather", "content": "rain, 9 degrees"},
    _answer("Yes, it rains.", "It rains, so an umbrella is of use."),
    {"role": "user", "content": "And a coat?"},
    _answer("Yes, it is only nine degrees.", "Nine degrees are cold for most people."),
    {"role": "user", "content": "Thank you."},
]


def audit_prefix(codec: Codec) -> PrefixAudit:
    """Encode sample conversations turn by turn, and compare what goes on with what was there.

    The samples have reasoning, if the codec writes it; one has a call and its result, if the codec
    writes calls. Raises `MessageError` or `TemplateError` for a codec that writes no question and
    answer.
    """
    name = "template" if codec.template is not None else codec.format.name
    try:
        plain = _boundaries(codec, has_reasoning=True, has_calls=False)
    except (MessageError, TemplateError):
        has_reasoning = False
        plain = _boundaries(codec, has_reasoning=False, has_calls=False)
    else:
        has_reasoning = True
    try:
        called = _boundaries(codec, has_reasoning=has_reasoning, has_calls=True)
    except (MessageError, TemplateError):
        called = ()
    return PrefixAudit(name, has_reasoning, (*plain, *called))


def _sample(*, has_reasoning: bool, has_calls: bool) -> list[dict[str, Any]]:
    messages = _SAMPLE if has_calls else [_SAMPLE[0], *_SAMPLE[3:]]
    left_out = set() if has_reasoning else {"reasoning_content"}
    return [
        {key: value for key, value in message.items() if key not in left_out}
        for message in messages
    ]


def _asked(codec: Codec) -> FormatOptions:
    """Give the option that asks for reasoning, if the codec has it: the prompt of such answers."""
    try:
        codec.count(_SAMPLE[:1], thinking=True)
    except (MessageError, TemplateError, TypeError):
        return {}
    return {"thinking": True}


def _boundaries(codec: Codec, *, has_reasoning: bool, has_calls: bool) -> tuple[Boundary, ...]:
    messages = _sample(has_reasoning=has_reasoning, has_calls=has_calls)
    options: FormatOptions = _asked(codec) if has_reasoning else {}
    tools = _TOOLS if has_calls else None
    answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    seen: list[int] = []
    found: list[Boundary] = []

    def compare(place: Place, before: list[int], after: list[int]) -> None:
        found.append(_boundary(codec, place, before, after, has_calls=has_calls))

    for at in [*answers, len(messages)]:
        goes_on = messages[at - 1]["role"]
        asked = codec.encode(messages[:at], tools=tools, add_generation_prompt=True, **options)
        prompt = asked.ids.tolist()
        if seen:
            compare("call to result" if goes_on == "tool" else _NEXT, seen, prompt)
        if at < len(messages):
            answered = codec.encode(
                messages[: at + 1], tools=tools, add_generation_prompt=False, **options
            )
            is_first = goes_on == "tool" or not seen
            place: Place = "prompt to answer" if is_first else "next user to answer"
            compare(place, prompt, answered.ids.tolist())
            seen = [*prompt, *_generated(answered)]
    return tuple(found)


def _generated(encoding: Encoding) -> list[int]:
    """Give the ids that a model generates as the last message."""
    return [id_ for id_ in encoding.labels(last_only=True) if id_ != IGNORE_INDEX]


def _boundary(
    codec: Codec, place: Place, seen: list[int], after: list[int], *, has_calls: bool
) -> Boundary:
    pairs = zip(seen, after, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    kept = min(len(seen), len(after)) if same is None else same
    lost = len(seen) - kept
    was, becomes = (_text(codec, ids[kept:]) if lost else "" for ids in (seen, after))
    return Boundary(place, has_calls, len(seen), lost, was, becomes)


def _text(codec: Codec, ids: Sequence[int]) -> str:
    text = codec.vocab.decode(ids[:_SHOWN], control="spell")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
