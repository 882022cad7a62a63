"""The exceptions of chatcodec. All are `ValueError`s, most of them about a caller's input."""

from __future__ import annotations

__all__ = [
    "ChatCodecError",
    "DataError",
    "FormatError",
    "InternalError",
    "MessageError",
    "PluginError",
    "TemplateError",
    "VocabError",
]


class ChatCodecError(ValueError):
    """The base of every error that chatcodec raises."""


class MessageError(ChatCodecError):
    """A conversation that a format cannot write, or that is not a conversation."""

    path: str
    """Path of the invalid part in the caller's arguments: `messages[2].name`."""

    def __init__(self, message: str, path: str = "") -> None:
        """Store the message and the path of the invalid part."""
        super().__init__(message)
        self.path = path


class FormatError(ChatCodecError):
    """A format file that breaks a rule of the format spec, or a format that does not exist."""

    file: str
    """The file, or the name of a built-in format."""
    key: str
    """The dotted key in the file; empty for the whole file."""

    def __init__(self, message: str, file: str = "", key: str = "") -> None:
        """Store the message, the file and the invalid key."""
        super().__init__(message)
        self.file = file
        self.key = key


class TemplateError(ChatCodecError):
    """A chat template that cannot be parsed or rendered, or uses an unsupported feature."""

    line: int
    """The line, from 1; 0 for the whole template."""
    column: int
    """The column, in characters from 1."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        """Store the message and the place in the template."""
        super().__init__(message)
        self.line = line
        self.column = column


class DataError(ChatCodecError):
    """Files of conversations that cannot be prepared, or a folder that cannot be written to."""

    file: str
    """The file or folder."""

    def __init__(self, message: str, file: str = "") -> None:
        """Store the message and the file."""
        super().__init__(message)
        self.file = file


class PluginError(ChatCodecError):
    """An engine in which a plug-in cannot keep its promise, or a request that it lost track of."""

    engine: str
    """The engine's name; empty for a request."""
    found: tuple[str, ...]
    """What was found, a line for each problem."""

    def __init__(self, message: str, engine: str = "", found: tuple[str, ...] = ()) -> None:
        """Store the message, the engine and what was found."""
        super().__init__(message)
        self.engine = engine
        self.found = found


class VocabError(ChatCodecError):
    """A vocabulary that cannot be read, is not implemented, or does not fit a format or an id."""

    file: str | None
    """The file, if one was read."""
    offset: int | None
    """The byte offset in the file, if it is known."""
    component: str
    """The part of the vocabulary: `pieces`, `normalizer_spec`, `control`, `id`."""

    def __init__(
        self,
        message: str,
        file: str | None = None,
        offset: int | None = None,
        component: str = "",
    ) -> None:
        """Store the message and the place in the vocabulary."""
        super().__init__(message)
        self.file = file
        self.offset = offset
        self.component = component


class InternalError(ChatCodecError):
    """A bug in chatcodec, which no input should cause.

    What was asked for has not been done. The text says where the fault is: please report it, with
    what was given.
    """
