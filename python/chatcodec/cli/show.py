"""Tokens for people: a conversation split into its ids, with the author of each.

A caller's text stands behind a bar, and long rows are wrapped here rather than by the terminal: it
can neither leave its column nor pass for the format's own. What colours tell, signs tell as well:
`⟦⟧` around control tokens, `·` between tokens, carets under what only spells a control token.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chatcodec.cli.terminal import one_line, picture, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chatcodec import Encoding

__all__ = ["Look", "legend", "show", "show_failure"]

# SGR parameters, of the sixteen colours that follow a terminal's theme.
_BOLD, _DIM, _UNDERLINE, _REVERSE, _ALARM = "1", "2", "4", "7", "1;31"
_ROLES = {"system": "33", "developer": "33", "user": "32", "assistant": "36"}
_OTHER_ROLE = "35"

# Minimum number of columns for text, in any terminal.
_TEXT_COLUMNS = 16
# Maximum number of findings in full.
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Look:
    """Options for showing tokens: colour, ids, and the width in columns."""

    color: bool
    ids: bool
    columns: int

    def paint(self, sgr: str, text: str) -> str:
        """Colour text, if colours are on."""
        return f"\x1b[{sgr}m{text}\x1b[0m" if self.color and sgr and text else text


@dataclass(frozen=True, slots=True)
class Cell:
    """A token, or several that share a character and cannot be shown apart."""

    ids: list[int]
    start: int
    end: int
    is_control: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of the rendered text that looks like control, and is text."""

    start: int
    end: int
    note: str


@dataclass(frozen=True, slots=True)
class Glyph:
    """A displayed character, and the mark that it belongs to."""

    text: str
    columns: int
    mark: Mark | None = None
    ends_row: bool = False


@dataclass(slots=True)
class Row:
    """A row on the screen: styled text, the ids below, carets below marked text."""

    text: list[tuple[str, str]] = field(default_factory=list)
    ids: str = ""
    carets: str = ""
    notes: list[str] = field(default_factory=list)
    columns: int = 0
    last_mark: Mark | None = None


def legend(look: Look) -> str:
    """Explain the colours and signs, in one line."""
    if look.color:
        roles = [*_ROLES.items(), ("tool", _OTHER_ROLE)]
        parts = [
            look.paint(_REVERSE, "⟦control⟧"),
            look.paint(_DIM, "the format's own"),
            *(look.paint(sgr, role) for role, sgr in roles if role != "developer"),
            look.paint(_ALARM, "^ spells a control token, is text"),
        ]
    else:
        parts = ["⟦control⟧", "│ a caller's text", "^ spells a control token, is text"]
    signs = "↵ newline" if look.color or look.ids else "· between tokens  ↵ newline"
    return "  ".join([*parts, signs]) + "\n"


def show(encoding: Encoding, *, title: str, roles: Sequence[str], look: Look) -> Iterator[str]:
    """Return the lines that show a conversation; `roles` are the roles of its messages."""
    yield _title(title, _summary(encoding), look)
    marks = _find_marks(encoding)
    by_position = {at: mark for mark in marks for at in range(mark.start, mark.end)}
    groups = list(_groups(encoding))
    labels = [_label(source, roles) for source, _, _ in groups]
    gutter = max(map(len, labels), default=0)
    # The sign of a newline may exceed the width: it does not get a row of its own.
    limit = max(_TEXT_COLUMNS, look.columns - gutter - len(" │ ") - len("·↵"))
    for label, (source, message, cells) in zip(labels, groups, strict=True):
        style = _style(source, roles[message] if message >= 0 else "")
        glyphs = _glyphs(cells, encoding.text, by_position, every_space=look.ids)
        for nth, row in enumerate(_lay(cells, glyphs, style, limit, look)):
            bar = "│" if source else " "
            yield from _draw(row, f"{label if nth == 0 else '':<{gutter}} ", bar, look)
    yield from _findings(encoding, look)


def show_failure(title: str, why: str, look: Look) -> str:
    """Show why a conversation cannot be encoded."""
    return _title(title, look.paint(_ALARM, f"error: {why}"), look) + "\n"


def _title(title: str, summary: str, look: Look) -> str:
    return f"{look.paint(_BOLD, f'── {one_line(title)} ──')} {summary}\n"


def _summary(encoding: Encoding) -> str:
    counts = {
        "control": sum(encoding.is_control),
        "neutralized": len(encoding.neutralized),
        "collisions": len(encoding.collisions),
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join([f"{len(encoding)} ids", *parts])


def _find_marks(encoding: Encoding) -> list[Mark]:
    """Find the findings of the caller's strings in the rendered text."""
    ranges: dict[str, tuple[int, int]] = {}
    for source, (start, end) in zip(encoding.sources, encoding.char_offsets, strict=True):
        if source is not None:
            ranges[source] = (ranges.get(source, (start, end))[0], end)
    found = [(n.path, n.spelling, f"text, not {n.id}") for n in encoding.neutralized]
    found += [(c.path, c.marker, "text that reads as a marker") for c in encoding.collisions]
    marks = []
    for path, spelling, note in found:
        # The findings are in order, so each is the first match after the previous one.
        start, end = ranges.get(path, (0, 0))
        at = encoding.text.find(spelling, start, end)
        if at >= 0:
            marks.append(Mark(at, at + len(spelling), note))
            ranges[path] = (at + len(spelling), end)
    return marks


def _groups(encoding: Encoding) -> Iterator[tuple[str | None, int, list[Cell]]]:
    """Yield runs of ids with one source and message, as cells; the tools have one source."""
    tokens = zip(
        map(_whole, encoding.sources),
        encoding.message_indices,
        encoding.ids,
        encoding.char_offsets,
        encoding.is_control,
        strict=True,
    )
    for (source, message), group in itertools.groupby(tokens, key=lambda token: token[:2]):
        cells: list[Cell] = []
        for _, _, token, (start, end), is_control in group:
            if cells and start < cells[-1].end:
                last = cells.pop()
                cells.append(
                    Cell([*last.ids, token], last.start, max(last.end, end), is_control=False)
                )
            else:
                cells.append(Cell([token], start, end, bool(is_control)))
        yield source, message, cells


def _whole(source: str | None) -> str | None:
    return "tools" if source is not None and source.startswith("tools[") else source


def _label(source: str | None, roles: Sequence[str]) -> str:
    """Shorten a path to the width of the margin: `[2] call 0 arguments`."""
    source = one_line(source or "")
    found = re.fullmatch(r"messages\[(\d+)\]\.(.+)", source)
    if not found:
        return source
    index, part = int(found[1]), found[2]
    part = re.sub(r"tool_calls\[(\d+)\]\.(?:function|code)\.", r"call \1 ", part)
    return f"[{index}] {roles[index] if part == 'content' else part}"


def _style(source: str | None, role: str) -> str:
    return _DIM if source is None else _ROLES.get(role, _OTHER_ROLE)


def _glyphs(
    cells: Sequence[Cell], text: str, marks: Mapping[int, Mark], *, every_space: bool
) -> list[list[Glyph]]:
    """Return each cell's characters as they are displayed.

    A space is shown as `␣` where it could be missed, which is at the end of a line and at the
    beginning of a text; or everywhere. At the end of a wrapped row, `_show_spaces` does it.
    """
    first, last = cells[0].start, cells[-1].end
    spaces = re.finditer(" " if every_space else r"\A +| +(?=\n|\Z)", text[first:last])
    seen = {at for found in spaces for at in range(first + found.start(), first + found.end())}

    def glyph(at: int) -> Glyph:
        char = "␣" if at in seen else picture(text[at])
        return Glyph(char, width(char), marks.get(at), ends_row=text[at] == "\n")

    result = []
    for cell in cells:
        glyphs = [glyph(at) for at in range(cell.start, cell.end)]
        if cell.is_control:
            glyphs = [Glyph("⟦", 1), *glyphs, Glyph("⟧", 1)]
        elif not glyphs:
            # A token that is only the vocabulary's dummy prefix.
            glyphs = [Glyph("▁", 1)]
        elif unicodedata.category(glyphs[0].text[0]) in {"Mn", "Me"}:
            # It would join the character before it on the screen.
            glyphs.insert(0, Glyph("◌", 1))
        result.append(glyphs)
    return result


def _lay(
    cells: Sequence[Cell], glyphs: Sequence[Sequence[Glyph]], style: str, limit: int, look: Look
) -> list[Row]:
    """Lay cells out in rows of `limit` columns, which also end where lines do."""
    rows = [Row()]
    after_control = True
    for nth, (cell, shown) in enumerate(zip(cells, glyphs, strict=True)):
        # Signs or underlining separate neighbours.
        underline = f";{_UNDERLINE}" if nth % 2 else ""
        styles = (_REVERSE,) * 2 if cell.is_control else (style + underline, _ALARM + underline)
        label = " ".join(map(str, cell.ids)) if look.ids else ""
        between = not (look.color or look.ids or cell.is_control or after_control)
        for piece in _pieces(shown, limit):
            columns = max(sum(glyph.columns for glyph in piece), len(label))
            hangs = piece[0].ends_row and not look.ids
            if rows[-1].columns and not hangs and rows[-1].columns + between + columns > limit:
                _show_spaces(rows[-1])
                rows.append(Row())
            if between and rows[-1].columns:
                _put(rows[-1], [Glyph("·", 1)], ("", ""), "", 1)
            _put(rows[-1], piece, styles, label, columns + look.ids)
            if piece[-1].ends_row:
                rows.append(Row())
            between, label = False, ""
        after_control = cell.is_control
    return [row for row in rows if row.columns]


def _pieces(glyphs: Sequence[Glyph], limit: int) -> Iterator[list[Glyph]]:
    """Cut a cell after each newline, and where it is wider than a row."""
    piece: list[Glyph] = []
    columns = 0
    for glyph in glyphs:
        if piece and columns + glyph.columns > limit:
            yield piece
            piece, columns = [], 0
        piece.append(glyph)
        columns += glyph.columns
        if glyph.ends_row:
            yield piece
            piece, columns = [], 0
    if piece:
        yield piece


def _put(
    row: Row, piece: Sequence[Glyph], styles: tuple[str, str], label: str, columns: int
) -> None:
    """Append a piece of a cell to a row, in `columns`; `styles` are for plain and marked text."""
    for mark, run in itertools.groupby(piece, key=lambda glyph: glyph.mark):
        glyphs = list(run)
        row.text.append((styles[mark is not None], "".join(glyph.text for glyph in glyphs)))
        if mark and mark is row.last_mark:
            row.carets = row.carets.rstrip().ljust(len(row.carets), "^")
        elif mark:
            row.notes.append(mark.note)
            row.last_mark = mark
        row.carets += ("^" if mark else " ") * sum(glyph.columns for glyph in glyphs)
    row.columns += columns
    row.text.append(("", " " * (row.columns - len(row.carets))))
    row.carets = row.carets.ljust(row.columns)
    row.ids += label.ljust(columns)


def _show_spaces(row: Row) -> None:
    """Show the spaces that a wrapped row ends with."""
    for at, (style, text) in reversed(list(enumerate(row.text))):
        kept = text.rstrip(" ")
        row.text[at] = (style, kept + "␣" * (len(text) - len(kept)))
        if kept:
            break


def _draw(row: Row, margin: str, bar: str, look: Look) -> Iterator[str]:
    """Return the screen lines of a row. Text of the format has no bar before it."""
    text = "".join(look.paint(sgr, text) for sgr, text in row.text)
    yield f"{look.paint(_DIM, margin)}{bar} {text}".rstrip() + "\n"
    below = " " * len(margin) + "  "
    if row.ids.strip():
        yield below + look.paint(_DIM, row.ids.rstrip()) + "\n"
    if row.notes:
        yield below + look.paint(_ALARM, f"{row.carets.rstrip()} {', '.join(row.notes)}") + "\n"


def _findings(encoding: Encoding, look: Look) -> Iterator[str]:
    """List the findings in the caller's text, with their places in the caller's own strings."""
    found = [(n.path, n.start, n.end, n.spelling, f"not {n.id}") for n in encoding.neutralized]
    found += [(c.path, c.start, c.end, c.marker, "a marker") for c in encoding.collisions]
    if found:
        yield look.paint(_ALARM, "only text, though it spells control tokens:") + "\n"
    for path, start, end, spelling, note in found[:_LISTED]:
        yield f"  {one_line(path)}[{start}:{end}]  {one_line(spelling)}  {note}\n"
    if len(found) > _LISTED:
        yield f"  and {len(found) - _LISTED} more (`chatcodec encode --report` lists all)\n"
    yield "\n"
