"""A gateway takes back what it said: also calls that a limit has cut."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec.adapters import Usage, openai_chat, openai_responses
from chatcodec.adapters import anthropic as messages_api
from chatcodec.errors import MessageError
from gateway import MODEL
from gateway_here import CODEC, Here, here
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_golden import FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Codec
    from naive import Value

ASKED: Any = {"role": "user", "content": "Weather in Oslo?"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}
FUNCTION = {"name": "weather", "parameters": SCHEMA}
TOOLS: dict[str, Any] = {
    "chat": [{"type": "function", "function": FUNCTION}],
    "responses": [{"type": "function", **FUNCTION}],
    "messages": [{"name": "weather", "input_schema": SCHEMA}],
}
READERS: dict[str, Any] = {
    "chat": openai_chat,
    "responses": openai_responses,
    "messages": messages_api,
}


@pytest.fixture(scope="module")
def of() -> Iterator[Here]:
    with here() as made:
        yield made


def history(api: str, answer: dict[str, Any]) -> list[Any]:
    """The conversation as a client has it after an answer, with a result for each call."""
    if api == "chat":
        message = answer["choices"][0]["message"]
        calls = message.get("tool_calls", [])
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in calls
        ]
        return [ASKED, message, *results]
    if api == "responses":
        ids = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
        results = [
            {"type": "function_call_output", "call_id": id_, "output": "rain"} for id_ in ids
        ]
        return [ASKED, *answer["output"], *results]
    ids = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": id_, "content": "rain"} for id_ in ids]
    told = {"role": "assistant", "content": answer["content"]}
    return [ASKED, told, *([{"role": "user", "content": results}] if results else [])]


def body(api: str, messages: list[Any], limit: int) -> dict[str, Any]:
    key = "input" if api == "responses" else "messages"
    limits = {"responses": "max_output_tokens"}
    return {key: messages, "tools": TOOLS[api], limits.get(api, "max_tokens"): limit}


PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


@pytest.mark.parametrize("api", PATHS)
def test_an_answer_that_any_limit_cut_is_taken_back(of: Here, api: str) -> None:
    repaired, before = 0, of.metric("chatcodec_repaired_calls_total")
    for limit in range(1, 32, 2):
        answer = of.post(PATHS[api], body(api, [ASKED], limit)).json()
        again = of.post(PATHS[api], body(api, history(api, answer), 1))
        assert again.status_code == 200, (limit, again.text)
        told = again.headers.get("x-chatcodec-history")
        assert told in {None, "repaired=1"}
        repaired += told is not None
    assert repaired > 1
    assert of.metric("chatcodec_repaired_calls_total") == before + repaired


def test_clients_send_a_cut_call_back(of: Here) -> None:
    chat = of.openai
    asked: Any = {"model": MODEL, "tools": TOOLS["chat"]}
    cut = chat.chat.completions.create(messages=[ASKED], max_tokens=20, **asked)
    told: Any = cut.choices[0].message
    assert told.tool_calls[0].function.arguments not in {"", "{}"}
    chat.chat.completions.create(messages=[ASKED, told, ASKED], **asked)
    messages = of.anthropic
    asked = {"model": MODEL, "tools": TOOLS["messages"]}
    block = messages.messages.create(messages=[ASKED], max_tokens=20, **asked)
    back: Any = [ASKED, {"role": "assistant", "content": block.content}, ASKED]
    messages.messages.create(messages=back, max_tokens=20, **asked)
    assert json.dumps(told.tool_calls[0].function.arguments) in of.prompt


def test_an_event_stream_tells_the_header(of: Here) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": ""}}
    told = {"role": "assistant", "content": None, "tool_calls": [call, call]}
    answer = of.chat(messages=[ASKED, told], stream=True, add_generation_prompt=True)
    assert answer.headers["x-chatcodec-history"] == "repaired=2"
    assert "x-chatcodec-history" not in of.chat().headers


SHORT = {"internlm2", "qwen3-coder", "lfm2", "llama3.1", "chatglm3", "gemma4", "kimi-k3", "mistral"}
"""Formats that write arguments in different ways."""


def codecs() -> Iterator[tuple[str, Codec]]:
    # Loading takes most of the time.
    for path in FILES if data.LONG else [each for each in FILES if each.stem in SHORT]:
        golden = json.loads(path.read_text(encoding="utf-8"))
        for vocab in golden["vocabs"]:
            is_here = data.LONG and vocab in data.FILES and (data.DATA / data.FILES[vocab]).exists()
            if vocab in {"embedded", "appended"} or is_here:
                yield golden["format"], data.load_case(golden["format"], vocab, golden)
                break


def test_every_format_takes_back_what_it_said() -> None:
    """Some formats write arguments as pairs, which half a JSON text is none of."""
    arguments = {"city": 'Os"lo', "n": 3}
    call = {
        "id": "abcdefgh1",
        "type": "function",
        "function": {"name": "weather", "arguments": arguments},
    }
    repaired: set[str] = set()
    for name, codec in codecs():
        try:
            request = openai_chat.read_request({"messages": [ASKED], "tools": TOOLS["chat"]}, codec)
            prompt = request.encode()
            said = codec.encode(
                [ASKED, {"role": "assistant", "tool_calls": [call]}], tools=TOOLS["chat"]
            )
        except MessageError:
            continue  # a format without tools
        ids = said.ids.tolist()[len(prompt) :]
        for end in range(1, len(ids), 5):
            events = request.stream(prompt)
            pushed = events.push(ids[:end]) + events.finish("length")
            prompts: set[tuple[int, ...]] = set()
            for api, reader in READERS.items():
                adapter = reader.ChunkStream if api == "chat" else reader.EventStream
                made = adapter(id="chatcmpl-1", model="m", call_id="abcdefgh{}".format)
                chunks = made.push(pushed) + made.finish(
                    Usage(prompt_tokens=1, completion_tokens=1)
                )
                back = reader.read_request(
                    body(api, history(api, reader.collect(chunks)), 9), codec
                )
                encoded = back.encode()
                if back.repaired:
                    prompts.add(tuple(encoded.ids))
            repaired |= {name} if prompts else set()
            assert len(prompts) < 2, (name, end)
    assert {"internlm2", "qwen3-coder", "lfm2"} <= repaired, repaired


@settings(max_examples=60)
@given(st.text(alphabet='{}[]":,a1 \\u\tntrueNaI-.eE', max_size=9) | st.text(max_size=6))
@example("NaN")
@example("1e400")
@example("[1]")
@example('"\\ud800"')
def test_what_is_repaired_is_what_encode_refuses(arguments: str) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    messages: list[Value] = [ASKED, {"role": "assistant", "tool_calls": [call]}]
    request = openai_chat.read_request({"messages": messages}, CODEC)
    try:
        CODEC.encode(messages, on_arguments="error")
    except MessageError as error:
        expected = () if "surrogate" in str(error) else (error.path,)
    else:
        expected = (
            () if arguments.strip(" \t\r\n") else ("messages[1].tool_calls[0].function.arguments",)
        )
    assert request.repaired == expected
