"""Conversations of a shape that a template wrote before are written as those of a new shape."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

import benign
import data
import pytest
from chatcodec import Codec, Template, Vocab
from chatcodec.errors import MessageError, TemplateError
from test_template_codec import PUBLISHED, text_of
from test_template_messages import codec_of, needs_templates

if TYPE_CHECKING:
    import random

MARKUP = (
    "<think>",
    "</think>",
    "<tool_response>",
    "<|im_end|>",
    "[INST]",
    "/no_think",
    "a|b",
    "```",
)


@functools.lru_cache(maxsize=256)
def texts_of(name: str) -> tuple[str, ...]:
    """Texts of people, markup, and what the template's expressions may look for."""
    source = text_of(name)
    strings = re.findall(r"'([^'\n]{1,40})'|\"([^\"\n]{1,40})\"", source)
    sought = {(one or other).replace("\\n", "\n") for one, other in strings}
    return (*benign.TEXTS, *MARKUP, *sorted(sought))


def described(codec: Codec, messages: list[dict[str, Any]], shape: str, **options: Any) -> Any:  # noqa: ANN401
    """All that an encoding says, or the error. `shape` is under a key that no template reads."""
    messages = [*messages[:-1], {**messages[-1], "shape": shape}]
    try:
        encoding = codec.encode(messages, on_unsupported="drop", **options)
    except (MessageError, TemplateError) as error:
        return str(error)
    return (
        encoding.ids.tolist(),
        encoding.is_control.tolist(),
        encoding.is_content.tolist(),
        encoding.offsets,
        encoding.sources,
        encoding.assistant_mask.tolist(),
        encoding.text,
        encoding.dropped,
        encoding.notes,
        encoding.neutralized,
    )


def with_texts(
    draw: random.Random, messages: list[dict[str, Any]], texts: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The messages with other contents and reasoning."""
    changed = []
    for message in messages:
        other = dict(message)
        for key in ("content", "reasoning_content"):
            if message.get(key):
                other[key] = draw.choice(("", "Hi ", "x")) + draw.choice(texts) or "y"
        changed.append(other)
    return changed


def check(name: str, draw: random.Random) -> bool:
    """Whether the law was tried on a conversation that is written."""
    codec, texts = codec_of(name), texts_of(name)
    conversation = benign.conversation(draw)
    options: dict[str, Any] = {
        "tools": conversation.tools,
        "add_generation_prompt": conversation.prompt,
        "boundary": draw.choice(["reference", "isolated"]),
    }
    if conversation.messages[-1]["role"] == "assistant" and draw.random() < 0.3:
        options |= {"add_generation_prompt": None, "continue_final": True}
    if conversation.thinking is not None and "enable_thinking" in text_of(name):
        options["enable_thinking"] = conversation.thinking
    plain = [
        {
            key: value and "Hello" if key in {"content", "reasoning_content"} else value
            for key, value in message.items()
        }
        for message in conversation.messages
    ]
    for _ in range(2):
        described(codec, plain, **options, shape="known")
    is_written = False
    for nth in range(4):
        messages = with_texts(draw, conversation.messages, texts)
        known = described(codec, messages, **options, shape="known")
        new = described(codec, messages, **options, shape=f"new {draw.random()}")
        assert known == new, (nth, json.dumps(messages), options)
        is_written |= not isinstance(known, str)
    return is_written


@needs_templates
@pytest.mark.parametrize("name", data.share(PUBLISHED, 3))
def test_a_known_shape_is_written_as_a_new_one(name: str) -> None:
    benign.check(lambda draw: check(name, draw), examples=15, least=0)


LOOKS = {
    "in a generator": "'<b>' in (messages | map(attribute='content'))",
    "in a generator of a test": "'<b>' is in(messages | map(attribute='content'))",
    "equal by name": "'<b>' is eq(other=m.content)",
    "selected by name": "['<b>'] | select('eq', other=m.content) | list",
}
# A look at what the text is like, not at a part of it that could be hidden.
LIKENESSES = {
    "no key that is made of it": "{m.content.strip('<>'): 1}.get(m.content) is none",
    "no item that is made of it": "{m.content.strip('<>'): 1}[m.content] is undefined",
    "not in keys that are made of it": "m.content not in {m.content.strip('<>'): 1}",
    "two keys that are made of it": "({m.content.strip('<>'): 1, m.content: 2} | length) == 2",
}


def looking(looks: str) -> Codec:
    """A codec whose template writes another turn where a condition holds of a text."""
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        f"{{% if {looks} %}}<|im_start|>system\n<|im_end|>\n{{% endif %}}{{% endfor %}}"
    )
    return Codec(Template(source), Vocab.load(data.qwen3_folder()), reader="qwen3")


HARMLESS, ASKS = ([{"role": "user", "content": text}] for text in ("Hi", "<b>"))


@pytest.mark.parametrize("looks", LOOKS.values(), ids=LOOKS)
def test_a_look_at_what_is_used_up_or_named_is_told(looks: str) -> None:
    codec = looking(looks)
    for messages in (HARMLESS, HARMLESS, HARMLESS, ASKS):
        encoding = codec.encode(messages, add_generation_prompt=False)
        assert sum(encoding.is_control.tolist()) == 2
    assert [note.kind for note in encoding.notes] == ["unfollowed"]
    with pytest.raises(MessageError):
        codec.encode(ASKS, add_generation_prompt=False, on_dependent="error")


@pytest.mark.parametrize("looks", LIKENESSES.values(), ids=LIKENESSES)
def test_a_look_at_what_a_text_is_like_is_told(looks: str) -> None:
    codec = looking(looks)
    for messages in (HARMLESS, HARMLESS, HARMLESS):
        assert not codec.encode(messages, add_generation_prompt=False).notes
    encoding = codec.encode(ASKS, add_generation_prompt=False)
    assert [note.kind for note in encoding.notes] == ["dependent"]
    with pytest.raises(MessageError):
        codec.encode(ASKS, add_generation_prompt=False, on_dependent="error")
