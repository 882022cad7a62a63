"""Where a vocabulary comes from: files, folders, what a caller says of them, and pickles of all."""

from __future__ import annotations

import base64
import functools
import json
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import models
import pytest
from chatcodec import Codec, Format, MessageError, Vocab, VocabError
from clock import within
from hypothesis import given
from hypothesis import strategies as st
from models import USER_DEFINED, Model, Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from naive import Value

ROWS = ["<|im_start|>", "<|im_end|>", "<think>", "<Übung>"]
FIRST_ADDED = 258
ADDED = {spelling: FIRST_ADDED + at for at, spelling in enumerate(ROWS)}
CONFIG = {
    "tokenizer_class": "GPT2Tokenizer",
    "added_tokens_decoder": {
        str(id_): {"content": spelling, "special": spelling == "<|im_start|>"}
        for spelling, id_ in ADDED.items()
    },
}
TEXT = "hello <|im_start|>system\n<Übung><|im_end|> <think>"


def letters() -> list[str]:
    """The letters that stand for the bytes in files of GPT-2's kind, by byte."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in shown)
    others = {byte: 0x100 + at for at, byte in enumerate(hidden)}
    return [chr(others.get(byte, byte)) for byte in range(256)]


def half_vocabularies() -> dict[str, bytes]:
    """`vocab.json`, `merges.txt` and their configuration: 256 bytes, two merges, added tokens."""
    tokens = [*letters(), "he", "ll"]
    return {
        "vocab.json": json.dumps({token: id_ for id_, token in enumerate(tokens)}).encode(),
        "merges.txt": b"#version: 0.2\nh e\nl l\n",
        "tokenizer_config.json": json.dumps(CONFIG).encode(),
    }


def ranks() -> bytes:
    """The same tokens as ranks."""
    tokens = [*(bytes([byte]) for byte in range(256)), b"he", b"ll"]
    lines = (f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens))
    return "\n".join(lines).encode()


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def again(value: Value) -> Value:
    return pickle.loads(pickle.dumps(value))  # noqa: S301


def facts(vocab: Vocab) -> dict[str, object]:
    """All that a vocabulary says of itself, and what it makes of texts."""
    names = ["kind", "size", "lossless", "control", "text_tokens", "text_reasons", "unused"]
    values: dict[str, object] = {name: getattr(vocab, name) for name in [*names, "dummy_prefix"]}
    texts = [TEXT, "Ｅ —— \0 e\u0301", " a  b "]
    return values | {"ids": [vocab.encode(text).tolist() for text in texts], "repr": repr(vocab)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a SentencePiece model, and with what is none of a vocabulary's business."""
    others = {"model.safetensors": b"\x0a", "README.md": b"# Hello", "config.json": b"{}"}
    return write(tmp_path / "model", others | {"tokenizer.model": data.model_bytes("prefixed")})


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """A folder with `vocab.json`, `merges.txt` and their configuration."""
    return write(tmp_path / "halves", half_vocabularies())


# Files and folders.


def test_a_folder_is_its_vocabulary(model: Path) -> None:
    expected = facts(Vocab.load(model / "tokenizer.model"))
    assert facts(Vocab.load(model)) == facts(Vocab.load(str(model))) == expected
    assert facts(Vocab.load(f"{model}/")) == expected
    for vocab in (model, str(model), model / "tokenizer.model", Vocab.load(model)):
        codec = Codec("internlm2", vocab=vocab)
        assert codec.vocab.encode(TEXT) == Vocab.load(model).encode(TEXT)


def test_of_a_folder_only_files_of_a_vocabulary_are_opened(model: Path) -> None:
    expected = facts(Vocab.load(model))
    (model / "tokenizer.json").mkdir()
    (model / "original").mkdir()
    (model / "weights.gguf").write_bytes(b"GGUF, and cut")
    (model / "qwen.tiktoken").symlink_to(model / "nowhere")
    if os.name == "posix":
        # Who opened it would wait for somebody who writes.
        os.mkfifo(model / "cl100k_base.tiktoken")
    assert within(5, lambda: facts(Vocab.load(model))) == expected


def test_half_a_vocabulary_is_read_with_its_other_half(halves: Path) -> None:
    vocab = Vocab.load(halves)
    assert (vocab.size, vocab.lossless, vocab.dummy_prefix) == (262, True, "never")
    assert vocab.control == ADDED
    assert vocab.encode("hello").tolist() == [256, 257, ord("o")]
    for file in ("vocab.json", "merges.txt"):
        assert facts(Vocab.load(halves / file)) == facts(vocab)
    for missing, beside in (("vocab.json", "merges.txt"), ("merges.txt", "vocab.json")):
        content = (halves / missing).read_bytes()
        (halves / missing).unlink()
        for path in (halves, halves / beside):
            with pytest.raises(VocabError, match=f"expected `{missing}`") as caught:
                Vocab.load(path)
            assert (caught.value.file, caught.value.component) == (str(path), "file")
        (halves / missing).write_bytes(content)


def test_ranks_are_read_with_what_stands_beside_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "ranks", {"some.tiktoken": ranks()})
    specials = {"special_tokens": ADDED, "pattern": r"\S+|\s+"}
    (folder / "specials.json").write_text(json.dumps(specials))
    vocab = Vocab.load(folder / "some.tiktoken")
    assert facts(Vocab.load(folder)) == facts(vocab)
    assert (vocab.size, vocab.control) == (262, ADDED)
    (folder / "specials.json").unlink()
    with pytest.raises(VocabError, match="pattern="):
        Vocab.load(folder)
    said = Vocab.load(folder, special_tokens=ADDED, pattern=r"\S+|\s+")
    assert facts(said) == facts(vocab)
    assert facts(again(said)) == facts(vocab)


def test_what_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path / "nowhere" / "tokenizer.model"):
        makes: list[Callable[[], object]] = [
            functools.partial(Vocab.load, path),
            functools.partial(Codec, "internlm2", vocab=str(path)),
        ]
        for make in makes:
            with pytest.raises(FileNotFoundError) as caught:
                make()
            assert caught.value.filename == str(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_an_os_error(model: Path) -> None:
    (model / "tokenizer.model").chmod(0)
    with pytest.raises(PermissionError) as caught:
        Vocab.load(model)
    assert caught.value.filename == str(model / "tokenizer.model")


def test_a_folder_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "none", {"config.json": b"{}", "model.safetensors": b"x"})
    with pytest.raises(VocabError, match="no file of a vocabulary in this folder") as caught:
        Vocab.load(folder)
    assert (caught.value.file, caught.value.component) == (str(folder), "file")
    write(folder, {"tokenizer_config.json": json.dumps(CONFIG).encode()})
    with pytest.raises(VocabError, match="no vocabulary; expected") as caught:
        Vocab.load(folder)
    assert caught.value.file == str(folder)


def test_an_error_says_where(model: Path) -> None:
    content = (model / "tokenizer.model").read_bytes()
    (model / "tokenizer.model").write_bytes(content[:5000])
    for path in (model, model / "tokenizer.model"):
        with pytest.raises(VocabError, match=f"^`{path}`: vocabulary") as caught:
            Vocab.load(path)
        assert caught.value.file == str(path)
        assert 4000 < (caught.value.offset or 0) <= 5000


@pytest.mark.parametrize("names", [["tokenizer.model"], ["tokenizer.model", "tokenizer.json"]])
def test_what_is_too_long_is_not_read_whole(tmp_path: Path, names: list[str]) -> None:
    """Of files of a terabyte, which hold nothing."""
    for name in names:
        with (tmp_path / name).open("wb") as file:
            file.write(b"\n")
            file.truncate(1 << 40 if os.name == "posix" else 1 << 27)
    for path in (tmp_path, tmp_path / names[0]):
        with pytest.raises(VocabError, match="longer than 67108864 bytes") as caught:
            within(20, functools.partial(Vocab.load, path))
        assert (caught.value.file, caught.value.component) == (str(path), "file")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero")
def test_a_device_without_an_end_is_not_read_to_its_end() -> None:
    with pytest.raises(VocabError, match="expected a file"):
        within(20, lambda: Vocab.load("/dev/zero"))


# What a caller says.


@pytest.fixture
def added(tmp_path: Path) -> Path:
    """A model with pieces that were added: one is known to be text, and two are not."""
    pieces = [Piece("\u2581"), *(Piece(sign, -9) for sign in "<h1>fo")]
    pieces += [Piece(text, 0, USER_DEFINED) for text in ("<h1>", "<foo>", "<fo>", "\u2581<f")]
    path = tmp_path / "tokenizer.model"
    path.write_bytes(Model([*models.specials(), *pieces]).proto())
    return path


def test_added_tokens_are_control_unless_they_are_known_or_said_to_be_text(added: Path) -> None:
    vocab = Vocab.load(added)
    ids = {text: vocab.size - 4 + at for at, text in enumerate(("<h1>", "<foo>", "<fo>"))}
    assert vocab.text_tokens == {"<h1>": ids["<h1>"]}
    assert list(vocab.text_reasons) == ["<h1>"]
    assert {"<foo>", "<fo>"} <= vocab.control.keys()
    assert set(ids.values()) & set(vocab.encode("<h1><foo><fo>")) == {ids["<h1>"]}

    said = Vocab.load(added, text_tokens=["<foo>"])
    assert said.text_tokens == {"<h1>": ids["<h1>"], "<foo>": ids["<foo>"]}
    assert list(said.text_reasons) == ["<h1>"]
    assert "<fo>" in said.control
    assert "<foo>" not in said.control
    assert {ids["<h1>"], ids["<foo>"]} == set(ids.values()) & set(said.encode("<h1><foo><fo>"))
    for restored in (again(said), again(again(said))):
        assert facts(restored) == facts(said)
    assert Vocab.load(added, text_tokens=("<foo>", "<fo>")).text_tokens == ids
    # Named as its file spells it.
    spaced = Vocab.load(added, text_tokens=["\u2581<f"])
    assert spaced.text_tokens["\u2581<f"] == vocab.size - 1
    assert vocab.size - 1 in spaced.encode("x <f")


def test_what_a_format_made_control_is_control_whatever_the_caller_says(added: Path) -> None:
    text = Format.built_in("chatml").text
    mine = text.replace("<|im_start|>", "<foo>").replace("<|im_end|>", "<fo>")
    (path := added.with_name("mine.toml")).write_text(mine, encoding="utf-8")
    vocab = Vocab.load(added, text_tokens=["<foo>", "<fo>"])
    codec = Codec(Format.load(path), vocab)
    for made in (codec.vocab, again(codec).vocab, again(codec.vocab)):
        assert {"<foo>", "<fo>"} <= made.control.keys()
        assert list(made.text_tokens) == ["<h1>"]
        assert set(made.control.values()).isdisjoint(made.encode("<foo><fo>"))


def test_an_ordinary_token_may_be_named_as_text(halves: Path) -> None:
    assert facts(Vocab.load(halves, text_tokens=["he"])) == facts(Vocab.load(halves))


def test_special_tokens_are_control(halves: Path) -> None:
    (halves / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    plain = Vocab.load(halves)
    assert plain.control == {}
    vocab = Vocab.load(halves, special_tokens={"<|im_start|>": 300, "<|im_end|>": 258})
    assert vocab.control == {"<|im_start|>": 300, "<|im_end|>": 258}
    assert (vocab.size, vocab.unused) == (301, 41)
    assert vocab.encode(TEXT) == plain.encode(TEXT)
    # Two spellings of one id are aliases; and what the caller says goes before what is known.
    aliases = {"<h1>": 258, "<b>": 258}
    assert Vocab.load(halves, special_tokens=aliases).control == aliases
    codec = Codec("chatml", vocab)
    assert codec.stop_ids[:1] == [258]
    assert facts(again(vocab)) == facts(vocab)
    assert again(codec).vocab.control == codec.vocab.control


OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"text_tokens": ["\ud800"]}, "text_tokens", "half of a surrogate pair"),
    ({"special_tokens": {"\ud800": 300}}, "special_tokens", "half of a surrogate pair"),
    ({"special_tokens": {"<a>": 2**31}}, "special_tokens", "`<a>` is 2147483648, expected an id"),
    ({"special_tokens": {"<a>": 10**30}}, "special_tokens", "expected an id"),
    ({"special_tokens": {"<a>": "5"}}, "special_tokens", "`<a>` is 5, expected an id"),
    ({"special_tokens": {"<a>": -1}}, "special_tokens", "`<a>` has id -1, expected one from 0"),
    ({"special_tokens": {"": 300}}, "special_tokens", "id 300 is spelled ``"),
    (
        {"special_tokens": {"<a>": 2**31 - 1}},
        "pieces",
        "`<a>` has id 2147483647, expected one below",
    ),
    ({"text_tokens": ["nothing of it"]}, "text_tokens", "is no added token"),
    ({"text_tokens": ["<a>"], "special_tokens": {"<a>": 300}}, "text_tokens", "too"),
    ({"pattern": "\ud800"}, "pattern", "half of a surrogate pair"),
    ({"pattern": "("}, "", ""),
]


@pytest.mark.parametrize(("options", "component", "words"), OPTIONS, ids=str)
def test_what_cannot_be_is_refused(
    halves: Path, options: dict[str, Any], component: str, words: str
) -> None:
    with pytest.raises(VocabError) as caught:
        Vocab.load(halves, **options)
    assert words in str(caught.value)
    assert component in {"", caught.value.component}


@pytest.mark.parametrize(
    "options",
    [
        {"text_tokens": "abc"},
        {"text_tokens": [5]},
        {"text_tokens": 5},
        {"special_tokens": ["<a>"]},
        {"special_tokens": {5: 5}},
        {"pattern": b"x"},
        {"patern": "x"},
    ],
    ids=str,
)
def test_options_of_another_type_are_a_type_error(halves: Path, options: dict[str, Any]) -> None:
    for load in (Vocab.load, Vocab.from_pretrained):
        with pytest.raises(TypeError):
            load(halves, **options)


def test_a_pattern_that_a_file_has_no_use_for_is_refused(model: Path) -> None:
    with pytest.raises(VocabError, match="given, but") as caught:
        Vocab.load(model, pattern="x")
    assert caught.value.component == "pattern"


# Pickles.


def test_a_pickle_holds_all_files(halves: Path) -> None:
    vocab = Vocab.load(halves)
    pickled, expected = pickle.dumps(vocab), facts(vocab)
    contents = half_vocabularies()
    assert all(content in pickled for content in contents.values())
    assert len(pickled) < sum(map(len, contents.values())) + 1000
    for file in halves.iterdir():
        file.unlink()
    assert facts(pickle.loads(pickled)) == expected  # noqa: S301


def test_anything_that_was_changed_in_a_pickle_is_refused(halves: Path) -> None:
    vocab = Codec("chatml", Vocab.load(halves, text_tokens=["<Übung>"])).vocab
    reduced: Any = vocab.__reduce__()
    restore, (files, digest, options, appended, aliases) = reduced
    assert facts(restore(files, digest, options, appended, aliases)) == facts(vocab)
    assert (options, appended) == ((["<Übung>"], [], None), [])
    changed = [
        (files[:-1], options, appended, aliases),
        ([*files[1:], files[0]], options, appended, aliases),
        ([("x", files[0][1]), *files[1:]], options, appended, aliases),
        ([*files[:-1], (files[-1][0], files[-1][1] + b" ")], options, appended, aliases),
        (None, options, appended, aliases),
        (files, (["<Übung>", "<think>"], [], None), appended, aliases),
        (files, ([], [("<Übung>", 261)], None), appended, aliases),
        (files, (["<Übung>"], [], "x"), appended, aliases),
        (files, options, ["<x>"], aliases),
        (files, options, appended, aliases[:-1]),
    ]
    for files_, *others in changed:
        with pytest.raises(VocabError, match="does not fit its hash"):
            restore(files_, digest, *others)


@given(
    text=st.sets(st.sampled_from(ROWS)),
    special=st.dictionaries(st.sampled_from(["<a>", "<b>", "a b"]), st.integers(262, 400)),
    pattern=st.sampled_from([None, r"\S+|\s+"]),
)
def test_every_vocabulary_comes_back_with_its_options(
    tmp_path_factory: pytest.TempPathFactory,
    text: set[str],
    special: dict[str, int],
    pattern: str | None,
) -> None:
    folder = write(tmp_path_factory.mktemp("options"), half_vocabularies())
    vocab = Vocab.load(folder, text_tokens=sorted(text), special_tokens=special, pattern=pattern)
    assert vocab.control == {key: id_ for key, id_ in ADDED.items() if key not in text} | special
    assert vocab.text_tokens == {key: id_ for key, id_ in ADDED.items() if key in text}
    assert vocab.size == max([262, *(id_ + 1 for id_ in special.values())])
    assert vocab.unused == vocab.size - 262 - len(set(special.values()))
    assert facts(again(vocab)) == facts(vocab)


# What a vocabulary says of itself.


def test_a_vocabulary_shows_its_kind(halves: Path) -> None:
    assert repr(Vocab.load(halves)).endswith(", size=262, control=4)")
    assert repr(Vocab.embedded()) == 'Vocab("sentencepiece", size=92544, control=9)'
    assert Vocab.load(halves).kind in repr(Vocab.load(halves))


def test_what_the_embedded_vocabulary_says() -> None:
    vocab = Vocab.embedded()
    empty = sum(vocab.token_bytes(id_) == b"" for id_ in range(vocab.size))
    assert vocab.unused == empty == 92544 - 46_000 - 6
    assert vocab.dummy_prefix == "never"
    assert vocab.text_tokens.keys() == vocab.text_reasons.keys()
    for spelling, id_ in vocab.text_tokens.items():
        assert vocab.token_bytes(id_).decode() == spelling


def test_the_added_text_of_internlm2_is_known() -> None:
    vocab = data.load_vocab("internlm2")
    assert list(vocab.text_tokens.values()) == list(range(92352, 92397))
    assert vocab.text_tokens["Ｅ"] == 92352
    assert {reason.split(",")[0] for reason in vocab.text_reasons.values()} == {"InternLM2"}
    assert set(vocab.text_reasons) == set(vocab.text_tokens)
    assert set(vocab.control.values()).isdisjoint(vocab.text_tokens.values())


@pytest.mark.parametrize("name", ["llama2", "mixtral-8x7b", "chatglm3"])
def test_ordinary_pieces_are_no_added_text(name: str) -> None:
    """Digits are listed as text, for Yi has them among its added tokens; here they are pieces."""
    vocab = data.load_vocab(name)
    assert vocab.text_tokens == {}
    assert vocab.dummy_prefix == "every run"


# Real folders, each as it was published or put together.

FOLDERS: dict[str, tuple[str, int, int]] = {
    "chatglm3": ("sentencepiece", 64798, 12),
    "command-r-gguf": ("gguf", 256000, 1008),
    "deepseek-coder": ("gguf", 32256, 243),
    "deepseek-llm": ("gguf", 102400, 2387),
    "deepseek-v3": ("tiktoken", 128805, 10),
    "deepseek-v3.2": ("tokenizer.json", 128815, 818),
    "glm4": ("tiktoken", 151343, 14),
    "gpt-oss": ("tiktoken", 200019, 21),
    "hunyuan-a13b": ("tiktoken", 128166, 209),
    "internlm2": ("sentencepiece", 92544, 150),
    "kimi-k2": ("tiktoken", 163840, 23),
    "llama2": ("sentencepiece", 32000, 3),
    "llama3": ("tiktoken", 128256, 256),
    "minimax-m1": ("tokenizer.json", 200054, 54),
    "mixtral-8x7b": ("sentencepiece", 32000, 3),
    "phi2": ("tokenizer.json", 50295, 1),
    "phi3/phi-3-mini": ("tokenizer.json", 32011, 14),
    "phi3/phi-3-small": ("tiktoken", 100352, 96),
    "qwen2": ("tokenizer.json", 151646, 3),
    "qwen3": ("tokenizer.json", 151669, 26),
    "qwen3.5": ("tokenizer.json", 248077, 33),
    "telechat": ("sentencepiece", 120000, 107),
    "yi": ("sentencepiece", 64000, 192),
}
"""Kind, size, and how many ids are control."""


@pytest.mark.parametrize("name", data.share(FOLDERS, 3))
def test_a_real_folder(name: str) -> None:
    folder = data.find(f"vocab/{name}")
    if FOLDERS[name][0] == "tokenizer.json":
        # A folder may have the same vocabulary in another form only.
        data.find(f"vocab/{name}/tokenizer.json")
    vocab = Vocab.load(folder)
    control = set(vocab.control.values())
    assert (vocab.kind, vocab.size, len(control)) == FOLDERS[name]
    assert vocab.lossless
    # Nothing is control and text, and what is spelled stays out of reach.
    assert control.isdisjoint(vocab.text_tokens.values())
    assert control.isdisjoint(vocab.encode(" ".join(vocab.control)))
    for spelling, id_ in vocab.text_tokens.items():
        assert id_ in vocab.encode(f"x{spelling}x".replace("\u2581", " ")), spelling
    assert facts(again(vocab)) == facts(vocab)


@pytest.mark.parametrize("name", data.share(FOLDERS, 2))
def test_every_special_token_of_a_real_folder_is_control(name: str) -> None:
    path = data.find(f"vocab/{name}") / "specials.json"
    if not path.exists():
        pytest.skip("no specials.json: the vocabulary's own file has them")
    specials = json.loads(path.read_text(encoding="utf-8"))
    control = Vocab.load(path.parent).control
    for spelling, id_ in (specials["special_tokens"] | specials.get("aliases", {})).items():
        assert control[spelling] == id_


def test_a_real_folder_of_several_vocabularies_asks_for_one() -> None:
    folder = data.find("vocab/mixtral-8x22b")
    with pytest.raises(VocabError, match="expected one of them") as caught:
        Vocab.load(folder)
    assert caught.value.file == str(folder)


@pytest.mark.parametrize("wide", ["", "é", "中", "😀"])
def test_a_long_text_is_encoded_as_any_string_of_its_characters(wide: str) -> None:
    """Of one, two and four bytes a character in memory, and of ASCII for long stretches."""
    vocab = Vocab.embedded()
    line = f"Some words of a text{wide}, and more of them.\n"
    plain = "Only words in ASCII.\n" * 200
    text = (line * 30 + plain) * 100
    whole = vocab.encode(text).tolist()
    assert vocab.decode(whole) == text

    class Text(str):
        """Read in another way: its slices are its own affair."""

        __slots__ = ()

    assert vocab.encode(Text(text)).tolist() == whole
    assert vocab.encode(text, threads=1).tolist() == whole


def test_a_long_text_with_half_of_a_surrogate_pair_is_refused() -> None:
    text = "Some words é. " * 40_000
    for broken in (text + "\ud800", "\udfff" + text, text + "\ud83d" + text):
        with pytest.raises(MessageError, match="`text` holds half of a surrogate pair"):
            Vocab.embedded().encode(broken)
