"""A format writes what the template of its models writes, or refuses: random conversations.

The oracle is jinja2 in transformers' environment. What a template passes
over, a format may write: such conversations are not compared.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import benign
import data
import pytest
import template_oracle as oracle
from chatcodec import MessageError
from test_published_families import FAMILIES, Family, codec_of, given_to, source_of, with_calls

if TYPE_CHECKING:
    import random

    import jinja2
    from benign import Conversation
    from chatcodec import Codec

OTHER = {
    "gemma4": "Google's own template was not at hand: the one that was is vLLM's",
    "mistral:devstral": "mistral-common is followed, which strips answers",
    "mistral:ministral3": "mistral-common is followed, which strips answers",
    "mistral:small3": "mistral-common is followed; the template is vLLM's",
}
"""Formats that follow another reference than the template that is at hand, and why."""

WORD = "kaqzv"


@dataclass(frozen=True)
class Pair:
    """A format and the template of its models."""

    family: Family
    codec: Codec
    template: jinja2.Template
    engine: oracle.Engine

    def rendered(self, messages: list[benign.Message], conversation: Conversation) -> str:
        """The template's text; raises what the template raises."""
        options: dict[str, Any] = {"add_generation_prompt": conversation.prompt}
        thinking = self._thinking(conversation)
        if thinking is not None:
            options["enable_thinking"] = thinking
        given = self.engine.given(messages)
        scenario = given_to(self.family, (given, conversation.tools, options))
        return oracle.render(self.template, scenario, own=self.own)

    def _thinking(self, conversation: Conversation) -> bool | None:
        """What the template is told: of an option that the format does not have, nothing."""
        if not self.has_thinking:
            return None
        if conversation.thinking is None and self.family.reasons:
            if conversation.prompt:
                return False
            last = max(
                (at for at, m in enumerate(conversation.messages) if m["role"] == "user"),
                default=0,
            )
            return any(m.get("reasoning_content") for m in conversation.messages[last:])
        return conversation.thinking

    @functools.cached_property
    def has_thinking(self) -> bool:
        """Whether both know the option that asks for reasoning."""
        question = [{"role": "user", "content": "x"}]
        key = self.family.thinking or "enable_thinking"
        texts = {
            oracle.render(self.template, (question, None, {key: on}), own=self.own)
            for on in (False, True)
        }
        return len(texts) > 1 and "thinking" in self.codec.format.options

    @property
    def own(self) -> dict[str, Any]:
        return oracle.OWN | dict(self.family.own)

    @functools.cached_property
    def writes_reasoning(self) -> bool:
        question = {"role": "user", "content": "x"}
        answer = {"role": "assistant", "content": "y", "reasoning_content": WORD}
        asked = (benign.Conversation([], None, prompt=False, thinking=on) for on in (None, True))
        return any(WORD in self.rendered([question, answer], it) for it in asked)

    def passes_over(self, conversation: Conversation) -> bool:
        """Whether the template has no place for a part of the conversation, which formats write."""
        if conversation.reasons and not self.writes_reasoning:
            return True
        if not conversation.calls:
            return False
        marked = json.loads(json.dumps(conversation.messages))
        words: list[str] = []
        for message in marked:
            for call in message.get("tool_calls", ()):
                words.append(f"{WORD}{len(words)}z")
                call["function"]["arguments"] = {"city": words[-1]}
            if message["role"] == "tool":
                words.append(f"{WORD}{len(words)}z")
                message["content"] = words[-1]
        text = self.rendered(marked, conversation)
        return not all(word in text for word in words)

    def compared(self, conversation: Conversation) -> tuple[str, Any, Any]:
        """How the texts compare in a word, the template's, and the format's or its error."""
        try:
            theirs = self.rendered(conversation.messages, conversation)
            if self.passes_over(conversation):
                return "passed over", theirs, None
        except Exception as error:  # noqa: BLE001 - whatever a template raises
            return "raised", error, None
        options: dict[str, Any] = {}
        thinking = conversation.thinking
        if thinking is not None and self.has_thinking:
            options["thinking"] = thinking
        if "date" in self.codec.format.options:
            options["date"] = dt.datetime.now().date().isoformat()  # noqa: DTZ005
        messages = with_calls(conversation.messages, self.family.calls)
        # A template that always writes a prompt is not asked for none.
        options["add_generation_prompt"] = conversation.prompt or self.unprompted
        try:
            ours = self.codec.encode(messages, tools=conversation.tools, **options).text
        except MessageError as error:
            return "refused", theirs, error
        return "same" if ours == theirs else "differs", theirs, ours

    @functools.cached_property
    def unprompted(self) -> bool | None:
        """What asks for no prompt: None where the template always writes one."""
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
        asked = (benign.Conversation([], None, prompt=on, thinking=None) for on in (False, True))
        text, prompted = (self.rendered(messages, it) for it in asked)
        return None if text == prompted else False


@functools.cache
def pair_of(family: Family) -> Pair:
    source = source_of(family)
    template = oracle.environment().from_string(source)
    return Pair(family, codec_of(family.format), template, oracle.Engine(template, source))


@pytest.mark.parametrize(
    "family", data.share([it for it in FAMILIES if it.format not in OTHER], 4), ids=str
)
def test_no_text_differs_from_that_of_the_template(family: Family) -> None:
    pair = pair_of(family)

    def law(draw: random.Random) -> bool:
        conversation = benign.conversation(draw)
        kind, theirs, ours = pair.compared(conversation)
        if kind == "differs":
            assert ours == theirs, conversation
        return kind == "same"

    benign.check(law, examples=300, least=6)
