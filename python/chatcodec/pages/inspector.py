"""The page of an encoding: each id with its bytes, source and masks, beside the string pipeline.

The string pipeline is what most servers do: they render a conversation to one string, and look for
control tokens in the whole string. Its control tokens are shown beside those of the encoding.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from chatcodec.pages.document import frame, items_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Encoding

__all__ = ["encoding_data", "encoding_frame", "encoding_page"]

CONTROL, CONTENT, GENERATED, PART = 1, 2, 4, 8
"""Flags of an id: a control token; some of a caller's text; an id that a model generates; the rest
of a character that began in the id before."""


def encoding_page(encoding: Encoding, title: str | None = None) -> str:
    """Make the page of an encoding."""
    return items_page(title or "Tokens of a conversation", [encoding_data(encoding)])


def encoding_frame(encoding: Encoding) -> str:
    """Make the page of an encoding for a notebook."""
    return frame(encoding_page(encoding))


def encoding_data(encoding: Encoding, roles: Sequence[str] | None = None) -> dict[str, object]:
    """Gather what a page shows of an encoding; `roles` are the caller's names of the roles."""
    vocab, known_roles, spelled = encoding._page_parts()  # noqa: SLF001
    ids = encoding.ids.tolist()
    sources = list(dict.fromkeys(source for source in encoding.sources if source is not None))
    number = {source: at for at, source in enumerate(sources)}
    texts, parts = _texts(encoding)
    masks = zip(
        encoding.is_control, encoding.is_content, encoding.assistant_mask, parts, strict=True
    )
    return {
        "kind": "encoding",
        "ids": ids,
        "texts": texts,
        "flags": [
            CONTROL * control + CONTENT * content + GENERATED * generated + PART * part
            for control, content, generated, part in masks
        ],
        "messages": encoding.message_indices.tolist(),
        "sources": [-1 if source is None else number[source] for source in encoding.sources],
        "paths": sources,
        "offsets": list(itertools.chain.from_iterable(encoding.offsets)),
        "roles": list(roles or known_roles),
        "bytes": {str(token): vocab.token_bytes(token).hex() for token in set(ids)},
        "found": _found(encoding),
        "pipeline": _pipeline(encoding, spelled),
    }


def _texts(encoding: Encoding) -> tuple[list[str], list[bool]]:
    """Give the text of each id, and whether the id is only the rest of a character.

    The first id of a character has the character, the others have no text.
    """
    # A new string at each access.
    text = encoding.text
    texts, parts, shown = [], [], 0
    for start, end in encoding.char_offsets:
        texts.append(text[max(start, shown) : end])
        parts.append(start < shown and not texts[-1])
        shown = max(shown, end)
    return texts, parts


def _found(encoding: Encoding) -> list[dict[str, object]]:
    """List the spellings of control tokens and markers in a caller's text, with their ids' range.

    `first` and `last` are positions of ids; they are missing where the rendered text spells the
    caller's text in another way.
    """
    places: dict[str, list[int]] = {}
    for at, source in enumerate(encoding.sources):
        if source is not None:
            places.setdefault(source, []).append(at)
    offsets, text = encoding.char_offsets, encoding.text
    begun = {path: offsets[positions[0]][0] for path, positions in places.items()}
    next_id = dict.fromkeys(places, 0)
    listed = [(n.path, n.start, n.end, n.spelling, n.id) for n in encoding.neutralized]
    listed += [(c.path, c.start, c.end, c.marker, -1) for c in encoding.collisions]
    found = []
    for path, start, end, spelling, token in listed:
        entry: dict[str, object] = {
            "path": path,
            "start": start,
            "end": end,
            "spelling": spelling,
            "id": token,
        }
        found.append(entry)
        positions = places.get(path)
        if not positions:
            continue
        at = text.find(spelling, begun[path], offsets[positions[-1]][1])
        if at < 0:
            continue
        begun[path] = at + len(spelling)
        nth = next_id[path]
        while nth + 1 < len(positions) and offsets[positions[nth]][1] <= at:
            nth += 1
        entry["first"] = positions[nth]
        while nth + 1 < len(positions) and offsets[positions[nth]][1] < at + len(spelling):
            nth += 1
        entry["last"] = positions[nth]
        next_id[path] = nth
    return found


def _pipeline(
    encoding: Encoding, spelled: Sequence[tuple[int, int, int]]
) -> list[str | list[object]]:
    """Split the rendered text as the string pipeline reads it.

    An item is text, or a control token: its spelling, its id, whether a caller's text forged it,
    and the position of the first id of the same text in the encoding.
    """
    content = encoding.text.encode()
    starts = {start: at for at, (start, _) in reversed(list(enumerate(encoding.offsets)))}
    genuine = {
        start: token
        for (start, _), token, control in zip(
            encoding.offsets, encoding.ids, encoding.is_control, strict=True
        )
        if control
    }
    items: list[str | list[object]] = []
    done = 0
    for start, end, token in spelled:
        if start > done:
            items.append(content[done:start].decode())
        forged = genuine.get(start) != token
        items.append([content[start:end].decode(), token, int(forged), starts.get(start, -1)])
        done = end
    if done < len(content):
        items.append(content[done:].decode())
    return items
