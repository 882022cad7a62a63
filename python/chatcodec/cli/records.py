"""The content of a line: a conversation with options, or ids. The codec reads the messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatcodec.cli.lines import kind
from chatcodec.rows import from_sharegpt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatcodec import Codec, Encoding

__all__ = ["Conversation", "read_answer", "read_completion", "read_conversation", "read_ids"]

# Options of `Codec.encode` that are not strings, with their values in JSON.
_SWITCHES = {
    "add_generation_prompt": (True, False, None),
    "continue_final": (True, False),
    "stop_final": (True, False),
}

# Options of `Codec.encode` that any format takes.
OPTIONS = frozenset(
    {*_SWITCHES, "boundary", "on_marker", "on_arguments", "unknown", "on_unsupported", "markup"}
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, with the tools and the options of a line."""

    messages: Any
    row: Mapping[str, Any]
    """The messages, and all of the line that is no option."""
    options: dict[str, Any] = field(default_factory=dict)

    def encode(self, codec: Codec, tools: Any, options: dict[str, Any]) -> Encoding:  # noqa: ANN401 (JSON)
        """Encode the line; its own tools and options take precedence over those of the command."""
        batch = codec.encode_batch(
            [self.row], tools=tools, errors="return", **options | self.options
        )
        for error in batch.errors.values():
            raise error
        return batch[0]


def read_conversation(value: object, codec: Codec, schema: str = "messages") -> Conversation:
    """Read a list of messages, or an object with `messages`, `tools` and options of `encode`.

    Whatever else an object has is a column of its row, which the codec refuses or ignores.
    """
    if schema == "sharegpt":
        value = from_sharegpt(value if isinstance(value, dict) else {"conversations": value})
    if not isinstance(value, dict):
        return Conversation(value, {"messages": value})
    if "messages" not in value:
        instead = "; for rows of ShareGPT: --schema sharegpt" if "conversations" in value else ""
        raise ValueError(
            f"has no `messages`; expected a list of messages, or an object with them{instead}"
        )
    known = OPTIONS | frozenset(codec.format.options)
    options = {key: item for key, item in value.items() if key in known}
    for name, item in options.items():
        # By identity, because `1 == True`.
        if not any(item is allowed for allowed in _SWITCHES.get(name, (item,))):
            raise ValueError(f"`{name}` is {kind(item)}, expected a boolean")
    row = {key: item for key, item in value.items() if key not in known}
    return Conversation(value["messages"], row, options)


def read_ids(value: object) -> list[int]:
    """Read a list of ids, or an object with `ids`; other keys are ignored."""
    if isinstance(value, dict):
        if "error" in value and "ids" not in value:
            # A line that an earlier command of the pipe refused: its reason is passed on.
            raise ValueError(str(value["error"]))
        if "ids" not in value:
            raise ValueError("has no `ids`; expected a list of ids, or an object with them")
        value = value["ids"]
    return _int_list(value, "ids")


def read_completion(value: object) -> tuple[list[int], list[int] | None]:
    """Read the ids of a completion, and those of its prompt if they are given."""
    prompt = value.get("prompt") if isinstance(value, dict) else None
    return read_ids(value), None if prompt is None else _int_list(prompt, "prompt")


def read_answer(value: object) -> tuple[list[int] | str, list[int] | None]:
    """Read a completion as ids or as text, and the ids of its prompt if they are given."""
    text = value.get("text") if isinstance(value, dict) and "ids" not in value else value
    if not isinstance(text, str):
        return read_completion(value)
    prompt = value.get("prompt") if isinstance(value, dict) else None
    return text, None if prompt is None else _int_list(prompt, "prompt")


def _int_list(value: object, path: str) -> list[int]:
    if not isinstance(value, list):
        raise ValueError(f"`{path}` is {kind(value)}, expected a list of ids")  # noqa: TRY004
    for at, item in enumerate(value):
        # `True` is an int in Python, and not an id.
        if type(item) is not int:
            raise ValueError(f"`{path}[{at}]` is {kind(item)}, expected an id")
    return value
