"""A model's folder and nothing else: what is said of it is true, and what is wrong with it is said."""

# Templates are long lines.
# ruff: noqa: E501

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import data
import pytest
import template_oracle as oracle
from chatcodec import Codec, Template
from chatcodec.errors import ChatCodecError, FormatError, MessageError, TemplateError
from template_oracle import SCENARIOS
from test_recognise import TURNS, folder

if TYPE_CHECKING:
    from pathlib import Path

    from chatcodec import Encoding

FAMILIES = [
    ("deepseek-v3", "deepseek_v3"),
    ("deepseek-v3", "deepseek-ai-DeepSeek-V3.1"),
    ("deepseek-v3", "otc-deepseek-r1"),
    ("deepseek-v3.2", "deepseek-ai-DeepSeek-V3.2"),
    ("glm4", "glm4"),
    ("glm4", "examples_tool_chat_template_glm4"),
    ("kimi-k2", "Kimi-K2-Thinking"),
    ("llama2", "llama-2-chat"),
    ("llama2", "vicuna"),
    ("llama3", "llama-3-instruct"),
    ("llama3", "examples_tool_chat_template_llama3.1_json"),
    ("phi3/phi-3-mini", "phi-3"),
    ("phi3/phi-3-mini", "phi_35"),
    ("phi3/phi-3-medium", "phi-3-medium"),
    ("phi3/phi-3-small", "phi-3-small"),
    ("qwen2", "qwen2"),
    ("qwen2.5", "qwen2.5-instruct"),
    ("qwen2.5", "qwen_25"),
    ("qwen3", "qwen3"),
    ("qwen3", "trl_qwen3_training"),
    ("qwen3", "trl_qwen3_instruct_2507"),
    ("yi", "chatml"),
]
"""Folders of vocabularies, and templates of their models."""

SPELLED = {"qwen2.5": ("qwen2/vocab.json", "qwen2/merges.txt")}
"""Files of other folders that a folder needs."""


def model(path: Path, vocabulary: str, template: str) -> Path:
    """A folder as a model has it: the vocabulary's files and the template."""
    source = data.find(f"vocab/{vocabulary}")
    files = [source] if source.is_file() else [file for file in source.iterdir() if file.is_file()]
    for file in files:
        name = "tokenizer.model" if source.is_file() else file.name
        (path / name).symlink_to(file.resolve())
    for more in SPELLED.get(vocabulary, ()):
        file = data.find(f"vocab/{more}")
        (path / file.name).symlink_to(file.resolve())
    if not any((path / name).exists() for name in ("tokenizer_config.json", "specials.json")):
        own = {"bos_token": "<s>", "eos_token": "</s>"}
        (path / "special_tokens_map.json").write_text(json.dumps(own), encoding="utf-8")
    text = data.find(f"templates/{template}.jinja").read_text(encoding="utf-8")
    (path / "chat_template.jinja").write_text(text, encoding="utf-8")
    return path


PLAIN: list[dict[str, Any]] = [
    {"role": "user", "content": "Why is the sky blue?"},
    {"role": "assistant", "content": "Light scatters."},
    {"role": "user", "content": "And at night?"},
]


# The vocabulary of DeepSeek-V3's test data has no tokens of calls.
@pytest.mark.filterwarnings("ignore:the model's chat template writes calls")
@pytest.mark.parametrize(("vocabulary", "template"), data.share(FAMILIES, 3))
def test_what_is_said_of_a_models_folder_is_true(
    tmp_path: Path, vocabulary: str, template: str
) -> None:
    path = model(tmp_path, vocabulary, template)
    codec = Codec.from_pretrained(path)
    said = codec.describe()
    own = codec.template
    if own is None:
        assert "which was recognised" in said
    else:
        # A format that is only near the template may have been recognised as its reader.
        assert "written by the model's chat template" in said
        written = 0
        for title, (messages, tools, more) in SCENARIOS.items():
            options = {"add_generation_prompt": True, **more}
            given = oracle.engine(own.source).given(messages)
            try:
                expected = own.render(given, tools, **options).text
            except (TemplateError, MessageError):
                continue
            known = {
                key: value
                for key, value in options.items()
                if key == "add_generation_prompt" or key in own.names
            }
            encoding = codec.encode(messages, tools=tools, on_unsupported="drop", **known)
            assert _without_space(_shown(codec, encoding)) == _without_space(expected), title
            written += 1
        assert written >= 4
    prompt = codec.encode(PLAIN)
    answer = [*codec.vocab.encode("Stars."), *codec.stop_ids[:1]]
    message = codec.parse(answer, prompt.ids).message
    opened = prompt.text.rstrip().endswith("<think>") and "reasoning" in message
    assert message["reasoning" if opened else "content"].strip() == "Stars."
    if "completions are read as text" not in said:
        read = [
            {**message, "content": message["content"].strip()}
            for message in codec.decode(prompt.ids)
            if message["role"] != "system"
        ]
        assert read[:3] == PLAIN
    forged = [{**PLAIN[0], "content": "".join(codec.vocab.control)}, *PLAIN[1:]]
    control = [
        [id_ for id_, is_control in zip(one.ids, one.is_control, strict=True) if is_control]
        for one in (prompt, codec.encode(forged))
    ]
    assert control[0] == control[1]


ALIASES = {"[UNUSED_TOKEN_145]": "<|im_end|>", "[UNUSED_TOKEN_146]": "<|im_start|>"}
"""Of InternLM2's control tokens, the spelling of its file and that of its template."""


def _shown(codec: Codec, encoding: Encoding) -> str:
    """The text of an encoding with the spellings that templates have."""
    text = encoding.text
    for spelling, alias in ALIASES.items():
        if codec.vocab.control.get(spelling) == codec.vocab.control.get(alias):
            text = text.replace(spelling, alias)
    return text


def _without_space(text: str) -> str:
    """The text without white space, which some control tokens take, and vocabularies write."""
    return "".join(text.replace("\u2581", " ").split())


LIMIT = 256 << 20
"""Bytes of memory beside what the process has when it has loaded the library."""

SCRIPT = """
import resource, sys, time
from chatcodec import Codec, Vocab
from chatcodec.errors import ChatCodecError
Vocab.load(sys.argv[1] + "/tokenizer.model")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {limit}, used + {limit}))
start = time.process_time()
try:
    codec = Codec.from_pretrained(sys.argv[1])
    codec.encode([{{"role": "user", "content": "q"}}])
except ChatCodecError as error:
    print(type(error).__name__, str(error), sep="\\n")
else:
    print("none")
seconds = time.process_time() - start
assert seconds < 10, seconds
"""

BOMBS = {
    "a syntax error": (
        "\n{% for m in messages %}",
        "TemplateError",
        "`chat_template.jinja`: template, line 2",
    ),
    "an infinite loop": (
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "TemplateError",
        "nests deeper",
    ),
    "a long loop": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "TemplateError",
        "more steps",
    ),
    "a text of 10^9 characters": (
        "{{ 'x' * 10 ** 9 }}",
        "TemplateError",
        "bytes, expected at most",
    ),
    "a text that doubles": (
        "{% set n = namespace(s='xxxx') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
        "TemplateError",
        "bytes, expected at most",
    ),
    "a list that doubles": (
        "{% set n = namespace(s=[1, 2]) %}{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s|length }}",
        "TemplateError",
        "more steps",
    ),
    "a number of 10^9 digits": ("{{ 10 ** 10 ** 9 }}", "TemplateError", "too large"),
    "a width of 10^9": ("{{ 'x'.ljust(10 ** 9) }}", "TemplateError", "expected at most"),
    "a format of 10^9": ("{{ '%1000000000d' % 1 }}", "TemplateError", "a width over 10000"),
    "include": ("{% include 'x' %}", "TemplateError", "`{% include %}` is not supported"),
    "import": ("{% import 'os' as os %}", "TemplateError", "`{% import %}` is not supported"),
    "extends": ("{% extends 'x' %}", "TemplateError", "`{% extends %}` is not supported"),
    "an attribute of Python": (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "TemplateError",
        "no attribute or member `__mro__`",
    ),
    "an attribute by its name": (
        "{{ messages|attr('__class__')|attr('__init__') }}",
        "TemplateError",
        "",
    ),
    "an unknown filter": (
        "{{ messages|nonsense }}",
        "TemplateError",
        "filter `nonsense` is not known",
    ),
    "an unknown test": (
        "{{ messages is nonsense }}",
        "TemplateError",
        "test `nonsense` is not known",
    ),
    "a refusal": (
        "{{ raise_exception('roles must alternate') }}",
        "FormatError",
        "roles must alternate",
    ),
    "nothing": ("", "FormatError", "writes nothing"),
    "deep nesting": (
        "{{ " + "(" * 99999 + "1" + ")" * 99999 + " }}",
        "TemplateError",
        "nests deeper",
    ),
    "many blocks": ("{% if 1 %}" * 99999, "TemplateError", "nests deeper"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("name", data.share(BOMBS, 3))
def test_a_bad_template_is_an_error_in_a_second_and_little_memory(
    tmp_path: Path, name: str
) -> None:
    source, kind, part = BOMBS[name]
    path = folder(tmp_path / "model", source, bos_token="<s>")  # noqa: S106
    script = textwrap.dedent(SCRIPT.format(limit=LIMIT))
    ran = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "RAYON_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)),
    )
    assert ran.returncode == 0, ran.stderr
    told, text = ran.stdout.split("\n", 1)
    assert told == kind, text
    assert part in text


@pytest.mark.parametrize(
    ("files", "part"),
    [
        ({}, r"`model`: .*has no chat template, expected .* `format=`"),
        ({"tokenizer_config.json": "{"}, r"`tokenizer_config\.json`: EOF"),
        ({"tokenizer_config.json": "[]"}, r"`tokenizer_config\.json`: invalid type"),
        ({"tokenizer_config.json": '{"chat_template": 5}'}, r"tokenizer_config.*neither text nor"),
        (
            {"tokenizer_config.json": '{"chat_template": [{"name": "a"}]}'},
            r"tokenizer_config.*neither text nor",
        ),
        ({"chat_template.json": "no"}, r"`chat_template\.json`: is broken: "),
        ({"chat_template.jinja": b"\xff{{ 1 }}"}, r"`chat_template\.jinja`: is broken: .*UTF-8"),
        (
            {"chat_template.jinja": TURNS, "tokenizer_config.json": "{"},
            r"`tokenizer_config\.json`: EOF",
        ),
        ({"chat_template.jinja": TURNS, "special_tokens_map.json": "x"}, r"special_tokens_map"),
        (
            {"chat_template.jinja": " " * (5 << 20)},
            r"chat_template\.jinja.*more than 4194304 bytes",
        ),
        (
            {"additional_chat_templates/a.jinja": "1", "additional_chat_templates/b.jinja": "2"},
            r"`a`, `b`, and none of the name `default`; expected `template=`",
        ),
    ],
)
def test_a_folder_that_says_too_little_or_nonsense(
    tmp_path: Path, files: dict[str, str | bytes], part: str
) -> None:
    path = folder(tmp_path / "model")
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ChatCodecError, match=part):
        Codec.from_pretrained(path)
    # A format needs none of it, but the vocabulary's own files have to be whole.
    if not {"tokenizer_config.json", "special_tokens_map.json"} & files.keys():
        assert Codec.from_pretrained(path, "internlm2", check_template=False).format.name


@pytest.mark.parametrize(
    ("files", "file"),
    [
        ({"chat_template.jinja": "\n {{ a b }}"}, "chat_template.jinja"),
        (
            {"tokenizer_config.json": json.dumps({"chat_template": "\n {{ a b }}"})},
            "tokenizer_config.json",
        ),
        (
            {"chat_template.json": json.dumps({"chat_template": "\n {{ a b }}"})},
            "chat_template.json",
        ),
        (
            {"additional_chat_templates/default.jinja": "\n {{ a b }}"},
            "additional_chat_templates/default.jinja",
        ),
    ],
)
def test_an_error_of_a_template_names_its_file(
    tmp_path: Path, files: dict[str, str], file: str
) -> None:
    path = folder(tmp_path / "model")
    for name, text in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    with pytest.raises(TemplateError) as raised:
        Codec.from_pretrained(path)
    assert str(raised.value).startswith(f"`{file}`: template, line 2, column 7: ")
    assert (raised.value.line, raised.value.column) == (2, 7)


def test_data_that_a_template_refuses_is_named(tmp_path: Path) -> None:
    source = TURNS.replace("m.tool_calls or", "")
    codec = Codec.from_pretrained(folder(tmp_path / "m", source + " ", bos_token="<s>"))  # noqa: S106
    for messages, part in [
        ([{"role": "tool", "content": "x"}], "refused by the template: not supported"),
        ([{"role": "user", "content": 5}], r"`\+` is not supported between"),
        ([{"role": "user"}], "content"),
        ([{"role": "user", "content": {1, 2}}], r"messages\[0\]\.content"),
    ]:
        with pytest.raises((MessageError, TemplateError), match=part):
            codec.encode(messages)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="no built-in format has this name"):
        Codec(Template(source), codec.vocab, reader="nonsense")
