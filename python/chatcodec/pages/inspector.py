"""The page of an encoding: each id with its bytes, source and masks, beside the string pipeline.

The string pipeline is what most servers do: they render a conversation to one string, and look for
control tokens in the whole string. Its control tokens are shown beside those of the encoding.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from chatcodec.pages.document import frame, items_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def encoding_data(
    encoding: Encoding, roles: Sequence[str] | None = None, most: int | None = None
) -> dict[str, object]:
    """Gather what a page shows of an encoding; `roles` are the caller's names of the roles.

    Of more than `most` ids, those are shown, and all are counted.
    """
    vocab, known_roles, spelled = encoding._page_parts()  # noqa: SLF001
    # Each access of a column makes it anew.
    ids, control, content = (
        column.tolist() for column in (encoding.ids, encoding.is_control, encoding.is_content)
    )
    text, offsets, in_chars = encoding.text, encoding.offsets[:most], encoding.char_offsets[:most]
    id_sources = encoding.sources[:most]
    sources = list(dict.fromkeys(source for source in id_sources if source is not None))
    number = {source: at for at, source in enumerate(sources)}
    texts, parts = _texts(text, in_chars)
    masks = zip(control, content, encoding.assistant_mask, parts, strict=most is None)
    return {
        "kind": "encoding",
        "ids": ids,
        "totals": {
            "control": sum(control),
            "content": sum(content),
            "characters": len(text),
            "bytes": len(text.encode()),
        },
        "texts": texts,
        "flags": [
            CONTROL * is_control + CONTENT * is_content + GENERATED * generated + PART * part
            for is_control, is_content, generated, part in masks
        ],
        "messages": encoding.message_indices.tolist()[:most],
        "sources": [-1 if source is None else number[source] for source in id_sources],
        "paths": sources,
        "offsets": list(itertools.chain.from_iterable(offsets)),
        "roles": list(roles or known_roles),
        "bytes": {str(token): vocab.token_bytes(token).hex() for token in set(ids[:most])},
        "found": _found(encoding, id_sources, in_chars),
        "pipeline": _pipeline(
            text.encode()[: offsets[-1][1] if offsets else 0],
            spelled,
            offsets,
            {
                start: id_
                for (start, _), id_, own in zip(offsets, ids, control, strict=False)
                if own
            },
        ),
    }


def _texts(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[list[str], list[bool]]:
    """Give the text of each id, and whether the id is only the rest of a character.

    The first id of a character has the character, the others have no text.
    """
    texts, parts, shown = [], [], 0
    for start, end in offsets:
        texts.append(text[max(start, shown) : end])
        parts.append(start < shown and not texts[-1])
        shown = max(shown, end)
    return texts, parts


def _found(
    encoding: Encoding, sources: Sequence[str | None], offsets: Sequence[tuple[int, int]]
) -> list[dict[str, object]]:
    """List the spellings of control tokens and markers in a caller's text, with their ids' range.

    `first` and `last` are positions of ids; they are missing where the rendered text spells the
    caller's text in another way, and for ids that are not among `sources` and `offsets`.
    """
    places: dict[str, list[int]] = {}
    for at, source in enumerate(sources):
        if source is not None:
            places.setdefault(source, []).append(at)
    text = encoding.text
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
    content: bytes,
    spelled: Sequence[tuple[int, int, int]],
    offsets: Sequence[tuple[int, int]],
    genuine: Mapping[int, int],
) -> list[str | list[object]]:
    """Split the rendered text as the string pipeline reads it.

    An item is text, or a control token: its spelling, its id, whether a caller's text forged it,
    and the position of the first id of the same text in the encoding. `genuine` are the codec's
    own control tokens, by where they begin.
    """
    starts = {start: at for at, (start, _) in reversed(list(enumerate(offsets)))}
    items: list[str | list[object]] = []
    done = 0
    for start, end, token in spelled:
        if end > len(content):
            break
        if start > done:
            items.append(content[done:start].decode())
        forged = genuine.get(start) != token
        items.append([content[start:end].decode(), token, int(forged), starts.get(start, -1)])
        done = end
    if done < len(content):
        items.append(content[done:].decode("utf-8", "ignore"))
    return items
