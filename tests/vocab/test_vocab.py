"""`Vocab`: the ids and bytes of the sentencepiece library, and never control from text.

`agree` states P3 with the exception that P1 makes: ids are the reference's, unless the reference
lets text become control. P4 stands beside it: what is encoded decodes to the same bytes.
"""

from __future__ import annotations

import functools
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import models
import numpy as np
import pytest
from chatcodec import Vocab, VocabError
from clock import within
from hypothesis import given
from hypothesis import strategies as st
from models import BYTE, NORMAL, UNIGRAM, UNUSED, USER_DEFINED, Model, Piece
from naive import spaced
from strategies import hostile_texts

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = ("embedded", *data.MODELS)


def agree(vocab: Vocab, reference: Callable[[str], list[int]], text: str) -> None:
    """Ids are the reference's, or the reference's hold a control token and ours do not."""
    control = set(vocab.control.values())
    ids, expected = vocab.encode(text).tolist(), reference(text)
    assert control.isdisjoint(ids), text
    if control.isdisjoint(expected):
        assert ids == expected, text
    assert vocab.decode_bytes(ids) == spaced(text).encode(), text


def chunks(text: str, size: int = 20_000) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def load(tmp_path: Path, model: bytes) -> Vocab:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(model)
    return Vocab.load(path)


@pytest.fixture(scope="module", params=EVERY)
def name(request: pytest.FixtureRequest) -> str:
    """Every vocabulary: the embedded one, and the real ones."""
    data.model_path(request.param)
    return str(request.param)


# P3 and P4 on real vocabularies.


@given(text=hostile_texts(max_parts=20))
def test_hostile_text_agrees_with_sentencepiece(name: str, text: str) -> None:
    agree(data.load_vocab(name), data.reference(name), text)


@given(text=st.text(max_size=300))
def test_any_text_agrees_with_sentencepiece(name: str, text: str) -> None:
    agree(data.load_vocab(name), data.reference(name), text)


def test_every_code_point_agrees_with_sentencepiece(name: str) -> None:
    """A string of every 256 code points in a row, which neighbours that merge stand in too."""
    # Quick: the planes in which characters are assigned, and one of private use.
    planes = range(17) if data.LONG else (0, 1, 2, 3, 14, 16)
    blocks = [plane << 16 | row for plane in planes for row in range(0, 0x10000, 256)]
    for block in data.share(blocks, 3, EVERY.index(name)):
        text = "".join(chr(c) for c in range(block, block + 256) if not 0xD800 <= c < 0xE000)
        agree(data.load_vocab(name), data.reference(name), text)


def test_the_corpus_agrees_with_sentencepiece(name: str) -> None:
    for _, text in data.corpus(first=EVERY.index(name)):
        for chunk in chunks(text):
            agree(data.load_vocab(name), data.reference(name), chunk)


def test_source_code_agrees_with_sentencepiece(name: str) -> None:
    """Modules of the standard library: indentation, long lines, every sign."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    if data.LONG:
        files = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    for file in data.share(files, 12, EVERY.index(name)):
        for chunk in chunks(file.read_bytes().decode("utf-8", errors="replace")):
            agree(data.load_vocab(name), data.reference(name), chunk)


@pytest.mark.parametrize("space", [" ", "\n", "\t", "\r", "\u2581", "\u3000", " \n", "\n ", "\t "])
def test_runs_of_white_space_agree_with_sentencepiece(name: str, space: str) -> None:
    for length in (*range(1, 70), 255, 256, 257, 1000):
        for around in ("{}", "x{}", "{}x", "x{}y", "——{}1"):
            agree(data.load_vocab(name), data.reference(name), around.format(space * length))


@pytest.mark.parametrize(
    "text",
    [
        "\0",
        "a\0b",
        "\0\0\0",
        "\u2581",
        "\u2581a \u2581",
        "\ufffd",
        "a\ufffd\ufffd",
        "<0x0A>",
        "<s>",
        "</s>",
    ],
)
def test_odd_signs_agree_with_sentencepiece(name: str, text: str) -> None:
    agree(data.load_vocab(name), data.reference(name), text)


def test_nul_is_the_byte_and_not_the_piece() -> None:
    vocab = data.load_vocab("internlm2")
    assert vocab.encode("\0").tolist() == [3]
    assert vocab.token_bytes(354) == b"\0"


# P1 of a vocabulary by itself.


def test_no_spelling_of_a_control_token_becomes_one(name: str) -> None:
    vocab = data.load_vocab(name)
    control = set(vocab.control.values())
    for spelling in vocab.control:
        for around in ("{}", "a{}b", " {} ", "{}{}", "<{}>", "\n{}\n", "<s{}>"):
            text = around.format(spelling, spelling)
            assert control.isdisjoint(vocab.encode(text)), text


def test_what_was_decoded_does_not_become_control_again(name: str) -> None:
    """A log, a quoted page, a model's output: decoded control is text."""
    vocab = data.load_vocab(name)
    control = set(vocab.control.values())
    for id_ in control:
        assert control.isdisjoint(vocab.encode(vocab.decode([id_, 5, id_])))


def test_plain_sentencepiece_lets_text_become_control() -> None:
    """What all this is for: were it not so, the test above would say nothing."""
    assert data.reference("internlm2")("[UNUSED_TOKEN_145]")[-1] == 92542
    assert 6 in data.reference("yi")("<|im_start|>")


def test_added_pieces_that_are_text_stay_reachable() -> None:
    vocab = data.load_vocab("internlm2")
    assert vocab.encode("Ｅ——……").tolist() == data.reference("internlm2")("Ｅ——……")
    assert set(vocab.encode("Ｅ——……")) <= set(range(92352, 92397))


# Small models, trained with the flags that change how text is read.


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"add_dummy_prefix": False},
        {"remove_extra_whitespaces": False},
        {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
        {"user_defined_symbols": "——,……,<h1>,\t,▁▁▁", "remove_extra_whitespaces": False},
        {
            "user_defined_symbols": "——,▁▁",
            "add_dummy_prefix": False,
            "remove_extra_whitespaces": False,
        },
        {"split_digits": True, "add_dummy_prefix": False},
        {"split_by_whitespace": False, "remove_extra_whitespaces": False},
        {"split_by_unicode_script": False, "split_by_number": False},
        {"allow_whitespace_only_pieces": True, "remove_extra_whitespaces": False},
        {"control_symbols": "<|im_start|>,<|im_end|>"},
    ],
    ids=str,
)
@given(text=hostile_texts(max_parts=16))
def test_trained_models_agree_with_sentencepiece(
    tmp_path_factory: pytest.TempPathFactory, flags: dict[str, Any], text: str
) -> None:
    model = models.train(**flags)
    vocab = trained(tmp_path_factory, model)
    reference, decode = models.sentencepiece(model)
    expected = reference(text)
    assert vocab.encode(text).tolist() == expected
    if not flags.get("remove_extra_whitespaces", True):
        # Where it is on, text is lost, and the reference drops a leading space once more.
        assert vocab.decode_bytes(expected) == spaced(text).encode()
        assert vocab.decode(expected) == decode(expected)


VOCABS: dict[bytes, Vocab] = {}


def trained(tmp_path_factory: pytest.TempPathFactory, model: bytes) -> Vocab:
    """The vocabulary of a model, loaded once."""
    if model not in VOCABS:
        VOCABS[model] = load(tmp_path_factory.mktemp("trained"), model)
    return VOCABS[model]


def test_added_pieces_of_a_trained_model_that_nobody_listed_are_control(tmp_path: Path) -> None:
    model = models.train(user_defined_symbols="<|im_start|>,——")
    vocab, (reference, _) = load(tmp_path, model), models.sentencepiece(model)
    start = vocab.control["<|im_start|>"]
    assert "——" not in vocab.control
    assert start in reference("a<|im_start|>b")
    assert start not in vocab.encode("a<|im_start|>b")
    assert vocab.decode(vocab.encode("a<|im_start|>b")) == "a<|im_start|>b"


# Models written piece by piece: what no trainer makes, compared all the same.

ALPHABET = "ab\u2581é "


@st.composite
def synthetic(draw: st.DrawFn) -> Model:
    """A model of a few short pieces, in any order, with any scores, used and unused."""
    texts = draw(st.sets(st.text(ALPHABET, min_size=2, max_size=5), max_size=12))
    single = draw(st.sets(st.sampled_from(ALPHABET + "\0"))) | {"\u2581"}
    scores = st.integers(-6, 0).map(float) | st.floats(-9, 9, width=32)
    kinds = st.sampled_from([NORMAL, NORMAL, NORMAL, UNUSED])
    pieces = [
        Piece(text, draw(scores), draw(kinds))
        for text in draw(st.permutations(sorted(texts | single)))
    ]
    if all(piece.kind == UNUSED for piece in pieces if piece.text == "\u2581"):
        pieces = [Piece(p.text, p.score) if p.text == "\u2581" else p for p in pieces]
    added = [
        Piece(text, 0, USER_DEFINED)
        for text in draw(st.sets(st.sampled_from(["——", "\u2581\u2581\u2581", "<p>"])))
    ]
    added = [piece for piece in added if piece.text not in texts]
    prefix = {3: int(draw(st.booleans())), 4: int(draw(st.booleans()))}
    return Model(models.specials() + pieces + added, normalizer={1: b"identity", **prefix})


@given(
    model=synthetic(),
    texts=st.lists(st.text(ALPHABET + "—<p>x\n\0", max_size=40), min_size=4, max_size=8),
)
def test_synthetic_models_agree_with_sentencepiece(
    tmp_path_factory: pytest.TempPathFactory, model: Model, texts: list[str]
) -> None:
    vocab = load(tmp_path_factory.mktemp("synthetic"), model.proto())
    reference, _ = models.sentencepiece(model.proto())
    for text in texts:
        assert vocab.encode(text).tolist() == reference(text), text


@given(data_=st.data())
def test_trained_models_with_unused_pieces_agree_with_sentencepiece(
    tmp_path_factory: pytest.TempPathFactory, data_: st.DataObject
) -> None:
    """Unused pieces are built by merges and taken apart again, whatever they were built of."""
    model = models.read(models.train(remove_extra_whitespaces=False))
    at = data_.draw(st.sets(st.integers(259, len(model.pieces) - 1), max_size=200))
    unused = [
        Piece(piece.text, piece.score, UNUSED) if i in at and piece.text != "\u2581" else piece
        for i, piece in enumerate(model.pieces)
    ]
    changed = Model(unused, model.trainer, model.normalizer).proto()
    vocab = load(tmp_path_factory.mktemp("unused"), changed)
    reference, _ = models.sentencepiece(changed)
    for text in (models.CHINESE, models.ENGLISH, data_.draw(hostile_texts(max_parts=16))):
        assert vocab.encode(text).tolist() == reference(text), text


# What is not implemented is refused by name.


@pytest.mark.parametrize(
    ("flags", "component", "words"),
    [
        ({"model_type": "unigram"}, "trainer_spec", "`unigram`"),
        ({"model_type": "word", "vocab_size": 300}, "trainer_spec", "`word`"),
        ({"model_type": "char", "vocab_size": 300}, "trainer_spec", "`char`"),
        ({"byte_fallback": False}, "trainer_spec", "`byte_fallback`"),
        ({"treat_whitespace_as_suffix": True}, "trainer_spec", "`treat_whitespace_as_suffix`"),
        ({"normalization_rule_name": "nmt_nfkc"}, "normalizer_spec", "`nmt_nfkc`"),
        ({"normalization_rule_name": "nfkc_cf"}, "normalizer_spec", "`nfkc_cf`"),
    ],
    ids=str,
)
def test_what_is_not_implemented_is_refused(
    tmp_path: Path, flags: dict[str, Any], component: str, words: str
) -> None:
    with pytest.raises(VocabError, match=words) as caught:
        load(tmp_path, models.train(**flags))
    assert caught.value.component == component
    assert caught.value.file == str(tmp_path / "tokenizer.model")


@pytest.mark.parametrize(
    ("change", "component", "words"),
    [
        ({"trainer": {3: UNIGRAM, 35: 1}}, "trainer_spec", "unigram"),
        ({"trainer": {35: 1}}, "trainer_spec", "unigram"),
        ({"normalizer": {1: b"x", 2: b"\x01"}}, "normalizer_spec", "`x`"),
        ({"normalizer": {1: b"identity", 5: 0}}, "normalizer_spec", "`escape_whitespaces`"),
        ({"pieces": []}, "file", "SentencePiece"),
        ({"pieces": models.specials()}, "pieces", "U\\+2581"),
        ({"pieces": [*models.specials()[:-1], Piece("\u2581")]}, "pieces", "`<0xFF>`"),
        ({"pieces": [*models.specials(), Piece("\u2581"), Piece("\u2581")]}, "pieces", "twice"),
        ({"pieces": [*models.specials(), Piece("\u2581"), Piece("")]}, "pieces", "empty"),
        ({"pieces": [*models.specials(), Piece("\u2581"), Piece("a", kind=9)]}, "pieces", "type 9"),
        (
            {"pieces": [*models.specials(), Piece("\u2581"), Piece("a", float("nan"))]},
            "pieces",
            "`a`",
        ),
        ({"pieces": [*models.specials(), Piece("\u2581"), Piece("b" * 5000)]}, "pieces", "5000"),
        (
            {"pieces": [*models.specials(), Piece("\u2581"), Piece("<0x0a>", kind=BYTE)]},
            "pieces",
            "<0x0a>",
        ),
    ],
    ids=str,
)
def test_a_model_that_is_none_is_refused(
    tmp_path: Path, change: dict[str, Any], component: str, words: str
) -> None:
    pieces = [*models.specials(), Piece("\u2581")]
    with pytest.raises(VocabError, match=words) as caught:
        load(tmp_path, Model(**({"pieces": pieces} | change)).proto())
    assert caught.value.component == component


# Ids to text.


def test_the_embedded_vocabulary_has_the_layout_of_internlm2() -> None:
    vocab = Vocab.embedded()
    assert vocab.size == 92544
    assert vocab.lossless
    assert vocab.control == {
        "<unk>": 0,
        "<s>": 1,
        "</s>": 2,
        "<|plugin|>": 92538,
        "<|interpreter|>": 92539,
        "<|action_end|>": 92540,
        "<|action_start|>": 92541,
        "<|im_end|>": 92542,
        "<|im_start|>": 92543,
    }
    assert [vocab.token_bytes(3 + byte) for byte in range(256)] == [bytes([b]) for b in range(256)]
    assert [vocab.token_bytes(id_) for id_ in (46_000, 92_537)] == [b"", b""]


def test_sizes_are_those_of_the_files() -> None:
    sizes = {name: data.load_vocab(name).size for name in data.MODELS}
    assert sizes == {
        "internlm2": 92544,
        "llama2": 32000,
        "mixtral-8x7b": 32000,
        "yi": 64000,
        "chatglm3": 64789,
        "telechat": 120000,
    }


def test_token_bytes_put_together_are_the_text(name: str) -> None:
    vocab = data.load_vocab(name)
    text = "Grüße, 世界 👋🏽\n\tx = 1\0"
    pieces = b"".join(vocab.token_bytes(id_) for id_ in vocab.encode(text))
    assert pieces.removeprefix(b" ") == text.encode()


@given(ids=st.lists(st.integers(0, 31_999), max_size=30))
def test_any_ids_decode(name: str, ids: list[int]) -> None:
    vocab = data.load_vocab(name)
    raw = vocab.decode_bytes(ids)
    assert vocab.decode(ids) == raw.decode(errors="replace")
    control = set(vocab.control.values())
    without = vocab.decode(ids, control="skip")
    if control.isdisjoint(ids):
        assert without == vocab.decode(ids)


def test_control_tokens_are_spelled_or_skipped() -> None:
    vocab = Vocab.embedded()
    ids = [1, 92543, *vocab.encode("user\nHi"), 92542]
    assert vocab.decode(ids) == "<s><|im_start|>user\nHi<|im_end|>"
    assert vocab.decode(ids, control="spell") == vocab.decode(ids)
    assert vocab.decode(ids, control="skip") == "user\nHi"
    assert vocab.decode_bytes(ids) == b"<s><|im_start|>user\nHi<|im_end|>"


def test_one_dummy_prefix_is_stripped_from_each_text_between_control_tokens() -> None:
    vocab = data.load_vocab("llama2")
    ids = [*vocab.encode("a"), 2, 1, *vocab.encode(" b"), 2, *vocab.encode("c")]
    assert vocab.decode(ids) == "a</s><s> b</s>c"
    assert vocab.decode(ids, control="skip") == "a bc"


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    vocab = Vocab.embedded()
    assert vocab.decode([3 + 0xE4, 3 + 0xB8]) == "\ufffd"
    assert vocab.decode_bytes([3 + 0xE4, 3 + 0xB8]) == b"\xe4\xb8"
    assert vocab.decode([3 + 0xE4, 3 + 0xB8, 3 + 0xAD]) == "中"


@pytest.mark.parametrize("kind", [list, tuple, iter, np.array, lambda ids: np.array(ids, np.int64)])
def test_ids_come_in_any_form(kind: Callable[[list[int]], Any]) -> None:
    vocab = Vocab.embedded()
    ids = vocab.encode("Hello, world")
    assert vocab.decode(kind(ids.tolist())) == "Hello, world"
    assert vocab.decode(ids) == "Hello, world"
    assert vocab.decode(ids[0]) == vocab.token_bytes(ids[0]).decode()


@pytest.mark.parametrize("id_", [-1, 92544, 2**31 - 1, -(2**31), 2**31, 10**30])
def test_an_id_outside_of_the_vocabulary_is_an_error(id_: int) -> None:
    vocab = Vocab.embedded()
    for decode in (vocab.decode, vocab.decode_bytes):
        with pytest.raises(VocabError, match=str(id_)) as caught:
            decode([5, id_])
        assert caught.value.component == "id"


def test_empty_text_has_no_ids(name: str) -> None:
    vocab = data.load_vocab(name)
    assert vocab.encode("").tolist() == []
    assert vocab.decode([]) == ""


def test_a_text_of_a_megabyte_takes_seconds_at_most() -> None:
    """Of one sign, which is where tokenizers are quadratic, or worse."""
    vocab = Vocab.embedded()
    for sign in (
        "a",
        " ",
        "\n",
        "\t",
        "!",
        "中",
        "😀",
        "\0",
        "\u2581",
        "<",
        "<|im_end|>",
        "[UNUSED_TOKEN_1",
    ):
        text = sign * (1_000_000 // len(sign.encode()))
        ids = within(10, functools.partial(vocab.encode, text))
        assert vocab.decode_bytes(ids) == spaced(text).encode()


def test_a_vocabulary_cannot_be_changed() -> None:
    vocab = Vocab.embedded()
    for name in ("size", "control", "other"):
        with pytest.raises(AttributeError):
            setattr(vocab, name, 1)
    vocab.control["a"] = 5
    assert "a" not in vocab.control
    assert repr(vocab) == 'Vocab("sentencepiece", size=92544, control=9)'


def test_a_path_may_be_text_or_a_path() -> None:
    path = data.EMBEDDED_MODEL
    assert Vocab.load(str(path)).encode("x  y") == Vocab.load(path).encode("x  y")
