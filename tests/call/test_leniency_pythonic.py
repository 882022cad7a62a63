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
    "f(a=['b' , ], c = ('d',), e='' )",
    "f(a=[{'b': 1}, {}],)",
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


LOOSE: list[tuple[str, dict[str, Any]]] = [
    ("f(c='sed -n '3,9p' /a/b.py')", {"c": "sed -n '3,9p' /a/b.py"}),
    ("f(c='python -c \"print(g(a, sep='-'))\"')", {"c": "python -c \"print(g(a, sep='-'))\""}),
    ('f(c="he said "no", and left", d=1)', {"c": 'he said "no", and left', "d": 1}),
    ("f(c=['it's', 'they're'], d={'k': 'he's'})", {"c": ["it's", "they're"], "d": {"k": "he's"}}),
    ("f(c='awk '{print $1}' x | sort')", {"c": "awk '{print $1}' x | sort"}),
    ("f(c='g('x', 'y')', d=1)", {"c": "g('x', 'y')", "d": 1}),
    ("f(c='if b == 'x', d == 'y': z')", {"c": "if b == 'x', d == 'y': z"}),
]
SETS: list[tuple[str, dict[str, Any]]] = [
    ("f(c={'x', 'y'})", {"c": ["x", "y"]}),
    ("f(c={1})", {"c": [1]}),
    ("f(c={1, 2, })", {"c": [1, 2]}),
    ("f(c={('b', 1)}, d={})", {"c": [["b", 1]], "d": {}}),
    ("f(c={'k': {2, 3}})", {"c": {"k": [2, 3]}}),
]
LFM2 = ("<|tool_call_start|>[{}]<|tool_call_end|>", "lfm2")


@pytest.mark.parametrize("call", [*LOOSE, *SETS])
@pytest.mark.parametrize(("written", "format_"), [*(("[{}]", name) for name in FORMATS), LFM2])
def test_quotes_within_a_string_and_sets(
    call: tuple[str, dict[str, Any]], written: str, format_: str
) -> None:
    text, arguments = call
    codec = codec_of(format_)
    for calls in (text, f"{text}, get_weather(city='LA')"):
        events = told(codec, written.format(calls), tools=TOOLS)
        others = [("get_weather", {"city": "LA"})] * (calls != text)
        assert calls_of(events) == [("f", arguments), *others]
        told_of = [text for kind, text in notices_of(events) if kind == "mended"]
        quoted = "the call's JSON is quoted or written as in Python"
        assert told_of.count(quoted) == (call in LOOSE)


@pytest.mark.parametrize("cut", range(3, 39))
def test_a_cut_call_is_not_complete(cut: int) -> None:
    codec = codec_of("lfm2")
    written = "<|tool_call_start|>[f(c='sed -n '3,9p' x', d={'y'})]"
    ids = ids_of(codec, written)[: cut - 40]
    stream = codec.stream()
    events = [*stream.push(ids), *stream.finish("length")]
    assert not any(getattr(event, "complete", False) for event in events)


@pytest.mark.parametrize(
    "written",
    [
        "f(c='x', d2), get_weather(city='y')",
        "f(c='x' d='y')",
        "f(c='x'd='y')",
        "f(c='x'], get_weather(city='y')",
        "f(c='x' 'y')",
        "f(c='x' + 'y')",
        "f(c='x': 'y')",
        "f(c=['x', d='y')",
    ],
)
def test_a_call_that_lacks_a_sign_is_not_complete(written: str) -> None:
    events = told(codec_of("lfm2"), f"<|tool_call_start|>[{written}]<|tool_call_end|>", tools=TOOLS)
    assert not any(getattr(event, "complete", False) for event in events)
