"""Constraints after a prompt in which the answer has begun, and constraints that are kept."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import data
import pytest
import test_constrain as constrained
import walks
from chatcodec import Codec, MessageError
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

USER: dict[str, Any] = {"role": "user", "content": "Go on."}
CUTS = 12
"""Places at which each answer is cut."""
FEW = 20
WALKS = 3


def cuts(codec: Codec) -> Iterator[tuple[str, list[int], list[int]]]:
    """Choices, and answers that they admit, in two parts.

    In GLM-4's formats a call begins as a prompt does, so that what has begun there is a new answer.
    """
    chooser = random.Random(0)
    header = codec.vocab.control.get("<|assistant|>")
    for choice, ids in constrained.written_answers(codec, constrained.WEATHER):
        places = range(1, len(ids))
        for at in sorted(chooser.sample(places, min(CUTS, len(places)))):
            if header not in ids[:at]:
                yield choice, ids[:at], ids[at:]


@pytest.mark.parametrize("format_", data.share(constrained.CONSTRAINED, 8))
def test_an_answer_that_has_begun_goes_on(format_: str) -> None:
    """What is written is admitted from any id on, or the prompt is refused."""
    walker = constrained.walker_of(format_)
    codec = walker.codec
    prompt = codec.encode([USER], boundary="isolated").ids.tolist()
    admitted = in_text = refused = 0
    for choice, begun, rest in cuts(codec):
        options = constrained.CHOICES[choice]
        try:
            constraint = codec.constrain(
                tools=constrained.TOOLS, prompt=[*prompt, *begun], **options
            )
        except MessageError:
            refused += 1
            continue
        grammar = walker.matcher(constraint.lark())
        at = walker.refused_at(grammar, rest)
        decoded = codec.vocab.decode(begun), codec.vocab.decode(rest[:at])
        assert at == len(rest), (choice, decoded, codec.vocab.decode(rest))
        admitted += 1
        in_text += bool(codec.parse(begun).message["content"])
        if admitted % WALKS == 0:
            walk(walker, constraint.lark(), begun, options)
    assert admitted >= max(FEW, refused // 5)
    assert in_text


def walk(walker: Any, lark: str, begun: list[int], options: dict[str, Any]) -> None:  # noqa: ANN401
    """What is admitted is read, together with what has begun."""
    ids = walker.walk(walker.matcher(lark), len(begun), walker.tags(lark))
    if ids is None:
        return
    calls = constrained.read(walker.codec, [*begun, *ids])
    assert not calls or options["tool_choice"] != "none"
    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        walks.validate(arguments, constrained.SCHEMAS[call["function"]["name"]])


def test_reasoning_that_has_begun_goes_on() -> None:
    walker = constrained.walker_of("qwen3")
    codec, vocab = walker.codec, walker.codec.vocab
    think, end, stop = vocab.control["<think>"], vocab.control["</think>"], codec.stop_ids[0]
    prompt = codec.encode([USER]).ids.tolist()
    thought, answer = vocab.encode("\nHm, I"), [*vocab.encode("\n\nYes."), stop]
    for begun, rest, is_admitted in [
        ([think, *thought], [*vocab.encode(" see.\n"), end, *answer], True),
        ([think, *thought], [*vocab.encode(" see.\n"), stop], False),
        ([think, *thought, *vocab.encode("\n"), end], answer, True),
        ([think, *thought, *vocab.encode("\n"), end], [think], False),
        (vocab.encode("Yes"), [*vocab.encode(", so."), stop], True),
        (vocab.encode("Yes"), [think, *thought], False),
    ]:
        grammar = walker.matcher(codec.constrain(prompt=[*prompt, *begun]).lark())
        assert (walker.refused_at(grammar, rest) == len(rest)) == is_admitted
    with pytest.raises(MessageError, match="`reasoning` is True, but no answer after this prompt"):
        codec.constrain(prompt=[*prompt, *vocab.encode("Yes")], reasoning=True)


@pytest.mark.parametrize(
    ("format_", "begun", "error"),
    [
        ("llama3.1", '{"name": "got', "ends within a call"),
        ("internlm2", b"\xe4", "ends with an answer that cannot be continued"),
    ],
)
def test_what_cannot_go_on_is_named(format_: str, begun: str | bytes, error: str) -> None:
    codec = constrained.codec_of(format_)
    prompt = codec.encode([USER]).ids.tolist()
    ids = codec.vocab.encode(begun) if isinstance(begun, str) else [3 + byte for byte in begun]
    with pytest.raises(MessageError, match=f"`prompt` {error}"):
        codec.constrain(tools=constrained.TOOLS, prompt=[*prompt, *ids])


def test_json_that_has_begun_is_named() -> None:
    codec = constrained.codec_of("internlm2")
    prompt = [*codec.encode([USER]).ids.tolist(), *codec.vocab.encode('{"city"')]
    with pytest.raises(MessageError, match="`prompt` ends with an answer in JSON"):
        codec.constrain(response_format=constrained.JSON_SCHEMA, prompt=prompt)


@given(st.lists(st.tuples(st.integers(0, 19), st.booleans(), st.booleans()), max_size=40))
def test_a_constraint_that_is_kept_is_one_that_is_made(asked: list[tuple[int, bool, bool]]) -> None:
    """Requests that differ in a name, in the order of the members, or in an option."""
    shared = Codec("internlm2", vocab="embedded")
    for number, is_reversed, parallel in asked:
        tools = copy.deepcopy(constrained.TOOLS)
        tools[0]["function"]["name"] += str(number)
        if is_reversed:
            parameters = tools[1]["function"]["parameters"]
            parameters["properties"] = dict(reversed(parameters["properties"].items()))
        known = shared.constrain(tools=tools, parallel=parallel)
        made = Codec("internlm2", vocab="embedded").constrain(tools=tools, parallel=parallel)
        for name in ("lark", "structural_tag", "gbnf"):
            assert getattr(known, name)() == getattr(made, name)()
