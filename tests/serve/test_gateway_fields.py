"""Fields of requests: refused as the servers of OpenAI and vLLM refuse them, and by policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chatcodec.serve.backends import BACKENDS
from chatcodec.serve.errors import ApiError
from chatcodec.serve.fields import FIELDS
from chatcodec.serve.ids import Ids
from chatcodec.serve.policy import Policy
from chatcodec.serve.settings import Settings
from chatcodec.serve.sorting import Sorter
from gateway import MODEL
from gateway_here import CODEC, HI, Here, here
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator


PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
PLAIN: dict[str, dict[str, Any]] = {
    "chat": {"messages": HI},
    "responses": {"input": HI},
    "messages": {"messages": HI, "max_tokens": 50},
}
END = CODEC.stop_ids[0]
SIZE = CODEC.vocab.size
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def named(name: str) -> Any:  # noqa: ANN401
    return {"type": "function", "function": {"name": name}}


@pytest.fixture(scope="module")
def of() -> Iterator[Here]:
    with here() as made:
        yield made


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"messages": []}, "messages"),
    ("responses", {"input": []}, "input"),
    ("messages", {"messages": []}, "messages"),
    ("chat", {"messages": [{"role": "user"}]}, "messages[0].content"),
    ("chat", {"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ("chat", {"messages": [*HI, {"role": "tool", "tool_call_id": "c"}]}, "messages[1].content"),
    ("responses", {"input": [{"role": "user"}]}, "input[0].content"),
    ("messages", {"messages": [{"role": "user"}]}, "messages[0].content"),
    ("chat", {"top_logprobs": 2}, "top_logprobs"),
    ("chat", {"top_logprobs": 2, "logprobs": False}, "top_logprobs"),
    ("chat", {"top_logprobs": -1, "logprobs": True}, "top_logprobs"),
    ("chat", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("chat", {"stream_options": {}, "stream": False}, "stream_options"),
    ("chat", {"tool_choice": "auto"}, "tool_choice"),
    ("chat", {"tool_choice": "required"}, "tool_choice"),
    ("messages", {"tool_choice": {"type": "auto"}}, "tool_choice"),
    ("chat", {"function_call": "auto"}, "function_call"),
    ("chat", {"seed": 2**63}, "seed"),
    ("chat", {"seed": -(2**63) - 1}, "seed"),
    ("chat", {"seed": 10**4000}, "seed"),
    ("chat", {"seed": 1.5}, "seed"),
    ("chat", {"top_p": 0}, "top_p"),
    ("chat", {"top_p": 1.01}, "top_p"),
    ("chat", {"top_k": -2}, "top_k"),
    ("chat", {"top_k": 1.5}, "top_k"),
    ("chat", {"min_p": -0.1}, "min_p"),
    ("chat", {"repetition_penalty": 0}, "repetition_penalty"),
    ("chat", {"repetition_penalty": -5}, "repetition_penalty"),
    ("chat", {"presence_penalty": 2.1}, "presence_penalty"),
    ("chat", {"frequency_penalty": -2.1}, "frequency_penalty"),
    ("chat", {"temperature": -0.1}, "temperature"),
    ("chat", {"temperature": True}, "temperature"),
    ("chat", {"min_tokens": -1}, "min_tokens"),
    ("chat", {"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
    ("chat", {"min_tokens": 9, "max_completion_tokens": 8}, "min_tokens"),
    ("chat", {"max_completion_tokens": 0}, "max_completion_tokens"),
    ("responses", {"max_output_tokens": 0}, "max_output_tokens"),
    ("messages", {"max_tokens": 0}, "max_tokens"),
    ("chat", {"logit_bias": {"abc": 1}}, "logit_bias"),
    ("chat", {"logit_bias": {"5.0": 1}}, "logit_bias"),
    ("chat", {"logit_bias": {"5": 200}}, "logit_bias"),
    ("chat", {"logit_bias": {"5": "1"}}, "logit_bias"),
    ("chat", {"logit_bias": {str(SIZE): 1}}, "logit_bias"),
    ("chat", {"logit_bias": {str(END): -100}}, "logit_bias"),
    ("chat", {"logit_bias": {str(CODEC.vocab.control["<|im_start|>"]): 5}}, "logit_bias"),
    ("chat", {"allowed_token_ids": []}, "allowed_token_ids"),
    ("chat", {"allowed_token_ids": [SIZE]}, "allowed_token_ids"),
    ("chat", {"allowed_token_ids": [CODEC.vocab.control["<|im_start|>"]]}, "allowed_token_ids"),
    ("chat", {"stop_token_ids": ["5"]}, "stop_token_ids"),
    ("chat", {"stop_token_ids": [-1]}, "stop_token_ids"),
    ("chat", {"bad_words": [5]}, "bad_words"),
    ("chat", {"ignore_eos": True}, "ignore_eos"),
    ("chat", {"kv_transfer_params": {"remote_host": "10.0.0.1"}}, "kv_transfer_params"),
    ("chat", {"priority": 1.5}, "priority"),
    ("chat", {"cache_salt": ""}, "cache_salt"),
    ("chat", {"prompt_logprobs": 1}, "prompt_logprobs"),
    ("chat", {"best_of": 2}, "best_of"),
    ("chat", {"echo": True}, "echo"),
    ("responses", {"background": True}, "background"),
    ("responses", {"n": 2}, "n"),
    ("messages", {"response_format": {"type": "json_object"}}, "response_format"),
    ("chat", {"tools": [named("get weather")]}, "tools[0].function.name"),
    ("chat", {"tools": [named("a" * 65)]}, "tools[0].function.name"),
    ("chat", {"tools": [named("Ä")]}, "tools[0].function.name"),
    ("chat", {"tools": [named("a"), named("b"), named("a")]}, "tools[2].function.name"),
    ("responses", {"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
    ("messages", {"tools": [{"name": "a\n", "input_schema": {}}]}, "tools[0].name"),
    ("chat", {"temperatures": 1}, "temperatures"),
    ("chat", {"extra_body": {"temperatures": 1}}, "temperatures"),
    ("chat", {"extra_body": {"seed": 2**63}}, "seed"),
]


@pytest.mark.parametrize(("api", "fields", "param"), REFUSED)
def test_a_senseless_field_is_refused(
    of: Here, api: str, fields: dict[str, Any], param: str
) -> None:
    before = len(of.asked)
    answer = of.post(PATHS[api], {**PLAIN[api], **fields})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert param.split("[", maxsplit=1)[0] in error["message"]
    assert len(error["message"]) < 400
    if api != "messages":
        assert error["param"] == param
    assert len(of.asked) == before


def test_no_number_is_infinite(of: Here) -> None:
    for raw, param in (
        ('{"model": "demo", "messages": [], "top_k": 1e400}', "top_k"),
        ('{"model": "demo", "messages": [], "temperature": NaN}', "temperature"),
        ('{"model": "demo", "messages": [], "logit_bias": {"5": -1e999}}', "logit_bias.5"),
        ('{"model": "demo", "tools": [{"a": {"maximum": Infinity}}]}', "tools[0].a.maximum"),
        ('{"seed": -Infinity}', "seed"),
    ):
        headers = {"content-type": "application/json"}
        answer = of.client.post(f"{of.v1}/chat/completions", content=raw, headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == param


ACCEPTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("chat", {"seed": 2**63 - 1}, {"seed": 2**63 - 1}),
    ("chat", {"top_p": 1, "top_k": -1}, {"top_p": 1, "top_k": -1}),
    ("chat", {"repetition_penalty": 0.1}, {"repetition_penalty": 0.1}),
    ("chat", {"min_tokens": 8, "max_tokens": 8}, {"min_tokens": 8, "max_tokens": 8}),
    ("chat", {"logit_bias": {"5": -100, "6": 100.0}}, {"logit_bias": {"5": -100, "6": 100.0}}),
    ("chat", {"allowed_token_ids": [5, END]}, {"allowed_token_ids": [5, END]}),
    ("chat", {"ignore_eos": False, "priority": 0, "store": False, "echo": False}, {}),
    ("chat", {"tool_choice": "none", "top_logprobs": 0}, {}),
    ("chat", {"cache_salt": "s", "bad_words": ["x"]}, {"cache_salt": "s", "bad_words": ["x"]}),
    ("chat", {"thinking_token_budget": 5}, {"thinking_token_budget": 5}),
    ("chat", {"priority": -3, "request_id": "r"}, {"priority": -3, "request_id": "r"}),
    ("responses", {"background": False, "store": False, "truncation": "auto"}, {}),
    ("responses", {"seed": 5, "stream": True, "stream_options": {}}, {"seed": 5}),
    ("messages", {"top_k": 5, "metadata": {"user_id": "u"}}, {"top_k": 5}),
    ("chat", {"user": "u", "metadata": {}, "service_tier": "auto", "seed": None}, {}),
    ("chat", {"messages": [*HI, {"role": "assistant", "content": None}, *HI]}, {}),
    ("chat", {"tools": [named("a.b-C_9"), named("a" * 64)]}, {}),
    ("chat", {"extra_body": {"seed": 3}}, {"seed": 3}),
]


@pytest.mark.parametrize(("api", "fields", "sent"), ACCEPTED)
def test_a_field_with_sense_goes_to_the_engine(
    of: Here, api: str, fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    answer = of.post(PATHS[api], {**PLAIN[api], **fields})
    assert answer.status_code == 200, answer.text
    assert "x-chatcodec-dropped" not in answer.headers
    own = {"model", "prompt", "stream", "stream_options", "return_token_ids", "stop_token_ids"}
    own |= {"skip_special_tokens"}
    body = {key: of.asked[-1][key] for key in of.asked[-1].keys() - own}
    body.pop("max_tokens" if "max_tokens" not in sent else "", None)
    assert body == sent


@pytest.mark.parametrize("api", PATHS)
def test_null_asks_for_nothing(of: Here, api: str) -> None:
    nulls = dict.fromkeys(FIELDS[api])
    answer = of.post(PATHS[api], {**nulls, **PLAIN[api]})
    assert answer.status_code == 200, answer.text
    assert "x-chatcodec-dropped" not in answer.headers


def test_no_model_is_the_one_that_is_served(of: Here) -> None:
    for api, path in PATHS.items():
        answer = of.post(path, {**PLAIN[api], "model": None})
        assert answer.json()["model"] == MODEL
        assert of.asked[-1]["model"] == MODEL
    assert of.post("/tokenize", {"model": "other", "prompt": ""}).status_code == 404


def test_unknown_fields_go_where_the_operator_says() -> None:
    given = {"mirostat": 2, "prompt": "forged", "stream": False}
    with here(unknown_fields="drop") as made:
        answer = made.chat(mirostat=2, **{"x\r\ny": 1})
        assert answer.headers["x-chatcodec-dropped"] == "mirostat=1, other=1"
        assert "mirostat" not in made.asked[-1]
        assert made.metric('chatcodec_dropped_total{kind="other"}') == 2  # mirostat is no label
        crowd = made.chat(**{f"f{n}": n for n in range(500)})
        assert len(crowd.headers["x-chatcodec-dropped"]) < 200
        # A message's own keys, options of the template, and what the engine does not know.
        odd: Any = [{"role": "user", "content": "Hi", "mood": "bad"}]
        other = {"role": "critic", "content": "No."}
        answer = made.chat(messages=[other, *odd], chat_template_kwargs={"x": 1}, lora_path="a")
        assert answer.status_code == 200
        told = "lora_path=1, option=1, role=1, unknown=1"
        assert answer.headers["x-chatcodec-dropped"] == told
        assert "No." not in made.prompt
        wrong = made.chat(messages=[other, {"role": "user", "content": 5}])
        assert wrong.json()["error"]["param"] == "messages[1].content"
    with here(unknown_fields="pass") as made:
        assert made.chat(**given).status_code == 200
        assert made.asked[-1]["mirostat"] == 2
        assert isinstance(made.asked[-1]["prompt"], list)
        assert made.asked[-1]["stream"] is True
        assert made.chat(ignore_eos=True).status_code == 400


def test_the_operator_allows_a_field_or_leaves_it_out() -> None:
    with here(
        allowed_fields=("ignore_eos",), on_unsupported="drop=echo,kv_transfer_params"
    ) as made:
        answer = made.chat(ignore_eos=True, echo=True, kv_transfer_params={"a": 1})
        assert answer.headers["x-chatcodec-dropped"] == "echo=1, kv_transfer_params=1"
        assert made.asked[-1]["ignore_eos"] is True
        assert "kv_transfer_params" not in made.asked[-1]
        assert made.chat(best_of=2).status_code == 400


def test_what_a_router_adds_is_left_out_and_told() -> None:
    with here() as made:
        assert made.chat(store=True).headers["x-chatcodec-dropped"] == "store=1"
        assert "x-chatcodec-dropped" not in made.chat(store=False).headers


@pytest.mark.parametrize("engine", BACKENDS)
def test_every_engine_gets_the_fields_that_it_knows(engine: Any) -> None:  # noqa: ANN401
    values: dict[str, Any] = {
        "priority": 3,
        "cache_salt": "s",
        "lora_path": "l",
        "typical_p": 0.5,
        "min_tokens": 2,
        "seed": 7,
    }
    known = BACKENDS[engine].known()
    with here(engine=engine) as made:
        for key, value in values.items():
            answer = made.chat(**{key: value})
            assert answer.status_code == (200 if key in known else 400), key
            if key in known:
                sent = made.asked[-1]
                inner = {**sent, **sent.get("sampling_params", {})}
                own = {**BACKENDS[engine].sampling, **BACKENDS[engine].fields}[key]
                assert inner[own] == value
            else:
                assert answer.json()["error"]["param"] == key


def test_the_table_knows_what_the_backends_know() -> None:
    for backend in BACKENDS.values():
        for table in FIELDS.values():
            assert backend.known() <= table.keys()


NUMBERS = [
    (name, row)
    for name, row in FIELDS["chat"].items()
    if row.kind in {"number", "integer"} and row.use == "engine" and not row.guarded
]


@settings(max_examples=80)
@given(st.sampled_from(NUMBERS), st.data())
def test_a_number_is_accepted_within_its_bounds_alone(row: Any, data: Any) -> None:  # noqa: ANN401

    name, field = row
    edges = [each for each in (field.least, field.most, field.above) if each is not None]
    near = [edge + step for edge in edges for step in (-1, -1e-9, 0, 1e-9, 1)]
    anything = st.integers() | st.floats() | st.booleans() | st.text(max_size=3)
    value = data.draw(st.sampled_from(near) | anything)
    sorter = Sorter(Policy.of(Settings(backend="http://x")), {name})
    fits = (
        not isinstance(value, bool)
        and isinstance(value, int if field.kind == "integer" else (int, float))
        and (field.least is None or value >= field.least)
        and (field.most is None or value <= field.most)
        and (field.above is None or value > field.above)
        and abs(value) != float("inf")
    )
    try:
        sorted_ = sorter.sort("chat", {name: value})
    except ApiError as error:
        assert not fits, (name, value)
        assert (error.status, error.param) == (400, name)  # noqa: PT017
    else:
        assert fits, (name, value)
        assert sorted_.engine == ({} if value in field.idle else {name: value})


@settings(max_examples=60)
@given(st.integers(-3, SIZE + 3))
def test_a_client_biases_text_alone(id_: int) -> None:

    spelled = CODEC.vocab.control.values()
    is_text = 0 <= id_ < SIZE and id_ not in spelled
    try:
        Ids(CODEC).check({"logit_bias": {str(id_): 1}})
    except ApiError:
        assert not is_text
    else:
        assert is_text
