"""Pydantic AI's agents, by the three APIs.

It puts a joiner into control tokens that it knows, for servers that read them in texts. The gateway
does not, so `PLAIN` spares the model the joiners.
"""

from __future__ import annotations

import asyncio
from typing import Any

from asked import CALLS, FOR_JSON, FOR_TOOL, KEY, MODEL, SAY, URL, V1, City, tell, weather
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

PLAIN: Any = {"may_tokenize_special_tokens_in_content": False}


async def seen(api: str, model: Any, schema: Any) -> dict[str, Any]:  # noqa: ANN401
    CALLS.clear()
    plain: Any = Agent(model)
    whole = (await plain.run(SAY)).output
    async with plain.run_stream(SAY) as stream:
        streamed = "".join([delta async for delta in stream.stream_text(delta=True)])
    able: Any = Agent(model, tools=[weather])
    told = (await able.run(FOR_TOOL)).output
    formed: Any = (await Agent(model, output_type=schema).run(FOR_JSON)).output
    return {
        "api": api,
        "whole": whole,
        "streamed": streamed,
        "calls": CALLS[:],
        "told": told,
        "schema": formed.model_dump(),
    }


async def main() -> None:
    openai = OpenAIProvider(base_url=V1, api_key=KEY)
    claude = AnthropicProvider(base_url=URL, api_key=KEY)
    chat = OpenAIChatModel(MODEL, provider=openai, profile=PLAIN)
    responses = OpenAIResponsesModel(MODEL, provider=openai, profile=PLAIN)
    joining = OpenAIChatModel(MODEL, provider=openai)
    tell(
        await seen("chat", chat, NativeOutput(City)),
        await seen("responses", responses, NativeOutput(City)),
        await seen("messages", AnthropicModel(MODEL, provider=claude), City),
        await seen("chat with joiners", joining, NativeOutput(City)),
    )


asyncio.run(main())
