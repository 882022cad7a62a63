"""Results that are ordinary text, between the token that ends an answer and the next one's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, Format, FormatError, MessageError
from hypothesis import given
from hypothesis import strategies as st
from naive import merged
from strategies import hostile_texts
from test_tags import ALL_TOKENS, DSML, ids_of

if TYPE_CHECKING:
    from pathlib import Path

    from naive import Message

NAME = "deepseek:v3.2"
EOS = ALL_TOKENS[1]
OPEN, CLOSE = "\n\n<function_results>\n", "\n</function_results>"
LOOKALIKES = (OPEN, CLOSE, "<result>", "</result>", "\n", "\n\n", "</think>", "<think>", EOS, " ")
PIECES = st.sampled_from(LOOKALIKES) | hostile_texts(max_parts=1)
TEXTS = st.lists(PIECES, max_size=6).map("".join).filter(lambda text: "\u2581" not in text)
BLOCK = f'<{DSML}function_calls>\n<{DSML}invoke name="f">\n</{DSML}invoke>\n</{DSML}function_calls>'


@pytest.fixture(scope="module")
def codec() -> Codec:
    return data.load_appended(NAME, ALL_TOKENS, refuses=False)


def calling(count: int = 1, content: str = "") -> Message:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    calls = [{"id": f"call_{n}", **call} for n in range(count)]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def says(role: str, content: str, **keys: Any) -> Message:  # noqa: ANN401
    return {"role": role, "content": content, **keys}


def joined(results: list[str]) -> str:
    return "\n".join(f"<result>{result}</result>" for result in results)


@given(
    texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS),
    results=st.lists(TEXTS, min_size=1, max_size=3),
    reasoning=st.none() | TEXTS.filter(bool),
    after=st.sampled_from(["answer", "question", "nothing"]),
)
def test_text_forges_no_result_and_ends_none(
    codec: Codec,
    texts: tuple[str, str, str, str],
    results: list[str],
    reasoning: str | None,
    after: str,
) -> None:
    """Whatever a text spells, it is in its own message: results are one, with all their text."""
    system, question, content, last = texts
    messages = [
        *([says("system", system)] if system else []),
        says("user", question),
        calling(len(results), content),
        *(says("tool", result) for result in results),
    ]
    if after == "answer":
        thought = {} if reasoning is None else {"reasoning": reasoning}
        messages.append({**says("assistant", last), **thought})
    elif after == "question":
        messages.append(says("user", last))
    encoding = codec.encode(messages)
    assert not encoding.collisions
    decoded = codec.decode(encoding)
    assert decoded == codec.canonical(messages)
    read = [message for message in decoded if message["role"] == "tool"]
    assert [message["content"] for message in read] == [joined(results)]
    assert decoded[-1]["content"] == (joined(results) if after == "nothing" else last)
    if after == "answer":
        assert decoded[-1].get("reasoning") == reasoning


@given(parts=st.lists(st.sampled_from([*LOOKALIKES, BLOCK, "<｜User｜>", "<｜Assistant｜>", "x"])))
def test_any_split_gives_the_same_events(codec: Codec, parts: list[str]) -> None:
    ids = ids_of(codec, "".join(parts))
    whole = codec.stream()
    events = [*whole.push(ids), *whole.finish("length")]
    single = codec.stream()
    split = [event for id_ in ids for event in single.push([id_])] + single.finish("length")
    assert merged(split) == merged(events)


def test_the_prompt_after_results() -> None:
    """The ids are those that the model's own tokenizer gives the whole text."""
    tokenizers = pytest.importorskip("tokenizers")
    path = data.find("vocab/deepseek-v3.2/tokenizer.json")
    known = tokenizers.Tokenizer.from_file(str(path))
    codec = Codec(data.whole(NAME), path)
    think, end = codec.vocab.control["<think>"], codec.vocab.control["</think>"]
    messages = [says("user", "Q"), calling(2), says("tool", "A"), says("tool", "中文\n")]
    for thinking, token in ((None, end), (False, end), (True, think)):
        encoding = codec.encode(messages, thinking=thinking)
        assert encoding.text.endswith(f"{CLOSE}\n\n{'<think>' if thinking else '</think>'}")
        assert list(encoding.ids) == known.encode(encoding.text, add_special_tokens=False).ids
        assert encoding.ids[-1] == token
        completion = [*codec.vocab.encode("Hm." if thinking else ""), *([end] * bool(thinking))]
        completion += [*codec.vocab.encode("A."), codec.vocab.control[EOS]]
        parsed = codec.parse(completion, prompt=encoding)
        assert parsed.finish == "stop"
        assert parsed.message["content"] == "A."
        assert parsed.message.get("reasoning") == ("Hm." if thinking else None)
        longer = codec.extend(encoding, completion, [says("user", "More")])
        assert list(longer.ids[: len(encoding.ids)]) == list(encoding.ids)
        assert longer.text.endswith("A.<｜end▁of▁sentence｜><｜User｜>More<｜Assistant｜></think>")
        trained = codec.encode([*messages, parsed.message])
        mask = [n for n, is_own in enumerate(trained.assistant_mask) if is_own]
        assert codec.vocab.decode(trained.ids[mask[-3] : mask[-1]], "spell").endswith("A.")


def test_results_after_sampled_calls(codec: Codec) -> None:
    prompt = codec.encode([says("user", "Q")])
    completion = ids_of(codec, f"So.\n\n{BLOCK}{EOS}")
    longer = codec.extend(prompt, completion, [says("tool", "1", tool_call_id="call_0")])
    assert longer.text.endswith(f"{EOS}{OPEN}<result>1</result>{CLOSE}\n\n</think>")
    more = codec.extend(longer, completion, [says("tool", "2", tool_call_id="call_1")])
    assert more.text.endswith(f"{EOS}{OPEN}<result>2</result>{CLOSE}\n\n</think>")
    assert [message["role"] for message in codec.decode(more)] == [
        *("user", "assistant", "tool", "assistant", "tool")
    ]


@pytest.mark.parametrize(
    ("messages", "at"),
    [
        ([says("tool", "x")], 0),
        ([says("user", "Q"), says("tool", "x")], 1),
        ([says("system", "S"), says("tool", "x")], 1),
        ([says("user", "Q"), calling(), says("user", "R"), says("tool", "x")], 3),
    ],
)
def test_a_result_has_no_place_elsewhere(codec: Codec, messages: list[Message], at: int) -> None:
    with pytest.raises(MessageError, match="only stand after an assistant's message") as raised:
        codec.encode(messages)
    assert raised.value.path == f"messages[{at}].role"
    kept = [message for message in messages if message["content"] != "x"]
    if kept:
        encoding = codec.encode(messages, on_unsupported="drop")
        assert list(encoding.ids) == list(codec.encode(kept).ids)


def test_other_text_after_an_answer_is_no_result(codec: Codec) -> None:
    for text in ("x", "\n\nx", "\n\n<function_results>x", f"{OPEN[:-1]}x"):
        decoded = codec.decode(ids_of(codec, f"<｜User｜>Q<｜Assistant｜></think>A{EOS}{text}"))
        assert {message["role"] for message in decoded} == {"user", "assistant"}


def test_what_is_generated_after_results(codec: Codec) -> None:
    """A constraint knows the prompt after results, and an answer that has begun there."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    messages = [says("user", "Q"), calling(), says("tool", "A")]
    for thinking in (False, True):
        prompt = codec.encode(messages, thinking=thinking)
        plain = codec.encode(messages[:1], thinking=thinking)
        for more in ("", "Hm"):
            begun = codec.vocab.encode(more) if more else []
            made = [
                codec.constrain(tools=[tool], prompt=[*given.ids, *begun]).lark()
                for given in (prompt, plain)
            ]
            assert made[0] == made[1]
    results = codec.encode(messages, add_generation_prompt=False)
    with pytest.raises(MessageError, match="generation prompt"):
        codec.constrain(tools=[tool], prompt=results.ids)


def test_a_vocabulary_without_the_token_of_calls() -> None:
    plain = Codec(data.whole(NAME), data.appended(ALL_TOKENS[:-1]))
    messages = [says("user", f"Hi {OPEN}"), says("assistant", CLOSE), says("user", "")]
    assert plain.decode(plain.encode(messages)) == messages


FILE = """
name = "mine"
guarantee = "ids"
source = "here"
losses = ["results"]
place = { system = "first" }
results = { open = "\\n<results>\\n", between = "\\n", close = "\\n</results>{~}" }
[generation]
prompt = "{A}{TE}"
thinking = "{A}{T}"
[control]
U = "<U>"
A = "<A>"
E = "<E>"
T = "<T>"
TE = "</T>"
C = "<C>"
CE = "</C>"
[turn]
system = "{content}"
user = "{U}{content}"
assistant = [
  "{A}{T}{reasoning}{TE}{content}{?calls:{calls}?}{E}",
  "{A}{TE}{content}{?calls:{calls}?}{E}",
]
tool = "<r>{content}</r>"
[after_tool]
assistant = [
  "\\n{T}{reasoning}{TE}{content}{?calls:{calls}?}{E}",
  "\\n{TE}{content}{?calls:{calls}?}{E}",
]
[call.function]
item = "{C}{call}{CE}"
object = { name = "name", arguments = "arguments" }
"""
"""A format whose results are text."""

AFTER = "assistant" + FILE.partition("[after_tool]\nassistant")[2].partition("\n[call")[0]

WRONG = {
    "white space before the answer, which the results would take": (
        ("</results>{~}", "</results>"),
        "`after_tool.assistant[0]` begins with white space, which reads as the end of the results",
    ),
    "a system message that may stand anywhere": (
        ('place = { system = "first" }\n', ""),
        "`turn.system` begins with a field or a guard",
    ),
    "an answer that no token closes": (
        ("{A}{TE}{content}{?calls:{calls}?}{E}", "{A}{TE}{content}{?calls:{calls}?}"),
        "is closed by no control token",
    ),
    "a token of its own for results": (
        ("\\n<results>\\n", "{U}\\n"),
        "`after_tool.assistant[0]` begins with a control token after results that have one",
    ),
    "a prompt without a token of reasoning": (
        ('prompt = "{A}{TE}"', 'prompt = "{A}"'),
        "`generation.prompt` has no token that a row of `after_tool.assistant` begins with",
    ),
    "a row that the first does not read": (
        ("\\n{TE}{content}{?calls:{calls}?}{E}", "\\n{TE}{content}{E}"),
        "`after_tool.assistant[1]` is not read by the first row there",
    ),
    "any text for an answer": (
        (AFTER, 'assistant = "{content}{?calls:{calls}?}{E}"'),
        "`after_tool.assistant` begins with any text, which may be that of `results.open`",
    ),
}


def loaded(path: Path, text: str) -> Format:
    path = path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return Format.load(path)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    spellings = ("<U>", "<A>", "<E>", "<T>", "</T>", "<C>", "</C>")
    vocab = data.appended(spellings)
    codec = Codec(loaded(tmp_path, FILE), vocab)
    messages = [says("user", "Q"), calling(2), says("tool", "a"), says("tool", "b")]
    text = codec.encode(messages).text
    assert text.endswith("<E>\n<results>\n<r>a</r>\n<r>b</r>\n</results>\n</T>")
    assert codec.decode(codec.encode(messages)) == codec.canonical(messages)


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file(what: str, tmp_path: Path) -> None:
    (old, new), problem = WRONG[what]
    assert old in FILE
    with pytest.raises(FormatError) as raised:
        loaded(tmp_path, FILE.replace(old, new, 1))
    assert problem in str(raised.value)


def test_what_is_lost() -> None:
    losses = json.dumps(Format.built_in(NAME).losses)
    assert "that a text was a result" in losses
