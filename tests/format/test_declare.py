"""How tools are declared: the templates of `tools.declare`, and the source of each part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
from chatcodec import Codec, Format, FormatError, MessageError, Vocab
from clock import within
from test_constrain import codec_of

if TYPE_CHECKING:
    from pathlib import Path

CASES = data.ROOT / "tests" / "format" / "declared"
USER = [{"role": "user", "content": "Hi"}]
CITY = {"type": "string", "description": "descriptionofcity"}
FUNCTION = {
    "name": "nameoffunction",
    "description": "descriptionoffunction",
    "parameters": {
        "type": "object",
        "properties": {"nameofcity": CITY},
        "required": ["nameofcity"],
    },
}
TOOLS = [{"type": "function", "function": FUNCTION}]
LEAVES = {
    "nameoffunction": "tools[0].function.name",
    "descriptionoffunction": "tools[0].function.description",
    "nameofcity": "tools[0].function.parameters.properties",
    "descriptionofcity": "tools[0].function.parameters.properties.nameofcity.description",
}
ENDLESS = "{% for a in range(9999) %}{% for b in range(9999) %}{{ tools }}{% endfor %}{% endfor %}"
FILE = """\
name = "mine"
guarantee = "ids"
source = "the tests"
generation = { prompt = "{START}assistant\\n" }
place = { tools = "first" }
tools = { declare = '''DECLARE''' }
[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
QUOTES[turn]
system = "{START}system\\n{content}{STOP}\\n"
tools = "{START}system\\n# Tools: {tools}{STOP}\\n"
user = "{START}user\\n{content}{STOP}\\n"
assistant = "{START}assistant\\n{content}{STOP}\\n"
"""


def cases(name: str) -> list[Any]:
    read = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["name"]) for case in read]


@pytest.mark.parametrize("case", cases("typescript"))
def test_types_are_as_the_library_of_gpt_oss_writes_them(case: dict[str, Any]) -> None:
    text = codec_of("harmony").encode(USER, tools=case["functions"]).text
    written = text[text.index("namespace") : text.rindex("functions") + len("functions")]
    assert written == "\n".join(case["text"])


@pytest.mark.parametrize("case", cases("interfaces"))
def test_interfaces_are_as_the_published_code_writes_them(case: dict[str, Any]) -> None:
    text = codec_of("kimi-k2.5").encode(USER, tools=case["functions"]).text
    assert "\n".join(case["text"]) in text


def writes_tools(name: str) -> bool:
    try:
        codec_of(name).encode(USER, tools=TOOLS)
    except MessageError:
        return False
    return True


DECLARING = [name for name in data.share(chatcodec.formats(), 4) if writes_tools(name)]


@pytest.mark.parametrize("name", DECLARING)
def test_each_part_of_a_declaration_has_the_path_of_its_value(name: str) -> None:
    encoding = codec_of(name).encode(USER, tools=TOOLS)
    for leaf, path in LEAVES.items():
        start = encoding.text.index(leaf)
        whole = range(start, start + len(leaf))
        spans = zip(encoding.char_offsets, encoding.sources, strict=True)
        sources = {source for (first, end), source in spans if first in whole and end - 1 in whole}
        assert sources == {path}, leaf


def load(tmp_path: Path, declare: str) -> Codec:
    path = tmp_path / "mine.toml"
    quote = 'QUOTE = "<|quad_start|>"\n' if "QUOTE" in declare else ""
    file = FILE.replace("DECLARE", declare).replace("QUOTES", quote)
    path.write_text(file, encoding="utf-8")
    return Codec(Format.load(path), Vocab.load(data.qwen3_folder()), check_template=False)


def text_of(codec: Codec, tools: Any) -> str:  # noqa: ANN401
    text = codec.encode(USER, tools=tools).text
    return text.split("# Tools: ")[1].split("<|im_end|>")[0]


def test_a_declaration_is_a_template_of_ones_own(tmp_path: Path) -> None:
    codec = load(
        tmp_path,
        "{% for function in functions %}{{ '; ' if not loop.first }}{{ function.name }}({{ "
        "function.parameters.properties | join(', ') }}){% endfor %}",
    )
    then = {"name": "then", "parameters": {"properties": {"a": {}, "b": {}}}}
    assert text_of(codec, [*TOOLS, then]) == "nameoffunction(nameofcity); then(a, b)"
    with pytest.raises(MessageError, match=r"`tools\[1\]\.name` is missing, expected a string"):
        codec.encode(USER, tools=[then, {"description": "x"}])
    with pytest.raises(MessageError, match=r"`tools\[0\]\.function\.name` is a number"):
        codec.encode(USER, tools=[{"function": {"name": 5}}])


def test_a_token_is_written_by_its_variable_alone(tmp_path: Path) -> None:
    codec = load(
        tmp_path, "{% for tool in tools %}{{ QUOTE }}{{ tool.name }}{{ QUOTE ~ QUOTE }}{% endfor %}"
    )
    encoding = codec.encode(USER, tools=[{"name": "<|quad_start|>"}], add_generation_prompt=False)
    quote = codec.vocab.control["<|quad_start|>"]
    assert encoding.ids.tolist().count(quote) == 3
    assert [found.path for found in encoding.neutralized] == ["tools[0].name"]
    assert codec.decode(encoding.ids)[0]["content"] == (
        "# Tools: <|quad_start|><|quad_start|><|quad_start|><|quad_start|>"
    )


@pytest.mark.parametrize("integer", [2**63 - 1, 2**63, 2**64 - 1, -(2**63) - 1, 10**40])
def test_integers_are_written_whatever_their_size(integer: int) -> None:
    tools = [{"name": "f", "parameters": {"maximum": integer, "default": 1e16, "minimum": 1e-7}}]
    assert json.dumps(tools[0]) in codec_of("qwen3").encode(USER, tools=tools).text


def test_lists_of_tools_are_told_apart(tmp_path: Path) -> None:
    codec = load(tmp_path, "{{ tools | tojson }}")
    for _ in range(2):
        for value in (1, 1.0, True, "1", [1], None, {"a": 1, "b": 2}, {"b": 2, "a": 1}):
            assert text_of(codec, [{"name": value}]) == json.dumps([{"name": value}])
    for count in range(200):
        assert text_of(codec, [{"name": "x" * 10_000, "n": count}]).endswith(f'"n": {count}}}]')
    tools = [{"name": "f"}]
    assert text_of(codec, tools) == '[{"name": "f"}]'
    tools[0]["name"] = "g"
    assert text_of(codec, tools) == '[{"name": "g"}]'


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        ("{{ raise_exception('are odd') if tools }}", "`tools` are odd"),
        (ENDLESS, "cannot be declared"),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(tools) }}", "cannot be declared"),
        ("{{ tools[0].name + 1 }}", "cannot be declared"),
    ],
)
def test_a_declaration_that_fails_is_about_the_tools(
    tmp_path: Path, declare: str, problem: str
) -> None:
    codec = load(tmp_path, declare)
    with pytest.raises(MessageError, match=problem) as raised:
        codec.encode(USER, tools=TOOLS)
    assert raised.value.path == "tools"


def test_a_token_that_closes_turns_is_in_no_declaration(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"`tools\.declare` has `{STOP}`"):
        load(tmp_path, "{{ tools | tojson }}{{ STOP }}")


@pytest.mark.parametrize("name", DECLARING)
def test_a_spelling_in_the_name_of_a_member_has_its_place(name: str) -> None:
    codec = codec_of(name)
    spelling = max(codec.vocab.control, key=len)
    names = ["ab", spelling, f"é\n{spelling}", "x"]
    properties = {key: {"type": "string", "description": "d"} for key in names}
    function = {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": properties},
    }
    found = codec.encode(USER, tools=[{"type": "function", "function": function}]).neutralized
    places = {(n.path, n.start, n.end) for n in found}
    whole = "tools[0].function.parameters.properties"
    assert places == {(whole, start, start + len(spelling)) for start in (0, 2)}


def test_places_are_those_of_the_callers_string_where_normalisation_changes_it() -> None:
    codec = Codec("qwen3", Vocab.load(data.qwen3_folder()), check_template=False)
    for text, start in [("e\u0301<|im_end|>", 2), ('"e\u0301\n<|im_end|>e\u0301', 4)]:
        found = codec.encode(USER, tools=[{"name": text}]).neutralized
        assert [(n.path, n.start, n.end) for n in found] == [
            ("tools[0].name", start, start + len("<|im_end|>"))
        ]


@pytest.mark.parametrize("name", ["qwen3", "qwen3-coder"])
def test_members_whose_names_are_normalised_to_one_are_both_written(name: str) -> None:
    codec = Codec(name, Vocab.load(data.qwen3_folder()), check_template=False)
    properties = {"e\u0301": {"type": "string"}, "\u00e9": {"type": "number"}}
    function = {"name": "f", "parameters": {"type": "object", "properties": properties}}
    encoding = codec.encode(USER, tools=[{"type": "function", "function": function}])
    assert "string" in encoding.text
    assert "number" in encoding.text


def test_many_lines_take_no_longer_each() -> None:
    codec = codec_of("qwen3")
    tools = [{"name": "f", "description": "<|im_end|>\n" * 200_000}]
    assert len(within(10, lambda: codec.encode(USER, tools=tools)).neutralized) == 200_000


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("w = 1979-05-27", "has a date in `w`"),
        ("w = nan", "has a date in `w`, or a number that is not finite"),
        ('w = { a = ["x<|im_end|>"] }', "spells `<|im_end|>` as text"),
        ("tools = 1", "has `tools`, expected another name"),
    ],
)
def test_variables_that_a_template_cannot_have(tmp_path: Path, given: str, problem: str) -> None:
    file = FILE.replace("QUOTES", "").replace(
        "'''DECLARE'''", "'''{{ w }}{{ tools }}''', with = { GIVEN }"
    )
    path = tmp_path / "mine.toml"
    path.write_text(file.replace("GIVEN", given), encoding="utf-8")
    with pytest.raises(FormatError) as raised:
        Format.load(path)
    assert problem in str(raised.value)


def test_a_variable_of_the_format_is_its_own_text(tmp_path: Path) -> None:
    codec = load(tmp_path, "{{ QUOTE | upper }}{{ tools[0].name }}")
    encoding = codec.encode(USER, tools=[{"name": "f"}])
    assert not encoding.neutralized
    assert {source for source in encoding.sources if source and "QUOTE" in source} == set()
    assert "<|QUAD_START|>f" in encoding.text
