"""Sizes that people write: `64 MiB`, `2GB`, `100000`."""

from __future__ import annotations

import re

__all__ = ["read_size"]

_UNITS: dict[str, int] = {"": 1, "B": 1} | {
    f"{prefix}{ending}": int((1024 if ending == "iB" else 1000) ** power)
    for power, prefix in enumerate("KMGT", 1)
    for ending in ("iB", "B")
}
_SIZE = re.compile(r"(\d{1,15})\s*([A-Za-z]*)")


def read_size(text: str) -> int:
    """Give a size in bytes. Raises `ValueError`.

    >>> read_size("64 MiB")
    67108864
    """
    found = _SIZE.fullmatch(text.strip())
    unit = None if found is None else _UNITS.get(found[2])
    if found is None or unit is None:
        raise ValueError(f"`{text:.40}` is no size, expected such as `64MiB` or `2GB`")
    return int(found[1]) * unit
