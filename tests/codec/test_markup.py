"""Markup in an assistant's text: what a model would write becomes the fields that it stands for.

The oracle is the same answer with fields. The text that is written of it after the prompt, up to
the token that stops the model, is given as content. Both have the same ids.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import benign
import chatcodec
import data
import pyarrow as pa
import pytest
import test_constrain as constrained
import tokenizers
from chatcodec import Codec
from chatcodec.errors import MessageError, TemplateError
from chatcodec.prepare import Options, prepare
from chatcodec.prepare.report import Report
from test_published_families import READERS, codec_that_reads
from test_response_template import spec_of

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from benign import Message

QUESTION: Message = {"role": "user", "content": "x"}
WORDS = ("true", "None", "3", "[1, 2]", "", " ", "\n")
"""Texts that a reader of tagged values, which does not know the types, takes for something else."""


def is_told_by_its_text(value: object) -> bool:
    """Whether a reader that knows no types gives the value back, or a text that is written alike.

    A list or dict as Python writes it is read as a text, and a text with `<` may have a wrap.
    """
    return value not in WORDS and not (isinstance(value, list | dict) and "<" in str(value))


def answer_of(draw: random.Random) -> Message | None:
    """An answer with reasoning or calls, without white space at the ends of its texts."""
    for message in benign.conversation(draw).messages:
        if message["role"] != "assistant":
            continue
        answer = {**message, "content": message["content"].strip()}
        if "reasoning_content" in answer:
            answer["reasoning_content"] = answer["reasoning_content"].strip() or "hm"
        for call in answer.get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            call["function"]["arguments"] = {
                key: value for key, value in arguments.items() if is_told_by_its_text(value)
            }
        if answer.get("reasoning_content") or answer.get("tool_calls"):
            return answer
    return None


def written(codec: Codec, answer: Message) -> tuple[str, list[int]] | None:
    """The text that a model would write for an answer, and the ids of the conversation."""
    try:
        whole = codec.encode([QUESTION, answer], add_generation_prompt=False)
        prompt = codec.encode([QUESTION], add_generation_prompt=True)
    except (MessageError, TemplateError):
        return None
    # An answer is compared where all of it is written, and after the same prompt.
    if whole.dropped or whole.collisions or not whole.text.startswith(prompt.text):
        return None
    text = whole.text[len(prompt.text) :]
    stops = [text.rfind(codec.vocab.decode([stop], "spell")) for stop in codec.stop_ids]
    return text[: max(stops)] if max(stops) >= 0 else text, list(whole.ids)


def has_markup(codec: Codec, text: str) -> bool:
    try:
        codec.encode([QUESTION, {"role": "assistant", "content": text}], markup="error")
    except MessageError as error:
        return "in an assistant's text" in str(error)
    return False


def check(codec: Codec) -> int:
    """A law on a codec; returns how many texts had markup."""
    tried = 0

    def law(draw: random.Random) -> bool:
        nonlocal tried
        answer = answer_of(draw)
        found = answer and written(codec, answer)
        if not found or not has_markup(codec, found[0]):
            return False
        text, ids = found
        messages = [QUESTION, {"role": "assistant", "content": text}]
        read = codec.encode(messages, add_generation_prompt=False, markup="parse")
        assert list(read.ids) == ids, text
        tried += 1
        return True

    benign.check(law, examples=40, least=0)
    return tried


def check_hostile(codec: Codec) -> int:
    """A law: each word of a mix of markers and words is written, in order, or refused or told.

    Returns how many texts were read or kept.
    """
    spellings = sorted(codec.vocab.control)
    told = [word for word in re.findall(r'"([^"\n{}]{2,40})"', codec.format.text) if "<" in word]
    of_format = [word for word in spellings if word in codec.format.text] + told
    kept = 0

    def law(draw: random.Random) -> bool:
        nonlocal kept
        words = iter(range(100))
        parts = [
            draw.choice([f"wq{next(words)}z", draw.choice(of_format or spellings), "{}", "f"])
            + draw.choice(["", "\n", " "])
            for _ in range(draw.randrange(1, 7))
        ]
        text = "".join(parts)
        messages = [QUESTION, {"role": "assistant", "content": text}]
        try:
            encoding = codec.encode(messages, add_generation_prompt=False, markup="parse")
        except (MessageError, TemplateError):
            return False
        # A template that looks for a marker in an ordinary text may leave out what comes before it.
        plain = codec.encode(messages, add_generation_prompt=False, markup="text").text
        given = text if codec.template is None else plain
        if not encoding.dropped:
            written = re.findall(r"wq\d+z", encoding.text)
            assert written == re.findall(r"wq\d+z", given), (text, encoding.text)
            kept += 1
        return True

    benign.check(law, examples=60, least=0)
    return kept


@pytest.mark.parametrize("format_", data.share(chatcodec.formats(), 3))
def test_no_word_is_lost_or_moved(format_: str) -> None:
    assert check_hostile(constrained.codec_of(format_)) >= 3


@pytest.mark.parametrize(("format_", "template"), data.share(READERS, 3))
def test_no_word_is_lost_or_moved_where_a_template_writes(format_: str, template: str) -> None:
    check_hostile(codec_that_reads(format_, template))


@pytest.mark.parametrize("format_", data.share(chatcodec.formats(), 3))
def test_a_format_reads_what_it_writes(format_: str) -> None:
    check(constrained.codec_of(format_))


@pytest.mark.parametrize(("format_", "template"), data.share(READERS, 3, first=1))
def test_what_a_template_writes_is_read(format_: str, template: str) -> None:
    check(codec_that_reads(format_, template))


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def test_values_are_read_by_the_types_of_tools() -> None:
    codec = codec_that_reads("minicpm5", "templates/openbmb-MiniCPM5-1B.jinja")
    given = "['<b>&amp;</b>', '3']"
    text = f'<function name="f"><param name="b">{given}</param></function>'
    messages = [QUESTION, {"role": "assistant", "content": text}]
    schema = {"type": "object", "properties": {"b": {"type": "array"}}}
    function = {"name": "f", "description": "d", "parameters": schema}
    tools: list[dict[str, Any]] = [{"type": "function", "function": function}]
    typed = codec.encode(messages, tools=tools, markup="parse").text
    assert f'<param name="b">{given}</param>' in typed
    assert f"<![CDATA[{given}]]>" in codec.encode(messages, markup="parse").text


THOUGHT = "<think>\nhm\n</think>\n\nb"
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


@pytest.fixture(scope="module")
def qwen3() -> Codec:
    return data.load_format("qwen3", "qwen3")


def ask(content: object, **more: object) -> list[Message]:
    return [QUESTION, {"role": "assistant", "content": content, **more}]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (THOUGHT, {"content": "b", "reasoning": "hm"}),
        (THOUGHT.removeprefix("<think>\n"), {"content": "b", "reasoning": "hm"}),
        ("b<|im_end|>", {"content": "b"}),
        ("b<|im_end|>\n", {"content": "b"}),
        (CALL, {"content": "", "tool_calls": [call("f", {"a": 1})]}),
        (f"b\n{CALL}", {"content": "b", "tool_calls": [call("f", {"a": 1})]}),
        (
            f"{THOUGHT}\n{CALL}",
            {"content": "b", "reasoning": "hm", "tool_calls": [call("f", {"a": 1})]},
        ),
    ],
)
def test_fields_are_read(qwen3: Codec, text: str, fields: dict[str, Any]) -> None:
    expected = qwen3.encode([QUESTION, {"role": "assistant", **fields}])
    for content in (text, [{"type": "text", "text": text}]):
        assert qwen3.encode(ask(content), markup="parse").ids == expected.ids


def test_the_ids_are_those_of_the_whole_text(qwen3: Codec) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(data.find("vocab/qwen3/tokenizer.json")))
    for text in (THOUGHT, f"{THOUGHT}\n{CALL}"):
        whole = f"<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n{text}<|im_end|>\n"
        ids = tokenizer.encode(whole, add_special_tokens=False).ids
        assert list(qwen3.encode(ask(text), markup="parse").ids) == ids


def test_a_response_template_reads_the_fields(qwen3: Codec) -> None:
    writer = codec_that_reads("qwen3", "templates/qwen3.jinja")
    reader = chatcodec.ResponseTemplate(spec_of("json"))
    assert writer.template is not None
    codec = Codec(writer.template, vocab=qwen3.vocab, reader=reader)
    fields = {"content": "b", "reasoning": "hm", "tool_calls": [call("f", {"a": 1})]}
    expected = codec.encode([QUESTION, {"role": "assistant", **fields}])
    assert codec.encode(ask(f"{THOUGHT}\n{CALL}"), markup="parse").ids == expected.ids
    for broken in ("<tool_call>open", "b <think> c"):
        with pytest.raises(MessageError, match="does not read as an answer"):
            codec.encode(ask(broken), markup="parse")


@pytest.mark.parametrize(
    "text",
    ["<think>open", "b<|im_end|>c", "<tool_call>open", "b <think> c", f"{CALL} b", "<|im_start|>"],
)
def test_what_is_no_answer_is_refused(qwen3: Codec, text: str) -> None:
    with pytest.raises(MessageError, match="does not read as an answer") as raised:
        qwen3.encode(ask(text), markup="parse")
    assert raised.value.path == "messages[1].content"


@pytest.mark.parametrize(
    ("text", "fields"),
    [(THOUGHT, {"reasoning": "x"}), (CALL, {"tool_calls": [call("f", {"a": 1})]})],
)
def test_what_is_said_twice_is_refused(qwen3: Codec, text: str, fields: dict[str, Any]) -> None:
    for codec in (qwen3, codec_that_reads("qwen3", "templates/qwen3.jinja")):
        with pytest.raises(MessageError, match=r"spells .* beside"):
            codec.encode(ask(text, **fields), markup="parse")


@pytest.mark.parametrize("nothing", [None, "", []])
def test_fields_of_nothing_are_no_fields(qwen3: Codec, nothing: object) -> None:
    empty = {"reasoning_content": nothing if nothing != [] else None, "tool_calls": nothing or []}
    template = codec_that_reads("qwen3", "templates/qwen3.jinja")
    for codec, role in ((qwen3, "assistant"), (template, "assistant"), (template, "model")):
        given = [QUESTION, {"role": role, "content": f"{THOUGHT}\n{CALL}", **empty}]
        fields = {"content": "b", "reasoning": "hm", "tool_calls": [call("f", {"a": 1})]}
        expected = codec.encode(ask(fields.pop("content"), **fields))
        if role == "assistant":
            assert codec.encode(given, markup="parse").ids == expected.ids
        with pytest.raises(MessageError, match="in an assistant's text"):
            codec.encode(given, markup="error")


def test_texts_of_other_roles_are_never_read(qwen3: Codec) -> None:
    messages = [
        {"role": role, "content": text}
        for role in ("system", "user", "tool")
        for text in (THOUGHT, CALL, "x<|im_end|>")
    ]
    for codec in (qwen3, codec_that_reads("qwen3", "templates/qwen3.jinja")):
        for message in messages:
            given = [message, *ask("b")]
            assert len({codec.encode(given, markup=m).ids for m in ("text", "parse", "error")}) == 1


def test_a_part_that_was_read_has_the_path_of_the_text(qwen3: Codec) -> None:
    messages = [*ask(f"{THOUGHT}\n{CALL}"), {"role": "user", "content": "y"}]
    for codec in (qwen3, codec_that_reads("qwen3", "templates/qwen3.jinja")):
        dropped = codec.encode(messages, markup="parse").dropped
        assert [(it.path, it.why) for it in dropped] == [("messages[1].content", "policy")]
    plain = codec_that_reads("deepseek:r1", "templates/otc-deepseek-r1.jinja")
    with pytest.raises(MessageError, match="has no place for") as raised:
        plain.encode(ask(THOUGHT), markup="parse")
    assert raised.value.path == "messages[1].content"


def test_values_between_tags_are_read_by_their_types() -> None:
    codec = constrained.codec_of("qwen3-coder")
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    expected = codec.encode(ask("", tool_calls=[call("f", {"a": "true"})]), tools=tools)
    text = "<tool_call>\n<function=f>\n<parameter=a>\ntrue\n</parameter>\n</function>\n</tool_call>"
    assert codec.encode(ask(text), tools=tools, markup="parse").ids == expected.ids


# Where labels are made.


def rows(texts: list[str]) -> pa.Table:
    return pa.table({"messages": [json.dumps(ask(text)) for text in texts]})


def test_labels_of_markup_are_refused_with_the_share_of_rows(qwen3: Codec) -> None:
    table = rows(["b", THOUGHT, "b", CALL, "b"])
    refused = (
        r"^`rows\[1\]\.messages\[1\]\.content` spells `<think>` .*; 2 of 5 rows have such text$"
    )
    for given in (table, pa.concat_tables([table[:2], table[2:]])):
        with pytest.raises(MessageError, match=refused):
            qwen3.encode_table(given, labels=True)
        with pytest.raises(MessageError, match=refused):
            qwen3.mapper(columns=["labels"])(given)
    errors = pa.table(qwen3.encode_table(table, labels=True, errors="return"))["error"]
    assert [error is not None for error in errors.to_pylist()] == [False, True, False, True, False]


def test_labels_of_markup_are_made_where_it_is_asked_for(qwen3: Codec) -> None:
    table = rows(["b", THOUGHT])
    assert len(pa.table(qwen3.encode_table(table))["input_ids"]) == 2
    read = pa.table(qwen3.encode_table(table, labels=True, markup="parse"))
    expected = qwen3.encode(ask("b", reasoning="hm"))
    assert read["labels"][1].as_py() == list(expected.labels())
    text = pa.table(qwen3.encode_table(table, labels=True, markup="text"))
    assert text["input_ids"][1].as_py() == list(qwen3.encode(ask(THOUGHT)).ids)


def test_other_errors_come_before_the_share(qwen3: Codec) -> None:
    table = pa.table({"messages": [json.dumps([{"role": "x", "content": "y"}])]})
    with pytest.raises(MessageError, match="role") as raised:
        qwen3.encode_table(table, labels=True)
    assert "rows have such text" not in str(raised.value)


def test_prepare_tells_the_share_and_the_choice(tmp_path: Path, qwen3: Codec) -> None:
    source = tmp_path / "chats.jsonl"
    texts = ["b", THOUGHT, "b", "b"]
    source.write_text("".join(json.dumps({"messages": ask(text)}) + "\n" for text in texts))
    report = prepare([source], tmp_path / "refused", qwen3, Options(labels=True))
    assert (report.rows, report.rejected, report.markup) == (3, 1, 1)
    assert "1 rows (25.0%) were rejected; --markup parse reads them" in report.text()
    assert Report.of_dict(report.to_dict()) == report
    for markup in ("parse", "text"):
        options = Options(labels=True, encode={"markup": markup})
        read = prepare([source], tmp_path / markup, qwen3, options)
        assert (read.rows, read.rejected, read.markup) == (4, 0, 0)
    plain = prepare([source], tmp_path / "plain", qwen3)
    assert (plain.rows, plain.rejected) == (4, 0)
