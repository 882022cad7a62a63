"""LiteLLM as a library, by the APIs of OpenAI and Anthropic."""

from __future__ import annotations

import json
from typing import Any

import litellm
from asked import FOR_JSON, FOR_TOOL, KEY, MODEL, SAY, URL, V1, City, tell, user, weather

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def seen(api: str, base: str) -> dict[str, Any]:
    def ask(messages: list[Any], **more: Any) -> Any:  # noqa: ANN401
        return litellm.completion(
            model=f"{api}/{MODEL}",
            api_base=base,
            api_key=KEY,
            num_retries=0,
            messages=messages,
            **more,
        )

    whole = ask(user(SAY)).choices[0].message.content
    chunks = list(ask(user(SAY), stream=True))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    parts = list(ask(user(FOR_TOOL), tools=[TOOL], stream=True))
    calls: list[Any] = []
    history = user(FOR_TOOL)
    for answer in (
        litellm.stream_chunk_builder(parts),
        ask(history, tools=[TOOL]),
    ):
        message = answer.choices[0].message
        (call,) = message.tool_calls
        arguments = json.loads(call.function.arguments)
        calls.append((call.function.name, arguments))
    result = {"role": "tool", "tool_call_id": call.id, "content": weather(**arguments)}
    told = ask([*history, message, result], tools=[TOOL]).choices[0].message.content
    formed = ask(user(FOR_JSON), response_format=City).choices[0].message.content
    return {
        "api": api,
        "whole": whole,
        "streamed": streamed,
        "calls": calls,
        "told": told,
        "schema": City.model_validate_json(formed).model_dump(),
    }


tell(seen("openai", V1), seen("anthropic", URL))
