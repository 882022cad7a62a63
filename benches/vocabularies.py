"""The vocabularies, in the form that each library reads: made once, under `target/bench`.

Peers are given no control tokens for plain text: what spells one is text to all contenders. Whole
conversations need them: that is the form `chat`, with the published template.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import ranks_json, sentencepiece_json
from .paths import DATA, ROOT, WORK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Form = dict[str, Any]
"""What a worker's `load` is given."""


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary and its forms, by their names in `contenders`."""

    name: str
    forms: dict[str, Form] = field(default_factory=dict)


EMBEDDED = "embedded"
FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "internlm2": ("internlm2/tokenizer.model", ()),
    "chatglm3": ("chatglm3/tokenizer.model", ()),
    "mixtral-8x22b": ("mixtral-8x22b/tokenizer.model.v3", ()),
    "hermes": ("qwen3/tokenizer.json", ("<|begin_of_text|>",)),
    "qwen2.5": ("qwen3/tokenizer.json", ()),
    "qwen3": ("qwen3/tokenizer.json", ()),
    "mistral": ("mixtral-8x22b/tokenizer.model.v7", ()),
    "glm4": ("glm4/tokenizer.model", ()),
    "kimi-k2": (
        "glm4/tokenizer.model",
        (
            "[EOS]",
            "<|im_system|>",
            "<|im_user|>",
            "<|im_assistant|>",
            "<|im_middle|>",
            "<|im_end|>",
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ),
    ),
}
"""The formats whose streams are measured, all that a new one needs: each with a vocabulary, and the
control tokens that this lacks."""
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern of o200k_base, which a file of ranks does not state."""
_LETTERS = tuple(
    rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]{one}"
    rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]{other}(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    for one, other in ("*+", "+*")
)
KIMI_K2 = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_LETTERS[0]}|[^\r\n\p{{L}}\p{{N}}]?{_LETTERS[1]}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Kimi K2's pattern, which its file of ranks does not state: o200k's, with Chinese split off."""
UNUSED = 210_000
"""Ids that no vocabulary here has, for control tokens that are added."""
TURN = "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
CHATML = (
    f"{{% for message in messages %}}{TURN}{{% endfor %}}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""The template that Qwen2 and InternLM2 are published with, the latter after its `bos_token`."""


def all_of_them() -> dict[str, Vocabulary]:
    """Those whose files are there, by name."""
    found = [_embedded()]
    if DATA.is_dir():
        found = [
            _internlm2(),
            _sentencepiece("Llama-2", "llama2"),
            _qwen2(),
            _llama3(),
            *found,
            _gpt_oss(),
            _ranks("GLM-4", "glm4/tokenizer.model", _llama3_pattern()),
            _tokenizer_json("DeepSeek-V3", "deepseek-v3.2"),
            _ranks("Kimi-K2", "kimi-k2/kimi_k2.tiktoken", KIMI_K2),
            _tokenizer_json("MiniMax-M1", "minimax-m1"),
            _tokenizer_json("Qwen3.5", "qwen3.5"),
            _mixtral(),
            *(
                _format(name, str(DATA / "vocab" / file), *added)
                for name, (file, added) in FORMATS.items()
            ),
        ]
    else:
        found.append(_format("internlm2", None))
    return {vocabulary.name: vocabulary for vocabulary in found}


def _embedded() -> Vocabulary:
    path = ROOT / "rust" / "vocab" / "src" / "vocab" / "embedded.model"
    plain = _made("embedded", "plain", lambda: sentencepiece_json.tokenizer_json(path.read_bytes()))
    return Vocabulary(
        EMBEDDED,
        {
            "ours": {"path": None, "format": "internlm2"},
            "json": {"path": plain},
            "model": {"path": str(path)},
        },
    )


def _format(name: str, path: str | None, *added: str) -> Vocabulary:
    """What our own streams of a format are measured with; named as the format is."""
    form: Form = {"path": path, "format": name}
    if added:
        form["special_tokens"] = {token: UNUSED + at for at, token in enumerate(added)}
    return Vocabulary(name, {"ours": form})


def _sentencepiece(name: str, folder: str) -> Vocabulary:
    path = DATA / "vocab" / folder / "tokenizer.model"
    plain = _made(folder, "plain", lambda: sentencepiece_json.tokenizer_json(path.read_bytes()))
    return Vocabulary(
        name,
        {"ours": {"path": str(path)}, "json": {"path": plain}, "model": {"path": str(path)}},
    )


def _internlm2() -> Vocabulary:
    vocabulary = _sentencepiece("InternLM2", "internlm2")
    folder = DATA / "vocab" / "internlm2"
    control = json.loads((folder / "specials.json").read_bytes())["special_tokens"]
    model = folder / "tokenizer.model"
    chat = _made(
        "internlm2",
        "chat",
        lambda: sentencepiece_json.tokenizer_json(model.read_bytes(), control),
    )
    vocabulary.forms["ours"]["format"] = "internlm2"
    vocabulary.forms["chat"] = {
        "path": chat,
        "template": "{{ bos_token }}" + CHATML,
        "bos": "<s>",
    }
    return vocabulary


def _qwen2() -> Vocabulary:
    folder = DATA / "vocab" / "qwen2"
    chat = folder / "tokenizer.json"

    def plain() -> dict[str, Any]:
        return {**json.loads(chat.read_bytes()), "added_tokens": []}

    regex = "pre_tokenizer", "pretokenizers", 0, "pattern", "Regex"
    pattern = json.loads(chat.read_bytes())
    for key in regex:
        pattern = pattern[key]
    return Vocabulary(
        "Qwen2",
        {
            "ours": {"path": str(chat), "format": "qwen2"},
            "json": {"path": _made("qwen2", "plain", plain)},
            "ranks": {"path": str(folder / "qwen.tiktoken"), "pattern": pattern},
            "chat": {"path": str(chat), "template": CHATML},
        },
    )


def _tokenizer_json(name: str, folder: str) -> Vocabulary:
    path = DATA / "vocab" / folder / "tokenizer.json"
    plain = _made(folder, "plain", lambda: {**json.loads(path.read_bytes()), "added_tokens": []})
    return Vocabulary(name, {"ours": {"path": str(path)}, "json": {"path": plain}})


def _ranks(name: str, file: str, pattern: str) -> Vocabulary:
    path = DATA / "vocab" / file
    plain = _made(
        path.parent.name,
        "plain",
        lambda: ranks_json.tokenizer_json(ranks_json.read(path.read_bytes()), pattern),
    )
    return Vocabulary(
        name,
        {
            "ours": {"path": str(path)},
            "json": {"path": plain},
            "ranks": {"path": str(path), "pattern": pattern},
        },
    )


def _llama3_pattern() -> str:
    specials = DATA / "vocab" / "llama3" / "specials.json"
    pattern: str = json.loads(specials.read_bytes())["pattern"]
    return pattern


def _llama3() -> Vocabulary:
    return _ranks("Llama-3", "llama3/tokenizer.model", _llama3_pattern())


def _gpt_oss() -> Vocabulary:
    vocabulary = _ranks("gpt-oss", "gpt-oss/o200k_base.tiktoken", O200K)
    vocabulary.forms["harmony"] = {"path": str(DATA / "vocab" / "gpt-oss")}
    return vocabulary


def _mixtral() -> Vocabulary:
    path = str(DATA / "vocab" / "mixtral-8x22b" / "tokenizer.model.v3")
    return Vocabulary(
        "Mixtral 8x22B",
        {"ours": {"path": path, "format": "mixtral-8x22b"}, "mistral": {"path": path}},
    )


def _made(folder: str, name: str, make: Callable[[], dict[str, Any]]) -> str:
    """The path of a file that is made where it is not there."""
    path: Path = WORK / "vocabularies" / folder / f"{name}.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make(), ensure_ascii=False), encoding="utf-8")
    return str(path)
