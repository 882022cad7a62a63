"""`chatcodec derive`: what it shows, what it writes, and its exit status."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import models
import pytest
from chatcodec import Codec, ResponseTemplate, Template, Vocab, prove
from chatcodec.cli.loading import MODEL
from test_cli import call
from test_proof import CALLS

if TYPE_CHECKING:
    from pathlib import Path

READ = CALLS.replace("{{ {'name'", "{{ {'what'").replace("'parameters'", "'with'")
"""Calls that a format derived from the template reads."""
CALL = re.compile("<.action_start.*action_end.>", re.DOTALL)
UNREAD = CALL.sub("{{ c.function.name }} of {{ c.function.arguments }}", CALLS)
"""Calls that nobody reads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose template writes turns of text."""
    return str(models.folder(tmp_path_factory.mktemp("models") / "model"))


def template(tmp_path: Path, source: str) -> tuple[str, ...]:
    """The arguments for a template alone."""
    path = tmp_path / "new.jinja"
    path.write_text(source)
    return ("derive", str(path), "--vocab", "embedded", "--count", "45")


@pytest.mark.parametrize("vocab", [(), ("--vocab", "embedded")])
def test_a_template_that_is_not_there_is_named(tmp_path: Path, vocab: tuple[str, ...]) -> None:
    path = str(tmp_path / "typo.jinja")
    ran = call("derive", path, *vocab)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == f"chatcodec: {path}: no such file\n"


def test_all_is_shown(tmp_path: Path) -> None:
    ran = call(*template(tmp_path, READ))
    assert (ran.status, ran.err) == (0, "")
    rows = ran.out.splitlines()
    assert rows[0] == str(tmp_path / "new.jinja")
    told = Codec(Template(READ), Vocab.embedded()).describe().split()
    assert [word for word in told if word not in ran.out] == []
    for row in (
        "  guarantee  ids",
        "  stops at   92542 ⟦<|im_end|>⟧",
        "  prompt     ⟦<|im_start|>⟧assistant↵",
        "45 random conversations, seed 0",
        "  an answer of text             read 5 of 5",
        "  reasoning                     not written by the template",
        "── two calls ──",
    ):
        assert row in rows, row
    assert rows[rows.index("── a call ──") + 1] == "  ⟦<|action_start|>⟧⟦<|plugin|>⟧↵"
    assert "not read back" not in ran.out


def test_what_is_not_read_back_is_shown_and_is_status_1(tmp_path: Path) -> None:
    argv = template(tmp_path, UNREAD)
    ran = call(*argv)
    assert (ran.status, ran.err) == (1, "")
    rows = ran.out.splitlines()
    assert "  a call                        read 0 of 5" in rows
    assert "  unread     calls" in rows
    at = rows.index("── not read back: a call: read 0 of 5 ──")
    shown = "\n".join(rows[at:])
    assert "  a completion: `messages[0].content` is " in shown
    given = next(row for row in rows[at:] if row.startswith("  given    "))
    arguments = given.removeprefix("  given    ")
    again = call("encode", "--vocab", "embedded", "--format", "internlm2", stdin=arguments + "\n")
    assert again.status == 0
    # The same command, the same report; another seed, another one.
    assert call(*argv).out == ran.out
    assert call(*argv, "--seed", "7").out != ran.out


def test_json(tmp_path: Path) -> None:
    ran = call(*template(tmp_path, UNREAD), "--json", "--seed", "3")
    assert (ran.status, ran.err) == (1, "")
    record = json.loads(ran.out)
    assert ran.out.count("\n") == 1
    assert record.keys() == {"model", "found", "proof"}
    assert record["found"].keys() == {
        "described", "reader", "syntax", "guarantee", "unread", "stops", "generation_prompt",
    }  # fmt: skip
    assert record["found"]["stops"] == [{"id": 92542, "text": "<|im_end|>"}]
    assert record["found"]["generation_prompt"] == "<|im_start|>assistant\n"
    assert record["found"]["unread"] == ["calls"]
    codec = Codec(Template(UNREAD), Vocab.embedded())
    assert record["proof"] == json.loads(prove(codec, count=45, seed=3).to_json())


@pytest.mark.parametrize(
    ("argv", "reader", "syntax"),
    [
        (("--format", "internlm2", "--vocab", "embedded"), "format", "internlm2"),
        (("--vocab", "embedded"), "format", "internlm2"),
    ],
)
def test_readers(argv: tuple[str, ...], reader: str, syntax: str) -> None:
    ran = call("derive", *argv, "--count", "45", "--json")
    found = json.loads(ran.out)["found"]
    assert (ran.status, found["reader"], found["syntax"]) == (0, reader, syntax)
    assert found["guarantee"] == "ids"


def test_a_model_is_named_in_each_way(folder: str) -> None:
    first = call("derive", folder, "--count", "45")
    assert (first.status, first.err) == (0, "")
    assert first.out == call("derive", "--model", folder, "--count", "45").out
    assert first.out == call("derive", "--count", "45", environ={MODEL: folder}).out


def test_a_response_template_is_written(tmp_path: Path) -> None:
    path = tmp_path / "response.json"
    ran = call(*template(tmp_path, READ), "--response-template", str(path))
    assert (ran.status, ran.err) == (0, "")
    response = ResponseTemplate(json.loads(path.read_text()))
    codec = Codec(Template(READ), Vocab.embedded(), reader=response)
    parts = {part.part: part for part in prove(codec, count=90).parts}
    assert parts["nested arguments"].read == 10
    assert parts["two calls"].read == 10


def test_what_cannot_be_written_is_status_2(tmp_path: Path) -> None:
    path = tmp_path / "response.json"
    pair = "<f>{{ c.function.name }}\n{% for k, v in c.function.arguments | items %}<k>{{ k }}</k>"
    pair += "<v>{{ v if v is string else v | tojson }}</v>\n{% endfor %}</f>"
    tagged = re.sub(r"\{\{ \{'name'.*tojson }}", lambda _: pair, CALLS)
    ran = call(*template(tmp_path, tagged), "--response-template", str(path))
    assert (ran.status, ran.out, path.exists()) == (2, "", False)
    assert "cannot say a call, whose arguments are no JSON" in ran.err
    ran = call(*template(tmp_path, READ), "-o", str(tmp_path / "absent" / "x.toml"))
    assert ran.status == 2
    assert "x.toml: no such file or directory" in ran.err


def test_a_template_without_a_vocabulary_is_status_2(tmp_path: Path) -> None:
    path = tmp_path / "new.jinja"
    path.write_text(CALLS)
    ran = call("derive", str(path))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"chatcodec: {path}: needs the model's vocabulary, expected `--vocab")


def test_a_refusing_template_is_status_2(tmp_path: Path) -> None:
    ran = call(*template(tmp_path, "{{ raise_exception('never') }}" + CALLS))
    assert (ran.status, ran.out) == (2, "")
    assert "never" in ran.err


def test_no_control_character_reaches_a_terminal(tmp_path: Path) -> None:
    odd = CALLS.replace("{{ m.content }}", "\x1b[31m\u202e{{ m.content }}")
    ran = call(*template(tmp_path, odd), "--color", "never")
    assert not {"\x1b", "\u202e"} & set(ran.out)
    assert "\x1b[" in call(*template(tmp_path, CALLS), "--color", "always").out
