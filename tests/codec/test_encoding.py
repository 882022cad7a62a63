"""`Encoding`: what it says of every id (P7).

The laws compare with `naive.render`, which writes the same conversation segment by segment and so
knows where everything is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
from chatcodec import Codec, Encoding, MessageError, Neutralized
from completions import codec_of
from hypothesis import given
from hypothesis import strategies as st
from naive import Message, Segment, Value, render, runs, spaced, spelled
from strategies import conversations, hostile_texts, json_values

if TYPE_CHECKING:
    from collections.abc import Iterator

Options = dict[str, Any]


def user(content: Value, **keys: Value) -> Message:
    return {"role": "user", "content": content, **keys}


@st.composite
def encodings(draw: st.DrawFn, codec: Codec) -> tuple[Encoding, list[Segment], Options]:
    """An encoding of a hostile conversation, and its segments."""
    messages = draw(conversations(codec))
    is_chatml = codec.format.name == "chatml"
    tools = None if is_chatml else draw(st.none() | hostile_texts(codec))
    ends_with_assistant = bool(messages) and messages[-1]["role"] == "assistant"
    continue_final = ends_with_assistant and draw(st.booleans())
    prompt = draw(st.sampled_from([None, False] if continue_final else [None, True, False]))
    options: Options = {
        "tools": tools,
        "add_generation_prompt": prompt,
        "continue_final": continue_final,
        "boundary": draw(st.sampled_from(["reference", "isolated"])),
    }
    segments = render(
        messages, is_chatml=is_chatml, tools=tools, prompt=prompt, continue_final=continue_final
    )
    return codec.encode(messages, **options), segments, options


def placed(segments: list[Segment]) -> Iterator[tuple[int, int, Segment]]:
    """Segments with their bytes, `start` and `end`."""
    at = 0
    for segment in segments:
        end = at + len(segment.text.encode())
        yield at, end, segment
        at = end


@given(draw=st.data())
def test_text_is_what_was_rendered(codec: Codec, draw: st.DataObject) -> None:
    encoding, segments, _ = draw.draw(encodings(codec))
    assert encoding.text == "".join(segment.text for segment in segments)
    assert codec.vocab.decode(encoding) == spaced(encoding.text)


@given(draw=st.data())
def test_every_array_has_an_item_for_every_id(codec: Codec, draw: st.DataObject) -> None:
    encoding, _, _ = draw.draw(encodings(codec))
    for each in (
        encoding.ids,
        encoding.sources,
        encoding.message_indices,
        encoding.is_control,
        encoding.is_content,
        encoding.assistant_mask,
        encoding.offsets,
        encoding.char_offsets,
    ):
        assert len(each) == len(encoding)


@given(draw=st.data())
def test_offsets_cover_the_text_without_gaps(codec: Codec, draw: st.DataObject) -> None:
    """Each id's bytes are its part of the text; a dummy prefix covers nothing."""
    encoding, _, _ = draw.draw(encodings(codec))
    raw = encoding.text.encode()
    at = 0
    after_control = True
    prefixed = codec is data.load_codec("prefixed")
    for id_, control, (start, end) in zip(
        encoding.ids, encoding.is_control, encoding.offsets, strict=True
    ):
        assert start == at <= end
        covered, token = (
            raw[start:end].decode(errors="surrogateescape"),
            codec.vocab.token_bytes(id_),
        )
        if prefixed and after_control and not control:
            token = token.removeprefix(b" ")
        if control:
            assert codec.vocab.control[covered] == id_
        else:
            assert spaced(covered).encode(errors="surrogateescape") == token
        after_control = bool(control)
        at = end
    assert at == len(raw)


@given(draw=st.data())
def test_char_offsets_are_the_code_points_that_the_bytes_belong_to(
    codec: Codec, draw: st.DataObject
) -> None:
    encoding, _, _ = draw.draw(encodings(codec))
    char_of = [i for i, char in enumerate(encoding.text) for _ in char.encode()] + [
        len(encoding.text)
    ]
    for (start, end), chars in zip(encoding.offsets, encoding.char_offsets, strict=True):
        expected = (char_of[start], char_of[end - 1] + 1 if end > start else char_of[start])
        assert chars == expected


@given(draw=st.data())
def test_every_id_knows_where_it_comes_from(codec: Codec, draw: st.DataObject) -> None:
    """Of a caller's text and the format's in one id, the caller's counts."""
    encoding, segments, _ = draw.draw(encodings(codec))
    spans = list(placed(segments))
    for i, (start, end) in enumerate(encoding.offsets):
        within = [s for first, last, s in spans if first < max(end, start + 1) and last > start]
        slots = [s for s in within if s.path is not None] if end > start else []
        of = (slots or within)[0]
        assert encoding.sources[i] == (of.path if slots else None)
        assert encoding.message_indices[i] == of.message
        assert encoding.is_content[i] == bool(slots)
        assert encoding.is_control[i] == of.is_control
        if of.is_control:
            assert within == [of]


@given(draw=st.data())
def test_the_mask_is_what_a_model_generates(codec: Codec, draw: st.DataObject) -> None:
    """From the first id that ends after the generation prompt to the one that stops, included."""
    encoding, segments, _ = draw.draw(encodings(codec))
    spans = list(placed(segments))
    ranges = [(first, last) for first, last, segment in spans if segment.is_generated]
    for (start, end), mask in zip(encoding.offsets, encoding.assistant_mask, strict=True):
        if start == end:
            # A dummy prefix goes with the text that it stands before.
            expected = next(s.is_generated for first, last, s in spans if first <= start < last)
        else:
            expected = any(first < end <= last for first, last in ranges)
        assert mask == expected


@given(draw=st.data())
def test_neutralized_is_where_the_caller_spelled_a_control_token(
    codec: Codec, draw: st.DataObject
) -> None:
    encoding, segments, _ = draw.draw(encodings(codec))
    expected = []
    for segment in segments:
        if segment.path is not None:
            given_ = segment.text if segment.given is None else segment.given
            for start, end, spelling, id_ in spelled(given_, codec.vocab.control):
                expected.append((segment.path, start, end, spelling, id_))
                assert given_[start:end] == spelling
    assert [(n.path, n.start, n.end, n.spelling, n.id) for n in encoding.neutralized] == expected
    assert encoding.collisions == []


@given(draw=st.data())
def test_an_isolated_boundary_changes_no_ids_but_those_after_a_generation_prompt(
    codec: Codec, draw: st.DataObject
) -> None:
    messages = draw.draw(conversations(codec))
    joined, apart = (codec.encode(messages, boundary=b) for b in ("reference", "isolated"))
    assert joined.text == apart.text
    for before, after in zip(runs(joined), runs(apart), strict=True):
        assert before == after or before[0].startswith("assistant\n")


@given(draw=st.data())
def test_isolated_ids_are_those_of_generation(codec: Codec, draw: st.DataObject) -> None:
    """What is trained on is what generation after the prompt produces: the prompt is a prefix."""
    messages = draw.draw(conversations(codec, max_size=3))
    answer = {"role": "assistant", "content": draw.draw(hostile_texts(codec))}
    prompt = codec.encode(messages, boundary="isolated", add_generation_prompt=True)
    whole = codec.encode([*messages, answer], boundary="isolated")
    assert whole.ids[: len(prompt)] == prompt.ids
    end = whole.ids.index(codec.stop_ids[0], len(prompt)) + 1
    mask = whole.assistant_mask.tolist()
    assert mask[len(prompt) :] == [1] * (end - len(prompt)) + [0] * (len(whole) - end)


# Examples to read.

CONVERSATION: list[Message] = [
    {"role": "system", "content": "S"},
    user("U", name="file"),
    {
        "role": "assistant",
        "content": "C",
        "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
    },
    {"role": "tool", "content": "T"},
]


def test_the_sources_of_a_conversation(embedded: Codec) -> None:
    encoding = embedded.encode(CONVERSATION, tools="D")
    found: dict[str | None, str] = {}
    for source, (start, end) in zip(encoding.sources, encoding.char_offsets, strict=True):
        found[source] = found.get(source, "") + encoding.text[start:end]
    del found[None]
    assert found == {
        "messages[0].content": "S",
        "tools": "D",
        "messages[1].name": "file",
        "messages[1].content": "U",
        "messages[2].content": "C",
        # Ids at the edges of these two hold text of the format as well.
        "messages[2].tool_calls[0].function.name": '"f',
        "messages[2].tool_calls[0].function.arguments": '": {"a": 1}}',
        "messages[3].content": "T",
    }
    assert sorted(set(encoding.message_indices)) == [-1, 0, 1, 2, 3]


def test_the_mask_of_a_conversation(embedded: Codec) -> None:
    encoding = embedded.encode(CONVERSATION)
    masked = [
        encoding.text[s:e]
        for m, (s, e) in zip(encoding.assistant_mask, encoding.char_offsets, strict=True)
        if m
    ]
    assert "".join(masked) == (
        'C<|action_start|><|plugin|>\n{"name": "f", "parameters": {"a": 1}}<|action_end|><|im_end|>'
    )


def test_the_mask_of_a_prompt_is_empty(embedded: Codec) -> None:
    assert embedded.encode([user("U")]).assistant_mask.count(1) == 0


def test_the_mask_of_a_prefill_reaches_its_end(embedded: Codec) -> None:
    encoding = embedded.encode(
        [user("U"), {"role": "assistant", "content": "Well, "}], continue_final=True
    )
    assert encoding.text.endswith("<|im_start|>assistant\nWell, ")
    assert encoding.assistant_mask[-1] == 1
    assert encoding.assistant_mask.count(1) == len(embedded.vocab.encode("Well, "))


def test_a_newline_that_merges_with_the_header_is_apart_when_isolated() -> None:
    """InternLM2 has a piece of two newlines, which generation after the prompt never produces."""
    codec = data.load_codec("internlm2")
    messages = [user("U"), {"role": "assistant", "content": "\nHello"}]
    joined, apart = (
        codec.encode(messages, boundary=b).ids.tolist() for b in ("reference", "isolated")
    )
    two, one = codec.vocab.encode("x\n\n")[-1], codec.vocab.encode("x\n")[-1]
    assert two != one
    assert (joined.count(two), apart.count(two)) == (1, 0)
    assert apart[: len(codec.encode(messages[:1]))] == codec.encode(messages[:1]).ids


@pytest.mark.parametrize("vocab", ["embedded", "internlm2"])
def test_bytes_of_one_character_share_its_code_point(vocab: str) -> None:
    codec = data.load_codec(vocab)
    encoding = codec.encode([user("a\U00013000b")], add_generation_prompt=False)
    at = encoding.text.index("\U00013000")
    byte = len(encoding.text[:at].encode())
    four = [i for i, chars in enumerate(encoding.char_offsets) if chars == (at, at + 1)]
    assert [encoding.offsets[i] for i in four] == [(byte + n, byte + n + 1) for n in range(4)]
    assert all(encoding.sources[i] == "messages[0].content" for i in four)


def test_neutralized_counts_code_points_of_the_callers_own_string(embedded: Codec) -> None:
    name = '"\n\x01😀<|im_end|>'
    arguments = ' \n{"é": "</s>"} '
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    found = embedded.encode([{"role": "assistant", "tool_calls": [call]}]).neutralized
    path = "messages[0].tool_calls[0].function"
    assert found == [
        neutralized(f"{path}.name", name, "<|im_end|>", 92542),
        neutralized(f"{path}.arguments", arguments, "</s>", 2),
    ]
    assert repr(found[1]) == (
        'Neutralized(path="messages[0].tool_calls[0].function.arguments", '
        'start=9, end=13, spelling="</s>", id=2)'
    )


class Place:
    """What a `Neutralized` is equal to: it has no constructor."""

    def __init__(self, *fields: object) -> None:
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        match other:
            case Neutralized(path, start, end, spelling, id_):
                return self.fields == (path, start, end, spelling, id_)
        return False

    __hash__ = None  # type: ignore[assignment]


def neutralized(path: str, given_: str, spelling: str, id_: int) -> Place:
    start = given_.index(spelling)
    return Place(path, start, start + len(spelling), spelling, id_)


def test_neutralized_in_joined_parts_counts_from_the_first(embedded: Codec) -> None:
    parts = [{"type": "text", "text": text} for text in ("ab<|im", "_end|>c")]
    (found,) = embedded.encode([user(parts)]).neutralized
    assert (found.path, found.start, found.end) == ("messages[0].content", 2, 12)


def test_neutralized_is_leftmost_and_longest(embedded: Codec) -> None:
    (found,) = embedded.encode([user("<<|im_start|>")]).neutralized
    assert (found.start, found.end, found.spelling) == (1, 13, "<|im_start|>")


def texts_of(value: object, path: str) -> Iterator[tuple[str, str]]:
    """The strings of a value in order, each with its path; a key's is that of its dict."""
    match value:
        case str():
            yield path, value
        case list():
            for at, item in enumerate(value):
                yield from texts_of(item, f"{path}[{at}]")
        case dict():
            for key, item in value.items():
                yield path, key
                yield from texts_of(item, f"{path}.{key}")


@given(
    tools=st.lists(
        st.dictionaries(hostile_texts(), json_values(hostile_texts())), min_size=1, max_size=3
    )
)
def test_neutralized_in_tools_has_the_path_of_each_string(
    embedded: Codec, tools: list[Any]
) -> None:
    tools = [{key: value for key, value in one.items() if key != "function"} for one in tools]
    expected = [
        (path, *found)
        for path, text in texts_of(tools, "tools")
        for found in spelled(text, embedded.vocab.control)
    ]
    found = embedded.encode([], tools=tools).neutralized
    assert [(n.path, n.start, n.end, n.spelling, n.id) for n in found] == expected


def test_an_encoding_says_how_long_it_is(embedded: Codec) -> None:
    encoding = embedded.encode([user("U")])
    assert repr(encoding) == f"Encoding({len(encoding)} ids)"
    for name in ("ids", "text", "other"):
        with pytest.raises(AttributeError):
            setattr(encoding, name, None)


# Batches.


@st.composite
def batches(draw: st.DrawFn, codec: Codec) -> list[list[Message]]:
    return draw(st.lists(conversations(codec, max_size=3), max_size=6))


@given(draw=st.data())
def test_a_batch_is_its_conversations_one_by_one(codec: Codec, draw: st.DataObject) -> None:
    conversations_ = draw.draw(batches(codec))
    options: Options = {"boundary": draw.draw(st.sampled_from(["reference", "isolated"]))}
    options["add_generation_prompt"] = draw.draw(st.sampled_from([None, True, False]))
    threads = draw.draw(st.sampled_from([None, 1, 2, 7]))
    batch = codec.encode_batch(conversations_, threads=threads, **options)
    single = [codec.encode(conversation, **options) for conversation in conversations_]
    assert len(batch) == len(single)
    assert batch.ids.tolist() == [id_ for encoding in single for id_ in encoding.ids]
    assert batch.offsets[0] == 0
    for i, encoding in enumerate(single):
        assert batch[i].ids == encoding.ids == batch.ids[batch.offsets[i] : batch.offsets[i + 1]]
        assert batch[i].text == encoding.text
        assert batch[i].sources == encoding.sources
    assert batch.errors == {}


def test_a_conversation_of_a_batch_may_have_tools_of_its_own(embedded: Codec) -> None:
    messages = [user("U")]
    items = [
        messages,
        {"messages": messages},
        {"messages": messages, "tools": "D"},
        {"messages": messages, "tools": None},
    ]
    batch = embedded.encode_batch(items)
    assert [len(batch[i]) for i in range(4)] == [
        len(embedded.encode(messages, tools=t)) for t in (None, None, "D", None)
    ]
    batch = embedded.encode_batch(items, tools="E")
    texts = [embedded.encode(messages, tools=t).text for t in ("E", "E", "D", "E")]
    assert [batch[i].text for i in range(4)] == texts


def test_a_batch_may_be_any_iterable(embedded: Codec) -> None:
    batch = embedded.encode_batch((user(str(i)),) for i in range(3))
    assert len(batch) == 3
    assert batch[-1].ids == batch[2].ids
    assert embedded.encode_batch([]).offsets == [0]
    assert repr(batch) == "Batch(3 conversations)"
    with pytest.raises(IndexError):
        batch[3]


def test_what_the_callers_iterable_raises_comes_through(embedded: Codec) -> None:
    def conversations_() -> Iterator[list[Message]]:
        yield [user("a")]
        raise RuntimeError("mine")

    for policy in ("raise", "return"):
        with pytest.raises(RuntimeError, match="mine"):
            embedded.encode_batch(conversations_(), errors=policy)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_raises_the_first_error_or_returns_them_all(embedded: Codec, threads: int) -> None:
    good, bad = [user("a")], [{"role": "critic", "content": "a"}]
    unwritable = [user("a", tool_calls=[{"function": {"name": "f", "arguments": "{}"}}])]
    conversations_ = [good, unwritable, bad, good]
    with pytest.raises(MessageError) as caught:
        embedded.encode_batch(conversations_, threads=threads)
    assert caught.value.path in {
        "conversations[1].messages[0].tool_calls",
        "conversations[2].messages[0].role",
    }
    batch = embedded.encode_batch(conversations_, errors="return", threads=threads)
    assert sorted(batch.errors) == [1, 2]
    errors = list(batch.errors.values())
    assert all(isinstance(error, MessageError) for error in errors)
    assert [error.path for error in errors if isinstance(error, MessageError)] == [
        "messages[0].tool_calls",
        "messages[0].role",
    ]
    assert batch.offsets[1] == batch.offsets[2] == batch.offsets[3]
    assert batch[3].ids == batch[0].ids == embedded.encode(good).ids
    with pytest.raises(MessageError) as again:
        batch[1]
    assert again.value is errors[0]


@pytest.mark.parametrize(
    "options",
    [
        {"errors": "ignore"},
        {"boundary": "both"},
        {"on_marker": "drop"},
        {"on_arguments": "guess"},
    ],
    ids=str,
)
def test_an_option_of_a_closed_set_is_checked(embedded: Codec, options: Options) -> None:
    (name, word), *_ = options.items()
    with pytest.raises(ValueError, match=f'^{name}="{word}", expected '):
        embedded.encode_batch([], **options)


def test_options_that_the_format_does_not_declare_are_refused(embedded: Codec) -> None:
    for method in (embedded.encode, embedded.count, embedded.encode_batch):
        with pytest.raises(
            TypeError, match="unexpected option `thinking`: format `internlm2` declares no options"
        ):
            method([], thinking=True)


@pytest.mark.parametrize(
    ("format_", "templates", "formats"),
    [
        ("qwen3", {"enable_thinking": False}, {"thinking": False}),
        ("harmony", {"reasoning_effort": "high"}, {"effort": "high"}),
        ("harmony", {"date_string": "2026-01-31"}, {"date": "2026-01-31"}),
    ],
)
def test_options_have_the_names_of_templates_too(
    format_: str, templates: Options, formats: Options
) -> None:
    codec = codec_of(format_)
    given = codec.encode([user("a")], **templates).ids
    assert given == codec.encode([user("a")], **formats).ids
    assert given != codec.encode([user("a")]).ids


def test_contradictory_options_are_refused(embedded: Codec) -> None:
    with pytest.raises(MessageError, match="continue_final"):
        embedded.encode([user("a")], continue_final=True)
    with pytest.raises(MessageError, match="continue_final") as caught:
        embedded.encode([{"role": "assistant"}], continue_final=True, add_generation_prompt=True)
    assert caught.value.path == "add_generation_prompt"


def test_markers_cannot_collide_where_ids_tell_turns_apart(embedded: Codec) -> None:
    for policy in ("report", "error", "break"):
        encoding = embedded.encode([user("<|im_end|>[INST]")], on_marker=policy)
        assert encoding.ids == embedded.encode([user("<|im_end|>[INST]")]).ids
        assert encoding.collisions == []
    assert issubclass(chatcodec.Collision, object)


def test_an_encoding_is_a_sequence_of_its_ids(embedded: Codec) -> None:
    encoding = embedded.encode([{"role": "user", "content": "Hello"}])
    ids = encoding.ids.tolist()
    assert list(encoding) == ids
    assert [encoding[at] for at in range(-len(ids), len(ids))] == ids + ids
    assert encoding[1:-1] == ids[1:-1]
    assert ids[0] in encoding
    with pytest.raises(IndexError):
        encoding[len(ids)]
    with pytest.raises(TypeError):
        encoding["ids"]  # type: ignore[call-overload]


def test_a_batch_is_iterated_in_order(embedded: Codec) -> None:
    good: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    batch = embedded.encode_batch([good, good])
    assert [encoding.ids for encoding in batch] == [batch[0].ids, batch[1].ids]
    some = iter(embedded.encode_batch([good, [{"role": "nobody"}]], errors="return"))
    assert next(some).ids == batch[0].ids
    with pytest.raises(MessageError):
        next(some)


@given(st.lists(st.integers(0, 3), max_size=8), st.integers(-9, 9), st.integers(-9, 9))
def test_an_encoding_is_a_sequence_as_a_list_is(words: list[int], start: int, stop: int) -> None:
    codec = Codec("internlm2", vocab="embedded")
    text = "".join("abcd"[word] for word in words)
    encoding = codec.encode([{"role": "user", "content": text}])
    ids = encoding.ids.tolist()
    assert isinstance(encoding, Sequence)
    assert list(reversed(encoding)) == ids[::-1]
    for value in {*ids, -1, 10**30, "x", None}:
        assert (value in encoding) == (value in ids)
        assert encoding.count(value) == ids.count(value)  # type: ignore[arg-type]
    for value in {*ids, -1}:
        try:
            expected = ids.index(value, start, stop)
        except ValueError:
            with pytest.raises(ValueError, match="not in the array"):
                encoding.index(value, start, stop)
        else:
            assert encoding.index(value, start, stop) == expected
