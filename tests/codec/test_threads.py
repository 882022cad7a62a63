"""One codec, many threads (P8): the same ids, whoever else encodes; and the interpreter is free."""

from __future__ import annotations

import copy
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import data
import numpy as np
import pytest
from chatcodec import Codec, Encoding, MessageError, Vocab
from completions import codec_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import conversations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from naive import Message, Value

THREADS = 8
WORDS = "Die Würde 世界 <|im_end|> def f(x):\n    return x  123 —— 😀 "


@pytest.fixture(autouse=True)
def _short_turns() -> Iterator[None]:
    """The interpreter changes threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], Any]) -> list[Any]:
    """The results of `work` in many threads that begin at the same time."""
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def messages_of(number: int) -> list[Message]:
    """A conversation of its own for each number."""
    call = {
        "type": "function",
        "function": {"name": f"f{number}", "arguments": {"a": [number] * 9}},
    }
    text = WORDS[number % len(WORDS) :] * (1 + number % 7)
    return [
        {"role": "user", "content": text},
        {"role": "assistant", "content": str(number), "tool_calls": [call]},
        {"role": "tool", "content": text[::-1]},
    ]


@pytest.mark.parametrize("name", data.INTERNLM2)
def test_threads_that_share_a_codec_get_its_ids(name: str) -> None:
    codec = data.load_codec(name)
    jobs = [messages_of(number) for number in range(60)]
    expected = [codec.encode(job).ids.tolist() for job in jobs]
    control = sorted(codec.vocab.control.values())

    def work(number: int) -> list[list[int]]:
        order = jobs[number:] + jobs[:number]
        found = [
            codec.encode(job, boundary="isolated" if number % 2 else "reference") for job in order
        ]
        assert all(control[0] <= min(encoding.ids) for encoding in found)
        again = [codec.encode(job).ids.tolist() for job in order]
        return again[len(jobs) - number :] + again[: len(jobs) - number]

    assert together(work) == [expected] * THREADS


def test_threads_that_share_a_vocabulary_get_its_ids() -> None:
    vocab = Vocab.embedded()
    # Longer than what is encoded without letting go of the interpreter, and shorter.
    texts = [WORDS * n for n in (1, 3, 50, 500)]
    expected = [vocab.encode(text).tolist() for text in texts]
    results = together(
        lambda _: [[vocab.encode(text).tolist() for text in texts] for _ in range(5)]
    )
    assert results == [[expected] * 5] * THREADS


def test_threads_that_share_a_text_give_its_ids(embedded: Codec) -> None:
    text = WORDS * 20_000
    whole = embedded.vocab.encode(text, threads=1)
    assert len(text.encode()) > 2**20
    assert embedded.vocab.encode(text, threads=3) == whole
    assert embedded.vocab.encode(text) == whole
    messages = [{"role": "user", "content": text}]
    prompt = embedded.encode(messages, threads=1).ids
    assert embedded.encode(messages, threads=3).ids == prompt
    assert embedded.encode_batch([messages, messages], threads=5)[1].ids == prompt


def test_threads_that_share_an_encoding_see_the_same(embedded: Codec) -> None:
    """What is worked out when it is first asked for is worked out once."""
    for number in range(20):
        encoding = embedded.encode(messages_of(number))

        def work(_: int, e: Encoding = encoding) -> tuple[Any, ...]:
            return e.ids, e.sources, e.offsets, e.is_control, e.neutralized

        seen = together(work)
        assert all(result == seen[0] for result in seen)
        assert len({id(result[0]) for result in seen}) == 1


def test_streams_of_one_codec_do_not_meet(embedded: Codec) -> None:
    ids = embedded.encode(messages_of(3), add_generation_prompt=False).ids.tolist()
    expected = copy.deepcopy(embedded.decode(ids))

    def work(_: int) -> str:
        stream = embedded.stream(prompt=[])
        events = [event for id_ in ids for event in stream.push(id_)]
        return repr([*events, *stream.finish()])

    results = together(work)
    assert results == [results[0]] * THREADS
    assert embedded.decode(ids) == expected


def test_threads_that_share_a_stream_lose_no_id(embedded: Codec) -> None:
    """Not meant to be done, but defined: pushes are one after another."""
    stream = embedded.stream(keep=True)
    ids = embedded.vocab.encode("ab").tolist()

    def work(_: int) -> int:
        failed = 0
        for _ in range(200):
            try:
                stream.push(ids)
            except RuntimeError:  # the stream is in use
                failed += 1
        return failed

    failed = sum(together(work))
    stream.finish()
    assert stream.message()["content"] == "ab" * (200 * THREADS - failed)


def test_threads_that_make_ints_get_the_same() -> None:
    ids = Vocab.embedded().encode(WORDS * 50)
    expected = np.asarray(ids).tolist()
    assert together(lambda _: [ids.tolist() for _ in range(20)]) == [[expected] * 20] * THREADS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_that_was_forked_while_threads_encode_encodes(embedded: Codec) -> None:
    """What other threads had at that time is theirs for good: nobody waits for it."""
    long = [{"role": "user", "content": WORDS * 2000}]
    expected = embedded.encode(messages_of(1)).ids.tolist()
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            embedded.encode(long)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                encoding = embedded.encode(messages_of(1))
                is_same = encoding.ids.tolist() == expected and encoding.neutralized is not None
                os._exit(0 if is_same else 1)
            assert ended(child) == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()


def ended(process: int, seconds: float = 60) -> int | None:
    """The exit code of a child process; `None` for one that hangs, which is killed."""
    for _ in range(round(seconds / 0.01)):
        pid, status = os.waitpid(process, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


@given(draw=st.data())
@settings(max_examples=10)
def test_a_batch_is_the_same_for_any_number_of_threads(
    embedded: Codec, draw: st.DataObject
) -> None:
    jobs = draw.draw(st.lists(conversations(embedded, max_size=2), max_size=8))
    batches = [embedded.encode_batch(jobs, threads=threads) for threads in (None, 1, 2, 3, 50)]
    assert all(
        batch.ids == batches[0].ids and batch.offsets == batches[0].offsets for batch in batches
    )


@given(
    count=st.integers(60, 300),
    wrong=st.sets(st.integers(0, 299), max_size=4),
    threads=st.sampled_from([None, 1, 2, 7, 50]),
)
@settings(max_examples=20)
def test_a_long_batch_is_its_conversations_in_order(
    embedded: Codec, count: int, wrong: set[int], threads: int | None
) -> None:
    """Conversations are read while those before them are encoded."""
    known = [embedded.encode(messages_of(number)).ids.tolist() for number in range(7)]
    jobs: list[Any] = [messages_of(number % 7) for number in range(count)]
    wrong = {at for at in wrong if at < count}
    unread, unwritten = {"role": "nobody"}, {"role": "assistant", "content": "", "reasoning": "x"}
    for at in wrong:
        jobs[at] = [unread if at % 2 else unwritten]
    batch = embedded.encode_batch(iter(jobs), errors="return", threads=threads)
    assert len(batch) == count
    assert set(batch.errors) == wrong
    assert all(at in wrong or batch[at].ids.tolist() == known[at % 7] for at in range(count))
    if wrong:
        with pytest.raises(MessageError) as raised:
            embedded.encode_batch(jobs, threads=threads)
        path = str(raised.value)
        assert any(f"conversations[{at}]." in path for at in wrong)


def test_what_reading_raises_ends_a_long_batch(embedded: Codec) -> None:
    def jobs() -> Iterator[object]:
        yield from [messages_of(1)] * 500
        raise OSError("gone")

    before = threading.active_count()
    with pytest.raises(OSError, match="gone"):
        embedded.encode_batch(jobs())
    assert threading.active_count() == before
    assert len(embedded.encode_batch([messages_of(1)] * 500)) == 500


@pytest.mark.parametrize("threads", [0, 1, 2, 10**6, 10**30])
def test_any_number_of_threads_is_taken(embedded: Codec, threads: int) -> None:
    batch = embedded.encode_batch([messages_of(1)] * 3, threads=threads)
    assert batch[2].ids == embedded.encode(messages_of(1), threads=threads).ids
    assert embedded.vocab.encode("x", threads=threads) == embedded.vocab.encode("x")


@pytest.mark.parametrize(
    ("threads", "error", "problem"),
    [
        (-1, ValueError, "^threads=-1, expected 0 or more, or None"),
        (-(10**30), ValueError, "^threads=-1000.*, expected 0 or more, or None"),
        ("2", TypeError, "cannot be interpreted as an integer"),
        (1.5, TypeError, "cannot be interpreted as an integer"),
    ],
)
def test_what_is_no_number_of_threads_is_an_error(
    embedded: Codec, threads: Value, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        embedded.encode_batch([], threads=threads)
    with pytest.raises(error, match=problem):
        embedded.encode(messages_of(1), threads=threads)
    with pytest.raises(error, match=problem):
        embedded.vocab.encode("x", threads=threads)


def test_a_batch_lets_other_threads_run(embedded: Codec) -> None:
    """While it encodes, the interpreter is free: a thread that only counts gets on."""
    jobs = [[{"role": "user", "content": "世界 <|im_end|> abc" * 200_000}]] * 10
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    other = threading.Thread(target=tick)
    other.start()
    before = ticks
    embedded.encode_batch(jobs, threads=1)
    during = ticks - before
    done.set()
    other.join()
    # More than a hundred; were the interpreter held, two or three.
    assert during >= 10


def is_free(work: Callable[[], object]) -> bool:
    """Whether another thread gets the interpreter while some work is done.

    A thread that holds it gives it to nobody before the interval ends, which is hours.
    """
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(1e-5)

    other = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    other.start()
    try:
        sys.setswitchinterval(10_000)
        for _ in range(50):
            before = ticks
            work()
            if ticks > before:
                return True
        return False
    finally:
        sys.setswitchinterval(interval)
        done.set()
        other.join()


def long_work(codec: Codec) -> dict[str, Callable[[], object]]:
    """Calls whose work is in the core, with little text in their arguments."""
    empty: list[Message] = [{"role": "user", "content": ""}] * 20_000
    ids = codec.encode([{"role": "user", "content": WORDS * 500}]).ids.tolist()
    properties = {f"p{n}": {"type": "integer", "minimum": 0, "maximum": n} for n in range(100)}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": "f", "parameters": schema}
    tools = [{"type": "function", "function": function}]
    constraint = codec.constrain(tools=tools, tool_choice="required")
    text = WORDS * 5_000
    return {
        "encode": lambda: codec.encode(empty),
        "count": lambda: codec.count(empty),
        "fit": lambda: codec.fit(empty, 10**9),
        "canonical": lambda: codec.canonical(empty),
        "structural_tag": constraint.structural_tag,
        "gbnf": constraint.gbnf,
        "lark": constraint.lark,
        "xgrammar_tokens": constraint.xgrammar_tokens,
        "decode": lambda: codec.decode(ids),
        "parse": lambda: codec.parse(ids),
        "stream": lambda: codec.stream(ids),
        "push": lambda: codec.stream(prompt=[]).push(ids),
        "push_text": lambda: codec.stream(prompt=[], markers="text").push_text(text),
        "vocab.decode": lambda: codec.vocab.decode(ids),
    }


@pytest.mark.parametrize("name", long_work(Codec("internlm2", vocab="embedded")))
def test_long_work_lets_other_threads_run(embedded: Codec, name: str) -> None:
    assert is_free(long_work(embedded)[name])


def test_placeholders_are_written_with_the_interpreter_free() -> None:
    codec = codec_of("qwen3")
    image = {"type": "image", "tokens": 100_000}
    messages: list[Any] = [{"role": "user", "content": [image]}]
    assert is_free(lambda: codec.encode(messages))


def test_work_of_python_holds_the_interpreter() -> None:
    """The check of the tests above: a call that does nothing in the core is seen."""
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        assert not is_free(lambda: sum(range(1_000)))


def test_errors_of_one_thread_are_its_own(embedded: Codec) -> None:
    def work(number: int) -> list[str]:
        seen = []
        for turn in range(50):
            try:
                embedded.encode(
                    [{"role": "user", "content": "a"}] * number + [{"role": f"r{turn}"}]
                )
            except ValueError as error:
                seen.append(str(error).split(",")[0])
        return seen

    for number, seen in enumerate(together(work)):
        assert seen == [f'`messages[{number}].role` is "r{turn}"' for turn in range(50)]
