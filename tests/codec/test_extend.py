"""`Codec.extend`: the next prompt begins with the ids that were seen.

The laws for every format are in Rust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec
from chatcodec.errors import MessageError
from completions import codec_of, ids_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts

if TYPE_CHECKING:
    from chatcodec import Encoding

ASK = [{"role": "user", "content": "Weather in Oslo?"}]
NEXT = [{"role": "user", "content": "And in Bergen?"}]


def answer(codec: Codec, text: str = "Cold.", *, stop: bool = True) -> list[int]:
    return [*codec.vocab.encode(text), *(codec.stop_ids[:1] if stop else [])]


def call(codec: Codec, body: str = '\n{"name": "f", "parameters": {"a": 1}}') -> list[int]:
    control = codec.vocab.control
    act, plugin, done = (
        control[name] for name in ("<|action_start|>", "<|plugin|>", "<|action_end|>")
    )
    return [act, plugin, *codec.vocab.encode(body), done, codec.stop_ids[0]]


def whole(
    codec: Codec, messages: list[dict[str, Any]], *, continue_final: bool = False
) -> Encoding:
    return codec.encode(messages, boundary="isolated", continue_final=continue_final)


@pytest.mark.parametrize("stop", [True, False])
def test_the_next_prompt_is_that_of_the_whole_conversation(embedded: Codec, stop: bool) -> None:  # noqa: FBT001
    prompt = whole(embedded, ASK)
    completion = answer(embedded, stop=stop)
    extended = embedded.extend(prompt, completion, NEXT)
    expected = whole(embedded, [*ASK, {"role": "assistant", "content": "Cold."}, *NEXT])
    assert extended.ids.tolist()[: len(prompt) + len(completion)] == [*prompt.ids, *completion]
    assert extended.ids == expected.ids
    assert extended.text == expected.text
    assert extended.sources == expected.sources
    assert extended.message_indices == expected.message_indices
    assert extended.assistant_mask == expected.assistant_mask
    assert extended.is_control == expected.is_control
    assert extended.offsets == expected.offsets
    assert extended.char_offsets == expected.char_offsets


@given(texts=st.lists(hostile_texts(), min_size=1, max_size=4))
def test_turn_after_turn(texts: list[str]) -> None:
    embedded = Codec("internlm2", vocab="embedded")
    messages: list[dict[str, Any]] = [*ASK]
    prompt = whole(embedded, messages)
    for text in texts:
        seen = [*prompt.ids, *answer(embedded, text)]
        prompt = embedded.extend(prompt, answer(embedded, text), NEXT)
        messages += [{"role": "assistant", "content": text}, *NEXT]
        assert prompt.ids.tolist()[: len(seen)] == seen
        assert embedded.decode(prompt.ids) == embedded.canonical(messages)
    assert prompt.ids == whole(embedded, messages).ids


def test_results_answer_the_calls_of_the_completion(embedded: Codec) -> None:
    prompt = embedded.encode(ASK, tools=[{"name": "f"}])
    parsed = embedded.parse(call(embedded), prompt.ids)
    told = parsed.message["tool_calls"][0]["id"]
    results = [{"role": "tool", "tool_call_id": told, "content": "3"}]
    extended = embedded.extend(prompt, call(embedded), results)
    assert extended.text.endswith(
        "<|im_start|>environment name=<|plugin|>\n3<|im_end|>\n<|im_start|>assistant\n"
    )
    messages = [*ASK, parsed.message, *results]
    assert embedded.decode(extended.ids) == embedded.canonical(messages, tools=[{"name": "f"}])
    assert "messages[1].tool_calls[0].function.arguments" in extended.sources


def test_a_prompt_may_be_ids(embedded: Codec) -> None:
    prompt = embedded.encode(ASK)
    by_ids = embedded.extend(prompt.ids, answer(embedded), NEXT)
    extended = embedded.extend(prompt, answer(embedded), NEXT)
    assert by_ids.ids == extended.ids
    assert by_ids.text == extended.text
    old = len(prompt)
    assert by_ids.message_indices.tolist() == [-1] * old + extended.message_indices.tolist()[old:]
    assert by_ids.labels() == extended.labels()


def test_a_message_that_was_left_open_goes_on(embedded: Codec) -> None:
    begun = [*ASK, {"role": "assistant", "content": "It is "}]
    prompt = whole(embedded, begun, continue_final=True)
    extended = embedded.extend(prompt, answer(embedded, "cold."), NEXT)
    messages = [*ASK, {"role": "assistant", "content": "It is cold."}, *NEXT]
    assert embedded.decode(extended.ids) == embedded.canonical(messages)
    assert extended.message_indices.tolist()[-1] == -1
    assert set(extended.message_indices.tolist()) == {-1, 0, 1, 2}
    trained = [id_ for id_ in extended.labels() if id_ != -100]
    assert embedded.vocab.decode(trained, control="spell") == "It is cold.<|im_end|>"


@pytest.mark.parametrize(
    ("text", "path", "why"),
    [
        ("turn", "completion", "goes on after its turn has ended"),
        ("control", "completion", "unexpected_control"),
    ],
)
def test_what_is_no_turn_is_refused(embedded: Codec, text: str, path: str, why: str) -> None:
    start = embedded.vocab.control["<|im_start|>"]
    plugin = embedded.vocab.control["<|plugin|>"]
    completions = {
        "turn": [*answer(embedded), start, *embedded.vocab.encode("user\nHi")],
        "control": [*answer(embedded, stop=False), plugin, *answer(embedded)],
    }
    with pytest.raises(MessageError, match=why) as error:
        embedded.extend(embedded.encode(ASK), completions[text], NEXT)
    assert error.value.path == path


def test_what_cannot_be_extended_is_refused(embedded: Codec) -> None:
    ended = embedded.encode([*ASK, {"role": "assistant", "content": "Cold."}])
    with pytest.raises(MessageError, match="does not end where a model answers"):
        embedded.extend(ended, answer(embedded), NEXT)
    with pytest.raises(MessageError, match="does not end where a model answers"):
        embedded.extend(ended.ids, answer(embedded), NEXT)
    with pytest.raises(MessageError, match="another codec"):
        embedded.extend(Codec("internlm2", vocab="embedded").encode(ASK), answer(embedded), NEXT)
    with pytest.raises(MessageError) as error:
        embedded.extend(embedded.encode(ASK), answer(embedded), [{"role": "critic"}])
    assert error.value.path == "new_messages[0].role"
    named = [*NEXT, {"role": "user", "name": "a b", "content": "Hi"}]
    with pytest.raises(MessageError) as error:
        embedded.extend(embedded.encode(ASK), answer(embedded), named)
    assert error.value.path == "new_messages[1].name"
    with pytest.raises(TypeError):
        embedded.extend("ids", answer(embedded), NEXT)  # type: ignore[arg-type]


@pytest.mark.parametrize("spelled", ["\n<|im_start|>user\n", "\n<|im_start|>", "<|im_start|>"])
def test_text_after_the_turns_end_that_spells_control_is_refused(
    embedded: Codec, spelled: str
) -> None:
    prompt = whole(embedded, ASK)
    completion = [*answer(embedded), *embedded.vocab.encode(spelled)]
    with pytest.raises(MessageError, match="goes on after its turn has ended"):
        embedded.extend(prompt, completion, NEXT)


@pytest.mark.parametrize("text", ["assistant", "assistan"])
def test_ids_after_an_end_that_is_told_late_are_refused(text: str) -> None:
    """`assistant` may go on as a header, so a stream tells the turn's end when it is finished."""
    codec = data.load_format("harmony", "gpt-oss")
    prompt = codec.encode([], add_generation_prompt=True)
    stop = codec.vocab.control["<|return|>"]
    answer = [*codec.vocab.encode(text), stop]
    assert codec.extend(prompt, answer, []).ids[-1] == stop
    with pytest.raises(MessageError, match="goes on after its turn has ended"):
        codec.extend(prompt, [*answer, stop], [])


def test_what_would_be_read_as_another_turn_is_noted() -> None:
    codec = data.load_format("glm4", "glm4")
    prompt = codec.encode(ASK)
    encode, control = codec.vocab.encode, codec.vocab.control
    completion = [*encode("hi"), control["<|assistant|>"], *encode("salvation")]
    extended = codec.extend(prompt, completion, [])
    assert len(codec.decode(extended.ids)) == 3
    assert ("reads", "`decode` reads another turn after this message") in [
        (note.kind, note.text) for note in extended.notes
    ]


CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{"a": 1}<|tool_call_end|><|tool_calls_section_end|><|im_end|>'
)
RESULT = {"role": "tool", "content": "x", "tool_call_id": "functions.f:0"}


@pytest.mark.parametrize("name", ["kimi-k2.5", "kimi-k2.5:full"])
def test_an_answer_ends_the_reasoning_of_the_calls_before_it(name: str) -> None:
    codec = codec_of(name)
    drops = name == "kimi-k2.5"
    prompt = codec.encode([{"role": "user", "content": "Hi"}])
    # A call is no answer: its reasoning stays, as the template has it.
    called = codec.extend(
        prompt, ids_of(codec, f"Ask.</think>{CALL}"), [RESULT], reasoning="template"
    )
    assert not called.notes
    assert called.text.endswith(
        "## Return of functions.f:0\nx<|im_end|><|im_assistant|>assistant<|im_middle|><think>"
    )
    for first in (called, prompt):
        completion = ids_of(codec, "Good.</think>So.<|im_end|>")
        extended = codec.extend(first, completion, [{"role": "user", "content": "And?"}])
        assert extended.ids.tolist()[: len(first) + len(completion)] == [*first.ids, *completion]
        assert {note.kind for note in extended.notes} == ({"reasoning"} if drops else set())
        if drops:
            with pytest.raises(MessageError, match="then writes in another way"):
                codec.extend(first, completion, [], reasoning="template")
        else:
            codec.extend(first, completion, [], reasoning="template")
    # An answer without reasoning is what the template has, unless a call before it has some.
    plain = ids_of(codec, "</think>So.<|im_end|>")
    assert not codec.extend(prompt, plain, [], reasoning="template").notes
    if drops:
        with pytest.raises(MessageError, match="then writes in another way"):
            codec.extend(called, plain, [], reasoning="template")
    # What comes after an answer has its reasoning again.
    answered = codec.extend(prompt, plain, [{"role": "user", "content": "And?"}])
    again = codec.extend(
        answered, ids_of(codec, f"Ask.</think>{CALL}"), [RESULT], reasoning="template"
    )
    assert not again.notes


def test_a_result_answers_a_call_that_was_cut_before_its_id() -> None:
    """`parse` numbers the call, and the format writes another id for both."""
    codec = codec_of("mistral")
    prompt = codec.encode(ASK, tools=[{"type": "function", "function": {"name": "f"}}])
    said = '[TOOL_CALLS][{"name": "f", "arguments": {}'
    completion = ids_of(codec, said)
    (call,) = codec.parse(completion, prompt.ids).message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "3"}
    text = codec.extend(prompt, completion, [result]).text
    assert text.endswith(
        said + ', "id": "call00000"}]</s>[TOOL_RESULTS]call00000[TOOL_CONTENT]3[/TOOL_RESULTS]'
    )


def test_an_id_over_the_end_of_the_prompt_is_noted() -> None:
    """`encode` gives the two lines after `<think>` one id, which here is of the answer alone."""
    codec = codec_of("qwen3.8")
    prompt = codec.encode(ASK)
    (lines,) = codec.vocab.encode("\n\n")
    assert prompt.text.endswith("<think>\n")
    completion = [lines, *ids_of(codec, "</think>\n\nYes.<|im_end|>")]
    extended = codec.extend(prompt, completion, NEXT)
    assert extended.text.count("<think>\n\n\n</think>") == 1
    assert [note.kind for note in extended.notes] == ["reasoning"]
