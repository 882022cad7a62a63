"""What leaves the library is typed: no panic, interrupt or exception of a caller's is lost."""

# ruff: noqa: SLF001
from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import chatcodec
import data
import pytest
from chatcodec import Codec, Format, StreamPool, ToolTypes, Vocab, _core
from chatcodec.errors import (
    ChatCodecError,
    FormatError,
    InternalError,
    MessageError,
    VocabError,
)
from hypothesis import given
from hypothesis import strategies as st

core: Any = _core
USER = {"role": "user", "content": "Hello"}


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec("internlm2", vocab="embedded")


# Panics.


def entries(codec: Codec) -> dict[str, Callable[[], object]]:
    """Every kind of entry, with what panics inside of it."""
    panics = core._Panics()
    pool, stream = StreamPool(codec), codec.stream()
    slot = pool.open()

    def away(place: str, work: Callable[[], object]) -> Callable[[], object]:
        def ask() -> object:
            core._ask_for_panic(place)
            return work()

        return ask

    long = "Some words. " * (1 << 15)
    batch = [[{"role": "user", "content": long}]] * 3
    short, many = [[USER]] * 3, [[USER]] * 300
    return {
        "getter": lambda: panics.value,
        "slot": lambda: len(panics),
        "method": lambda: codec.encode([panics]),
        "value of a call": lambda: codec.encode(calling(panics)),
        "tools": lambda: codec.encode([USER], tools=[panics]),
        "class": lambda: ToolTypes(panics),
        "batch": lambda: codec.encode_batch([panics]),
        "argument": lambda: codec.decode(panics),
        "push": lambda: stream.push(panics),
        "pool": lambda: pool.push(panics, [1]),
        "ids of a pool": lambda: pool.push([slot], panics),
        "parse": lambda: codec.parse(panics),
        "away": away("away", lambda: codec.encode([{"role": "user", "content": long}])),
        "away, decoding": away("away", lambda: codec.decode([1] * (1 << 17))),
        "away, a pool": away("away", lambda: pool.push([slot] * (1 << 17), [1] * (1 << 17))),
        "away, loading": away("away", lambda: Format.load(os.devnull)),
        "worker": away("worker", lambda: codec.encode_batch(batch, threads=2)),
        "one worker": away("worker", lambda: codec.encode_batch(short, threads=1)),
        "worker of many": away("worker", lambda: codec.encode_batch(many)),
        "one worker of many": away("worker", lambda: codec.encode_batch(many, threads=1)),
        "workers of few": away("worker", lambda: codec.encode_batch(short, threads=3)),
    }


def calling(arguments: object) -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": arguments}}}
    return [USER, {"role": "assistant", "content": "", "tool_calls": [call]}]


@pytest.mark.parametrize("name", sorted(entries(Codec("internlm2", vocab="embedded"))))
def test_a_panic_is_an_internal_error(
    codec: Codec, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InternalError) as caught:
        entries(codec)[name]()
    assert type(caught.value) is InternalError
    assert isinstance(caught.value, ChatCodecError)
    told = str(caught.value)
    assert "please report" in told
    assert ".rs:" in told
    assert len(told.encode()) <= 2048
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args  # noqa: S301
    # All goes on, and nothing was printed.
    assert codec.decode(codec.encode([USER]).ids) == [USER]
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_panic_within_python_within_rust_is_one_too(codec: Codec) -> None:
    panics = core._Panics()

    class Odd(Mapping[str, object]):
        def __getitem__(self, key: str) -> object:
            raise KeyError(key)

        def __len__(self) -> int:
            return 0

        def __iter__(self) -> Iterator[str]:
            return iter([str(panics.value)])

    with pytest.raises(InternalError):
        codec.encode([Odd()])


# What a caller's object raises.


class OwnError(Exception):
    pass


class Hostile(Mapping[str, Any]):
    """A message that raises in one of its methods."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.where, self.error = where, error

    def check(self, where: str) -> None:
        if where == self.where:
            raise self.error

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        self.check("getitem")
        return USER[key]

    def __len__(self) -> int:
        self.check("len")
        return 2

    def __iter__(self) -> Iterator[str]:
        self.check("iter")
        return iter(USER)

    def items(self) -> Any:  # noqa: ANN401
        self.check("items")
        return super().items()

    @property
    def __class__(self) -> Any:  # noqa: ANN401
        self.check("class")
        return Hostile

    @__class__.setter
    def __class__(self, value: object) -> None: ...


class Items(Sequence[Any]):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        raise self.error

    def __iter__(self) -> Iterator[Any]:
        raise self.error


class Index:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __index__(self) -> int:
        raise self.error


class Iterable:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __iter__(self) -> Iterator[int]:
        raise self.error


ERRORS: list[Callable[[], BaseException]] = [
    lambda: OwnError("mine"),
    lambda: KeyboardInterrupt(),  # noqa: PLW0108
    lambda: SystemExit(3),
    lambda: TypeError("mine"),
    lambda: ValueError("mine"),
    lambda: MemoryError(),  # noqa: PLW0108
    lambda: KeyError("mine"),
]


def readings(codec: Codec, hostile: Any) -> dict[str, Callable[[], object]]:  # noqa: ANN401
    """Every place that a mapping may stand in."""
    prompt = codec.encode([USER])
    return {
        "a message": lambda: codec.encode([hostile]),
        "a call": lambda: codec.encode(calling(hostile)),
        "a part": lambda: codec.count([{"role": "user", "content": [hostile]}]),
        "tools": lambda: codec.encode([USER], tools=[hostile]),
        "types": lambda: ToolTypes([hostile]),
        "canonical": lambda: codec.canonical([hostile]),
        "a batch": lambda: codec.encode_batch([[USER], [hostile]]),
        "returned": lambda: codec.encode_batch([[hostile]], errors="return"),
        "an item": lambda: codec.encode_batch([hostile]),
        "new": lambda: codec.extend(prompt, [5], [hostile]),
        "tokens": lambda: Vocab.load("/", special_tokens=hostile),
    }


def uses(codec: Codec, error: BaseException) -> dict[str, Callable[[], object]]:
    pool, stream, ids = StreamPool(codec), codec.stream(), codec.encode([USER]).ids
    slot = pool.open()
    found: dict[str, Callable[[], object]] = {}
    for where in ("items", "iter", "getitem", "class"):
        reads = readings(codec, Hostile(where, error))
        found |= {f"{name}: {where}": read for name, read in reads.items()}
    items: Any = Items(error)
    index: Any = Index(error)
    iterable: Any = Iterable(error)

    class Path:
        def __fspath__(self) -> str:
            raise error

    path: Any = Path()
    tokens: Any = {"<x>": index}
    return found | {
        "messages": lambda: codec.encode(items),
        "content": lambda: codec.encode([{"role": "user", "content": items}]),
        "conversations": lambda: codec.encode_batch(iterable),
        "ids": lambda: codec.decode(iterable),
        "an id": lambda: codec.decode([1, index]),
        "one id": lambda: codec.decode(index),
        "push": lambda: stream.push(iterable),
        "push one": lambda: stream.push(index),
        "slots": lambda: pool.push(iterable, [1]),
        "ids of slots": lambda: pool.push([slot], iterable),
        "a prompt": lambda: codec.stream(prompt=iterable),
        "events": lambda: chatcodec.collect(iterable),
        "in": lambda: index in ids,
        "count": lambda: ids.count(index),
        "index": lambda: ids.index(index),
        "getitem": lambda: ids[index],
        "equal": lambda: ids == [index] * len(ids),
        "a path": lambda: Vocab.load(path),
        "a format's path": lambda: Format.load(path),
        "a codec's path": lambda: Codec("internlm2", vocab=path),
        "an id of a token": lambda: Vocab.load("/", special_tokens=tokens),
    }


# The library's own words stand for a few errors that mean "not of this kind".
TRANSLATED = {"getitem": TypeError}


@pytest.mark.parametrize("error", ERRORS)
def test_what_a_caller_raises_is_raised(
    codec: Codec, error: Callable[[], BaseException], capfd: pytest.CaptureFixture[str]
) -> None:
    for name in uses(codec, error()):
        raised = error()
        if isinstance(raised, TRANSLATED.get(name, ())):
            continue
        with pytest.raises(type(raised)) as caught:
            uses(codec, raised)[name]()
        assert caught.value is raised, name
    assert capfd.readouterr().err == ""


def test_a_buffer_that_raises(codec: Codec) -> None:
    if sys.version_info < (3, 12):
        pytest.skip("classes of Python have buffers from 3.12 on")

    class Bytes:
        def __buffer__(self, flags: int) -> memoryview:
            raise OwnError

    given: Any = Bytes()
    with pytest.raises(OwnError):
        codec.decode(given)


# Interrupts.

INTERRUPTED = """
import os, random, signal, sys, threading, time
from chatcodec import Codec, StreamPool, Vocab

signal.signal(signal.SIGINT, signal.default_int_handler)
codec = Codec("internlm2", vocab="embedded")
text = "Some words of a text, and more of them. "
short = [[{"role": "user", "content": text * 8}, {"role": "assistant", "content": text}]]
prompt = codec.encode([{"role": "user", "content": "x"}])
many = codec.vocab.encode(text).tolist() * 200_000
pool = StreamPool(codec)
slot = pool.open()
long = [{"role": "user", "content": text * 2_000_000}]
texts = text * 400_000
calls = {
    "encode": lambda: codec.encode(long),
    "one thread": lambda: codec.encode(long, threads=1),
    "messages": lambda: codec.encode([{"role": "user", "content": "x"},
        {"role": "assistant", "content": "x"}] * 400_000),
    "batch": lambda: codec.encode_batch(short * 200_000),
    "batch on one": lambda: codec.encode_batch(short * 100_000, threads=1),
    "long batch": lambda: codec.encode_batch([long] * 3),
    "vocab": lambda: codec.vocab.encode(long[0]["content"]),
    "decode": lambda: codec.decode(many),
    "vocab decode": lambda: codec.vocab.decode(many),
    "parse": lambda: codec.parse(many),
    "parse text": lambda: codec.parse(texts, markers="text"),
    "push": lambda: codec.stream().push(many),
    "push array": lambda: codec.stream(keep=True).push(array),
    "push odd": lambda: codec.stream().push([-1] * 2_000_000),
    "push text": lambda: codec.stream(markers="text").push_text(texts),
    "pool": lambda: pool.push([slot] * len(many), many),
    "prompt": lambda: codec.stream(prompt=many),
    "extend": lambda: codec.extend(prompt, many, []),
    "canonical": lambda: codec.canonical(long),
}
array = codec.encode([{"role": "user", "content": texts}]).ids
random.seed(SEED)
names = NAMES
for name in names:
    call = calls[name]
    begun = time.monotonic()
    late, sent = 0.0, None
    def interrupt():
        global sent
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(random.uniform(0.01, MOST), interrupt)
    timer.daemon = True
    try:
        timer.start()
        while True:
            call()
    except KeyboardInterrupt:
        late = time.monotonic() - sent
    except BaseException as error:
        print(name, "raised", repr(error)[:200], flush=True)
        sys.exit(1)
    print(name, round(late, 3), flush=True)
assert codec.decode(prompt.ids) == [{"role": "user", "content": "x"}]
"""

CALLS = [line.split('"')[1] for line in INTERRUPTED.splitlines() if '": lambda: ' in line]


@pytest.mark.parametrize("seed", data.share([1, 2], 2))
def test_an_interrupt_is_a_keyboard_interrupt(seed: int) -> None:
    script = INTERRUPTED.replace("SEED", str(seed)).replace("NAMES", repr(CALLS))
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script.replace("MOST", "0.4")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stderr == "", done.stdout
    assert done.returncode == 0, done.stdout
    lines = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    assert [name for name, _ in lines] == CALLS
    # A tenth of a second; machines that do other work besides get more.
    late = {name: float(late) for name, late in lines}
    slow = {name: late for name, late in late.items() if late > 1.0}
    assert not slow, f"{slow} in {time.monotonic() - begun} s"


def test_a_handler_of_signals_runs_while_a_text_is_encoded(codec: Codec) -> None:
    """A handler that waits for the end of the call would run once, for all signals together."""
    text = "Some words of a text, and more of them. " * 1_000_000
    ran: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: ran.append(time.monotonic()))
    try:
        begun = time.monotonic()
        # Machines that are fast enough to be done before the second signal encode once more.
        while not ran or time.monotonic() - begun < 0.2:
            ran.clear()
            text, begun = text * 2, time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.06, 0.06)
            codec.vocab.encode(text, threads=1)
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(ran) > 1


def test_an_interrupt_leaves_a_stream_as_it_was(codec: Codec) -> None:
    stream = codec.stream()
    ids = codec.vocab.encode("Some words of a text. " * 400_000)

    def push() -> None:
        nonlocal stream
        for _ in range(100):
            stream = codec.stream()
            stream.push(ids)

    timer = threading.Timer(0.02, os.kill, [os.getpid(), signal.SIGINT])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            push()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert repr(stream) in {"Stream(0 ids read)", f"Stream({len(ids)} ids read)"}


# Files.


@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_only_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as own:
            own.bind(str(path))
    begun = time.monotonic()
    with pytest.raises(FormatError, match="expected a file"):
        Format.load(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(FormatError, match="expected a file"):
        Format.load(link)
    for given_path in (path, link):
        with pytest.raises(VocabError, match="expected a file") as caught:
            Vocab.load(given_path)
        assert caught.value.component == "file"
        with pytest.raises(VocabError, match="expected a file"):
            Codec("internlm2", vocab=given_path)
    assert time.monotonic() - begun < 5


# Errors are short.

WORDS = st.text(min_size=1, max_size=40)


def long_values(word: str) -> dict[str, Callable[[Codec], object]]:
    long: Any = word * (200_000 // len(word) + 1)
    call = {"type": "function", "function": {"name": long, "arguments": "{}"}}
    broken = {"type": "function", "function": {"name": "f", "arguments": long}}

    def said(*calls: object) -> list[dict[str, Any]]:
        return [USER, {"role": "assistant", "content": "", "tool_calls": list(calls)}]

    odd: Any = type("x" * 200_000, (), {})()
    return {
        "role": lambda c: c.encode([{"role": long, "content": ""}]),
        "key": lambda c: c.encode([USER | {long: 1}]),
        "name": lambda c: c.encode([USER | {"name": long}]),
        "a call's name": lambda c: c.encode(said(call)),
        "a call's key": lambda c: c.encode(said({"type": "function", long: {}})),
        "a call's kind": lambda c: c.encode(said(call | {"type": long})),
        "a part's kind": lambda c: c.encode([{"role": "user", "content": [{"type": long}]}]),
        "arguments": lambda c: c.encode(said(broken)),
        "a value": lambda c: c.encode([{"role": "user", "content": odd}]),
        "a value of a call": lambda c: c.encode(calling(odd)),
        "an option": lambda c: c.encode([USER], **{long: 1}),
        "a word": lambda c: c.encode([USER], on_marker=long),
        "errors": lambda c: c.encode_batch([], errors=long),
        "markers": lambda c: c.stream(markers=long),
        "reason": lambda c: c.stream().finish(long),
        "control": lambda c: c.vocab.decode([1], control=long),
        "roles": lambda c: c.encode([USER]).labels(roles=[long]),
        "a conversation's key": lambda c: c.encode_batch([{long: []}]),
        "a tool's key": lambda c: c.encode([USER], tools=[{"function": {}, long: 1}]),
        "a format": lambda _: Format.built_in(long),
        "a codec's format": lambda _: Codec(long),
        "a format's path": lambda _: Format.load("/" + long.replace("\0", "")),
        "a path": lambda _: Vocab.load("/" + long.replace("\0", "")),
        "a token": lambda _: Vocab.load("/", special_tokens={long: -1}),
        "text tokens": lambda _: embedded(text_tokens=[long]),
        "an id": lambda c: c.vocab.decode([10**4000]),
        "a pattern": lambda _: embedded(pattern="(" + long),
    }


def embedded(**options: Any) -> Vocab:  # noqa: ANN401
    path = Path(__file__).parents[2] / "rust" / "vocab" / "src" / "vocab" / "embedded.model"
    return Vocab.load(path, **options)


def check_short(codec: Codec, word: str) -> None:
    for name, use in long_values(word).items():
        try:
            use(codec)
        except Exception as error:  # noqa: BLE001
            told = [str(error), *(str(value) for value in vars(error).values())]
            for text in told:
                assert len(text.encode(errors="replace")) <= 2048, (name, text[:200])


@pytest.mark.parametrize("word", ["a", "é", "🦜", "a b ", '"', "`", "\n", "[0].", "\x1b", "\\"])
def test_errors_are_short(codec: Codec, word: str) -> None:
    check_short(codec, word)


@given(word=WORDS)
def test_errors_of_any_word_are_short(codec: Codec, word: str) -> None:
    check_short(codec, word)


def test_a_long_name_is_shown_by_its_ends(codec: Codec) -> None:
    with pytest.raises(MessageError) as caught:
        codec.encode([{"role": "b" + "a" * 200_000, "content": ""}])
    assert "baaa" in str(caught.value)
    assert "characters) …" in str(caught.value)
    assert "expected one of" in str(caught.value)
    assert caught.value.path == "messages[0].role"
    with pytest.raises(MessageError) as caught:
        codec.encode([USER | {"k" * 200_000: 1}])
    assert caught.value.path.startswith("messages[0].kkk")
    assert len(caught.value.path) < 400


# Tables of normalizers.


def charsmap() -> bytes:
    """The table of sentencepiece's own rules: field 2 of field 3 of a model."""
    sentencepiece = pytest.importorskip("sentencepiece")
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    return field(field(normalizer.serialized_model_proto(), 3), 2)


def field(message: bytes, number: int) -> bytes:
    """A field of bytes in a message of protocol buffers."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 5:
            at += 4
        elif key & 7 == 2:
            length = varint()
            if key >> 3 == number:
                return message[at : at + length]
            at += length
        else:
            varint()
    raise AssertionError(number)


def unigram(table: bytes) -> bytes:
    pieces = [["<unk>", 0.0], ["a", -1.0], ["b", -2.0], ["1", -2.0]]
    encoded = base64.b64encode(table).decode()
    spec: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": encoded},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces},
    }
    return json.dumps(spec).encode()


def test_a_table_of_sentencepiece_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(unigram(charsmap()))
    vocab = Vocab.load(path)
    assert vocab.encode("ａ①b").tolist() == [1, 3, 2]
    for first in range(0x20, 0x30000, 0x40):
        text = "".join(chr(c) for c in range(first, first + 0x40) if not 0xD800 <= c < 0xE000)
        with contextlib.suppress(VocabError):
            vocab.encode(text)


def test_a_broken_table_is_a_vocab_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, table, made = tmp_path / "tokenizer.json", charsmap(), random.Random(1)
    outcomes = {"taken": 0, "refused": 0}
    for nth in range(40):
        broken = bytearray(table)
        if nth % 4 == 0:
            del broken[made.randrange(len(broken)) :]
        for _ in range(made.choice([1, 1, 30, 3000])):
            if broken:
                broken[made.randrange(min(len(broken), 1 << made.randint(2, 20)))] = made.randrange(
                    256
                )
        path.write_bytes(unigram(bytes(broken)))
        try:
            vocab = Vocab.load(path)
        except VocabError as error:
            assert error.component == "normalizer", error  # noqa: PT017
            outcomes["refused"] += 1
            continue
        outcomes["taken"] += 1
        for text in ("ａ①b", "é" * 9, "中文", "🦜", "".join(map(chr, range(1, 0x2000)))):
            with contextlib.suppress(VocabError):
                vocab.encode(text)
    assert outcomes["taken"] > 2
    assert outcomes["refused"] > 10
    assert capfd.readouterr().err == ""


class Liar(Sequence[Any]):
    """A sequence that tells another length than it has."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        if index:
            raise IndexError(index)
        return "user"


@pytest.mark.parametrize("length", [2**33, 2**42, 2**62])
def test_no_memory_is_reserved_for_a_length_that_is_told(codec: Codec, length: int) -> None:
    encoding = codec.encode([USER])
    assert encoding.labels(roles=Liar(length)) == encoding.labels(roles=["user"])
    batch = codec.encode_batch([[USER]])
    assert batch.labels(roles=Liar(length)) == batch.labels(roles=["user"])
    path = "rust/vocab/src/vocab/embedded.model"
    assert Vocab.load(path, text_tokens=Liar(length)).size == Vocab.load(path).size


def test_ids_that_python_does_not_write_out_are_told() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for odd in (10**5000, deep):
        with pytest.raises(VocabError, match="too long to write"):
            Vocab.load("rust/vocab/src/vocab/embedded.model", special_tokens={"<x>": odd})  # type: ignore[dict-item]
