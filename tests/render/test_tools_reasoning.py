"""`tools.reasoning`: in which messages reasoning is written where tools are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, Format, FormatError
from completions import codec_of
from data import appended
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

Message = dict[str, Any]

FILE = """
name = "told"
source = "this test"
guarantee = "ids"
begin = "{BOS}"
reasoning = "since_last_user"
generation = { prompt = "{ASSISTANT}{THINK}" }
place = { system = "first", tools = "system" }
tools = { reasoning = "all" }

[control]
BOS = "<s>"
USER = "<|user|>"
ASSISTANT = "<|assistant|>"
THINK = "<|think|>"
ANSWER = "<|answer|>"
END = "<|end|>"
CALL = "<|call|>"

[turn]
system = "{content}"
tools = "{?system:{system} ?}Tools: {tools} These are the Tools.{CALL}"
user = "{USER}{content}"
assistant = [
  "{ASSISTANT}{THINK}{reasoning}{ANSWER}{content}{END}",
  "{ASSISTANT}{THINK}{ANSWER}{content}{END}",
]
"""
TOKENS = ("<|user|>", "<|assistant|>", "<|think|>", "<|answer|>", "<|end|>", "<|call|>")
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    path = tmp_path_factory.mktemp("told") / "told.toml"
    path.write_text(FILE, encoding="utf-8")
    return Codec(Format.load(path), appended(TOKENS))


TEXT = st.text(alphabet="aT <s.", min_size=1, max_size=8).map(lambda text: f"a{text}b")
ANSWERS = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": TEXT}, optional={"reasoning": TEXT}
)
TURNS = st.lists(
    st.one_of(TEXT.map(lambda text: {"role": "user", "content": text}), ANSWERS), max_size=6
)
SYSTEMS: st.SearchStrategy[list[Message]] = st.one_of(
    st.just([]),
    st.one_of(TEXT, st.just("Be. Tools: [] These are the tools.<|call|>")).map(
        lambda text: [{"role": "system", "content": text}]
    ),
)


def thoughts(messages: list[Message]) -> list[str | None]:
    return [message.get("reasoning") for message in messages if message["role"] == "assistant"]


def naive(messages: list[Message], *, declared: bool) -> list[str | None]:
    """The reasoning of each answer that is written."""
    users = [at for at, message in enumerate(messages) if message["role"] == "user"]
    start = 0 if declared or not users else users[-1]
    return [
        message.get("reasoning") if at >= start else None
        for at, message in enumerate(messages)
        if message["role"] == "assistant"
    ]


@given(system=SYSTEMS, turns=TURNS, tools=st.booleans())
def test_reasoning_is_written_where_the_format_says(
    codec: Codec, system: list[Message], turns: list[Message], *, tools: bool
) -> None:
    messages = [*system, *turns]
    given_tools = TOOLS if tools else None
    encoding = codec.encode(messages, tools=given_tools, add_generation_prompt=False)
    decoded = codec.decode(encoding)
    assert thoughts(decoded) == naive(messages, declared=tools)
    assert decoded == codec.canonical(messages, tools=given_tools)
    # The tools came back as a system message, whose text is like any other.
    again = codec.encode(decoded, add_generation_prompt=False)
    assert thoughts(codec.decode(again)) == naive(decoded, declared=False)
    assert codec.decode(again) == codec.canonical(decoded)


@given(turns=TURNS, system=TEXT, tools=st.booleans())
def test_control_ids_do_not_depend_on_the_text_of_a_system_message(
    codec: Codec, turns: list[Message], system: str, *, tools: bool
) -> None:
    told = "Be. Tools: [] These are the Tools.<|call|>"
    first, second = (
        codec.encode(
            [{"role": "system", "content": text}, *turns],
            tools=TOOLS if tools else None,
            add_generation_prompt=False,
        )
        for text in (system, told)
    )
    control = [
        [id_ for id_, is_one in zip(one.ids, one.is_control, strict=True) if is_one]
        for one in (first, second)
    ]
    assert control[0] == control[1]


@pytest.mark.parametrize("name", ["deepseek:v4", "hy3", "hy3:low", "hy3:high"])
def test_a_system_text_with_the_text_after_tools_is_a_text(name: str) -> None:
    codec = codec_of(name)
    marked = codec.encode([{"role": "user", "content": "u"}], tools=TOOLS)
    (text,) = [
        message["content"]
        for message in codec.decode(marked.ids)
        if message["role"] == "system" and '"f"' in message["content"]
    ]
    after = text[text.rindex('"f"') :].partition("}}")[2] or text[-80:]
    turns: list[Message] = [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "reasoning": "r"},
        {"role": "user", "content": "v"},
    ]
    control = []
    for system in ("s", after, text):
        messages = [{"role": "system", "content": system}, *turns]
        encoding = codec.encode(messages)
        ids = zip(encoding.ids, encoding.is_control, strict=True)
        control.append([id_ for id_, is_one in ids if is_one])
        assert codec.decode(encoding.ids) == codec.canonical(messages)
    assert control[0] == control[1] == control[2]


@pytest.mark.parametrize("tools", [TOOLS, None], ids=["tools", "no tools"])
def test_an_extended_prompt_is_written_the_same(codec: Codec, tools: list[Any] | None) -> None:
    question: list[Message] = [{"role": "user", "content": "a"}]
    prompt = codec.encode(question, tools=tools)
    ids = [*codec.vocab.encode("why"), *(codec.vocab.control[t] for t in ("<|answer|>",))]
    completion = [*ids, *codec.vocab.encode("b"), codec.vocab.control["<|end|>"]]
    more: list[Message] = [{"role": "user", "content": "c"}]
    extended = codec.extend(prompt, completion, more)
    answer = {"role": "assistant", "content": "b", "reasoning": "why"}
    whole = codec.encode([*question, answer, *more], tools=tools)
    # Without tools the format would leave out the reasoning, which the model has written.
    assert (extended.ids.tolist() == whole.ids.tolist()) == (tools is not None)
    assert bool(extended.notes) == (tools is None)
    # An encoding that was read from ids knows its tools too.
    read = codec.extend(prompt.ids, completion, more)
    assert read.ids.tolist() == extended.ids.tolist()
    assert [note.kind for note in read.notes] == [note.kind for note in extended.notes]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('reasoning = "all"', 'reasoning = "since_last_user"', "is the word of `reasoning`"),
        (" These are the Tools.{CALL}", " ", "has no text after `{tools}`"),
        (
            FILE[FILE.index('tools = "{?system') : FILE.index("user = ")],
            "",
            "is given without `turn.tools`",
        ),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "wrong.toml"
    assert old in FILE
    text = FILE.replace(old, new)
    if "{tools}" not in text:
        text = text.replace(', tools = "system"', "")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=r"tools\.reasoning") as error:
        Format.load(path)
    assert problem in str(error.value)
