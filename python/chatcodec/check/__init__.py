"""A format file checked: by itself, and against the chat template of the model that it is for.

Each conversation of a fixed table is encoded, decoded and streamed by the file; its ids are
compared with those of the template. The command is `chatcodec formats check`.

>>> from chatcodec import Format
>>> from chatcodec.check import check_format
>>> report = check_format(Format.built_in("chatml"))
>>> report.is_fine, report.results[0].status
(True, 'ok')
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatcodec._core import Codec, Format, Template
from chatcodec.check.difference import Difference, Token, first_difference
from chatcodec.check.golden import GoldenCase, golden_problem, read_golden
from chatcodec.check.lines import line_of
from chatcodec.check.reading import misread
from chatcodec.check.scenarios import SCENARIOS, Scenario, spelled, with_options
from chatcodec.check.vocabulary import special_tokens_of, vocabulary_of
from chatcodec.errors import ChatCodecError, FormatError, MessageError, TemplateError, VocabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from chatcodec import Encoding, Vocab

__all__ = [
    "SCENARIOS",
    "Difference",
    "Misreading",
    "Refusal",
    "Report",
    "Result",
    "Scenario",
    "Status",
    "Token",
    "check_file",
    "check_format",
    "line_of",
    "read_golden",
]

Status: TypeAlias = Literal["ok", "alone", "refused", "missing", "differs", "misread"]
"""The outcome of a conversation: all is right; all is right, and the template refuses it; the file
refuses it; the file refuses what the template writes; the template writes other ids; what is read
from the file's ids is not what was written."""

_FAILURES: frozenset[Status] = frozenset({"differs", "misread"})
_RIGHT: frozenset[Status] = frozenset({"ok", "alone"})

_DROPPING = '; `on_unsupported="drop"` leaves it out'
"""What an error says about an option, which a format file does not have."""

_SPELLINGS = 4
"""The number of control tokens that hostile text spells."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one conversation."""

    scenario: str
    """The name of the conversation, or of a golden case."""
    status: Status
    why: str = ""
    """The reason of a refusal, or what was read in place of what."""
    difference: Difference | None = None
    """The first difference from the template."""


@dataclass(frozen=True, slots=True)
class Misreading:
    """A conversation that a refused file would read as another one."""

    text: str
    """The text that the file writes, with control tokens spelled out."""
    expected: tuple[dict[str, Any], ...]
    """The messages that should come back."""
    read: tuple[dict[str, Any], ...]
    """The messages that come back."""
    notices: tuple[str, ...]
    """What a stream does not expect of the text."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a format file was not loaded, or does not fit a vocabulary."""

    problem: str
    """The error's text: the key, what was found, what was expected."""
    key: str
    """The dotted key; empty for the whole file."""
    line: int | None
    """The line of the file that holds the key, from 1."""
    witness: Misreading | None = None
    """A conversation that the file would read as another one, where one was found."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check."""

    format: str
    """The name of the format, or of its file where it was refused."""
    compared: bool
    """Whether a template was compared."""
    refusal: Refusal | None
    results: tuple[Result, ...]

    @property
    def is_fine(self) -> bool:
        """Whether the file was loaded, some conversation is right, and none is wrong."""
        found = {result.status for result in self.results}
        return self.refusal is None and found.isdisjoint(_FAILURES) and bool(found & _RIGHT)

    @property
    def counts(self) -> Counter[Status]:
        """The number of conversations by status."""
        return Counter(result.status for result in self.results)

    def to_json(self) -> str:
        """Return the report as a JSON object in one line."""
        return json.dumps(asdict(self) | {"is_fine": self.is_fine}, ensure_ascii=False)


def check_file(
    path: str | PathLike[str],
    vocab: Vocab | None = None,
    template: Codec | Template | None = None,
    golden: Sequence[GoldenCase] = (),
    *,
    variant: str | None = None,
) -> Report:
    """Load and check a format file, or one of its variants.

    `template` is the codec of the model's own template, or a template without a vocabulary. A file
    that the loader refuses, or that does not fit the vocabulary, gives a report with the refusal.
    Raises `OSError` for a file that cannot be read.
    """
    try:
        format_ = Format.load(path, variant=variant)
        return check_format(format_, vocab, template, golden)
    except (FormatError, VocabError) as error:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        is_format = isinstance(error, FormatError)
        witness = _witness(path, text, vocab, variant) if is_format else None
        refusal = replace(_refusal(error, text, variant), witness=witness)
        return Report(str(path), template is not None, refusal, ())


def check_format(
    format_: Format,
    vocab: Vocab | None = None,
    template: Codec | Template | None = None,
    golden: Sequence[GoldenCase] = (),
) -> Report:
    """Check a format with a vocabulary, by default one of its control tokens and single bytes.

    A template without a vocabulary gets that of the format, and its control tokens `BOS` and
    `EOS` as `bos_token` and `eos_token`. Raises `FormatError` and `VocabError` as `Codec` does.
    """
    vocab = vocabulary_of(format_.text) if vocab is None else vocab
    if isinstance(template, Template):
        own = special_tokens_of(format_.text)
        template = Codec(Template(template.source, **own), vocab)
    codec = Codec(format_, vocab, check_template=False)
    spellings = list(vocab.control)[:_SPELLINGS]
    scenarios = (spelled(scenario, spellings) for scenario in (*SCENARIOS, *with_options(format_)))
    results = [_check(codec, template, scenario) for scenario in scenarios]
    results += _golden(codec, golden)
    return Report(format_.name, template is not None, None, tuple(results))


def _refusal(error: FormatError | VocabError, text: str, variant: str | None) -> Refusal:
    problem = str(error)
    key = error.key if isinstance(error, FormatError) else _lacking(problem, text)
    told = re.search(r" on line (\d+)", problem)
    return Refusal(problem, key, int(told[1]) if told else line_of(text, key, variant))


def _witness(
    path: str | PathLike[str], text: str, vocab: Vocab | None, variant: str | None
) -> Misreading | None:
    """Look for a conversation that a refused file would read as another one."""
    try:
        vocab = vocabulary_of(text) if vocab is None else vocab
        found = Format.witness(path, vocab, variant=variant)
    except (ChatCodecError, tomllib.TOMLDecodeError):
        # The loader refuses the file for another reason than what could be read in two ways.
        return None
    if found is None:
        return None
    return Misreading(found.text, tuple(found.expected), tuple(found.read), tuple(found.notices))


def _lacking(problem: str, text: str) -> str:
    """Return the key of a control token that a vocabulary lacks, by its spelling in the error."""
    for name, spellings in tomllib.loads(text).get("control", {}).items():
        listed = [spellings] if isinstance(spellings, str) else spellings
        if any(f"`{spelling}`" in problem for spelling in listed):
            return f"control.{name}"
    return ""


def _check(codec: Codec, template: Codec | None, scenario: Scenario) -> Result:
    """Check one conversation: by the file alone, then against the template."""
    name = scenario.name
    try:
        encoding = codec.encode(scenario.messages, tools=scenario.tools, **scenario.options)
    except MessageError as error:
        return _refused(error, template, scenario)
    problem = misread(codec, scenario, encoding)
    if problem:
        return Result(name, "misread", problem)
    if template is None:
        return Result(name, "ok")
    expected = _template_ids(template, scenario)
    if isinstance(expected, Exception):
        return Result(name, "alone", f"the template refuses it: {_why(expected)}")
    kept, given = (one.text.count(scenario.hostile) for one in (expected, encoding))
    if scenario.hostile and kept < given:
        return Result(name, "alone", "the template reads control tokens in a text, and changes it")
    keys = codec._keys(scenario.messages, tools=scenario.tools, **scenario.options)  # noqa: SLF001
    difference = first_difference(expected, encoding, keys, scenario.messages)
    return Result(name, "differs" if difference else "ok", difference=difference)


def _template_ids(template: Codec, scenario: Scenario) -> Encoding | ChatCodecError | TypeError:
    """Return what the template writes, or why it writes nothing."""
    try:
        return template.encode(scenario.messages, tools=scenario.tools, **scenario.options)
    except (MessageError, TemplateError, TypeError) as error:
        # A `TypeError`: the template has no variable for an option.
        return error


def _refused(error: MessageError, template: Codec | None, scenario: Scenario) -> Result:
    """Say why the file refuses a conversation, and whether the template writes it."""
    if template is None or isinstance(_template_ids(template, scenario), Exception):
        return Result(scenario.name, "refused", _why(error))
    return Result(scenario.name, "missing", f"the template writes it: {_why(error)}")


def _why(error: ChatCodecError | TypeError) -> str:
    # What follows the colon of a `TypeError` lists options of `Codec.encode`.
    text = str(error).partition(":")[0] if isinstance(error, TypeError) else str(error)
    return text.replace(_DROPPING, "")


def _golden(codec: Codec, cases: Sequence[GoldenCase]) -> Iterator[Result]:
    for case in cases:
        problem = golden_problem(codec, case)
        yield Result(f"golden: {case.name}", "misread" if problem else "ok", problem)
