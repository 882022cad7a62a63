"""Values of backends' events and requests, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from chatcodec.serve.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Growing", "cached_of", "count_of", "ids_of", "pairs", "reason_of", "renamed", "same"]

_LARGEST_ID = 2**32
_QUOTED = 200
"""Characters of a backend's words that are kept."""


def ids_of(value: object) -> list[int]:
    """Check that a value is a list of ids. Raises `TypeError`."""
    if not isinstance(value, list) or not all(
        type(id_) is int and 0 <= id_ < _LARGEST_ID for id_ in value
    ):
        raise TypeError("expected a list of ids")
    return value


def reason_of(value: object) -> Literal["stop", "length"] | None:
    """Give the reason of an end: `length`, or `stop` for all others. Raises for a failure."""
    kind = value.get("type") if isinstance(value, dict) else value
    if kind is None:
        return None
    if kind in {"abort", "error"}:
        said = value.get("message") if isinstance(value, dict) else None
        raise BackendError(502, "the backend gave up", said=str(said or kind)[:_QUOTED])
    return "length" if kind == "length" else "stop"


class Growing:
    """Ids of events that repeat what came before, or do not: engines have it both ways.

    `total` is how many ids the engine says it has generated. An event with as many is the whole
    answer so far; one with fewer is what is new.
    """

    def __init__(self) -> None:
        """Begin with no ids."""
        self.count = 0

    def new(self, ids: list[int], total: int | None) -> list[int]:
        """Give the ids that are new. Raises `BackendError` where ids are missing."""
        if total is not None and len(ids) == total:
            ids = ids[self.count :]
        self.count += len(ids)
        if total is not None and total != self.count:
            problem = f"the backend gave {self.count} ids of {total}"
            raise BackendError(502, problem)
        return ids


def renamed(sampling: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Give sampling options by an engine's own names.

    Those of other names are left out: the gateway has refused them, or they have another place.
    """
    return {names[key]: value for key, value in sampling.items() if key in names}


def same(*names: str) -> dict[str, str]:
    """Names that are the same on both sides."""
    return {name: name for name in names}


def cached_of(usage: object) -> int | None:
    """Give the number of cached ids of a usage as OpenAI tells it, if it is told."""
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    return count_of(details.get("cached_tokens")) if isinstance(details, dict) else None


def count_of(value: object) -> int | None:
    """Give a number that an engine may tell."""
    return value if type(value) is int and value >= 0 else None


def pairs(entries: Iterable[Sequence[Any]]) -> list[tuple[int, float]]:
    """Read lists of a log probability, an id and more as pairs of an id and its log probability."""
    return [(entry[1], float(entry[0])) for entry in entries]
