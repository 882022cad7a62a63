"""The prompt of a request, as a process that reads can send it to the one that answers."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from chatcodec.serve.backends.written import Written, written_ids
from chatcodec.serve.metrics import general

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Encoding

__all__ = ["Prompt"]


@dataclass(frozen=True)
class Prompt:
    """The ids of a prompt, and what is counted of it."""

    ids: array[int]
    """The ids, int32."""
    written: Written
    """The ids as a JSON list."""
    neutralized: Counter[str] = field(default_factory=Counter)
    """Spellings of control tokens in its text, by their place without numbers."""
    text: str | None = None
    """The text, where the log has it."""

    @staticmethod
    def of(encoding: Encoding, *, with_text: bool) -> Prompt:
        """Take what is needed of an encoding."""
        return Prompt(
            array("i", bytes(memoryview(encoding.ids))),
            written_ids(encoding),
            Counter(general(each.path) for each in encoding.neutralized),
            encoding.text if with_text else None,
        )

    def parts(self, lengths: Sequence[int]) -> list[list[int]]:
        """Give the ids of several prompts by their lengths; of one without lengths."""
        ends = [*accumulate(lengths)] or [len(self)]
        return [self.ids[start:end].tolist() for start, end in pairwise([0, *ends])]

    def __len__(self) -> int:
        """Give the number of ids."""
        return len(self.ids)
