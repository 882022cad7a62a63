"""Tools as types of TypeScript with the required parameters first: Kimi K2.5.

The oracle is the code that the model was published with, and JSON where that code refuses a schema;
what its template does with a conversation beside tools is compared in `test_published_families.py`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import MessageError
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts
from test_published_families import KIMI_TOOLS, codec_of, declared_by

if TYPE_CHECKING:
    from chatcodec import Codec

KEYS = st.text("abXY_9", min_size=1, max_size=4) | st.sampled_from(["type", "é", "Z", "enum"])
TEXTS = hostile_texts(max_parts=2).filter(lambda text: "\u2581" not in text)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(KEYS, LEAVES, max_size=3)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"])
DEFINED = st.sampled_from(["A", "B", "C"])


def rarely(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual values, and in one case of thirty another."""
    return st.integers(0, 29).flatmap(lambda number: odd if number == 0 else usual)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of all kinds that the code tells apart, and a few that it refuses."""
    common: dict[str, Any] = {"description": rarely(TEXTS, VALUES), "default": VALUES}
    bounds: dict[str, Any] = {
        "maxLength": LEAVES,
        "minLength": LEAVES,
        "pattern": TEXTS,
        "maximum": LEAVES,
        "minimum": LEAVES,
        "minItems": LEAVES,
        "maxItems": LEAVES,
    }

    def of(kind: st.SearchStrategy[Any], **more: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401
        return st.fixed_dictionaries({"type": kind}, optional=common | bounds | more)

    definitions = st.dictionaries(DEFINED, inner, max_size=2)
    properties = rarely(st.dictionaries(KEYS, inner, max_size=3), VALUES)
    reference = rarely(DEFINED.map("#/$defs/{}".format) | st.just("#"), TEXTS)
    return st.one_of(
        of(rarely(TYPES, st.just("date") | st.lists(TYPES, max_size=2))),
        of(st.lists(rarely(TYPES, st.just("any")), min_size=1, max_size=3)),
        of(st.just("array"), items=rarely(inner, VALUES)),
        of(
            st.just("object"),
            properties=properties,
            required=rarely(st.lists(KEYS, max_size=3), st.lists(VALUES, max_size=2)),
            additionalProperties=rarely(inner, VALUES),
            **{"$defs": rarely(definitions, st.none())},
        ),
        of(
            st.sampled_from(["string", "number", "integer", "boolean", ["integer", "null"]]),
            enum=st.lists(st.integers() | TEXTS, max_size=2),
        ),
        st.fixed_dictionaries({"enum": st.lists(LEAVES, max_size=3)}, optional=common),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)}, optional=common),
        st.fixed_dictionaries({"$ref": reference}, optional=common),
        rarely(st.just({}) | st.booleans(), st.fixed_dictionaries({"description": TEXTS}) | VALUES),
    )


SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": TYPES}, optional={"description": TEXTS}), schemas, max_leaves=5
)
PARAMETERS = st.fixed_dictionaries(
    {"properties": st.dictionaries(KEYS, SCHEMAS, max_size=3)},
    optional={
        "required": st.lists(KEYS, max_size=2),
        "additionalProperties": st.booleans() | SCHEMAS,
        "$defs": st.fixed_dictionaries({"A": SCHEMAS, "B": SCHEMAS}, optional={"C": SCHEMAS}),
    },
)
FUNCTIONS = st.fixed_dictionaries(
    {"name": st.text("abc_", min_size=1, max_size=6)},
    optional={"description": TEXTS, "parameters": rarely(PARAMETERS, st.none() | st.just({}))},
)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return codec_of("kimi-k2.5")


def tools_of(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": function} for function in functions]


@given(functions=st.lists(FUNCTIONS, min_size=1, max_size=2))
def test_tools_are_written_as_the_published_code_writes_them(
    codec: Codec, functions: list[dict[str, Any]]
) -> None:
    tools = tools_of(functions)
    encoding = codec.encode([{"role": "user", "content": "Hi"}], tools=tools)
    before = "<|im_system|>tool_declare<|im_middle|>"
    after = "<|im_end|><|im_user|>user<|im_middle|>Hi"
    written = encoding.text.removeprefix(before).partition(after)[0]
    assert written == declared_by(KIMI_TOOLS, tools)
    (declared, _) = codec.decode(encoding.ids)
    assert declared["content"] == written
    assert codec.encode([declared, {"role": "user", "content": "Hi"}]).ids == encoding.ids


def test_the_code_refuses_and_the_format_writes_json(codec: Codec) -> None:
    parameters = {"type": "object", "properties": {"b": {}, "a": {"description": "Any."}}}
    tools = tools_of([{"name": "f", "parameters": parameters}])
    text = codec.encode([{"role": "user", "content": "Hi"}], tools=tools).text
    json_ = (
        '[{"function":{"name":"f","parameters":{"properties":{"a":{"description":"Any."},"b":{}},'
        '"type":"object"}},"type":"function"}]<|im_end|>'
    )
    assert text.startswith(f"<|im_system|>tool_declare<|im_middle|>{json_}")


FUNCTION: dict[str, Any] = {
    "name": "f",
    "description": "Does it.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "What.", "enum": ["x"]}},
        "required": ["a"],
    },
}
HALF = "\ud800"


def put(*path: str | int) -> dict[str, Any]:
    """The function with half of a surrogate pair there."""
    function = copy.deepcopy(FUNCTION)
    at: Any = function
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = HALF
    return function


@pytest.mark.parametrize(
    "function",
    [
        put("name"),
        put("description"),
        put("parameters", "properties", "a", "description"),
        put("parameters", "properties", "a", "enum", 0),
        put("parameters", "required", 0),
        {**FUNCTION, "parameters": {"type": "object", "properties": {HALF: {"type": "string"}}}},
    ],
)
def test_half_of_a_surrogate_pair_is_refused(codec: Codec, function: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    codec.encode(messages, tools=tools_of([FUNCTION]))
    with pytest.raises(
        MessageError, match=r"`tools\[0\](\.function\.name)?` holds half of a surrogate pair"
    ):
        codec.encode(messages, tools=tools_of([function]))


@pytest.mark.parametrize(("value", "problem"), [(float("nan"), "nan"), (object(), "`object`")])
def test_what_is_no_json_is_refused(codec: Codec, value: Any, problem: str) -> None:  # noqa: ANN401
    parameters = {"type": "object", "properties": {"a": {"type": "string", "default": value}}}
    tools = tools_of([{"name": "f", "parameters": parameters}])
    with pytest.raises(MessageError, match=rf"`tools\[0\]` holds .*{problem}"):
        codec.encode([{"role": "user", "content": "Hi"}], tools=tools)
