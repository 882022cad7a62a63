"""Chat templates by jinja2, in the environment of transformers, and conversations to render."""

# Templates take any value.
# ruff: noqa: ANN401
from __future__ import annotations

import datetime as dt
import functools
import json
import re
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable

Message = dict[str, Any]
Scenario = tuple[list[Message], "list[dict[str, Any]] | None", dict[str, Any]]

OWN = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
"""The special tokens of every template."""


class _Generation(Extension):
    """`{% generation %}`, whose body is written as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

    def _written(self, caller: Any) -> str:
        return str(caller())


class _Null(jinja2.Undefined):
    """A message's content that is None: None, but with an empty text, and without items."""

    def __repr__(self) -> str:
        return "None"

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, _Null)

    __hash__ = jinja2.Undefined.__hash__


def _raise_exception(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


def _is_defined(x: Any) -> bool:
    return isinstance(x, _Null) or not isinstance(x, jinja2.Undefined)


def _none_or_fails(x: Any) -> None:
    if not isinstance(x, _Null):
        message = f"{type(x)} is no JSON"
        raise TypeError(message)


def _tojson(
    x: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(
        x,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_none_or_fails,
    )


@functools.cache
def environment() -> ImmutableSandboxedEnvironment:
    """The environment of transformers; a content may be `_Null`."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    made.filters["tojson"] = _tojson
    made.tests["none"] = lambda x: x is None or isinstance(x, _Null)
    made.tests["defined"] = _is_defined
    made.tests["undefined"] = lambda x: not _is_defined(x)
    made.globals["raise_exception"] = _raise_exception
    made.globals["strftime_now"] = lambda form: dt.datetime.now().strftime(form)  # noqa: DTZ005
    return made


def render(
    template: jinja2.Template,
    scenario: Scenario,
    *,
    null: Callable[[], Any] = _Null,
    own: dict[str, str] | None = None,
) -> str:
    """The text of a scenario; raises what the template raises.

    `null` is a content of None, `own` are the special tokens of the template and its options.
    """
    messages, tools, options = scenario
    given = {"add_generation_prompt": True, "documents": None, **options}
    kept = [
        {
            key: null() if value is None else value
            for key, value in m.items()
            if value is not None or key == "content"
        }
        for m in messages
    ]
    return template.render(messages=kept, tools=tools, **(OWN if own is None else own), **given)


WORD = "kaqzv"
THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thought")


class Engine:
    """Messages as a server gives them to a template, which does not take all that clients send.

    Found by what jinja2 renders, so that it is a second opinion on what `Codec` does.
    """

    def __init__(self, template: Any, source: str) -> None:
        self.template = template
        self.takes_tools = self.takes_parts = False
        part = self._writes([_user([{"type": "text", "text": WORD}])])
        reads_parts = part is not None and WORD in part and "'text'" not in part
        self.takes_parts = reads_parts and WORD not in (self._writes([_user(WORD)]) or "")
        self.takes_tools = self._writes([_user("question")]) is None
        question, answer = _user("question"), _assistant("answer")
        call = _call("tool", {"key": "value"})

        def shows(*messages: Message) -> bool:
            texts = (self._writes(list(messages), thinks=thinks) for thinks in (False, True))
            return any(text is not None and WORD in text for text in texts)

        named = [key for key in THOUGHTS if re.search(rf"[.'\"]{key}(?!\w)", source)]
        read = [
            key
            for key in named
            if shows(question, {**answer, key: WORD})
            or shows(question, {**answer, "tool_calls": [call], key: WORD})
        ]
        self.thoughts = read or named[:1]
        part = self._writes([_user([{"type": "text", "text": WORD}])])
        reads_parts = part is not None and WORD in part and "'text'" not in part
        self.joins_parts = not reads_parts and shows(_user(WORD))
        called = [
            self._writes([question, {**_assistant(""), "tool_calls": [_call("tool", arguments)]}])
            for arguments in ({"kaqz": "vaqz"}, '{"kaqz": "vaqz"}')
        ]
        written = ["vaqz" in text and "'vaqz'" not in text if text else False for text in called]
        self.takes_objects = written[0] or not written[1]
        arguments = {"key": WORD} if self.takes_objects else json.dumps({"key": WORD})
        calls = {"tool_calls": [_call("tool", arguments)]}
        contents = [{**_assistant(content), **calls} for content in (None, "")]
        result = {**_result("result"), "name": "tool"}
        self.needs_content = any(
            [shows(question, one, *after) for one in contents] == [False, True]
            for after in ([], [result])
        )
        developer = ({"role": role, "content": WORD} for role in ("developer", "system"))
        self.has_no_developer = [shows(first, question) for first in developer] == [False, True]

    def _writes(self, messages: list[Message], *, thinks: bool = False) -> str | None:
        thinking = {"thinking": True, "enable_thinking": True} if thinks else {}
        tools = TOOLS[:1] if self.takes_tools else None
        options = {"add_generation_prompt": False, **thinking}
        messages = [self._parted(message) for message in messages]
        try:
            return render(self.template, (messages, tools, options))
        except Exception:  # noqa: BLE001 - whatever a template raises
            return None

    def _parted(self, message: Message) -> Message:
        content = message.get("content")
        if not self.takes_parts or not isinstance(content, str):
            return message
        return {**message, "content": [{"type": "text", "text": content}]}

    def given(self, messages: list[Message]) -> list[Message]:
        """The messages as the template takes them."""
        return [self._given(message) for message in messages]

    def _given(self, message: Message) -> Message:
        given: Message = {}
        for key, value in message.items():
            shown = key
            if key in THOUGHTS and self.thoughts and key not in self.thoughts:
                shown = key if self.thoughts[0] in message else self.thoughts[0]
            given[shown] = value
        content = given.get("content")
        texts = {"text", "input_text", "output_text"}
        if (
            self.joins_parts
            and isinstance(content, list)
            and content
            and all(isinstance(part, str) or part.get("type") in texts for part in content)
        ):
            parts = (part if isinstance(part, str) else part["text"] for part in content)
            given["content"] = "".join(parts)
        if self.needs_content and given.get("tool_calls") and given.get("content") is None:
            given["content"] = ""
        given = self._parted(given)
        if given.get("tool_calls"):
            given["tool_calls"] = [self._call(call) for call in given["tool_calls"]]
        if given["role"] == "developer" and self.has_no_developer:
            given["role"] = "system"
        return given

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        if "function" in call:
            return {**call, "function": self._call(call["function"])}
        arguments = call.get("arguments")
        if isinstance(arguments, str) and self.takes_objects:
            try:
                read = json.loads(arguments or "{}")
            except json.JSONDecodeError:
                return call
            return {**call, "arguments": read if isinstance(read, dict) else arguments}
        if isinstance(arguments, dict) and not self.takes_objects:
            return {**call, "arguments": json.dumps(arguments, ensure_ascii=False)}
        return call


@functools.cache
def engine(source: str) -> Engine:
    """How a server gives messages to a template."""
    return Engine(environment().from_string(source), source)


ARGUMENTS = {
    "city": "Paris",
    "n": 3,
    "f": 1.5,
    "ok": True,
    "no": None,
    "l": [1, "a\n"],
    "d": {"k": "v"},
}

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather of a city\'s sky, "now" <b>',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city"},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "n": {"type": "integer", "default": 3},
                    "deep": {
                        "type": "object",
                        "properties": {"x": {"type": "array", "items": {"type": "number"}}},
                    },
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": ["number", "null"]}},
                "required": ["a", "b"],
            },
            "return": {"type": "number"},
        },
    },
]


def _call(name: str, arguments: Any, id_: str = "call00001") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _system(text: str = "Be brief.") -> Message:
    return {"role": "system", "content": text}


def _user(text: Any = "Hi there", **more: Any) -> Message:
    return {"role": "user", "content": text, **more}


def _assistant(text: Any = "Hello!", **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def _result(text: Any = '{"t": 21}', id_: str = "call00001", **more: Any) -> Message:
    return {"role": "tool", "content": text, "tool_call_id": id_, "name": "get_weather", **more}


_WEATHER = _call("get_weather", ARGUMENTS)
_NO_PROMPT = {"add_generation_prompt": False}
_ODD = "  \n\t é漢🙂 \u2028 'q' \"d\" {{ x }} {% y %} \\ \n"

SCENARIOS: dict[str, Scenario] = {
    "plain": ([_user()], None, {}),
    "multi": ([_user(), _assistant(), _user("More")], None, {}),
    "system": ([_system(), _user()], None, {}),
    "sysmulti": ([_system(), _user(), _assistant(), _user("x\n y ")], None, {}),
    "train": ([_system(), _user(), _assistant()], None, _NO_PROMPT),
    "answered": ([_user(), _assistant()], None, {}),
    "tools": ([_user()], TOOLS, {}),
    "systools": ([_system(), _user()], TOOLS, {}),
    "no tools": ([_user()], [], {}),
    "call": ([_user(), _assistant(None, tool_calls=[_WEATHER]), _result()], TOOLS, {}),
    "callnt": ([_user(), _assistant(None, tool_calls=[_WEATHER]), _result()], None, {}),
    "callstr": (
        [
            _user(),
            _assistant("", tool_calls=[_call("get_weather", json.dumps(ARGUMENTS))]),
            _result(),
        ],
        TOOLS,
        {},
    ),
    "callans": (
        [
            _system(),
            _user(),
            _assistant("Let me see", tool_calls=[_WEATHER]),
            _result(),
            _assistant("It is 21."),
            _user("Thanks"),
        ],
        TOOLS,
        {},
    ),
    "par": (
        [
            _user(),
            _assistant(None, tool_calls=[_WEATHER, _call("add", {"a": 1, "b": 2}, "call00002")]),
            _result(),
            _result("3", "call00002", name="add"),
        ],
        TOOLS,
        {},
    ),
    "reason": ([_user(), _assistant("4", reasoning_content="2+2"), _user("and?")], None, {}),
    "reasonlast": ([_user(), _assistant("4", reasoning_content="2+2")], None, _NO_PROMPT),
    "reasonkeys": (
        [_user(), _assistant("4", reasoning="2\n"), _user("?"), _assistant("5", thinking="hm")],
        None,
        _NO_PROMPT,
    ),
    "reasontext": ([_user(), _assistant("<think>\nhm\n</think>\n\n4"), _user("and?")], None, {}),
    "reasoncall": (
        [_user(), _assistant("", reasoning_content="so", tool_calls=[_WEATHER]), _result()],
        TOOLS,
        {},
    ),
    "nothink": ([_user()], None, {"enable_thinking": False}),
    "think": ([_system(), _user()], None, {"enable_thinking": True, "thinking": True}),
    "empty": ([_user("")], None, {}),
    "emptyans": ([_user(), _assistant(""), _user("z")], None, {}),
    "odd": ([_user(_ODD)], None, {}),
    "oddsystem": ([_system(_ODD), _user(), _assistant(_ODD), _user()], None, {}),
    "parts": (
        [_user([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])],
        None,
        {},
    ),
    "image": ([_user([{"type": "image"}, {"type": "text", "text": "what?"}])], None, {}),
    "names": ([_user(name="bob"), _assistant(name="bot")], None, _NO_PROMPT),
    "nones": (
        [_user(name=None, tool_calls=None), _assistant(tool_calls=[]), _user()],
        None,
        {},
    ),
    "nothing": ([], None, {}),
    "twosys": ([_system(), _system("Two"), _user()], None, {}),
    "answerfirst": ([_assistant(), _user()], None, {}),
    "twousers": ([_user(), _user("b")], None, {}),
    "sysonly": ([_system()], None, {}),
    "developer": ([{"role": "developer", "content": "d"}, _user()], None, {}),
    "critic": ([{"role": "critic", "content": "d"}, _user()], None, {}),
    "no content": ([{"role": "user"}], None, {}),
    "documents": (
        [_user()],
        None,
        {"documents": [{"title": "T", "text": "Body", "doc_id": 1}]},
    ),
    "date": ([_user()], None, {"date_string": "26 Jul 2024"}),
}
"""Messages, tools, and what else the template is given."""
