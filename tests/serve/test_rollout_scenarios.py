"""What trainers report of rollouts by chat completions, as scenarios before a memory.

Each test names the issue that describes it; the scripts are our own.
"""

from __future__ import annotations

import itertools
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
import rollouts
from chatcodec.serve.memory.trajectories import trajectories
from completions import codec_of, ids_of
from gateway_here import HI, here
from rollout_law import codec as template_codec
from rollouts import Desk, Message, results
from test_gateway_memory import AND, MEMORY, SPLIT, STOP, told
from test_template_codec import PUBLISHED

if TYPE_CHECKING:
    from rollouts import Asked

BEGIN: list[Message] = [{"role": "user", "content": "Begin"}]


def desk(name: str, *, tools: bool = False) -> Desk:
    return Desk(codec_of(name), random.Random(0), tools=rollouts.TOOLS if tools else None)


def say(of: Desk, messages: list[Message], text: str, reason: str = "stop") -> Asked:
    """Ask, and let the model say a text that spells its control tokens."""
    ids = ids_of(of.codec, text)
    of.sample = lambda: (ids, reason)  # type: ignore[method-assign]
    return of.ask(messages)


def begins_with(asked: Asked, before: Asked) -> bool:
    seen = before.prompt + before.sampled
    return asked.prompt[: len(seen)] == seen


def test_steps_are_cumulative_where_text_is_encoded_otherwise() -> None:
    """rllm-org/rllm#352: a trainer masks a whole trajectory where one step's prompt drifts."""
    of = desk("qwen2.5")
    encode, stop = of.codec.vocab.encode, of.codec.stop_ids[0]
    pieces = [id_ for letter in "international" for id_ in encode(letter)]
    assert pieces != encode("international")
    messages, steps = BEGIN, []
    for _ in range(4):
        of.sample = lambda: ([*pieces, stop], "stop")  # type: ignore[method-assign]
        steps.append(of.ask(messages))
        messages = [*messages, steps[-1].message, {"role": "user", "content": "And?"}]
    assert all(begins_with(after, before) for before, after in itertools.pairwise(steps))
    (rollout,) = trajectories(of.store, None)
    assert rollout.sampled.tolist().count(1) == 4 * (len(pieces) + 1)


def test_a_compacted_history_begins_anew_and_goes_on_from_there() -> None:
    """rllm-org/rllm#596, NovaSky-AI/SkyRL#1959: after a compaction, turns append again."""
    of = desk("qwen3")
    first = say(of, BEGIN, "<think>\nA.\n</think>\n\nOne.<|im_end|>")
    short = [{"role": "user", "content": "So far: one. Go on."}]
    compacted = say(of, short, "<think>\nB.\n</think>\n\nTwo.<|im_end|>")
    assert compacted.recalled.ids == 0
    after = say(of, [*short, compacted.message, AND], "Three.<|im_end|>")
    assert begins_with(after, compacted)
    assert begins_with(say(of, [*BEGIN, first.message, AND], "Four.<|im_end|>"), first)
    found = list(trajectories(of.store, None))
    assert len(found) == 2
    assert len({each.conversation for each in found}) == 2


def test_agents_that_branch_from_one_history_have_a_trajectory_each() -> None:
    """NovaSky-AI/SkyRL#1959, verl-project/uni-agent#51: siblings share ids, and overwrite none."""
    of = desk("qwen3")
    first = say(of, BEGIN, "One.<|im_end|>")
    said = [*BEGIN, first.message]
    branches = [
        say(of, [*said, {"role": "user", "content": text}], f"To {text}<|im_end|>")
        for text in ("left", "right")
    ]
    assert all(begins_with(each, first) for each in branches)
    found = list(trajectories(of.store, None))
    assert {each.conversation for each in found} == {first_id(of)}
    ends = [
        each.ids.tolist()[-len(branch.sampled) :]
        for each, branch in zip(found, branches, strict=False)
    ]
    assert ends == [branch.sampled for branch in branches]


def first_id(of: Desk) -> str:
    (path, *_) = of.store.ends(None)
    return path[0].id.hex()


def test_requests_of_siblings_at_once() -> None:
    """verl-project/uni-agent#51: two answers to one history are made at the same time."""
    said: dict[str, Any] = {}
    with here(lambda _: [*SPLIT, STOP], memory=1 << 20) as of:
        first = of.chat().json()["choices"][0]["message"]

        def history(name: str) -> list[Message]:
            return [*HI, first, {"role": "user", "content": name}]

        def ask(name: str) -> None:
            said[name] = of.chat(messages=history(name))

        threads = [threading.Thread(target=ask, args=(name,)) for name in "abcdefgh"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, answer in said.items():
            assert told(answer.headers[MEMORY])["known"] == 1
            message = answer.json()["choices"][0]["message"]
            again = of.chat(messages=[*history(name), message, AND])
            assert told(again.headers[MEMORY])["known"] == 2


@pytest.mark.parametrize("name", ["qwen3", "qwen3.5", "glm4.5", "minimax-m2", "deepseek:r1"])
def test_reasoning_that_a_template_strips_stays_and_is_told(name: str) -> None:
    """verl-project/verl#6854: the next prompt is no extension where earlier thoughts are cut."""
    of = desk(name)
    messages, last = BEGIN, None
    for turn in range(3):
        answer = {
            "role": "assistant",
            "content": f"Answer {turn}.",
            "reasoning": f"Thought {turn}.",
        }
        ids = rollouts.answer(of.codec, None, answer) or None
        assert ids is not None
        of.sample = lambda ids=ids: (ids, "stop")  # type: ignore[method-assign,misc]
        asked = of.ask(messages)
        assert last is None or begins_with(asked, last)
        assert asked.recalled.unknown == 0
        last = asked
        messages = [*messages, asked.message, {"role": "user", "content": "And?"}]
    assert last is not None
    text = of.codec.vocab.decode(last.prompt)
    if "Thought" in text:
        assert "Thought 0." in text
        assert "Thought 1." in text
        fresh = of.codec.encode(messages[:-2], unknown="ignore").ids.tolist()
        assert last.recalled.kinds["reasoning"] or fresh == last.prompt


def test_only_special_tokens_decide_whether_turns_fit_together() -> None:
    """verl-project/verl#6719: texts may be spelled otherwise, the tokens between turns may not."""
    for name in ("qwen2.5", "llama3.1", "chatml", "internlm2", "phi4"):
        of = desk(name)
        control = set(of.codec.vocab.control.values())
        messages: list[Message] = BEGIN
        for turn in range(3):
            ids = of.split([*of.codec.vocab.encode(f"Turn {turn}"), of.codec.stop_ids[0]])
            of.sample = lambda ids=ids: (ids, "stop")  # type: ignore[method-assign,misc]
            asked = of.ask(messages)
            fresh = of.codec.encode(messages).ids.tolist()
            own = [id_ for id_ in asked.prompt if id_ in control]
            assert own == [id_ for id_ in fresh if id_ in control], name
            messages = [*messages, asked.message, {"role": "user", "content": "And?"}]


def test_an_end_that_begins_the_next_turn_is_written_once() -> None:
    """radixark/miles#784: `<|observation|>` ends an answer, and is the head of what follows."""
    of = desk("glm4.5", tools=True)
    control = of.codec.vocab.control
    observation = control["<|observation|>"]
    call = "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>"
    first = say(of, BEGIN, f"<think>\nHm.</think>\n{call}<|observation|>")
    assert first.sampled[-1] == observation
    assert first.message["tool_calls"]
    after = say(of, [*BEGIN, first.message, *results(first.message, of.random)], "Yes.<|user|>")
    assert begins_with(after, first)
    assert after.prompt.count(observation) == 1


def test_calls_of_several_lines_and_thoughts_stay_as_they_were() -> None:
    """NVIDIA-NeMo/Gym#1787: a proxy that writes parsed calls anew drops lines and `</think>`."""
    of = desk("qwen3", tools=True)
    call = '{"name": "look",\n "arguments": {"at": "one\\ntwo",\n\n  "n": 3}}'
    text = f"<think>\nLook.\n</think>\n\n<tool_call>\n{call}\n</tool_call><|im_end|>"
    first = say(of, BEGIN, text)
    assert first.message["tool_calls"][0]["function"]["name"] == "look"
    bare = {key: each for key, each in first.message.items() if key != "reasoning_content"}
    after = say(of, [*BEGIN, bare, *results(bare, of.random)], "Yes.<|im_end|>")
    assert begins_with(after, first)
    assert text in of.codec.vocab.decode(after.prompt)


def test_other_tools_are_another_history() -> None:
    """PrimeIntellect-ai/verifiers#955: a match by messages alone would keep the old tools."""
    of = desk("qwen3", tools=True)
    first = say(of, BEGIN, "Yes.<|im_end|>")
    of.tools = [{**rollouts.TOOLS[0], "function": {"name": "other", "parameters": {}}}]
    after = say(of, [*BEGIN, first.message, AND], "No.<|im_end|>")
    assert (after.recalled.known, after.recalled.unknown) == (0, 1)
    text = of.codec.vocab.decode(after.prompt)
    assert '"other"' in text
    assert '"look"' not in text


NINE = "mistral_v3_tekken.jinja"


@pytest.mark.skipif(NINE not in PUBLISHED, reason=f"no template {NINE}")
def test_a_template_is_given_the_ids_of_calls_that_the_model_wrote() -> None:
    """A client has other ids, which some templates refuse, in all earlier turns too."""
    of = Desk(template_codec(NINE), random.Random(0), tools=rollouts.TOOLS)
    function = {"name": "look", "arguments": {"at": "Oslo", "n": 3}}
    messages, last = BEGIN, None
    for turn in range(3):
        call = {"id": f"abcdefgh{turn}", "type": "function", "function": function}
        ids = rollouts.answer(of.codec, of.tools, {"content": "", "tool_calls": [call]})
        of.sample = lambda ids=ids: (ids, "stop")  # type: ignore[method-assign,misc]
        asked = of.ask(messages)
        assert asked.message["tool_calls"][0]["id"] != call["id"]
        assert last is None or begins_with(asked, last)
        assert asked.recalled.unknown == 0
        last = asked
        messages = [*messages, asked.message, *results(asked.message, of.random)]
