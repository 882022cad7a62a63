"""LlamaIndex's `OpenAILike`."""

from __future__ import annotations

from typing import Any

from asked import FOR_JSON, FOR_TOOL, KEY, MODEL, SAY, V1, City, tell, weather
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

TOOL = FunctionTool.from_defaults(weather)


def seen(api: str, *, structured: bool) -> dict[str, Any]:
    llm: Any = OpenAILike(
        model=MODEL,
        api_base=V1,
        api_key=KEY,
        max_retries=0,
        is_chat_model=True,
        is_function_calling_model=True,
        should_use_structured_outputs=structured,
    )
    asked = [ChatMessage(role="user", content=SAY)]
    whole = llm.chat(asked).message.content
    streamed = "".join(chunk.delta or "" for chunk in llm.stream_chat(asked))
    history = [ChatMessage(role="user", content=FOR_TOOL)]
    *_, last = llm.stream_chat_with_tools([TOOL], chat_history=history[:])
    answer = llm.chat_with_tools([TOOL], chat_history=history[:])
    calls = [call for each in (last, answer) for call in llm.get_tool_calls_from_response(each)]
    result = ChatMessage(
        role="tool",
        content=weather(**calls[-1].tool_kwargs),
        additional_kwargs={"tool_call_id": calls[-1].tool_id},
    )
    told = llm.chat_with_tools([TOOL], chat_history=[*history, answer.message, result])
    formed = llm.structured_predict(City, PromptTemplate(FOR_JSON))
    return {
        "api": api,
        "whole": whole,
        "streamed": streamed,
        "calls": [(call.tool_name, call.tool_kwargs) for call in calls],
        "told": told.message.content,
        "schema": formed.model_dump(),
    }


tell(seen("tools", structured=False), seen("a schema", structured=True))
