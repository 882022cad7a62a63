"""Constraints of codecs of chat templates: what is admitted is what the codec's own reader reads.

Every published template whose calls are read is walked, after a prompt that the template writes.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import data
import pytest
import test_constrain as built_in
import test_derived_readers as derived
import test_template_codec as published
import walks
from chatcodec import Codec, MessageError, events
from chatcodec.errors import ChatCodecError
from test_constrain import CHOICES, WRONG_VALUES, first_wrong, walked

WALKS = 60 if data.LONG else 6
"""Walks for each template and choice."""

TOOLS: list[dict[str, Any]] = json.loads(json.dumps(built_in.TOOLS))
"""Two tools. Some templates write arguments sorted, and members come in the order of the schema."""
for _tool in TOOLS:
    _parameters = _tool["function"]["parameters"]
    _parameters["properties"] = dict(sorted(_parameters["properties"].items()))

ASKED = [{"role": "user", "content": "Go on."}]
ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": "São Paulo", "days": 3, "unit": "C"}),
    ("search", {"exact": False, "query": "a b", "tags": ["x", "y"], "where": {"x": -1.5}}),
]

OPENED = {
    "llama-cpp-deepseek-r1.jinja": "`prompt` opens `<think>`, which",
    "otc-deepseek-r1.jinja": "`prompt` opens `<think>`, which",
}
"""The templates whose prompt begins an answer as their reader does not, and what is said then."""

OTHERWISE = {
    "examples_tool_chat_template_granite.jinja": "calls are spread over lines",
    "rust_src_chat_tests_templates_vllm_examples_tool_chat_template_granite.jinja": (
        "calls are spread over lines"
    ),
    "examples_tool_chat_template_gemma4.jinja": "the opener of a result follows a last call",
    "examples_tool_chat_template_mistral.jinja": "a call has no space before it",
    "examples_mistral_parallel_tool.jinja": "a call has no space before it",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": "its prompt closes reasoning",
    "granite-3.0-instruct.jinja": "calls are passed over",
    "ibm-granite-granite-3.3-2B-Instruct.jinja": "calls are passed over",
}
"""The templates whose own spelling of calls is not admitted; that of the derived format is."""

pytestmark = pytest.mark.skipif(
    not published.PUBLISHED, reason=f"no templates in {published.FOLDER}"
)


@functools.cache
def walker_of(name: str) -> walks.Walker:
    """The walker of a template's codec; skips a template whose calls are not read."""
    codec = derived.codec_of(name)
    found = codec and derived.parts(codec)
    if codec is None or not found or "calls" not in found:
        pytest.skip("its calls are not read")
    if name in OPENED:
        with pytest.raises(MessageError, match=OPENED[name]):
            codec.constrain(tools=TOOLS, prompt=prompt_of(codec))
        pytest.skip("its prompt opens what is not read")
    return walks.Walker(codec)


def prompt_of(codec: Codec) -> list[int]:
    """The prompt of a question."""
    try:
        return codec.encode(ASKED, tools=TOOLS, on_unsupported="drop").ids.tolist()
    except ChatCodecError:
        return codec.encode(ASKED).ids.tolist()  # One template cannot write these tools.


def read(codec: Codec, ids: list[int], prompt: list[int]) -> list[dict[str, Any]]:
    """The calls of a completion, which has nothing odd in it."""
    stream = codec.stream(prompt, tools=TOOLS)
    told = stream.push(ids) + stream.finish()
    odd = [event for event in told if isinstance(event, events.Notice)]
    assert not odd, (odd, codec.vocab.decode(ids))
    parsed = codec.parse(ids, prompt, tools=TOOLS)
    assert not len(parsed.rest)
    calls: list[dict[str, Any]] = parsed.message.get("tool_calls", [])
    return calls


ODD_PROMPTS = {
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
}
"""Templates that prompt otherwise than the format whose part for answers reads them."""


def with_odd_prompts(names: list[str]) -> list[str]:
    """Some published templates, and those with odd prompts."""
    return [name for name in published.PUBLISHED if name in {*names, *ODD_PROMPTS}]


@pytest.mark.parametrize("name", with_odd_prompts(data.share(published.PUBLISHED, 4)))
def test_what_is_admitted_is_read(name: str) -> None:
    walker = walker_of(name)
    codec = walker.codec
    prompt = prompt_of(codec)
    for choice, options in CHOICES.items():
        constraint = codec.constrain(tools=TOOLS, prompt=prompt, **options)
        lark = constraint.lark()
        assert constraint.structural_tag()
        assert constraint.gbnf()
        read_calls = functools.partial(read, codec, prompt=prompt)
        assert walked(walker, lark, choice, WALKS, read_calls), f"no walk of {choice} ended"


def call_of(name: str, arguments: dict[str, Any], *, as_text: bool) -> dict[str, Any]:
    """A call, with arguments as a dict or as JSON text: templates take one or both."""
    given = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
    return {"id": "call00001", "type": "function", "function": {"name": name, "arguments": given}}


def is_odd(codec: Codec, ids: list[int], prompt: list[int]) -> bool:
    """Whether a template writes values otherwise than the derived format, or text after calls."""
    stream = codec.stream(prompt, tools=TOOLS)
    told = stream.push(ids) + stream.finish()
    return any(isinstance(event, events.Notice) for event in told)


def written(codec: Codec, message: dict[str, Any]) -> tuple[list[int], list[int]] | None:
    """A prompt, and the completion that the template writes an answer as; None, if it cannot."""
    for more in ({}, {"reasoning_content": "Hm."}):
        for boundary in ("reference", "isolated"):
            messages = [*ASKED, message | more]
            given = derived.completion(
                codec, messages, tools=TOOLS, boundary=boundary, on_unsupported="drop"
            )
            given = given or after_pair(codec, messages)
            if given is not None:
                prompt, ids = given
                stop = next((at for at, id_ in enumerate(ids) if id_ in codec.stop_ids), len(ids))
                ids = [*ids[: stop + 1], *codec.stop_ids[: stop == len(ids)]]
                return (prompt, ids) if not is_odd(codec, ids, prompt) else None
    return None


def after_pair(codec: Codec, messages: list[dict[str, Any]]) -> tuple[list[int], list[int]] | None:
    """The same where the prompt has two control tokens more than the message: no reasoning."""
    try:
        prompt = codec.encode(messages[:-1], tools=TOOLS, on_unsupported="drop").ids.tolist()
        whole = codec.encode(
            messages, tools=TOOLS, add_generation_prompt=False, on_unsupported="drop"
        ).ids.tolist()
    except ChatCodecError:
        return None
    pairs = enumerate(zip(prompt, whole, strict=False))
    shared = next((at for at, (a, b) in pairs if a != b), len(prompt))
    control = {*codec.vocab.control.values()}
    more = prompt[shared:]
    is_pair = len(more) > 1 and {more[0], more[-1]} <= control
    return (prompt, whole[shared:]) if is_pair else None


def answer(
    codec: Codec, content: str, made: list[tuple[str, dict[str, Any]]]
) -> tuple[list[int], list[int]] | None:
    """A prompt, and an answer with these calls, if the template writes them in either form."""
    for as_text in (False, True):
        calls = [call_of(called, arguments, as_text=as_text) for called, arguments in made]
        message = {"role": "assistant", "content": content}
        given = written(codec, message | ({"tool_calls": calls} if calls else {}))
        if given is not None:
            return given
    return None


@pytest.mark.parametrize("name", with_odd_prompts(data.share(published.PUBLISHED, 4)))
def test_what_the_template_writes_is_admitted(name: str) -> None:
    walker = walker_of(name)
    codec = walker.codec
    if name in OTHERWISE:
        pytest.skip(OTHERWISE[name])
    admitted = 0
    for choice, content, made in [
        ("auto", "Let me look.", []),
        ("none", "Let me look.", []),
        ("one", "", ARGUMENTS[:1]),
        ("named", "", ARGUMENTS[1:]),
        ("auto", "", ARGUMENTS[1:]),
        ("auto", "Let me look.", ARGUMENTS[:1]),
        ("required", "", ARGUMENTS),
    ]:
        given = answer(codec, content, made)
        if given is None:
            continue
        prompt, ids = given
        constraint = codec.constrain(tools=TOOLS, prompt=prompt, **CHOICES[choice])
        lark = constraint.lark(unicode_escapes=True)
        at = walker.refused_at(walker.matcher(lark), ids)
        assert at == len(ids), (choice, codec.vocab.decode(ids[:at]), codec.vocab.decode(ids))
        admitted += bool(made)
    if not admitted:
        pytest.skip("no call of the template follows its prompt, or each is read as mended")


@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3))
def test_what_is_wrong_is_refused_at_its_id(name: str) -> None:
    """Refused is the id with the first byte that no answer has that is admitted."""
    walker = walker_of(name)
    codec = walker.codec
    if name in OTHERWISE:
        pytest.skip(OTHERWISE[name])
    weather = "get_weather"
    pairs = [
        ("another function", ("get_wealth", {"city": "a"}), [{"city": "a"}]),
        *((problem, (weather, wrong), right) for problem, (wrong, right) in WRONG_VALUES.items()),
    ]
    tried = 0
    for problem, call, right in pairs:
        given = answer(codec, "", [call])
        others = [answer(codec, "", [(weather, arguments)]) for arguments in right]
        if given is None or None in others:
            continue
        prompt, ids = given
        called = read(codec, ids, prompt)[0]["function"]
        if problem == "a number for a string" and json.loads(called["arguments"]) == right[0]:
            continue  # Strings have no quotes: it is one.
        tried += 1
        lark = codec.constrain(tools=TOOLS, prompt=prompt, **CHOICES["one"]).lark()
        at = walker.refused_at(walker.matcher(lark), ids)
        expected = first_wrong(codec, ids, [other[1] for other in others if other])
        shown = codec.vocab.decode(ids[:at]), codec.vocab.decode(ids[:expected])
        assert at == expected, (problem, *shown)
    if not tried:
        pytest.skip("no call of the template follows its prompt, or each is read as mended")
    assert tried > 3


@pytest.mark.parametrize("name", data.share(published.PUBLISHED, 3))
def test_a_reader_of_text_has_answers_alone(name: str) -> None:
    """Without calls there is a typed error for them; the rest is constrained."""
    codec = derived.codec_of(name)
    if codec is None or derived.parts(codec) is not None:
        pytest.skip("more than text is read")
    walker = walks.Walker(codec)
    try:
        prompt = codec.encode(ASKED).ids.tolist()
    except ChatCodecError:
        prompt = []  # One template needs more than a question.
    for choice in ("auto", "required"):
        with pytest.raises(MessageError, match="has no calls in"):
            codec.constrain(prompt=prompt, tools=TOOLS, tool_choice=choice)
    stop = codec.stop_ids[0]
    text, answer = ([*codec.vocab.encode(said), stop] for said in ("Hi.", '{"city": "Oslo"}'))
    choices: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"tool_choice": "auto"}, True),
        ({"tools": TOOLS, "tool_choice": "none"}, True),
        ({"response_format": built_in.JSON_SCHEMA}, False),
    ]
    for options, is_text_admitted in choices:
        grammar = walker.matcher(codec.constrain(prompt=prompt, **options).lark())
        assert (walker.refused_at(grammar, text) == len(text)) == is_text_admitted
        assert walker.refused_at(grammar, answer) == len(answer)
        for seed in range(WALKS):
            ids = walker.walk(grammar, seed, [])
            if ids is not None and not is_text_admitted:
                content = codec.parse(ids, prompt).message["content"]
                walks.validate(json.loads(content), built_in.ANSWER)
