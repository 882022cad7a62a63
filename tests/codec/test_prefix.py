"""Whether a longer conversation begins with the ids of the shorter one: `chatcodec.prefix`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from chatcodec.errors import ChatCodecError
from chatcodec.prefix import audit_prefix
from completions import codec_of
from each_codec import each_codec
from test_template_codec import CHATML, made

if TYPE_CHECKING:
    from chatcodec import Codec
    from chatcodec.prefix import Place, PrefixAudit

PROMPT: Place = "prompt to answer"
RESULT: Place = "call to result"
NEXT: Place = "answered turn to next user"
AGAIN: Place = "next user to answer"

KNOWN: list[tuple[str, set[Place]]] = [
    ("internlm2", set()),
    ("granite3", set()),
    ("glm4.5:5.3", set()),
    ("qwen3", {NEXT}),
    ("glm4.5", {NEXT}),
    ("deepseek:r1", {NEXT}),
    ("minimax-m2", {NEXT}),
    ("kimi-k2:thinking", {NEXT}),
    ("kimi-k2.5", {PROMPT, NEXT}),
    ("kimi-k2.5:full", set()),
    # Reasoning stays where tools are declared.
    ("hy3:high", {NEXT}),
]
"""What is known of formats: who drops reasoning, and when."""


@pytest.mark.parametrize(("name", "places"), KNOWN)
def test_known_formats(name: str, places: set[Place]) -> None:
    found = audit_prefix(codec_of(name))
    assert {each.place for each in found.boundaries if each.lost} == places
    assert found.has_reasoning or not places


def test_what_is_lost_is_what_extend_notes() -> None:
    """A boundary without loss is one at which `extend` has nothing to say, and the other way."""
    agreed = 0
    for codec in each_codec(formats_of=5, templates_of=10):
        try:
            found = audit_prefix(codec)
        except ChatCodecError:
            continue
        check(found)
        question = [{"role": "user", "content": "Do I?"}]
        answer = {"role": "assistant", "content": "Yes."}
        if found.has_reasoning:
            answer["reasoning_content"] = "Hm."
        prompt = codec.encode(question)
        whole = codec.encode([*question, answer], add_generation_prompt=False)
        completion = [id_ for id_ in whole.labels(last_only=True) if id_ != -100]
        seen = [*prompt.ids, *completion]
        then = codec.encode([*question, answer, *question])
        is_kept = then.ids.tolist()[: len(seen)] == seen
        if whole.ids.tolist()[: len(prompt)] != prompt.ids.tolist():
            continue
        noted = codec.extend(prompt, completion, question).notes
        assert is_kept or noted
        assert is_kept or found.lost_at(NEXT)
        agreed += 1
    assert agreed > 5


def check(found: PrefixAudit) -> None:
    plain = [PROMPT, NEXT, AGAIN, NEXT]
    called = [PROMPT, RESULT, *plain]
    places = [each.place for each in found.boundaries]
    assert places == [*plain, *(called if found.has_calls else [])]
    assert [each.has_calls for each in found.boundaries].count(False) == len(plain)
    for each in found.boundaries:
        assert 0 <= each.lost <= each.seen
        assert bool(each.was) == bool(each.lost)
    assert found.lost == sum(found.lost_at(place) for place in (PROMPT, RESULT, NEXT, AGAIN))
    record = json.loads(found.to_json())
    assert (record["seen"], record["lost"]) == (found.seen, found.lost)
    assert found.table().count("\n") == len(found.boundaries) + 2


def test_a_table() -> None:
    codec = codec_of("deepseek:r1")
    lines = audit_prefix(codec).table().splitlines()
    assert lines[0].split() == ["sample", "boundary", "ids", "before", "lost", "was", "becomes"]
    assert any("nIt rains, so an umbrella" in line for line in lines[1:-1])
    assert lines[-1].startswith("deepseek:r1: of ")


def test_a_codec_says_so_of_itself(embedded: Codec) -> None:
    assert "does not begin" not in embedded.describe()
    last = codec_of("qwen3").describe().splitlines()[-1]
    assert last.startswith("a longer conversation does not begin with the ids of the shorter one: ")
    assert last.endswith("most from answered turn to next user")
    refuses = "{% if messages | length > 1 %}{{ raise_exception('no') }}{% endif %}" + CHATML
    assert "does not begin" not in made(refuses)[1].describe()
