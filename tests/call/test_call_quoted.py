"""The call shape `quote = "…"`, on a format that is not built in.

The oracle of what is written is the macro of a published template; of what is read, `json`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import data
import jinja2
import pytest
from calls import answer, completion, read, read_arguments
from chatcodec import Codec, Format, FormatError, MessageError, Vocab
from chatcodec.events import ActionDelta, ActionEnd, Notice
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts, json_values

if TYPE_CHECKING:
    from pathlib import Path


QUOTED = """\
name = "quoted"
guarantee = "ids"
source = "a test"
append = ["<|call>", "<call|>", "<|q|>"]
generation = { prompt = "{START}model\\n" }

[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
CALL = "<|call>"
CALL_END = "<call|>"
QUOTE = "<|q|>"

[turn]
user = "{START}user\\n{content}{STOP}\\n"
assistant = "{START}model\\n{content}{?calls:{calls}?}{STOP}\\n"

[call.function]
item = "{CALL}call:{name}{{arguments}}{CALL_END}"
quote = "{QUOTE}"
"""

TEMPLATE = "templates/examples_tool_chat_template_gemma4.jinja"
KEYS = st.text("abcXYZ019_-é", min_size=1, max_size=6)
TEXTS = hostile_texts(max_parts=3).filter(lambda text: "\u2581" not in text)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9999, 9999) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    path = tmp_path_factory.mktemp("quoted") / "quoted.toml"
    path.write_text(QUOTED, encoding="utf-8")
    return Codec(Format.load(path), Vocab.embedded())


def test_a_call_is_written_as_its_parts(codec: Codec) -> None:
    arguments = {"at": "Paris", "days": 3, "on": True, "with": {"a": [1, "x", []]}, "none": None}
    encoding = codec.encode(answer(arguments))
    assert (
        "<|call>call:f{at:<|q|>Paris<|q|>,days:3,on:true,with:{a:[1,<|q|>x<|q|>,[]]},none:null}<call|>"
        in encoding.text
    )
    assert codec.decode(encoding) == codec.canonical(answer(arguments))


@given(arguments=st.lists(ARGUMENTS, min_size=1, max_size=2))
def test_arguments_come_back(codec: Codec, arguments: list[dict[str, Any]]) -> None:
    messages = answer(*arguments)
    encoding = codec.encode(messages)
    decoded = codec.decode(encoding)
    assert decoded == codec.canonical(messages)
    assert read_arguments(decoded[-1]) == arguments


@given(arguments=ARGUMENTS, size=st.integers(1, 5))
def test_any_chunking_gives_the_same_events(
    codec: Codec, arguments: dict[str, Any], size: int
) -> None:
    prompt, ids = completion(codec, arguments)
    stream = codec.stream(prompt=prompt, keep=True)
    events = [e for at in range(0, len(ids), size) for e in stream.push(ids[at : at + size])]
    events += stream.finish("stop")
    ends = [event for event in events if isinstance(event, ActionEnd)]
    assert [end.complete for end in ends] == [True]
    assert not [event for event in events if isinstance(event, Notice)]
    assert stream.message() == codec.parse(ids, prompt=prompt).message
    assert read_arguments(stream.message()) == [arguments]


@given(arguments=ARGUMENTS)
def test_arguments_are_spelled_as_a_published_template_spells_them(
    codec: Codec, arguments: dict[str, Any]
) -> None:
    text = data.find(TEMPLATE).read_text(encoding="utf-8")
    macro = re.search(r"\{%- macro format_argument.*?\{%- endmacro -%\}", text, re.DOTALL)
    assert macro
    environment = jinja2.Environment()  # noqa: S701
    template = environment.from_string(macro[0] + "{{ format_argument(value, escape_keys=False) }}")

    def in_order(value: object) -> object:
        """The template sorts keys without regard to case, and spells null as Python does."""
        if isinstance(value, dict):
            pairs = sorted(value.items(), key=lambda pair: pair[0].lower())
            return {key: in_order(inner) for key, inner in pairs}
        return [in_order(inner) for inner in value] if isinstance(value, list) else value

    ordered = in_order(arguments)
    published = template.render(value=ordered).replace('<|"|>', "<|q|>")
    assert f"<|call>call:f{published.replace('None', 'null')}<call|>" in codec.encode(
        answer(ordered)
    ).text.replace("None", "null")


@given(value=TEXTS)
def test_text_that_spells_a_quote_stays_text(codec: Codec, value: str) -> None:
    encoding = codec.encode(answer({"a": value + "<|q|>,b:<|q|>"}))
    quotes = encoding.ids.tolist().count(codec.vocab.control["<|q|>"])
    assert quotes == 2
    assert read_arguments(codec.decode(encoding)[-1]) == [{"a": value + "<|q|>,b:<|q|>"}]


@pytest.mark.parametrize("key", ["", "a b", "a:b", "a,b", "{", "]", '"', "a\n", "'a", "k" * 2000])
def test_a_key_that_would_not_read_back_is_refused(codec: Codec, key: str) -> None:
    with pytest.raises(MessageError, match=r"messages\[1\]\.tool_calls\[0\].*has the key"):
        codec.encode(answer({key: 1}))


@pytest.mark.parametrize("arguments", [[1], "a", 1, None])
def test_arguments_are_an_object(codec: Codec, arguments: object) -> None:
    with pytest.raises(MessageError, match="is not a JSON object"):
        codec.encode(answer(arguments))


def test_what_a_model_writes_otherwise(codec: Codec) -> None:
    _, spaced = read(
        codec, "<|call>", "call:f{ a : ", "<|q|>", " x ", "<|q|>", " , b: 1 }", "<call|>"
    )
    assert read_arguments(spaced) == [{"a": " x ", "b": 1}]
    events, bare = read(codec, "<|call>", "call:f{a:Paris,b:[x y,2]}", "<call|>", "<|im_end|>")
    assert read_arguments(bare) == [{"a": "Paris", "b": ["x y", 2]}]
    assert [event.kind for event in events if isinstance(event, Notice)] == ["mended"]


@pytest.mark.parametrize(
    "parts",
    [
        ["call:f{a:"],
        ["call:f{a:", "<|q|>", "x"],
        ["call:f{a:1"],
        ["call:f{a:1]}"],
        ["call:f{a", "<|q|>", "}"],
        ["call:f{a:1,,}"],
    ],
)
def test_a_call_that_is_not_whole_is_not_complete(codec: Codec, parts: list[str]) -> None:
    events, _ = read(codec, "<|call>", *parts)
    ends = [event for event in events if isinstance(event, ActionEnd)]
    assert [end.complete for end in ends] == [False]


@pytest.mark.parametrize(
    ("text", "told"),
    [("a:1,]x", '{"a": 1,]x'), ("a:1]x", '{"a": 1]x'), (",a:1", "{,a:1"), ("a{b", "{a{b")],
)
def test_text_that_is_no_argument_is_passed_on(codec: Codec, text: str, told: str) -> None:
    events, _ = read(codec, "<|call>", "call:f{" + text)
    deltas = [event.text for event in events if isinstance(event, ActionDelta)]
    assert "".join(deltas) == told


@given(value=json_values(TEXTS))
def test_whatever_a_model_writes_raises_nothing(codec: Codec, value: object) -> None:
    read(codec, "<|call>", f"call:f{json.dumps(value)}", "<|q|>", str(value), "<call|>", "x")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('quote = "{QUOTE}"', 'quote = "x"', "is not one control token"),
        ('quote = "{QUOTE}"', "quote = 1", "is not a string"),
        ('quote = "{QUOTE}"', 'quote = "{QUOTE}"\npair = "python"', "is given together with"),
        ("{{arguments}}", "{{arguments} ", "has no `}` after its arguments"),
        ("call:{name}", "call:{QUOTE}{name}", "which has another use"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, problem: str) -> None:
    assert before in QUOTED
    path = tmp_path / "quoted.toml"
    path.write_text(QUOTED.replace(before, after), encoding="utf-8")
    with pytest.raises(FormatError, match=re.escape(problem)):
        Format.load(path)
