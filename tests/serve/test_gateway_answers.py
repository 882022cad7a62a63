"""Answers of the gateway in the shape of each API: ids, usage, stops, errors, fields."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest
from chatcodec.adapters import Usage
from chatcodec.adapters import anthropic as messages_api
from chatcodec.events import Reasoning, Text, TurnEnd
from chatcodec.serve.demo.engine import scripted
from gateway import MODEL
from gateway_here import CODEC, HI, Here, here
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx
    from starlette.requests import Request

PROMPT = CODEC.encode(HI, add_generation_prompt=True).ids.tolist()
SAID = "You said: Hi"
IDS = scripted(CODEC)(PROMPT)


@pytest.fixture(scope="module")
def of() -> Iterator[Here]:
    with here() as made:
        yield made


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    lines = (line.removeprefix("data: ") for line in answer.text.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_an_answer_tells_the_ids_of_both_sides(of: Here) -> None:
    answer = of.chat(return_token_ids=True, n=2).json()
    assert answer["prompt_token_ids"] == PROMPT
    assert [choice["token_ids"] for choice in answer["choices"]] == [IDS, IDS]
    for n in (1, 2):
        told = events(of.chat(return_token_ids=True, n=n, stream=True))
        assert [chunk.get("prompt_token_ids") for chunk in told] == [PROMPT] + [None] * (
            len(told) - 1
        )
        for choice in range(n):
            found = [each for chunk in told for each in chunk["choices"] if each["index"] == choice]
            assert list(itertools.chain.from_iterable(each["token_ids"] for each in found)) == IDS
    whole = of.post("/v1/responses", {"input": HI, "return_token_ids": True}).json()
    assert (whole["prompt_token_ids"], whole["token_ids"]) == (PROMPT, IDS)
    asked = {"messages": HI, "max_tokens": 50, "return_token_ids": True}
    responses = of.post("/v1/responses", {"input": HI, "return_token_ids": True, "stream": True})
    for each in (
        of.post("/v1/messages", asked).json(),
        events(of.post("/v1/messages", {**asked, "stream": True}))[-2],
        events(responses)[-1]["response"],
    ):
        assert (each["prompt_token_ids"], each["token_ids"]) == (PROMPT, IDS)
    assert "prompt_token_ids" not in of.chat().json()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_ends_an_answer_at_an_id(of: Here, *, stream: bool) -> None:
    stop = IDS[2]
    answer = of.chat(stop_token_ids=[stop], stream=stream)
    choices = [
        choice
        for each in (events(answer) if stream else [answer.json()])
        for choice in each["choices"]
    ]
    said = (choice.get("message") or choice["delta"] for choice in choices)
    text = "".join(each.get("content", "") for each in said)
    assert text == CODEC.vocab.decode(IDS[:2])
    assert choices[-1]["finish_reason"] == "stop"
    assert set(of.asked[-1]["stop_token_ids"]) == {*CODEC.stop_ids, stop}


def test_a_stop_string_may_be_part_of_the_answer(of: Here) -> None:
    for kept, text in ((False, "You "), (True, "You said")):
        answer = of.chat(stop=["said"], include_stop_str_in_output=kept).json()
        assert answer["choices"][0]["message"]["content"] == text
        assert answer["choices"][0]["finish_reason"] == "stop"


def test_every_chunk_has_a_usage_where_one_is_asked_for(of: Here) -> None:
    def usages(**options: Any) -> list[Any]:  # noqa: ANN401
        told = events(of.chat(stream=True, stream_options=options))
        return [chunk.get("usage", "absent") for chunk in told]

    assert set(usages(include_usage=False)) == {"absent"}
    *earlier, last = usages(include_usage=True)
    assert set(earlier) == {None}
    assert last["completion_tokens"] == len(IDS)
    *each, last = usages(include_usage=True, continuous_usage_stats=True)
    counts = [usage["completion_tokens"] for usage in each]
    assert counts == sorted(counts)
    assert counts[-1] == last["completion_tokens"] == len(IDS)
    assert all(usage["prompt_tokens"] == len(PROMPT) for usage in each)


ALWAYS = (
    "background error id incomplete_details instructions max_output_tokens "
    "max_tool_calls metadata model object output parallel_tool_calls "
    "previous_response_id prompt_cache_key reasoning safety_identifier service_tier status store "
    "temperature text tool_choice tools top_logprobs top_p truncation usage user created_at"
)


def test_a_response_has_the_fields_that_openai_sends(of: Here) -> None:
    plain = of.post("/v1/responses", {"input": HI}).json()
    assert set(ALWAYS.split()) <= plain.keys()
    assert plain["text"] == {"format": {"type": "text"}}
    asked = {"temperature": 0.5, "metadata": {"a": "b"}, "truncation": "auto", "user": "u"}
    told = of.post("/v1/responses", {"input": HI, **asked}).json()
    assert {key: told[key] for key in asked} == asked
    client = of.openai
    assert client.responses.create(model=MODEL, input="Hi").output_text == SAID


def test_thinking_ends_with_a_signature() -> None:
    adapter = messages_api.EventStream(id="msg_1", model="m")
    told = adapter.push([Reasoning("a"), Text("b"), Reasoning("c"), TurnEnd("stop")])
    told += adapter.finish(Usage(prompt_tokens=1, completion_tokens=3))
    kinds = [each.get("delta", {}).get("type", each["type"]) for each in told]
    assert kinds[1:5] == [
        "content_block_start",
        "thinking_delta",
        "signature_delta",
        "content_block_stop",
    ]
    blocks = messages_api.collect(told)["content"]
    assert [block.get("thinking", block.get("text")) for block in blocks] == ["a", "b", "c"]
    signatures = [block["signature"] for block in blocks if block["type"] == "thinking"]
    assert all(signatures)
    assert len(set(signatures)) == 2
    request = messages_api.read_request(
        {"messages": [*HI, {"role": "assistant", "content": blocks}, *HI]},
        CODEC,
        on_unsupported={"reasoning"},
    )
    assert "sig" not in request.encode().text


def test_unknown_paths_of_messages_have_the_shape_of_their_api(of: Here) -> None:
    for path in ("/v1/messages/batches", "/v1/messages/none", "/v1/messages/batches/x/cancel"):
        answer = of.post(path, {})
        assert answer.status_code == 404
        assert answer.json()["type"] == "error"
        assert answer.json()["error"]["type"] == "not_found_error"
    assert "param" in of.post("/v1/messagesx", {}).json()["error"]
    client = of.anthropic
    with pytest.raises(anthropic.NotFoundError):
        client.messages.batches.list()


def failing() -> Starlette:
    """An engine that breaks in the middle of an answer."""

    async def lines() -> AsyncIterator[bytes]:
        choice = {"index": 0, "text": "", "token_ids": IDS[:3], "finish_reason": None}
        yield b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()
        await asyncio.sleep(0.2)
        yield b'data: {"error": {"message": "out of memory"}}\n\n'

    async def answer(_: Request) -> StreamingResponse:
        return StreamingResponse(lines(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/completions", answer, methods=["POST"])])


def test_a_response_that_fails_says_so_and_raises() -> None:
    with here(engine_app=failing(), max_model_len=1000) as made:
        told = events(made.post("/v1/responses", {"input": HI, "stream": True}))
        assert [each["type"] for each in told[-2:]] == ["response.failed", "error"]
        assert [each["sequence_number"] for each in told] == list(range(len(told)))
        failed = told[-2]["response"]
        assert failed["status"] == "failed"
        assert failed["error"]["message"]
        assert failed["output"][0]["content"][0]["text"] == CODEC.vocab.decode(IDS[:3])
        seen = []
        with pytest.raises(openai.APIError):  # noqa: PT012
            for each in made.openai.responses.create(model=MODEL, input="Hi", stream=True):
                seen.append(each.type)  # noqa: PERF401
        assert seen[-1] == "response.failed"
        with pytest.raises(openai.APIError):
            list(made.openai.chat.completions.create(model=MODEL, messages=HI, stream=True))
