"""What a caller can forge: the numbers of an audit, by the place of the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatcodec import Codec

__all__ = ["Forgeries", "forge"]


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


def forge(codec: Codec) -> Forgeries:
    """Audit a codec, and count."""
    report = codec.audit()
    tokens: dict[str, set[str]] = {}
    for finding in report.findings:
        if finding.string == "forged":
            tokens.setdefault(finding.place, set()).add(finding.token)
    return Forgeries(
        tried=len(report.findings),
        by_string=report.forged_by_string,
        here=report.forged,
        places={place: len(forged) for place, forged in tokens.items()},
    )
