"""Scripted agents before a gateway that keeps turns: what a client sends, and a naive memory of it.

An agent asks, uses tools, retries, branches, edits, compacts its history, and sends answers back in
another spelling. Its engine samples ids that no encoder gives: texts are split at random, answers
are cut. The gateway's reading and keeping is called directly, so that thousands of rollouts take
seconds.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from chatcodec.adapters.openai_chat import ChunkStream, collect
from chatcodec.adapters.run import Generated, chunks
from chatcodec.adapters.stops import StopStrings
from chatcodec.errors import MessageError
from chatcodec.serve.apis import APIS
from chatcodec.serve.memory import MemoryStore, turn_of
from chatcodec.serve.reading import Reader
from chatcodec.serve.settings import Settings
from completions import ids_of

if TYPE_CHECKING:
    import random

    from chatcodec import Codec, Vocab
    from chatcodec.serve.memory import Recalled, Store
    from chatcodec.serve.reading import Read

Message = dict[str, Any]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look.",
            "parameters": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "n": {"type": "integer"}},
            },
        },
    }
]
WORDS = ["Hello", " there", "\n", "é", "  ", "look", '{"a": 1}', " 42", "ünïcode", "</s>", "."]


@dataclass
class Asked:
    """One request, and its answer."""

    messages: list[Message]
    prompt: list[int]
    sampled: list[int]
    message: Message
    recalled: Recalled
    tools: list[Message] | None = None
    reason: str = "stop"


@dataclass
class Desk:
    """A gateway's reading and keeping, before an engine that samples at random."""

    codec: Codec
    random: random.Random
    store: Store = field(default_factory=lambda: MemoryStore(1 << 24))
    tools: list[Message] | None = None
    client: str = ""
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = Settings(backend="http://-", names=("m",), memory=1, media_tokens=("image=3",))
        self.reader = Reader(self.codec, settings, self.store)
        self.answers = answers(self.codec, self.tools)
        self.spelling = Spelling(self.codec.vocab)

    def ask(self, messages: list[Message], **more: Any) -> Asked:  # noqa: ANN401
        """Send a request, as a client does, and take the answer."""
        return self.ask_for(1, messages, **more)[0]

    def ask_for(self, choices: int, messages: list[Message], **more: Any) -> list[Asked]:  # noqa: ANN401
        """Send a request for several choices, and take the answers."""
        body = {"messages": messages, **more}
        if self.tools:
            body["tools"] = self.tools
        if choices > 1:
            body["n"] = choices
        read = self.reader.read(APIS[0], json.loads(json.dumps(body)), self.client)
        return [self._answer(read, messages, choice) for choice in range(choices)]

    def _answer(self, read: Read, messages: list[Message], choice: int) -> Asked:
        assert read.recalled is not None
        prompt = read.prompt.ids
        sampled, reason = self.sample()
        stream = self.codec.stream(prompt, tools=self.tools)
        stop = StopStrings(read.request.stop)
        number = len(self.asked)
        adapter = ChunkStream(id=f"chatcmpl-{id(self)}{number}", model="m")
        told = collect(
            chunks(iter([Generated(sampled, reason=reason)]), stream.copy(), adapter, stop=stop)
        )
        turn = turn_of(
            recalled=read.recalled,
            request=read.request,
            prompt=prompt,
            stream=stream,
            sampled=sampled,
            logprobs=[],
            reason=reason,
            stops=StopStrings(read.request.stop),
            id=adapter.id,
            choice=choice,
        )
        self.store.add(turn)
        ids = memoryview(turn.sampled).cast("i").tolist()
        message = told["choices"][0]["message"]
        made = Asked([*messages], prompt.tolist(), ids, message, read.recalled, self.tools, reason)
        self.asked.append(made)
        return made

    def sample(self) -> tuple[list[int], Any]:
        """Sample an answer: split at random, and sometimes cut."""
        choose = self.random
        ids = list(choose.choice(self.answers))
        if choose.random() < 0.2:
            return self.split(ids[: choose.randrange(1, len(ids) + 1)]), "length"
        return self.split(ids), "stop"

    def split(self, ids: list[int]) -> list[int]:
        """Spell some texts by other ids: the bytes of a token by those of its parts."""
        found = []
        for id_ in ids:
            text = ""
            if id_ not in self.spelling.control and self.random.random() < 0.3:
                text = self.spelling.text(id_)
            if text:
                at = self.random.randrange(1, len(text))
                found += [*self.spelling.ids(text[:at]), *self.spelling.ids(text[at:])]
            else:
                found.append(id_)
        return found


class Spelling:
    """The texts of ids that may be split, and the ids of their parts."""

    def __init__(self, vocab: Vocab) -> None:
        self.control = frozenset(vocab.control.values())
        self.text = cache(partial(_text, vocab))
        self.ids = cache(partial(_ids, vocab))


def _text(vocab: Vocab, id_: int) -> str:
    """The text of an id that may be split; empty for another."""
    text = vocab.decode([id_, id_], control="skip")
    half = text[: len(text) // 2]
    is_split = half + half == text and len(half) > 1 and half.isascii() and half.isalnum()
    return half if is_split else ""


def _ids(vocab: Vocab, text: str) -> list[int]:
    first = list(vocab.encode("."))
    both = list(vocab.encode("." + text))
    return both[len(first) :] if both[: len(first)] == first else list(vocab.encode(text))


def answers(codec: Codec, tools: list[Message] | None) -> list[list[int]]:
    """The ids of some answers, as the codec trains them: texts, reasoning, calls."""
    function = {"name": "look", "arguments": {"at": "Oslo", "n": 3}}
    call = {"id": "abcdefgh1", "type": "function", "function": function}
    told: list[Message] = [{"content": text} for text in ("Hello there.", "It is 42\n\nor so é.")]
    told += [{"content": "Yes.", "reasoning_content": "Hm, think\nabout it."}]
    if tools:
        called = {"content": "", "tool_calls": [call]}
        told += [called, {**called, "content": "Let me look."}]
        told += [{**called, "tool_calls": [call, {**call, "id": "abcdefgh2"}]}]
        told += [{**called, "reasoning_content": "I should look."}]
    found = [ids for each in told if (ids := answer(codec, tools, each))]
    return found or [[*codec.vocab.encode("Hello"), *codec.stop_ids[:1]]]


def answer(codec: Codec, tools: list[Message] | None, said: Message) -> list[int]:
    """The ids of an answer after a prompt; none where the codec has no such answer there."""
    asked = [{"role": "user", "content": "?"}]
    try:
        prompt = codec.encode(asked, tools=tools)
        encoding = codec.encode([*asked, {"role": "assistant", **said}], tools=tools)
    except (MessageError, ValueError):
        return []
    labels = encoding.labels(last_only=True)
    own = [at for at, id_ in enumerate(labels) if id_ != -100]
    if not own or not encoding.text.startswith(prompt.text):
        return []
    ids, begun = encoding.ids.tolist()[: own[-1] + 1], prompt.ids.tolist()
    if ids[: len(begun)] == begun:
        return ids[len(begun) :]
    # A token of the conversation spans the end of the prompt.
    text = codec.vocab.decode(ids)[len(codec.vocab.decode(begun)) :]
    return ids_of(codec, text)


def respelled(message: Message, choose: random.Random) -> Message:
    """An answer as another client sends it back."""
    message = copy.deepcopy(message)
    message.pop("refusal", None)
    if choose.random() < 0.5:
        message.pop("reasoning_content", None)
    if not message.get("content"):
        message["content"] = choose.choice([None, ""]) if message.get("tool_calls") else ""
    elif choose.random() < 0.3:
        message["content"] = [{"type": "text", "text": message["content"]}]
    for call in message.get("tool_calls", ()):
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            continue
        indent = choose.choice([None, 1])
        call["function"]["arguments"] = json.dumps(arguments, indent=indent)
    return message


def results(message: Message, choose: random.Random) -> list[Message]:
    """The results of an answer's calls, or a question."""
    calls = message.get("tool_calls", ())
    if not calls:
        return [{"role": "user", "content": "".join(choose.choices(WORDS, k=3))}]
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": choose.choice(WORDS)}
        for call in calls
    ]
