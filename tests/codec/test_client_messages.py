"""Messages as clients send them: OpenAI's, Anthropic's, rows of data sets."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import TextBlock
from chatcodec import Codec, Dropped, MessageError, rows
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.responses import Response
from strategies import conversations

if TYPE_CHECKING:
    from naive import Message, Value

CODEC = Codec("internlm2", vocab="embedded")
ASKED: Message = {"role": "user", "content": "What is six times seven?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "mul", "arguments": '{"a": 6}'}}


def same(given: list[Value], plain: list[Message], **options: Value) -> None:
    """What a client sends is what our own dicts are."""
    encoding = CODEC.encode(given, **options)
    assert encoding.text == CODEC.encode(plain).text
    assert encoding.ids == CODEC.encode(plain).ids
    assert CODEC.count(given, **options) == len(encoding)
    assert CODEC.canonical(given, **options) == CODEC.canonical(plain)
    assert CODEC.encode_batch([given], **options)[0].ids == encoding.ids


def completion(**message: Value) -> ChatCompletion:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return ChatCompletion.model_validate({**body, "choices": [choice]})


def test_what_a_chat_completion_returns_is_put_back() -> None:
    message = completion(content=None, tool_calls=[CALL]).choices[0].message
    result = {"role": "tool", "tool_call_id": "c1", "content": "42"}
    same(
        [ASKED, message.model_dump(), result],
        [ASKED, {"role": "assistant", "tool_calls": [CALL]}, result],
    )
    said = completion(content="42", annotations=[]).choices[0].message
    same([ASKED, said.model_dump()], [ASKED, {"role": "assistant", "content": "42"}])


@pytest.mark.parametrize("method", ["encode", "count", "canonical"])
def test_an_object_is_refused_with_the_call_that_makes_a_dict(method: str) -> None:
    message = ChatCompletionMessage(role="assistant", content="42")
    with pytest.raises(MessageError, match=r"ChatCompletionMessage.*`\.model_dump\(\)` makes") as e:
        getattr(CODEC, method)([ASKED, message])
    assert e.value.path == "messages[1]"
    with pytest.raises(
        MessageError, match=r"TextBlock.*`\.model_dump\(\)` makes a dict of it"
    ) as e:
        getattr(CODEC, method)([{"role": "user", "content": [TextBlock(type="text", text="x")]}])
    assert e.value.path == "messages[0].content[0]"


def test_batches_and_turns_name_the_call_too() -> None:
    message: Any = ChatCompletionMessage(role="assistant", content="42")
    with pytest.raises(MessageError, match=r"model_dump"):
        CODEC.encode_batch([[ASKED, message]])
    with pytest.raises(MessageError, match=r"^`new_messages\[0\]`.*model_dump"):
        CODEC.extend(CODEC.encode([ASKED]), CODEC.vocab.encode("a"), [message])


def test_what_anthropic_returns_is_put_back() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "mul", "input": {"a": 6}}
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "stop_reason": "tool_use",
    }
    usage = {"input_tokens": 1, "output_tokens": 2}
    content = [{"type": "text", "text": "Let me see."}, use]
    message = AnthropicMessage.model_validate({**body, "content": content, "usage": usage})
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "42"}]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "43"},
        {"type": "text", "text": "So?", "cache_control": {"type": "ephemeral"}},
    ]
    more = {**use, "id": "c2"}
    blocks = [block.model_dump() for block in message.content]
    plain: list[Message] = [
        ASKED,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": "43"},
        {"role": "user", "content": "So?"},
        {"role": "assistant", "content": "42."},
    ]
    given = [
        ASKED,
        {"role": "assistant", "content": [*blocks, more]},
        {"role": "user", "content": results},
        {"role": "assistant", "content": [{"type": "text", "text": "42."}]},
    ]
    same(given, plain)
    # Indices and paths are those of the caller's messages.
    encoding = CODEC.encode(given)
    assert {0, 1, 2, 3, -1} == set(encoding.message_indices)
    at = encoding.text.index("So?")
    place = next(i for i, (start, _) in enumerate(encoding.char_offsets) if start == at)
    assert encoding.sources[place] == "messages[2].content"
    with pytest.raises(MessageError, match=r"name") as caught:
        CODEC.encode([*given, {"role": "user", "content": "x", "name": "a b"}])
    assert caught.value.path == "messages[4].name"
    # A message that is put back whole says nothing more.
    whole = message.model_dump()
    assert (
        CODEC.encode([ASKED, whole]).ids
        == CODEC.encode([ASKED, {**given[1], "content": blocks}]).ids
    )


def test_items_of_responses_are_put_back() -> None:
    items = [
        {
            "id": "f1",
            "type": "function_call",
            "call_id": "c1",
            "name": "mul",
            "arguments": '{"a": 6}',
        },
        {
            "id": "f2",
            "type": "function_call",
            "call_id": "c2",
            "name": "mul",
            "arguments": '{"a": 6}',
        },
    ]
    said = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
    }
    response = Response.model_validate(
        {
            "id": "r",
            "object": "response",
            "created_at": 0,
            "model": "m",
            "output": [said, *items],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )
    given = [
        {"role": "user", "content": [{"type": "input_text", "text": ASKED["content"]}]},
        *(item.model_dump() for item in response.output),
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "43"}],
        },
    ]
    plain = [
        ASKED,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": "43"},
    ]
    same(given, plain)


def test_older_and_other_keys() -> None:
    function = CALL["function"]
    plain: list[Message] = [
        ASKED,
        {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]},
        {"role": "tool", "content": "42"},
    ]
    same(
        [
            ASKED,
            {"role": "assistant", "function_call": function},
            {"role": "function", "content": "42"},
        ],
        plain,
    )
    same(
        [{"role": "developer", "content": "x", "cache_control": {"type": "ephemeral"}}, ASKED],
        [{"role": "system", "content": "x"}, ASKED],
    )
    same(
        [ASKED, {"role": "assistant", "content": None, "refusal": "No."}],
        [ASKED, {"role": "assistant", "content": "No."}],
    )
    same(
        [ASKED, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
        [ASKED, {"role": "assistant", "content": "No."}],
    )
    with pytest.raises(MessageError, match=r"function_call` is given together with `tool_calls`"):
        CODEC.encode(
            [ASKED, {"role": "assistant", "function_call": function, "tool_calls": [CALL]}]
        )


def test_what_is_about_a_text_is_listed() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://example.com"}}
    encoding = CODEC.encode([ASKED, {"role": "assistant", "content": "42", "annotations": [cited]}])
    (dropped,) = encoding.dropped
    assert (
        repr(dropped)
        == 'Dropped(path="messages[1].annotations", what="annotations", why="unsupported")'
    )
    assert isinstance(dropped, Dropped)
    failed = {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": True}
    encoding = CODEC.encode([ASKED, {"role": "user", "content": [failed]}])
    assert [(d.path, d.what) for d in encoding.dropped] == [
        ("messages[1].content[0].is_error", "is_error")
    ]
    assert CODEC.encode([ASKED]).dropped == ()


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"role": "assistant", "audio": {"id": "a"}}, "messages[0].audio"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "messages[0].content[0].type",
        ),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[0].content[0].type"),
        (
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            "messages[0].encrypted_content",
        ),
        ({"type": "web_search_call", "id": "x"}, "messages[0].type"),
    ],
)
def test_what_no_format_writes_is_refused(message: Message, path: str) -> None:
    with pytest.raises(MessageError, match=r"expected|encrypted") as caught:
        CODEC.encode([message, ASKED])
    assert caught.value.path == path


def test_arrays_are_lists() -> None:
    """A column of lists comes from pandas and Parquet as NumPy's arrays."""
    calls = np.array([CALL], dtype=object)
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    given: Any = np.array([ASKED, message], dtype=object)
    assert CODEC.encode(given).ids == CODEC.encode([ASKED, {**message, "tool_calls": [CALL]}]).ids


# Keys that are not known.

COLUMNS = st.dictionaries(
    st.sampled_from(["id", "timestamp", "weight", "meta", "lang", "from_", "score", "x.y", "a`b"]),
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), min_size=1, max_size=2),
    max_size=3,
)


def test_what_has_no_place_is_left_out_and_listed() -> None:
    answer: Message = {"role": "assistant", "content": "42."}
    messages: list[Message] = [ASKED, {"role": "system", "content": "Be brief."}, answer]
    thought = [*messages[:2], {**answer, "reasoning": "6 * 7 is 42."}]
    with pytest.raises(MessageError, match=r'no place.*`on_unsupported="drop"` leaves it out$'):
        CODEC.encode(thought)
    encoding = CODEC.encode(thought, on_unsupported="drop")
    assert encoding.ids == CODEC.encode(messages).ids
    assert [(d.path, d.what) for d in encoding.dropped] == [("messages[2].reasoning", "reasoning")]
    assert CODEC.count(thought, on_unsupported="drop") == len(encoding)
    assert CODEC.canonical(thought, on_unsupported="drop") == CODEC.canonical(messages)
    (row,) = CODEC.encode_batch([thought], on_unsupported="drop")
    assert (row.ids, repr(row.dropped)) == (encoding.ids, repr(encoding.dropped))
    # Where the format has a place, nothing is left out.
    assert CODEC.encode(messages, on_unsupported="drop").dropped == ()
    # An image beside text.
    parts = [{"type": "text", "text": ASKED["content"]}, {"type": "image_url", "image_url": {}}]
    seen = CODEC.encode([{"role": "user", "content": parts}], on_unsupported="drop")
    assert seen.ids == CODEC.encode([ASKED]).ids
    assert len(seen.dropped) == 1
    with pytest.raises(ValueError, match=r'^on_unsupported="skip", expected one of'):
        CODEC.encode(messages, on_unsupported="skip")  # type: ignore[arg-type]


@given(conversations(CODEC), COLUMNS, COLUMNS)
def test_unknown_keys_are_ignored_and_listed(messages: Value, keys: Value, row: Value) -> None:
    odd = copy.deepcopy(messages)
    odd = [{**keys, **message, "content": message.get("content", "")} for message in odd]
    expected = CODEC.encode_batch([messages], errors="return")
    given = CODEC.encode_batch([{"messages": odd, **row}], errors="return")
    if expected.errors:
        assert given.errors
        return
    assert given.ids == expected.ids
    found = {dropped.path for dropped in given[0].dropped if dropped.why == "unsupported"}
    assert found == {f"messages[{i}].{key}" for i in range(len(odd)) for key in keys} | set(row)
    if found:
        with pytest.raises(MessageError, match=r'`unknown="ignore"` leaves it out$'):
            CODEC.encode_batch([{"messages": odd, **row}], unknown="error")
    if odd and keys:
        with pytest.raises(MessageError, match=r"is not a key of a message"):
            CODEC.encode(odd)
        assert CODEC.encode(odd, unknown="ignore").ids == expected.ids


def test_a_text_under_another_key_is_not_passed_over() -> None:
    for unknown in ("error", "ignore"):
        with pytest.raises(MessageError, match=r"^`messages\[0\]\.text` is not a key of a message"):
            CODEC.encode([{"role": "user", "text": "Hi"}], unknown=unknown)


# Rows of data sets.


def test_sharegpt() -> None:
    turns = [
        {"from": "human", "value": "What is six times seven?"},
        {"from": "function_call", "value": json.dumps({"name": "mul", "arguments": {"a": 6}})},
        {"from": "observation", "value": "42"},
        {"from": "gpt", "value": "42."},
    ]
    row = {"conversations": turns, "system": "Be brief.", "tools": "[]", "id": 7}
    read = rows.from_sharegpt(row)
    assert read["id"] == 7
    assert read["tools"] == []
    plain = [
        {"role": "system", "content": "Be brief."},
        ASKED,
        {"role": "assistant", "tool_calls": [{"type": "function", "function": CALL["function"]}]},
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": "42."},
    ]
    assert CODEC.encode_batch([read])[0].ids == CODEC.encode(plain).ids


@pytest.mark.parametrize(
    "given",
    [
        lambda: CODEC.encode([{"from": "human", "value": "Hi"}]),
        lambda: CODEC.encode({"conversations": []}),  # type: ignore[arg-type]
        lambda: CODEC.encode([{"from": "human", "value": "Hi"}], unknown="ignore"),
        lambda: CODEC.encode_batch([{"conversations": [{"from": "human", "value": "Hi"}]}]),
        lambda: CODEC.encode_batch([[{"from": "human", "value": "Hi"}]]),
    ],
)
def test_errors_name_what_reads_sharegpt(given: Value) -> None:
    with pytest.raises(MessageError, match=r"`chatcodec\.rows\.from_sharegpt` reads"):
        given()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "`conversations` is missing, expected a list of turns"),
        ({"conversations": ["x"]}, "`conversations[0]` is `str`, expected a dict"),
        (
            {"conversations": [{"from": "critic", "value": "x"}]},
            "`conversations[0].from` is 'critic'",
        ),
        ({"conversations": [{"from": "gpt", "value": 5}]}, "`conversations[0].value` is `int`"),
        (
            {"conversations": [{"from": "function_call", "value": "x"}]},
            "`conversations[0].value` is no JSON",
        ),
        (
            {"conversations": [{"from": "function_call", "value": "[1]"}]},
            "`conversations[0].value` is no call",
        ),
    ],
)
def test_rows_of_sharegpt_that_are_none(row: Value, message: str) -> None:
    with pytest.raises(MessageError) as caught:
        rows.from_sharegpt(row)
    assert str(caught.value).startswith(message)
