"""Which parts of a request are left out where they cannot be written: none, all, or some kinds."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TypeAlias

from chatcodec.options import OnUnsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec import Dropped
    from chatcodec.options import OnUnknown

__all__ = ["Drops", "OnParts"]

OnParts: TypeAlias = OnUnsupported | AbstractSet[str]
"""Policy for parts that cannot be written: `"error"`, `"drop"`, or the kinds that are left out."""

ALWAYS = frozenset({"annotations", "citations", "is_error"})
"""Kinds that describe a text, and that no format writes: they are left out and listed."""


class Drops:
    """The kinds that are left out. A kind is what `Dropped.what` names."""

    def __init__(self, policy: OnParts) -> None:
        """Take a policy. Raises `ValueError` for another word."""
        if isinstance(policy, str) and policy not in {"error", "drop"}:
            given = f"on_unsupported={policy!r:.80}"
            raise ValueError(f'{given}, expected "error", "drop", or a set of kinds')
        self.all = policy == "drop"
        self.kinds = frozenset() if isinstance(policy, str) else frozenset(policy)

    def has(self, *kinds: str) -> bool:
        """Whether a part is left out that has these names for its kind."""
        return self.all or any(kind in self.kinds for kind in kinds)

    @property
    def on_unsupported(self) -> OnUnsupported:
        """The option of `encode`, which knows no kinds."""
        return "drop" if self.all else "error"

    @property
    def unknown(self) -> OnUnknown:
        """The option of `encode` for unknown keys of messages."""
        return "ignore" if self.all else "error"

    def refused(self, dropped: Iterable[Dropped]) -> Dropped | None:
        """Return the first part that was left out and should not have been."""

        def is_refused(part: Dropped) -> bool:
            is_left_out = self.has(part.what) or part.what in ALWAYS
            return not is_left_out and part.why == "unsupported"

        return next(filter(is_refused, dropped), None)
