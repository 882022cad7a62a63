"""The options of `Codec` as types, for functions that pass them on.

A gateway that passes options on declares them with these types:

>>> from typing import Unpack
>>> from chatcodec import Codec
>>> from chatcodec.options import EncodeOptions
>>> def prompt(text: str, **options: Unpack[EncodeOptions]) -> list[int]:
...     codec = Codec("internlm2", vocab="embedded")
...     return codec.encode([{"role": "user", "content": text}], **options).ids.tolist()
>>> len(prompt("Hi", add_generation_prompt=False))
7
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, SupportsIndex, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatcodec import ToolTypes

__all__ = [
    "IGNORE_INDEX",
    "PROMPT_OPTIONS",
    "BareCalls",
    "Boundary",
    "CallsInReasoning",
    "DummyPrefix",
    "EncodeOptions",
    "FormatOptions",
    "Guarantee",
    "History",
    "Markers",
    "Markup",
    "OnArguments",
    "OnError",
    "OnLong",
    "OnMarker",
    "OnReasoning",
    "OnUnknown",
    "OnUnsupported",
    "ReadBy",
    "StreamOptions",
    "TableColumn",
    "VocabKind",
    "WriteOptions",
]

OnMarker: TypeAlias = Literal["report", "error", "break"]
"""Policy for text that spells a marker, in formats whose markers are text."""

Boundary: TypeAlias = Literal["reference", "isolated"]
"""Where text is split before encoding: as in the reference, or around a model's own text too."""

History: TypeAlias = Literal["template", "append"]
"""How answers are written that other messages follow: as the template does, or as they were."""

OnArguments: TypeAlias = Literal["error", "string"]
"""Policy for arguments that are not JSON."""

OnUnknown: TypeAlias = Literal["error", "ignore"]
"""Policy for keys that no client sends."""

OnUnsupported: TypeAlias = Literal["error", "drop"]
"""Policy for parts of a conversation that a format cannot write."""

Markup: TypeAlias = Literal["text", "parse", "error"]
"""Policy for reasoning and calls that are spelled in an assistant's content."""

OnReasoning: TypeAlias = Literal["keep", "template"]
"""Policy of `extend` for reasoning that a template drops."""

OnLong: TypeAlias = Literal["error", "drop", "oldest", "cut"]
"""Policy of `encode_table` for a conversation with more than `max_length` ids."""

OnError: TypeAlias = Literal["raise", "return"]
"""Policy of `encode_batch` for a conversation that cannot be encoded."""

TableColumn: TypeAlias = Literal[
    "input_ids",
    "labels",
    "trained",
    "attention_mask",
    "position_ids",
    "message_indices",
    "length",
    "original_length",
    "roles",
    "neutralized",
    "dropped",
    "error",
]
"""A column that `encode_table` adds to a table."""

IGNORE_INDEX = -100
"""The label of an id that is not trained on, where no other is asked for."""

Markers: TypeAlias = Literal["ids", "ids_or_text", "text"]
"""Which input counts as a control token: ids, or text that spells it."""

CallsInReasoning: TypeAlias = Literal["text", "call"]
"""How a stream reads a call within reasoning: as text or as a call."""

BareCalls: TypeAlias = Literal["text", "line", "anywhere"]
"""Where in an answer an unmarked call may begin."""

Guarantee: TypeAlias = Literal["ids", "text"]
"""What delimits turns: ids, or markers that are text."""

ReadBy: TypeAlias = Literal[
    "format", "part for answers", "derived format", "response template", "text"
]
"""What reads the ids of an answer; `Codec.read_by` tells each."""

DummyPrefix: TypeAlias = Literal["every run", "first run", "never"]
"""Where a vocabulary puts a space before text."""

VocabKind: TypeAlias = Literal[
    "sentencepiece", "tokenizer.json", "tiktoken", "vocab.json", "tekken", "gguf"
]
"""Kind of the file that a vocabulary was read from."""

PROMPT_OPTIONS: Final = ("tools", "date", "effort")
"""Options that are written at the beginning of a prompt: an extension of the prompt has them."""


class FormatOptions(TypedDict, total=False):
    """The options that a format may declare; `Format.options` lists them."""

    thinking: bool | None
    """Whether the model should reason."""
    date: str | None
    """The day, `2026-01-31`."""
    effort: str | None
    """How much the model should reason: one of the format's words."""


class WriteOptions(FormatOptions, total=False):
    """The options of every method that writes conversations; `Codec.encode` tells more of each.

    Where an option has words, the first is the default.
    """

    add_generation_prompt: bool | None
    """Whether the ids end with the generation prompt; None: unless the assistant is the last."""
    continue_final: bool
    """Whether the last message stays open, for the model to continue."""
    stop_final: bool
    """Whether the id that stops the model ends an assistant's last message."""
    on_marker: OnMarker
    boundary: Boundary
    on_arguments: OnArguments
    unknown: OnUnknown
    """Policy for unknown keys; `"ignore"` by default for batches and tables."""
    on_unsupported: OnUnsupported
    markup: Markup | None
    """Policy for markup; None is `"text"`, and `"error"` for a table with labels."""
    threads: int | None
    """Number of threads that share long texts and batches; None for all cores."""
    media_tokens: (
        Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None
    )
    """A function that counts the ids of a part without `tokens`; takes the part and its path."""


class EncodeOptions(WriteOptions, total=False):
    """The options of `Codec.encode`, and of the methods that take the same."""

    tools: Sequence[Mapping[str, Any]] | str | None
    """The tools of the conversation: a list of function dicts, or text."""


class StreamOptions(TypedDict, total=False):
    """The options of `Codec.stream` after the prompt."""

    keep: bool
    markers: Markers
    tools: Sequence[Mapping[str, Any]] | str | ToolTypes | None
    calls_in_reasoning: CallsInReasoning | None
    bare_calls: BareCalls | None
