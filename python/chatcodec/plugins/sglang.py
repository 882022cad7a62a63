"""A plug-in of SGLang: prompts and completions by ids.

    python -m sglang.launch_server --model-path MODEL \
        --tool-call-parser chatcodec --reasoning-parser chatcodec

`register` is the entry point `sglang.srt.plugins`. It adds a chat encoding adapter, by which SGLang
asks for a prompt's ids and shows a completion's. It was written for SGLang 0.5.23.

The setting `CHATCODEC_FORMAT` of the environment names a built-in format or a format file; by
default the model's folder decides.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any, ClassVar

from chatcodec.adapters import openai_chat
from chatcodec.errors import MessageError, PluginError
from chatcodec.plugins import contract, demands
from chatcodec.plugins.needs_sglang import CONTRACT
from chatcodec.plugins.prompts import Prompts
from chatcodec.plugins.reading import NAME, Reading, calls_of, codec_of, has_media, plain
from chatcodec.plugins.sglang_output import ResponsesStream, end_of, items, step, tool_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatcodec import Codec

__all__ = ["NAME", "Adapter", "register"]

_LOG = logging.getLogger(__name__)
_SERVING = "sglang.srt.entrypoints.openai"
_RUST = (
    "chatcodec's plug-in: `SGLANG_RUST_SERVER` is set, and SGLang's Rust server makes prompts and "
    "reads answers without the plug-in, under its names too. Unset it; or leave the plug-in out of "
    "`SGLANG_PLUGINS` and use the gateway before the server (docs/gateway.md)"
)
_ASKED: list[dict[str, Any]] = [{"role": "user", "content": "?"}]
_ADVICE = "completions are read by ids; expected `--tool-call-parser chatcodec`"


def register() -> None:
    """Add the adapter, the parsers' names and two hooks; calling it again changes nothing.

    Raises `PluginError` for a version of SGLang that lacks what the plug-in needs, and beside
    SGLang's Rust server, which asks no plug-in. SGLang logs it, and then refuses
    `--tool-call-parser chatcodec` when it starts.
    """
    contract.require(CONTRACT)
    hooks = importlib.import_module("sglang.srt.plugins.hook_registry")
    around = hooks.HookType.AROUND
    add_hook = hooks.HookRegistry.register
    if importlib.import_module("sglang.srt.environ").envs.SGLANG_RUST_SERVER.get():
        # The names stay unknown to the command line; the hook refuses them elsewhere.
        add_hook("sglang.srt.server_args.ServerArgs.resolve_once", refused, around)
        raise PluginError(_RUST, engine="SGLang", found=("SGLANG_RUST_SERVER",))
    builders = importlib.import_module(f"{_SERVING}.chat_encoding_adapters")._BUILDERS  # noqa: SLF001 (there is no function to add one)
    calls = importlib.import_module("sglang.srt.function_call.function_call_parser")
    call_parsers = calls.FunctionCallParser.ToolCallParserEnum
    reasoning = importlib.import_module("sglang.srt.parser.reasoning_parser")
    reasoning_parsers = reasoning.ReasoningParser.DetectorMap
    if NAME in builders:
        return
    builders[NAME] = {"builtin": build}
    call_parsers[NAME] = call_detector()
    reasoning_parsers[NAME] = reasoning_detector()
    add_hook(f"{_SERVING}.chat_encoding.resolve_chat_encoding_spec", resolved, around)
    add_hook(f"{_SERVING}.chat_encoding.spec_renders_prompt_ids", renders_ids, around)


def resolved(original: Callable[..., Any], *given: Any, **named: Any) -> Any:  # noqa: ANN401
    """Name the adapter where a parser of the server is the plug-in's; else as SGLang does."""
    context = importlib.import_module("sglang.srt.runtime_context")
    reasoning = getattr(context.get_serving(), "reasoning_parser", None)
    if NAME in {named.get("tool_call_parser"), reasoning}:
        return NAME
    return original(*given, **named)


def refused(original: Callable[..., Any], settings: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
    """Refuse to start a Rust server under the plug-in's names. Raises `PluginError`."""
    if NAME in {settings.tool_call_parser, settings.reasoning_parser}:
        raise PluginError(_RUST, engine="SGLang", found=("SGLANG_RUST_SERVER",))
    return original(settings, *given, **named)


def renders_ids(original: Callable[..., bool], spec: str | None) -> bool:
    """Say that the adapter gives ids, and no text to tokenize."""
    return spec == NAME or original(spec)


def build(context: Any) -> Adapter:  # noqa: ANN401
    """Make the adapter of a server. Raises what loading the codec raises."""
    codec = codec_of(str(context.model_path), context.revision)
    _LOG.info("chatcodec: %s", codec.describe().replace("\n", "; "))
    return Adapter(codec)


def body_of(request: Any) -> dict[str, Any]:  # noqa: ANN401
    """Make the body of a chat request of what shapes its prompt."""
    sent = plain(request.model_dump(exclude_unset=True, by_alias=True))
    body: dict[str, Any] = {"model": NAME, "messages": sent["messages"]}
    tools = plain(request.tools)
    if tools:
        body["tools"] = tools
        if (choice := plain(request.tool_choice)) != "auto":
            body["tool_choice"] = choice
    for key in ("chat_template_kwargs", "reasoning_effort", "continue_final_message"):
        if sent.get(key):
            body[key] = sent[key]
    return body


def json_format(asked: dict[str, Any]) -> dict[str, Any]:
    """Return OpenAI's `response_format` of SGLang's, whose dump may call the schema `schema_`."""
    if asked["type"] == "json_object":
        return demands.json_of(None)
    declared = asked.get("json_schema") or {}
    return demands.json_of(declared.get("schema", declared.get("schema_")))


class Adapter:
    """`ChatEncodingAdapter` of SGLang and its output: a request to ids, and ids to an answer."""

    collects_openai_media: ClassVar[bool] = False
    strict_tool_call_arguments: ClassVar[bool] = False

    def __init__(self, codec: Codec) -> None:
        """Take the model's codec."""
        self.codec = codec
        self._prompts = Prompts("SGLang")

    @property
    def output(self) -> Adapter:
        """What reads completions: the adapter itself."""
        return self

    def encode_messages(self, *, request: Any, **_given: Any) -> list[int]:  # noqa: ANN401
        """Encode a request's prompt, and let its stop ids end the answer.

        Raises `ValueError`, which SGLang answers with the status 400.
        """
        body = body_of(request)
        if has_media(body["messages"]):
            raise ValueError("`messages` has a part that is no text, expected texts")
        read = openai_chat.read_request(body, self.codec, constrained=True)
        ids: list[int] = read.encode().ids.tolist()
        known = list(request.stop_token_ids or ())
        request.stop_token_ids = known + [id_ for id_ in self.codec.stop_ids if id_ not in known]
        self._prompts.keep(request, ids)
        self._constrain(request, ids)
        return ids

    def _constrain(self, request: Any, prompt: list[int]) -> None:  # noqa: ANN401
        """Let JSON that is asked for beside tools be an answer or calls. Raises `MessageError`."""
        asked = plain(request.response_format)
        kind = (asked or {}).get("type")
        choice = plain(request.tool_choice)
        if choice not in (None, "auto", "none"):
            return  # SGLang asks for the tag of calls, and refuses another constraint beside it.
        if kind in {"json_object", "json_schema"}:
            constraint = demands.constraint_of(
                self.codec,
                prompt,
                tools=plain(request.tools) or (),
                tool_choice=choice,
                parallel=request.parallel_tool_calls,
                response_format=json_format(asked),
            )
            if constraint is not None:
                tags = importlib.import_module("xgrammar")
                tag = tags.StructuralTag.model_validate_json(constraint.structural_tag())
                request.response_format = tag
            return
        is_own = kind == "structural_tag" or request.regex or request.ebnf
        if is_own and demands.may_reason(self.codec, prompt):
            raise MessageError(
                "`response_format` or `regex` or `ebnf` begins with the first id of the "
                "answer, where the model may reason; expected JSON (`response_format`), or a "
                "prompt without reasoning (`chat_template_kwargs`)",
                "response_format",
            )

    # Chat completions.

    def parse_chat_response(
        self,
        *,
        request: Any,  # noqa: ANN401
        output_ids: list[int],
        finish_reason: dict[str, Any],
    ) -> tuple[str | None, str, list[Any] | None, dict[str, Any]]:
        """Read a whole answer: reasoning, content, calls, and why it ended."""
        delta = self._chat(request).push(output_ids, end=end_of(finish_reason))
        calls = [tool_call(at, call) for at, call in enumerate(calls_of(delta))]
        if calls and finish_reason["type"] == "stop":
            finish_reason = {**finish_reason, "type": "tool_calls", "matched": None}
        return delta.get("reasoning"), delta.get("content", ""), calls or None, finish_reason

    def stream_chat_chunks(  # noqa: PLR0913
        self,
        *,
        content: dict[str, Any],
        index: int,
        request: Any,  # noqa: ANN401
        created: int,
        parser_dict: dict[int, Any],
        has_tool_calls: dict[int, bool],
        choice_logprobs: dict[str, Any] | None,
        finish_reason_type: str | None,
        usage: dict[str, Any] | None,
    ) -> list[str]:
        """Give the events of a step of a streamed answer."""
        del finish_reason_type
        if index not in parser_dict:
            parser_dict[index] = self._chat(request)
        about = content["meta_info"]
        delta = step(parser_dict[index], content, about["finish_reason"])
        if delta["tool_calls"]:
            has_tool_calls[index] = True
        adapters = importlib.import_module(f"{_SERVING}.chat_encoding_adapters")
        events: list[str] = adapters.token_output_sse_chunks(
            chunk_id=about["id"],
            created=created,
            model=request.model,
            index=index,
            usage=usage,
            logprobs=choice_logprobs,
            reasoning=delta.get("reasoning", ""),
            content=delta.get("content", ""),
            tool_calls=[
                tool_call(part["index"], {"id": part.get("id"), **part["function"]})
                for part in delta["tool_calls"]
            ],
        )
        return events

    def _chat(self, request: Any) -> Reading:  # noqa: ANN401
        given = request.input_ids
        return Reading(
            self.codec,
            self._prompts.of(request) if given is None else given,
            tools=request.tools,
            tool_choice=request.tool_choice,
            parallel=request.parallel_tool_calls,
            reasoning="apart" if request.separate_reasoning else "content",
            stop=None if request.no_stop_trim else request.stop,
        )

    # Responses. Their requests are other objects than the one whose prompt was encoded.

    def parse_responses_output(  # noqa: PLR0913
        self,
        *,
        request: Any,  # noqa: ANN401
        require_reasoning: bool,
        output_ids: list[int],
        finish_reason: dict[str, Any] | None,
        separate_reasoning: bool,
        parse_tool_calls: bool,
    ) -> tuple[str, str, list[Any]]:
        """Read a whole answer of `/v1/responses`: reasoning, content and calls."""
        reading = self._responses(request, require_reasoning, separate_reasoning, parse_tool_calls)
        delta = reading.push(output_ids, end=end_of(finish_reason or {"type": "stop"}))
        return delta.get("reasoning", ""), delta.get("content", ""), items(calls_of(delta))

    def new_responses_stream(
        self,
        *,
        request: Any,  # noqa: ANN401
        require_reasoning: bool,
        separate_reasoning: bool,
        parse_tool_calls: bool,
    ) -> ResponsesStream:
        """Begin to read a streamed answer of `/v1/responses`."""
        return ResponsesStream(
            self._responses(request, require_reasoning, separate_reasoning, parse_tool_calls)
        )

    def _responses(
        self,
        request: Any,  # noqa: ANN401
        thinking: bool,  # noqa: FBT001
        separate: bool,  # noqa: FBT001
        calls: bool,  # noqa: FBT001
    ) -> Reading:
        options: dict[str, Any] = {}
        if "thinking" in self.codec.format.options:
            options["thinking"] = thinking
        prompt = self.codec.encode(_ASKED, add_generation_prompt=True, **options)
        tools = [tool for tool in plain(request.tools) or () if tool.get("type") == "function"]
        named = [{"type": "function", "function": tool} for tool in tools]
        return Reading(
            self.codec,
            prompt.ids.tolist(),
            tools=named,
            tool_choice="auto" if calls else "none",
            reasoning="apart" if separate else "content",
            stop=request.stop,
        )


def _refuse(*_given: Any, **_named: Any) -> Any:  # noqa: ANN401
    raise ValueError(_ADVICE)


def call_detector() -> Any:  # noqa: ANN401
    """Make the class that `--tool-call-parser` names: what xgrammar enforces for calls."""
    detectors = importlib.import_module("sglang.srt.function_call.base_format_detector")
    base: Any = detectors.BaseFormatDetector

    class CallDetector(base):  # type: ignore[misc]
        has_tool_call = detect_and_parse = parse_streaming_increment = structure_info = _refuse

        def __init__(self, tokenizer: Any = None) -> None:  # noqa: ANN401
            super().__init__()
            self._tokenizer = tokenizer

        def get_structural_tag(
            self,
            tools: Any = None,  # noqa: ANN401
            tool_choice: Any = "auto",  # noqa: ANN401
            thinking_mode: bool = False,  # noqa: ARG002, FBT001, FBT002 (the model decides)
            parallel_tool_calls: bool = True,  # noqa: FBT001, FBT002
        ) -> Any:  # noqa: ANN401
            constraint = codec_of(str(self._tokenizer.name_or_path)).constrain(
                tools=[plain(tool) for tool in tools or ()],
                tool_choice=plain(tool_choice),
                parallel=parallel_tool_calls,
            )
            tags = importlib.import_module("xgrammar")
            return tags.StructuralTag.model_validate_json(constraint.structural_tag())

    return CallDetector


def reasoning_detector() -> Any:  # noqa: ANN401
    """Make the class that `--reasoning-parser` names.

    A constraint begins with the completion, its reasoning included, so no id ends what comes
    before it.
    """
    detectors = importlib.import_module("sglang.srt.parser.reasoning_parser")
    base: Any = detectors.BaseReasoningFormatDetector

    class ReasoningDetector(base):  # type: ignore[misc]
        detect_and_parse = parse_streaming_increment = _refuse

        def __init__(self, **_given: Any) -> None:  # noqa: ANN401
            super().__init__("", "", reasoning_default="always")

        def get_think_end_token_ids(self, tokenizer: Any) -> list[int]:  # noqa: ANN401, ARG002
            return []

    return ReasoningDetector
