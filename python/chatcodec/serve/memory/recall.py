"""From a client's history to a prompt that begins with the ids that the model saw and sampled.

The longest part of the history that ends with a known answer is written by its ids, and only what
follows is encoded: `Codec.adopt` and `Codec.extend`. Where no answer is known, the whole history is
encoded. Cost: a hash of the history, a look-up, and the encoding of what is new.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatcodec.adapters._history import with_objects
from chatcodec.errors import MessageError, TemplateError
from chatcodec.serve.log import LOG
from chatcodec.serve.memory.histories import Scope
from chatcodec.serve.memory.said import Said, call_id_of, hash_of
from chatcodec.serve.memory.turns import ids_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatcodec import Encoding
    from chatcodec.adapters import Request
    from chatcodec.serve.memory.histories import Histories
    from chatcodec.serve.memory.said import History
    from chatcodec.serve.memory.store import Finder
    from chatcodec.serve.memory.turns import Path

__all__ = ["Recalled", "recall"]

_TRIES = 4
"""Known parts of one history that are tried, the longest first."""

_NUMBER = re.compile(r"call_\d+")
"""The id of a call for which a model wrote none."""

_ENDS = ("add_generation_prompt", "continue_final")
"""Options of a request that say nothing of what a prompt begins with."""


@dataclass(frozen=True)
class Recalled:
    """What is known of one request's history, and what its answer is kept with."""

    base: bytes
    """The hash of the history before the answer."""
    client: str
    """The name of the client's key."""
    session: str
    """The session that the client names; empty for none."""
    message: int
    """The index of the answer among the client's messages."""
    number: int
    """Number of answers before it."""
    said: str | None = None
    """The text of the answer so far, where the request goes on with one; None otherwise."""
    reasoning: str = ""
    """The reasoning of the answer so far."""
    before: bytes = b""
    """The id of the last known turn; empty for none."""
    root: bytes = b""
    """The id of the first turn of its conversation; empty for none."""
    ids: int = 0
    """Ids of the prompt that were seen or sampled before."""
    known: int = 0
    """Answers of the history whose ids were sampled, and are sent again unchanged."""
    unknown: int = 0
    """Answers of the history that were encoded."""
    others: bytes = b""
    """The hash of the answers after the last known turn."""
    notes: tuple[tuple[str, str], ...] = ()
    """What the model's template would write otherwise, as kinds and texts."""
    failed: bool = False
    """Whether the store could not be asked."""
    kinds: Counter[str] = field(default_factory=Counter)
    """How many notes there are of each kind."""


def recall(
    request: Request, store: Finder, histories: Histories, client: str, session: str
) -> tuple[Encoding, Recalled]:
    """Encode the prompt of a request, as far as it is known by its ids.

    `client`, `session` and the codec part histories. Raises what `Request.encode` raises.
    """
    options = {key: each for key, each in request.options.items() if key not in _ENDS}
    scope = Scope(client, session, histories.codec, request.tools, options)
    return _Recall(request, store, scope, histories.read(scope, request.messages)).prompt()


class _Recall:
    """One request whose history is looked up."""

    def __init__(self, request: Request, store: Finder, scope: Scope, history: History) -> None:
        self.request, self.store, self.history = request, store, history
        self.client, self.session = scope.client, scope.session
        self.answers = self.history.answers
        self.continues = bool(request.options.get("continue_final")) and bool(self.answers)
        self.failed = False
        self.ids = 0
        """Ids of the known turns that the prompt begins with."""

    def prompt(self) -> tuple[Encoding, Recalled]:
        tried = 0
        keys = [each.key for each in reversed(self.answers)]
        while keys and tried < _TRIES:
            at, paths = self.found(keys)
            if not paths:
                break
            answer = self.answers[len(keys) - 1 - at]
            for path in self.fitting(paths, answer)[:1]:
                tried += 1
                if (prompt := self.written(path, answer)) is not None:
                    return prompt, self.recalled(prompt, path)
            keys = keys[at + 1 :]
        return self.request.encode(), self.recalled(None, ())

    def found(self, keys: list[bytes]) -> tuple[int, list[Path]]:
        """Look keys up; a store that fails knows none."""
        try:
            return self.store.find(keys)
        except OSError as error:
            self.failed = True
            LOG.error("memory", extra={"fields": {"find": str(error)}})
            return len(keys), []

    def fitting(self, paths: list[Path], answer: Said) -> list[Path]:
        """Give the paths that the history agrees with; those with the ids of its calls first."""
        own = [_suffix(call.id) for call in answer.calls]

        def is_other(path: Path) -> bool:
            return own != [_suffix(id_) for id_, _ in path[-1].calls]

        return sorted(filter(self.fits, paths), key=is_other)

    def fits(self, path: Path) -> bool:
        """Whether the history says nothing else than the turns of a path."""
        at = 0
        for nth, turn in enumerate(path):
            if turn.number >= len(self.answers):
                return False
            if (at != turn.number or turn.others) and (
                turn.others != _hash_of(self.answers[at : turn.number])
            ):
                return False
            goes_on = nth + 1 < len(path) and path[nth + 1].opened is not None
            own = self.answers[turn.number].reasoning
            if not goes_on and own and own != turn.reasoning.strip():
                return False
            at = turn.number + (not goes_on)
        return True

    def written(self, path: Path, answer: Said) -> Encoding | None:
        """Write what follows a known answer after its ids; None where that is not possible."""
        request, turn = self.request, path[-1]
        codec = request.codec
        prompt_ids, sampled = ids_of(path)
        new = request.messages[answer.end :]
        if not new and self.continues and sampled and sampled[-1] in codec.stop_ids:
            return None  # the turn has ended, and what goes on would come after its end
        options: dict[str, Any] = {**request.options, "on_unsupported": "drop", "unknown": "ignore"}
        messages = self.reasoned(path, answer.start)
        options |= {"add_generation_prompt": True, "continue_final": False}
        if turn.opened is not None:
            begun = {**request.messages[answer.start], "content": answer.text[: turn.opened]}
            messages = [*messages, begun]
            options |= {"add_generation_prompt": False, "continue_final": True}

        def write(messages: Sequence[Any], own: dict[str, str]) -> Encoding:
            messages, tools = _renamed(messages, own), request.tools or None
            prompt = codec.adopt(prompt_ids, messages, tools=tools, **options)
            return request.extend(prompt, sampled, _renamed(new, own))

        self.ids = len(prompt_ids) + len(sampled)
        own = self.own_ids(path)
        with suppress(MessageError, TemplateError):
            return write(messages, own)
        # A template may refuse calls that were cut: their numbers, which no model wrote, and texts
        # as their arguments. Whatever it is, a new encoding of the whole history does without.
        with suppress(MessageError, TemplateError):
            written = {told: id_ for told, id_ in own.items() if not _NUMBER.fullmatch(id_)}
            return write(with_objects(messages), written)
        self.ids = 0
        return None

    def own_ids(self, path: Path) -> dict[str, str]:
        """Give the ids that the model's format has for calls, by those that the client has."""
        pairs = (
            (call.id, own)
            for turn in path
            if turn.calls
            for call, (_, own) in zip(self.answers[turn.number].calls, turn.calls, strict=False)
        )
        return {told: own for told, own in pairs if own and own != told}

    def reasoned(self, path: Path, end: int) -> list[Any]:
        """Give the messages up to one, with what a client did not send back of known answers."""
        messages = list(self.request.messages[:end])
        for turn in path[:-1]:
            said = self.answers[turn.number]
            if said.end == said.start + 1 and said.end <= end:
                message = messages[said.start]
                if turn.reasoning or message.get("content") is None:
                    messages[said.start] = _whole(message, said, turn.reasoning)
        return messages

    def recalled(self, prompt: Encoding | None, path: Path) -> Recalled:
        """Say what is known, and what the answer is kept with."""
        count = len(self.answers)
        last = path[-1] if path else None
        reached = 0 if last is None else last.number + 1
        numbers = {turn.number for turn in path}
        open_ = self.answers[-1] if self.continues else None
        notes = () if last is None or prompt is None else _notes(path, prompt)
        end = count - (open_ is not None)
        return Recalled(
            base=self.history.base if open_ is None else open_.base,
            client=self.client,
            session=self.session,
            message=len(self.request.messages) if open_ is None else open_.start,
            number=end,
            said=None if open_ is None else open_.text,
            reasoning=_reasoning(path, open_),
            before=b"" if last is None else last.id,
            root=b"" if last is None else last.root,
            ids=self.ids,
            known=len(numbers),
            unknown=count - len(numbers),
            others=_hash_of(self.answers[reached:end]),
            notes=notes,
            failed=self.failed,
            kinds=Counter(kind for kind, _ in notes),
        )


def _whole(message: Any, said: Said, reasoning: str) -> Any:  # noqa: ANN401
    """Give an answer's message with its reasoning, and with a text in place of null."""
    known: dict[str, Any] = {"reasoning_content": reasoning} if not said.reasoning else {}
    known |= {"content": said.text} if message.get("content") is None else {}
    return {**message, **{key: text for key, text in known.items() if text or key == "content"}}


def _reasoning(path: Path, open_: Said | None) -> str:
    """Give the reasoning of the answer that a request goes on with."""
    if open_ is None:
        return ""
    return open_.reasoning or (path[-1].reasoning if path else "")


def _notes(path: Path, prompt: Encoding) -> tuple[tuple[str, str], ...]:
    last = path[-1]
    new = [(note.kind, note.text) for note in prompt.notes]
    new += [("text", f"the id `{id_}` is that of an earlier call") for id_ in _repeated(path)]
    return (*last.notes, *(note for note in new if note not in last.notes))


def _repeated(path: Path) -> list[str]:
    """Give the ids of the last calls that a model wrote before; a format may number calls."""
    own = [id_ for _, id_ in path[-1].calls if id_ and not _NUMBER.fullmatch(id_)]
    earlier = {id_ for turn in path[:-1] for _, id_ in turn.calls} if own else set()
    return [id_ for id_ in own if id_ in earlier]


def _hash_of(answers: Sequence[Said]) -> bytes:
    """Hash answers that are no known turns: with their white space, and their reasoning."""
    words = [word for each in answers for word in (each.text, each.reasoning)]
    return hash_of(*words) if words else b""


def _suffix(id_: str) -> str:
    """Give the part of a call's id that all APIs have."""
    return id_.partition("_")[2]


def _renamed(messages: Sequence[Any], own: Mapping[str, str]) -> list[Any]:
    """Give messages with calls, and results of calls, as the model's format names them."""
    return [_with_id(message, own) for message in messages] if own else list(messages)


def _with_own(call: Any, own: Mapping[str, str]) -> Any:  # noqa: ANN401
    id_ = call.get("id") if isinstance(call, dict) else None
    return {**call, "id": own[id_]} if isinstance(id_, str) and id_ in own else call


def _with_id(holder: Any, own: Mapping[str, str]) -> Any:  # noqa: ANN401
    if not isinstance(holder, dict):
        return holder
    id_ = call_id_of(holder)
    if id_ is not None and id_ in own:
        keys = ("tool_call_id", "tool_use_id", "call_id")
        return holder | {key: own[id_] for key in keys if holder.get(key) == id_}
    if holder.get("type") == "tool_use" and isinstance(id_ := holder.get("id"), str):
        return {**holder, "id": own.get(id_, id_)}
    if isinstance(calls := holder.get("tool_calls"), list):
        return {**holder, "tool_calls": [_with_own(call, own) for call in calls]}
    if isinstance(content := holder.get("content"), list):
        return {**holder, "content": [_with_id(part, own) for part in content]}
    return holder
