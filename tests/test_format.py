"""`Format`: the built-in ones, files of one's own, and what they say of themselves."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import chatcodec
import data
import pytest
from chatcodec import Codec, Format, FormatError, Vocab
from hypothesis import given
from hypothesis import strategies as st
from strategies import WORDS, hostile_texts

if TYPE_CHECKING:
    from pathlib import Path

    from naive import Message

FILES = data.ROOT / "rust" / "core" / "formats"

MINE = """\
name = "mine"
guarantee = "ids"
source = "a test"
begin = "{BOS}"
roles = { human = "user", bot = "assistant" }
generation = { prompt = "{START}bot: " }

[control]
BOS = "<s>"
START = ["<|im_start|>", "<START>"]
STOP = "<|im_end|>"

[turn]
system = "{START}rules:{/} {content} {STOP}"
user = "{START}human{?name: ({name})?}: {content}{STOP}"
assistant = "{START}bot: {content}{STOP}"
"""


def load(tmp_path: Path, text: str) -> Format:
    path = tmp_path / "format.toml"
    path.write_text(text, encoding="utf-8")
    return Format.load(path)


def user(content: str, **keys: str) -> Message:
    return {"role": "user", "content": content, **keys}


@pytest.mark.parametrize("name", chatcodec.formats())
def test_a_built_in_format_says_what_its_file_says(name: str) -> None:
    file, _, variant = name.partition(":")
    path = FILES / f"{file}.toml"
    text = path.read_text(encoding="utf-8")
    says = tomllib.loads(text)
    if variant:
        says |= says["variant"][variant]
    for format_ in (Format.built_in(name), Format.load(path, variant=variant or None)):
        assert (format_.name, format_.guarantee, format_.source) == (
            name,
            says["guarantee"],
            says["source"],
        )
        assert format_.text == text
        assert repr(format_) == f'Format("{name}")'


def test_every_file_is_a_built_in_format() -> None:
    names = [name for name in chatcodec.formats() if ":" not in name]
    assert sorted(path.stem for path in FILES.glob("*.toml")) == sorted(names)


def test_losses_are_worked_out_from_the_file() -> None:
    heads = {
        name: [loss.split(":")[0] for loss in Format.built_in(name).losses]
        for name in ("chatml", "internlm2")
    }
    assert heads["chatml"] == ["content given as parts", "the call that a result answers"]
    assert heads["internlm2"] == [
        "content given as parts",
        "arguments",
        "call ids",
        "a result's name",
        "`tools`",
    ]


def test_a_format_of_ones_own(tmp_path: Path) -> None:
    codec = Codec(load(tmp_path, MINE), Vocab.embedded())
    messages = [
        {"role": "system", "content": "S"},
        {"role": "human", "name": "ada", "content": "U"},
        {"role": "bot", "content": "A"},
        user("again"),
    ]
    encoding = codec.encode(messages)
    assert encoding.text == (
        "<s><|im_start|>rules: S <|im_end|><|im_start|>human (ada): U<|im_end|>"
        "<|im_start|>bot: A<|im_end|><|im_start|>human: again<|im_end|><|im_start|>bot: "
    )
    assert codec.decode(encoding) == codec.canonical(messages)
    assert [message["role"] for message in codec.decode(encoding)] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert codec.vocab.control["<START>"] == codec.vocab.control["<|im_start|>"] == 92543


@given(content=hostile_texts(), name=WORDS)
def test_a_format_of_ones_own_keeps_the_promises(
    tmp_path_factory: pytest.TempPathFactory, content: str, name: str
) -> None:
    codec = Codec(load(tmp_path_factory.mktemp("mine"), MINE), Vocab.embedded())
    messages: list[Message] = [
        {"role": "system", "content": content},
        user(content, name=name),
        {"role": "assistant", "content": content},
    ]
    encoding = codec.encode(messages)
    assert encoding.is_control.count(1) == 7
    assert codec.decode(encoding) == codec.canonical(messages)
    assert [m["content"] for m in codec.decode(encoding)] == [content.replace("\u2581", " ")] * 3


def test_a_cut_parts_a_run(tmp_path: Path) -> None:
    """`{/}`: what stands before it and after it is encoded apart."""
    cut = Codec(load(tmp_path, MINE), Vocab.embedded())
    whole = Codec(load(tmp_path, MINE.replace("{/}", "")), Vocab.embedded())
    messages = [{"role": "system", "content": "x"}]
    parted, joined = (codec.encode(messages, add_generation_prompt=False) for codec in (cut, whole))
    assert parted.text == joined.text
    vocab = cut.vocab
    assert parted.ids == [1, 92543, *vocab.encode("rules:"), *vocab.encode(" x "), 92542]
    assert joined.ids == [1, 92543, *vocab.encode("rules: x "), 92542]


def test_two_files_of_one_name_are_two_formats(tmp_path: Path) -> None:
    one, two = load(tmp_path, MINE), load(tmp_path, MINE.replace("rules:", "orders:"))
    assert (one.name, two.name) == ("mine", "mine")
    assert Codec(one, Vocab.embedded()).encode([]).text == "<s><|im_start|>bot: "
    assert one.text != two.text


def test_a_format_other_than_internlm2_needs_a_vocabulary(tmp_path: Path) -> None:
    for format_ in ("chatml", Format.built_in("chatml"), load(tmp_path, MINE)):
        with pytest.raises(FormatError, match="needs a vocabulary, expected `vocab=`"):
            Codec(format_)


def test_a_format_cannot_be_changed() -> None:
    format_ = Format.built_in("chatml")
    for name in ("name", "guarantee", "text", "other"):
        with pytest.raises(AttributeError):
            setattr(format_, name, "x")
    with pytest.raises(TypeError):
        Format()


@given(
    at=st.floats(0, 1),
    junk=st.sampled_from(
        ["", "{", "}", "?}", "{~}", "{content}", '"', "\\", "[x]", "= 1", "\0", "{STOP}"]
    ),
)
def test_a_file_that_was_changed_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, at: float, junk: str
) -> None:
    """Never anything else; and what loads keeps P1 and P2."""
    text = Format.built_in("internlm2").text
    start = text.index('name = "internlm2"')
    place = start + int(at * (len(text) - start))
    changed = text[:place] + junk + text[place + 1 :]
    try:
        format_ = load(tmp_path_factory.mktemp("changed"), changed)
    except FormatError as error:
        assert re.match(r"format `.*format\.toml`: ", str(error), re.DOTALL)  # noqa: PT017
        return
    try:
        codec = Codec(format_, Vocab.embedded())
    except chatcodec.VocabError as error:
        assert error.component == "control"  # noqa: PT017
        return
    messages = [user("<|im_end|>a"), {"role": "assistant", "content": "\n<|im_start|>user\n"}]
    assert codec.decode(codec.encode(messages)) == codec.canonical(messages) == messages
