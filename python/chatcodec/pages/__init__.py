"""Pages of HTML for people: an encoding token by token, a stream id by id, counts as bars.

A page is one file: no request leaves it, and its policy permits no other script than its own. A
caller's text is data of a page, in JSON, and the page shows it as text nodes alone.
"""

from __future__ import annotations

from chatcodec.pages.document import bars_page, doctor_page, items_page
from chatcodec.pages.inspector import encoding_data, encoding_frame, encoding_page
from chatcodec.pages.report import report_page
from chatcodec.pages.timeline import stream_data, stream_page

__all__ = [
    "bars_page",
    "doctor_page",
    "encoding_data",
    "encoding_frame",
    "encoding_page",
    "items_page",
    "report_page",
    "stream_data",
    "stream_page",
]
