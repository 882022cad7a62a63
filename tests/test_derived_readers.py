"""Readers derived from published chat templates: they read back what the template writes.

`python tests/test_derived_readers.py` prints the table of docs/any-model.md.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import template_oracle as oracle
import test_template_codec as published
from chatcodec import Codec, Template, Vocab
from chatcodec.errors import ChatCodecError
from template_oracle import SCENARIOS
from test_constrain import NO_CALLS

SPELLED = re.compile(
    r"\[\|[^|\[\]\s]{1,40}\|\]|</?[a-z]+:[a-z_]+>|\]~!?b\[?\]?|\[e~\[|〈\|[A-Z]+\|〉|<\|[a-z_]+>|<[a-z_]+\|>"
    r"|<\|\"\|>|<\|[^|<>\s'\"{}]{1,40}\|>|<｜[^<>\s'\"{}]{1,40}｜>|</?[a-z_]{2,30}>|\[/?[A-Za-z_]{3,24}\]|<<?/?SYS>>?"
)
"""Control tokens, as the tokenizers of these models have them."""

THINKING = ("reasoning_content", "reasoning", "thinking")
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("look_up", "add")
]


NAMED = {"examples_tool_chat_template_qwen3coder.jinja", "trl_nemotron_3_ultra.jinja"}
"""The templates that a built-in format reads. Tags within their calls and tools are text in the
models' vocabularies, and so to the format."""
INNER = re.compile(
    "</?(default|description|enum|function|name|parameters?|properties|required|return|type)>"
)


def spellings_of(source: str) -> tuple[str, ...]:
    """The control tokens of a template: those of its source, and of what it writes."""
    found = {*SPELLED.findall(source), *oracle.OWN.values()}
    template = oracle.environment().from_string(source)
    for name in ("plain", "multi", "system", "call", "callans", "par", "reason"):
        with contextlib.suppress(Exception):
            found.update(SPELLED.findall(oracle.render(template, SCENARIOS[name])))
    closed = {word for word in found if re.fullmatch(r"</[a-z_]+>", word)}
    return tuple(sorted(found - {word for word in closed if f"<{word[2:]}" not in found}))


@functools.cache
def codec_of(name: str) -> Codec | None:
    """The codec of a published template; None for one that is refused."""
    source = published.text_of(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        spellings = spellings_of(source)
        if name in NAMED:
            spellings = tuple(one for one in spellings if not INNER.fullmatch(one))
        published.tokenizer(spellings).save(str(path))
        try:
            return Codec(Template(source, **oracle.OWN), Vocab.load(path))
        except ChatCodecError:
            return None


def parts(codec: Codec) -> set[str] | None:
    """What `describe` says that completions are read with; None for a reader of text."""
    told = codec.describe()
    if "read as text up to" in told:
        return None
    if "derived from the template" not in told:
        calls = set() if codec.format.name in NO_CALLS else {"calls"}
        return {*calls, "results of calls", "reasoning"}
    line = next(line for line in told.splitlines() if "derived from the template" in line)
    read = line.partition("the texts of messages")[2].partition(";")[0]
    return {part.strip() for part in read.split(",") if part.strip()}


def words(seed: random.Random) -> str:
    letters = "abc XYZ 0129 .,!? é漢🦜 <>{}[]\"' \\ :_"
    text = "".join(seed.choices(letters, k=seed.randint(1, 24))).strip()
    return text or "a"


def conversation(seed: random.Random) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for _ in range(seed.randint(1, 3)):
        messages += [{"role": "user", "content": words(seed)}]
        messages += [{"role": "assistant", "content": words(seed)}]
    return messages[: seed.randint(1, len(messages))]


def calling(seed: random.Random) -> dict[str, Any]:
    names = ["city", "unit"][: seed.randint(1, 2)]
    arguments = {key: "".join(seed.choices("abcXYZ é漢", k=5)).strip() or "x" for key in names}
    function = {"name": seed.choice(["look_up", "add"]), "arguments": arguments}
    call = {"id": "call00001", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def seen(message: dict[str, Any]) -> Any:  # noqa: ANN401
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    given = [call["arguments"] for call in calls]
    arguments = [json.loads(it) if isinstance(it, str) else it for it in given]
    content = (message.get("content") or "").strip()
    return message["role"], content, [call["name"] for call in calls], arguments


def completion(codec: Codec, messages: list[dict[str, Any]], **options: Any) -> Any:  # noqa: ANN401
    """The prompt of the last message, and its ids; None where the prompt is not its beginning."""
    try:
        prompt = codec.encode(messages[:-1], add_generation_prompt=True, **options)
        whole = codec.encode(messages, add_generation_prompt=False, **options)
    except ChatCodecError:
        return None
    begun = prompt.ids.tolist()
    ids = whole.ids.tolist()
    return (begun, ids[len(begun) :]) if ids[: len(begun)] == begun else None


pytestmark = pytest.mark.skipif(
    not published.PUBLISHED, reason=f"no templates in {published.FOLDER}"
)


@pytest.mark.parametrize("name", published.PUBLISHED)
def test_a_reader_reads_what_the_template_writes(name: str) -> None:
    codec = codec_of(name)
    found = codec and parts(codec)
    if codec is None or found is None:
        pytest.skip("no reader is derived")
    seed = random.Random(name)
    read = wrong = 0
    for _ in range(60):
        messages = [*conversation(seed)]
        if messages[-1]["role"] == "user":
            messages.append({"role": "assistant", "content": words(seed)})
        given = completion(codec, messages)
        if given is None:
            continue
        prompt, ids = given
        read += 1
        parsed = codec.parse(ids, prompt)
        wrong += seen(parsed.message) != seen(messages[-1])
        assert codec.parse(ids[: len(ids) // 2], prompt).message["role"] == "assistant"
        if "calls" in found:
            question = {"role": "user", "content": words(seed)}
            called = completion(codec, [question, message := calling(seed)], tools=TOOLS)
            # Of a template that passes over calls there is nothing to read.
            name = message["tool_calls"][0]["function"]["name"]
            if called is not None and name in codec.vocab.decode(called[1]):
                read += 1
                wrong += seen(codec.parse(called[1], called[0]).message) != seen(message)
    assert wrong * 20 <= read, (name, wrong, read)


@pytest.mark.parametrize("name", published.PUBLISHED)
def test_any_ids_in_any_chunks_give_the_same_events(name: str) -> None:
    codec = codec_of(name)
    if codec is None:
        pytest.skip("the template or its vocabulary is refused")
    seed = random.Random(name)
    control = sorted(codec.vocab.control.values())
    prompt: Any = []
    with contextlib.suppress(ChatCodecError):  # One wants more than a question.
        prompt = codec.encode([{"role": "user", "content": "q"}]).ids
    for _ in range(12):
        pieces = ['{"name": "f"', "text", "\n", "<tool_call>", "[f(a=", "</", ": ", "}}"]
        ids: list[int] = []
        for _ in range(seed.randint(1, 12)):
            text = codec.vocab.encode(seed.choice(pieces))
            ids += [seed.choice(control)] if seed.random() < 0.5 else text
        whole, single = codec.stream(prompt), codec.stream(prompt)
        at_once = [*whole.push(ids), *whole.finish()]
        one_by_one = [event for id_ in ids for event in single.push(id_)] + [*single.finish()]
        assert text_of(at_once) == text_of(one_by_one)
        codec.parse(ids, prompt)
        codec.decode(ids)


def text_of(events: list[Any]) -> list[tuple[str, str]]:
    """Events, with neighbouring pieces of one kind joined: chunks cut texts."""
    joined: list[tuple[str, str]] = []
    for event in events:
        kind, text = type(event).__name__, getattr(event, "text", None)
        if text is not None and joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text if text is not None else repr(event)))
    return joined


def table() -> dict[str, int]:
    """How many of the published templates have a reader, and of which parts."""
    counted = dict.fromkeys(
        ("plain rows", "calls", "calls and results", "reasoning", "every part"), 0
    )
    for name in published.PUBLISHED:
        codec = codec_of(name)
        found = codec and parts(codec)
        if codec is None or found is None:
            continue
        counted["plain rows"] += 1
        counted["calls"] += "calls" in found
        counted["calls and results"] += {"calls", "results of calls"} <= found
        counted["reasoning"] += "reasoning" in found
        counted["every part"] += "some is text" not in codec.describe() and (
            bool(found) or not writes_more(codec)
        )
    return counted


def writes_more(codec: Codec) -> bool:
    """Whether a template writes calls or reasoning."""
    user: dict[str, Any] = {"role": "user", "content": "q"}
    call = {
        "id": "call00001",
        "type": "function",
        "function": {"name": "fnqz", "arguments": {"a": "Vaqz"}},
    }
    thinking: list[dict[str, Any]] = [
        {"role": "assistant", "content": "A", key: "Vaqz"} for key in THINKING
    ]
    for tools in (None, TOOLS):
        for answer in ({"role": "assistant", "content": "", "tool_calls": [call]}, *thinking):
            try:
                if "Vaqz" in codec.encode([user, answer], tools=tools).text:
                    return True
            except ChatCodecError:
                continue
    return False


def test_the_table_of_the_docs() -> None:
    counted = table()
    assert counted["plain rows"] >= 95
    assert counted["calls and results"] >= 30
    assert counted["every part"] >= 65


if __name__ == "__main__":
    for part, count in table().items():
        sys.stdout.write(f"| {part} | {count} of {len(published.PUBLISHED)} |\n")
