"""Completions as text with control tokens spelled out, read in every way that streams take them."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import data
from chatcodec import collect
from chatcodec.events import Notice
from naive import merged

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from chatcodec import Codec
    from chatcodec.events import Event


@functools.cache
def codec_of(format_: str) -> Codec:
    """A codec of a format on the embedded vocabulary, with the format's control tokens after it."""
    if format_ == "internlm2":
        return data.load_codec("embedded")
    name, _, variant = format_.partition(":")
    path = data.ROOT / "rust" / "core" / "formats" / f"{name}.toml"
    file = tomllib.loads(path.read_text(encoding="utf-8"))
    control = file["control"] | file.get("variant", {}).get(variant, {}).get("control", {})
    spellings = [one if isinstance(one, str) else one[0] for one in control.values() if one]
    own = ("<s>", "</s>")
    return data.load_appended(format_, tuple(one for one in spellings if one not in own))


def ids_of(codec: Codec, text: str) -> list[int]:
    """Text with its control tokens as ids."""
    control = codec.vocab.control
    spelled = sorted(control, key=len, reverse=True)
    pattern = re.compile("(" + "|".join(map(re.escape, spelled)) + ")")
    ids: list[int] = []
    for part in pattern.split(text):
        ids.extend([control[part]] if part in control else codec.vocab.encode(part))
    return ids


def told(  # noqa: PLR0913
    codec: Codec,
    text: str,
    prompt: str | None = None,
    *,
    tools: list[dict[str, Any]] | None = None,
    calls_in_reasoning: Literal["text", "call"] | None = None,
    reason: Literal["stop", "length"] = "stop",
) -> list[Event]:
    """The events of a completion: the same as ids, as text, and as ids of text, in every split."""
    before = None if prompt is None else ids_of(codec, prompt)
    ids = ids_of(codec, text)

    def read(pushes: list[Any], markers: Literal["ids", "ids_or_text", "text"]) -> list[Event]:
        stream = codec.stream(
            before, markers=markers, tools=tools, calls_in_reasoning=calls_in_reasoning
        )
        push: Callable[[Any], list[Event]]
        push = stream.push_text if markers == "text" else stream.push
        events = [event for pushed in pushes for event in push(pushed)]
        return merged([*events, *stream.finish(reason)])

    whole = read([ids], "ids")
    assert read([[id_] for id_ in ids], "ids") == whole
    for at in range(len(ids) + 1):
        assert read([ids[:at], ids[at:]], "ids") == whole, (at, text)
    by_text = plain(read([text], "text"))
    # A token that means nothing is a notice; its spelling is text beside an empty one.
    is_odd = any(kind in ("malformed", "unexpected_control") for kind, _ in notices_of(whole))
    assert is_odd or by_text == plain(whole)
    assert plain(read(list(text), "text")) == by_text
    for at in range(len(text) + 1):
        assert plain(read([text[:at], text[at:]], "text")) == by_text, (at, text)
    written = codec.vocab.encode(text)
    # SentencePiece has no ids for U+2581, which is its space.
    is_same = codec.vocab.decode(written) == text
    for pushes in ([written], [[id_] for id_ in written]) if is_same else ():
        assert plain(read(pushes, "ids_or_text")) == by_text
    return whole


def plain(events: list[Event]) -> list[tuple[object, ...]]:
    """Events without their positions."""
    return [
        (type(event).__name__, *(getattr(event, name) for name in type(event).__match_args__))
        for event in events
    ]


def message_of(events: list[Event]) -> dict[str, Any]:
    """The message that events tell."""
    return collect(events)


def calls_of(events: list[Event]) -> list[tuple[str, Any]]:
    """The names and arguments of the calls that events tell."""
    calls = message_of(events).get("tool_calls", [])
    functions = [call["function"] for call in calls]
    return [(one["name"], json.loads(one["arguments"])) for one in functions]


def notices_of(events: list[Event]) -> list[tuple[str, str]]:
    """The kinds and texts of the notices among events."""
    return [(event.kind, event.text) for event in events if isinstance(event, Notice)]
