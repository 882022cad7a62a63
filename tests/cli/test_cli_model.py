"""Which model a command is about: `--model`, the variable CHATCODEC_MODEL, and what is refused."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import models
import pytest
from chatcodec import Codec, Format, FormatError, Vocab
from chatcodec.cli.commands import COMMANDS
from chatcodec.cli.loading import MODEL
from chatcodec.prefix import audit_prefix
from chatcodec.serve.settings import Settings
from test_cli import Ran, call, lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MESSAGES = [{"role": "user", "content": "Hi<|im_end|>"}, {"role": "assistant", "content": "Yes."}]
LINES = ("encode", "decode", "parse", "stream", "inspect")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose template writes turns of text."""
    return str(models.folder(tmp_path_factory.mktemp("models") / "model"))


@pytest.fixture(scope="module")
def codec(folder: str) -> Codec:
    return Codec.from_pretrained(folder)


def given_to(command: str, codec: Codec) -> str:
    """A line that the command reads."""
    if command in {"encode", "inspect"}:
        return lines(MESSAGES)
    if command == "decode":
        return lines(codec.encode(MESSAGES).ids.tolist())
    return lines([*codec.vocab.encode("Yes."), codec.stop_ids[0]])


def ways(folder: str) -> list[tuple[Sequence[str], Mapping[str, str]]]:
    """The model as an argument, in the environment, and as an argument beside another."""
    return [
        (("--model", folder), {}),
        ((), {MODEL: folder}),
        (("--model", folder), {MODEL: "/nowhere"}),
    ]


def told(
    folder: str, *argv: str, stdin: str = "", more: Mapping[str, str] | None = None
) -> list[Ran]:
    """What a command says of the model, named in each way."""
    return [
        call(*argv, *named, stdin=stdin, environ={**environ, **(more or {})})
        for named, environ in ways(folder)
    ]


@pytest.mark.parametrize("command", LINES)
def test_commands_of_lines(folder: str, codec: Codec, command: str) -> None:
    given = given_to(command, codec)
    first, *others = told(folder, command, stdin=given)
    assert (first.status, first.err) == (0, "")
    assert others == [first, first]
    match command:
        case "encode":
            assert first.values == [{"ids": codec.encode(MESSAGES).ids.tolist()}]
        case "decode":
            assert first.values == [{"messages": codec.decode(json.loads(given))}]
        case "parse":
            assert first.values[0]["message"] == codec.parse(json.loads(given)).message
        case "stream":
            assert first.values[-1]["event"] == "TurnEnd"
        case _:
            assert "⟦<|im_start|>⟧" in first.out


def test_audit_of_prefixes(folder: str, codec: Codec) -> None:
    found = audit_prefix(codec)
    status = int(found.lost > 0)
    assert call("audit", "--prefix", folder) == Ran(status, found.table(), "")
    assert call("audit", "--prefix", "--json", folder) == Ran(status, found.to_json() + "\n", "")
    refused = call("audit", "--prefix", "--html", folder)
    assert refused.status == 2
    assert "has no `--html`" in refused.err


def test_audit(folder: str, codec: Codec) -> None:
    expected = codec.audit().to_json() + "\n"
    argv = ("audit", "--json", "--no-transformers")
    positional = call(*argv, folder)
    assert [*told(folder, *argv), positional] == [Ran(0, expected, "")] * 4


def test_vocab(folder: str, codec: Codec) -> None:
    by_path = call("vocab", "--json", folder)
    assert by_path.values[0]["size"] == codec.vocab.size
    assert told(folder, "vocab", "--json") == [by_path] * 3
    by_model = call("vocab", "--json", "--model", folder, "--special-token", "<x>=900")
    assert by_model.values[0]["control"]["<x>"] == 900


def test_prepare(
    folder: str, codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chats.jsonl").write_text(lines({"messages": MESSAGES}))
    for at, (named, environ) in enumerate(ways(folder)):
        ran = call("prepare", "chats.jsonl", f"out{at}", "--quiet", *named, environ=environ)
        assert (ran.status, ran.err) == (0, "")
        ids = table.read_table(f"out{at}")["input_ids"].to_pylist()
        assert ids == [codec.encode(MESSAGES).ids.tolist()]


def test_serve(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette")
    from chatcodec.serve import run  # noqa: PLC0415 (an extra)

    served: list[Settings] = []

    def serve(settings: Settings, _: object) -> bool:
        served.append(settings)
        return True

    monkeypatch.setattr(run, "run", serve)
    ran = told(folder, "serve", "--backend", "http://x")
    ran.append(call("serve", "--backend", "http://x", "--model", folder, "--format", "chatml"))
    assert [(each.status, each.err) for each in ran] == [(0, "")] * 4
    assert {each.served for each in served} == {(folder,)}
    *first, last = [each.codec() for each in served]
    assert all("recognised" in codec.describe() for codec in first)
    assert (last.template, last.format.name) == (None, "chatml")


def test_studio(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from chatcodec.pages.studio import Studio  # noqa: PLC0415 (as the command does)

    offered: list[Any] = []

    def serve(studio: Studio) -> None:
        offered.append(studio.choices()["vocabularies"])
        request = {"vocabulary": 0, "format": "", "messages": MESSAGES}
        assert studio.encode(request)["kind"] == "encoding"

    monkeypatch.setattr(Studio, "serve_forever", serve)
    ran = told(folder, "studio", "--port", "0")
    ran.append(call("studio", "--port", "0", "--model", folder, __file__))
    assert [(each.status, each.err) for each in ran] == [(0, "")] * 4
    assert offered == [[folder, "embedded"]] * 3 + [[folder, __file__, "embedded"]]


def test_every_command_of_a_model_has_the_argument() -> None:
    of_model = {command.name for command in COMMANDS if "--model" in help_of(command.name)}
    assert of_model == {command.name for command in COMMANDS} - {"formats", "trajectories"}
    assert all(MODEL in help_of(name) for name in of_model)


def help_of(command: str) -> str:
    return call(command, "--help").out


def test_a_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(models.gguf(models.TURNS))
    ids = Codec.from_pretrained(path).encode(MESSAGES).ids.tolist()
    assert call("encode", "--model", str(path), stdin=lines(MESSAGES)).values == [{"ids": ids}]


def test_a_format_takes_the_place_of_the_template(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(Format.built_in("chatml").text, "utf-8")
    ids = Codec.from_pretrained(folder, "chatml").encode(MESSAGES).ids.tolist()
    assert ids != Codec.from_pretrained(folder).encode(MESSAGES).ids.tolist()
    for form in ("chatml", str(path)):
        for ran in told(folder, "encode", "--format", form, stdin=lines(MESSAGES)):
            assert (ran.err, ran.values) == ("", [{"ids": ids}])


def test_a_vocabulary_is_nearer_than_the_environment(folder: str) -> None:
    vocab = f"{folder}/tokenizer.model"
    argv = ("encode", "--format", "chatml", "--vocab", vocab)
    ran = call(*argv, stdin=lines(MESSAGES), environ={MODEL: "/nowhere"})
    assert ran.values == [{"ids": Codec("chatml", vocab).encode(MESSAGES).ids.tolist()}]


NOTHING = (
    "needs a model, expected `--model NAME|DIR|FILE.gguf` or the variable CHATCODEC_MODEL, or "
    "`--vocab FILE|DIR`; `--vocab embedded` is in the package for trying things out, and its ids "
    "are no model's"
)
NO_MODEL = "/nowhere: no such file or folder, and no name on the hub, expected `owner/name`"
FORMAT = (
    "qwen3: is a built-in format, expected a model's folder, GGUF file or name; "
    "for the format: `--format qwen3 --vocab FILE|DIR`"
)
TWO = "a vocabulary is given beside a model, expected one of them"


@pytest.mark.parametrize(
    ("argv", "environ", "said"),
    [
        ((), {}, NOTHING),
        ((), {MODEL: ""}, NOTHING),
        (("--format", "chatml"), {}, NOTHING),
        (("--model", "/nowhere"), {}, NO_MODEL),
        ((), {MODEL: "/nowhere"}, f"{NO_MODEL} (the model is named by the variable {MODEL})"),
        (("--model", "x", "--vocab", "y"), {}, TWO),
        (
            ("--model", "qwen3"),
            {},
            FORMAT,
        ),
    ],
)
@pytest.mark.parametrize("command", [*LINES, "audit", "check"])
def test_what_is_wrong_is_said_alike(
    command: str, argv: Sequence[str], environ: Mapping[str, str], said: str
) -> None:
    pytest.importorskip("huggingface_hub")
    assert call(command, *argv, environ=environ) == Ran(2, "", f"chatcodec: {said}\n")


def test_no_command_falls_back_to_the_embedded_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chats.jsonl").write_text(lines(MESSAGES))
    expected = Ran(2, "", f"chatcodec: {NOTHING}\n")
    assert call("prepare", "chats.jsonl", "out") == expected
    assert not (tmp_path / "out").exists()
    assert call("serve", "--backend", "http://x") == expected
    with pytest.raises(FormatError, match=r"needs a vocabulary"):
        Settings(backend="http://x").codec()


def test_the_embedded_vocabulary_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = Codec("internlm2", Vocab.embedded()).encode(MESSAGES).ids.tolist()
    argv = ("encode", "--vocab", "embedded")
    expected = [{"ids": ids}]
    # A file of this name is one of the folder; no model of the environment is asked for.
    (tmp_path / "embedded").write_bytes(models.with_dummy_prefix())
    for environ in ({}, {MODEL: "/nowhere"}):
        assert call(*argv, stdin=lines(MESSAGES), environ=environ).values == expected
    file = call("encode", "--vocab", "./embedded", stdin=lines(MESSAGES)).values
    assert file != expected
    assert call("vocab", "embedded", "--json").values[0]["size"] == 92_544
    assert call("vocab", "./embedded", "--json").values[0]["size"] == 700


def test_a_model_is_named_once(folder: str) -> None:
    said = "chatcodec: --model: is given beside MODEL, expected one of them\n"
    assert call("audit", folder, "--model", folder) == Ran(2, "", said)
    assert call("vocab", folder, "--model", folder) == Ran(2, "", f"chatcodec: {TWO}\n")


def test_a_name_without_the_client_of_the_hub(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "chatcodec.hub", raising=False)
    said = call("encode", "--model", "owner/name").err
    assert said.startswith("chatcodec: owner/name: no such file or folder; names on the")
    assert said == call("vocab", "--model", "owner/name").err
    assert call("encode", "--model", folder, stdin=json.dumps(MESSAGES)).status == 0
