"""Each line of docs/leniency.md, by examples: the notice that it has is the one that is told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import data
import pytest
from completions import codec_of, ids_of, notices_of

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"n": {"type": "array"}}},
        },
    }
    for name in ("f", "g")
]

STRINGS = {
    "type": "function",
    "function": {"name": "f", "parameters": {"properties": {"a": {"type": "varchar"}}}},
}


@dataclass(frozen=True)
class Example:
    """A completion by a format."""

    format: str
    text: str
    prompt: str | None = None
    options: dict[str, Any] = field(default_factory=dict, hash=False)


def typed(format_: str, text: str, **options: Any) -> Example:  # noqa: ANN401
    return Example(format_, text, options={"tools": TOOLS, **options})


QWEN = "<tool_call>\n<function=f>\n{}</tool_call>"
PAIR = "<parameter=a>\nb\n</parameter>\n"
MINIMAX = '</think><minimax:tool_call>\n<invoke name="f">\n{}</minimax:tool_call>'
NS = "]<]minimax[>["
NESTED = f'</mm:think>{NS}<tool_call>\n{NS}<invoke name="f">{{}}{NS}</invoke>\n{NS}</tool_call>'
NAMED = '<parameter name="a">b</parameter>\n'
CDATA = '<function name="f"><param name="a">{}</param></function>'
GLM = "<tool_call>f\n{}</tool_call>"
GLM_PAIR = "<arg_key>a</arg_key>\n<arg_value>b</arg_value>\n"
OBJECT = '{"name": "f", "arguments": {"a": 1}}'
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
)
ARGUMENTS = '<|tool_call_argument_begin|>{"a": 1}'
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
DSML = "｜DSML｜"
BLOCK = f'<{DSML}tool_calls>\n<{DSML}invoke name="f">\n{{}}</{DSML}invoke>\n</{DSML}tool_calls>'
VALUE = f'<{DSML}parameter name="a"{{}}>b</{DSML}parameter>'
CALL = f"<tool_call>\n{OBJECT}\n</tool_call>"

BLOCK_V41 = "\n\n" + BLOCK.replace(DSML, f"{DSML} ").replace("tool_calls", "calls").format(
    VALUE.format(' string="true"').replace(DSML, f"{DSML} ")
)
QUOTED = "<|tool_call>call:f{}<tool_call|>"

EXAMPLES: dict[str, list[Example]] = {
    "keys or strings in the quotes of JSON": [
        Example("gemma4", QUOTED.format(body))
        for body in (
            '{"a": ["b", \'c\']}',
            '{a:b<|"|>}',
            "{a:True,}",
            '{a:<|"|>b<|"|>c:1}',
        )
    ],
    "the token around strings, within": [
        Example("gemma4", QUOTED.format('{a:<|"|>b <|"|>c<|"|> d<|"|>}')),
    ],
    "no `}` before the token": [Example("gemma4", QUOTED.format('{a:<|"|>b<|"|>'))],
    "no `</parameter>`": [
        Example("qwen3-coder", QWEN.format("<parameter=a>\nb\n<parameter=c>\nd\n</function>\n")),
        Example("minimax-m2", MINIMAX.format('<parameter name="a">b\n</invoke>\n')),
    ],
    "`</parameter>` within a value": [
        Example(
            "qwen3-coder",
            QWEN.format("<parameter=a>\nb\n</parameter>\nc\n</parameter>\n</function>\n"),
        ),
        Example(
            "minimax-m2",
            MINIMAX.format('<parameter name="a">b</parameter> c</parameter>\n</invoke>\n'),
        ),
    ],
    "one object in JSON in place": [
        Example("qwen3-coder", QWEN.format('{"a": 1}\n</function>\n')),
        Example("deepseek:v4", "\n\n" + BLOCK.format('{"a": 1}\n')),
        Example("glm4.5", GLM.format('{"a": 1}\n')),
    ],
    "text beside the tag of a pair": [
        Example("qwen3-coder", QWEN.format("a>\n1\n</parameter>\n</function>\n")),
    ],
    "other text in place of the pairs": [
        Example("qwen3-coder", QWEN.format("a: 1\n</function>\n")),
    ],
    "no `</function>`": [
        Example("qwen3-coder", QWEN.format(PAIR)),
        Example("minimax-m2", MINIMAX.format(NAMED)),
    ],
    "text between pairs": [Example("qwen3-coder", QWEN.format(f"{PAIR}odd\n{PAIR}</function>\n"))],
    "a second call in one block": [
        Example(
            "qwen3-coder", QWEN.format(f"{PAIR}</function>\n<function=g>\n{PAIR}</function>\n")
        ),
        Example("qwen3-coder", QWEN.format(f"{PAIR}<function=g>\n{PAIR}</function>\n")),
        Example("minimax-m2", MINIMAX.format(f'{NAMED}<invoke name="g">\n{NAMED}</invoke>\n')),
    ],
    "names and keys in other quotes": [
        Example("qwen3-coder", QWEN.replace("=f>", '="f">').format(f"{PAIR}</function>\n")),
        Example("minimax-m2", MINIMAX.replace('"f"', "f").format(f"{NAMED}</invoke>\n")),
    ],
    "further attributes in a tag": [
        Example("minimax-m2", MINIMAX.replace('"f"', '"f" x="1"').format(f"{NAMED}</invoke>\n")),
    ],
    "no `]]>`": [
        Example("minicpm5", CDATA.format("<![CDATA[a < b")),
        Example("minicpm5", CDATA.format(" <![CDATA[a < b]]> ")),
    ],
    "no closing tag of a key": [
        Example("minimax-m3", NESTED.format(f"{NS}<a>b{NS}<c>d{NS}</c>")),
        Example("minimax-m3", NESTED.format(f"{NS}<a>{NS}<b>c{NS}</b>")),
    ],
    "a closing tag with a key": [Example("minimax-m3", NESTED.format(f"{NS}<a>b{NS}</c>"))],
    "a list by its schema": [
        typed("minimax-m3", NESTED.format(f"{NS}<n>{NS}<x>1{NS}</x>{NS}</n>"))
    ],
    "another key than `item` after a tag `item`": [
        Example(
            "minimax-m3",
            NESTED.format(f"{NS}<a>{NS}<item>1{NS}</item>{NS}<x>2{NS}</x>{NS}</a>"),
        ),
    ],
    "text between the tags of keys": [
        Example("minimax-m3", NESTED.format(f"{NS}<a>b{NS}</a>odd{NS}<c>d{NS}</c>")),
    ],
    "no `</arg_value>`": [
        Example("glm4.5", GLM.format("<arg_key>a</arg_key>\n<arg_value>b\n")),
    ],
    "no `</arg_key>`": [Example("glm4.5", GLM.format("<arg_key>a\n<arg_value>b</arg_value>\n"))],
    "text before `<arg_key>`": [Example("glm4.5", GLM.format(f"odd {GLM_PAIR}"))],
    "`<|user|>`, `<|system|>` without a newline": [
        Example("glm4.5", "Yes.<|user|>", "[gMASK]<sop><|system|>s<|user|>x<|assistant|>"),
    ],
    "`<|assistant|>` with `<think>`": [
        Example("glm4.5", "So.</think>Yes.", "[gMASK]<sop><|user|>x<|assistant|><think>"),
        Example("glm4.5", "Yes.", "[gMASK]<sop><|user|>x<|assistant|></think>"),
    ],
    "white space around the name": [
        Example("glm4.5", f"<tool_call> f {GLM_PAIR}</tool_call>"),
        Example("glm4.5", "<tool_call>f</tool_call>"),
    ],
    "a call as GigaChat 3.0 writes it": [
        Example("gigachat3", f"So.<|message_sep|>\n\nfunction call<|role_sep|>\n{OBJECT}"),
    ],
    "a call as another version writes it": [
        Example("mistral", f"[TOOL_CALLS] {OBJECT}"),
        Example("mistral", 'So.[TOOL_CALLS]f[ARGS]{"a": 1}'),
        Example("mistral:v11", f"[TOOL_CALLS] [{OBJECT}; {OBJECT}]"),
        Example("mistral:v13", '[TOOL_CALLS]f{"a": 1}'),
    ],
    "`[/TOOL_CALLS]` after calls": [Example("mistral", f"[TOOL_CALLS][{OBJECT}][/TOOL_CALLS]")],
    "white space around the id": [
        Example("kimi-k2", KIMI.format(f" functions.f:0 {ARGUMENTS}")),
        Example("kimi-k2", KIMI.format('functions.f:0{"a": 1}')),
    ],
    "an id without `functions.`": [
        Example("kimi-k2", KIMI.format(f"{id_}{ARGUMENTS}")) for id_ in ("f:0", "functions.f")
    ],
    "`functions_f_0`": [
        typed("kimi-k2", KIMI.format(f"{id_}{ARGUMENTS}"))
        for id_ in ("functions_f_0", "functions.f.0", "f_0")
    ],
    "a space after the token": [
        Example("deepseek:v4", BLOCK_V41),
        Example("deepseek:v4", "\n\n" + BLOCK.replace("tool_calls", "function_calls").format("")),
    ],
    "`[f(a=1), g()]` in LFM2": [
        typed("lfm2", "[f(a=1), g()]", bare_calls="line"),
        typed("olmo3", "So:\n[f(a=1), g()]", bare_calls="line"),
    ],
    "no token that ends a call, or the section": [
        Example(
            "kimi-k2", KIMI.format(f"functions.f:0{ARGUMENTS}").replace("<|tool_call_end|>", "")
        ),
        Example("kimi-k2", KIMI.format(f"functions.f:0{ARGUMENTS}")[:-28] + "<|im_end|>"),
    ],
    'no `string="…"`': [Example("deepseek:v4", "\n\n" + BLOCK.format(VALUE.format("")))],
    '`string="false"` before': [
        Example("deepseek:v4", "\n\n" + BLOCK.format(VALUE.format(' string="false"'))),
    ],
    "other bars in the token's text": [
        Example(
            "deepseek:v4",
            BLOCK.format(VALUE.format(' string="true"')).replace(DSML, f"{bars}DSML{bars}"),
        )
        for bars in ("|", "||", "‖", "｜｜")
    ],
    "the block of calls without": [
        Example("deepseek:v4", "So. " + BLOCK.format(VALUE.format(' string="true"'))),
    ],
    "as another version writes it": [
        Example("deepseek:v3.1", DEEPSEEK.format("function<｜tool▁sep｜>f\n```json\n{}\n```")),
        Example("deepseek:v3", DEEPSEEK.format("f<｜tool▁sep｜>{}")),
    ],
    "no token that ends a call, or the list": [
        Example(
            "deepseek:v3.1", DEEPSEEK.format("f<｜tool▁sep｜>{}").replace("<｜tool▁call▁end｜>", "")
        ),
        Example(
            "deepseek:v3.1",
            DEEPSEEK.format("f<｜tool▁sep｜>{}").replace("<｜tool▁calls▁end｜>", "")
            + "<｜end▁of▁sentence｜>",
        ),
    ],
    "arguments, or the call, as Python writes them": [
        Example(format_, CALL.replace('{"a": 1}', arguments))
        for format_ in ("hermes", "qwen2.5", "qwen3")
        for arguments in ("{'a': None}", '{"a": 1,}', '{"a": "\n"}', '{"a": "\\d"}')
    ]
    + [Example("hermes", CALL.replace('"', "'"))],
    "arguments as a string that holds an object": [
        Example("hermes", CALL.replace('{"a": 1}', '"{\\"a\\": 1}"')),
        Example("kimi-k2", KIMI.format("functions.f:0" + ARGUMENTS.replace('{"a": 1}', '"{}"'))),
    ],
    "a comma after the last call": [
        Example("mistral", f"[TOOL_CALLS][{OBJECT}, ]"),
        Example("llama3.2", "[f(a=1),]"),
    ],
    "the object in a code fence": [
        Example("hermes", f"<tool_call>\n```json\n{OBJECT}\n```\n</tool_call>"),
    ],
    "no `</tool_call>` before another token": [Example("qwen3", f"{CALL[:-12]}<|im_end|>")],
    "an object in JSON after the token": [
        Example("lfm2", f"<|tool_call_start|>[{OBJECT}]<|tool_call_end|>"),
        Example("jamba", f"<tool_calls>{OBJECT}</tool_calls>"),
        Example("llama4", f"<|python_start|>{OBJECT}<|python_end|>"),
        Example("llama4", f"<|python_start|>[{OBJECT}]<|python_end|>"),
        Example("phi4-mini", f"<|tool_call|>{OBJECT}<|/tool_call|>"),
    ],
    '`<|python_tag|>{"name": "f"}`': [
        Example("llama3.1", '<|python_tag|>{"name": "f"}'),
        Example("llama3.1", f"<|python_tag|>{OBJECT}; {OBJECT}"),
    ],
    "`<|python_tag|>[f(a=1), g()]`": [typed("llama3.1", "<|python_tag|>[f(a=1), g()]")],
    "`[f(a=1), g()]` anywhere": [typed("llama3.1", "So: [f(a=1), g()]")],
    "no newline after the name": [Example("glm4", 'f{"a": 1}')],
    "between that token and the body": [
        Example("jamba", f"<tool_calls>[{OBJECT}]</tool_calls>"),
        Example(
            "laguna:xs", "<tool_call>\nf<arg_key>a</arg_key><arg_value>b</arg_value></tool_call>"
        ),
        Example("glm4", '<|assistant|>f {"a": 1}'),
    ],
    "no `<|message|>` before the text": [
        Example("harmony", "<|channel|>final Hello there.<|return|>"),
        Example("harmony", '<|channel|>commentary to=functions.f {"a": 1}<|call|>'),
        Example("harmony", "<|channel|>??<|message|>Hi.<|return|>"),
        Example("harmony", "<|start|>assistant assistant<|channel|>final<|message|>Hi.<|return|>"),
    ],
    "more in the header of a system, user or tool message": [
        Example(
            "harmony",
            "<|channel|>commentary<|message|>Wait.<|end|>"
            "<|start|>functions.f to=assistant<|channel|>analysis<|message|>x<|end|>",
        ),
    ],
    "a header without `<|start|>`": [
        Example(
            "harmony", f"<|channel|>analysis<|message|>Hm.<|end|>{head}<|message|>Hi.<|return|>"
        )
        for head in (
            "<|channel|>final",
            "<|start|><|channel|>final",
            "<|start|>assistant<|channel|>analysis<|channel|>final",
            "<|start|>assistant<|channel|>final<|constrain|>",
        )
    ],
    "a call after other text": [
        typed("llama3.1", f"So: {OBJECT}"),
        typed("llama3.2", "So:\n[f(a=1)]"),
        typed("llama4", "So:\n[f(a=1)]"),
        typed("phi4-mini", f"So: functools[{OBJECT}]"),
    ],
    "an object in JSON at the beginning of a line": [
        typed("llama3.2", f"So:\n{OBJECT}"),
        typed("llama4", OBJECT),
    ],
    "`<function=f>`, `<invoke": [
        typed("qwen3-coder", f"So.\n<function=f>\n{PAIR}</function>\n</tool_call>"),
        typed(
            "minimax-m2", f'</think>So.\n<invoke name="f">\n{NAMED}</invoke>\n</minimax:tool_call>'
        ),
    ],
    '`{"name": "f", "arguments": {…}}`': [
        typed("qwen3", f"So.\n{OBJECT}", bare_calls="line"),
        typed("deepseek:v3", f"So: {OBJECT}", bare_calls="anywhere"),
    ],
    "such an object in a fence": [
        typed("qwen3", f"So.\n```json\n{OBJECT}\n```", bare_calls="line"),
    ],
    "the token that opens reasoning once more": [
        Example("qwen3:thinking", "<think>\nHm.\n</think>\n\nYes."),
        Example("qwen3", "<think>\n<think>\nHm.\n</think>\n\nYes."),
    ],
    "an array, object, number": [
        typed("glm4.5", GLM.format("<arg_key>n</arg_key>\n<arg_value>['a']</arg_value>\n")),
    ],
    "types of `tools=` by other names": [
        Example("glm4.5", GLM.format(GLM_PAIR), options={"tools": [STRINGS]}),
    ],
    "the model stops after a whole pair": [
        Example("qwen3-coder", QWEN.format(PAIR)[:-12]),
        Example("glm4.5", GLM.format(GLM_PAIR)[:-12]),
    ],
    "a call before `</think>`": [
        Example("qwen3", f"<think>\n{CALL}\n</think>\n\nYes."),
        Example(
            "kimi-k2:thinking",
            "<think>" + KIMI.format(f"functions.f:0{ARGUMENTS}") + "</think>",
            options={"calls_in_reasoning": "text"},
        ),
    ],
    "`<tool_call>` as text before the list": [
        Example("granite3", f"<tool_call> [{OBJECT}]"),
        Example("granite3", f"<tool_call>{OBJECT}"),
    ],
    "at the beginning of the answer, `<think>`": [
        Example("granite3", "Here is my thought process:aHere is my response:b"),
        Example("granite4", "<think>a</think>b"),
    ],
    "`<response>` and": [
        Example("granite3", "<think>a</think>\n<response>b</response>"),
    ],
    "white space before `<|START_RESPONSE|>`": [
        Example("command-a", "\n<|START_RESPONSE|>a<|END_RESPONSE|>"),
    ],
    "quotes within a string, without": [
        Example("lfm2", "<|tool_call_start|>[f(a='sed -n '1p' x')]<|tool_call_end|>"),
        Example("olmo3", "<function_calls>f(a='it's')</function_calls>"),
    ],
    "a set, `{'a'": [
        Example("lfm2", "<|tool_call_start|>[f(a={'b', 'c'})]<|tool_call_end|>"),
    ],
    "`:call:f{`": [
        Example("gemma4", "<|tool_call>:call:f{a:1}<tool_call|>"),
        Example("gemma4", "<|tool_call>f{a:1}<tool_call|>"),
    ],
    "whole calls in reasoning that nothing closes": [
        Example("qwen3", f"<think>\nHm.\n{CALL}<|im_end|>"),
        Example("glm4.5", "<think>Hm." + GLM.format(GLM_PAIR)),
    ],
    "`</think>` before anything else": [Example("qwen3", "</think>Yes.")],
    "several objects": [Example("hermes", f"<tool_call>{OBJECT}, {OBJECT}</tool_call>")],
    "a list of objects": [Example("hermes", f"<tool_call>[{OBJECT}]</tool_call>")],
    "no `}` after whole arguments": [Example("hermes", f"<tool_call>{OBJECT[:-1]}</tool_call>")],
}
"""Examples by what a line begins with."""


@dataclass(frozen=True)
class Line:
    """What models write, and the texts that tell it."""

    written: str
    texts: tuple[str, ...]


def known_texts() -> set[str]:
    """Every text that the code tells of what it mended."""
    source = (data.ROOT / "rust" / "core" / "src" / "call" / "mod.rs").read_text(encoding="utf-8")
    return set(re.findall(r'Self::\w+ => "([^"]+)"', source))


def told(text: str) -> list[str]:
    """The texts of notices that a piece of the page has."""
    return [found for found in re.findall(r"`([^`]+)`", text) if found in known_texts()]


def lines() -> list[Line]:
    """The rows of each section's table. A heading with one text tells it of all of them."""
    page = (data.ROOT / "docs" / "leniency.md").read_text(encoding="utf-8")
    made: list[Line] = []
    for section in page.split("\n## ")[1:]:
        heading, _, rest = section.partition("\n")
        of_all = told(heading)
        heads, _, *rows = [row for row in rest.splitlines() if row.startswith("|")]
        written = heads.strip("| ").split(" | ").index("what the model writes")
        for row in rows:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip()[1:-1])]
            texts = told(row) if len(of_all) != 1 else [*of_all, *told(row)]
            made.append(Line(cells[written].replace("\\|", "|"), tuple(dict.fromkeys(texts))))
    return made


def examples_of(line: Line) -> list[Example]:
    return next((found for key, found in EXAMPLES.items() if line.written.startswith(key)), [])


@pytest.mark.parametrize("line", lines(), ids=lambda line: line.written[:60])
def test_each_line_is_true(line: Line) -> None:
    assert any(line.written.startswith(key) for key in EXAMPLES), "it has no example"
    said = set()
    for example in examples_of(line):
        codec = codec_of(example.format)
        prompt = None if example.prompt is None else ids_of(codec, example.prompt)
        stream = codec.stream(prompt, **example.options)
        events = [*stream.push(ids_of(codec, example.text)), *stream.finish()]
        # A header that was mended is told as it came, after a colon.
        mended = [text for kind, text in notices_of(events) if kind == "mended"]
        texts = [text.partition(": ")[0] for text in mended]
        assert set(texts) <= set(line.texts), example
        assert bool(texts) == bool(line.texts), example
        said.update(texts)
    assert said == set(line.texts)


def test_every_example_is_of_a_line() -> None:
    written = [line.written for line in lines()]
    for key in EXAMPLES:
        assert any(text.startswith(key) for text in written), key


def test_every_text_stands_in_a_line() -> None:
    assert known_texts() == {text for line in lines() for text in line.texts}


def test_ids_are_spelled_as_they_are_meant() -> None:
    """An example whose tokens are text would prove nothing."""
    for example in [one for found in EXAMPLES.values() for one in found]:
        codec = codec_of(example.format)
        control = set(codec.vocab.control.values())
        given = ids_of(codec, example.text) + ids_of(codec, example.prompt or "")
        spelled = [s for s in codec.vocab.control if s in example.text + (example.prompt or "")]
        assert bool(spelled) == any(id_ in control for id_ in given)
