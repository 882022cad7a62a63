"""The real clients of OpenAI and Anthropic, given what a server would send; no network.

Each reader returns what its client made of a response as a `Seen`, and so do the readers of
messages and of folded chunks: what is the same to a user is equal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anthropic as anthropic_client
import httpx2
import openai
from anthropic.types import Message
from chatcodec.adapters import sse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec.adapters import Chunk
    from naive import Value

ASKED: Any = [{"role": "user", "content": "?"}]
CODE = "code_interpreter"


@dataclass
class Seen:
    """What a client has of a response."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    """Id, name and arguments."""
    finish: str | None = None
    tokens: tuple[int, int] | None = None

    def said(self) -> tuple[str, str, list[tuple[str, Any]]]:
        """What the model said, without what the server adds."""
        return self.text, self.reasoning, [(name, arguments) for _, name, arguments in self.calls]


ANSWER: dict[str, bytes] = {"body": b""}
"""What the next request is answered with. Clients are made once: that takes longer than a test."""


def answer(request: httpx2.Request) -> httpx2.Response:
    del request
    kind = "application/json" if ANSWER["body"].startswith(b"{") else "text/event-stream"
    return httpx2.Response(200, headers={"content-type": kind}, content=ANSWER["body"])


def http() -> httpx2.Client:
    return httpx2.Client(transport=httpx2.MockTransport(answer))


OPENAI = openai.OpenAI(api_key="-", max_retries=0, http_client=http())
ANTHROPIC = anthropic_client.Anthropic(api_key="-", max_retries=0, http_client=http())


def openai_of(body: bytes) -> openai.OpenAI:
    ANSWER["body"] = body
    return OPENAI


def anthropic_of(body: bytes) -> anthropic_client.Anthropic:
    ANSWER["body"] = body
    return ANTHROPIC


def json_of(whole: Chunk) -> bytes:
    return json.dumps(whole).encode()


# OpenAI's chat completions.


def chat_seen(completion: Value, key: str = "reasoning_content") -> Seen:
    """What a completion says, streamed or not; its first choice."""
    (choice,) = completion.choices
    message = choice.message
    assert message.role == "assistant"
    calls = message.tool_calls or []
    usage = completion.usage
    return Seen(
        message.content or "",
        getattr(message, key, None) or "",
        [(call.id, call.function.name, call.function.arguments) for call in calls],
        choice.finish_reason,
        usage and (usage.prompt_tokens, usage.completion_tokens),
    )


def chat_accumulated(chunks: Iterable[Chunk]) -> Seen:
    """`client.chat.completions.stream`, which accumulates."""
    body = b"".join(map(sse.data, chunks)) + sse.DONE
    with openai_of(body).chat.completions.stream(model="m", messages=ASKED) as stream:
        stream.until_done()
        return chat_seen(stream.current_completion_snapshot)


def chat_by_hand(chunks: Iterable[Chunk], key: str = "reasoning_content") -> Seen:
    """`client.chat.completions.create(stream=True)`, read as OpenAI's guide does."""
    seen = Seen()
    body = b"".join(map(sse.data, chunks)) + sse.DONE
    for n, chunk in enumerate(
        openai_of(body).chat.completions.create(model="m", messages=ASKED, stream=True)
    ):
        if chunk.usage is not None:
            assert not chunk.choices
            seen.tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            continue
        (choice,) = chunk.choices
        assert seen.finish is None, "a chunk after the last"
        seen.finish = choice.finish_reason
        delta = choice.delta
        assert (delta.role is None) == (n > 0)
        seen.text += delta.content or ""
        seen.reasoning += getattr(delta, key, None) or ""
        for call in delta.tool_calls or []:
            assert call.function is not None
            assert call.function.arguments is not None
            if call.index == len(seen.calls):
                assert call.type == "function"
                assert call.id is not None
                assert call.function.name is not None
                seen.calls.append((call.id, call.function.name, ""))
            else:
                assert (call.id, call.type, call.function.name) == (None, None, None)
            id_, name, arguments = seen.calls[call.index]
            seen.calls[call.index] = id_, name, arguments + call.function.arguments
    return seen


def chat_whole(completion: Chunk) -> Seen:
    """`client.chat.completions.create()`."""
    ChatCompletion.model_validate(completion)
    client = openai_of(json_of(completion))
    return chat_seen(client.chat.completions.create(model="m", messages=ASKED))


# OpenAI's Responses.


def responses_seen(response: Value) -> Seen:
    seen = Seen(finish=response.status)
    for item in response.output:
        match item.type:
            case "message":
                seen.text += "".join(part.text for part in item.content)
            case "reasoning":
                seen.reasoning += "".join(part.text for part in (item.content or item.summary))
            case "function_call":
                seen.calls.append((item.call_id, item.name, item.arguments))
    if response.usage is not None:
        seen.tokens = response.usage.input_tokens, response.usage.output_tokens
    return seen


def responses_accumulated(events: Iterable[Chunk]) -> Seen:
    """`client.responses.stream`: what its deltas say, which has to be what its last event says."""
    body = b"".join(map(sse.event, events))
    by_delta = Seen()
    with openai_of(body).responses.stream(model="m", input="?") as stream:
        for n, event in enumerate(stream):
            assert getattr(event, "sequence_number", n) == n
            match event.type:
                case "response.output_text.delta":
                    by_delta.text += event.delta
                case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                    by_delta.reasoning += event.delta
                case "response.output_item.added" if event.item.type == "function_call":
                    by_delta.calls.append((event.item.call_id, event.item.name, ""))
                case "response.function_call_arguments.delta":
                    assert event.snapshot == by_delta.calls[-1][2] + event.delta
                    by_delta.calls[-1] = (*by_delta.calls[-1][:2], event.snapshot)
                case "response.completed" | "response.incomplete":
                    last = event
        seen = responses_seen(last.response)
        if seen.finish == "completed":
            assert responses_seen(stream.get_final_response()) == seen
    assert seen.said() == by_delta.said()
    return seen


def responses_whole(response: Chunk) -> Seen:
    """`client.responses.create()`."""
    Response.model_validate(response)
    client = openai_of(json_of(response))
    return responses_seen(client.responses.create(model="m", input="?"))


# Anthropic's messages.


def anthropic_seen(message: Value) -> Seen:
    assert message.role == "assistant"
    seen = Seen(finish=message.stop_reason)
    for block in message.content:
        match block.type:
            case "text":
                seen.text += block.text
            case "thinking":
                seen.reasoning += block.thinking
            case "tool_use":
                seen.calls.append((block.id, block.name, block.input))
    usage = message.usage
    read = usage.cache_read_input_tokens or 0
    seen.tokens = usage.input_tokens + read, usage.output_tokens
    return seen


def anthropic_accumulated(events: Iterable[Chunk]) -> Seen:
    """`client.messages.stream`, which accumulates."""
    body = b"".join(map(sse.event, events))
    client = anthropic_of(body)
    with client.messages.stream(model="m", messages=ASKED, max_tokens=1) as stream:
        return anthropic_seen(stream.get_final_message())


def anthropic_whole(message: Chunk) -> Seen:
    """`client.messages.create()`."""
    Message.model_validate(message)
    client = anthropic_of(json_of(message))
    return anthropic_seen(client.messages.create(model="m", messages=ASKED, max_tokens=1))


# Messages as `Codec.parse` has them.


def message_seen(message: Chunk) -> Seen:
    """What a message says; code as a call of `CODE`, or of what else it is for."""
    seen = Seen(message["content"], message.get("reasoning", ""))
    for call in message.get("tool_calls", ()):
        if call["type"] == "code":
            code = call["code"]
            arguments = json.dumps({"code": code["source"]}, ensure_ascii=False)
            language = code.get("language") or "python"
            name = CODE if language == "python" else language
            seen.calls.append((call["id"], name, arguments))
        else:
            function = call["function"]
            seen.calls.append((call["id"], function["name"], function["arguments"]))
    return seen


def with_inputs(seen: Seen) -> Seen:
    """The same with arguments as Anthropic has them: objects."""
    seen.calls = [(id_, name, input_of(arguments)) for id_, name, arguments in seen.calls]
    return seen


def input_of(arguments: str) -> Value:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}
