"""What an answer has to be, by the names of all APIs and engines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec.serve.grammars import read_wish
from gateway_here import CODEC, HI, Here, here

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FLAT = {"type": "json_schema", "name": "x", "schema": SCHEMA}
JSON: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"response_format": {"type": "json_schema", "json_schema": FLAT}}),
    ("chat", {"guided_json": SCHEMA}),
    ("chat", {"guided_json": json.dumps(SCHEMA)}),
    ("chat", {"structured_outputs": {"json": SCHEMA, "choice": None}}),
    ("responses", {"text": {"format": FLAT, "verbosity": "low"}}),
    ("messages", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    ("messages", {"output_format": {"type": "json_schema", "schema": SCHEMA}}),
]
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
PLAIN: dict[str, dict[str, Any]] = {
    "chat": {"messages": HI},
    "responses": {"input": HI},
    "messages": {"messages": HI, "max_tokens": 50},
}


@pytest.fixture(scope="module")
def of() -> Iterator[Here]:
    with here() as made:
        yield made


@pytest.mark.parametrize(("api", "fields"), JSON)
def test_a_schema_is_one_grammar_in_every_api(of: Here, api: str, fields: dict[str, Any]) -> None:
    answer = of.post(PATHS[api], {**PLAIN[api], **fields})
    assert answer.status_code == 200, answer.text
    wanted = CODEC.constrain(
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        prompt=CODEC.encode(HI, add_generation_prompt=True),
    )
    assert of.asked[-1]["structured_outputs"] == {"structural_tag": wanted.structural_tag()}


@pytest.mark.parametrize(("api", "fields"), JSON)
def test_a_wrong_schema_has_the_path_of_the_client(
    of: Here, api: str, fields: dict[str, Any]
) -> None:
    text = (
        json.dumps(fields).replace('"string"', '"strange"').replace('\\"string\\"', '\\"strange\\"')
    )
    answer = of.post(PATHS[api], {**PLAIN[api], **json.loads(text)})
    assert answer.status_code == 400
    key = next(iter(fields))
    assert f"`{key}" in answer.json()["error"]["message"]
    if api != "messages":
        assert answer.json()["error"]["param"].startswith(key)


TAG = {"type": "structural_tag", "structures": [], "triggers": []}
RAW: list[tuple[str, dict[str, Any], dict[str, dict[str, Any]]]] = [
    (
        "regex",
        {"guided_regex": "a+"},
        {"vllm": {"structured_outputs": {"regex": "a+"}}, "sglang": {"regex": "a+"}},
    ),
    (
        "choice",
        {"structured_outputs": {"choice": ["a", "b."]}},
        {"vllm": {"structured_outputs": {"choice": ["a", "b."]}}, "sglang": {"regex": "a|b\\."}},
    ),
    (
        "grammar",
        {"guided_grammar": "root ::= a"},
        {
            "vllm": {"structured_outputs": {"grammar": "root ::= a"}},
            "sglang": {"ebnf": "root ::= a"},
            "llamacpp": {"grammar": "root ::= a"},
        },
    ),
    (
        "tag",
        {"response_format": TAG},
        {
            "vllm": {"structured_outputs": {"structural_tag": json.dumps(TAG)}},
            "sglang": {"structural_tag": json.dumps(TAG)},
        },
    ),
]


@pytest.mark.parametrize("engine", ["vllm", "vllm-generate", "sglang", "llamacpp", "lmdeploy"])
def test_a_grammar_of_a_client_goes_to_the_engine(engine: Any) -> None:  # noqa: ANN401
    with here(engine=engine) as made:
        for _, fields, sent in RAW:
            expected = sent.get(engine.removesuffix("-generate"))
            answer = made.chat(**fields)
            assert answer.status_code == (400 if expected is None else 200), answer.text
            if expected is None:
                key = next(iter(fields))
                assert answer.json()["error"]["param"].startswith(key)
            else:
                body = {**made.asked[-1], **made.asked[-1].get("sampling_params", {})}
                assert {key: body[key] for key in expected} == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_json": SCHEMA, "response_format": {"type": "json_object"}},
        {"structured_outputs": {"json": SCHEMA, "regex": "a"}},
        {"structured_outputs": {"jsn": SCHEMA}},
        {"guided_json": "{"},
        {"guided_json": 5},
        {"guided_choice": [5]},
        {"guided_choice": []},
        {"guided_regex": 5},
        {"response_format": {"type": "yaml"}},
        {
            "guided_regex": "a",
            "tool_choice": "required",
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    ],
)
def test_what_cannot_be_followed_is_refused(of: Here, fields: dict[str, Any]) -> None:
    answer = of.chat(**fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"]


def test_json_that_nothing_enforces_is_refused() -> None:
    with here(constrain="off") as made:
        for fields in ({"response_format": {"type": "json_object"}}, {"guided_json": SCHEMA}):
            assert made.chat(**fields).status_code == 400
        assert made.chat(response_format={"type": "text"}).status_code == 200


def test_text_asks_for_nothing() -> None:
    assert read_wish({"response_format": {"type": "text"}, "text": {"verbosity": "low"}}) is None
