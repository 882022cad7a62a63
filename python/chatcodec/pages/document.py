"""One page of HTML with its data: a strict policy, one style sheet, and scripts of this package.

The data is JSON in a script that browsers do not run. `<`, `>` and `&` are escaped in it, so that
no text ends the script or begins a comment. Non-ASCII characters are escaped too: a page has the
same bytes in every encoding, and may hold halves of surrogate pairs.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatcodec.doctor.sections import Section

__all__ = ["audit_page", "bars_page", "doctor_page", "escaped_json", "frame", "items_page", "page"]

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

_FRAME_STYLE = "width:100%;height:28rem;border:1px solid #8888;border-radius:6px"


def asset(name: str) -> str:
    """Read a style sheet or a script of this package."""
    return resources.files("chatcodec.pages").joinpath(name).read_text("utf-8")


def escaped_json(value: object) -> str:
    """Write JSON for the inside of a script element; ASCII."""
    return json.dumps(value, separators=(",", ":")).translate(_ESCAPES)


def page(
    title: str,
    data: Mapping[str, object],
    scripts: Sequence[str],
    *,
    connect: bool = False,
    styles: Sequence[str] = (),
) -> str:
    """Make a page that shows `data` with scripts of this package.

    `connect` permits requests to the page's own origin; without it the page makes none. `styles`
    are style sheets beside the one of all pages.
    """
    style = "".join(map(asset, ["page.css", *styles]))
    script = "\n".join(map(asset, scripts))
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            *(["connect-src 'self'"] if connect else []),
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_markup(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<main id="page"><h1>{_markup(title)}</h1></main>\n'
        "<noscript>This page needs JavaScript to show its data.</noscript>\n"
        f'<script type="application/json" id="data">{escaped_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def items_page(title: str, items: Sequence[Mapping[str, object]]) -> str:
    """Make a page of encodings, streams and errors, which shows one at a time.

    An item has its `kind`: `"encoding"`, `"stream"` or `"error"`; and a `title`, which the page
    shows if there are several items.
    """
    return page(title, {"items": items}, ["common.js", "inspector.js", "timeline.js", "start.js"])


def audit_page(title: str, data: Mapping[str, object]) -> str:
    """Make a page with the heat maps of an audit."""
    return page(title, data, ["common.js", "audit.js"])


def doctor_page(model: str, sections: Sequence[Section]) -> str:
    """Make a page with the diagnosis of a model; the last section has its problems."""
    problems = sum(row.mark == "wrong" for row in sections[-1].rows)
    data = {
        "problems": problems,
        "sections": [
            {"title": each.title, "rows": [[row.name, row.value, row.mark] for row in each.rows]}
            for each in sections
        ],
    }
    return page(f"chatcodec check: {model}", data, ["common.js", "doctor.js"])


def bars_page(
    title: str,
    facts: Sequence[tuple[str, int]],
    charts: Sequence[Mapping[str, object]],
    *,
    made: Mapping[str, str] | None = None,
    samples: Sequence[Mapping[str, object]] = (),
) -> str:
    """Make a page of tables with bars.

    A chart has `title`, `about`, the names of its `columns`, and `rows`: labels, a number, and a
    text for the number if it is not the number itself. With `isRatio`, bars begin at 1. `made` says
    of what the numbers are. `samples` are rows of ids, as `chatcodec.prepare.samples` gives them.
    """
    data = {"facts": facts, "charts": charts, "made": list((made or {}).items())}
    return page(title, {**data, "samples": samples}, ["common.js", "bars.js"])


def frame(content: str) -> str:
    """Make a frame that shows a page within another page, apart from its scripts and styles."""
    content = html.escape(content)
    return (
        f'<iframe sandbox="allow-scripts" title="chatcodec" style="{_FRAME_STYLE}" '
        f'srcdoc="{content}"></iframe>'
    )


def _hash(text: str) -> str:
    """Give the source expression of a Content Security Policy for an inline element."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _markup(text: str) -> str:
    """Escape text for markup; what cannot be seen becomes U+FFFD."""
    return html.escape("".join(char if char.isprintable() else "\ufffd" for char in text))
