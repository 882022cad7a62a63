"""What the plug-in of LMDeploy needs of LMDeploy: a row for each name."""

from __future__ import annotations

from chatcodec.plugins.contract import Contract, Need

__all__ = ["CONTRACT"]

_PARSERS = "lmdeploy.serve.parsers"
_RESPONSE = f"{_PARSERS}.response_parser"
_RUNNER = "lmdeploy.serve.core.chat_runner"
_PROTOCOL = "lmdeploy.serve.openai.protocol"

_PLACES = (
    Need(_RESPONSE, "ResponseParserManager", "takes what reads completions"),
    Need(f"{_PARSERS}.tool_parser", "ToolParserManager", "makes the parser's name known"),
    Need(f"{_PARSERS}.reasoning_parser", "ReasoningParserManager", "makes the parser's name known"),
    Need("lmdeploy.cli", "run", "the command line", ()),
)

_PROMPTS = (
    Need(
        _RUNNER,
        "ChatRunner.prepare",
        "begins a request",
        ("server_context", "request", "options"),
        returns="ChatRunner",
    ),
    *(
        Need(_RUNNER, f"ChatRunnerOptions.{name}", "takes a prompt's ids")
        for name in ("input_ids", "do_preprocess", "gen_config_kwargs")
    ),
    Need("lmdeploy.serve.core.exceptions", "ErrorCode.INVALID_REQUEST", "refuses a request"),
    Need(
        "lmdeploy.serve.core.exceptions",
        "RequestError",
        "refuses a request",
        ("code", "message"),
    ),
    *(
        Need(_PROTOCOL, f"ChatCompletionRequest.{name}", "what a request asks for")
        for name in (
            "messages",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "response_format",
            "stop",
            "include_stop_str_in_output",
            "input_ids",
            "enable_thinking",
            "chat_template_kwargs",
            "reasoning_effort",
        )
    ),
)

_COMPLETIONS = (
    Need(_RESPONSE, "ResponseParser", "base of what reads completions", ("request",)),
    Need(_RESPONSE, "ResponseParser.supports_required_tool_choice", "allows demanded calls"),
    Need(
        _RESPONSE,
        "ResponseParser.set_parsers",
        "gives the tokenizer",
        ("reasoning_parser_name", "tool_parser_name", "tokenizer"),
    ),
    Need(
        _RESPONSE,
        "ResponseParser.stream_chunk",
        "asks for a part of an answer",
        ("delta_text", "delta_token_ids"),
        returns="list[tuple[DeltaMessage, bool]]",
    ),
    Need(
        _RESPONSE,
        "ResponseParser.parse_complete",
        "asks for a whole answer",
        ("text", "token_ids"),
        returns="tuple[str, list | None, str | None]",
    ),
    Need(
        _RESPONSE,
        "normalize_chat_request",
        "makes the request's copy",
        ("request",),
        returns="ChatCompletionRequest",
    ),
    Need(_PROTOCOL, "FunctionCall", "a call", ("name", "arguments")),
    Need(_PROTOCOL, "ToolCall", "a call", ("id", "function")),
    Need(_PROTOCOL, "DeltaFunctionCall", "part of a call", ("name", "arguments")),
    Need(_PROTOCOL, "DeltaToolCall", "part of a call", ("id", "index", "function")),
    Need(
        _PROTOCOL,
        "DeltaMessage",
        "a delta",
        ("role", "content", "reasoning_content", "tool_calls"),
    ),
)

CONTRACT = Contract(
    engine="LMDeploy",
    package="lmdeploy",
    tried="0.18.0",
    needs=(*_PLACES, *_PROMPTS, *_COMPLETIONS),
)
