"""A client's body as what the gateway works with: the request, its prompt, and what it asks for.

Reading does no input or output and keeps nothing, so it may run in any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError
from chatcodec.serve.backends import BACKENDS
from chatcodec.serve.errors import ApiError
from chatcodec.serve.media import check_placeholders, read_media
from chatcodec.serve.policy import Policy
from chatcodec.serve.told import Told

if TYPE_CHECKING:
    from chatcodec import Codec, Dropped, Encoding
    from chatcodec.adapters import Request
    from chatcodec.serve.apis import Api, Asked
    from chatcodec.serve.backends.base import Grammar
    from chatcodec.serve.settings import Settings

__all__ = ["Read", "Reader"]


@dataclass(frozen=True)
class Read:
    """A request that was read."""

    request: Request
    asked: Asked
    prompt: Encoding
    grammar: Grammar | None
    told: Told


class Reader:
    """Reads requests for a codec, by the operator's settings."""

    def __init__(self, codec: Codec, settings: Settings) -> None:
        """Read the operator's policy. Raises `ValueError` for a setting that means nothing."""
        self.codec, self.settings, self.policy = codec, settings, Policy.of(settings)

    def read(self, api: Api, body: dict[str, Any]) -> Read:
        """Read a body and encode its prompt. Changes the body. Raises `ApiError`."""
        settings = self.settings
        try:
            dropped, request = self.request(api, body, constrained=settings.constrain != "off")
            asked = api.asked(request, settings.max_choices)
            prompt = self.encode(request)
            grammar = None
            if asked.is_constrained and settings.constrain != "off":
                constraint = request.constrain(prompt)
                lark = settings.constrain == "lark"
                grammar = BACKENDS[settings.engine].grammar(constraint, lark=lark)
        except MessageError as error:
            raise told_error(error) from error
        if request.limit is not None and request.limit < 1:
            raise ApiError(400, f"the limit is {request.limit}, expected 1 or more", "max_tokens")
        left_out = (*dropped, *request.dropped, *prompt.dropped)
        return Read(request, asked, prompt, grammar, Told.of(request.repaired, left_out))

    def prompt(self, api: Api, body: dict[str, Any]) -> Encoding:
        """Encode the prompt of a body that asks for no answer. Raises `ApiError`."""
        try:
            return self.encode(self.request(api, body, constrained=True)[1])
        except MessageError as error:
            raise told_error(error) from error

    def request(
        self, api: Api, body: dict[str, Any], *, constrained: bool
    ) -> tuple[list[Dropped], Request]:
        """Read a body; give what was left out of it beside what the request lists."""
        dropped = read_media(body, self.policy)
        policy = self.policy.on_unsupported
        request = api.read_request(body, self.codec, on_unsupported=policy, constrained=constrained)
        return dropped, request

    def encode(self, request: Request) -> Encoding:
        """Encode a prompt. Raises `MessageError` and `ApiError`."""
        prompt = request.encode()
        check_placeholders(prompt, self.policy)
        return prompt


_ADVICE = {
    '`on_unsupported="drop"` leaves it out': "the operator's `--on-unsupported` may leave it out",
    '`unknown="ignore"` leaves it out': "the operator's `--unknown-fields` may leave it out",
}
"""Advice for programs that use the codec, as clients of a server can use it."""


def told_error(error: MessageError) -> ApiError:
    """Make the error of a request that cannot be read."""
    message = str(error)
    for advice, told in _ADVICE.items():
        message = message.replace(advice, told)
    return ApiError(400, message, error.path)
