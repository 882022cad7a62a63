"""`chatcodec.errors`: what is wrong, where, and what was expected.

Messages are written out whole, so that a reader sees what a caller would.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import models
import numpy as np
import pytest
from chatcodec import ChatCodecError, Codec, Format, FormatError, MessageError, Vocab, VocabError
from clock import within
from hypothesis import given
from hypothesis import strategies as st
from models import Model, Piece, delimited, varint
from strategies import hostile_texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from naive import Message, Value

HALF = "\ud800"
ROLES = "`system`, `developer`, `user`, `assistant`, `tool`, `environment`"
KEYS = "`role`, `content`, `name`, `tool_calls`, `tool_call_id`, `reasoning`, `reasoning_content`"
NAMES = "expected none or one of `interpreter`, `plugin`"
WORD = "expected letters, digits and `_.:-` only"
DROP = '; `on_unsupported="drop"` leaves it out'
FUNCTION_KEYS = "expected one of `name`, `arguments`"
SURROGATE = "holds half of a surrogate pair, expected text"
CALL = "messages[0].tool_calls[0]"


def user(**keys: Value) -> Message:
    return {"role": "user", **keys}


def part(**keys: Value) -> Message:
    return user(content=[{"type": "text", "text": "a"}, keys])


def calls(*calls: Value) -> Message:
    return {"role": "assistant", "tool_calls": list(calls)}


def function(name: Value = "f", arguments: Value = "{}", **keys: Value) -> Message:
    return calls({"type": "function", "function": {"name": name, "arguments": arguments, **keys}})


def code(**keys: Value) -> Message:
    return calls({"type": "code", "code": keys})


def nested(depth: int) -> dict[str, Any]:
    outer: dict[str, Any] = {}
    inner = outer
    for _ in range(depth):
        inner["a"] = {}
        inner = inner["a"]
    return outer


IGNORE = '; `unknown="ignore"` leaves it out'

CIRCLE: dict[str, Any] = {}
CIRCLE["a"] = [CIRCLE]
RING: list[Any] = []
RING.append(RING)

MESSAGES: list[tuple[Any, str]] = [
    # Not a conversation.
    (None, "`messages` is none, expected a list"),
    (5, "`messages` is a number, expected a list"),
    ("text", "`messages` is a string, expected a list"),
    (user(), "`messages` is a dict, expected a list"),
    (iter([user()]), "`messages` is `list_iterator`, expected a list"),
    ([None], "`messages[0]` is none, expected a dict"),
    ([user(), "text"], "`messages[1]` is a string, expected a dict"),
    ([True], "`messages[0]` is a truth value, expected a dict"),
    ([[user()]], "`messages[0]` is a list, expected a dict"),
    # Roles.
    ([{}], "`messages[0].role` is missing"),
    ([{"role": None}], "`messages[0].role` is missing"),
    ([{"role": 5}], "`messages[0].role` is a number, expected a string"),
    ([{"role": HALF}], f"`messages[0].role` {SURROGATE}"),
    ([user(), {"role": "critic"}], f'`messages[1].role` is "critic", expected one of {ROLES}'),
    ([{"role": "User"}], f'`messages[0].role` is "User", expected one of {ROLES}'),
    ([{"role": "user\n"}], f'`messages[0].role` is "user\\n", expected one of {ROLES}'),
    ([{"role": ""}], f'`messages[0].role` is "", expected one of {ROLES}'),
    # Keys.
    ([user(foo=1)], f"`messages[0].foo` is not a key of a message, expected one of {KEYS}{IGNORE}"),
    (
        [user(**{"": 1})],
        f"`messages[0].` is not a key of a message, expected one of {KEYS}{IGNORE}",
    ),
    ([{"role": "user", 5: 1}], "`messages[0]` has a key that is no string"),
    ([user(**{HALF: 1})], "`messages[0]` has a key that is no string"),
    # Content.
    (
        [user(content=5)],
        "`messages[0].content` is a number, expected a string or a list of text parts",
    ),
    (
        [user(content=b"a")],
        "`messages[0].content` is `bytes`, expected a string or a list of text parts",
    ),
    (
        [user(content={"text": "a"})],
        "`messages[0].content` is a dict, expected a string or a list of text parts",
    ),
    ([user(content="a" + HALF)], f"`messages[0].content` {SURROGATE}"),
    ([user(content=["a"])], "`messages[0].content[0]` is a string, expected a dict"),
    ([part(text=5)], "`messages[0].content[1].text` is a number, expected a string"),
    ([part(text=HALF)], f"`messages[0].content[1].text` {SURROGATE}"),
    ([part(type="text")], "`messages[0].content[1].text` is missing"),
    (
        [part(type="image_url", image_url={})],
        f'`messages[0].content[1].type` is "image_url", expected "text"{DROP}',
    ),
    (
        [part(type="text", text="a", x=1)],
        (
            f"`messages[0].content[1].x` is not a key of a text part, "
            f"expected one of `type`, `text`{IGNORE}"
        ),
    ),
    # Names and other fields of a message.
    ([user(name=5)], "`messages[0].name` is a number, expected a string"),
    ([user(name=HALF)], f"`messages[0].name` {SURROGATE}"),
    ([user(name="a b")], f'`messages[0].name` is "a b", {WORD}{DROP}'),
    ([user(name="a\nb")], f'`messages[0].name` is "a\\nb", {WORD}{DROP}'),
    ([user(name="<|plugin|>")], f'`messages[0].name` is "<|plugin|>", {WORD}{DROP}'),
    ([user(name="é")], f'`messages[0].name` is "é", {WORD}{DROP}'),
    (
        [user(name="x" * 1025)],
        f"`messages[0].name` is 1025 bytes long, expected at most 1024{DROP}",
    ),
    (
        [{"role": "system", "name": "file"}],
        f"`messages[0].name` has no place in a system message of format `internlm2`, {NAMES}{DROP}",
    ),
    (
        [{"role": "assistant", "name": "bot"}],
        f"`messages[0].name` has no place in an assistant message of format `internlm2`{DROP}",
    ),
    (
        [user(tool_calls=function()["tool_calls"])],
        f"`messages[0].tool_calls` has no place in a user message of format `internlm2`{DROP}",
    ),
    (
        [user(tool_call_id="c")],
        f"`messages[0].tool_call_id` has no place in a user message of format `internlm2`{DROP}",
    ),
    (
        [{"role": "tool", "tool_call_id": 5}],
        "`messages[0].tool_call_id` is a number, expected a string",
    ),
    ([{"role": "tool", "tool_call_id": HALF}], f"`messages[0].tool_call_id` {SURROGATE}"),
    (
        [{"role": "assistant", "reasoning": "r"}],
        f"`messages[0].reasoning` has no place in an assistant message of format `internlm2`{DROP}",
    ),
    (
        [{"role": "assistant", "reasoning": "r", "reasoning_content": "s"}],
        "`messages[0].reasoning_content` differs from the message's other key for reasoning",
    ),
    # Calls.
    (
        [{"role": "assistant", "tool_calls": 5}],
        "`messages[0].tool_calls` is a number, expected a list",
    ),
    ([calls("f()")], f"`{CALL}` is a string, expected a dict"),
    ([calls({})], f"`{CALL}` has no body, expected `function` or `code`"),
    ([calls({"type": "function"})], f"`{CALL}` has no body, expected `function` or `code`"),
    (
        [calls({"type": "code", "function": {"name": "f", "arguments": "{}"}})],
        f'`{CALL}.type` is "code", expected "function" beside `function`',
    ),
    (
        [calls({"type": "function", "code": {"source": ""}})],
        f'`{CALL}.type` is "function", expected "code" beside `code`',
    ),
    (
        [calls({"function": {"name": "f", "arguments": "{}"}, "code": {"source": ""}})],
        f"`{CALL}.code` stands beside another body of the call",
    ),
    ([calls({"id": 5, "code": {"source": ""}})], f"`{CALL}.id` is a number, expected a string"),
    (
        [calls({"place": 0, "code": {"source": ""}})],
        (
            f"`{CALL}.place` is not a key of a call, "
            f"expected one of `id`, `type`, `function`, `code`{IGNORE}"
        ),
    ),
    ([calls({"function": "f"})], f"`{CALL}.function` is a string, expected a dict"),
    ([calls({"function": {"arguments": "{}"}})], f"`{CALL}.function.name` is missing"),
    ([calls({"function": {"name": "f"}})], f"`{CALL}.function.arguments` is missing"),
    (
        [function(strict=True)],
        f"`{CALL}.function.strict` is not a key of a function call, {FUNCTION_KEYS}{IGNORE}",
    ),
    ([function(name=5)], f"`{CALL}.function.name` is a number, expected a string"),
    ([function(name=HALF)], f"`{CALL}.function.name` {SURROGATE}"),
    (
        [function(name="x" * 1025)],
        f"`{CALL}.function.name` is 1025 bytes long, expected at most 1024",
    ),
    (
        [function(name="\n" * 513)],
        f"`{CALL}.function.name` is 1026 bytes long, expected at most 1024",
    ),
    ([code(language="python")], f"`{CALL}.code.source` is missing"),
    ([code(source=5)], f"`{CALL}.code.source` is a number, expected a string"),
    ([code(source=HALF)], f"`{CALL}.code.source` {SURROGATE}"),
    ([code(source="", language="c plus")], f'`{CALL}.code.language` is "c plus", {WORD}'),
    ([code(source="", language=HALF)], f"`{CALL}.code.language` {SURROGATE}"),
    (
        [code(source="", file="x")],
        (
            f"`{CALL}.code.file` is not a key of a code call, "
            f"expected one of `language`, `source`{IGNORE}"
        ),
    ),
    # Arguments.
    (
        [function(arguments=5)],
        f"`{CALL}.function.arguments` is a number, expected a string or a dict",
    ),
    (
        [function(arguments=[1])],
        f"`{CALL}.function.arguments` is a list, expected a string or a dict",
    ),
    ([function(arguments="")], f"`{CALL}.function.arguments` is not exactly one JSON value"),
    ([function(arguments='{"a": ')], f"`{CALL}.function.arguments` is not exactly one JSON value"),
    (
        [function(arguments='{}, "name": "g"')],
        f"`{CALL}.function.arguments` is not exactly one JSON value",
    ),
    ([function(arguments="{} {}")], f"`{CALL}.function.arguments` is not exactly one JSON value"),
    ([function(arguments="NaN")], f"`{CALL}.function.arguments` is not exactly one JSON value"),
    ([function(arguments="'a'")], f"`{CALL}.function.arguments` is not exactly one JSON value"),
    ([function(arguments=HALF)], f"`{CALL}.function.arguments` {SURROGATE}"),
    ([function(arguments={"a": HALF})], f"`{CALL}.function.arguments` {SURROGATE}"),
    ([function(arguments={HALF: "a"})], f"`{CALL}.function.arguments` {SURROGATE}"),
    ([function(arguments={5: "a"})], f"`{CALL}.function.arguments` has a key that is no string"),
    (
        [function(arguments={"a": float("nan")})],
        f"`{CALL}.function.arguments` holds nan, which JSON has not",
    ),
    (
        [function(arguments={"a": float("-inf")})],
        f"`{CALL}.function.arguments` holds -inf, which JSON has not",
    ),
    (
        [function(arguments={"a": b""})],
        f"`{CALL}.function.arguments` holds a `bytes`, expected JSON",
    ),
    ([function(arguments={"a": {1}})], f"`{CALL}.function.arguments` holds a `set`, expected JSON"),
    ([function(arguments=CIRCLE)], f"`{CALL}.function.arguments` is nested deeper than 256"),
    ([function(arguments={"a": RING})], f"`{CALL}.function.arguments` is nested deeper than 256"),
    (
        [function(arguments=nested(100_000))],
        f"`{CALL}.function.arguments` is nested deeper than 256",
    ),
    (
        [function(arguments="[" * 100_000 + "]" * 100_000)],
        f"`{CALL}.function.arguments` is nested deeper than 32768",
    ),
]


@pytest.mark.parametrize(
    ("messages", "message"), MESSAGES, ids=[message for _, message in MESSAGES]
)
def test_what_is_wrong_with_a_conversation(embedded: Codec, messages: Value, message: str) -> None:
    path = message.split("`")[1]
    for method in (embedded.encode, embedded.count):
        with pytest.raises(MessageError) as caught:
            method(messages)
        assert str(caught.value) == message
        assert caught.value.path == path
    if isinstance(messages, dict):
        return  # in a batch, one conversation with its tools
    with pytest.raises(MessageError) as caught:
        embedded.encode_batch([[], messages], unknown="error")
    assert str(caught.value) == "`conversations[1]." + message.removeprefix("`")
    assert caught.value.path == f"conversations[1].{path}"


TOOLS: list[tuple[Any, str]] = [
    (5, "`tools` is a number, expected a list of dicts, or a string"),
    ({"name": "f"}, "`tools` is a dict, expected a list of dicts, or a string"),
    (b"x", "`tools` is `bytes`, expected a list of dicts, or a string"),
    ("a" + HALF, f"`tools` {SURROGATE}"),
    ([5], "`tools[0]` is a number, expected a dict"),
    ([{"name": "f"}, None], "`tools[1]` is none, expected a dict"),
    ([{"type": "function", "function": "f"}], "`tools[0].function` is a string, expected a dict"),
    ([{HALF: 1}], f"`tools` {SURROGATE}"),
    ([{"name": HALF}], f"`tools` {SURROGATE}"),
    ([{5: 1}], "`tools` has a key that is no string"),
    ([{"name": object()}], "`tools` holds a `object`, expected JSON"),
    ([{"name": float("inf")}], "`tools` holds inf, which JSON has not"),
    ([CIRCLE], "`tools` is nested deeper than 256"),
    ([nested(100_000)], "`tools` is nested deeper than 256"),
]


@pytest.mark.parametrize(("tools", "message"), TOOLS, ids=[message for _, message in TOOLS])
def test_what_is_wrong_with_tools(embedded: Codec, tools: Value, message: str) -> None:
    for method in (embedded.encode, embedded.count, embedded.canonical):
        with pytest.raises(MessageError) as caught:
            method([], tools=tools)
        assert str(caught.value) == message
        assert caught.value.path == message.split("`")[1]


def test_what_a_format_has_no_place_for() -> None:
    codec = data.load_codec("yi")
    roles = "`system`, `developer`, `user`, `assistant`, `tool`"
    for messages, message in [
        ([{"role": "critic"}], f'`messages[0].role` is "critic", expected one of {roles}'),
        (
            [{"role": "environment"}],
            f'`messages[0].role` is "environment", expected one of {roles}',
        ),
        (
            [user(name="file")],
            f"`messages[0].name` has no place in a user message of format `chatml`{DROP}",
        ),
        (
            [function()],
            "`messages[0].tool_calls` has no place in an assistant message of format `chatml`"
            + DROP,
        ),
    ]:
        with pytest.raises(MessageError, match=f"^{re.escape(message)}$"):
            codec.encode(messages)
    with pytest.raises(MessageError, match=f"^`tools` have no place in format `chatml`{DROP}$"):
        codec.encode([], tools="T")


@given(draw=st.data())
def test_half_of_a_surrogate_pair_is_refused_wherever_it_is(
    embedded: Codec, draw: st.DataObject
) -> None:
    before, after = draw.draw(hostile_texts()), draw.draw(hostile_texts())
    half = before + draw.draw(st.sampled_from(["\ud800", "\udbff", "\udc00", "\udfff"])) + after
    for messages in (
        [{"role": half}],
        [user(content=half)],
        [part(text=half)],
        [user(name=half)],
        [function(name=half)],
        [function(arguments=half)],
        [function(arguments={"a": [half]})],
        [function(arguments={half: 1})],
        [code(source=half)],
        [code(source="", language=half)],
        [calls({"id": half, "code": {"source": ""}})],
        [{"role": "tool", "tool_call_id": half}],
        [{"role": "tool", "name": half}],
    ):
        with pytest.raises(MessageError, match=SURROGATE):
            embedded.encode(messages)
    with pytest.raises(MessageError, match=SURROGATE) as caught:
        embedded.vocab.encode(half)
    assert caught.value.path == "text"
    with pytest.raises(MessageError, match=SURROGATE):
        embedded.encode([], tools=half)


def test_keys_whose_value_is_none_are_absent(embedded: Codec) -> None:
    """What the `model_dump()` of an OpenAI client gives."""
    dumped = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "name": None,
        "tool_calls": [
            {
                "id": "call_x",
                "type": "function",
                "custom": None,
                "function": {"name": "f", "arguments": "{}", "parsed_arguments": None},
            }
        ],
    }
    plain = {**function(), "content": "a"}
    assert embedded.encode([dumped]).ids == embedded.encode([plain]).ids
    with pytest.raises(MessageError, match=r"^`messages\[0\]\.refusal` stands beside content"):
        embedded.encode([{**dumped, "refusal": "no"}])


def test_depth_that_is_allowed_is_written(embedded: Codec) -> None:
    for depth in (1, 200, 250):
        arguments = nested(depth)
        (message,) = embedded.decode(embedded.encode([function(arguments=arguments)]))
        assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == arguments
    text = "[" * 30_000 + "]" * 30_000
    (message,) = embedded.decode(embedded.encode([function(arguments=text)]))
    assert message["tool_calls"][0]["function"]["arguments"] == text


def test_a_refusal_takes_no_time(embedded: Codec) -> None:
    """Also of what branches: a circle of a hundred ways would be 100**256 values."""
    many: dict[str, Any] = {}
    many |= {str(i): many for i in range(100)}

    def refuse() -> None:
        for arguments in (many, CIRCLE, nested(100_000)):
            with pytest.raises(MessageError, match="nested deeper"):
                embedded.encode([function(arguments=arguments)])

    within(1, refuse)


class Odd(dict[str, Any]):
    """A dict whose methods fail: the caller's own mistake comes through, not a crash."""

    def items(self) -> Value:
        raise RuntimeError("mine")

    def __iter__(self) -> Value:
        raise RuntimeError("mine")


def test_odd_objects_do_not_crash(embedded: Codec) -> None:
    odd: list[Value] = [Odd(role="user"), [Odd(role="user")], [user(content=Odd())]]
    for value in odd:
        try:
            embedded.encode(value)
        except (RuntimeError, ValueError, TypeError) as error:
            assert str(error)  # noqa: PT017


ODD: list[Value] = [
    *(
        None,
        True,
        0,
        -1,
        2**31,
        -(2**63),
        10**400,
        1.5,
        float("nan"),
        1j,
        "",
        "\0",
        HALF,
        b"",
        b"\xff",
    ),
    *(
        [],
        [[]],
        [None],
        [2**70],
        [HALF],
        (),
        {},
        {"": None},
        {1: 2},
        {"role": HALF},
        {1, 2},
        CIRCLE,
        RING,
    ),
    *(range(3), range(10**12), iter([1]), object(), int, len, Ellipsis, memoryview(b"ab")),
    *(np.array([]), np.array(5), np.array([1.5]), np.array(["a"]), np.zeros((2, 2), np.int32)),
    *(np.array([1, 2], ">i4"), np.array([1, 2], np.uint64), np.arange(10)[::-2], np.array([None])),
]


def test_no_argument_makes_it_panic(embedded: Codec) -> None:
    """Whatever is given: a result, or an ordinary exception. A panic is none, and comes through."""
    stream = embedded.stream(keep=True)
    encoding = embedded.encode([user(content="a")])
    batch = embedded.encode_batch([[user(content="a")]])
    vocab, ids = embedded.vocab, encoding.ids
    methods: list[Callable[..., object]] = [
        *(embedded.encode, embedded.encode_batch, embedded.count, embedded.canonical),
        *(embedded.decode, embedded.parse, embedded.stream, stream.push, stream.finish),
        *(vocab.encode, vocab.decode, vocab.decode_bytes, vocab.token_bytes, chatcodec.collect),
        *(ids.count, ids.index, ids.__getitem__, ids.__contains__, ids.__eq__, batch.__getitem__),
        *(Codec, Vocab.load, Format.load, Format.built_in, chatcodec.events.Text),
        *(vocab.__reduce__()[0], embedded.format.__reduce__()[0], ids.__reduce__()[0]),  # type: ignore[list-item]
    ]
    options: list[tuple[Callable[..., object], str]] = [
        *((embedded.encode, name) for name in ("tools", "add_generation_prompt", "continue_final")),
        *(
            (embedded.encode, name)
            for name in ("on_marker", "boundary", "on_arguments", "thinking")
        ),
        *((embedded.encode_batch, name) for name in ("tools", "errors", "threads")),
        *((embedded.parse, "prompt"), (embedded.decode, "prompt"), (vocab.decode, "control")),
    ]
    for odd in ODD:
        if isinstance(odd, range) and len(odd) > 3:
            continue  # a great many ids, all of them ids
        for method in methods:
            for arguments in ((odd,), (odd, odd), (odd, "x", [["a"]])):
                outcome(method, *arguments)
        for method, name in options:
            outcome(method, [], **{name: odd})
            outcome(method, [user(content="a")], **{name: odd})
    stream.finish()


def outcome(method: Callable[..., object], *arguments: Value, **keys: Value) -> None:
    """Calls a method, and takes any ordinary exception."""
    with contextlib.suppress(Exception):
        method(*arguments, **keys)


# Formats.

UNKNOWN: dict[str, str] = {
    "intrnlm2": "`internlm2`",
    "INTERNLM2": "`internlm2`",
    "chatm": "`chatml`",
    "chat-ml": "`chatml`",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_format_names_the_nearest(name: str) -> None:
    near = rf"^format `{name}`: there is no built-in format of this name; near it: {UNKNOWN[name]}"
    for make in (Codec, Format.built_in):
        with pytest.raises(FormatError, match=near) as caught:
            make(name)
        assert (caught.value.file, caught.value.key) == (name, "")


@pytest.mark.parametrize("name", ["", "x" * 10_000, "\n", "`", HALF, "internlm2\0"])
def test_any_string_may_be_asked_for(name: str) -> None:
    with pytest.raises((FormatError, UnicodeEncodeError)):
        Codec(name)


INTERNLM2, CHATML, LLAMA31, LLAMA4, HARMONY, KIMI, MIXTRAL, PHI3 = (
    Format.built_in(name).text
    for name in (
        *("internlm2", "chatml", "llama3.1", "llama4", "harmony"),
        *("kimi-k2", "mixtral-8x7b", "phi3"),
    )
)
ANSWER = '"{ASSISTANT}assistant{MIDDLE}{content}{?calls:{calls}?}{STOP}"'
USER = 'user = "{START}user\\n{content}{STOP}\\n"'
TOP = (
    "expected one of `name`, `guarantee`, `source`, `vocabulary`, `models`, "
    "`tokenizer_classes`, `begin`, `end`, `append`, `append_at`, `silent`, `markers`, "
    "`order`, `default_system`, `losses`, `reasoning`, `control`, `roles`, "
    "`generation`, `place`, `tools`, `calls`, `results`, `frame`, `options`, `turn`, `last`, "
    "`after_tool`, `named`, `call`, `also`, `variant`"
)
FIELDS = (
    "`content`, `name`, `calls`, `tools`, `call`, `language`, `source`, `system`, `arguments`, "
    "`id`, `reasoning`, `channel`, `type`, `date`, `effort`"
)

# The text, what is replaced by what, the key, and what the message says of it.
FILES: list[tuple[str, str, str, str, str]] = [
    # Unknown and missing keys, values of a wrong type.
    (CHATML, "guarantee =", "guarrantee =", "guarrantee", f"unknown field `guarrantee`, {TOP}"),
    (CHATML, "[turn]", "[turns]", "turns", f"unknown field `turns`, {TOP}"),
    (
        CHATML,
        "user =",
        "usr =",
        "turn.usr",
        (
            "unknown field `usr`, "
            "expected one of `system`, `user`, `assistant`, `tool`, `tools`, `begin`"
        ),
    ),
    (
        CHATML,
        "generation = {",
        "generation = { think = 1,",
        "generation.think",
        (
            "unknown field `think`, "
            "expected one of `prompt`, `when`, `stop`, `thinking`, `no_thinking`"
        ),
    ),
    (
        INTERNLM2,
        "[call.plugin]",
        '[call.plugin]\nitems = "x"',
        "call.plugin.items",
        (
            "unknown field `items`, "
            "expected one of `item`, `also`, `object`, `pair`, `several`, `id`, `result`"
        ),
    ),
    (
        INTERNLM2,
        "[named.plugin]",
        '[named.plugin]\nuser = "x"',
        "named.plugin.user",
        "unknown field `user`, expected `system` or `tool`",
    ),
    (CHATML, 'name = "chatml"\n', "", "name", "missing field `name`"),
    (CHATML, 'name = "chatml"', "name = 5", "name", "invalid type: integer `5`, expected a string"),
    (
        CHATML,
        'STOP = "<|im_end|>"',
        "STOP = 5",
        "control.STOP",
        "expected a string or a list of strings",
    ),
    # Words of closed sets.
    (CHATML, '"ids"', '"id"', "guarantee", "unknown variant `id`, expected `ids` or `text`"),
    (
        INTERNLM2,
        '"after_system"',
        '"last"',
        "place.tools",
        (
            "unknown variant `last`, "
            "expected one of `first`, `after_system`, `first_user`, `last_user`, `system`"
        ),
    ),
    (
        INTERNLM2,
        '"indent"',
        '"indented"',
        "tools.style",
        "unknown variant `indented`, expected one of `line`, `list`, `indent`, `typescript`",
    ),
    (
        INTERNLM2,
        '"function"',
        '"fn"',
        "tools.shape",
        "unknown variant `fn`, expected `openai` or `function`",
    ),
    (
        INTERNLM2,
        'environment = "tool"',
        'environment = "tol"',
        "roles.environment",
        "is `tol`, expected `system`, `user`, `assistant` or `tool`",
    ),
    # Control tokens.
    (
        CHATML,
        USER,
        USER.replace("STOP", "STPO"),
        "turn.user",
        "has `{STPO}`, which `control` does not define; expected one of `START`, `STOP`",
    ),
    (
        CHATML,
        USER,
        USER.replace("user\\n", "user<|im_end|>\\n"),
        "turn.user",
        "spells `<|im_end|>` as text, expected `{STOP}`",
    ),
    (
        CHATML,
        'STOP = "',
        'EXTRA = "<s>"\nSTOP = "',
        "control.EXTRA",
        "is used by no pattern, expected `{EXTRA}` in one",
    ),
    (
        CHATML,
        'STOP = "<|im_end|>"',
        'STOP = "<|im_start|>"',
        "control.STOP",
        'has the spelling "<|im_start|>" of `control.START`, expected one of its own',
    ),
    (
        CHATML,
        'STOP = "<|im_end|>"',
        "STOP = []",
        "control.STOP",
        "has no spelling, expected one or more",
    ),
    (
        CHATML,
        'STOP = "',
        'stop = "',
        "control.stop",
        "is not a name, expected upper-case letters, digits and `_`",
    ),
    # Patterns.
    (
        CHATML,
        USER,
        USER.replace("content", "contnet"),
        "turn.user",
        f"has an unknown field `{{contnet}}`, expected one of {FIELDS}",
    ),
    (
        CHATML,
        USER,
        USER.replace("content", "tools"),
        "turn.user",
        "has `{tools}`, expected only `{content}`, `{name}`, `{system}`",
    ),
    (
        CHATML,
        USER,
        USER.replace("{START}", ""),
        "turn.user",
        "begins with text, expected a control token",
    ),
    (
        CHATML,
        USER,
        USER.replace("{content}", ""),
        "turn.user",
        "has no field for text, expected `{content}`",
    ),
    (
        CHATML,
        USER,
        USER.replace("{content}", "{~}{content}"),
        "turn.user",
        "has `{~}` beside a field for text, expected a literal or a control token between them",
    ),
    (
        CHATML,
        USER,
        USER.replace("{STOP}", "{STOP}more"),
        "turn.user",
        "goes on after the token that closes it, expected white space only",
    ),
    (
        CHATML,
        USER,
        USER.replace("user\\n", "user{?name: {name}\\n"),
        "turn.user",
        "has a guard `{?…:` without its end, expected `?}`",
    ),
    (
        CHATML,
        USER,
        USER.replace("user\\n", "user?}\\n"),
        "turn.user",
        "has `?}` without a guard before it, expected `{?…:` there",
    ),
    (
        CHATML,
        USER,
        USER.replace("START}user", "START}system"),
        "turn.user",
        "can be read as `turn.system`, expected one that differs before its text",
    ),
    (
        CHATML,
        'prompt = "{START}assistant\\n"',
        'prompt = "{START}bot\\n"',
        "generation.prompt",
        (
            "is not how an assistant row begins, "
            "expected what stands before the text of one, or some of it"
        ),
    ),
    (
        CHATML,
        'prompt = "{START}assistant\\n"',
        'prompt = "{content}"',
        "generation.prompt",
        "has `{content}`, expected no field",
    ),
    # Tools and calls.
    (
        INTERNLM2,
        'place = { tools = "after_system" }\n',
        "",
        "turn.tools",
        "has no place, expected `place.tools`",
    ),
    (
        INTERNLM2,
        '\ntools = "{START}system name',
        '\ntools = "{START}tools name',
        "turn.tools",
        "is read back by no row, expected one that differs in the text only",
    ),
    (
        INTERNLM2,
        'style = "indent"',
        'style = "list", between = ","',
        "tools.between",
        "is given beside a `style` that writes a list, expected `line` or `indent`",
    ),
    # One message in several turns, and the format's own turn.
    (
        HARMONY,
        "{type}{~}{MESSAGE}{content}{END|RETURN}",
        "{type}{~}{MESSAGE}{content}{?calls:{calls}?}{END|RETURN}",
        "turn.assistant[1]",
        "has `{reasoning}` or `{calls}`, expected `{content}` alone, as `frame` is given",
    ),
    (
        HARMONY,
        "{MESSAGE}{reasoning}{END}",
        "{MESSAGE}{reasoning}",
        "frame.reasoning",
        "is closed by no control token, expected one after its text",
    ),
    (
        HARMONY,
        "{MESSAGE}{reasoning}{END}",
        "{MESSAGE}{END}",
        "frame.reasoning",
        "has no field for its text, expected `{reasoning}`",
    ),
    (
        HARMONY,
        "{CHANNEL}analysis",
        "{CHANNEL}final",
        "frame.reasoning",
        "can be read as `turn.assistant[0]`, expected one that differs before its text",
    ),
    # Rows that are only read, and whom results come from.
    (
        HARMONY,
        "user{?name::{name}?}{MESSAGE}",
        "user{*}{MESSAGE}",
        "turn.user[0]",
        "has `{*}`, expected it in a row that is only read, after another of its role and name",
    ),
    (
        HARMONY,
        "{~}{CHANNEL}analysis",
        "{*}{CHANNEL}analysis",
        "frame.reasoning",
        "has `{*}`, expected it in rows of `turn` and `named` only",
    ),
    (
        HARMONY,
        "developer{*}",
        "developer{*}x",
        "turn.system[1]",
        (
            "has `{*}` in another place, "
            "expected it right before a control token that stands before the text"
        ),
    ),
    (
        HARMONY,
        '"functions.{name}"',
        '"functions"',
        "call.function.result",
        "is unknown, expected words around `{name}`",
    ),
    (
        HARMONY,
        "[call.recipient]",
        '[call.recipient]\nresult = "{name}"',
        "call.recipient.result",
        "is given for code, which has no name, expected it of functions only",
    ),
    (
        HARMONY,
        "commentary json{MESSAGE}",
        "{channel} json{MESSAGE}",
        "call.function.item",
        "is written, and has a `{channel}` or `{type}` that no message has, expected it in a guard",
    ),
    (
        HARMONY,
        "to={language}{CHANNEL}analysis code",
        "to=functions.{language}{CHANNEL}analysis code",
        "call.recipient.item",
        "can be read as `call.function.item`, expected one that differs before its text",
    ),
    (
        HARMONY,
        "system{MESSAGE}{content}",
        "sys{MESSAGE}{content}",
        "turn.begin",
        "is read back by no row of `named`, expected one that differs in the text only",
    ),
    (
        HARMONY,
        "{?date:Current date: {date}\n?}",
        "Current date: {date}\n",
        "turn.begin",
        "has `{date}` by itself, expected `{?date:…{date}…?}`",
    ),
    (
        HARMONY,
        'options = { effort = ["medium", "low", "high"] }',
        "",
        "options.effort",
        "has no words, or no place: expected both it and `{effort}` in `turn.begin`",
    ),
    (
        HARMONY,
        '"medium"',
        '"as ever"',
        "options.effort",
        'has the word "as ever", expected letters, digits and `_.:-` only',
    ),
    (
        HARMONY,
        'shape = "function", ',
        "",
        "tools.shape",
        "is not `function`, expected it as `style` is `typescript`",
    ),
    (
        HARMONY,
        "developer{MESSAGE}# Tools\\n\\n## functions\\n\\n{tools}",
        "developer{MESSAGE}{system}{tools}",
        "turn.tools",
        "has a second pattern, expected one with `{system}`, unguarded, and one for tools alone",
    ),
    (
        INTERNLM2,
        'object = { name = "name",',
        'object = { nam = "name",',
        "call.plugin.object.nam",
        "is unknown, expected `name`, `arguments` or `id`",
    ),
    (
        INTERNLM2,
        'object = { name = "name",',
        "object = {",
        "call.plugin.object",
        "lacks a key, expected `name` and `arguments`",
    ),
    # Calls that begin with text.
    (
        LLAMA31,
        'guarantee = "ids"',
        'guarantee = "text"',
        "guarantee",
        "is `text` where calls begin with text, expected `ids`",
    ),
    (
        LLAMA31,
        '{content:trim}{STOP|EOM}",\n  "{START}assistant{END}\\n\\n{calls}',
        "{content:trim}{?calls:{calls}?}",
        "turn.assistant",
        "has `{calls}` beside `{content}` where calls begin with text, expected a row for each",
    ),
    (
        LLAMA31,
        'between = "; "',
        'between = " then "',
        "calls.between",
        'is " then ", expected a comma or a semicolon, and white space around it',
    ),
    (
        LLAMA31,
        'object = { name = "name",',
        'object = { id = "id", name = "name",',
        "call.function.object",
        "by which a call that begins with text is known",
    ),
    (
        LLAMA31,
        "{?tools:Environment: ipython\n?}",
        "{tools}",
        "turn.system",
        "has `{tools}`, expected `{?tools:…?}` around a literal only",
    ),
    (
        LLAMA4,
        'open = ["[",',
        'open = [" [",',
        "calls.open",
        "or 1 to 64 bytes of text without white space around it",
    ),
    (
        LLAMA4,
        'close = ["]",',
        'close = ["}",',
        "calls.close",
        'is "}", expected `]`, and a control token after it at most',
    ),
    (
        LLAMA4,
        '"{name}({arguments})"',
        '"{name}[{arguments}]"',
        "call.function.item",
        'expected `{call}`, or `{name}({arguments})` with `pair = "python"`, alone',
    ),
    # Not TOML at all.
    (
        MIXTRAL,
        "{?system:{system}",
        "{?system:{system}{content}",
        "turn.user",
        "has a guard of `system` with something else in it, expected `{system}` and literals",
    ),
    (
        KIMI,
        ANSWER,
        '["{CALLS_END}{content}{STOP}", ' + ANSWER + "]",
        "turn.assistant[0]",
        "begins with a token that stands around calls, expected a token of its own",
    ),
    (
        MIXTRAL,
        'begin = "{BOS}"',
        'begin = "\\n{BOS}"',
        "begin",
        "has white space, expected none, as a turn may begin with text",
    ),
    (
        PHI3,
        "{ASSISTANT}\\n{content}{END}\\n",
        "{ASSISTANT}\\n{content}.\\n",
        "end",
        "has a control token after `turn.assistant`, which none closes, expected one there",
    ),
    (CHATML, CHATML, "name = ", "name", "string values must be quoted, expected literal string"),
    (CHATML, "[turn]", "[turn]\n[turn]", "turn", "duplicate key"),
    (CHATML, CHATML, "# " + "x" * 2**20, "", "is longer than 1048576 bytes, the most that is read"),
]


@pytest.mark.parametrize("fault", FILES, ids=[f"{f[3]}: {f[4]}"[:90] for f in FILES])
def test_a_format_file_says_what_is_wrong(
    tmp_path: Path, fault: tuple[str, str, str, str, str]
) -> None:
    text, before, after, key, problem = fault
    assert before in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(FormatError) as caught:
        Format.load(path)
    message = str(caught.value)
    assert message.startswith(f"format `{path}`: ")
    assert message.endswith(problem)
    assert (caught.value.file, caught.value.key) == (str(path), key)
    if key:
        assert f"`{key}`" in message


def test_a_format_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(FormatError, match=r"is not UTF-8$"):
        Format.load(path)


# Vocabularies.


def refused(tmp_path: Path, content: bytes) -> VocabError:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(content)
    with pytest.raises(VocabError) as caught:
        Vocab.load(path)
    assert caught.value.file == str(path)
    assert str(caught.value).startswith(f"`{path}`: vocabulary `{caught.value.component}`")
    return caught.value


EXPECTED = (
    "expected a SentencePiece `.model`, a `tokenizer.json`, `tekken.json`, ranks, `vocab.json` "
    "with `merges.txt`, or a GGUF file"
)
KINDS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", f"an empty file; {EXPECTED}"),
    "json": (b'{"version": "1.0"}', f"a JSON file of unknown kind; {EXPECTED}"),
    "zip": (b"PK\x03\x04" + bytes(64), f"a file of unknown kind; {EXPECTED}"),
    "zeros": (bytes(1000), f"a file of unknown kind; {EXPECTED}"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, kind: str) -> None:
    content, problem = KINDS[kind]
    error = refused(tmp_path, content)
    assert str(error).endswith(f"vocabulary `file`: {problem}")
    assert (error.component, error.offset) == ("file", None)


def test_a_model_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    model = models.train(remove_extra_whitespaces=False)
    step = 1 if data.LONG else 7
    for cut in (*range(1, 400), *range(400, len(model), step), *range(len(model) - 60, len(model))):
        assert refused(tmp_path, model[:cut]).component in {
            "file",
            "pieces",
            "trainer_spec",
            "normalizer_spec",
        }


@pytest.mark.parametrize("name", ["embedded", *data.MODELS])
def test_a_real_model_cut_short_is_refused(tmp_path: Path, name: str) -> None:
    model = data.model_path(name).read_bytes()
    for cut in (
        1,
        2,
        3,
        100,
        4321,
        len(model) // 3,
        len(model) // 2,
        len(model) - 100,
        len(model) - 1,
    ):
        refused(tmp_path, model[:cut])


SIZES = [2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64 - 1]


@pytest.mark.parametrize("size", SIZES)
def test_sizes_that_are_not_there_are_not_believed(tmp_path: Path, size: int) -> None:
    """A length of gigabytes in a file of some bytes: refused at once, with the place."""
    inner = varint(1 << 3 | 2) + varint(size) + b"ab"
    for content, component in [
        (varint(1 << 3 | 2) + varint(size) + b"ab", "file"),
        (delimited(1, inner), "pieces"),
        (delimited(1, Piece("a").proto()) + delimited(2, inner), "trainer_spec"),
        (delimited(1, Piece("a").proto()) + delimited(3, inner), "normalizer_spec"),
    ]:
        error = within(0.2, functools.partial(refused, tmp_path, content))
        assert re.search(rf"a field of {size} bytes where \d+ are left$", str(error))
        assert error.component == component
        assert error.offset is not None
        assert error.offset <= len(content)


def test_a_number_without_an_end_is_refused(tmp_path: Path) -> None:
    assert str(refused(tmp_path, b"\x0a" + b"\x80" * 20)).endswith(
        "at byte 11: a number of more than ten bytes"
    )
    assert str(refused(tmp_path, b"\x0a\x80")).endswith("at byte 2: the file ends inside a number")


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    with path.open("wb") as file:
        file.write(b"\x0a")
        file.truncate(2**40)  # sparse: nothing is written
    with pytest.raises(VocabError, match="is longer than 67108864 bytes, the most that is read"):
        within(5, functools.partial(Vocab.load, path))


@given(at=st.floats(0, 1), change=st.binary(max_size=4), length=st.integers(0, 4))
def test_a_changed_model_is_refused_or_is_a_vocabulary(
    tmp_path_factory: pytest.TempPathFactory, at: float, change: bytes, length: int
) -> None:
    model = models.train(remove_extra_whitespaces=False)
    place = int(at * len(model))
    path = tmp_path_factory.mktemp("changed") / "tokenizer.model"
    path.write_bytes(model[:place] + change + model[place + length :])
    try:
        vocab = Vocab.load(path)
    except VocabError:
        return
    ids = vocab.encode("a<s>  é\0")
    assert set(vocab.control.values()).isdisjoint(ids)
    vocab.decode(ids)


def test_what_is_no_file_is_an_os_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    loads: list[Callable[[Any], object]] = [
        Vocab.load,
        Format.load,
        lambda path: Codec("internlm2", path),
    ]
    for load in loads:
        with pytest.raises(FileNotFoundError) as caught:
            load(missing)
        assert str(caught.value.filename) == str(missing)
        # A folder is a vocabulary if it holds one.
        with pytest.raises((OSError, VocabError)):
            load(tmp_path)
        with pytest.raises(OSError):  # noqa: PT011
            load(str(missing))
        with pytest.raises((TypeError, OSError, ValueError)):
            load(5)


def test_a_vocabulary_without_the_formats_control_tokens_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(
        models.train(control_symbols="<|im_end|>,<|plugin|>", remove_extra_whitespaces=False)
    )
    lacking = (
        "`<|action_start|>` or `[UNUSED_TOKEN_144]`; `<|action_end|>` or `[UNUSED_TOKEN_143]`; "
        "`<|interpreter|>` or `[UNUSED_TOKEN_142]`; `<|im_start|>` or `[UNUSED_TOKEN_146]`"
    )
    message = f"vocabulary `control`: lacks control tokens of format `internlm2`: {lacking}"
    with pytest.raises(VocabError) as caught:
        Codec("internlm2", Vocab.load(path))
    assert str(caught.value) == message
    assert (caught.value.component, caught.value.file) == ("control", None)
    with pytest.raises(VocabError) as caught:
        Codec("internlm2", path)
    assert str(caught.value) == f"`{path}`: {message}"
    assert (caught.value.component, caught.value.file) == ("control", str(path))


def test_spellings_that_name_two_ids_are_refused(tmp_path: Path) -> None:
    """It would not be clear which of them is meant."""
    path = tmp_path / "tokenizer.model"
    path.write_bytes(
        models.train(
            control_symbols="<|im_start|>,<|im_end|>,[UNUSED_TOKEN_145],<|plugin|>,"
            "<|interpreter|>,<|action_start|>,<|action_end|>",
            remove_extra_whitespaces=False,
        )
    )
    with pytest.raises(
        VocabError, match=r"`<\|im_end\|>`, `\[UNUSED_TOKEN_145\]` name ids \[4, 5\]"
    ) as caught:
        Codec("internlm2", path)
    assert caught.value.component == "control"


def test_text_may_hold_a_sign_that_a_format_made_control(tmp_path: Path) -> None:
    """It is spelled in bytes then: nothing is lost, and nothing is refused."""
    path = tmp_path / "mine.toml"
    path.write_text(CHATML.replace('"<|im_end|>"', '"z"'), encoding="utf-8")
    vocab = tmp_path / "tokenizer.model"
    pieces = [
        *models.specials(),
        Piece("\u2581"),
        Piece("z"),
        Piece("<|im_start|>", kind=models.CONTROL),
    ]
    vocab.write_bytes(Model(pieces).proto())
    codec = Codec(Format.load(path), vocab)
    encoding = codec.encode([user(content="pizza")])
    assert encoding.ids.count(codec.vocab.control["z"]) == 1
    assert codec.decode(encoding) == [user(content="pizza")]


# The classes.


def test_errors_are_value_errors_of_one_family() -> None:
    assert issubclass(ChatCodecError, ValueError)
    for error in (MessageError, FormatError, VocabError):
        assert issubclass(error, ChatCodecError)
        assert (
            getattr(chatcodec, error.__name__) is getattr(chatcodec.errors, error.__name__) is error
        )


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (MessageError("what", "messages[0]"), {"path": "messages[0]"}),
        (FormatError("what", "f.toml", "turn.user"), {"file": "f.toml", "key": "turn.user"}),
        (VocabError("what", "m", 5, "pieces"), {"file": "m", "offset": 5, "component": "pieces"}),
        (VocabError("what"), {"file": None, "offset": None, "component": ""}),
    ],
)
def test_errors_keep_their_place_in_pickles_and_copies(
    error: ChatCodecError, fields: dict[str, Any]
) -> None:
    """They cross processes: a worker's error says in the parent what it said in the worker."""
    for same in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(same) is type(error)
        assert str(same) == "what"
        assert {name: getattr(same, name) for name in fields} == fields


def test_a_raised_error_is_pickled(embedded: Codec) -> None:
    with pytest.raises(MessageError) as caught:
        embedded.encode([{}])
    same = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (str(same), same.path) == ("`messages[0].role` is missing", "messages[0].role")


def test_messages_begin_in_lower_case_and_name_their_subject() -> None:
    for _, message in MESSAGES + TOOLS:
        assert re.match(r"`[\w.\[\]]+` [a-z]", message), message
        assert not message.endswith("."), message
