"""Text that is safe to show: whatever a caller's text holds, a terminal only ever prints it.

A terminal obeys ESC and the C1 controls, and reorders text around bidirectional marks. None of them
reaches it raw: not in JSON, not in an error, not where tokens are shown.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["one_line", "picture", "safe_json", "wants_color", "width"]

# Of what JSON leaves raw: DEL and C1 controls, line separators, bidirectional marks, and halves of
# surrogate pairs, which UTF-8 cannot write.
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def wants_color(choice: str, stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to write colours: `always`, `never`, or what the environment and `stream` say.

    `NO_COLOR` wins over `FORCE_COLOR`, and both over what the stream is.
    """
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def safe_json(text: str) -> str:
    """Escape in JSON text what a terminal would obey: the same value, written in other letters."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Join the lines of a message, and escape what cannot be seen."""
    joined = " ".join(line.strip() for line in text.splitlines())
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in joined
    )


def picture(char: str) -> str:
    """Give a character that can be seen for one that cannot: `↵`, `⇥`, `␛`, `⟨200B⟩`."""
    if char.isprintable():
        return char
    if char == "\n":
        return "↵"
    if char == "\t":
        return "⇥"
    # Unicode has pictures of the C0 controls, in their order.
    return chr(ord("␀") + ord(char)) if char < " " else f"⟨{ord(char):04X}⟩"


def width(text: str) -> int:
    """How many columns a terminal needs for printable text."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(char) in {"Mn", "Me"}
        else 2
        if unicodedata.east_asian_width(char) in {"W", "F"}
        else 1
        for char in text
    )
