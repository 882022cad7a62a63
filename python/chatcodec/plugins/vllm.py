"""A plug-in of vLLM: prompts and completions by ids.

    vllm serve MODEL --tokenizer-mode chatcodec \
        --enable-auto-tool-choice --tool-call-parser chatcodec --reasoning-parser chatcodec

`register` is the entry point `vllm.general_plugins`. The classes that vLLM asks for are made when
it asks: this module imports nothing of vLLM before that. It was written for vLLM 0.33.

Settings of the environment: `CHATCODEC_FORMAT` names a built-in format or a format file; by default
the model's folder decides. `CHATCODEC_ON_PARTS` is `error`, which refuses requests with images or
audio, or `engine`, which leaves them to the engine's own renderer, without the guarantee.
"""

from __future__ import annotations

import functools
import importlib
import json
import logging
import os
from typing import TYPE_CHECKING, Any

from chatcodec.adapters import openai_chat
from chatcodec.errors import ChatCodecError, MessageError, PluginError
from chatcodec.plugins import contract, demands
from chatcodec.plugins.needs_vllm import CONTRACT
from chatcodec.plugins.prompts import lost
from chatcodec.plugins.reading import NAME, Reading, calls_of, codec_of, has_media, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec, Constraint

__all__ = ["NAME", "codec_of", "register"]

_LOG = logging.getLogger(__name__)
_RUST = (
    "chatcodec's plug-in: `VLLM_USE_RUST_FRONTEND` is set, and vLLM's Rust frontend makes prompts "
    "and reads answers without the plug-in. Unset it; or leave the plug-in out of `VLLM_PLUGINS` "
    "and use the gateway before the server (docs/gateway.md)"
)
_BY_IDS = "guidance"
"""The backend of vLLM whose grammars tell control ids from text that spells them."""
_BACKEND = "auto"
"""The server's backend of grammars."""
_CLASSES = ("Renderer", "Parser", "StubToolParser", "StubReasoningParser")


def register() -> None:
    """Register the tokenizer mode and the parsers; calling it again changes nothing.

    Raises `PluginError` for a version of vLLM that lacks what the plug-in needs, and beside vLLM's
    Rust frontend, which asks no plug-in. vLLM then does not start.
    """
    contract.require(CONTRACT)
    if importlib.import_module("vllm.envs").VLLM_USE_RUST_FRONTEND:
        raise PluginError(_RUST, engine="vLLM", found=("VLLM_USE_RUST_FRONTEND",))
    tokenizers = importlib.import_module("vllm.tokenizers.registry").TokenizerRegistry
    renderers = importlib.import_module("vllm.renderers.registry").RENDERER_REGISTRY
    tools = importlib.import_module("vllm.tool_parsers").ToolParserManager
    reasoning = importlib.import_module("vllm.reasoning").ReasoningParserManager
    parsers = importlib.import_module("vllm.parser.parser_manager").ParserManager
    compose = parsers._compose_parser  # noqa: SLF001 (there is no registry of parsers)
    if getattr(compose, "is_chatcodec", False):
        return
    tokenizers.register(NAME, "vllm.tokenizers.hf", "CachedHfTokenizer")
    renderers.register(NAME, __name__, "Renderer")
    tools.register_lazy_module(NAME, __name__, "StubToolParser")
    reasoning.register_lazy_module(NAME, __name__, "StubReasoningParser")

    @functools.wraps(compose)
    def composed(cls: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        names = [*given[:2], named.get("tool_parser_name"), named.get("reasoning_parser_name")]
        if NAME not in names:
            return compose.__func__(cls, *given, **named)
        return __getattr__("Parser")

    bound: Any = classmethod(composed)
    composed.is_chatcodec = True  # type: ignore[attr-defined]
    parsers._compose_parser = bound  # noqa: SLF001


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Make a class that vLLM asks for."""
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _classes()[name]


def body_of(messages: Sequence[Any], params: Any) -> dict[str, Any]:  # noqa: ANN401
    """Make the body of a request of the messages and parameters of a renderer."""
    given = dict(params.chat_template_kwargs)
    body: dict[str, Any] = {"model": NAME, "messages": [plain(message) for message in messages]}
    tools = given.pop("tools", None)
    if tools:
        body["tools"] = [plain(tool) for tool in tools]
    if (choice := plain(params.tool_choice)) not in (None, "auto") if tools else False:
        body["tool_choice"] = choice
    for own, name in (("add_generation_prompt",) * 2, ("continue_final_message",) * 2):
        if (value := given.pop(own, None)) is not None:
            body[name] = value
    if (effort := given.pop("reasoning_effort", None)) is not None:
        body["reasoning_effort"] = effort
    # What vLLM adds for its own rendering.
    for own in ("tokenize", "documents", "chat_template", "return_dict", "cohere_format"):
        given.pop(own, None)
    if given:
        body["chat_template_kwargs"] = given
    return body


def prompt_ids(codec: Codec, messages: Sequence[Any], params: Any) -> list[int]:  # noqa: ANN401
    """Encode a request's prompt. Raises `MessageError`."""
    request = openai_chat.read_request(body_of(messages, params), codec, constrained=True)
    return request.encode().ids.tolist()


def constraint_of(
    codec: Codec,
    prompt: Sequence[int] | None,
    request: Any,  # noqa: ANN401
) -> Constraint | None:
    """Return the constraint that a request demands; None where vLLM's own grammar is right.

    Raises `MessageError` for what the format cannot promise.
    """
    tools = [plain(tool) for tool in request.tools or ()]
    asked = request.extract_structured_outputs()
    wanted = None
    if asked is not None:
        if _is_json(asked):
            wanted = demands.json_of(_schema(asked))
        elif demands.may_reason(codec, prompt):
            raise MessageError(
                "`structured_outputs` begins with the first id of the answer, where the model may "
                "reason; expected JSON (`response_format`), or a prompt without reasoning "
                "(`chat_template_kwargs`)",
                "structured_outputs",
            )
    return demands.constraint_of(
        codec,
        prompt,
        tools=tools,
        tool_choice=plain(request.tool_choice),
        parallel=getattr(request, "parallel_tool_calls", None) is not False,
        response_format=wanted,
        by_ids=_BACKEND == _BY_IDS,
    )


def _is_json(asked: Any) -> bool:  # noqa: ANN401
    """Whether structured outputs are JSON as OpenAI's `response_format` asks for it."""
    own = ("whitespace_pattern", "disable_any_whitespace", "disable_additional_properties")
    if any(getattr(asked, option, None) for option in own):
        return False
    return bool(asked.json_object) or asked.json is not None


def _schema(asked: Any) -> Any:  # noqa: ANN401
    """Return the schema of structured outputs; None for any object."""
    return json.loads(asked.json) if isinstance(asked.json, str) else asked.json


def _is_chat(request: Any) -> bool:  # noqa: ANN401
    """Whether a request is of chat completions; else of Responses."""
    return hasattr(request, "response_format")


def _on_parts() -> str:
    """Return the setting for requests with parts that are no text."""
    given = os.environ.get("CHATCODEC_ON_PARTS", "error")
    if given not in {"engine", "error"}:
        raise PluginError(
            f"`CHATCODEC_ON_PARTS` is `{given}`; expected `error` or `engine`", "vLLM"
        )
    return given


def reading(codec: Codec, prompt: Sequence[int], request: Any) -> Reading:  # noqa: ANN401
    """Begin to read a completion of a request."""
    keeps_stop = getattr(request, "include_stop_str_in_output", False)
    return Reading(
        codec,
        prompt,
        tools=getattr(request, "tools", None),
        tool_choice=getattr(request, "tool_choice", None),
        parallel=getattr(request, "parallel_tool_calls", None) is not False,
        reasoning="apart" if getattr(request, "include_reasoning", True) else "hidden",
        stop=None if keeps_stop else getattr(request, "stop", None),
    )


@functools.cache
def _classes() -> dict[str, Any]:  # noqa: C901 (four classes)
    """Make the classes of vLLM's interfaces."""
    renderer_base: Any = importlib.import_module("vllm.renderers.hf").HfRenderer
    chat = importlib.import_module("vllm.renderers.chat_utils")
    prompts = importlib.import_module("vllm.renderers.inputs.preprocess")
    errors = importlib.import_module("vllm.exceptions")
    parser_base: Any = importlib.import_module("vllm.parser.abstract_parser").Parser
    protocol = importlib.import_module("vllm.entrypoints.generate.base.protocol")
    tools = importlib.import_module("vllm.tool_parsers.abstract_tool_parser")
    tool_base: Any = tools.ToolParser
    reasoning = importlib.import_module("vllm.reasoning.abs_reasoning_parsers")
    reasoning_base: Any = reasoning.ReasoningParser
    sampling = importlib.import_module("vllm.sampling_params")

    class Renderer(renderer_base):  # type: ignore[misc]
        """Messages to ids by the codec; other requests by the engine's own renderer."""

        def __init__(self, config: Any, tokenizer: Any) -> None:  # noqa: ANN401
            super().__init__(config, tokenizer)
            model = config.model_config
            self.codec = codec_of(str(model.tokenizer), model.tokenizer_revision)
            self.on_parts = _on_parts()
            global _BACKEND  # noqa: PLW0603 (no parser is given the server's settings)
            _BACKEND = config.structured_outputs_config.backend
            _LOG.info("chatcodec: %s", self.codec.describe().replace("\n", "; "))

        def _encoded(self, messages: Any, params: Any) -> Any:  # noqa: ANN401
            if has_media(messages):
                if self.on_parts == "engine":
                    _LOG.warning("chatcodec: vLLM renders a request with parts that are no text")
                    return None
                raise errors.VLLMValidationError(
                    "`messages` has a part that is no text; expected texts, unless the server's "
                    "operator allows others (`CHATCODEC_ON_PARTS`)",
                    parameter="messages",
                )
            try:
                ids = prompt_ids(self.codec, messages, params)
            except MessageError as error:
                raise errors.VLLMValidationError(str(error), parameter=error.path) from error
            except ChatCodecError as error:
                raise errors.VLLMValidationError(str(error)) from error
            return prompts.parse_dec_only_prompt(ids)

        def render_messages(self, messages: Any, params: Any) -> Any:  # noqa: ANN401
            prompt = self._encoded(messages, params)
            if prompt is None:
                return super().render_messages(messages, params)
            found = chat.parse_chat_messages(messages, self.model_config, content_format="string")
            return found[0], prompt

        async def render_messages_async(self, messages: Any, params: Any) -> Any:  # noqa: ANN401
            prompt = self._encoded(messages, params)
            if prompt is None:
                return await super().render_messages_async(messages, params)
            parse = chat.parse_chat_messages_async
            found = await parse(messages, self.model_config, content_format="string")
            return found[0], prompt

    class StubToolParser(tool_base):  # type: ignore[misc]
        """Named by `--tool-call-parser`; `Parser` reads calls."""

        supports_required_and_named = False

        def extract_tool_calls(self, model_output: str, request: Any) -> Any:  # noqa: ANN401
            raise NotImplementedError("completions are read by ids; expected `Parser` to be asked")

        def extract_tool_calls_streaming(self, *_given: Any, **_named: Any) -> Any:  # noqa: ANN401
            raise NotImplementedError("completions are read by ids; expected `Parser` to be asked")

    class StubReasoningParser(reasoning_base):  # type: ignore[misc]
        """Named by `--reasoning-parser`; grammars of the codec begin with the completion."""

        def is_reasoning_end(self, input_ids: Any) -> bool:  # noqa: ANN401, ARG002
            return True

        def extract_content_ids(self, input_ids: Any) -> Any:  # noqa: ANN401
            return input_ids

        def extract_reasoning(self, model_output: str, request: Any) -> Any:  # noqa: ANN401, ARG002
            return None, model_output

        def extract_reasoning_streaming(self, *_given: Any, **_named: Any) -> Any:  # noqa: ANN401
            return None

    class Parser(parser_base):  # type: ignore[misc]
        """A completion's ids to reasoning, content and calls."""

        tool_parser_cls = StubToolParser
        reasoning_parser_cls = StubReasoningParser
        always_adjust_request = True

        def __init__(self, tokenizer: Any, tools: Any = None, *given: Any, **named: Any) -> None:  # noqa: ANN401
            super().__init__(tokenizer, tools, *given, **named)
            self.codec = codec_of(str(tokenizer.name_or_path))
            self._prompt: list[int] | None = None
            self._reading: Reading | None = None

        def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
            self._prompt = list(prompt_token_ids)

        def is_reasoning_end(self, input_ids: Any) -> bool:  # noqa: ANN401, ARG002
            return True

        def adjust_request(self, request: Any) -> Any:  # noqa: ANN401
            request.skip_special_tokens = False
            try:
                constraint = constraint_of(self.codec, self._prompt, request)
            except MessageError as error:
                raise errors.VLLMValidationError(str(error), parameter=error.path) from error
            if constraint is not None:
                if _BACKEND == _BY_IDS:
                    asked = {"grammar": constraint.lark()}
                else:
                    asked = {"structural_tag": constraint.structural_tag()}
                request.structured_outputs = sampling.StructuredOutputsParams(**asked)
                # The constraint has the JSON that these ask for.
                setattr(request, "response_format" if _is_chat(request) else "text", None)
            return request

        def _begin(self, prompt: Sequence[int] | None, request: Any) -> Reading:  # noqa: ANN401
            if prompt is None:
                raise lost("vLLM")
            return reading(self.codec, prompt, request)

        def parse(
            self,
            model_output: str,  # noqa: ARG002 (the ids say it)
            request: Any,  # noqa: ANN401
            enable_auto_tools: bool = False,  # noqa: ARG002, FBT001, FBT002
            model_output_token_ids: Sequence[int] = (),
        ) -> Any:  # noqa: ANN401
            whole = self._begin(self._prompt, request)
            delta = whole.push(model_output_token_ids, end="stop")
            made = [protocol.FunctionCall(**call) for call in calls_of(delta)]
            return delta.get("reasoning"), delta.get("content"), made or None

        def parse_delta(
            self,
            delta_text: str,  # noqa: ARG002 (the ids say it)
            delta_token_ids: list[int],
            request: Any,  # noqa: ANN401
            prompt_token_ids: list[int] | None = None,
            *,
            finished: bool,
        ) -> Any:  # noqa: ANN401
            if self._reading is None:
                prompt = self._prompt if prompt_token_ids is None else prompt_token_ids
                self._reading = self._begin(prompt, request)
            delta = self._reading.push(delta_token_ids, end="stop" if finished else None)
            if not delta["tool_calls"] and len(delta) == 1:
                return None
            delta["tool_calls"] = [
                protocol.DeltaToolCall(
                    index=part["index"],
                    id=part.get("id"),
                    type=part.get("type"),
                    function=protocol.DeltaFunctionCall(**part["function"]),
                )
                for part in delta["tool_calls"]
            ]
            return protocol.DeltaMessage(**delta)

    made = (Renderer, Parser, StubToolParser, StubReasoningParser)
    return {made_class.__name__: made_class for made_class in made}
