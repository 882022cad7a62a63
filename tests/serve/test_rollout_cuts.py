"""Answers that a limit cuts in odd places, and what follows calls: ids stay, and notes tell."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import rollouts
from chatcodec.adapters._history import with_objects
from completions import codec_of, ids_of
from rollout_law import codec
from rollouts import Desk, Message, results
from test_template_codec import PUBLISHED

if TYPE_CHECKING:
    from rollouts import Asked

BEGIN: list[Message] = [{"role": "user", "content": "Begin"}]
DSML = '\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="look">\n'
K3 = "<|close|>think<|sep|><|open|>response<|sep|>Hm.<|close|>response<|sep|>"

CUTS = [
    ("deepseek:v3.2", DSML + '<｜DSML｜parameter name="at" string="true">Oslo</｜DSML｜p'),
    ("deepseek:v3.2", DSML + '<｜DSML｜parameter name="at" string="true">Oslo</｜DSML｜'),
    ("deepseek:v4", DSML.replace("function", "tool") + "<｜DSML｜"),
    ("kimi-k3", K3 + "<|open|>"),
    ("kimi-k3", K3 + "<|open|>tools<|sep|><|open|>call tool="),
    ("mistral:small3.2", "[TOOL_CALLS]"),
    ("mistral:small3.2", "[TOOL_CALLS]look[CALL_ID]abcdefgh"),
]


def say(of: Desk, messages: list[Message], text: str, reason: str = "stop") -> Asked:
    """Ask, and let the model say a text that spells its control tokens."""
    ids = ids_of(of.codec, text)
    of.sample = lambda: (ids, reason)  # type: ignore[method-assign]
    return of.ask(messages)


def next_of(of: Desk, asked: Asked) -> Asked:
    """Go on with an answer, its calls answered, or a question asked."""
    said = {"content": "", **asked.message}
    return of.ask([*asked.messages, said, *results(asked.message, random.Random(1))])


@pytest.mark.parametrize(("name", "text"), CUTS)
def test_a_tag_that_was_cut_stays_and_is_told(name: str, text: str) -> None:
    of = Desk(codec_of(name), random.Random(0), tools=rollouts.TOOLS)
    first = say(of, BEGIN, text, "length")
    after = next_of(of, first)
    seen = first.prompt + first.sampled
    assert after.prompt[: len(seen)] == seen
    assert (after.recalled.known, after.recalled.unknown) == (1, 0)
    assert after.recalled.kinds.keys() & {"unexpected_control", "malformed"}
    anew = of.codec.encode(with_objects(after.messages), tools=rollouts.TOOLS).text
    rest = of.codec.vocab.decode(after.prompt[len(seen) :])
    last = after.messages[-1]["content"]
    assert rest[rest.rindex(last) :] == anew[anew.rindex(last) :]


def template(name: str) -> Desk:
    if name not in PUBLISHED:
        pytest.skip(f"no template {name}")
    return Desk(codec(name), random.Random(0), tools=rollouts.TOOLS)


@pytest.mark.parametrize("calls", [1, 2])
def test_results_with_the_names_of_their_calls_follow_the_answer(calls: int) -> None:
    of = template("Kimi-K3.jinja")
    call = (
        '<|open|>call tool="look" index="{}"<|sep|><|open|>argument key="at" type="string"<|sep|>'
        "Oslo<|close|>argument<|sep|><|close|>call<|sep|>"
    )
    made = "".join(call.format(number + 1) for number in range(calls))
    text = (
        f"{K3}<|open|>tools<|sep|>{made}<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
    )
    first = say(of, BEGIN, text)
    after = next_of(of, first)
    assert after.recalled.known == 1
    rest = of.codec.vocab.decode(after.prompt[len(first.prompt) + len(first.sampled) :])
    anew = of.codec.encode(after.messages, tools=rollouts.TOOLS, add_generation_prompt=True).text
    assert anew.endswith(f"<|end_of_msg|>{rest}")
    assert rest.count('<|open|>message role="tool" tool="look"') == calls


def test_a_call_without_a_mark_that_was_cut_is_told() -> None:
    of = template("examples_tool_chat_template_phi4_mini.jinja")
    first = say(of, BEGIN, '{"name": "look", "arguments": {"at": "Oslo"', "length")
    after = next_of(of, first)
    assert after.recalled.known == 1
    assert after.recalled.kinds["incomplete"] == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("examples_tool_chat_template_mistral.jinja", '[TOOL_CALLS] [{"name": "look"'),
        ("openbmb-MiniCPM5-1B.jinja", '<function name="look"><param name="at">Oslo'),
    ],
)
def test_a_cut_call_that_a_template_refuses_stays(name: str, text: str) -> None:
    of = template(name)
    first = say(of, BEGIN, text, "length")
    assert first.message["tool_calls"]
    after = next_of(of, first)
    seen = first.prompt + first.sampled
    assert after.prompt[: len(seen)] == seen
    assert after.recalled.kinds
    of.sample = Desk.sample.__get__(of)  # type: ignore[method-assign]
    assert next_of(of, after).recalled.known == 2


def test_a_number_that_a_model_gives_twice_is_told() -> None:
    of = Desk(codec_of("command-a"), random.Random(0), tools=rollouts.TOOLS)
    text = (
        '<|START_THINKING|><|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", '
        '"tool_name": "look", "parameters": {"at": "Oslo"}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>'
    )
    first = say(of, BEGIN, text)
    messages = [*BEGIN, first.message, *results(first.message, random.Random(1))]
    assert not say(of, messages, text).recalled.kinds
    second = of.asked[-1]
    after = next_of(of, second)
    assert after.recalled.kinds == {"text": 1}


def test_a_cut_call_that_a_template_refuses_is_written_as_an_object() -> None:
    of = template("openbmb-MiniCPM5-1B.jinja")
    call = {"id": "call_1", "function": {"name": "look", "arguments": '{"at": "Os'}}
    said = {"role": "assistant", "content": "", "tool_calls": [call | {"type": "function"}]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
    asked = of.ask([*BEGIN, said, result])
    assert '{"at": "Os' in of.codec.vocab.decode(asked.prompt)
    assert asked.recalled.unknown == 1
