"""The golden cases, which the Rust tests read too: `golden/internlm2.json` says how, in `about`."""

from __future__ import annotations

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any, get_args

import chatcodec
import data
import pytest
from chatcodec import events
from naive import merged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec import Codec
    from chatcodec.events import Event

Case = dict[str, Any]

WITH_BYTES = ("embedded", "appended", "internlm2")
"""Vocabularies without a dummy prefix in which 3 + b is the byte b."""

FILES = sorted((data.ROOT / "tests" / "golden").glob("*.json"))


@functools.cache
def cases(kind: str) -> list[Any]:
    """Every case of a kind with its format, as parameters."""
    found = []
    for path in FILES:
        golden = json.loads(path.read_text(encoding="utf-8"))
        name = golden["format"]
        assert path.stem == name.replace(":", "-")
        assert {"vocabs", "encode", "read", "stream"} <= golden.keys()
        for case in golden[kind]:
            case.setdefault("vocabs", golden["vocabs"])
            case["special_tokens"] = golden.get("special_tokens", [])
            found.append(pytest.param(name, case, id=f"{name}: {case['name']}"))
    assert found
    return found


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


def here(vocabs: Iterable[str]) -> list[str]:
    """Those of some vocabularies whose files are here; skips the test without any."""
    files = {"embedded": data.EMBEDDED_MODEL, "appended": data.EMBEDDED_MODEL}
    files |= {name: data.DATA / path for name, path in data.FILES.items()}
    names = [name for name in vocabs if files[name].exists()]
    if not names:
        pytest.skip(f"no test data for {', '.join(vocabs)} in {data.DATA}")
    return names


def test_every_format_has_golden_cases() -> None:
    assert sorted(path.stem for path in FILES) == sorted(
        name.replace(":", "-") for name in chatcodec.formats()
    )


@pytest.mark.parametrize(("format_", "case"), cases("encode"))
def test_messages_are_written_as_ids(format_: str, case: Case) -> None:
    messages, options = case["messages"], case.get("options", {})
    tools = case.get("tools")
    for vocab in here(case["ids"]):
        codec = data.load_case(format_, vocab, case)
        encoding = codec.encode(messages, tools=tools, **options)
        parts = [text_of(part) if isinstance(part, list) else part for part in case["parts"]]
        assert encoding.text == case.get("text", "".join(parts))
        assert encoding.ids.tolist() == case["ids"][vocab]
        assert codec.decode(encoding) == case.get("decoded", messages)
        control = [token for part in case["parts"] if isinstance(part, list) for token in part]
        written = [
            id_
            for id_, is_control in zip(encoding.ids, encoding.is_control, strict=True)
            if is_control
        ]
        assert written == ids_of(codec, [control])
        batch = codec.encode_batch([messages], tools=tools, **options)
        assert batch.ids == encoding.ids
        labels = encoding.labels()
        assert batch.labels() == labels
        if "trained" in case:
            places = zip(labels, encoding.char_offsets, strict=True)
            trained = [encoding.text[start:end] for label, (start, end) in places if label >= 0]
            assert "".join(trained) == case["trained"]


@pytest.mark.parametrize(("format_", "case"), cases("read"))
def test_ids_are_read_as_messages(format_: str, case: Case) -> None:
    for vocab in here(case["ids"]):
        codec = data.load_case(format_, vocab, case)
        ids = case["ids"][vocab]
        assert ids == ids_of(codec, case["parts"])
        assert codec.decode(ids) == case["messages"]
        if vocab in WITH_BYTES:
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
    for vocab in here(case["vocabs"]):
        codec = data.load_case(format_, vocab, case)
        for by_byte in (False, True) if vocab in WITH_BYTES else (False,):
            check_stream(codec, case, by_byte=by_byte)


def check_stream(codec: Codec, case: Case, *, by_byte: bool) -> None:
    after = case.get("after", "prompt")
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
    stream = codec.stream(prompt, calls_in_reasoning=case.get("calls_in_reasoning"))
    pushed = itertools.chain.from_iterable(stream.push(ids) for ids in pushes)
    return merged([*pushed, *stream.finish(case.get("reason", "stop"))])


def test_golden_events_are_events() -> None:
    for parameters in cases("stream"):
        _, case = parameters.values
        assert all(event["event"] in events.__all__ for event in case["events"])


WORDS = {
    ("TurnStart", "role"): get_args(events.Role),
    ("ActionStart", "kind"): get_args(events.CallKind),
    ("TurnEnd", "reason"): get_args(events.TurnReason),
    ("Notice", "kind"): get_args(events.NoticeKind),
}


def test_types_name_the_words_that_events_have() -> None:
    seen: dict[tuple[str, str], set[str]] = {place: set() for place in WORDS}
    for path in FILES:
        for case in json.loads(path.read_text(encoding="utf-8"))["stream"]:
            for event in case["events"]:
                for name, field in WORDS:
                    if event["event"] == name:
                        seen[name, field].add(event[field])
    for place, words in WORDS.items():
        assert seen[place] <= set(words), place
