"""Counts of a run: rows, lengths, roles, control spelled in text; as JSON and as a picture."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Report"]

_TABLES = {"lengths", "roles", "neutralized", "parts_dropped", "reasons"}

_STEPS = 16
"""Buckets of lengths between two powers of 2."""

_PLACES = 1000
"""How many different places are counted."""

_OTHERS = "other reasons"

_ROLES = {"system": 0, "user": 1, "assistant": 2, "tool": 3}
_SHOWN = 10
_WHY = {
    "unsupported": "nothing writes it",
    "policy": "not written in such a conversation",
    "cut": "written in part",
}
"""What `Dropped.why` says, in words."""
_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(slots=True)
class Report:
    """Counts of a run. They can be added, and are the same however a run was interrupted."""

    rows: int = 0
    """Conversations that were written."""
    ids: int = 0
    """Their ids."""
    rejected: int = 0
    """Rows that were not written, with their reasons in `_rejects.jsonl`."""
    markup: int = 0
    """Those of them whose assistant's text spells reasoning or calls."""
    trained: int = 0
    """Labels that are not ignored; 0 without labels."""
    longest: int = 0
    """Ids of the longest conversation."""
    shortened: int = 0
    """Conversations that lost turns or ids because they were too long."""
    dropped: int = 0
    """Conversations that were left out because they were too long."""
    packed: int = 0
    """Rows of the shards, where several conversations are packed into one."""
    lengths: Counter[int] = field(default_factory=Counter)
    """Conversations by their number of ids; from 32 ids on in buckets, by the least of each."""
    roles: Counter[str] = field(default_factory=Counter)
    """Messages by their role."""
    neutralized: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Control spelled in the text of callers, by place (`messages[].content`) and spelling."""
    parts_dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Parts of conversations that are not in the ids, by place (`messages[].name`) and why."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Rejected rows by their reason, without the numbers of messages."""

    def count_rejected(self, reasons: Iterable[str]) -> None:
        """Count rejected rows by reason; beyond a bound, other reasons are one."""
        for reason in reasons:
            place = _without_numbers(reason)
            is_known = place in self.reasons or len(self.reasons) < _PLACES
            self.reasons[place if is_known else _OTHERS] += 1

    def count(self, table: pa.Table) -> None:
        """Count encoded rows, with the columns `length`, `roles` and others."""
        whole = table["original_length"]
        self.shortened += pc.sum(pc.less(table["length"], whole)).as_py() or 0
        self.rows += len(table)
        self.ids += pc.sum(table["length"]).as_py() or 0
        self.longest = max(self.longest, pc.max(table["length"]).as_py() or 0)
        for counted in pc.value_counts(table["length"]).to_pylist():
            self.lengths[_bucket(counted["values"])] += counted["counts"]
        if "trained" in table.column_names:
            self.trained += pc.sum(table["trained"]).as_py() or 0
        for counted in pc.value_counts(pc.list_flatten(table["roles"])).to_pylist():
            self.roles[counted["values"]] += counted["counts"]
        for name, word, counted in (
            ("neutralized", "spelling", self.neutralized),
            ("dropped", "why", self.parts_dropped),
        ):
            for found in pc.list_flatten(table[name]).to_pylist():
                place = _without_numbers(found["path"]), found[word]
                if place in counted or len(counted) < _PLACES:
                    counted[place] += 1

    def add(self, other: Report) -> None:
        """Add the counts of another part."""
        self.rows += other.rows
        self.ids += other.ids
        self.rejected += other.rejected
        self.markup += other.markup
        self.trained += other.trained
        self.shortened += other.shortened
        self.dropped += other.dropped
        self.packed += other.packed
        self.longest = max(self.longest, other.longest)
        self.lengths.update(other.lengths)
        self.roles.update(other.roles)
        self.neutralized.update(other.neutralized)
        self.parts_dropped.update(other.parts_dropped)
        for reason, count in other.reasons.items():
            is_known = reason in self.reasons or len(self.reasons) < _PLACES
            self.reasons[reason if is_known else _OTHERS] += count

    def quantile(self, share: float) -> int:
        """Give the length that `share` of the conversations have at most, to 1/16 of itself."""
        left = share * self.rows
        for bucket in sorted(self.lengths):
            left -= self.lengths[bucket]
            if left <= 0:
                return min(self.longest, _end(bucket) - 1)
        return self.longest

    def to_dict(self) -> dict[str, Any]:
        """Give the counts as JSON has them; `of_dict` reads them."""
        return {
            "rows": self.rows,
            "ids": self.ids,
            "rejected": self.rejected,
            "markup": self.markup,
            "trained": self.trained,
            "longest": self.longest,
            "shortened": self.shortened,
            "dropped": self.dropped,
            "packed": self.packed,
            "lengths": {str(length): self.lengths[length] for length in sorted(self.lengths)},
            "roles": {role: self.roles[role] for role in sorted(self.roles)},
            "neutralized": [
                {"path": path, "spelling": spelling, "count": count}
                for (path, spelling), count in sorted(self.neutralized.items())
            ],
            "parts_dropped": [
                {"path": path, "why": why, "count": count}
                for (path, why), count in sorted(self.parts_dropped.items())
            ],
            "reasons": [
                {"reason": reason, "count": count} for reason, count in sorted(self.reasons.items())
            ],
        }

    @classmethod
    def of_dict(cls, value: dict[str, Any]) -> Report:
        """Read what `to_dict` gives."""
        numbers = {name: value[name] for name in value.keys() - _TABLES}
        lengths = Counter({int(length): count for length, count in value["lengths"].items()})
        found = {(item["path"], item["spelling"]): item["count"] for item in value["neutralized"]}
        dropped = {(item["path"], item["why"]): item["count"] for item in value["parts_dropped"]}
        return cls(
            **numbers,
            lengths=lengths,
            roles=Counter(value["roles"]),
            neutralized=Counter(found),
            parts_dropped=Counter(dropped),
            reasons=Counter({item["reason"]: item["count"] for item in value["reasons"]}),
        )

    def text(self) -> str:
        """Show the counts, with the lengths as a picture."""
        return "".join(line + "\n" for line in self._shown())

    def _shown(self) -> Iterator[str]:
        trained = f", {self.trained:,} of them trained on" if self.trained else ""
        yield f"{self.rows:,} conversations, {self.ids:,} ids{trained}, {self.rejected:,} rejected"
        yield from self._reasons()
        if self.markup:
            share = self.markup / (self.rows + self.rejected + self.dropped)
            yield (
                f"reasoning or calls spelled in an assistant's text: {self.markup:,} rows "
                f"({share:.1%}) were rejected; --markup parse reads them, --markup text writes "
                "them as ordinary text"
            )
        if self.shortened or self.dropped:
            yield f"too long: {self.shortened:,} shortened, {self.dropped:,} left out"
        if self.packed:
            mean = self.ids / self.packed
            yield f"packed into {self.packed:,} rows, {mean:,.0f} ids each on average"
        if self.rows:
            yield ""
            parts = [f"{share:.0%} {self.quantile(share):,}" for share in (0.5, 0.9, 0.99)]
            yield f"ids of a conversation: {', '.join(parts)}, longest {self.longest:,}"
            yield from self._histogram()
        if self.roles:
            yield ""
            roles = (f"{role or '(none)'} {count:,}" for role, count in self._ordered_roles())
            yield f"messages: {', '.join(roles)}"
        yield ""
        found = sorted(self.neutralized.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
        total = sum(self.neutralized.values())
        yield f"control spelled in text, and written as text: {total:,}"
        for (path, spelling), count in found:
            yield f"  {count:>8,}  {path}  {spelling.encode('unicode_escape').decode()}"
        if len(self.neutralized) > len(found):
            yield f"  and {len(self.neutralized) - len(found):,} more in _manifest.json"
        yield from self._parts_dropped()

    def _reasons(self) -> Iterator[str]:
        """Show the most frequent reasons of rejected rows."""
        found = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
        for reason, count in found:
            yield f"  {count:>8,}  {reason.encode('unicode_escape').decode()}"
        if len(self.reasons) > len(found):
            yield f"  and {len(self.reasons) - len(found):,} more reasons in _manifest.json"

    def _parts_dropped(self) -> Iterator[str]:
        if not self.parts_dropped:
            return
        found = sorted(self.parts_dropped.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
        yield ""
        yield f"parts that are not in the ids: {sum(self.parts_dropped.values()):,}"
        for (path, why), count in found:
            yield f"  {count:>8,}  {path}  {_WHY[why]}"
        if len(self.parts_dropped) > len(found):
            yield f"  and {len(self.parts_dropped) - len(found):,} more in _manifest.json"

    def _ordered_roles(self) -> list[tuple[str, int]]:
        """Give the most frequent roles first; equally frequent ones as conversations have them."""
        return sorted(
            self.roles.items(),
            key=lambda item: (-item[1], _ROLES.get(item[0], len(_ROLES)), item[0]),
        )

    def _histogram(self) -> Iterator[str]:
        powers: Counter[int] = Counter()
        for bucket, count in self.lengths.items():
            powers[bucket.bit_length()] += count
        most = max(powers.values())
        for power in range(min(powers), max(powers) + 1):
            first, last = (1 << power) >> 1, (1 << power) - 1
            count = powers[power]
            yield f"  {first:>9,} to {last:>9,} │{_bar(count / most)} {count:,}"


def _without_numbers(path: str) -> str:
    """Give a path for all messages: `messages[].content`."""
    return re.sub(r"\[\d+\]", "[]", path)


def _bar(share: float) -> str:
    eighths = max(1, round(share * _BAR * 8)) if share else 0
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _bucket(length: int) -> int:
    """Give the least length of a bucket."""
    step = max(0, length.bit_length() - 1 - _STEPS.bit_length() + 1)
    return length >> step << step


def _end(bucket: int) -> int:
    """Give the least length of the next bucket."""
    return bucket + (1 << max(0, bucket.bit_length() - 1 - _STEPS.bit_length() + 1))
