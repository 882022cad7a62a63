"""Loading of the files and models named by the arguments, before the first line is read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec import Codec, Format, Template, Vocab, formats
from chatcodec.errors import ChatCodecError, MessageError
from chatcodec.named import EMBEDDED, Named
from chatcodec.reference import TokenizerError, load_tokenizer, transformers_version

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

__all__ = [
    "MODEL",
    "UsageError",
    "check_files",
    "is_template",
    "load_codec",
    "load_model_format",
    "load_options",
    "load_sanitizing",
    "load_template_codec",
    "load_tools",
    "load_vocab",
    "model_of",
    "named_by",
    "usage_errors",
]

MODEL = "CHATCODEC_MODEL"
"""Environment variable with the model where the arguments name none."""

_NO_MODEL = (
    "needs a model, expected `--model NAME|DIR|FILE.gguf` or the variable CHATCODEC_MODEL, or "
    f"`--vocab FILE|DIR`; `--vocab {EMBEDDED}` is in the package for trying things out, and its "
    "ids are no model's"
)

_SANITIZES = (5, 20)
"""The first version of transformers with `sanitize_control_tokens`."""


class UsageError(Exception):
    """Invalid arguments; the message has the reason."""


def check_files(paths: Sequence[str]) -> None:
    """Refuse to begin if a file is missing."""
    for path in paths or ["-"]:
        if path == "-":
            if sys.stdin is None:
                raise UsageError("standard input is closed")
        elif Path(path).is_dir():
            raise UsageError(f"{path}: is a directory")
        elif not Path(path).exists():
            raise UsageError(f"{path}: no such file")
        elif not os.access(path, os.R_OK):
            raise UsageError(f"{path}: permission denied")


def model_of(args: Namespace) -> str | None:
    """Give the model that the arguments name, or else the environment; None for a vocabulary.

    Raises `UsageError` for two of them, and for a name that is a format's.
    """
    given = _given_models(args)
    if len(given) > 1:
        raise UsageError("--model: is given beside MODEL, expected one of them")
    if getattr(args, "vocab", None) is not None:
        if given:
            raise UsageError("a vocabulary is given beside a model, expected one of them")
        return None
    model = given[0] if given else os.environ.get(MODEL) or None
    if model in formats() and not Path(model).exists():
        why = f"{model}: is a built-in format, expected a model's folder, GGUF file or name"
        if hasattr(args, "format"):
            why += f"; for the format: `--format {model} --vocab FILE|DIR`"
        raise UsageError(why)
    return model


def _given_models(args: Namespace) -> list[str]:
    return [name for name in (getattr(args, "named", None), args.model) if name is not None]


def named_by(args: Namespace) -> Named:
    """Read the names of a codec from the arguments. Raises `UsageError`."""
    format_, vocab = (getattr(args, name, None) for name in ("format", "vocab"))
    named = Named(model_of(args), format_, vocab)
    if named.model is None and vocab is None:
        raise UsageError(_NO_MODEL)
    return named


def load_codec(args: Namespace) -> Codec:
    """Load the codec that the arguments of any command name. Raises `UsageError`."""
    named = named_by(args)
    with _errors_of_model(args, named.model):
        return named.codec()


@contextlib.contextmanager
def _errors_of_model(args: Namespace, model: str | None) -> Iterator[None]:
    """Turn an error of loading into one of the arguments, or of the environment."""
    try:
        with usage_errors():
            yield
    except (UsageError, ImportError) as error:
        why = f"{model}: {error}" if isinstance(error, ImportError) else str(error)
        if model is not None and not _given_models(args):
            why += f" (the model is named by the variable {MODEL})"
        raise UsageError(why) from error


def load_sanitizing(model: str) -> Any:  # noqa: ANN401
    """Load a model's tokenizer of transformers with `sanitize_control_tokens`; None without one."""
    version = transformers_version()
    numbers = re.findall(r"\d+", version)[:2]
    if not version or tuple(map(int, numbers)) < _SANITIZES:
        return None
    try:
        return load_tokenizer(model)
    except TokenizerError as error:
        sys.stderr.write(f"{model}: without transformers, which does not load it: {error}\n")
        return None


def is_template(path: Path) -> bool:
    """Whether a path names a file with a chat template alone."""
    return not path.is_dir() and path.suffix.lower() in {".jinja", ".jinja2", ".j2"}


def load_template_codec(args: Namespace, model: str) -> Codec:
    """Load the codec of a model, or of the template in a file."""
    path = Path(model)
    with usage_errors():
        if is_template(path):
            check_files([model])
            if args.vocab is None:
                raise UsageError(
                    f"{path}: needs the model's vocabulary, expected `--vocab FILE|DIR`; "
                    f"`--vocab {EMBEDDED}` tries the template without one"
                )
            return Codec(Template.load(path), args.vocab)
    args.model = model
    return load_codec(args)


def load_model_format(name: str) -> Format:
    """Load the built-in format of a model, by the model's name."""
    with usage_errors():
        return Format.for_model(name)


def load_vocab(args: Namespace) -> Vocab:
    """Load the vocabulary of a model, a file or a folder, with the options of the arguments."""
    options = {
        "text_tokens": args.text_tokens,
        "special_tokens": dict(args.special_tokens),
        "pattern": args.pattern,
    }
    model = model_of(args)
    if args.vocab == EMBEDDED:
        if any(options.values()):
            raise UsageError("the embedded vocabulary takes no options; expected another")
        return Vocab.embedded()
    with _errors_of_model(args, model):
        if model is not None:
            return Vocab.from_pretrained(model, **options)
        if args.vocab is None:
            raise UsageError(
                "needs a vocabulary, expected FILE|DIR, `--model NAME|DIR|FILE.gguf` or the "
                f"variable {MODEL}; `{EMBEDDED}` is in the package for trying things out"
            )
        return Vocab.load(args.vocab, **options)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn an error of loading into an error of the arguments."""
    try:
        yield
    except ChatCodecError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        # A connection that fails has no file, and a message of its own.
        why = str(error)
        if error.filename is not None:
            why = f"{error.filename}: {(error.strerror or why).lower()}"
        raise UsageError(why) from error


def load_tools(path: str | None, codec: Codec) -> Any:  # noqa: ANN401 (a JSON value: the codec checks it)
    """Load the tools of `--tools`, a JSON file, and check that the format can write them."""
    if path is None:
        return None
    try:
        tools = json.loads(Path(path).read_text("utf-8-sig"))
        codec.encode([], tools=tools)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except MessageError as error:
        if error.path.startswith("tools"):
            raise UsageError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not JSON: {error}") from error
    return tools


def load_options(args: Namespace) -> dict[str, Any]:
    """Gather the options of `Codec.encode` from the arguments."""
    if args.continue_final and args.add_generation_prompt:
        raise UsageError("--continue-final and --generation-prompt: expected one of them")
    if args.continue_final and args.stop_final:
        raise UsageError("--continue-final and --stop-final: expected one of them")
    switches = ("add_generation_prompt", "continue_final", "stop_final")
    words = ("boundary", "on_marker", "on_arguments", "unknown", "on_unsupported")
    options = {name: getattr(args, name) for name in (*switches, *words)}
    return options if args.markup is None else {**options, "markup": args.markup}
