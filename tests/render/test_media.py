"""Images and other parts that are no text: placeholders with a path, in formats that have some."""

from __future__ import annotations

import copy
import functools
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import data
import jinja2
import jinja2.ext
import numpy as np
import pyarrow as pa
import pytest
from chatcodec import (
    Codec,
    Encoding,
    Format,
    MessageError,
    Placeholder,
    Vocab,
    collect,
    events,
    formats,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import hostile_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from naive import Message, Value

WITH_MEDIA = [name for name in formats() if "image" in Format.built_in(name).media]
"""Every built-in format with placeholders of images. Golden cases have other kinds."""

FIXED = ("kimi-k3", "llama3.2")
"""Formats in which an image is one token."""

ROWS = (
    *("mistral", "mistral:devstral", "mistral:magistral", "mistral:ministral3"),
    *("mistral:small3", "mistral:small3.2", "mistral:v11", "mistral:v13"),
)
"""Formats that separate the rows of an image."""


WITH_TEXT = {"kimi-k2.5": "image", "kimi-k2.5:full": "image"}
"""Formats whose opener of an image has text, and the text."""


@functools.cache
def codec_of(name: str) -> Codec:
    """A codec of a format on the embedded vocabulary with the format's control tokens."""
    keys = tomllib.loads(Format.built_in(name).text)
    spellings = []
    own = keys.get("variant", {}).get(name.partition(":")[2], {}).get("control", {})
    for value in (keys["control"] | own).values():
        spellings += value[:1] if isinstance(value, list) else [value] if value else []
    known = Vocab.load(data.EMBEDDED_MODEL).control
    more = [spelling for spelling in spellings if spelling not in known]
    return data.load_appended(name, tuple(more))


def image(tokens: Any = 3, kind: str = "image") -> dict[str, Any]:  # noqa: ANN401
    """A part with a count, as far as the format takes one."""
    return {"type": kind} if tokens is None else {"type": kind, "tokens": tokens}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def user(*parts: dict[str, Any]) -> Message:
    return {"role": "user", "content": list(parts)}


def control_of(encoding: Encoding) -> list[int]:
    """The control ids, in order."""
    return [id_ for id_, is_ in zip(encoding, encoding.is_control, strict=True) if is_]


def count_of(name: str, count: int) -> int | None:
    """A count for an image of a format: none where it is always one token."""
    return None if name in FIXED else count


@pytest.fixture(params=WITH_MEDIA)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_formats_with_placeholders() -> None:
    families = {name.partition(":")[0] for name in WITH_MEDIA}
    known = {"gemma3", "glm4.5", "llama3.2", "llama4", "mistral"}
    assert known | {"qwen2", "qwen2.5", "qwen3", "qwen3.5"} <= families
    assert Format.built_in("internlm2").media == []


def test_ids_of_an_image(name: str) -> None:
    codec = codec_of(name)
    messages = [user(text("Look:"), image(count_of(name, 3)), text("What is it?"))]
    encoding = codec.encode(messages)
    (placeholder,) = encoding.placeholders
    path = "messages[0].content[1]"
    assert (placeholder.path, placeholder.kind) == (path, "image")
    assert placeholder.end - placeholder.start == (1 if name in FIXED else 3)
    ids = encoding.ids.tolist()
    inside = range(*placeholder.around)
    assert len({ids[at] for at in range(placeholder.start, placeholder.end)}) == 1
    own = ""
    for at in inside:
        assert encoding.sources[at] == path
        assert encoding.is_content[at] == 0
        assert encoding.message_indices[at] == 0
        assert encoding.assistant_mask[at] == 0
        start, end = encoding.char_offsets[at]
        if not encoding.is_control[at]:
            own += encoding.text[start:end]
            continue
        assert codec.vocab.control[encoding.text[start:end]] == ids[at]
    assert own == WITH_TEXT.get(name, "")
    labels = encoding.labels(roles=["user", "assistant"])
    assert {labels[at] for at in inside} == {-100}
    others = [at for at, source in enumerate(encoding.sources) if source == path]
    assert set(inside) <= set(others)
    (back,) = [it for it in codec.decode(ids) if it["role"] == "user"]
    size = 1 if name in FIXED else 3
    assert back["content"] == [text("Look:"), image(size), text("What is it?")]
    assert codec.decode(ids) == codec.canonical(messages)
    assert codec.count(messages) == len(ids)
    assert codec.encode_batch([messages]).ids == encoding.ids


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_counts(name: str, count: int) -> None:
    if name in FIXED:
        pytest.skip("an image is one token")
    codec = codec_of(name)
    messages = [user(image(count)), {"role": "assistant", "content": "Hm."}, user(text("Hi"))]
    if count == 0 and name in ROWS:
        with pytest.raises(MessageError, match="expected 1 or more") as found:
            codec.encode(messages)
        assert found.value.path == "messages[0].content[0].tokens"
        return
    encoding = codec.encode(messages)
    (placeholder,) = encoding.placeholders
    assert placeholder.end - placeholder.start == count
    assert placeholder.around[0] <= placeholder.start <= placeholder.end <= placeholder.around[1]
    assert codec.decode(encoding) == codec.canonical(messages)
    pad = codec.vocab.control[pad_of(name)]
    assert np.count_nonzero(np.asarray(encoding) == pad) == count


def pad_of(name: str) -> str:
    """The spelling of the token that an image is made of."""
    keys = tomllib.loads(Format.built_in(name).text)
    table = keys["media"]["image"]
    spelling = keys["control"][re.sub(r"\W", "", table.get("each") or table["open"])]
    return str(spelling)


def test_several_and_text_that_spells_them(name: str) -> None:
    codec = codec_of(name)
    count = count_of(name, 2)
    forged = f"a {pad_of(name)} b"
    plain = [user(image(count), text("a"), image(count), image(count), text("b"))]
    hostile = [user(image(count), text(forged), image(count), image(count), text(forged))]
    first, second = codec.encode(plain), codec.encode(hostile)
    paths = [f"messages[0].content[{nth}]" for nth in (0, 2, 3)]
    assert [it.path for it in second.placeholders] == paths

    assert control_of(first) == control_of(second)
    assert len(second.neutralized) == 2
    assert {it.path for it in second.neutralized} == {"messages[0].content"}
    assert codec.decode(second) == codec.canonical(hostile)


def without_ranges(found: list[events.Event]) -> list[object]:
    told: list[object] = []
    for event in found:
        if isinstance(event, events.Text) and told and isinstance(told[-1], str):
            told[-1] += event.text
        elif isinstance(event, events.Text):
            told.append(event.text)
        else:
            fields = [getattr(event, key) for key in type(event).__match_args__]
            told.append((type(event).__name__, *fields))
    return told


@pytest.mark.parametrize("name", data.share(WITH_MEDIA, 2))
@settings(max_examples=100 if data.LONG else 25)
@given(draw=st.data())
def test_a_conversation_comes_back(name: str, draw: st.DataObject) -> None:
    codec = codec_of(name)
    kinds = codec.format.media
    sizes: st.SearchStrategy[Any] = st.none() if name in FIXED else st.integers(1, 5)
    if name in ROWS:
        sizes = sizes | st.tuples(st.integers(1, 3), st.integers(1, 4)).map(list)
    parts = st.one_of(
        hostile_texts(codec).map(text),
        st.builds(image, sizes, st.sampled_from(kinds)),
    )
    content = draw.draw(st.lists(parts, min_size=1, max_size=6))
    messages = [{"role": "user", "content": content}]
    encoding = codec.encode(messages)
    images = [(nth, part) for nth, part in enumerate(content) if part["type"] != "text"]
    found = encoding.placeholders
    assert [it.path for it in found] == [f"messages[0].content[{nth}]" for nth, _ in images]
    assert [it.kind for it in found] == [part["type"] for _, part in images]
    assert codec.decode(encoding) == codec.canonical(messages)
    # Text moves no control: each text but white space as a letter gives the same.
    harmless = copy.deepcopy(messages)
    for part in harmless[0]["content"]:
        if part["type"] == "text" and part["text"]:
            part["text"] = "x"
    other = codec.encode(harmless)
    assert control_of(encoding) == control_of(other)
    # Any split of the ids gives the same events.
    ids = encoding.ids.tolist()
    cut = draw.draw(st.integers(0, len(ids)))

    def read(*pushes: list[int]) -> list[events.Event]:
        stream = codec.stream(prompt=[])
        return [event for push in pushes for event in stream.push(push)] + stream.finish()

    whole = without_ranges(read(ids))
    assert whole == without_ranges(read(ids[:cut], ids[cut:]))
    assert whole == without_ranges(read(*([id_] for id_ in ids)))


QWEN = [name for name in WITH_MEDIA if name.startswith("qwen")]


@pytest.mark.parametrize("name", QWEN)
def test_in_results_and_systems(name: str) -> None:
    codec = codec_of(name)
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "system", "content": [text("See "), image(1), text(".")]},
        user(text("Hi")),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [text("A:"), image(2), text("B")]},
    ]
    try:
        codec.encode([*messages[1:3], {**messages[3], "content": "x"}])
    except MessageError:
        messages = messages[:2]
    encoding = codec.encode(messages)
    assert [it.path for it in encoding.placeholders] == [
        f"messages[{nth}].content[1]" for nth in (0, 3) if nth < len(messages)
    ]
    assert codec.decode(encoding) == codec.canonical(messages)
    if len(messages) > 2:
        tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        encoding = codec.encode(messages, tools=tools)
        assert len(encoding.placeholders) == 2
        assert codec.decode(encoding) == codec.canonical(messages, tools=tools)


def test_results_of_other_clients() -> None:
    codec = codec_of("qwen3")
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("x"), image(2)]}
    anthropic: list[Any] = [
        user(text("Hi")),
        {"role": "assistant", "content": [use]},
        user(result, {"type": "image", "source": {"type": "base64", "data": "AA"}, "tokens": 1}),
    ]
    encoding = codec.encode(anthropic)
    paths = [it.path for it in encoding.placeholders]
    assert paths == ["messages[2].content[0].content[1]", "messages[2].content[1]"]
    responses: list[Any] = [
        user({"type": "input_image", "image_url": "https://…", "tokens": 1}),
        {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t", "output": [image(3, "input_image")]},
    ]
    encoding = codec.encode(responses)
    paths = [it.path for it in encoding.placeholders]
    assert paths == ["messages[0].content[0]", "messages[2].output[0]"]
    assert codec.decode(encoding) == codec.canonical(responses)


def test_extend(name: str) -> None:
    codec = codec_of(name)
    count = count_of(name, 3)
    prompt = codec.encode([user(text("Look:"), image(count))])
    completion = [*codec.vocab.encode("A cat."), codec.stop_ids[0]]
    after = codec.extend(prompt, completion, [user(image(count), text("And this?"))])
    assert after.ids.tolist()[: len(prompt)] == prompt.ids.tolist()
    assert [it.path for it in after.placeholders] == [
        "messages[0].content[1]",
        "messages[2].content[0]",
    ]
    assert after.placeholders[0] == prompt.placeholders[0]
    whole = codec.encode(
        [
            user(text("Look:"), image(count)),
            {"role": "assistant", "content": "A cat."},
            user(image(count), text("And this?")),
        ]
    )
    if not after.notes:
        assert after.ids.tolist() == whole.ids.tolist()
        assert after.placeholders == whole.placeholders
    adopted = codec.extend(prompt.ids.tolist(), completion, [user(image(count))])
    assert len(adopted.placeholders) == 1
    # Where the prompt opens the reasoning, the answer is reasoning.
    answer = codec.parse(completion, prompt).message
    assert "A cat." in {answer["content"], answer.get("reasoning")}


def test_rows() -> None:
    codec = codec_of("mistral")
    encoding = codec.encode([user(image([2, 3]), image([1, 2]))])
    control = codec.vocab.control
    img, new_row, end = (control[it] for it in ("[IMG]", "[IMG_BREAK]", "[IMG_END]"))
    first, second = encoding.placeholders
    ids = encoding.ids.tolist()
    assert ids[first.start : first.end] == [img] * 3 + [new_row] + [img] * 3
    assert ids[first.end] == ids[second.end] == end
    (message,) = codec.decode(ids)
    assert message["content"] == [image([2, 3]), image(2)]
    # Rows of several lengths are none of the format's.
    stream = codec.stream(prompt=[])
    ids[first.start + 1 : first.start + 2] = []
    told = [type(event).__name__ for event in [*stream.push(ids), *stream.finish()]]
    assert told.count("Media") == 1
    assert "Notice" in told


@pytest.mark.parametrize("after", ["content", "pad", "end", "begin"])
@pytest.mark.parametrize("said", ["", "im", "image", "images", "video", "image\n", "imag"])
def test_an_opener_with_other_text_is_reported(said: str, after: str) -> None:
    codec = codec_of("kimi-k2.5")
    control = codec.vocab.control
    if (said, after) == ("image", "content"):
        return
    begin, content, pad, end = (
        control[f"<|media_{it}|>"] for it in ("begin", "content", "pad", "end")
    )
    words = codec.vocab.encode
    head = [control["<|im_user|>"], *words("user"), control["<|im_middle|>"], *words("Hi")]
    part = [begin, *words("image"), content, pad, pad, end, *words("\nx")]
    stop = control["<|im_end|>"]
    other = control[f"<|media_{after}|>"]
    ids = [*head, begin, *words(said), other, pad, end, *words("\nx"), *part, stop]
    for cut in range(len(ids) + 1):
        stream = codec.stream(prompt=[])
        told = [*stream.push(ids[:cut]), *stream.push(ids[cut:]), *stream.finish()]
        (media,) = (it for it in told if isinstance(it, events.Media))
        assert (media.kind, media.count, media.rows) == ("image", 2, 1)
        notices = [it for it in told if isinstance(it, events.Notice)]
        assert notices[0].kind == "malformed"
        assert notices[0].text == "<|media_begin|>"
        text_ = "".join(it.text for it in told if isinstance(it, events.Text))
        assert text_.startswith(f"Hi{said}")
        assert text_.endswith("x")
        ends = [it.tokens[1] for it in told]
        assert ends == sorted(ends)
        assert ends[-1] == len(ids)
    opened = codec.stream(prompt=[])
    told = [*opened.push([*head, begin, *words("im")]), *opened.finish()]
    assert [type(it).__name__ for it in told][-3:] == ["Notice", "Text", "TurnEnd"]


def test_malformed_placeholders_are_reported() -> None:
    codec = codec_of("qwen3")
    control = codec.vocab.control
    start, pad, end = (
        control[it] for it in ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
    )
    head = [control["<|im_start|>"], *codec.vocab.encode("user\nHi")]
    for middle in ([start], [start, pad], [pad], [end], [start, *codec.vocab.encode("x"), end]):
        for tail in ([], [control["<|im_end|>"]], [start, pad, end], [10**6]):
            ids = [*head, *middle, *tail]
            stream = codec.stream(prompt=[])
            found = [*stream.push(ids), *stream.finish()]
            assert any(isinstance(event, events.Notice) for event in found)
            media = [event for event in found if isinstance(event, events.Media)]
            assert len(media) == (tail[:1] == [start])
            ends = [event.tokens[1] for event in found]
            assert ends == sorted(ends)
            assert ends[-1] == len(ids)
            singly = codec.stream(prompt=[])
            parts = [event for id_ in ids for event in singly.push(id_)] + singly.finish()
            assert without_ranges(parts) == without_ranges(found)


def test_a_models_own_placeholder_is_no_part() -> None:
    codec = codec_of("qwen3")
    control = codec.vocab.control
    pads = [control[it] for it in ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")]
    parsed = codec.parse([*codec.vocab.encode("Hi"), *pads, codec.stop_ids[0]])
    assert parsed.message["content"] == "Hi"


def test_collect() -> None:
    found: list[events.Event] = [
        events.TurnStart("user"),
        events.Text("a"),
        events.Media("image", 2, 1),
        events.Media("video", 3, 2),
        events.TurnEnd("stop"),
    ]
    assert collect(found)["content"] == [text("a"), image(2), image([2, 3], "video")]
    with pytest.raises(ValueError, match="no kind of part"):
        collect([events.Media("smell", 1, 1)])  # type: ignore[arg-type]


def test_a_function_counts() -> None:
    codec = codec_of("qwen3")
    seen: list[tuple[str, str]] = []

    def count(part: Any, path: str) -> int:  # noqa: ANN401
        seen.append((part["type"], path))
        return int(part.get("width", 1))

    part = {"type": "image_url", "image_url": {"url": "…"}, "width": 4}
    messages: list[Any] = [user(text("a"), part, image(2))]
    given_ = copy.deepcopy(messages)
    encoding = codec.encode(messages, media_tokens=count)
    assert [it.end - it.start for it in encoding.placeholders] == [4, 2]
    assert seen == [("image_url", "messages[0].content[1]")]
    assert messages == given_
    same: list[Callable[..., Any]] = [codec.canonical, codec.count]
    for method in same:
        method(messages, media_tokens=count)
    assert codec.encode_batch([messages], media_tokens=count).ids == encoding.ids
    assert codec.fit(messages, 1000, media_tokens=count) == messages
    assert codec.encode(messages, media_tokens=lambda *_: np.int64(3)).placeholders[0].end
    with pytest.raises(MessageError) as error:
        codec.encode(messages, media_tokens=lambda *_: None)
    assert error.value.path == "messages[0].content[1].tokens"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "is missing"),
        (-1, "-1, expected a whole number"),
        (2.5, "2.5, expected a whole number"),
        (True, "a boolean, expected a whole number"),
        ("3", "a string, expected a whole number"),
        (1 << 40, "expected a whole number"),
        pytest.param(10**5000, "expected a whole number", id="too long for Python"),
        (float("nan"), "nan, expected a whole number"),
        ({"rows": 1}, "a dict, expected a whole number"),
        ([1, 2, 3], "is a list of 3"),
        ([1, -1], "expected a whole number"),
        ([2, 2], "has no rows"),
        ([1 << 11, 1 << 11], "expected at most"),
        ((1 << 20) + 1, "expected a whole number"),
    ],
)
def test_wrong_counts(value: Value, problem: str) -> None:
    codec = codec_of("qwen3")
    with pytest.raises(MessageError, match=re.escape(problem)) as found:
        codec.encode([user(text("a"), image(value))])
    assert found.value.path.startswith("messages[0].content[1].tokens")
    if value is not None:
        with pytest.raises(MessageError, match=re.escape(problem)):
            codec.encode([user({"type": "image"})], media_tokens=lambda *_: value)


def test_counts_are_bounded_together() -> None:
    codec = codec_of("qwen3")
    with pytest.raises(MessageError, match="at most 1048576") as found:
        codec.encode([user(image(1 << 19), image(1 << 19), image(1))])
    assert found.value.path == "messages[0].content[2].tokens"


def test_what_has_no_place() -> None:
    plain = [user(text("a"), image(2))]
    with pytest.raises(MessageError, match='is "image", expected "text"') as found:
        Codec("internlm2", vocab="embedded").encode(plain)
    assert found.value.path == "messages[0].content[1].type"
    # The vocabulary lacks the tokens.
    bare = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
    with pytest.raises(MessageError, match=r"lacks `<\|vision_start\|>` or") as found:
        data.load_appended("qwen2", bare).encode(plain)
    assert found.value.path == "messages[0].content[1].type"
    codec = codec_of("qwen3")
    assert codec.format.media == ["image", "video"]
    with pytest.raises(MessageError, match='is "input_audio", expected "text"'):
        codec.encode([user({"type": "input_audio", "input_audio": {}, "tokens": 1})])
    dropped = codec.encode([user(text("a"), image(1, "audio"))], on_unsupported="drop").dropped
    assert [it.path for it in dropped] == ["messages[0].content[1]"]
    answer: list[Any] = [user(text("a")), {"role": "assistant", "content": [image(1)]}]
    with pytest.raises(MessageError, match="in an assistant's message") as found:
        codec.encode(answer)
    assert found.value.path == "messages[1].content[0]"
    answer[1]["content"].append(text("b"))
    assert codec.encode(answer, on_unsupported="drop").dropped[0].path == "messages[1].content[0]"
    with pytest.raises(MessageError, match="expected 1") as found:
        codec_of("llama3.2").encode([user(image(256))])
    assert found.value.path == "messages[0].content[0].tokens"


def test_a_wrong_function() -> None:
    codec = codec_of("qwen3")
    messages = [user({"type": "image"})]
    with pytest.raises(TypeError, match="media_tokens: is `int`, expected a function"):
        codec.encode(messages, media_tokens=3)  # type: ignore[arg-type]

    def fails(*_: object) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        codec.encode(messages, media_tokens=fails)
    table = pa.table({"messages": [messages]})
    with pytest.raises(TypeError, match="media_tokens: has no place beside a table"):
        codec.encode_table(table, media_tokens=fails)


def test_tables_and_pages() -> None:
    codec = codec_of("qwen3")
    messages = [user(text("a"), image(2))]
    table = pa.table({"messages": pa.array([json.dumps(messages)])})
    encoded = pa.table(codec.encode_table(table, labels=True))
    encoding = codec.encode(messages)
    assert encoded["input_ids"].to_pylist() == [encoding.ids.tolist()]
    rows = pa.table({"messages": [[user(image(2))]]})
    assert pa.table(codec.encode_table(rows))["input_ids"].to_pylist() == [
        codec.encode([user(image(2))]).ids.tolist()
    ]
    assert "messages[0].content[1]" in encoding.to_html()


def test_placeholder_is_a_value() -> None:
    (one,) = codec_of("qwen3").encode([user(image(2))]).placeholders
    match one:
        case Placeholder(path, kind, start, end, around):
            assert (path, kind, end - start) == ("messages[0].content[0]", "image", 2)
            assert around == (start - 1, end + 1)
    assert one == codec_of("qwen3").encode([user(image(2))]).placeholders[0]
    assert len({one, one}) == 1
    assert repr(one).startswith('Placeholder(path="messages[0].content[0]", kind="image"')


def rendered(name: str, messages: list[Message], **values: object) -> str:
    """What a published template writes."""
    path = data.find(f"{name}.jinja")

    def refuse(problem: str) -> None:
        raise ValueError(problem)

    environment = jinja2.Environment(  # noqa: S701  text, no HTML
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.globals["raise_exception"] = refuse
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    template = environment.from_string(path.read_text(encoding="utf-8"))
    return str(template.render(messages=messages, **values))


SCENARIOS: dict[str, list[Any]] = {
    "an image first": [user(image(1), text("What is it?"))],
    "an image last": [user(text("What is it?"), image(1))],
    "images between texts": [user(text("A"), image(1), text("B"), image(1), text("C"))],
    "two in a row": [user(image(1), image(1), text("Compare."))],
    "later turns": [
        user(image(1), text("What?")),
        {"role": "assistant", "content": "A cat."},
        user(text("And?"), image(1)),
    ],
}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    ("name", "template", "values"),
    [
        ("qwen2:instruct", "templates/qwen2_vl", {}),
        ("gemma3", "templates/gemma3", {"bos_token": "<bos>"}),
        ("llama3.2", "templates/llama3_2_vision", {"bos_token": "<|begin_of_text|>"}),
        ("llama4", "templates/llama4", {"bos_token": "<|begin_of_text|>"}),
        ("kimi-k2.5", "families/Kimi-K2.5", {}),
    ],
)
def test_as_the_published_template(
    name: str, template: str, values: dict[str, object], scenario: str
) -> None:
    messages = SCENARIOS[scenario]
    codec = codec_of(name)
    given_ = copy.deepcopy(messages)
    if name in FIXED:
        for message in given_:
            for part in message["content"] if message["role"] == "user" else []:
                part.pop("tokens", None)
    listed = [
        {**message, "content": [text(message["content"])]}
        if isinstance(message["content"], str)
        else message
        for message in messages
    ]
    expected = rendered(template, listed, add_generation_prompt=True, **values)
    written = codec.encode(given_).text
    if name == "gemma3":
        # The template writes one token, and the model's processor the others.
        whole = "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"
        expected = expected.replace("<start_of_image>", whole)
    if name == "llama4":
        whole = "<|image_start|><|image|><|patch|><|image_end|>"
        expected = expected.replace("<|image|>", whole)
    if name == "llama3.2":
        # The template of vision models leaves out the system's turn beside images.
        written = re.sub(
            r"<\|start_header_id\|>system.*?<\|eot_id\|>", "", written, count=1, flags=re.DOTALL
        )
    assert written == expected


def test_real_ids_of_an_opener_with_text() -> None:
    codec = data.load_format("kimi-k2.5", "kimi-k2")
    encoding = codec.encode([user(text("Look:"), image(4), text("What is it?"))])
    (placeholder,) = encoding.placeholders
    ids, control = encoding.ids.tolist(), codec.vocab.control
    assert ids[slice(*placeholder.around)] == [
        control["<|media_begin|>"],
        *codec.vocab.encode("image"),
        control["<|media_content|>"],
        *[control["<|media_pad|>"]] * 4,
        control["<|media_end|>"],
    ]
    assert codec.decode(ids)[-1]["content"] == [text("Look:"), image(4), text("What is it?")]


@pytest.mark.parametrize("name", ["qwen3", "qwen3.5"])
def test_real_ids(name: str) -> None:
    codec = data.load_format(name, name)
    encoding = codec.encode([user(text("Look:"), image(4), text("What is it?"))])
    (placeholder,) = encoding.placeholders
    ids = encoding.ids.tolist()
    control = codec.vocab.control
    assert ids[placeholder.start : placeholder.end] == [control["<|image_pad|>"]] * 4
    assert ids[placeholder.start - 1] == control["<|vision_start|>"]
    assert ids[placeholder.end] == control["<|vision_end|>"]
    assert codec.decode(ids)[-1]["content"] == [text("Look:"), image(4), text("What is it?")]
