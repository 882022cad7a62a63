"""What separates turns: the control tokens of sample conversations, and boundaries without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatcodec.check.scenarios import SCENARIOS
from chatcodec.errors import MessageError, TemplateError

if TYPE_CHECKING:
    from chatcodec import Codec, Encoding

__all__ = ["text_boundaries", "written_control"]

_TURNS = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi, what is it?"},
    {"role": "user", "content": "Is it raining?"},
]
_BOUNDARIES = ("question to answer", "answer to question")


def written_control(codec: Codec) -> tuple[str, ...]:
    """Return the spellings of the control tokens that sample conversations have, in order."""
    written: dict[int, None] = {}
    for scenario in SCENARIOS:
        encoding = _encode(codec, scenario.messages, scenario.tools)
        if encoding is not None:
            pairs = zip(encoding.ids, encoding.is_control, strict=True)
            written |= dict.fromkeys(int(id_) for id_, is_control in pairs if is_control)
    return tuple(codec.vocab.decode([id_]) for id_ in written)


def text_boundaries(codec: Codec) -> tuple[str, ...]:
    """Return the boundaries between two turns where no control token is."""
    encoding = _encode(codec, _TURNS, None)
    if encoding is None:
        return ()
    paths = [f"messages[{nth}].content" for nth in range(len(_TURNS))]
    places = [
        [at for at, source in enumerate(encoding.sources) if source == path] for path in paths
    ]
    if not all(places):
        return ()
    return tuple(
        name
        for name, before, after in zip(_BOUNDARIES, places, places[1:], strict=False)
        if not any(encoding.is_control[before[-1] + 1 : after[0]])
    )


def _encode(codec: Codec, messages: object, tools: object) -> Encoding | None:
    try:
        return codec.encode(messages, tools=tools)  # type: ignore[arg-type]
    except (MessageError, TemplateError):
        return None
