"""Response templates from what codecs write read what the codecs read, as transformers does."""

from __future__ import annotations

import functools
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import data
import pytest
import test_derived_readers as derived
import test_template_codec as published
from chatcodec import Codec, Format, FormatError, ResponseTemplate, TemplateError, prove
from chatcodec.check.vocabulary import vocabulary_of
from chatcodec.proof import prove_reader
from chatcodec.proof.conversations import Conversation
from chatcodec.proof.reading import write
from chatcodec.response import export_response
from test_proof import CALLS, codec_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = {"whole conversations of texts", "a result of a call"}


@functools.cache
def built_in(name: str) -> Codec:
    """A format with a vocabulary of its control tokens."""
    form = Format.built_in(name)
    return Codec(form, vocabulary_of(form.text), check_template=False)


def answers(codec: Codec, count: int) -> Iterator[tuple[Conversation, str, str]]:
    """Random answers of the parts that a codec reads: the prompt's text, and the answer's."""
    for part in prove(codec, count=90).parts:
        if not part.written or not part.is_fine or part.part in WHOLE:
            continue
        seed = random.Random(part.part)
        for _ in range(count):
            conversation = Conversation.random(part.part, seed)
            if (written := write(codec, conversation)) is not None:
                prompt, answer = map(codec.vocab.decode, (written.prompt, written.ids))
                yield conversation, prompt, answer


def told(message: dict[str, Any]) -> tuple[str, str, list[tuple[str, Any]]]:
    """What is compared of a message that transformers reads."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    reasoning = message.get("reasoning_content", "")
    content = message.get("content", "").strip()
    return content, reasoning.strip(), [(call["name"], call["arguments"]) for call in calls]


def check_by_library(codec: Codec, spec: dict[str, Any]) -> int:
    """Read random answers by transformers; give their number."""
    chat_parsing = pytest.importorskip("transformers.utils.chat_parsing")
    anchor = spec.get("start_anchor_pattern") or re.escape(spec["start_anchor"])
    read = 0
    for conversation, prompt, answer in answers(codec, 4):
        begun = sum(one["role"] == "assistant" for one in conversation.messages)
        if len(re.findall(anchor, prompt)) < begun:
            continue  # The answer of the past begins otherwise than models are prompted.
        message = chat_parsing.parse_response(answer, spec, prefix=prompt)
        assert told(message) == told(conversation.messages[-1]), (prompt, answer)
        read += 1
    return read


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("chatml", ["content"]),
        ("qwen3", ["reasoning_content", "tool_calls", "content"]),
        ("qwen3:thinking", ["reasoning_content", "tool_calls", "content"]),
        ("internlm2", ["tool_calls", "content"]),
        ("deepseek:r1", ["reasoning_content", "tool_calls", "content"]),
        ("deepseek:v3.1", ["reasoning_content", "tool_calls", "content"]),
        ("kimi-k2", ["tool_calls", "content"]),
        ("mistral", ["tool_calls", "content"]),
        ("command-a", ["reasoning_content", "tool_calls", "content"]),
        ("harmony", ["reasoning_content", "tool_calls", "content"]),
        ("nemotron-nano2", ["reasoning_content", "tool_calls", "content"]),
    ],
)
def test_built_in_formats(name: str, fields: list[str]) -> None:
    codec = built_in(name)
    spec = export_response(codec)
    assert list(spec["fields"]) == fields
    assert check_by_library(codec, spec) >= 4


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("qwen3-coder", "cannot say a call, whose arguments are no JSON"),
        ("glm4.5", "cannot say a call, whose arguments are no JSON"),
        ("llama3.1", "cannot say a call, which has no marker at both ends"),
        ("mistral:v13", "cannot say a call, which has no marker at both ends"),
    ],
)
def test_what_cannot_be_said_is_named(name: str, problem: str) -> None:
    with pytest.raises(FormatError, match=f"response template: {problem}; expected") as caught:
        export_response(built_in(name))
    assert caught.value.key == "a call"


def test_qwen3_in_full() -> None:
    assert export_response(built_in("qwen3")) == {
        "version": 1,
        "defaults": {"role": "assistant"},
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "reasoning_content": {"open": "<think>", "close": "</think>"},
            "tool_calls": {
                "open_pattern": r"\s*<tool_call>",
                "close": "</tool_call>",
                "content": "json",
                "transform": {
                    "type": "function",
                    "function": {"name": "{content.name}", "arguments": "{content.arguments}"},
                },
                "repeats": True,
            },
            "content": {"close": ["<|im_end|>", "<|endoftext|>"]},
        },
    }


def test_a_response_template_is_exported_as_it_is() -> None:
    spec = {"start_anchor": "<|im_start|>assistant\n", "fields": {"content": {}}}
    assert export_response(codec_of(CALLS, reader=ResponseTemplate(spec))) == spec


def test_what_the_codec_does_not_read_is_left_out() -> None:
    assert list(export_response(codec_of(CALLS, reader="chatml"))["fields"]) == ["content"]
    spec = export_response(codec_of(CALLS, reader="internlm2"))
    assert list(spec["fields"]) == ["tool_calls", "content"]


def test_an_export_that_reads_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers are read before the template is given: a wrong marker is noticed."""
    monkeypatch.setattr("chatcodec.response._closed", lambda *_: {"close": "<|plugin|>"})
    with pytest.raises(FormatError, match="would not read a call: ") as caught:
        export_response(codec_of(CALLS, reader="internlm2"))
    assert caught.value.key == "a call"


def test_a_codec_that_reads_no_answers_has_none() -> None:
    codec = codec_of(CALLS, reader="chatml")
    proof = prove(codec, count=45)
    unread = [replace(one, read=0) for one in proof.parts]
    with pytest.raises(FormatError, match="has nothing to say"):
        export_response(codec, replace(proof, parts=tuple(unread)))


@pytest.mark.skipif(not published.PUBLISHED, reason=f"no templates in {published.FOLDER}")
@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 4, first=1))
def test_published_templates(name: str) -> None:
    codec = derived.codec_of(name)
    if codec is None:
        pytest.skip("the template or its vocabulary is refused")
    try:
        proof = prove(codec, count=90)
        spec = export_response(codec, proof)
    except (FormatError, TemplateError) as error:
        assert "expected" in str(error)  # noqa: PT017
        return
    assert codec.template is not None
    reader = Codec(codec.template, codec.vocab, reader=ResponseTemplate(spec))
    parts = tuple(one.part for one in proof.parts if one.written and one.is_fine)
    parts = tuple(part for part in parts if part not in WHOLE)
    # Other answers than those that the export was tried on.
    again = prove_reader(codec, reader, parts, count=20 * len(parts), seed=99)
    assert again.is_fine, [str(part) for part in again.parts]
    check_by_library(codec, spec)
