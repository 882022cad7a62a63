"""`chatcodec.prove`: what a codec reads back of what a template writes, beside published ones."""

from __future__ import annotations

import json
import time
from typing import Any

import data
import pytest
import template_oracle as oracle
import test_derived_readers as derived
import test_template_codec as published
from chatcodec import Codec, FormatError, Template, TemplateError, Vocab, prove
from chatcodec.proof import Part, PartProof, Proof, prove_reader

CALLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<|action_start|><|plugin|>\n"
    "{{ {'name': c.function.name, 'parameters': c.function.arguments} | tojson }}<|action_end|>\n"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Writes what the format `internlm2` reads."""


def codec_of(source: str, **more: Any) -> Codec:  # noqa: ANN401
    return Codec(Template(source, **oracle.OWN), vocab=Vocab.embedded(), **more)


def parts_of(proof: Proof) -> dict[str, PartProof]:
    return {part.part: part for part in proof.parts}


def test_a_built_in_format_reads_all_that_it_writes() -> None:
    proof = prove(Codec("internlm2", vocab="embedded"), count=95, seed=3)
    assert proof.is_fine
    assert [part.tried for part in proof.parts if part.written] == [11, 11, 11, 11, 11, 10, 10]
    parts = parts_of(proof)
    assert str(parts["two calls"]) == "two calls: read 11 of 11"
    assert str(parts["reasoning"]) == "reasoning: not written by the template"
    assert parts["a call"].example.startswith("<|action_start|><|plugin|>\n")
    assert parts["an answer of text"].example.endswith("<|im_end|>")


def test_a_template_that_names_calls_by_their_ids_is_given_such_ids() -> None:
    by_id = CALLS.replace(
        "{{ {'name': c.function.name, 'parameters': c.function.arguments} | tojson }}",
        "{{ c.id }}\n{{ c.function.arguments | tojson }}\n",
    )
    proof = prove(codec_of(by_id), count=90)
    assert proof.is_fine
    parts = parts_of(proof)
    assert parts["two calls"].written == 10
    assert "<|plugin|>\nfunctions." in parts["a call"].example
    # Without the name nobody knows which function is called.
    parts = parts_of(prove(codec_of(by_id.replace("{{ c.id }}", "")), count=90))
    assert parts["a call"].written == 0


CDATA = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<|action_start|><|plugin|>{{ c.function.name }}\n"
    "{% for key, value in c.function.arguments.items() %}<arg>{{ key }}</arg><value>"
    "{% if value is string and ('<' in value or '&' in value) %}<![CDATA[{{ value }}]]>"
    "{% elif value is string %}{{ value }}{% else %}{{ value | tojson }}{% endif %}</value>\n"
    "{% endfor %}<|action_end|>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_texts_that_a_template_wraps_are_read_without_the_wrap() -> None:
    codec = codec_of(CDATA)
    assert codec.read_by == "derived format"
    assert parts_of(prove(codec, count=270))["nested arguments"].is_fine
    arguments = {"a": "1 < 2 & 3", "b": "x"}
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    whole = codec.encode(messages, add_generation_prompt=False)
    assert "<value><![CDATA[1 < 2 & 3]]></value>" in whole.text
    (read,) = codec.decode(whole.ids)[-1]["tool_calls"]
    assert json.loads(read["function"]["arguments"]) == arguments


def test_a_seed_makes_the_same_conversations() -> None:
    codec = codec_of(CALLS, reader="chatml")
    first = prove(codec, count=45, seed=1)
    assert first == prove(codec, count=45, seed=1)
    assert first != prove(codec, count=45, seed=2)


def test_a_wrong_reader_fails_with_a_short_conversation() -> None:
    assert parts_of(prove(codec_of(CALLS, reader="internlm2"), count=90))["a call"].is_fine
    codec = codec_of(CALLS, reader="chatml")
    proof = prove(codec, count=90)
    assert not proof.is_fine
    parts = parts_of(proof)
    assert parts["an answer of text"].is_fine
    assert (parts["a call"].read, parts["a call"].written) == (0, 10)
    found = parts["a call"].misread
    assert found is not None
    # The same arguments fail again.
    written = codec.encode(**found.conversation, add_generation_prompt=False)
    assert found.text in written.text
    assert found.read[0] != found.expected[0]
    assert found.way == "parse"
    assert found.first.startswith("`messages[0].content` is '{")
    arguments = found.expected[0]["tool_calls"][0]["function"]["arguments"]
    assert len(arguments) == 1
    assert len(found.conversation["messages"][0]["content"]) < 8


def test_a_text_that_the_template_changes_is_not_read_back() -> None:
    source = CALLS.replace("{{ m.content }}", "{{ m.content | replace(' ', '_') }}")
    parts = parts_of(prove(codec_of(source, reader="internlm2"), count=90))
    assert not parts["an answer of text"].is_fine
    assert parts["a call"].is_fine


def test_upper_case_names_are_not_written() -> None:
    source = CALLS.replace("c.function.name,", "c.function.name | upper,")
    part = parts_of(prove(codec_of(source, reader="internlm2"), count=90))["a call"]
    assert str(part) == "a call: not written by the template"
    assert part.tried == 8


def test_json_has_all() -> None:
    proof = prove(codec_of(CALLS, reader="chatml"), count=45, seed=9)
    record = json.loads(proof.to_json())
    assert record.keys() == {"count", "seed", "parts", "is_fine"}
    assert (record["count"], record["seed"], record["is_fine"]) == (45, 9, False)
    keys = {"part", "tried", "written", "read", "example", "misread", "refusal"}
    assert all(part.keys() == keys for part in record["parts"])
    failed = next(part for part in record["parts"] if part["misread"])
    keys = {"conversation", "way", "text", "expected", "read", "first"}
    assert failed["misread"].keys() == keys


def test_wrong_counts() -> None:
    codec = Codec("internlm2", vocab="embedded")
    with pytest.raises(ValueError, match="count: is 8, expected 9 at least"):
        prove(codec, count=8)


ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a %}{% endfor %}{% endfor %}"
)
TEXTS = CALLS.replace("m.tool_calls or []", "[]")
ANSWERED = "{% if messages | selectattr('role', 'eq', 'assistant') | list %}WHAT{% endif %}"


def test_a_template_that_never_ends_is_bounded() -> None:
    """It ends on a question, so that there is a codec; of answers it writes none."""
    codec = codec_of(ANSWERED.replace("WHAT", ENDLESS) + TEXTS)
    began = time.monotonic()
    parts = parts_of(prove(codec, count=900))
    assert time.monotonic() - began < 30
    assert [part for part, found in parts.items() if found.written] == [
        "whole conversations of texts"
    ]
    assert parts["a call"].tried == 3
    assert "steps" in parts["a call"].refusal


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatcodec.proof._SECONDS", 0.0)
    with pytest.raises(TemplateError, match=r"take more than 0 s .* expected fewer"):
        prove(codec_of(TEXTS))


def test_a_template_that_refuses_answers_has_a_reason() -> None:
    codec = codec_of(ANSWERED.replace("WHAT", "{{ raise_exception('no answers') }}") + TEXTS)
    part = parts_of(prove(codec, count=90))["an answer of text"]
    assert not part.written
    assert "no answers" in part.refusal


def test_a_template_that_writes_nothing_is_an_error() -> None:
    source = "{% for m in messages %}<|im_start|>{{ m.content | length }}<|im_end|>{% endfor %}"
    with pytest.raises(TemplateError, match="template: writes none of the conversations"):
        prove(codec_of(source, reader="chatml"))
    refusing = TEXTS.replace("{% for m", "{{ raise_exception('never') }}{% for m", 1)
    with pytest.raises(TemplateError, match=r"none of the conversations.*never"):
        prove(codec_of(refusing, reader="chatml"))
    with pytest.raises((FormatError, TemplateError), match="never"):
        codec_of(refusing)


def test_a_date_changes_nothing() -> None:
    codec = codec_of("{{ strftime_now('%H:%M:%S') }}" + CALLS, reader="internlm2")
    assert parts_of(prove(codec, count=90))["a call"].is_fine


def test_only_some_parts_are_tried() -> None:
    writer, reader = codec_of(CALLS, reader="chatml"), codec_of(CALLS, reader="internlm2")
    proof = prove_reader(writer, reader, ("a call",), count=5, seed=0)
    assert [str(part) for part in proof.parts] == ["a call: read 5 of 5"]


class Lossy:
    """A reader that loses the last message of what it decodes, and the text of what it streams."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.parse = codec.parse
        self.sizes: list[int] = []

    def decode(self, *args: Any, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        return self.codec.decode(*args, **options)[:-1]

    def stream(self, *args: Any, **options: Any) -> Lossy:  # noqa: ANN401
        self.streamed = self.codec.stream(*args, **options)
        return self

    def push(self, ids: memoryview) -> None:
        self.sizes.append(len(ids))
        self.streamed.push(ids)

    def finish(self) -> None:
        self.streamed.finish()

    def message(self) -> dict[str, Any]:
        return {**self.streamed.message(), "content": ""}


def test_decoded_and_streamed_messages_are_compared() -> None:
    writer = Codec("internlm2", vocab="embedded")
    lossy: Any = Lossy(writer)
    parts: tuple[Part, ...] = (
        "an answer of text", "whole conversations of texts", "a result of a call",
    )  # fmt: skip
    text, whole, result = prove_reader(writer, lossy, parts, count=15, seed=0).parts
    for found, way in ((text, "stream"), (whole, "decode"), (result, "decode")):
        assert (found.read, found.written) == (0, 5)
        assert found.misread is not None
        assert found.misread.way == way
    assert set(lossy.sizes) > {1, 2, 8}
    assert whole.misread is not None
    assert whole.misread.first == "`messages` has 0 items, expected 1"
    # The shortest conversation is a question.
    assert [one["role"] for one in whole.misread.expected] == ["user"]


def test_failures_are_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    def length() -> int:
        part = parts_of(prove(codec, count=45))["nested arguments"]
        assert part.misread is not None
        return len(json.dumps(part.misread.conversation["messages"]))

    codec = codec_of(CALLS, reader="chatml")
    shortened = length()
    monkeypatch.setattr("chatcodec.proof._SHORTENED", 0)
    assert shortened < length()


@pytest.mark.skipif(not published.PUBLISHED, reason=f"no templates in {published.FOLDER}")
@pytest.mark.parametrize(
    "name", ["_chatml", "inkbot", "llama-2-chat", "llama-3-instruct", "mistral-instruct", "qwen2"]
)
def test_answers_begin_where_models_begin(name: str) -> None:
    """Before answers of the past, these write another text or other ids than their prompts."""
    codec = derived.codec_of(f"{name}.jinja")
    assert codec is not None
    part = parts_of(prove(codec, count=180))["an answer of text"]
    assert (part.read, part.written) == (20, 20)


@pytest.mark.skipif(not published.PUBLISHED, reason=f"no templates in {published.FOLDER}")
@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3))
def test_parts_are_those_that_describe_tells(name: str) -> None:
    """An answer of text is always read, and what is `unread` never."""
    codec = derived.codec_of(name)
    if codec is None:
        pytest.skip("the template or its vocabulary is refused")
    try:
        parts = parts_of(prove(codec, count=180))
    except TemplateError as error:
        assert "writes none of the conversations" in str(error)  # noqa: PT017
        return
    assert parts["an answer of text"].is_fine
    assert parts["a call"].is_fine or not parts["nested arguments"].is_fine
    for part, unread in (("a call", "calls"), ("reasoning", "reasoning")):
        assert parts[part].is_fine == (unread not in codec.unread) or not parts[part].written
    for found in parts.values():
        assert (found.misread is None) == found.is_fine
        assert bool(found.example) == bool(found.written)
        if found.misread is not None:
            codec.encode(**found.misread.conversation)
