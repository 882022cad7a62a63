"""Mistral Nemo's ids: version 3 of Mistral's tokenizer, with a vocabulary of tekken."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import mistral_common
import pytest
from chatcodec import Codec, Format
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

FILE = Path(mistral_common.__file__).parent / "data" / "tekken_240718.json"
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
QUESTION = {"role": "user", "content": "Is it warm in Paris?"}
CALL = {
    "role": "assistant",
    "tool_calls": [
        {
            "id": "abcdefghi",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "12 degrees"}
ANSWER = {"role": "assistant", "content": "No.  "}


@functools.cache
def codec() -> Codec:
    return Codec(Format.for_model("mistralai/Mistral-Nemo-Instruct-2407"), vocab=str(FILE))


@functools.cache
def reference() -> MistralTokenizer[Any, Any, Any, Any, Any]:
    return MistralTokenizer.from_file(str(FILE))


@pytest.mark.parametrize(
    ("messages", "tools"),
    [
        ([QUESTION], None),
        ([{"role": "system", "content": "Be brief."}, QUESTION], None),
        ([QUESTION, ANSWER, QUESTION], TOOLS),
        ([QUESTION, CALL, RESULT], TOOLS),
        ([QUESTION, CALL, RESULT, ANSWER, QUESTION], TOOLS),
    ],
    ids=["a question", "a system message", "tools", "a result", "an answer to a result"],
)
def test_ids_are_those_of_mistral_common(
    messages: list[dict[str, Any]], tools: list[Any] | None
) -> None:
    request: Any = ChatCompletionRequest(messages=messages, tools=tools, model="x")
    assert (
        codec().encode(messages, tools=tools).ids.tolist()
        == reference().encode_chat_completion(request).tokens
    )
