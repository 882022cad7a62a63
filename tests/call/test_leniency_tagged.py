"""Calls with tagged pairs: several in one block, quotes and attributes in tags, typed values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lenient import CALL, CALL_END, Case, Said, check

F = "<function=f>\n<parameter=a>\nb\n</parameter>\n"
G = "<function=g>\n<parameter=c>\n1\n</parameter>\n</function>\n"
END = "</function>\n"
BOTH = (("f", {"a": "b"}), ("g", {"c": 1}))
SEVERAL = "calls stand in one block"
VALUE_END = "the tag that closes an argument is missing"
VALUE = "an argument was quoted or written as in Python"
MINIMAX, MINIMAX_END = "</think><minimax:tool_call>", "</minimax:tool_call>"


def coder(written: str, said: Said, **options: Any) -> Case:  # noqa: ANN401
    return Case("qwen3-coder", f"<tool_call>\n{written}</tool_call>", said, options=options)


def minimax(written: str, said: Said) -> Case:
    return Case("minimax-m2", f"{MINIMAX}{written}{MINIMAX_END}", said)


SEVERAL_IN_ONE = [
    *(
        coder(f"{F}{end}{between}{G}", Said(calls=BOTH, mended=mended))
        for between in ("", "\n", " \n\n")
        for end, mended in ((END, (SEVERAL,)), ("", (CALL_END, SEVERAL)))
    ),
    coder(f"{F}{END}{F}{G}", Said(calls=(BOTH[0], *BOTH), mended=(SEVERAL, CALL_END, SEVERAL))),
    coder(
        f"{F[: -len('</parameter>') - 1]}{G}",
        Said(calls=BOTH, mended=(VALUE_END, CALL_END, SEVERAL)),
    ),
    minimax(
        '<invoke name="f">\n<parameter name="a">b</parameter>\n'
        '<invoke name="g">\n<parameter name="c">1</parameter>\n</invoke>\n',
        Said(calls=BOTH, mended=(CALL_END,)),
    ),
]

FG = '<invoke name="f">\n<parameter name="a">b</parameter>\n</invoke>'
QUOTED = [
    minimax(FG, Said(calls=BOTH[:1])),
    minimax(FG.replace('"', "'"), Said(calls=BOTH[:1], mended=(CALL, CALL))),
    minimax(FG.replace('"', ""), Said(calls=BOTH[:1], mended=(CALL, CALL))),
    minimax(
        FG.replace('name="a"', 'name="a" type="string" required=true'),
        Said(calls=BOTH[:1], notices=('malformed: " type="string" required=true',)),
    ),
    minimax(
        FG.replace('name="f"', 'name="f" description="Run it"'),
        Said(calls=BOTH[:1], mended=(CALL,), notices=('malformed: description="Run it">\n',)),
    ),
    minimax(
        FG.replace('name="a"', "name='a' type='string'"),
        Said(calls=BOTH[:1], mended=(CALL,), notices=("malformed: ' type='string'",)),
    ),
    *(
        coder(f"{F}{END}".replace("=f>", name), Said(calls=BOTH[:1], mended=(CALL,)))
        for name in ('="f">', "='f'>", ' name="f">')
    ),
    coder(f"{F}{END}".replace("=a>", '="a">'), Said(calls=BOTH[:1], mended=(CALL,))),
]

ENDS = [
    coder(
        "<function=f>\n<parameter=a>\nb\n</function>\n", Said(calls=BOTH[:1], mended=(VALUE_END,))
    ),
    coder("<function=f>\n<parameter=a>\nb\n", Said(calls=BOTH[:1], mended=(VALUE_END,))),
    coder(F, Said(calls=BOTH[:1], mended=(CALL_END,))),
    coder(
        "<function=f>\n<parameter=a>\nx <function=g> y\n</parameter>\n</function>\n",
        Said(calls=(("f", {"a": "x <function=g> y"}),)),
    ),
    replace(coder(F, Said(calls=BOTH[:1], mended=(CALL_END,))), written=f"<tool_call>\n{F}"),
]


@pytest.mark.parametrize("case", [*SEVERAL_IN_ONE, *QUOTED, *ENDS], ids=str)
def test_tagged_calls(case: Case) -> None:
    check(case)


def test_what_looks_like_a_second_call_and_is_none() -> None:
    notices = ("malformed: ", "text_after_action: ", "unexpected_control: </tool_call>")
    for odd in ("<function=\n", "<function= g>", "<function=1 b"):
        said = Said(text=odd, calls=BOTH[:1], notices=notices)
        case = coder(f"{F}{END}{odd}", said)
        check(replace(case, spelled=f"{odd}</tool_call>"))


def tools(schema: object) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"a": schema}}
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


OTHER = {"type": ["number", "boolean", "null", "object", "array"]}
TYPED: list[tuple[object, str, object, bool]] = [
    ({"type": "integer"}, "5", 5, False),
    ({"type": "int64"}, "5", 5, False),
    ({"type": "INTEGER"}, "007", 7, True),
    ({"type": "number"}, "+.5", 0.5, True),
    ({"type": "bool"}, "True", True, True),
    ({"type": "boolean"}, "FALSE", False, True),
    ({"type": ["integer", "null"]}, "None", None, True),
    ({"type": ["integer", "null"]}, "null", None, False),
    ({"type": ["string", "null"]}, "null", None, False),
    ({"type": ["string", "null"]}, "None", "None", False),
    ({"anyOf": [{"type": "int"}, {"type": "null"}]}, "NULL", None, True),
    ({"type": "list[str]"}, "['a', True]", ["a", True], True),
    ({"type": "array"}, '[\\"a\\", 1]', ["a", 1], True),
    ({"type": "array"}, '"[1]"', [1], True),
    ({"type": "dict"}, "{'k': None}", {"k": None}, True),
    ({"type": "dict"}, "\"{'k': 1}\"", {"k": 1}, True),
    ({}, "{'k': 1}", "{'k': 1}", False),
    ({}, "True", "True", False),
    (OTHER, " 1 ", 1, False),
    (OTHER, '"1"', 1, True),
    (OTHER, '"x"', '"x"', False),
    (OTHER, "one", "one", False),
    (OTHER, "1 or 2", "1 or 2", False),
    (OTHER, " ", " ", False),
    (OTHER, " True \n", True, True),
    (OTHER, "True x", "True x", False),
    (OTHER, "Truer", "Truer", False),
    (OTHER, ' {"a": 1}\t', {"a": 1}, False),
    (OTHER, "{1} 2", "{1} 2", False),
    (OTHER, '{"a": 1', '{"a": 1', False),
    ({"type": "str"}, "5", "5", False),
    ({"type": "str"}, "None", "None", False),
    ({"type": "varchar"}, "[1]", "[1]", False),
]
WRITTEN = {
    "qwen3-coder": (
        "<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n</function>\n</tool_call>"
    ),
    "minimax-m2": (
        f'{MINIMAX}\n<invoke name="f">\n<parameter name="a">{{}}</parameter>\n</invoke>\n'
        + MINIMAX_END
    ),
    "glm4.5": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>",
}


OWN = {"True": True, "False": False, "None": None}
"""Python's words, in which the template of Qwen3-Coder writes these values."""


@pytest.mark.parametrize("format_", WRITTEN)
@pytest.mark.parametrize(("schema", "text", "value", "mended"), TYPED)
def test_values_are_typed_by_the_schema(
    format_: str, schema: object, text: str, value: object, *, mended: bool
) -> None:
    word = text.strip()
    if format_ == "qwen3-coder" and word in OWN and schema != {"type": "str"}:
        value, mended = OWN[word], False
    said = Said(calls=(("f", {"a": value}),), mended=(VALUE,) if mended else ())
    written = WRITTEN[format_].replace("{}", text)
    check(Case(format_, written, said, options={"tools": tools(schema)}))
