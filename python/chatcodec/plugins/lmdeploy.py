"""A plug-in of LMDeploy: prompts and completions by ids.

    python -m chatcodec.plugins.lmdeploy serve api_server MODEL

LMDeploy looks for no plug-ins, so this is its command line after `register`. It serves chat
completions, Responses and Anthropic's messages by the codec; all other commands and options are
LMDeploy's own. It was written for LMDeploy 0.18.

The setting `CHATCODEC_FORMAT` of the environment names a built-in format or a format file; by
default the model's folder decides.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from typing import TYPE_CHECKING, Any

from chatcodec.adapters import openai_chat
from chatcodec.errors import ChatCodecError, MessageError
from chatcodec.plugins import contract, demands
from chatcodec.plugins.needs_lmdeploy import CONTRACT
from chatcodec.plugins.prompts import Prompts
from chatcodec.plugins.reading import NAME, Reading, calls_of, codec_of, has_media, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec

__all__ = ["NAME", "main", "register"]

_PARSERS = "lmdeploy.serve.parsers"
_PROMPTS = Prompts("LMDeploy")


def register() -> None:
    """Put the codec in the places of LMDeploy's parsers and of its chat template.

    Calling it again changes nothing. Raises `PluginError` for a version of LMDeploy that lacks
    what the plug-in needs.
    """
    contract.require(CONTRACT)
    responses = importlib.import_module(f"{_PARSERS}.response_parser").ResponseParserManager
    calls = importlib.import_module(f"{_PARSERS}.tool_parser").ToolParserManager
    reasoning = importlib.import_module(f"{_PARSERS}.reasoning_parser").ReasoningParserManager
    runner = importlib.import_module("lmdeploy.serve.core.chat_runner").ChatRunner
    prepare = runner.prepare
    parser = response_parser()
    if NAME in calls.module_dict:
        return
    for name in ("default", "gpt-oss"):
        responses.register_module(name, force=True, module=parser)
    # So that `--tool-call-parser chatcodec` is known; the parser above reads calls as well.
    calls.register_module(NAME, module=parser)
    reasoning.register_module(NAME, module=parser)

    @functools.wraps(prepare.__func__)
    async def prepared(cls: Any, server_context: Any, request: Any, options: Any = None) -> Any:  # noqa: ANN401
        exceptions = importlib.import_module("lmdeploy.serve.core.exceptions")
        types = importlib.import_module("lmdeploy.serve.core.chat_runner")
        given = options or types.ChatRunnerOptions()
        codec = codec_of(str(server_context.response_parser_cls.tokenizer.name_or_path))
        ids = given.input_ids
        if ids is None:
            try:
                ids = prompt_ids(codec, request)
            except ChatCodecError as error:
                invalid = exceptions.ErrorCode.INVALID_REQUEST
                raise exceptions.RequestError(invalid, str(error)) from error
        _PROMPTS.keep(request, ids)
        ends = {"stop_token_ids": codec.stop_ids, **given.gen_config_kwargs}
        given = dataclasses.replace(
            given, input_ids=ids, do_preprocess=False, gen_config_kwargs=ends
        )
        return await prepare.__func__(cls, server_context, request, given)

    runner.prepare = classmethod(prepared)


def body_of(request: Any) -> dict[str, Any]:  # noqa: ANN401
    """Make the body of a chat request of what shapes its prompt."""
    body: dict[str, Any] = {"model": NAME, "messages": plain(request.messages)}
    tools = plain(request.tools)
    if tools:
        body["tools"] = tools
        if (choice := plain(request.tool_choice)) != "auto":
            body["tool_choice"] = choice
    options = plain(request.chat_template_kwargs) or {}
    if request.enable_thinking is not None:
        options.setdefault("enable_thinking", request.enable_thinking)
    if options:
        body["chat_template_kwargs"] = options
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    return body


def prompt_ids(codec: Codec, request: Any) -> list[int]:  # noqa: ANN401
    """Encode a request's prompt. Raises `ChatCodecError`."""
    body = body_of(request)
    if has_media(body["messages"]):
        raise ChatCodecError("`messages` has a part that is no text, expected texts")
    ids: list[int] = openai_chat.read_request(body, codec, constrained=True).encode().ids.tolist()
    return ids


def response_parser() -> Any:  # noqa: ANN401
    """Make the class that reads completions."""
    base: Any = importlib.import_module(f"{_PARSERS}.response_parser").ResponseParser
    normalized = importlib.import_module(f"{_PARSERS}.response_parser").normalize_chat_request
    protocol = importlib.import_module("lmdeploy.serve.openai.protocol")

    class Parser(base):  # type: ignore[misc]
        supports_required_tool_choice = True
        tokenizer: Any = None
        tool_parser_cls: Any = True
        reasoning_parser_cls: Any = True

        @classmethod
        def set_parsers(cls, *_given: Any, tokenizer: Any = None, **_named: Any) -> None:  # noqa: ANN401
            cls.tokenizer = tokenizer

        def __init__(self, request: Any) -> None:  # noqa: ANN401
            super().__init__(request)
            self.tool_parser = self
            codec = codec_of(str(type(self).tokenizer.name_or_path))
            prompt = _PROMPTS.of(request)
            self._reading = Reading(
                codec,
                prompt,
                tools=request.tools,
                tool_choice=request.tool_choice,
                parallel=getattr(request, "parallel_tool_calls", None) is not False,
                stop=None if request.include_stop_str_in_output else request.stop,
            )
            self.request = normalized(request)
            tag = demanded(codec, prompt, request)
            if tag is not None:
                self.request = self.request.model_copy(update={"response_format": tag})

        def stream_chunk(
            self,
            delta_text: str,  # noqa: ARG002 (the ids say it)
            delta_token_ids: list[int],
            **named: Any,  # noqa: ANN401
        ) -> list[tuple[Any, bool]]:
            end = "stop" if named.get("final") else None
            delta = self._reading.push(delta_token_ids, end=end)
            if not delta["tool_calls"] and len(delta) == 1:
                return []
            calls = [
                protocol.DeltaToolCall(
                    id=part.get("id"),
                    index=part["index"],
                    function=protocol.DeltaFunctionCall(**part["function"]),
                )
                for part in delta["tool_calls"]
            ]
            message = protocol.DeltaMessage(
                role="assistant",
                content=delta.get("content"),
                reasoning_content=delta.get("reasoning"),
                tool_calls=calls or None,
            )
            return [(message, bool(calls))]

        def parse_complete(
            self,
            text: str,  # noqa: ARG002 (the ids say it)
            token_ids: list[int] | None = None,
            **_named: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            delta = self._reading.push(token_ids or [], end="stop")
            calls = [
                protocol.ToolCall(id=call.pop("id"), function=protocol.FunctionCall(**call))
                for call in calls_of(delta)
            ]
            return delta.get("content"), calls or None, delta.get("reasoning")

    return Parser


def demanded(codec: Codec, prompt: Sequence[int], request: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """Return the structural tag of what a request demands; None where LMDeploy's grammar is right.

    Raises `MessageError` for what the format cannot promise.
    """
    asked = plain(request.response_format)
    kind = (asked or {}).get("type")
    if kind not in (None, "text", "json_object", "json_schema") and demands.may_reason(
        codec, prompt
    ):
        raise MessageError(
            f"`response_format` is `{kind}`, which begins with the first id of the answer, where "
            "the model may reason; expected JSON, or a prompt without reasoning",
            "response_format",
        )
    constraint = demands.constraint_of(
        codec,
        prompt,
        tools=plain(request.tools) or (),
        tool_choice=plain(request.tool_choice),
        parallel=getattr(request, "parallel_tool_calls", None) is not False,
        response_format=asked if kind in {"json_object", "json_schema"} else None,
    )
    return None if constraint is None else dict(json.loads(constraint.structural_tag()))


def main() -> None:
    """Run LMDeploy's command line with the plug-in."""
    register()
    importlib.import_module("lmdeploy.cli").run()


if __name__ == "__main__":
    main()
