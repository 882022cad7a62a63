"""OpenAI's Agents SDK, by chat completions and by Responses."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from asked import CALLS, FOR_JSON, FOR_TOOL, KEY, MODEL, SAY, V1, City, tell, weather


async def seen(api: str, model: Any) -> dict[str, Any]:  # noqa: ANN401
    CALLS.clear()
    plain = Agent(name="plain", model=model)
    whole = (await Runner.run(plain, SAY)).final_output
    streamed = ""
    async for event in Runner.run_streamed(plain, SAY).stream_events():
        data = event.data if event.type == "raw_response_event" else None
        if data is not None and data.type == "response.output_text.delta":
            streamed += data.delta
    able = Agent(name="able", model=model, tools=[function_tool(weather)])
    told = (await Runner.run(able, FOR_TOOL)).final_output
    again = Runner.run_streamed(able, FOR_TOOL)
    async for _ in again.stream_events():
        pass
    if again.final_output != told:
        raise AssertionError(again.final_output)
    forms = Agent(name="forms", model=model, output_type=City)
    formed = (await Runner.run(forms, FOR_JSON)).final_output
    return {
        "api": api,
        "whole": whole,
        "streamed": streamed,
        "calls": CALLS[:],
        "told": told,
        "schema": formed.model_dump(),
    }


async def main() -> None:
    set_tracing_disabled(disabled=True)
    client = openai.AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0)
    tell(
        await seen("chat", OpenAIChatCompletionsModel(MODEL, openai_client=client)),
        await seen("responses", OpenAIResponsesModel(MODEL, openai_client=client)),
    )


asyncio.run(main())
