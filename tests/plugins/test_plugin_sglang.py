"""The plug-in of SGLang: what it registers, and what it makes of requests and ids.

The modules of SGLang are fakes here, made of the names that the plug-in asks for. `make
test-plugins` runs it in SGLang's own code (`tests/plugins/test_sglang.py`).
"""

from __future__ import annotations

import importlib.metadata
import types
from typing import TYPE_CHECKING, Any

import engines
import pytest
from chatcodec import Codec
from chatcodec.plugins import sglang as plugin
from chatcodec.plugins.needs_sglang import CONTRACT

if TYPE_CHECKING:
    from collections.abc import Callable

    from naive import Value

CODEC = Codec("internlm2", vocab="embedded")
SERVING = "sglang.srt.entrypoints.openai"
USER: Any = {"role": "user", "content": "Hi <|im_end|>"}
TOOLS: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Request:
    """`ChatCompletionRequest`, a fake."""

    def __init__(self, **given: Value) -> None:
        self.model = "m"
        self.sent = {"messages": [USER], **given}
        self.tools = given.get("tools")
        self.tool_choice = given.get("tool_choice", "auto")
        self.stop_token_ids = given.get("stop_token_ids")
        self.input_ids = given.get("input_ids")
        self.stop = given.get("stop")
        self.response_format = given.get("response_format")
        self.regex = self.ebnf = None
        self.separate_reasoning = True
        self.parallel_tool_calls = True
        self.no_stop_trim = False

    def model_dump(self, **_given: bool) -> dict[str, Value]:
        return self.sent


def item(**given: Value) -> types.SimpleNamespace:
    return types.SimpleNamespace(**given)


class Hooks:
    """`HookRegistry`, a fake."""

    found: dict[str, Callable[..., Value]]

    @classmethod
    def register(cls, target: str, hook: Callable[..., Value], hook_type: str) -> None:
        assert hook_type == "around"
        cls.found[target.rsplit(".", 1)[1]] = hook


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, types.ModuleType]:
    Hooks.found = {}
    base = type("Base", (), {"__init__": lambda *_given, **_named: None})
    serving = item(incremental_streaming_output=True, reasoning_parser=None)
    members: dict[str, dict[str, Value]] = {
        "sglang": {"__version__": "0.5.23"},
        "sglang.srt.environ": {"envs": item(SGLANG_RUST_SERVER=item(get=lambda: False))},
        f"{SERVING}.chat_encoding_adapters": {
            "_BUILDERS": {},
            "select_new_output_ids": lambda output_ids, **_given: output_ids,
            "token_output_sse_chunks": lambda **given: [given],
        },
        f"{SERVING}.chat_encoding": {
            "resolve_chat_encoding_spec": lambda **_given: "stock",
            "spec_renders_prompt_ids": lambda spec: spec == "inkling",
        },
        f"{SERVING}.protocol": {"ToolCall": item, "FunctionResponse": item},
        "sglang.srt.function_call.function_call_parser": {
            "FunctionCallParser": item(ToolCallParserEnum={})
        },
        "sglang.srt.function_call.base_format_detector": {"BaseFormatDetector": base},
        "sglang.srt.function_call.core_types": {"ToolCallItem": item},
        "sglang.srt.parser.reasoning_parser": {
            "ReasoningParser": item(DetectorMap={}),
            "BaseReasoningFormatDetector": base,
        },
        "sglang.srt.plugins.hook_registry": {
            "HookRegistry": Hooks,
            "HookType": item(AROUND="around"),
        },
        "sglang.srt.runtime_context": {"get_serving": lambda: serving},
    }
    modules = engines.install(monkeypatch, CONTRACT.needs, members)
    monkeypatch.setattr(plugin, "codec_of", lambda *_given: CODEC)
    return modules


def test_it_is_an_entry_point() -> None:
    (found,) = importlib.metadata.entry_points(group="sglang.srt.plugins", name="chatcodec")
    assert found.load() is plugin.register


def test_everything_is_registered_once(fakes: dict[str, types.ModuleType]) -> None:
    plugin.register()
    hooks = dict(Hooks.found)
    plugin.register()
    assert hooks == Hooks.found
    adapters = fakes[f"{SERVING}.chat_encoding_adapters"]
    build = adapters._BUILDERS["chatcodec"]["builtin"]  # noqa: SLF001
    assert isinstance(build(item(model_path="m", revision=None)), plugin.Adapter)
    encoding = fakes[f"{SERVING}.chat_encoding"]
    resolve = Hooks.found["resolve_chat_encoding_spec"]
    stock = encoding.resolve_chat_encoding_spec
    assert resolve(stock, hf_config=None, tool_call_parser="chatcodec") == "chatcodec"
    assert resolve(stock, hf_config=None, tool_call_parser="qwen") == "stock"
    renders = Hooks.found["spec_renders_prompt_ids"]
    assert [renders(encoding.spec_renders_prompt_ids, spec) for spec in ("chatcodec", None)] == [
        True,
        False,
    ]
    detector = plugin.call_detector()(item(name_or_path="m"))
    with pytest.raises(ValueError, match="--tool-call-parser chatcodec"):
        detector.detect_and_parse("text", [])
    assert plugin.reasoning_detector()(stream_reasoning=True).get_think_end_token_ids(None) == []


def test_prompts_and_answers() -> None:
    adapter = plugin.Adapter(CODEC)
    request = Request(tools=TOOLS, stop_token_ids=[2])
    expected = CODEC.encode([USER], tools=TOOLS).ids.tolist()
    assert adapter.encode_messages(request=request, messages=[], image_data=[]) == expected
    assert request.stop_token_ids == [2, *(id_ for id_ in CODEC.stop_ids if id_ != 2)]
    prefill = [USER, {"role": "assistant", "content": "So"}]
    continued = Request(messages=prefill, continue_final_message=True)
    assert adapter.encode_messages(request=continued) == (
        CODEC.encode(prefill, continue_final=True).ids.tolist()
    )
    ids = [*CODEC.vocab.encode("a <|im_end|> b"), CODEC.stop_ids[0]]
    finish = {"type": "stop", "matched": ids[-1]}
    told = adapter.parse_chat_response(request=request, output_ids=ids, finish_reason=finish)
    assert told == (None, "a <|im_end|> b", None, finish)
    cut = {"type": "length", "length": 3}
    told = adapter.parse_chat_response(request=request, output_ids=ids[:2], finish_reason=cut)
    assert told[3] is cut
    parsers: dict[int, Value] = {}
    seen = ""
    for at, id_ in enumerate(ids):
        is_last = at + 1 == len(ids)
        about = {
            "id": "r",
            "completion_tokens": at + 1,
            "finish_reason": finish if is_last else None,
        }
        events: Any = adapter.stream_chat_chunks(
            content={"output_ids": [id_], "meta_info": about},
            index=0,
            request=request,
            created=1,
            parser_dict=parsers,
            has_tool_calls={},
            choice_logprobs=None,
            finish_reason_type="stop" if is_last else None,
            usage=None,
        )
        seen += events[0]["content"]
    assert seen == "a <|im_end|> b"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "critic", "content": ""}], r"messages\[0\]\.role"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "no text"),
    ],
)
def test_what_cannot_be_written_is_refused(messages: Value, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plugin.Adapter(CODEC).encode_messages(request=Request(messages=messages))
