"""Control tokens around the text of a message, inside its turn: Command A's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, Format, FormatError, MessageError
from chatcodec.events import Notice, Text

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = data.ROOT / "tests" / "golden" / "command-a.json"
TOKENS = tuple(json.loads(GOLDEN.read_text(encoding="utf-8"))["special_tokens"])
OPEN, CLOSE, STOP = "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"


@pytest.fixture(scope="module")
def codec() -> Codec:
    return data.load_appended("command-a", TOKENS)


def ids(codec: Codec, *parts: str) -> list[int]:
    """Ids of tokens and texts."""
    control = codec.vocab.control
    made: list[int] = []
    for part in parts:
        made.extend([control[part]] if part in control else codec.vocab.encode(part))
    return made


@pytest.mark.parametrize(
    ("parts", "notices"),
    [
        ((OPEN, "Hi.", CLOSE, STOP), 0),
        # One of the tokens is missing, or both are.
        ((OPEN, "Hi.", STOP), 0),
        (("Hi.", CLOSE, STOP), 0),
        (("Hi.", STOP), 0),
        # White space after them is scaffolding.
        ((OPEN, "Hi.", CLOSE, "\n", STOP), 0),
        # A token once more.
        ((OPEN, OPEN, "Hi.", CLOSE, STOP), 1),
        ((OPEN, "Hi.", CLOSE, CLOSE, STOP), 1),
    ],
)
def test_the_text_is_read_with_and_without_its_tokens(
    codec: Codec, parts: tuple[str, ...], notices: int
) -> None:
    events = codec.stream()
    seen = [*events.push(ids(codec, *parts)), *events.finish("stop")]
    assert sum(isinstance(event, Notice) for event in seen) == notices
    parsed = codec.parse(ids(codec, *parts))
    assert parsed.message == {"role": "assistant", "content": "Hi."}
    assert parsed.finish == "stop"


def test_text_after_the_token_is_text_and_told(codec: Codec) -> None:
    stream = codec.stream()
    seen = [*stream.push(ids(codec, OPEN, "Hi.", CLOSE, "More.", STOP)), *stream.finish("stop")]
    assert "".join(event.text for event in seen if isinstance(event, Text)) == "Hi.More."
    assert sum(isinstance(event, Notice) for event in seen) == 1


@pytest.mark.parametrize("token", TOKENS)
def test_spelled_tokens_stay_text(codec: Codec, token: str) -> None:
    messages = [
        {"role": "system", "content": f"Say {token}"},
        {"role": "user", "content": f"Say {token}"},
        {"role": "assistant", "content": f"{token}.{token}"},
    ]
    assert codec.decode(codec.encode(messages, add_generation_prompt=False)) == messages


def test_calls_beside_content_are_refused(codec: Codec) -> None:
    call: dict[str, Any] = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call]},
    ]
    with pytest.raises(MessageError, match="stand beside content"):
        codec.encode(messages)
    kept = codec.encode(messages, on_unsupported="drop")
    assert "Let me see." not in kept.text


GUARDED = """\
name = "mine"
guarantee = "ids"
source = "the tests"
begin = "{X}"
losses = ["system"]
place = { system = "first_user" }
[control]
B = "<|b|>"
E = "<|e|>"
X = "<|x|>"
[generation]
prompt = "assistant{B}"
[turn]
user = "user{B}{?system:{system}\\n\\n?}{content}{X}{E}"
assistant = "assistant{B}{content}{E}"
"""


def test_tokens_beside_a_guarded_system_text_do_nothing_else(tmp_path: Path) -> None:
    """A reader has no guard: it would take the token of the header for the one before a text."""
    path = tmp_path / "mine.toml"
    path.write_text(GUARDED, encoding="utf-8")
    with pytest.raises(FormatError, match=r"`turn\.user` has `{B}`, which has a use beside"):
        Format.load(path)
