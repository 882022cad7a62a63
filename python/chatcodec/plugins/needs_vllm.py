"""What the plug-in of vLLM needs of vLLM: a row for each name."""

from __future__ import annotations

from chatcodec.plugins.contract import Contract, Need

__all__ = ["CONTRACT"]

_TOOLS = "vllm.tool_parsers.abstract_tool_parser"
_REASONING = "vllm.reasoning.abs_reasoning_parsers"
_RENDERER = "vllm.renderers.hf"
_PARSER = "vllm.parser.abstract_parser"
_PROTOCOL = "vllm.entrypoints.generate.base.protocol"
_CHAT = "vllm.entrypoints.openai.chat_completion.protocol"
_RESPONSES = "vllm.entrypoints.openai.responses.protocol"
_SIX = (
    "previous_text",
    "current_text",
    "delta_text",
    "previous_token_ids",
    "current_token_ids",
    "delta_token_ids",
)


def _fields(module: str, name: str, use: str, fields: tuple[str, ...]) -> tuple[Need, ...]:
    return tuple(Need(module, f"{name}.{field}", use) for field in fields)


_REGISTRIES = (
    Need("vllm.envs", "VLLM_USE_RUST_FRONTEND", "whether the Rust frontend serves"),
    Need(
        "vllm.tokenizers.registry",
        "TokenizerRegistry.register",
        "adds the tokenizer mode",
        ("tokenizer_mode", "module", "class_name"),
    ),
    Need("vllm.tokenizers.hf", "CachedHfTokenizer", "the tokenizer of the mode"),
    Need(
        "vllm.renderers.registry",
        "RendererRegistry.register",
        "adds what renders prompts",
        ("renderer_mode", "module", "class_name"),
    ),
    Need("vllm.renderers.registry", "RENDERER_REGISTRY", "adds what renders prompts"),
    *(
        Need(
            module,
            f"{name}.register_lazy_module",
            "makes the parser's name known",
            ("name", "module_path", "class_name"),
        )
        for module, name in (
            ("vllm.tool_parsers", "ToolParserManager"),
            ("vllm.reasoning", "ReasoningParserManager"),
        )
    ),
    Need(
        "vllm.parser.parser_manager",
        "ParserManager._compose_parser",
        "gives the parser of completions",
        (
            "tool_parser_name",
            "reasoning_parser_name",
            "enable_auto_tools",
            "model_name",
            "is_harmony",
            "tool_strict_level",
            "tokenizer",
        ),
        returns="type[Parser] | None",
    ),
)

_PROMPTS = (
    Need(_RENDERER, "HfRenderer", "base of what renders prompts", ("config", "tokenizer")),
    Need(
        _RENDERER,
        "HfRenderer.render_messages",
        "asks for a prompt",
        ("messages", "params"),
        overridden=True,
        returns="tuple[list[ConversationMessage], DictPrompt]",
    ),
    Need(
        _RENDERER,
        "HfRenderer.render_messages_async",
        "asks for a prompt",
        ("messages", "params"),
        overridden=True,
        returns="tuple[list[ConversationMessage], DictPrompt]",
    ),
    *_fields(
        "vllm.renderers.params",
        "ChatParams",
        "options of a prompt",
        ("chat_template_kwargs", "tool_choice"),
    ),
    *_fields(
        "vllm.config.model", "ModelConfig", "names the model", ("tokenizer", "tokenizer_revision")
    ),
    Need("vllm.config.vllm", "VllmConfig.structured_outputs_config", "the backend of grammars"),
    Need(
        "vllm.config.structured_outputs",
        "StructuredOutputsConfig.backend",
        "the backend of grammars",
    ),
    *(
        Need(
            "vllm.renderers.chat_utils",
            name,
            "reads the conversation for vLLM",
            ("messages", "model_config", "content_format"),
        )
        for name in ("parse_chat_messages", "parse_chat_messages_async")
    ),
    Need(
        "vllm.renderers.inputs.preprocess",
        "parse_dec_only_prompt",
        "makes a prompt of ids",
        ("prompt",),
        returns="DecoderOnlyDictPrompt",
    ),
    Need(
        "vllm.exceptions",
        "VLLMValidationError",
        "refuses a request",
        ("message", "parameter"),
    ),
)

_COMPLETIONS = (
    Need(
        _PARSER,
        "Parser",
        "base of what reads completions",
        ("tokenizer", "tools", "model_config"),
    ),
    Need(
        _PARSER,
        "Parser.set_prompt_token_ids",
        "gives the prompt, which an answer begins after",
        ("prompt_token_ids",),
        overridden=True,
    ),
    Need(_PARSER, "Parser.always_adjust_request", "asks for control ids of every answer"),
    Need(_PARSER, "Parser.tool_parser_cls", "names the parser of calls"),
    Need(_PARSER, "Parser.reasoning_parser_cls", "names the parser of reasoning"),
    Need(
        _PARSER,
        "Parser.is_reasoning_end",
        "asks whether grammars begin",
        ("input_ids",),
        overridden=True,
    ),
    Need(
        _PARSER,
        "Parser.adjust_request",
        "lets the request be constrained",
        ("request",),
        overridden=True,
    ),
    Need(
        _PARSER,
        "Parser.parse",
        "asks for a whole answer",
        ("model_output", "request", "enable_auto_tools", "model_output_token_ids"),
        overridden=True,
        returns="tuple[str | None, str | None, list[FunctionCall] | None]",
    ),
    Need(
        _PARSER,
        "Parser.parse_delta",
        "asks for a part of an answer",
        ("delta_text", "delta_token_ids", "request", "prompt_token_ids", "finished"),
        overridden=True,
        returns="DeltaMessage | None",
    ),
    Need(_PROTOCOL, "FunctionCall", "a call", ("id", "name", "arguments")),
    Need(_PROTOCOL, "DeltaMessage", "a delta", ("content", "reasoning", "tool_calls")),
    Need(_PROTOCOL, "DeltaToolCall", "part of a call", ("index", "id", "type", "function")),
    Need(_PROTOCOL, "DeltaFunctionCall", "part of a call", ("name", "arguments")),
    Need(
        "vllm.sampling_params",
        "StructuredOutputsParams",
        "a constraint",
        ("structural_tag", "grammar"),
    ),
    *_fields(
        "vllm.sampling_params",
        "StructuredOutputsParams",
        "kinds of constraints",
        ("json", "json_object", "regex", "choice", "grammar"),
    ),
    Need(_CHAT, "ChatCompletionRequest.extract_structured_outputs", "the request's constraint", ()),
    Need(_RESPONSES, "ResponsesRequest.extract_structured_outputs", "the request's constraint", ()),
    *(
        need
        for module, name, own in (
            (_CHAT, "ChatCompletionRequest", "response_format"),
            (_RESPONSES, "ResponsesRequest", "text"),
        )
        for need in _fields(
            module,
            name,
            "what a request asks for",
            (
                "tools",
                "tool_choice",
                "parallel_tool_calls",
                "include_reasoning",
                "stop",
                "include_stop_str_in_output",
                "skip_special_tokens",
                "structured_outputs",
                own,
            ),
        )
    ),
)

_STUBS = (
    Need(_TOOLS, "ToolParser.supports_required_and_named", "what the name stands for"),
    Need(
        _TOOLS,
        "ToolParser.extract_tool_calls",
        "what the name stands for",
        ("model_output", "request"),
        overridden=True,
    ),
    Need(_TOOLS, "ToolParser.extract_tool_calls_streaming", "what the name stands for"),
    Need(
        _REASONING,
        "ReasoningParser.is_reasoning_end",
        "whether grammars begin",
        ("input_ids",),
        overridden=True,
    ),
    Need(
        _REASONING,
        "ReasoningParser.extract_content_ids",
        "what the name stands for",
        ("input_ids",),
        overridden=True,
    ),
    Need(
        _REASONING,
        "ReasoningParser.extract_reasoning",
        "what the name stands for",
        ("model_output", "request"),
        overridden=True,
    ),
    Need(
        _REASONING,
        "ReasoningParser.extract_reasoning_streaming",
        "what the name stands for",
        _SIX,
    ),
)

CONTRACT = Contract(
    engine="vLLM",
    package="vllm",
    tried="0.33.0",
    needs=(*_REGISTRIES, *_PROMPTS, *_COMPLETIONS, *_STUBS),
)
