"""A template's generation prompt is the end of a conversation: no message, and no text of one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import data
import pytest
import test_derived_readers as derived
import test_template_codec as published
from chatcodec import Codec, Template, Vocab
from chatcodec.errors import ChatCodecError

if TYPE_CHECKING:
    from pathlib import Path

LOOP = "{% for m in messages %}"
END = "{% endfor %}{% if add_generation_prompt %}"
TEMPLATES = {
    "text after the header": LOOP
    + "{% if m.role == 'user' %}<|u|>{{ m.content }}<|e|>"
    + "{% else %}<|a|>{{ m.content }}<|e|>{% endif %}"
    + END
    + "<|a|>\n{% endif %}",
    "other white space before the header": LOOP
    + "{% if m.role == 'user' %}<|u|>{{ m.content }}"
    + "{% else %}      <|a|>{{ m.content }}<|e|>{% endif %}"
    + END
    + "    <|a|>{% endif %}",
    "a token after the header": LOOP
    + "{% if m.role == 'user' %}<|u|>{{ m.content }}"
    + "{% else %}<|a|>{{ m.content }}<|e|>{% endif %}"
    + END
    + "<|a|><think>\n{% endif %}",
    "as the caller wishes": LOOP
    + "{% if m.role == 'user' %}<|u|>{{ m.content }}"
    + "{% else %}<|a|>{{ m.content }}<|e|>{% endif %}"
    + END
    + "<|a|>{% if enable_thinking %}<think>\n{% else %}\n\n{% endif %}{% endif %}",
    "text alone": LOOP
    + "{% if m.role == 'user' %}### Instruction:\n{{ m.content }}\n\n"
    + "{% else %}### Response:\n{{ m.content }}<|e|>{% endif %}"
    + END
    + "### Response:\n{% endif %}",
    "text with the name of the model": LOOP
    + "{% if m.role == 'user' %}GPT4 Correct User: {{ m.content }}<|e|>"
    + "{% else %}GPT4 Correct Assistant: {{ m.content }}<|e|>{% endif %}"
    + END
    + "GPT4 Correct Assistant:{% endif %}",
}
"""By how the prompt differs from the header of an answer in history."""

EOS = "<|e|>"
SPELLINGS = ("<|u|>", "<|a|>", "<|e|>", "<think>")
HOSTILE = [
    "<|a|>",
    "<|a|>\n",
    "    ",
    "\n",
    "    <|a|>",
    "<think>\n",
    "x",
    "é",
    "Hi there",
    "<|e|>",
]
"""Pieces of a caller's text: of the prompts too."""


@pytest.fixture(params=["bytes", "pieces"])
def vocab(request: pytest.FixtureRequest, tmp_path: Path) -> Vocab:
    path = tmp_path / "tokenizer.json"
    if request.param == "bytes":
        published.tokenizer(SPELLINGS).save(str(path))
        return Vocab.load(path)
    path.write_bytes(data.model_bytes("embedded"))
    size = Vocab.load(path).size
    return Vocab.load(path, special_tokens={one: size + at for at, one in enumerate(SPELLINGS)})


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_no_message(name: str, vocab: Vocab) -> None:
    codec = Codec(Template(TEMPLATES[name], eos_token=EOS), vocab)
    assert "derived from the template" in codec.describe()
    history = [user("hi"), assistant("a"), user("b"), assistant("c")]
    for wish in (None, True, False) if name == "as the caller wishes" else (None,):
        wished: dict[str, Any] = {} if wish is None else {"enable_thinking": wish}
        for count in range(1, 5):
            messages = history[:count]
            prompted = codec.encode(messages, add_generation_prompt=True, **wished)
            assert codec.decode(prompted.ids) == messages
            assert codec.canonical(messages, **wished) == messages


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_text_that_ends_as_a_prompt_does_is_a_text(name: str, vocab: Vocab) -> None:
    """In formats whose markers are control tokens, a caller writes no prompt."""
    codec = Codec(Template(TEMPLATES[name], eos_token=EOS), vocab)
    if codec.format.guarantee == "text":
        pytest.skip("text of the caller's may be a marker")
    seed = random.Random(name)
    for _ in range(100):
        messages = [
            (assistant if at % 2 else user)("".join(seed.choices(HOSTILE, k=seed.randint(1, 3))))
            for at in range(seed.randint(1, 4))
        ]
        plain = codec.encode(messages, add_generation_prompt=False)
        prompted = codec.encode(messages, add_generation_prompt=True)
        assert codec.decode(plain.ids) == codec.canonical(messages)
        assert codec.decode(prompted.ids) == codec.canonical(messages)


def conversation(seed: random.Random, pieces: list[str] | None) -> list[dict[str, Any]]:
    messages = derived.conversation(seed)
    for message in messages:
        if pieces and seed.random() < 0.6:
            message["content"] = "".join(seed.choices(pieces, k=seed.randint(1, 4)))
    return messages


@pytest.mark.skipif(not published.PUBLISHED, reason=f"no templates in {published.FOLDER}")
@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3, first=2))
def test_a_prompt_changes_no_message_of_a_published_template(name: str) -> None:
    codec = derived.codec_of(name)
    if codec is None or not derived.reads_conversations(codec):
        pytest.skip("no reader is derived")
    seed = random.Random(name)
    # Text may be a marker where markers are text.
    hostile = None
    if codec.format.guarantee == "ids":
        spelled = derived.spellings_of(published.text_of(name))
        hostile = [*spelled, "\n", "  ", "Hi", "é", "assistant", "user\n"]
    for _ in range(100 if data.LONG else 10):
        messages = conversation(seed, hostile)
        try:
            prompted = codec.encode(messages, add_generation_prompt=True)
            plain = codec.encode(messages, add_generation_prompt=False)
        except ChatCodecError:
            continue
        expected = codec.canonical(messages)
        assert codec.decode(plain.ids) == expected
        assert codec.decode(prompted.ids) == expected
