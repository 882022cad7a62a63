"""`chatcodec formats check`: format files by themselves, and against the template of a model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
import template_oracle as oracle
import test_template_codec as published
from chatcodec import Codec, Format, Template, Vocab
from chatcodec.check import SCENARIOS, Report, check_file, check_format, line_of
from chatcodec.check.reading import first_change
from chatcodec.check.scenarios import with_options
from chatcodec.check.vocabulary import vocabulary_of
from test_cli import ON_POSIX, call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEMPLATE = """{% if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<|action_start|>{{ {"name": c.function.name, \
"arguments": c.function.arguments} | tojson }}<|action_end|>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

FILE = r"""name = "mine"
guarantee = "ids"
source = "a template"
place = { tools = "first" }
tools = { declare = "{{ tools | tojson }}" }
generation = { prompt = "{START}assistant\n" }

[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
CALL = "<|action_start|>"
CALL_END = "<|action_end|>"

[turn]
system = "{START}system\n{content}{STOP}\n"
tools = "{START}system\nTools: {tools}{STOP}\n"
user = "{START}user\n{content}{STOP}\n"
assistant = "{START}assistant\n{content}{?calls:{calls}?}{STOP}\n"
tool = "{START}tool\n{content}{STOP}\n"

[call.function]
item = "{CALL}{call}{CALL_END}"
object = { name = "name", arguments = "arguments" }
"""


@pytest.fixture
def given(tmp_path: Path) -> Callable[..., str]:
    """Write the format file, with a part replaced."""

    def write(old: str = "", new: str = "", text: str = FILE) -> str:
        assert old in text
        path = tmp_path / "mine.toml"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def template(tmp_path: Path) -> str:
    path = tmp_path / "mine.jinja"
    path.write_text(TEMPLATE, encoding="utf-8")
    return str(path)


def by_template(source: str = TEMPLATE) -> Codec:
    return Codec(Template(source), Vocab.embedded())


def compared(path: str, source: str = TEMPLATE) -> Report:
    codec = by_template(source)
    return check_file(path, codec.vocab, codec)


def different(report: Report) -> dict[str, tuple[str, ...]]:
    """The keys of the difference in each conversation that has one."""
    return {
        result.scenario: result.difference.keys
        for result in report.results
        if result.difference is not None
    }


@pytest.mark.parametrize("name", chatcodec.formats())
def test_built_in_formats_are_fine_by_themselves(name: str) -> None:
    format_ = Format.built_in(name)
    report = check_format(format_)
    assert report.is_fine, [result for result in report.results if result.status == "misread"]
    scenarios = [*SCENARIOS, *with_options(format_)]
    assert [result.scenario for result in report.results] == [one.name for one in scenarios]
    assert {result.status for result in report.results} <= {"ok", "refused"}


def test_a_file_that_writes_what_the_template_does(given: Callable[..., str]) -> None:
    report = compared(given())
    assert report.compared
    assert report.is_fine
    assert report.counts == {"ok": 20, "refused": 4}


def test_a_template_alone_has_the_vocabulary_of_the_file(given: Callable[..., str]) -> None:
    """Its own `bos_token` and `eos_token` are the file's."""
    stopping = FILE.replace('assistant\\n" }', 'assistant\\n", stop = "{EOS}" }')
    tokens = 'begin = "{BOS}"\n[control]\nBOS = ["<|begin|>", "<b>"]\nEOS = "<|end|>"'
    path = given("[control]", tokens, text=stopping)
    report = check_file(path, template=Template("{{ bos_token }}" + TEMPLATE))
    assert report.refusal is None, report.refusal
    assert report.counts == {"ok": 20, "refused": 4}
    report = check_file(path, template=Template("{{ eos_token }}" + TEMPLATE))
    assert {result.difference.template[0].text for result in report.results
            if result.difference is not None} == {"<|end|>"}  # fmt: skip


def test_a_variant_is_checked(given: Callable[..., str]) -> None:
    path = given(
        "[control]", '[variant.loud.turn]\nuser = "{START}USER\\n{content}{STOP}\\n"\n[control]'
    )
    source = Template(
        TEMPLATE.replace("{{ m.role }}", "{{ m.role if m.role != 'user' else 'USER' }}")
    )
    assert not check_file(path, template=source).is_fine
    report = check_file(path, template=source, variant="loud")
    assert report.is_fine
    assert report.format == "mine:loud"
    assert line_of(FILE, "turn.user", "loud") == line_of(FILE, "turn.user")
    text = Path(path).read_text(encoding="utf-8")
    assert line_of(text, "turn.user", "loud") == 9
    assert text.splitlines()[8].startswith('user = "{START}USER')
    unknown = check_file(path, variant="quiet").refusal
    assert unknown is not None
    assert "quiet" in unknown.problem


OPTIONS = """name = "mine"
guarantee = "ids"
source = "a template"
options = { effort = ["low", "high"] }

[generation]
prompt = "{START}assistant\\n"
no_thinking = "{START}assistant\\n{THINK}{THINK_END}"

[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
THINK = "<|plugin|>"
THINK_END = "<|interpreter|>"

[turn]
begin = "{START}effort\\n{effort}{STOP}\\n"
user = "{START}user\\n{content}{STOP}\\n"
assistant = "{START}assistant\\n{?reasoning:{THINK}{reasoning}{THINK_END}?}{content}{STOP}\\n"

[named.effort]
system = "{START}effort\\n{content}{STOP}\\n"
"""

ASKING = """<|im_start|>effort
{{ reasoning_effort or 'low' }}<|im_end|>
{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning %}<|plugin|>{{ m.reasoning }}<|interpreter|>{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<|plugin|><|interpreter|>{% endif %}\
{% endif %}"""


def test_the_options_of_the_format_are_given(given: Callable[..., str]) -> None:
    path = given(text=OPTIONS)
    asked = {
        result.scenario: result.status
        for result in check_file(path, template=Template(ASKING)).results
        if "=" in result.scenario
    }
    assert asked == {
        "a question, thinking=True": "ok",
        "tools, a system message, thinking=True": "refused",
        "a question, thinking=False": "ok",
        "tools, a system message, thinking=False": "refused",
        "a question, effort=low": "ok",
        "tools, a system message, effort=low": "refused",
        "a question, effort=high": "ok",
        "tools, a system message, effort=high": "refused",
    }
    wrong = ASKING.replace("<|plugin|><|interpreter|>", "<|plugin|>\n<|interpreter|>")
    report = check_file(path, template=Template(wrong))
    assert different(report) == {"a question, thinking=False": ("generation.no_thinking",)}
    without = ASKING.replace("reasoning_effort or 'low'", "'low'")
    results = {one.scenario: one for one in check_file(path, template=Template(without)).results}
    result = results["a question, effort=high"]
    assert (result.status, result.why) == (
        "alone",
        "the template refuses it: unexpected option `effort`",
    )


def test_a_token_that_a_file_spells_is_said(given: Callable[..., str]) -> None:
    own = "<|im_start|>system\nUse <|action_start|>.<|im_end|>\n"
    source = TEMPLATE.replace(
        "{% for m in", f"{{% if messages[0].role != 'system' %}}{own}{{% endif %}}{{% for m in", 1
    )
    path = given("[control]", 'default_system = "Use <|action_start|>."\n[control]')
    difference = compared(path, source).results[0].difference
    assert difference is not None
    assert difference.keys == ("default_system",)
    assert "`turn.without_system`" in difference.hint
    mended = given("[turn]", '[turn]\nwithout_system = "{START}system\\nUse {CALL}.{STOP}\\n"')
    assert "a question" not in different(compared(mended, source))


PLANTED = [
    # What is changed into what; a conversation that then differs, and the key that is named.
    ("user\\n{content}", "user\\n {content}", "a question", "turn.user"),
    ("user\\n{content}", "user\\n{content:trim}", "white space at the edges", "turn.user"),
    ('assistant\\n"', 'assistant"', "a question", "generation.prompt"),
    ("\\nTools: {tools}", "\\nTool: {tools}", "tools", "turn.tools"),
    ("{{ tools | tojson }}", "{{ tools | tojson(indent=1) }}", "tools", "tools.declare"),
    ("{CALL}{call}", "{CALL}\\n{call}", "a call", "call.function.item"),
    ('name = "name", arg', 'name = "function", arg', "a call", "call.function.item"),
    ('"{START}tool\\n', '"{START}tool result\\n', "a result", "turn.tool"),
    ("t\\n{content}{?", "t\\n{content:trim}{?", "white space at the edges", "turn.assistant"),
    ("[control]", 'calls.between = "\\n"\n[control]', "two calls", "calls.between"),
    (
        "[control]",
        'calls.after_content = "\\n"\n[control]',
        "a call beside text",
        "calls.after_content",
    ),
    ("[control]", 'begin = "{CALL_END}"\n[control]', "a question", "begin"),
]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_mistake_is_found_where_it_is(
    given: Callable[..., str], planted: tuple[str, str, str, str]
) -> None:
    old, new, scenario, key = planted
    report = compared(given(old, new))
    assert report.refusal is None, report.refusal
    assert not report.is_fine
    found = next(result for result in report.results if result.scenario == scenario)
    assert found.status == "differs"
    assert found.difference is not None
    if key == "turn.user" and "trim" not in new:
        assert found.difference.place.startswith("messages[0]")
    assert found.difference.keys == (key,)
    # What both write before is the same, and what each writes from there on is not.
    assert found.difference.template[:1] != found.difference.file[:1]


def test_every_conversation_without_the_mistake_is_right(given: Callable[..., str]) -> None:
    report = compared(given("{CALL}{call}", "{CALL}\\n{call}"))
    with_calls = {scenario.name for scenario in SCENARIOS if "call" in scenario.name}
    with_calls |= {"a result", "a result, an answer", "two results"}
    with_calls -= {"reasoning before a call"}
    assert different(report) == dict.fromkeys(with_calls, ("call.function.item",))


def test_between_two_keys_either_may_be_responsible(given: Callable[..., str]) -> None:
    report = compared(given("user\\n{content}{STOP}\\n", "user\\n{content}{STOP}"))
    keys = different(report)
    assert keys["a question"] == ("turn.user", "generation.prompt")
    assert keys["an answer"] == ("turn.user", "turn.assistant")


def test_a_part_that_the_template_does_not_have_is_said(given: Callable[..., str]) -> None:
    report = compared(given("[control]", 'calls.between = "\\n"\n[control]'))
    found = {result.scenario: result.difference for result in report.results}
    difference = found["two calls"]
    assert difference is not None
    assert difference.hint == "the template writes nothing there"


def test_no_key_is_blamed_for_a_turn_that_the_file_does_not_write(
    given: Callable[..., str],
) -> None:
    own = "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    report = compared(given(), TEMPLATE.replace("{% for m in", own + "{% for m in", 1))
    found = {result.scenario: result.difference for result in report.results}
    assert found["a system message"] is None
    difference = found["a question"]
    assert difference is not None
    assert difference.keys == ()
    assert "text before `turn.user`, where the file may have `default_system`" in difference.hint
    repaired = given("[control]", 'default_system = "Be kind."\n[control]')
    assert "a question" not in different(compared(repaired, TEMPLATE.replace(
        "{% for m in", own + "{% for m in", 1)))  # fmt: skip


def test_no_key_is_blamed_for_a_beginning_that_the_file_does_not_write(
    given: Callable[..., str],
) -> None:
    report = compared(given(), "<s>" + TEMPLATE)
    for result in report.results:
        if result.difference is not None:
            assert result.difference.keys == ()
            assert "`begin`" in result.difference.hint
    assert report.counts["differs"] == 20


def test_the_key_of_what_the_template_ends_before(given: Callable[..., str]) -> None:
    source = TEMPLATE.replace(
        "<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant{% endif %}"
    )
    report = compared(given(), source)
    assert source != TEMPLATE
    assert different(report)["a question"] == ("generation.prompt",)
    assert "an answer" not in different(report)


def test_what_is_missing_is_told_from_what_both_refuse(given: Callable[..., str]) -> None:
    without = FILE.partition("[call.function]")[0].replace("{?calls:{calls}?}", "")
    without = "".join(line for line in without.splitlines(keepends=True) if "CALL" not in line)
    report = compared(given(text=without))
    statuses = {result.scenario: result.status for result in report.results}
    assert statuses["a call"] == "missing"
    assert statuses["a user's name"] == "refused"
    assert report.is_fine


def test_a_template_that_reads_its_text_is_not_compared_there(given: Callable[..., str]) -> None:
    source = TEMPLATE.replace("{{ m.content }}", "{{ m.content.split('<unk>')[-1] }}")
    report = compared(given(), source)
    statuses = {result.scenario: result.status for result in report.results}
    assert statuses["text that spells control tokens"] == "alone"
    assert report.is_fine


def test_a_file_that_is_read_wrongly_is_reported(
    given: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file does that: the loader refuses each. A codec that lies does."""
    real = Codec

    class Lying:
        def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
            self.codec = real(*arguments, **named)

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(self.codec, name)

        def decode(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            found = self.codec.decode(*arguments, **named)
            found[0]["content"] += "!"
            return found

    monkeypatch.setattr("chatcodec.check.Codec", Lying)
    report = check_file(given())
    assert not report.is_fine
    assert report.results[0].status == "misread"
    assert report.results[0].why == ("decoded: `messages[0].content` is 'Hello!', expected 'Hello'")


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        ({"a": [1, 2]}, {"a": [1, 3]}, "`m.a[1]` is 2, expected 3"),
        ([1], [1, 2], "`m` has 1 items, expected 2"),
        ({"a": 1}, {}, "`m.a` is 1, expected absent"),
        ("x" * 99, "y", f"`m` is 'xxx{'x' * 56}…, expected 'y'"),
    ],
)
def test_changes_are_named_by_their_path(found: object, expected: object, said: str) -> None:
    assert first_change(found, expected, "m") == said


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("name", 1),
        ("place.tools", 4),
        ("generation.prompt", 6),
        ("control.STOP", 10),
        ("turn", 14),
        ("turn.user", 17),
        ("call.function.object.name", 23),
        ("turn.nothing", 14),
        ("nothing", None),
    ],
)
def test_the_line_of_a_key(key: str, line: int | None) -> None:
    assert line_of(FILE, key) == line


def test_the_line_of_an_item_and_of_what_follows_long_strings() -> None:
    text = '[turn]\nuser = [\n  # "no"\n  "a]",\n  """b\nuser = 1\n[x]""",\n]\ntool = "t"\n'
    text += "[x]\ny = 1\n"
    assert line_of(text, "turn.user[0]") == 4
    assert line_of(text, "turn.user[1]") == 5
    assert line_of(text, "turn.user[7]") == 2
    assert line_of(text, "turn.tool") == 9
    assert line_of(text, "x.y") == 11
    assert line_of('a."b c".d = 1\n', "a.b c.d") == 1
    inline = 'generation = { prompt = """\n{ no = "x" }""", thinking = "y" }\n'
    assert line_of(inline, "generation.prompt") == 1
    assert line_of(inline, "generation.thinking") == 2


@pytest.mark.parametrize("name", chatcodec.formats())
def test_every_key_of_the_built_in_files_has_its_line(name: str) -> None:
    format_ = Format.built_in(name)
    codec = Codec(format_, vocabulary_of(format_.text))
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]
    for _, key in codec._keys(messages):  # noqa: SLF001
        line = line_of(format_.text, key)
        if line is not None:
            last = key.partition("[")[0].rpartition(".")[2]
            at = format_.text.splitlines()[line - 1]
            assert last in at or at.lstrip().startswith(('"', "[")), (key, at)
        else:
            assert key in {"begin", "end"} or ":" in name, key


REFUSED = [
    ("{content}{STOP}", "{content}{STPO}", 15, "`turn.system` has `{STPO}`, which `control` does"),
    ("guarantee", "guarrantee", 2, "unknown field `guarrantee`"),
    ('"<|im_end|>"', "5", 10, "expected a string or a list of strings"),
    ("[turn]", "[turn", 14, ""),
    ("{START}system\\nTools", "{START}tools\\nTools", 16, "read back by no row"),
    ("{CALL}{call}", "{CALL}{name}", 22, "beside `object`, which writes both; expected `{call}`"),
    ("object =", "# object =", 22, "`{call}` without `object`; expected `object` beside"),
    ("guarantee =", "#", 1, 'missing field `guarantee`; expected `guarantee = "ids"`'),
]


@pytest.mark.parametrize(("old", "new", "line", "said"), REFUSED)
def test_a_refusal_shows_the_line(
    given: Callable[..., str], old: str, new: str, line: int, said: str
) -> None:
    path = given(old, new)
    ran = call("formats", "check", path)
    assert (ran.status, ran.err) == (1, "")
    first, problem, empty, *shown = ran.out.splitlines()
    assert first == f"{path}: refused"
    assert said in problem
    assert empty == ""
    text, digits = FILE.replace(old, new, 1).splitlines(), len(str(line + 2))
    assert [row for row in shown if row.startswith(">")] == [
        f"> {line:>{digits}} │ {text[line - 1]}"
    ]

    report = json.loads(call("formats", "check", path, "--json").out)
    assert report["refusal"]["line"] == line
    assert not report["is_fine"]


def test_what_a_refusal_suggests_is_taken(given: Callable[..., str]) -> None:
    path = given("{START}system\\nTools", "{START}tools\\nTools")
    report = check_file(path)
    assert report.refusal is not None
    row = report.refusal.problem.partition("`[named.NAME]` with `")[2].rstrip("`")
    assert row == r'system = "{START}tools\n{content}{STOP}\n"'
    mended = FILE.replace("{START}system\\nTools", "{START}tools\\nTools")
    assert check_file(given(text=f"{mended}\n[named.NAME]\n{row}\n")).is_fine


def test_a_vocabulary_without_a_token_is_a_refusal(given: Callable[..., str]) -> None:
    path = given("<|im_end|>", "<|nowhere|>")
    report = check_file(path, Vocab.embedded())
    assert report.refusal is not None
    assert "lacks control tokens" in report.refusal.problem
    assert report.refusal.line == 10
    assert check_file(path).is_fine


def test_the_command_shows_the_first_difference(given: Callable[..., str], template: str) -> None:
    path = given("user\\n{content}", "user\\n {content}")
    argv = ("formats", "check", path, "--model", template, "--vocab", "embedded")
    ran = call(*argv)
    assert ran.status == 1
    lines = ran.out.splitlines()
    assert lines[0].split() == ["differs", "a", "question", "turn.user"]
    at = next(nth for nth, line in enumerate(lines) if line.startswith("── a question · an answer"))
    assert lines[at + 1 : at + 6] == [
        "   where     messages[0].content",
        "   key       `turn.user` (line 17)",
        "   both      ⟦<|im_start|>⟧user↵",
        "   template  Hello⟦<|im_end|>⟧↵⟦<|im_start|>⟧assistant↵",
        "   file       Hello⟦<|im_end|>⟧↵⟦<|im_start|>⟧assistant↵",
    ]
    assert lines[-1].startswith(f"{path}: wrong, format `mine` compared with the chat template: ")
    assert "\x1b" not in ran.out
    colored = call(*argv, "--color", "always")
    assert "\x1b[7m⟦<|im_start|>⟧\x1b[0m" in colored.out
    assert "\x1b" not in call(*argv, environ={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out
    assert "\x1b" in call(*argv, environ={"FORCE_COLOR": "1"}).out


def test_json(given: Callable[..., str], template: str) -> None:
    path = given("user\\n{content}", "user\\n {content}")
    ran = call("formats", "check", path, "--model", template, "--vocab", "embedded", "--json")
    assert ran.status == 1
    (report,) = ran.values
    assert (report["format"], report["compared"], report["is_fine"]) == ("mine", True, False)
    first = report["results"][0]
    assert (first["scenario"], first["status"]) == ("a question", "differs")
    assert first["difference"]["keys"] == ["turn.user"]
    assert first["difference"]["before"][-1] == {"text": "user\n", "is_control": False}


def test_exit_statuses(given: Callable[..., str], template: str, tmp_path: Path) -> None:
    path = given()
    check = ("formats", "check")
    assert call(*check, path).status == 0
    assert call(*check, path, "--vocab", "embedded").status == 0
    assert call(*check, path, "--model", template, "--vocab", "embedded").status == 0
    assert call(*check, path, "--model", template).status == 0
    assert call(*check, given("{STOP}", "{STPO}")).status == 1
    wrong = [
        ((str(tmp_path / "absent.toml"),), "absent.toml: no such file"),
        ((), "the following arguments are required: FILE"),
        ((path, "--model", str(tmp_path / "absent")), "absent"),
        (
            (path, "--model", path.replace("mine.toml", "absent.jinja")),
            "absent.jinja: no such file",
        ),
        ((path, "--golden", str(tmp_path / "absent.json")), "absent.json: no such file"),
        ((path, "--golden", template), "is not JSON"),
        ((path, "--vocab", str(tmp_path / "absent")), "absent"),
    ]
    for arguments, problem in wrong:
        ran = call(*check, *arguments)
        assert (ran.status, ran.out) == (2, "")
        assert problem in ran.err
        assert ran.err.count("\n") == 1


def test_the_model_of_the_environment_is_compared(given: Callable[..., str], template: str) -> None:
    environ = {"CHATCODEC_MODEL": template}
    ran = call("formats", "check", given(), environ=environ)
    assert "compared with the chat template" in ran.out
    ran = call("formats", "check", given(), "--vocab", "embedded", environ=environ)
    assert "checked by itself" in ran.out


@pytest.mark.parametrize("name", ["internlm2", "chatml"])
def test_golden_cases(name: str, tmp_path: Path) -> None:
    path = tmp_path / "format.toml"
    path.write_text(Format.built_in(name).text, encoding="utf-8")
    golden = data.ROOT / "tests" / "golden" / f"{name}.json"
    argv = ("formats", "check", str(path), "--json", "--golden")
    ran = call(*argv, str(golden), "--vocab", "embedded")
    (report,) = ran.values
    results = {one["scenario"]: one for one in report["results"]}
    cases = json.loads(golden.read_text(encoding="utf-8"))
    wrong = {
        scenario: one["why"] for scenario, one in results.items() if one["status"] == "misread"
    }
    assert not wrong
    changed = cases["stream"][0]
    changed["events"] = [{"event": "Text", "text": "other"}]
    (tmp_path / "golden.json").write_text(json.dumps(cases), encoding="utf-8")
    ran = call(*argv, str(tmp_path / "golden.json"), "--vocab", "embedded")
    assert ran.status == 1
    (report,) = ran.values
    wrong_names = [one["scenario"] for one in report["results"] if one["status"] == "misread"]
    assert wrong_names == [f"golden: {changed['name']}"]


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    yield from iter(process.stdout.readline, "")


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Processes heed interrupts, also where the tests run in the background, which ignores them."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


@ON_POSIX
@pytest.mark.usefixtures("heeds_interrupts")
def test_watch_checks_again_when_the_file_changes(given: Callable[..., str]) -> None:
    path = given()
    argv = [sys.executable, "-m", "chatcodec", "formats", "check", path, "--watch", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            reports = map(json.loads, lines_of(process))
            assert next(reports)["is_fine"]
            given("{STOP}", "{STPO}")
            assert next(reports)["refusal"]["key"] == "turn.system"
            # Gone for a moment, as editors that write a new file do it.
            os.unlink(path)  # noqa: PTH108
            time.sleep(0.5)
            assert process.poll() is None
            given()
            assert next(reports)["is_fine"]
            process.send_signal(2)
            assert process.wait(10) == 130
        finally:
            process.kill()


@pytest.mark.skipif(not published.PUBLISHED, reason=f"no templates in {published.FOLDER}")
@pytest.mark.parametrize(
    ("name", "source", "right"),
    [
        ("kimi-k3", "Kimi-K3.jinja", 28),
        ("minimax-m3", "MiniMax-M3.jinja", 23),
        ("spark2.5", "Spark2.5.jinja", 27),
        ("qwen2.5:mimo", "MiMo-VL.jinja", 20),
        ("reka-edge", "Reka-Edge.jinja", 20),
        ("xlam", "examples_tool_chat_template_xlam_qwen.jinja", 19),
        ("jamba", "jamba.jinja", 16),
    ],
)
def test_built_in_formats_against_published_templates(name: str, source: str, right: int) -> None:
    format_ = Format.built_in(name)
    vocab = vocabulary_of(format_.text)
    codec = Codec(Template(published.text_of(source), **oracle.OWN), vocab)
    report = check_format(format_, vocab, codec)
    assert not different(report)
    assert report.is_fine
    assert report.counts["ok"] == right


@pytest.mark.skipif(not (data.DATA / "vocab/qwen3").exists(), reason=f"no vocab in {data.DATA}")
def test_a_model_with_its_own_template(tmp_path: Path) -> None:
    codec = Codec.from_pretrained(data.DATA / "vocab" / "qwen3")
    text = Format.built_in("qwen3").text
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    assert check_file(path, codec.vocab, codec).is_fine
    for old, new, scenario, key in [
        ("You may call one", "You can call one", "tools", "turn.tools"),
        ('assistant\\n"\nno', 'assistant"\nno', "a question", "generation.prompt"),
        ('between = "\\n", cl', 'between = "\\n\\n", cl', "two results", "results.between"),
        ('declare = "lines"', 'declare = "sorted"', "tools", "tools.declare"),
    ]:  # fmt: skip
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        assert different(check_file(path, codec.vocab, codec))[scenario] == (key,)
