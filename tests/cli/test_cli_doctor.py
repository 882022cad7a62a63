"""`chatcodec check`: what it says of eight folders, what it compares, and its exit status.

`tests/cli/doctor` holds the texts; `UPDATE_DOCTOR=1` rewrites them.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import models
import pytest
from chatcodec import Codec
from chatcodec.doctor import Origin, diagnose
from chatcodec.doctor.sections import sections
from test_cli import call

if TYPE_CHECKING:
    from collections.abc import Callable

SNAPSHOTS = Path(__file__).parent / "doctor"

FOLDERS = {
    "qwen3": (("vocab/qwen3/tokenizer.json", "vocab/qwen3/tokenizer_config.json"), "qwen3.jinja"),
    "qwen3.5": (("vocab/qwen3.5/tokenizer.json", "vocab/qwen3.5/tokenizer_config.json"), None),
    "internlm2": (
        ("vocab/internlm2/tokenizer.model", "vocab/internlm2/tokenizer_config.json"),
        None,
    ),
    "glm4": (("vocab/glm4/tokenizer.model", "vocab/glm4/tokenizer_config.json"), None),
    "hunyuan": (
        ("vocab/hunyuan-a13b/hy.tiktoken", "vocab/hunyuan-a13b/tokenizer_config.json"),
        None,
    ),
    "llama2": (
        ("vocab/llama2/tokenizer.model", "vocab/llama2/tokenizer_config.json"),
        "llama-2-chat.jinja",
    ),
    "phi3": (("vocab/phi3/phi-3/tokenizer.json",), "phi-3.jinja"),
    "gpt-oss-20b": (("vocab/gpt-oss/o200k_base.tiktoken",), None),
}
"""Files of each model, and a template of another place."""


def make(name: str, folder: Path) -> None:
    files, template = FOLDERS[name]
    folder.mkdir()
    for file in files:
        shutil.copyfile(data.find(file), folder / Path(file).name)
    if template is not None:
        shutil.copyfile(data.find(f"templates/{template}"), folder / "chat_template.jinja")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of a small vocabulary, whose template writes turns of text."""
    return models.folder(tmp_path / "model")


@pytest.mark.parametrize("name", FOLDERS)
def test_the_text(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    ran = call("check", name, "--no-transformers", environ={"COLUMNS": "100"})
    assert ran.err == ""
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_DOCTOR"):
        path.write_text(ran.out, encoding="utf-8")
    assert ran.out == path.read_text(encoding="utf-8")
    assert ran.status == int(not ran.out.startswith(f"{name}: fine\n"))


def test_json_and_the_page_have_the_same_facts(folder: Path) -> None:
    ran = call("check", str(folder), "--no-transformers", "--json")
    record = json.loads(ran.out)
    assert (ran.status, ran.err, ran.out.count("\n")) == (0, "", 1)
    assert record["problems"] == []
    assert record["forgeries"]["here"] == 0 < record["forgeries"]["by_string"]
    assert [file["name"] for file in record["files"]] == [
        "chat_template.jinja", "tokenizer.model", "tokenizer_config.json",
    ]  # fmt: skip
    assert record["found"]["described"] == Codec.from_pretrained(folder).describe().splitlines()
    assert f"--model {folder}" in record["commands"]["gateway"]
    page = call("check", str(folder), "--no-transformers", "--html")
    shown = json.loads(page.out.split('id="data">')[1].split("</script>")[0])
    made = sections(diagnose(Codec.from_pretrained(folder), Origin(str(folder), folder)))
    assert (page.status, shown["problems"]) == (0, 0)
    assert [section["title"] for section in shown["sections"]] == [each.title for each in made]
    assert [row for section in shown["sections"] for row in section["rows"]] == [
        [row.name, row.value, row.mark] for section in made for row in section.rows
    ]


def test_a_vocabulary_without_a_model_has_no_files_and_no_commands() -> None:
    ran = call("check", "--vocab", "embedded", "--json")
    record = json.loads(ran.out)
    assert (ran.status, record["model"]) == (0, "internlm2")
    assert (record["files"], record["commands"], record["comparison"]) == ([], None, None)


class Tokenizer:
    """A tokenizer whose ids are a codec's own, but where `changed` says otherwise."""

    def __init__(self, codec: Codec, changed: Callable[[list[int]], list[int]]) -> None:
        self.codec, self.changed = codec, changed

    def apply_chat_template(self, messages: list[Any], **options: Any) -> list[int]:  # noqa: ANN401
        assert options.pop("return_dict") is False
        for message in messages:
            message.pop("reasoning", None)
            message.pop("thinking", None)
        return self.changed(self.codec.encode(messages, **options).ids.tolist())


def test_ids_that_differ_are_a_problem_with_an_example(folder: Path) -> None:
    codec = Codec.from_pretrained(folder)
    same = diagnose(codec, Origin("m"), Tokenizer(codec, lambda ids: ids)).comparison
    assert same is not None
    assert (same.different, same.example) == ((), None)
    assert "a question" in same.same
    assert "reasoning" in same.refused
    diagnosis = diagnose(codec, Origin("m"), Tokenizer(codec, lambda ids: [*ids[:-1], 7, 8]))
    found = diagnosis.comparison
    assert found is not None
    assert found.example is not None
    # The template of the folder passes over calls, which the format writes.
    assert "a call" in found.added
    assert {*found.different, *found.added} == set(same.same)
    assert found.example.conversation == "a question"
    assert found.example.theirs.endswith("[7, 8]")
    ids = codec.encode([{"role": "user", "content": "Hello"}]).ids.tolist()
    assert found.example.position == len(ids) - 1
    assert found.example.ours.endswith(str(ids[-1:]))
    count = len(found.different)
    assert diagnosis.problems == (
        f"ids differ from those of transformers in {count} of {count} conversations",
    )


def test_the_tokenizer_of_transformers_is_compared(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    make("qwen3", tmp_path / "qwen3")
    ran = call("check", str(tmp_path / "qwen3"), "--json")
    found = json.loads(ran.out)["comparison"]
    assert (ran.status, found["different"]) == (0, [])
    assert len(found["same"]) == 22


def test_a_tokenizer_that_does_not_load_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")

    def fail(*_: object, **__: object) -> None:
        raise OSError("no such class\nand more")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
    ran = call("check", str(folder))
    assert ran.status == 0
    assert "transformers does not load the tokenizer: no such class\n" in ran.out


def test_a_leak_is_a_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chatcodec import audit  # noqa: PLC0415

    # The string pipeline in the codec's place.
    monkeypatch.setattr(audit.Pipelines, "by_codec", audit.Pipelines.by_string)
    ran = call("check", str(folder), "--no-transformers")
    assert ran.status == 1
    assert "texts forge a control token in this codec" in ran.out


def test_a_model_that_cannot_be_used_is_shown_with_its_files(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{% if %}")
    ran = call("check", str(folder), "--no-transformers")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith(f"{folder}: 1 problem\n\nfiles\n  chat_template.jinja    8 bytes\n")
    ran = call("check", str(folder / "absent"))
    assert (ran.status, ran.out) == (2, "")
    assert call("check").status == 2


def test_a_gguf_file_has_the_commands_of_llamacpp(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(models.gguf(models.TURNS))
    ran = call("check", str(path))
    assert (ran.status, ran.err) == (0, "")
    assert f"llama-server --model {path} --port 8000 & chatcodec serve" in ran.out
    assert "vllm serve" not in ran.out
    assert "not compared  transformers loads folders" in ran.out


def test_no_control_character_reaches_a_terminal(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text("\x1b[31m\u202e" + path.read_text())
    ran = call("check", str(folder), "--no-transformers", "--color", "never")
    assert not {"\x1b", "\u202e"} & set(ran.out)
    assert "\x1b[" in call("check", str(folder), "--no-transformers", "--color", "always").out
