"""A client's request, read for a codec: arguments of `encode`, of a stream and of an adapter.

What shapes the prompt, and what says how the response is told, is read here, with the meaning that
vLLM and SGLang give it. Everything else of the body is for the engine: `Request.rest`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from chatcodec import Dropped
from chatcodec.adapters._custom import as_functions, custom_names
from chatcodec.adapters._drops import Drops
from chatcodec.adapters._history import broken, with_objects
from chatcodec.adapters._plain import body_of
from chatcodec.adapters._tools import allowed_tools, is_strict, read_choice, read_tools
from chatcodec.errors import MessageError, TemplateError
from chatcodec.options import PROMPT_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from chatcodec import Codec, Constraint, Encoding, Stream
    from chatcodec.adapters._drops import OnParts
    from chatcodec.options import EncodeOptions, FormatOptions, StreamOptions

ASKED: list[dict[str, Any]] = [{"role": "user", "content": "?"}]
"""The shortest conversation before a generation prompt."""

ROLES = {"system", "developer", "user", "assistant", "tool", "function"}

ARGUMENTS = (".arguments", ".input")
"""The ends of the paths of a call's arguments."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request's body, read for a codec; returned by `read_request` of each adapter's module.

    Other values of the same options may be given to `encode` and `stream`.
    """

    codec: Codec
    """The codec that it was read for."""
    messages: list[dict[str, Any]]
    """The messages, the system text of other fields as the first."""
    tools: list[dict[str, Any]]
    """The tools that the prompt declares: those that `tool_choice` allows."""
    options: EncodeOptions
    """Arguments of `encode` beside messages and tools: `thinking`, `effort`, `continue_final` …"""
    adapter: dict[str, Any]
    """Arguments of the adapter: `model`, `tool_choice`, `parallel_tool_calls` …"""
    stop: list[str]
    """The stop strings."""
    limit: int | None
    """Maximum number of ids to generate."""
    dropped: tuple[Dropped, ...]
    """The parts of the body that were left out; `Encoding.dropped` lists those of the messages."""
    rest: dict[str, Any]
    """The other fields, unchanged: sampling and further options for the engine."""
    strict: bool = False
    """Whether a tool asks that its arguments follow its schema, for an engine that can."""
    places: tuple[str, ...] = field(repr=False)
    """The client's path of each message: `system`, `messages[0]`, `input[3]` …"""
    drops: Drops = field(repr=False, default_factory=lambda: Drops("error"))
    """The kinds of parts that `encode` leaves out where the format cannot write them."""

    def encode(self, **options: Unpack[EncodeOptions]) -> Encoding:
        """Encode the prompt: `codec.encode` of the messages, tools and options.

        Raises what `Codec.encode` raises, with the client's names for what is wrong.
        """
        given: EncodeOptions = {"tools": self.tools or None, **self.options, **options}
        try:
            return self._with_policy(self.codec.encode, self.messages, given)
        except MessageError as error:
            raise self._told(error) from error

    def extend(
        self, prompt: Encoding, completion: Sequence[int], messages: Sequence[Any]
    ) -> Encoding:
        """Encode messages after a completion of a prompt, with the request's options.

        Raises what `Codec.extend` raises, with its names for what is wrong.
        """

        def write(messages: Sequence[Any], **given: Any) -> Encoding:  # noqa: ANN401
            return self.codec.extend(prompt, completion, messages, **given)

        given = {key: value for key, value in self.options.items() if key not in PROMPT_OPTIONS}
        return self._with_policy(write, messages, cast("EncodeOptions", given))

    def _with_policy(
        self, write: Callable[..., Encoding], messages: Sequence[Any], given: EncodeOptions
    ) -> Encoding:
        """Encode messages, without the parts that may be left out if it has to be."""
        try:
            return self._written(write, messages, given)
        except MessageError as error:
            if not self.drops.kinds:
                raise
            return self._without(write, messages, given, error)

    @staticmethod
    def _written(
        write: Callable[..., Encoding], messages: Sequence[Any], given: EncodeOptions
    ) -> Encoding:
        """Encode the messages, calls that a limit has cut among them."""
        try:
            return write(messages, **given)
        except MessageError as error:
            if given.get("on_arguments") != "string" or not error.path.endswith(ARGUMENTS):
                raise
        except TemplateError:
            if given.get("on_arguments") != "string" or not broken(messages, ()):
                raise
        # A format that writes the members of objects has no place for a text.
        return write(with_objects(messages), **given)

    def _without(
        self,
        write: Callable[..., Encoding],
        messages: Sequence[Any],
        given: EncodeOptions,
        error: MessageError,
    ) -> Encoding:
        """Encode without the parts that may be left out. Raises the error where others cannot."""
        lenient: EncodeOptions = {**given, "on_unsupported": "drop", "unknown": "ignore"}
        prompt = self._written(write, messages, lenient)
        refused = self.drops.refused(prompt.dropped)
        if refused is None:
            return prompt
        if not refused.path or error.path.startswith(refused.path):
            raise error
        path, kind = refused.path, refused.what
        raise MessageError(f"`{path}` cannot be written, and `{kind}` is not left out here", path)

    @property
    def repaired(self) -> tuple[str, ...]:
        """The client's paths of arguments that are no JSON: calls that a limit has cut."""
        return broken(self.messages, self.places)

    def stream(self, prompt: Encoding, **options: Unpack[StreamOptions]) -> Stream:
        """Begin the stream of a completion of the prompt: `codec.stream` with the tools."""
        given: StreamOptions = {"tools": self.tools or None, **options}
        return self.codec.stream(prompt, **given)

    def constrain(self, prompt: Encoding, **options: Any) -> Constraint:  # noqa: ANN401
        """Return the constraint on the completion: `codec.constrain` with the request's options.

        Its tools, `tool_choice`, `parallel_tool_calls` and `response_format` are taken from the
        request. Read a request that asks for a call with `constrained=True`.
        """
        text = self.rest.get("text")
        given: dict[str, Any] = {
            "tools": self.tools or None,
            "tool_choice": self.adapter.get("tool_choice", "auto"),
            "parallel": self.adapter.get("parallel_tool_calls", True),
            "response_format": self.rest.get("response_format")
            or (text.get("format") if isinstance(text, dict) else None),
            "prompt": prompt,
        }
        return self.codec.constrain(**{**given, **options})

    def _told(self, error: MessageError) -> MessageError:
        """Return an error with the client's names."""
        path = error.path
        if path == "add_generation_prompt":
            return MessageError(
                "`messages` ends with what no answer can follow in this format; end with a user's "
                "message, or continue the last with `continue_final_message`",
                "messages",
            )
        found = re.match(r"messages\[(\d+)\]", path)
        if found is None or int(found[1]) >= len(self.places):
            return error
        own = self.places[int(found[1])]
        # The name of a field for a single text has no `content` after it.
        rest = path[found.end() :] if "[" in own else path[found.end() :].removeprefix(".content")
        told = own + rest
        return MessageError(str(error).replace(path, told, 1), told)


def readable(text: str) -> str:
    """Return a text with escapes for lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace").decode()


class Body:
    """The fields of a body, each read once, and the results."""

    def __init__(
        self, body: object, codec: Codec, on_unsupported: OnParts, *, constrained: bool
    ) -> None:
        """Take a body as a client sends it."""
        self.drops = Drops(on_unsupported)
        self.fields = body_of(body)
        self.codec = codec
        self.constrained = constrained
        self.dropped: list[Dropped] = []
        # A client sends its history back, calls among it that a limit has cut.
        self.options: EncodeOptions = {
            "on_unsupported": self.drops.on_unsupported,
            "on_arguments": "string",
            "unknown": self.drops.unknown,
        }
        self.adapter: dict[str, Any] = {"model": self.take("model", str) or ""}
        self.tools: list[dict[str, Any]] = []
        self.strict = False

    def take(self, key: str, kind: type | tuple[type, ...]) -> Any:  # noqa: ANN401
        """Take a field of a given type; None if it is absent."""
        value = self.fields.pop(key, None)
        return self.check(value, key, kind)

    def check(self, value: Any, path: str, kind: type | tuple[type, ...]) -> Any:  # noqa: ANN401
        """Return a value of a given type, or None."""
        kinds = kind if isinstance(kind, tuple) else (kind,)
        is_flag = isinstance(value, bool) and bool not in kinds
        if value is not None and (is_flag or not isinstance(value, kinds)):
            names = " or ".join(f"`{each.__name__}`" for each in kinds)
            found = type(value).__name__
            raise MessageError(f"`{path}` is `{found}`, expected {names}", path)
        return value

    def unsupported(self, path: str, what: str, problem: str, *others: str) -> None:
        """Refuse a part that cannot be written, or leave it out if the caller allows it.

        `what` and `others` are names of its kind.
        """
        if not self.drops.has(what, *others):
            advice = '`on_unsupported="drop"` leaves it out'
            raise MessageError(f"`{path}` {problem}; {advice}", path)
        kind = next((each for each in others if each in self.drops.kinds), what)
        self.dropped.append(Dropped(path, kind))

    def refuse(self, fields: Mapping[str, str]) -> None:
        """Refuse fields that change the prompt, each with what to do instead."""
        for key in fields.keys() & self.fields.keys():
            if self.fields.pop(key) not in ({}, [], ""):
                self.unsupported(key, key, f"is not read here, {fields[key]}")

    # The fields.

    def read_tools(self, tools: object, tools_path: str, choice: object, choice_path: str) -> None:
        """Read the tools, and which of them may, or must, be called."""
        read = [] if tools is None else read_tools(tools, tools_path, self.unsupported)
        chosen = read_choice(choice, choice_path, self.unsupported)
        parallel = self.take("parallel_tool_calls", bool)
        self.tools = allowed_tools(read, chosen, choice_path)
        self.strict = bool(self.tools) and is_strict(tools)
        if custom := custom_names(tools):
            self.adapter["custom"] = custom
        self.adapter["tool_choice"] = chosen.option
        self.adapter["parallel_tool_calls"] = chosen.parallel and parallel is not False
        if chosen.mode == "required" and not self.constrained:
            problem = (
                "asks for a call, which no prompt can ensure: let the engine constrain what it "
                "generates and say so with `constrained=True`"
            )
            self.unsupported(choice_path, "tool_choice", problem)
            self.adapter["tool_choice"] = "auto"

    def read_template_arguments(self) -> None:
        """Read `chat_template_kwargs`: the format's options by the names of its template."""
        given = self.take("chat_template_kwargs", dict) or {}
        for key, value in given.items():
            path = readable(f"chat_template_kwargs.{key}")
            match key:
                case _ if value is None:
                    pass
                case "enable_thinking" | "thinking":
                    self.think(self.check(value, path, bool), path)
                case "reasoning_effort" | "effort":
                    self.exert(self.check(value, path, str), path)
                case "add_generation_prompt" | "continue_final_message":
                    self.fields.setdefault(key, value)
                case "date" if key in self.codec.format.options:
                    self.set_option("date", value, path)
                case _:
                    known = "`enable_thinking`, `reasoning_effort`"
                    name = self.codec.format.name
                    problem = f"is no option of format `{name}`, expected one of {known}"
                    self.unsupported(path, "option", problem)

    def think(self, value: bool | None, path: str) -> None:  # noqa: FBT001
        """Record whether the model shall reason; the first setting counts."""
        if value is None or "thinking" in self.options:
            return
        if "thinking" in self.codec.format.options:
            self.set_option("thinking", value, path)
        elif value:
            name = self.codec.format.name
            self.unsupported(path, "thinking", f"asks for reasoning, which `{name}` has none of")

    def exert(self, value: str | None, path: str) -> None:
        """Record the reasoning effort.

        Where the format says only whether, any effort but `"none"` is a yes.
        """
        options = self.codec.format.options
        if value is None or "effort" in self.options:
            return
        if value != readable(value):
            raise MessageError(f"`{path}` holds a lone surrogate, expected text", path)
        if "effort" in options:
            self.set_option("effort", value, path)
        elif "thinking" in options:
            self.think(value != "none", path)
            if value != "none":
                self.dropped.append(Dropped(path, value))
        elif value != "none":
            name = self.codec.format.name
            self.unsupported(path, "effort", f"asks for reasoning, which `{name}` has none of")

    def set_option(
        self,
        option: Literal["thinking", "date", "effort"],
        value: Any,  # noqa: ANN401
        path: str,
    ) -> None:
        """Set one of the format's options, if it takes the value."""
        try:
            alone: FormatOptions = {option: value}  # type: ignore[misc]
            self.codec.count(ASKED, **alone)
        except MessageError as error:
            self.unsupported(path, option, str(error).removeprefix(f"`{option}` "))
        except TypeError as error:
            raise MessageError(f"`{path}`: {error}", path) from error
        else:
            self.options[option] = value

    def read_end(self) -> None:
        """Read how the prompt ends: with an open answer, or, unless told otherwise, a new one."""
        continues = self.take("continue_final_message", bool)
        prompts = self.take("add_generation_prompt", bool)
        if continues and prompts:
            path = "add_generation_prompt"
            problem = "is on beside `continue_final_message`, expected one of them"
            raise MessageError(f"`{path}` {problem}", path)
        if continues:
            self.options["continue_final"] = True
        else:
            self.options["add_generation_prompt"] = prompts is not False

    def read_stop(self, key: str) -> list[str]:
        """Read stop strings: one, or several."""
        given = self.take(key, (str, list)) or []
        strings = [given] if isinstance(given, str) else given
        for at, each in enumerate(strings):
            if not isinstance(each, str) or not each:
                path = f"{key}[{at}]"
                raise MessageError(f"`{path}` is {each!r:.80}, expected a text", path)
        return strings

    def read_limit(self, *keys: str) -> int | None:
        """Read the limit: the first of its names that is present."""
        given = [self.take(key, int) for key in keys]
        return next((limit for limit in given if limit is not None), None)

    def with_known_roles(
        self, messages: list[Any], places: list[str]
    ) -> tuple[list[Any], list[str]]:
        """Leave out messages of roles that nobody knows, if the caller allows it."""
        if not self.drops.has("role"):
            return messages, places
        kept = []
        for message, place in zip(messages, places, strict=True):
            role = message.get("role") if isinstance(message, dict) else None
            if isinstance(role, str) and role not in ROLES and not self.is_role(role):
                self.dropped.append(Dropped(place, "role"))
            else:
                kept.append((message, place))
        return [message for message, _ in kept], [place for _, place in kept]

    def is_role(self, word: str) -> bool:
        """Whether the format has a role of its own of this name."""
        try:
            self.codec.count([{"role": word, "content": "?"}])
        except MessageError as error:
            return error.path != "messages[0].role"
        return True

    def system_first(
        self, key: str, messages: list[Any], places: Collection[str]
    ) -> tuple[list[Any], tuple[str, ...]]:
        """Put the text of a system field before the messages."""
        system = self.take(key, (str, list))
        if not system:
            return messages, tuple(places)
        return [{"role": "system", "content": system}, *messages], (key, *places)

    def request(
        self,
        messages: Sequence[Any],
        places: Sequence[str],
        stop: list[str],
        limit: int | None,
    ) -> Request:
        """Return the result; fields that were not read are for the engine."""
        as_functions(messages)
        return Request(
            codec=self.codec,
            messages=list(messages),
            tools=self.tools,
            options=self.options,
            adapter=self.adapter,
            stop=stop,
            limit=limit,
            dropped=tuple(self.dropped),
            rest=self.fields,
            strict=self.strict,
            places=tuple(places),
            drops=self.drops,
        )
