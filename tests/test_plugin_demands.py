"""What requests demand of answers, in plug-ins: calls, strict arguments, JSON after reasoning."""

from __future__ import annotations

import json
import sys
import types
from typing import TYPE_CHECKING, Any

import engines
import pytest
from chatcodec import Codec, MessageError
from chatcodec.plugins import demands, lmdeploy, needs_sglang, needs_vllm, sglang, vllm
from test_constrain import codec_of

if TYPE_CHECKING:
    from naive import Value

PLAIN = Codec("internlm2")
USER: Any = [{"role": "user", "content": "Hi"}]
SCHEMA: Any = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
JSON = demands.json_of(SCHEMA)
TOOLS: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
STRICT: Any = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]


@pytest.fixture(scope="module")
def reasoning() -> Codec:
    return codec_of("qwen3")


def prompt_of(codec: Codec, **options: Value) -> list[int]:
    ids: list[int] = codec.encode(USER, add_generation_prompt=True, **options).ids.tolist()
    return ids


def test_json_follows_reasoning_where_there_may_be_some(reasoning: Codec) -> None:
    free, closed = prompt_of(reasoning), prompt_of(reasoning, thinking=False)
    assert (demands.may_reason(reasoning, free), demands.may_reason(reasoning, closed)) == (
        True,
        False,
    )
    tag = demands.structural_tag(reasoning, free, response_format=JSON)
    assert tag == reasoning.constrain(response_format=JSON, prompt=free).structural_tag()
    assert f"Token({reasoning.vocab.control['</think>']})" in tag
    # Where the prompt closes reasoning, the engine's own grammar is right.
    assert demands.structural_tag(reasoning, closed, response_format=JSON) is None
    assert demands.structural_tag(PLAIN, prompt_of(PLAIN), response_format=JSON) is None
    # With tools the answer is calls or JSON, which no engine's own grammar has.
    both = demands.structural_tag(PLAIN, None, tools=TOOLS, response_format=JSON)
    assert both == PLAIN.constrain(tools=TOOLS, response_format=JSON).structural_tag()


def test_a_demanded_call_follows_what_the_prompt_opens(reasoning: Codec) -> None:
    for prompt in (prompt_of(reasoning), prompt_of(reasoning, thinking=False)):
        tag = demands.structural_tag(reasoning, prompt, tools=TOOLS, tool_choice="required")
        expected = reasoning.constrain(tools=TOOLS, tool_choice="required", prompt=prompt)
        assert tag == expected.structural_tag()
    closed = demands.structural_tag(reasoning, prompt, tools=TOOLS, tool_choice="required")
    assert f"Token({reasoning.vocab.control['<think>']})" not in str(closed)


class Asked:
    """`StructuredOutputsParams` of vLLM, a fake."""

    def __init__(self, **given: Value) -> None:
        for name in ("json", "json_object", "regex", "choice", "grammar", "structural_tag"):
            setattr(self, name, given.get(name))
        self.whitespace_pattern = given.get("whitespace_pattern")


class Refused(Exception):  # noqa: N818
    """`VLLMValidationError`, a fake."""

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


@pytest.fixture
def in_vllm(monkeypatch: pytest.MonkeyPatch, reasoning: Codec) -> Value:
    """A parser of the plug-in in vLLM."""
    base = type("Base", (), {"__init__": lambda *_given, **_named: None})
    engines.install(
        monkeypatch,
        needs_vllm.CONTRACT.needs,
        {
            "vllm.parser.abstract_parser": {"Parser": base},
            "vllm.sampling_params": {"StructuredOutputsParams": Asked},
            "vllm.exceptions": {"VLLMValidationError": Refused},
        },
    )
    monkeypatch.setattr(vllm, "codec_of", lambda *_given: reasoning)
    vllm._classes.cache_clear()  # noqa: SLF001
    yield vllm.Parser(types.SimpleNamespace(name_or_path="m"))
    vllm._classes.cache_clear()  # noqa: SLF001


def request_of(asked: Asked | None, *, own: str = "response_format", **given: Value) -> Any:  # noqa: ANN401
    fields: dict[str, Any] = {"tools": None, "tool_choice": None, own: "as sent", **given}
    return types.SimpleNamespace(
        skip_special_tokens=True,
        structured_outputs=asked,
        extract_structured_outputs=lambda: asked,
        **fields,
    )


@pytest.mark.parametrize("own", ["response_format", "text"])
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (Asked(json=SCHEMA), JSON),
        (Asked(json=json.dumps(SCHEMA)), JSON),
        (Asked(json_object=True), {"type": "json_object"}),
    ],
)
def test_vllm_json_after_reasoning(
    in_vllm: Value, reasoning: Codec, asked: Asked, wanted: Value, own: str
) -> None:
    free = prompt_of(reasoning)
    in_vllm.set_prompt_token_ids(free)
    request = in_vllm.adjust_request(request_of(asked, own=own))
    tag = reasoning.constrain(response_format=wanted, prompt=free).structural_tag()
    assert request.structured_outputs.structural_tag == tag
    assert getattr(request, own) is None
    in_vllm.set_prompt_token_ids(prompt_of(reasoning, thinking=False))
    request = in_vllm.adjust_request(request_of(asked, own=own))
    assert (request.structured_outputs, getattr(request, own)) == (asked, "as sent")


@pytest.mark.parametrize(
    "asked",
    [
        Asked(regex="a+"),
        Asked(choice=["a"]),
        Asked(grammar="root ::= 'a'"),
        Asked(structural_tag="{}"),
        Asked(json=SCHEMA, whitespace_pattern=" "),
    ],
    ids=lambda asked: next(name for name, value in vars(asked).items() if value),
)
def test_vllm_refuses_what_would_shut_reasoning_out(
    in_vllm: Value, reasoning: Codec, asked: Asked
) -> None:
    in_vllm.set_prompt_token_ids(prompt_of(reasoning))
    with pytest.raises(Refused, match="the model may reason") as raised:
        in_vllm.adjust_request(request_of(asked))
    assert raised.value.parameter == "structured_outputs"
    in_vllm.set_prompt_token_ids(prompt_of(reasoning, thinking=False))
    assert in_vllm.adjust_request(request_of(asked)).structured_outputs is asked


def test_vllm_says_which_part_of_a_schema_it_cannot_promise(
    in_vllm: Value, reasoning: Codec
) -> None:
    in_vllm.set_prompt_token_ids(prompt_of(reasoning))
    wrong = Asked(json={"type": "object", "properties": {"x": {"type": "flux"}}})
    with pytest.raises(Refused, match="flux") as raised:
        in_vllm.adjust_request(request_of(wrong))
    assert str(raised.value.parameter).startswith("response_format.json_schema.schema")


def test_vllm_reads_no_answer_without_its_prompt(in_vllm: Value) -> None:
    whole = request_of(None)
    with pytest.raises(ValueError, match="wrong state"):
        in_vllm.parse("", whole, model_output_token_ids=[1])
    with pytest.raises(ValueError, match="wrong state"):
        in_vllm.parse_delta("", [1], whole, None, finished=False)


def sglang_request(**given: Value) -> Any:  # noqa: ANN401
    fields = ("response_format", "regex", "ebnf", "tools", "tool_choice", "stop_token_ids")
    made = type("Request", (), dict.fromkeys(fields))()
    made.parallel_tool_calls = True
    vars(made).update(given)
    sent = {"messages": USER, "chat_template_kwargs": given.get("chat_template_kwargs")}
    made.model_dump = lambda **_given: sent
    return made


@pytest.fixture
def in_sglang(monkeypatch: pytest.MonkeyPatch, reasoning: Codec) -> sglang.Adapter:
    engines.install(monkeypatch, needs_sglang.CONTRACT.needs)
    tags = types.ModuleType("xgrammar")
    tags.StructuralTag = types.SimpleNamespace(model_validate_json=json.loads)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xgrammar", tags)
    return sglang.Adapter(reasoning)


@pytest.mark.parametrize("key", ["schema", "schema_"])
def test_sglang_json_after_reasoning(in_sglang: sglang.Adapter, reasoning: Codec, key: str) -> None:
    asked = {"type": "json_schema", "json_schema": {"name": "a", key: SCHEMA}}
    request = sglang_request(response_format=asked)
    ids = in_sglang.encode_messages(request=request)
    expected = reasoning.constrain(response_format=JSON, prompt=ids).structural_tag()
    assert request.response_format == json.loads(expected)
    closed = sglang_request(response_format=asked, chat_template_kwargs={"enable_thinking": False})
    in_sglang.encode_messages(request=closed)
    assert closed.response_format == asked
    # A demanded call beside it is what SGLang itself refuses.
    demanded = sglang_request(response_format=asked, tools=TOOLS, tool_choice="required")
    in_sglang.encode_messages(request=demanded)
    assert demanded.response_format == asked


@pytest.mark.parametrize(
    "asked", [{"regex": "a"}, {"ebnf": "a"}, {"response_format": {"type": "structural_tag"}}]
)
def test_sglang_refuses_what_would_shut_reasoning_out(
    in_sglang: sglang.Adapter, asked: dict[str, Value]
) -> None:
    with pytest.raises(MessageError, match="the model may reason"):
        in_sglang.encode_messages(request=sglang_request(**asked))
    closed = {"chat_template_kwargs": {"enable_thinking": False}}
    in_sglang.encode_messages(request=sglang_request(**asked, **closed))


def test_lmdeploy_json_after_reasoning(reasoning: Codec) -> None:
    free, closed = prompt_of(reasoning), prompt_of(reasoning, thinking=False)
    asked = types.SimpleNamespace(
        tools=None, tool_choice="auto", response_format=JSON, parallel_tool_calls=True
    )
    expected = reasoning.constrain(response_format=JSON, prompt=free).structural_tag()
    assert lmdeploy.demanded(reasoning, free, asked) == json.loads(expected)
    assert lmdeploy.demanded(reasoning, closed, asked) is None
    asked.response_format = {"type": "regex_schema", "regex_schema": "a"}
    with pytest.raises(MessageError, match="the model may reason"):
        lmdeploy.demanded(reasoning, free, asked)
    assert lmdeploy.demanded(reasoning, closed, asked) is None
    asked.response_format, asked.tools = None, STRICT
    assert lmdeploy.demanded(reasoning, free, asked) is not None
