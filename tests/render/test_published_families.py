"""Formats write what the templates of their models write, in every scenario but those named here.

Each format file says why these differ. `test_published_templates.py` compares formats whose
templates come with a vocabulary.
"""

from __future__ import annotations

import datetime as dt
import functools
import importlib.util
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import data
import pytest
import template_oracle as oracle
import test_constrain as constrained
from chatcodec import Codec, MessageError, Template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from naive import Message


@dataclass(frozen=True)
class Family:
    """A format, the template that it follows, and the scenarios in which they differ."""

    format: str
    template: str
    differs: str = ""
    same: int = 14
    own: tuple[tuple[str, str], ...] = ()
    """Special tokens of the template that differ from the oracle's, and options of the template."""
    instead: tuple[tuple[str, str], ...] = ()
    """Expressions of the template in whose place others stand, as the model's own code writes."""
    typeset: bool = False
    """Whether the template is indented for people: its newlines and indents are to be removed."""
    tools: str = ""
    """The published code that writes the tools for the template, if there is some."""
    thinking: str = ""
    """The template's name of the option that asks for reasoning, if it has another."""
    reasons: bool = False
    """Whether the template is told to reason where the messages after the last user's do."""
    calls: tuple[tuple[str, str], ...] = ()
    """Ids of calls in the scenarios, and those that both write instead, results without names."""

    def __str__(self) -> str:
        return f"{self.format} {self.template.rpartition('/')[2]}"


DEEPSEEK = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
KIMI_TOOLS = "families/kimi_tool_declaration_ts.py"

HY3_DIFFERS = "answered developer nothing reasonlast train"

FAMILIES = [
    Family("alpaca", "templates/alpaca.jinja", "developer", same=13),
    Family(
        "command-a",
        "templates/command_a_tool_use.jinja",
        "callstr developer nothing nothink parts reason reasoncall reasonlast train",
        same=19,
        own=(("bos_token", "<BOS_TOKEN>"),),
    ),
    Family("command-r", "templates/aya.jinja", own=(("bos_token", "<BOS_TOKEN>"),)),
    Family("ernie4.5", "families/ernie-4.5-pt.jinja", "developer", same=21),
    Family("exaone4", "templates/exaone4.jinja", "callstr parts reasontext"),
    Family("gemma2", "templates/gemma.jinja", same=12, own=(("bos_token", "<bos>"),)),
    Family(
        "gemma4",
        "templates/examples_tool_chat_template_gemma4.jinja",
        "call callans callnt callstr par reasoncall reasonlast train",
        same=26,
        own=(("bos_token", "<bos>"),),
    ),
    Family(
        "deepseek:v3.2",
        "templates/deepseek-ai-DeepSeek-V3.2.jinja",
        "answered answerfirst developer nothing reasonlast sysonly",
        same=24,
        reasons=True,
        own=(("bos_token", "<｜begin▁of▁sentence｜>"),),
        instead=(("thinking_start_token + thinking_end_token -", "thinking_end_token -"),),
    ),
    Family(
        "deepseek:v4",
        "templates/deepseek-ai-DeepSeek-V4.jinja",
        "developer parts reasonlast twousers",
        reasons=True,
        own=(("bos_token", "<｜begin▁of▁sentence｜>"),),
    ),
    Family(
        "gigachat3",
        "templates/GigaChat3.1-10B-A1.8B.jinja",
        "answered developer nothing par parts sysonly",
        own=(("bos_token", "<s>"),),
    ),
    Family("glm4.5", "families/GLM-4.6.jinja", "developer emptyans nothink reasontext", same=30),
    Family("glm4.5:4.7", "families/GLM-4.7-Flash.jinja", "developer reasontext", same=32),
    Family("glm4.5:5.3", "families/GLM-5.3-Flash.jinja", "developer nothing reasontext", same=30),
    Family(
        "granite3",
        "templates/granite-3.0-instruct.jinja",
        "callans callstr developer nothing reasoncall",
    ),
    Family(
        "granite3:3.1",
        "families/granite-3.1-8b-instruct.jinja",
        "callans callstr developer documents reasoncall sysonly",
        same=21,
    ),
    Family(
        "granite3:3.2",
        "families/granite-3.2-8b-instruct.jinja",
        "call callans callnt callstr developer documents par reasoncall sysonly",
        same=23,
    ),
    Family(
        "granite3:3.3",
        "templates/ibm-granite-granite-3.3-2B-Instruct.jinja",
        "callans callstr developer documents reasoncall sysonly",
    ),
    Family(
        "granite4",
        "families/ibm-granite-granite-4.0.jinja",
        "developer documents parts",
        same=28,
    ),
    Family(
        "granite4:4.1",
        "families/ibm-granite-granite-4.1.jinja",
        "developer documents parts",
        same=28,
    ),
    Family(
        "jamba",
        "templates/jamba.jinja",
        "developer documents nothing parts",
        own=(("bos_token", "<|startoftext|>"),),
    ),
    Family(
        "kimi-k2.5",
        "families/Kimi-K2.5.jinja",
        "call callans callnt callstr developer par reasoncall",
        same=25,
        tools=KIMI_TOOLS,
        thinking="thinking",
    ),
    Family(
        "kimi-k2.5",
        "families/Kimi-K2.5.jinja",
        "developer",
        same=31,
        tools=KIMI_TOOLS,
        thinking="thinking",
        calls=(("call00001", "functions.get_weather:0"), ("call00002", "functions.add:1")),
    ),
    Family("hy3", "families/tencent-Hy3.jinja", HY3_DIFFERS, same=28),
    *(
        Family(
            f"hy3:{effort}",
            "families/tencent-Hy3.jinja",
            HY3_DIFFERS,
            same=27,
            own=(("reasoning_effort", effort),),
        )
        for effort in ("low", "high")
    ),
    Family(
        "kimi-k3",
        "templates/Kimi-K3.jinja",
        "callstr developer nothing",
        same=33,
        thinking="thinking",
    ),
    Family("laguna", "templates/poolside-Laguna-S-2.1.jinja", "developer nothing parts"),
    Family(
        "laguna:xs",
        "templates/poolside-Laguna-XS.2.jinja",
        "developer nothing parts reasontext twosys",
        same=28,
    ),
    Family(
        "lfm2",
        "templates/trl_lfm2.jinja",
        # The template passes over calls, and writes a content of null as `null`.
        "call callans callnt callstr developer par parts reasoncall",
        own=(("bos_token", "<|startoftext|>"),),
    ),
    Family(
        "lfm2:2.5",
        "templates/LFM2.5-Instruct.jinja",
        # The template passes over calls, and writes a content of null as `null`.
        "call callans callnt callstr developer par parts reasoncall",
        own=(("bos_token", "<|startoftext|>"),),
    ),
    Family(
        "lfm2:2.5-thinking",
        "families/LFM2.5-8B-A1B.jinja",
        "call callans callnt developer nones par reasoncall reasonlast reasontext",
        same=23,
        own=(("bos_token", "<|startoftext|>"),),
    ),
    Family("ling", "templates/inclusionai-ling-3.0-flash.jinja", "developer reasontext"),
    Family("minimax-m3", "templates/MiniMax-M3.jinja", "nothing twosys"),
    Family(
        "minimax-m3:thinking",
        "templates/MiniMax-M3.jinja",
        "nothing twosys",
        own=(("thinking_mode", "enabled"),),
    ),
    Family("mistral:devstral", "templates/unsloth-mistral-Devstral-Small-2507.jinja", same=25),
    Family(
        "mistral:ministral3",
        "templates/mistralai-Ministral-3-14B-Reasoning-2512.jinja",
        "reason reasoncall reasonlast",
        same=24,
    ),
    Family(
        "mistral:small3.2",
        "families/Mistral-Small-3.2-24B-Instruct-2506.jinja",
        "callans callstr no_tools nothing",
        same=24,
    ),
    Family(
        "minicpm5",
        "templates/openbmb-MiniCPM5-1B.jinja",
        "developer parts reasontext",
        same=24,
    ),
    Family(
        "mistral:small3",
        "templates/examples_tool_chat_template_mistral3.jinja",
        "call callans callnt callstr no_tools nones par systools tools",
    ),
    Family(
        "nemotron3",
        "templates/trl_nemotron_3_nano.jinja",
        "developer parts reasontext",
        same=23,
    ),
    Family(
        "nemotron3",
        "families/trl_nemotron_3_super.jinja",
        "developer parts reasontext",
        same=23,
    ),
    Family(
        "nemotron3:ultra",
        "families/trl_nemotron_3_5_lightning.jinja",
        "developer parts reasontext",
        same=25,
    ),
    Family(
        "nemotron3:ultra",
        "templates/trl_nemotron_3_ultra.jinja",
        "developer parts reasontext",
        same=25,
    ),
    Family("phi3:3.5", "templates/phi_35.jinja", "developer"),
    Family("phi4:reasoning", "templates/phi_4.jinja", "developer nothing twosys"),
    Family(
        "qwen3-coder",
        "templates/examples_tool_chat_template_qwen3coder.jinja",
        "developer",
        same=23,
    ),
    Family(
        "qwen3.5",
        "vocab/qwen3.5/tokenizer_config.json",
        "reasontext",
    ),
    # Qwen3.6 writes `true` where Qwen3.5 writes `True`.
    Family(
        "qwen3.5",
        "families/trl_qwen3_6.jinja",
        "call callans callnt par reasoncall reasontext",
        same=24,
    ),
    Family(
        "qwen3.5:small",
        "families/trl_qwen3_5_nothink.jinja",
        "reasontext",
        same=24,
    ),
    Family("qwen3.8", "families/trl_qwen3_8.jinja", same=29),
    Family(
        "qwen3.8:low",
        "families/trl_qwen3_8.jinja",
        same=29,
        own=(("reasoning_effort", "low"),),
    ),
    Family(
        "qwen3.8:medium",
        "families/trl_qwen3_8.jinja",
        same=30,
        own=(("reasoning_effort", "medium"),),
    ),
    Family("qwen3:instruct", "families/trl_qwen3_vl.jinja", "developer twosys", same=29),
    Family(
        "qwen3:qwq",
        "templates/otc-qwq-32b.jinja",
        "callstr developer reasonlast reasontext",
        same=23,
    ),
    Family("qwen2.5:mimo", "templates/MiMo-VL.jinja", "callstr developer"),
    Family("qwen3:instruct", "templates/trl_qwen3_instruct_2507.jinja", "developer parts"),
    Family("reka-edge", "templates/Reka-Edge.jinja", "answered parts reasontext think"),
    Family("seed-oss", "templates/ByteDance-Seed-OSS.jinja", "developer"),
    Family(
        "step3.5",
        "families/StepFun3.5-Flash.jinja",
        "developer reasontext",
        same=25,
        own=(("bos_token", "<｜begin▁of▁sentence｜>"),),
    ),
    Family("spark2.5", "templates/Spark2.5.jinja", same=31),
    Family("vicuna:lines", "templates/vicuna.jinja", "parts", same=12, typeset=True),
    Family(
        "xlam",
        "templates/examples_tool_chat_template_xlam_qwen.jinja",
        "callstr developer no_tools parts",
    ),
    Family(
        "xlam:llama",
        "templates/examples_tool_chat_template_xlam_llama.jinja",
        "callstr developer no_tools parts",
        own=(("bos_token", "<|begin_of_text|>"),),
    ),
]


def codec_of(name: str) -> Codec:
    """A codec on the embedded vocabulary, with the tokens of the format's golden cases."""
    path = data.ROOT / "tests" / "golden" / f"{name.replace(':', '-')}.json"
    tokens = json.loads(path.read_text(encoding="utf-8"))["special_tokens"]
    return data.load_appended(name, tuple(tokens))


@functools.cache
def encoder_of(path: str) -> Any:  # noqa: ANN401
    """The module of published code that writes tools."""
    name = path.rpartition("/")[2].removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, data.find(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Classes with fields look for their module.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def declared_by(path: str, tools: list[dict[str, Any]]) -> str:
    """Tools as published code writes them; as the template's JSON where that code refuses them."""
    tools = json.loads(json.dumps(tools, sort_keys=True))
    try:
        text: str = encoder_of(path).encode_tools_to_typescript_style(tools)
    except Exception:  # noqa: BLE001
        return json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
    return text


def with_calls(messages: list[Message], ids: tuple[tuple[str, str], ...]) -> list[Message]:
    """Messages with other ids of calls, and with results that have no names."""
    if not ids:
        return messages
    text = json.dumps(messages)
    for before, after in ids:
        text = text.replace(f'"{before}"', f'"{after}"')
    changed: list[Message] = json.loads(text)
    for message in changed:
        if message["role"] == "tool":
            message.pop("name", None)
    return changed


def given_to(family: Family, scenario: oracle.Scenario) -> oracle.Scenario:
    """A scenario as the template of a family takes it."""
    messages, tools, options = scenario
    if family.tools and tools:
        options = options | {"tools_ts_str": declared_by(family.tools, tools)}
    if family.thinking and "enable_thinking" in options:
        options = options | {family.thinking: options["enable_thinking"]}
    return with_calls(messages, family.calls), tools, options


def published(template: str) -> str:
    """The source of a published template, from a file of its own or from a tokenizer's."""
    source = data.find(template).read_text(encoding="utf-8")
    return json.loads(source)["chat_template"] if template.endswith(".json") else source


def source_of(family: Family) -> str:
    """The source of a family's template, as the model's own code runs it."""
    source = published(family.template)
    if family.typeset:
        source = source.replace("    ", "").replace("\n", "")
    for expression, other in family.instead:
        assert expression in source
        source = source.replace(expression, other)
    return source


def texts(family: Family, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str, str]]:
    """The text of each scenario that both write: its name, the template's text, the format's."""
    template = oracle.environment().from_string(source_of(family))
    for name, value in family.own:
        monkeypatch.setitem(oracle.OWN, name, value)
    codec = codec_of(family.format)
    for name, plain in oracle.SCENARIOS.items():
        scenario = given_to(family, plain)
        messages, tools, options = scenario
        given: dict[str, Any] = {}
        if "enable_thinking" in options and "thinking" in codec.format.options:
            given["thinking"] = options["enable_thinking"]
        if "date" in codec.format.options:
            given["date"] = dt.datetime.now().date().isoformat()  # noqa: DTZ005
        prompt = options.get("add_generation_prompt", True)
        try:
            written = codec.encode(messages, tools=tools, add_generation_prompt=prompt, **given)
        except MessageError:
            continue
        try:
            yield name, oracle.render(template, scenario), written.text
        except Exception:  # noqa: BLE001, S112
            # The template refuses the scenario in its own way.
            continue


READERS = {
    (family.format, family.template): dict(family.own)
    for family in FAMILIES
    # Their markers are text, which any reader of their turns reads.
    if family.format not in {"alpaca", "vicuna:lines"} and not family.instead
}
READERS |= {
    ("deepseek:r1", "templates/otc-deepseek-r1.jinja"): DEEPSEEK,
    ("deepseek:r1", "templates/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja"): DEEPSEEK,
    ("deepseek:v3.1", "templates/deepseek-ai-DeepSeek-V3.1.jinja"): DEEPSEEK,
    ("gemma3", "templates/gemma3.jinja"): {"bos_token": "<bos>"},
    ("internlm2", "templates/examples_tool_chat_template_internlm2_tool.jinja"): {},
    ("kimi-k2:thinking", "templates/Kimi-K2-Thinking.jinja"): {},
    ("minimax-m2", "templates/MiniMax-M2.jinja"): {},
    ("qwen3", "templates/qwen3.jinja"): {},
}
"""Formats, templates of their models, and the templates' special tokens."""


def codec_that_reads(format_: str, template: str) -> Codec:
    """A codec of a template, which finds its reader, on a vocabulary with the format's tokens."""
    own = oracle.OWN | READERS[format_, template]
    tokens = {name: token for name, token in own.items() if name in oracle.OWN}
    vocab = constrained.codec_of(format_).vocab
    return Codec(Template(published(template), **tokens), vocab=vocab)


@pytest.mark.parametrize(("format_", "template"), READERS)
def test_the_template_of_a_format_finds_it_as_its_reader(format_: str, template: str) -> None:
    """Whatever the format writes otherwise; another variant of the family may read as much."""
    codec = codec_that_reads(format_, template)
    assert codec.format.name.partition(":")[0] == format_.partition(":")[0], codec.describe()
    assert "calls" not in codec.unread


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_format_writes_what_its_template_writes(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = list(texts(family, monkeypatch))
    differs = {name.replace(" ", "_") for name, theirs, ours in compared if theirs != ours}
    assert differs == set(family.differs.split())
    assert len(compared) - len(differs) >= family.same
