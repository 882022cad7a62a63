"""Calls in Python, as servers read them: every kind of value, any spacing, several calls."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from chatcodec import collect
from completions import calls_of, codec_of, ids_of, message_of, notices_of, told
from hypothesis import given
from hypothesis import strategies as st

FORMATS = ("llama3.2", "llama4", "llama3.1")
NAMES = ("get_weather", "register_user", "geo.find", "f", "do-it")
TOOLS = [{"type": "function", "function": {"name": name}} for name in NAMES]

CALLS = [
    "get_weather(city='LA', metric='C')",
    "get_weather(city=\"LA\", metric='C')",
    "register_user(name='John Doe', age=37, address={'city': 'Oslo', 'state': None}, ok=True)",
    "register_user(role=None, passed_test=False, aliases=['John', 'Johnny'])",
    "get_weather()",
    "register_user(name='Doe', address={}, aliases=[])",
    r"get_weather(city='Martha\'s Vineyard', metric='\"cool units\"')",
    "f(a=-1, b=+2, c=1.5e-3, d=[[1, 2], [3]], e=({'k': (1,)},))",
    "f(\n    a=1,\n    b={\n        'x': None,\n    },\n)",
    'f(text="""two\nlines""", other="a\\nb")',
    "f(a='[x](y), g(b=1)]', b=')')",
    "geo.find(q='naïve 世界 🦜')",
    "f(a='x' , b = \"y\")",
]


def meant(call: str) -> tuple[str, dict[str, Any]]:
    """What Python says that a call says."""
    node = ast.parse(call.replace("do-it", "do_it"), mode="eval").body
    assert isinstance(node, ast.Call)
    arguments = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return ast.unparse(node.func), json.loads(json.dumps(arguments))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("format_", FORMATS)
def test_a_call(format_: str, call: str) -> None:
    codec = codec_of(format_)
    for written in (f"[{call}]", f"\n[ {call} ]\n", f"[{call},]"):
        events = told(codec, written, tools=TOOLS)
        assert calls_of(events) == [meant(call)], written
        assert not (message_of(events).get("content") or "").strip()


@pytest.mark.parametrize("between", [", ", ",", ",\n", " , "])
@pytest.mark.parametrize("format_", FORMATS)
def test_calls(format_: str, between: str) -> None:
    written = f"[{between.join(CALLS)}]"
    assert calls_of(told(codec_of(format_), written, tools=TOOLS)) == [
        meant(call) for call in CALLS
    ]


@pytest.mark.parametrize("call", CALLS)
def test_calls_between_tokens(call: str) -> None:
    codec = codec_of("llama4")
    for end in ("<|python_end|>", "", "<|eom|>", "<|python_end|><|eot|>"):
        events = told(codec, f"<|python_start|>[{call}]{end}")
        assert calls_of(events) == [meant(call)]
        assert notices_of(events) == []


@pytest.mark.parametrize(
    "text", ["How can I help you today?", "[]", "[1, 2]", "[x](y)", "[unknown", "f(a=1)"]
)
@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_no_call(format_: str, text: str) -> None:
    events = told(codec_of(format_), text, tools=TOOLS)
    assert message_of(events) == {"role": "assistant", "content": text}
    assert notices_of(events) == []


strings = st.text(st.characters(codec="utf-8", exclude_characters="▁"), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | strings
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(FORMATS),
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(["a", "b_1"]), values)),
        min_size=1,
        max_size=3,
    ),
)
def test_whatever_python_writes(format_: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    texts = [
        f"{name}({', '.join(f'{k}={v!r}' for k, v in given_.items())})" for name, given_ in calls
    ]
    codec = codec_of(format_)
    stream = codec.stream(None, tools=TOOLS)
    events = [*stream.push(ids_of(codec, f"[{', '.join(texts)}]")), *stream.finish()]
    read = [call["function"] for call in collect(events)["tool_calls"]]
    assert [(one["name"], json.loads(one["arguments"])) for one in read] == calls
