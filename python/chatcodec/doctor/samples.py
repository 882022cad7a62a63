"""The control tokens of sample conversations."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from chatcodec.check.scenarios import SCENARIOS
from chatcodec.errors import MessageError, TemplateError

if TYPE_CHECKING:
    from chatcodec import Codec

__all__ = ["written_control"]


def written_control(codec: Codec) -> tuple[str, ...]:
    """Return the spellings of the control tokens that sample conversations have, in order."""
    written: dict[int, None] = {}
    for scenario in SCENARIOS:
        messages: Any = scenario.messages
        with contextlib.suppress(MessageError, TemplateError):
            encoding = codec.encode(messages, tools=scenario.tools)
            pairs = zip(encoding.ids, encoding.is_control, strict=True)
            written |= dict.fromkeys(int(id_) for id_, is_control in pairs if is_control)
    return tuple(codec.vocab.decode([id_]) for id_ in written)
