"""The golden cases, which the Rust tests read too: `golden/internlm2.json` says how, in `about`."""

from __future__ import annotations

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, events
from naive import merged

if TYPE_CHECKING:
    from chatcodec.events import Event

Case = dict[str, Any]

FORMATS = ("internlm2", "chatml")


@functools.cache
def cases(kind: str) -> list[Any]:
    """Every case of a kind with its format, as parameters."""
    found = []
    for name in FORMATS:
        golden = json.loads(
            (data.ROOT / "tests" / "golden" / f"{name}.json").read_text(encoding="utf-8")
        )
        assert golden["format"] == name
        assert {"encode", "read", "stream"} <= golden.keys()
        found += [pytest.param(name, case, id=f"{name}: {case['name']}") for case in golden[kind]]
    assert found
    return found


@functools.cache
def codec_of(format_: str, vocab: str) -> Codec:
    return Codec(format_, data.load_vocab(vocab))


def text_of(part: list[str | int]) -> str:
    return "".join(spelling for spelling in part if isinstance(spelling, str))


def ids_of(codec: Codec, parts: list[str | list[str | int]], *, by_byte: bool = False) -> list[int]:
    """Parts as ids: texts as the vocabulary's tokens, or byte by byte."""
    ids: list[int] = []
    for part in parts:
        if isinstance(part, list):
            ids += [
                codec.vocab.control[token] if isinstance(token, str) else token for token in part
            ]
        elif by_byte:
            ids += [3 + byte for byte in part.encode()]
        else:
            ids += codec.vocab.encode(part)
    return ids


def vocabs(case: Case) -> list[str]:
    """The vocabularies that a case has ids of, and that are here; skips the test without any."""
    here = {
        "embedded",
        *(name for name, path in data.MODELS.items() if (data.DATA / path).exists()),
    }
    names = [name for name in case["ids"] if name in here]
    if not names:
        pytest.skip(f"no test data for {', '.join(case['ids'])} in {data.DATA}")
    return names


@pytest.mark.parametrize(("format_", "case"), cases("encode"))
def test_messages_are_written_as_ids(format_: str, case: Case) -> None:
    messages, options = case["messages"], case.get("options", {})
    tools = case.get("tools")
    for vocab in vocabs(case):
        codec = codec_of(format_, vocab)
        encoding = codec.encode(messages, tools=tools, **options)
        parts = [text_of(part) if isinstance(part, list) else part for part in case["parts"]]
        assert encoding.text == "".join(parts)
        assert encoding.ids.tolist() == case["ids"][vocab]
        assert codec.decode(encoding) == case.get("decoded", messages)
        control = [token for part in case["parts"] if isinstance(part, list) for token in part]
        written = [
            id_
            for id_, is_control in zip(encoding.ids, encoding.is_control, strict=True)
            if is_control
        ]
        assert written == ids_of(codec, [control])
        assert codec.encode_batch([messages], tools=tools, **options).ids == encoding.ids


@pytest.mark.parametrize(("format_", "case"), cases("read"))
def test_ids_are_read_as_messages(format_: str, case: Case) -> None:
    for vocab in vocabs(case):
        codec = codec_of(format_, vocab)
        ids = case["ids"][vocab]
        assert ids == ids_of(codec, case["parts"])
        assert codec.decode(ids) == case["messages"]
        if vocab != "yi":  # whose bytes are elsewhere
            assert codec.decode(ids_of(codec, case["parts"], by_byte=True)) == case["messages"]


def fields_of(event: Event, *, places: bool) -> Case:
    """An event as a golden file has it: what is null left out."""
    names = [*type(event).__match_args__, *(["tokens"] if places else [])]
    fields = {name: getattr(event, name) for name in names}
    fields = {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
    return {"event": type(event).__name__} | {
        name: v for name, v in fields.items() if v is not None
    }


@pytest.mark.parametrize(("format_", "case"), cases("stream"))
def test_ids_are_told_as_events(format_: str, case: Case) -> None:
    codec = codec_of(format_, "embedded")
    after = case.get("after", "prompt")
    for by_byte in (False, True):
        ids = ids_of(codec, case["parts"], by_byte=by_byte)
        if after == "conversation":
            prompt: list[int] | None = []
        else:
            prompt = None if isinstance(after, str) else ids_of(codec, after, by_byte=by_byte)
        whole = told(codec, prompt, [ids], case)
        places = any("tokens" in event for event in case["events"])
        assert [fields_of(event, places=places) for event in whole] == case["events"]
        assert told(codec, prompt, [[id_] for id_ in ids], case) == whole
        for at in range(len(ids) + 1):
            assert told(codec, prompt, [ids[:at], ids[at:]], case) == whole


def told(
    codec: Codec, prompt: list[int] | None, pushes: list[list[int]], case: Case
) -> list[Event]:
    stream = codec.stream(prompt)
    pushed = itertools.chain.from_iterable(stream.push(ids) for ids in pushes)
    return merged([*pushed, *stream.finish(case.get("reason", "stop"))])


def test_golden_events_are_events() -> None:
    for parameters in cases("stream"):
        _, case = parameters.values
        assert all(event["event"] in events.__all__ for event in case["events"])
