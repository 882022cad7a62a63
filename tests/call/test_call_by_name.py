"""Calls whose name is the only key of an object: `arguments = "{name}"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chatcodec import Codec, Format, Vocab
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
name = "by-name"
guarantee = "ids"
source = "the tests"
generation = { prompt = "{START}assistant\\n" }
calls = { open = "{CALLS}[", between = ", ", close = "]{CALLS_END}" }
[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
CALLS = "<|calls|>"
CALLS_END = "<|calls_end|>"
[turn]
user = "{START}user\\n{content}{STOP}\\n"
assistant = "{START}assistant\\n{content}{?calls:{calls}?}{STOP}\\n"
[call.function]
item = "{call}"
object = { arguments = "{name}" }
"""
FIRST = Vocab.embedded().size
ALONE = FILE.replace('item = "{call}"', 'item = "{CALLS}{call}{CALLS_END}"').replace(
    'calls = { open = "{CALLS}[", between = ", ", close = "]{CALLS_END}" }\n', ""
)


@pytest.fixture(scope="module", params=[FILE, ALONE], ids=["list", "alone"])
def codec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Codec:
    path: Path = tmp_path_factory.mktemp("format") / "by-name.toml"
    path.write_text(request.param)
    spellings = ("<|im_start|>", "<|im_end|>", "<|calls|>", "<|calls_end|>")
    tokens = {spelling: FIRST + nth for nth, spelling in enumerate(spellings)}
    model = "rust/vocab/src/vocab/embedded.model"
    return Codec(Format.load(path), Vocab.load(model, special_tokens=tokens))


def calling(*calls: tuple[str, str]) -> list[dict[str, Any]]:
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    written = [
        {"id": f"call_{nth}", "type": "function", "function": function}
        for nth, function in enumerate(functions)
    ]
    return [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": written},
    ]


def test_the_name_is_the_key(codec: Codec) -> None:
    messages = calling(("f", '{"a": {"f": 1}}'), ("g", "{}"))
    encoding = codec.encode(messages, add_generation_prompt=False)
    assert '{"f": {"a": {"f": 1}}}' in encoding.text
    assert '{"g": {}}' in encoding.text
    assert codec.decode(encoding) == messages


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
    | st.sampled_from(["name", "arguments", '"', "\\", "{name}", "<|calls_end|>", "é\n"])
)
def test_any_name_comes_back_from_any_split(codec: Codec, name: str) -> None:
    messages = calling((name, '{"a": "x"}'), (name, "{}"))
    encoding = codec.encode(messages, add_generation_prompt=False)
    decoded = codec.decode(encoding)
    assert decoded == codec.canonical(messages)
    prompt = codec.encode(messages[:1])
    answer = encoding.ids.tolist()[len(prompt.ids) :]
    whole = codec.stream(prompt=prompt)
    events = [*whole.push(answer), *whole.finish()]
    single = codec.stream(prompt=prompt)
    parts = [event for token in answer for event in single.push([token])] + single.finish()
    assert joined(parts) == joined(events)


def joined(events: list[Any]) -> list[tuple[str, ...]]:
    """Kinds and texts, with neighbours of one kind together."""
    out: list[tuple[str, ...]] = []
    for event in events:
        kind, text = type(event).__name__, getattr(event, "text", None)
        if text is not None and out and out[-1][0] == kind:
            out[-1] = (kind, out[-1][1] + text)
        else:
            out.append((kind, text if text is not None else repr(getattr(event, "name", ""))))
    return out


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('{"f": {"a": 1}}', "f", '{"a": 1}'),
        ('{ "f" :  {"a": 1} }', "f", '{"a": 1}'),
        ('{"name": "f"}', "name", '"f"'),
        ('{"f": [1]}', "f", "[1]"),
        ('{"f": {"a": 1}, "g": {}}', "f", '{"a": 1}'),
    ],
)
def test_what_a_model_writes(codec: Codec, text: str, name: str, arguments: str) -> None:
    control = codec.vocab.control
    is_list = "[" in (codec.format.text.partition("calls = ")[2].partition("\n")[0])
    inside = codec.vocab.encode(f"[{text}]" if is_list else text)
    answer = [control["<|calls|>"], *inside, control["<|calls_end|>"], control["<|im_end|>"]]
    prompt = codec.encode([{"role": "user", "content": "Hi"}])
    (call,) = codec.parse(answer, prompt=prompt).message["tool_calls"]
    assert call["function"] == {"name": name, "arguments": arguments}


def test_a_constraint_names_the_function(codec: Codec) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    assert '{\\"f\\": ' in codec.constrain(tools=tools, tool_choice="required").lark()
