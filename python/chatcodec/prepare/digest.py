"""The hash of a file, of inputs and of shards alike."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["sha256"]


def sha256(path: Path) -> str:
    """Give the SHA-256 of a file in hexadecimal digits, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
