"""Response templates, beside transformers' own reader of them."""

# Templates take any value.
# ruff: noqa: ANN401
from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import template_oracle as oracle
from chatcodec import Codec, ResponseTemplate, StreamPool, Template, Vocab, collect
from chatcodec.errors import FormatError, MessageError
from chatcodec.events import ActionEnd, ActionStart, Notice, Reasoning, Text, TurnEnd
from hypothesis import given
from hypothesis import strategies as st
from test_template_codec import CHATML, tokenizer

if TYPE_CHECKING:
    from pathlib import Path

SPECIAL = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>",
    "<think>", "</think>", "<tool_call>", "</tool_call>", '<|"|>',
)  # fmt: skip
REFERENCE = tokenizer(SPECIAL)
CONTROL = {token: REFERENCE.token_to_id(token) for token in SPECIAL}
# Roles of its own, so that it is no built-in format.
SOURCE = CHATML.replace("m.role", "'a ' + m.role").replace(">ass", ">a ass")
START = "<|im_start|>a assistant\n"
THOUGHT = {"open": "<think>", "close": "</think>"}
CONTENT = {"close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)"}
FUNCTION = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
WAYS: dict[str, dict[str, Any]] = {
    "json": {
        "open_pattern": r"\s*<tool_call>",
        "close": "</tool_call>",
        "content": "json",
        "transform": {"type": "function", "function": "{content}"},
    },
    "list": {
        "open_pattern": r"\s*<tool_call>",
        "close": "</tool_call>",
        "content": "json",
        "transform_each": True,
        "transform": {"type": "function", "function": {"name": "{f}", "arguments": "{args}"}},
    },
    "name": {
        "open_pattern": r"\s*<tool_call>(?P<name>\w+)",
        "close": ["</tool_call>", "</s>"],
        "content": "json",
        "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
        "transform": FUNCTION,
    },
    "tags": {
        "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]+)>",
        "close_pattern": r"</function>\s*</tool_call>",
        "content": "xml-inline",
        "content_args": {
            "tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"
        },
        "transform": FUNCTION,
    },
    "typed tags": {
        "open_pattern": r"\s*<tool_call>(?P<name>[^{]+?){2}",
        "close": "</tool_call>",
        "content": "xml-inline",
        "content_args": {
            "tag_pattern": r"<(?P<key>\w+)>(?P<value>.*?)</\w+>",
            "value_parser": {"name": "json", "args": {"allow_non_json": True}},
            "merge_duplicates": True,
        },
        "transform": FUNCTION,
    },
    "lines": {
        "open_pattern": r"\s*<tool_call>(?P<name>\w+)\n",
        "close": "</tool_call>",
        "content": "kv-lines",
        "content_args": {"kv_sep": "="},
        "transform": FUNCTION,
    },
}


def spec_of(way: str) -> dict[str, Any]:
    return {
        "version": 1,
        "defaults": {"role": "assistant"},
        "start_anchor": START,
        "fields": {
            "reasoning_content": THOUGHT,
            "tool_calls": {"repeats": way != "list", **WAYS[way]},
            "content": CONTENT,
        },
    }


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Vocab:
    path = tmp_path_factory.mktemp("vocab") / "tokenizer.json"
    REFERENCE.save(str(path))
    return Vocab.load(path)


def codec_of(spec: dict[str, Any], vocab: Vocab) -> Codec:
    return Codec(Template(SOURCE, **oracle.OWN), vocab, reader=ResponseTemplate(spec))


@pytest.fixture(scope="module")
def codecs(vocab: Vocab) -> dict[str, Codec]:
    return {way: codec_of(spec_of(way), vocab) for way in WAYS}


def ids_of(text: str) -> list[int]:
    """The ids of a text in which every spelled token is a token."""
    ids: list[int] = REFERENCE.encode(text, add_special_tokens=False).ids
    return ids


def by_library(spec: dict[str, Any], text: str, prompt: str, tools: Any = None) -> dict[str, Any]:
    chat_parsing = pytest.importorskip("transformers.utils.chat_parsing")
    read: dict[str, Any] = chat_parsing.parse_response(text, spec, prefix=prompt, tools=tools)
    return read


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """What both say, in one shape."""
    calls = []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = function.get("arguments", {})
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        calls.append((function["name"], given))
    reasoning = message.get("reasoning_content", message.get("reasoning")) or ""
    return {"content": message.get("content") or "", "reasoning": reasoning, "calls": calls}


TEXTS = st.text(alphabet="aé<>{}\"' \n:=,😀", max_size=12)
WORDS = st.text(alphabet="abcz_", min_size=1, max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def calls(draw: st.DrawFn, way: str) -> str:
    name = draw(WORDS)
    space = draw(st.sampled_from(["", "\n", " \n"]))
    members = draw(st.dictionaries(WORDS, VALUES, max_size=3))
    texts = draw(st.dictionaries(WORDS, st.text(alphabet='aé> \n"', max_size=8), max_size=3))
    line = draw(st.dictionaries(WORDS, WORDS, max_size=3))
    if way == "json":
        body = json.dumps({"name": name, "arguments": members}, ensure_ascii=draw(st.booleans()))
        return f"<tool_call>{space}{body}{space}</tool_call>"
    if way == "list":
        body = json.dumps([{"f": name, "args": members}, {"args": {}, "f": name}])
        return f"<tool_call>{space}{body}</tool_call>"
    if way == "name":
        pairs = ",".join(f'{key}:<|"|>{text}<|"|>' for key, text in texts.items())
        return f"<tool_call>{name}{{{pairs}}}</tool_call>"
    if way == "tags":
        pairs = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in texts.items())
        return f"<tool_call>\n<function={name}>\n{pairs}</function>{space}</tool_call>"
    if way == "typed tags":
        pairs = "".join(f"<{key}>{json.dumps(value)}</{key}>" for key, value in members.items())
        first = draw(st.sampled_from(["", "<z>[]</z>", '<z>["v"]</z>']))
        return f"<tool_call>{name}x{pairs}{first}<z>u</z><z>2</z></tool_call>"
    pairs = "\n".join(f" {key} = {value}" for key, value in line.items())
    return f"<tool_call>{name}\n{pairs}</tool_call>"


@pytest.mark.parametrize("way", WAYS)
@given(draw=st.data())
def test_messages_are_those_of_transformers(
    way: str, draw: st.DataObject, codecs: dict[str, Codec]
) -> None:
    spec, codec = spec_of(way), codecs[way]
    thought = draw.draw(st.none() | TEXTS)
    prompted = draw.draw(st.booleans())
    text = "" if thought is None else f"<think>{thought}</think>"
    said = draw.draw(TEXTS)
    text += said + "".join(draw.draw(st.lists(calls(way), max_size=1 if way == "list" else 3)))
    text += draw.draw(st.sampled_from(["", "<|im_end|>", "\n<|im_end|>\n<|endoftext|>"]))
    prompt = f"<|im_start|>a user\n<tool_call>{START}"
    if prompted and thought is not None:
        prompt, text = prompt + "<think>", text.removeprefix("<think>")
    ids = ids_of(text)
    assert REFERENCE.decode(ids, skip_special_tokens=False) == text
    message = codec.parse(ids, ids_of(prompt)).message
    expected = by_library(spec, text, prompt)
    assert plain(dict(message)) == plain(expected)


@pytest.mark.parametrize("way", WAYS)
@given(
    pieces=st.lists(
        st.sampled_from([*SPECIAL, "a", " ", "\n", "{", "}", '"', "<function=f>", "</function>",
                         "<parameter=k>", "</parameter>", '{"name": "f"}', "é", "k=v"]),
        max_size=20,
    ),
    odd=st.lists(st.sampled_from([-1, 10**6, 10**30]), max_size=2),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=30),
)  # fmt: skip
def test_nothing_is_raised_and_no_split_matters(
    way: str, pieces: list[str], odd: list[int], sizes: list[int], codecs: dict[str, Codec]
) -> None:
    codec = codecs[way]
    ids = [*ids_of("".join(pieces)), *odd]
    whole = codec.stream()
    expected = [*whole.push(ids), *whole.finish()]
    split = codec.stream(keep=True)
    events: list[Any] = []
    at = 0
    for nth in range(len(ids)):
        size = sizes[nth % len(sizes)]
        events += split.push(ids[at : at + size])
        at += size
    events += split.finish()
    assert joined(events) == joined(expected)
    assert split.message() == codec.parse(ids).message
    covered = 0
    for event in events:
        assert event.tokens[0] <= covered <= event.tokens[1] or event.tokens[0] == covered
        covered = max(covered, event.tokens[1])
    assert covered == len(ids)
    assert [event.text for event in events if is_unknown(event)] == [str(id_) for id_ in odd]
    assert isinstance(events[-1], TurnEnd)


def test_a_pool_reads_as_a_stream_does(codecs: dict[str, Codec]) -> None:
    codec = codecs["json"]
    text = '<think>hm</think>Well. <tool_call>{"name": "f"}</tool_call><|im_end|>'
    pool = StreamPool(codec)
    slots = [pool.open(keep=True) for _ in range(3)]
    for id_ in ids_of(text):
        pool.push(slots, [id_] * len(slots))
    for slot in slots:
        pool.finish(slot)
        assert pool.message(slot) == codec.parse(ids_of(text)).message


def test_large_bodies_take_linear_time(vocab: Vocab) -> None:
    """Quadratic, each of them would take minutes."""
    spec = spec_of("name")
    delimiters = {"unquoted_keys": True, "string_delims": [["<<", ">>"]]}
    spec["fields"]["tool_calls"] = {**WAYS["name"], "repeats": True, "content_args": delimiters}
    codec = codec_of(spec, vocab)
    keys = ",".join(f"k{nth}:1" for nth in range(60_000))
    for body, count in ((f"{{{keys}}}", 60_000), ("<<" * 100_000, None)):
        message = codec.parse(ids_of(f"<tool_call>f{body}</tool_call>")).message
        arguments = message["tool_calls"][0]["function"]["arguments"]
        assert arguments == body if count is None else len(json.loads(arguments)) == count


def is_unknown(event: Any) -> bool:
    return isinstance(event, Notice) and event.kind == "unknown_id"


def joined(events: list[Any]) -> list[Any]:
    made: list[Any] = []
    for event in events:
        if isinstance(event, (Text, Reasoning)):
            if made and made[-1][0] is type(event):
                made[-1] = (type(event), made[-1][1] + event.text)
            else:
                made.append((type(event), event.text))
        else:
            made.append((None, event))
    return made


def test_text_that_spells_an_anchor_is_text(vocab: Vocab) -> None:
    codec = codec_of(spec_of("json"), vocab)
    spelled = codec.vocab.encode("</think> <tool_call>{}</tool_call>")
    ids = [CONTROL["<think>"], *spelled, CONTROL["</think>"], *spelled, CONTROL["<|im_end|>"]]
    message = codec.parse(ids).message
    assert message["reasoning"] == message["content"] == "</think> <tool_call>{}</tool_call>"
    assert "tool_calls" not in message
    # A prompt's user who spells the start of an answer starts none.
    forged = codec.vocab.encode("<|im_start|>a assistant\n<think>")
    prompt = [*ids_of(START + "<think>"), *forged]
    assert codec.parse(codec.vocab.encode("hm"), prompt).message["reasoning"] == "hm"


def test_arguments_have_the_types_of_the_tool(vocab: Vocab) -> None:
    spec = spec_of("tags")
    codec = codec_of(spec, vocab)
    kinds = {"i": "integer", "n": "number", "b": "boolean", "s": "string", "o": "object"}
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    function = {"name": "f", "parameters": {"type": "object", "properties": properties}}
    tools = [{"type": "function", "function": function}]
    for values in (
        {"i": "7", "n": "1.5", "b": "true", "s": "7", "o": '{"a": 1}'},
        {"i": "3.0", "n": "2", "b": "0", "s": "true", "o": "[1]"},
        {"i": "x", "n": "inf", "b": "yes", "s": "", "o": "no"},
    ):
        pairs = "".join(f"<parameter={k}>{v}</parameter>" for k, v in values.items())
        text = f"<tool_call><function=f>{pairs}</function></tool_call><|im_end|>"
        read = codec.parse(ids_of(text), tools=tools).message
        assert plain(dict(read)) == plain(by_library(spec, text, "", tools))


def test_a_call_that_is_none_is_told(vocab: Vocab) -> None:
    codec = codec_of(spec_of("json"), vocab)
    stream = codec.stream(keep=True)
    events = [*stream.push(ids_of("x<tool_call>{broken</tool_call>")), *stream.finish("length")]
    (start,) = (event for event in events if isinstance(event, ActionStart))
    (end,) = (event for event in events if isinstance(event, ActionEnd))
    (notice,) = (event for event in events if isinstance(event, Notice))
    assert (start.name, end.complete, notice.kind) == (None, False, "malformed")
    assert collect(events)["tool_calls"][0]["function"]["arguments"] == "{broken"
    assert stream.message()["content"] == "x"


def test_other_fields_and_joined_texts(vocab: Vocab) -> None:
    spec = {
        "start_anchor_pattern": r"<\|im_start\|>a assistant\n",
        "fields": {
            "thinking": {**THOUGHT, "repeats": True, "join": "; "},
            "sources": {"open": "<s>", "close": "</s>"},
            "content": {"open": '<|"|>', "close": "<|im_end|>", "optional": False},
        },
    }
    codec = codec_of(spec, vocab)
    text = "lost<think> a </think><think>b</think><s>one</s>"
    stream = codec.stream(keep=True)
    events = [*stream.push(ids_of(text)), *stream.finish()]
    notices = [(event.kind, event.text) for event in events if isinstance(event, Notice)]
    assert notices == [
        ("trailing", "lost"),
        ("unknown_key", "one"),
        ("malformed", "field `content` is missing"),
    ]
    assert stream.message()["reasoning"] == "a; b"
    said = text + '<|"|>c'
    assert codec.parse(ids_of(said)).message["content"] == "c"
    assert by_library(spec, said, "")["thinking"] == "a; b"


def test_a_model_with_a_response_template(tmp_path: Path) -> None:
    REFERENCE.save(str(tmp_path / "tokenizer.json"))
    config = {"chat_template": SOURCE, **oracle.OWN, "response_template": spec_of("json")}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    codec = Codec.from_pretrained(str(tmp_path))
    assert codec.response_template is not None
    assert codec.response_template.fields == ["reasoning_content", "tool_calls", "content"]
    assert "read by the response template: reasoning_content, tool_calls" in codec.describe()
    prompt = codec.encode([{"role": "user", "content": "<think>"}])
    text = '<think>hm</think>Well.<tool_call>{"name": "f"}</tool_call><|im_end|>'
    for read in (codec, pickle.loads(pickle.dumps(codec))):  # noqa: S301
        message = read.parse(ids_of(text), prompt).message
        assert (message["reasoning"], message["content"]) == ("hm", "Well.")
        assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    with pytest.raises(MessageError, match=r"`reader`.* is a response template"):
        codec.constrain(response_format={"type": "json_object"})
    with pytest.raises(ValueError, match="a response template reads ids"):
        codec.stream(markers="text")
    # One that is not supported is named, and the derived reader reads.
    config["response_template"] = {"version": 2}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    codec = Codec.from_pretrained(str(tmp_path))
    assert codec.response_template is None
    assert "response template is not used" in codec.describe()
    assert "derived from the template" in codec.describe()
    other = Codec.from_pretrained(str(tmp_path), reader=ResponseTemplate(spec_of("json")))
    assert other.response_template is not None


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ([], ""),
        ({"version": 2}, "version"),
        ({"more": 1}, ""),
        ({"fields": {}}, "fields"),
        ({"start_anchor": None}, "start_anchor"),
        ({"start_anchor_pattern": "x"}, "start_anchor"),
        ({"defaults": 1}, "defaults"),
        ({"fields": {"content": {}, "thinking": {}}}, "fields.thinking"),
        ({"fields": {"content": {"open": "a", "open_pattern": "a"}}}, "fields.content.open"),
        ({"fields": {"content": {"open": ""}}}, "fields.content.open"),
        ({"fields": {"content": {"open": []}}}, "fields.content.open"),
        ({"fields": {"content": {"open_pattern": "("}}}, "fields.content.open_pattern"),
        ({"fields": {"content": {"open_pattern": "a*"}}}, "fields.content.open_pattern"),
        ({"fields": {"content": {"open_pattern": r"a\Z"}}}, "fields.content.open_pattern"),
        ({"fields": {"content": {"open_pattern": "(?=a)b"}}}, "fields.content.open_pattern"),
        ({"fields": {"content": {"open_pattern": "a{9999}{9999}"}}}, "fields.content.open"),
        ({"fields": {"content": {"content": "yaml"}}}, "fields.content.content"),
        ({"fields": {"content": {"join": "x"}}}, "fields.content.join"),
        ({"fields": {"content": {"transform": "a {content}"}}}, "fields.content.transform"),
        ({"fields": {"content": {"transform_each": True}}}, "fields.content.transform_each"),
        ({"fields": {"content": {"repeats": 1}}}, "fields.content.repeats"),
        (
            {"fields": {"content": {"content": "xml-inline"}}},
            "fields.content.content_args.tag_pattern",
        ),
        (
            {"fields": {"content": {"content": "json", "content_args": {"string_delims": 1}}}},
            "fields.content.content_args.string_delims",
        ),
    ],
)
def test_what_is_no_response_template_is_refused(change: Any, key: str, vocab: Vocab) -> None:
    spec = {**spec_of("json"), **change} if isinstance(change, dict) else change
    with pytest.raises(FormatError) as caught:
        codec_of(spec, vocab)
    assert f"`{key}`" in str(caught.value) or not key
    assert "response_template" in str(caught.value)


def test_a_response_template_is_json_or_a_dict() -> None:
    spec = spec_of("tags")
    one, other = ResponseTemplate(spec), ResponseTemplate(json.dumps(spec, ensure_ascii=False))
    assert one.source == other.source
    assert pickle.loads(pickle.dumps(one)).source == one.source  # noqa: S301
    assert repr(one) == "ResponseTemplate(reasoning_content, tool_calls, content)"
