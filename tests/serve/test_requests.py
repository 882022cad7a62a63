"""`read_request`: what the bodies of real clients' requests become."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anthropic as anthropic_client
import data
import httpx2
import openai
import pytest
from chatcodec import Codec, Dropped, MessageError, Template, Vocab
from chatcodec.adapters import Request, anthropic, openai_chat, openai_responses
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatcodec.options import OnUnsupported
    from hypothesis.strategies import SearchStrategy
    from naive import Value

    Reader = Callable[..., Request]

CODEC = Codec("internlm2", vocab="embedded")
ASKED: dict[str, Any] = {"role": "user", "content": "Hi"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
F: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
G: dict[str, Any] = {"type": "function", "function": {"name": "g"}}
READERS: dict[str, Reader] = {
    "chat": openai_chat.read_request,
    "responses": openai_responses.read_request,
    "anthropic": anthropic.read_request,
}


def body_of(api: str, **fields: Value) -> dict[str, Any]:
    return {"input" if api == "responses" else "messages": [ASKED], **fields}


def read(api: str = "chat", codec: Codec = CODEC, **fields: Value) -> Request:
    return READERS[api](body_of(api, **fields), codec)


# The same conversation in three ways.

TEXTS = st.text(min_size=1, max_size=8).filter(str.strip)
NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@st.composite
def asked(draw: Callable[[SearchStrategy[Any]], Any]) -> dict[str, Any]:
    turns = draw(st.lists(st.tuples(TEXTS, TEXTS, NAMES, st.booleans(), TEXTS), max_size=3))
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return {
        "system": draw(st.none() | TEXTS),
        "turns": turns,
        "last": draw(TEXTS),
        "functions": [(name, draw(TEXTS)) for name in names],
    }


def in_chat(asked: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "system", "content": asked["system"]}] if asked["system"] else []
    for at, (question, answer, name, calls, result) in enumerate(asked["turns"]):
        call = {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        told = {"role": "assistant", "content": answer} | ({"tool_calls": [call]} if calls else {})
        messages += [{"role": "user", "content": question}, told]
        if calls:
            messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": result})
    functions = [
        {"name": name, "description": said, "parameters": SCHEMA, "strict": True}
        for name, said in asked["functions"]
    ]
    tools = [{"type": "function", "function": function} for function in functions]
    messages.append({"role": "user", "content": asked["last"]})
    return {"messages": messages, "tools": tools}


def in_responses(asked: dict[str, Any]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for at, (question, answer, name, calls, result) in enumerate(asked["turns"]):
        said = [{"type": "output_text", "text": answer, "annotations": []}]
        items.append({"role": "user", "content": question})
        items.append({"type": "message", "role": "assistant", "content": said})
        if calls:
            call = {"call_id": f"c{at}", "name": name, "arguments": "{}"}
            items.append({"type": "function_call", **call})
            items.append({"type": "function_call_output", "call_id": f"c{at}", "output": result})
    items.append({"role": "user", "content": asked["last"]})
    tools = [
        {
            "type": "function",
            "name": name,
            "description": said,
            "parameters": SCHEMA,
            "strict": False,
        }
        for name, said in asked["functions"]
    ]
    return {"input": items, "instructions": asked["system"], "tools": tools}


def in_anthropic(asked: dict[str, Any]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for at, (question, answer, name, calls, result) in enumerate(asked["turns"]):
        said = [*results, {"type": "text", "text": question}]
        use = {"type": "tool_use", "id": f"c{at}", "name": name, "input": {}}
        told = [{"type": "text", "text": answer}, *([use] if calls else [])]
        messages += [{"role": "user", "content": said}, {"role": "assistant", "content": told}]
        results = (
            [{"type": "tool_result", "tool_use_id": f"c{at}", "content": result}] if calls else []
        )
    last = {"type": "text", "text": asked["last"], "cache_control": {"type": "ephemeral"}}
    messages.append({"role": "user", "content": [*results, last]})
    tools = [
        {"name": name, "description": said, "input_schema": SCHEMA, "cache_control": None}
        for name, said in asked["functions"]
    ]
    system = asked["system"] and [{"type": "text", "text": asked["system"]}]
    return {"messages": messages, "system": system, "tools": tools, "max_tokens": 9}


@given(asked())
def test_three_ways_to_ask_are_one_prompt(asked: dict[str, Any]) -> None:
    chat = in_chat(asked)
    for tool in chat["tools"]:
        del tool["function"]["strict"]
    plain = CODEC.encode(chat["messages"], tools=chat["tools"])
    bodies = {"chat": in_chat(asked), "responses": in_responses(asked)}
    for api, body in {**bodies, "anthropic": in_anthropic(asked)}.items():
        request = READERS[api](body, CODEC)
        assert request.encode().ids == plain.ids
        assert request.dropped == ()
        assert request.rest == {}


# What the real clients send.


def sent(api: str, **fields: Value) -> dict[str, Any]:
    """The body that a client's library makes of arguments."""
    bodies = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(400, json={"error": {"message": "no", "type": "x"}})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    options: Any = {"api_key": "-", "max_retries": 0, "http_client": http}
    if api == "anthropic":
        with pytest.raises(anthropic_client.BadRequestError):
            anthropic_client.Anthropic(**options).messages.create(model="m", **fields)
    else:
        client = openai.OpenAI(**options)
        create: Any = client.chat.completions if api == "chat" else client.responses
        with pytest.raises(openai.BadRequestError):
            create.create(model="m", **fields)
    (body,) = bodies
    assert isinstance(body, dict)
    return body


def test_what_clients_send_is_what_their_arguments_say() -> None:
    message = ChatCompletionMessage(role="assistant", content="Yes?")
    messages = [ASKED, message, ASKED]
    more = {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
    chat = {"messages": messages, "tools": [F], "temperature": 0.5, **more}
    for api, fields in [
        ("chat", chat),
        ("responses", {"input": messages, "tools": [{"type": "function", **F["function"]}]}),
        ("anthropic", {"messages": [ASKED], "max_tokens": 3, "system": "S", **more}),
    ]:
        through = READERS[api](sent(api, **fields), CODEC)
        direct = READERS[api]({"model": "m", **fields}, CODEC)
        assert through.encode().ids == direct.encode().ids
        assert through.adapter["model"] == direct.adapter["model"] == "m"
        assert (through.limit, through.stop, through.rest) == (
            direct.limit,
            direct.stop,
            direct.rest,
        )


def test_objects_and_what_was_not_given() -> None:
    class Body(BaseModel):
        messages: list[Any]
        tools: list[Any] | None = None
        tool_choice: str | None = None
        temperature: float | None = 0.5

    given = [ASKED, ChatCompletionMessage(role="assistant", content="Yes?"), ASKED]
    plain = CODEC.encode([ASKED, {"role": "assistant", "content": "Yes?"}, ASKED])
    for body in (
        Body(messages=given),
        {"messages": tuple(given), "tools": openai.NOT_GIVEN, "stop": openai.omit},
        {"messages": iter(given), "tools": None, "tool_choice": None, "chat_template_kwargs": None},
    ):
        request = openai_chat.read_request(body, CODEC)
        assert request.encode().ids == plain.ids
        assert request.rest == ({"temperature": 0.5} if isinstance(body, Body) else {})
        assert request.adapter["tool_choice"] == "auto"


# Calls.

BY_NAME = {
    "chat": {"type": "function", "function": {"name": "g"}},
    "responses": {"type": "function", "name": "g"},
    "anthropic": {"type": "tool", "name": "g"},
}
ALLOWED = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]}


@pytest.mark.parametrize("api", READERS)
def test_tool_choice(api: str) -> None:
    tools = [F, G]
    without = CODEC.encode([ASKED]).ids
    only_g = CODEC.encode([ASKED], tools=[G]).ids
    both = CODEC.encode([ASKED], tools=tools).ids

    def choose(choice: Value, **options: Value) -> Request:
        return READERS[api](body_of(api, tools=tools, tool_choice=choice), CODEC, **options)

    none = {"type": "none"} if api == "anthropic" else "none"
    assert choose(none).encode().ids == without
    assert choose(none).adapter["tool_choice"] == "none"
    must = {"type": "any"} if api == "anthropic" else "required"
    for choice, ids in ((must, both), (BY_NAME[api], only_g)):
        with pytest.raises(MessageError, match=r"no prompt can ensure.*`constrained=True`") as e:
            choose(choice)
        assert e.value.path == "tool_choice"
        request = choose(choice, constrained=True)
        assert request.encode().ids == ids
        dropped = choose(choice, on_unsupported="drop")
        assert dropped.dropped == (Dropped("tool_choice", "tool_choice"),)
        assert dropped.adapter["tool_choice"] == "auto"
    named = choose(BY_NAME[api], constrained=True).adapter["tool_choice"]
    assert named == {"type": "function", "function": {"name": "g"}}
    allowed = choose({"type": "allowed_tools", "allowed_tools": ALLOWED})
    assert allowed.encode().ids == choose({"type": "allowed_tools", **ALLOWED}).encode().ids
    assert allowed.encode().ids == only_g


def test_calls_by_their_old_names() -> None:
    request = read(functions=[F["function"], G["function"]], function_call="none")
    assert request.encode().ids == CODEC.encode([ASKED]).ids
    request = read(functions=[F["function"]], function_call="auto")
    assert request.encode().ids == CODEC.encode([ASKED], tools=[F]).ids


@pytest.mark.parametrize(
    ("fields", "is_parallel"),
    [
        ({}, True),
        ({"parallel_tool_calls": False}, False),
        ({"parallel_tool_calls": None}, True),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, False),
    ],
)
def test_parallel_calls(fields: dict[str, Any], is_parallel: bool) -> None:  # noqa: FBT001
    for api in READERS:
        assert read(api, tools=[F], **fields).adapter["parallel_tool_calls"] is is_parallel


# Reasoning.

YES: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"chat_template_kwargs": {"enable_thinking": True}}),
    ("chat", {"chat_template_kwargs": {"thinking": True}}),
    ("chat", {"enable_thinking": True}),
    ("chat", {"thinking": {"type": "enabled"}}),
    ("chat", {"reasoning": {"enabled": True}}),
    ("chat", {"reasoning_effort": "low"}),
    ("chat", {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "none"}),
    ("responses", {"reasoning": {"effort": "high"}}),
    ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ("anthropic", {"output_config": {"effort": "max"}}),
]
NO: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("chat", {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "high"}),
    ("chat", {"enable_thinking": False}),
    ("chat", {"thinking": {"type": "disabled"}}),
    ("chat", {"reasoning_effort": "none"}),
    ("responses", {"reasoning": {"effort": "none"}}),
    ("anthropic", {"thinking": {"type": "disabled"}}),
]


@pytest.mark.parametrize(("api", "fields"), YES + NO)
def test_reasoning(api: str, fields: dict[str, Any]) -> None:
    wish = (api, fields) in YES
    both, always = (data.load_format(name, "qwen3") for name in ("qwen3", "qwen3:thinking"))
    assert read(api, both, **fields).encode().ids == both.encode([ASKED], thinking=wish).ids
    field = next(iter(fields))
    if wish:
        assert read(api, always, **fields).encode().ids == always.encode([ASKED]).ids
        with pytest.raises(MessageError, match="asks for reasoning") as e:
            read(api, **fields)
        assert e.value.path.startswith(field)
    else:
        with pytest.raises(MessageError, match="no generation prompt") as e:
            read(api, always, **fields)
        assert e.value.path.startswith(field)
        dropped = READERS[api](body_of(api, **fields), always, on_unsupported="drop")
        assert dropped.dropped[0].path.startswith(field)
        if len(fields) == 1 and "reasoning_effort" not in dict(fields):
            assert read(api, **fields).encode().ids == CODEC.encode([ASKED]).ids


def test_what_may_reason_may_do_without() -> None:
    assert read("anthropic", thinking={"type": "adaptive"}).options.get("thinking") is None
    codec = data.load_format("qwen3", "qwen3")
    request = read("anthropic", codec, thinking={"type": "adaptive", "display": "omitted"})
    assert request.options["thinking"] is True
    assert request.rest == {"thinking": {"display": "omitted"}}


def test_the_degree_of_an_effort() -> None:
    codec = Codec("harmony", vocab=data.find("vocab/gpt-oss"))
    request = read(codec=codec, reasoning_effort="high")
    assert request.encode().ids == codec.encode([ASKED], effort="high").ids
    assert request.dropped == ()
    for effort in ("none", "xhigh"):
        with pytest.raises(MessageError, match=r"expected one of `medium`, `low`, `high`") as e:
            read(codec=codec, reasoning_effort=effort)
        assert e.value.path == "reasoning_effort"
    with pytest.raises(MessageError, match="no generation prompt"):
        read(codec=codec, chat_template_kwargs={"enable_thinking": False})
    qwen = data.load_format("qwen3", "qwen3")
    assert read(codec=qwen, reasoning_effort="high").dropped == (
        Dropped("reasoning_effort", "high"),
    )


# The rest.


def test_how_a_prompt_ends() -> None:
    said = {"role": "assistant", "content": "So"}
    open_ = CODEC.encode([ASKED, said], continue_final=True).ids
    anew = CODEC.encode([ASKED, said], add_generation_prompt=True).ids
    assert read(messages=[ASKED, said], continue_final_message=True).encode().ids == open_
    assert read(messages=[ASKED, said]).encode().ids == anew
    assert read("anthropic", messages=[ASKED, said]).encode().ids == open_
    closed = read(messages=[ASKED, said], add_generation_prompt=False).encode()
    assert closed.ids == CODEC.encode([ASKED, said]).ids
    with pytest.raises(MessageError, match="expected one of them"):
        read(messages=[ASKED, said], continue_final_message=True, add_generation_prompt=True)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"documents": [{"text": "x"}]}, "documents"),
    ("chat", {"chat_template": "{{ messages }}"}, "chat_template"),
    ("chat", {"modalities": ["text", "audio"]}, "modalities"),
    ("chat", {"chat_template_kwargs": {"x": 1}}, "chat_template_kwargs.x"),
    ("chat", {"tools": [{"type": "web_search"}]}, "tools[0]"),
    ("chat", {"tools": [F], "tool_choice": {"type": "web_search"}}, "tool_choice"),
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"tools": [{"type": "file_search", "vector_store_ids": []}]}, "tools[0]"),
    ("anthropic", {"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
    ("anthropic", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
]


@pytest.mark.parametrize(("api", "fields", "path"), REFUSED)
def test_what_cannot_be_written(api: str, fields: dict[str, Any], path: str) -> None:
    with pytest.raises(MessageError, match=r'; `on_unsupported="drop"` leaves it out$') as e:
        read(api, **fields)
    assert e.value.path == path
    dropped = READERS[api](body_of(api, **fields), CODEC, on_unsupported="drop")
    assert [each.path for each in dropped.dropped] == [path]


@pytest.mark.parametrize(
    ("api", "fields", "path"),
    [
        ("chat", {"messages": None}, "messages"),
        ("chat", {"messages": "Hi"}, "messages"),
        ("responses", {"input": None}, "input"),
        ("chat", {"tools": {}}, "tools"),
        ("chat", {"tools": [7]}, "tools[0]"),
        ("chat", {"tools": [{"type": "function", "function": {}}]}, "tools[0]"),
        ("chat", {"tool_choice": "all"}, "tool_choice"),
        ("chat", {"tool_choice": "required"}, "tool_choice"),
        ("chat", {"tools": [F], "tool_choice": BY_NAME["chat"]}, "tool_choice"),
        ("chat", {"stop": [""]}, "stop[0]"),
        ("chat", {"max_tokens": "7"}, "max_tokens"),
        ("chat", {"max_tokens": True}, "max_tokens"),
        ("chat", {"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ("chat", {"chat_template_kwargs": {"enable_thinking": "no"}}, "chat_template_kwargs"),
        ("anthropic", {"thinking": {"type": "often"}}, "thinking.type"),
    ],
)
def test_what_is_wrong_is_named(api: str, fields: dict[str, Any], path: str) -> None:
    for on_unsupported in ("error", "drop"):
        with pytest.raises(MessageError, match="expected") as e:
            READERS[api](body_of(api, **fields), CODEC, on_unsupported=on_unsupported)
        assert e.value.path.startswith(path)
        assert str(e.value).startswith(f"`{e.value.path}`")


def test_bodies_that_are_none() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for body in (None, "x", [ASKED], {"messages": deep}):
        with pytest.raises(MessageError):
            openai_chat.read_request(body, CODEC)
    with pytest.raises(ValueError, match="on_unsupported"):
        openai_chat.read_request({}, CODEC, on_unsupported="never")  # type: ignore[arg-type]


def test_errors_of_messages_have_the_clients_names() -> None:
    image = {"type": "image", "source": {}}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("chat", {"messages": [ASKED, {**ASKED, "name": "a b"}]}, "messages[1].name"),
        ("responses", {"input": [ASKED, {"role": 7}], "instructions": "S"}, "input[1].role"),
        ("responses", {"input": "\ud800"}, "input"),
        ("anthropic", {"messages": [{**ASKED, "x": 1}], "system": "S"}, "messages[0].x"),
        ("anthropic", {"system": [image]}, "system[0].type"),
    ]
    for api, fields, path in cases:
        request = read(api, **fields)
        with pytest.raises(MessageError) as e:
            request.encode()
        assert e.value.path == path
        assert str(e.value).startswith(f"`{path}`")


ENGINES = st.dictionaries(
    st.sampled_from(
        ["temperature", "top_p", "seed", "user", "n", "stream", "x", "response_format"]
    ),
    st.integers() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.floats(0)),
)


@given(ENGINES, st.sampled_from(sorted(READERS)))
def test_what_is_not_ours_is_passed_on(fields: dict[str, Any], api: str) -> None:
    request = read(api, **fields)
    assert request.rest == fields
    assert request.encode().ids == CODEC.encode([ASKED]).ids


def test_what_a_response_needs() -> None:
    request = read(stop="END", max_tokens=7, max_completion_tokens=5, logprobs=True, top_logprobs=2)
    assert (request.stop, request.limit, request.rest) == (["END"], 5, {"top_logprobs": 2})
    adapter = openai_chat.ChunkStream(id="chatcmpl-1", **request.adapter)
    assert (adapter.logprobs, adapter.model) == (True, "")
    request = read(include_reasoning=False)
    assert openai_chat.ChunkStream(id="chatcmpl-1", **request.adapter).reasoning_key is None
    request = read("anthropic", stop_sequences=["a", "b"], max_tokens=3)
    assert (request.stop, request.limit, request.rest) == (["a", "b"], 3, {})
    assert anthropic.EventStream(id="msg_1", **request.adapter).model == ""
    fields: Value = {"temperature": 0.5, "instructions": "S", "max_output_tokens": 9}
    request = read("responses", **fields, reasoning={"summary": "auto"})
    responses = openai_responses.EventStream(id="resp_1", **request.adapter)
    assert responses.request == {**fields, "reasoning": {"summary": "auto"}}
    assert (responses.reasoning, request.limit) == ("summary", 9)


LONE = "\ud800"


@pytest.mark.parametrize("drop", ["error", "drop"])
@pytest.mark.parametrize("name", ["internlm2", "qwen3"])
@pytest.mark.parametrize(
    ("module", "fields"),
    [
        (openai_responses, {"include": 1}),
        (openai_responses, {"include": True}),
        (openai_responses, {"tools": [{"name": "f", "type": {"a": 1}}]}),
        (openai_chat, {"tools": [{"name": "f", "type": []}]}),
        (openai_chat, {"tools": [{"type": LONE}]}),
        (openai_chat, {"chat_template_kwargs": {LONE: "x"}}),
        (openai_chat, {"reasoning_effort": LONE}),
        (openai_chat, {"tool_choice": LONE}),
        (openai_chat, {"model": LONE}),
        (anthropic, {"tools": [{"name": "f", "input_schema": {}, "type": {}}]}),
    ],
)
def test_no_body_raises_anything_but_a_message_error(
    module: Any,  # noqa: ANN401
    fields: dict[str, Any],
    name: str,
    drop: OnUnsupported,
) -> None:
    codec = CODEC if name == "internlm2" else data.load_format(name, name)
    said = {"input": "x"} if module is openai_responses else {"messages": [ASKED]}
    body = {**said, "max_tokens": 1, **fields}
    try:
        module.read_request(body, codec, on_unsupported=drop).encode()
    except MessageError as error:
        assert error.path  # noqa: PT017


@pytest.mark.parametrize("strict", [True, False])
def test_strict_is_kept_for_the_engine(strict: bool) -> None:  # noqa: FBT001
    function = {"name": "f", "parameters": SCHEMA, "strict": strict}
    asked = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    for tool in ({"type": "function", "function": function}, {"type": "function", **function}):
        request = openai_chat.read_request(
            {**asked, "tools": [tool]}, Codec("internlm2", vocab="embedded")
        )
        assert request.strict is strict
        assert "strict" not in request.tools[0]["function"]
    tools = [{"type": "function", "function": function}]
    none = openai_chat.read_request(
        {**asked, "tools": tools, "tool_choice": "none"}, Codec("internlm2", vocab="embedded")
    )
    assert not none.strict


def called(arguments: str) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


RESULT = {"role": "tool", "tool_call_id": "a", "content": "ok"}


@pytest.mark.parametrize("policy", ["error", "drop"])
@pytest.mark.parametrize(
    ("arguments", "written"),
    [("", "{}"), (" \n", "{}"), ('{"city', '"{\\"city"'), ('{"a": 1}', '{"a": 1}')],
)
def test_calls_that_a_limit_has_cut_are_taken_back(
    policy: OnUnsupported, arguments: str, written: str
) -> None:
    body = {"messages": [ASKED, called(arguments), RESULT, ASKED]}
    encoding = openai_chat.read_request(body, CODEC, on_unsupported=policy).encode()
    call = CODEC.decode(encoding.ids)[1]["tool_calls"][0]
    assert call["function"] == {"name": "f", "arguments": written}


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_a_text_that_a_template_cuts_is_no_error(policy: OnUnsupported) -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content.split('|')[0] }}{% endfor %}"
    )
    codec = Codec(Template(source), vocab=Vocab.embedded())
    body = {"messages": [{"role": "user", "content": "a|b"}]}
    encoding = openai_chat.read_request(body, codec, on_unsupported=policy).encode()
    assert [(it.path, it.why) for it in encoding.dropped] == [("messages[0].content", "cut")]


@settings(max_examples=30)
@given(st.text(max_size=20))
def test_any_arguments_of_a_history_are_written(arguments: str) -> None:
    body = {"messages": [ASKED, called(arguments), RESULT]}
    read = openai_chat.read_request(body, CODEC)
    try:
        told = CODEC.decode(read.encode().ids)[1]["tool_calls"][0]["function"]["arguments"]
    except MessageError as error:
        assert "surrogate" in str(error)  # noqa: PT017
        return
    try:
        json.loads(arguments)
    except ValueError:
        json.loads(told)
        assert told == "{}" if not arguments.strip(" \t\r\n") else json.loads(told) == arguments
    else:
        assert told == arguments.strip(" \t\r\n")


@pytest.mark.parametrize(
    "key", ["reasoning_details", "thinking_blocks", "provider_specific_fields", "extra_content"]
)
def test_keys_that_proxies_add_are_left_out_and_listed(key: str) -> None:
    body = {"messages": [ASKED, {"role": "assistant", "content": "a", key: [{"x": 1}]}, ASKED]}
    with pytest.raises(MessageError, match=key):
        openai_chat.read_request(body, CODEC).encode()
    encoding = openai_chat.read_request(body, CODEC, on_unsupported="drop").encode()
    assert encoding.dropped == (Dropped(f"messages[1].{key}", "unknown"),)


@pytest.mark.parametrize("key", ["allowed_callers", "input_examples"])
def test_what_a_tool_says_to_the_api_is_not_written(key: str) -> None:
    tool = {"name": "f", "description": "d", "input_schema": SCHEMA, key: ["x"]}
    plain = {name: value for name, value in tool.items() if name != key}
    said = [read("anthropic", tools=[each]).tools for each in (tool, plain)]
    assert said[0] == said[1]
    function = {"name": "f", "parameters": SCHEMA, key: ["x"]}
    assert read(tools=[{"type": "function", "function": function}]).tools == [F]
