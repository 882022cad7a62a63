"""Values of tagged pairs that hold the tag which closes them, and JSON in place of pairs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from completions import calls_of, codec_of, ids_of, notices_of, told
from hypothesis import given
from hypothesis import strategies as st
from lenient import CALL, CALL_END, Case, Said, check

INNER = "a tag that closes an argument stands in it"
PYTHON = "the call's JSON is quoted or written as in Python"
VALUE_END = "the tag that closes an argument is missing"

BODIES = {
    "qwen3-coder": (
        "<tool_call>\n<function=f>\n{}</function>\n</tool_call>",
        "<parameter={}>\n{}\n</parameter>\n",
        "</parameter>",
    ),
    "qwen3.5": (
        "</think>\n\n<tool_call>\n<function=f>\n{}</function>\n</tool_call>",
        "<parameter={}>\n{}\n</parameter>\n",
        "</parameter>",
    ),
    "minimax-m2": (
        '</think><minimax:tool_call>\n<invoke name="f">\n{}</invoke>\n</minimax:tool_call>',
        '<parameter name="{}">{}</parameter>\n',
        "</parameter>",
    ),
    "seed-oss": (
        "<seed:tool_call>\n<function=f>\n{}</function>\n</seed:tool_call>",
        "<parameter={}>{}</parameter>\n",
        "</parameter>",
    ),
    "laguna:xs": (
        "<tool_call>f\n{}</tool_call>",
        "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n",
        "</arg_value>",
    ),
}
"""A call around its pairs, a pair, and the tag that closes a value."""


@pytest.mark.parametrize("format_", BODIES)
@pytest.mark.parametrize(
    "value", ["<p>\n{}\n</p>", "{} x", "x {}\n{}\nlast", "{}\n\n  and {}.", "{}</i>"]
)
def test_a_closing_tag_within_a_value(format_: str, value: str) -> None:
    call, pair, tag = BODIES[format_]
    value = value.replace("{}", tag)
    one = Said(calls=(("f", {"a": value}),), mended=(INNER,))
    check(Case(format_, call.format(pair.format("a", value)), one))
    two = Said(calls=(("f", {"a": value, "b": 1, "c": value}),), mended=(INNER, INNER))
    pairs = pair.format("a", value) + pair.format("b", 1) + pair.format("c", value)
    check(Case(format_, call.format(pairs), two))


@given(
    format_=st.sampled_from(sorted(BODIES)),
    parts=st.lists(st.sampled_from(["x", "\n", " ", "é", "{}", "</", "<p>", '"']), max_size=8),
)
def test_any_value_in_which_text_follows_the_tag(format_: str, parts: list[str]) -> None:
    call, pair, tag = BODIES[format_]
    value = "a" + "".join(parts).replace("{}", tag + "y") + "z"
    events = told(codec_of(format_), call.format(pair.format("k", value)))
    assert calls_of(events) == [("f", {"k": value})]
    texts = [text for kind, text in notices_of(events) if kind == "mended"]
    assert texts == ([INNER] if tag in value else [])


def coder(body: str, said: Said, **options: Any) -> Case:  # noqa: ANN401
    return Case("qwen3-coder", f"<tool_call>\n<function=f>\n{body}</tool_call>", said, **options)


A = "<parameter=a>\nb\n</parameter>\n"
END = "</function>\n"

AFTER = [
    # Text between pairs, or after them, is no part of a value that its tag has closed.
    coder(
        f"{A}odd\n<parameter=c>\nd\n</parameter>\n{END}",
        Said(calls=(("f", {"a": "b", "c": "d"}),), notices=("malformed: odd\n",)),
    ),
    coder(f"{A}odd\n{END}", Said(calls=(("f", {"a": "b"}),), notices=("malformed: odd\n",))),
    coder(
        f"{A}odd\n",
        Said(calls=(("f", {"a": "b"}),), mended=(CALL_END,), notices=("malformed: odd\n",)),
    ),
    # The last tag that closes the value is missing: the one within it does.
    coder(
        "<parameter=a>\nb\n</parameter>\nc\n<parameter=d>\n1\n</parameter>\n" + END,
        Said(calls=(("f", {"a": "b", "d": 1}),), notices=("malformed: c\n",)),
    ),
]


@pytest.mark.parametrize("case", AFTER, ids=str)
def test_text_after_a_closing_tag(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("length", [4000, 5000, 9000])
def test_text_of_any_length_follows_the_tag(length: int) -> None:
    """A tag that text of over 4 KiB follows closes nothing."""
    codec = codec_of("qwen3-coder")
    value = f"a\n</parameter>\n{'x' * length}"
    ids = ids_of(codec, f"<tool_call>\n<function=f>\n<parameter=a>\n{value}\n</parameter>\n{END}")
    for size in (len(ids), 1):
        stream = codec.stream(None)
        pushed = [stream.push(ids[at : at + size]) for at in range(0, len(ids), size)]
        events = [event for some in pushed for event in some] + stream.finish()
        assert calls_of(events) == [("f", {"a": value})]


DSML = "｜DSML｜"
JSON_BODIES = {
    "qwen3-coder": "<tool_call>\n<function=f>\n{}\n</function>\n</tool_call>",
    "minimax-m2": (
        '</think><minimax:tool_call>\n<invoke name="f">\n{}\n</invoke>\n</minimax:tool_call>'
    ),
    "seed-oss": "<seed:tool_call>\n<function=f>\n{}\n</function>\n</seed:tool_call>",
    "glm4.5": "<tool_call>f\n{}\n</tool_call>",
    "deepseek:v3.2": (
        f'\n\n<{DSML}function_calls>\n<{DSML}invoke name="f">\n{{}}\n</{DSML}invoke>\n'
        f"</{DSML}function_calls>"
    ),
    "deepseek:v4": (
        f'\n\n<{DSML}tool_calls>\n<{DSML}invoke name="f">\n{{}}\n</{DSML}invoke>\n'
        f"</{DSML}tool_calls>"
    ),
}


@pytest.mark.parametrize("format_", JSON_BODIES)
@pytest.mark.parametrize(
    ("body", "meant", "mended"),
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}, ()),
        ("{}", {}, ()),
        ('{"a": {"b": [1, null]}, "c": "</x>"}', {"a": {"b": [1, None]}, "c": "</x>"}, ()),
        ("{'a': None,}", {"a": None}, (PYTHON,)),
    ],
)
def test_json_in_place_of_pairs(
    format_: str, body: str, meant: object, mended: tuple[str, ...]
) -> None:
    written = JSON_BODIES[format_].replace("{}", body)
    events = told(codec_of(format_), written)
    assert calls_of(events) == [("f", meant)]
    assert notices_of(events) == [("mended", text) for text in (CALL, *mended)]


def complete_of(events: list[Any]) -> list[bool]:
    return [event.complete for event in events if type(event).__name__ == "ActionEnd"]


@pytest.mark.parametrize("format_", JSON_BODIES)
@pytest.mark.parametrize("body", ['{"city": "Os', '{"city": Oslo}', "city: Oslo", "[1, 2]"])
def test_what_is_no_arguments_is_not_complete(format_: str, body: str) -> None:
    written = JSON_BODIES[format_].replace("{}", body)
    codec = codec_of(format_)
    stream = codec.stream(None)
    events = [*stream.push(ids_of(codec, written)), *stream.finish()]
    assert complete_of(events) == [False]
    said = "".join(getattr(event, "text", "") for event in events)
    assert all(word in said for word in re.findall(r"\w+", body))


def test_pairs_after_json_are_no_arguments() -> None:
    said = Said(
        calls=(("f", '{"a": 1}'),),
        mended=(CALL,),
        notices=("malformed: \n<parameter=b>\n2\n</parameter>\n",),
    )
    check(coder(f'{{"a": 1}}\n<parameter=b>\n2\n</parameter>\n{END}', said))


V41 = (
    f'\n\n<{DSML} calls>\n<{DSML} invoke name="f">\n'
    f'<{DSML} parameter name="a" string="true">b</{DSML} parameter>\n'
    f'<{DSML} parameter name="n" string="false">[1]</{DSML} parameter>\n'
    f'</{DSML} invoke>\n<{DSML} invoke name="g">\n</{DSML} invoke>\n</{DSML} calls>'
)


@pytest.mark.parametrize("format_", ["deepseek:v3.2", "deepseek:v4"])
@pytest.mark.parametrize(
    "written",
    [
        V41,
        V41.strip(),
        # One tag or some with a space, and the word of another version around the calls.
        V41.replace(" invoke", "invoke"),
        V41.replace(f"/{DSML} param", f"/{DSML}param"),
        *(
            V41.replace(" invoke", "invoke").replace(" param", "param").replace(" calls", word)
            for word in ("tool_calls", "function_calls")
        ),
        V41.replace(f"<{DSML} calls>", f"<{DSML}tool_calls>", 1),
    ],
)
def test_tags_of_another_version(format_: str, written: str) -> None:
    calls: tuple[tuple[str, Any], ...] = (("f", {"a": "b", "n": [1]}), ("g", {}))
    check(Case(format_, written, Said(calls=calls)))


@pytest.mark.parametrize("format_", ["deepseek:v3.2", "deepseek:v4"])
@pytest.mark.parametrize("bars", ["|", "||", "‖", "｜｜"])
def test_other_bars_are_the_token_where_markers_are_text(format_: str, bars: str) -> None:
    written = V41.replace(DSML, f"{bars}DSML{bars}")
    codec = codec_of(format_)
    events = codec.stream(None, markers="text").push_text(written)
    assert calls_of(events) == [("f", {"a": "b", "n": [1]}), ("g", {})]
    ids = codec.vocab.encode(written)
    assert calls_of(codec.stream(None, markers="ids_or_text").push(ids)) == calls_of(events)
    assert codec.parse(ids, None).message == {"role": "assistant", "content": written}
