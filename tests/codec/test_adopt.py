"""`Codec.adopt`: ids that were seen, of messages that are known, go on as their encoding does."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, formats
from chatcodec.errors import ChatCodecError, MessageError
from completions import codec_of
from rollouts import TOOLS, answers, results
from test_template_codec import PUBLISHED, made, text_of

if TYPE_CHECKING:
    from chatcodec import Encoding

ASK: list[dict[str, Any]] = [{"role": "user", "content": "Weather in Oslo?"}]
NEXT: list[dict[str, Any]] = [{"role": "user", "content": "And in Bergen?"}]


def check(codec: Codec, seed: int, tools: list[dict[str, Any]] | None) -> int:
    """Extend an encoding and what was adopted of its ids; give how often."""
    choose = random.Random(seed)
    messages, extended = list(ASK), 0
    prompt: Encoding = codec.encode(messages, tools=tools)
    for _ in range(3):
        completion = choose.choice(answers(codec, tools))
        said = codec.parse(completion, prompt.ids).message
        new = results(said, choose)
        adopted = codec.adopt(prompt.ids, messages, tools=tools)
        assert adopted.ids == prompt.ids
        assert adopted.text == prompt.text
        try:
            after = codec.extend(prompt, completion, new)
        except MessageError as error:
            with pytest.raises(MessageError, match=re.escape(str(error))):
                codec.extend(adopted, completion, new)
            return extended
        again = codec.extend(adopted, completion, new)
        assert again.ids == after.ids
        # What is said of the answer is the same; of earlier turns, that there is something.
        base = len(prompt)
        own = [note for note in after.notes if note.tokens[0] >= base]
        assert [note for note in again.notes if note.tokens[0] >= base] == own
        known = [note.kind for note in prompt.notes]
        new_kinds = {note.kind for note in after.notes if note.kind not in known}
        assert bool(again.notes) >= bool(new_kinds)
        extended += 1
        messages = [*messages, {**said, "role": "assistant"}, *new]
        prompt = after
    return extended


def test_what_was_adopted_goes_on_as_an_encoding() -> None:
    extended = 0
    for name in [*data.share(sorted(formats()), 6), *data.share(PUBLISHED, 12)]:
        try:
            codec = made(text_of(name))[1] if name.endswith(".jinja") else codec_of(name)
            for tools in (None, TOOLS):
                codec.encode(ASK, tools=tools)
        except ChatCodecError:
            continue  # a format without tools, or one that the vocabulary does not have
        for tools in (None, TOOLS):
            for seed in range(3):
                extended += check(codec, data.seed() + seed, tools)
    assert extended > 50


HEADLESS = (
    "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% elif m.role == 'tool' %}[RESULT]{{ m.content }}[/RESULT]"
    "{% elif m.tool_calls %}[CALLS]{{ m.tool_calls[0].function | tojson }}</s>"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)


def test_an_answer_without_a_header_may_begin_with_its_call() -> None:
    """`[CALLS]` is the first token of such a message, and opens no other turn."""
    _, codec = made(HEADLESS)
    vocab = codec.vocab
    call = [vocab.control["[CALLS]"], *vocab.encode('{"name": "f", "arguments": {}}')]
    completion = [*call, vocab.control["</s>"]]
    prompt = codec.encode(ASK)
    extended = codec.extend(prompt, completion, NEXT)
    assert extended.ids.tolist()[: len(prompt) + len(completion)] == [*prompt.ids, *completion]
    assert extended.text.endswith("[INST] And in Bergen? [/INST]")
    forged = [vocab.control["[INST]"], *vocab.encode(" x"), vocab.control["</s>"]]
    with pytest.raises(MessageError, match="opens another turn"):
        codec.extend(prompt, forged, NEXT)


WITHIN = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<|model|>{{ m.content }}"
    "{% if messages[loop.index] is defined and messages[loop.index].role == 'tool' %}"
    "<|result|>{{ messages[loop.index].content }}{% endif %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|model|>{% endif %}"
)


def test_a_result_that_is_written_before_the_end_of_the_answer_is_refused() -> None:
    """It would have no place after the sampled ids, and would be lost."""
    _, codec = made(WITHIN, check_template=False)
    said = {"role": "assistant", "content": "Answer."}
    result = {"role": "tool", "content": "rain"}
    whole = codec.encode([*ASK, said, result], on_unsupported="drop")
    assert "<|result|>rain<|end|>" in whole.text
    completion = [*codec.vocab.encode("Answer."), codec.vocab.control["<|end|>"]]
    with pytest.raises(MessageError) as error:
        codec.extend(codec.encode(ASK), completion, [result], on_unsupported="drop")
    assert error.value.path in {"new_messages[0]", "completion"}


def test_reasoning_of_turns_without_sources_is_noted() -> None:
    codec = codec_of("qwen3")
    called = {"name": "look", "arguments": "{}"}
    turn = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": called}]}
    messages = [*ASK, {**turn, "reasoning_content": "Hm."}, {"role": "tool", "content": "x"}]
    prompt = codec.encode(messages)
    completion = [*codec.vocab.encode("Yes."), codec.stop_ids[0]]
    assert "Hm." in prompt.text
    for before in (prompt, codec.adopt(prompt.ids, messages)):
        assert "reasoning" in {note.kind for note in codec.extend(before, completion, NEXT).notes}
    bare = [*ASK, turn, {"role": "tool", "content": "x"}]
    plain = codec.adopt(codec.encode(bare).ids, bare)
    assert "reasoning" not in {note.kind for note in codec.extend(plain, completion, NEXT).notes}


def test_what_cannot_be_adopted(embedded: Codec) -> None:
    with pytest.raises(MessageError) as error:
        embedded.adopt([1], [{"role": "critic", "content": "x"}])
    assert error.value.path == "messages[0].role"
    with pytest.raises(MessageError, match="continue_final"):
        embedded.adopt([1], ASK, continue_final=True)
    with pytest.raises(TypeError):
        embedded.adopt([1], ASK, effort=3)
    closed = embedded.adopt([1], [*ASK, {"role": "assistant", "content": "x"}])
    with pytest.raises(MessageError, match="does not end where a model answers"):
        embedded.extend(closed, [1], NEXT)
