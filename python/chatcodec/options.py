"""The options of `Codec` as types: words of closed sets, and keywords to hand on.

A gateway that hands options on declares them with these types:

>>> from typing import Unpack
>>> from chatcodec import Codec
>>> from chatcodec.options import EncodeOptions
>>> def prompt(text: str, **options: Unpack[EncodeOptions]) -> list[int]:
...     codec = Codec("internlm2")
...     return codec.encode([{"role": "user", "content": text}], **options).ids.tolist()
>>> len(prompt("Hi", add_generation_prompt=False))
7
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatcodec import ToolTypes

__all__ = [
    "BareCalls",
    "Boundary",
    "CallsInReasoning",
    "DummyPrefix",
    "EncodeOptions",
    "FormatOptions",
    "Guarantee",
    "Markers",
    "OnArguments",
    "OnError",
    "OnMarker",
    "OnReasoning",
    "OnUnknown",
    "OnUnsupported",
    "StreamOptions",
    "TableColumn",
    "VocabKind",
]

OnMarker: TypeAlias = Literal["report", "error", "break"]
"""What is done about text that spells a marker, where markers are text."""

Boundary: TypeAlias = Literal["reference", "isolated"]
"""Where text is cut for encoding: as the reference does, or so that a model's own text is alone."""

OnArguments: TypeAlias = Literal["error", "string"]
"""What is done about arguments that are no JSON."""

OnUnknown: TypeAlias = Literal["error", "ignore"]
"""What is done about keys that no client sends."""

OnUnsupported: TypeAlias = Literal["error", "drop"]
"""What is done about what a format has no place for."""

OnReasoning: TypeAlias = Literal["keep", "template"]
"""What `extend` does about reasoning that a template drops."""

OnError: TypeAlias = Literal["raise", "return"]
"""What `encode_batch` does about a conversation that cannot be encoded."""

TableColumn: TypeAlias = Literal[
    "input_ids",
    "labels",
    "attention_mask",
    "position_ids",
    "message_indices",
    "length",
    "error",
]
"""A column that `encode_table` adds to a table."""

Markers: TypeAlias = Literal["ids", "ids_or_text", "text"]
"""What counts as a control token in what a model generated."""

CallsInReasoning: TypeAlias = Literal["text", "call"]
"""What a call is that a model writes within its reasoning."""

BareCalls: TypeAlias = Literal["text", "line", "anywhere"]
"""Where in an answer a call may begin that nothing marks as one."""

Guarantee: TypeAlias = Literal["ids", "text"]
"""What turns are told apart by: ids, or markers that are text."""

DummyPrefix: TypeAlias = Literal["every run", "first run", "never"]
"""Where a vocabulary puts a space before text."""

VocabKind: TypeAlias = Literal[
    "sentencepiece", "tokenizer.json", "tiktoken", "vocab.json", "tekken", "gguf"
]
"""What kind of file a vocabulary was read from."""


class FormatOptions(TypedDict, total=False):
    """The options that a format may declare: `Format.options` says which."""

    thinking: bool | None
    """Whether the model is to reason."""
    date: str | None
    """The day, `2026-01-31`."""
    effort: str | None
    """How much the model is to reason, a word of the format's."""


class EncodeOptions(FormatOptions, total=False):
    """The options of `Codec.encode`."""

    tools: Sequence[Mapping[str, Any]] | str | None
    add_generation_prompt: bool | None
    continue_final: bool
    stop_final: bool
    on_marker: OnMarker
    boundary: Boundary
    on_arguments: OnArguments
    unknown: OnUnknown
    on_unsupported: OnUnsupported
    threads: int | None


class StreamOptions(TypedDict, total=False):
    """The options of `Codec.stream` after the prompt."""

    keep: bool
    markers: Markers
    tools: Sequence[Mapping[str, Any]] | str | ToolTypes | None
    calls_in_reasoning: CallsInReasoning | None
    bare_calls: BareCalls | None
