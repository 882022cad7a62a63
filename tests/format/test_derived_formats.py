"""Format files written by hand from published templates: loaded, as the template, read back."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import data
import jinja2
import pytest
from chatcodec import Codec, Format, Vocab

FILES = sorted((Path(__file__).parent / "derived").glob("*.toml"))
TEXTS = ["Hi", "x\ny", "天气 ①", "a: b"]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}] * 2


def template(name: str, says: dict[str, Any]) -> jinja2.Template:
    """A published template. What marks an answer for training is taken out."""
    source = data.find(f"templates/{name}.jinja").read_text("utf-8")
    source = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", source)
    if name == "vicuna":
        # Its indents and newlines are for people, its page says.
        source = source.replace("    ", "").replace("\n", "")
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(
        value, ensure_ascii=False, indent=indent
    )
    control = says["control"]
    environment.globals |= {
        "bos_token": control.get("BOS", ""),
        "eos_token": control.get("EOS", ""),
    }
    return environment.from_string(source)


def bind(path: Path) -> tuple[Codec, dict[str, Any]]:
    """A codec on the embedded vocabulary with the file's tokens, and what the file says."""
    says = tomllib.loads(path.read_text("utf-8"))
    plain = Vocab.load(data.EMBEDDED_MODEL)
    spellings = [word for word in says["control"].values() if word not in plain.control]
    return Codec(Format.load(path), vocab=data.appended(tuple(spellings))), says


def conversations(*, has_results: bool) -> list[list[dict[str, str]]]:
    """User and assistant in turn, with a system message, and what the format has beside them."""
    roles = ["user", "assistant"] * 2
    kinds = [["system", *roles[:length]] for length in range(1, 5)]
    if has_results:
        kinds.append(["system", "user", "assistant", "tool", "assistant", "user"])
    return [
        [{"role": role, "content": text} for role, text in zip(roles, itertools.cycle(texts))]
        for roles in kinds
        for texts in itertools.permutations(TEXTS, 2)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_from_a_template(path: Path) -> None:
    codec, says = bind(path)
    written = template(path.stem, says)
    words = {role: word for word, role in says.get("roles", {}).items()}
    all_tools = [None, TOOLS] if "tools" in says["turn"] else [None]
    for messages in conversations(has_results="tool" in says["turn"]):
        named = [{**m, "role": words.get(m["role"], m["role"])} for m in messages]
        for tools in all_tools:
            prompt = messages[-1]["role"] == "user"
            encoding = codec.encode(messages, tools=tools, add_generation_prompt=prompt)
            expected = written.render(messages=named, tools=tools, add_generation_prompt=prompt)
            assert encoding.text == expected
            assert not encoding.collisions
            assert codec.decode(encoding.ids) == codec.canonical(messages, tools=tools)
