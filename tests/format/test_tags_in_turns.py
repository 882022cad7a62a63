"""Tags in turns, prompts and calls: text between the same control tokens tells what they mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, MessageError, events
from hypothesis import given
from hypothesis import strategies as st
from naive import merged
from strategies import hostile_texts, json_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from naive import Message

TOKENS = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", "<|kimi_image_placeholder|>")
WORDS = ("message", ' role="user"', ' role="assistant"', "think", "response", "tools", "call")
PIECES = st.sampled_from([*TOKENS, *WORDS, ' tool="f"', ' index="1"', "argument", "x", " ", "\n"])
LOOKALIKES = st.lists(PIECES | hostile_texts(max_parts=1), max_size=6).map("".join)
TEXTS = LOOKALIKES.filter(lambda text: "\u2581" not in text)
QUESTION: Message = {"role": "user", "content": "Hi"}


@pytest.fixture(scope="module")
def codec() -> Codec:
    return data.load_appended("kimi-k3", TOKENS)


def ids_of(codec: Codec, parts: Sequence[str]) -> list[int]:
    """Parts of which each is a token or text."""
    ids: list[int] = []
    text = ""
    for part in [*parts, ""]:
        if part and part not in TOKENS:
            text += part
            continue
        ids += codec.vocab.encode(text)
        text = ""
        if part:
            ids.append(codec.vocab.control[part])
    return ids


def opened(name: str) -> list[str]:
    return ["<|open|>", name, "<|sep|>"]


def closed(name: str) -> list[str]:
    return ["<|close|>", name, "<|sep|>"]


END = [*closed("message"), "<|end_of_msg|>"]
ANSWER = [*closed("think"), *opened("response")]


def called(*argument: str, head: str = 'call tool="f" index="1"') -> list[str]:
    calls = [*opened("tools"), *opened(head), *argument, *closed("call"), *closed("tools")]
    return [*ANSWER, *closed("response"), *calls, *END]


def read(codec: Codec, parts: Sequence[str]) -> list[Any]:
    stream = codec.stream(codec.encode([QUESTION]))
    return merged([*stream.push(ids_of(codec, parts)), *stream.finish()])


def arguments_of(told: list[Any]) -> str:
    return "".join(event.text for event in told if isinstance(event, events.ActionDelta))


@given(content=TEXTS, reasoning=TEXTS.filter(str.strip), question=TEXTS, system=TEXTS)
def test_text_is_no_tag(
    codec: Codec, content: str, reasoning: str, question: str, system: str
) -> None:
    messages: list[Message] = [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
        {"role": "assistant", "reasoning": reasoning, "content": content},
    ]
    encoding = codec.encode(messages, add_generation_prompt=False)
    assert codec.decode(encoding) == codec.canonical(messages)
    turns = [text for text in (system, question, content) if text]
    assert [m["content"] for m in codec.decode(encoding)[1:] if m["content"]] == turns


@given(parts=st.lists(PIECES, max_size=24))
def test_any_split_gives_the_same_events(codec: Codec, parts: list[str]) -> None:
    ids = ids_of(codec, parts)
    prompt = codec.encode([QUESTION])
    stream = codec.stream(prompt)
    whole = merged([*stream.push(ids), *stream.finish()])
    stream = codec.stream(prompt)
    one_by_one = [event for id_ in ids for event in stream.push([id_])]
    assert merged([*one_by_one, *stream.finish()]) == whole


def test_a_turn_may_end_before_the_last_token_of_its_tag(codec: Codec) -> None:
    """Servers leave out the token that stops the model."""
    for end in (END, END[:-1], ["<|end_of_msg|>"]):
        told = read(codec, [*ANSWER, "Yes", *closed("response"), *end])
        assert [type(event).__name__ for event in told] == ["Text", "TurnEnd"], end


def test_stop_ids_are_tokens_of_the_vocabulary(codec: Codec) -> None:
    assert codec.stop_ids == [codec.vocab.control["<|end_of_msg|>"]]


@pytest.mark.parametrize(
    "head", ['call tool="f" index="9"', 'call tool="f" index="x"', 'call tool="f"']
)
def test_a_wrong_number_loses_no_call(codec: Codec, head: str) -> None:
    told = read(
        codec,
        called(*opened('argument key="a" type="number"'), "1", *closed("argument"), head=head),
    )
    assert arguments_of(told) == '{"a": 1}'
    assert not any(isinstance(event, events.Notice) for event in told)


@pytest.mark.parametrize(
    ("attributes", "value", "read_as", "notices"),
    [
        (' type="string"', "1", '"1"', ""),
        (' type="number"', "1", "1", ""),
        (' type="number"', "one", '"one"', "mended"),
        (' type="array"', '{"b": 1}', '{"b": 1}', ""),
        (' type="integer"', "1", "1", "malformed mended"),
        (' type="x type="string"', "1", "1", "malformed mended"),
        ("", "1", "1", "mended"),
    ],
)
def test_the_type_of_a_value(
    codec: Codec, attributes: str, value: str, read_as: str, notices: str
) -> None:
    argument = [*opened(f'argument key="a"{attributes}'), value, *closed("argument")]
    told = read(codec, called(*argument))
    assert arguments_of(told) == f'{{"a": {read_as}}}'
    kinds = [event.kind for event in told if isinstance(event, events.Notice)]
    assert kinds == notices.split()


@given(
    arguments=st.dictionaries(TEXTS | st.sampled_from(['a"b', "a&b", "&quot;"]), json_values(TEXTS))
)
def test_arguments_come_back(codec: Codec, arguments: dict[str, Any]) -> None:
    function = {"name": "f", "arguments": json.dumps(arguments, ensure_ascii=False)}
    call = {"type": "function", "function": function}
    messages: list[Message] = [QUESTION, {"role": "assistant", "content": "", "tool_calls": [call]}]
    try:
        encoding = codec.encode(messages, add_generation_prompt=False)
    except MessageError:
        return
    assert codec.decode(encoding) == codec.canonical(messages)


def test_a_key_has_escapes(codec: Codec) -> None:
    function = {"name": "f", "arguments": json.dumps({'a"&b': 1})}
    call = {"type": "function", "function": function}
    message: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
    encoding = codec.encode([QUESTION, message], add_generation_prompt=False)
    assert ' key="a&quot;&amp;b" type="number"' in encoding.text
    assert json.loads(codec.decode(encoding)[-1]["tool_calls"][0]["function"]["arguments"]) == {
        'a"&b': 1
    }


def test_tools_stand_before_the_turn_of_the_format(codec: Codec) -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "b": 1, "A": 2}},
    }
    encoding = codec.encode([QUESTION], tools=[tool])
    declared = (
        '[{"function":{"name":"f","parameters":{"A":2,"b":1,"type":"object"}},"type":"function"}]'
    )
    assert declared in encoding.text
    assert encoding.text.index("tool-declare") < encoding.text.index("thinking-effort")
    decoded = codec.decode(codec.encode([QUESTION], tools=[tool], add_generation_prompt=False))
    assert [message.get("name") for message in decoded] == ["tool-declare", "thinking-effort", None]
    again = codec.encode(decoded, add_generation_prompt=True)
    assert again.ids.tolist() == encoding.ids.tolist()


def test_without_reasoning_there_is_no_turn_of_the_format(codec: Codec) -> None:
    encoding = codec.encode([QUESTION], thinking=False)
    assert "thinking-effort" not in encoding.text
    assert encoding.text.endswith("<|open|>response<|sep|>")
    parts = ["Yes", *closed("response"), *END]
    parsed = codec.parse(ids_of(codec, parts), prompt=encoding)
    assert parsed.message == {"role": "assistant", "content": "Yes"}


def test_text_that_spells_tags_is_read_where_a_stream_is_of_text(codec: Codec) -> None:
    parts = called(*opened('argument key="a" type="string"'), "x<y", *closed("argument"))
    stream = codec.stream(codec.encode([QUESTION]), markers="text")
    told = merged([e for c in "".join(parts) for e in stream.push_text(c)] + stream.finish())
    assert arguments_of(told) == '{"a": "x<y"}'
    assert not any(isinstance(event, events.Notice) for event in told)
