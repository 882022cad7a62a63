"""A local server for `chatcodec studio`: type a conversation, and see its ids and its stream."""

from __future__ import annotations

from chatcodec.pages.studio.server import BODY_BYTES, Studio

__all__ = ["BODY_BYTES", "Studio"]
