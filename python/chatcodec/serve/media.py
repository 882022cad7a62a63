"""Images, video, audio and files in a request: refused, unless the operator says how many ids.

The gateway has no images: it fetches no address and gives the engine ids alone. A placeholder
without an image makes a model answer about what it never saw, so a client chooses neither the
placeholder nor their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatcodec import Dropped
from chatcodec.adapters._drops import Drops
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Encoding
    from chatcodec.serve.policy import Policy

__all__ = ["check_placeholders", "read_media"]

KINDS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "video": "video",
    "video_url": "video",
    "input_video": "video",
    "audio": "audio",
    "audio_url": "audio",
    "input_audio": "audio",
    "document": "file",
    "file": "file",
    "input_file": "file",
}
"""The kinds of the parts that hold more than text, by their type."""

_NAMES = {"image": "an image", "video": "a video", "audio": "audio", "file": "a file"}
_HOLDERS = ("messages", "input", "system", "instructions", "content", "output")
"""Keys of a body, a message or a part whose lists hold parts."""


def read_media(body: dict[str, Any], policy: Policy) -> list[Dropped]:
    """Count, leave out or refuse the parts of a body that are no text. Changes the body.

    Raises `ApiError` for a part that is refused.
    """
    drops, dropped = Drops(policy.on_unsupported), []
    for path, part in _parts(body):
        kind = KINDS.get(part["type"]) if isinstance(part.get("type"), str) else None
        if kind is None:
            continue
        if kind in policy.media:
            part["tokens"] = policy.media[kind]
        elif drops.has(kind):
            dropped.append(Dropped(path, kind))
            # In its place: the paths of later parts are still the client's.
            part.clear()
            part.update(type="text", text="")
        else:
            problem = f"`{path}` is {_NAMES[kind]}; this server takes text alone"
            raise ApiError(400, problem, path)
    return dropped


def check_placeholders(prompt: Encoding, policy: Policy) -> None:
    """Refuse a prompt with placeholders that the operator did not choose. Raises `ApiError`."""
    for each in prompt.placeholders:
        if each.kind not in policy.media:
            problem = f"`{each.path}` has placeholders of {each.kind}; this server takes text alone"
            raise ApiError(400, problem, each.path)


def _parts(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the dicts in lists of parts, at any depth, with their paths, in order."""
    open_ = [("", body)]
    while open_:
        path, value = open_.pop()
        if path:
            yield path, value
        lists = ((key, value[key]) for key in _HOLDERS if isinstance(value.get(key), list))
        inner = [
            (f"{path}.{key}[{at}]".removeprefix("."), part)
            for key, parts in lists
            for at, part in enumerate(parts)
            if isinstance(part, dict)
        ]
        open_ += reversed(inner)
