"""Whether a running server keeps a caller's text from being control, tried out over HTTP.

Control tokens are spelled in each place of a conversation that a caller's text reaches. The server
tells its prompts by their ids, or by their number alone (`chatcodec.audit_server.asking`). By ids,
a token is forged if the prompt has more control tokens than that of a harmless text. By numbers, it
is forged if the prompt is shorter than the codec's: a spelling that became control is one id.

Attack servers of others only if their owner agrees.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from chatcodec.audit import HARMLESS, PLACES
from chatcodec.audit_cases import Case
from chatcodec.audit_server.asking import Prompt, Server, Way
from chatcodec.audit_server.attacks import Attack, read_attacks, spelled_attacks
from chatcodec.errors import MessageError, TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from chatcodec import Codec
    from chatcodec.audit import Made
    from chatcodec.audit_cases import Verdict

__all__ = [
    "Attack",
    "ServerAudit",
    "ServerFinding",
    "ServerOutcome",
    "audit_server",
    "read_attacks",
]

ServerOutcome: TypeAlias = Literal["text", "forged", "refused", "unknown"]
"""What becomes of a text: text; a control token; the server refuses the conversation; the server
tells the number of ids alone, and the codec cannot write the conversation."""

_VERDICTS: dict[ServerOutcome, Verdict] = {
    "text": "kept",
    "forged": "forged",
    "refused": "skipped",
    "unknown": "skipped",
}
_OUTCOMES: dict[ServerOutcome, str] = {
    "text": "stayed text:",
    "refused": "refused by the server:",
    "unknown": "not written by the codec, and no ids are told:",
}
_NAMED = 6
"""Forged tokens that a line names."""
_ROLES = ("system", "user", "assistant", "user")


@dataclass(frozen=True, slots=True)
class ServerFinding:
    """An attack in a place of a conversation."""

    place: str
    """The place of the text, such as `user content`."""
    attack: str
    """The kind of the spellings, or the name of an attack of the caller's."""
    outcome: ServerOutcome
    forged: tuple[str, ...] = ()
    """The control tokens that the text became."""

    @property
    def message(self) -> str:
        """The outcome in a line; empty for text."""
        if self.outcome == "refused":
            return "the server refuses the conversation"
        if self.outcome == "unknown":
            return "the codec cannot write the conversation, and the server tells no ids"
        if self.outcome == "text":
            return ""
        named = " ".join(self.forged[:_NAMED]) or "the prompt is shorter than that of the text"
        more = len(self.forged) - _NAMED
        return f"forged: {named}{f' and {more} more' if more > 0 else ''}"


@dataclass(frozen=True, slots=True)
class ServerAudit:
    """What a caller can forge on a server."""

    server: str
    """Address of the server."""
    model: str
    """Name of the model there."""
    way: Way
    """How the server tells its prompts."""
    harmless: tuple[int, int]
    """The number of ids of a prompt of harmless texts, of the server and of the codec."""
    is_same: bool
    """Whether that prompt is the codec's: the same ids, or as many."""
    findings: tuple[ServerFinding, ...]

    @property
    def forged(self) -> tuple[str, ...]:
        """The control tokens that can be forged in some place."""
        return tuple(dict.fromkeys(token for each in self.findings for token in each.forged))

    @property
    def is_forged(self) -> bool:
        """Whether some text became a control token."""
        return any(finding.outcome == "forged" for finding in self.findings)

    @property
    def is_kept(self) -> bool:
        """Whether nothing was forged, and the prompt of harmless texts is the codec's."""
        return self.is_same and not self.is_forged

    def cases(self) -> list[Case]:
        """Give the findings for `chatcodec.audit_cases`."""
        return [
            Case(each.place, each.attack, _VERDICTS[each.outcome], each.message)
            for each in self.findings
        ]

    def table(self) -> str:
        """Return the findings as lines of text."""
        theirs, ours = self.harmless
        lines = [
            f"{self.server}, model {self.model}, prompts by {self.way}",
            f"harmless texts: the server's prompt has {theirs} ids, the codec's {ours}",
        ]
        forged = [each for each in self.findings if each.outcome == "forged"]
        width = max((len(each.place) for each in forged), default=0)
        kinds = max((len(each.attack) for each in forged), default=0)
        lines += [
            f"{each.place:<{width}}  {each.attack:<{kinds}}  {each.message}" for each in forged
        ]
        lines += self._others()
        if forged:
            lines.append(f"forged: {len(forged)} of {len(self.findings)} texts become control")
        else:
            lines.append("no control token was forged")
        if not self.is_same:
            lines.append(
                "the prompts are not the codec's: the server has another template or other "
                "options, or `MODEL` is not the server's"
            )
        return "\n".join(lines) + "\n"

    def _others(self) -> Iterator[str]:
        """Count what was not forged, and name the places of what nothing can be said about."""
        outcomes: tuple[ServerOutcome, ...] = ("text", "refused", "unknown")
        for outcome in outcomes:
            places = [each.place for each in self.findings if each.outcome == outcome]
            named = "" if outcome == "text" else f": {', '.join(dict.fromkeys(places))}"
            if places:
                yield f"{_OUTCOMES[outcome]} {len(places)} of {len(self.findings)} texts{named}"

    def to_json(self) -> str:
        """Return the findings as a JSON object."""
        record = {**asdict(self), "kept": self.is_kept, "forged": self.forged}
        return json.dumps(record, ensure_ascii=False)


def audit_server(codec: Codec, server: str, attacks: Sequence[Attack] = ()) -> ServerAudit:
    """Try control tokens, and a caller's own attacks, on a server of the codec's model.

    `server` is the address before `/v1`. The variable `CHATCODEC_SERVER_KEY` is its key. Each
    attack is a request or two; where the server tells numbers of ids alone, a forged text is
    followed by a request for each of its control tokens. Raises `ChatCodecError` for a server that
    does not answer as OpenAI's API does.
    """
    tried = _Tried(codec, Server(server))
    (theirs, ours), is_same = tried.harmless()
    findings = [
        tried.finding(place, attack)
        for attack in (*spelled_attacks(codec), *attacks)
        for place in attack.places
    ]
    asked = tried.server
    return ServerAudit(asked.base, asked.model, asked.way, (theirs, ours), is_same, tuple(findings))


class _Tried:
    """A server, and the prompts of harmless texts that it gave."""

    def __init__(self, codec: Codec, server: Server) -> None:
        self.codec = codec
        self.server = server
        self._spelled: dict[int, str] = {}
        for token, id_ in codec.vocab.control.items():
            self._spelled.setdefault(id_, token)
        self._plain: dict[str, Prompt | None] = {}

    def harmless(self) -> tuple[tuple[int, int], bool]:
        """Compare the prompt of harmless texts with the codec's."""
        for roles in (_ROLES, _ROLES[1:], ("user",)):
            messages = [{"role": role, "content": "Good morning"} for role in roles]
            ours = self._ours((messages, None))
            if ours is not None:
                break
        theirs = self.server.prompt((messages, None))
        if ours is None or theirs is None:
            return (theirs.count if theirs else 0, len(ours or ())), False
        is_same = theirs.count == len(ours) if theirs.ids is None else list(theirs.ids) == ours
        return (theirs.count, len(ours)), is_same

    def finding(self, place: str, attack: Attack) -> ServerFinding:
        """Try an attack in a place."""
        outcome, forged = self._tried(place, attack)
        if outcome == "forged" and not forged:
            forged = tuple(self._alone(place, attack))
        return ServerFinding(place, attack.name, outcome, forged)

    def _tried(self, place: str, attack: Attack) -> tuple[ServerOutcome, tuple[str, ...]]:
        plain, made = _made(place, HARMLESS), _made(place, attack.given)
        if place not in self._plain:
            self._plain[place] = self.server.prompt(plain)
        before, after = self._plain[place], self.server.prompt(made)
        if before is None or after is None:
            return "refused", ()
        if before.ids is not None and after.ids is not None:
            gained = Counter(self._control(after.ids)) - Counter(self._control(before.ids))
            return ("forged" if gained else "text"), tuple(self._spelled[id_] for id_ in gained)
        ours_before, ours_after = self._ours(plain), self._ours(made)
        if ours_before is None or ours_after is None:
            return "unknown", ()
        missing = len(ours_after) - len(ours_before) - (after.count - before.count)
        return ("forged" if missing > 0 else "text"), ()

    def _alone(self, place: str, attack: Attack) -> Iterator[str]:
        """Name the control tokens of a text that are forged, where only numbers are told."""
        for alone in attack.alone():
            if self._tried(place, alone)[0] == "forged":
                yield from alone.tokens

    def _control(self, ids: tuple[int, ...]) -> list[int]:
        return [id_ for id_ in ids if id_ in self._spelled]

    def _ours(self, made: Made) -> list[int] | None:
        messages, tools = made
        try:
            return self.codec.encode(messages, tools=tools, add_generation_prompt=True).ids.tolist()
        except (MessageError, TemplateError, TypeError):
            return None


def _made(place: str, given: Any) -> Made:  # noqa: ANN401 (a text, or a list of parts)
    """Put a text into a place; a role with more text is one that begins as a known role."""
    if place != "role":
        return PLACES[place](given)
    return PLACES[place]("user" if given == HARMLESS else f"user{given}")
