"""harmony's headers and the tokens of reasoning, as models leave them out or write them twice."""

from __future__ import annotations

import completions
import pytest
from chatcodec.events import Notice
from lenient import DEEPSEEK_TOKENS, HEADER, OPENER, Case, Said, check, codec_of, fold, ids_of, told
from test_calls_in_reasoning import CALLS, prompt_of

CHANNEL, MESSAGE, START = "<|channel|>", "<|message|>", "<|start|>"
THOUGHT = f"{CHANNEL}analysis{MESSAGE}Hm.<|end|>"
CALLED = ("f", {"a": 1})
CALL = f'{MESSAGE}{{"a": 1}}<|call|>'


def harmony(written: str, *mended: str, text: str = "", calls: bool = False) -> Case:
    reasoning = "Hm." if "Hm." in written else ""
    called = (CALLED,) if calls else ()
    return Case("harmony", written, Said(text, reasoning, called, mended))


HEADERS = [
    *(
        harmony(f"{THOUGHT}{head}{CHANNEL}final{MESSAGE}Hi.<|return|>", HEADER, text="Hi.")
        for head in ("", START, "assistant", " assistant", f"{START}assistant{CHANNEL}analysis")
    ),
    harmony(f"{THOUGHT}{MESSAGE}Hi.<|return|>", HEADER, text="Hi."),
    harmony(f"{CHANNEL}analysis{MESSAGE}Hm.{CHANNEL}final{MESSAGE}Hi.", HEADER, text="Hi."),
    harmony(f"{CHANNEL}commentary{CHANNEL}final{MESSAGE}Hi.", HEADER, text="Hi."),
    harmony(f"{CHANNEL}final<|constrain|>{MESSAGE}Hi.", HEADER, text="Hi."),
    *(
        harmony(f"{THOUGHT}{head}{CALL}", HEADER, calls=True)
        for head in (
            f"{CHANNEL}commentary to=functions.f <|constrain|>json",
            f"{START}{CHANNEL}commentary to=functions.f <|constrain|>json",
            f" to=functions.f{CHANNEL}commentary",
            f"to=functions.f{CHANNEL}commentary",
            f"{START} to=functions.f{CHANNEL}commentary json",
            f"assistant to=functions.f{CHANNEL}commentary json",
            f"{START}assistant{CHANNEL}analysis{CHANNEL}commentary to=functions.f json",
            f"{CHANNEL}analysis{CHANNEL}commentary to=functions.f json",
            f"{START}assistant{CHANNEL}commentary to=functions.f<|constrain|>",
            f"{CHANNEL}commentary to=functions.f <|constrain|>",
        )
    ),
]


HEADERS += [
    harmony(f"{head}{CALL}", HEADER, calls=True)
    for head in (
        f"to=functions.f{CHANNEL}commentary json",
        "to=functions.f",
        f"\n to=functions.f{CHANNEL}commentary <|constrain|>json",
        f"  to=functions.f{CHANNEL}analysis",
        f"{THOUGHT}{START}to=functions.f{CHANNEL}commentary json",
        f"{THOUGHT}{START}to=functions.f",
    )
]


@pytest.mark.parametrize("case", HEADERS, ids=str)
def test_headers_that_lack_a_part(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("text", ["assist", "assistants know", "to be", " to=", "t", "a", "final"])
def test_text_after_a_frame_is_text(text: str) -> None:
    case = harmony(f"{THOUGHT}{text}", text=text)
    codec = codec_of(case)
    ids = ids_of(codec, case.written)
    for at in range(len(ids) + 1):
        stream = codec.stream(None)
        events = [*stream.push(ids[:at]), *stream.push(ids[at:]), *stream.finish("stop")]
        said = fold(events)
        assert (said.reasoning, said.text.strip()) == ("Hm.", text.strip())
        assert said.mended == ()


FINAL = f"{START}assistant{CHANNEL}final"
TO = f"{CHANNEL}commentary to=functions.f"
BODY = '{"a": 1}<|call|>'

ODD = ("??", " I think so.", "finalx?", "commentary?", "commentary 2?", "so it is", "-")
TWICE = f"commentary to=assistant{CHANNEL}final?"
JSON_TYPE = "<|constrain|>json"

ANEW = [
    *(
        harmony(f"{THOUGHT}{FINAL}{white}Hello there.<|return|>", HEADER, text="Hello there.")
        for white in (" ", "\n", "\n\n")
    ),
    harmony(f"{THOUGHT}{FINAL} Hello<|return|>", HEADER, text="Hello"),
    harmony(f"{THOUGHT}{FINAL}: Hi.<|return|>", HEADER, text=": Hi."),
    harmony(f"{THOUGHT}{FINAL} Hello there.", HEADER, text="Hello there."),
    harmony(f"{THOUGHT}{FINAL}<|return|>", HEADER),
    harmony(f"{CHANNEL}final Hello there.<|return|>", HEADER, text="Hello there."),
    harmony(f"{CHANNEL}final Hello {'very ' * 40}much.", HEADER, text=f"Hello {'very ' * 40}much."),
    harmony(f"{CHANNEL}analysis Hm.<|end|>{FINAL}{MESSAGE}Hi.<|return|>", HEADER, text="Hi."),
    *(harmony(f"{CHANNEL}{odd}{MESSAGE}Hi.<|return|>", HEADER, text="Hi.") for odd in ODD),
    *(
        harmony(f"{THOUGHT}{head}{MESSAGE}Hi.<|return|>", HEADER, text="Hi.")
        for head in (
            *(f"{START}assistant{CHANNEL}{odd}" for odd in ("??", "final\n!", TWICE)),
            *(f"{START}assistant{again}{CHANNEL}final" for again in (" assistant", "\nassistant")),
        )
    ),
    *(
        harmony(f"{THOUGHT}{START}assistant{head}{JSON_TYPE}{MESSAGE}{BODY}", calls=True)
        for head in (
            f"{CHANNEL}\ncommentary to=functions.f ",
            f"{CHANNEL}commentary  to=functions.f ",
        )
    ),
    harmony(f"{CHANNEL}\ncommentary\nto=functions.f{MESSAGE}{BODY}", HEADER, calls=True),
    *(
        harmony(f"{THOUGHT}{START}assistant{head}{BODY}", HEADER, calls=True)
        for head in (
            f"{TO} ",
            TO,
            f"{TO} json",
            f"{TO} json ",
            f"{TO} {JSON_TYPE}",
            f"{TO} {JSON_TYPE} ",
            f" to=functions.f{CHANNEL}commentary ",
            f" to=functions.f{CHANNEL}commentary json",
            f"{CHANNEL} to=functions.f {JSON_TYPE}{MESSAGE}",
            f"{CHANNEL}? to=functions.f {JSON_TYPE}{MESSAGE}",
        )
    ),
]


@pytest.mark.parametrize("case", HEADERS + ANEW, ids=str)
def test_what_is_told_of_a_header_has_nothing_after_it(case: Case) -> None:
    codec = codec_of(case)
    events = told(codec, case, [ids_of(codec, case.written)], "ids")
    notices = [event.text for event in events if isinstance(event, Notice)]
    mended = [notice.removeprefix(HEADER) for notice in notices if notice.startswith(HEADER)]
    assert bool(mended) == (HEADER in case.said.mended)
    assert not any(part in header for part in ("Hm.", "Hello", "Hi.", "{") for header in mended)


@pytest.mark.parametrize("case", ANEW, ids=str)
def test_headers_that_are_written_anew(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("{f}Answer<|end|><|return|>", "Answer"),
        ("{f}Answer<|return|><|return|>", "Answer"),
        ("{f}Answer<|end|><|start|>", "Answer"),
        ("{f}Answer<|end|><|start|>" + f"{FINAL}{MESSAGE}!<|return|>", "Answer!"),
    ],
)
def test_tokens_of_turns_as_text(written: str, text: str) -> None:
    """Where they mean nothing they are no text, as ids and as they are spelled."""
    case = harmony("")
    codec = codec_of(case)
    written = written.format(f=f"{THOUGHT}{FINAL}{MESSAGE}")
    as_ids = fold(told(codec, case, [ids_of(codec, written)], "ids"))
    stream = codec.stream(None, markers="text")
    as_text = fold([*stream.push_text(written), *stream.finish("stop")])
    assert as_ids.reasoning == as_text.reasoning == "Hm."
    assert as_ids.text.replace("\n", "") == as_text.text.replace("\n", "") == text


@pytest.mark.parametrize("end", ["", START, f"{START}user{MESSAGE}"])
@pytest.mark.parametrize("tokens", [CHANNEL, CHANNEL * 2])
@pytest.mark.parametrize("between", ["# Tools\n\n## functions\n", "analysis to", "so it is "])
def test_text_between_two_channels_stays(between: str, tokens: str, end: str) -> None:
    """Also where the turn ends, or another begins, before a channel is named."""
    codec = codec_of(harmony(""))
    prompt = codec.encode([{"role": "user", "content": "x"}], add_generation_prompt=True)
    ids = ids_of(codec, f"{CHANNEL}{between}{tokens}{end}")
    assert codec.parse(ids, prompt=prompt).message["content"].strip() == between.strip()
    if not end:
        assert codec.decode([*prompt, *ids])[-1]["content"].strip() == between.strip()


@pytest.mark.parametrize("text", [".\n\n## Avai", "s know", " it is", "!"])
def test_text_before_a_channel_stays(text: str) -> None:
    codec = codec_of(harmony(""))
    prompt = codec.encode([{"role": "user", "content": "x"}], add_generation_prompt=True)
    ids = ids_of(codec, f"{text}{CHANNEL}")
    assert codec.parse(ids, prompt=prompt).message["content"] == text
    assert codec.decode([*prompt, *ids])[-1]["content"].strip() == text.strip()


def test_text_after_a_call() -> None:
    written = f"{THOUGHT}{START}assistant{TO}{MESSAGE}{BODY}So it is."
    said = fold(
        told(codec_of(harmony("")), harmony(""), [ids_of(codec_of(harmony("")), written)], "ids")
    )
    assert (said.calls, said.text, said.reasoning) == ((CALLED,), "So it is.", "Hm.")


def test_many_channels_take_linear_time() -> None:
    codec = codec_of(harmony(""))
    ids = ids_of(codec, f"{THOUGHT}{CHANNEL}a") + ids_of(codec, f"{CHANNEL}b{MESSAGE}") * 20000
    stream = codec.stream(None)
    assert stream.push(ids)


def tokens(format_: str) -> tuple[str, ...]:
    """What the golden cases of a format do not name."""
    return DEEPSEEK_TOKENS if format_.startswith("deepseek") else ()


THINK, THINK_END = "<think>", "</think>"
PROMPTED = ["qwen3:thinking", "deepseek:r1"]


@pytest.mark.parametrize("format_", [*PROMPTED, "kimi-k2:thinking"])
@pytest.mark.parametrize("before", ["", "\n", " \n"])
@pytest.mark.parametrize("after", ["", "\n"])
def test_the_token_that_opens_reasoning_again(format_: str, before: str, after: str) -> None:
    if format_.startswith("kimi"):
        if before:
            return
        before = THINK
    written = f"{before}{THINK}{after}Hm.{THINK_END}Hi."
    reasoning = "Hm." if not format_.startswith("kimi") else f"{after}Hm."
    check(Case(format_, written, Said("Hi.", reasoning, mended=(OPENER,)), more=tokens(format_)))


@pytest.mark.parametrize("format_", PROMPTED)
def test_reasoning_that_a_prompt_has_opened(format_: str) -> None:
    check(Case(format_, f"Hm.\n{THINK_END}\n\nHi.", Said("Hi.", "Hm."), more=tokens(format_)))
    check(Case(format_, f"\n{THINK_END}\n\nHi.", Said("Hi."), more=tokens(format_)))
    check(Case(format_, f" Hm.\n{THINK_END}\n\nHi.", Said("Hi.", " Hm."), more=tokens(format_)))


@pytest.mark.parametrize("white", ["", "\n", " \n"])
@pytest.mark.parametrize("format_", CALLS)
def test_reasoning_that_is_opened_twice(format_: str, white: str) -> None:
    """After a prompt that has opened it, and by the model alone; as an id, and as it is spelled."""
    codec, prompt = completions.codec_of(format_), prompt_of(format_)
    for text in (f"{white}<think>So.</think>Yes.", f"{white}<think>{white}<think>So.</think>Yes."):
        events = completions.told(codec, text, prompt)
        message = completions.message_of(events)
        assert (message["reasoning"], message["content"]) == ("So.", "Yes.")
        assert set(completions.notices_of(events)) == {("mended", OPENER)}
