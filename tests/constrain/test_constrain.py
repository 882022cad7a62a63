"""What a constraint admits is what the reader reads: random walks over llguidance's masks.

Every format that has calls is walked, with every choice of tools. What an assistant's message is
written as is admitted, id by id; what breaks the choice or a schema is refused.
"""

from __future__ import annotations

import functools
import json
import random
import tomllib
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
import walks
from chatcodec import MessageError, events
from chatcodec.adapters import openai_chat
from llguidance import LLMatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chatcodec import Codec

WALKS = 400 if data.LONG else 12
"""Walks for each format and choice."""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "unit": {"enum": ["C", "F"]},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "exact": {"type": "boolean"},
                    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                    "where": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                },
                "required": ["query", "exact"],
                "additionalProperties": False,
            },
        },
    },
]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}

NAMED = {"type": "function", "function": {"name": "search"}}
CHOICES: dict[str, dict[str, Any]] = {
    "auto": {"tool_choice": "auto"},
    "one": {"tool_choice": "required", "parallel": False},
    "required": {"tool_choice": "required"},
    "none": {"tool_choice": "none"},
    "named": {"tool_choice": NAMED},
}


def has_calls(format_: str) -> bool:
    name, _, variant = format_.partition(":")
    keys = tomllib.loads(chatcodec.Format.built_in(name).text)
    own = keys["variant"][variant] if variant else {}
    return bool(own.get("call", keys.get("call")))


def has_bare_strings(format_: str) -> bool:
    """Whether the pairs of a format are tags that do not say what a value is."""
    name, _, variant = format_.partition(":")
    keys = tomllib.loads(chatcodec.Format.built_in(name).text)
    own = keys["variant"][variant] if variant else {}
    calls = keys.get("call", {}) | (own.get("call") or {})
    pairs = [str(call.get("pair", "")) for call in calls.values() if call]
    return any("{value}" in it and "{string}" not in it and "{type}" not in it for it in pairs)


BARE_STRINGS = {format_ for format_ in chatcodec.formats() if has_bare_strings(format_)}
"""The formats that write strings without quotes: `5` is one there."""

NO_CALLS = {format_ for format_ in chatcodec.formats() if not has_calls(format_)}

READING = {"answer", "also", "call", "calls", "control", "guarantee", "tag", "text"}
"""The keys of a format file that say how an answer is read."""


def answers_as_its_family(format_: str) -> bool:
    """Whether a variant differs from its family in prompts and turns alone."""
    name, _, variant = format_.partition(":")
    keys = tomllib.loads(chatcodec.Format.built_in(name).text)
    return bool(variant) and not READING & set(keys["variant"][variant])


@functools.cache
def codec_of(format_: str) -> Codec:
    """A codec of a format, on the first vocabulary of its golden cases that is here."""
    path = data.ROOT / "tests" / "golden" / f"{format_.replace(':', '-')}.json"
    golden = json.loads(path.read_text(encoding="utf-8"))
    case = {"special_tokens": golden.get("special_tokens", [])}
    for vocab in golden["vocabs"]:
        if vocab in {"embedded", "appended"} or (data.DATA / data.FILES[vocab]).exists():
            return data.load_case(format_, vocab, case, refuses=False)
    pytest.skip(f"no test data for {format_} in {data.DATA}")


@functools.lru_cache(maxsize=4)
def walker_of(format_: str) -> walks.Walker:
    return walks.Walker(codec_of(format_))


CALLING = sorted(set(chatcodec.formats()) - NO_CALLS)
CONSTRAINED = [it for it in CALLING if data.LONG or not answers_as_its_family(it)]
"""The formats with calls; short runs leave out those whose answers another format has."""


@pytest.mark.parametrize(
    ("format_", "choice"), data.in_turn(data.share(CONSTRAINED, 3), [*CHOICES])
)
def test_what_is_admitted_is_read(format_: str, choice: str) -> None:
    walker = walker_of(format_)
    codec = walker.codec
    lark = codec.constrain(tools=TOOLS, **CHOICES[choice]).lark()
    ended = walked(walker, lark, choice, WALKS, functools.partial(read, codec))
    assert ended >= WALKS // 10, f"{ended} of {WALKS} walks ended"


def walked(
    walker: walks.Walker,
    lark: str,
    choice: str,
    count: int,
    read_calls: Callable[[list[int]], list[dict[str, Any]]],
) -> int:
    """How many of so many walks ended. Each that ended is read as the calls that were asked for."""
    grammar, closers = walker.matcher(lark), walker.tags(lark)
    ended = 0
    for seed in range(count):
        ids = walker.walk(grammar, seed, closers)
        if ids is None:
            continue
        ended += 1
        calls = read_calls(ids)
        names = {call["function"]["name"] for call in calls}
        least = int(CHOICES[choice]["tool_choice"] in ("required", NAMED))
        most = {"one": 1, "none": 0}.get(choice, len(calls))
        assert least <= len(calls) <= most, (choice, seed, walker.codec.vocab.decode(ids))
        assert choice != "named" or names == {"search"}
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            walks.validate(arguments, SCHEMAS[call["function"]["name"]])
    return ended


def read(codec: Codec, ids: list[int], tools: list[dict[str, Any]] = TOOLS) -> list[dict[str, Any]]:
    """The calls of a completion, which has nothing odd in it."""
    stream = codec.stream(tools=tools)
    told = stream.push(ids) + stream.finish()
    odd = [event for event in told if isinstance(event, events.Notice)]
    assert not odd, (odd, codec.vocab.decode(ids))
    parsed = codec.parse(ids, tools=tools)
    assert not len(parsed.rest)
    calls: list[dict[str, Any]] = parsed.message.get("tool_calls", [])
    return calls


def call_of(codec: Codec, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    id_ = "functions.search:0" if codec.format.name.startswith("kimi") else "a1B2c3D4e"
    id_ = id_.replace("search", name)
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": id_, "type": "function", "function": function}


def written(codec: Codec, message: dict[str, Any]) -> list[int] | None:
    """The completion that an assistant's message is written as; none, if the format cannot."""
    user = {"role": "user", "content": "Go on."}
    prompt = codec.encode([user], boundary="isolated")
    try:
        whole = codec.encode([user, {"role": "assistant", **message}], boundary="isolated")
    except MessageError:
        return None
    ids = whole.ids.tolist()
    if ids[: len(prompt)] != prompt.ids.tolist() and "reasoning" not in message:
        # The prompt opens reasoning, and a message without any is spelled otherwise.
        return written(codec, message | {"reasoning": "Hm."})
    assert ids[: len(prompt)] == prompt.ids.tolist()
    ids = ids[len(prompt) :]
    stop = next((at for at, id_ in enumerate(ids) if id_ in codec.stop_ids), len(ids))
    return [*ids[: stop + 1], *codec.stop_ids[: stop == len(ids)]]


WEATHER: tuple[str, dict[str, Any]] = (
    "get_weather",
    {"city": "São Paulo <tool_call>", "days": 3, "unit": "C"},
)
SEARCH: tuple[str, dict[str, Any]] = (
    "search",
    {"query": 'a "b"\n', "exact": False, "tags": ["x", "y"], "where": {"x": -1.5}},
)


def written_answers(
    codec: Codec, weather: tuple[str, dict[str, Any]]
) -> Iterator[tuple[str, list[int]]]:
    """Choices, and answers that they admit, as ids; those that the format can write."""
    for choice, calls in [
        ("auto", []),
        ("none", []),
        ("auto", [weather]),
        ("required", [SEARCH]),
        ("one", [weather]),
        ("named", [SEARCH]),
        ("auto", [weather, SEARCH]),
        ("required", [SEARCH, SEARCH]),
    ]:
        made = [call_of(codec, name, arguments) for name, arguments in calls]
        if made and codec.format.name.startswith("kimi"):
            made[-1]["id"] = made[-1]["id"].replace(":0", f":{len(made) - 1}")
        for content in ["", "Let me look.\n\nWait: {1}"]:
            message = {"content": content} | ({"tool_calls": made} if made else {})
            ids = written(codec, message)
            if ids is not None and ids.count(codec.stop_ids[0]) <= 1:
                yield choice, ids


@pytest.mark.parametrize("format_", data.share(CONSTRAINED, 3))
def test_what_is_written_is_admitted(format_: str) -> None:
    walker = walker_of(format_)
    codec = walker.codec
    admitted = 0
    for choice, ids in written_answers(codec, WEATHER):
        grammar = walker.matcher(codec.constrain(tools=TOOLS, **CHOICES[choice]).lark())
        at = walker.refused_at(grammar, ids)
        assert at == len(ids), (choice, codec.vocab.decode(ids[:at]), codec.vocab.decode(ids))
        admitted += 1
    assert admitted > 4


NOT_ADMITTED = {
    "a call to a function; arguments as they stand": "arguments have other white space",
    "a dict as arguments; white space around arguments is not written; names are escaped": (
        "a tool has no such name"
    ),
    "code, with a language and without; results take the kind of what they answer": (
        "code names its language"
    ),
    "an answer in JSON is text": "with tools it is read as a call",
}
"""The golden cases with answers that no constraint admits, and why."""


@pytest.mark.parametrize("format_", CONSTRAINED)
def test_golden_answers_are_admitted(format_: str) -> None:
    walker = walker_of(format_)
    codec = walker.codec
    path = data.ROOT / "tests" / "golden" / f"{format_.replace(':', '-')}.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["encode"]
    admitted = 0
    for case in cases:
        if case["name"] in NOT_ADMITTED:
            continue
        for message in case.get("messages", []):
            ids = message["role"] == "assistant" and golden_answer(codec, message)
            if not ids:
                continue
            calls = message.get("tool_calls", [])
            named = [call["function"]["name"] for call in calls if call["type"] == "function"]
            tools = [tool for name in dict.fromkeys(named) for tool in function(name)]
            tools += [{"type": "code_interpreter"}] * (len(named) < len(calls))
            choice = "required" if calls else "none"
            grammar = walker.matcher(codec.constrain(tools=tools, tool_choice=choice).lark())
            at = walker.refused_at(grammar, ids)
            assert at == len(ids), (case["name"], codec.vocab.decode(ids[:at]))
            admitted += 1
    assert admitted


def golden_answer(codec: Codec, message: dict[str, Any]) -> list[int] | None:
    """The ids of an answer; none, where another prompt begins it."""
    try:
        return written(codec, {key: value for key, value in message.items() if key != "role"})
    except AssertionError:
        return None


WRONG_VALUES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a number for a string": ({"city": 5}, [{"city": "5"}]),
    "a value that is not listed": ({"city": "a", "unit": "K"}, [{"city": "a", "unit": "C"}]),
    "an unknown argument": (
        {"city": "a", "zip": 1},
        [{"city": "a", "days": 1}, {"city": "a", "unit": "C"}, {"city": "a"}],
    ),
    "a missing argument": ({"days": 3}, [{"city": "a"}]),
    "a fraction for an integer": (
        {"city": "a", "days": 1.5},
        [
            {"city": "a", "days": 1},
            {"city": "a", "days": 1, "unit": "C"},
            {"city": "a", "days": 10},
        ],
    ),
}
"""Arguments that break the schema, and those that follow it with all that may come there."""


@pytest.mark.parametrize("format_", CONSTRAINED)
def test_what_is_wrong_is_refused_at_its_id(format_: str) -> None:
    """Refused is the id with the first byte that no answer has that is admitted."""
    walker = walker_of(format_)
    codec = walker.codec
    pairs: list[tuple[str, list[Any], list[list[Any]]]] = [
        ("one", [("get_wealth", {"city": "a"})], [[("get_weather", {"city": "a"})]]),
        ("one", [WEATHER, SEARCH], [[WEATHER]]),
    ]
    for problem, (wrong, right) in WRONG_VALUES.items():
        if problem != "a number for a string" or format_ not in BARE_STRINGS:
            made = [[("get_weather", arguments)] for arguments in right]
            pairs.append(("one", [("get_weather", wrong)], made))
    tried = 0
    for choice, wrong_calls, right_calls in pairs:
        ids = answer(codec, wrong_calls)
        others = [answer(codec, calls) for calls in right_calls]
        if (
            ids is None
            or None in others
            or (choice == "one" and len(wrong_calls) > 1 and format_.startswith("harmony"))
        ):
            continue
        tried += 1
        expected = first_wrong(codec, ids, [other for other in others if other])
        grammar = walker.matcher(codec.constrain(tools=TOOLS, **CHOICES[choice]).lark())
        at = walker.refused_at(grammar, ids)
        assert at == expected, (
            choice,
            wrong_calls,
            codec.vocab.decode(ids[:at]),
            codec.vocab.decode(ids[:expected]),
        )
    assert tried > 5


def answer(codec: Codec, calls: list[tuple[str, dict[str, Any]]]) -> list[int] | None:
    made = [call_of(codec, name, arguments) for name, arguments in calls]
    if made and codec.format.name.startswith("kimi"):
        made[-1]["id"] = made[-1]["id"].replace(":0", f":{len(made) - 1}")
    return written(codec, {"content": ""} | ({"tool_calls": made} if made else {"content": "7"}))


def first_wrong(codec: Codec, wrong: list[int], right: list[list[int]]) -> int:
    """Position of the id with the first byte that no right answer has."""
    symbols = symbols_of(codec, wrong)
    shared = max(common(symbols, symbols_of(codec, other)) for other in right)
    return symbols[min(shared, len(symbols) - 1)][1]


def symbols_of(codec: Codec, ids: list[int]) -> list[tuple[int, int]]:
    """Bytes and control tokens, each with the position of its id."""
    control = {*codec.vocab.control.values(), *codec.stop_ids}
    symbols = []
    for at, id_ in enumerate(ids):
        if id_ in control:
            symbols.append((256 + id_, at))
        else:
            symbols += [(byte, at) for byte in codec.vocab.token_bytes(id_)]
    return symbols


def common(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> int:
    """How many symbols two answers begin with alike."""
    pairs = zip(first, second, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if a[0] != b[0]), min(len(first), len(second))
    )


@pytest.mark.parametrize("format_", CONSTRAINED)
def test_what_breaks_the_choice_is_refused(format_: str) -> None:
    walker = walker_of(format_)
    codec = walker.codec
    name, arguments = WEATHER
    wrong: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
        "another function": ("required", [("get_time", {})]),
        "a number for a string": ("required", [(name, arguments | {"city": 5})]),
        "a value that is not listed": ("required", [(name, arguments | {"unit": "K"})]),
        "an unknown argument": ("required", [(name, arguments | {"zip": 1})]),
        "a missing argument": ("auto", [(name, {"days": 3})]),
        "a call": ("none", [WEATHER]),
        "no call": ("required", []),
        "another tool": ("named", [WEATHER]),
        "two calls": ("one", [WEATHER, SEARCH]),
    }
    tried = 0
    for problem, (choice, calls) in wrong.items():
        made = [call_of(codec, name, arguments) for name, arguments in calls]
        ids = written(
            codec, {"content": ""} | ({"tool_calls": made} if made else {"content": "No."})
        )
        if ids is None or (problem == "two calls" and format_.startswith("harmony")):
            continue  # A call of harmony's ends the completion.
        if problem == "a number for a string" and format_ in BARE_STRINGS:
            continue
        tried += 1
        grammar = walker.matcher(codec.constrain(tools=TOOLS, **CHOICES[choice]).lark())
        assert walker.refused_at(grammar, ids) < len(ids), (problem, codec.vocab.decode(ids))
    assert tried > 6


@pytest.mark.parametrize("format_", CONSTRAINED)
def test_spelled_markers_are_text(format_: str) -> None:
    walker = walker_of(format_)
    codec = walker.codec
    ids = written(codec, {"content": "", "tool_calls": [call_of(codec, *WEATHER)]})
    assert ids is not None
    if not set(ids[:-1]) & set(codec.vocab.control.values()):
        pytest.skip("calls have no markers")
    spelled = [*codec.vocab.encode(codec.vocab.decode(ids[:-1])), codec.stop_ids[0]]
    required = walker.matcher(codec.constrain(tools=TOOLS, tool_choice="required").lark())
    assert walker.refused_at(required, spelled) < len(spelled)


@pytest.mark.parametrize("format_", sorted(NO_CALLS))
def test_formats_without_calls_constrain_text(format_: str) -> None:
    codec = codec_of(format_)
    with pytest.raises(MessageError, match=r"`tools` has no calls in format"):
        codec.constrain(tools=TOOLS)
    assert "start:" in codec.constrain().lark()


def test_reasoning() -> None:
    walker = walker_of("qwen3")
    codec, vocab = walker.codec, walker.codec.vocab
    think, end = vocab.control["<think>"], vocab.control["</think>"]
    stop = codec.stop_ids[0]
    thought = [think, *vocab.encode("\nHm.\n"), end, *vocab.encode("\n\nYes."), stop]
    plain = [*vocab.encode("Yes."), stop]
    for reasoning, admitted in [(None, {True, False}), (True, {True}), (False, {False})]:
        grammar = walker.matcher(codec.constrain(reasoning=reasoning).lark())
        for ids in (thought, plain):
            is_whole = walker.refused_at(grammar, ids) == len(ids)
            assert is_whole == ((ids is thought) in admitted), (reasoning, vocab.decode(ids))
    closed = codec.encode([{"role": "user", "content": "?"}], thinking=False)
    grammar = walker.matcher(codec.constrain(prompt=closed).lark())
    assert walker.refused_at(grammar, plain) == len(plain)
    assert walker.refused_at(grammar, thought) == 0
    with pytest.raises(MessageError, match="`reasoning` is True, but no answer after this prompt"):
        codec.constrain(prompt=closed, reasoning=True)
    thinking = walker_of("qwen3:thinking")
    grammar = thinking.matcher(thinking.codec.constrain().lark())
    assert thinking.refused_at(grammar, thought[1:]) > 0
    assert thinking.refused_at(grammar, plain) < len(plain)


def test_allowed_tools() -> None:
    walker = walker_of("internlm2")
    codec = walker.codec
    choices: list[dict[str, Any]] = [
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "search"}],
        },
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}},
        {"type": "tool", "name": "search"},
    ]
    for choice in choices:
        grammar = walker.matcher(codec.constrain(tools=TOOLS, tool_choice=choice).lark())
        for call, is_allowed in [(SEARCH, True), (WEATHER, False)]:
            ids = written(codec, {"content": "", "tool_calls": [call_of(codec, *call)]})
            assert ids is not None
            assert (walker.refused_at(grammar, ids) == len(ids)) == is_allowed


TOOL_CHOICES: dict[str, Any] = {
    "auto": "auto",
    "required": "required",
    "none": "none",
    "any of Anthropic's": {"type": "any"},
    "OpenAI's name": NAMED,
    "Responses' name": {"type": "function", "name": "search"},
    "Anthropic's name": {"type": "tool", "name": "search"},
    "allowed tools": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [NAMED]},
    },
    "Responses' allowed tools": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "search"}],
    },
}
CODE: list[dict[str, Any]] = [{"type": "code_interpreter"}]
MAY_CALL_NONE = {"auto", "none", "Responses' allowed tools"}
MAY_CALL_WEATHER = {"auto", "required", "any of Anthropic's"}
ANY_OBJECT = {"type": "json_object"}
REFUSALS = ("`reasoning` is ", "`response_format` ", "`tools` have code")
"""How errors begin that name what a format has not."""
TOGETHER = 200 if data.LONG else 16
"""Requests for each format."""


@pytest.mark.parametrize("format_", data.share(CONSTRAINED, 3))
def test_all_options_together(format_: str) -> None:
    """Each walk is of another request."""
    walker = walker_of(format_)
    codec = walker.codec
    ended = 0
    for seed in range(TOGETHER):
        chooser = random.Random(f"{format_} {seed}")
        choice = chooser.choice(list(TOOL_CHOICES))
        answer = chooser.choice([None, None, ANY_OBJECT, JSON_SCHEMA])
        reasoning = chooser.choice([None, True, False])
        parallel = chooser.random() < 0.5
        tools = [*TOOLS, *CODE * (chooser.random() < 0.3)]
        try:
            lark = codec.constrain(
                tools=tools,
                tool_choice=TOOL_CHOICES[choice],
                parallel=parallel,
                reasoning=reasoning,
                response_format=answer,
            ).lark()
        except MessageError as error:
            assert str(error).startswith(REFUSALS), error  # noqa: PT017
            continue
        ids = walker.walk(walker.matcher(lark), seed, walker.tags(lark))
        if ids is None:
            continue
        ended += 1
        calls = read(codec, ids, tools)
        message = codec.parse(ids, tools=tools).message
        assert len(calls) <= (0 if choice == "none" else 99 if parallel else 1)
        assert calls or choice in MAY_CALL_NONE
        for call in calls:
            if call["type"] == "function":
                name = call["function"]["name"]
                assert name == "search" or choice in MAY_CALL_WEATHER
                walks.validate(json.loads(call["function"]["arguments"]), SCHEMAS[name])
            else:
                assert len(tools) > len(TOOLS)
                assert choice in MAY_CALL_WEATHER
        assert reasoning is not False or not message.get("reasoning")
        if answer is not None and not calls and format_ not in {"chatglm3", "glm4"}:
            content = json.loads(message["content"])
            walks.validate(content, ANSWER if answer is JSON_SCHEMA else {"type": "object"})
    assert ended


def test_strict() -> None:
    walker = walker_of("internlm2")
    codec = walker.codec
    loose = codec.constrain(tools=TOOLS, tool_choice="required", strict=False)
    assert loose.weakened == [f"tools[{at}].function.parameters" for at in range(2)]
    ids = written(codec, {"tool_calls": [call_of(codec, "search", {"zip": [None]})]})
    assert ids is not None
    assert walker.refused_at(walker.matcher(loose.lark()), ids) == len(ids)
    strict = codec.constrain(tools=TOOLS, tool_choice="required")
    assert strict.weakened == []
    assert walker.refused_at(walker.matcher(strict.lark()), ids) < len(ids)


def function(name: str = "f", **keys: object) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, **keys}}]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tool_choice": "required"}, "`tool_choice` asks for a call, but there are no tools"),
        ({"tool_choice": "all"}, '`tool_choice` is "all", expected "auto", "required" or "none"'),
        ({"tool_choice": NAMED}, "`tool_choice` names `search`, but there are no tools"),
        (
            {"tool_choice": NAMED, "tools": function()},
            "`tool_choice` names `search`, expected one of the tools: `f`",
        ),
        ({"tool_choice": {"name": "f"}}, "`tool_choice.type` is missing"),
        ({"tool_choice": 1}, '`tool_choice` is a number, expected "auto"'),
        ({"tools": [1]}, r"`tools\[0\]` is a number, expected a dict"),
        ({"tools": [{}]}, r"`tools\[0\].name` is missing"),
        ({"tools": function("a b")}, r'`tools\[0\].function.name` is "a b", expected letters'),
        ({"tools": function() * 2}, r"`tools\[1\].name` is `f`, which another tool is called"),
        (
            {"tools": function(parameters={"type": "string"})},
            r'`tools\[0\].function.parameters.type` is "string", expected "object"',
        ),
        (
            {"tools": function(parameters=5)},
            r"`tools\[0\].function.parameters` is a number, expected a JSON schema of an object",
        ),
        ({"tools": function() * 2000}, "`tools` are 2000, expected at most 1024"),
        ({"tools": "no list"}, "`tools` cannot be read as a list of functions"),
        ({"reasoning": True}, "`reasoning` is True, but no answer after this prompt has reasoning"),
        ({"prompt": [1, 2]}, "`prompt` does not end with a generation prompt"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], error: str) -> None:
    with pytest.raises(MessageError, match=error):
        codec_of("internlm2").constrain(**options)


def test_a_tool_without_parameters_takes_any_object() -> None:
    walker = walker_of("internlm2")
    codec = walker.codec
    grammar = walker.matcher(codec.constrain(tools=function("search")).lark())
    for arguments in ({}, {"a": {"b": [1, None]}}):
        ids = written(codec, {"tool_calls": [call_of(codec, "search", arguments)]})
        assert ids is not None
        assert walker.refused_at(grammar, ids) == len(ids)


def test_keywords_that_a_backend_cannot_express_are_named() -> None:
    parameters = {"properties": {"a": {"anyOf": [{"type": "string"}, {"not": {"type": "null"}}]}}}
    codec = codec_of("internlm2")
    problem = (
        r"`tools\[0\].function.parameters.properties.a.anyOf\[1\].not` is a keyword that llguidance"
    )
    with pytest.raises(MessageError, match=problem):
        codec.constrain(tools=function(parameters=parameters)).lark()
    loose = codec.constrain(tools=function(parameters=parameters), strict=False)
    assert "%json" in loose.lark()


@pytest.mark.parametrize(
    "keyword",
    ["not", "if", "uniqueItems", "contains", "propertyNames", "dependentRequired"],
)
def test_llguidance_refuses_the_keywords_that_are_named(keyword: str) -> None:
    grammar = f'start: %json {{"{keyword}": {{}}}}'
    assert "Unimplemented keys" in LLMatcher.validate_grammar(grammar)


NESTED = {
    "type": "object",
    "properties": {
        "point": {"$ref": "#/$defs/point"},
        "tree": {"$ref": "#/$defs/tree"},
        "flags": {"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 1},
        "level": {"enum": [1, None, True]},
        "count": {"type": "integer", "minimum": 3, "maximum": 12},
        "any": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {}}]},
    },
    "required": ["tree", "flags"],
    "additionalProperties": False,
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
    },
}
"""Each keyword that arguments in other shapes than JSON follow."""


@pytest.mark.parametrize("format_", ["llama3.2", "glm4.5", "qwen3-coder", "internlm2", "chatglm3"])
def test_schemas_are_followed_in_every_shape(format_: str) -> None:
    walker = walker_of(format_)
    codec = walker.codec
    tools = function("search", parameters=NESTED)
    lark = codec.constrain(tools=tools, tool_choice="required", parallel=False).lark()
    grammar, closers = walker.matcher(lark), walker.tags(lark)
    ended = 0
    for seed in range(WALKS):
        ids = walker.walk(grammar, seed, closers)
        if ids is None:
            continue
        ended += 1
        (call,) = read(codec, ids, tools)
        walks.validate(json.loads(call["function"]["arguments"]), NESTED)
    assert ended > WALKS // 10
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"tree": [[], [[]]], "flags": [True, None], "level": None, "count": 12}, True),
        ({"point": {"x": 1.5, "y": -2}, "tree": [], "flags": [False], "any": [{"a": [1]}]}, True),
        ({"tree": [], "flags": []}, False),
        ({"tree": [[], [], []], "flags": [True]}, False),
        ({"tree": [], "flags": [True], "count": 13}, False),
        ({"tree": [], "flags": [True], "level": False}, False),
        ({"point": {"y": 1}, "tree": [], "flags": [True]}, False),
    ]
    for arguments, is_admitted in cases:
        ids = written(codec, {"tool_calls": [call_of(codec, "search", arguments)]})
        assert ids is not None
        assert (walker.refused_at(grammar, ids) == len(ids)) == is_admitted, arguments


@pytest.mark.parametrize("format_", ["llama3.2", "glm4.5", "qwen3-coder"])
def test_keywords_that_a_shape_cannot_follow_are_named(format_: str) -> None:
    codec = codec_of(format_)
    for part, problem in [
        (
            {"type": "array", "uniqueItems": True},
            r"parameters.properties.a.uniqueItems` is a keyword",
        ),
        ({"anyOf": [{"not": {}}, {}]}, r"parameters.properties.a.anyOf\[0\].not` is a keyword"),
    ]:
        tools = function(parameters={"properties": {"a": part}})
        with pytest.raises(MessageError, match=problem):
            codec.constrain(tools=tools)
        assert codec.constrain(tools=tools, strict=False).weakened


def test_a_value_between_tags_may_be_text_or_json() -> None:
    walker = walker_of("qwen3-coder")
    codec = walker.codec
    parameters = {"properties": {"a": {"type": ["string", "null"]}}, "additionalProperties": False}
    tools = function("search", parameters=parameters)
    lark = codec.constrain(tools=tools, tool_choice="required", parallel=False).lark()
    grammar = walker.matcher(lark)
    for seed in range(WALKS):
        if (ids := walker.walk(grammar, seed, walker.tags(lark))) is not None:
            (call,) = read(codec, ids, tools)
            walks.validate(json.loads(call["function"]["arguments"]), parameters)


ANSWER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER}}
READS_JSON_AS_A_CALL = {"llama3.1", "phi4-mini"}


@pytest.mark.parametrize("format_", data.share(sorted({*CONSTRAINED, *NO_CALLS}), 4))
def test_an_answer_may_have_a_schema(format_: str) -> None:
    walker = walker_of(format_)
    codec = walker.codec
    tools = None if format_ in NO_CALLS else TOOLS
    if format_ in READS_JSON_AS_A_CALL:
        with pytest.raises(MessageError, match="`response_format` allows JSON that"):
            codec.constrain(response_format=JSON_SCHEMA)
        return
    lark = codec.constrain(tools=tools, response_format=JSON_SCHEMA).lark()
    grammar, closers = walker.matcher(lark), walker.tags(lark)
    answers = 0
    for seed in range(WALKS):
        ids = walker.walk(grammar, seed, closers)
        if ids is None:
            continue
        calls = read(codec, ids)
        content = codec.parse(ids, tools=TOOLS).message["content"]
        if not calls and format_ not in {"chatglm3", "glm4"}:
            walks.validate(json.loads(content), ANSWER)
            answers += 1
    assert answers or format_ in {"chatglm3", "glm4"}


def test_response_formats() -> None:
    walker = walker_of("internlm2")
    codec = walker.codec
    stop = codec.stop_ids[0]
    for given, texts in [
        (None, {"Hi.", '{"a": 1}', "[1]"}),
        ("text", {"Hi.", '{"a": 1}', "[1]"}),
        ({"type": "json_object"}, {'{"a": 1}'}),
        ({"type": "json_schema", "schema": {"type": "array"}}, {"[1]"}),
    ]:
        grammar = walker.matcher(codec.constrain(response_format=given).lark())
        for text in ("Hi.", '{"a": 1}', "[1]"):
            ids = [*codec.vocab.encode(text), stop]
            assert (walker.refused_at(grammar, ids) == len(ids)) == (text in texts)
    loose = codec.constrain(response_format=JSON_SCHEMA, strict=False)
    assert loose.weakened == ["response_format.json_schema.schema"]
    for wrong, error in [
        (1, "`response_format` is a number, expected a dict"),
        ("xml", '`response_format.type` is "xml"'),
        ({}, "`response_format.type` is missing"),
        ({"type": "json_schema"}, "`response_format.schema` is missing"),
        (
            {"type": "json_schema", "json_schema": {"schema": 1}},
            "`response_format.json_schema.schema` is a number, expected a JSON schema",
        ),
    ]:
        with pytest.raises(MessageError, match=error):
            codec.constrain(response_format=wrong)  # type: ignore[arg-type]


def test_a_request_says_what_may_be_generated() -> None:
    walker = walker_of("internlm2")
    codec = walker.codec
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Go on."}],
        "tools": TOOLS,
        "tool_choice": NAMED,
        "parallel_tool_calls": False,
    }
    request = openai_chat.read_request(body, codec, constrained=True)
    grammar = walker.matcher(request.constrain(request.encode()).lark())
    for calls, is_admitted in [([SEARCH], True), ([WEATHER], False), ([SEARCH, SEARCH], False)]:
        ids = written(codec, {"tool_calls": [call_of(codec, *call) for call in calls]})
        assert ids is not None
        assert (walker.refused_at(grammar, ids) == len(ids)) == is_admitted
    body = {"model": "m", "messages": body["messages"], "response_format": JSON_SCHEMA}
    request = openai_chat.read_request(body, codec)
    grammar = walker.matcher(request.constrain(request.encode()).lark())
    ids = [*codec.vocab.encode("Hi."), codec.stop_ids[0]]
    assert walker.refused_at(grammar, ids) == 0
