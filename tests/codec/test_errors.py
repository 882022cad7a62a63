"""`chatcodec.errors`: what is wrong, where, and what was expected.

`tests/errors/` holds the texts: an input and the whole text that a caller sees.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import models
import numpy as np
import pytest
import test_constrain as constrained
from chatcodec import (
    ChatCodecError,
    Codec,
    Format,
    FormatError,
    MessageError,
    Vocab,
    VocabError,
)
from clock import within
from hypothesis import given
from hypothesis import strategies as st
from models import Model, Piece, delimited, varint
from strategies import hostile_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from naive import Message, Value

ERRORS = Path(__file__).parents[1] / "errors"
"""Snapshots, a file a group. With `UPDATE_ERRORS=1` and `-n 0` the tests rewrite the texts."""


class Case:
    """An input and the text of its error: lines of a snapshot, the text indented."""

    def __init__(self, path: Path, block: str) -> None:
        self.path, self.block = path, block
        lines = block.split("\n")
        self.given = [line for line in lines if not line.startswith("    ")]
        self.text = "\n".join(line[4:] for line in lines if line.startswith("    "))

    def __str__(self) -> str:
        return self.block[:60]

    def check(self, text: str) -> None:
        """Compares the text of an error, or rewrites the snapshot."""
        if os.environ.get("UPDATE_ERRORS"):
            shown = "\n".join([*self.given, *(f"    {line}" for line in text.split("\n"))])
            file = self.path.read_text(encoding="utf-8")
            self.path.write_text(file.replace(self.block + "\n", shown + "\n"), encoding="utf-8")
            self.block, self.text = shown, text
        assert text == self.text


def cases(group: str) -> list[Case]:
    path = ERRORS / f"{group}.txt"
    blocks = path.read_text(encoding="utf-8").removesuffix("\n").split("\n\n")
    return [Case(path, block) for block in blocks if not block.startswith("#")]


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


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def nested(depth: int) -> dict[str, Any]:
    outer: dict[str, Any] = {}
    inner = outer
    for _ in range(depth):
        inner["a"] = {}
        inner = inner["a"]
    return outer


CIRCLE: dict[str, Any] = {}
CIRCLE["a"] = [CIRCLE]
RING: list[Any] = []
RING.append(RING)


def value_of(case: Case) -> Value:
    return eval(case.given[0], globals())  # noqa: S307


@pytest.mark.parametrize("case", cases("messages"), ids=str)
def test_what_is_wrong_with_a_conversation(embedded: Codec, case: Case) -> None:
    path = case.text.split("`")[1]
    for method in (embedded.encode, embedded.count):
        with pytest.raises(MessageError) as caught:
            method(value_of(case))
        case.check(str(caught.value))
        assert caught.value.path == path
    if isinstance(messages := value_of(case), dict):
        return  # in a batch, one conversation with its tools
    with pytest.raises(MessageError) as caught:
        embedded.encode_batch([[], messages], unknown="error")
    assert str(caught.value) == "`conversations[1]." + case.text.removeprefix("`")
    assert caught.value.path == f"conversations[1].{path}"


@pytest.mark.parametrize("case", cases("tools"), ids=str)
def test_what_is_wrong_with_tools(embedded: Codec, case: Case) -> None:
    for method in (embedded.encode, embedded.count, embedded.canonical):
        with pytest.raises(MessageError) as caught:
            method([], tools=value_of(case))
        case.check(str(caught.value))
        assert caught.value.path == case.text.split("`")[1]


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
    with pytest.raises(
        MessageError, match=r"^`messages\[0\]\.refusal` is given together with `content`"
    ):
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

    within(10, refuse)


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
    near = rf"^format `{name}`: no built-in format has this name; similar names: {UNKNOWN[name]}"
    for make in (Codec, Format.built_in):
        with pytest.raises(FormatError, match=near) as caught:
            make(name)
        assert (caught.value.file, caught.value.key) == (name, "")


@pytest.mark.parametrize("name", ["", "x" * 10_000, "\n", "`", HALF, "internlm2\0"])
def test_any_string_may_be_asked_for(name: str) -> None:
    with pytest.raises((FormatError, UnicodeEncodeError)):
        Codec(name)


CHATML = Format.built_in("chatml").text


def lines_after(sign: str, case: Case) -> str:
    """The text of the lines of an input that begin with a sign."""
    return "\n".join(line[2:] for line in case.given if line.startswith(sign))


@pytest.mark.parametrize("case", cases("formats"), ids=str)
def test_a_format_file_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    text = Format.built_in(case.given[0]).text
    before, after, key = (lines_after(sign, case) for sign in "-+@")
    assert before in text
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(FormatError) as caught:
        Format.load("mine.toml")
    case.check(str(caught.value))
    assert (caught.value.file, caught.value.key) == ("mine.toml", key)
    assert f"`{key}`" in case.text


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("name = ", "name", "string values must be quoted, expected literal string"),
        ("# " + "x" * 2**20, "", "is longer than 1048576 bytes, the most that is read"),
    ],
    ids=["no value", "too long"],
)
def test_a_format_file_that_is_no_toml(tmp_path: Path, text: str, key: str, problem: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=f"^format `{re.escape(str(path))}`: ") as caught:
        Format.load(path)
    assert str(caught.value).endswith(problem)
    assert (caught.value.file, caught.value.key) == (str(path), key)


def test_a_format_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(FormatError, match=r"is not UTF-8$"):
        Format.load(path)


@pytest.mark.parametrize("case", cases("arguments"), ids=str)
def test_a_wrong_argument_is_named(embedded: Codec, case: Case) -> None:
    names = {**globals(), "codec": embedded, "qwen3": constrained.codec_of("qwen3")}
    with pytest.raises((ValueError, TypeError, LookupError, OSError, RuntimeError)) as caught:
        eval(case.given[0], names)  # noqa: S307
    case.check(f"{type(caught.value).__name__}: {caught.value}")


# Vocabularies.


def json_vocabulary(**keys: Value) -> bytes:
    """A `tokenizer.json` of three tokens, with other keys."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
    return json.dumps({"version": "1.0", "model": model, **keys}).encode()


def bpe(**keys: Value) -> bytes:
    """A `tokenizer.json` whose model has other keys."""
    vocab: Value = {"a": 0, "b": 1, "ab": 2}
    return json_vocabulary(model={"type": "BPE", "vocab": vocab, "merges": ["a b"], **keys})


@pytest.mark.parametrize("case", cases("vocabularies"), ids=str)
def test_what_is_wrong_with_a_vocabulary(tmp_path: Path, case: Case) -> None:
    name, expression = case.given[0].split(": ", 1)
    path = tmp_path / name
    path.write_bytes(eval(expression, globals()))  # noqa: S307
    with pytest.raises(VocabError) as caught:
        Vocab.load(path)
    case.check(str(caught.value).replace(str(path), name).replace(str(tmp_path), "."))


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
        error = within(5, functools.partial(refused, tmp_path, content))
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
    for case in (*cases("messages"), *cases("tools")):
        assert re.match(r"`[\w.\[\]]+` [a-z]", case.text), case.text
        assert not case.text.endswith("."), case.text
