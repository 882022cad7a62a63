"""What a caller can forge: the numbers of an audit, by the place of the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatcodec import Codec

__all__ = ["Forgeries", "forge"]


_SHOWN = "user content"
"""The place of the example, where that can be forged."""


@dataclass(frozen=True, slots=True)
class Forgeries:
    """The texts that forge a control token."""

    tried: int
    """Number of texts: each control token in each place, in several spellings."""
    by_string: int
    """Number of those that forge one where the rendered text is tokenized whole."""
    here: int
    """Number of those that forge one in the codec."""
    places: dict[str, int]
    """Number of control tokens that can be forged in each place, where the rendered text is
    tokenized whole."""
    example: str
    """A text that forges there, with its place; empty where none does."""


def forge(codec: Codec) -> Forgeries:
    """Audit a codec, and count."""
    report = codec.audit()
    tokens: dict[str, set[str]] = {}
    stops = [codec.vocab.decode([id_]) for id_ in codec.stop_ids]
    forged = [finding for finding in report.findings if finding.string == "forged"]
    for finding in forged:
        tokens.setdefault(finding.place, set()).add(finding.token)
    # What ends a turn is what most attacks begin with.
    examples = [
        each for stop in stops for each in forged if each.token == stop and each.place == _SHOWN
    ] or forged
    return Forgeries(
        tried=len(report.findings),
        by_string=report.forged_by_string,
        here=report.forged,
        places={place: len(found) for place, found in tokens.items()},
        example=f"{examples[0].text} as {examples[0].place}" if examples else "",
    )
