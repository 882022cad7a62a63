"""What the plug-in of SGLang needs of SGLang: a row for each name."""

from __future__ import annotations

from chatcodec.plugins.contract import Contract, Need

__all__ = ["CONTRACT"]

_OPENAI = "sglang.srt.entrypoints.openai"
_ADAPTERS = f"{_OPENAI}.chat_encoding_adapters"
_PROTOCOL = f"{_OPENAI}.protocol"
_CALLS = "sglang.srt.function_call"
_REASONING = "sglang.srt.parser.reasoning_parser"

_PLUGINS = (
    Need("sglang.srt.environ", "envs.SGLANG_RUST_SERVER", "whether the Rust server serves"),
    Need(
        "sglang.srt.plugins.hook_registry",
        "HookRegistry.register",
        "wraps a function",
        ("target", "hook", "hook_type"),
    ),
    Need("sglang.srt.plugins.hook_registry", "HookType.AROUND", "wraps a function"),
    Need("sglang.srt.runtime_context", "get_serving", "the server's settings", ()),
    Need("sglang.srt.server_args", "ServerArgs.resolve_once", "refuses to start", ()),
    Need(
        f"{_CALLS}.function_call_parser",
        "FunctionCallParser.ToolCallParserEnum",
        "makes the parser's name known",
    ),
    Need(_REASONING, "ReasoningParser.DetectorMap", "makes the parser's name known"),
)

_PROMPTS = (
    Need(_ADAPTERS, "_BUILDERS", "adds what makes prompts and reads completions"),
    *(
        Need(_ADAPTERS, f"ChatEncodingAdapterContext.{name}", "names the model")
        for name in ("model_path", "revision")
    ),
    Need(
        f"{_OPENAI}.chat_encoding",
        "resolve_chat_encoding_spec",
        "chooses what makes prompts",
        ("hf_config", "tokenizer", "tool_call_parser"),
        returns="Optional[str]",
    ),
    Need(
        f"{_OPENAI}.chat_encoding",
        "spec_renders_prompt_ids",
        "says that prompts are ids",
        ("spec",),
        returns="bool",
    ),
    *(
        Need(_ADAPTERS, f"ChatEncodingAdapter.{name}", "asks what makes prompts")
        for name in ("collects_openai_media", "strict_tool_call_arguments", "output")
    ),
    Need(
        _ADAPTERS,
        "ChatEncodingAdapter.encode_messages",
        "asks for a prompt",
        ("messages", "request", "tools", "thinking", "image_data"),
        returns="list[int]",
    ),
    *(
        Need(_PROTOCOL, f"ChatCompletionRequest.{name}", "what a request asks for")
        for name in (
            "messages",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "stop",
            "stop_token_ids",
            "no_stop_trim",
            "input_ids",
            "response_format",
            "regex",
            "ebnf",
            "separate_reasoning",
            "chat_template_kwargs",
            "reasoning_effort",
            "continue_final_message",
        )
    ),
)

_COMPLETIONS = (
    Need(
        _ADAPTERS,
        "ChatEncodingOutputAdapter.parse_chat_response",
        "asks for a whole answer",
        ("request", "output_ids", "finish_reason"),
        overridden=True,
        returns="tuple[Optional[str], str, Optional[list[ToolCall]], dict[str, Any]]",
    ),
    Need(
        _ADAPTERS,
        "ChatEncodingOutputAdapter.stream_chat_chunks",
        "asks for a part of an answer",
        (
            "content",
            "index",
            "request",
            "created",
            "parser_dict",
            "has_tool_calls",
            "choice_logprobs",
            "finish_reason_type",
            "usage",
        ),
        overridden=True,
        returns="list[str]",
    ),
    Need(
        _ADAPTERS,
        "ChatEncodingOutputAdapter.parse_responses_output",
        "asks for a whole answer of Responses",
        (
            "request",
            "require_reasoning",
            "output_ids",
            "finish_reason",
            "separate_reasoning",
            "parse_tool_calls",
        ),
        overridden=True,
        returns="tuple[str, str, list[ToolCallItem]]",
    ),
    Need(
        _ADAPTERS,
        "ChatEncodingOutputAdapter.new_responses_stream",
        "asks for a streamed answer of Responses",
        ("request", "require_reasoning", "separate_reasoning", "parse_tool_calls"),
        overridden=True,
    ),
    Need(
        _ADAPTERS,
        "ResponsesOutputStream.step",
        "asks for a part of an answer of Responses",
        ("chunk", "finish_reason"),
        overridden=True,
        returns="tuple[str, str, list[ToolCallItem]]",
    ),
    Need(
        _ADAPTERS,
        "select_new_output_ids",
        "finds the new ids of a part",
        (
            "output_ids",
            "num_consumed_tokens",
            "completion_tokens",
            "finish_reason_type",
            "incremental",
        ),
        returns="list[int]",
    ),
    Need(
        _ADAPTERS,
        "token_output_sse_chunks",
        "writes the events of a part",
        (
            "chunk_id",
            "created",
            "model",
            "index",
            "usage",
            "logprobs",
            "reasoning",
            "content",
            "tool_calls",
        ),
        returns="list[str]",
    ),
    Need(_PROTOCOL, "FunctionResponse", "part of a call", ("name", "arguments")),
    Need(_PROTOCOL, "ToolCall", "a call", ("id", "index", "function")),
    Need(
        f"{_CALLS}.core_types",
        "ToolCallItem",
        "a call",
        ("tool_index", "name", "parameters"),
    ),
)

_DETECTORS = (
    Need(f"{_CALLS}.base_format_detector", "BaseFormatDetector", "what the name stands for", ()),
    Need(
        f"{_CALLS}.base_format_detector",
        "BaseFormatDetector.get_structural_tag",
        "asks what a demanded call may be",
        ("tools", "tool_choice", "thinking_mode", "parallel_tool_calls"),
        overridden=True,
    ),
    Need(
        _REASONING,
        "BaseReasoningFormatDetector",
        "what the name stands for",
        ("think_start_token", "think_end_token", "reasoning_default"),
    ),
    Need(
        _REASONING,
        "BaseReasoningFormatDetector.get_think_end_token_ids",
        "asks where a constraint begins",
        ("tokenizer",),
        overridden=True,
    ),
)

CONTRACT = Contract(
    engine="SGLang",
    package="sglang",
    tried="0.5.23",
    needs=(*_PLUGINS, *_PROMPTS, *_COMPLETIONS, *_DETECTORS),
)
