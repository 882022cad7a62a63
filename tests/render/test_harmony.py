"""`harmony` beside OpenAI's own library: messages to ids, and ids to messages.

Skipped where the vocabulary of gpt-oss is absent; no network is used.
"""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, MessageError, collect
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    HarmonyEncoding,
    HarmonyEncodingName,
    HarmonyError,
    ReasoningEffort,
    RenderConversationConfig,
    Role,
    StreamableParser,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)
from openai_harmony import Message as Frame
from strategies import hostile_texts

if TYPE_CHECKING:
    from collections.abc import Sequence


Message = dict[str, Any]


@functools.cache
def library() -> HarmonyEncoding:
    """The library, on the vocabulary of the test data."""
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(data.find("vocab/gpt-oss"))
    return load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)


@functools.cache
def codec(name: str = "harmony") -> Codec:
    return Codec(name, vocab=data.find("vocab/gpt-oss"))


def spell(text: str) -> list[int]:
    """Ids of text in which markers are spelled."""
    ids: list[int] = library().encode(text, allowed_special="all")
    return ids


# Messages to ids.


def frame(text: str, channel: str) -> Frame:
    return Frame.from_role_and_content(Role.ASSISTANT, text).with_channel(channel)


def called(call: Message) -> Frame:
    function = call["function"]
    arguments = frame(function["arguments"].strip(" \t\r\n"), "commentary")
    return arguments.with_recipient(f"functions.{function['name']}").with_content_type("json")


def frames(message: Message) -> list[Frame]:
    """An assistant's message as the library has it."""
    made = []
    if message.get("reasoning"):
        made.append(frame(message["reasoning"], "analysis"))
    content, calls = message.get("content", ""), message.get("tool_calls", [])
    if content or not calls:
        made.append(frame(content, "commentary" if calls else "final"))
    return made + [called(call) for call in calls]


def developer(text: str | None, tools: list[Message] | None) -> Frame:
    content = DeveloperContent.new()
    if text is not None:
        content = content.with_instructions(text)
    if tools is not None:
        functions = [tool["function"] for tool in tools]
        described = [
            ToolDescription.new(each["name"], each["description"], each.get("parameters"))
            for each in functions
        ]
        content = content.with_function_tools(described)
    return Frame.from_role_and_content(Role.DEVELOPER, content)


def conversation(
    messages: Sequence[Message],
    tools: list[Message] | None = None,
    date: str | None = None,
    effort: str = "medium",
) -> Conversation:
    """A conversation as the library has it."""
    system = SystemContent.new().with_reasoning_effort(ReasoningEffort(effort.capitalize()))
    if date is not None:
        system = system.with_conversation_start_date(date)
    made = [Frame.from_role_and_content(Role.SYSTEM, system)]
    if tools is not None and messages[0]["role"] != "system":
        made.append(developer(None, tools))
    names: list[str] = []
    for nth, message in enumerate(messages):
        match message["role"]:
            case "system":
                made.append(developer(message["content"], tools if nth == 0 else None))
            case "user":
                author = Author(role=Role.USER, name=message.get("name"))
                made.append(Frame.from_author_and_content(author, message["content"]))
            case "assistant":
                names = [call["function"]["name"] for call in message.get("tool_calls", [])]
                made += frames(message)
            case "tool":
                author = Author.new(Role.TOOL, f"functions.{names.pop(0)}")
                result = Frame.from_author_and_content(author, message["content"])
                made.append(result.with_channel("commentary").with_recipient("assistant"))
    return Conversation.from_messages(made)


texts = st.deferred(lambda: hostile_texts(codec()))
words = st.text("abcXYZ019_-.", min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(texts, json_values, max_size=3).map(
    functools.partial(json.dumps, ensure_ascii=False)
)
functions = st.fixed_dictionaries(
    {"name": words, "description": texts},
    optional={
        "parameters": st.builds(
            lambda properties, required: {
                "type": "object",
                "properties": properties,
                "required": [key for key in properties if key in required],
            },
            st.dictionaries(
                words,
                st.fixed_dictionaries(
                    {"type": st.sampled_from(["string", "integer", "boolean", "array"])},
                    optional={"description": texts, "enum": st.lists(words, max_size=3)},
                ),
                max_size=3,
            ),
            st.sets(words, max_size=3),
        )
    },
)
tool_lists = st.lists(
    functions.map(lambda function: {"type": "function", "function": function}),
    min_size=1,
    max_size=3,
)

# The library reads some doubles as their neighbours, 1.1579208923731604e+77 among them, and each
# number of sixteen bits exactly.
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(
    width=16, allow_nan=False, allow_infinity=False
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=3,
)
TYPES = ["string", "number", "integer", "boolean", "null", "object", "array", "any"]


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of all that the library tells apart."""
    types = st.sampled_from(TYPES)
    return st.fixed_dictionaries(
        {"type": types | st.lists(types, max_size=2)},
        optional={
            "title": texts,
            "description": texts,
            "default": values,
            "nullable": st.booleans(),
            "enum": st.lists(texts | values, max_size=3),
            "examples": st.lists(texts, max_size=2),
            "items": inner,
            "properties": st.dictionaries(words, inner, max_size=3),
            "required": st.lists(words, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
        },
    )


parameters = st.recursive(schemas(st.fixed_dictionaries({})), schemas, max_leaves=5)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations that the format can write, of at least one message."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(texts)})
    for _ in range(draw(st.integers(0, 4))):
        user = {"role": "user", "content": draw(texts)}
        if draw(st.integers(0, 3)) == 0:
            user["name"] = draw(words)
        messages.append(user)
        while draw(st.booleans()):
            messages += draw(answers())
    return messages or [{"role": "user", "content": draw(texts)}]


@st.composite
def answers(draw: st.DrawFn) -> list[Message]:
    """An assistant's message; with its results, where it calls."""
    message: Message = {"role": "assistant", "content": draw(st.just("") | texts)}
    if draw(st.booleans()):
        message["reasoning"] = draw(texts)
    names = draw(st.lists(words, max_size=3))
    if not names:
        return [message]
    message["tool_calls"] = [
        {"type": "function", "function": {"name": name, "arguments": draw(arguments)}}
        for name in names
    ]
    results = [{"role": "tool", "content": draw(texts)} for _ in names]
    return [message, *results]


options = st.fixed_dictionaries(
    {},
    optional={
        "date": st.dates().map(str),
        "effort": st.sampled_from(["low", "medium", "high"]),
    },
)


@pytest.mark.parametrize("name", ["harmony", "harmony:full"])
@given(messages=conversations(), tools=st.none() | tool_lists, options=options)
def test_the_ids_are_the_librarys(
    name: str, messages: list[Message], tools: list[Message] | None, options: dict[str, Any]
) -> None:
    theirs = conversation(messages, tools, **options)
    config = RenderConversationConfig(auto_drop_analysis=name == "harmony")
    asked = codec(name).encode(messages, tools=tools, add_generation_prompt=True, **options)
    expected = library().render_conversation_for_completion(theirs, Role.ASSISTANT, config)
    assert list(asked.ids) == expected
    whole = codec(name).encode(messages, tools=tools, add_generation_prompt=False, **options)
    assert list(whole.ids) == library().render_conversation_for_training(theirs, config)


@given(parameters=st.dictionaries(words, parameters, max_size=3), description=texts)
def test_tools_are_declared_as_the_library_declares_them(
    parameters: dict[str, Any], description: str
) -> None:
    schema = {"type": "object", "properties": parameters, "required": sorted(parameters)[:1]}
    function = {"name": "f", "description": description, "parameters": schema}
    tools = [{"type": "function", "function": function}]
    messages = [{"role": "user", "content": "x"}]
    theirs = library().render_conversation_for_training(conversation(messages, tools))
    assert codec().encode(messages, tools=tools, add_generation_prompt=False).tolist() == theirs


def test_the_options_are_checked() -> None:
    user = [{"role": "user", "content": "x"}]
    assert "Current date: 2026-01-01\n" in codec().encode(user, date="2026-01-01").text
    with pytest.raises(MessageError, match='`effort` is "most", expected one of `medium`'):
        codec().encode(user, effort="most")
    for date in ("1\n2", "<|end|>", ""):
        with pytest.raises(MessageError, match="`date` is"):
            codec().encode(user, date=date)
    with pytest.raises(TypeError, match="declares `thinking`, `date`, `effort`"):
        codec().encode(user, day="x")


# Ids to messages.

HEADERS = (
    "<|start|>assistant to={}<|channel|>{} json<|message|>",
    "<|start|>assistant to={}<|channel|>{} <|constrain|>json<|message|>",
    "<|start|>assistant to={}<|channel|>{}<|message|>",
    "<|start|>assistant<|channel|>{1} to={0} <|constrain|>json<|message|>",
    "<|start|>assistant<|channel|>{1} to={0} json<|message|>",
    "<|start|>assistant<|channel|>{1} to={0} code<|message|>",
    "<|start|>assistant<|channel|>{1} to={0}<|message|>",
)
"""How models write the header of a call: to whom, and in which channel."""

SPACES = st.sampled_from(["", "", " ", "  "])
AUTHORS = st.sampled_from(
    ["user", "developer", "system", "tool", "python", "functions.f", "myplugin.search"]
)


@st.composite
def headers(draw: st.DrawFn, author: st.SearchStrategy[str]) -> str:
    """What a model may make of a header: its parts, with white space or without."""
    recipient = st.sampled_from(["functions.f", "functions.a-b", "python", "browser.open", "user"])
    to = recipient.map(" to={}".format)
    type_ = st.sampled_from([" json", " code", "<|constrain|>json", " <|constrain|>json", "  json"])
    none = st.just("")
    own = draw(none | to)
    if own and "user" not in own:
        own += draw(SPACES) + draw(none | none | type_)
    own += draw(SPACES)
    channel = st.sampled_from(["analysis", "commentary", "final"]).map("<|channel|>{}".format)
    rest = draw(none | to) + draw(none | type_) + draw(SPACES)
    where = draw(none | channel)
    return f"<|start|>{draw(author)}{own}{where}{rest if where else ''}<|message|>"


@st.composite
def completions(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Turns of one message, as headers, texts and what ends them."""
    analysis = "<|start|>assistant<|channel|>analysis<|message|>"
    preamble = "<|start|>assistant<|channel|>commentary<|message|>"
    finals = (
        "<|start|>assistant<|channel|>final<|message|>",
        "<|start|>assistant<|channel|>final <|constrain|>json<|message|>",
        "<|start|>assistant<|message|>",
    )
    said = st.tuples(st.sampled_from([analysis, preamble]), texts, st.just("<|end|>"))
    before = draw(st.lists(said, max_size=3))
    if draw(st.booleans()):
        end = draw(st.sampled_from(["<|return|>", "<|end|>"]))
        return [*before, (draw(st.sampled_from(finals)), draw(texts), end)]
    header = draw(st.sampled_from(HEADERS))
    recipient = draw(words.map("functions.{}".format) | st.sampled_from(["python", "browser.open"]))
    channel = draw(st.sampled_from(["commentary", "analysis"]))
    content = draw(arguments if recipient.startswith("functions.") else texts)
    return [*before, (header.format(recipient, channel), content, "<|call|>")]


def ids_of(turns: Sequence[tuple[str, str, str]]) -> list[int]:
    """The ids after the generation prompt."""
    ids = []
    for header, text, end in turns:
        ids += spell(header) + library().encode(text, disallowed_special=()) + spell(end)
    prompt = spell("<|start|>assistant")
    assert ids[: len(prompt)] == prompt
    return ids[len(prompt) :]


def read(parsed: Sequence[Frame]) -> Message:
    """The library's messages of one completion, as one."""
    text = {id(each): "".join(part.text for part in each.content) for each in parsed}
    # Of an answer without a recipient, the library takes the kind of text for one.
    plain = [
        each for each in parsed if each.recipient in {None, "all", "assistant", "<|constrain|>json"}
    ]
    told = {
        "reasoning": [text[id(each)] for each in plain if each.channel == "analysis"],
        "content": [text[id(each)] for each in plain if each.channel != "analysis"],
    }
    calls = [(each.recipient, text[id(each)]) for each in parsed if each not in plain]
    return {**{key: "\n".join(texts) for key, texts in told.items()}, "calls": calls}


def shown(message: Message) -> Message:
    """Our message in the same form."""
    calls = []
    for call in message.get("tool_calls", []):
        if call["type"] == "code":
            calls.append((call["code"]["language"], call["code"]["source"]))
        else:
            function = call["function"]
            calls.append((f"functions.{function['name']}", function["arguments"]))
    told = {key: message.get(key) or "" for key in ("reasoning", "content")}
    return {**told, "calls": calls}


@given(turns=completions())
def test_a_completion_is_read_as_the_library_reads_it(turns: list[tuple[str, str, str]]) -> None:
    ids = ids_of(turns)
    theirs = library().parse_messages_from_completion_tokens(ids, Role.ASSISTANT)
    parsed = codec().parse(ids)
    assert shown(parsed.message) == read(theirs)
    assert parsed.finish == ("action" if turns[-1][2] == "<|call|>" else "stop")
    assert not len(parsed.rest)


@given(turns=completions(), end=st.integers(0, 400))
@settings(deadline=None)
def test_a_stream_says_what_the_library_has_read_so_far(
    turns: list[tuple[str, str, str]], end: int
) -> None:
    ids = ids_of(turns)[:end]
    parser = StreamableParser(library(), Role.ASSISTANT)
    stream = codec().stream()
    events = []
    for id_ in ids:
        parser.process(id_)
        events += stream.push(id_)
    ours = shown(collect(events))
    text = parser.current_content
    if text and not text.endswith("\ufffd") and parser.current_recipient is None:
        key = "reasoning" if parser.current_channel == "analysis" else "content"
        assert ours[key].endswith(text)


def as_message(theirs: Frame, header: str) -> tuple[str, Message]:
    """One of the library's messages in the form of [`shown`], with whose it is."""
    if "to=" not in header or theirs.recipient == "user":
        # Without a recipient, the library takes a type for one; what is for the user is no call.
        theirs.recipient = None
    role = {"developer": "system"}.get(theirs.author.role.value, theirs.author.role.value)
    if role != "assistant":
        name = theirs.author.name if role == "tool" else None
        return role, {"name": name, "content": "".join(part.text for part in theirs.content)}
    return role, read([theirs])


@given(header=headers(st.just("assistant")), text=arguments)
@settings(max_examples=3000 if data.LONG else 300)
def test_a_header_is_read_as_the_library_reads_it(header: str, text: str) -> None:
    ids = ids_of([(header, text, "<|end|>")])
    try:
        (theirs,) = library().parse_messages_from_completion_tokens(ids, Role.ASSISTANT)
    except HarmonyError:
        assert text in codec().vocab.decode(ids)
        codec().parse(ids)
        return
    assert shown(codec().parse(ids).message) == as_message(theirs, header)[1]


@given(header=headers(AUTHORS), text=texts)
@settings(max_examples=3000 if data.LONG else 300)
def test_what_others_say_is_not_the_assistants(header: str, text: str) -> None:
    said = "<|start|>assistant<|channel|>commentary<|message|>I say.<|end|>"
    own = spell(said)
    other = spell(header) + library().encode(text, disallowed_special=()) + spell("<|end|>")
    decoded = codec().decode(own + other)
    assert decoded[0] == {"role": "assistant", "content": "I say."}
    (message,) = decoded[1:]
    assert message["role"] != "assistant"
    assert message["content"].endswith(text)
    parsed = codec().parse(spell(said.removeprefix("<|start|>assistant")) + other)
    assert parsed.message == {"role": "assistant", "content": "I say."}
    assert list(parsed.rest) == other
    try:
        (theirs,) = library().parse_messages_from_completion_tokens(other, None)
    except HarmonyError:
        return
    role, expected = as_message(theirs, header)
    assert (message["role"], message["content"]) == (role, expected["content"])
    if role == "tool":
        assert message["name"] == expected["name"]


def test_an_interrupted_completion_loses_nothing() -> None:
    ids = spell("<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>fin")
    parsed = codec().parse(ids)
    assert parsed.message["reasoning"] == "Think."
    assert parsed.finish == "stop"


def code(language: str, id_: str = "c1") -> Message:
    return {"type": "code", "id": id_, "code": {"language": language, "source": "1+1"}}


def result(author: str, text: str) -> list[int]:
    """A result as the library writes it."""
    made = Frame.from_author_and_content(Author.new(Role.TOOL, author), text)
    ids: list[int] = library().render(made.with_channel("commentary").with_recipient("assistant"))
    return ids


@pytest.mark.parametrize("recipient", ["python", "browser.search", "myplugin.search"])
def test_results_come_from_whom_the_code_was_for(recipient: str) -> None:
    messages: list[Message] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [code(recipient)]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    encoding = codec().encode(messages, add_generation_prompt=False)
    expected = result(recipient, "2")
    assert encoding.ids.tolist()[-len(expected) :] == expected
    assert codec().decode(encoding) == codec().canonical(messages)
    assert codec().decode(encoding)[-1]["name"] == recipient


def test_a_function_is_not_the_tool_of_its_name() -> None:
    function = {"name": "python", "arguments": "{}"}
    messages: list[Message] = [
        {
            "role": "assistant",
            "tool_calls": [{"type": "function", "id": "a", "function": function}, code("python")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "code"},
        {"role": "tool", "tool_call_id": "a", "content": "function"},
    ]
    encoding = codec().encode(messages, add_generation_prompt=False)
    expected = result("python", "code") + result("functions.python", "function")
    assert encoding.ids.tolist()[-len(expected) :] == expected
    decoded = codec().decode(encoding)
    assert decoded == codec().canonical(messages)
    answered = [(each["name"], each["tool_call_id"]) for each in decoded[-2:]]
    assert answered == [("python", "call_1"), ("functions.python", "call_0")]


@pytest.mark.parametrize("name", ["f", "functions.f", None])
def test_a_result_is_of_the_function_that_it_names(name: str | None) -> None:
    function = {"name": "f", "arguments": "{}"}
    messages: list[Message] = [
        {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]},
        {"role": "tool", "name": name, "content": "2"},
    ]
    ids = codec().encode(messages, add_generation_prompt=False).ids.tolist()
    expected = result("functions.f", "2")
    assert ids[-len(expected) :] == expected


def test_a_result_of_nobodys_is_refused() -> None:
    messages = [{"role": "tool", "name": "assistant", "content": "2"}]
    with pytest.raises(MessageError, match="`assistant`, which begins another's turn"):
        codec().encode(messages)


@pytest.mark.parametrize(
    "header",
    [
        " to=functions.f<|channel|>commentary json",
        "<|channel|>commentary to=functions.f <|constrain|>json",
        "<|channel|>commentary to=functions.f json",
        "<|channel|>analysis<|message|>.<|end|><|start|>assistant to=functions.f json",
    ],
)
def test_a_call_is_ended_once_however_its_header_is_spelled(header: str) -> None:
    prompt = codec().encode([{"role": "user", "content": "hi"}])
    said = f"{header}<|message|>{{}}<|call|>"
    completion = library().encode(said, allowed_special="all")
    result = {"role": "tool", "tool_call_id": "call_0", "content": "1"}
    extended = codec().extend(prompt, completion, [result])
    assert extended.text == (
        f"{prompt.text}{said}<|start|>functions.f to=assistant<|channel|>commentary<|message|>1"
        "<|end|><|start|>assistant"
    )


def test_reasoning_after_an_answer_stays_where_more_follows() -> None:
    thought = "<|channel|>analysis<|message|>Think.<|end|>"
    said = f"{thought}<|start|>assistant<|channel|>final<|message|>3<|return|>"
    completion = library().encode(said, allowed_special="all")
    question = {"role": "user", "content": "hi"}
    messages = [question, {"role": "assistant", "reasoning": "First.", "content": "1"}, question]
    extended = codec().extend(codec().encode(messages), completion, [question])
    answer = {"role": "assistant", "reasoning": "Think.", "content": "3"}
    whole = [*messages, answer, question]
    assert codec().decode(extended) == codec().canonical(whole)
    # What the model stopped with stays; written again it is another token.
    assert extended.text.replace("<|return|>", "<|end|>") == codec().encode(whole).text


def test_what_a_caller_sets_comes_back() -> None:
    messages = [{"role": "user", "content": "hi"}]
    prompt = codec().encode(messages, date="2025-01-01", effort="low")
    expected = codec().canonical(messages, date="2025-01-01", effort="low")
    assert codec().decode(prompt) == expected
    with pytest.raises(MessageError, match="`effort` stands at the beginning of the prompt"):
        codec().extend(prompt, codec().stop_ids[:1], messages, effort="low")


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A header with what models make of it: white space, types and recipients moved about."""
    before = draw(
        st.sampled_from(["", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"])
    )
    to = draw(st.sampled_from(["", "to=functions.f", "to=python"]))
    channel = draw(st.sampled_from(["analysis", "commentary", "final"]))
    type_ = draw(st.sampled_from(["", " json", " code", "<|constrain|>json", "<|constrain|>"]))
    white = st.sampled_from(["", " ", "  "])
    if draw(st.booleans()):
        header = f"<|channel|>{channel}{to and ' '}{to}{draw(white)}{type_}"
    else:
        header = f"{draw(white)}{to}{draw(white)}<|channel|>{channel}{type_}"
    text, end = ('{"a": 1}', "<|call|>") if to else ("Hi.", "<|return|>")
    return f"{before}{header}{draw(white)}<|message|>{text}{end}"


@given(mutated())
@settings(max_examples=3000 if data.LONG else 100)
def test_what_the_librarys_parser_takes_we_read_alike(text: str) -> None:
    ids = spell(text)
    parser = StreamableParser(library(), Role.ASSISTANT)
    try:
        for id_ in ids:
            parser.process(id_)
        parsed = parser.process_eos().messages
    except HarmonyError:
        return
    # What is no word for a recipient or a channel is no header.
    is_header = all(
        (each.recipient in {None, "functions.f", "python"})
        and each.channel in {None, "analysis", "commentary", "final"}
        for each in parsed
    )
    if is_header:
        assert shown(codec().parse(ids).message) == read(parsed)
