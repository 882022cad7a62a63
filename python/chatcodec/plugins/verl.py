"""A tool parser of verl that reads calls by ids.

    VERL_USE_EXTERNAL_MODULES=chatcodec.plugins.verl python -m verl.trainer.main_ppo \
        actor_rollout_ref.rollout.multi_turn.format=chatcodec ...

verl imports the module in each of its processes, and the import registers the parser. It was
written for verl 0.9.1. The variable `CHATCODEC_FORMAT` names a format; by default the model's
folder decides.
"""

from __future__ import annotations

import importlib
from typing import Any

from chatcodec.plugins import reading
from chatcodec.plugins.reading import NAME, plain

__all__ = ["NAME", "register"]


def register() -> None:
    """Register the tool parser. Raises what the import of verl's agent loop raises."""
    module = importlib.import_module("verl.experimental.agent_loop.tool_parser")
    base: Any = module.ToolParser

    class Parser(base):  # type: ignore[misc]
        def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401
            super().__init__(tokenizer)
            self.codec = reading.codec_of(str(tokenizer.name_or_path))

        @property
        def stop_token_ids(self) -> list[int]:
            return self.codec.stop_ids

        async def extract_tool_calls(
            self,
            responses_ids: list[int],
            tools: Any = None,  # noqa: ANN401
        ) -> tuple[str, list[Any]]:
            read = self.codec.parse(responses_ids, tools=plain(tools) or None).message
            calls = [
                module.FunctionCall(
                    name=call["function"]["name"],
                    arguments=call["function"]["arguments"],
                    tool_call_id=call.get("id"),
                )
                for call in read.get("tool_calls") or ()
                if "function" in call
            ]
            return str(read.get("content") or ""), calls

    base.register(NAME)(Parser)


register()
