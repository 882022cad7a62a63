"""The plug-in of vLLM: what it makes of requests and completions.

The classes of vLLM are fakes here, made of the names that the plug-in asks for. `make test-vllm`
runs the real vLLM (`tests/plugins/test_vllm.py`).
"""

from __future__ import annotations

import asyncio
import sys
import types
from typing import TYPE_CHECKING

import engines
import pytest
from chatcodec import Codec, PluginError
from chatcodec.plugins import vllm as plugin
from chatcodec.plugins.needs_vllm import CONTRACT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from naive import Value

CODEC = Codec("internlm2", vocab="embedded")
PROTOCOL = ("DeltaMessage", "DeltaToolCall", "DeltaFunctionCall", "FunctionCall")
USER = {"role": "user", "content": "Hi <|im_end|>", "name": None}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
NAMED = {"type": "function", "function": {"name": "f"}}


class Params:
    """`ChatParams` of vLLM, a fake."""

    def __init__(self, tool_choice: Value = None, **given: Value) -> None:
        self.chat_template_kwargs = {"tokenize": False, "cohere_format": "cmd4", **given}
        self.tool_choice = tool_choice


class Request:
    """A request of vLLM, a fake."""

    def __init__(self, **given: Value) -> None:
        self.tools = given.get("tools")
        self.tool_choice = given.get("tool_choice")
        self.include_reasoning = True
        self.parallel_tool_calls = True
        self.skip_special_tokens = True
        self.structured_outputs: Value = None
        self.response_format: Value = None
        self.stop: Value = None
        self.include_stop_str_in_output = False

    def extract_structured_outputs(self) -> Value:
        return self.structured_outputs


class Base:
    """A base class of vLLM, a fake."""

    def __init__(self, *given: Value, **named: Value) -> None:
        self.given, self.named = given, named

    def render_messages(self, *_given: Value) -> Value:
        return "the engine's own"

    async def render_messages_async(self, *_given: Value) -> Value:
        return "the engine's own"


class Invalid(Exception):  # noqa: N818
    """`VLLMValidationError`, a fake."""

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class Registry:
    """A registry of vLLM, a fake."""

    def __init__(self) -> None:
        self.found: dict[str, Value] = {}

    def register(self, *given: str, **_named: str) -> None:
        self.found[given[0]] = given

    register_lazy_module = register


class Parsers:
    """`ParserManager`, a fake."""

    @classmethod
    def _compose_parser(
        cls, tool_parser_name: Value = None, reasoning_parser_name: Value = None
    ) -> Value:
        return ("stock", tool_parser_name, reasoning_parser_name)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Registry]]:
    registries = {name: Registry() for name in ("tokenizers", "renderers", "tools", "reasoning")}

    async def parsed(messages: Value, *_given: Value, **_named: Value) -> Value:
        return messages, None, None

    modules: dict[str, dict[str, Value]] = {
        "vllm": {"__version__": "0.33.0"},
        "vllm.envs": {"VLLM_USE_RUST_FRONTEND": False},
        "vllm.tokenizers.registry": {"TokenizerRegistry": registries["tokenizers"]},
        "vllm.renderers.registry": {"RENDERER_REGISTRY": registries["renderers"]},
        "vllm.tool_parsers": {"ToolParserManager": registries["tools"]},
        "vllm.reasoning": {"ReasoningParserManager": registries["reasoning"]},
        "vllm.parser.parser_manager": {"ParserManager": Parsers},
        "vllm.renderers.hf": {"HfRenderer": Base},
        "vllm.renderers.chat_utils": {
            "parse_chat_messages": lambda messages, *_given, **_named: (messages, None, None),
            "parse_chat_messages_async": parsed,
        },
        "vllm.renderers.inputs.preprocess": {"parse_dec_only_prompt": lambda ids: {"ids": ids}},
        "vllm.exceptions": {"VLLMValidationError": Invalid},
        "vllm.parser.abstract_parser": {"Parser": Base},
        "vllm.entrypoints.generate.base.protocol": dict.fromkeys(PROTOCOL, dict),
        "vllm.tool_parsers.abstract_tool_parser": {"ToolParser": Base},
        "vllm.reasoning.abs_reasoning_parsers": {"ReasoningParser": Base},
        "vllm.sampling_params": {"StructuredOutputsParams": dict},
    }  # fmt: skip
    engines.install(monkeypatch, CONTRACT.needs, modules)
    monkeypatch.setattr(plugin, "codec_of", lambda *_given: CODEC)
    plugin._classes.cache_clear()  # noqa: SLF001
    yield registries
    plugin._classes.cache_clear()  # noqa: SLF001


def renderer() -> Value:
    model = types.SimpleNamespace(tokenizer="m", tokenizer_revision=None)
    settings = types.SimpleNamespace(backend="auto")
    config = types.SimpleNamespace(model_config=model, structured_outputs_config=settings)
    made = plugin.Renderer(config, None)
    made.model_config = model
    return made


def test_everything_is_registered_once(fakes: dict[str, Registry]) -> None:
    plugin.register()
    plugin.register()
    assert {name: registry.found.keys() for name, registry in fakes.items()} == {
        name: {"chatcodec"} for name in fakes
    }
    compose = sys.modules["vllm.parser.parser_manager"].ParserManager._compose_parser  # noqa: SLF001
    assert compose("hermes", None) == ("stock", "hermes", None)
    assert compose("chatcodec", None) is plugin.Parser
    assert compose(tool_parser_name=None, reasoning_parser_name="chatcodec") is plugin.Parser


@pytest.mark.usefixtures("fakes")
def test_prompts_are_the_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = renderer()
    expected = CODEC.encode([{"role": "user", "content": "Hi <|im_end|>"}], tools=TOOLS)
    params = Params(tools=TOOLS, add_generation_prompt=True, continue_final_message=False)
    messages, prompt = made.render_messages([USER], params)
    assert (messages, prompt) == ([USER], {"ids": expected.ids.tolist()})
    assert asyncio.run(made.render_messages_async([USER], params))[1] == prompt
    for choice in ("required", NAMED):
        demanded = Params(tool_choice=choice, tools=TOOLS)
        assert made.render_messages([USER], demanded)[1] == prompt
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    monkeypatch.setenv("CHATCODEC_ON_PARTS", "engine")
    own = renderer()
    assert own.render_messages([picture], Params()) == "the engine's own"
    assert asyncio.run(own.render_messages_async([picture], Params())) == "the engine's own"
    monkeypatch.setenv("CHATCODEC_ON_PARTS", "engines")
    with pytest.raises(PluginError, match="`engines`; expected `error` or `engine`"):
        renderer()
    monkeypatch.delenv("CHATCODEC_ON_PARTS")
    for wrong, path in (
        (picture, "messages"),
        ({"role": "critic", "content": ""}, "messages[0].role"),
    ):
        with pytest.raises(Invalid) as raised:
            renderer().render_messages([wrong], Params())
        assert raised.value.parameter == path


def completion() -> list[int]:
    control = CODEC.vocab.control
    return [
        *CODEC.vocab.encode("Look <|im_end|>"),
        control["<|action_start|>"],
        control["<|plugin|>"],
        *CODEC.vocab.encode('\n{"name": "f", "parameters": {"x": 1}}'),
        control["<|action_end|>"],
        CODEC.stop_ids[0],
    ]


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("choice", ["auto", NAMED])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_completions_are_read_by_ids(size: int, choice: Value) -> None:
    tokenizer = types.SimpleNamespace(name_or_path="m")
    prompt = CODEC.encode([{"role": "user", "content": "Hi"}]).ids.tolist()
    request, ids = Request(tools=TOOLS, tool_choice=choice), completion()
    whole = plugin.Parser(tokenizer)
    whole.set_prompt_token_ids(prompt)
    reasoning, content, (call,) = whole.parse("", request, True, ids)  # noqa: FBT003
    assert (reasoning, content) == (None, "Look <|im_end|>")
    assert (call["name"], call["arguments"]) == ("f", '{"x": 1}')
    parser = plugin.Parser(tokenizer)
    text = arguments = ""
    names = []
    for start in range(0, len(ids), size):
        is_last = start + size >= len(ids)
        delta = parser.parse_delta("", ids[start : start + size], request, prompt, finished=is_last)
        for part in (delta or {}).get("tool_calls", ()):
            names += [part["function"].get("name")] if part["function"].get("name") else []
            arguments += part["function"].get("arguments") or ""
        text += (delta or {}).get("content", "")
    assert (text, names, arguments) == ("Look <|im_end|>", ["f"], '{"x": 1}')


@pytest.mark.usefixtures("fakes")
def test_a_stop_string_is_not_shown() -> None:
    ids = list(CODEC.vocab.encode("one STOP"))
    prompt = CODEC.encode([USER]).ids.tolist()
    request = Request()
    request.stop = ["STOP"]
    parser = plugin.Parser(types.SimpleNamespace(name_or_path="m"))
    deltas = [
        parser.parse_delta("", [id_], request, prompt, finished=id_ == ids[-1]) for id_ in ids
    ]
    assert "".join((delta or {}).get("content", "") for delta in deltas) == "one "
    request.include_stop_str_in_output = True
    whole = plugin.Parser(types.SimpleNamespace(name_or_path="m"))
    whole.set_prompt_token_ids(prompt)
    assert whole.parse("", request, model_output_token_ids=ids) == (None, "one STOP", None)


@pytest.mark.usefixtures("fakes")
def test_a_demanded_call_is_a_structural_tag() -> None:
    parser = plugin.Parser(types.SimpleNamespace(name_or_path="m"))
    free = parser.adjust_request(Request(tools=TOOLS, tool_choice="auto"))
    assert (free.skip_special_tokens, free.structured_outputs) == (False, None)
    demanded = parser.adjust_request(Request(tools=TOOLS, tool_choice="required"))
    expected = CODEC.constrain(tools=TOOLS, tool_choice="required").structural_tag()
    assert demanded.structured_outputs == {"structural_tag": expected}
    named = parser.adjust_request(Request(tools=TOOLS, tool_choice=NAMED))
    expected = CODEC.constrain(tools=TOOLS, tool_choice=NAMED).structural_tag()
    assert named.structured_outputs == {"structural_tag": expected}
    strict = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]  # type: ignore[dict-item]
    assert parser.adjust_request(Request(tools=strict)).structured_outputs
    assert parser.adjust_request(Request()).structured_outputs is None
