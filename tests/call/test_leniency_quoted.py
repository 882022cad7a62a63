"""Arguments with bare keys and strings between tokens, as models write them otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from completions import calls_of, codec_of, told
from hypothesis import given
from hypothesis import strategies as st
from lenient import CALL_END, Case, Said, check

if TYPE_CHECKING:
    from collections.abc import Callable

Q = '<|"|>'
PYTHON = "the call's JSON is quoted or written as in Python"

MEANT: list[tuple[str, dict[str, Any]]] = [
    # JSON's or Python's quotes, around strings and keys.
    ('{refs:["a_1"],opts:{"mode": "fast"}}', {"refs": ["a_1"], "opts": {"mode": "fast"}}),
    ("{x:'a b', y:['c','d']}", {"x": "a b", "y": ["c", "d"]}),
    ('{"content": "has } brace, and: more"}', {"content": "has } brace, and: more"}),
    ('{"a":"say \\"hi\\" \\n \\d","b":Q"ok"Q}', {"a": 'say "hi" \n \\d', "b": '"ok"'}),
    ("{'it': 'it\\'s', 'on': True, 'none': None}", {"it": "it's", "on": True, "none": None}),
    ("{QaQ:QbQ,QcQ:1}", {"a": "b", "c": 1}),
    ('{"a": "x "y" z", "b": 1}', {"a": 'x "y" z', "b": 1}),
    # A quote that opens a string is missing.
    ("{query:weather in OsloQ}", {"query": "weather in Oslo"}),
    ("{query:Oslo, NorwayQ,limit:5}", {"query": "Oslo, Norway", "limit": 5}),
    ("{where:{city:OsloQ},query:QxQ}", {"where": {"city": "Oslo"}, "query": "x"}),
    ("{of:[QaQ,bQ]}", {"of": ["a", "b"]}),
    ("{far:10,000 kmQ}", {"far": "10,000 km"}),
    ('{key":QvQ,n":1}', {"key": "v", "n": 1}),
    ("{aQb:QvQ}", {'a"b': "v"}),
    # A comma is missing, or one stands after the last member.
    ("{command:QlookQangle:90}", {"command": "look", "angle": 90}),
    ("{a:QxQ b:QyQ}", {"a": "x", "b": "y"}),
    ("{a:[{b:1}{b:2}],c:{d:1}e:2}", {"a": [{"b": 1}, {"b": 2}], "c": {"d": 1}, "e": 2}),
    ("{a:[QxQ,],b:1,}", {"a": ["x"], "b": 1}),
    # Quotes within a string.
    (
        "{code:Qr = sql(QQQ SELECT 1 QQQ).df()Q,refs:[Qdf_1Q]}",
        {"code": 'r = sql(""" SELECT 1 """).df()', "refs": ["df_1"]},
    ),
    ("{a:Qprint(Q}Q)Q}", {"a": 'print("}")'}),
    ("{a:[Qsay QhiQ, then goQ]}", {"a": ['say "hi", then go']}),
    ("{a:Qsee Qhttp://x.yQ: nowQ,b:1}", {"a": 'see "http://x.y": now', "b": 1}),
    ("{a:Q{QkQ: QvQ}Q}", {"a": '{"k": "v"}'}),
]


@pytest.mark.parametrize(("written", "meant"), MEANT)
@pytest.mark.parametrize(
    ("format_", "tokens"),
    [
        ("gemma4", ("<|tool_call>", "<tool_call|>", Q)),
        ("functiongemma", ("<start_function_call>", "<end_function_call>", "<escape>")),
    ],
)
def test_what_is_meant_is_read(
    format_: str, tokens: tuple[str, str, str], written: str, meant: dict[str, Any]
) -> None:
    begin, end, quote = tokens
    body = written.replace("Q", quote)
    said = Said(calls=(("f", meant),), mended=(PYTHON,))
    check(Case(format_, f"{begin}call:f{body}{end}", said))


def call(body: str, end: str = "<tool_call|>") -> str:
    return f"<|tool_call>call:f{body.replace('Q', Q)}{end}"


@pytest.mark.parametrize(
    "case",
    [
        # Without the brace that closes the arguments.
        Case("gemma4", call("{a:QxQ"), Said(calls=(("f", {"a": "x"}),), mended=(CALL_END,))),
        Case("gemma4", call("{a:{b:1}"), Said(calls=(("f", {"a": {"b": 1}}),), mended=(CALL_END,))),
        # Without the token that closes the call.
        Case("gemma4", call("{a:QxQ}", ""), Said(calls=(("f", {"a": "x"}),))),
        Case("gemma4", call("{a:QxQ}", "<turn|>"), Said(calls=(("f", {"a": "x"}),))),
        Case(
            "gemma4",
            call("{a:QxQ}\n", " So."),
            Said(calls=(("f", {"a": "x"}),), notices=("malformed: \n So.",)),
        ),
        # What is cut is not complete, and nothing of it is lost.
        Case("gemma4", call("{a:Qx"), Said(calls=(("f", '{"a": "x'),))),
        Case("gemma4", call("{a:QxQ", ""), Said(calls=(("f", '{"a": "x"'),)), reason="length"),
        Case("gemma4", call('{"a":"x'), Said(calls=(("f", '{"a": "x'),), mended=(PYTHON,))),
        Case(
            "gemma4",
            call("{a:QxQ,b"),
            Said(calls=(("f", '{"a": "x"'),), notices=("malformed: b",)),
        ),
        Case("gemma4", call("{a:1]"), Said(calls=(("f", '{"a": 1]'),))),
    ],
    ids=str,
)
def test_an_end_that_is_missing(case: Case) -> None:
    check(case)


WORDS = st.text("ab \n,:.é", max_size=6)
KEYS = st.text("abc_-é", min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


def other_spelling(value: object, quoted: Callable[[str], str], named: Callable[[str], str]) -> str:
    """A value with strings and keys in other quotes: an independent writer."""
    if isinstance(value, dict):
        inner = [f"{named(key)}:{other_spelling(v, quoted, named)}" for key, v in value.items()]
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ",".join(other_spelling(v, quoted, named) for v in value) + "]"
    return quoted(value) if isinstance(value, str) else json.dumps(value)


@given(
    arguments=st.dictionaries(KEYS, VALUES, max_size=3),
    quoted=st.sampled_from([json.dumps, repr, f"{Q}{{}}{Q}".format]),
    named=st.sampled_from([json.dumps, repr, str, f"{Q}{{}}{Q}".format]),
)
def test_any_quotes_mean_the_same(
    arguments: dict[str, Any], quoted: Callable[[str], str], named: Callable[[str], str]
) -> None:
    codec = codec_of("gemma4")
    events = told(codec, call(other_spelling(arguments, quoted, named)))
    assert calls_of(events) == [("f", arguments)]
