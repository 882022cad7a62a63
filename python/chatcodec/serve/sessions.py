"""The session that a client names: by the header `x-session-id`, or by a path that begins with it.

A memory needs none. A client that names one has a memory of its own for it: samples of one task
with the same texts stay apart, and its trajectories can be asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

__all__ = ["HEADER", "PREFIX", "session_of", "without_session"]

HEADER = "x-session-id"
PREFIX = "/sessions/{session}"
"""What a path may begin with, so that a client needs another `base_url` alone."""
_LONGEST = 256
"""Characters of a session's name."""


def session_of(http: HTTPConnection) -> str:
    """Give the session of a request; empty for none. Raises `ApiError` for a name that is too long.

    The name in the path counts before the header's.
    """
    name: str = http.path_params.get("session") or http.headers.get(HEADER, "").strip()
    if len(name) > _LONGEST:
        problem = f"`{HEADER}` has {len(name)} characters, expected at most {_LONGEST}"
        raise ApiError(400, problem, HEADER)
    return name


def without_session(path: str) -> str:
    """Give a path without the session that it begins with."""
    parts = path.split("/", 3)
    return f"/{parts[3]}" if parts[:2] == ["", "sessions"] and len(parts) > 3 else path  # noqa: PLR2004
