"""Requests of coding agents, with the flags that docs/gateway.md names, and what they become."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import data
import pydantic
import pytest
from chatcodec.adapters import openai_chat, openai_responses
from chatcodec.adapters.run import chunks
from gateway import MODEL
from gateway_here import CODEC, HI, Here, here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chatcodec import Codec

HERE = Path(__file__).parent
AGENTS = sorted((HERE / "agents").glob("*.json"))
PATCH = '*** Begin Patch\n+x = "1"\n*** End Patch'
CUSTOM: Any = {"type": "custom", "name": "apply_patch", "description": "Edits files."}


@pytest.fixture(scope="module")
def gateways() -> Iterator[Callable[[Codec, str], Here]]:
    """A gateway for each codec and policy, kept for all tests."""
    with ExitStack() as stack:
        yield functools.cache(
            lambda codec, policy: stack.enter_context(
                here(lambda _: [codec.stop_ids[0]], codec, on_unsupported=policy)
            )
        )


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("model", ["internlm2", "qwen3"])
def test_a_request_of_an_agent_is_read(
    gateways: Callable[[Codec, str], Here], path: Path, model: str
) -> None:
    case = json.loads(path.read_text("utf-8"))
    codec = CODEC
    if model == "qwen3":
        codec = data.load_format("qwen3", "qwen3") if data.find("vocab/qwen3") else codec
    policy = case.get("on_unsupported", "error")
    made = gateways(codec, policy)
    answer = made.post(case["path"], case["body"], headers=case.get("headers", {}))
    assert answer.status_code == 200, answer.text
    assert all(tool in made.prompt for tool in case.get("tools", ()))
    at = 0
    for part in case["prompt"]:
        found = made.prompt.find(part, at)
        assert found >= 0, (part, made.prompt[at:])
        at = found + len(part)
    told = answer.headers.get("x-chatcodec-dropped", "")
    dropped = dict(each.split("=") for each in told.split(", ") if each)
    if model == "internlm2":
        assert {key: int(n) for key, n in dropped.items()} == case.get("dropped", {})
    assert ("structured_outputs" in made.asked[-1]) == case.get("grammar", False)


def test_the_page_names_the_flags_of_each_agent() -> None:
    page = (HERE.parents[1] / "docs" / "gateway.md").read_text("utf-8")
    for path in AGENTS:
        policy = json.loads(path.read_text("utf-8")).get("on_unsupported")
        if policy is not None:
            assert f"--on-unsupported {policy}" in page, path.stem


# Custom tools.


def completion(text: str) -> list[int]:
    """The ids of a call of `apply_patch`, whose arguments are a text."""
    function = {"name": "apply_patch", "arguments": text}
    answer = {"role": "assistant", "content": "So.", "tool_calls": [{"function": function}]}
    asked = [{"role": "user", "content": "?"}]
    before = CODEC.encode(asked, add_generation_prompt=True)
    return CODEC.encode([*asked, answer]).ids.tolist()[len(before) :]


@pytest.fixture(scope="module")
def patching() -> Iterator[Here]:
    with here(lambda _: completion(json.dumps({"input": PATCH}))) as made:
        yield made


def test_a_custom_tool_is_called_with_a_text(patching: Here) -> None:
    client = patching.openai
    asked: Any = {"model": MODEL, "input": "Patch it.", "tools": [CUSTOM]}
    whole = client.responses.create(**asked)
    call: Any = whole.output[-1]
    assert (call.type, call.name, call.input) == ("custom_tool_call", "apply_patch", PATCH)
    with client.responses.stream(**asked) as events:
        kinds = Counter(event.type for event in events)
        told: Any = events.get_final_response().output[-1]
    assert told.input == PATCH
    assert kinds["response.custom_tool_call_input.delta"] == 1
    assert kinds["response.custom_tool_call_input.done"] == 1
    output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done!"}
    history: Any = [*HI, *[item.model_dump() for item in whole.output], output]
    client.responses.create(**{**asked, "input": history})
    shown = {
        **call.model_dump(),
        "type": "function_call",
        "arguments": json.dumps({"input": PATCH}),
    }
    shown.pop("input")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Done!"}
    calls = [*HI, *[item.model_dump() for item in whole.output[:-1]], shown, result]
    assert patching.post("/v1/responses", {"input": calls, "tools": [CUSTOM]}).status_code == 200
    assert patching.asked[-1]["prompt"] == patching.asked[-2]["prompt"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_custom_tool_of_chat_completions(patching: Here, *, stream: bool) -> None:
    tool = {"type": "custom", "custom": {"name": "apply_patch"}}
    answer = patching.chat(tools=[tool], stream=stream)
    if stream:
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        message = openai_chat.collect(map(json.loads, lines))["choices"][0]["message"]
    else:
        message = answer.json()["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert call["type"] == "custom"
    assert call["custom"] == {"name": "apply_patch", "input": PATCH}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Done!"}
    again = patching.chat(messages=[*HI, message, result], tools=[tool])
    assert again.status_code == 200
    assert "Begin Patch" in patching.prompt
    named = patching.chat(
        tools=[tool], tool_choice={"type": "custom", "custom": {"name": "apply_patch"}}
    )
    assert named.status_code == 200


@pytest.mark.parametrize("arguments", ['{"input": "a', '{"in": "a"}', '{"input": 5}', "", "[1]"])
def test_arguments_that_are_no_input_are_told_as_they_are(arguments: str) -> None:
    ids = completion(arguments) if arguments.endswith(("}", "]")) else completion('{"input": "ab"}')
    ids = ids if arguments.endswith(("}", "]")) else ids[:-4]
    body = {"input": HI, "tools": [CUSTOM]}
    request = openai_responses.read_request(body, CODEC)
    stream = request.stream(request.encode())
    adapter = openai_responses.EventStream(id="resp_1", **request.adapter)
    told = list(chunks(iter(ids), stream, adapter))
    item = openai_responses.collect(told)["output"][-1]
    assert item["type"] == "custom_tool_call"
    if arguments.endswith(("}", "]")):
        assert json.loads(item["input"]) == json.loads(arguments)


# Anthropic's client.


def test_anthropics_client_counts_and_parses() -> None:
    class City(pydantic.BaseModel):
        name: str

    answer = [*CODEC.vocab.encode('{"name": "Oslo"}'), CODEC.stop_ids[0]]
    with here(lambda _: answer) as made:
        client = made.anthropic
        count = client.messages.count_tokens(model=MODEL, messages=HI, system="Be brief.")
        asked: Any = [{"role": "system", "content": "Be brief."}, *HI]
        assert count.input_tokens == len(CODEC.encode(asked, add_generation_prompt=True))
        wrong = made.post("/v1/messages/count_tokens", {"messages": []})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "error")
        parsed = client.messages.parse(model=MODEL, max_tokens=50, messages=HI, output_format=City)
        assert parsed.parsed_output == City(name="Oslo")
        assert "structured_outputs" in made.asked[-1]
        counted = made.post("/v1/responses/input_tokens", {"input": HI})
        assert counted.json()["input_tokens"] == count.input_tokens - (
            len(CODEC.encode(asked)) - len(CODEC.encode(HI))
        )


def test_the_tool_runner_of_anthropics_client_runs() -> None:
    @anthropic.beta_tool
    def weather(city: str) -> str:
        """Tell the weather.

        Args:
            city: The city.

        """
        return f"rain in {city}"

    with here() as made:
        client = made.anthropic
        runner = client.beta.messages.tool_runner(
            model=MODEL, max_tokens=100, tools=[weather], messages=HI
        )
        *_, last = runner
        text = "".join(block.text for block in last.content if block.type == "text")
        assert re.search("rain in Oslo", text)


def test_references_to_what_is_not_kept_are_refused(patching: Here) -> None:
    for fields, param in (
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
        ({"input": HI, "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": HI, "conversation": "conv_1"}, "conversation"),
    ):
        refused = patching.post("/v1/responses", fields)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == param


def test_rules_that_clear_something_are_refused(patching: Here) -> None:
    for edit in (
        {"type": "clear_tool_uses_20250919"},
        {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}},
        {"type": "clear_thinking_20251015"},
    ):
        body = {"messages": HI, "max_tokens": 9, "context_management": {"edits": [edit]}}
        assert patching.post("/v1/messages", body).status_code == 400
