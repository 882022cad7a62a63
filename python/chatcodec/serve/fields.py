"""The fields of requests: one table with the type, the bounds and the use of each.

A field is read here, is for the engine, is a hint without a meaning here, or asks for what is not
done. `chatcodec.serve.sorting` checks a body against the table. Types and bounds are those of the
servers of OpenAI and vLLM. Ids are checked in `chatcodec.serve.ids`, messages and tools by their
adapter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FIELDS", "Field", "Kind"]

Kind: TypeAlias = Literal["number", "integer", "flag", "text", "list", "object", "any"]
Use: TypeAlias = Literal["read", "engine", "hint", "left out", "not done"]

_INT64 = 2**63


@dataclass(frozen=True)
class Field:
    """One field of a request."""

    kind: Kind = "any"
    use: Use = "read"
    least: float | None = None
    """Least value of a number, or length of a text."""
    most: float | None = None
    """Greatest value, or length."""
    above: float | None = None
    """Value that a number has to exceed."""
    idle: tuple[object, ...] = ()
    """Values that ask for nothing."""
    needs: tuple[str, ...] = ()
    """Fields of which one has to be present, and not false, beside a value that is not idle."""
    guarded: bool = False
    """Whether the operator has to name the field in `--allow-field`."""
    instead: str = ""
    """What to do instead of a field that is not done."""
    code: str | None = None
    """The code of the error, by which a client's library goes on without the field."""


def _not_done(*idle: object, kind: Kind = "any", instead: str = "") -> Field:
    return Field(kind, "not done", idle=idle, instead=instead)


def _no_flag(instead: str = "") -> Field:
    return Field("flag", "not done", idle=(False,), instead=instead)


READ, HINT, ENGINE = Field(), Field(use="hint"), Field(use="engine")
_FLAG = Field("flag")
_LEFT_OUT = Field("flag", "left out", idle=(False,))
"""A wish that changes no answer, and that routers add: it is left out, and told."""
_SPLIT = Field("flag", "not done", idle=(True,))
_LIMIT = Field("integer", least=1)

SAMPLING: dict[str, Field] = {
    "temperature": Field("number", "engine", 0, 2),
    "top_p": Field("number", "engine", above=0, most=1),
    "top_k": Field("integer", "engine", -1, _INT64 - 1),
    "min_p": Field("number", "engine", 0, 1),
    "presence_penalty": Field("number", "engine", -2, 2),
    "frequency_penalty": Field("number", "engine", -2, 2),
    "repetition_penalty": Field("number", "engine", above=0),
    "seed": Field("integer", "engine", -_INT64, _INT64 - 1),
    "min_tokens": Field("integer", "engine", 0, _INT64 - 1),
    "ignore_eos": Field("flag", "engine", idle=(False,), guarded=True),
    "logit_bias": Field("object", "engine"),
}
"""Fields by which an engine samples."""

ENGINES: dict[str, Field] = {
    "allowed_token_ids": Field("list", "engine"),
    "bad_words": Field("list", "engine", idle=([],)),
    "cache_salt": Field("text", "engine", 1, 1024),
    "custom_params": ENGINE,
    "custom_logit_processor": Field("text", "engine", guarded=True),
    "data_parallel_rank": Field("integer", "engine", 0, guarded=True),
    "extra_key": ENGINE,
    "kv_transfer_params": Field("object", "engine", guarded=True),
    "ec_transfer_params": Field("object", "engine", guarded=True),
    "logprob_token_ids": Field("list", "engine"),
    "lora": ENGINE,
    "lora_path": Field("text", "engine"),
    "lora_request": Field("object", "engine", guarded=True),
    "priority": Field("integer", "engine", -_INT64, _INT64 - 1, idle=(0,)),
    "repetition_detection": Field("object", "engine"),
    "request_id": Field("text", "engine", 1, 256),
    "rid": Field("text", "engine", 1, 256),
    "session_id": Field("text", "engine", 1, 256),
    "session_params": Field("object", "engine"),
    "thinking_token_budget": Field("integer", "engine", -1, _INT64 - 1),
    "truncate_prompt_tokens": Field("integer", "engine", -1, _INT64 - 1),
    "truncation_side": Field("text", "engine"),
    "typical_p": Field("number", "engine", above=0, most=1),
    "vllm_xargs": Field("object", "engine", guarded=True),
    "watermarking": Field("flag", "engine"),
}
"""Fields that some engines know; each backend says which."""

GRAMMARS: dict[str, Field] = {
    "structured_outputs": Field("object"),
    "guided_json": READ,
    "guided_regex": Field("text"),
    "guided_choice": Field("list"),
    "guided_grammar": Field("text"),
    "guided_decoding_backend": HINT,
    "guided_whitespace_pattern": HINT,
    "regex": Field("text"),
    "ebnf": Field("text"),
    "json_schema": READ,
    "structural_tag": READ,
}
"""Grammars by the names of engines, for `chatcodec.serve.grammars`."""

COMMON: dict[str, Field] = {
    **SAMPLING,
    **ENGINES,
    **GRAMMARS,
    "model": READ,
    "stream": _FLAG,
    "return_token_ids": _FLAG,
    "stop_token_ids": Field("list"),
    "include_stop_str_in_output": _FLAG,
    "metadata": HINT,
    "user": HINT,
    "safety_identifier": HINT,
    "service_tier": HINT,
    "prompt_cache_key": HINT,
    "prompt_cache_options": HINT,
    "prompt_cache_retention": HINT,
    "moderation": HINT,
    "skip_special_tokens": HINT,
    "spaces_between_special_tokens": HINT,
    "add_special_tokens": HINT,
    "stream_interval": HINT,
    "stream_reasoning": _SPLIT,
    "separate_reasoning": _SPLIT,
    "no_stop_trim": _no_flag("ask for `include_stop_str_in_output`"),
    "return_hidden_states": _no_flag(),
    "return_routed_experts": _no_flag(),
    "return_tokens_as_token_ids": _no_flag("ask for `return_token_ids`"),
    "prompt_logprobs": _not_done(instead="engines tell none of an answer that is streamed"),
    "use_beam_search": _no_flag(),
    "length_penalty": _not_done(1, 1.0),
    "early_stopping": _no_flag(),
    "best_of": _not_done(1, kind="integer", instead="ask for `n` choices"),
    "prompt_embeds": _not_done(instead="send text or ids"),
    "mm_processor_kwargs": _not_done({}),
    "media_io_kwargs": _not_done({}),
}
"""Fields of every API."""

_PROMPT = {
    "add_generation_prompt": READ,
    "chat_template_kwargs": READ,
    "continue_final_message": READ,
    "tools": READ,
}
"""Fields of the APIs with messages that their adapters read."""

CHAT: dict[str, Field] = {
    **COMMON,
    **_PROMPT,
    "messages": READ,
    "functions": READ,
    "tool_choice": Field(idle=("none",), needs=("tools", "functions")),
    "function_call": Field(idle=("none",), needs=("tools", "functions")),
    "parallel_tool_calls": READ,
    "reasoning_effort": READ,
    "enable_thinking": READ,
    "thinking": READ,
    "reasoning": READ,
    "include_reasoning": READ,
    "stop": READ,
    "logprobs": READ,
    "top_logprobs": Field("integer", least=0, most=20, idle=(0,), needs=("logprobs",)),
    "max_tokens": _LIMIT,
    "max_completion_tokens": _LIMIT,
    "n": Field("integer", least=1),
    "stream_options": Field("object", needs=("stream",)),
    "response_format": Field("object"),
    "modalities": READ,
    "documents": READ,
    "chat_template": READ,
    "input_ids": READ,
    "web_search_options": READ,
    "audio": READ,
    "echo": _no_flag(),
    "chat_template_content_format": HINT,
    "prediction": HINT,
    "verbosity": HINT,
    "store": _LEFT_OUT,
}

RESPONSES: dict[str, Field] = {
    **COMMON,
    **_PROMPT,
    "input": READ,
    "instructions": READ,
    "tool_choice": READ,
    "parallel_tool_calls": READ,
    "reasoning": READ,
    "include": READ,
    "text": Field("object"),
    "max_output_tokens": _LIMIT,
    "top_logprobs": Field("integer", least=0, most=20),
    "previous_response_id": READ,
    "conversation": READ,
    "prompt": READ,
    "stream_options": Field("object", needs=("stream",)),
    "background": _no_flag("wait for the answer, or stream it"),
    "store": _LEFT_OUT,
    "max_tool_calls": HINT,
    "truncation": HINT,
    "client_metadata": HINT,
}

MESSAGES: dict[str, Field] = {
    **COMMON,
    **_PROMPT,
    "messages": READ,
    "system": READ,
    "tool_choice": Field(idle=({"type": "none"},), needs=("tools",)),
    "thinking": READ,
    "output_config": READ,
    "output_format": READ,
    "stop_sequences": READ,
    "max_tokens": _LIMIT,
    "mcp_servers": READ,
    "container": READ,
    "context_management": READ,
    "cache_control": HINT,
    "inference_geo": HINT,
    "speed": HINT,
    "billing_policy": HINT,
    "diagnostics": HINT,
    "fallback_credit_token": HINT,
    "compaction": _not_done({}, instead="send the messages that the model is to see"),
    "fallbacks": _not_done([], instead="ask again"),
    "thread": Field(use="not done", instead="send all messages", code="thread_unsupported_request"),
    "user_profile_id": HINT,
}

COMPLETIONS: dict[str, Field] = {
    **COMMON,
    "prompt": READ,
    "stop": READ,
    "logprobs": Field("integer", least=0, most=20),
    "max_tokens": _LIMIT,
    "n": Field("integer", least=1),
    "stream_options": Field("object", needs=("stream",)),
    "skip_special_tokens": _FLAG,
    "echo": _no_flag(),
    "suffix": _not_done("", kind="text", instead="put the text that follows into the prompt"),
    "response_format": Field("object"),
}

FIELDS: dict[str, Mapping[str, Field]] = {
    "completions": COMPLETIONS,
    "chat": CHAT,
    "responses": RESPONSES,
    "messages": MESSAGES,
}
"""The fields of each API, by its name."""
