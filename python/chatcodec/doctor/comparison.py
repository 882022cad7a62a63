"""The ids of sample conversations beside those of the model's tokenizer of transformers."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.check.scenarios import SCENARIOS, Scenario
from chatcodec.errors import ChatCodecError, MessageError, TemplateError
from chatcodec.hf import wrap
from chatcodec.reference import transformers_version

if TYPE_CHECKING:
    from chatcodec import Codec

__all__ = ["Comparison", "Difference", "compare"]

_SHOWN = 8
"""Ids shown from the first that differs on."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first ids that differ in a conversation."""

    conversation: str
    position: int
    """Number of equal ids before."""
    theirs: str
    """The text of transformers' next ids, and the ids."""
    ours: str
    """The text of the codec's next ids, and the ids."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sample conversations by what becomes of them."""

    version: str
    """The version of transformers."""
    same: tuple[str, ...]
    """Conversations with the same ids."""
    different: tuple[str, ...]
    """Conversations with other ids."""
    refused: tuple[str, ...]
    """Conversations with a part that the template has no place for: refused here, and written
    without the part by transformers; or refused by both."""
    added: tuple[str, ...]
    """Conversations whose tools or calls the template passes over, and the format writes."""
    example: Difference | None
    reason: str
    """Why the ids differ, where that is known."""

    @property
    def compared(self) -> int:
        """Number of conversations that both write."""
        return len(self.same) + len(self.different)


def compare(codec: Codec, tokenizer: Any) -> Comparison:  # noqa: ANN401
    """Compare a codec with a tokenizer of transformers on conversations of all shapes."""
    same, different, refused, added = list[str](), list[str](), list[str](), list[str]()
    example = None
    for scenario in SCENARIOS:
        if "spells control" in scenario.name:
            continue  # whose ids are to differ
        ours, theirs = _ours(codec, scenario), _theirs(tokenizer, scenario)
        if ours is None or theirs is None:
            refused.append(scenario.name)
        elif ours == theirs:
            same.append(scenario.name)
        elif codec.template is None and scenario.tools is not None:
            added.append(scenario.name)
        else:
            different.append(scenario.name)
            example = example or _difference(codec, scenario.name, theirs, ours)
    return Comparison(
        transformers_version(),
        tuple(same),
        tuple(different),
        tuple(refused),
        tuple(added),
        example,
        _reason(tokenizer) if different else "",
    )


def _reason(tokenizer: Any) -> str:  # noqa: ANN401
    """Say whether the tokenizer's class splits text otherwise than its file; empty if not."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with contextlib.suppress(ChatCodecError, TypeError):
            wrap(tokenizer)
    return "; ".join(str(each.message) for each in warned if each.category is UserWarning)


def _is_open(scenario: Scenario) -> bool:
    return bool(scenario.messages[-1]["role"] != "assistant")


def _ours(codec: Codec, scenario: Scenario) -> list[int] | None:
    try:
        encoding = codec.encode(
            scenario.messages, tools=scenario.tools, add_generation_prompt=_is_open(scenario)
        )
    except (MessageError, TemplateError):
        return None
    return encoding.ids.tolist()


def _theirs(tokenizer: Any, scenario: Scenario) -> list[int] | None:  # noqa: ANN401
    try:
        ids = tokenizer.apply_chat_template(
            [_with_reasoning(message) for message in scenario.messages],
            tools=scenario.tools,
            add_generation_prompt=_is_open(scenario),
            return_dict=False,
        )
    except Exception:  # noqa: BLE001 - templates and tokenizers raise what they like
        return None
    return [int(id_) for id_ in ids]


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Give the reasoning the other names that templates have for it, as the codec does."""
    if "reasoning_content" not in message:
        return message
    text = message["reasoning_content"]
    return {**message, "reasoning": text, "thinking": text}


def _difference(codec: Codec, name: str, theirs: list[int], ours: list[int]) -> Difference:
    pairs = enumerate(zip(theirs, ours, strict=False))
    shorter = min(len(theirs), len(ours))
    at = next((nth for nth, (one, other) in pairs if one != other), shorter)
    return Difference(name, at, *(_shown(codec, ids[at : at + _SHOWN]) for ids in (theirs, ours)))


def _shown(codec: Codec, ids: list[int]) -> str:
    if not ids:
        return "the end"
    known = [id_ for id_ in ids if id_ < codec.vocab.size]
    return f"{codec.vocab.decode(known)!r} {ids}"
