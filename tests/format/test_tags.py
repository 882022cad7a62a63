"""Tags, control tokens with text around them, and pairs that say whether a value is a string."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import data
import pytest
import template_oracle as oracle
from chatcodec import Codec, Format, MessageError
from hypothesis import given
from hypothesis import strategies as st
from naive import merged
from strategies import hostile_texts, json_values

if TYPE_CHECKING:
    from naive import Message

TEMPLATE = "templates/deepseek-ai-DeepSeek-V4.jinja"
DSML = "｜DSML｜"
BEGIN = f'<{DSML}tool_calls>\n<{DSML}invoke name="f">\n'
END = f"</{DSML}invoke>\n</{DSML}tool_calls>"
TOKENS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
ALL_TOKENS = (*TOKENS, "<think>", "</think>", DSML)
PIECES = st.sampled_from(["<", "</", "\n", "\n\n<", DSML, 'invoke name="', "tool_calls>", "x", " "])
LOOKALIKES = st.lists(PIECES | hostile_texts(max_parts=1), max_size=5).map("".join)
TEXTS = LOOKALIKES.filter(lambda text: "\u2581" not in text)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return data.load_appended("deepseek:v4", ALL_TOKENS, refuses=False)


def call(**arguments: object) -> dict[str, Any]:
    function = {"name": "f", "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"type": "function", "function": function}


def ids_of(codec: Codec, text: str) -> list[int]:
    """Text whose spelled tokens are tokens."""
    ids: list[int] = []
    rest = text
    while rest:
        at, spelling = (
            min((rest.find(s), s) for s in ALL_TOKENS if s in rest)
            if any(s in rest for s in ALL_TOKENS)
            else (len(rest), "")
        )
        ids += codec.vocab.encode(rest[:at])
        if spelling:
            ids.append(codec.vocab.control[spelling])
        rest = rest[at + len(spelling) :]
    return ids


def test_calls_are_what_the_template_writes(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    """With arguments as objects: the template reads text by a filter of its own."""
    monkeypatch.setitem(oracle.OWN, "bos_token", TOKENS[0])
    source = data.find(TEMPLATE).read_text(encoding="utf-8")
    template = oracle.environment().from_string(source)
    arguments = {"a": "x</", "b": "2", "n": 2, "o": {"k": [None, "é", 1.5]}, "l": [], "t": True}
    for content, results in (("", 0), ("Let me see.", 1), ("Two.\n", 2)):
        calls = [{**call(), "function": {"name": "f", "arguments": a}} for a in (arguments, {})]
        tools: list[Message] = [
            {"role": "tool", "tool_call_id": f"call_{n}", "content": f"r{n}"}
            for n in range(results)
        ]
        messages: list[Message] = [
            {"role": "user", "content": "Q"},
            {"role": "assistant", "content": content, "tool_calls": calls},
            *tools,
        ]
        prompt = results > 0
        scenario = (messages, None, {"add_generation_prompt": prompt})
        written = codec.encode(messages, add_generation_prompt=prompt)
        assert written.text == oracle.render(template, scenario)


@given(
    content=TEXTS,
    arguments=st.dictionaries(st.text('abc_é"', min_size=1), TEXTS | json_values(TEXTS)),
)
def test_text_is_no_tag(codec: Codec, content: str, arguments: dict[str, Any]) -> None:
    """What spells a tag is text, before calls and in their values, and comes back."""
    messages: list[Message] = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": content, "tool_calls": [call(**arguments)]},
    ]
    try:
        encoding = codec.encode(messages)
    except MessageError:
        return
    token = codec.vocab.control[DSML]
    assert list(encoding.ids).count(token) == 4 + 2 * len(arguments)
    decoded = codec.decode(encoding)
    assert decoded == codec.canonical(messages)
    function = decoded[1]["tool_calls"][0]["function"]
    if "\u2581" not in str(arguments):
        assert json.loads(function["arguments"]) == arguments


@given(parts=st.lists(PIECES | st.sampled_from(['parameter name="a" string="true">']), max_size=20))
def test_any_split_gives_the_same_events(codec: Codec, parts: list[str]) -> None:
    ids = ids_of(codec, "".join(parts))
    whole = codec.stream()
    events = [*whole.push(ids), *whole.finish("length")]
    single = codec.stream()
    split = [event for id_ in ids for event in single.push([id_])] + single.finish("length")
    assert merged(split) == merged(events)
    told = "".join(getattr(event, "text", "") for event in events)
    assert told.count(DSML) <= "".join(parts).count(DSML)


def test_ids_are_those_of_the_whole_text() -> None:
    """What the library of the vocabulary makes of the text, which finds the tokens itself."""
    tokenizers = pytest.importorskip("tokenizers")
    path = data.find("vocab/deepseek-v3.2/tokenizer.json")
    known = tokenizers.Tokenizer.from_file(str(path))
    codec = Codec(data.whole("deepseek:v4"), path)
    assert codec.vocab.control[DSML] == 128793
    for content in ("", "So.", "So.\n", "a <", "中文\n\n"):
        calls = [call(a="x\n<", n=[1, "é"]), call()]
        messages: list[Message] = [
            {"role": "user", "content": "Q"},
            {"role": "assistant", "content": content, "reasoning": "R.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_0", "content": content},
        ]
        encoding = codec.encode(messages, tools=[TOOL])
        assert list(encoding.ids) == known.encode(encoding.text, add_special_tokens=False).ids
        read = codec.decode(encoding)[2]
        assert (read["content"], read["reasoning"]) == (content, "R.")
        assert [made["function"] for made in read["tool_calls"]] == [c["function"] for c in calls]


def test_what_is_not_followed_by_a_token_is_text(codec: Codec) -> None:
    for text in ("a\n\n<", "<", "a</", "\n", "a\n\n<b", "\n\n"):
        parsed = codec.parse([*codec.vocab.encode(text), codec.vocab.control[TOKENS[1]]])
        assert parsed.message["content"] == text


def test_a_tag_knows_its_ids(codec: Codec) -> None:
    """The ids of a tag are of the format, and of the call that it stands in."""
    messages: list[Message] = [{"role": "assistant", "content": "x", "tool_calls": [call(a="y")]}]
    encoding = codec.encode(messages)
    token = codec.vocab.control[DSML]
    at = [n for n, id_ in enumerate(encoding.ids) if id_ == token]
    assert len(at) == 6
    assert all(encoding.is_control[n] and not encoding.is_content[n] for n in at)
    assert all(encoding.assistant_mask[n] and encoding.message_indices[n] == 0 for n in at)
    assert sum(encoding.is_control) == 4 + len(at)


def test_a_value_that_is_no_string_by_its_tag(codec: Codec) -> None:
    pair = f'<{DSML}parameter name="a" string="false">{{}}</{DSML}parameter>\n'
    for value, read in (("1", 1), ('"1"', "1"), ("[1, 2]", [1, 2]), ("one", "one")):
        parsed = codec.parse(ids_of(codec, BEGIN + pair.format(value) + END))
        (made,) = parsed.message["tool_calls"]
        assert json.loads(made["function"]["arguments"]) == {"a": read}


def test_a_vocabulary_without_the_token_has_no_calls() -> None:
    plain = Codec(data.whole("deepseek:v4"), data.appended(ALL_TOKENS[:-1]))
    messages: list[Message] = [{"role": "user", "content": f"Hi <{DSML}"}]
    assert plain.decode(plain.encode(messages)) == messages
    with pytest.raises(MessageError):
        plain.encode([{"role": "assistant", "content": "", "tool_calls": [call()]}])
    assert Format.built_in("deepseek:v4").name == "deepseek:v4"
