"""What a memory has to hold for any agent: random rollouts of one, and a naive memory beside it.

    python tests/support/rollout_law.py 1000 [NAME...]

runs so many rollouts on each built-in format and each template at hand, and prints what was found.
An agent appends, uses tools, retries, branches twice, compacts its history once, takes one of
several choices, changes its tools, edits what was said, and sends images where the format has a
place for them; its engine splits texts and cuts answers at random. For each of its requests:

- what is told as known is the ids of a prompt and its answer that this client has seen, unchanged;
- where the client only appended, the prompt begins with the last prompt and its answer, or the
  gateway tells that an answer is unknown;
- where the ids are others than those of a new encoding, a note tells so;
- what follows an answer that has ended is what a new encoding ends with;
- prompts begin with 99 % of the ids of the longest history that this client has seen.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import data
import rollouts
from chatcodec import Codec, Vocab, formats
from chatcodec.errors import ChatCodecError
from chatcodec.serve.errors import ApiError
from chatcodec.serve.memory import MemoryStore
from completions import codec_of
from rollouts import Desk, Message, respelled, results
from test_template_codec import PUBLISHED, made, text_of

if TYPE_CHECKING:
    from rollouts import Asked

__all__ = ["Figures", "codec", "law", "names", "plain"]

HELLO: list[Message] = [{"role": "user", "content": "Begin"}]
OWN = data.DATA / data.MODELS["chatglm3"]
"""ChatGLM3's vocabulary: its token `sop` is a piece of the embedded one, too."""
STEPS = 8
"""Requests of a rollout."""
MANY, HITS = 200, 0.99
"""Of so many requests that append to a history, a prompt has this share of the ids before it."""
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
_DIGITS = re.compile(r"\d")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@cache
def codec(name: str) -> Codec:
    """The codec of a format, or of a published template."""
    if name == "chatglm3":
        return Codec(name, Vocab.load(OWN))
    if not name.endswith(".jinja"):
        return codec_of(name)
    return made(text_of(name))[1]


def names() -> list[str]:
    """All built-in formats, ChatGLM3 with its own vocabulary only, and all templates at hand."""
    lacking = set() if OWN.exists() else {"chatglm3"}
    return [*sorted({*formats()} - lacking), *PUBLISHED]


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
    """Run rollouts on a format or a template."""
    found = Figures()
    desks = {id(tools): Desk(codec(name), random.Random(0), tools=tools) for tools in SETS}
    for number in range(count):
        found.counts["rollouts"] += 1
        Agent(name, desks, random.Random(f"{name} {seed + number}"), found).run()
    if found.counts["appended"] > MANY and found.hits < HITS:
        found.broken.append(f"{name}: {found.hits:.4f} of the ids that could be found were")
    return found


SETS: tuple[list[Message] | None, ...] = (None, rollouts.TOOLS, MORE_TOOLS)


Key = tuple[Any, ...]


class Seen(NamedTuple):
    """An answer that the client has."""

    key: Key
    """What the history says, the answer included."""
    answer: Asked
    ids: list[int]
    """The ids of its prompt, and those that were sampled."""


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
        self.seen: list[Seen] = []
        self.words: dict[int, tuple[Message, str]] = {}
        """What each message says, by its identity."""
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
                self.seen.append(Seen(self.key(said), each, each.prompt + each.sampled))
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

    def key(self, messages: list[Message]) -> Key:
        """What a history says, with the tools."""
        return (id(self.tools), *map(self.word, messages))

    def word(self, message: Message) -> str:
        """What a message says. Messages are never changed."""
        _, word = self.words.get(id(message)) or (message, plain([message]))
        self.words[id(message)] = message, word
        return word

    def check(self, step: str, asked: Asked) -> None:
        """Check one request beside all that the client has seen."""
        counts, told = self.found.counts, asked.recalled
        counts["requests"] += 1
        if told.ids and asked.prompt[: told.ids] not in (seen.ids for seen in self.seen):
            self.broke(step, "ids were changed", asked)
        key = self.key(asked.messages)
        known = [seen for seen in self.seen if seen.key == key[: len(seen.key)]]
        counts["known ids"] += told.ids
        if known:
            longest = max(len(seen.key) for seen in known)
            starts = [seen.ids for seen in known if len(seen.key) == longest]
            counts["appended"] += 1
            counts["possible"] += max(map(len, starts))
            counts["ids"] += told.ids
            if any(asked.prompt[: len(start)] == start for start in starts):
                counts["exact"] += 1
            elif told.unknown:
                counts["unknown"] += 1
            else:
                self.broke(step, "nothing tells that an answer was encoded", asked)
        if told.known and not told.unknown:
            self.check_rest(step, asked)

    def check_rest(self, step: str, asked: Asked) -> None:
        """Check what follows the answers of a request that are all known, beside a new encoding."""
        kinds, ids = asked.recalled.kinds, asked.recalled.ids
        messages = self.told(asked)
        anew = None if messages is None else self.encoded(messages)
        if messages is None or anew is None or anew == asked.prompt:
            return
        # A memory writes calls with the ids that were sampled, whatever a client's are.
        if any(map(calls_of, messages)) and anew != self.encoded(_renumbered(messages)):
            return
        decode = self.desks[id(self.tools)].codec.vocab.decode
        text, rest = decode(anew), decode(asked.prompt[ids:])
        if not kinds and self.is_other(text, decode(asked.prompt)):
            self.broke(step, "no note tells that the ids are others", asked)
        last = (seen.answer for seen in self.seen if seen.ids == asked.prompt[:ids])
        is_ended = any(answer.reason == "stop" for answer in last)
        # A template may number calls, and a model that samples the same number twice is believed.
        if (
            is_ended
            and "moved" not in kinds
            and not _DIGITS.sub("", text).endswith(_DIGITS.sub("", rest))
        ):
            self.broke(step, f"other text follows the answer: {rest!r}", asked)

    @staticmethod
    def is_other(one: str, other: str) -> bool:
        """Whether a note has to tell that ids are not those of a new encoding, by their texts.

        White space at the end of an answer that was cut may be what ends its turn.
        """
        return one == other or "".join(one.split()) != "".join(other.split())

    def told(self, asked: Asked) -> list[Message] | None:
        """The messages, with answers as they were told; None where samples say the same."""
        messages: list[Message] = []
        for n, sent in enumerate(asked.messages):
            message = sent
            if message["role"] == "assistant":
                key = self.key(asked.messages[: n + 1])
                told = [seen.answer.message for seen in self.seen if seen.key == key]
                if not told or told != told[:1] * len(told):
                    return None
                message = _with_ids(told[0], message)
            content = message.get("content") or ""
            if isinstance(content, list):
                content = [{**part, "tokens": 3} if part == IMAGE else part for part in content]
            messages.append({**message, "content": content})
        return messages

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
