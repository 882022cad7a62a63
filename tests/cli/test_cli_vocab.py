"""`chatcodec vocab`: what was decided about a vocabulary's tokens, for people and for programs."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

import data
import models
import pytest
from chatcodec import Vocab
from chatcodec.cli.terminal import width
from hypothesis import given
from hypothesis import strategies as st
from models import USER_DEFINED, Model, Piece
from test_cli import ATTACK, HOSTILE, Ran, call, is_safe

if TYPE_CHECKING:
    from pathlib import Path

EMBEDDED = """\
kind          sentencepiece
size          92544 ids, 46538 unused
lossless      yes
engine        characters: BPE of characters is run by our engine
normalizer    nothing
text parted   not at all: characters merge in all of a text; known by the file
dummy prefix  never
control       9 ids, 9 spellings
text          0 added tokens; all others are control

control
  0      <unk>
  1      <s>
  2      </s>
  92538  <|plugin|>
  92539  <|interpreter|>
  92540  <|action_end|>
  92541  <|action_start|>
  92542  <|im_end|>
  92543  <|im_start|>
"""

INTERNLM2 = """\
kind          sentencepiece
size          92544 ids, 0 unused
lossless      yes
engine        characters: BPE of characters is run by our engine
normalizer    nothing
text parted   not at all: characters merge in all of a text; known by the file
dummy prefix  never
control       150 ids, 150 spellings
text          45 added tokens; all others are control

control
  0             <unk>
  1             <s>
  2             </s>
  92397..92543  [UNUSED_TOKEN_0] … [UNUSED_TOKEN_146]

text: InternLM2, ids 92352..92396: full-width letters and Chinese punctuation added after training
  92352..92396  Ｅ  Ｆ  Ｇ  Ｈ  Ｉ  Ｊ  Ｋ  Ｌ  Ｍ  Ｎ  Ｒ  Ｕ  Ｖ  Ｗ  Ｘ  Ｙ  Ｚ  ａ  ｂ  ｃ  ｄ
                ｅ  ｆ  ｇ  ｈ  ｉ  ｊ  ｋ  ｌ  ｍ  ｎ  ｏ  ｐ  ｑ  ｒ  ｓ  ｔ  ｕ  ｖ  ｗ  ｘ  ｙ
                ｚ  ——  ……
"""


def added(tmp_path: Path, *texts: str) -> str:
    """The path of a model with pieces that were added."""
    pieces = [
        *models.specials(),
        Piece("\u2581"),
        *(Piece(text, 0, USER_DEFINED) for text in texts),
    ]
    path = tmp_path / "tokenizer.model"
    path.write_bytes(Model(pieces).proto())
    return str(path)


def ranks(tmp_path: Path) -> str:
    """The path of a file of ranks, which says nothing but ranks."""
    lines = (f"{base64.b64encode(bytes([byte])).decode()} {byte}" for byte in range(256))
    path = tmp_path / "some.tiktoken"
    path.write_text("\n".join(lines))
    return str(path)


def expected(vocab: Vocab) -> dict[str, object]:
    """What `--json` says of a vocabulary."""
    report = vocab.report
    return {
        "kind": vocab.kind,
        "size": vocab.size,
        "unused": vocab.unused,
        "lossless": vocab.lossless,
        "dummy_prefix": vocab.dummy_prefix,
        "control": vocab.control,
        "text_tokens": vocab.text_tokens,
        "text_reasons": vocab.text_reasons,
        "report": {
            "engine": report.engine,
            "engine_reason": report.engine_reason,
            "losses": list(report.losses),
            "normalizer": report.normalizer,
            "pre_tokenizer": report.pre_tokenizer,
            "known_by": report.known_by,
            "appended": report.appended,
            "fingerprint": report.fingerprint,
            "missing_bytes": list(report.missing_bytes),
        },
    }


def table(ran: Ran, title: str) -> dict[str, str]:
    """The rows of a table: spellings by ids."""
    assert (ran.status, ran.err) == (0, "")
    (body,) = re.findall(rf"(?s)\n\n{re.escape(title)}[^\n]*\n(.*?)(?=\n\n|\n\Z)", ran.out)
    rows: dict[str, str] = {}
    for row in body.split("\n"):
        found = re.fullmatch(r"  (\S+|(?= ))\s+(\S.*)", row)
        assert found, row
        ids = found[1] or list(rows)[-1]
        rows[ids] = f"{rows[ids]}  {found[2]}" if ids in rows else found[2]
    return rows


def test_the_embedded_vocabulary() -> None:
    assert call("vocab", "embedded") == Ran(0, EMBEDDED, "")
    assert call("vocab", "embedded", "--json").values == [expected(Vocab.embedded())]


def test_a_real_vocabulary() -> None:
    path = data.find("vocab/internlm2/tokenizer.model")
    assert call("vocab", "--width", "100", str(path)) == Ran(0, INTERNLM2, "")
    assert call("vocab", "--json", str(path)).values == [expected(Vocab.load(path))]


def test_a_folder(tmp_path: Path) -> None:
    path = added(tmp_path, "<a>", "<h1>")
    assert call("vocab", str(tmp_path)) == call("vocab", path)
    assert call("vocab", "--json", str(tmp_path)).values == [expected(Vocab.load(path))]


def test_what_the_files_do_not_say(tmp_path: Path) -> None:
    path = added(tmp_path, "<a>", "<b=c>", "<h1>")
    ran = call("vocab", path, "--text-token", "<a>", "--text-token", "<b=c>")
    (ids,) = table(ran, "text: the caller says so")
    assert table(ran, "text: the caller says so")[ids] == "<a>  <b=c>"
    assert list(table(ran, "text: Yi").values()) == ["<h1>"]
    assert list(table(ran, "control").values()) == ["<unk>", "<s>", "</s>"]

    path = ranks(tmp_path)
    ran = call("vocab", path)
    assert ran.status == 2
    assert "pattern" in ran.err
    arguments = [
        "--pattern",
        r"\S+|\s+",
        "--special-token",
        "<a>=300",
        "--special-token",
        "b=c=301",
    ]
    ran = call("vocab", path, *arguments)
    assert table(ran, "control") == {"300": "<a>", "301": "b=c"}
    vocab = Vocab.load(path, pattern=r"\S+|\s+", special_tokens={"<a>": 300, "b=c": 301})
    assert call("vocab", path, *arguments, "--json").values == [expected(vocab)]


@pytest.mark.parametrize("given", ["<a>", "<a>=", "=5", "<a>=-5", "<a>=5.0", "<a>=٥", "<a>= 5"])
def test_a_special_token_has_a_spelling_and_an_id(given: str) -> None:
    ran = call("vocab", "x", f"--special-token={given}")
    assert (ran.status, ran.out) == (2, "")
    assert "expected SPELLING=ID" in ran.err


def test_what_cannot_be_shown(tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    for arguments, words in [
        ((str(tmp_path / "none"),), "none: no such file or directory"),
        ((str(empty),), "no file of a vocabulary in this folder"),
        (("embedded", "--pattern", "x"), "the embedded vocabulary takes no options"),
        ((), "needs a vocabulary, expected FILE|DIR, `--model NAME|DIR|FILE.gguf` or the variable"),
        ((added(tmp_path), "--text-token", "x"), "`x` is no added token"),
        ((added(tmp_path), "--special-token", f"x={10**30}"), "expected an id"),
        ((added(tmp_path), "--width", "0"), "expected a number from 1"),
        ((added(tmp_path), str(tmp_path)), "unrecognized arguments"),
    ]:
        ran = call("vocab", *arguments)
        assert (ran.status, ran.out) == (2, ""), arguments
        assert words in ran.err
        assert ran.err.count("\n") == 1


def test_neighbours_that_count_are_one_row(tmp_path: Path) -> None:
    long = [f"<{'9' * 800}{number}>" for number in range(3)]
    runs = [
        ([f"<up_{number}>" for number in range(8, 12)], "<up_8> … <up_11>"),
        ([f"<down_{number:02}|>" for number in (12, 11, 10, 9)], "<down_12|> … <down_09|>"),
        (["<two_1>"], "<two_1>"),
        (["<two_2>"], "<two_2>"),
        (["<other_3>"], "<other_3>"),
        (["<77>"], "<77>"),
        *(([name], name) for name in long),
        (["<1_5_x>"], "<1_5_x>"),
        (["<1_6_x>"], "<1_6_x>"),
        (["<1_9_x>", "<1_8_x>", "<1_7_x>"], "<1_9_x> … <1_7_x>"),
        (["<1_9_y>"], "<1_9_y>"),
    ]
    path = added(tmp_path, *(name for names, _ in runs for name in names))
    control = Vocab.load(path).control
    ids = [(control[names[0]], control[names[-1]]) for names, _ in runs]
    shown = [f"{first}..{last}" if last > first else str(first) for first, last in ids]
    rows = table(call("vocab", path, "--width", "5000"), "control")
    assert list(rows.items())[3:] == list(zip(shown, (row for _, row in runs), strict=True))


# Spellings of any sign, in any number of columns: all of them are shown, and nothing is obeyed.


@given(
    names=st.lists(HOSTILE.filter(lambda text: 0 < len(text.encode("utf-8", "replace")) < 900)),
    columns=st.integers(1, 120),
)
def test_every_control_token_is_shown(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], columns: int
) -> None:
    known = {piece.text for piece in models.specials()} | {"\u2581"}
    names = [
        name
        for name in dict.fromkeys(names)
        if name not in known and not any("\ud800" <= char < "\ue000" for char in name)
    ]
    path = added(tmp_path_factory.mktemp("hostile"), *names)
    ran = call("vocab", path, "--width", str(columns))
    assert (ran.status, ran.err) == (0, "")
    assert is_safe(ran.out)
    vocab = Vocab.load(path)
    assert f"control       {3 + len(names)} id" in ran.out or vocab.text_tokens
    rows = [row for row in ran.out.split("\n\n", 1)[1].split("\n") if row.startswith("  ")]
    gutter = max(len(row[2:].split(" ")[0]) for row in rows)
    assert all(width(row) <= max(columns, gutter + 4 + 21) for row in rows)
    assert call("vocab", "--json", path).values == [expected(vocab)]


def test_a_file_that_attacks_the_terminal(tmp_path: Path) -> None:
    path = added(tmp_path, ATTACK, f"<{ATTACK}>")
    for arguments in ((), ("--json",), ("--text-token", ATTACK)):
        ran = call("vocab", path, *arguments)
        assert is_safe(ran.out)
        assert is_safe(ran.err)
        assert ran.status == 0
    assert json.loads(call("vocab", path, "--json").out)["control"].keys() >= {ATTACK}
