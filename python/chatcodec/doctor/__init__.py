"""What there is to know of a model before it is served: `chatcodec check MODEL`.

The facts are those of `Codec.describe`, `Codec.unread`, `Codec.audit` and of transformers' own
tokenizer, gathered in one `Diagnosis`. `sections` makes of it what is shown, as text and as a page.

>>> from chatcodec import Codec
>>> from chatcodec.doctor import Origin, diagnose
>>> diagnosis = diagnose(Codec("internlm2", vocab="embedded"), Origin("my-model"))
>>> diagnosis.problems, diagnosis.forgeries.here
((), 0)
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from chatcodec.doctor.commands import Commands, commands
from chatcodec.doctor.comparison import Comparison, compare
from chatcodec.doctor.forgeries import Forgeries, forge
from chatcodec.doctor.samples import written_control
from chatcodec.model_files import found_files
from chatcodec.proof.found import Found, find

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from chatcodec import Codec

__all__ = ["Diagnosis", "ModelFile", "Origin", "Vocabulary", "diagnose", "undiagnosed"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of the model."""

    name: str
    size: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The vocabulary of a codec."""

    kind: str
    """Kind of its file, such as `tokenizer.json`."""
    size: int
    """Number of ids."""
    engine: str
    """`bytes`, `characters` or `tokenizers`, with the reason."""
    losses: tuple[str, ...]
    """Why a text may not come back as it was; empty for a lossless vocabulary."""
    control: int
    """Number of spellings of control tokens."""
    written: tuple[str, ...]
    """Control tokens that sample conversations have."""
    text_tokens: int
    """Number of added tokens that are ordinary text."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The facts about a model, and what is wrong."""

    model: str
    files: tuple[ModelFile, ...]
    found: Found | None
    """Who writes and who reads, what each passes over, and what stops the model; None where the
    model cannot be used."""
    text_boundaries: tuple[str, ...]
    """Boundaries of turns without a control token: a caller's text can spell them."""
    vocabulary: Vocabulary | None
    comparison: Comparison | None
    """The ids beside those of transformers; None where they were not compared."""
    not_compared: str
    """Why they were not compared; empty where they were, or nobody asked for it."""
    forgeries: Forgeries | None
    commands: Commands | None
    """Command lines for engines; None for a codec without a model's name."""
    problems: tuple[str, ...]
    """What breaks a promise, and what to do; empty for a model that is fine."""

    def to_json(self) -> str:
        """Return all of it as a JSON object in one line."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a codec was loaded from."""

    model: str
    """Name of the model in what is shown."""
    folder: Path | None = None
    """The model's folder or GGUF file; None for a vocabulary without a model."""
    format_name: str | None = None
    """The format that was named in place of the template's."""

    def files(self) -> tuple[ModelFile, ...]:
        """List the files of the model."""
        if self.folder is None:
            return ()
        root = self.folder.parent if self.folder.is_file() else self.folder
        return tuple(
            ModelFile(file.relative_to(root).as_posix(), file.stat().st_size)
            for file in found_files(self.folder)
        )


def diagnose(
    codec: Codec,
    origin: Origin,
    tokenizer: Any = None,  # noqa: ANN401
    not_compared: str = "",
) -> Diagnosis:
    """Examine a codec.

    `tokenizer` is the model's own, of transformers, and `not_compared` says why there is none.
    """
    found = find(codec)
    comparison = None if tokenizer is None else compare(codec, tokenizer)
    forgeries = forge(codec)
    vocabulary = _vocabulary(codec)
    boundaries = tuple(codec.text_boundaries)
    return Diagnosis(
        model=origin.model,
        files=origin.files(),
        found=found,
        text_boundaries=boundaries,
        vocabulary=vocabulary,
        comparison=comparison,
        not_compared=not_compared,
        forgeries=forgeries,
        commands=commands(origin.model, origin.format_name) if origin.folder else None,
        problems=tuple(_problems(found, boundaries, vocabulary, comparison, forgeries)),
    )


def undiagnosed(origin: Origin, problem: str) -> Diagnosis:
    """Make the diagnosis of a model that cannot be used: its files, and why not."""
    return Diagnosis(
        model=origin.model,
        files=origin.files(),
        found=None,
        text_boundaries=(),
        vocabulary=None,
        comparison=None,
        not_compared="",
        forgeries=None,
        commands=None,
        problems=(problem,),
    )


def _vocabulary(codec: Codec) -> Vocabulary:
    vocab = codec.vocab
    report = vocab.report
    return Vocabulary(
        kind=vocab.kind,
        size=vocab.size,
        engine=f"{report.engine}: {report.engine_reason}",
        losses=() if vocab.lossless else tuple(report.losses),
        control=len(vocab.control),
        written=written_control(codec),
        text_tokens=len(vocab.text_tokens),
    )


def _problems(
    found: Found,
    boundaries: tuple[str, ...],
    vocabulary: Vocabulary,
    comparison: Comparison | None,
    forgeries: Forgeries,
) -> list[str]:
    problems = []
    if forgeries.here:
        problems.append(f"{forgeries.here} texts forge a control token in this codec: report them")
    if comparison is not None and comparison.different:
        count = len(comparison.different)
        problems.append(
            f"ids differ from those of transformers in {count} of {comparison.compared} "
            f"conversations{comparison.reason and ': '}{comparison.reason}"
        )
    if found.unread:
        problems.append(
            f"nobody reads {' and '.join(found.unread)}, which the template writes: "
            "`chatcodec derive` shows an example; name a format by `--format`"
        )
    if boundaries:
        problems.append(
            f"turns are told apart by text ({', '.join(boundaries)}): a caller's text can spell "
            "a turn. Refuse such texts, or use a model with control tokens"
        )
    if vocabulary.losses:
        problems.append(f"texts may not come back as they were: {'; '.join(vocabulary.losses)}")
    return problems
