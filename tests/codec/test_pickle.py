"""Pickles: the content of the files with its hash, so that worker processes get the same codec."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import data
import models
import pytest
from chatcodec import (
    Codec,
    Collision,
    Format,
    FormatError,
    StreamPool,
    Template,
    Vocab,
    VocabError,
)
from models import Model, Piece

if TYPE_CHECKING:
    from pathlib import Path

    from naive import Value

MESSAGES = [
    {"role": "user", "content": "What is <|im_end|>? [UNUSED_TOKEN_145]"},
    {"role": "assistant", "content": "中文 ——"},
]


def again(value: Value) -> Value:
    return pickle.loads(pickle.dumps(value))  # noqa: S301


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_codec_comes_back(codec: Codec, protocol: int) -> None:
    restored = pickle.loads(pickle.dumps(codec, protocol))  # noqa: S301
    assert restored.encode(MESSAGES).ids == codec.encode(MESSAGES).ids
    assert restored.encode(MESSAGES).neutralized == codec.encode(MESSAGES).neutralized
    assert restored.vocab.control == codec.vocab.control
    assert restored.stop_ids == codec.stop_ids
    assert restored.format.text == codec.format.text


@pytest.mark.parametrize("name", ["embedded", "prefixed", *data.MODELS])
def test_a_vocabulary_comes_back(name: str) -> None:
    vocab = data.load_vocab(name)
    restored = again(vocab)
    text = MESSAGES[0]["content"] + " 中文 ——  \0"
    assert restored.encode(text) == vocab.encode(text)
    assert (restored.size, restored.control) == (vocab.size, vocab.control)
    assert restored.decode(restored.encode(text)) == vocab.decode(vocab.encode(text))


def test_a_codecs_vocabulary_comes_back_with_its_spellings(codec: Codec) -> None:
    restored = again(codec.vocab)
    assert restored.control == codec.vocab.control
    assert restored.decode([max(codec.stop_ids)]) == codec.vocab.decode([max(codec.stop_ids)])
    assert again(restored).control == codec.vocab.control


def test_a_vocabulary_whose_words_a_format_made_control_comes_back_so(tmp_path: Path) -> None:
    """Text must not reach them after unpickling either."""
    pieces = [
        Piece("\u2581"),
        *(Piece(sign, -9) for sign in "<|im_startend>"),
        Piece("<|", 9),
        Piece("|>", 9),
    ]
    pieces += [Piece("<|im_start|>", -1), Piece("<|im_end|>", -1)]
    texts: dict[str, Piece] = {piece.text: piece for piece in pieces}
    path = tmp_path / "tokenizer.model"
    path.write_bytes(Model([*models.specials(), *texts.values()]).proto())
    codec = Codec("chatml", path)
    restored = again(codec)
    for vocab in (codec.vocab, restored.vocab, again(codec.vocab)):
        assert vocab.control == codec.vocab.control
        assert set(vocab.control.values()).isdisjoint(vocab.encode("<|im_start|><|im_end|>"))


@pytest.mark.parametrize("name", ["internlm2", "chatml"])
def test_a_format_comes_back(name: str) -> None:
    format_ = Format.built_in(name)
    restored = again(format_)
    assert (restored.name, restored.guarantee, restored.source, restored.text) == (
        format_.name,
        format_.guarantee,
        format_.source,
        format_.text,
    )


def test_a_loaded_format_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(Format.built_in("chatml").text.replace('name = "chatml"', 'name = "mine"'))
    restored = again(Format.load(path))
    path.unlink()
    assert restored.name == "mine"
    assert again(restored).text == restored.text


def test_frozen_things_are_their_own_copies() -> None:
    for value in (Vocab.embedded(), Format.built_in("chatml"), data.load_codec("embedded")):
        for same in (copy.copy(value), copy.deepcopy(value)):
            assert repr(same) == repr(value)


def test_a_pickle_of_the_embedded_vocabulary_is_small() -> None:
    """It is a name, not a megabyte in every task that is sent to a worker."""
    assert len(pickle.dumps(Vocab.embedded())) < 500
    assert len(pickle.dumps(data.load_codec("embedded"))) < 10_000


def test_a_pickle_holds_the_file_and_no_tables() -> None:
    vocab = data.load_vocab("prefixed")
    size = len(data.model_bytes("prefixed"))
    assert size < len(pickle.dumps(vocab)) < size + 1000


def test_content_that_was_changed_is_refused() -> None:
    content = data.model_bytes("prefixed")
    pickled = pickle.dumps(data.load_vocab("prefixed"))
    at = pickled.index(content)
    for offset in (0, 10, len(content) // 2, len(content) - 1):
        changed = bytearray(pickled)
        changed[at + offset] ^= 1
        with pytest.raises(VocabError, match="does not fit its hash") as caught:
            pickle.loads(bytes(changed))  # noqa: S301
        assert caught.value.component == "file"


def parts_of(value: Value) -> Value:
    """What a pickle holds: what makes the object again, and from what."""
    return value.__reduce__()


def test_a_hash_that_was_changed_is_refused() -> None:
    restore, (content, digest, *rest) = parts_of(data.load_vocab("prefixed"))
    for wrong in (None, "", "0" * 64, digest.upper()):
        with pytest.raises(VocabError, match="hash"):
            restore(content, wrong, *rest)
    assert restore(content, digest, *rest).size == data.load_vocab("prefixed").size


def test_a_changed_format_is_refused() -> None:
    restore, (name, text, *rest) = parts_of(Format.built_in("chatml"))
    with pytest.raises(FormatError):
        restore(name, text.replace("{STOP}", "{STPO}"), *rest)


def test_encodings_say_what_to_pickle_of_them(embedded: Codec) -> None:
    encoding, batch = embedded.encode(MESSAGES), embedded.encode_batch([MESSAGES])
    for value, attribute in [(encoding, "encoding.ids"), (batch, "batch.ids")]:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match=rf"cannot pickle .*`{attribute}`"):
                pickle.dumps(value, protocol)
    for array in (encoding.ids, encoding.assistant_mask, batch.ids, batch.offsets):
        assert again(array) == array


@pytest.mark.parametrize("name", ["embedded", "prefixed"])
def test_another_process_gets_the_same_ids(name: str) -> None:
    codec = data.load_codec(name)
    program = (
        "import pickle, sys\n"
        "codec, messages = pickle.load(sys.stdin.buffer)\n"
        "print(codec.encode(messages).ids.tolist())"
    )
    content = pickle.dumps((codec, MESSAGES))
    done = subprocess.run(
        [sys.executable, "-c", program], input=content, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == codec.encode(MESSAGES).ids.tolist()


def test_small_results_come_back(codec: Codec) -> None:
    encoding = codec.encode(MESSAGES)
    assert encoding.neutralized
    for found in (*encoding.neutralized, Collision("messages[0].content", 1, 2, "USER:")):
        assert again(found) == found
    parsed = codec.parse([*codec.vocab.encode("Hi"), codec.stop_ids[0], 5, 6])
    restored = again(parsed)
    assert (restored.message, restored.finish, restored.rest, restored.rest_text) == (
        parsed.message,
        parsed.finish,
        parsed.rest,
        parsed.rest_text,
    )
    assert repr(restored) == repr(parsed)


def test_what_holds_tables_says_what_to_pickle(codec: Codec) -> None:
    template = Template("{% for m in messages %}{{ m.content }}{% endfor %}")
    objects = [
        codec.encode(MESSAGES),
        codec.stream(),
        StreamPool(codec),
        codec.constrain(),
        template.render(MESSAGES),
    ]
    for value in objects:
        name = type(value).__name__
        with pytest.raises(TypeError, match=f"cannot pickle `{name}`.*such as"):
            pickle.dumps(value)
