"""LangChain's chat models of OpenAI and Anthropic."""

from __future__ import annotations

import functools
import operator
from typing import Any

from asked import FOR_JSON, FOR_TOOL, KEY, MODEL, SAY, URL, V1, City, tell, user, weather
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

TOOL = tool(weather)


def seen(api: str, llm: Any, **how: Any) -> dict[str, Any]:  # noqa: ANN401
    whole = llm.invoke(SAY).text
    streamed = "".join(chunk.text for chunk in llm.stream(SAY))
    able = llm.bind_tools([TOOL])
    history = user(FOR_TOOL)
    summed = functools.reduce(operator.add, able.stream(history))
    answer = able.invoke(history)
    calls = [(call["name"], call["args"]) for each in (summed, answer) for call in each.tool_calls]
    told = able.invoke([*history, answer, *map(TOOL.invoke, answer.tool_calls)]).text
    formed = llm.with_structured_output(City, **how).invoke(FOR_JSON)
    return {
        "api": api,
        "whole": whole,
        "streamed": streamed,
        "calls": calls,
        "told": told,
        "schema": formed.model_dump(),
    }


OPENAI: Any = {"model": MODEL, "base_url": V1, "api_key": KEY, "max_retries": 0}
CLAUDE: Any = {**OPENAI, "base_url": URL}
tell(
    seen("chat", ChatOpenAI(**OPENAI)),
    seen("responses", ChatOpenAI(**OPENAI, use_responses_api=True)),
    seen("messages", ChatAnthropic(**CLAUDE)),
    seen("messages, a schema", ChatAnthropic(**CLAUDE), method="json_schema"),
)
