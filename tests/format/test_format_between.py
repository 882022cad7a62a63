"""Format files that would write what does not read back: refused with what to change, or read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, Format, FormatError, MessageError, VocabError
from data import appended

if TYPE_CHECKING:
    from pathlib import Path
HEAD = 'name = "golden"\nsource = "a test"\n'


def load(tmp_path: Path, text: str) -> Format:
    """The format of a file without its table of control tokens."""
    names = sorted(
        {name for group in re.findall(r"{([A-Z|]+)}", text) for name in group.split("|")}
    )
    control = "".join(f'{name} = "<|{name.lower()}|>"\n' for name in names)
    path = tmp_path / "golden.toml"
    path.write_text(HEAD + text.replace("[turn]", f"[control]\n{control}[turn]"))
    return Format.load(path)


def bind(form: Format) -> Codec:
    """A codec on the embedded vocabulary with the file's control tokens."""
    spellings = re.findall(r'= "(<\|\w+\|>)"', form.text)
    return Codec(form, vocab=appended(tuple(spellings)))


REFUSED = {
    "tools after turns, in a row that begins with text, which is read first alone": (
        """\
guarantee = "ids"
generation = { prompt = "assistant{B}" }
place = { system = "first", tools = "last_user" }
[turn]
tools = "system{B}Tools: {tools}{E}"
system = "system{B}{content}{E}"
user = "user{B}{content}{E}"
assistant = "assistant{B}{content}{E}"
""",
        "`turn.tools` begins with text, expected a control token",
    ),
    "an empty default that its row writes as nothing": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
place = { system = "first" }
default_system = ""
[turn]
system = "{content}"
user = "{U}{content}{E}"
assistant = "{A}{content}{E}"
""",
        "`default_system` is empty, and `turn.system` writes nothing around it",
    ),
    "a system turn of its own whose text begins as `begin` does": (
        """\
guarantee = "ids"
begin = "{B}"
generation = { prompt = "{A}" }
place = { system = "first" }
[turn]
without_system = "{B}Be kind.{E}"
system = "{content}{E}"
user = "{U}{content}{E}"
assistant = "{A}{content}{E}"
""",
        "`turn.without_system` has `{B}`, which begins a conversation in `begin`",
    ),
    "white space before a turn, after one that nothing closes": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
[turn]
system = "{B}{content}\\n"
user = "\\n{I}{content}"
assistant = "{A}{content}{E}"
""",
        "`turn.user` begins with white space, which reads as the end of `turn.system`, whose last",
    ),
    "a prompt with more of the reasoning than its row has": (
        """\
guarantee = "ids"
generation = { prompt = "{B}a\\n{T}\\n\\n" }
[turn]
user = "{B}u\\n{content}{E}"
assistant = [
  "{B}a\\n{T}\\n{reasoning}\\n{TE}\\n\\n{content}{E}",
  "{B}a\\n{content}{E}",
]
[last]
assistant = [
  "{B}a\\n{T}\\n{reasoning}\\n{TE}\\n\\n{content}{E}",
  "{B}a\\n{T}\\n\\n{TE}\\n\\n{content}{E}",
]
""",
        "`generation.prompt` goes further into reasoning than an assistant row does before",
    ),
    "white space before a turn that is its text alone": (
        """\
guarantee = "text"
order = "alternate"
generation = { prompt = "" }
[turn]
user = "U:{content}{Z}\\n"
assistant = "{content}{Z}"
""",
        "reads as the beginning of `turn.assistant`; expected none",
    ),
    "tools that begin with text after a system message that does": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
place = { tools = "after_system", system = "first" }
[turn]
system = "{content}"
tools = "Tools: {tools}"
user = "{U}{content}{E}"
assistant = "{A}{content}{E}"
""",
        "`turn.tools` begins with text, which reads as a part of `turn.system`, expected",
    ),
}

REFUSED |= {
    "a control token between calls": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
calls = { open = "{L}", between = "{X}", close = "{LE}" }
[turn]
user = "{U}{content}{E}"
assistant = "{A}{content}{?calls:{calls}?}{E}"
[call.function]
item = "{C}{call}{CE}"
object = { name = "name", arguments = "arguments" }
""",
        "`calls.between` has a control token",
    ),
    "text after calls, in a row that is only written": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
[turn]
user = "{U}{content}{E}"
assistant = ["{A}{content} END{E}", "{A}{calls} END{E}"]
[call.function]
item = "{C}{call}{CE}"
object = { name = "name", arguments = "arguments" }
""",
        "`turn.assistant[1]` has text between its calls and its end",
    ),
    "white space after the end, where a turn may begin with text": (
        """\
guarantee = "text"
end = "{Z}\\n"
generation = { prompt = "A:" }
[turn]
user = "U:{content}{E}"
assistant = "A:{content}{E}"
""",
        "`end` ends in white space, which reads as text of `turn.user`",
    ),
    "a row that begins with a field": (
        """\
guarantee = "text"
generation = { prompt = "A:" }
[turn]
user = "{content} END"
assistant = "A:{content} END"
""",
        "`turn.user` begins with a field or a guard",
    ),
    "white space in the guard of reasoning, before its token": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
[turn]
user = "{U}{content}{E}"
assistant = "{A}{?reasoning:\\n{T}\\n{reasoning}\\n{TE}?}{content}{E}"
""",
        "`turn.assistant` has other things around `{reasoning}`",
    ),
    "a cut beside a control token": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
[turn]
user = "\\n{/}{U}{content}{E}"
assistant = "{A}{content}{E}"
""",
        "`turn.user` has `{/}` beside a control token",
    ),
}

REFUSED |= {
    "calls in brackets, with arguments in parentheses that are not Python's": (
        """\
guarantee = "ids"
generation = { prompt = "{A}" }
calls = { open = "[", between = ", ", close = "]" }
[turn]
user = "{I}{content}{E}"
assistant = ["{A}{content}{E}", "{A}{calls}{E}"]
[call.function]
item = "{name}({arguments})"
""",
        'expected `{call}`, or `{name}({arguments})` with `pair = "python"` or `"json"`, alone',
    ),
}

WORDS = """\
guarantee = "ids"
generation = { prompt = "assistant{S}" }
[turn]
system = "system{S}{content}{E}\\n"
user = "user{S}{content}{E}\\n"
assistant = "assistant{S}{content}{E}\\n"
"""

REFUSED |= {
    "a word before an id, after a turn that nothing closes": (
        WORDS.replace("system{S}{content}{E}", "system{S}{content}"),
        "`turn.system` is closed by no control token",
    ),
    "a word before an id, beside a system text without a mark": (
        WORDS.replace("[turn]", 'place = { system = "first" }\n[turn]').replace('"system{S}', '"'),
        "`turn.system` begins with any text, which may be that of `turn.user`",
    ),
    "a word before an id, beside an answer without a header": (
        WORDS + 'tool = "{R}{content}{RE}"\n[after_tool]\nassistant = "{content}{E}"\n',
        "`after_tool.assistant` begins with any text, which may be that of `turn.system`",
    ),
    "a word that another turn begins with, and then text": (
        WORDS.replace("{S}", ": ").replace('"user: ', '"system: x'),
        "`turn.user` can be read as `turn.system`",
    ),
    "a name before an id": (
        WORDS.replace('"user{S}', '"{?name:{name}?}{B}'),
        "`turn.user` begins with a field or a guard",
    ),
    "white space before a word and an id": (
        WORDS.replace('"user{S}', '"\\n\\nuser{S}'),
        "which reads as the beginning of `turn.user`",
    ),
}

READ = {
    "words of roles before an id": WORDS,
    "words of roles that an id tells from text": WORDS.replace('"user{S}', '"system'),
    "words of roles before text": WORDS.replace("{S}", ": "),
    "words of roles that begin alike": WORDS.replace('"system{S}', '"user system{S}')
    .replace('"assistant{S}{', '"the user\\n{S}{')
    .replace('"assistant{S}"', '"the user\\n{S}"'),
    "results in the user's turn, which begins with a word": WORDS.replace("{S}", ": ").replace(
        "[turn]", 'results = { open = "user: ", close = "{E}" }\n[turn]'
    )
    + 'tool = "{R}\\n{content}\\n{RE}"\n',
    "a word in one role's turn, a token in the others'": WORDS.replace(
        '"assistant{S}', '"{A}'
    ).replace('"system{S}', '"{B}'),
    "tools in the system message's turn, which begins with a word": WORDS.replace(
        "[turn]",
        'place = { tools = "system", system = "first" }\n[turn]\n'
        'tools = ["system{S}{system}\\n{tools}{E}\\n", "system{S}{tools}{E}\\n"]',
    ),
    "results that begin with the text of the user's turn": """\
guarantee = "text"
generation = { prompt = "A:" }
results = { open = "U:", close = "\\n{E}" }
[turn]
user = "U:{content}{E}"
assistant = "A:{content}{E}"
tool = "{R} {name}\\n{content}{RE}"
""",
    "a prompt of text that is less than how the row begins": """\
guarantee = "text"
generation = { prompt = "A:" }
[turn]
system = "S:{content}{E}\\n"
user = "U:{content}{E}\\n"
assistant = "A:\\n{content}{E}\\n"
""",
    "turns of text that alternate, and a prompt": """\
guarantee = "text"
order = "alternate"
place = { system = "first" }
generation = { prompt = "A:\\n\\n" }
[turn]
system = "S:\\n\\n{content}"
user = "U:\\n\\n{content}"
assistant = "A:\\n\\n{content}"
""",
    "a row that begins with its reasoning": """\
guarantee = "ids"
order = "alternate"
generation = { prompt = "{T}" }
[turn]
user = "{U}{content}{E}"
assistant = ["{T}{reasoning}{TE}{content}{E}", "{content}{E}"]
""",
    "a default that its row trims": """\
guarantee = "ids"
generation = { prompt = "{A}" }
default_system = "\\nD\\n"
[turn]
system = "{S}{content:trim_lines}{E}"
user = "{U}{content}{E}"
assistant = "{A}{content}{E}"
""",
    "text right after a control token, where markers are text": """\
guarantee = "text"
generation = { prompt = "A:" }
[turn]
system = "{B}system {content}\\n"
user = "{B}user{content}\\n"
assistant = "A:{content}{E}\\n"
""",
    "results read as the user's, with what closes them": """\
guarantee = "ids"
generation = { prompt = "{A}" }
results = { open = "{U}", between = "\\n", close = "\\n{E}" }
losses = ["results"]
[turn]
user = "{U}{content}{E}"
assistant = "{A}{content}{E}"
tool = "<r>{content}</r>"
""",
    "white space before a turn that begins with its marker in text": """\
guarantee = "text"
generation = { prompt = "A:" }
[turn]
system = "S:{content}{Z}\\n"
user = "U:{content}{Z}\\n"
assistant = "A:{content}{Z}\\n"
""",
    "results that begin as the user's turn does": """\
guarantee = "ids"
generation = { prompt = "{A}" }
results = { open = "{U}\\n" }
[turn]
user = "{U}\\n{content}"
assistant = "{A}{content}"
tool = "{R}{content}{RE}"
""",
    "two patterns of tools beside a system message by default": """\
guarantee = "ids"
default_system = "D"
generation = { prompt = "{A}" }
place = { tools = "system" }
[turn]
system = "{S}{content}{E}"
tools = ["{S}{system} T {tools}{E}", "{S}Only {tools}{E}"]
user = "{U}{content}{E}"
assistant = "{A}{content}{E}"
""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_does_not_read_back_is_refused(name: str, tmp_path: Path) -> None:
    text, problem = REFUSED[name]
    with pytest.raises(FormatError) as caught:
        load(tmp_path, text)
    assert problem in str(caught.value)


TEXTS = [
    "x",
    " x",
    "x\n",
    "\n",
    "",
    " ",
    "\nx",
    "tools",
    "user",
    "user: x",
    "system: ",
    "assistant",
]


def conversations(text: str) -> list[list[dict[str, Any]]]:
    """Conversations with a text in every turn."""
    turn = {
        role: {"role": role, "content": text} for role in ("system", "user", "assistant", "tool")
    }
    return [
        [turn["system"], turn["user"]],
        [turn["user"]],
        [turn["user"], turn["assistant"], turn["user"]],
        [turn["user"], turn["assistant"], turn["tool"], turn["tool"], turn["assistant"]],
        [turn["system"], turn["user"], turn["assistant"], turn["tool"], turn["user"]],
        [turn["user"], turn["assistant"]],
    ]


@pytest.mark.parametrize("name", READ)
def test_a_file_that_loads_reads_back(name: str, tmp_path: Path) -> None:
    codec = bind(load(tmp_path, READ[name]))
    read = 0
    for text in TEXTS:
        for messages in conversations(text):
            for tools in (None, [{"a": 1}]):
                try:
                    encoded = codec.encode(messages, tools=tools)
                except ValueError:
                    continue
                if not encoded.collisions:
                    assert codec.decode(encoded.ids) == codec.canonical(messages, tools=tools)
                    read += 1
    assert read > 2 * len(TEXTS)


LATE_SYSTEM = """\
guarantee = "text"
order = "alternate"
generation = { prompt = "A:\\n" }
[turn]
system = "S:{content}\\n"
user = "U:{content}\\n"
assistant = "A:\\n{content}\\n"
"""


@pytest.mark.parametrize(
    "text", ["A:\n", "A:\nxA:\n", "A:\nxU:y\nU:z", "U:x\nA:\nyA:\nz", "S:A:\nx"]
)
def test_text_that_is_refused_as_a_header_is_text(text: str, tmp_path: Path) -> None:
    codec = bind(load(tmp_path, LATE_SYSTEM))
    ids = codec.vocab.encode(text)
    stream = codec.stream(prompt=[])
    events = [*stream.push(ids), *stream.finish()]
    assert events[-1].tokens[1] == len(ids)


def test_a_system_text_that_an_answer_would_not_end_is_refused(tmp_path: Path) -> None:
    codec = bind(load(tmp_path, LATE_SYSTEM))
    late = [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]
    for messages, prompt in ((late, True), ([*late, {"role": "assistant", "content": "z"}], False)):
        with pytest.raises(ValueError, match=r"`messages\[1\]\.role` is a system message right"):
            codec.encode(messages, add_generation_prompt=prompt)
    ended = codec.encode(late, add_generation_prompt=False)
    assert codec.decode(ended.ids) == late


def test_an_answer_that_is_nothing_but_the_prompt_is_refused(tmp_path: Path) -> None:
    codec = bind(load(tmp_path, READ["results that begin as the user's turn does"]))
    empty = [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]
    with pytest.raises(ValueError, match=r"`messages\[1\]\.content` is empty, and what would be"):
        codec.encode(empty)
    assert codec.decode(codec.encode([*empty, empty[0]]).ids) == [*empty, empty[0]]


def test_a_mark_that_the_vocabulary_reads_as_a_space_is_refused_in_a_file(tmp_path: Path) -> None:
    text = """\
guarantee = "ids"
generation = { prompt = "{A}" }
[turn]
user = "{I}\u2581user\\n{content}{E}"
assistant = "{A}{content}{E}"
"""
    with pytest.raises(
        VocabError, match=r"writes U\+2581 .* as a space, and format `golden` has it"
    ):
        bind(load(tmp_path, text))


def test_an_empty_answer_that_would_be_nothing_is_refused(tmp_path: Path) -> None:
    text = """\
guarantee = "ids"
order = "alternate"
generation = { prompt = "" }
calls = { open = "{C}" }
[turn]
user = "{I}{content}{E}"
assistant = "{content:trim_end_spaces}{?calls:{calls}?}"
[call.function]
item = "{F}{call}"
object = { name = "name", arguments = "arguments" }
"""
    codec = bind(load(tmp_path, text))
    ask = {"role": "user", "content": "x"}
    with pytest.raises(MessageError, match=r"messages\[1\].content` is empty"):
        codec.encode([ask, {"role": "assistant", "content": ""}, ask])


def test_an_empty_answer_that_nothing_closes_is_no_prompt(tmp_path: Path) -> None:
    text = """\
guarantee = "ids"
generation = { prompt = "{A}" }
[turn]
user = "{I}{content}{E}"
assistant = ["{A}{F}{reasoning}{C}{content}{E}", "{A}{E}{content}"]
"""
    codec = bind(load(tmp_path, text))
    empty = [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]
    assert codec.decode(codec.encode(empty, add_generation_prompt=False)) == empty
    assert codec.decode(codec.encode(empty[:1])) == empty[:1]


def test_a_turn_of_the_formats_stands_before_the_default_system(tmp_path: Path) -> None:
    begun = Format.built_in("harmony").text
    path = tmp_path / "begun.toml"
    path.write_text(begun.replace("reasoning =", 'default_system = "D"\nreasoning =', 1))
    codec = bind(Format.load(path))
    ask = [{"role": "user", "content": "x"}]
    assert codec.decode(codec.encode(ask).ids) == codec.canonical(ask)
    assert [message["content"] for message in codec.canonical(ask)[1:]] == ["D", "x"]


def test_text_that_arguments_may_begin_with_is_refused_before_them(tmp_path: Path) -> None:
    text = Format.built_in("mistral:v11").text.replace(
        "{ARGS}{~}{arguments}", "{ARGS}{{{arguments}", 1
    )
    path = tmp_path / "brace.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match="that JSON may begin with"):
        Format.load(path, variant="v11")
