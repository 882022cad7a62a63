"""What the gateway changed in a request, as the client, the log and the metrics are told it.

A part that was left out, and a call that was read although its arguments are no JSON, change what
the model sees. Both are counted by kind. A client may choose the name of a field that nobody knows,
so names in headers are few and plain, and the labels of metrics are those that the gateway knows.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chatcodec.serve.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatcodec import Dropped
    from chatcodec.serve.memory import Recalled
    from chatcodec.serve.metrics import Metrics

__all__ = ["DROPPED", "HISTORY", "MEMORY", "Told"]

HISTORY = "x-chatcodec-history"
"""Header of an answer with the number of calls of the history that were read leniently."""

DROPPED = "x-chatcodec-dropped"
"""Header of an answer with the kinds of parts that were left out, and how many of each."""

MEMORY = "x-chatcodec-memory"
"""Header of an answer to a history with answers: `known` of them are in the prompt by the ids that
were sampled, `unknown` were encoded; `ids` of the prompt were seen or sampled before. `note-KIND`
counts what the model's template would write otherwise."""

OTHER = "other"
"""The kind of what the gateway has no name for."""

TOOLS = frozenset(
    {
        "bash",
        "code_execution",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "shell",
        "text_editor",
        "tool_search",
        "web_fetch",
        "web_search",
        "web_search_preview",
    }
)
"""Types of tools that a server would run."""

KINDS = (
    TOOLS
    | frozenset(name for table in FIELDS.values() for name in table)
    | {
        "annotations",
        "arguments",
        "audio",
        "call",
        "citations",
        "content",
        "description",
        "effort",
        "encrypted_content",
        "file",
        "image",
        "is_error",
        "language",
        "message",
        "name",
        "option",
        "parameters",
        "reasoning",
        "role",
        "thinking",
        "tool",
        "tool_call_id",
        "tool_calls",
        "tool_result",
        "tools",
        "unknown",
        "video",
    }
)
"""The kinds that metrics have labels for."""

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MOST = 16
"""Kinds in a header."""


@dataclass(frozen=True)
class Told:
    """What was changed in one request."""

    repaired: int = 0
    """Calls whose arguments are no JSON."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Parts that were left out, by kind."""
    recalled: Recalled | None = None
    """What is known of the history, where turns are kept."""

    @staticmethod
    def of(
        repaired: Iterable[str], dropped: Iterable[Dropped], recalled: Recalled | None = None
    ) -> Told:
        """Count the paths of repaired calls, and parts by kind."""
        found = Counter(each.what if _KIND.fullmatch(each.what) else OTHER for each in dropped)
        most = Counter(dict(found.most_common(_MOST)))
        if rest := found.total() - most.total():
            most[OTHER] += rest
        return Told(sum(1 for _ in repaired), most, recalled)

    @property
    def memory(self) -> dict[str, int]:
        """What is known of the history, in numbers; nothing for a history without answers."""
        known = self.recalled
        if known is None or not (known.known or known.unknown or known.failed):
            return {}
        counts = {"known": known.known, "unknown": known.unknown, "ids": known.ids}
        notes = {f"note-{kind}": count for kind, count in sorted(known.kinds.items())}
        return counts | notes | ({"failed": 1} if known.failed else {})

    def headers(self) -> dict[str, str]:
        """Give the headers of the answer: none where nothing was changed."""
        headers = {HISTORY: f"repaired={self.repaired}"} if self.repaired else {}
        if self.dropped:
            headers[DROPPED] = ", ".join(f"{kind}={n}" for kind, n in sorted(self.dropped.items()))
        if memory := self.memory:
            headers[MEMORY] = ", ".join(f"{name}={count}" for name, count in memory.items())
        return headers

    def logged(self) -> dict[str, object]:
        """Give the fields of the log."""
        fields: dict[str, object] = {"repaired": self.repaired} if self.repaired else {}
        fields |= {"dropped": dict(self.dropped)} if self.dropped else {}
        return fields | ({"memory": memory} if (memory := self.memory) else {})

    def count(self, metrics: Metrics) -> None:
        """Add to the metrics."""
        metrics.repaired.inc(self.repaired)
        for kind, n in self.dropped.items():
            metrics.dropped.labels(kind=kind if kind in KINDS else OTHER).inc(n)
        if self.recalled is not None:
            metrics.memory.recalled(self.recalled)
