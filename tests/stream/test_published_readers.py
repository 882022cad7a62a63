"""What a published template writes is what its reader reads, in random conversations."""

from __future__ import annotations

import ast
import contextlib
import json
from typing import TYPE_CHECKING, Any

import benign
import pytest
from chatcodec.errors import MessageError, TemplateError
from test_published_families import READERS, codec_that_reads

if TYPE_CHECKING:
    import random

    from benign import Message


OTHERWISE = {
    "deepseek:r1": "calls of a second round have no header, and text beside calls is another turn",
    "gemma4": "text beside calls stands after their results",
    "mistral:small3": "a result of nothing is no JSON",
    "seed-oss": "an answer of nothing has no end",
}
"""Templates that write what no reader can tell apart, and why."""


def meant(value: object) -> object:
    """A value between tags: a text may look like JSON or Python, and what is empty is nothing."""
    if isinstance(value, str):
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError):
                return meant(read(value.strip())) if value.strip() else ""
        return value
    if isinstance(value, list):
        return [meant(item) for item in value] or ""
    if value is None:
        return ""
    if isinstance(value, dict):
        return {key: meant(item) for key, item in value.items() if meant(item) != ""} or ""
    return value


def called(call: dict[str, Any]) -> tuple[str, object]:
    """The name of a call, and what its arguments mean."""
    said = call["function"]["arguments"]
    return call["function"]["name"], meant(json.loads(said) if isinstance(said, str) else said)


def said(message: Message, left_out: set[str], path: str) -> tuple[Any, ...]:
    """What an assistant says, without what the template left out."""
    calls = [
        called(call)
        for at, call in enumerate(message.get("tool_calls", ()))
        if not left_out & {path, f"{path}.tool_calls", f"{path}.tool_calls[{at}]"}
    ]
    content = message.get("content") or ""
    if left_out & {path, f"{path}.content"}:
        content = ""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    if left_out & {path, f"{path}.reasoning_content", f"{path}.reasoning"}:
        thought = ""
    return content.strip(), thought.strip(), calls


@pytest.mark.parametrize(("format_", "template"), READERS)
def test_what_the_template_writes_is_read(format_: str, template: str) -> None:
    if format_ in OTHERWISE:
        pytest.skip(OTHERWISE[format_])
    codec = codec_that_reads(format_, template)

    def law(draw: random.Random) -> bool:
        conversation = benign.conversation(draw)
        options: dict[str, Any] = {"tools": conversation.tools} if conversation.tools else {}
        messages = conversation.messages
        try:
            encoding = codec.encode(
                messages, add_generation_prompt=False, on_unsupported="drop", **options
            )
        except (MessageError, TemplateError):
            return False
        left_out = {dropped.path for dropped in encoding.dropped}
        answers = [
            said(message, left_out, f"messages[{at}]")
            for at, message in enumerate(messages)
            if message["role"] == "assistant"
        ]
        told = [said(it, set(), "") for it in codec.decode(encoding) if it["role"] == "assistant"]
        # A template may write a turn of nothing, or none.
        assert list(filter(any, told)) == list(filter(any, answers)), encoding.text
        return True

    benign.check(law, examples=60, least=6)
