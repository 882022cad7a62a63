"""Answers as SGLang has them: steps of ids in, calls and parts of calls out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatcodec.plugins.reading import Reading

__all__ = ["ResponsesStream", "end_of", "items", "step", "tool_call"]

_SERVING = "sglang.srt.entrypoints.openai"
_ENDS = {"stop": "stop", "length": "length"}


class ResponsesStream:
    """A streamed answer of `/v1/responses`."""

    def __init__(self, reading: Reading) -> None:
        """Take what reads the answer."""
        self._reading = reading

    def step(
        self, chunk: dict[str, Any], finish_reason: dict[str, Any] | None
    ) -> tuple[str, str, list[Any]]:
        """Read a step: reasoning, content and parts of calls."""
        delta = step(self._reading, chunk, finish_reason)
        parts = [{"index": part["index"], **part["function"]} for part in delta["tool_calls"]]
        return delta.get("reasoning", ""), delta.get("content", ""), items(parts)


def step(
    reading: Reading, chunk: dict[str, Any], finish_reason: dict[str, Any] | None
) -> dict[str, Any]:
    """Read the new ids of a chunk of SGLang, which may repeat earlier ones."""
    adapters = importlib.import_module(f"{_SERVING}.chat_encoding_adapters")
    context = importlib.import_module("sglang.srt.runtime_context")
    ids = adapters.select_new_output_ids(
        output_ids=chunk.get("output_ids") or [],
        num_consumed_tokens=reading.count,
        completion_tokens=chunk["meta_info"]["completion_tokens"],
        finish_reason_type=None if finish_reason is None else finish_reason["type"],
        incremental=context.get_serving().incremental_streaming_output,
    )
    return reading.push(ids, end=None if finish_reason is None else end_of(finish_reason))


def end_of(finish_reason: dict[str, Any]) -> str:
    """Return why an answer ended, as `Reading.push` takes it."""
    return _ENDS.get(finish_reason["type"], "cancelled")


def tool_call(index: int, call: dict[str, Any]) -> Any:  # noqa: ANN401
    """Make a call, or a part of one, of SGLang's chat completions."""
    protocol = importlib.import_module(f"{_SERVING}.protocol")
    function = protocol.FunctionResponse(name=call.get("name"), arguments=call.get("arguments"))
    return protocol.ToolCall(id=call["id"], index=index, function=function)


def items(calls: list[dict[str, Any]]) -> list[Any]:
    """Make items of calls; those of a stream say their index."""
    types = importlib.import_module("sglang.srt.function_call.core_types")
    return [
        types.ToolCallItem(
            tool_index=call.get("index", at),
            name=call.get("name"),
            parameters=call.get("arguments") or "",
        )
        for at, call in enumerate(calls)
    ]
