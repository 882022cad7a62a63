"""P3 for formats: the ids of every built-in one are those of its reference, on ordinary text.

Where a template is the reference, its text is parted at the control tokens, and the vocabulary's
own library encodes each run. ChatGLM3 has an encoder of its own, Mixtral a package.
"""

from __future__ import annotations

import json
import random
import unicodedata
from typing import TYPE_CHECKING, Any

import data
import pytest
import references
import templates
from hypothesis import assume, given
from hypothesis import strategies as st
from references import Message, Reference
from templates import CONTENTS, Case

if TYPE_CHECKING:
    from chatcodec import Codec, Encoding

SIGNS = " \t\r\n\v\u00a0\u3000\u2028aZé ü中文ｶ0129٣'.,:!?()[]{}<>|/\\\"—…😀\u0301\u200d"
TEXTS = st.text(max_size=30) | st.text(SIGNS, max_size=40) | st.sampled_from(CONTENTS)


def load_reference(vocab: str) -> Reference:
    data.find(str(references.FILES[vocab].relative_to(references.SHARED)))
    known = references.reference(vocab)
    assert known is not None
    return known


def test_tool_tokens_of_deepseek_are_those_of_its_later_file() -> None:
    path = data.find("vocab/deepseek-v3.2/tokenizer.json")
    added = json.loads(path.read_text(encoding="utf-8"))["added_tokens"]
    later = {token["content"]: token["id"] for token in added}
    assert {
        name: later.get(name) for name in references.DEEPSEEK_TOOLS
    } == references.DEEPSEEK_TOOLS


def says(role: str, content: str, **keys: Any) -> Message:  # noqa: ANN401
    return {"role": role, "content": content, **keys}


def samples(count: int, size: int = 400) -> list[str]:
    """Pieces of every text of the corpus, cut anywhere."""
    chance = random.Random(7)
    pieces = []
    for _, text in data.corpus(24):
        for _ in range(count):
            at = chance.randrange(len(text))
            pieces.append(text[at : at + chance.randrange(1, size)])
    return pieces


@st.composite
def conversations(draw: st.DrawFn, roles: tuple[str, ...]) -> list[Message]:
    """Ordinary conversations, alternating or not."""
    if draw(st.booleans()):
        first = [says("system", draw(TEXTS))] if draw(st.booleans()) else []
        turns = ("user", "assistant", "user", "assistant")[: draw(st.integers(1, 4))]
        return [*first, *(says(role, draw(TEXTS)) for role in turns)]
    return [says(role, draw(TEXTS)) for role in draw(st.lists(st.sampled_from(roles), min_size=1))]


def is_ordinary(vocab: str, messages: object) -> bool:
    """Whether nothing spells a control token, which the vocabulary's library might take for one."""
    everything = json.dumps(messages, ensure_ascii=False)
    return not any(spelling in everything for spelling in load_reference(vocab).control)


# Formats whose reference is a template: text between control tokens is a run.


TEMPLATES = [
    case
    for case in templates.CASES
    # The template is not ChatGLM3's encoder. Phi-3's control tokens take white space. Of the older
    # DeepSeek's vocabulary there is no file that a library reads.
    if not case.format.startswith(("chatglm3", "phi3")) and case.vocab != "deepseek-llm"
]


def check_runs(case: Case, messages: list[Message], *, prompt: bool) -> Encoding | None:
    """The ids of the template's text, run by run."""
    known = load_reference(case.vocab)
    try:
        text = case.expected(messages, prompt=prompt)
        parts = known.parts(text)
        expected = known.ids(parts)
        asked = prompt or (None if case.format == "llama3" else False)
        encoding = case.codec.encode(messages, add_generation_prompt=asked)
    except ValueError:
        # A template that raises, or what this project refuses: `test_templates.py` says which.
        return None
    assert encoding.ids.tolist() == expected
    check_offsets(case.codec, encoding)
    return encoding


def check_offsets(codec: Codec, encoding: Encoding) -> None:
    """Ids cover the text one after the other; byte-level ones hold the very bytes they cover."""
    raw = encoding.text.encode()
    assert [0, *(end for _, end in encoding.offsets)] == [
        *(start for start, _ in encoding.offsets),
        len(raw),
    ]
    if codec.vocab.kind in {"tiktoken", "tokenizer.json"}:
        for id_, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            assert codec.vocab.token_bytes(id_) == raw[start:end]


@pytest.mark.parametrize("case", TEMPLATES, ids=str)
@given(draw=st.data())
def test_runs_of_a_template_have_the_ids_of_the_library(case: Case, draw: st.DataObject) -> None:
    messages = draw.draw(conversations(case.roles))
    assume(is_ordinary(case.vocab, messages))
    check_runs(case, messages, prompt=draw.draw(st.booleans()))


@pytest.mark.parametrize("case", TEMPLATES, ids=str)
def test_runs_of_real_text_have_the_ids_of_the_library(case: Case) -> None:
    pieces = [piece for piece in samples(12) if is_ordinary(case.vocab, piece)]
    count = 0
    for at in range(0, len(pieces) - 3, 3):
        roles = ("user", "assistant", "user")
        messages = [says(role, pieces[at + i]) for i, role in enumerate(roles)]
        encoding = check_runs(case, messages, prompt=True)
        count += encoding is not None
    assert count > len(pieces) // 6


# Variants that no template of the list prints.


@given(messages=conversations(templates.WITH_TOOL), prompt=st.booleans())
def test_qwen2_instruct_has_a_full_stop(messages: list[Message], *, prompt: bool) -> None:
    case = next(case for case in templates.CASES if case.format == "qwen2")
    known = load_reference("qwen2")
    assume(is_ordinary("qwen2", messages))
    default = "You are a helpful assistant"
    text = case.expected(messages, prompt=prompt)
    if messages[0]["role"] != "system":
        text = text.replace(default, default + ".", 1)
    encoding = data.load_format("qwen2:instruct", "qwen2").encode(
        messages, add_generation_prompt=prompt
    )
    assert encoding.text == unicodedata.normalize("NFC", text)
    assert encoding.ids.tolist() == known.ids(known.parts(text))


@given(messages=conversations(("user", "assistant")), prompt=st.booleans())
def test_deepseek_v3(messages: list[Message], *, prompt: bool) -> None:
    known = load_reference("deepseek-v3")
    assume(is_ordinary("deepseek-v3", messages))
    # A system message without text would leave no trace: it is refused.
    assume(messages[0] != says("system", ""))
    begin, end = templates.DEEPSEEK
    marks = {"system": [], "user": ["<｜User｜>"], "assistant": ["<｜Assistant｜>"]}
    parts: list[references.Part] = [[begin]]
    for message in messages:
        ends = [end] if message["role"] == "assistant" else []
        parts += [list(marks[message["role"]]), message["content"], list(ends)]
    if prompt:
        parts.append(["<｜Assistant｜>"])
    codec = data.load_format("deepseek:v3", "deepseek-v3")
    encoding = codec.encode(messages, add_generation_prompt=prompt)
    assert encoding.ids.tolist() == known.ids(parts)
    assert encoding.text == "".join(
        part if isinstance(part, str) else "".join(map(str, part)) for part in parts
    )


# ChatGLM3: its own encoder, which encodes a message's header and content apart.

TOOLS_PROMPT = (
    "Answer the following questions as best as you can. You have access to the following tools:\n"
)


def chatglm3() -> Codec:
    load_reference("chatglm3")
    return data.load_format("chatglm3", "chatglm3")


@given(messages=conversations(("system", "user", "assistant", "tool")), prompt=st.booleans())
def test_chatglm3_is_encoded_as_its_own_encoder_does(
    messages: list[Message], *, prompt: bool
) -> None:
    codec = chatglm3()
    assume(is_ordinary("chatglm3", messages))
    rows = [(m["role"].replace("tool", "observation"), "", m["content"]) for m in messages]
    encoding = codec.encode(messages, add_generation_prompt=prompt)
    assert encoding.ids.tolist() == references.chatglm3(rows, prompt=prompt)


def test_chatglm3_on_real_text() -> None:
    codec = chatglm3()
    for piece in samples(20):
        if is_ordinary("chatglm3", piece):
            encoding = codec.encode([says("user", piece)])
            assert encoding.ids.tolist() == references.chatglm3([("user", "", piece)], prompt=True)


@pytest.mark.parametrize("system", [None, "You are ChatGLM3.\n"])
def test_chatglm3_with_tools_calls_and_code(system: str | None) -> None:
    codec = chatglm3()
    tools = [
        {
            "name": "get_current_weather",
            "parameters": {"properties": {"location": {"é": [1, None]}}},
        },
        {"name": "track", "description": "追踪", "parameters": {}},
    ]
    arguments = '{"location": "北京", "days": 3, "exact": true, "none": null}'
    source = "import math\n\nprint(math.pi)"
    messages = [
        *([says("system", system)] if system is not None else []),
        says("user", "Wetter?\n"),
        says(
            "assistant",
            " I look. ",
            tool_calls=[
                {
                    "type": "function",
                    "function": {"name": "get_current_weather", "arguments": arguments},
                },
            ],
        ),
        says("tool", '{"temperature": 22}'),
        says(
            "assistant",
            "",
            tool_calls=[
                {"type": "code", "code": {"source": source, "language": "python"}},
            ],
        ),
        says("tool", "```result\n3.14\n```"),
        says("assistant", "22 degrees."),
    ]
    called = '```python\ntool_call(location="北京", days=3, exact=True, none=None)\n```'
    rows = [
        *([("system", "", system)] if system is not None else []),
        ("system", "", TOOLS_PROMPT + json.dumps(tools, ensure_ascii=False, indent=4)),
        ("user", "", "Wetter?\n"),
        ("assistant", "", " I look. "),
        ("assistant", "get_current_weather", called),
        ("observation", "", '{"temperature": 22}'),
        ("assistant", "interpreter", f"```python\n{source}\n```"),
        ("observation", "", "```result\n3.14\n```"),
        ("assistant", "", "22 degrees."),
    ]
    encoding = codec.encode(messages, tools=tools)
    assert encoding.ids.tolist() == references.chatglm3(rows, prompt=False)


def test_chatglm3_writes_the_dummy_prefix_of_header_and_content() -> None:
    """The figures of the model's own code: a newline alone is two ids."""
    codec = chatglm3()
    assert codec.encode([says("user", "Hi")], add_generation_prompt=False).ids == [
        *(64790, 64792, 64795, 30910, 13),
        *load_reference("chatglm3").text("Hi"),
    ]


# Mixtral: mistral-common.

CALL_IDS = st.text("abcXYZ019", min_size=9, max_size=9)
NAMES = st.text("abcXYZ_019", min_size=1, max_size=12)
FILLED = TEXTS.filter(bool)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(-1e6, 1e6) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def written(value: object) -> str:
    """JSON as the package writes it anew."""
    return json.dumps(value, ensure_ascii=False)


def tool(name: str, description: str, parameters: object) -> Message:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = st.lists(
    st.builds(tool, NAMES, TEXTS, st.just({"type": "object", "properties": {}})), max_size=2
)


@st.composite
def mistral_requests(draw: st.DrawFn, *, calls: bool) -> list[Message]:
    """What the package takes: turns that alternate, calls whose results follow in order."""
    messages = [says("system", draw(FILLED))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(says("user", draw(TEXTS)))
        if calls and draw(st.booleans()):
            ids = draw(st.lists(CALL_IDS, min_size=1, max_size=3, unique=True))
            arguments = st.dictionaries(TEXTS, VALUES, max_size=3).map(written)
            made = [
                {
                    "id": id_,
                    "type": "function",
                    "function": {"name": draw(NAMES), "arguments": draw(arguments)},
                }
                for id_ in ids
            ]
            messages.append({"role": "assistant", "tool_calls": made})
            # A result that is a JSON string is quoted here; the package takes what it says.
            values = VALUES.filter(lambda value: not isinstance(value, str))
            results = FILLED.filter(is_no_json) | values.map(written)
            messages += [says("tool", draw(results), tool_call_id=id_) for id_ in ids]
        messages.append(says("assistant", draw(FILLED)))
    if draw(st.booleans()):
        messages.pop()
    return messages


def is_no_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def check_mistral(
    format_: str, vocab: str, messages: list[Message], tools: list[Message] | None = None
) -> None:
    expected = references.mistral(vocab, messages, tools)
    encoding = data.load_format(format_, vocab).encode(messages, tools=tools or None)
    assert encoding.ids.tolist() == expected


@given(draw=st.data())
def test_mixtral_8x7b_has_the_ids_of_mistral_common(draw: st.DataObject) -> None:
    messages = draw.draw(mistral_requests(calls=False))
    assume(is_ordinary("mixtral-8x7b", messages))
    check_mistral("mixtral-8x7b", "mixtral-8x7b", messages)


@given(draw=st.data())
def test_mixtral_8x22b_has_the_ids_of_mistral_common(draw: st.DataObject) -> None:
    messages, tools = draw.draw(mistral_requests(calls=True)), draw.draw(TOOLS)
    assume(is_ordinary("mixtral-8x22b", [messages, tools]))
    check_mistral("mixtral-8x22b", "mixtral-8x22b", messages, tools)


@given(draw=st.data())
def test_mistral_v2_without_calls_has_the_ids_of_mistral_common(draw: st.DataObject) -> None:
    messages, tools = draw.draw(mistral_requests(calls=False)), draw.draw(TOOLS)
    assume(is_ordinary("mixtral-8x22b-v2", [messages, tools]))
    check_mistral("mixtral-8x22b", "mixtral-8x22b-v2", messages, tools)


LATER = [
    ("mistral", "mistral"),
    ("mistral", "tekken-v7"),
    ("mistral:v11", "tekken-v11"),
    ("mistral:v13", "tekken-v13"),
]
"""Formats of Mistral's later tokenizers, and vocabularies of their versions."""


@st.composite
def later_requests(draw: st.DrawFn, *, reasons: bool) -> list[Message]:
    """As before, with text beside calls, and with reasoning."""
    messages = draw(mistral_requests(calls=True))
    for message in messages:
        if message["role"] != "assistant":
            continue
        if "tool_calls" in message and draw(st.booleans()):
            message["content"] = draw(FILLED)
        if reasons and message.get("content", "").strip() and draw(st.booleans()):
            # Beside reasoning the package keeps what it strips elsewhere.
            message["content"] = message["content"].rstrip(" ")
            message["reasoning"] = draw(FILLED)
    return messages


def in_chunks(message: Message) -> Message:
    """A message as the package takes it: with reasoning as a chunk."""
    rest = {key: value for key, value in message.items() if key != "reasoning"}
    if "reasoning" not in message:
        return rest
    thinking = {"type": "thinking", "thinking": message["reasoning"], "closed": True}
    return {**rest, "content": [thinking, {"type": "text", "text": message["content"]}]}


@pytest.mark.parametrize(("format_", "vocab"), LATER)
@given(draw=st.data())
def test_mistral_has_the_ids_of_mistral_common(
    format_: str, vocab: str, draw: st.DataObject
) -> None:
    codec = data.load_format(format_, vocab)
    messages = draw.draw(later_requests(reasons=format_ == "mistral:v13"))
    tools = draw.draw(TOOLS)
    everything = json.dumps([messages, tools], ensure_ascii=False)
    assume(not any(spelling in everything for spelling in codec.vocab.control))
    expected = references.mistral(vocab, [in_chunks(message) for message in messages], tools)
    encoding = codec.encode(messages, tools=tools or None)
    assert encoding.ids.tolist() == expected
    assert codec.decode(encoding) == codec.canonical(messages, tools=tools or None)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "mixtral-8x22b"])
def test_mixtral_on_real_text(name: str) -> None:
    pieces = [piece for piece in samples(9) if piece.strip() and is_ordinary(name, piece)]
    for at in range(0, len(pieces) - 3, 3):
        roles = ("user", "assistant", "user")
        messages = [says(role, pieces[at + i]) for i, role in enumerate(roles)]
        check_mistral(name, name, messages)


def test_mixtral_8x22b_on_real_calls() -> None:
    count = 0
    for at, (given_, tools) in enumerate(data.chats()):
        messages, last = [], ""
        for message in map(dict, given_):
            if message.get("tool_calls"):
                last = f"call{at:05}"
                function = message["tool_calls"][0]["function"]
                arguments = written(function["arguments"])
                call = {"name": function["name"], "arguments": arguments}
                message["tool_calls"] = [{"id": last, "type": "function", "function": call}]
            if message["role"] == "tool":
                message["tool_call_id"] = last
                if not is_no_json(message["content"]):
                    message["content"] = written(json.loads(message["content"]))
            messages.append(message)
        declared = [
            tool(one["name"], one["description"], one["parameters"])
            for one in json.loads(tools or "[]")
        ]
        try:
            expected = references.mistral("mixtral-8x22b", messages, declared)
        except ValueError:
            continue
        encoding = data.load_format("mixtral-8x22b", "mixtral-8x22b").encode(
            messages, tools=declared or None
        )
        assert encoding.ids.tolist() == expected
        count += 1
        if count == 150:
            return
    pytest.fail(f"only {count} conversations that the package takes")


# Phi-3: the whole text, because control tokens take white space beside them.

PHI3 = ("phi3", "phi3-mini", "phi3-medium", "phi3-vision")


def check_phi3(vocab: str, messages: list[Message], *, prompt: bool) -> None:
    case = next(case for case in templates.CASES if case.format == "phi3")
    known = load_reference(vocab)
    encoding = data.load_format("phi3", vocab).encode(messages, add_generation_prompt=prompt)
    assert encoding.ids.tolist() == known.run(case.expected(messages, prompt=prompt))


@pytest.mark.parametrize("vocab", PHI3)
@given(draw=st.data())
def test_phi3_has_the_ids_of_the_whole_text(vocab: str, draw: st.DataObject) -> None:
    """Up to white space where content begins, which a token that strips would take."""
    messages = draw.draw(conversations(templates.PLAIN))
    messages = [{**m, "content": m["content"].lstrip()} for m in messages]
    assume(is_ordinary(vocab, messages))
    check_phi3(vocab, messages, prompt=draw.draw(st.booleans()))


@pytest.mark.parametrize("vocab", PHI3)
def test_phi3_on_real_text(vocab: str) -> None:
    for piece in samples(12):
        if is_ordinary(vocab, piece):
            messages = [says(role, piece.lstrip()) for role in ("user", "assistant")]
            check_phi3(vocab, messages, prompt=False)


@pytest.mark.parametrize("vocab", PHI3)
def test_phi3_keeps_white_space_that_the_reference_takes(vocab: str) -> None:
    known = load_reference(vocab)
    codec = data.load_format("phi3", vocab)
    contents = ["x", " x", "   x", "\nx", "\n\n\nx", "\t x"]
    encodings = [codec.encode([says("user", content)]) for content in contents]
    assert len({tuple(encoding.ids) for encoding in encodings}) == len(contents)
    for content, encoding in zip(contents, encodings, strict=True):
        assert codec.decode(encoding) == [says("user", content)]
    same = {tuple(known.run(f"<|user|>\n{content}<|end|>")) for content in contents}
    strips = vocab in {"phi3-mini", "phi3-medium"}
    assert len(same) == (1 if strips else len(contents)), "the files are others than they were"
