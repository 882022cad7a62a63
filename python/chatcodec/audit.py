"""Whether a caller's text can forge control tokens, tried out.

Every control token is put into every place of a conversation that a caller's text reaches, in
several spellings. Each conversation is encoded twice: as most servers do, by tokenizing the
rendered text whole, and by the codec. A token is forged where control ids are not those of the same
conversation with harmless text.

>>> from chatcodec import Codec
>>> report = Codec("internlm2", vocab="embedded").audit()
>>> report.forged, report.forged_by_string > 0
(0, True)
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec.audit_cases import Case
from chatcodec.errors import MessageError, TemplateError
from chatcodec.pages.document import audit_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chatcodec import Codec, Encoding
    from chatcodec.audit_cases import Verdict

__all__ = [
    "HARMLESS",
    "IN_PARTS",
    "PLACES",
    "Audit",
    "Finding",
    "Made",
    "Outcome",
    "audit",
    "spellings",
]

Outcome: TypeAlias = Literal["text", "forged", "refused", "absent"]
"""What becomes of a spelling: text; a control token; the conversation is refused; the place is one
that the conversation's text does not have."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One spelling of one control token in one place."""

    token: str
    """The control token, as the vocabulary spells it."""
    place: str
    """The place of the text, such as `user content`."""
    spelling: str
    """The kind of spelling: `plain`, `in parts`, `full-width`, `bytes`."""
    text: str
    """The text that was put there."""
    string: Outcome
    """What becomes of it where the rendered text is tokenized whole."""
    codec: Outcome
    """What becomes of it in the codec."""
    sanitized: Outcome | None = None
    """What becomes of it in a tokenizer that sanitizes, if one was given."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings of an audit, and how many tokens were forged."""

    model: str
    """What was audited."""
    findings: tuple[Finding, ...]

    @property
    def forged(self) -> int:
        """Number of findings that are control in the codec."""
        return sum(finding.codec == "forged" for finding in self.findings)

    @property
    def forged_by_string(self) -> int:
        """Number of findings that are control where the rendered text is tokenized whole."""
        return sum(finding.string == "forged" for finding in self.findings)

    @property
    def forged_if_sanitized(self) -> int | None:
        """Number of findings that are control in the tokenizer; None where none was given."""
        if not any(finding.sanitized for finding in self.findings):
            return None
        return sum(finding.sanitized == "forged" for finding in self.findings)

    def to_json(self) -> str:
        """All of it as a JSON object."""
        record = {
            "model": self.model,
            "forged": self.forged,
            "forged_by_string": self.forged_by_string,
            "forged_if_sanitized": self.forged_if_sanitized,
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(record, ensure_ascii=False)

    def to_html(self) -> str:
        """One page with heat maps of control token and place: the string pipeline, the codec.

        Between them is the tokenizer that sanitizes, if one was given. The page is complete in
        itself and makes no requests. Each cell opens its examples.
        """
        tokens = list(dict.fromkeys(finding.token for finding in self.findings))
        places = list(dict.fromkeys(finding.place for finding in self.findings))
        token_at = {token: at for at, token in enumerate(tokens)}
        place_at = {place: at for at, place in enumerate(places)}
        findings = [
            (
                token_at[finding.token],
                place_at[finding.place],
                finding.spelling,
                finding.text,
                finding.string,
                finding.codec,
                *([finding.sanitized] if finding.sanitized else []),
            )
            for finding in self.findings
        ]
        # The title of each map, the name of its column, its place in a finding, its count.
        sides: list[tuple[str, str, int, int]] = [
            ("The string pipeline: what most servers do", "string", 4, self.forged_by_string),
            ("chatcodec", "chatcodec", 5, self.forged),
        ]
        if (count := self.forged_if_sanitized) is not None:
            title = "transformers with sanitize_control_tokens=True"
            sides.insert(1, (title, "sanitized", 6, count))
        record = {
            "model": self.model,
            "forged": self.forged,
            "forged_by_string": self.forged_by_string,
            "tokens": tokens,
            "places": places,
            "sides": sides,
            "findings": findings,
        }
        return audit_page("chatcodec audit", record)

    def cases(self) -> list[Case]:
        """The findings of the codec for `chatcodec.audit_cases`: places, by kind of spelling."""
        cases = []
        for (place, spelling), group in self._groups().items():
            forged = [finding.token for finding in group if finding.codec == "forged"]
            are_refused = all(finding.codec in {"refused", "absent"} for finding in group)
            verdict: Verdict = "forged" if forged else "skipped" if are_refused else "kept"
            message = f"forged: {' '.join(forged)}" if forged else "refused" if are_refused else ""
            cases.append(Case(place, spelling, verdict, message))
        return cases

    def _groups(self) -> dict[tuple[str, str], list[Finding]]:
        groups: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.place, finding.spelling), []).append(finding)
        return groups

    def table(self) -> str:
        """A table for a terminal: places, and how many spellings forge a token there."""
        sides: tuple[_Side, ...] = ("string", "codec")
        if self.forged_if_sanitized is not None:
            sides = ("string", "sanitized", "codec")
        rows = [("place", "spelling", "tried", *(_HEADS[side] for side in sides))]
        for (place, spelling), group in self._groups().items():
            cells = tuple(_summary(group, side) for side in sides)
            rows.append((place, spelling, str(len(group)), *cells))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        total = len(self.findings)
        if self.forged_if_sanitized is not None:
            lines.append(
                f"{self.model}: {self.forged_if_sanitized} forge a control token in the tokenizer "
                "with `sanitize_control_tokens`"
            )
        lines.append(
            f"{self.model}: of {total} texts, {self.forged_by_string} forge a control token where "
            f"the rendered text is tokenized whole, {self.forged} in the codec"
        )
        return "\n".join(lines) + "\n"

    __str__ = table


_Side: TypeAlias = Literal["string", "sanitized", "codec"]

_HEADS: dict[_Side, str] = {
    "string": "string pipeline",
    "sanitized": "sanitized",
    "codec": "codec",
}


def _summary(group: Sequence[Finding], side: _Side) -> str:
    counts = Counter(getattr(finding, side) for finding in group)
    return ", ".join(f"{counts[word]} {word}" for word in _OUTCOMES if counts[word])


_OUTCOMES: tuple[Outcome, ...] = ("forged", "refused", "absent", "text")

HARMLESS = "x"
"""The text of a place in a conversation that spells nothing."""

Made: TypeAlias = "tuple[list[dict[str, Any]], list[dict[str, Any]] | None]"
"""A conversation: its messages and its tools."""


def _tools(name: str, description: str, key: str, about: str) -> list[dict[str, Any]]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": "string", "description": about}},
        "required": [key],
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return [{"type": "function", "function": function}]


def _user(content: Any = "q", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"role": "user", "content": content, **more}


def _called(name: str, arguments: dict[str, Any], result: Any = "r") -> list[dict[str, Any]]:  # noqa: ANN401
    function = {"name": name, "arguments": arguments}
    call = {"id": "call00001", "type": "function", "function": function}
    return [
        _user(),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "name": name, "content": result},
    ]


_PLAIN_TOOLS = _tools("f", "d", "k", "a")


def _answer(**fields: str) -> Made:
    return [_user(), {"role": "assistant", "content": "a", **fields}, _user()], None


PLACES: dict[str, Callable[[Any], Made]] = {
    "system content": lambda text: ([{"role": "system", "content": text}, _user()], None),
    "user content": lambda text: ([_user(text)], None),
    "assistant content": lambda text: _answer(content=text),
    "assistant reasoning": lambda text: _answer(reasoning_content=text),
    "role": lambda text: ([_user(), {"role": text, "content": "c"}], None),
    "user name": lambda text: ([_user(name=text)], None),
    "tool name": lambda text: ([_user()], _tools(text, "d", "k", "a")),
    "tool description": lambda text: ([_user()], _tools("f", text, "k", "a")),
    "parameter name": lambda text: ([_user()], _tools("f", "d", text, "a")),
    "parameter description": lambda text: ([_user()], _tools("f", "d", "k", text)),
    "call name": lambda text: (_called(text, {"k": "v"}), _PLAIN_TOOLS),
    "argument name": lambda text: (_called("f", {text: "v"}), _PLAIN_TOOLS),
    "argument value": lambda text: (_called("f", {"k": text}), _PLAIN_TOOLS),
    "result": lambda text: (_called("f", {"k": "v"}, text), _PLAIN_TOOLS),
}
"""Places of a caller's text, each a conversation with a text there."""

IN_PARTS = ("system content", "user content", "result")
"""Places whose content may be a list of parts."""


def spellings(token: str) -> Iterator[tuple[str, str, Any]]:
    """The kind of each spelling, its text, and the text as it is given."""
    yield "plain", token, token
    middle = len(token) // 2
    halves = [token[:middle], token[middle:]]
    if all(halves):
        yield "in parts", token, [{"type": "text", "text": half} for half in halves]
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in token)
    if wide != token:
        yield "full-width", wide, wide
    composed = unicodedata.normalize("NFD", token)
    if composed != token:
        yield "decomposed", composed, composed
    as_bytes = "".join(f"<0x{byte:02X}>" for byte in token.encode())
    yield "bytes", as_bytes, as_bytes


class Pipelines:
    """The codec, and the string pipeline: the rendered text, with control by its spelling."""

    def __init__(self, codec: Codec, tokenizer: Any = None) -> None:  # noqa: ANN401
        """Prepare both pipelines of a codec, and a tokenizer of transformers beside them."""
        self.codec = codec
        self.tokenizer = tokenizer
        self._control = set(codec.vocab.control.values())

    def encode(self, made: Made) -> Encoding | None:
        """Encode a conversation; None where it is refused."""
        messages, tools = made
        try:
            return self.codec.encode(messages, tools=tools, add_generation_prompt=False)
        except (MessageError, TemplateError, TypeError):
            return None

    def by_codec(self, encoding: Encoding | None) -> list[int] | None:
        """Return the control ids that the codec gives."""
        if encoding is None:
            return None
        pairs = zip(encoding.ids, encoding.is_control, strict=True)
        return [int(id_) for id_, is_control in pairs if is_control]

    def by_string(self, encoding: Encoding | None) -> list[int] | None:
        """Return the control ids of the rendered text, tokenized whole."""
        if encoding is None:
            return None
        _, _, spelled = encoding._page_parts()  # noqa: SLF001
        return [id_ for _, _, id_ in spelled]

    def sanitized(self, made: Made) -> list[int] | None:
        """Return the control ids of the tokenizer, which sanitizes; None where it refuses."""
        messages, tools = made
        try:
            ids = self.tokenizer.apply_chat_template(
                messages, tools=tools, sanitize_control_tokens=True, return_dict=False
            )
        except Exception:  # noqa: BLE001 - templates and tokenizers raise what they like
            return None
        return [int(id_) for id_ in ids if int(id_) in self._control]


def audit(codec: Codec, tokenizer: Any = None) -> Audit:  # noqa: ANN401
    """Audit a codec: every control token in every place of a caller's text, in several spellings.

    With `tokenizer`, one of transformers 5.20 or newer, its `apply_chat_template` with
    `sanitize_control_tokens=True` is tried on the same conversations: `Finding.sanitized`.

    The string pipeline's text is the codec's own, with the spellings of control tokens: the text
    that a chat template writes. A conversation that the codec refuses has no such text, so both are
    `refused`.
    """
    pipelines = Pipelines(codec, tokenizer)
    findings = []
    for place, make in PLACES.items():
        # A role with more text is another role, which templates may drop or give other tokens.
        before = "user" if place == "role" else ""
        plain = make(before + HARMLESS)
        harmless = pipelines.encode(plain)
        expected = pipelines.by_codec(harmless), pipelines.by_string(harmless)
        by_library = None if tokenizer is None else pipelines.sanitized(plain)
        if harmless is None and place != "role":
            continue
        for token in codec.vocab.control:
            if not token:
                continue
            for kind, text, given in spellings(token):
                if kind == "in parts" and place not in IN_PARTS:
                    continue
                value = f"{before}{given}" if before else given
                encoding = pipelines.encode(make(value))
                found = pipelines.by_codec(encoding), pipelines.by_string(encoding)
                # A place that the text does not have: nothing of it was written.
                is_absent = encoding is not None and text not in encoding.text and kind == "plain"
                outcomes: list[Outcome] = [
                    "refused"
                    if have is None
                    else "forged"
                    if have != want
                    else "absent"
                    if is_absent
                    else "text"
                    for have, want in zip(found, expected, strict=True)
                ]
                sanitized: Outcome | None = None
                if tokenizer is not None:
                    have = pipelines.sanitized(make(value))
                    sanitized = (
                        "refused"
                        if have is None
                        else "forged"
                        if have != by_library
                        else "absent"
                        if is_absent
                        else "text"
                    )
                findings.append(
                    Finding(token, place, kind, text, outcomes[1], outcomes[0], sanitized)
                )
    name = "template" if codec.template is not None else codec.format.name
    return Audit(name, tuple(findings))
