"""Mistral's calls: every version's format reads those of all, and what models make of them."""

from __future__ import annotations

import itertools

import pytest
from lenient import AFTER, CALL, Case, Said, check

FORMATS = ("mistral", "mistral:v11", "mistral:v13")
TOKENS = ("[ARGS]", "[CALL_ID]", "[/TOOL_CALLS]")
OWN = {
    "mistral": '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]',
    "mistral:v11": '[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{"a": 1}',
    "mistral:v13": '[TOOL_CALLS]f[ARGS]{"a": 1}',
}
READ = {
    "mistral": ('[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]',),
    "mistral:v11": ('[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{"a": 1}',),
    "mistral:v13": ('[TOOL_CALLS]f[ARGS]{"a": 1}', '[TOOL_CALLS]f[ARGS] {"a": 1}'),
}
"""What a format's own pattern reads: white space before arguments means nothing."""
WAYS = (
    *OWN.values(),
    '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]',
    '[TOOL_CALLS]\n[ {"arguments": {"a": 1}, "name": "f"} ]',
    '[TOOL_CALLS]{"name": "f", "arguments": {"a": 1}}',
    '[TOOL_CALLS] {"name": "f", "parameters": {"a": 1}}\n',
    '[TOOL_CALLS] f[ARGS]{"a": 1}',
    '[TOOL_CALLS]f[ARGS] {"a": 1}',
    '[TOOL_CALLS]f{"a": 1}',
    '[TOOL_CALLS] f {"a": 1}',
    '[TOOL_CALLS]\nf\n{"a": 1}',
    '[TOOL_CALLS]f [CALL_ID] abcDEF123 [ARGS] {"a": 1}',
    '[TOOL_CALLS]f[CALL_ID]abcDEF123{"a": 1}',
)
CALLED = ("f", {"a": 1})


def case(format_: str, written: str, said: Said, lacks: tuple[str, ...] = ()) -> Case:
    return Case(format_, written, said, lacks, more=TOKENS)


def lacking(format_: str) -> tuple[str, ...]:
    """What its vocabularies do not have: there it is text."""
    own = OWN[format_]
    return tuple(token for token in TOKENS if token not in own)


@pytest.mark.parametrize("is_lacking", [False, True])
@pytest.mark.parametrize(("format_", "way"), list(itertools.product(FORMATS, WAYS)))
def test_every_version_reads_the_calls_of_all(format_: str, way: str, *, is_lacking: bool) -> None:
    lacks = lacking(format_) if is_lacking else ()
    mended = () if way in READ[format_] else (CALL,)
    ids = ("abcDEF123",) if "[CALL_ID]" in way else ()
    said = Said(calls=(CALLED,), mended=mended, ids=ids)
    check(case(format_, way, said, lacks))
    check(case(format_, way + "</s>", said, lacks))
    before = Said(text="So: ", calls=(CALLED,), mended=mended, ids=ids)
    check(case(format_, "So: " + way, before, lacks))
    closed = Said(calls=(CALLED,), mended=(*mended, AFTER), ids=ids)
    check(case(format_, way + " [/TOOL_CALLS]\n", closed, lacks))


@pytest.mark.parametrize("format_", FORMATS)
def test_several_calls(format_: str) -> None:
    for written in (
        '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]',
        '[TOOL_CALLS] {"name": "f", "arguments": {"a": 1}}; {"name": "g", "arguments": {}}',
        '[TOOL_CALLS] {"name": "f", "arguments": {"a": 1}}\n{"name": "g", "arguments": {}}',
    ):
        calls: tuple[tuple[str, object], ...] = (CALLED, ("g", {}))
        check(case(format_, written, Said(calls=calls, mended=(CALL, CALL))))
    for first, second in itertools.product(WAYS, WAYS):
        mended = (CALL,) * sum(way not in READ[format_] for way in (first, second))
        ids = tuple("abcDEF123" if "[CALL_ID]" in way else None for way in (first, second))
        said = Said(calls=(CALLED, CALLED), mended=mended, ids=ids if any(ids) else ())
        check(case(format_, first + second, said))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("text", [" I called.", " [", "[/TOOL", "[/TOOL_CALL>", "[/TOOL_CALLS]."])
def test_what_follows_a_call_is_text(format_: str, text: str) -> None:
    for way in WAYS:
        mended = () if way in READ[format_] else (CALL,)
        ids = ("abcDEF123",) if "[CALL_ID]" in way else ()
        if text.startswith("[/TOOL_CALLS]"):
            mended = (*mended, AFTER)
        left = text.removeprefix("[/TOOL_CALLS]")
        notices = ("text_after_action: ",)
        said = Said(text=left, calls=(CALLED,), mended=mended, notices=notices, ids=ids)
        check(case(format_, way.strip() + text, said))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    "text", ["no call", " f", "f(a)", "f and g {", '"f" {}', '{"a": 1}', "[1]", "[]", "{{"]
)
def test_what_is_no_call_is_text(format_: str, text: str) -> None:
    notices = ("malformed: [TOOL_CALLS]",)
    written = f"[TOOL_CALLS]{text}"
    said = Said(text=text, notices=notices)
    check(Case(format_, written, said, more=TOKENS, spelled=written))
