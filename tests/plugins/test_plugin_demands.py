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

PLAIN = Codec("internlm2", vocab="embedded")
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


def test_json_follows_reasoning_where_grammars_are_by_ids(reasoning: Codec) -> None:
    free, closed = prompt_of(reasoning), prompt_of(reasoning, thinking=False)
    assert demands.may_reason(reasoning, free)
    assert not demands.may_reason(reasoning, closed)
    made = demands.constraint_of(reasoning, free, response_format=JSON, by_ids=True)
    assert made is not None
    assert made.lark() == reasoning.constrain(response_format=JSON, prompt=free).lark()
    assert f"<[{reasoning.vocab.control['</think>']}]>" in made.lark()
    # xgrammar takes the id that ends reasoning for text too: JSON would not be enforced.
    for tools in ((), TOOLS):
        with pytest.raises(MessageError, match="cannot enforce after reasoning") as raised:
            demands.constraint_of(reasoning, free, tools=tools, response_format=JSON)
        assert raised.value.path == "response_format"
    # Where the prompt closes reasoning, the engine's own grammar is right.
    assert demands.constraint_of(reasoning, closed, response_format=JSON) is None
    assert demands.constraint_of(PLAIN, prompt_of(PLAIN), response_format=JSON) is None
    # With tools the answer is calls or JSON, which no engine's own grammar has.
    both = demands.constraint_of(PLAIN, None, tools=TOOLS, response_format=JSON)
    assert both is not None
    expected = PLAIN.constrain(tools=TOOLS, response_format=JSON)
    assert both.structural_tag() == expected.structural_tag()


def test_a_demanded_call_follows_what_the_prompt_opens(reasoning: Codec) -> None:
    think = f"Token({reasoning.vocab.control['<think>']})"
    for thinking in (None, False):
        options = {} if thinking is None else {"thinking": thinking}
        prompt = prompt_of(reasoning, **options)
        made = demands.constraint_of(reasoning, prompt, tools=TOOLS, tool_choice="required")
        assert made is not None
        expected = reasoning.constrain(tools=TOOLS, tool_choice="required", prompt=prompt)
        assert made.structural_tag() == expected.structural_tag()
        assert (think in made.structural_tag()) is (thinking is None)


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
def test_vllm_json_after_reasoning(  # noqa: PLR0913, PLR0917
    in_vllm: Value,
    reasoning: Codec,
    asked: Asked,
    wanted: Value,
    own: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = prompt_of(reasoning)
    in_vllm.set_prompt_token_ids(free)
    with pytest.raises(Refused, match="cannot enforce after reasoning") as raised:
        in_vllm.adjust_request(request_of(asked, own=own))
    assert raised.value.parameter == "response_format"
    monkeypatch.setattr(vllm, "_BACKEND", "guidance")
    request = in_vllm.adjust_request(request_of(asked, own=own))
    lark = reasoning.constrain(response_format=wanted, prompt=free).lark()
    assert request.structured_outputs.grammar == lark
    assert getattr(request, own) is None
    for backend in ("guidance", "auto"):
        monkeypatch.setattr(vllm, "_BACKEND", backend)
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
    in_vllm: Value, reasoning: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "_BACKEND", "guidance")
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
def test_sglang_json_where_the_model_may_reason(
    in_sglang: sglang.Adapter, reasoning: Codec, key: str
) -> None:
    asked = {"type": "json_schema", "json_schema": {"name": "a", key: SCHEMA}}
    with pytest.raises(MessageError, match="cannot enforce after reasoning"):
        in_sglang.encode_messages(request=sglang_request(response_format=asked))
    closed = {"chat_template_kwargs": {"enable_thinking": False}}
    alone = sglang_request(response_format=asked, **closed)
    in_sglang.encode_messages(request=alone)
    assert alone.response_format == asked
    beside = sglang_request(response_format=asked, tools=TOOLS, **closed)
    ids = in_sglang.encode_messages(request=beside)
    expected = reasoning.constrain(tools=TOOLS, response_format=JSON, prompt=ids)
    assert beside.response_format == json.loads(expected.structural_tag())
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


def test_lmdeploy_json_where_the_model_may_reason(reasoning: Codec) -> None:
    free, closed = prompt_of(reasoning), prompt_of(reasoning, thinking=False)
    asked = types.SimpleNamespace(
        tools=None, tool_choice="auto", response_format=JSON, parallel_tool_calls=True
    )
    with pytest.raises(MessageError, match="cannot enforce after reasoning"):
        lmdeploy.demanded(reasoning, free, asked)
    assert lmdeploy.demanded(reasoning, closed, asked) is None
    asked.response_format = {"type": "regex_schema", "regex_schema": "a"}
    with pytest.raises(MessageError, match="the model may reason"):
        lmdeploy.demanded(reasoning, free, asked)
    assert lmdeploy.demanded(reasoning, closed, asked) is None
    asked.response_format, asked.tools = None, STRICT
    assert lmdeploy.demanded(reasoning, free, asked) is not None
