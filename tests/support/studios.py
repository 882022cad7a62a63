"""A studio that answers in a thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec.pages.studio import Studio

__all__ = ["running"]


@contextmanager
def running(studio: Studio) -> Iterator[Studio]:
    """Serve until the end of the block."""
    with studio:
        thread = threading.Thread(target=studio.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield studio
        finally:
            studio.shutdown()
            thread.join()
