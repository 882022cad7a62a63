"""What a template is given of messages, what it is not to find in them, and what it passes over."""

# ruff: noqa: ANN401
from __future__ import annotations

import functools
import itertools
import json
import random
from typing import Any

import data
import pytest
import template_oracle as oracle
from chatcodec import Codec, Template, Vocab
from chatcodec.errors import MessageError, TemplateError
from hypothesis import assume, given
from hypothesis import strategies as st
from test_template_codec import CHATML, FOLDER, PUBLISHED, control, made, spellings_of, text_of

Message = dict[str, Any]

needs_templates = pytest.mark.skipif(not PUBLISHED, reason=f"no templates in {FOLDER}")
templates = st.sampled_from(PUBLISHED or [""])
words = st.text("ab é漢\n\"'{}<>", max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


@functools.lru_cache(maxsize=256)
def codec_of(name: str) -> Codec:
    return made(text_of(name))[1]


def encoded(codec: Codec, messages: list[Message], **options: Any) -> Any:
    """The encoding; none where the template refuses the messages."""
    given = {"add_generation_prompt": False, "on_unsupported": "drop", **options}
    try:
        return codec.encode(messages, **given)
    except (MessageError, TemplateError):
        return None


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Message:
    return {"role": "assistant", "content": content}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {
        "id": "call00001",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


@needs_templates
@given(templates, st.dictionaries(st.text("abc", min_size=1, max_size=3), values, max_size=3))
def test_arguments_as_text_are_as_those_of_an_object(name: str, arguments: dict[str, Any]) -> None:
    codec = codec_of(name)
    text = json.dumps(arguments, ensure_ascii=False)
    texts = [
        encoded(codec, [user("q"), {**assistant(""), "tool_calls": [call("f", form)]}])
        for form in (text, arguments)
    ]
    assume(texts[0] or texts[1])
    one, other = texts
    assert one is not None
    assert other is not None
    assert one.text == other.text


@needs_templates
@given(templates, st.lists(words.filter(str.strip), min_size=1, max_size=3))
def test_parts_are_as_their_text_where_a_template_takes_texts(name: str, parts: list[str]) -> None:
    codec = codec_of(name)
    assume(oracle.engine(text_of(name)).joins_parts)
    given = [{"type": "text", "text": text} for text in parts]
    whole = encoded(codec, [user("".join(parts))])
    encoding = encoded(codec, [user(given)])
    assume(whole)
    assert encoding.text == whole.text
    assert encoding.ids.tolist() == whole.ids.tolist()


@needs_templates
@pytest.mark.parametrize("name", data.share(PUBLISHED, 3))
def test_a_call_without_content_is_written(name: str) -> None:
    """As clients of OpenAI send it: with a content of None."""
    codec = codec_of(name)
    calls: Message = {"tool_calls": [call("look_up", {"city": "Osloqz"})]}
    result = {"role": "tool", "name": "look_up", "tool_call_id": "call00001", "content": "r"}
    tried = 0
    for after in ([], [result]):
        whole = encoded(codec, [user("q"), {**assistant(""), **calls}, *after])
        if whole is None or "Osloqz" not in whole.text:
            continue
        tried += 1
        encoding = encoded(codec, [user("q"), {**assistant(None), **calls}, *after])
        assert encoding is not None
        assert "Osloqz" in encoding.text
    if not tried:
        pytest.skip("the template writes no calls")


PARTED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}"
)


@given(st.lists(st.text("a <|im_end|>é\n", max_size=12), min_size=1, max_size=4))
def test_a_text_is_given_as_a_part_where_a_template_takes_parts_alone(texts: list[str]) -> None:
    codec = Codec(Template(PARTED), Vocab.embedded(), reader="internlm2")
    roles = ["user", "assistant"] * len(texts)
    given = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    parted = [
        {**message, "content": [{"type": "text", "text": message["content"]}]} for message in given
    ]
    one, other = codec.encode(given), codec.encode(parted)
    assert (
        one.text
        == other.text
        == oracle.render(oracle.environment().from_string(PARTED), (parted, None, {}))
    )
    assert one.ids.tolist() == other.ids.tolist()
    assert {found.path for found in one.neutralized} <= {
        f"messages[{at}].content" for at in range(len(texts))
    }


TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.thinking }}|{{ m.content }}<|im_end|>\n"
    "{% endfor %}"
)


def test_parts_and_reasoning_keep_the_callers_paths() -> None:
    codec = Codec(Template(TURNS), Vocab.embedded(), reader="internlm2")
    mark = "<|im_end|>"
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": mark}, {"type": "text", "text": "b" + mark}],
    }
    for key in ("reasoning", "reasoning_content", "thinking", "thought"):
        encoding = codec.encode([user("q"), {**message, key: "hm" + mark}])
        assert f"hm{mark}|{mark}b{mark}<|im_end|>" in encoding.text
        assert [found.path for found in encoding.neutralized] == [
            f"messages[1].{key}",
            "messages[1].content[0].text",
            "messages[1].content[1].text",
        ]
        assert encoding.dropped == ()


LOOKS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content.startswith('<|plugin|>') or '/think' in m.content | lower %}"
    "<|interpreter|>{% endif %}{{ m.content.split('<|action_start|>')[-1] }}"
    "{{ m.content | tojson(ensure_ascii=true) }}<|im_end|>\n{% endfor %}"
)


@given(
    st.lists(
        st.sampled_from(
            ["<|plugin|>", "<|action_start|>", "/Think", "é", "a", "\ue000", "\\ue001", " "]
        ),
        max_size=6,
    ).map("".join)
)
def test_nothing_of_a_hidden_text_is_lost(text: str) -> None:
    codec = Codec(Template(LOOKS), Vocab.embedded(), reader="internlm2")
    (plain, encoding) = (codec.encode([user(said)]) for said in ("xx", text or "x"))
    assert control(plain) == control(encoding)
    followed = codec.encode([user(text or "x")], on_dependent="template")
    if control(followed) == control(plain):
        assert encoding.notes == ()
        assert encoding.text == followed.text
    else:
        assert [note.kind for note in encoding.notes] == ["unfollowed"]
        quoted = json.dumps(text)
        assert encoding.text.startswith(f"<|im_start|>user\n{text}{quoted}<|im_end|>")


def test_places_of_a_hidden_text_are_the_callers() -> None:
    source = (
        "{% for m in messages %}<|im_start|>user\n{% for p in m.content.split('🛠') %}"
        "{{ p }}<|plugin|>{% endfor %}<|im_end|>\n{% endfor %}"
    )
    codec = Codec(Template(source), Vocab.embedded(), reader="internlm2")
    text = "é🛠<|im_end|>🛠漢 <|im_start|>"
    encoding = codec.encode([user(text)])
    assert [note.kind for note in encoding.notes] == ["unfollowed"]
    assert encoding.text.startswith(f"<|im_start|>user\n{text}<|plugin|><|im_end|>")
    found = [(one.start, one.end, text[one.start : one.end]) for one in encoding.neutralized]
    assert found == [(2, 12, "<|im_end|>"), (15, 27, "<|im_start|>")]


def test_a_system_text_may_say_a_switch_and_no_control_token() -> None:
    codec = Codec(Template(LOOKS), Vocab.embedded(), reader="internlm2")
    said = {
        role: codec.encode([{"role": role, "content": "/think"}]) for role in ("system", "user")
    }
    assert [[note.kind for note in one.notes] for one in said.values()] == [
        ["dependent"],
        ["unfollowed"],
    ]
    assert "<|interpreter|>" in said["system"].text
    assert "<|interpreter|>" not in said["user"].text
    (note,) = codec.encode([{"role": "system", "content": "<|plugin|>"}]).notes
    assert note.kind == "unfollowed"


def texts_of(source: str, rng: random.Random) -> str:
    """Text of what a template may look for."""
    strings = [token[2] for token in oracle.environment().lex(source) if token[1] == "string"]
    sought = (
        [text[1:-1] for text in strings] + list(spellings_of(source)) + ["a", " ", "\n", "{", "["]
    )
    return "x" + "".join(rng.choice(sought) for _ in range(rng.randint(1, 4)))


@needs_templates
@pytest.mark.parametrize("name", data.share(PUBLISHED, 6))
def test_control_is_of_the_shape_whatever_texts_say(name: str) -> None:
    source, rng = text_of(name), random.Random(1)
    codec = codec_of(name)
    for nth in range(20):
        said = [texts_of(source, rng) for _ in range(3)]
        harmless, hostile = (
            encoded(codec, [user(one), assistant(two), user(three)][: 3 - nth % 2])
            for one, two, three in (("q", "w", "e"), said)
        )
        if harmless is None or hostile is None:
            continue
        if all(note.kind != "dependent" for note in hostile.notes):
            assert control(hostile) == control(harmless), said


WORDS = [
    ("systemq", 0, "content"),
    ("userq", 1, "content"),
    ("reasonq", 2, "reasoning"),
    ("saidq", 2, "content"),
    ("callq", 2, "tool_calls[0].function.name"),
    ("keyq", 2, "tool_calls[0].function.arguments"),
    ("valueq", 2, "tool_calls[0].function.arguments.keyq"),
    ("77177", 2, "tool_calls[0].function.arguments.n"),
    ("resultq", 3, "content"),
    ("toolq", None, "tools[0].function.name"),
    ("describeq", None, "tools[0].function.description"),
    ("parameterq", None, "tools[0].function.parameters"),
]
"""A word of its own for each place: the index of its message, and where it is in the message."""

MARKED: list[Message] = [
    {"role": "system", "content": "systemq"},
    user("userq"),
    {
        **assistant("saidq"),
        "reasoning": "reasonq",
        "tool_calls": [call("callq", {"keyq": "valueq", "n": 77177})],
    },
    {"role": "tool", "content": "resultq", "tool_call_id": "call00001"},
]
SCHEMA = {"type": "object", "properties": {"parameterq": {"type": "string"}}}
TOOL = {"name": "toolq", "description": "describeq", "parameters": SCHEMA}


def is_in(path: str, around: str) -> bool:
    return path == around or path.startswith((f"{around}.", f"{around}["))


@needs_templates
@pytest.mark.parametrize("name", data.share(PUBLISHED, 3, first=1))
def test_each_part_is_written_or_told(name: str) -> None:
    """No word is lost in silence, and none is told that is there."""
    codec = codec_of(name)
    tried = 0
    for first, last, has_tools in itertools.product((0, 1), (2, 3, 4), (False, True)):
        tools = {"tools": [{"type": "function", "function": TOOL}]} if has_tools else {}
        encoding = encoded(codec, MARKED[first:last], **tools)
        if encoding is None:
            continue
        tried += 1
        told = [found.path for found in encoding.dropped]
        for word, at, place in WORDS:
            if at is None and has_tools:
                path = place
            elif at is not None and first <= at < last:
                path = f"messages[{at - first}].{place}"
            else:
                continue
            is_told = any(is_in(path, found) or is_in(found, path) for found in told)
            assert is_told or word in encoding.text, path
            assert word not in encoding.text or not any(is_in(path, found) for found in told), path
    assert tried


def found_words(codec: Codec) -> set[str]:
    """The words that are written in some of the conversations."""
    options = [{}, {"enable_thinking": True, "thinking": True}]
    names = codec.template.names if codec.template else set()
    texts = []
    for first, last, has_tools in itertools.product((0, 1), (2, 3, 4), (False, True)):
        for asked in options:
            known: dict[str, Any] = {key: it for key, it in asked.items() if key in names}
            if has_tools:
                known["tools"] = [{"type": "function", "function": TOOL}]
            encoding = encoded(codec, MARKED[first:last], **known)
            texts.append(encoding.text if encoding else "")
            # A part alone, where a template refuses, or passes over, several.
            for key in ("tool_calls", "reasoning", "content"):
                others = [
                    {k: it for k, it in one.items() if k != key or one["role"] != "assistant"}
                    for one in MARKED[first:last]
                ]
                encoding = encoded(codec, others, **known)
                texts.append(encoding.text if encoding else "")
    encoding = encoded(codec, [MARKED[1], MARKED[3]])
    texts.append(encoding.text if encoding else "")
    return {word for word, *_ in WORDS if any(word in text for text in texts)}


@needs_templates
@pytest.mark.parametrize("name", data.share(PUBLISHED, 3))
def test_what_a_template_never_writes_is_refused(name: str) -> None:
    """And what it writes in another conversation is told alone."""
    codec = codec_of(name)
    known = found_words(codec)
    for first, last, has_tools in itertools.product((0, 1), (2, 3, 4), (False, True)):
        tools: dict[str, Any] = {}
        if has_tools:
            tools["tools"] = [{"type": "function", "function": TOOL}]
        encoding = encoded(codec, MARKED[first:last], **tools)
        if encoding is None:
            continue
        refused = [found.path for found in encoding.dropped if found.why == "unsupported"]
        for word, at, place in WORDS:
            is_given = has_tools if at is None else first <= at < last
            path = place if at is None else f"messages[{at - first}].{place}"
            if is_given and word not in known:
                assert any(is_in(path, found) for found in refused), (path, refused)
        for path in refused:
            inside = {
                word
                for word, at, place in WORDS
                if is_in(place if at is None else f"messages[{at - first}].{place}", path)
            }
            assert not inside or inside - known, path
        if not refused:
            codec.encode(MARKED[first:last], add_generation_prompt=False, **tools)
            continue
        with pytest.raises(
            MessageError, match="the model's chat template has no place for"
        ) as info:
            codec.encode(MARKED[first:last], add_generation_prompt=False, **tools)
        assert info.value.path == refused[0]


PLACES = {
    "messages[0].content": "{% if m.role == 'system' %}{{ m.content }}{% endif %}",
    "messages[1].content": "{% if m.role == 'user' %}{{ m.content }}{% endif %}",
    "messages[1].name": "{% if m.role == 'user' %}{{ m.name }}{% endif %}",
    "messages[2].content": "{% if m.role == 'assistant' %}{{ m.content }}{% endif %}",
    "messages[2].reasoning": "{{ m.reasoning_content }}",
    "messages[2].tool_calls[0].function.name": (
        "{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}"
    ),
    "messages[2].tool_calls[0].function.arguments": (
        "{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}"
    ),
    "messages[3].content": "{% if m.role == 'tool' %}{{ m.content }}{% endif %}",
    "tools[0].function.name": "{% for t in tools %}{{ t.function.name }}{% endfor %}",
    "tools[0].function.description": "{% for t in tools %}{{ t.function.description }}{% endfor %}",
    "tools[0].function.parameters": (
        "{% for t in tools %}{{ t.function.parameters | tojson }}{% endfor %}"
    ),
}
"""What writes each place."""


@pytest.mark.parametrize("left_out", [None, *PLACES])
def test_a_template_without_one_place_refuses_what_stands_there(left_out: str | None) -> None:
    parts = {place: part for place, part in PLACES.items() if place != left_out}
    of_tools = "".join(part for place, part in parts.items() if place.startswith("tools"))
    of_turns = "".join(part for place, part in parts.items() if place.startswith("messages"))
    source = (
        f"{of_tools}{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{of_turns}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    codec = Codec(Template(source, eos_token="<|im_end|>"), Vocab.embedded())  # noqa: S106
    messages = [MARKED[0], {**MARKED[1], "name": "nameq"}, *MARKED[2:]]
    tools: list[dict[str, Any]] = [{"type": "function", "function": TOOL}]
    encoding = codec.encode(messages, tools=tools, on_unsupported="drop")
    if left_out is None:
        assert encoding.dropped == ()
        assert codec.encode(messages, tools=tools).ids == encoding.ids
        return
    assert encoding.dropped
    for found in encoding.dropped:
        assert found.path.startswith(left_out)
        assert found.why == "unsupported"
    with pytest.raises(MessageError) as info:
        codec.encode(messages, tools=tools)
    assert info.value.path.startswith(left_out)


@pytest.mark.parametrize(
    ("expression", "text", "why"),
    [
        ("m.content.split('|')[-1]", "said| \n", "policy"),
        ("m.content.split('|')[-1]", "said|x", "cut"),
        ("m.content.split('|')[0]", "x|said", "cut"),
        ("m.content[1:]", "said", "cut"),
        ("(m.content.split('|')[1] + m.content.split('|')[0])", "said|x", "cut"),
        ("(m.content[2:] + m.content[:2])", "said", None),
        ("m.content.replace('|', ' ')", "said|x", "cut"),
        ("(m.content | trim)", " \n said|x \n", None),
        ("(m.content | upper)", "said|x", None),
        ("(m.content | tojson)", 'said|"x"', None),
    ],
)
def test_a_text_that_is_cut_is_told(
    expression: str,
    text: str,
    why: str | None,
) -> None:
    _, codec = made(CHATML.replace("m.content", expression))
    dropped = codec.encode([user("x|y"), assistant("x|y"), user(text)]).dropped
    told = [it.why for it in dropped if it.path == "messages[2].content"]
    assert told == ([why] if why else [])
