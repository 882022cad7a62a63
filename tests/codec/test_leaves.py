"""Each part of a random conversation is in the text, told as left out, or refused.

Each text, name and key of a conversation is another word, so the encoded text shows which parts
are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import benign
import chatcodec
import data
import pytest
import test_constrain as constrained
from chatcodec.errors import MessageError, TemplateError
from test_template_codec import PUBLISHED
from test_template_messages import codec_of, needs_templates

if TYPE_CHECKING:
    import random

    from chatcodec import Codec

Leaves = list[tuple[str, str]]

PARTS_ALONE = "trl_llava_next.jinja"
"""The template that takes no content as a text: nearly every conversation is refused."""


BETWEEN = ["</think>", "\n</think>\n\n", "<think>", "</seed:think>", "|", "\n", " ", "</tool_call>"]
"""What stands between two words of a text: spellings at which templates cut, and others."""


class Marked:
    """A conversation with a word of its own in each place."""

    def __init__(self, draw: random.Random) -> None:
        conversation = benign.conversation(draw)
        self.draw = draw
        self.leaves: Leaves = []
        self.messages = [
            self._message(f"messages[{at}]", message)
            for at, message in enumerate(conversation.messages)
        ]
        self.tools = None
        if conversation.tools:
            self.tools = [
                self._tool(f"tools[{at}]", it) for at, it in enumerate(conversation.tools)
            ]
        self.prompt = conversation.prompt

    def _word(self, path: str) -> str:
        word = f"w{len(self.leaves)}q"
        self.leaves.append((path, word))
        return word

    def _text(self, path: str) -> str:
        """Two words, with something between them at which a template may cut a text."""
        return f"{self._word(path)}{self.draw.choice(BETWEEN)}{self._word(path)}"

    def _message(self, path: str, message: dict[str, Any]) -> dict[str, Any]:
        marked = dict(message)
        for key in ("content", "reasoning_content"):
            if message.get(key):
                marked[key] = self._text(f"{path}.{key}")
        if "tool_calls" in message:
            marked["tool_calls"] = [
                self._call(f"{path}.tool_calls[{at}]", call)
                for at, call in enumerate(message["tool_calls"])
            ]
        if "name" in message:
            # A result is named as its call is.
            marked.pop("name")
        return marked

    def _call(self, path: str, call: dict[str, Any]) -> dict[str, Any]:
        name = self._word(f"{path}.function.name")
        inside = f"{path}.function.arguments"
        arguments = {
            # MiniMax-M3 leaves out members that are null.
            (key if value is None else self._word(inside)): self._value(inside, value)
            for key, value in call["function"]["arguments"].items()
        }
        return {**call, "function": {"name": name, "arguments": arguments}}

    def _value(self, path: str, value: object) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            return self._word(path)
        if isinstance(value, list):
            return [self._value(path, item) for item in value]
        if isinstance(value, dict):
            return {
                (key if item is None else self._word(path)): self._value(path, item)
                for key, item in value.items()
            }
        return value

    def _tool(self, path: str, tool: dict[str, Any]) -> dict[str, Any]:
        inside = f"{path}.function"
        parameters = tool["function"]["parameters"]
        properties = {
            self._word(f"{inside}.parameters"): schema
            for schema in parameters["properties"].values()
        }
        function = {
            "name": self._word(f"{inside}.name"),
            "description": self._word(f"{inside}.description"),
            "parameters": {"type": "object", "properties": properties},
        }
        return {"type": "function", "function": function}


def is_in(path: str, around: str) -> bool:
    return path == around or path.startswith((f"{around}.", f"{around}["))


def check(codec: Codec, *, least: int) -> None:
    """A law on a codec; conversations that are refused are not counted."""

    def law(draw: random.Random) -> bool:
        marked = Marked(draw)
        options: dict[str, Any] = {"tools": marked.tools} if marked.tools else {}
        options["add_generation_prompt"] = marked.prompt or None
        try:
            encoding = codec.encode(marked.messages, on_unsupported="drop", **options)
        except (MessageError, TemplateError):
            return False
        told = [found.path for found in encoding.dropped]
        for path, word in marked.leaves:
            is_told = any(is_in(path, found) or is_in(found, path) for found in told)
            assert is_told or word in encoding.text, (path, told)
        return True

    benign.check(law, examples=20, least=least)


@needs_templates
@pytest.mark.parametrize(
    "name", data.share([name for name in PUBLISHED if name != PARTS_ALONE], 4, first=2)
)
def test_a_template_loses_nothing_in_silence(name: str) -> None:
    check(codec_of(name), least=1)


@pytest.mark.parametrize("format_", chatcodec.formats())
def test_the_name_of_a_result_is_written_or_told(format_: str) -> None:
    codec = constrained.codec_of(format_)
    function = {"name": "f", "arguments": "{}"}
    calls = [{"type": "function", "id": "call00001", "function": function}]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "y", "tool_call_id": "call00001", "name": "wqz"},
    ]
    try:
        encoding = codec.encode(messages)
    except MessageError:
        return
    told = [(found.path, found.why) for found in encoding.dropped]
    assert "wqz" in encoding.text or ("messages[2].name", "policy") in told


@pytest.mark.parametrize("format_", chatcodec.formats())
def test_a_format_loses_nothing_in_silence(format_: str) -> None:
    check(constrained.codec_of(format_), least=3)
