"""Calls that nothing marks as calls: taken for ones where tools have their names."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import StreamPool
from completions import codec_of
from lenient import CALL, DEEPSEEK_TOKENS, Case, Said, check

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENER = "what opens the call is missing"
AFTER = "what closes calls is not the format's"
TEXT_AFTER = "text_after_action: "
JSON = '{"name": "f", "arguments": {"a": 1}}'
CALLED = ("f", {"a": 1})
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]


def case(format_: str, written: str, said: Said, **options: Any) -> Case:  # noqa: ANN401
    more = DEEPSEEK_TOKENS if format_.startswith("deepseek") else ()
    return Case(format_, written, said, more=more, options={"tools": TOOLS, **options})


def objects(format_: str, bare_calls: str | None) -> Iterator[Case]:
    """A call as an object: at the beginning of a line, in a fence, several."""
    options = {} if bare_calls is None else {"bare_calls": bare_calls}
    own = format_ == "llama3.1"
    further = () if own else (CALL,)
    for written, said in (
        (f"So.\n{JSON}", Said("So.\n", calls=(CALLED,), mended=(OPENER,))),
        (f"So.\n  {JSON}", Said("So.\n  ", calls=(CALLED,), mended=(OPENER,))),
        (
            f"So.\n```json\n{JSON}\n```",
            Said("So.\n", calls=(CALLED,), mended=(OPENER, AFTER)),
        ),
        (f"So.\n```\n{JSON}```", Said("So.\n", calls=(CALLED,), mended=(OPENER, AFTER))),
        (
            f"So.\n{JSON}; {JSON}",
            Said("So.\n", calls=(CALLED, CALLED), mended=(OPENER, *further)),
        ),
        (
            f"So.\n{JSON}\nDone.",
            Said("So.\n\nDone.", calls=(CALLED,), mended=(OPENER,), notices=(TEXT_AFTER,)),
        ),
        ('So.\n{"name": "h", "arguments": {}}', Said('So.\n{"name": "h", "arguments": {}}')),
        ('So.\n{"name": "f"}', Said('So.\n{"name": "f"}')),
        ('So.\n{"name": "f", "argu', Said('So.\n{"name": "f", "argu')),
        ("So.\n{\n{\n[\n", Said("So.\n{\n{\n[\n")),
        ("So.\n```json\n{}\n```", Said("So.\n```json\n{}\n```")),
    ):
        yield case(format_, written, said, **options)
    inline = f"So: {JSON}"
    if bare_calls == "line":
        yield case(format_, inline, Said(inline), **options)
    else:
        said = Said("So: ", calls=(CALLED,), mended=(OPENER,))
        yield case(format_, inline, said, **options)


F = "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n"
INVOKE = '<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\n'
THOUGHT = "</think>"
CASES = [
    *objects("llama3.1", None),
    *objects("kimi-k2", "anywhere"),
    *objects("deepseek:v3", "line"),
    *(
        case("qwen3-coder", written, said)
        for written, said in (
            (F, Said(calls=(CALLED,), mended=(OPENER,))),
            (f"So.\n\n{F}", Said("So.", calls=(CALLED,), mended=(OPENER,))),
            (f"So.\n\n{F}</tool_call>", Said("So.", calls=(CALLED,), mended=(OPENER,))),
            (
                f"{F}{F}",
                Said(calls=(CALLED, CALLED), mended=(OPENER, "calls stand in one block")),
            ),
            (
                F.replace("=f>", '="f">'),
                Said(calls=(CALLED,), mended=(OPENER,)),
            ),
            (f"a {F}", Said(f"a {F}")),
            ("\n<function=h>\n", Said("\n<function=h>\n")),
            ("<function= f>", Said("<function= f>")),
            ("<functions=f>", Said("<functions=f>")),
            (JSON, Said(JSON)),
        )
    ),
    case("qwen3-coder", JSON, Said(calls=(CALLED,), mended=(OPENER,)), bare_calls="line"),
    case("qwen3-coder", F, Said(F), bare_calls="text"),
    *(
        replace(
            case("minimax-m2", f"{THOUGHT}So.\n{written}", said),
            spelled=None,
        )
        for written, said in (
            (INVOKE, Said("So.", calls=(CALLED,), mended=(OPENER,))),
            (f"{INVOKE}{INVOKE}", Said("So.", calls=(CALLED, CALLED), mended=(OPENER,))),
            (f"{INVOKE}</minimax:tool_call>", Said("So.", calls=(CALLED,), mended=(OPENER,))),
        )
    ),
    *(
        case(format_, "So:\n[f(a=1), g()]", Said("So:\n", calls=(CALLED, ("g", {})), mended=mended))
        for format_, mended in (("llama3.2", (OPENER,)), ("llama4", (OPENER,)))
    ),
    *(
        case(format_, written, said)
        for format_ in ("llama3.2", "llama4")
        for written, said in (
            (JSON, Said(calls=(CALLED,), mended=(OPENER,))),
            (JSON.replace("arguments", "parameters"), Said(calls=(CALLED,), mended=(OPENER,))),
            (f"So.\n{JSON}; {JSON}", Said("So.\n", calls=(CALLED, CALLED), mended=(OPENER, CALL))),
            (f"```json\n{JSON}\n```", Said(calls=(CALLED,), mended=(OPENER, AFTER))),
            (f"So: {JSON}", Said(f"So: {JSON}")),
            ('{"name": "h", "parameters": {}}', Said('{"name": "h", "parameters": {}}')),
            ('{"name": "f", "age": 3}', Said('{"name": "f", "age": 3}')),
        )
    ),
    case("llama4", JSON, Said(JSON), bare_calls="text"),
    case("llama4", "So:\n[h(a=1)]", Said("So:\n[h(a=1)]")),
    case("llama4", "So: [f(a=1)]", Said("So: [f(a=1)]")),
    case("phi4-mini", f"So: functools[{JSON}]", Said("So: ", calls=(CALLED,), mended=(OPENER,))),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_calls_that_nothing_marks(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_tools_or_where_none_are_looked_for_they_are_text(case: Case) -> None:
    codec = codec_of(case.format)
    for options in ({"tools": TOOLS, "bare_calls": "text"}, {"bare_calls": "anywhere"}):
        written = f"Well, {case.written}".replace(THOUGHT, "")
        prompt = "]~b]ai\n<think>\n</think>\n\n" if case.format == "minimax-m2" else ""
        stream = codec.stream(markers="text", keep=True, **options)
        stream.push_text("</think>" if prompt else "")
        stream.push_text(written)
        stream.finish()
        assert stream.message().get("tool_calls") is None


def test_a_call_in_reasoning_is_reasoning() -> None:
    codec = codec_of("qwen3")
    text = f"<think>\nSo.\n{JSON}\n</think>\n\n{JSON}"
    message = codec.parse(text, markers="text", tools=TOOLS, bare_calls="line").message
    assert JSON in message["reasoning"]
    assert len(message["tool_calls"]) == 1


def test_all_that_take_the_option() -> None:
    codec = codec_of("hermes")
    text = f"So.\n{JSON}"
    expected = codec.parse(text, markers="text", tools=TOOLS, bare_calls="line").message
    assert expected["tool_calls"][0]["function"]["name"] == "f"
    pool = StreamPool(codec)
    slot = pool.open(markers="text", keep=True, tools=TOOLS, bare_calls="line")
    pool.push_text(slot, text)
    pool.finish(slot)
    assert pool.message(slot) == expected
    with pytest.raises(ValueError, match=r'bare_calls="never", expected "text", "line"'):
        codec.stream(bare_calls="never")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["{\n", "{", '{"name": "', "```json\n{", "<function=", "[f(", " \n\t"], ids=repr
)
def test_looking_for_calls_takes_linear_time(text: str) -> None:
    codec = codec_of("llama4")
    times = []
    for length in (1 << 16, 1 << 18):
        stream = codec.stream(markers="text", tools=TOOLS, bare_calls="anywhere")
        written = text * (length // len(text))
        begun = time.process_time()
        stream.push_text(written)
        stream.finish()
        times.append(time.process_time() - begun)
    assert times[1] < 8 * times[0] + 0.1


WEATHER = [{"type": "function", "function": {"name": name}} for name in ("weather", "time")]
PYTHONIC = ("lfm2", "lfm2:2.5", "lfm2:2.5-thinking", "olmo3", "olmo3:3.1")
BOTH: tuple[tuple[str, Any], ...] = (("weather", {"city": "Oslo", "n": [1, None]}), ("time", {}))


@pytest.mark.parametrize("format_", PYTHONIC)
@pytest.mark.parametrize(("before", "after"), [("", ""), ("So:\n", ""), ("", "\nDone.")])
def test_bare_calls_in_python(format_: str, before: str, after: str) -> None:
    written = f"{before}[weather(city='Oslo', n=[1, None]), time()]{after}"
    notices = ("text_after_action: ",) * bool(after)
    said = Said(text=before + after, calls=BOTH, mended=(OPENER, CALL), notices=notices)
    check(Case(format_, written, said, options={"tools": WEATHER, "bare_calls": "line"}))
    for options in ({"tools": WEATHER}, {"bare_calls": "line"}):
        check(Case(format_, written, Said(text=written), options=options))


@pytest.mark.parametrize("format_", PYTHONIC)
@pytest.mark.parametrize("text", ["[other(a=1)]", "x [weather(a=1)]", "[weather]", "weather(a=1)"])
def test_text_like_a_bare_call_in_python(format_: str, text: str) -> None:
    options = {"tools": WEATHER, "bare_calls": "line"}
    check(Case(format_, text, Said(text=text), options=options))
