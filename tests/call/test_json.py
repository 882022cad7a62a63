"""Which texts are one JSON value: what `json.loads` takes, but for the exceptions listed here.

`json` of the standard library is the oracle, on values that were mutated. A long run tries a
million of them.
"""

from __future__ import annotations

import functools
import json
import random
import sys
import tempfile
import tomllib
import unicodedata
from typing import TYPE_CHECKING

import chatcodec
import data
import pytest
from chatcodec import Codec, MessageError, Vocab
from chatcodec.events import ActionDelta, ActionEnd
from hypothesis import given
from hypothesis import strategies as st
from test_call_nested import without_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from naive import Message, Value

MUTANTS = 1_000_000 if data.LONG else 20_000
STREAMED = 100_000 if data.LONG else 4_000

PARTS = (
    *("{", "}", "[", "]", ",", ":", '"', "\\", " ", "\t", "\n", "\r", "\v", "\0", "\x1f", "\x7f"),
    *("true", "false", "null", "NaN", "Infinity", "-Infinity", "True", "None", "undefined"),
    *("0", "1", "-", "+", ".", "e", "E", "00", "1.5", "1e400", "-0", "0x10", "1_000", "\u0661"),
    *("\\n", "\\u", "\\u00e9", "\\ud83d", "\\ude00", "\\x41", "\\'", "\\/", "'", "/", "//", "#"),
    *(
        "\u00e9",
        "\u0301",
        "\u00a0",
        "\u2028",
        "\u3000",
        "\ufeff",
        "\U0001f600",
        '"a"',
        '"a": ',
        "n",
    ),
)
"""What is put into values: signs, words, white space of JSON and of others."""


def values(rng: random.Random, depth: int = 0) -> Value:
    """A value that `json.dumps` writes."""
    match rng.randrange(5 if depth > 2 else 8):
        case 0:
            return rng.choice([None, True, False])
        case 1:
            return rng.randrange(-1000, 1000)
        case 2:
            return rng.uniform(-1, 1) * 10 ** rng.randrange(-20, 20)
        case 3 | 4:
            return "".join(rng.choices(PARTS, k=rng.randrange(4)))
        case 5 | 6:
            return [values(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            keys = (
                "".join(rng.choices(PARTS, k=rng.randrange(3))) for _ in range(rng.randrange(4))
            )
            return {key: values(rng, depth + 1) for key in keys}


def mutants(count: int) -> Iterator[str]:
    """Texts of values, most of them mutated: parts are taken out, put in, moved, or doubled."""
    rng = random.Random(count)
    for _ in range(count):
        text = json.dumps(
            values(rng),
            ensure_ascii=rng.random() < 0.5,
            indent=rng.choice([None, None, 1]),
            separators=rng.choice([None, (",", ":"), (" ,\t", " : ")]),
        )
        for _ in range(rng.randrange(4)):
            start = rng.randrange(len(text) + 1)
            end = min(len(text), start + rng.randrange(4))
            match rng.randrange(4):
                case 0:
                    text = text[:start] + text[end:]
                case 1:
                    text = text[:start] + rng.choice(PARTS) + text[end:]
                case 2:
                    text = text[:start] + rng.choice(PARTS) + text[start:]
                case _:
                    text = text[:end] + text[start:]
        yield text


def loads(text: str) -> Value:
    """As `json.loads`, but for what JSON's standard does not have: `NaN` and `Infinity`."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def is_one_value(text: str) -> bool:
    """Whether the oracle takes a text."""
    try:
        loads(text)
    except ValueError:
        return False
    return True


def call(arguments: str) -> list[Message]:
    """A message that calls a function."""
    function = {"name": "f", "arguments": arguments}
    return [{"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}]


def is_taken(codec: Codec, arguments: str) -> bool:
    """Whether arguments are written."""
    try:
        codec.encode(call(arguments))
    except MessageError:
        return False
    return True


def test_arguments_are_taken_that_json_loads_takes(embedded: Codec) -> None:
    taken = 0
    for text in mutants(MUTANTS):
        # A call without arguments is one with `{}`.
        expected = is_one_value(text) or not text.strip(" \t\r\n")
        assert is_taken(embedded, text) == expected, text
        taken += expected
    # Both kinds were tried.
    assert MUTANTS / 5 < taken < MUTANTS * 4 / 5


def test_what_a_stream_calls_complete_is_what_json_loads_takes(embedded: Codec) -> None:
    """Of arguments in any splits: with what is read of them, as a value may end before the text."""
    rng = random.Random(1)
    before = [92541, 92538, *embedded.vocab.encode('\n{"name": "f", "parameters": ')]
    for text in mutants(STREAMED):
        stream = embedded.stream()
        events = stream.push(before)
        ids = embedded.vocab.encode(text + "}\n")
        while ids:
            length = rng.randrange(1, 8)
            events += stream.push(ids[:length])
            ids = ids[length:]
        events += stream.push([92540]) + stream.finish()
        arguments = "".join(event.text for event in events if isinstance(event, ActionDelta))
        (end, *others) = [event for event in events if isinstance(event, ActionEnd)]
        assert not others
        if is_one_value(text):
            assert (end.complete, arguments) == (True, text.strip(" \t\r\n").replace("\u2581", " "))
        elif arguments:
            assert end.complete == is_one_value(arguments), text


@pytest.mark.parametrize(
    "text",
    [
        "[tr ue]",
        "[nu\nll]",
        '["\\u00 e9"]',
        '["\\u00e\t9"]',
        '{"a": fal se}',
        "[1 2]",
        "[- 1]",
        '["\t"]',
        "[1,]",
        "\ufeff{}",
        "[\u00a0]",
    ],
)
def test_white_space_is_free_between_words_only(embedded: Codec, text: str) -> None:
    assert not is_one_value(text)
    assert not is_taken(embedded, text)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_only_pythons_json_has_is_refused(embedded: Codec, word: str) -> None:
    for text in (word, f"[{word}]", f'{{"a": {word}}}'):
        json.loads(text)
        assert not is_taken(embedded, text)


def test_what_a_parser_limits_is_taken(embedded: Codec) -> None:
    """Nothing is parsed, so no limit of a parser's is: of digits, of depth."""
    digits = "1" * (sys.get_int_max_str_digits() + 1)
    deep = "[" * 10_000 + "]" * 10_000
    for text, error in ((digits, ValueError), (deep, RecursionError)):
        with pytest.raises(error):
            json.loads(text)
        assert is_taken(embedded, text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "1e400", '"\\ud800"', '"\\ude00\\ud83d"'])
def test_what_json_loads_takes_and_changes_is_kept(embedded: Codec, text: str) -> None:
    json.loads(text)
    (message,) = embedded.decode(embedded.encode(call(text)))
    assert message["tool_calls"][0]["function"]["arguments"] == text


# Texts in JSON on vocabularies that normalise text.


@functools.cache
def composing(name: str) -> Codec:
    """A format on a vocabulary of bytes alone that composes text."""
    file = data.ROOT / "rust" / "core" / "formats" / f"{name.partition(':')[0]}.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    tables = [table, *table.get("variant", {}).values()]
    groups = [group for part in tables for group in part.get("control", {}).values()]
    appended = set(table.get("append", []))
    # A variant takes tokens away.
    spellings = {group if isinstance(group, str) else group[0] for group in groups if group}
    letters = [c for c in range(256) if 33 <= c <= 126 or 161 <= c <= 172 or c >= 174]
    alphabet = [*letters, *(256 + nth for nth in range(256 - len(letters)))]
    added = [
        {"id": id_, "content": spelling, "special": True, "normalized": False}
        | dict.fromkeys(("lstrip", "rstrip", "single_word"), False)
        for id_, spelling in enumerate(sorted(spellings - appended), 256)
    ]
    content = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "vocab": {chr(c): id_ for id_, c in enumerate(alphabet)},
            "merges": [],
        },
    }
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as written:
        json.dump(content, written)
        written.flush()
        return Codec(data.whole(name), Vocab.load(written.name), check_template=False)


def composed(value: Value) -> Value:
    """A value with all its texts composed; objects as lists of their members."""
    match value:
        case str():
            # Vocabularies compose by tables as old as the models that came first.
            return unicodedata.ucd_3_2_0.normalize("NFC", value)
        case dict():
            return [(composed(key), composed(item)) for key, item in value.items()]
        case list():
            return [composed(item) for item in value]
        case _:
            return value


def members(value: Value) -> Value:
    """A value with objects as lists of their members."""
    match value:
        case dict():
            return [(key, members(item)) for key, item in value.items()]
        case list():
            return [members(item) for item in value]
        case _:
            return value


MARKS = st.text("\u0301\u0307\u030a\u0323\u0338\u1161\u11a8\u3099", min_size=1, max_size=3)
COMPOSING = st.lists(
    st.one_of(
        MARKS,
        st.sampled_from(["\n", "\t", "\r", "\b", "\f", '"', "\\", "\0", "\x1a", "\x1f", "/"]),
        st.text("abefnrtu<=>A\u00e9\u1100\uac00\u304b 0", min_size=1, max_size=2),
    ),
    max_size=6,
).map("".join)
KEYS = st.tuples(COMPOSING, st.integers(0, 10**9)).map(lambda key: f"{key[0]}{key[1]}")
NAMES = st.text("abc_", min_size=1, max_size=5)
NESTED = st.recursive(
    COMPOSING.map(lambda text: text + "x") | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.parametrize("name", data.share(chatcodec.formats(), 6))
@given(draw=st.data())
def test_texts_in_arguments_are_composed_and_json_stays_json(
    name: str, draw: st.DataObject
) -> None:
    """`json.loads` reads the texts that were given, composed: of dicts and of strings."""
    codec = composing(name)
    keys = KEYS if draw.draw(st.booleans()) else NAMES
    arguments = draw.draw(st.dictionaries(keys, NESTED, max_size=3))
    as_text = json.dumps(arguments, ensure_ascii=False)
    for given_as in (arguments, as_text, json.dumps(arguments)):
        function = {"name": "f", "arguments": given_as}
        tool_calls = [{"type": "function", "function": function}]
        messages: list[Message] = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": tool_calls},
        ]
        try:
            encoding = codec.encode(messages)
        except MessageError as error:
            refused = (
                "has no place",
                "Python allows",
                "comes after it",
                "would end",
                "would be read as",
                "at its ends",
                "without white space, quotes",
                "without white space at the ends",
            )
            if not any(word in str(error) for word in refused):
                raise
            return
        decoded = codec.decode(encoding)
        assert decoded == codec.canonical(messages)
        # A default system text with control tokens comes back as text.
        if not any("its control tokens as text" in loss for loss in codec.format.losses):
            assert codec.encode(decoded).ids == encoding.ids
        (call,) = decoded[-1]["tool_calls"]
        text = call["function"]["arguments"]
        read = json.loads(text)
        losses = codec.format.losses
        if any("members that are null" in loss for loss in losses):
            assert composed(read) == composed(without_schema(arguments) or {})
            continue
        assert composed(read) == composed(arguments)
        is_kept = any("without the white space around them" in loss for loss in losses)
        if is_kept and isinstance(given_as, str):
            assert text == given_as or not unicodedata.is_normalized("NFC", given_as)
        if given_as is arguments or given_as is as_text:
            assert members(read) == composed(arguments)
