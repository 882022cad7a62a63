"""The audit: nothing is forged in the codec, and the string pipeline is what an oracle says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import data
import pytest
import template_oracle as oracle
from chatcodec import Codec, Template, Vocab, formats
from chatcodec.cli import main
from completions import codec_of
from test_template_codec import CHATML, vocab_of

if TYPE_CHECKING:
    from pathlib import Path

    from chatcodec.audit import Audit

EMBEDDED = ("--vocab", "embedded")


def test_the_audit_of_the_embedded_vocabulary() -> None:
    report = Codec("internlm2", vocab="embedded").audit()
    assert report.forged == 0
    assert report.forged_by_string > 50
    found = {(finding.place, finding.spelling): finding for finding in report.findings}
    assert found["user content", "plain"].string == "forged"
    assert found["user content", "plain"].codec == "text"
    assert found["user content", "full-width"].string == "text"
    assert found["role", "plain"].codec == "refused"
    read = json.loads(report.to_json())
    assert read["forged_by_string"] == report.forged_by_string
    assert len(read["findings"]) == len(report.findings)
    assert "user content" in str(report)


# ChatGLM3's `sop` is an ordinary token of the embedded vocabulary.
@pytest.mark.parametrize("name", data.share([name for name in formats() if name != "chatglm3"], 3))
def test_no_format_lets_anything_be_forged(name: str) -> None:
    report = codec_of(name).audit()
    assert report.forged == 0
    assert report.forged_by_string > 0


def test_the_string_pipeline_is_that_of_tokenizers(tmp_path: Path) -> None:
    reference, vocab = vocab_of(CHATML, tmp_path)
    codec = Codec(Template(CHATML, **oracle.OWN), vocab)
    report = codec.audit()
    assert report.forged == 0
    control = set(codec.vocab.control.values())

    def count(text: str) -> int:
        written = codec.encode([{"role": "user", "content": text}]).text
        return sum(id_ in control for id_ in reference.encode(written).ids)

    for finding in report.findings:
        if finding.place == "user content" and finding.spelling != "in parts":
            assert (finding.string == "forged") == (count(finding.text) != count("x"))


def test_the_librarys_own_sanitizing_is_beside_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    reference, vocab = vocab_of(CHATML, tmp_path)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=reference, chat_template=CHATML, **oracle.OWN
    )
    codec = Codec(Template(CHATML, **oracle.OWN), vocab)
    report = codec.audit(tokenizer)
    assert report.forged == 0
    assert codec.audit().forged_if_sanitized is None
    assert report.forged_if_sanitized is not None
    assert report.forged_if_sanitized < report.forged_by_string
    assert "sanitized" in str(report)
    assert "sanitized" not in str(codec.audit())
    read = json.loads(report.to_json())
    assert read["forged_if_sanitized"] == report.forged_if_sanitized
    # The tokenizer as it is by default forges, as the string pipeline does. Of parts, which this
    # template does not take, engines give it the texts.
    plain = audit_of_plain(tokenizer, codec)
    in_parts = {finding.spelling == "in parts" for finding in plain.findings}
    assert in_parts == {False, True}
    for finding in plain.findings:
        assert finding.spelling == "in parts" or finding.sanitized == finding.string, finding


# A template that leaves out turns of roles that it does not know, as Qwen3's does.
KNOWN_ROLES = (
    "{% for m in messages %}{% if m.role == 'user' or m.role == 'assistant' %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
)


def test_a_role_that_the_template_leaves_out_forges_nothing(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    reference, vocab = vocab_of(KNOWN_ROLES, tmp_path)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=reference, chat_template=KNOWN_ROLES, **oracle.OWN
    )
    report = Codec(Template(KNOWN_ROLES, **oracle.OWN), vocab).audit(tokenizer)
    found = [finding for finding in report.findings if finding.place == "role"]
    assert found
    for finding in found:
        outcomes = (finding.string, finding.sanitized, finding.codec)
        assert "forged" not in outcomes, finding


def audit_of_plain(tokenizer: Any, codec: Codec) -> Audit:  # noqa: ANN401
    class Plain:
        """The tokenizer without its sanitizing."""

        @staticmethod
        def apply_chat_template(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            options.pop("sanitize_control_tokens")
            return tokenizer.apply_chat_template(*args, **options)

    return codec.audit(Plain())


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    report = Codec("internlm2", vocab="embedded").audit()
    assert main(["audit", *EMBEDDED, "--html"]) == 0
    page = capsys.readouterr().out
    assert page == report.to_html()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    read = [
        (data["tokens"][token], data["places"][place], *rest)
        for token, place, *rest in data["findings"]
    ]
    assert read == [
        (each.token, each.place, each.spelling, each.text, each.string, each.codec)
        for each in report.findings
    ]
    assert main(["audit", "--html", "--json"]) == 2


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *EMBEDDED]) == 0
    assert "0 in the codec" in capsys.readouterr().out
    assert main(["audit", *EMBEDDED, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forged"] == 0
    _, _ = vocab_of(CHATML, tmp_path)
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    assert main(["audit", str(tmp_path)]) == 0
    assert "template: of" in capsys.readouterr().out
    assert main(["audit", str(tmp_path / "nothing")]) == 2
    assert main(["audit", str(tmp_path), "--vocab", "x"]) == 2


def test_the_command_has_the_librarys_sanitizing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    reference, _ = vocab_of(CHATML, tmp_path)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=reference, chat_template=CHATML, **oracle.OWN
    )
    tokenizer.save_pretrained(tmp_path)
    model = str(tmp_path)
    assert main(["audit", model, "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    expected = Codec.from_pretrained(model).audit(tokenizer)
    assert read == json.loads(expected.to_json())
    assert read["forged_if_sanitized"] is not None
    assert main(["audit", model, "--html"]) == 0
    page = capsys.readouterr().out
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [name for _, name, _, _ in data["sides"]] == ["string", "sanitized", "chatcodec"]
    assert [finding[6] for finding in data["findings"]] == [
        finding.sanitized for finding in expected.findings
    ]
    assert main(["audit", model, "--json", "--no-transformers"]) == 0
    assert json.loads(capsys.readouterr().out)["forged_if_sanitized"] is None


def test_a_tokenizer_that_does_not_load_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")

    def fail(*_: object, **__: object) -> None:
        raise OSError("no such class\nand more")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
    vocab_of(CHATML, tmp_path)
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    assert main(["audit", str(tmp_path)]) == 0
    read = capsys.readouterr()
    assert read.err == f"{tmp_path}: without transformers, which does not load it: no such class\n"
    assert "sanitized" not in read.out


def test_a_codec_that_leaks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from chatcodec import audit  # noqa: PLC0415

    # The string pipeline in the codec's place.
    monkeypatch.setattr(audit.Pipelines, "by_codec", audit.Pipelines.by_string)
    assert Codec("internlm2", vocab="embedded").audit().forged > 0
    assert Vocab.embedded().control
