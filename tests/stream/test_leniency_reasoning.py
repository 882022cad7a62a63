"""Reasoning between markers that are ordinary text, as models write it: read, and not written."""

from __future__ import annotations

import pytest
from lenient import Case, Said, check, codec_of

F = ("f", {"a": 1})
LIST = '[{"name": "f", "arguments": {"a": 1}}]'
GRANITE3 = ("granite3", "granite3:3.1", "granite3:3.2", "granite3:3.3")
GRANITE4 = ("granite4", "granite4:4.1")

WORDS = [
    ("Here is my thought process:{}Here is my response:{}", GRANITE3),
    ("<think>{}</think>{}", (*GRANITE3, *GRANITE4)),
]


@pytest.mark.parametrize(
    ("written", "format_"), [(written, name) for written, names in WORDS for name in names]
)
def test_reasoning_between_words(written: str, format_: str) -> None:
    thought, answer = " So.\nHere is my first idea. ", " It is\n4."
    case = Case(format_, written.format(thought, answer), Said(answer, reasoning=thought))
    check(case)
    check(Case(format_, written.format(thought, ""), Said(reasoning=thought)))


@pytest.mark.parametrize("format_", GRANITE3)
def test_each_word_closes_what_its_own_opened(format_: str) -> None:
    thought = "So. Here is my response: 5?"
    check(Case(format_, f"<think>{thought}</think>4.", Said("4.", reasoning=thought)))
    thought = "So, </think> ends it."
    written = f"Here is my thought process:{thought}Here is my response:4."
    check(Case(format_, written, Said("4.", reasoning=thought)))


@pytest.mark.parametrize("format_", GRANITE3)
def test_a_call_after_reasoning_between_words(format_: str) -> None:
    for opener in ("<think>{}</think>", "Here is my thought process:{}Here is my response:"):
        said = Said(reasoning="So.", calls=(F,))
        check(Case(format_, f"{opener.format('So.')}<|tool_call|>{LIST}", said))


@pytest.mark.parametrize("format_", [*GRANITE3, *GRANITE4])
@pytest.mark.parametrize(
    "answer",
    [
        "Here is my thought on it.",
        "Well. <think>no</think>",
        "Well. Here is my thought process: none.",
        "Here is my response: 4.",
    ],
)
def test_words_elsewhere_are_text(format_: str, answer: str) -> None:
    check(Case(format_, answer, Said(answer)))


@pytest.mark.parametrize("format_", [*GRANITE3, *GRANITE4])
def test_an_answer_that_spells_the_words_collides(format_: str) -> None:
    codec = codec_of(Case(format_, "", Said()))
    messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "<think>a"}]
    assert [found.marker for found in codec.encode(messages).collisions] == ["<think>"]


RESPONSES = [
    ("<think>So.</think><response>It is 4.</response>", "So.", "It is 4."),
    ("<think>So.</think>\n\n<response>\nIt\nis 4.\n</response>\n", "So.", "\nIt\nis 4.\n"),
    ("<response>It is 4.</response>", "", "It is 4."),
    ("\n<response>It is 4.", "", "It is 4."),
    ("<think>So.</think>\nIt is 4.", "So.", "\nIt is 4."),
    # Elsewhere it is text.
    ("It is <response>4</response>.", "", "It is <response>4</response>."),
    ("<think>So.</think>It is 4.</response>", "So.", "It is 4.</response>"),
    ("<think>A <response> or </response>?</think>4.", "A <response> or </response>?", "4."),
]


@pytest.mark.parametrize(("written", "thought", "answer"), RESPONSES)
@pytest.mark.parametrize("format_", GRANITE3)
def test_an_answer_between_tags(format_: str, written: str, thought: str, answer: str) -> None:
    check(Case(format_, written, Said(answer, reasoning=thought)))


@pytest.mark.parametrize("format_", GRANITE3)
def test_an_answer_that_spells_the_tag_collides(format_: str) -> None:
    codec = codec_of(Case(format_, "", Said()))
    for text in ("<response>a", "\n<response>a</response>"):
        messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": text}]
        assert [found.marker for found in codec.encode(messages).collisions] == ["<response>"]


THOUGHT = "<|START_THINKING|>So.<|END_THINKING|>"


@pytest.mark.parametrize("white", ["", "\n", "\n\n  "])
def test_white_space_before_the_token_of_the_answer(white: str) -> None:
    for thought in ("", "So."):
        begin = thought and THOUGHT
        written = f"{begin}{white}<|START_RESPONSE|>It is 4.<|END_RESPONSE|>"
        check(Case("command-a", written, Said("It is 4.", reasoning=thought)))
    check(Case("command-a", f"{THOUGHT}{white}4.", Said(f"{white}4.", reasoning="So.")))
