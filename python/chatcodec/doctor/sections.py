"""A diagnosis as sections of rows, which the command line and the page show alike."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec.doctor import Diagnosis, ModelFile, Vocabulary
    from chatcodec.doctor.commands import Commands
    from chatcodec.doctor.comparison import Comparison
    from chatcodec.doctor.forgeries import Forgeries
    from chatcodec.proof.found import Found

__all__ = ["Mark", "Row", "Section", "sections"]

Mark: TypeAlias = Literal["", "good", "wrong", "code"]
"""How a row is shown: as it is, as good, as a problem, as a line to copy."""

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """A fact: its name, empty for a line of text, and its value."""

    name: str
    value: str
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under a title."""

    title: str
    rows: tuple[Row, ...]


def sections(diagnosis: Diagnosis) -> list[Section]:
    """Arrange a diagnosis; sections of what was not found are left out."""
    made: list[tuple[str, Iterator[Row]]] = [("files", _files(diagnosis.files))]
    if diagnosis.found is not None:
        made.append(("conversations", _conversations(diagnosis.found, diagnosis.text_boundaries)))
    if diagnosis.vocabulary is not None:
        made.append(("vocabulary", _vocabulary(diagnosis.vocabulary)))
    if diagnosis.comparison is not None:
        title = f"beside transformers {diagnosis.comparison.version}"
        made.append((title, _comparison(diagnosis.comparison)))
    elif diagnosis.not_compared:
        made.append(("beside transformers", iter([Row("not compared", diagnosis.not_compared)])))
    if diagnosis.forgeries is not None:
        made.append(("forged by a caller's text", _forgeries(diagnosis.forgeries)))
    if diagnosis.commands is not None:
        made.append(("to serve it", _commands(diagnosis.commands)))
    problems = tuple(Row("", problem, "wrong") for problem in diagnosis.problems)
    made.append(("problems", iter(problems or [Row("", "none", "good")])))
    arranged = [Section(title, tuple(rows)) for title, rows in made]
    return [section for section in arranged if section.rows]


def _files(files: tuple[ModelFile, ...]) -> Iterator[Row]:
    for file in files:
        yield Row(file.name, _size(file.size))


def _size(count: int) -> str:
    if count < _KIB:
        return f"{count} bytes"
    if count < _KIB * _KIB:
        return f"{count / _KIB:.1f} KiB"
    return f"{count / _KIB / _KIB:.1f} MiB"


def _conversations(found: Found, boundaries: tuple[str, ...]) -> Iterator[Row]:
    for line in found.described:
        yield Row("", line)
    yield Row("stops at", ", ".join(f"{stop.id} {stop.text}" for stop in found.stops))
    prompt = found.generation_prompt
    yield Row("prompt", repr(prompt) if prompt else "nothing")
    if found.unread:
        yield Row("not read", ", ".join(found.unread), "wrong")
    if boundaries:
        yield Row("without control tokens", ", ".join(boundaries), "wrong")


def _vocabulary(vocabulary: Vocabulary) -> Iterator[Row]:
    yield Row("file", vocabulary.kind)
    yield Row("engine", vocabulary.engine)
    if vocabulary.losses:
        yield Row("lossless", f"no: {'; '.join(vocabulary.losses)}", "wrong")
    else:
        yield Row("lossless", "yes", "good")
    yield Row("ids", f"{vocabulary.size:,}")
    yield Row("control tokens", f"{vocabulary.control:,}; `chatcodec vocab` lists them")
    yield Row("written by samples", " ".join(vocabulary.written))
    if vocabulary.text_tokens:
        yield Row("added tokens that are text", f"{vocabulary.text_tokens:,}")


def _comparison(comparison: Comparison) -> Iterator[Row]:
    yield Row("same ids", _counted(comparison.same), "good")
    yield Row("other ids", _named(comparison.different), "wrong" if comparison.different else "")
    yield Row("refused", _named(comparison.refused))
    if comparison.added:
        yield Row("added by the format", _named(comparison.added))
    if (example := comparison.example) is not None:
        yield Row("example", f"{example.conversation}, after {example.position} equal ids")
        yield Row("transformers", example.theirs)
        yield Row("chatcodec", example.ours)


def _counted(names: tuple[str, ...]) -> str:
    return f"{len(names)} conversations" if len(names) != 1 else "1 conversation"


def _named(names: tuple[str, ...]) -> str:
    return f"{_counted(names)}: {'; '.join(names)}" if names else "none"


def _forgeries(forgeries: Forgeries) -> Iterator[Row]:
    yield Row("texts tried", f"{forgeries.tried:,}")
    yield Row("render, then tokenize", *_forged(forgeries.by_string))
    if forgeries.places:
        yield Row("control tokens by place", _places(forgeries.places))
        yield Row("example", f"{forgeries.example}: a control token there, text here")
    yield Row("chatcodec", *_forged(forgeries.here))


def _places(places: dict[str, int]) -> str:
    """Name the places of each number of tokens."""
    by_count: dict[int, list[str]] = {}
    for place, count in places.items():
        by_count.setdefault(count, []).append(place)
    return "; ".join(f"{count} in {', '.join(names)}" for count, names in by_count.items())


def _forged(count: int) -> tuple[str, Mark]:
    return f"{count:,} forge a control token", "wrong" if count else "good"


def _commands(made: Commands) -> Iterator[Row]:
    names = {"vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp", "gateway": "gateway"}
    for field in fields(made):
        if line := getattr(made, field.name):
            yield Row(names[field.name], line, "code")
