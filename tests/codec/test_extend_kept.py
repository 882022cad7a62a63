"""`Codec.extend`: whatever a model wrote, its ids stay, and a note says what `encode` would write.

Every assistant's turn of the golden cases, as it is and mistreated, with every follow-up that fits.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, Note
from chatcodec.errors import MessageError
from chatcodec.events import Notice, TurnEnd
from test_golden import Case, cases, here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Encoding

Message = dict[str, Any]

AFTER: list[list[Message]] = [
    [],
    [{"role": "user", "content": "And then?"}],
    [{"role": "system", "content": "Be brief."}],
]
WORDS = ("date", "effort", "thinking")


def turns(codec: Codec, case: Case) -> Iterator[tuple[Encoding, list[int], Message]]:
    """Prompts, what was answered, and the answer as a message."""
    messages = case["messages"]
    given = {key: value for key, value in case.get("options", {}).items() if key in WORDS}
    given["tools"] = case.get("tools")
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, until = messages[:index], messages[: index + 1]
        try:
            prompt = codec.encode(before, add_generation_prompt=True, **given)
            whole = codec.encode(until, add_generation_prompt=False, **given)
        except MessageError:
            continue
        mask = whole.assistant_mask.tolist()
        end = len(mask) - mask[::-1].index(1) if 1 in mask else 0
        ids = whole.ids.tolist()[: max(end, len(prompt))]
        if ids[: len(prompt)] == prompt.ids.tolist():
            yield prompt, ids[len(prompt) :], message


def after(codec: Codec, answer: Message, prompt: Encoding, ids: list[int]) -> list[list[Message]]:
    """What may be said after an answer, as far as the format has a place for it."""
    called = len(codec.parse(ids, prompt).message.get("tool_calls", []))
    results = [{"role": "tool", "content": "3"}] * called
    follow_ups = [*AFTER, results] if called else AFTER
    fitting = []
    for messages in follow_ups:
        before = {"role": "assistant", "content": "x"} if messages is not results else answer
        try:
            codec.encode([{"role": "user", "content": "x"}, before, *messages])
        except MessageError:
            if messages:
                continue
        fitting.append(messages)
    return fitting


def without_ids(message: Message) -> Message:
    calls = message.get("tool_calls", [])
    plain = {key: value for key, value in message.items() if key != "tool_calls"}
    bare = [{key: value for key, value in call.items() if key != "id"} for call in calls]
    return plain | ({"tool_calls": bare} if bare else {})


def check(codec: Codec, prompt: Encoding, ids: list[int], messages: list[Message]) -> Encoding:
    """Extends, and checks what every extension holds."""
    extended = codec.extend(prompt, ids, messages)
    seen = [*prompt.ids, *ids]
    assert extended.ids.tolist()[: len(seen)] == seen
    assert all(extended.assistant_mask.tolist()[len(prompt) : len(seen)])
    assert extended.labels().tolist()[len(prompt) : len(seen)] == ids
    kinds = {note.kind for note in extended.notes}
    told = without_ids(codec.parse(ids, prompt).message)
    read = [without_ids(message) for message in codec.decode(extended)]
    is_empty = told == {"role": "assistant", "content": ""}
    if extended.notes and "reads" not in kinds and not is_empty:
        assert told in read
    return extended


def within_turn(codec: Codec, prompt: Encoding, ids: list[int]) -> list[int]:
    """An answer without what ends its turn before the last token: a tag may have several tokens."""

    def told(ids: list[int]) -> tuple[bool, bool]:
        stream = codec.stream(prompt)
        events = [*stream.push(ids), *stream.finish("length")]
        ended = any(isinstance(event, TurnEnd) and event.reason != "length" for event in events)
        return ended, any(isinstance(event, Notice) for event in events)

    ended, _ = told(ids)
    while ids and ended and any(told(ids)):
        ids = ids[:-1]
    return ids


@pytest.mark.parametrize(("format_", "case"), data.share(cases("encode"), 3))
def test_every_golden_answer_is_extended(format_: str, case: Case) -> None:
    for vocab in here(case["ids"]):
        codec = data.load_case(format_, vocab, case)
        for prompt, ids, answer in turns(codec, case):
            stops = codec.stop_ids
            body = ids[:-1] if ids and ids[-1] in stops else ids
            for completion in (ids, body):
                for messages in after(codec, answer, prompt, completion):
                    check(codec, prompt, completion, messages)


@pytest.mark.parametrize(("format_", "case"), data.share(cases("encode"), 3, first=1))
def test_what_a_model_wrote_otherwise_stays(format_: str, case: Case) -> None:
    for vocab in here(case["ids"]):
        codec = data.load_case(format_, vocab, case)

        def text(words: str, codec: Codec = codec) -> list[int]:
            return codec.vocab.encode(words).tolist()

        for prompt, ids, answer in turns(codec, case):
            stops = codec.stop_ids
            body = ids[:-1] if ids and ids[-1] in stops else ids
            stop = ids[len(body) :] or stops[:1]
            body = within_turn(codec, prompt, body)
            for completion in (
                text("\n\n") + ids,
                text(" ") + ids,
                body + text(" \n") + stop,
                body + text("Done.") + stop,
                body[:-1],
                text("Plain.") + stop,
            ):
                stream = codec.stream(prompt)
                # A token that its text makes a tag may be the last but for a part of that text.
                events = [*stream.push(completion), *stream.finish()]
                odd = [event for event in events if isinstance(event, Notice)]
                for messages in after(codec, answer, prompt, completion):
                    is_space = all(text in "\n " for text in codec.vocab.decode(completion))
                    if is_space or any(event.kind == "unexpected_control" for event in odd):
                        with contextlib.suppress(MessageError):
                            check(codec, prompt, completion, messages)
                    else:
                        check(codec, prompt, completion, messages)


@pytest.fixture(scope="module")
def qwen3() -> Codec:
    parameters = next(p for p in cases("encode") if p.values[0] == "qwen3")
    case = parameters.values[1]
    assert isinstance(case, dict)
    return data.load_case("qwen3", "appended", case)


ASK: list[Message] = [{"role": "user", "content": "1 + 1?"}]
NEXT: list[Message] = [{"role": "user", "content": "Sure?"}]


def thought(codec: Codec) -> list[int]:
    control = codec.vocab.control
    said = codec.vocab.encode
    opened = [control["<think>"], *said("\nAdd.\n"), control["</think>"]]
    return [*opened, *said("\n\n2."), codec.stop_ids[0]]


def test_reasoning_stays_and_is_noted(qwen3: Codec) -> None:
    prompt = qwen3.encode(ASK)
    ids = thought(qwen3)
    extended = check(qwen3, prompt, ids, NEXT)
    (note,) = extended.notes
    assert (note.kind, note.message) == ("reasoning", 1)
    first, last = note.tokens
    assert "Add." in qwen3.vocab.decode(extended[first:last], control="spell")
    assert note.text == "format `qwen3` leaves out the reasoning of this turn"
    assert qwen3.decode(extended)[1]["reasoning"] == "Add."
    assert extended.sources[len(prompt) + 2] == "messages[1].reasoning"
    # Without a question after it, the format writes it too.
    assert check(qwen3, prompt, ids, []).notes == ()
    # Notes stay with what is extended again.
    last_prompt = check(qwen3, extended, ids, NEXT)
    assert [(note.kind, note.message) for note in last_prompt.notes] == [
        ("reasoning", 1),
        ("reasoning", 3),
    ]


def test_reasoning_as_the_template_has_it_is_refused_with_the_reason(qwen3: Codec) -> None:
    prompt = qwen3.encode(ASK)
    with pytest.raises(MessageError, match="then writes in another way") as error:
        qwen3.extend(prompt, thought(qwen3), NEXT, reasoning="template")
    assert error.value.path == "new_messages"
    assert qwen3.extend(prompt, thought(qwen3), [], reasoning="template").notes == ()
    with pytest.raises(ValueError, match='reasoning="all", expected one of "keep", "template"'):
        qwen3.extend(prompt, thought(qwen3), NEXT, reasoning="all")  # type: ignore[arg-type]


def test_a_call_with_odd_json_and_text_after_it(qwen3: Codec) -> None:
    control, said = qwen3.vocab.control, qwen3.vocab.encode
    call = [control["<tool_call>"], *said('{ "name":"f","arguments":{ }}')]
    ids = [*call, control["</tool_call>"], *said("Wait."), qwen3.stop_ids[0]]
    prompt = qwen3.encode(ASK, tools=[{"name": "f"}])
    extended = check(qwen3, prompt, ids, [{"role": "tool", "content": "2"}])
    assert {note.kind for note in extended.notes} == {"text", "text_after_action"}
    assert extended.text.endswith(
        "Wait.<|im_end|>\n<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    # Cut within the call.
    cut = check(qwen3, prompt, call[:-2], NEXT)
    assert "incomplete" in {note.kind for note in cut.notes}
    after_it = "<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n"
    assert cut.text.endswith(after_it)


def test_other_ids_of_the_same_text_are_noted(qwen3: Codec) -> None:
    prompt = qwen3.encode(ASK)
    ids = [3 + byte for byte in b"two"]
    extended = check(qwen3, prompt, ids, NEXT)
    (note,) = [note for note in extended.notes if note.kind != "prompt"]
    assert (note.kind, note.message) == ("ids", 1)
    assert isinstance(note, Note)
    assert note.__match_args__ == ("kind", "text", "tokens", "message")
    assert repr(note).startswith('Note(kind="ids", text=')
    assert note == check(qwen3, prompt, ids, NEXT).notes[0]


@pytest.mark.parametrize(("format_", "case"), [p.values for p in cases("encode")][::4])
def test_a_stray_control_id_at_the_start_is_refused_by_its_position(
    format_: str, case: Case
) -> None:
    """Where no opener stands before the answer too."""
    for vocab in here(case["ids"]):
        codec = data.load_case(format_, vocab, case)
        if codec.generation_prompt_ids:
            continue
        for prompt, ids, _ in turns(codec, case):
            for id_ in sorted(set(codec.vocab.control.values()))[:400]:
                events = codec.stream(prompt).push([id_, *ids])
                kinds = [getattr(event, "kind", None) for event in events[:1]]
                if kinds != ["unexpected_control"]:
                    continue
                with pytest.raises(MessageError, match=rf"at id 0 \({id_}, ") as error:
                    codec.extend(prompt, [id_, *ids], [])
                assert error.value.path == "completion"
