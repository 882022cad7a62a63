"""Calls that models write in other ways than their format does, by family."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lenient import (
    CALL,
    CALL_END,
    CALL_ID,
    DEEPSEEK_TOKENS,
    LIST_END,
    Case,
    Said,
    check,
    codec_of,
    ids_of,
)

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
BEGIN, ARGUMENTS, END = (
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
CALLED = ("f", {"a": 1})
JSON = '{"a": 1}'
OBJECT = '{"name": "f", "arguments": {"a": 1}}'


def kimi(call: str, said: Said, end: str = SECTION_END) -> list[Case]:
    return [
        Case("kimi-k2", f"{before}{SECTION}{call}{end}{stop}", replace(said, text=before))
        for before in ("", "So. ")
        for stop in (("", "<|im_end|>") if end else ("<|im_end|>",))
    ]


KIMI = [
    *kimi(
        f"{BEGIN}functions.f:0{ARGUMENTS}{JSON}{END}", Said(calls=(CALLED,), ids=("functions.f:0",))
    ),
    *(
        case
        for id_ in (" functions.f:0", "functions.f:0 ", "\nfunctions.f:0\n")
        for case in kimi(
            f"{BEGIN}{id_}{ARGUMENTS}{JSON}{END}",
            Said(calls=(CALLED,), mended=(CALL,), ids=("functions.f:0",)),
        )
    ),
    *(
        case
        for id_ in ("f:0", "functions.f", "f:12")
        for case in kimi(
            f"{BEGIN}{id_}{ARGUMENTS}{JSON}{END}",
            Said(calls=(CALLED,), mended=(CALL_ID,), ids=(id_,)),
        )
    ),
    *kimi(
        f"{BEGIN} f:0 {ARGUMENTS} {JSON}\n{END}",
        Said(calls=(CALLED,), mended=(CALL, CALL_ID), ids=("f:0",)),
    ),
    *kimi(
        f"{BEGIN}functions.f:0\n{JSON}{END}",
        Said(calls=(CALLED,), mended=(CALL,), ids=("functions.f:0",)),
    ),
    *kimi(
        f"{BEGIN}functions.f:0{ARGUMENTS}{JSON}",
        Said(calls=(CALLED,), mended=(CALL_END,), ids=("functions.f:0",)),
    ),
    *kimi(
        f"{BEGIN}functions.f:0{ARGUMENTS}{JSON}{END}",
        Said(calls=(CALLED,), mended=(LIST_END,), ids=("functions.f:0",)),
        end="",
    ),
    *kimi(
        f"{BEGIN}functions.f:0{ARGUMENTS}{JSON}{BEGIN}functions.g:1{ARGUMENTS}{{}}",
        Said(
            calls=(CALLED, ("g", {})),
            mended=(CALL_END, CALL_END, LIST_END),
            ids=("functions.f:0", "functions.g:1"),
        ),
        end="",
    ),
]

CALLS, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
STOP = "<｜end▁of▁sentence｜>"
ONE, SEP, ONE_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"


def deepseek(format_: str, call: str, *mended: str, end: str = CALLS_END) -> Case:
    said = Said(calls=(CALLED,), mended=mended)
    before = "</think>" if format_ == "deepseek:r1" else ""
    written = f"{before}{CALLS}{ONE}{call}{end}{STOP}"
    return Case(format_, written, said, more=DEEPSEEK_TOKENS)


DEEPSEEK = [
    case
    for format_ in ("deepseek:v3", "deepseek:r1")
    for case in [
        deepseek(format_, f"function{SEP}f\n```json\n{JSON}\n```{ONE_END}"),
        deepseek(format_, f"function{SEP}f\n```json\n{JSON}\n```{ONE_END}", LIST_END, end=""),
        deepseek(format_, f"function{SEP}f\n```json\n{JSON}\n```", CALL_END),
        deepseek(format_, f"function{SEP}f\n```json\n{JSON}", CALL_END, LIST_END, end=""),
        *(
            deepseek(format_, call + ONE_END, CALL)
            for call in (
                f"function{SEP}f\n{JSON}",
                f"function{SEP}f {JSON}\n",
                f"function{SEP}f{JSON}",
                f"function{SEP} f\n```json\n{JSON}\n```",
                f"function{SEP}f\n```\n{JSON}\n```\n",
                f"function {SEP}f\n```json\n{JSON}\n```",
                f"function{SEP}f```json{JSON}```",
                f"{SEP}f\n```json\n{JSON}\n```",
                f"f{SEP}{JSON}",
                f"f\n{SEP}\n{JSON}",
                f"f{SEP}```json\n{JSON}\n```",
                f"f\n```json\n{JSON}\n```",
                f"f\n{JSON}",
            )
        ),
    ]
] + [
    deepseek("deepseek:v3.1", f"f{SEP}{JSON}{ONE_END}"),
    deepseek("deepseek:v3.1", f"\nf {SEP} {JSON}{ONE_END}", CALL),
    deepseek("deepseek:v3.1", f"f\n{JSON}{ONE_END}", CALL),
    deepseek("deepseek:v3.1", f"f{SEP}{JSON}", CALL_END),
    *(
        deepseek("deepseek:v3.1", call + ONE_END, CALL)
        for call in (
            f"function{SEP}f\n```json\n{JSON}\n```",
            f"function{SEP} f\n{JSON}",
            f"function {SEP}f```\n{JSON}```",
            f"f{SEP}```json\n{JSON}\n```",
            f"f{SEP}\n```\n{JSON}\n```\n",
            f"f\n```json\n{JSON}\n```",
        )
    ),
    Case(
        "deepseek:v3.1",
        f"{CALLS}{ONE}function{SEP}{JSON}{ONE_END}{ONE}function{SEP}true{ONE_END}{CALLS_END}",
        Said(calls=(("function", {"a": 1}), ("function", True))),
        more=DEEPSEEK_TOKENS,
    ),
    deepseek("deepseek:v3.1", f"f{SEP}{JSON}{ONE_END}", LIST_END, end=""),
]

OPEN, CLOSE = "<tool_call>", "</tool_call>"
HERMES = [
    Case(format_, f"{before}{written}", Said(before.strip("\n"), calls=(CALLED,), mended=mended))
    for format_ in ("hermes", "qwen2.5", "qwen3")
    for before in ("", "So.\n")
    for written, mended in (
        (f"{OPEN}\n{OBJECT}\n{CLOSE}", ()),
        (f"{OPEN}{OBJECT}{CLOSE}\n", ()),
        (f"{OPEN}\n{OBJECT}\n", ()),
        (f"{OPEN}\n{OBJECT}<|im_end|>", (CALL_END,)),
        (f"{OPEN}\n```json\n{OBJECT}\n```\n{CLOSE}", (CALL,)),
        (f"{OPEN}```json{OBJECT}```{CLOSE}", (CALL,)),
        (f"{OPEN}\n```\n{OBJECT}\n```\n{CLOSE}", (CALL,)),
        (f"{OPEN}\n```json\n{OBJECT}{CLOSE}", (CALL,)),
        (f"{OPEN}\n```json\n{OBJECT}\n```", (CALL,)),
        (f"{OPEN}\n[{OBJECT}]\n{CLOSE}", ("calls stand in a list",)),
    )
]

PYTHON = "<|python_tag|>"
MISSING = "what opens the call is missing"
TOLD = "text_after_action: "
TOOLS = {"tools": [{"type": "function", "function": {"name": name}} for name in ("f", "g")]}
LLAMA = [
    Case("llama3.1", f'{PYTHON}{{"name": "f"}}', Said(calls=(("f", ""),))),
    Case("llama3.1", f'{PYTHON}{{"name": "f", "arguments": {JSON}}}', Said(calls=(CALLED,))),
    Case(
        "llama3.1",
        f'{PYTHON}{{"name": "f", "parameters": {JSON}}}; {{"name": "g", "parameters": {{}}}}',
        Said(calls=(CALLED, ("g", {}))),
    ),
    *(
        Case("llama3.1", written, said, options=TOOLS)
        for written, said in (
            (f"{PYTHON}[f(a=1)]", Said(calls=(CALLED,), mended=(CALL,))),
            (f"{PYTHON} [ f(a=1) , g() ]", Said(calls=(CALLED, ("g", {})), mended=(CALL, CALL))),
            (
                f"{PYTHON}[f(a=1)] So.",
                Said(" So.", calls=(CALLED,), mended=(CALL,), notices=(TOLD,)),
            ),
            ("[f(a=1)]", Said(calls=(CALLED,), mended=(MISSING,))),
            ("So: [f(a=1), g()]", Said("So: ", calls=(CALLED, ("g", {})), mended=(MISSING, CALL))),
            ("[other(a=1)]", Said("[other(a=1)]")),
            (f"{PYTHON}[f(a=1", Said(calls=(("f", '{"a": 1'),), mended=(CALL,))),
            (f"{PYTHON}[f(x) for x in y]", Said(calls=((None, "[f(x) for x in y]"),))),
            (f"{PYTHON}other(a=1)", Said(calls=((None, "other(a=1)"),))),
        )
    ),
    Case("llama3.1", f"{PYTHON}[f(a=1)]", Said(calls=((None, "[f(a=1)]"),))),
    Case(
        "llama4", f"<|python_start|>{OBJECT}<|python_end|>", Said(calls=(CALLED,), mended=(CALL,))
    ),
    Case(
        "llama4",
        f'<|python_start|>{{"name": "f", "parameters": {JSON}}}; {OBJECT}<|python_end|><|eot|>',
        Said(calls=(CALLED, CALLED), mended=(CALL, CALL)),
    ),
    Case(
        "llama4",
        f"<|python_start|> [{OBJECT}, {OBJECT}]<|python_end|><|eot|>",
        Said(calls=(CALLED, CALLED), mended=(CALL, CALL)),
    ),
    Case(
        "phi4-mini", f"<|tool_call|> {OBJECT}<|/tool_call|>", Said(calls=(CALLED,), mended=(CALL,))
    ),
    Case(
        "phi4-mini",
        f"<|tool_call|>\n[{OBJECT}]<|/tool_call|>",
        Said(calls=(CALLED,), mended=(CALL,)),
    ),
]

LFM_OPEN, LFM_CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
IN_JSON = [
    *(
        Case(format_, f"{LFM_OPEN}{written}{LFM_CLOSE}{stop}", Said(calls=calls, mended=mended))
        for format_ in ("lfm2", "lfm2:2.5", "lfm2:2.5-thinking")
        for written, calls, mended in (
            (f"[{OBJECT}]", (CALLED,), (CALL,)),
            (f" [\n{OBJECT}\n]", (CALLED,), (CALL,)),
            (f"[{OBJECT}, {OBJECT}]", (CALLED, CALLED), (CALL, CALL)),
            (OBJECT, (CALLED,), (CALL,)),
            (" [f(a=1)]", (CALLED,), ()),
        )
        for stop in ("", "<|im_end|>")
    ),
    Case("jamba", f"<tool_calls>{OBJECT}</tool_calls>", Said(calls=(CALLED,), mended=(CALL,))),
    Case("jamba", f"<tool_calls>\n{OBJECT}\n</tool_calls>", Said(calls=(CALLED,), mended=(CALL,))),
    *(
        Case(format_, f"{before}<tool_call>{written}", Said(before, calls=calls, mended=mended))
        for format_ in ("granite3", "granite3:3.1", "granite3:3.3")
        for before in ("", "So. ")
        for written, calls, mended in (
            (f"[{OBJECT}]", (CALLED,), (CALL,)),
            (f" [\n  {OBJECT},\n  {OBJECT}\n]", (CALLED, CALLED), (CALL, CALL)),
            (f" {OBJECT}", (CALLED,), (CALL,)),
        )
    ),
]

QUOTED = [
    Case("gemma4", f"<|tool_call>{written}", Said(calls=(CALLED,), mended=mended))
    for written, mended in (
        ("call:f{a:1}<tool_call|>", ()),
        (":call:f{a:1}<tool_call|>", (CALL,)),
        ("f{a:1}<tool_call|>", (CALL,)),
        (":call:f{a:1}<turn|>", (CALL,)),
    )
]

TURN_END, TURN_SEP = "<|message_sep|>\n\n", "<|role_sep|>\n"
CALL_TURN = f"{TURN_END}function call{TURN_SEP}"
GIGACHAT = [
    *(
        Case("gigachat3", f"{before}{opener}{OBJECT}{stop}", Said(before, "", (CALLED,), mended))
        for opener, mended in (
            ("<|function_call|>", ()),
            (CALL_TURN, (CALL,)),
        )
        for before in ("", "So. ", "A function")
        for stop in ("", TURN_END, "</s>")
    ),
    *(
        Case(
            "gigachat3",
            f"{CALL_TURN}{OBJECT}{opener}{OBJECT}{TURN_END}",
            Said(calls=(CALLED, CALLED), mended=mended),
        )
        for opener, mended in ((CALL_TURN, (CALL, CALL)), ("<|function_call|>", (CALL,)))
    ),
    Case("gigachat3", f"So.{CALL_TURN}\n {OBJECT}", Said("So.", calls=(CALLED,), mended=(CALL,))),
    Case(
        "gigachat3",
        f'So.{CALL_TURN}{{"name": "f", "arguments": {{"a": 1',
        Said("So.", calls=(("f", '{"a": 1'),), mended=(CALL,)),
        reason="length",
    ),
    Case(
        "gigachat3",
        f"So.{CALL_TURN}x{TURN_END}",
        Said("So.x", notices=(f"malformed: {CALL_TURN}",)),
        spelled=f"So.{CALL_TURN}x",
    ),
]


@pytest.mark.parametrize(
    "case", [*KIMI, *DEEPSEEK, *HERMES, *LLAMA, *IN_JSON, *QUOTED, *GIGACHAT], ids=str
)
def test_calls_are_read_as_they_are_written(case: Case) -> None:
    check(case)


def test_a_call_ends_reasoning_that_nothing_closes() -> None:
    written = f"<think>Hm.{SECTION}{BEGIN}functions.f:0{ARGUMENTS}{JSON}{END}{SECTION_END}"
    said = Said(reasoning="Hm.", calls=(CALLED,), ids=("functions.f:0",))
    check(Case("kimi-k2:thinking", written, said))


IDS = {
    "functions.Bash:2": "Bash",
    "functions_Bash_2": "Bash",
    "functions_Bash:2": "Bash",
    "functions.Bash.2": "Bash",
    "functions_Bash": "Bash",
    "functions.Bash": "Bash",
    "Bash_2": "Bash",
    "Bash:2": "Bash",
    "functions_read_file_10": "read_file",
    "read_file_1": "read_file_1",
    "functions_Other_2": "functions_Other_2",
    "functionsBash": "functionsBash",
}
"""Ids, and the names that they mean with the tools `Bash`, `read_file`, `read_file_1`."""


@pytest.mark.parametrize("format_", ["kimi-k2", "kimi-k2:thinking", "kimi-k2.5"])
@pytest.mark.parametrize(("id_", "name"), IDS.items())
def test_an_id_names_a_tool(format_: str, id_: str, name: str) -> None:
    tools = [
        {"type": "function", "function": {"name": name}}
        for name in ("Bash", "read_file", "read_file_1")
    ]
    written = (
        f"<|tool_calls_section_begin|><|tool_call_begin|>{id_}<|tool_call_argument_begin|>"
        '{"a": 1}<|tool_call_end|><|tool_calls_section_end|>'
    )
    is_other = id_ not in (name, "functions.Bash:2")
    said = Said(calls=((name, {"a": 1}),), mended=(CALL_ID,) * is_other, ids=(id_,))
    begin = "" if format_ == "kimi-k2" else "</think>"
    unopened = ("what opens reasoning is missing",) * (format_ == "kimi-k2:thinking")
    mended = (*unopened, *said.mended)
    case = Case(format_, begin + written, replace(said, mended=mended), options={"tools": tools})
    check(case)


@pytest.mark.parametrize("written", ["function result", "function calls", "func", "user"])
def test_another_turn_ends_the_answer(written: str) -> None:
    codec = codec_of(Case("gigachat3", "", Said()))
    ids = ids_of(codec, f"So.<|message_sep|>\n\n{written}<|role_sep|>\nx")
    prompt = codec.encode([{"role": "user", "content": "Q"}], add_generation_prompt=True)
    parsed = codec.parse(ids, prompt=prompt)
    assert parsed.message == {"role": "assistant", "content": "So."}
