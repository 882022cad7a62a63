"""A message in several turns whose calls stand in a row of their own, as Solar Open writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, Format, FormatError
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.lists(
    st.sampled_from(["a", "é", " ", "<|im_end|>", "<|interpreter|>", "\n", "assistant"]), max_size=5
).map("".join)
FILE = """
name = "framed"
guarantee = "ids"
source = "a test"
vocabulary = "InternLM2"
generation = { prompt = "{START}assistant" }

[control]
START = "<|im_start|>"
END = "<|im_end|>"
THINK = "<|plugin|>"
ASK = "<|interpreter|>"
CALL = "<|action_start|>"
CALL_END = "<|action_end|>"

[turn]
user = "{START}user\\n{content}{END}"
assistant = [
  "{START}assistant\\n{content}{END}",
  "{START}assistant{ASK}{content}{?calls:{calls}?}{END}",
]

[frame]
reasoning = "{START}assistant{THINK}{reasoning}{END}"

[call.function]
item = "{CALL}{name}\\n{arguments}{CALL_END}"
"""


def loaded(folder: Path, text: str = FILE) -> Codec:
    path = folder / "framed.toml"
    path.write_text(text, encoding="utf-8")
    return Codec(Format.load(path), vocab="embedded")


def messages_of(content: str, thought: str | None, names: list[str]) -> list[dict[str, Any]]:
    calls = [
        {"type": "function", "function": {"name": name, "arguments": {"x": content}}}
        for name in names
    ]
    answer: dict[str, Any] = {"role": "assistant", "content": content}
    answer |= {"reasoning": thought} if thought else {}
    answer |= {"tool_calls": calls} if calls else {}
    return [{"role": "user", "content": content}, answer]


@given(
    content=TEXTS,
    thought=st.none() | TEXTS,
    names=st.lists(st.sampled_from(["f", "g"]), max_size=2),
)
def test_parts_of_a_message_are_read_back(
    tmp_path_factory: Any,  # noqa: ANN401
    content: str,
    thought: str | None,
    names: list[str],
) -> None:
    codec = loaded(tmp_path_factory.mktemp("framed"))
    messages = messages_of(content, thought, names)
    encoding = codec.encode(messages, add_generation_prompt=False)
    assert codec.decode(encoding.ids) == codec.canonical(messages)
    (_, read) = codec.decode(encoding.ids)
    assert (read["content"], read.get("reasoning")) == (content, thought or None)
    called = [call["function"] for call in read.get("tool_calls", ())]
    assert [call["name"] for call in called] == names
    assert all(json.loads(call["arguments"]) == {"x": content} for call in called)
    for size in (1, 3):
        prompt = codec.encode(messages[:1])
        rest = encoding.ids.tolist()[len(prompt.ids) :]
        stream = codec.stream(prompt.ids, keep=True)
        for at in range(0, len(rest), size):
            stream.push(rest[at : at + size])
        stream.finish()
        assert stream.message() == codec.parse(rest, prompt.ids).message


def test_the_calls_are_written_after_the_reasoning(tmp_path: Path) -> None:
    text = loaded(tmp_path).encode(messages_of("a", "Hm.", ["f"]), add_generation_prompt=False).text
    assert text.endswith(
        "<|im_start|>assistant<|plugin|>Hm.<|im_end|><|im_start|>assistant<|interpreter|>a"
        '<|action_start|>f\n{"x": "a"}<|action_end|><|im_end|>'
    )


def test_reasoning_in_a_row_beside_frames_is_refused(tmp_path: Path) -> None:
    file = FILE.replace("{ASK}{content}", "{ASK}{reasoning}{CALL_END}{content}")
    with pytest.raises(
        FormatError, match=r"has `\{reasoning\}`, expected `\{content\}` or `\{calls\}`"
    ):
        loaded(tmp_path, file)


def test_a_token_that_closes_a_frame_stops_no_model(tmp_path: Path) -> None:
    file = FILE.replace('"{START}assistant" }', '"{START}assistant", stop = "{END}" }')
    with pytest.raises(FormatError, match=r"closes a turn in `frame.reasoning`"):
        loaded(tmp_path, file)
