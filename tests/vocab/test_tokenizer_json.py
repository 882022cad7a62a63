"""`tokenizer.json` files: the ids of the `tokenizers` library, and never control from text.

P3 is checked on texts of which the library itself makes no control token, P1 on all others, P4 on
both where the vocabulary is lossless. Small files are made on the spot with the library, one for
each component.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import random
import sysconfig
import tempfile
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec import Codec, Format, Vocab, VocabError
from clock import within
from hypothesis import given
from hypothesis import strategies as st
from strategies import hostile_texts

tokenizers = pytest.importorskip("tokenizers")

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = {
    "qwen2": "vocab/qwen2/tokenizer.json",
    "qwen3": "vocab/qwen3/tokenizer.json",
    "phi-3": "vocab/phi3/phi-3/tokenizer.json",
    "phi-3-mini": "vocab/phi3/phi-3-mini/tokenizer.json",
    "phi-3-medium": "vocab/phi3/phi-3-medium/tokenizer.json",
    "phi-3-vision": "vocab/phi3/phi-3-vision/tokenizer.json",
    "chatglm3": "vocab/chatglm3/vocab_only_tokenizer.json",
    "phi-2": "vocab/phi2/tokenizer.json",
    "deepseek-v3.2": "vocab/deepseek-v3.2/tokenizer.json",
    "qwen3.5": "vocab/qwen3.5/tokenizer.json",
    "minimax-m1": "vocab/minimax-m1/tokenizer.json",
    "starcoder": "vocab/starcoder/tokenizer.json",
}

LACKING = {"starcoder"}
"""Vocabularies without tokens for some bytes: text that needs one is refused."""

Spec = dict[str, Any]


class Pair:
    """A file as we read it, and as the library does."""

    def __init__(self, content: str) -> None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            self.vocab = Vocab.load(file.name)
        self.library = tokenizers.Tokenizer.from_str(content)
        self.control = set(self.vocab.control.values())

    def reference(self, text: str) -> list[int]:
        return list(self.library.encode(text, add_special_tokens=False).ids)

    def encode(self, text: str) -> list[int] | None:
        """Our ids; `None` for a text of which a part has no token."""
        try:
            return list(self.vocab.encode(text))
        except VocabError as error:
            if error.component != "text":
                raise
            return None

    def agree(self, text: str) -> None:
        """P1 on any text; P3 and P4 on those of which the library makes no control token."""
        expected = self.reference(text)
        ids = self.encode(text)
        if ids is None:
            # What has no token is the unknown token of the library, or dropped by it.
            assert not self.vocab.lossless
            return
        assert self.control.isdisjoint(ids), text
        if self.control.isdisjoint(expected):
            assert ids == expected, text


@functools.cache
def load(name: str) -> Pair:
    return Pair(data.find(FILES[name]).read_text(encoding="utf-8"))


def canonical(name: str, text: str) -> str:
    """What a text reads as after a round trip."""
    if name.startswith(("qwen", "minimax")):
        # The library composes by the tables of Unicode 9.
        return text if text.isascii() else unicodedata.ucd_3_2_0.normalize("NFC", text)
    if name in {"phi-2", "deepseek-v3.2", "starcoder"}:
        return text
    return text.replace("<!dummy-prefix!>", " ").replace("\u2581", " ")


@pytest.fixture(scope="module", params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    """Every real file."""
    data.find(FILES[request.param])
    return str(request.param)


def is_run(spelling: str) -> bool:
    """Whether it is nothing but white space, or one sign repeated."""
    return spelling.isspace() or len(set(spelling)) == 1


# P3 on real files.


def test_the_corpus_agrees_with_the_library(name: str) -> None:
    for _, text in data.corpus(12, [*FILES].index(name)):
        for at in range(0, len(text), data.STRETCH):
            load(name).agree(text[at : at + data.STRETCH])


def test_source_code_agrees_with_the_library(name: str) -> None:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    for file in data.share(files, 24, [*FILES].index(name)):
        load(name).agree(file.read_bytes().decode("utf-8", errors="replace"))


def test_every_code_point_agrees_with_the_library(name: str) -> None:
    """A string of every 256 code points in a row, and each with others before and after it."""
    planes = range(17) if data.LONG else (0, 1, 2, 14)
    blocks = [plane << 16 | row for plane in planes for row in range(0, 0x10000, 256)]
    for block in data.share(blocks, 6, [*FILES].index(name)):
        chars = [chr(c) for c in range(block, block + 256) if not 0xD800 <= c < 0xE000]
        load(name).agree("".join(chars))
        load(name).agree("e".join(chars))
        load(name).agree(" \u0301".join(chars))


@given(text=hostile_texts(max_parts=20))
def test_hostile_text_agrees_with_the_library(name: str, text: str) -> None:
    load(name).agree(text)


MARKS = st.sampled_from(
    "e\u0301\u0327\u200d👩👧🏽\u1100\u1161\u11a8가\u0958\u09c7\u09be\ufe0fÅ\u212b ﬁ"
)


@given(text=st.text(max_size=200) | st.text(MARKS, max_size=40))
def test_any_text_agrees_with_the_library(name: str, text: str) -> None:
    load(name).agree(text)


@pytest.mark.parametrize(
    "space", [" ", "\n", "\t", "\r", "\u2581", "\u3000", " \n", "\n ", "\u00a0"]
)
def test_runs_of_white_space_agree_with_the_library(name: str, space: str) -> None:
    for length in (*range(1, 70), 255, 256, 257, 1000):
        for around in ("{}", "x{}", "{}x", "x{}y", ".{}1"):
            load(name).agree(around.format(space * length))


@pytest.mark.parametrize(
    ("name", "stem"), [("qwen2", "vocab/qwen2/qwen2"), ("phi-3", "vocab/phi3/phi-3.gguf")]
)
def test_the_listed_texts_have_the_listed_ids(name: str, stem: str) -> None:
    texts = data.find(stem + ".inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    lines = data.find(stem + ".out").read_text(encoding="utf-8").splitlines()
    # The last text ends with a separator, too.
    assert texts.pop().strip() == ""
    for text, line in zip(texts, lines, strict=True):
        assert load(name).vocab.encode(text).tolist() == [int(id_) for id_ in line.split()], text


# P4: what is encoded decodes to the same text.


@given(text=hostile_texts(max_parts=20) | st.text(MARKS, max_size=40))
def test_text_comes_back(name: str, text: str) -> None:
    vocab = load(name).vocab
    assert vocab.lossless == (name not in LACKING)
    known = "".join(c for c in text if unicodedata.ucd_3_2_0.category(c) != "Cn")
    if (ids := load(name).encode(known)) is None:
        # Of what UTF-8 has, these bytes begin or end characters that nobody has assigned.
        assert any(byte in known.encode() for byte in lacking(vocab))
        return
    assert vocab.decode(ids) == canonical(name, known)


def lacking(vocab: Vocab) -> set[int]:
    """The bytes that no token is."""
    tokens = {vocab.token_bytes(id_) for id_ in range(vocab.size)}
    return {byte for byte in range(256) if bytes([byte]) not in tokens}


def test_a_byte_without_a_token_is_an_error_where_the_library_loses_it() -> None:
    made = load("starcoder")
    assert lacking(made.vocab) - {0xC0, 0xC1, *range(0xF5, 0x100)}
    for char in ("\U00040000", "a\U00050000b"):
        assert made.encode(char) is None
        assert made.library.decode(made.reference(char)) != char
    with pytest.raises(VocabError, match="no token for") as caught:
        made.vocab.encode("x\U00040000")
    assert caught.value.component == "text"


def test_any_byte_may_lack_a_token() -> None:
    """A model without the tokens of a few bytes, in our engine."""
    spec = json.loads(OWN["bytes"])
    vocab = spec["model"]["vocab"]
    for id_, char in enumerate(("ä", "Ī", "q")):
        vocab[f"unused {id_}"] = vocab.pop(char)
    made = pair(json.dumps(spec))
    assert not made.vocab.lossless
    for text in ("abc ab", "aqb", "\u4e2d", "q", "x\ta"):
        if made.encode(text) is None:
            assert made.library.decode(made.reference(text)) != text
        made.agree(text)
    assert made.encode("aqb") is None
    assert made.encode("abc") is not None


# P1 and the ids of real files.


def test_no_spelling_of_a_control_token_becomes_control(name: str) -> None:
    pair = load(name)
    spelled = {token.content for token in pair.library.get_added_tokens_decoder().values()}
    text = set(pair.vocab.text_tokens)
    assert all(is_run(spelling) for spelling in text)
    assert spelled - text <= set(pair.vocab.control)
    for spelling in pair.vocab.control:
        for around in ("{}", "a{}b", " {} ", "\n{0}\n{0}", "<{}>", "\u2581{}", "e\u0301{}\u0301"):
            ids = pair.vocab.encode(around.format(spelling)).tolist()
            assert pair.control.isdisjoint(ids), spelling


def test_ids_are_those_of_the_library(name: str) -> None:
    pair = load(name)
    assert pair.vocab.kind == "tokenizer.json"
    assert pair.vocab.size == pair.library.get_vocab_size()
    for spelling, id_ in pair.vocab.control.items():
        assert pair.library.token_to_id(spelling) == id_
        assert pair.vocab.token_bytes(id_) == spelling.encode()


@given(ids=st.lists(st.integers(300, 31_000), max_size=20))
def test_ids_decode_as_the_library_decodes_them(name: str, ids: list[int]) -> None:
    if name == "chatglm3" and ids:
        # Its decoder drops a first space that its normalizer does not put there.
        ids = [load(name).vocab.encode("x")[0], *ids]
    assert load(name).vocab.decode(ids) == load(name).library.decode(ids)


# Files made on the spot.

LETTERS = "abcdé \u2581<>|x1\n"
TEXTS = st.text(LETTERS + "ABü中\0\u0301ﬁ", max_size=24)
UNK, WORDS_UNK = "<unk>", "[UNK]"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_alphabet() -> list[str]:
    return sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def train(model: Any, trainer: Any, **components: Any) -> Spec:  # noqa: ANN401
    """A tokenizer trained on a few words, as its file says it."""
    tokenizer = tokenizers.Tokenizer(model)
    for component, value in components.items():
        setattr(tokenizer, component, value)
    words = ["abc abd bcd", "a1 b22 c333", "dé cé abcdé", "<x|> <|x", "ab ab abc\nabcd", "x  x   x"]
    tokenizer.train_from_iterator(words * 3, trainer)
    spec: Spec = json.loads(tokenizer.to_str())
    return spec


@functools.cache
def trained(kind: str) -> str:
    """A file of each type of model, of which the tests change the components."""
    models, trainers = tokenizers.models, tokenizers.trainers
    if kind == "bytes":
        spec = train(
            models.BPE(),
            trainers.BpeTrainer(
                vocab_size=330, initial_alphabet=byte_alphabet(), special_tokens=["<s>"]
            ),
            pre_tokenizer=tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
            decoder=tokenizers.decoders.ByteLevel(),
        )
    elif kind == "chars":
        spec = train(
            models.BPE(unk_token=UNK, fuse_unk=True, byte_fallback=True),
            trainers.BpeTrainer(vocab_size=340, special_tokens=[UNK, "<s>", *BYTES]),
            pre_tokenizer=tokenizers.pre_tokenizers.Metaspace(split=False),
            decoder=tokenizers.decoders.Sequence(
                [tokenizers.decoders.ByteFallback(), tokenizers.decoders.Metaspace()]
            ),
        )
        spec["added_tokens"] = [t for t in spec["added_tokens"] if t["content"] not in BYTES]
    elif kind == "unigram":
        spec = train(
            models.Unigram(),
            trainers.UnigramTrainer(vocab_size=60, special_tokens=[UNK, "<s>"], unk_token=UNK),
            pre_tokenizer=tokenizers.pre_tokenizers.Metaspace(),
            decoder=tokenizers.decoders.Metaspace(),
        )
    elif kind == "wordpiece":
        spec = train(
            models.WordPiece(unk_token=WORDS_UNK),
            trainers.WordPieceTrainer(vocab_size=60, special_tokens=[WORDS_UNK, "[CLS]"]),
            normalizer=tokenizers.normalizers.BertNormalizer(),
            pre_tokenizer=tokenizers.pre_tokenizers.BertPreTokenizer(),
            decoder=tokenizers.decoders.WordPiece(),
        )
    else:
        spec = train(
            models.WordLevel(unk_token=WORDS_UNK),
            trainers.WordLevelTrainer(special_tokens=[WORDS_UNK, "<s>"]),
            pre_tokenizer=tokenizers.pre_tokenizers.Whitespace(),
        )
    return json.dumps(spec)


def changed(kind: str, **components: Any) -> str:  # noqa: ANN401
    """A trained file with other components; those of `model` are put into the model."""
    spec = json.loads(trained(kind))
    spec["model"] |= components.pop("model", {})
    return json.dumps(spec | components)


def split(pattern: Spec, behavior: str = "Isolated", *, invert: bool = False) -> Spec:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def byte_level(*before: Spec, use_regex: bool = False, add_prefix_space: bool = False) -> Spec:
    flags = {"add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex}
    level = {"type": "ByteLevel", **flags}
    return {"type": "Sequence", "pretokenizers": [*before, level]} if before else level


def metaspace(scheme: str, *, split: bool = False) -> Spec:
    rest = {"replacement": "\u2581", "prepend_scheme": scheme, "split": split}
    return {"type": "Metaspace", **rest}


def replace(pattern: str, content: str) -> Spec:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def replace_pattern(pattern: str, content: str) -> Spec:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def normalizers(*specs: Spec) -> Spec:
    return {"type": "Sequence", "normalizers": list(specs)}


DIGITS = {"type": "Digits", "individual_digits": True}
MARK = replace(" ", "\u2581")
PREPEND = {"type": "Prepend", "prepend": "\u2581"}

OWN = {
    "bytes": changed("bytes"),
    "bytes, nothing split": changed("bytes", pre_tokenizer=byte_level()),
    "bytes, regex": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"\p{L}+|\s+"}), use_regex=True)
    ),
    "bytes, before a letter": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"(?=b)|c*"}))
    ),
    "bytes, all but matches removed": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"\p{L}+|\P{L}"}, "Removed", invert=True))
    ),
    "bytes, threes": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"\d{1,3}(?=(?:\d{3})*\b)"}))
    ),
    "bytes, places of threes": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"(?=(\d{3})+(?!\d))"}))
    ),
    "bytes, string": changed("bytes", pre_tokenizer=byte_level(split({"String": "b|"}))),
    "bytes, digits": changed("bytes", pre_tokenizer=byte_level(DIGITS, use_regex=True)),
    "bytes, digits together": changed(
        "bytes", pre_tokenizer=byte_level(DIGITS | {"individual_digits": False})
    ),
    "bytes, ignoring merges": changed("bytes", model={"ignore_merges": True}),
    "bytes, empty normalizer": changed("bytes", normalizer=normalizers()),
    **{
        f"bytes, {form}": changed("bytes", normalizer={"type": form})
        for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")
    },
    "bytes, strip": changed(
        "bytes", normalizer={"type": "Strip", "strip_left": True, "strip_right": True}
    ),
    "bytes, replace": changed("bytes", normalizer=replace("ab", "x1")),
    "chars, always": changed("chars", pre_tokenizer=metaspace("always")),
    "chars, first": changed("chars", pre_tokenizer=metaspace("first")),
    "chars, Mistral": changed(
        "chars",
        pre_tokenizer=metaspace("first"),
        decoder={
            "type": "Sequence",
            "decoders": [
                replace("\u2581", " "),
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    ),
    "chars, never": changed("chars", pre_tokenizer=metaspace("never")),
    "chars, split": changed("chars", pre_tokenizer=metaspace("always", split=True)),
    "chars, prepend": changed("chars", pre_tokenizer=None, normalizer=normalizers(PREPEND, MARK)),
    "chars, mark": changed("chars", pre_tokenizer=None, normalizer=MARK),
    "chars, split by what is gone": changed(
        "chars", pre_tokenizer=split({"String": " "}, "MergedWithPrevious"), normalizer=MARK
    ),
    "chars, replace": changed(
        "chars", pre_tokenizer=None, normalizer=normalizers(replace("ab", "x"), MARK)
    ),
    "chars, NFKC": changed("chars", pre_tokenizer=metaspace("never"), normalizer={"type": "NFKC"}),
}
"""What our own engines run."""

FOREIGN = {
    "unigram": changed("unigram"),
    "unigram, first": changed("unigram", pre_tokenizer=metaspace("first", split=True)),
    "unigram, NFKC": changed("unigram", normalizer=normalizers({"type": "NFKC"})),
    "wordpiece": changed("wordpiece"),
    "wordpiece, spaces": changed("wordpiece", pre_tokenizer={"type": "WhitespaceSplit"}),
    "wordlevel": changed("wordlevel"),
    "bytes, prefix": changed("bytes", pre_tokenizer=byte_level(add_prefix_space=True)),
    "bytes, removed": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"\s"}, "Removed"))
    ),
    "bytes, all but letters removed": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"\p{L}+"}, "Removed", invert=True))
    ),
    "bytes, some removed": changed(
        "bytes", pre_tokenizer=byte_level(split({"Regex": r"\p{L}+|\P{L}"}, "Removed"))
    ),
    "bytes, whitespace": changed(
        "bytes", pre_tokenizer=byte_level({"type": "Whitespace"}, use_regex=True)
    ),
    "bytes, two normalizers": changed(
        "bytes", normalizer=normalizers({"type": "NFKC"}, {"type": "Lowercase"})
    ),
    "bytes, replace that is not final": changed("bytes", normalizer=replace("ab", "b")),
    "chars, no byte fallback": changed("chars", model={"byte_fallback": False}),
    "chars, punctuation": changed(
        "chars", pre_tokenizer={"type": "Punctuation", "behavior": "Isolated"}
    ),
    "chars, scripts": changed("chars", pre_tokenizer={"type": "UnicodeScripts"}),
    **{
        f"unigram, replaced {pattern}": changed("unigram", normalizer=replace_pattern(pattern, to))
        for pattern, to in [
            (" {2,}", " "),
            ("b*", "x"),
            ("b*", ""),
            (r"(?=b)|c", "é"),
            (r"(?<=a)b?|^", "-"),
            (r"\s+$", ""),
            (r"(?i)AB|[^\p{L}\s]", "x1"),
        ]
    },
    # Of matches of nothing the library makes a panic, where tokens are bytes.
    "bytes, replaced": changed("bytes", normalizer=replace_pattern(r"(?i)AB|[^\p{L}\s]", "x1")),
    "unigram, replaced twice": changed(
        "unigram",
        normalizer=normalizers(
            {"type": "NFKC"}, replace_pattern("a+", "b"), normalizers(replace_pattern("b+", "a"))
        ),
    ),
    **{
        f"unigram, {behavior}, {invert}": changed(
            "unigram", pre_tokenizer=split({"Regex": "b+|(?=c)"}, behavior, invert=invert)
        )
        for behavior in (
            *("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"),
        )
        for invert in (False, True)
    },
}
"""What goes to the library."""

SYNTHETIC = OWN | FOREIGN
PAIRS: dict[str, Pair] = {}


def pair(content: str) -> Pair:
    if content not in PAIRS:
        PAIRS[content] = Pair(content)
    return PAIRS[content]


@pytest.mark.parametrize("case", SYNTHETIC)
@given(text=TEXTS)
def test_every_component_agrees_with_the_library(case: str, text: str) -> None:
    pair(SYNTHETIC[case]).agree(text)


@pytest.mark.parametrize("case", SYNTHETIC)
def test_what_our_engines_run_is_lossless_and_the_rest_is_not(case: str) -> None:
    shares_prefix = case in {"chars, always", "chars, split"}
    assert pair(SYNTHETIC[case]).vocab.lossless == (case in OWN and not shares_prefix)


REFUSED = {
    "unigram": "`model`: model type `Unigram`",
    "wordpiece": "`model`: model type `WordPiece`",
    "wordlevel": "`model`: model type `WordLevel`",
    "bytes, prefix": "`pre_tokenizer`: `add_prefix_space` of `ByteLevel`",
    "bytes, removed": "`pre_tokenizer`: `Split` with `Removed`, which may remove text",
    "bytes, some removed": "`pre_tokenizer`: `Split` with `Removed`, which may remove text",
    "bytes, all but letters removed": "`pre_tokenizer`: `Split` with `Removed`, inverted",
    "bytes, two normalizers": "`normalizer`: a sequence of these normalizers",
    "chars, no byte fallback": "`model`: a BPE model without `ByteLevel` or `byte_fallback`",
}
"""What our engines say of some of the files that go to the library."""


@pytest.mark.parametrize("case", SYNTHETIC)
def test_the_report_says_which_engine_runs_it_and_why(case: str) -> None:
    vocab = pair(SYNTHETIC[case]).vocab
    report = vocab.report
    assert (report.engine == "tokenizers") == (case in FOREIGN)
    assert (report.losses == ()) == vocab.lossless
    lines = str(report).splitlines()
    assert lines[0] == f"engine: {report.engine}: {report.engine_reason}"
    assert [f"loss: {loss}" for loss in report.losses] == lines[1 : 1 + len(report.losses)]
    if case in FOREIGN:
        assert report.engine_reason.startswith("our engines do not run it: `")
    assert REFUSED.get(case, "") in report.engine_reason
    kind = {"b": "bytes", "c": "characters"}.get(case[0])
    assert case in FOREIGN or report.engine == kind
    spec = json.loads(SYNTHETIC[case])
    assert (report.normalizer == "nothing") == (vocab_normalizes(spec.get("normalizer")))


def vocab_normalizes(normalizer: Spec | None) -> bool:
    """Whether a file's normalizer does nothing but mark spaces."""
    specs = (normalizer or {}).get("normalizers", [normalizer] if normalizer else [])
    return all(spec in (MARK, PREPEND) for spec in specs)


def test_a_file_that_no_engine_runs_has_the_errors_of_both() -> None:
    spec = {"model": {"dropout": 0.1}}
    error = refused(changed("bytes", **spec).encode())
    assert "makes ids random" in str(error)
    assert "our own engines do not run it either: `model`: `dropout` is not implemented" in str(
        error
    )
    error = refused(changed("bytes", model={"merges": [["a", "zz"]]}).encode())
    assert "either" not in str(error)


@pytest.mark.parametrize("case", SYNTHETIC)
def test_no_spelling_becomes_control_whatever_the_model(case: str) -> None:
    pair(SYNTHETIC[case]).agree("<s> a <unk>[UNK] [CLS] <s>")
    for spelling in pair(SYNTHETIC[case]).vocab.control:
        for around in ("{}", "a {} b", "{0}{0}", " {}"):
            pair(SYNTHETIC[case]).agree(around.format(spelling))


def test_merges_are_pairs_or_strings() -> None:
    spec = json.loads(OWN["bytes"])
    merges = spec["model"]["merges"]
    assert isinstance(merges[0], list)
    spec["model"]["merges"] = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    old = pair(json.dumps(spec)).vocab
    for text in ("abcd abc", "abcdé x  x"):
        assert old.encode(text).tolist() == pair(OWN["bytes"]).vocab.encode(text).tolist()


@given(data_=st.data())
def test_any_order_of_merges_agrees_with_the_library(data_: st.DataObject) -> None:
    """Merges in an order that no training gives, some of them twice."""
    spec = json.loads(data_.draw(st.sampled_from([OWN["bytes"], OWN["chars, mark"]])))
    merges = spec["model"]["merges"]
    spec["model"]["merges"] = data_.draw(st.permutations(merges)) + merges[::5]
    made = Pair(json.dumps(spec))
    for text in data_.draw(st.lists(TEXTS, min_size=3, max_size=6)):
        made.agree(text)


# Digits by threes, whose patterns look ahead.


def known_chars() -> str:
    """Characters that were assigned in Unicode 9, of which all tables say the same."""
    chars = (chr(c) for c in range(0x30000) if not 0xD800 <= c < 0xE000)
    return "".join(data.share([c for c in chars if unicodedata.ucd_3_2_0.category(c) != "Cn"], 5))


@pytest.mark.parametrize("case", ["bytes, threes", "bytes, places of threes"])
def test_digits_by_threes_end_at_each_character_as_in_the_library(case: str) -> None:
    made = pair(SYNTHETIC[case])
    text = "".join(f"1234567{char}12{char}" for char in known_chars())
    assert made.vocab.encode(text).tolist() == made.reference(text)
    long = "1" * 3001 + "x" + "1" * 3001
    assert made.vocab.encode(long).tolist() == made.reference(long)


@pytest.mark.parametrize("case", ["bytes, threes", "bytes, places of threes"])
@given(text=st.text("1234a_ .\u00bd\u0663\u0301\u200d", max_size=30))
def test_digits_by_threes_are_those_of_the_library(case: str, text: str) -> None:
    pair(SYNTHETIC[case]).agree(text)


# Hostile patterns.

HOSTILE = [
    (r"(?:a|b|ab)*(?=c)(?<=c)|x", "ab"),
    (r"a*a*a*c|a", "a"),
    (r"(?=.*b)a", "a"),
    (r"(?=(?:a+)+$)c|a|b", "a"),
]


def runs_out_of_steps(vocab: Vocab, text: str, component: str) -> None:
    with pytest.raises(VocabError, match="takes more steps of its pattern") as caught:
        vocab.encode(text)
    assert caught.value.component == component


@pytest.mark.parametrize(("hostile", "kind"), data.in_turn(HOSTILE, ["bytes", "unigram"]))
def test_a_pattern_that_takes_too_many_steps_refuses_the_text(
    hostile: tuple[str, str], kind: str
) -> None:
    """Also where the library runs the model."""
    pattern, filling = hostile
    spec = split({"Regex": pattern})
    before = byte_level(spec) if kind == "bytes" else spec
    vocab = pair_of_ours(changed(kind, pre_tokenizer=before))
    assert vocab.report.engine == ("bytes" if kind == "bytes" else "tokenizers")
    text = filling * 100_000 + "b"
    within(20, lambda: runs_out_of_steps(vocab, text, "pre_tokenizer"))
    assert len(vocab.encode("ab")) > 0


@pytest.mark.parametrize(("pattern", "filling"), data.share(HOSTILE, 2))
def test_a_replacement_that_takes_too_many_steps_refuses_the_text(
    pattern: str, filling: str
) -> None:
    """Also of a text that becomes hostile by the normalizer before it."""
    swap = replace("0", "a")
    spec = changed("unigram", normalizer=normalizers(swap, replace_pattern(pattern, "x")))
    vocab = pair_of_ours(with_added(spec, added("——", next_id(spec))))
    assert vocab.report.engine == "tokenizers"
    for text in (filling * 100_000 + "b", filling.replace("a", "0") * 100_000 + "b"):
        within(20, functools.partial(runs_out_of_steps, vocab, text, "normalizer"))

    def encode_pieces() -> None:
        with contextlib.suppress(VocabError):
            vocab.encode(f"{filling * 10_000}——" * 20)

    # All pieces together have what a text has.
    within(20, encode_pieces)
    assert len(vocab.encode("ab")) > 0


def test_a_pattern_of_a_pre_tokenizer_is_tried_on_the_pieces_before_it() -> None:
    """The whole text is no trouble: what follows the pattern's end is cut off first."""
    cut = [split({"String": "b"}, "Removed"), split({"Regex": r"a*a*a*(?=b)|a"})]
    spec = {"type": "Sequence", "pretokenizers": cut}
    vocab = pair_of_ours(changed("unigram", pre_tokenizer=spec))
    with pytest.raises(VocabError, match="takes more steps of its pattern") as caught:
        vocab.encode("a" * 100_000 + "b")
    assert caught.value.component == "pre_tokenizer"


def test_a_pattern_that_is_read_otherwise_is_refused_in_a_normalizer() -> None:
    with pytest.raises(VocabError, match="which is not implemented") as caught:
        pair_of_ours(changed("unigram", normalizer=replace_pattern(r"\bab", "x")))
    assert caught.value.component == "normalizer"


@pytest.mark.parametrize("component", ["normalizer", "pre_tokenizer"])
def test_more_components_than_any_file_has_are_refused(component: str) -> None:
    many = {
        "normalizer": normalizers(*[{"type": "NFC"}] * 257),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [DIGITS] * 257},
    }
    with pytest.raises(VocabError, match="257 of them, at most 256") as caught:
        pair_of_ours(changed("unigram", **{component: many[component]}))
    assert caught.value.component == component


# A prefix before the first text alone.

TEXT_FIRST = """
name = "text-first"
source = "made for a test"
guarantee = "text"
vocabulary = "any"
order = "alternate"
generation = { prompt = "" }

[control]
STOP = "<s>"

[turn]
user = "{content}\\n\\nQ: "
assistant = "{content}{STOP}"
"""
"""A format in which the caller's text comes first."""


@functools.cache
def text_first(case: str) -> Codec:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".toml") as file:
        file.write(TEXT_FIRST)
        file.flush()
        return Codec(Format.load(file.name), pair(SYNTHETIC[case]).vocab)


@pytest.mark.parametrize("case", ["chars, first", "chars, Mistral", "bytes", "chars, prepend"])
@given(text=TEXTS | st.text(" \u2581a", max_size=5))
def test_a_space_that_a_conversation_begins_with_is_kept(case: str, text: str) -> None:
    """By itself it has no ids where the reference puts a space before the first text alone."""
    codec = text_first(case)
    messages = [{"role": "user", "content": text}]
    assert codec.decode(codec.encode(messages).ids) == codec.canonical(messages)
    if not text.startswith((" ", "\u2581")):
        written = codec.encode(messages).ids.tolist()
        assert written == codec.vocab.encode(text + "\n\nQ: ").tolist()


# Added tokens that are text.


def added(content: str, id_: int, **flags: bool) -> Spec:
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": id_, "content": content} | {name: flags.get(name, False) for name in names}


def with_added(content: str, *tokens: Spec) -> str:
    spec = json.loads(content)
    spec["added_tokens"] += tokens
    return json.dumps(spec)


def next_id(content: str) -> int:
    spec = json.loads(content)
    vocab = spec["model"]["vocab"]
    ids: list[int] = [*vocab.values()] if isinstance(vocab, dict) else [len(vocab) - 1]
    ids += [token["id"] for token in spec["added_tokens"]]
    return max(ids) + 1


FLAGS: list[dict[str, bool]] = [
    {},
    {"normalized": True},
    {"special": True},
    {"single_word": True},
    {"lstrip": True},
    {"rstrip": True},
    {"single_word": True, "lstrip": True, "rstrip": True, "normalized": True},
]


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize(
    "case", ["bytes", "bytes, NFC", "chars, mark", "chars, prepend", "wordlevel"]
)
@given(text=st.text("——\u2581 abé\u0301x", max_size=16))
def test_listed_added_tokens_are_text(case: str, flags: dict[str, bool], text: str) -> None:
    """`——` and `▁▁` are listed as text whatever a file says."""
    base = SYNTHETIC[case]
    first = next_id(base)
    content = with_added(
        base, added("——", first, **flags), added("\u2581\u2581", first + 1, **flags)
    )
    made = pair(content)
    assert "——" not in made.vocab.control
    made.agree(text)
    made.agree(text + "——" + text)


def runs(content: str, **flags: bool) -> list[Spec]:
    """Runs as added tokens: those that the model has by their ids."""
    vocab = json.loads(content)["model"]["vocab"]
    if isinstance(vocab, list):
        vocab = {text: id_ for id_, (text, _) in enumerate(vocab)}
    new = itertools.count(max(vocab.values()) + 1)
    return [added(run, vocab[run] if run in vocab else next(new), **flags) for run in RUNS]


RUNS = ("  ", "    ", "\n\n", "\t\t", " \n", "_", "__", "\t\t\t", "===", '"')


@pytest.mark.parametrize("flags", [f for f in FLAGS if not f.get("special")], ids=str)
@pytest.mark.parametrize(
    "case", ["bytes", "bytes, NFC", "chars, mark", "chars, prepend", "unigram"]
)
@given(text=st.text(' \n\t_ü="ab\u0308\u0338', max_size=24))
def test_runs_that_are_not_special_are_text(case: str, flags: dict[str, bool], text: str) -> None:
    made = pair(with_added(SYNTHETIC[case], *runs(SYNTHETIC[case], **flags)))
    assert set(made.vocab.text_tokens) == set(RUNS)
    made.agree(text)


@pytest.mark.parametrize("case", ["bytes", "chars, mark", "wordlevel"])
def test_runs_that_are_special_are_control(case: str) -> None:
    first = next_id(SYNTHETIC[case])
    tokens = runs(SYNTHETIC[case], special=True)
    # Nothing that shows what it is: private use, a zero width space; and angle brackets.
    others = ["\ue000", "\u200b\u200b", "\x00", "=>", "<s>>"]
    tokens += [added(text, first + 100 + nth) for nth, text in enumerate(others)]
    vocab = pair(with_added(SYNTHETIC[case], *tokens)).vocab
    # Some are listed as text whatever a file says.
    listed = {"\t\t", "\t\t\t"}
    assert {*RUNS, *others} - listed <= set(vocab.control)
    assert set(vocab.text_tokens) == listed


@pytest.mark.parametrize("case", SYNTHETIC)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_added_tokens_that_nobody_listed_are_control_but_for_words(
    case: str, flags: dict[str, bool]
) -> None:
    spec = json.loads(SYNTHETIC[case])
    vocab = spec["model"]["vocab"]
    if isinstance(vocab, list):
        pytest.skip("ids of this model are places in a list")
    token = next(text for text, id_ in vocab.items() if len(text) > 1 and text.isalpha())
    spec["added_tokens"] += [
        added(token, vocab[token], **flags),
        added("<|x|>", next_id(SYNTHETIC[case]), **flags),
    ]
    made = pair(json.dumps(spec))
    # A word is text where the file does not call it special.
    kind = made.vocab.control if flags.get("special") else made.vocab.text_tokens
    assert kind[token] == vocab[token]
    assert "<|x|>" in made.vocab.control
    for text in (token, f"a {token} b", token * 3, "<|x|>", f" <|x|>{token}<|x|> "):
        # Ids may differ from the library's even where it makes no control token: it may merge one
        # into another token.
        assert made.control.isdisjoint(made.encode(text) or [])


def test_ids_beyond_the_model_are_unused_or_control() -> None:
    base = OWN["bytes"]
    last = next_id(base) + 10
    vocab = pair_of_ours(with_added(base, added("<|end|>", last)))
    assert vocab.size == last + 1
    assert vocab.token_bytes(last - 1) == b""
    assert vocab.control["<|end|>"] == last


def pair_of_ours(content: str) -> Vocab:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        return Vocab.load(file.name)


# What has no token.


def test_text_without_a_token_is_an_error_that_shows_it() -> None:
    for case, text in [
        ("unigram", "ab 中 ab"),
        ("wordpiece", "ab 中 ab"),
        ("wordlevel", "ab 中 ab"),
        ("chars, no byte fallback", "ab中ab"),
    ]:
        with pytest.raises(VocabError, match="中") as caught:
            pair(SYNTHETIC[case]).vocab.encode(text)
        assert caught.value.component == "text"


# Files that are broken.


def refused(content: bytes) -> VocabError:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        with pytest.raises(VocabError) as caught:
            Vocab.load(file.name)
    return caught.value


@pytest.mark.parametrize(
    ("change", "component", "words"),
    [
        ({"model": {"type": "Other"}}, "model", "`Other`"),
        ({"model": {"dropout": 0.1}}, "model", "dropout"),
        ({"model": {"vocab": {"a": 4_000_000_000}}}, "model", "4000000000"),
        ({"model": {"vocab": {"a": 1, "b": 1}}}, "model", "have id 1"),
        ({"model": {"merges": [["a", "zz"]]}}, "merges", "`zz`"),
        ({"model": {"merges": ["a b c"]}}, "file", "a b c"),
        ({"model": {"vocab": 5}}, "file", "expected"),
        ({"added_tokens": [added("x", 4_000_000_000)]}, "added_tokens", "4000000000"),
        ({"added_tokens": [added("<s>", 7)]}, "added_tokens", "`<s>`"),
        ({"added_tokens": [added("x1x", 7)]}, "added_tokens", "`x1x`"),
        ({"pre_tokenizer": {"type": "Other"}}, "pre_tokenizer", ""),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
            "normalizer",
            "`precompiled_charsmap`",
        ),
        ({"pre_tokenizer": split({"Regex": "(("})}, "pre_tokenizer", ""),
    ],
    ids=str,
)
def test_a_file_that_is_none_is_refused(change: Spec, component: str, words: str) -> None:
    error = refused(changed("bytes", **change).encode())
    assert error.component == component
    assert words in str(error)


@pytest.mark.parametrize("case", ["bytes", "chars, mark", "unigram", "wordpiece", "wordlevel"])
def test_cut_files_are_refused(case: str) -> None:
    content = SYNTHETIC[case].encode()
    for length in range(0, len(content) - 1, max(1, len(content) // 150)):
        refused(content[:length])


@pytest.mark.parametrize("case", SYNTHETIC)
def test_flipped_bytes_give_a_vocabulary_or_an_error(case: str, tmp_path: Path) -> None:
    content = SYNTHETIC[case].encode()
    made = random.Random(case)
    path = tmp_path / "tokenizer.json"
    for _ in range(400 if data.LONG else 20):
        broken = bytearray(content)
        for _ in range(made.randint(1, 4)):
            broken[made.randrange(len(broken))] = made.choice(b'"{}[],:09azAZ\\ \xff')
        path.write_bytes(broken)
        try:
            vocab = Vocab.load(path)
            ids = vocab.encode("<s> abc abcd <|x|> é").tolist()
        except VocabError:
            continue
        assert set(vocab.control.values()).isdisjoint(ids)


def test_deep_and_large_files_are_refused_quickly() -> None:
    deep = changed("bytes")[:-1] + ', "normalizer": ' + "[" * 100_000
    makers: list[Callable[[], str]] = [
        lambda: deep,
        lambda: (
            changed(
                "bytes",
                normalizer=functools.reduce(
                    lambda inner, _: normalizers(inner), range(60), normalizers()
                ),
            )
            + "x"
        ),
        lambda: changed("unigram", model={"vocab": [["a" * 100_000, -1.0]], "unk_id": None}),
        lambda: changed("wordpiece", model={"max_input_chars_per_word": 10**9}),
    ]
    for maker in makers:
        within(10, functools.partial(refused, maker().encode()))
