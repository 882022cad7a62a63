"""Golden cases: files of conversations, ids and events that a format must write and read.

A file is an object with lists of cases: `encode`, `read` and `stream`. `tests/golden` has one for
each built-in format, and `about` in `internlm2.json` describes the cases. The `ids` of cases are
those of other vocabularies, and are not compared: the `parts` are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec.check.reading import events_of, first_change
from chatcodec.errors import ChatCodecError, DataError

if TYPE_CHECKING:
    from os import PathLike

    from chatcodec import Codec
    from chatcodec.events import Event

Kind: TypeAlias = Literal["encode", "read", "stream"]

__all__ = ["GoldenCase", "golden_problem", "read_golden"]

_KINDS: tuple[Kind, ...] = ("encode", "read", "stream")


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A case of a golden file."""

    kind: Kind
    name: str
    case: dict[str, Any]


def read_golden(path: str | PathLike[str]) -> list[GoldenCase]:
    """Read the cases of a file. Raises `DataError` for another layout, `OSError` for no file."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        golden = json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}: is not JSON: {error}", str(path)) from error
    cases = []
    for kind in _KINDS:
        listed = golden.get(kind, []) if isinstance(golden, dict) else None
        if not isinstance(listed, list) or not all(_is_case(case) for case in listed):
            problem = f"`{kind}` is no list of cases with a `name`"
            expected = "an object with `encode`, `read` and `stream`"
            raise DataError(f"{path}: {problem}, expected {expected}", str(path))
        cases += [GoldenCase(kind, case["name"], case) for case in listed]
    return cases


def _is_case(case: object) -> bool:
    return isinstance(case, dict) and isinstance(case.get("name"), str)


def golden_problem(codec: Codec, case: GoldenCase) -> str:
    """Say what is wrong with a case; empty where nothing is."""
    checks = {"encode": _encoded, "read": _read, "stream": _streamed}
    try:
        return checks[case.kind](codec, case.case)
    except ChatCodecError as error:
        return str(error)
    except KeyError as error:
        return f"the case or the vocabulary has no {error}"


def _encoded(codec: Codec, case: dict[str, Any]) -> str:
    tools = case.get("tools")
    encoding = codec.encode(case["messages"], tools=tools, **case.get("options", {}))
    text = "".join(part if isinstance(part, str) else "".join(part) for part in case["parts"])
    expected = case.get("text", text)
    if encoding.text != expected:
        at = next(
            (nth for nth, (one, other) in enumerate(zip(encoding.text, expected, strict=False))
             if one != other),
            min(len(encoding.text), len(expected)),
        )  # fmt: skip
        found, wanted = encoding.text[at:], expected[at:]
        return f"at character {at}: {first_change(found, wanted, 'text')}"
    decoded = codec.decode(encoding)
    wanted_messages = case.get("decoded", case["messages"])
    if decoded != wanted_messages:
        return f"decoded: {first_change(decoded, wanted_messages, 'messages')}"
    return ""


def _read(codec: Codec, case: dict[str, Any]) -> str:
    found, expected = codec.decode(_ids(codec, case["parts"])), case["messages"]
    return "" if found == expected else first_change(found, expected, "messages")


def _streamed(codec: Codec, case: dict[str, Any]) -> str:
    after = case.get("after", "prompt")
    prompt: list[int] | None = [] if after == "conversation" else None
    if not isinstance(after, str):
        prompt = _ids(codec, after)
    ids = _ids(codec, case["parts"])
    more = {"reason": case.get("reason", "stop")}
    more["calls_in_reasoning"] = case.get("calls_in_reasoning")
    whole = events_of(codec, prompt, [ids], **more)
    if events_of(codec, prompt, [[id_] for id_ in ids], **more) != whole:
        return "streamed id by id, the ids give other events than in one piece"
    with_places = any("tokens" in event for event in case["events"])
    found = [_fields(event, with_places=with_places) for event in whole]
    return "" if found == case["events"] else first_change(found, case["events"], "events")


def _ids(codec: Codec, parts: list[Any]) -> list[int]:
    """Return the ids of parts: texts, and lists of control tokens or ids."""
    ids: list[int] = []
    for part in parts:
        if isinstance(part, str):
            ids += codec.vocab.encode(part)
        else:
            ids += [codec.vocab.control[one] if isinstance(one, str) else one for one in part]
    return ids


def _fields(event: Event, *, with_places: bool) -> dict[str, Any]:
    """Return an event as a golden file has it."""
    names = [*type(event).__match_args__, *(["tokens"] if with_places else [])]
    fields = {name: getattr(event, name) for name in names}
    fields = {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
    event_fields: dict[str, Any] = {"event": type(event).__name__}
    return event_fields | {name: value for name, value in fields.items() if value is not None}
