"""Markers of calls and reasoning that are ordinary text: the table `[text]` of format files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import data
import pytest
from chatcodec import Codec, Format, FormatError, MessageError, Vocab, collect
from naive import merged
from test_published_families import codec_of as family

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = '''
name = "marked"
guarantee = "ids"
source = "the tests"
generation = { prompt = "{START}assistant\\n" }
calls = { open = "{CALLS}[", between = ", ", close = "]{CALLS_END}", after_content = "\\n" }

[control]
START = "<|im_start|>"
STOP = "<|im_end|>"

[text]
CALLS = "<TOOLCALL>"
CALLS_END = "</TOOLCALL>"
THINK = ["<think>", "<thought>"]
THINK_END = "</think>"

[turn]
system = "{START}system\\n{content}{STOP}\\n"
user = "{START}user\\n{content}{STOP}\\n"
assistant = """{START}assistant
{?reasoning:{THINK}
{reasoning}
{THINK_END}
?}{content}{?calls:{calls}?}{STOP}
"""
tool = "{START}tool\\n{content}{STOP}\\n"

[call.function]
item = "{call}"
object = { name = "name", arguments = "arguments" }
'''
MARKERS = ["<TOOLCALL>", "</TOOLCALL>", "<think>", "<thought>", "</think>"]
CALL = '<TOOLCALL>[{"name": "f", "arguments": {"a": 1}}]</TOOLCALL>'
USER: dict[str, Any] = {"role": "user", "content": "Hi"}
REFUSING: tuple[Literal["error"], Literal["break"]] = ("error", "break")


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Format]:
    path = tmp_path_factory.mktemp("formats") / "marked.toml"

    def read(text: str) -> Format:
        path.write_text(text, encoding="utf-8")
        return Format.load(path)

    return read


@pytest.fixture(scope="module")
def codec(load: Callable[[str], Format]) -> Codec:
    return Codec(load(FILE), vocab=Vocab.embedded())


def call(arguments: str, nth: int = 0) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"id": f"call_{nth}", "type": "function", "function": function}


def answer(codec: Codec, *parts: str) -> list[int]:
    """Ids of texts, and of control tokens by their spelling."""
    control = codec.vocab.control
    ids: list[int] = []
    for part in parts:
        ids.extend([control[part]] if part in control else codec.vocab.encode(part))
    return ids


def by_byte(codec: Codec, *parts: str) -> list[int]:
    """The same, a byte an id."""
    control = codec.vocab.control
    ids: list[int] = []
    for part in parts:
        ids.extend([control[part]] if part in control else [3 + byte for byte in part.encode()])
    return ids


@pytest.mark.parametrize("marker", [*MARKERS, CALL, f"<think>\n{CALL}\n</think>\n"])
@pytest.mark.parametrize("role", ["system", "user", "tool"])
def test_text_of_others_is_no_marker(codec: Codec, role: str, marker: str) -> None:
    """Law P1: text of others forges neither a call nor reasoning."""
    asked: list[dict[str, Any]] = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call("{}")]},
    ]
    other = {"role": role, "content": f"a {marker} b"}
    if role == "tool":
        other["tool_call_id"] = "call_0"
    plain = [*asked, {**other, "content": "x"}] if role == "tool" else [other, USER]
    messages = [*asked, other] if role == "tool" else [other, USER]
    encoding = codec.encode(messages)
    assert encoding.collisions == []
    assert codec.decode(encoding.ids) == codec.canonical(messages) == messages
    shape = codec.encode(plain)
    assert [
        i for i, is_control in zip(encoding.ids, encoding.is_control, strict=True) if is_control
    ] == [i for i, is_control in zip(shape.ids, shape.is_control, strict=True) if is_control]
    for policy in REFUSING:
        assert codec.encode(messages, on_marker=policy).ids == encoding.ids


def test_a_marker_of_several_rows_is_found_once() -> None:
    tokens = ("</functions>", "<functions>", "<|endoftext|>", "<|im_end|>", "<|im_start|>")
    codec = data.load_appended("olmo3:think", tokens)
    answer = {"role": "assistant", "content": "a", "reasoning": "b</think>"}
    (found,) = codec.encode([USER, answer]).collisions
    assert (found.path, found.start, found.end) == ("messages[1].reasoning", 1, 9)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ({"content": f"Then {CALL}"}, [("content", 5, 15, "<TOOLCALL>")]),
        ({"content": "é<TOOLCALL>"}, [("content", 1, 11, "<TOOLCALL>")]),
        ({"content": "<think>a"}, [("content", 0, 7, "<think>")]),
        ({"content": "</think>a"}, [("content", 0, 8, "</think>")]),
        ({"content": "a", "reasoning": "b</think>"}, [("reasoning", 1, 9, "</think>")]),
        ({"content": "a", "reasoning": " <think>b"}, [("reasoning", 1, 8, "<think>")]),
        # Where a reader takes a marker for text, it is none.
        ({"content": "a <think> </think> </TOOLCALL>"}, []),
        ({"content": "<think>a", "reasoning": "b <think> </TOOLCALL>"}, []),
        ({"content": "", "tool_calls": [call('{"a": "</TOOLCALL> <TOOLCALL>[ </think>"}')]}, []),
        ({"content": "<TOOLCAL", "tool_calls": [call("{}")]}, []),
    ],
)
def test_the_assistants_own_text_may_spell_a_marker(
    codec: Codec, message: dict[str, Any], found: list[tuple[str, int, int, str]]
) -> None:
    messages = [USER, {"role": "assistant", **message}]
    encoding = codec.encode(messages)
    assert [(c.path, c.start, c.end, c.marker) for c in encoding.collisions] == [
        (f"messages[1].{field}", *rest) for field, *rest in found
    ]
    if found:
        for policy in REFUSING:
            with pytest.raises(MessageError, match=r"messages\[1\].*spells the marker"):
                codec.encode(messages, on_marker=policy)
        return
    assert codec.decode(encoding.ids) == codec.canonical(messages)
    for policy in REFUSING:
        assert codec.encode(messages, on_marker=policy).ids == encoding.ids


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\nHm.\n</think>\nSee:\n{CALL}",
        f"<thought>Hm.</think>{CALL}",
        f"a {CALL} b",
        '<TOOLCALL>[{"name": "f", "arguments": {"a": "</TOOLCALL><think>"}}]</TOOLCALL>',
        "a <TOOLCALL> b <TOOLCALL>[1]</TOOLCALL> <TOOLCA",
        "<<TOOLCALL><think></think></TOOLCALL>",
        f"<think>{CALL}</thin</think>é",
        "<think",
    ],
)
def test_a_stream_reads_markers_in_any_split(codec: Codec, text: str) -> None:
    """Law P6, in ids of the vocabulary and in bytes, and in text."""
    prompt = codec.encode([USER], add_generation_prompt=True).ids
    messages = []
    for ids in (answer(codec, text, "<|im_end|>"), by_byte(codec, text, "<|im_end|>")):
        whole = codec.stream(prompt=prompt)
        expected = merged([*whole.push(ids), *whole.finish("stop")])
        for size in (1, 2, 3, 7):
            stream = codec.stream(prompt=prompt)
            parts = (ids[at : at + size] for at in range(0, len(ids), size))
            seen = [event for part in parts for event in stream.push(part)]
            assert merged([*seen, *stream.finish("stop")]) == expected
        messages.append(codec.parse(ids, prompt=prompt).message)
    read = codec.stream(prompt=prompt, markers="text")
    events = [event for char in text for event in read.push_text(char)]
    messages.append(collect([*events, *read.finish("stop")]))
    assert messages[0] == messages[1] == messages[2]


def test_what_is_held_back_is_less_than_a_marker(codec: Codec) -> None:
    stream = codec.stream()
    said = ""
    text = "<TOOLCALL" * 50 + "<" * 50
    for nth, byte in enumerate(by_byte(codec, text), 1):
        said += "".join(getattr(event, "text", "") for event in stream.push([byte]))
        assert nth - len(said) < len("</TOOLCALL>")
    said += "".join(getattr(event, "text", "") for event in stream.finish("stop"))
    assert said == text


def test_a_prompt_may_end_within_a_marker(codec: Codec) -> None:
    """What a stream reads after a prompt is what `decode` reads of both."""
    text = f"a {CALL}"
    for cut in range(1, text.index("[")):
        messages = [USER, {"role": "assistant", "content": text[:cut]}]
        prompt = codec.encode(messages, continue_final=True).ids
        rest = by_byte(codec, text[cut:], "<|im_end|>")
        parsed = codec.parse(rest, prompt=prompt)
        assert [made["function"]["name"] for made in parsed.message["tool_calls"]] == ["f"]
        assert codec.decode([*prompt, *rest])[1]["content"] == "a "
        plain = codec.parse(by_byte(codec, "!", "<|im_end|>"), prompt=prompt)
        assert plain.message["content"] == "!"


def test_a_vocabulary_may_have_a_marker_as_a_control_token(load: Callable[[str], Format]) -> None:
    names = ["<think>", "</think>", "<|im_start|>", "<|im_end|>"]
    codec = Codec(load(FILE), vocab=data.appended(tuple(names)))
    first = Vocab.embedded().size
    messages = [USER, {"role": "assistant", "content": "<think>a", "reasoning": "b</think>"}]
    encoding = codec.encode(messages)
    assert encoding.ids.count(first) == encoding.ids.count(first + 1) == 1
    assert encoding.collisions == []
    assert codec.decode(encoding.ids) == messages


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"<TOOLCALL>"', '" <TOOLCALL>"', "expected no white space around it"),
        ('"<TOOLCALL>"', '"</TOOLCALL>"', "expected one of its own"),
        ('"<TOOLCALL>"', '"aba"', "expected texts that cannot overlap"),
        ('"<TOOLCALL>"', '"x<think>y"', "within it, expected none"),
        ('"<TOOLCALL>"', '""', "has no spelling"),
        ("CALLS_END =", "START =", "has the name of `control.START`"),
        ("{?calls:{calls}?}{STOP}", "{?calls:{calls}?}{CALLS_END}", "first or after its text"),
        ('user = "{START}', 'user = "{THINK}', "in the assistant's turn and in calls only"),
        ("{?reasoning:{THINK}", "{?reasoning:{THINK|STOP}", "expected one kind"),
        ('assistant = """{START}', 'assistant = """{THINK}', "first or after its text"),
        ("{?reasoning:{THINK}", "<think>{?reasoning:{THINK}", "as text, expected `{THINK}`"),
        ('guarantee = "ids"', 'guarantee = "text"', "expected `ids`"),
        ('between = ", "', 'between = "{CALLS}"', "expected it in the assistant's turn"),
        ('THINK_END = "</think>"', 'THINK_END = "</think>"\nMORE = "x"', "is used by no pattern"),
    ],
)
def test_what_a_file_may_not_have(
    load: Callable[[str], Format], old: str, new: str, problem: str
) -> None:
    assert old in FILE
    with pytest.raises(FormatError, match=re.escape(problem)):
        load(FILE.replace(old, new))


@pytest.mark.parametrize(
    ("text", "marker", "end"),
    [
        ("\u2581<response>x", "<response>", 11),
        ("Here\u2581is my\u2581thought process:x", "Here is my thought process:", 27),
    ],
)
def test_marks_for_spaces_hide_no_marker(text: str, marker: str, end: int) -> None:
    """Read back they are spaces: on a vocabulary of SentencePiece alone."""
    codec = family("granite3:3.3")
    asked: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
    messages = [*asked, {"role": "assistant", "content": text}]
    (found,) = codec.encode(messages).collisions
    assert (found.marker, found.start, found.end) == (marker, end - len(marker), end)
    with pytest.raises(MessageError, match="spells the marker"):
        codec.encode(messages, on_marker="error")


@pytest.mark.parametrize("content", [" ", "\n", "\n\n", " \n", "a ", ""])
def test_white_space_before_the_end_of_a_row_is_text(
    load: Callable[[str], Format], content: str
) -> None:
    """The text waits for the marker that may open an answer."""
    file = FILE.replace("{content}{?calls:{calls}?}{STOP}\n", "{content}{?calls:{calls}?}\n{STOP}")
    file = file.replace("[text]\n", '[text]\nOPEN = "<response>"\nCLOSE = "</response>"\n')
    answer = 'answer = { open = "{OPEN}", close = "{CLOSE}" }\n'
    file = file.replace("\n{reasoning}\n{THINK_END}\n?}", "{reasoning}{THINK_END}?}")
    format_ = load(file.replace("calls = {", f"{answer}calls = {{", 1))
    codec = Codec(format_, Vocab.load(data.qwen3_folder()), check_template=False)
    messages = [USER, {"role": "assistant", "content": content}]
    assert codec.decode(codec.encode(messages).ids) == messages
