"""A folder without a format: the built-in one that writes what the model's template does."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from typing import TYPE_CHECKING, Any

import data
import models
import pytest
from chatcodec import Codec, Vocab
from chatcodec.errors import FormatError, TemplateError
from templates import CASES, Case

if TYPE_CHECKING:
    from pathlib import Path

# InternLM2's turns. Calls, tools and results are refused, as some models' templates do.
TURNS = """{{ bos_token }}{% for m in messages %}
{% if tools or m.tool_calls or m.role == 'tool' %}{{ raise_exception('not supported') }}{% endif %}
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def folder(path: Path, template: str | None = None, **config: Any) -> Path:  # noqa: ANN401
    """A model's folder with the embedded vocabulary."""
    path.mkdir(exist_ok=True)
    shutil.copy(data.EMBEDDED_MODEL, path / "tokenizer.model")
    names = ("im_start", "im_end", "action_start", "action_end", "plugin", "interpreter")
    size = Vocab.load(data.EMBEDDED_MODEL).size
    added = {f"<|{name}|>": size + nth for nth, name in enumerate(names)}
    (path / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    if template is not None:
        (path / "chat_template.jinja").write_text(template, encoding="utf-8")
    return path


def test_a_template_that_writes_the_same_is_recognised(tmp_path: Path) -> None:
    codec = Codec.from_pretrained(folder(tmp_path / "model", TURNS, bos_token="<s>"))  # noqa: S106
    assert codec.format.name == "internlm2"
    told = codec.describe()
    writer, reader, vocabulary = told.splitlines()
    assert writer == (
        "conversations are written by the model's chat template, which has no place for: "
        "tools, calls, results of calls, reasoning, names of users"
    )
    assert reader == (
        "completions are read by format `internlm2`, which was recognised: "
        "it writes the same in 8 of 8 conversations"
    )
    assert vocabulary.startswith("text is never control: turns and calls are told apart by ids; a ")
    named = Codec("internlm2", vocab="embedded").describe()
    assert named.startswith("conversations are written by format `internlm2`, which the caller")


PLAIN = TURNS.replace(TURNS[TURNS.index("{% if tools") : TURNS.index("{{ '<|im_start|>'")], "")


def test_a_format_completes_a_template_that_passes_over_calls(tmp_path: Path) -> None:
    """Its control tokens say which family the model is of: what the template writes is the same."""
    path = folder(tmp_path / "model", PLAIN, bos_token="<s>")  # noqa: S106
    codec = Codec.from_pretrained(path)
    assert codec.format.name == "internlm2"
    told = codec.describe()
    assert "what the model's chat template does, and what that passes over: tools, " in told
    call = {"name": "look", "arguments": '{"at": "x"}'}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": call}],
        },
        {"role": "tool", "content": "seen"},
        {"role": "assistant", "content": "It is there."},
    ]
    encoding = codec.encode(messages)
    assert "<|action_start|><|plugin|>" in encoding.text
    read = codec.decode(encoding)
    assert [message["role"] for message in read] == ["user", "assistant", "tool", "assistant"]
    assert read[1]["tool_calls"][0]["function"]["name"] == "look"
    assert pickle.loads(pickle.dumps(codec)).describe() == told  # noqa: S301


def test_turns_alone_are_no_sign_of_a_family(tmp_path: Path) -> None:
    """No family is recognised by its turns where the vocabulary lacks the tokens of its calls."""
    path = folder(tmp_path / "model", PLAIN, bos_token="<s>")  # noqa: S106
    added = json.loads((path / "added_tokens.json").read_text())
    kept = {token: at for token, at in added.items() if "im_" in token}
    (path / "added_tokens.json").write_text(json.dumps(kept))
    assert "passes over: tools" not in Codec.from_pretrained(path).describe()


def test_tokens_of_several_families_are_no_sign_of_one(tmp_path: Path) -> None:
    """Hermes, Qwen 2.5 and Qwen 3 have the same tokens, and write tools in other words."""
    path = folder(tmp_path / "model", PLAIN.replace("{{ bos_token }}", ""))
    tokens = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>"]
    tokens += ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
    size = Vocab.load(data.EMBEDDED_MODEL).size
    added = {token: size + nth for nth, token in enumerate(tokens)}
    (path / "added_tokens.json").write_text(json.dumps(added))
    codec = Codec.from_pretrained(path)
    assert codec.format.name == "chatml"
    assert "passes over" not in codec.describe()


@pytest.mark.parametrize(
    "config",
    [
        {"chat_template": TURNS, "bos_token": {"content": "<s>"}},
        {
            "chat_template": [
                {"name": "rag", "template": "{{ 1 }}"},
                {"name": "default", "template": TURNS},
            ],
            "bos_token": "<s>",
        },
    ],
)
def test_a_template_is_found_in_the_configuration(tmp_path: Path, config: dict[str, Any]) -> None:
    assert Codec.from_pretrained(folder(tmp_path / "m", **config)).format.name == "internlm2"


def test_special_tokens_may_have_a_file_of_their_own(tmp_path: Path) -> None:
    path = folder(tmp_path / "model", TURNS)
    (path / "special_tokens_map.json").write_text('{"bos_token": {"content": "<s>"}}')
    assert Codec.from_pretrained(path).format.name == "internlm2"


@pytest.mark.parametrize(
    "change",
    [
        # A text that is not there, a text that is another.
        ("<|im_end|>' + '\\n'", "<|im_end|>' + '\\n\\n'"),
        ("{{ bos_token }}", "{{ bos_token }}{% if messages|length > 2 %} {% endif %}"),
        # The same text, of which a part that was control is the caller's.
        ("'<|im_end|>' +", "m.end|string +"),
    ],
)
def test_a_template_that_writes_another_thing_writes_it_itself(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    assert change[0] in TURNS
    path = folder(tmp_path / "model", TURNS.replace(*change), bos_token="<s>")  # noqa: S106
    codec = Codec.from_pretrained(path)
    assert codec.template is not None
    assert "written by the model's chat template" in codec.describe()
    assert Codec.from_pretrained(path, "internlm2").format.name == "internlm2"


def test_a_folder_without_a_template_needs_a_format(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"has no chat template, expected .* `format=`"):
        Codec.from_pretrained(folder(tmp_path / "model"))


@pytest.mark.parametrize(
    "template",
    ["{% for m in messages %}", "{{ x|xmlattr }}", "{% include 'a' %}", "{{ " * 100_000],
)
def test_a_template_that_is_none_is_said_to_be_wrong(tmp_path: Path, template: str) -> None:
    with pytest.raises(TemplateError, match="line 1"):
        Codec.from_pretrained(folder(tmp_path / "model", template))


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ messages[0].content * 10 ** 9 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ raise_exception('no') }}",
        "",
    ],
)
def test_a_template_that_writes_no_question_is_refused(tmp_path: Path, template: str) -> None:
    with pytest.raises((FormatError, TemplateError), match=r"question|steps|bytes|deep"):
        Codec.from_pretrained(folder(tmp_path / "model", template))


def test_a_published_template_with_tools_calls_and_reasoning_is_recognised() -> None:
    codec = Codec.from_pretrained(data.find("vocab/qwen3"))
    assert codec.format.name == "qwen3"
    assert "in 18 of 18 conversations" in codec.describe()


WITHOUT_CALLS = [case for case in CASES if case.format in {"llama2", "mixtral-8x7b:template"}]


@pytest.mark.parametrize("case", WITHOUT_CALLS, ids=str)
def test_the_format_of_a_listed_template_is_recognised(tmp_path: Path, case: Case) -> None:
    source = data.jinja_template(case.heading)
    config = {
        "chat_template": json.loads(f'"{source}"') if case.is_escaped else source,
        "bos_token": case.bos,
        "eos_token": case.eos,
    }
    path = folder(tmp_path / "model", **config)
    shutil.copy(data.model_path(case.vocab), path / "tokenizer.model")
    (path / "added_tokens.json").unlink()
    assert Codec.from_pretrained(path).format.name == case.format


def test_one_of_several_templates_is_chosen(tmp_path: Path) -> None:
    named = [{"name": "rag", "template": TURNS}, {"name": "tools", "template": TURNS + "{{ 1 }}"}]
    path = folder(tmp_path / "model", chat_template=named, bos_token="<s>")  # noqa: S106
    with pytest.raises(FormatError, match=r"`rag`, `tools`, and none .* expected `template=`"):
        Codec.from_pretrained(path)
    assert Codec.from_pretrained(path, template="rag").format.name == "internlm2"
    assert Codec.from_pretrained(path, template="tools").template is not None
    with pytest.raises(FormatError, match="no chat template `x`, expected one of `rag`, `tools`"):
        Codec.from_pretrained(path, template="x")
    for option in ("template", "reader"):
        with pytest.raises(ValueError, match=f"{option}: is given beside `format`"):
            Codec.from_pretrained(path, "internlm2", **{option: "internlm2"})  # type: ignore[arg-type]
    further = path / "additional_chat_templates"
    further.mkdir()
    (further / "default.jinja").write_text(TURNS, encoding="utf-8")
    assert Codec.from_pretrained(path).format.name == "internlm2"


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path / "model")
    (path / "chat_template.json").write_text("{", encoding="utf-8")
    with pytest.raises(FormatError, match=r"chat_template\.json.*is broken"):
        Codec.from_pretrained(path)
    (path / "chat_template.jinja").write_text(TURNS, encoding="utf-8")
    (path / "special_tokens_map.json").write_text('{"bos_token": "<s>"}', encoding="utf-8")
    assert Codec.from_pretrained(path).format.name == "internlm2"


def test_the_template_of_a_gguf_file_is_read(tmp_path: Path) -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "<|im_end|>\n{% endfor %}"
    )
    path = tmp_path / "model.gguf"
    path.write_bytes(models.gguf(source))
    codec = Codec.from_pretrained(path)
    encoding = codec.encode([{"role": "user", "content": "<s>"}])
    assert encoding.text == "<s><|im_start|>user\n<s><|im_end|>\n"
    assert sum(encoding.is_control) == 3


@pytest.mark.parametrize(
    "template",
    ["examples_tool_chat_template_gemma4.jinja", "google-gemma-4-31B-it-interleaved.jinja"],
)
def test_a_format_that_says_where_it_differs_reads_for_a_template(
    tmp_path: Path, template: str
) -> None:
    """The template writes: it is not what the format writes. Completions are read by the format."""
    golden = data.ROOT / "tests" / "golden" / "gemma4.json"
    tokens = json.loads(golden.read_text(encoding="utf-8"))["special_tokens"]
    text = data.find(f"templates/{template}").read_text(encoding="utf-8")
    path = folder(tmp_path / "model", text, bos_token="<bos>", eos_token="<eos>")  # noqa: S106
    size = Vocab.load(data.EMBEDDED_MODEL).size
    added = {token: size + nth for nth, token in enumerate(tokens)}
    (path / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    codec = Codec.from_pretrained(path)
    assert codec.format.name == "gemma4"
    told = codec.describe()
    assert "conversations are written by the model's chat template" in told
    alike = r"which reads the answers that the template writes; .* it writes \d+ of \d+ the same"
    assert re.search(alike, told)
    prompt = codec.encode([{"role": "user", "content": "Hi"}], enable_thinking=True)
    assert prompt.text.startswith("<bos><|turn>system\n<|think|>\n<turn|>")
    answer = [
        *(codec.vocab.control["<|channel>"], *codec.vocab.encode("thought\nHm.")),
        *(codec.vocab.control["<channel|>"], *codec.vocab.encode("Hello.")),
        codec.vocab.control["<turn|>"],
    ]
    parsed = codec.parse(answer, prompt=prompt)
    assert parsed.message == {"role": "assistant", "content": "Hello.", "reasoning": "Hm."}
    assert parsed.finish == "stop"
    # A difference before the answer is none of the reader's.
    other = text.replace("'<|turn>system", "'<|turn>other")
    (path / "chat_template.jinja").write_text(other, encoding="utf-8")
    assert Codec.from_pretrained(path).format.name == "gemma4"


@pytest.mark.parametrize(
    ("template", "bos", "name"),
    [
        ("templates/trl_nemotron_3_nano.jinja", "<s>", "nemotron3"),
        ("templates/trl_nemotron_3_ultra.jinja", "<s>", "nemotron3:ultra"),
        ("templates/command_a_tool_use.jinja", "<BOS_TOKEN>", "command-a"),
        ("templates/otc-qwq-32b.jinja", "<s>", "qwen3:qwq"),
        ("templates/examples_tool_chat_template_qwen3coder.jinja", "<s>", "qwen3-coder"),
        ("templates/GigaChat3.1-10B-A1.8B.jinja", "<s>", "gigachat3"),
        ("templates/Reka-Edge.jinja", "<s>", "reka-edge"),
        ("templates/poolside-Laguna-S-2.1.jinja", "〈|EOS|〉", "laguna"),
        ("templates/poolside-Laguna-XS.2.jinja", "〈|EOS|〉", "laguna:xs"),
        ("templates/openbmb-MiniCPM5-1B.jinja", "<s>", "minicpm5"),
        ("families/GLM-4.6.jinja", "<s>", "glm4.5"),
        ("families/GLM-4.7-Flash.jinja", "<s>", "glm4.5:4.7"),
        ("families/GLM-5.3-Flash.jinja", "<s>", "glm4.5:5.3"),
        ("families/Kimi-K2.5.jinja", "<s>", "kimi-k2.5"),
        ("families/tencent-Hy3.jinja", "<s>", "hy3"),
        ("families/StepFun3.5-Flash.jinja", "<｜begin▁of▁sentence｜>", "step3.5"),
        ("families/ibm-granite-granite-4.1.jinja", "<s>", "granite4:4.1"),
        ("families/trl_nemotron_3_super.jinja", "<s>", "nemotron3"),
        ("families/trl_qwen3_5_nothink.jinja", "<s>", "qwen3.5:small"),
        ("families/trl_qwen3_6.jinja", "<s>", "qwen3.5"),
        ("families/trl_qwen3_8.jinja", "<s>", "qwen3.8"),
        ("families/LFM2.5-8B-A1B.jinja", "<|startoftext|>", "lfm2:2.5-thinking"),
    ],
)
def test_published_templates_are_read_by_their_formats(
    tmp_path: Path, template: str, bos: str, name: str
) -> None:
    golden = data.ROOT / "tests" / "golden" / f"{name.replace(':', '-')}.json"
    tokens = json.loads(golden.read_text(encoding="utf-8"))["special_tokens"]
    text = data.find(template).read_text(encoding="utf-8")
    path = folder(tmp_path / "model", text, bos_token=bos)
    size = Vocab.load(data.EMBEDDED_MODEL).size
    added = {token: size + nth for nth, token in enumerate(tokens)}
    (path / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    assert Codec.from_pretrained(path).format.name == name


def test_a_template_of_another_version_is_read_by_the_format(tmp_path: Path) -> None:
    """GigaChat 3.0's template is that of 3.1, with each call in a turn after the answer's."""
    text = data.find("templates/GigaChat3.1-10B-A1.8B.jinja").read_text(encoding="utf-8")
    end = "    {{- add_tokens.message_sep -}}\n"
    call = "{{- add_tokens.function_call + render"
    turn = "{{- add_tokens.message_sep + 'function call' + add_tokens.role_sep + render"
    assert text.count(end) == 1
    assert text.count(call) == 1
    path = folder(tmp_path / "model", text.replace(call, turn), bos_token="<s>")  # noqa: S106
    size = Vocab.load(data.EMBEDDED_MODEL).size
    tokens = ("<|function_call|>", "<|message_sep|>\n\n", "<|role_sep|>\n")
    added = {token: size + nth for nth, token in enumerate(tokens)}
    (path / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    codec = Codec.from_pretrained(path)
    assert codec.format.name == "gigachat3"
    called = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "So.", "tool_calls": [{"id": "call_0", **called}]},
        {"role": "tool", "content": "r", "tool_call_id": "call_0"},
    ]
    assert codec.decode(codec.encode(messages))[1:] == messages


HARMONY = """{{ '<|start|>system<|message|>Current date: ' + strftime_now('%Y-%m-%d') + '<|end|>' }}
{%- if messages[0].role == 'system' %}
{{- '<|start|>developer<|message|>' + messages[0].content + '<|end|>' }}
{%- endif %}
{%- for m in messages %}
{%- if m.role == 'user' %}{{- '<|start|>user<|message|>' + m.content + '<|end|>' }}{%- endif %}
{%- if m.role == 'tool' %}
{{- '<|start|>functions.' + m.name + ' to=assistant<|channel|>commentary<|message|>' }}
{{- m.content|tojson + '<|end|>' }}
{%- endif %}
{%- if m.role == 'assistant' and m.tool_calls %}
{%- if m.content %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.content + '<|end|>' }}
{%- endif %}
{%- set f = m.tool_calls[0].function %}
{{- '<|start|>assistant to=functions.' + f.name + '<|channel|>commentary json<|message|>' }}
{{- f.arguments|tojson + '<|call|>' }}
{%- elif m.role == 'assistant' %}
{{- '<|start|>assistant<|channel|>final<|message|>' + m.content }}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""
"""The turns of gpt-oss: the day of today, text beside a call as reasoning, the first of several
calls, results in quotes."""


def with_harmony(path: Path, template: str) -> Codec:
    names = ("start", "end", "message", "channel", "constrain", "return", "call")
    path = folder(path, template, eos_token="<|return|>")  # noqa: S106
    size = Vocab.load(data.EMBEDDED_MODEL).size
    added = {f"<|{name}|>": size + nth for nth, name in enumerate(names)}
    (path / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    return Codec.from_pretrained(path)


def test_a_format_reads_for_a_template_that_writes_otherwise(tmp_path: Path) -> None:
    codec = with_harmony(tmp_path / "model", HARMONY)
    assert codec.format.name == "harmony"
    told = codec.describe()
    assert "conversations are written by the model's chat template" in told
    assert "`harmony`, which reads the answers that the template writes" in told
    control, text = codec.vocab.control, codec.vocab.encode
    turn, end = control["<|start|>"], control["<|end|>"]
    channel, message, call = control["<|channel|>"], control["<|message|>"], control["<|call|>"]
    answer = [channel, *text("analysis"), message, *text("Need it."), end, turn]
    answer += [*text("assistant to=functions.f"), channel, *text("commentary json"), message]
    answer += [*text('{"city": "Oslo"}'), call]
    read = codec.parse(answer, codec.encode([{"role": "user", "content": "q"}])).message
    assert read["reasoning"] == "Need it."
    assert read["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"city": "Oslo"}'}
    codec.constrain(tools=[{"type": "function", "function": {"name": "f"}}], tool_choice="required")


@pytest.mark.filterwarnings("ignore:the model's chat template writes calls")
@pytest.mark.parametrize(
    "change",
    [
        ("commentary json<|message|>", "commentary<|message|>call:"),  # before the arguments
        ("<|channel|>final<|message|>", "<|message|>final:"),
        ("'<|start|>user<|message|>'", "'<|start|>them<|message|>'"),
    ],
)
def test_a_format_that_misreads_an_answer_is_not_the_reader(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    codec = with_harmony(tmp_path / "model", HARMONY.replace(*change))
    assert "read by format `harmony`" not in codec.describe()


CALLS = (
    "{% for c in m.tool_calls or [] %}[{{ c.function.name | upper }}"
    "{% for k, v in c.function.arguments.items() %} {{ k | upper }}={{ v | upper }}"
    "{% endfor %}]{% endfor %}"
)
UNREAD = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    f"{CALLS}<|im_end|>\n{{% endfor %}}"
)
"""A template that writes calls as no format reads them."""


def test_calls_that_nobody_reads_are_told(tmp_path: Path) -> None:
    """A model's folder is warned of, and `unread` says it in every codec."""
    path = folder(tmp_path / "model", UNREAD)
    with pytest.warns(UserWarning, match="writes calls, which nobody reads: expected `reader`"):
        codec = Codec.from_pretrained(path)
    assert codec.unread == ["calls"]
    named = Codec.from_pretrained(path, reader="internlm2")
    assert named.unread == []
    plain = folder(tmp_path / "plain", UNREAD.replace(CALLS, ""))
    assert Codec.from_pretrained(plain).unread == []


ASKED = """{{ bos_token }}{% for m in messages %}
{% if m.role == 'user' %}Q: {{ m.content }} A:
{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"""
"""Turns whose questions end with text, and whose answers with a control token."""


def test_turns_that_are_told_apart_by_text_are_said_to_be(tmp_path: Path) -> None:
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    path = folder(tmp_path / "text", ASKED, **special)
    # The reader's turns are ids, whatever the template writes.
    codec = Codec.from_pretrained(path, reader="internlm2")
    assert codec.text_boundaries == ["question to answer"]
    told = codec.describe()
    assert "between some turns stands text alone, which a caller's text can spell" in told
    path = folder(tmp_path / "ids", ASKED.replace(" A:", "<|im_end|>"), **special)
    codec = Codec.from_pretrained(path, reader="internlm2")
    assert codec.text_boundaries == []
    assert "turns and calls are told apart by ids" in codec.describe()


def test_a_template_that_writes_messages_in_another_order_is_described(tmp_path: Path) -> None:
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    path = folder(
        tmp_path / "reversed", ASKED.replace("in messages", "in messages | reverse"), **special
    )
    told = Codec.from_pretrained(path, reader="internlm2").describe()
    assert "turns and calls are told apart by ids" in told
