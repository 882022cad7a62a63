"""Whether a running server keeps a caller's text from being control, tried out over HTTP.

Each text of a conversation is filled with the spellings of control tokens. The server is asked for
an answer of one token, and the length of its prompt is compared with the codec's: a spelling that
became a control token makes the prompt shorter.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.errors import ChatCodecError, MessageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec

__all__ = ["ServerAudit", "audit_server"]

_MOST_TOKENS = 64
_TIMEOUT = 120
"""Seconds for an answer of one token; a server may load its model first."""
_HARMLESS = "Good morning"
_ROLES = ("system", "user", "assistant", "user")


@dataclass(frozen=True, slots=True)
class ServerAudit:
    """The lengths of a server's prompts, beside the codec's, in ids."""

    tokens: tuple[str, ...]
    """The control tokens whose spellings were put into each text."""
    harmless: tuple[int, int]
    """The server's prompt of harmless texts, and the codec's."""
    hostile: tuple[int, int]
    """The server's prompt of spellings, and the codec's."""
    forged: tuple[str, ...]
    """The tokens that the server takes for control."""

    @property
    def is_kept(self) -> bool:
        """Whether both prompts are as long as the codec's."""
        return self.harmless[0] == self.harmless[1] and self.hostile[0] == self.hostile[1]

    def table(self) -> str:
        """Return the findings as lines of text."""
        lines = [
            f"{what}: the server's prompt has {theirs} ids, the codec's {ours}"
            for what, (theirs, ours) in (
                ("harmless texts", self.harmless),
                (f"{len(self.tokens)} control tokens in each text", self.hostile),
            )
        ]
        if self.forged:
            lines.append(f"forged: {' '.join(self.forged)}")
        elif self.is_kept:
            lines.append("no control token was forged")
        else:
            lines.append(
                "the prompts are not the codec's: the server has another template or other "
                "options, or `MODEL` is not the server's"
            )
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        """Return the findings as a JSON object."""
        return json.dumps(
            {
                "kept": self.is_kept,
                "tokens": self.tokens,
                "harmless": self.harmless,
                "hostile": self.hostile,
                "forged": self.forged,
            },
            ensure_ascii=False,
        )


def audit_server(codec: Codec, server: str) -> ServerAudit:
    """Try the control tokens of a codec on a server of its model.

    `server` is the address before `/v1`. The variable `CHATCODEC_SERVER_KEY` is its key. Raises
    `ChatCodecError` for a server that does not answer as OpenAI's API does.
    """
    asked = _Server(server)
    tokens = _tokens(codec)
    roles = _roles(codec)
    harmless = asked.both(codec, roles, _HARMLESS)
    hostile = asked.both(codec, roles, _spelled(tokens))
    forged: tuple[str, ...] = ()
    if harmless[0] == harmless[1] and hostile[0] != hostile[1]:
        each = {token: asked.both(codec, ("user",), _spelled([token])) for token in tokens}
        forged = tuple(token for token, (theirs, ours) in each.items() if theirs < ours)
    return ServerAudit(tuple(tokens), harmless, hostile, forged)


def _tokens(codec: Codec) -> list[str]:
    """Return control tokens: first those of the format's own prompts, then others."""
    spelled: dict[int, list[str]] = {}
    for token, id_ in codec.vocab.control.items():
        spelled.setdefault(id_, []).append(token)
    messages = [{"role": role, "content": _HARMLESS} for role in _roles(codec)]
    written = codec.encode(messages, add_generation_prompt=True).ids.tolist()
    ids = dict.fromkeys([*written, *codec.stop_ids, *spelled])
    return [token for id_ in ids for token in spelled.get(id_, ())][:_MOST_TOKENS]


def _roles(codec: Codec) -> tuple[str, ...]:
    """Return the roles of a conversation that the format can write."""
    for roles in (_ROLES, _ROLES[1:]):
        try:
            codec.encode([{"role": role, "content": _HARMLESS} for role in roles])
        except MessageError:
            continue
        return roles
    return ("user",)


def _spelled(tokens: Sequence[str]) -> str:
    return "".join(f"{token} and " for token in tokens) + "no more"


class _Server:
    """A server of OpenAI's chat completions."""

    def __init__(self, address: str) -> None:
        self._base = address.rstrip("/").removesuffix("/v1")
        if not self._base.startswith(("http://", "https://")):
            raise ChatCodecError(f"`--server` is `{address}`; expected an address of http or https")
        self._model = self._first_model()

    def both(self, codec: Codec, roles: Sequence[str], text: str) -> tuple[int, int]:
        """Return the lengths of the server's prompt and the codec's."""
        messages = [{"role": role, "content": text} for role in roles]
        ours = len(codec.encode(messages, add_generation_prompt=True).ids)
        body = {"model": self._model, "messages": messages, "max_tokens": 1}
        answer = self._ask("/v1/chat/completions", body)
        try:
            return int(answer["usage"]["prompt_tokens"]), ours
        except (KeyError, TypeError, ValueError) as error:
            raise ChatCodecError(
                f"{self._base}: the answer has no `usage.prompt_tokens`"
            ) from error

    def _first_model(self) -> str:
        try:
            return str(self._ask("/v1/models")["data"][0]["id"])
        except (KeyError, IndexError, TypeError) as error:
            raise ChatCodecError(f"{self._base}: `/v1/models` names no model") from error

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("CHATCODEC_SERVER_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(500).decode(errors="replace")
            raise ChatCodecError(f"{self._base}{path}: status {error.code}: {said}") from error
        except (OSError, ValueError) as error:
            raise ChatCodecError(f"{self._base}{path}: {error}") from error
