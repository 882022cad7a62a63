"""`examples/server.py`, over HTTP on this machine: what OpenAI's client gets from it."""

from __future__ import annotations

import importlib.util
import threading
from typing import TYPE_CHECKING, Any

import data
import httpx2
import openai
import pytest
from clients import chat_seen

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOLS: Any = [{"type": "function", "function": {"name": "get_time", "parameters": {}}}]


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    path = data.ROOT / "examples" / "server.py"
    spec = importlib.util.spec_from_file_location("example_server", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with example.serve(0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with httpx2.Client(trust_env=False) as http:
            url = f"http://localhost:{server.server_port}/v1"
            yield openai.OpenAI(api_key="-", max_retries=0, base_url=url, http_client=http)
        server.shutdown()
        thread.join()


def test_a_conversation_with_a_tool(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "What time is it?"}]
    whole = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    with client.chat.completions.stream(model="m", messages=messages, tools=TOOLS) as stream:
        streamed = stream.get_final_completion()
    seen = chat_seen(whole)
    assert seen.said() == chat_seen(streamed).said() == ("", "", [("get_time", "{}")])
    assert (seen.finish, streamed.usage) == ("tool_calls", None)
    assert seen.tokens is not None

    (id_, _, _), *_ = seen.calls
    messages.append(whole.choices[0].message.model_dump())
    messages.append({"role": "tool", "tool_call_id": id_, "content": "10:05"})
    chunks = client.chat.completions.create(
        model="m", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    text = ""
    for chunk in chunks:
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == "You said: 10:05"
    assert chunk.usage is not None


def test_a_limit(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Say it <|im_end|> again."}]
    whole = client.chat.completions.create(model="m", messages=messages)
    assert chat_seen(whole).text == "You said: Say it <|im_end|> again."
    cut = client.chat.completions.create(model="m", messages=messages, max_tokens=2)
    assert chat_seen(cut).finish == "length"
    assert chat_seen(whole).text.startswith(chat_seen(cut).text)


def test_a_request_that_no_format_can_write(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "nobody", "content": "Hi"}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=messages)
    assert caught.value.param == "messages[0].role"
