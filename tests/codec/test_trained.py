"""What is trained on: a turn from the end of its prompt up to what stops the model.

The laws hold for every built-in format, and for every template that is at hand.
"""

from __future__ import annotations

import functools
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
from chatcodec import Codec, Template, Vocab
from chatcodec.errors import ChatCodecError, FormatError
from completions import codec_of

if TYPE_CHECKING:
    from pathlib import Path

    from chatcodec import Encoding

THINKING = (None, True, False)

NO_CLOSER = {"chatglm3", "glm4", "glm4.5", "glm4.5:4.7", "glm4.5:5.3"}
"""Formats in which the next turn ends a turn: a last one has its end with `stop_final`."""

ENDS_OTHERWISE = {"harmony", "harmony:full"}
"""Formats whose answers of earlier turns are written with another end than the model gives them."""

FORMATS = sorted(set(chatcodec.formats()) - {"chatglm3"})
"""Those that a small vocabulary can be made for."""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, **more: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def turns(encoding: Encoding) -> list[range]:
    """The places of consecutive labels."""
    found: list[range] = []
    for at, label in enumerate(encoding.labels()):
        if label == -100:
            continue
        if found and found[-1].stop == at:
            found[-1] = range(found[-1].start, at + 1)
        else:
            found.append(range(at, at + 1))
    return found


def shown(codec: Codec, encoding: Encoding) -> str:
    return codec.vocab.decode([i for i in encoding.labels() if i != -100], control="spell")


@functools.cache
def made(format_: str) -> Codec:
    if format_ == "internlm2":
        return Codec(format_, vocab="embedded")
    return codec_of(format_)


def accepted(codec: Codec) -> tuple[bool | None, ...]:
    return THINKING if "thinking" in codec.format.options else (None,)


def prompts(codec: Codec, messages: list[dict[str, Any]]) -> dict[Any, list[int]]:
    """The ids of the prompt after some messages, by what is asked of the model."""
    found = {}
    for thinking in accepted(codec):
        options: dict[str, Any] = {"boundary": "isolated"}
        if thinking is not None:
            options["thinking"] = thinking
        try:
            asked = codec.encode(messages, add_generation_prompt=True, **options)
            before = codec.encode(messages, add_generation_prompt=False, **options)
        except ChatCodecError:
            continue
        found[thinking] = asked.ids.tolist()[common(asked.ids.tolist(), before.ids.tolist()) :]
    return found


def common(one: list[int], other: list[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


@pytest.mark.parametrize("reasoning", [None, "r"])
@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("format_", data.share(FORMATS, 2))
def test_a_turn_is_what_follows_its_prompt(
    format_: str,
    thinking: bool | None,  # noqa: FBT001
    reasoning: str | None,
) -> None:
    """From the end of the prompt of the same options, or of another that the turn begins with."""
    codec = made(format_)
    options: dict[str, Any] = {"boundary": "isolated"}
    if thinking is not None:
        options["thinking"] = thinking
    more = {} if reasoning is None else {"reasoning": reasoning}
    messages = [user("u"), assistant("a"), user("v"), assistant("b", **more)]
    if "thinking" not in codec.format.options and (thinking is not None or reasoning):
        return
    try:
        encoding = codec.encode(messages, stop_final=True, **options)
    except ChatCodecError:
        return
    ids, found = encoding.ids.tolist(), turns(encoding)
    assert len(found) == 2
    stops = codec.stop_ids
    if format_ not in ENDS_OTHERWISE:
        assert ids[found[0].stop - 1] in stops
    assert ids[found[1].stop - 1] in stops
    for turn, upto in zip(found, (1, 3), strict=True):
        assert not set(ids[turn.start : turn.stop - 1]) & set(stops)
        history = codec.encode(messages[:upto], add_generation_prompt=False, **options).ids.tolist()
        begin = common(ids, history)
        asked = prompts(codec, messages[:upto])
        own = asked.get(thinking, [])
        written, before = ids[begin:], ids[begin : turn.start]
        if own and written[: len(own)] == own:
            assert before == own
            continue
        whole = [prompt for prompt in asked.values() if written[: len(prompt)] == prompt]
        if whole:
            assert before == max(whole, key=len)
        else:
            # Earlier turns of some templates lack the block that all prompts open.
            assert before == own[: len(before)]


@pytest.mark.parametrize("format_", sorted(NO_CLOSER - {"chatglm3"}))
def test_the_last_turn_has_no_end_where_the_next_one_ends_it(format_: str) -> None:
    codec = made(format_)
    messages = [user("u"), assistant("a"), user("v"), assistant("b")]
    encoding = codec.encode(messages)
    first, last = turns(encoding)
    user_id = codec.vocab.control["<|user|>"]
    assert user_id in codec.stop_ids
    assert encoding.ids[first.stop - 1] == user_id
    assert encoding.ids[last.stop - 1] not in codec.stop_ids


@pytest.mark.parametrize(
    ("format_", "expected"),
    [("glm4.5:4.7", "a<|user|>b"), ("glm4.5:5.3", "</think>a<|user|></think>b")],
)
def test_glm_stops_at_a_turn(format_: str, expected: str) -> None:
    codec = made(format_)
    spelled = {codec.vocab.decode([id_], control="spell") for id_ in codec.stop_ids}
    assert spelled == {"<|endoftext|>", "<|user|>", "<|observation|>"}
    messages = [user("u"), assistant("a"), user("v"), assistant("b")]
    assert shown(codec, codec.encode(messages)) == expected
    prompt = codec.encode(messages[:1])
    stop = codec.vocab.control["<|user|>"]
    parsed = codec.parse([*codec.vocab.encode("</think>hi").tolist(), stop], prompt=prompt)
    assert parsed.finish == "stop"


def test_an_empty_message_is_no_stop() -> None:
    codec = made("glm4.5:4.7")
    messages = [user("u"), assistant("a"), user("")]
    assert codec.decode(codec.encode(messages).ids)[2] == user("")
    with pytest.raises(chatcodec.MessageError, match="the token that stops the turn before it"):
        codec.encode(messages, add_generation_prompt=False)
    ids = codec.encode(messages[:2]).ids.tolist()
    assert len(codec.decode([*ids, codec.vocab.control["<|user|>"]])) == 2


def test_gemma4_opens_its_reasoning() -> None:
    codec = made("gemma4")
    messages = [user("u"), assistant("a", reasoning_content="r")]
    # As vLLM's template writes it: a newline before the token that closes reasoning.
    expected = "<|channel>thought\nr\n<channel|>a<turn|>"
    assert shown(codec, codec.encode(messages, thinking=True)) == expected
    assert shown(codec, codec.encode(messages)) == expected


def test_exaone4_has_both_prompts() -> None:
    codec = made("exaone4")
    asked = {thinking: codec.encode([user("u")], thinking=thinking).text for thinking in THINKING}
    assert asked[True].endswith("[|assistant|]\n<think>\n")
    assert asked[False].endswith("[|assistant|]\n<think>\n\n</think>\n\n")
    assert asked[None] == asked[False]


@pytest.mark.parametrize("format_", FORMATS)
def test_thinking_is_not_ignored(format_: str) -> None:
    """Both values write something else, or one of them is refused."""
    codec = made(format_)
    if "thinking" not in codec.format.options:
        return
    written = []
    for thinking in (True, False):
        try:
            written.append(codec.encode([user("u")], thinking=thinking).text)
        except ChatCodecError:
            continue
    assert written
    assert len(set(written)) == len(written)


# Templates.

MARKER = re.compile(r"<[|｜]?/?[A-Za-z_▁:|｜]+>|\[/?[A-Z_|a-z]+\]|<\|[^|>]*\|>|<｜[^｜]*｜>")

OWN = {"bos_token": "<s>", "eos_token": "</s>"}
END = {"eos_token": "<|end|>"}

OTHERS = {"examples_pooling_score_template_qwen3_reranker.jinja"}
"""Templates that write no conversation."""

TEMPLATES = data.share(
    sorted(
        path.name
        for path in (data.DATA / "templates").glob("*.jinja")
        if path.name not in OTHERS
        # These say themselves what is trained on.
        and not re.search(r"{%-?\s*generation", path.read_text(encoding="utf-8"))
    ),
    8,
)
"""All that are at hand in a long run."""


def template_codec(name: str) -> Codec | None:
    source = data.find(f"templates/{name}").read_text(encoding="utf-8")
    known = set(Vocab.load(data.EMBEDDED_MODEL).control)
    spelled = sorted(set(MARKER.findall(source)) - known)
    vocab = data.appended(tuple(spelled))
    try:
        return Codec(Template(source, **OWN), vocab)
    except ChatCodecError:
        return None


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_turn_of_a_template_ends_with_what_stops_the_model(name: str) -> None:
    codec = template_codec(name)
    if codec is None:
        pytest.skip("the template is for something else than a chat")
    messages = [user("uqz"), assistant("aqz"), user("vqz"), assistant("bqz")]
    try:
        encoding = codec.encode(messages, add_generation_prompt=False)
        prompts = [codec.encode(messages[:upto], add_generation_prompt=True) for upto in (1, 3)]
    except ChatCodecError as error:
        pytest.skip(f"the template refuses the conversation: {error}"[:100])
    ids, found = encoding.ids.tolist(), turns(encoding)
    assert len(found) == 2
    stops = set(codec.stop_ids)
    first = found[0]
    following = [id_ for id_ in ids[first.start :] if id_ in stops]
    if following:
        # The first one after its text, wherever the template writes it.
        assert ids[first.stop - 1] in stops
        assert not set(ids[first.start : first.stop - 1]) & stops
    for turn, prompt in zip(found, prompts, strict=True):
        if encoding.text.startswith(prompt.text):
            assert encoding.char_offsets[turn.start][1] > len(prompt.text)
            assert encoding.char_offsets[turn.start - 1][1] <= len(prompt.text)


APERTUS = "examples_tool_chat_template_apertus.jinja"


def test_a_closer_that_comes_with_the_next_message() -> None:
    source = (
        "{% for m in messages %}"
        "{% if loop.index0 and loop.previtem.role == 'assistant' %}<|end|>{% endif %}"
        "<|{{ m.role }}|>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    tokens = ("<|end|>", "<|user|>", "<|assistant|>")
    vocab = data.appended(tokens)
    codec = Codec(Template(source, **END), vocab)
    messages = [user("a"), assistant("b"), user("c"), assistant("d")]
    assert shown(codec, codec.encode(messages)) == "b<|end|>d"


def test_apertus() -> None:
    codec = template_codec(APERTUS)
    assert codec is not None
    messages = [user("a"), assistant("b"), user("c"), assistant("d")]
    encoding = codec.encode(messages)
    assert "b<|assistant_end|>" in encoding.text
    assert shown(codec, encoding) == "b<|assistant_end|>d"


def test_the_variables_of_a_conversation_decide_where_its_answers_begin() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>"
        "{% if m.role == 'assistant' %}<think></think>{% endif %}"
        "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>"
        "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
        "{% endif %}"
    )
    tokens = ("<|end|>", "<|user|>", "<|assistant|>", "<think>", "</think>")
    vocab = data.appended(tokens)
    codec = Codec(Template(source, **END), vocab)
    messages = [user("u"), assistant("a")]
    assert shown(codec, codec.encode(messages)) == "<think></think>a<|end|>"
    assert shown(codec, codec.encode(messages, enable_thinking=False)) == "a<|end|>"


# The configuration of generation.


def folder(path: Path, generation: str) -> Path:
    """A folder of a model with a small vocabulary."""
    vocab = data.find("vocab/qwen3/tokenizer.json")
    (path / "tokenizer.json").symlink_to(vocab.resolve())
    (path / "generation_config.json").write_text(generation, encoding="utf-8")
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    prompt = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    (path / "chat_template.jinja").write_text(source + prompt, encoding="utf-8")
    return path


EOS, IM_END, BOX = 151643, 151645, 151648


SAID: list[tuple[Any, list[int]]] = [
    ([EOS, IM_END, BOX], [EOS, BOX]),
    (EOS, [EOS]),
    (None, []),
    ([], []),
]
"""What a configuration says, and the stop ids that it adds."""


@pytest.mark.parametrize(("saying", "format_"), data.in_turn(SAID, [None, "chatml"]))
def test_stop_ids_of_a_folder(
    tmp_path: Path, saying: tuple[Any, list[int]], format_: str | None
) -> None:
    said, more = saying
    codec = Codec.from_pretrained(folder(tmp_path, json.dumps({"eos_token_id": said})), format_)
    assert codec.stop_ids == [IM_END, *more] or set(codec.stop_ids) >= {IM_END, *more}
    again = pickle.loads(pickle.dumps(codec))  # noqa: S301
    assert again.stop_ids == codec.stop_ids
    assert "generation_config" not in codec.describe()


def test_a_stop_id_that_the_vocabulary_lacks_is_told(tmp_path: Path) -> None:
    said = [IM_END, 999_999, -1, 10]
    codec = Codec.from_pretrained(folder(tmp_path, json.dumps({"eos_token_id": said})))
    assert not set(codec.stop_ids) & {999_999, -1, 10}
    assert "`generation_config.json` stops at 999999, -1, 10" in codec.describe()


@pytest.mark.parametrize("text", ["{", '{"eos_token_id": "x"}', '{"eos_token_id": [1, "x"]}'])
def test_a_broken_configuration_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match=r"`generation_config\.json`.* is broken"):
        Codec.from_pretrained(folder(tmp_path, text))
