"""White space beside what opens a call: as much as the format writes, none, or more."""

from __future__ import annotations

import pytest
from lenient import Case, Said, check, codec_of, fold, ids_of, told

F = ("f", {"a": 1})
G: tuple[str, object] = ("g", {})
A = ("f", {"a": "x y"})


def calls(format_: str, written: str, *called: tuple[str, object], **said: object) -> Case:
    return Case(format_, written, Said(calls=called, **said))  # type: ignore[arg-type]


ONE = '{"name": "f", "arguments": {"a": 1}}'
TWO = '{"name": "g", "arguments": {}}'
COHERE = '{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}'
PAIR = "<arg_key>a</arg_key><arg_value>x y</arg_value>"

WRITTEN = [
    *(
        calls("jamba", f"<tool_calls>{open_}{ONE}{close}</tool_calls>", F)
        for open_ in ("[", "[ ", "[\n", "\n[\n    ", " [  ")
        for close in ("]", "\n]", " ]\n")
    ),
    calls("jamba", f"<tool_calls>[{ONE},{TWO}]</tool_calls>", F, G),
    calls("jamba", f"<tool_calls>\n[\n  {ONE},\n\n  {TWO}\n]\n</tool_calls>", F, G),
    calls("jamba", f"So.<tool_calls>[{ONE}]</tool_calls>", F, text="So."),
    *(
        calls("command-a", f"<|START_ACTION|>{open_}{COHERE}{close}<|END_ACTION|>", F, ids=("0",))
        for open_ in ("[", "\n[\n    ", "[\n", " [ ")
        for close in ("]", "\n]\n", " ]")
    ),
    *(
        calls("laguna:xs", f"<tool_call>{before}f{after}{PAIR}{after}</tool_call>", A)
        for before in ("", "\n", " ")
        for after in ("", "\n", "\n\n", " ")
    ),
    calls("laguna", f"</think><tool_call>\nf\n{PAIR}\n</tool_call>", A),
    *(
        calls(format_, f"{end}<tool_call>f{PAIR.replace('><', f'>{white}<')}</tool_call>", A)
        for format_, end in (("laguna", "</think>"), ("laguna:xs", ""))
        for white in ("", "\n", " \n ")
    ),
    *(calls("glm4", f'<|assistant|>{head}{{"a": 1}}', F) for head in ("f ", "f\n\n", " f \n")),
    calls("gemma4", "<|tool_call> call:f{a:1}<tool_call|>", F),
    calls("gemma4", "<|tool_call>\n\ncall:f{a:1}<tool_call|>", F),
    calls("functiongemma", "<start_function_call>\ncall:f{a:1}<end_function_call>", F),
    *(
        calls("lfm2", f"<|tool_call_start|>{open_}f(a=1)]<|tool_call_end|>", F)
        for open_ in ("[", " [", "[ ", "\n[\n  ")
    ),
]


@pytest.mark.parametrize("case", WRITTEN, ids=str)
def test_white_space_that_the_format_does_not_write(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("format_", "written"),
    [
        ("glm4", "<|assistant|>Hello there, you."),
        ("glm4", '<|assistant|>Hello {"a": 1}'),
        ("jamba", "<tool_calls> [So it is]"),
    ],
)
def test_what_no_call_begins_so_is_text(format_: str, written: str) -> None:
    """The brace of the arguments alone tells that a word with white space after it is a name."""
    case = Case(format_, written, Said())
    codec = codec_of(case)
    said = fold(told(codec, case, [ids_of(codec, written)], "ids"))
    if "{" in written:
        assert said.calls == (("Hello", {"a": 1}),)
    else:
        assert said.calls == ()
        assert said.text.strip() == written.partition(">")[2].strip()


@pytest.mark.parametrize("value", [" x", "x ", "\nx\n", " ", "\n"])
def test_white_space_of_a_value_stays(value: str) -> None:
    written = f"<tool_call>\nf\n<arg_key>a</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>"
    check(calls("laguna:xs", written, ("f", {"a": value})))
