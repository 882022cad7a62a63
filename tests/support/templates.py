"""Which format follows which template of the list of conversation templates."""

from __future__ import annotations

import functools
import json
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import data
import references

if TYPE_CHECKING:
    import jinja2
    from chatcodec import Codec
    from references import Message

PLAIN = ("system", "user", "assistant")
WITH_TOOL = (*PLAIN, "tool")


@dataclass(frozen=True)
class Case:
    """A format, the template that it follows, and a vocabulary to write it with."""

    format: str
    heading: str
    vocab: str
    roles: tuple[str, ...] = WITH_TOOL
    bos: str = ""
    eos: str = ""
    is_escaped: bool = False
    """Whether the list prints the template as a JSON string, without its quotes."""
    tool: tuple[str, str] | None = None
    """What the template writes of a result's role, and what is written instead: intended."""

    @functools.cached_property
    def template(self) -> jinja2.Template:
        source = data.jinja_template(self.heading)
        return references.template(json.loads(f'"{source}"') if self.is_escaped else source)

    @functools.cached_property
    def codec(self) -> Codec:
        return data.load_format(self.format, self.vocab)

    def __str__(self) -> str:
        return f"{self.format} on {self.vocab}"

    def expected(self, messages: list[Message], *, prompt: bool) -> str:
        """The template's text; raises what the template raises."""
        if self.format == "chatglm3":
            # The space before content is the encoder's: nothing is encoded of nothing.
            messages = [{**m, "content": m["content"] or NOTHING} for m in messages]
        text = self.template.render(
            messages=messages,
            add_generation_prompt=prompt,
            bos_token=self.bos,
            eos_token=self.eos,
        ).replace(f" {NOTHING}", "")
        if self.format == "qwen2":
            # The vocabulary normalises text, and what is shown is what was encoded.
            text = unicodedata.normalize("NFC", text)
        return text.replace(*self.tool) if self.tool else text


NOTHING = "\ue000\ue001\ue002"

DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")

CASES = [
    Case(
        "chatglm3", "ChatGLM-3", "chatglm3", is_escaped=True, tool=("<|tool|>", "<|observation|>")
    ),
    Case("chatml", "ChatML", "yi"),
    Case("deepseek", "DeepSeek", "deepseek-llm", PLAIN, *DEEPSEEK),
    Case("deepseek", "DeepSeek", "deepseek-v3", PLAIN, *DEEPSEEK),
    Case(
        "internlm2",
        "InternLM2",
        "internlm2",
        bos="<s>",
        # A result names what it answers: a function, if nothing says otherwise.
        tool=("<|im_start|>tool\n", "<|im_start|>environment name=<|plugin|>\n"),
    ),
    Case("llama2", "Llama-2", "llama2", WITH_TOOL, "<s>", "</s>", is_escaped=True),
    Case("llama3", "Llama-3", "llama3", bos="<|begin_of_text|>"),
    Case("mixtral-8x22b:template", "Mixtral 8x22B", "mixtral-8x22b", WITH_TOOL, "<s>", "</s>"),
    Case("mixtral-8x7b:template", "Mixtral 8x7B", "mixtral-8x7b", WITH_TOOL, "<s>", "</s>"),
    Case("phi3", "Phi-3", "phi3", PLAIN, "<s>", "<|endoftext|>"),
    Case("qwen2", "Qwen-2", "qwen2"),
    Case("yi", "Yi", "yi"),
]

CONTENTS = (
    "Hello",
    "",
    " \n edges \t",
    "What is 2+2?\nAnswer with a number.",
    "\n\nthird line\n",
    "你好，世界！",
    " ",
    "naïve café 👩\u200d👩\u200d👧 \U00018400 \u00a0",
    "\u3000wide\u2028 \x1f",
    "{{ messages }} {% raw %} \\n \"quoted\" 'too'",
    "```python\nprint('x')\n```",
    "User: no\n\nAssistant: no",
)
