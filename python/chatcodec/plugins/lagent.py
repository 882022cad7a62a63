"""Lagent's InternLM2 agent with action spans read by ids.

Lagent writes calls into one string and splits the answer at `<|action_start|>`, so a user who
types that string makes a call. Here a model takes messages and gives ids, and the protocol reads
the ids:

    codec = Codec.from_pretrained("internlm/internlm2_5-7b-chat")
    agent = Internlm2Agent(
        llm=Model(codec, generate),
        protocol=Protocol(codec, Internlm2Protocol()),
        plugin_executor=ActionExecutor([...]),
    )

`generate` takes a prompt's ids and gives a completion's, by any engine. Written for Lagent 0.2.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chatcodec import Codec

__all__ = ["Model", "Protocol"]


class Model:
    """What Lagent calls a model: messages in, and here ids out."""

    def __init__(self, codec: Codec, generate: Callable[..., Iterable[int]]) -> None:
        """Take the codec, and the engine: from a prompt's ids to a completion's."""
        self.codec = codec
        self.generate = generate

    def prompt(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Encode messages of `Protocol.format`. Raises `MessageError`."""
        ids: list[int] = self.codec.encode(messages, add_generation_prompt=True).ids.tolist()
        return ids

    def chat(self, inputs: Sequence[dict[str, Any]], **options: Any) -> list[int]:  # noqa: ANN401
        """Give a completion's ids. Options go on to the engine."""
        return list(self.generate(self.prompt(inputs), **options))

    def stream_chat(
        self,
        inputs: Sequence[dict[str, Any]],
        **options: Any,  # noqa: ANN401
    ) -> Iterator[tuple[Any, list[int], None]]:
        """Give a state and the ids so far, for each id that comes."""
        states = importlib.import_module("lagent.schema").ModelStatusCode
        ids: list[int] = []
        for id_ in self.generate(self.prompt(inputs), **options):
            ids.append(id_)
            yield states.STREAM_ING, list(ids), None
        yield states.END, ids, None


class Protocol:
    """`Internlm2Protocol` whose calls are messages and ids, not text."""

    def __init__(self, codec: Codec, original: Any) -> None:  # noqa: ANN401
        """Take the codec, and the protocol whose system texts and results are used."""
        self.codec = codec
        self.original = original

    def format(
        self,
        inner_step: Sequence[dict[str, Any]],
        plugin_executor: Any = None,  # noqa: ANN401
        interpreter_executor: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> list[dict[str, Any]]:
        """Give the messages of a prompt."""
        system: list[dict[str, Any]] = self.original.format(
            [],
            plugin_executor=plugin_executor,
            interpreter_executor=interpreter_executor,
            **options,
        )
        return system + messages_of(inner_step)

    def parse(
        self,
        message: Sequence[int] | str,
        plugin_executor: Any = None,  # noqa: ANN401, ARG002
        interpreter_executor: Any = None,  # noqa: ANN401
    ) -> tuple[str | None, str, Any]:
        """Read a completion's ids: `plugin`, `interpreter` or None, its text, its first call."""
        if isinstance(message, str):
            raise TypeError("message is text, expected the ids that `Model` gives")
        read = self.codec.parse(list(message)).message
        text = str(read.get("content") or "")
        for call in read.get("tool_calls") or ():
            if "code" in call:
                names: list[str] = getattr(interpreter_executor, "action_names", list)()
                name = names[0] if names else "IPythonInterpreter"
                return "interpreter", text, {
                    "name": name,
                    "parameters": {"command": call["code"]["source"]},
                }  # fmt: skip
            function = call["function"]
            name, arguments = json.dumps(function["name"]), function["arguments"]
            return "plugin", text, f'{{"name": {name}, "parameters": {arguments}}}'
        return None, text, None

    def format_response(self, action_return: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
        """Make the step of a result."""
        step: dict[str, Any] = self.original.format_response(action_return, name=name)
        return step


def messages_of(steps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make messages of Lagent's steps: `language` and `tool` are parts of one answer."""
    messages: list[dict[str, Any]] = []
    for step in steps:
        role, content = step["role"], step["content"]
        if role == "language":
            messages.append({"role": "assistant", "content": content})
        elif role == "tool":
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            messages[-1].setdefault("tool_calls", []).append(_call(step["name"], content))
        elif role == "environment":
            messages.append({"role": "tool", "content": content})
        else:
            messages.append({"role": role, "content": content})
    return messages


def _call(kind: str, content: Any) -> dict[str, Any]:  # noqa: ANN401
    if kind == "interpreter":
        source = content["parameters"]["command"] if isinstance(content, dict) else content
        return {"type": "code", "code": {"language": "python", "source": source}}
    read = json.loads(content) if isinstance(content, str) else content
    function = {"name": read["name"], "arguments": read.get("parameters") or {}}
    return {"type": "function", "function": function}
