"""The log: one JSON object a line, on standard error, without text of messages."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatcodec.serve.errors import BackendError

__all__ = ["LOG", "Lines", "backend_fields", "set_up"]

LOG = logging.getLogger("chatcodec.serve")


class Lines(logging.Formatter):
    """Records as JSON; what `extra={"fields": {…}}` holds comes after the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def set_up() -> None:
    """Write the log of this process to standard error, and warnings of the libraries with it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.getLogger().handlers[:] = LOG.handlers[:] = [handler]
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    logging.captureWarnings(capture=True)


def backend_fields(error: BackendError, *, with_words: bool) -> dict[str, object]:
    """Give the fields of a failure of the backend, with its own words where a log may have text."""
    fields: dict[str, object] = {"problem": error.message, "error_id": error.id}
    if error.kind is not None:
        fields["backend_kind"] = error.kind
    if with_words and error.said is not None:
        fields["backend_said"] = error.said
    return fields
