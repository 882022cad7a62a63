"""The exceptions of chatcodec. All are `ValueError`s, most of them about a caller's input."""

from __future__ import annotations

__all__ = [
    "ChatCodecError",
    "FormatError",
    "InternalError",
    "MessageError",
    "TemplateError",
    "VocabError",
]


class ChatCodecError(ValueError):
    """The base of every error that chatcodec raises."""


class MessageError(ChatCodecError):
    """A conversation that a format cannot write, or that is not a conversation."""

    path: str
    """What is wrong, in the caller's arguments: `messages[2].name`."""

    def __init__(self, message: str, path: str = "") -> None:
        """Take the message and the path that it is about."""
        super().__init__(message)
        self.path = path


class FormatError(ChatCodecError):
    """A format file that breaks a rule of the format spec, or a format that does not exist."""

    file: str
    """The file, or the name of a built-in format."""
    key: str
    """The key in it, dotted; empty where the whole file is meant."""

    def __init__(self, message: str, file: str = "", key: str = "") -> None:
        """Take the message, the file and the key that it is about."""
        super().__init__(message)
        self.file = file
        self.key = key


class TemplateError(ChatCodecError):
    """A chat template that cannot be parsed or rendered, or uses what is not supported."""

    line: int
    """The line, from 1; 0 where the whole template is meant."""
    column: int
    """The column, in characters from 1."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        """Take the message, and the place in the template that it is about."""
        super().__init__(message)
        self.line = line
        self.column = column


class VocabError(ChatCodecError):
    """A vocabulary that cannot be read, is not implemented, or does not fit a format or an id."""

    file: str | None
    """The file, where one was read."""
    offset: int | None
    """The byte in the file, where it is known."""
    component: str
    """The part of the vocabulary: `pieces`, `normalizer_spec`, `control`, `id`."""

    def __init__(
        self,
        message: str,
        file: str | None = None,
        offset: int | None = None,
        component: str = "",
    ) -> None:
        """Take the message, and the place that it is about."""
        super().__init__(message)
        self.file = file
        self.offset = offset
        self.component = component


class InternalError(ChatCodecError):
    """A fault of chatcodec itself, which no input should bring about.

    What was asked for has not been done. The text says where the fault is: please report it, with
    what was given.
    """
