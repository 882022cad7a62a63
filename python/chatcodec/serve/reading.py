"""A client's body as what the gateway works with: the request, its prompt, and what it asks for.

Reading keeps nothing, and asks nothing but the store of answered turns, if there is one. It may run
in any thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatcodec.adapters.openai_responses import REPEATED
from chatcodec.errors import MessageError, TemplateError
from chatcodec.serve.asked import Asked, read_asked
from chatcodec.serve.backends import BACKENDS
from chatcodec.serve.completions import read_completion
from chatcodec.serve.errors import ApiError
from chatcodec.serve.grammars import Wish, read_wish
from chatcodec.serve.ids import Ids
from chatcodec.serve.media import check_placeholders, read_media
from chatcodec.serve.memory import Histories, fingerprint, recall
from chatcodec.serve.policy import Policy
from chatcodec.serve.prompts import Prompt
from chatcodec.serve.shapes import check_shapes
from chatcodec.serve.sorting import Sorted, Sorter
from chatcodec.serve.told import Told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Codec, Constraint, Dropped, Encoding
    from chatcodec.adapters import Request
    from chatcodec.serve.apis import Api
    from chatcodec.serve.backends.base import Grammar
    from chatcodec.serve.memory import Finder, Recalled
    from chatcodec.serve.settings import Settings

__all__ = ["Read", "Reader"]


@dataclass(frozen=True)
class Read:
    """A request that was read."""

    request: Request
    asked: Asked
    prompt: Prompt
    grammar: Grammar | None
    told: Told
    recalled: Recalled | None = None
    """What is known of the history; None where nothing is kept."""


class Reader:
    """Reads requests for a codec, by the operator's settings."""

    def __init__(self, codec: Codec, settings: Settings, store: Finder | None = None) -> None:
        """Read the operator's policy. Raises `ValueError` for a setting that means nothing.

        `store` has the turns that were answered.
        """
        self.codec, self.settings, self.policy = codec, settings, Policy.of(settings)
        self.store = store
        self._histories = None if store is None else Histories(fingerprint(codec))
        self.ids = Ids(codec)
        self.sorter = Sorter(self.policy, BACKENDS[settings.engine].known())

    def read(self, api: Api, body: dict[str, Any], client: str = "", session: str = "") -> Read:
        """Read a body of a client and encode its prompt. Changes the body. Raises `ApiError`."""
        body["model"] = self.check_model(body.get("model"))
        repeated = {key: body[key] for key in REPEATED if body.get(key) is not None}
        sorted_ = self.sorter.sort(api.name, body)
        self.ids.check({**body, **sorted_.engine})
        if api.name == "completions":
            return self.completion(body, sorted_)
        is_free = self.settings.constrain == "off"
        try:
            dropped, request = self.request(api, body, constrained=not is_free)
            if "request" in request.adapter:
                request.adapter["request"] = repeated
            rest = dict(request.rest)
            wish = self.wish(rest, is_free=is_free)
            asked = read_asked(request, rest, sorted_, self.settings.max_choices, wish)
            encoding, recalled = self.recall(request, client, session)
            grammar = self.grammar(request, asked, encoding)
        except MessageError as error:
            raise told_error(error) from error
        left_out = (*sorted_.dropped, *dropped, *request.dropped, *encoding.dropped)
        told = Told.of(request.repaired, left_out, recalled)
        prompt = Prompt.of(encoding, with_text=self.settings.log_text)
        return Read(request, asked, prompt, grammar, told, recalled)

    def completion(self, body: dict[str, Any], sorted_: Sorted) -> Read:
        """Read a request for a text that goes on. Raises `ApiError`."""
        try:
            is_strict = self.settings.prompt_ids == "canonical"
            most = self.settings.max_choices
            read = read_completion(body, self.codec, sorted_, most, canonical=is_strict)
        except MessageError as error:
            raise told_error(error) from error
        wish, grammar = read.asked.wish, None
        if wish is not None and wish.raw is not None:
            grammar = BACKENDS[self.settings.engine].own_grammar(*wish.raw, wish.path)
        return Read(read.request, read.asked, read.prompt, grammar, Told.of((), sorted_.dropped))

    def check_model(self, model: object) -> str:
        """Give the model of a request: the first that is served where the request names none.

        Raises `ApiError` for one that is not served.
        """
        served = self.settings.served
        if model is None:
            return served[0]
        problem = f"`model` is {model!r:.80}, expected one of {list(served)}"
        if not isinstance(model, str):
            raise ApiError(400, problem, "model")
        if model not in served:
            raise ApiError(404, problem, "model", "model_not_found")
        return model

    def wish(self, rest: dict[str, Any], *, is_free: bool) -> Wish | None:
        """Take what the answer has to be. Raises `ApiError` where nothing would enforce it."""
        wish = read_wish(rest)
        if wish is not None and wish.response_format is not None and is_free:
            problem = f"`{wish.path}` cannot be enforced: the gateway has `--constrain off`"
            raise ApiError(400, problem, wish.path)
        return wish

    def grammar(self, request: Request, asked: Asked, prompt: Encoding) -> Grammar | None:
        """Write what the engine has to follow, if anything. Raises `ApiError`, `MessageError`."""
        backend, wish = BACKENDS[self.settings.engine], asked.wish
        if wish is not None and wish.raw is not None:
            return backend.own_grammar(*wish.raw, wish.path)
        if not asked.is_constrained or self.settings.constrain == "off":
            return None
        constraint = self.constraint(request, prompt, wish)
        return backend.grammar(constraint, lark=self.settings.constrain == "lark")

    @staticmethod
    def constraint(request: Request, prompt: Encoding, wish: Wish | None) -> Constraint:
        """Make the grammar of an answer. Raises `MessageError` with the client's field."""
        given = wish and wish.response_format
        try:
            return request.constrain(prompt, response_format=given)
        except MessageError as error:
            own = "response_format"
            if wish is None or not error.path.startswith(own):
                raise
            path = wish.path + error.path.removeprefix(own)
            raise MessageError(str(error).replace(error.path, path, 1), path) from error

    def prompt(self, api: Api, body: dict[str, Any]) -> Encoding:
        """Encode the prompt of a body that asks for no answer. Raises `ApiError`."""
        self.sorter.sort(api.name, body)
        try:
            return self.encode(self.request(api, body, constrained=True)[1])
        except MessageError as error:
            raise told_error(error) from error

    def request(
        self, api: Api, body: dict[str, Any], *, constrained: bool
    ) -> tuple[list[Dropped], Request]:
        """Read a body; give what was left out of it beside what the request lists."""
        check_shapes(body)
        dropped = read_media(body, self.policy)
        policy = self.policy.on_unsupported
        request = api.read_request(body, self.codec, on_unsupported=policy, constrained=constrained)
        return dropped, request

    def encode(self, request: Request) -> Encoding:
        """Encode a prompt. Raises `MessageError` and `ApiError`."""
        with template_errors():
            prompt = request.encode()
        check_placeholders(prompt, self.policy)
        return prompt

    def recall(
        self, request: Request, client: str, session: str
    ) -> tuple[Encoding, Recalled | None]:
        """Encode a prompt, with the ids of what was answered. Raises as `encode` does."""
        if self.store is None or self._histories is None:
            return self.encode(request), None
        with template_errors():
            prompt, recalled = recall(request, self.store, self._histories, client, session)
        check_placeholders(prompt, self.policy)
        return prompt, recalled


@contextmanager
def template_errors() -> Iterator[None]:
    """Raise `ApiError` for messages that the model's template cannot write."""
    try:
        yield
    except TemplateError as error:
        # The template was tried when it was loaded: these messages are what it cannot write.
        problem = f"the model's chat template cannot write the messages: {error}"
        raise ApiError(400, problem, "messages") from error


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
