"""The call shape of nested tags, on a format that is not built in.

The oracle of what is written is the macro of a published template; of what is read, rules.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import data
import jinja2
import jsonschema
import pytest
from calls import answer, completion, read, read_arguments
from chatcodec import Codec, Format, FormatError, MessageError, Vocab
from chatcodec.events import ActionEnd, Notice
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts
from walks import Walker

if TYPE_CHECKING:
    from pathlib import Path


NESTED = """\
name = "nested"
guarantee = "ids"
source = "a test"
append = ["<|call>", "<call|>", "<|k|>", "<|/k|>"]
generation = { prompt = "{START}model\\n" }

[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
CALL = "<|call>"
CALL_END = "<call|>"
KEY = "<|k|>"
KEY_END = "<|/k|>"

[turn]
user = "{START}user\\n{content}{STOP}\\n"
assistant = "{START}model\\n{content}{?calls:{calls}?}{STOP}\\n"

[call.function]
item = "{CALL}{name}>{arguments}{CALL_END}"
pair = "{KEY}{key}>{value}{KEY_END}{key}>"
list_item = "item"
"""

TEMPLATE = "templates/MiniMax-M3.jinja"
KEYS = st.text("abcXYZ019_- é", min_size=1, max_size=6).map(str.strip).filter(bool)
TEXTS = hostile_texts(max_parts=3).filter(lambda text: "\u2581" not in text)
LOOKS = [
    "1",
    "-2.5",
    "1e3",
    "true",
    "True",
    "null",
    "[1]",
    "{}",
    '{"a": 1}',
    '"x"',
    "007",
    "",
    " 1",
]
LEAVES = st.booleans() | st.integers(-9999, 9999) | TEXTS | st.sampled_from(LOOKS)
VALUES = st.recursive(
    st.none() | LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
CUTS: st.SearchStrategy[Literal["stop", "length"]] = st.sampled_from(("stop", "length"))
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    path = tmp_path_factory.mktemp("nested") / "nested.toml"
    path.write_text(NESTED, encoding="utf-8")
    return Codec(Format.load(path), Vocab.embedded())


def schema_of(value: object) -> dict[str, Any]:
    """A schema that says the type of each value, and the keys of each object."""
    match value:
        case dict():
            return {"type": "object", "properties": {k: schema_of(v) for k, v in value.items()}}
        case list():
            return {"type": "array", "prefixItems": [schema_of(item) for item in value]}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case None:
            return {"type": "null"}
        case _:
            return {"type": "string"}


def tools(schema: object) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", "parameters": schema}}]


def meant(text: str) -> object:
    """What a text without a schema is: a number, a boolean, or itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) and text.strip() != "NaN" else text


def without_schema(value: object) -> object:
    """What is left of a value that is written in tags, and read without a schema."""
    match value:
        case dict():
            members = {k: without_schema(v) for k, v in value.items() if v is not None}
            if list(members) == ["item"]:
                return list(members.values())
            return members or ""
        case list():
            return [without_schema("" if item is None else item) for item in value] or ""
        case str():
            return meant(value)
        case _:
            return value


def is_like_list(value: object) -> bool:
    """Whether an object in a value begins as a list does, and goes on."""
    match value:
        case dict():
            keys = [key for key, inner in value.items() if inner is not None]
            is_mixed = keys[:1] == ["item"] and len(keys) > 1
            return is_mixed or any(map(is_like_list, value.values()))
        case list():
            return any(map(is_like_list, value))
        case _:
            return False


def test_a_call_is_written_as_its_parts(codec: Codec) -> None:
    arguments = {"at": "Paris", "in": {"days": 3, "no": None, "on": [True, {"x": 1.5}]}, "e": []}
    encoding = codec.encode(answer(arguments))
    expected = (
        "<|call>f><|k|>at>Paris<|/k|>at><|k|>in><|k|>days>3<|/k|>days>"
        "<|k|>on><|k|>item>true<|/k|>item><|k|>item><|k|>x>1.5<|/k|>x><|/k|>item><|/k|>on>"
        "<|/k|>in><|k|>e><|/k|>e><call|>"
    )
    assert expected in encoding.text
    assert codec.decode(encoding) == codec.canonical(answer(arguments))


@given(arguments=st.lists(ARGUMENTS, min_size=1, max_size=2))
def test_arguments_come_back_as_their_tags_say(
    codec: Codec, arguments: list[dict[str, Any]]
) -> None:
    messages = answer(*arguments)
    encoding = codec.encode(messages)
    decoded = codec.decode(encoding)
    assert decoded == codec.canonical(messages)
    assert codec.canonical(decoded) == decoded
    assert read_arguments(decoded[-1]) == [without_schema(one) or {} for one in arguments]


@given(arguments=ARGUMENTS, size=st.integers(1, 5))
def test_with_a_schema_all_comes_back_in_any_chunking(
    codec: Codec, arguments: dict[str, Any], size: int
) -> None:
    prompt, ids = completion(codec, arguments)
    stream = codec.stream(prompt=prompt, tools=tools(schema_of(arguments)), keep=True)
    events = [e for at in range(0, len(ids), size) for e in stream.push(ids[at : at + size])]
    events += stream.finish("stop")
    ends = [event for event in events if isinstance(event, ActionEnd)]
    assert [end.complete for end in ends] == [True]
    assert not [event for event in events if isinstance(event, Notice)]

    def kept(value: object) -> object:
        """The value without its members that are null."""
        match value:
            case dict():
                return {k: kept(v) for k, v in value.items() if v is not None}
            case list():
                return [kept(item) for item in value]
            case _:
                return value

    assert read_arguments(stream.message()) == [kept(arguments)]


@given(arguments=ARGUMENTS)
def test_arguments_are_spelled_as_a_published_template_spells_them(
    codec: Codec, arguments: dict[str, Any]
) -> None:
    text = data.find(TEMPLATE).read_text(encoding="utf-8")
    macro = re.search(r"\{%- macro to_xml.*?\{%- endmacro -%\}", text, re.DOTALL)
    assert macro
    environment = jinja2.Environment()  # noqa: S701
    environment.filters["tojson"] = json.dumps
    template = environment.from_string(macro[0] + "{{ to_xml(value, '\\x00tag\\x00') }}")
    published = template.render(value=arguments)
    published = published.replace("\x00tag\x00</", "<|/k|>").replace("\x00tag\x00<", "<|k|>")
    assert f"<|call>f>{published}<call|>" in codec.encode(answer(arguments)).text


@given(value=TEXTS)
def test_text_that_spells_a_tag_stays_text(codec: Codec, value: str) -> None:
    text = value + "<|/k|>a><|k|>b>"
    encoding = codec.encode(answer({"a": text}))
    ids = encoding.ids.tolist()
    assert [ids.count(codec.vocab.control[token]) for token in ("<|k|>", "<|/k|>")] == [1, 1]
    assert read_arguments(codec.decode(encoding)[-1]) == [{"a": text}]


@pytest.mark.parametrize("key", ["", " a", "a>", "a\n", "k" * 2000])
def test_a_key_that_would_not_read_back_is_refused(codec: Codec, key: str) -> None:
    for arguments in ({key: 1}, {"a": {key: 1}}, {"a": [{key: 1}]}):
        with pytest.raises(MessageError, match=r"messages\[1\]\.tool_calls\[0\].*has the key"):
            codec.encode(answer(arguments))


def test_an_object_that_would_read_as_a_list_is_refused(codec: Codec) -> None:
    for arguments in ({"a": {"item": 1, "b": 2}}, {"a": [{"item": 1, "b": 2}]}):
        with pytest.raises(MessageError, match=r"messages\[1\]\.tool_calls\[0\].*read as a list"):
            codec.encode(answer(arguments))
    for good in ({"item": 1, "b": 2}, {"a": {"b": 2, "item": 1}}):
        assert read_arguments(codec.decode(codec.encode(answer(good)))[-1]) == [good]


@pytest.mark.parametrize("arguments", [[1], "a", 1, None])
def test_arguments_are_an_object(codec: Codec, arguments: object) -> None:
    with pytest.raises(MessageError, match="is not a JSON object"):
        codec.encode(answer(arguments))


def test_arguments_are_nested_up_to_a_bound(codec: Codec) -> None:
    def nested(depth: int) -> object:
        return "x" if depth == 0 else {"a": nested(depth - 1)}

    deepest = nested(256)
    assert read_arguments(codec.decode(codec.encode(answer(deepest)))[-1]) == [deepest]
    with pytest.raises(MessageError, match="is nested deeper than 256"):
        codec.encode(answer(nested(257)))
    events, _ = read(codec, "<|call>", "f>", *["<|k|>", "a>"] * 300, "x")
    assert [event.complete for event in events if isinstance(event, ActionEnd)] == [False]


def parts_of(text: str) -> list[str]:
    """`<` is the token that opens a tag, `/` the one that closes it."""
    marks = {"<": "<|k|>", "/": "<|/k|>"}
    return [marks.get(part, part) for part in re.split(r"([</])", text) if part]


TEXT = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("text", "schema", "arguments", "notices"),
    [
        ("\n<a>1/a>\n <b>x/b>\n", None, {"a": 1, "b": "x"}, []),
        ("<a>\n<b>1/b>\n/a>", None, {"a": {"b": 1}}, []),
        ("<a>\nx\n/a>", None, {"a": "\nx\n"}, []),
        ("<a>\n/a>", None, {"a": "\n"}, []),
        ("<a>\n/a>", {"a": OBJECT}, {"a": {}}, []),
        ("<a>/a>", {"a": {"type": "array"}}, {"a": []}, []),
        ("<a>/a>", {"a": {"type": ["array", "string"]}}, {"a": ""}, []),
        ("<a>/a>", {"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}, {"a": None}, []),
        ("<a>null/a>", {"a": {"type": ["string", "null"]}}, {"a": None}, []),
        ("<a>null/a>", None, {"a": "null"}, []),
        ("<a>[1]/a>", None, {"a": "[1]"}, []),
        ("<a>[1]/a>", {"a": {"type": "array"}}, {"a": [1]}, []),
        ('<a>{"b": 1}/a>', {"a": OBJECT}, {"a": {"b": 1}}, []),
        ("<a><b>1/b>/a>", {"a": OBJECT}, {"a": {"b": 1}}, []),
        ("<a><b>True/b>/a>", {"a": {"additionalProperties": {"type": "boolean"}}},
         {"a": {"b": True}}, ["mended"]),
        ("<a><item>1/item>/a>", {"a": {"type": "object", "properties": {"item": TEXT}}},
         {"a": {"item": "1"}}, []),
        ("<a><item>1/item><item>2/item>/a>",
         {"a": {"type": "array", "items": TEXT}}, {"a": ["1", "2"]}, []),
        ("<a><x>1/x><y>2/y>/a>", {"a": {"type": "array"}}, {"a": [1, 2]},
         ["malformed", "mended", "malformed", "mended"]),
        ("<a><item>1/item><b>2/b>/a>", None, {"a": [1, 2]}, ["malformed", "mended"]),
        ("<a>1/b>", None, {"a": 1}, ["malformed", "mended"]),
        ("<a><b>1/a><c>2/c>", None, {"a": {"b": 1}, "c": 2}, ["mended"]),
        ("<a>1<b>2/b>", None, {"a": 1, "b": 2}, ["mended"]),
        ("<a>1/a>odd<b>2/b>", None, {"a": 1, "b": 2}, ["malformed"]),
        ("<a>1", None, {"a": 1}, ["mended"]),
        ("<a><b>1", None, {"a": {"b": 1}}, ["mended"]),
        ("<a<b>2/b>", None, {"b": 2}, ["malformed"]),
    ],
)  # fmt: skip
def test_what_tags_mean(
    codec: Codec, text: str, schema: object, arguments: object, notices: list[str]
) -> None:
    known = tools({"type": "object", "properties": schema}) if schema else None
    events, message = read(
        codec, "<|call>", "f>", *parts_of(text), "<call|>", "<|im_end|>", tools=known
    )
    assert read_arguments(message) == [arguments]
    assert [event.kind for event in events if isinstance(event, Notice)] == notices


def test_references_are_followed_at_any_depth(codec: Codec) -> None:
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        },
    }
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    text = "<next><next><name>1/name>/next>/next>"
    _, message = read(codec, "<|call>", "f>", *parts_of(text), "<call|>", tools=tools(schema))
    assert read_arguments(message) == [{"next": {"next": {"name": "1"}}}]
    loop = {"$ref": "#/$defs/loop", "$defs": {"loop": {"$ref": "#/$defs/loop"}}}
    _, message = read(codec, "<|call>", "f>", *parts_of("<a>1/a>"), "<call|>", tools=tools(loop))
    assert read_arguments(message) == [{"a": 1}]


@pytest.mark.parametrize("text", ["<a", "<a>", "<a>x", "<a><b>1/b>", "<a>1/a"])
def test_a_call_that_is_not_whole_is_not_complete(codec: Codec, text: str) -> None:
    events, message = read(codec, "<|call>", "f>", *parts_of(text))
    assert [event.complete for event in events if isinstance(event, ActionEnd)] == [False]
    assert isinstance(read_arguments(message)[0], dict)


@given(
    parts=st.lists(
        st.sampled_from(
            ["<|k|>", "<|/k|>", "<call|>", "<|call>", "a>", "item>", ">", "f>", " ", "\n"]
        )
        | TEXTS,
        max_size=24,
    ),
    cut=CUTS,
    size=st.integers(1, 4),
)
def test_whatever_a_model_writes_is_read_alike_in_any_chunks(
    codec: Codec, parts: list[str], cut: Literal["stop", "length"], size: int
) -> None:
    control = codec.vocab.control
    ids = [control["<|call>"], *codec.vocab.encode("f>")]
    for part in parts:
        ids += [control[part]] if part in control else codec.vocab.encode(part)

    def told(size: int) -> list[tuple[str, Any]]:
        stream = codec.stream()
        events = [e for at in range(0, len(ids), size) for e in stream.push(ids[at : at + size])]
        events += stream.finish(cut)
        whole: list[tuple[str, Any]] = []
        for event in events:
            kind, text = type(event).__name__, getattr(event, "text", None)
            if kind in ("ActionDelta", "Text") and whole and whole[-1][0] == kind:
                whole[-1] = (kind, whole[-1][1] + text)
            else:
                whole.append((kind, getattr(event, "complete", text)))
        return whole

    events = told(size)
    assert told(len(ids)) == events
    for (kind, text), (next_kind, is_complete) in pairwise(events):
        if kind == "ActionDelta" and next_kind == "ActionEnd" and (is_complete or cut == "stop"):
            json.loads(text)


TREE = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "in": {"$ref": "#/$defs/tree"}},
    "required": ["n"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "leaves": {
        "properties": {
            "text": {"type": "string", "maxLength": 5},
            "unit": {"enum": ["C", "F"]},
            "day": {"type": "string", "format": "date"},
            "count": {"type": "integer", "minimum": 3},
            "on": {"type": "boolean"},
        },
        "required": ["text", "count"],
    },
    "structures": {
        "properties": {
            "list": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
            "pair": {"prefixItems": [{"type": "boolean"}, {"const": "x"}], "items": False},
            "rows": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
            "empty": {"type": "object", "properties": {}, "additionalProperties": False},
        },
        "required": ["list", "rows"],
    },
    "alternatives": {
        "properties": {
            "x": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 10}]},
            "y": {"type": ["null", "string"]},
            "z": {"anyOf": [TREE, {"type": "null"}]},
            "w": {"oneOf": [{"type": "array", "items": {"type": "boolean"}}, {"type": "number"}]},
        },
        "required": ["x"],
    },
    "references": {"properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a"]},
    "any": {"properties": {"x": {}, "y": {"type": "object"}, "z": {"type": "array"}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_admitted_is_read_and_follows_its_schema(codec: Codec, name: str) -> None:
    schema = {"type": "object", "additionalProperties": False, "$defs": {"tree": TREE}}
    schema |= SCHEMAS[name]
    known = tools(schema)
    constraint = codec.constrain(tools=known, tool_choice="required", parallel=False)
    walker = Walker(codec)
    grammar = walker.matcher(constraint.lark())
    prompt = codec.encode(answer({})[:1], add_generation_prompt=True)
    ended = 0
    for seed in range(40):
        ids = walker.walk(grammar, seed, [])
        if ids is None:
            continue
        ended += 1
        stream = codec.stream(prompt=prompt.ids, tools=known, keep=True)
        events = [*stream.push(ids), *stream.finish("stop")]
        (arguments,) = read_arguments(stream.message())
        jsonschema.validate(arguments, schema)
        odd = [event.kind for event in events if isinstance(event, Notice)]
        # The name in a closing tag may be another's, and so may that of a tag in a list.
        is_free = name == "any" and {"mended"} <= set(odd) <= {"malformed", "mended"}
        (end,) = (event for event in events if isinstance(event, ActionEnd))
        assert end.complete or (is_free and "malformed" in odd)
        assert not odd or is_free, (odd, codec.vocab.decode(ids))
    assert ended > 4


@pytest.mark.parametrize("arguments", [{"n": 1}, {"n": 1, "in": {"n": 2}}, {"n": "x"}, {"in": {}}])
def test_what_is_written_is_admitted_if_it_follows_its_schema(
    codec: Codec, arguments: dict[str, Any]
) -> None:
    schema = {**TREE, "$defs": {"tree": TREE}}
    known = tools(schema)
    walker = Walker(codec)
    grammar = walker.matcher(codec.constrain(tools=known, tool_choice="required").lark())
    _, ids = completion(codec, arguments)
    is_valid = jsonschema.Draft202012Validator(schema).is_valid(arguments)
    assert (walker.refused_at(grammar, ids) == len(ids)) == is_valid


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"enum": [{"a": 1}]}, "lists an object or a list"),
        ({"enum": ["5", 6]}, "reads as another value"),
        ({"type": "object", "properties": {"a>b": {}}}, "no tag can hold"),
        ({"anyOf": [{"type": "array"}, {"type": "object", "properties": {"item": {}}}]}, "no tag"),
    ],
)
def test_a_schema_that_tags_cannot_follow_is_refused(
    codec: Codec, part: dict[str, Any], problem: str
) -> None:
    schema = {"type": "object", "properties": {"x": part}, "additionalProperties": False}
    known = tools(schema)
    with pytest.raises(MessageError, match=rf"tools\[0\].*x.*{problem}"):
        codec.constrain(tools=known, tool_choice="required")
    codec.constrain(tools=known, tool_choice="required", strict=False)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('list_item = "item"', "", "is missing beside a `pair` with a second `{key}`"),
        ('list_item = "item"', "list_item = 1", "is not a string"),
        ('list_item = "item"', 'list_item = "it>em"', "expected none with"),
        ('list_item = "item"', 'list_item = ""', "expected 1 to 1024 bytes"),
        ("{KEY_END}{key}>", "{KEY_END}", "expected a `pair` with `{key}`, `{value}` and `{key}`"),
        ("{KEY_END}{key}>", "{KEY}{key}>", "before both keys, expected two tokens"),
        ("{KEY_END}{key}>", "x{KEY_END}{key}>", "has no control token alone before a key"),
        ("{KEY}{key}>{", "{KEY}{key}{", "has no text alone after a key"),
        ("{KEY}{key}>{", "{KEY}{key}>\\n{", "has no text alone after a key"),
        ("{arguments}", "{arguments} ", "has no control token right after its arguments"),
        ("{name}>", "{KEY}{name}>", "which has another use"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, problem: str) -> None:
    assert before in NESTED
    path = tmp_path / "nested.toml"
    path.write_text(NESTED.replace(before, after), encoding="utf-8")
    with pytest.raises(FormatError, match=re.escape(problem)):
        Format.load(path)
