"""`canonical` against a naive statement of what each format keeps: a table, apart from the code.

Texts are plain words here: what is trimmed and normalised has laws of its own.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
from chatcodec import Codec, Format
from chatcodec.errors import MessageError
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

Message = dict[str, Any]

COMMAND_A = (
    Format.built_in("command-a").text.partition('default_system = """\n')[2].partition('"""')[0]
)
DEFAULT_SYSTEM = {
    "kimi-k2": "You are Kimi, an AI assistant created by Moonshot AI.",
    "kimi-k2:thinking": "You are Kimi, an AI assistant created by Moonshot AI.",
    "llama3.1": "",
    "llama3.2": "",
    "granite4": (
        "You are a helpful assistant. Please ensure responses are professional, accurate, and safe."
    ),
    "granite3:3.1": (
        "Knowledge Cutoff Date: April 2024.\nYou are Granite, developed by IBM. "
        "You are a helpful AI assistant."
    ),
    "granite3:3.2": (
        "Knowledge Cutoff Date: April 2024.\nYou are Granite, developed by IBM. "
        "You are a helpful AI assistant."
    ),
    "granite3:3.3": (
        "Knowledge Cutoff Date: April 2024. You are Granite, developed by IBM. "
        "You are a helpful AI assistant."
    ),
    "command-a": COMMAND_A,
    "jamba": "",
    "laguna": (
        "You are a helpful, conversationally-fluent assistant made by Poolside. You are here to be "
        "helpful to users through natural language conversations."
    ),
    "laguna:xs": (
        "You are a helpful, conversationally-fluent assistant made by Poolside. You are here to be "
        "helpful to users through natural language conversations."
    ),
    "ling": "detailed thinking on",
    "llama-nemotron": "",
    "qwen2.5:mimo": "You are MiMo, an AI assistant developed by Xiaomi.",
    "nanbeige4.1": "你是南北阁，一款由BOSS直聘自主研发并训练的专业大语言模型。",
    "smollm3": Format.built_in("smollm3")
    .text.partition("without_system = ")[2]
    .partition("Instructions\\n\\n")[2]
    .partition("\\n\\n{STOP}")[0]
    .replace("{THINK}", "<think>")
    .replace("{THINK_END}", "</think>"),
    "smollm3:no-think": "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
    "telechat2": (
        "你是中国电信星辰语义大模型，英文名是TeleChat，你是由中电信人工智能科技有限公司和中国电信人工智能研究院"
        "（TeleAI）研发的人工智能助手。"
    ),
    "minimax-m3": "You are a helpful assistant.",
    "minimax-m3:thinking": "You are a helpful assistant.",
    "minimax-m2": ("You are a helpful assistant. Your name is MiniMax-M2 and is built by MiniMax."),
    "mistral:devstral": Format.built_in("mistral:devstral")
    .text.partition("default_system = '''")[2]
    .partition("'''")[0],
    "mistral:magistral": Format.built_in("mistral:magistral")
    .text.partition("[variant.magistral.turn]\nwithout_system = '''{SYSTEM}")[2]
    .partition("{SYSTEM_END}")[0]
    .replace("{THINK}", "[THINK]")
    .replace("{THINK_END}", "[/THINK]"),
    "mistral:ministral3": Format.built_in("mistral:ministral3")
    .text.partition("[variant.ministral3.turn]\nwithout_system = '''{SYSTEM}")[2]
    .partition("{SYSTEM_END}")[0]
    .replace("{THINK}", "[THINK]")
    .replace("{THINK_END}", "[/THINK]"),
    "mistral:small3.2": Format.built_in("mistral:small3.2")
    .text.partition("without_system = '''{SYSTEM}")[2]
    .partition("{SYSTEM_END}")[0]
    .replace("{?date: The current date is {date}.?}", ""),
    "mistral:small3": Format.built_in("mistral:small3")
    .text.partition('without_system = """{SYSTEM}')[2]
    .partition("{SYSTEM_END}")[0]
    .replace("{?date: The current date is {date}.?}", ""),
    "nemotron-nano2": "",
    "nemotron3": "",
    "nemotron3:ultra": "",
    "olmo3": (
        "You are a helpful function-calling AI assistant. You do not currently have access to any "
        "functions. <functions></functions>"
    ),
    "olmo3:3.1": (
        "You are Olmo, a helpful AI assistant built by Ai2. Your date cutoff is December 2024, and "
        "your model weights are available at https://huggingface.co/allenai. You do not currently "
        "have access to any functions. <functions></functions>"
    ),
    "hy3": "",
    "hy3:high": "",
    "hy3:low": "",
    "olmo3:think": "You are a helpful AI assistant.",
    "phi4:reasoning": Format.built_in("phi4:reasoning")
    .text.partition('default_system = "')[2]
    .partition('"\n')[0],
    "qwen2": "You are a helpful assistant",
    "qwen3.8": Format.built_in("qwen3.8")
    .text.partition('default_system = "')[2]
    .partition('"\n')[0],
    "qwen3.8:low": Format.built_in("qwen3.8:low")
    .text.partition("[variant.low]")[2]
    .partition('default_system = "')[2]
    .partition('"\n')[0],
    "qwen2:instruct": "You are a helpful assistant.",
    "qwen2.5": "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    "vicuna": (
        "A chat between a curious user and an artificial intelligence assistant. The assistant "
        "gives helpful, detailed, and polite answers to the user's questions."
    ),
    "spark2.5": "you are a helpful assistant.",
    "xlam": "You are a helpful assistant. You are developed by Salesforce xLAM team.",
    "xlam:llama": "You are a helpful assistant. You are developed by Salesforce xLAM team.",
}
"""The system message of a conversation without one."""

FOLDED = {"gemma3": "first", "mixtral-8x22b": "last", "mixtral-8x7b": "first"}
"""Formats that write a system text before which user's, two newlines between."""

REASONING = {
    "command-a": "all",
    "deepseek:r1": "last",
    "deepseek:v3.1": "last",
    "deepseek:v3.2": "since",
    "deepseek:v4": "since",
    "glm4.5": "since",
    "glm4.5:4.7": "since",
    "glm4.5:5.3": "all",
    "harmony": "until",
    "harmony:full": "all",
    "kimi-k2.5": "answered",
    "kimi-k2.5:full": "all",
    "hy3": "since",
    "hy3:high": "since",
    "hy3:low": "since",
    "kimi-k2:thinking": "since",
    "kimi-k3": "all",
    "laguna": "all",
    "laguna:xs": "all",
    "lfm2:2.5-thinking": "since",
    "ling": "all",
    "minicpm5": "since",
    "minimax-m2": "since",
    "minimax-m3": "all",
    "minimax-m3:thinking": "all",
    "mistral:magistral": "all",
    "mistral:ministral3": "all",
    "mistral:v13": "all",
    "qwen3": "since",
    "nanbeige4.1": "since",
    "longcat": "since",
    "nemotron-nano2": "last",
    "nemotron3": "since",
    "nemotron3:ultra": "since",
    "olmo3:think": "all",
    "qwen3.5": "since",
    "qwen3.5:small": "since",
    "qwen3.8": "all",
    "qwen3.8:low": "all",
    "qwen3.8:medium": "all",
    "qwen3:qwq": "last",
    "qwen3:thinking": "since",
    "step3": "since",
    "step3.5": "since",
    "seed-oss": "all",
    "spark2.5": "all",
}
"""Whose reasoning is written: the last message's, that since the last user's message, after the
last answer, after the first answer where the last message of the assistant's is an answer, or
all."""


@functools.cache
def codec_of(name: str) -> Codec:
    """A codec on the embedded vocabulary, with the tokens that the golden file appends."""
    path = data.ROOT / "tests" / "golden" / f"{name.replace(':', '-')}.json"
    spellings = json.loads(path.read_text(encoding="utf-8")).get("special_tokens", [])
    if not spellings:
        vocab = {"internlm2": "embedded"}.get(name)
        if vocab is None:
            golden = json.loads(path.read_text(encoding="utf-8"))
            here = [v for v in golden["vocabs"] if v in data.FILES and data.DATA.exists()]
            if not here:
                pytest.skip(f"no test data: no vocabulary of {name}")
            return data.load_format(name, here[0], refuses=False)
        return Codec(name, vocab="embedded")
    return data.load_appended(name, tuple(spellings), refuses=False)


def reasoned(when: str | None, messages: list[Message]) -> list[bool]:
    """Whether each message keeps its reasoning."""
    places = range(len(messages))
    if when == "all":
        return [True for _ in places]
    if when == "last":
        return [at + 1 == len(messages) for at in places]
    if when == "since":
        last = max((at for at in places if messages[at]["role"] == "user"), default=-1)
        return [at > last for at in places]
    if when == "answered":
        last = max((at for at in places if messages[at]["role"] == "assistant"), default=-1)
        return [at > last for at in places]
    if when == "until":
        # All answers are answers here: none calls anything.
        answers = [at for at in places if messages[at]["role"] == "assistant"]
        return [bool(answers) and at > answers[0] for at in places]
    return [False for _ in places]


def naive(name: str, messages: list[Message]) -> list[Message]:
    """What a conversation of words reads as."""
    keeps = reasoned(REASONING.get(name), messages)
    kept = [
        {key: value for key, value in message.items() if key != "reasoning" or keep}
        for message, keep in zip(messages, keeps, strict=True)
    ]
    has_system = kept[0]["role"] == "system"
    if name in FOLDED and has_system:
        users = [at for at, message in enumerate(kept) if message["role"] == "user"]
        user = kept[users[0 if FOLDED[name] == "first" else -1]]
        user["content"] = f"{kept[0]['content']}\n\n{user['content']}"
        return kept[1:]
    if name in DEFAULT_SYSTEM and not has_system:
        return [{"role": "system", "content": DEFAULT_SYSTEM[name]}, *kept]
    return kept


WORDS = st.sampled_from(["Hello", "a b", "Is it so?", "2 + 2", "no"])


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Messages of words: a system's or none, then a user's and an assistant's in turn."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(WORDS)})
    for turn in range(draw(st.integers(1, 6))):
        role = ("user", "assistant")[turn % 2]
        message = {"role": role, "content": draw(WORDS)}
        if role == "assistant" and draw(st.booleans()):
            message["reasoning"] = draw(WORDS)
        messages.append(message)
    return messages


def unframed(messages: list[Message]) -> list[Message]:
    """Messages without the turn that the format itself begins with."""
    return [
        message
        for message in messages
        if message.get("name") not in ("system", "developer", "root", "thinking-effort")
        and message.get("content") != "Reasoning Effort: Max"
    ]


@pytest.mark.parametrize("name", data.share(chatcodec.formats(), 3, first=2))
@given(messages=conversations())
@settings(max_examples=40, deadline=None)
def test_canonical_is_what_each_format_keeps(name: str, messages: list[Message]) -> None:
    codec = codec_of(name)
    if name not in REASONING:
        messages = [
            {key: value for key, value in message.items() if key != "reasoning"}
            for message in messages
        ]
    try:
        encoding = codec.encode(messages)
    except MessageError:
        # No place for a system message: without one every format takes words.
        assert messages[0]["role"] == "system"
        return
    canonical = codec.canonical(messages)
    assert unframed(canonical) == naive(name, messages)
    if not encoding.collisions:
        assert codec.decode(encoding) == canonical
    # The canonical form is one that the format takes, and its own canonical form.
    assert codec.canonical(canonical) == canonical
    assert codec.decode(codec.encode(canonical)) == canonical


@pytest.mark.parametrize("text", ["", " ", " x", "x\n", " x\n "])
def test_the_turn_of_tools_trims_a_system_text_as_it_writes_it(text: str, tmp_path: Path) -> None:
    """The row of a system message trims its text, and the turn of tools does not."""
    file = Format.built_in("gemma4").text
    assert "{system:trim}{TOOL}" in file
    path = tmp_path / "mine.toml"
    path.write_text(file.replace("{system:trim}{TOOL}", "{system}: {TOOL}"), encoding="utf-8")
    golden = json.loads((data.ROOT / "tests/golden/gemma4.json").read_text(encoding="utf-8"))
    codec = Codec(Format.load(path), data.appended(tuple(golden["special_tokens"])))
    messages = [{"role": "system", "content": text}, {"role": "user", "content": "x"}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    read = codec.decode(codec.encode(messages, tools=tools))
    assert read == codec.canonical(messages, tools=tools)
    assert read[0]["content"].startswith(f"{text}: ")
    assert codec.canonical(messages)[0]["content"] == text.strip()
