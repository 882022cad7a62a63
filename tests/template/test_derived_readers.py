"""Readers derived from published chat templates: they read back what the template writes.

`pytest -n 0 -s tests/template/test_derived_readers.py -k docs` prints the table of
docs/any-model.md.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import random
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import data
import pytest
import template_oracle as oracle
import test_template_codec as published
from chatcodec import Codec, Format, Template, Vocab
from chatcodec.errors import ChatCodecError
from template_oracle import SCENARIOS
from test_constrain import NO_CALLS

SPELLED = re.compile(
    r"\]<\]minimax\[>\[|\[\|[^|\[\]\s]{1,40}\|\]|</?[a-z_]+:[a-z_]+>|\]~!?b\[?\]?|\[e~\[|〈\|[A-Z]+\|〉|<\|[a-z_]+>|<[a-z_]+\|>"
    r"|<\|\"\|>|<\|[^|<>\s'\"{}]{1,40}\|>|<｜[^<>\s'\"{}]{1,40}｜>|</?[a-z_]{2,30}>|\[/?[A-Za-z_]{3,24}\]|<<?/?SYS>>?"
)
"""Control tokens, as the tokenizers of these models have them."""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "sure": {"type": "boolean"},
                },
            },
        },
    }
    for name in ("look_up", "add")
]


INNER = re.compile(
    "</?(default|description|enum|function|name|parameters?|properties|required|return|type)>"
)
"""Tags within calls and declarations of tools: text in the vocabularies of such models."""


def spellings_of(source: str) -> tuple[str, ...]:
    """The control tokens of a template: those of its source, and of what it writes."""
    found = {*SPELLED.findall(source), *oracle.OWN.values()}
    template = oracle.environment().from_string(source)
    written = ""
    for name in ("plain", "multi", "system", "call", "callans", "par", "reason"):
        with contextlib.suppress(Exception):
            text = oracle.render(template, SCENARIOS[name])
            found.update(SPELLED.findall(text))
            written += text
    closed = {word for word in found if re.fullmatch(r"</[a-z_]+>", word)}
    lone = {word for word in closed if f"<{word[2:]}" not in found}
    # What ends an answer of text is the model's token.
    lone = {word for word in lone if f"Hello!{word}" not in written}
    return tuple(sorted(it for it in found - lone if not INNER.fullmatch(it)))


@functools.cache
def codec_of(name: str) -> Codec | None:
    """The codec of a published template; None for one that is refused."""
    source = published.text_of(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        published.tokenizer(spellings_of(source)).save(str(path))
        try:
            return Codec(Template(source, **oracle.OWN), Vocab.load(path))
        except ChatCodecError:
            return None


def parts(codec: Codec) -> set[str] | None:
    """What `describe` says that completions are read with; None for a reader of text."""
    told = next(line for line in codec.describe().splitlines() if line.startswith("completions"))
    if "read as text up to" in told:
        return None
    if "read as format" in told or "format for answers" in told:
        return {"calls", "reasoning"} - set(codec.unread)
    if "derived from the template" not in told:
        calls = set() if codec.format.name in NO_CALLS else {"calls"}
        return {*calls, "results of calls", "reasoning"}
    read = told.partition("the texts of messages")[2].partition(";")[0]
    return {part.strip() for part in read.split(",") if part.strip()}


def reads_conversations(codec: Codec) -> bool:
    return parts(codec) is not None and "nobody reads conversations" not in codec.describe()


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


def call(seed: random.Random, index: int) -> dict[str, Any]:
    given = {
        "city": "".join(seed.choices("abcXYZ é漢", k=5)).strip() or "x",
        "days": seed.randint(0, 99),
        "sure": seed.random() < 0.5,
    }
    arguments = dict(list(given.items())[: seed.randint(1, 3)])
    function = {"name": seed.choice(["look_up", "add"]), "arguments": arguments}
    return {"id": f"call0000{index}", "type": "function", "function": function}


def answer(seed: random.Random, part: str) -> dict[str, Any]:
    """An answer with a part."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    if part != "reasoning":
        count = 2 if part == "two calls" else 1
        message["tool_calls"] = [call(seed, index + 1) for index in range(count)]
    if part.startswith("reasoning"):
        message["reasoning_content"] = "".join(seed.choices("abc XYZ.", k=9)).strip() or "x"
    if part == "reasoning":
        message["content"] = words(seed)
    return message


PUBLISHED_FOR_DOCS = 117
"""The number of templates in the table of the docs."""

PARTS = ("a call", "two calls", "reasoning", "reasoning before a call")


def seen(message: dict[str, Any]) -> Any:  # noqa: ANN401
    """What is compared of an answer. Some templates write all values of arguments as texts."""
    given = [call["function"] for call in message.get("tool_calls") or ()]
    parsed = [it["arguments"] for it in given]
    arguments = [json.loads(it) if isinstance(it, str) else it for it in parsed]
    values = [{key: str(it).lower() for key, it in one.items()} for one in arguments]
    content = (message.get("content") or "").strip()
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    return message["role"], content, [it["name"] for it in given], values, reasoning or None


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


def answered(codec: Codec, messages: list[dict[str, Any]], **options: Any) -> Any:  # noqa: ANN401
    """The prompt of the last message, and its ids; None if the template refuses the messages.

    Some templates write other text before an answer of the past than they prompt with: then the
    completion is what follows the prompt's last control token and the text after it, or else what
    follows the common beginning.
    """
    options["on_unsupported"] = "drop"
    given = completion(codec, messages, **options)
    if given is not None:
        return given
    try:
        prompt = codec.encode(messages[:-1], add_generation_prompt=True, **options)
        whole = codec.encode(messages, add_generation_prompt=False, **options)
    except ChatCodecError:
        return None
    begun, ids = prompt.ids.tolist(), whole.ids.tolist()
    marks = [at for at, control in enumerate(prompt.is_control) if control]
    head = begun[marks[-1] :] if marks else begun
    pairs = zip(begun, ids, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    for at in range(len(ids) - len(head), same - len(head), -1):
        if ids[at : at + len(head)] == head:
            return begun, ids[at + len(head) :]
    if messages[-2]["content"] not in codec.vocab.decode(ids[:same]):
        # Other text stands before the question.
        for mark in reversed(marks):
            if begun[mark] in ids:
                at = len(ids) - 1 - ids[::-1].index(begun[mark])
                pairs = zip(begun[mark:], ids[at:], strict=False)
                at += sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
                return ids[:at], ids[at:]
    return ids[:same], ids[same:]


def read_back(codec: Codec, part: str, seed: random.Random, count: int) -> tuple[int, int]:
    """How many random answers with a part come back, and how many the template writes."""
    read = written = 0
    for _ in range(count):
        message = answer(seed, part)
        messages = [{"role": "user", "content": words(seed)}, message]
        given = answered(codec, messages, tools=TOOLS if "tool_calls" in message else None)
        if given is None:
            continue
        prompt, ids = given
        text = codec.vocab.decode(ids)
        called = [it["function"] for it in message.get("tool_calls", ())]
        names = [text for it in called for text in (it["name"], it["arguments"]["city"])]
        thought = [message["reasoning_content"]] if "reasoning_content" in message else []
        if any(it not in text for it in [*names, *thought]):
            continue
        parsed = codec.parse(ids, prompt, tools=TOOLS)
        written += 1
        read += seen(parsed.message) == seen(message)
    return read, written


def result_read_back(codec: Codec, seed: random.Random, count: int) -> tuple[int, int]:
    """How many random conversations with a call and its result come back, of those written."""
    read = written = 0
    for _ in range(count):
        message = answer(seed, "a call")
        name, city = (message["tool_calls"][0]["function"][key] for key in ("name", "arguments"))
        result = {"role": "tool", "content": "7035 x", "name": name, "tool_call_id": "call00001"}
        messages = [{"role": "user", "content": "Why?"}, message, result]
        with contextlib.suppress(ChatCodecError):
            whole = codec.encode(messages, tools=TOOLS, add_generation_prompt=False)
            if any(text not in whole.text for text in (name, city["city"], "7035 x")):
                continue
            written += 1
            told = [
                it
                for it in codec.decode(whole.ids, tools=TOOLS)
                if it["role"] in ("assistant", "tool")
            ]
            told = [it for it in told if it.get("content") or it.get("tool_calls")][-2:]
            roles = [it["role"] for it in told]
            is_read = roles == ["assistant", "tool"] and seen(told[0]) == seen(message)
            read += is_read and told[1]["content"].strip() == "7035 x"
    return read, written


pytestmark = pytest.mark.skipif(
    not published.PUBLISHED, reason=f"no templates in {published.FOLDER}"
)


@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3, first=1))
def test_a_reader_reads_what_the_template_writes(name: str) -> None:
    codec = codec_of(name)
    if codec is None:
        pytest.skip("the template or its vocabulary is refused")
    seed = random.Random(name)
    read = wrong = 0
    for _ in range(30):
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
    assert wrong * 20 <= read or parts(codec) is None, (name, wrong, read)
    for part in PARTS:
        if any(it in codec.unread for it in ("calls", "reasoning") if it.rstrip("s") in part):
            continue
        read, written = read_back(codec, part, seed, 20)
        assert read * 20 >= written * 19, (name, part, read, written)


@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3))
def test_the_text_of_a_call_is_none_where_tokens_delimit_calls(name: str) -> None:
    codec = codec_of(name)
    if codec is None:
        pytest.skip("the template or its vocabulary is refused")
    seed = random.Random(name)
    for part in ("a call", "two calls", "reasoning before a call"):
        messages = [{"role": "user", "content": words(seed)}, answer(seed, part)]
        prompt, ids = answered(codec, messages, tools=TOOLS) or ([], [])
        text = codec.vocab.decode([id_ for id_ in ids if id_ not in codec.stop_ids])
        for ends in ([], codec.stop_ids[:1]):
            spelled = [*codec.vocab.encode(text), *ends]
            message = codec.parse(spelled, prompt, tools=TOOLS).message
            assert "calls" in codec.text_parts or not message.get("tool_calls"), text


@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3, first=2))
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


@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3, first=0))
def test_what_is_decoded_loses_no_text(name: str) -> None:
    """Words after pieces of a conversation, and anywhere between control tokens, are decoded."""
    codec = codec_of(name)
    if codec is None:
        pytest.skip("the template or its vocabulary is refused")
    seed = random.Random(name)
    control = sorted(codec.vocab.control.values())
    turns = [("user", "qwzu"), ("assistant", "vwzu"), ("user", "xwzu")]
    whole: list[int] = []
    with contextlib.suppress(ChatCodecError):  # One wants more than messages.
        messages = [{"role": role, "content": text} for role, text in turns]
        whole = codec.encode(messages).ids.tolist()
    for _ in range(20):
        ids = whole[: seed.randint(0, len(whole))]
        words = []
        for _ in range(seed.randint(1, 6)):
            words.append("".join(seed.choices("bdgjpqvwz", k=8)))
            ids += [seed.choice(control)] if seed.random() < 0.6 else []
            ids += codec.vocab.encode(words[-1]).tolist()
            ids += whole[seed.randint(0, len(whole)) :] if seed.random() < 0.3 else []
        told = str(codec.decode(ids))
        assert [word for word in words if word not in told] == [], codec.vocab.decode(ids)


def test_turns_are_derived_beside_a_format_for_answers(tmp_path: Path) -> None:
    name = "examples_tool_chat_template_llama4_json.jinja"
    if name not in published.PUBLISHED:
        pytest.skip(f"{name} is not in {published.FOLDER}")
    codec = codec_of(name)
    assert codec is not None
    assert codec.derived_turns is not None
    (tmp_path / "turns.toml").write_text(codec.derived_turns, encoding="utf-8")
    turns = Codec(Format.load(tmp_path / "turns.toml"), codec.vocab)
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    assert turns.decode(codec.encode(messages).ids)[-2:] == messages
    assert Codec("internlm2", vocab="embedded").derived_turns is None


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


def table() -> dict[str, tuple[int, int]]:
    """How many of the published templates are read in each part, of those that write the part."""
    counted = dict.fromkeys(("whole conversations of texts", *PARTS, "a result of a call"), (0, 0))

    def count(part: str, read: int, written: int) -> None:
        known = counted[part]
        counted[part] = (known[0] + (read == written), known[1] + 1) if written else known

    for name in published.PUBLISHED:
        codec = codec_of(name)
        if codec is None:
            continue
        seed = random.Random(name)
        for part in PARTS:
            count(part, *read_back(codec, part, seed, 20))
        count("a result of a call", *result_read_back(codec, seed, 10))
        texts = [*conversation(seed), {"role": "assistant", "content": "Yes."}]
        with contextlib.suppress(ChatCodecError):
            whole = codec.encode(texts, add_generation_prompt=False)
            told = [it for it in codec.decode(whole.ids) if it["role"] != "system"]
            read = [seen(it) for it in told] == [seen(it) for it in texts]
            count("whole conversations of texts", int(read), 1)
    return counted


def test_the_table_of_the_docs() -> None:
    page = Path(__file__).parents[2] / "docs" / "any-model.md"
    lines = [f"| {part} | {read} of {written} |" for part, (read, written) in table().items()]
    sys.stdout.write("\n".join([*lines, ""]))
    if len(published.PUBLISHED) == PUBLISHED_FOR_DOCS:
        assert [line for line in lines if line not in page.read_text(encoding="utf-8")] == []
