"""The text and the ids that the reference of a format gives a conversation.

Published templates are rendered by jinja2; ids come from sentencepiece, tiktoken, tokenizers and
mistral-common, on the files of the vocabularies. Nothing of this project takes part.
`scripts/make_golden.py` uses this module too.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import gguf
import jinja2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Message = dict[str, Any]
Encode: TypeAlias = "Callable[[str], list[int]]"
Part: TypeAlias = "str | list[str | int]"
"""Text; or in a list a control token's spelling, ids as they are, or nothing: a cut."""

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CHATCODEC_TEST_DATA", ROOT.parent / "shared"))

FILES = {
    "embedded": ROOT / "rust/vocab/src/vocab/embedded.model",
    "glm4": SHARED / "vocab/glm4/tokenizer.model",
    "chatglm3": SHARED / "vocab/chatglm3/tokenizer.model",
    "deepseek-llm": SHARED / "vocab/deepseek-llm/deepseek-llm.gguf",
    "deepseek-v3": SHARED / "vocab/deepseek-v3/deepseek.tiktoken",
    "deepseek-v3.2": SHARED / "vocab/deepseek-v3.2/tokenizer.json",
    "gpt-oss": SHARED / "vocab/gpt-oss/o200k_base.tiktoken",
    "internlm2": SHARED / "vocab/internlm2/tokenizer.model",
    "kimi-k2": SHARED / "vocab/kimi-k2/kimi_k2.tiktoken",
    "llama2": SHARED / "vocab/llama2/tokenizer.model",
    "llama3": SHARED / "vocab/llama3/tokenizer.model",
    "mixtral-8x22b": SHARED / "vocab/mixtral-8x22b/tokenizer.model.v3",
    "mistral": SHARED / "vocab/mixtral-8x22b/tokenizer.model.v7",
    "mixtral-8x22b-v2": SHARED / "vocab/mixtral-8x22b/tokenizer.model.v2",
    "mixtral-8x7b": SHARED / "vocab/mixtral-8x7b/tokenizer.model.v1",
    "phi3": SHARED / "vocab/phi3/phi-3/tokenizer.json",
    "phi3-medium": SHARED / "vocab/phi3/phi-3-medium/tokenizer.json",
    "phi3-mini": SHARED / "vocab/phi3/phi-3-mini/tokenizer.json",
    "phi3-vision": SHARED / "vocab/phi3/phi-3-vision/tokenizer.json",
    "minimax-m1": SHARED / "vocab/minimax-m1/tokenizer.json",
    "qwen2": SHARED / "vocab/qwen2/tokenizer.json",
    "qwen2.5": SHARED / "vocab/qwen2.5/tokenizer_config.json",
    "qwen3": SHARED / "vocab/qwen3/tokenizer.json",
    "qwen3.5": SHARED / "vocab/qwen3.5/tokenizer.json",
    "yi": SHARED / "vocab/yi/tokenizer.model",
}
"""The vocabularies."""

CHAT_TOKENS = {
    "<|plugin|>": 92538,
    "<|interpreter|>": 92539,
    "<|action_end|>": 92540,
    "<|action_start|>": 92541,
    "<|im_end|>": 92542,
    "<|im_start|>": 92543,
}
"""InternLM2's; its file spells them `[UNUSED_TOKEN_141]` to `[UNUSED_TOKEN_146]`, in this order."""

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Llama-3 and GLM-4 split text before merging."""

O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How gpt-oss does."""

KIMI = (
    r"[\p{Han}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Kimi K2 does."""

DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥\u3040-ゟ゠-ヿ]+",
    (
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
)
"""How DeepSeek-V3 does, one pattern after the other."""


TEKKEN = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    *("[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
)
"""Control tokens of Mistral's later vocabularies."""

DEEPSEEK_TOOLS = {
    "<｜tool▁calls▁begin｜>": 128806,
    "<｜tool▁calls▁end｜>": 128807,
    "<｜tool▁call▁begin｜>": 128808,
    "<｜tool▁call▁end｜>": 128809,
    "<｜tool▁outputs▁begin｜>": 128810,
    "<｜tool▁outputs▁end｜>": 128811,
    "<｜tool▁output▁begin｜>": 128812,
    "<｜tool▁output▁end｜>": 128813,
    "<｜tool▁sep｜>": 128814,
}
"""Tokens of DeepSeek-V3 that its file of ranks does not name; V3.2's `tokenizer.json` does."""


KIMI_TOKENS = {
    "[BOS]": 163584,
    "[EOS]": 163585,
    "<|im_end|>": 163586,
    "<|im_user|>": 163587,
    "<|im_assistant|>": 163588,
    "<|start_header_id|>": 163590,
    "<|end_header_id|>": 163591,
    "[EOT]": 163593,
    "<|im_system|>": 163594,
    "<|tool_calls_section_begin|>": 163595,
    "<|tool_calls_section_end|>": 163596,
    "<|tool_call_begin|>": 163597,
    "<|tool_call_argument_begin|>": 163598,
    "<|tool_call_end|>": 163599,
    "<|im_middle|>": 163601,
    "<|media_begin|>": 163602,
    "<|media_content|>": 163603,
    "<|media_end|>": 163604,
    "<|media_pad|>": 163605,
    "<think>": 163606,
    "</think>": 163607,
    "[UNK]": 163838,
    "[PAD]": 163839,
}
"""Tokens that the code of Kimi K2 and its successors appends to the ranks."""


TOKENS = {"embedded": CHAT_TOKENS, "deepseek-v3": DEEPSEEK_TOOLS, "kimi-k2": KIMI_TOKENS}
"""Control tokens that no file of a vocabulary names."""

PATTERNS = {"glm4": CL100K, "gpt-oss": O200K, "kimi-k2": KIMI, "llama3": CL100K}
"""How files of ranks split text."""


class Reference:
    """One vocabulary, as the library that its model comes with reads it."""

    def __init__(self, name: str) -> None:
        """Read the file of the vocabulary `name`."""
        self.name = name
        path = FILES[name]
        self.control: dict[str, int] = {}
        """Control tokens by their spelling."""
        specials = path.parent / "specials.json"
        if specials.exists():
            self.control |= json.loads(specials.read_text("utf-8"))["special_tokens"]
        self.control |= TOKENS.get(name, {})
        if name == "qwen2.5":
            # The file names the control tokens; the rest is Qwen2's.
            self.run: Encode = self._tokenizers(FILES["qwen2"])
            added = json.loads(path.read_text("utf-8"))["added_tokens_decoder"]
            self.control |= {token["content"]: int(id_) for id_, token in added.items()}
        elif path.suffix == ".json":
            self.run = self._tokenizers(path)
        elif path.suffix == ".gguf":
            self.run = gguf.encoder(path, gguf.DEEPSEEK_LLM)
            self.control |= gguf.control(path)
        elif name in PATTERNS:
            self.run = tiktoken_encode(path, PATTERNS[name], self.control)
        elif name == "deepseek-v3":
            self.run = in_steps(tiktoken_encode(path, r"(?s:.)+", self.control))
        else:
            self.run = self._sentencepiece(path)

    def _sentencepiece(self, path: Path) -> Encode:
        import sentencepiece  # noqa: PLC0415

        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        pieces = {model.id_to_piece(id_): id_ for id_ in range(model.get_piece_size())}
        known = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"} if self.name == "yi" else ()
        for spelling, id_ in pieces.items():
            if model.is_control(id_) or spelling in known:
                self.control.setdefault(spelling, id_)
        return model.encode

    def _tokenizers(self, path: Path) -> Encode:
        import tokenizers  # noqa: PLC0415

        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        for id_, token in tokenizer.get_added_tokens_decoder().items():
            self.control[token.content] = id_
        # Of Phi-3 whole texts are encoded, of others runs.
        tokenizer.encode_special_tokens = not self.name.startswith("phi3")
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids

    def text(self, run: str) -> list[int]:
        """Give the ids of a run; a spelling that the reference would take as control is refused."""
        ids = list(self.run(run))
        if leaked := set(ids) & set(self.control.values()):
            raise ValueError(f"{self.name}: text became control {leaked}: {run!r}")
        return ids

    def ids(self, parts: Iterable[Part]) -> list[int]:
        """Give the ids of parts: text is joined up to the next part that is none."""
        if self.name.startswith("phi3"):
            # Control tokens take white space beside them: the text is encoded as a whole.
            flat = (item for part in parts for item in ([part] if isinstance(part, str) else part))
            return self.run("".join(map(str, flat)))
        ids: list[int] = []
        run = ""
        for part in [*parts, []]:
            if isinstance(part, str):
                run += part
                continue
            if run:
                ids += self.text(run)
                run = ""
            ids += [item if isinstance(item, int) else self.control[item] for item in part]
        return ids

    def parts(self, text: str) -> list[Part]:
        """Part a template's text at every spelling of a control token."""
        spellings = sorted(self.control, key=len, reverse=True)
        pieces = re.split(f"({'|'.join(map(re.escape, spellings))})", text)
        return [[piece] if at % 2 else piece for at, piece in enumerate(pieces) if piece]


def tiktoken_encode(path: Path, pattern: str, special: Iterable[str] = ()) -> Encode:
    """`encode_ordinary` of the tiktoken library, on a file of ranks without the special ones."""
    import tiktoken  # noqa: PLC0415

    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    for spelling in special:
        ranks.pop(spelling.encode(), None)
    encoding = tiktoken.Encoding(
        path.parent.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
    )
    return encoding.encode_ordinary


def in_steps(encode: Encode, patterns: Iterable[str] = DEEPSEEK) -> Encode:
    """Text split by one pattern after the other, what lies between two matches too."""
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415

    compiled = [regex.compile(f"({pattern})") for pattern in patterns]

    def encode_pieces(text: str) -> list[int]:
        pieces = [text]
        for pattern in compiled:
            pieces = [part for piece in pieces for part in pattern.split(piece) if part]
        return [id_ for piece in pieces for id_ in encode(piece)]

    return encode_pieces


@functools.cache
def reference(name: str) -> Reference | None:
    """Give a vocabulary, or nothing where its file is absent."""
    return Reference(name) if FILES[name].exists() else None


# Published templates.


def refuse(problem: str) -> str:
    """Raise, as templates do."""
    raise ValueError(problem)


@functools.cache
def template(source: str) -> jinja2.Template:
    """Compile a template as its readers do."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
    environment.globals["raise_exception"] = refuse
    return environment.from_string(source)


# The encoder of ChatGLM3's model.


def chatglm3(messages: Iterable[tuple[str, str, str]], *, prompt: bool) -> list[int]:
    """Role, metadata and content of each message, the latter two encoded apart."""
    known = reference("chatglm3")
    assert known is not None
    ids = [known.control["[gMASK]"], known.control["sop"]]
    for role, metadata, content in messages:
        ids.append(known.control[f"<|{role}|>"])
        ids += known.text(metadata + "\n")
        ids += known.text(content)
    return [*ids, known.control["<|assistant|>"]] if prompt else ids


# Mistral's own package.


@functools.cache
def mistral_tokenizer(name: str, *, trained: bool) -> Any:  # noqa: ANN401
    """Read a vocabulary's file; `trained` requests end with an answer."""
    from mistral_common.protocol.instruct.validator import ValidationMode  # noqa: PLC0415
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer  # noqa: PLC0415

    mode = ValidationMode.finetuning if trained else ValidationMode.test
    return MistralTokenizer.from_file(str(FILES.get(name) or tekken(name)), mode=mode)


@functools.cache
def tekken(name: str) -> Path:
    """Write a file of a later version, `tekken-v11`: the package has encoders, and an older file.

    Of that file the first tokens serve; control tokens are those that the version has.
    """
    import mistral_common  # noqa: PLC0415

    older = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    file = json.loads(older.read_text("utf-8"))
    version = name.removeprefix("tekken-")
    size, special = 20_000, list(TEKKEN)
    if version == "v7":
        special = special[: TEKKEN.index("[ARGS]")]
    changes = {
        "version": version,
        "default_vocab_size": size,
        "default_num_special_tokens": len(special),
        "num_vocab_tokens": size - len(special),
    }
    tokens = [
        {"rank": rank, "token_str": spelling, "is_control": True}
        for rank, spelling in enumerate(special)
    ]
    whole = {
        "config": file["config"] | changes,
        "vocab": file["vocab"][: size - len(special)],
        "special_tokens": tokens,
    }
    path = Path(tempfile.mkdtemp()) / "tekken.json"
    path.write_text(json.dumps(whole), "utf-8")
    return path


def mistral(name: str, messages: list[Message], tools: list[Message] | None = None) -> list[int]:
    """Encode a request; raises what the package raises where it refuses one."""
    from mistral_common.protocol.instruct.request import ChatCompletionRequest  # noqa: PLC0415

    trained = bool(messages) and messages[-1]["role"] == "assistant"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = mistral_tokenizer(name, trained=trained)
        request: ChatCompletionRequest[Any] = ChatCompletionRequest.model_validate(
            {"messages": messages, "tools": tools or None}
        )
        return list(tokenizer.encode_chat_completion(request).tokens)
