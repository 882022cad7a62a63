"""The names that a codec is loaded by: a model, or a format and a vocabulary.

The command line and the gateway's settings have the same three names, which mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chatcodec._core import Codec, Format, formats

__all__ = ["EMBEDDED", "Named"]

EMBEDDED = "embedded"
"""The vocabulary of the package, as `Codec` takes it."""

_FORMAT = "internlm2"
"""The format of a vocabulary that is named without one."""


@dataclass(frozen=True, slots=True)
class Named:
    """The names of a codec."""

    model: str | None = None
    """Name on the hub, folder or GGUF file of a model."""
    format: str | None = None
    """Name of a built-in format, or a TOML file; None for what the model's template writes."""
    vocab: str | None = None
    """File or folder of a vocabulary, in place of a model; or `embedded`, to try things out."""

    @property
    def name(self) -> str:
        """The model's name, or the format's."""
        return self.model or self.format or _FORMAT

    def codec(self) -> Codec:
        """Load the codec. Raises what `Codec` and `Codec.from_pretrained` raise."""
        form = None if self.format is None else _format(self.format)
        if self.model is not None:
            return Codec.from_pretrained(self.model, form)
        return Codec(form or _FORMAT, self.vocab)


def _format(name: str) -> Format:
    """Load a built-in format by name, or one from a TOML file."""
    if name not in formats() and (name.endswith(".toml") or Path(name).is_file()):
        return Format.load(name)
    return Format.built_in(name)
