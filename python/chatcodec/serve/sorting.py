"""A body's fields, checked against the table and sorted by their use."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from chatcodec import Dropped
from chatcodec.adapters._drops import Drops
from chatcodec.serve.errors import ApiError
from chatcodec.serve.fields import FIELDS, Field, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from chatcodec.serve.policy import Policy

__all__ = ["Sorted", "Sorter"]

_TYPES: dict[Kind, tuple[tuple[type, ...], str]] = {
    "number": ((int, float), "a number"),
    "integer": ((int,), "a whole number"),
    "flag": ((bool,), "a flag"),
    "text": ((str,), "a text"),
    "list": ((list,), "a list"),
    "object": ((dict,), "an object"),
    "any": ((object,), "a value"),
}


@dataclass
class Sorted:
    """The fields of a body that are not read here."""

    engine: dict[str, Any] = field(default_factory=dict)
    """Fields that the engine knows, by the client's names."""
    passed: dict[str, Any] = field(default_factory=dict)
    """Unknown fields, which go to the engine as they are."""
    dropped: list[Dropped] = field(default_factory=list)
    """Fields that were left out although they ask for something."""


class Sorter:
    """Sorts the fields of bodies, by the operator's policy and by what the engine knows."""

    def __init__(self, policy: Policy, known: Collection[str]) -> None:
        """Take the policy, and the fields that the engine knows."""
        self.policy, self.known, self.drops = policy, known, Drops(policy.on_unsupported)

    def sort(self, api: str, body: dict[str, Any]) -> Sorted:
        """Check a body, and take out of it what is not read here.

        Raises `ApiError` with the field as its `param`.
        """
        extra = body.pop("extra_body", None)
        body |= extra if isinstance(extra, dict) else {}
        out, table = Sorted(), FIELDS[api]
        # A null asks for nothing.
        given = {key: value for key, value in body.items() if value is not None}
        for key in body.keys() - given.keys():
            del body[key]
        for key, value in given.items():
            row = table.get(key)
            if row is None:
                self.unknown(out, key, value, "is not a field that is known here")
            else:
                check(key, value, row)
                check_needs(key, value, row, given)
                self.place(out, key, value, row)
            if row is None or row.use != "read":
                del body[key]
        check_least_length(body, out.engine)
        return out

    def place(self, out: Sorted, key: str, value: object, row: Field) -> None:
        """Put a field where it belongs: to the engine, or nowhere."""
        if row.use in {"read", "hint"} or value in row.idle:
            return
        if row.use == "left out":
            out.dropped.append(Dropped(key, key))
        elif row.use == "not done":
            advice = f"; {row.instead}" if row.instead else ""
            self.refused(out, key, f"is not done here{advice}", row.code)
        elif row.guarded and key not in self.policy.allowed:
            self.refused(out, key, f"is for the operator to allow: `--allow-field {key}`")
        elif key in self.known:
            out.engine[key] = value
        else:
            self.unknown(out, key, value, "is not known to the backend's engine")

    def unknown(self, out: Sorted, key: str, value: object, problem: str) -> None:
        """Do with an unknown field what the operator says. Raises `ApiError`."""
        if self.policy.unknown == "pass":
            out.passed[key] = value
        elif self.policy.unknown == "drop":
            out.dropped.append(Dropped(key, key))
        else:
            self.refused(out, key, problem)

    def refused(self, out: Sorted, key: str, problem: str, code: str | None = None) -> None:
        """Leave out a field, if the operator allows that. Raises `ApiError`."""
        if not self.drops.has(key):
            refuse(key, problem, code)
        out.dropped.append(Dropped(key, key))


def check(key: str, value: Any, row: Field) -> None:  # noqa: ANN401
    """Check the type and the bounds of a field. Raises `ApiError`."""
    types, expected = _TYPES[row.kind]
    is_flag = isinstance(value, bool) and row.kind in {"number", "integer"}
    if is_flag or not isinstance(value, types):
        refuse(key, f"is {value!r:.80}, expected {expected}")
    if isinstance(value, str) and row.kind == "text":
        check_bounds(key, len(value), f"has {len(value)} characters", row)
    elif isinstance(value, (int, float)) and row.kind in {"number", "integer"}:
        if isinstance(value, float) and not math.isfinite(value):
            refuse(key, f"is {value}, expected a finite number")
        check_bounds(key, value, f"is {shown(value)}", row)


def check_bounds(key: str, number: float, found: str, row: Field) -> None:
    """Check that a number is within the bounds of a field. Raises `ApiError`."""
    least, most, above = row.least, row.most, row.above
    if (
        (least is not None and number < least)
        or (most is not None and number > most)
        or (above is not None and number <= above)
    ):
        lower = f"more than {above}" if above is not None else f"{least} or more"
        upper = f", at most {most}" if most is not None else ""
        refuse(key, f"{found}, expected {lower}{upper}")


def check_needs(key: str, value: object, row: Field, given: Mapping[str, Any]) -> None:
    """Check that a field stands beside those that give it a meaning. Raises `ApiError`."""
    has_sense = any(given.get(other, False) is not False for other in row.needs)
    if row.needs and value not in row.idle and not has_sense:
        others = " or ".join(f"`{other}`" for other in row.needs)
        refuse(key, f"means nothing without {others}")


def check_least_length(body: Mapping[str, Any], engine: Mapping[str, Any]) -> None:
    """Check that an answer may be as long as it has to be. Raises `ApiError`."""
    limits = ("max_completion_tokens", "max_tokens", "max_output_tokens")
    limit = next((body[key] for key in limits if body.get(key) is not None), None)
    least = engine.get("min_tokens")
    if limit is not None and least is not None and least > limit:
        refuse("min_tokens", f"is {shown(least)}, expected at most the limit of {shown(limit)}")


def shown(number: float) -> str:
    """Give a number as text, a long one in short."""
    text = str(number)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 40


def refuse(key: str, problem: str, code: str | None = None) -> NoReturn:
    """Raise the error of a field."""
    raise ApiError(400, f"`{key:.80}` {problem}", key, code)
