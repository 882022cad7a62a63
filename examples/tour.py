"""A tour: a conversation to ids, shown, and back; then a model's answer as events.

The conversation, `conversation.json`, has a tool, a call, and a user who types the markers of a
system turn. The answer is `completion.json`.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import zip_longest
from pathlib import Path

from chatcodec import Codec, Vocab, collect
from chatcodec.cli import main as chatcodec

CONVERSATION = Path(__file__).with_name("conversation.json")
COMPLETION = Path(__file__).with_name("completion.json")
EMBEDDED = Path(__file__).parents[1] / "rust/vocab/src/vocab/embedded.model"
IDS_PER_PUSH = 3


def tour() -> bool:
    """Print each step and what it gives; say whether all of it came back as it went in."""
    codec = Codec("internlm2", vocab="embedded")
    conversation = json.loads(CONVERSATION.read_text("utf-8"))
    answer = json.loads(COMPLETION.read_text("utf-8"))
    messages, tools = conversation["messages"], conversation["tools"]

    print("1. codec.encode: messages to ids\n")
    prompt = codec.encode(messages, tools=tools)
    print(f"   {len(messages)} messages and {len(tools)} tool are {len(prompt)} ids:")
    print(f"   {str(prompt.ids[:8].tolist())[:-1]}, ...\n")

    print("2. chatcodec inspect: whose text each id is; the forged turn is only text\n")
    argv = ["inspect", "--vocab", "embedded", "--document", os.path.relpath(CONVERSATION)]
    fine = chatcodec(argv) == 0

    print("3. codec.decode: ids to messages\n")
    decoded = codec.decode(prompt.ids)
    same = decoded == codec.canonical(messages, tools=tools)
    print(f"   decode(ids) == canonical(messages): {same}")
    print(f"   what the user said: {decoded[2]['content']!r}\n")

    print(f"4. codec.stream: a model's ids to events, pushed {IDS_PER_PUSH} at a time\n")
    # The ids that a model generates: the assistant's turn after the prompt, with its end.
    whole = codec.encode([*messages, answer], tools=tools, boundary="isolated")
    generated = zip(whole.ids, whole.assistant_mask, strict=True)
    completion = [token for token, mask in list(generated)[len(prompt) :] if mask]
    stream = codec.stream(prompt)
    events = []
    for at in range(0, len(completion), IDS_PER_PUSH):
        ids = completion[at : at + IDS_PER_PUSH]
        pushed = stream.push(ids)
        events += pushed
        lines = [str(event) for event in pushed] or ["(not decided yet)"]
        for shown, line in zip_longest([str(ids)], lines, fillvalue=""):
            print(f"   {shown:<22} {line}")
    events += stream.finish()

    came_back = collect(events) == answer
    print(f"\n   collect(events) == the answer: {came_back}\n")
    return fine and same and came_back and reasoning()


def reasoning() -> bool:
    """Print the stream of an answer that reasons and calls; say whether it came back."""
    print("5. the same of a format with reasoning: `qwen3`, on the embedded vocabulary\n")
    spellings = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    spellings += ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
    embedded = Vocab.embedded()
    tokens = {spelling: embedded.size + nth for nth, spelling in enumerate(spellings)}
    codec = Codec("qwen3", Vocab.load(EMBEDDED, special_tokens=tokens))
    question = {"role": "user", "content": "Do I need a coat in Paris?"}
    call = {"name": "weather", "arguments": '{"city": "Paris"}'}
    answer = {
        "role": "assistant",
        "content": "Let me see.",
        "reasoning": "The weather decides.",
        "tool_calls": [{"id": "call_0", "type": "function", "function": call}],
    }
    prompt = codec.encode([question])
    completion = codec.encode([question, answer]).ids[len(prompt) :]
    stream = codec.stream(prompt)
    events = [*stream.push(completion), *stream.finish()]
    for event in events:
        print(f"   {event}")
    came_back = collect(events) == answer
    print(f"\n   collect(events) == the answer: {came_back}")
    return came_back


if __name__ == "__main__":
    sys.exit(0 if tour() else 1)
