"""Every format that a published template describes writes that template's text.

The templates are those of the list of conversation templates, rendered by jinja2: all sequences of
roles up to five messages, with and without a generation prompt. A template that raises is a
`MessageError` here; where this project refuses more, `STRICTER` says what, and nothing else is.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from chatcodec import MessageError
from hypothesis import given
from hypothesis import strategies as st
from templates import CASES, CONTENTS, PLAIN, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from references import Message


def late_system(messages: list[Message]) -> bool:
    return any(message["role"] == "system" for message in messages[1:])


def swallowed(messages: list[Message]) -> bool:
    """Whether Llama-2's template writes nothing for a message, which it does not mind.

    A message that is neither a user's nor an assistant's may stand in the assistant's place, and a
    first system message needs no user's after it.
    """
    first = messages[0]["role"]
    rest = messages[1:] if first == "system" else messages
    return not rest or any(message["role"] not in {"user", "assistant"} for message in rest)


STRICTER: dict[str, Callable[[list[Message]], bool]] = {
    # A system message has no marker: after the first message it would read as part of another.
    "deepseek": late_system,
    "llama2": swallowed,
}
"""What formats refuse that their template writes."""


def check(case: Case, messages: list[Message], *, prompt: bool) -> None:
    """The same text, or both refuse."""
    # Llama-3's template writes the generation prompt whatever is asked: so do we, unless it is
    # asked not to.
    asked = prompt or (None if case.format == "llama3" else False)
    try:
        expected = case.expected(messages, prompt=prompt)
    except ValueError:
        expected = None
    else:
        refuses = STRICTER.get(case.format)
        if refuses is not None and refuses(messages):
            expected = None
    if expected is None:
        with pytest.raises(MessageError):
            case.codec.encode(messages, add_generation_prompt=asked)
    else:
        encoding = case.codec.encode(messages, add_generation_prompt=asked)
        assert encoding.text == expected


def conversations(roles: tuple[str, ...]) -> Iterator[list[Message]]:
    """Every sequence of roles; contents so that each meets each place and each neighbour."""
    for length in range(1, 6):
        for number, sequence in enumerate(itertools.product(roles, repeat=length)):
            yield [
                {"role": role, "content": CONTENTS[(number * 5 + at * (number % 11 + 1)) % 12]}
                for at, role in enumerate(sequence)
            ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_sequence_of_roles_is_written_as_the_template_writes_it(case: Case) -> None:
    for messages in conversations(case.roles):
        for prompt in (False, True):
            check(case, messages, prompt=prompt)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(draw=st.data())
def test_any_text_is_written_as_the_template_writes_it(case: Case, draw: st.DataObject) -> None:
    signs = st.sampled_from(" \t\r\n\v\x1c\x1f\x85\u00a0\u2003\u2028\ufeffab")
    texts = st.text() | st.text(signs) | st.sampled_from(CONTENTS)
    alternate = draw.draw(st.booleans())
    messages: list[Message] = []
    for at in range(draw.draw(st.integers(1, 5))):
        role = PLAIN[1 + at % 2] if alternate else draw.draw(st.sampled_from(case.roles))
        messages.append({"role": role, "content": draw.draw(texts)})
    if alternate and draw.draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw.draw(texts)})
    check(case, messages, prompt=draw.draw(st.booleans()))


def test_llama3_leaves_the_generation_prompt_out_by_request() -> None:
    case = next(case for case in CASES if case.format == "llama3")
    messages = [{"role": "user", "content": "a"}]
    text = case.expected(messages, prompt=False)
    opener = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    assert text.endswith(opener)
    encoding = case.codec.encode(messages, add_generation_prompt=False)
    assert encoding.text == text.removesuffix(opener)


def test_what_llama2_swallows() -> None:
    """The reference's fault, in words: text that nobody reads."""
    case = next(case for case in CASES if case.format == "llama2")
    user, system = {"role": "user", "content": "a"}, {"role": "system", "content": "lost"}
    assert case.expected([system], prompt=False) == ""
    assert case.expected([user, system], prompt=False) == "<s>[INST] a [/INST]"
    for messages in ([system], [user, system]):
        with pytest.raises(MessageError):
            case.codec.encode(messages)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_role_that_the_template_does_not_know(case: Case) -> None:
    """Templates that write any role's name would make a role of a caller's text."""
    user = {"role": "user", "content": "a"}
    for role in ("narrator", "user|>", ""):
        with pytest.raises(MessageError) as caught:
            case.codec.encode([user, {"role": role, "content": "b"}])
        assert caught.value.path == "messages[1].role"


@pytest.mark.parametrize("format_", ["phi3", "deepseek"])
def test_results_have_no_place(format_: str) -> None:
    """Phi-3's template would write a token that does not exist, DeepSeek's nothing."""
    case = next(case for case in CASES if case.format == format_)
    user = {"role": "user", "content": "a"}
    with pytest.raises(MessageError):
        case.codec.encode([user, {"role": "tool", "content": "b"}])
