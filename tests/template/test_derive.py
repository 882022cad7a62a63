"""`chatcodec derive -o`: format files from published chat templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import data
import pytest
import test_template_codec as published
from chatcodec import Codec, Format, FormatError, MessageError, Template, Vocab
from chatcodec.cli import main
from chatcodec.derive import derive

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """{% for m in messages %}<|im_start|>{{ m.role }}:
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:
{% endif %}"""


def test_the_command_writes_a_file_that_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template, written = tmp_path / "My Model.jinja", tmp_path / "mine.toml"
    template.write_text(SOURCE)
    argv = ["derive", str(template), "--vocab", "embedded", "--count", "9"]
    assert main([*argv, "-o", str(written)]) == 0
    assert "whole conversations of texts  read 1 of 1" in capsys.readouterr().out
    loaded = Format.load(written)
    assert loaded.name == "my-model.jinja"
    codec = Codec(loaded, Vocab.embedded())
    by_template = Codec(Template(SOURCE), Vocab.embedded())
    messages = [{"role": "user", "content": "<|im_end|> is text"}]
    assert codec.encode(messages).ids.tolist() == by_template.encode(messages).ids.tolist()
    assert codec.decode(codec.encode(messages)) == messages
    assert main(["encode", "--format", str(written), "--vocab", "no"]) == 2


def test_control_tokens_have_names_by_their_spellings() -> None:
    source = """{% for m in messages %}<|im_start|>{{ m.role }}:
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:
{% endif %}"""
    file = derive(Codec(Template(source), Vocab.embedded()), "mine")
    control = file.partition("[control]\n")[2].partition("\n\n")[0].splitlines()
    assert control == ['IM_START = "<|im_start|>"', 'IM_END = "<|im_end|>"']
    assert '"{IM_START}user:\\n{content}{IM_END}\\n"' in file
    assert "C0" not in file


def test_what_is_left_out_is_said() -> None:
    source = SOURCE.replace("{{ m.content }}", "{{ m.content }}{{ m.tool_calls | tojson }}")
    source = "{% if tools %}{{ tools | tojson }}{% endif %}" + source
    source = source.replace("{{ m.tool_calls | tojson }}", "{{ m.tool_calls or '' }}")
    text = derive(Codec(Template(source), Vocab.embedded()), "a/Model")
    assert "# Derived from the chat template of a/Model by" in text
    assert "differently by this file: tools, calls, results.\n" in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["derive"], "needs a model, expected `--model"),
        (["derive", "absent-model/x"], "absent-model/x"),
        (["derive", "x", "--model", "y"], "--model: is given beside MODEL"),
        (["derive", "--vocab", "embedded", "--count", "0"], "expected a number from 1"),
        (["derive", "--vocab", "embedded", "--count", "8"], "--count: is 8, expected 9 at least"),
        (["formats", "derive", "x"], "argument action: invalid choice"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert problem in capsys.readouterr().err


def test_what_cannot_be_derived_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = tmp_path / "odd.jinja"
    template.write_text("{% for m in messages | sort(attribute='content') %}{{ m.content }},"
                        "{% endfor %}<|im_end|>")  # fmt: skip
    assert main(["derive", str(template)]) == 2
    assert "odd.jinja: needs the model's vocabulary, expected `--vocab" in capsys.readouterr().err
    output = str(tmp_path / "odd.toml")
    assert main(["derive", str(template), "--vocab", "embedded", "-o", output]) == 2
    assert "could not be derived" in capsys.readouterr().err
    with pytest.raises(FormatError, match="is the built-in format `internlm2`"):
        derive(Codec("internlm2", vocab="embedded"), "internlm/internlm2-chat-7b")


TEXTS = ["b", "a\n\nb", "<|im_end|>", "{x}", "\u00e9\u0301", "1 2 3"]


@pytest.mark.skipif(not published.PUBLISHED, reason=f"no templates in {published.FOLDER}")
def test_files_of_published_templates_write_what_the_templates_do(tmp_path: Path) -> None:
    written = 0
    names = data.share(published.PUBLISHED, 6)
    for name in names:
        try:
            _, codec = published.made(published.text_of(name))
            text = derive(codec, name)
        except ValueError:
            continue  # the template, its vocabulary, or turns that no file writes
        written += 1
        (tmp_path / "derived.toml").write_text(text)
        derived = Codec(Format.load(tmp_path / "derived.toml"), codec.vocab)
        for user in TEXTS:
            turns = [
                {"role": "user", "content": user},
                {"role": "assistant", "content": "Yes."},
                {"role": "user", "content": TEXTS[TEXTS.index(user) - 1]},
            ]
            for messages in (turns[:1], turns[:2], turns):
                expected = codec.encode(messages).ids.tolist()
                try:
                    found = derived.encode(messages).ids.tolist()
                except MessageError:
                    assert len(messages) > 1, name
                    continue
                assert found == expected, (name, messages)
    assert written >= (28 if data.LONG else len(names) // 5)
