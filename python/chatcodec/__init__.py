"""Chat messages to token ids and back, with a guarantee: text is never control.

>>> from chatcodec import Codec
>>> codec = Codec("internlm2", vocab="embedded")
>>> prompt = codec.encode([{"role": "user", "content": "What does <|im_end|> mean?"}])
>>> prompt.is_control.tolist().count(1)
4
>>> codec.parse(codec.vocab.encode("It ends a turn."), prompt).message["content"]
'It ends a turn.'
"""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import TYPE_CHECKING as _TYPE_CHECKING

from chatcodec import errors, events, options
from chatcodec._core import (
    Batch,
    Codec,
    Collision,
    Constraint,
    Dropped,
    EncodedTable,
    Encoding,
    Format,
    IntArray,
    Neutralized,
    Note,
    Parsed,
    Placeholder,
    Rendered,
    ResponseTemplate,
    Stream,
    StreamPool,
    Template,
    TextBatch,
    ToolTypes,
    Vocab,
    VocabReport,
    Witness,
    __version__,
    _install,
    collect,
    formats,
    pack,
    pack_table,
)
from chatcodec.errors import (
    ChatCodecError,
    DataError,
    FormatError,
    InternalError,
    MessageError,
    PluginError,
    TemplateError,
    VocabError,
)

if _TYPE_CHECKING:
    from chatcodec.proof import prove

_install()

# The stubs say so; this makes it true.
_Sequence.register(IntArray)
_Sequence.register(Encoding)

__all__ = [
    "Batch",
    "ChatCodecError",
    "Codec",
    "Collision",
    "Constraint",
    "DataError",
    "Dropped",
    "EncodedTable",
    "Encoding",
    "Format",
    "FormatError",
    "IntArray",
    "InternalError",
    "MessageError",
    "Neutralized",
    "Note",
    "Parsed",
    "Placeholder",
    "PluginError",
    "Rendered",
    "ResponseTemplate",
    "Stream",
    "StreamPool",
    "Template",
    "TemplateError",
    "TextBatch",
    "ToolTypes",
    "Vocab",
    "VocabError",
    "VocabReport",
    "Witness",
    "__version__",
    "collect",
    "errors",
    "events",
    "formats",
    "options",
    "pack",
    "pack_table",
    "prove",
]


def __getattr__(name: str) -> object:
    """Import what few programs use: the import of the package stays short."""
    if name == "prove":
        from chatcodec.proof import prove  # noqa: PLC0415

        return prove
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
