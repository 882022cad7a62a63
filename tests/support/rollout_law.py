"""What a memory has to hold for any agent: random rollouts of one, and a naive memory beside it.

    python tests/support/rollout_law.py 1000 [NAME...]

runs so many rollouts on each built-in format and each template at hand, and prints what was found.
An agent appends, uses tools, retries, branches twice, compacts its history once, takes one of
several choices, changes its tools, edits what was said, and sends images where the format has a
place for them; its engine splits texts and cuts answers at random. For each of its requests:

- what is told as known is the ids of a prompt and its answer that this client has seen, unchanged;
- where the client only appended, the prompt begins with the last prompt and its answer, or the
  gateway tells that an answer is unknown;
- where the ids are others than those of a new encoding, a note tells so.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import rollouts
from chatcodec import formats
from chatcodec.errors import ChatCodecError, VocabError
from chatcodec.serve.errors import ApiError
from chatcodec.serve.memory import MemoryStore
from completions import codec_of
from rollouts import Desk, Message, respelled, results
from test_template_codec import PUBLISHED, made, text_of

if TYPE_CHECKING:
    from chatcodec import Codec
    from rollouts import Asked

__all__ = ["Figures", "codec", "law", "names", "plain"]

HELLO: list[Message] = [{"role": "user", "content": "Begin"}]
UNTOLD = {"examples_tool_chat_template_phi4_mini.jinja"}
"""Templates after which a call that is cut before its last brace has no note yet."""
STEPS = 8
"""Requests of a rollout."""
MORE_TOOLS = [
    *rollouts.TOOLS,
    {
        "type": "function",
        "function": {
            "name": "stop",
            "description": "Stop.",
            "parameters": {"type": "object", "properties": {"why": {"type": "string"}}},
        },
    },
]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@cache
def codec(name: str) -> Codec:
    """The codec of a format, or of a published template."""
    if not name.endswith(".jinja"):
        return codec_of(name)
    with tempfile.TemporaryDirectory() as folder:
        return made(text_of(name), Path(folder))[1]


def names() -> list[str]:
    """All built-in formats, and all templates at hand."""
    return [*sorted(formats()), *PUBLISHED]


@dataclass
class Figures:
    """What was found."""

    counts: Counter[str] = field(default_factory=Counter)
    """Rollouts, requests, those that only append, those of them that are exact."""
    steps: Counter[str] = field(default_factory=Counter)
    """What the agents did."""
    broken: list[str] = field(default_factory=list)
    """Where the law does not hold."""

    def add(self, other: Figures) -> None:
        """Add what another run found."""
        self.counts += other.counts
        self.steps += other.steps
        self.broken += other.broken

    @property
    def hits(self) -> float:
        """The share of the ids that could be found in which they were, 1 for all."""
        return self.counts["ids"] / max(1, self.counts["possible"])


def law(name: str, count: int, seed: int = 0) -> Figures:
    """Run rollouts on a format or a template; nothing where the vocabulary lacks its tokens."""
    found = Figures()
    try:
        desks = {id(tools): Desk(codec(name), random.Random(0), tools=tools) for tools in SETS}
    except VocabError:
        return found
    for number in range(count):
        found.counts["rollouts"] += 1
        Agent(name, desks, random.Random(f"{name} {seed + number}"), found).run()
    return found


SETS: tuple[list[Message] | None, ...] = (None, rollouts.TOOLS, MORE_TOOLS)


class Agent:
    """An agent with a script of dice."""

    def __init__(
        self, name: str, desks: dict[int, Desk], choose: random.Random, found: Figures
    ) -> None:
        """Begin before a memory that has nothing."""
        self.name, self.desks, self.random, self.found = name, desks, choose, found
        store = MemoryStore(1 << 24)
        for desk in desks.values():
            desk.store = desk.reader.store = store
            desk.random, desk.asked = choose, []
        self.tools = choose.choice(SETS)
        self.threads: list[list[Message]] = [HELLO]
        self.seen: list[tuple[str, Asked]] = []
        """The history with each answer, and the answer."""
        self.left = Counter({"branch": 2, "compact": 1, "tools": 1, "edit": 1, "image": 2})

    def run(self) -> None:
        """Send requests; what the format has no place for is refused, and left."""
        for _ in range(STEPS):
            step, tools = self.step(), self.tools
            messages, count = self.messages(step), 1 + 2 * (step == "choices")
            try:
                asked = self.desks[id(self.tools)].ask_for(count, messages)
            except ApiError:
                self.found.steps[f"{step} refused"] += 1
                self.tools = None if len(self.threads) == 1 else tools
                if step in {"append", "choices"}:
                    self.threads.append(HELLO)
                continue
            self.found.steps[step] += 1
            self.check(step, asked[0])
            for each in asked:
                said = [*messages, respelled(each.message, self.random)]
                self.seen.append((self.key(said), each))
            self.threads.append([*said, *results(each.message, self.random)])

    def step(self) -> str:
        """Choose what comes next."""
        more = [step for step, left in self.left.items() if left and len(self.threads) > 1]
        step = self.random.choice(["append", "append", "append", "choices", "retry", *more])
        self.left[step] -= step in self.left
        return step

    def messages(self, step: str) -> list[Message]:
        """The messages of the next request."""
        messages = self.threads[-1]
        match step:
            case "retry" if len(self.threads) > 1:
                return self.threads[-2]
            case "branch":
                return self.random.choice(self.threads)
            case "tools":
                self.tools = self.random.choice(SETS)
            case "compact":
                at = max(n for n, message in enumerate(messages) if message["role"] == "user")
                short = {"role": "user", "content": "In short: all is well. Go on."}
                return [short, *messages[at + 1 :]]
            case "edit":
                return self.edited(messages)
            case "image":
                text = {"type": "text", "text": "See."}
                if messages[-1]["role"] == "user":
                    return [*messages[:-1], {"role": "user", "content": [text, IMAGE]}]
        return messages

    def edited(self, messages: list[Message]) -> list[Message]:
        """Messages of which one says something else."""
        at = self.random.randrange(len(messages))
        if messages[at]["role"] == "tool":
            return messages
        edited = {"role": messages[at]["role"], "content": "No, this."}
        after = [] if calls_of(messages[at]) else messages[at + 1 :]
        return [*messages[:at], edited, *after]

    def key(self, messages: list[Message]) -> str:
        """What a history says, with the tools."""
        return plain(messages) + json.dumps(self.tools)

    def check(self, step: str, asked: Asked) -> None:
        """Check one request beside all that the client has seen."""
        counts, told = self.found.counts, asked.recalled
        counts["requests"] += 1
        ids = [each.prompt + each.sampled for _, each in self.seen]
        if told.ids and asked.prompt[: told.ids] not in ids:
            self.broke(step, "ids were changed", asked)
        keys = {self.key(asked.messages[: n + 1]) for n in range(len(asked.messages))}
        known = [(key, each) for key, each in self.seen if key in keys]
        counts["known ids"] += told.ids
        if known:
            longest = max(len(each.messages) for _, each in known)
            last = [each for _, each in known if len(each.messages) == longest]
            counts["appended"] += 1
            counts["possible"] += max(len(each.prompt) + len(each.sampled) for each in last)
            counts["ids"] += told.ids
            starts = [each.prompt + each.sampled for each in last]
            if any(asked.prompt[: len(start)] == start for start in starts):
                counts["exact"] += 1
            elif told.unknown:
                counts["unknown"] += 1
            else:
                self.broke(step, "nothing tells that an answer was encoded", asked)
        if told.known and not told.kinds and not told.unknown and self.is_other(asked):
            self.broke(step, "no note tells that the ids are others", asked)

    def is_other(self, asked: Asked) -> bool:
        """Whether the ids are not those of a new encoding.

        White space at the end of an answer that was cut may be what ends its turn.
        """
        ids = self.anew(asked)
        if ids is None or ids == asked.prompt or self.name in UNTOLD:
            return False
        decode = self.desks[id(self.tools)].codec.vocab.decode
        one, other = decode(ids), decode(asked.prompt)
        return one == other or "".join(one.split()) != "".join(other.split())

    def anew(self, asked: Asked) -> list[int] | None:
        """A new encoding of what was said; None where that has none, or is not known."""
        messages: list[Message] = []
        for n, sent in enumerate(asked.messages):
            message = sent
            if message["role"] == "assistant":
                key = self.key(asked.messages[: n + 1])
                told = {json.dumps(each.message): each for said, each in self.seen if said == key}
                if len(told) != 1:
                    return None
                message = _with_ids(next(iter(told.values())).message, message)
            content = message.get("content") or ""
            if isinstance(content, list):
                content = [{**part, "tokens": 3} if part == IMAGE else part for part in content]
            messages.append({**message, "content": content})
        # A memory writes calls with the ids that were sampled, whatever a client's are.
        ids, others = (self.encoded(each) for each in (messages, _renumbered(messages)))
        return ids if ids == others else None

    def encoded(self, messages: list[Message]) -> list[int] | None:
        """The ids of messages; None where the codec refuses them."""
        made, tools = self.desks[id(self.tools)].codec, self.tools
        try:
            found = made.encode(messages, tools=tools, on_arguments="string", unknown="ignore")
        except ChatCodecError:
            return None
        return found.ids.tolist()

    def broke(self, step: str, problem: str, asked: Asked) -> None:
        """Keep what does not hold."""
        told = {"messages": asked.messages, "recalled": str(asked.recalled)[:300]}
        self.found.broken.append(f"{self.name}: {step}: {problem}: {json.dumps(told)}")


def calls_of(message: Message) -> list[Message]:
    """The calls of a message."""
    calls: list[Message] = message.get("tool_calls", [])
    return calls


def _with_ids(said: Message, message: Message) -> Message:
    """An answer as it was told, with the ids that the client gave its calls."""
    ids = [call["id"] for call in calls_of(message)]
    calls = zip(calls_of(said), ids, strict=False)
    return said | ({"tool_calls": [{**call, "id": id_} for call, id_ in calls]} if ids else {})


def _renumbered(messages: list[Message]) -> list[Message]:
    """Messages whose calls have other ids."""
    made = json.dumps(messages)
    ids = {call["id"] for message in messages for call in calls_of(message)}
    for nth, id_ in enumerate(ids):
        made = made.replace(json.dumps(id_), json.dumps(f"other_{nth:09}"))
    renamed: list[Message] = json.loads(made)
    return renamed


def plain(messages: list[Message]) -> str:
    """What messages say, without reasoning, ids and white space around it."""
    said = []
    for message in messages:
        content = message["content"] or ""
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts = [part.get("text", part["type"]) for part in parts]
        calls = [call["function"] for call in message.get("tool_calls", ())]
        told = [(call["name"], "".join(call["arguments"].split())) for call in calls]
        said.append((message["role"], "|".join(texts).strip(), told))
    return json.dumps(said)


def _run(asked: tuple[str, int, int]) -> tuple[str, Figures, float]:
    start = time.perf_counter()
    return asked[0], law(*asked), time.perf_counter() - start


def main() -> int:
    """Run the rollouts, print the figures, and say whether the law holds."""
    count = int(sys.argv[1]) if sys.argv[1:] else 1000
    seed = int(os.environ.get("CHATCODEC_SEEDS", "") or 0)
    chosen = sys.argv[2:] or names()
    total, columns = Figures(), ("rollouts", "requests", "appended", "exact", "unknown")
    context = multiprocessing.get_context("fork")
    with context.Pool(int(os.environ.get("CHATCODEC_JOBS", "0")) or os.cpu_count()) as pool:
        asked = [(name, count, seed) for name in chosen]
        for name, found, seconds in pool.imap_unordered(_run, asked):
            total.add(found)
            row = "  ".join(f"{found.counts[each]:7}" for each in columns)
            told = f"{row}  hits {found.hits:.4f}  broken {len(found.broken)}  {seconds:.0f} s"
            sys.stdout.write(f"{name:50.50} {told}\n")
            sys.stdout.writelines(f"  {each}\n" for each in found.broken[:3])
            sys.stdout.flush()
    row = ", ".join(f"{total.counts[each]} {each}" for each in columns)
    steps = ", ".join(f"{step} {count}" for step, count in sorted(total.steps.items()))
    sys.stdout.write(f"{row}; hits {total.hits:.4f}; broken {len(total.broken)}\n{steps}\n")
    return bool(total.broken)


if __name__ == "__main__":
    sys.exit(main())
