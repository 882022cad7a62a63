"""The control tokens of a template depend on the conversation's shape alone, or a note says so."""

# Templates are long lines, and take any value.
# ruff: noqa: ANN401, E501
from __future__ import annotations

import contextlib
import functools
import random
from typing import Any

import data
import pytest
import template_oracle as oracle
from chatcodec import Codec, Template, Vocab
from chatcodec.errors import MessageError, TemplateError
from test_template_codec import FOLDER, PUBLISHED, control, text_of, vocab_of

Message = dict[str, Any]

TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def codec_of(source: str) -> Codec:
    return Codec(Template(source), Vocab.embedded(), reader="internlm2")


def is_noted(codec: Codec, messages: list[Message], **options: Any) -> bool:
    """Whether control is said to depend on the text; `error` refuses the same conversations."""
    options = {"on_unsupported": "drop", **options}
    followed = codec.encode(messages, on_dependent="template", **options)
    noted = any(note.kind == "dependent" for note in followed.notes)
    kinds = [note.kind for note in codec.encode(messages, **options).notes]
    assert kinds in ([["dependent"], ["unfollowed"]] if noted else [[]])
    refusal = pytest.raises(MessageError, match="depend") if noted else contextlib.nullcontext()
    with refusal:
        codec.encode(messages, on_dependent="error", **options)
    return noted


def user(content: Any, **more: Any) -> list[Message]:
    return [{"role": "user", "content": content, **more}]


def tool(*names: str, **more: Any) -> list[Message]:
    properties = {name: {"type": "string", **more} for name in names}
    parameters = {"type": "object", "properties": properties, "required": list(names)}
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


IF = "{% if CONDITION %}<|plugin|>{% endif %}"
EACH_TOOL = (
    "{% for t in tools or [] %}{% set ps = t.function.parameters.properties %}BODY{% endfor %}"
)


@pytest.mark.parametrize(
    ("before", "plain", "looked_for"),
    [
        # What a text says: in another case, by its length, as a number, by its words.
        (IF.replace("CONDITION", "'/think' in messages[0].content | lower"), user("Hi"), user("/THINK")),
        (IF.replace("CONDITION", "messages[0].content == 'magic'"), user("Hi"), user("magic")),
        (IF.replace("CONDITION", "messages[0].content | length > 20"), user("Hi"), user("Hi" * 11)),
        (IF.replace("CONDITION", "messages[0].content | int == 5"), user("Hi"), user("5")),
        (IF.replace("CONDITION", "messages[0].content | wordcount > 1"), user("Hi"), user("Hi you")),
        (IF.replace("CONDITION", "messages[0].content | trim"), user(" Hi"), user("  ")),
        (IF.replace("CONDITION", "messages[0].content.isdigit()"), user("Hi"), user("55")),
        (IF.replace("CONDITION", "messages[0].content < 'Z'"), user("hi"), user("Hi")),
        (IF.replace("CONDITION", "messages[0].content.find('x') == 2"), user("Hi"), user("abx")),
        (IF.replace("CONDITION", "'a' in (messages[0].content | list)"), user("Hi"), user("a")),
        ("{% for p in messages[0].content.split('|') %}<|plugin|>{% endfor %}", user("a"), user("a|b")),
        ("{% for p in messages[0].content.splitlines() %}<|plugin|>{% endfor %}", user("a"), user("a\nb")),
        ("{{ messages[0].content | replace('a', '<|plugin|>') }}", user("b"), user("a")),
        ("{{ messages[0].content | indent('<|plugin|>') }}", user("b"), user("a\nb")),
        ("{{ {'magic': '<|plugin|>'}.get(messages[0].content) or '' }}", user("b"), user("magic")),
        ("{{ {'magic': '<|plugin|>'}[messages[0].content] }}", user("b"), user("magic")),
        ("<|plug{{ messages[0].content[3:] }}in|>a", user("much longer text"), user("b")),
        ("{{ '<|plugin|>' * messages[0].content.count('a') }}", user("b"), user("aa")),
        # Numbers, and words that are in no closed set.
        (IF.replace("CONDITION", "messages[0].n > 50"), user("a", n=3), user("a", n=90)),
        (IF.replace("CONDITION", "messages[0].n is divisibleby 7"), user("a", n=3), user("a", n=7)),
        (IF.replace("CONDITION", "messages[0].type == 'magic'"), user("a", type="b"), user("a", type="magic")),
        (IF.replace("CONDITION", "messages[0].role == 'critic'"), user("a"), [{"role": "critic", "content": "a"}]),
        # Two of the caller's texts.
        (IF.replace("CONDITION", "messages[0].content == messages[1].content"), user("a") + user("b"), user("a") * 2),
        (IF.replace("CONDITION", "messages[0] == messages[-1] and messages | length > 1"), user("a") + user("b"), [*user("a"), {"role": "user", "content": "a"}]),
        (IF.replace("CONDITION", "messages | map(attribute='content') | unique | list | length == 1"), user("a") + user("b"), user("a") * 2),
        (IF.replace("CONDITION", "messages[0].content in messages[1].content"), user("a") + user("b"), user("a") + user("bab")),
        ("{% for k, v in messages | groupby('content') %}<|plugin|>{% endfor %}", user("a") + user("b"), user("a") * 2),
        ("{% for m in messages %}{{ '<|plugin|>' if loop.changed(m.content) }}{% endfor %}", user("a") + user("b"), user("a") * 2),
    ],
)  # fmt: skip
def test_what_control_depends_on_is_noted(
    before: str, plain: list[Message], looked_for: list[Message]
) -> None:
    codec = codec_of(before + TURNS)
    assert not is_noted(codec, plain)
    assert is_noted(codec, looked_for)


@pytest.mark.parametrize(
    ("before", "plain", "looked_for"),
    [
        (IF.replace("CONDITION", "persona == 'root'"), {"persona": "me"}, {"persona": "root"}),
        (IF.replace("CONDITION", "budget == 7"), {"budget": 30}, {"budget": 7}),
        (
            "{% for d in documents or [] %}{{ '<|plugin|>' if '[hidden]' in d.text }}{% endfor %}",
            {"documents": [{"text": "a"}]},
            {"documents": [{"text": "[hidden]"}]},
        ),
        (
            "{% for d in documents or [] %}{{ '<|plugin|>' if d.secret }}{% endfor %}",
            {"documents": [{"other": "a"}]},
            {"documents": [{"secret": "a"}]},
        ),
        (EACH_TOOL.replace("BODY", "{{ '<|plugin|>' if 'secret' in ps }}"), {"tools": tool("a")}, {"tools": tool("secret")}),
        (EACH_TOOL.replace("BODY", "{{ '<|plugin|>' if ps.secret }}"), {"tools": tool("a")}, {"tools": tool("secret")}),
        (EACH_TOOL.replace("BODY", "{{ '<|plugin|>' if ps.get('secret') }}"), {"tools": tool("a")}, {"tools": tool("secret")}),
        (EACH_TOOL.replace("BODY", "{% for p in ps %}{{ '<|plugin|>' if p.upper() == 'B' }}{% endfor %}"), {"tools": tool("a")}, {"tools": tool("b")}),
        (EACH_TOOL.replace("BODY", "{{ '<|plugin|>' if (ps | dictsort)[0][0] == 'a' }}"), {"tools": tool("b", "c")}, {"tools": tool("b", "a")}),
        (EACH_TOOL.replace("BODY", "{{ '<|plugin|>' if dict(b=1, **ps) | length == 2 }}"), {"tools": tool("b")}, {"tools": tool("c")}),
        (EACH_TOOL.replace("BODY", "{{ '<|plugin|>' if 'x' in (ps.values() | first).enum }}"), {"tools": tool("b", enum=["a"])}, {"tools": tool("b", enum=["x"])}),
    ],
)  # fmt: skip
def test_variables_documents_and_names_are_looked_at(
    before: str, plain: dict[str, Any], looked_for: dict[str, Any]
) -> None:
    codec = codec_of(before + TURNS)
    noted = {
        name: is_noted(codec, user("Hi"), **given)
        for name, given in (("plain", plain), ("other", looked_for))
    }
    if "length == 2" in before:
        # Equal names of two dicts are one: here that is the plain one.
        noted = {"plain": noted["other"], "other": noted["plain"]}
    assert noted == {"plain": False, "other": True}


@pytest.mark.parametrize(
    ("before", "options"),
    [
        # Structure: how many messages there are, fields, kinds, roles, booleans, words of options.
        (IF.replace("CONDITION", "messages | length > 1 and messages[0].role == 'user'"), {}),
        (IF.replace("CONDITION", "messages[0].content is string and messages[0].content"), {}),
        (IF.replace("CONDITION", "flag and effort == 'high'"), {"flag": True, "effort": "high"}),
        (EACH_TOOL.replace("BODY", "{% for p in ps %}{{ '<|plugin|>' if ps[p].type == 'string' }}{% endfor %}"), {"tools": tool("a")}),
        # Looked at, with the same control whatever it says.
        ("{% if 'a' in messages[0].content %}A{% else %}B{% endif %}", {}),
        ("{{ messages[0].content.split('</think>')[-1] | trim | length }}", {}),
    ],
)  # fmt: skip
def test_structure_is_not_noted(before: str, options: dict[str, Any]) -> None:
    codec = codec_of(before + TURNS)
    for content in ("Hi", "a", "</think>", "\n a\n", "x" * 99):
        assert not is_noted(codec, user(content) + user(content), **options)


def test_the_note_names_what_the_template_looks_at() -> None:
    codec = codec_of("{% if persona == 'root' %}<|plugin|>{% endif %}" + TURNS)
    (note,) = codec.encode(user("Hi"), persona="root").notes
    assert note.text.endswith("it looks at `persona`")
    with pytest.raises(MessageError) as raised:
        codec.encode(user("Hi"), persona="root", on_dependent="error")
    assert raised.value.path == "persona"


needs_templates = pytest.mark.skipif(not PUBLISHED, reason=f"no templates in {FOLDER}")

MISTRAL = "examples_tool_chat_template_mistral.jinja"


@needs_templates
def test_a_text_that_comes_twice_is_noted_where_tools_are_written_again() -> None:
    vocab = Vocab.load(data.DATA / "vocab/mixtral-8x22b/tokenizer.model.v3")
    codec = Codec(Template(text_of(MISTRAL), bos_token="<s>", eos_token="</s>"), vocab)  # noqa: S106
    last = [{"role": "assistant", "content": "ok"}, *user("yes")]
    assert not is_noted(codec, user("no") + last, tools=tool("a"))
    assert is_noted(codec, user("yes") + last, tools=tool("a"))


HOSTILE = [
    "</think>", "<think>", "<THINK>", "</s>", "/no_think", "[TOOL_CALLS]", "a", "a", "\n", "  b\n", "5", "0", "-1", "{}",
    '{"a": 1}', "[1]", "<tool_response>", "<tool_response>x</tool_response>", "user", "system", "text", "string", "null",
    "<|im_end|>", "x" * 50, "<image>", "Question", "tool", "high", "https://a.b/c.png", "data:image/png;base64,AA",
    "call00001", "é", "qxzqxzqxz",
]  # fmt: skip


def with_texts(
    value: Any, chosen: random.Random, key: str = "", looked: tuple[str, ...] = ()
) -> Any:
    """The same value with other texts, names of parameters and numbers."""
    if isinstance(value, str):
        if key in {"role", "type"} or not value:
            return value
        return chosen.choice([*HOSTILE, *looked])
    if isinstance(value, list):
        return [with_texts(item, chosen, key, looked) for item in value]
    if isinstance(value, dict):
        names = key in {"properties", "arguments"}
        return {
            f"{chosen.choice(HOSTILE)}{nth}" if names else name: with_texts(
                item, chosen, "" if names else name, looked
            )
            for nth, (name, item) in enumerate(value.items())
        }
    if type(value) is int:
        return chosen.choice([1, 2, 5, 99]) if value else value
    return value


@functools.cache
def looked_for(source: str) -> tuple[str, ...]:
    """Strings of a template's expressions."""
    tokens = oracle.environment().lex(source)
    found = {text[1:-1] for _, kind, text in tokens if kind == "string"}
    return tuple(sorted(text for text in found if text.strip() and "\\" not in text))


@needs_templates
@pytest.mark.parametrize("name", data.share(PUBLISHED, 2))
def test_control_of_published_templates_is_a_function_of_the_shape_or_noted(
    name: str, tmp_path: Any
) -> None:
    source = text_of(name)
    # With the tokens of a format that is named, so that no other is looked for.
    _, vocab = vocab_of(source + "<|im_start|><|im_end|>", tmp_path)
    codec = Codec(Template(source, **oracle.OWN), vocab, reader="chatml")
    chosen = random.Random(name)
    scenarios = data.share(oracle.SCENARIOS.items(), 3)
    for title, (messages, tools, given) in scenarios:
        options = {name: value for name, value in given.items() if name != "documents"}
        quiet: dict[tuple[int, ...], str] = {}
        for _ in range(40 if data.LONG else 6):
            whole = {"messages": messages, "tools": tools}
            texts = with_texts(whole, chosen, looked=looked_for(source))
            with contextlib.suppress(MessageError, TemplateError, TypeError):
                encoding = codec.encode(texts["messages"], tools=texts["tools"], **options)
                if not encoding.notes:
                    quiet[tuple(control(encoding))] = encoding.text
        assert len(quiet) < 2, (title, list(quiet.values()))


TOOLS_ONLY = (
    "{{ bos_token }}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_a_template_that_needs_tools_makes_a_codec() -> None:
    own = {"bos_token": "<s>", "eos_token": "<|im_end|>"}
    codec = Codec(Template(TOOLS_ONLY, **own), Vocab.embedded())
    assert "writes conversations with tools only" in codec.describe()
    prompt = codec.encode(user("Hi"), tools=tool("a"))
    assert prompt.text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    answer = [*codec.vocab.encode("Hello"), codec.vocab.control["<|im_end|>"]]
    assert codec.parse(answer, prompt).message["content"] == "Hello"
    with pytest.raises(TemplateError, match="iterated"):
        codec.encode(user("Hi"))


def test_a_template_that_needs_a_variable_makes_a_codec() -> None:
    source = "{% for d in documents %}{{ d.text }}{% endfor %}" + TURNS
    codec = Codec(Template(source, eos_token="<|im_end|>"), Vocab.embedded())  # noqa: S106
    assert "the template fails on a question: template, line 1" in codec.describe()
    documents = [{"text": "a"}]
    assert codec.encode(user("Hi"), documents=documents).text.startswith("a<|im_start|>")


def test_a_template_that_refuses_to_be_without_tools_makes_a_codec() -> None:
    source = "{% if not tools %}{{ raise_exception('no tools') }}{% endif %}" + TURNS
    codec = Codec(Template(source, eos_token="<|im_end|>"), Vocab.embedded())  # noqa: S106
    assert "writes conversations with tools only" in codec.describe()
    assert codec.encode(user("Hi"), tools=tool("a")).ids
