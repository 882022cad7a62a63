"""The table of published chat templates: what is read of each, and by what.

`UPDATE_DOCS=1 pytest -n 0 tests/template/test_models_page.py` writes it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import test_derived_readers as derived
import test_template_codec as published
from chatcodec import Codec, prove
from chatcodec.errors import ChatCodecError

if TYPE_CHECKING:
    from chatcodec.proof import PartProof

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "all-templates.md"
TABLE = re.compile(r"(?<=<!-- templates -->\n\n).*?(?=\n\n<!-- /templates -->)", re.DOTALL)
COLUMNS = {
    "texts": ("an answer of text", "whole conversations of texts"),
    "calls": ("a call", "two calls", "text beside a call", "nested arguments"),
    "results": ("a result of a call",),
    "reasoning": ("reasoning", "reasoning before a call"),
}
COUNT = 180
"""Random conversations for each template."""


def share(parts: list[PartProof]) -> str:
    """How much is read of parts that the template writes: in words, or as numbers."""
    written, read = sum(part.written for part in parts), sum(part.read for part in parts)
    if not written:
        return "not written"
    if read in (0, written):
        return "read" if read else "not read"
    return f"{read} of {written}"


def reader_of(codec: Codec) -> str:
    """What reads completions."""
    if codec.read_by in {"format", "part for answers"}:
        return f"`{codec.format.name}`" + (", answers" if codec.read_by != "format" else "")
    return codec.read_by.removesuffix(" format")


def constrained(codec: Codec) -> str:
    """Whether calls can be asked for by a constraint."""
    try:
        codec.constrain(tools=derived.TOOLS, tool_choice="required")
    except ChatCodecError:
        return "no"
    return "calls"


def table() -> str:
    rows = []
    for name in published.PUBLISHED:
        codec = derived.codec_of(name)
        assert codec is not None, name
        try:
            parts = {str(part.part): part for part in prove(codec, count=COUNT).parts}
        except ChatCodecError:  # The template takes lists of parts, or no conversation.
            continue
        cells = [share([parts[part] for part in column]) for column in COLUMNS.values()]
        cells += [constrained(codec), reader_of(codec)]
        rows.append(" | ".join([f"| `{name.removesuffix('.jinja')}`", *cells, ""]).rstrip())
    head = " | ".join(["| template", *COLUMNS, "constraint", "read by |"])
    return "\n".join([head, "|" + "---|" * (len(COLUMNS) + 3), *rows])


@pytest.mark.skipif(
    len(published.PUBLISHED) != derived.PUBLISHED_FOR_DOCS,
    reason=f"other templates in {published.FOLDER} than the page has",
)
def test_the_page_has_what_is_read_of_published_templates() -> None:
    text, made = PAGE.read_text(encoding="utf-8"), table()
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(TABLE.sub(lambda _: made, text), encoding="utf-8")
    else:
        assert TABLE.search(text), "no marks of the table"
        assert TABLE.findall(text) == [made]
