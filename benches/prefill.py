"""What a memory saves an engine: `python -m benches.prefill` draws docs/benchmarks/prefill.svg.

An agent thinks, calls a tool and takes its result, ten times for each of three questions. The
gateway reads each request, with a memory and without. An engine that keeps prefixes computes the
ids of a prompt that come after the longest beginning that it has seen, in blocks of 16; those are
counted. The client sends reasoning back, and the model samples what the codec writes.
"""

from __future__ import annotations

import json
import random
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec import Codec, Vocab, collect
from chatcodec.serve.apis import APIS
from chatcodec.serve.memory import MemoryStore
from chatcodec.serve.reading import Reader
from chatcodec.serve.settings import Settings

from .memory import WORDS, keep

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent
RUST = ROOT / "rust"
FORMATS = ("qwen3", "glm4.5", "minimax-m2")
"""Formats that write earlier turns without their reasoning."""
QUESTIONS, CALLS = 3, 10
BLOCK = 16
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Search.",
            "parameters": {"type": "object", "properties": {"words": {"type": "string"}}},
        },
    }
]


@dataclass
class Engine:
    """The prefixes that an engine has, and what it computed."""

    seen: list[list[int]] = field(default_factory=list)
    computed: list[int] = field(default_factory=list)
    """Ids that were computed, up to each request."""

    def prefill(self, prompt: list[int]) -> None:
        """Count the ids of a prompt that are new."""
        known = max((_same(prompt, each) for each in self.seen), default=0)
        before = self.computed[-1] if self.computed else 0
        self.computed.append(before + len(prompt) - known // BLOCK * BLOCK)


def _same(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def codec_of(name: str) -> Codec:
    """A codec on the embedded vocabulary, with the format's control tokens after it."""
    file = tomllib.loads((RUST / "core" / "formats" / f"{name}.toml").read_text("utf-8"))
    model = RUST / "vocab" / "src" / "vocab" / "embedded.model"
    named = [word for word in file["control"].values() if isinstance(word, str)]
    embedded = Vocab.load(model)
    lacking = [word for word in named if word not in embedded.control]
    tokens = {word: embedded.size + nth for nth, word in enumerate(lacking)}
    return Codec(name, Vocab.load(model, special_tokens=tokens))


class Agent:
    """An agent before a gateway and an engine."""

    def __init__(self, codec: Codec, *, remembers: bool) -> None:
        """Begin."""
        self.codec, self.engine = codec, Engine()
        self.store = MemoryStore(1 << 30) if remembers else None
        settings = Settings(backend="http://-", names=("m",), readers=0)
        self.reader = Reader(codec, settings, self.store)
        self.random = random.Random(3)  # noqa: S311 (no secret)
        self.messages: list[dict[str, Any]] = []

    def text(self, words: int) -> str:
        """Some words."""
        return " ".join(self.random.choices(WORDS, k=words))

    def run(self) -> list[int]:
        """Ask all questions; give the ids that the engine computed up to each request."""
        for question in range(QUESTIONS):
            self.messages.append({"role": "user", "content": self.text(40)})
            for call in range(CALLS):
                function = {"name": "search", "arguments": {"words": self.text(5)}}
                id_ = f"call0{question}{call:03}"
                said = {"tool_calls": [{"id": id_, "type": "function", "function": function}]}
                told = self.ask({"content": "", **said})
                result = {"tool_call_id": told["tool_calls"][0]["id"], "content": self.text(150)}
                self.messages += [told, {"role": "tool", "name": "search", **result}]
            self.messages.append(self.ask({"content": self.text(60)}))
        return self.engine.computed

    def ask(self, said: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and take the answer."""
        body = json.loads(json.dumps({"messages": self.messages, "tools": TOOLS}))
        read = self.reader.read(APIS[0], body)
        prompt = read.prompt.ids.tolist()
        self.engine.prefill(prompt)
        answer = {"role": "assistant", "reasoning_content": self.text(80), **said}
        sampled = self.sampled(answer)
        self.engine.seen.append([*prompt, *sampled])
        stream = self.codec.stream(prompt, tools=TOOLS)
        message = collect([*stream.copy().push(sampled), *stream.copy().finish()])
        keep(self.store, read, stream, sampled, f"chatcmpl-{len(self.messages)}")
        message["reasoning_content"] = message.pop("reasoning", "")
        return message

    def sampled(self, answer: dict[str, Any]) -> list[int]:
        """The ids that a model samples for an answer: as the codec writes it when it is last."""
        asked = [{"role": "user", "content": "?"}]
        prompt = self.codec.encode(asked, tools=TOOLS, add_generation_prompt=True)
        whole = self.codec.encode([*asked, answer], tools=TOOLS)
        labels = whole.labels(last_only=True)
        end = max(at for at, label in enumerate(labels) if label != -100) + 1
        ids = whole.ids.tolist()
        if ids[: len(prompt)] != prompt.ids.tolist():
            sys.exit(f"{self.codec}: an answer does not begin after the prompt")
        return ids[len(prompt) : end]


WIDTH, HEIGHT, LEFT, TOP = 260, 150, 56, 34


def panel(name: str, left: int, lines: dict[str, list[int]]) -> str:
    """One format: the ids that were computed, by requests."""
    most = max(max(line) for line in lines.values())
    count = len(next(iter(lines.values())))

    def at(nth: int, value: int) -> str:
        x = left + LEFT + (nth + 1) / count * WIDTH
        return f"{x:.1f},{TOP + HEIGHT - value / most * HEIGHT:.1f}"

    base = TOP + HEIGHT
    parts = [f'<text x="{left + LEFT}" y="18" font-weight="bold">{name}</text>']
    for share in (0.0, 0.5, 1.0):
        y = base - share * HEIGHT
        parts.append(
            f'<line x1="{left + LEFT}" x2="{left + LEFT + WIDTH}" y1="{y}" y2="{y}" stroke="#ccc"/>'
            f'<text x="{left + LEFT - 4}" y="{y + 4}" text-anchor="end">{most * share:,.0f}</text>'
        )
    styles = (("#c0392b", -6), ("#2471a3", 16))
    for (colour, below), (label, line) in zip(styles, lines.items(), strict=True):
        points = " ".join(at(nth, value) for nth, value in enumerate(line))
        end_x, end_y = map(float, at(count - 1, line[-1]).split(","))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{end_x}" y="{end_y + below}" fill="{colour}" text-anchor="end">'
            f"{label}: {line[-1]:,}</text>"
        )
    parts.append(f'<text x="{left + LEFT}" y="{base + 16}">{count} requests</text>')
    return "".join(parts)


def main() -> int:
    """Counts, prints and draws."""
    panels = []
    for nth, name in enumerate(FORMATS):
        codec = codec_of(name)
        lines = {
            label: Agent(codec, remembers=remembers).run()
            for label, remembers in (("without", False), ("with a memory", True))
        }
        off, on = (line[-1] for line in lines.values())
        sys.stdout.write(f"{name}: {off:,} ids without a memory, {on:,} with: {1 - on / off:.0%}\n")
        panels.append(panel(name, nth * (LEFT + WIDTH + 20), lines))
    width, height = len(FORMATS) * (LEFT + WIDTH + 20), TOP + HEIGHT + 28
    style = 'font-family="sans-serif" font-size="11"'
    drawn = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>'
    drawn += f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(panels)}</svg>\n'
    (ROOT / "docs" / "benchmarks" / "prefill.svg").write_text(drawn, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
