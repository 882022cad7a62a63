"""The arguments shared by commands, and the parser built from the table of commands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from chatcodec import __version__
from chatcodec.cli.loading import MODEL, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.cli.commands import Command

__all__ = [
    "add_audit",
    "add_codec",
    "add_completion",
    "add_derive",
    "add_doctor",
    "add_encode",
    "add_files",
    "add_formats",
    "add_inspect",
    "add_model",
    "add_options",
    "add_prepare",
    "add_results",
    "add_studio",
    "add_trajectories",
    "add_vocab",
    "build_parser",
]

_EPILOG = """\
environment: CHATCODEC_MODEL names the model where no `--model` is given

exit status: 0 all lines fine, 1 some line failed, 2 wrong arguments or files

A line that fails is named on standard error with the reason, and {"error": …, "line": n} stands in
its place. Lines that are empty stay empty: output line n answers input line n."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, for `main` to print."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def build_parser(commands: Sequence[Command]) -> Parser:
    """Build the parser of `chatcodec` and of each command."""
    parser = Parser(
        prog="chatcodec",
        description="Chat messages to token ids and back, a JSON value a line.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"chatcodec {__version__}")
    group = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in commands:
        examples = "\n".join(f"  {example}" for example in command.examples)
        child = group.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary}\n\n{command.details}".rstrip(),
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for add in command.arguments:
            add(child)
        child.set_defaults(run=command.run)
    return parser


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the files that lines are read from."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files to read; `-`, or none, is standard input"
    )
    parser.add_argument(
        "--document",
        action="store_true",
        help="a file is one JSON value over several lines, not a value a line",
    )


def add_codec(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a codec: a model, or a format and a vocabulary."""
    add_model(parser)
    parser.add_argument(
        "--format",
        metavar="NAME|FILE.toml",
        help="a built-in chat format (see `chatcodec formats`), or a file (default: what the "
        "model's template writes; internlm2 with `--vocab`)",
    )
    parser.add_argument(
        "--vocab",
        metavar="FILE|DIR",
        help="a vocabulary without a model, such as tokenizer.model; `embedded` is one in the "
        "package, to try things out",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a model."""
    parser.add_argument(
        "--model",
        metavar="NAME|DIR|FILE.gguf",
        help=f"a model: its name on the hub, folder or GGUF file (default: the variable {MODEL})",
    )


def add_encode(parser: argparse.ArgumentParser) -> None:
    """Add the options of `Codec.encode`. Options of a line take precedence."""
    parser.add_argument(
        "--tools", metavar="FILE", help="JSON: the tools of every line that has none of its own"
    )
    add_options(parser)
    parser.add_argument(
        "--schema",
        choices=("messages", "sharegpt"),
        default="messages",
        help="what a line has: messages, or conversations of ShareGPT (default: %(default)s)",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for writing conversations."""
    parser.add_argument(
        "--generation-prompt",
        dest="add_generation_prompt",
        action=argparse.BooleanOptionalAction,
        help="open an assistant's turn at the end (default: unless the last message is one)",
    )
    parser.add_argument(
        "--continue-final", action="store_true", help="leave the last assistant's turn open"
    )
    parser.add_argument(
        "--stop-final",
        action="store_true",
        help="for training: end the last assistant's turn with an id that stops the model",
    )
    parser.add_argument(
        "--boundary",
        choices=("reference", "isolated"),
        default="reference",
        help="isolated: encode what a model generates by itself (default: %(default)s)",
    )
    parser.add_argument(
        "--on-marker",
        choices=("report", "error", "break"),
        default="report",
        help="markers in text, of formats whose markers are text (default: %(default)s)",
    )
    parser.add_argument(
        "--on-arguments",
        choices=("error", "string"),
        default="error",
        help="arguments that are no JSON: refuse, or write as a string (default: %(default)s)",
    )
    parser.add_argument(
        "--unknown",
        choices=("error", "ignore"),
        default="ignore",
        help="keys that no client sends, and other columns of a line (default: %(default)s)",
    )
    parser.add_argument(
        "--on-unsupported",
        choices=("error", "drop"),
        default="error",
        help="parts of messages that the format cannot write (default: %(default)s)",
    )
    parser.add_argument(
        "--markup",
        choices=("text", "parse", "error"),
        help="reasoning and calls that are spelled in an assistant's content: ordinary text, read "
        "into fields of their own, or refused (default: text; error where labels are made)",
    )


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the options for further output of `encode`."""
    parser.add_argument("--text", action="store_true", help='add "text", as a template writes it')
    parser.add_argument(
        "--labels", action="store_true", help='add "labels": what to train on, -100 elsewhere'
    )
    parser.add_argument("--count", action="store_true", help='only "count", the number of ids')
    parser.add_argument(
        "--masks",
        action="store_true",
        help='add "is_control", "is_content", "assistant_mask", "message_indices", one item per id',
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help='add "neutralized" and "collisions", control spellings and markers in the text, '
        'and "dropped", what was left out',
    )
    parser.add_argument(
        "--threads", type=_positive, metavar="N", help="threads to encode on (default: all cores)"
    )


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading a completion."""
    parser.add_argument(
        "--push",
        type=_positive,
        default=1,
        metavar="N",
        help="push N ids, or characters of a text, at a time (default: %(default)s, as a model "
        "gives them)",
    )
    parser.add_argument(
        "--reason",
        choices=("stop", "length", "cancelled"),
        default="stop",
        help="why the completion ends (default: %(default)s)",
    )
    _add_html(parser)


def _add_html(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--html", action="store_true", help="write one page of HTML for all lines, for a browser"
    )


def add_studio(parser: argparse.ArgumentParser) -> None:
    """Add the vocabularies that `studio` offers, and its port."""
    parser.add_argument(
        "paths", nargs="*", metavar="FILE|DIR", help="vocabularies, or folders of models"
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=8765,
        metavar="N",
        help="port on 127.0.0.1; 0 is a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--gateway",
        metavar="URL",
        help="a running gateway: the page sends it the conversation on request, and shows the "
        "stream; CHATCODEC_SERVER_KEY is its key (default: none)",
    )


def add_inspect(parser: argparse.ArgumentParser) -> None:
    """Add the options for showing tokens."""
    _add_html(parser)
    parser.add_argument("--ids", action="store_true", help="show the ids under their text")
    parser.add_argument(
        "--plain", action="store_true", help="a line is a user's message as raw text, not JSON"
    )
    _add_color(parser)
    parser.add_argument(
        "--width", type=_positive, metavar="N", help="columns to wrap at (default: the terminal's)"
    )


def _add_color(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto: on terminals; NO_COLOR and FORCE_COLOR are respected (default: %(default)s)",
    )


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add the model of `audit`, and the form of the result."""
    parser.add_argument(
        "named",
        nargs="?",
        metavar="MODEL",
        help="what `--model` names",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="all findings as a JSON object")
    shown.add_argument("--html", action="store_true", help="one page with heat maps, for a browser")
    parser.add_argument(
        "--server",
        metavar="URL",
        help="a running server of the model, such as http://127.0.0.1:8000: try its prompts; "
        "CHATCODEC_SERVER_KEY is its key. Ask its owner first",
    )
    parser.add_argument(
        "--attacks",
        metavar="FILE",
        help="with --server: your own texts, too, one a line, or JSON objects with `text`, `name` "
        "and `place`",
    )
    parser.add_argument(
        "--fail-on",
        choices=("different", "forged"),
        help="with --server: what exit status 1 is for: forged, a text that became control; "
        "different, also a server whose prompts are not the codec's (default: different)",
    )
    parser.add_argument("--junit", metavar="FILE", help="write the findings as JUnit's XML, too")
    parser.add_argument("--sarif", metavar="FILE", help="write the forgeries as SARIF, too")
    parser.add_argument(
        "--prefix",
        action="store_true",
        help="whether a longer conversation begins with the ids of the shorter one, and how many "
        "ids of a sample are lost where it does not",
    )
    parser.add_argument(
        "--no-transformers",
        action="store_true",
        help="leave out the column of transformers' own `sanitize_control_tokens`, which a model's "
        "audit has where transformers 5.20 or newer is installed",
    )


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the model of `check`, and the form of the result."""
    parser.add_argument("named", nargs="?", metavar="MODEL", help="what `--model` names")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="all facts as a JSON object")
    shown.add_argument("--html", action="store_true", help="one page, for a browser")
    parser.add_argument(
        "--no-transformers",
        action="store_true",
        help="do not compare the ids with those of transformers, where it is installed",
    )
    _add_color(parser)


def add_trajectories(parser: argparse.ArgumentParser) -> None:
    """Add the file of a memory, and the file to write."""
    parser.add_argument("memory", metavar="FILE", help="what `chatcodec serve --memory-file` made")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the Parquet file to write"
    )
    parser.add_argument(
        "--columns",
        choices=("chatcodec", "verl", "trl", "renderers"),
        default="chatcodec",
        help="whose names the columns have (default: %(default)s)",
    )
    parser.add_argument(
        "--key", metavar="NAME", help="of the client with this name of a key alone (default: all)"
    )


def add_derive(parser: argparse.ArgumentParser) -> None:
    """Add the model of `derive`, the conversations that are tried, and the files to write."""
    parser.add_argument(
        "named",
        nargs="?",
        metavar="MODEL",
        help="what `--model` names; or a file with a chat template alone, with --vocab",
    )
    parser.add_argument(
        "--count",
        type=_positive,
        default=1000,
        metavar="N",
        help="random conversations, of all parts together (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="what the conversations are made from (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="all of it as a JSON object")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.toml",
        help="write the turns of the template as a format file, if there is one that is exact",
    )
    parser.add_argument(
        "--response-template",
        metavar="FILE.json",
        help="write what reads the model as a `response_template` of tokenizer_config.json",
    )
    _add_color(parser)


def add_prepare(parser: argparse.ArgumentParser) -> None:
    """Add the input, output and options of `prepare`."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="IN",
        help="files, folders, patterns: .jsonl, .ndjson, .json, also .gz or .zst, .parquet, .arrow",
    )
    parser.add_argument("output", metavar="OUT", help="a new folder, or one to go on with")
    parser.add_argument("--labels", action="store_true", help="add the column `labels`")
    parser.add_argument(
        "--columns",
        type=_names,
        default=("input_ids",),
        metavar="NAME,…",
        help="new columns: input_ids, labels, attention_mask, position_ids, message_indices, "
        "length, roles, neutralized (default: input_ids)",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="a column of the input to keep; may be repeated",
    )
    parser.add_argument(
        "--messages",
        metavar="NAME",
        help="the column of messages (default: messages, conversations, prompt and completion, "
        "or instruction and output: what a file has)",
    )
    parser.add_argument(
        "--max-length", type=_positive, metavar="N", help="most ids of a conversation"
    )
    parser.add_argument(
        "--on-long",
        choices=("error", "drop", "oldest", "cut"),
        default="error",
        help="longer conversations: reject them, leave them out, leave out their oldest turns, "
        "or cut their ids (default: %(default)s)",
    )
    parser.add_argument(
        "--pack",
        type=_positive,
        metavar="N",
        help="pack conversations into rows of at most N ids, with position_ids and "
        "sequence_lengths",
    )
    parser.add_argument(
        "--shards",
        type=_positive,
        metavar="N",
        help="files to write (default: as many as hold 50 million ids each)",
    )
    parser.add_argument(
        "--to", choices=("parquet", "arrow"), default="parquet", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--threads", type=_positive, metavar="N", help="threads to encode on (default: all cores)"
    )
    parser.add_argument(
        "--restart", action="store_true", help="delete what an earlier run wrote to OUT, and begin"
    )
    parser.add_argument(
        "--html", action="store_true", help="write the report as a page, too: OUT/_report.html"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def add_formats(parser: argparse.ArgumentParser) -> None:
    """Add how `formats` lists them, and what it does with a format file."""
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument(
        "--for", dest="model", metavar="MODEL_NAME", help="the format of this model alone"
    )
    actions = parser.add_subparsers(title="format files", dest="action")
    examples = (
        "chatcodec formats check mychat.toml",
        "chatcodec formats check mychat.toml --model ./model --watch",
    )
    _add_check(_action(actions, "check", "check a format file, alone or against a model's template",
                       _CHECK, examples))  # fmt: skip


_CHECK = """\
Conversations of all shapes are encoded, decoded and streamed by the file. With a model, their ids
are compared with those of the model's chat template: the first difference is shown, and the key of
the file that writes there. Without one, the vocabulary has the file's control tokens and single
bytes. `chatcodec derive MODEL -o FILE` begins a file.

  ok       right; with a model: the template's ids
  refused  the format has no place for a part of the conversation, which is no failure
  missing  the same, and the template writes it
  alone    right by itself; the template refuses the conversation
  differs  the template writes other ids
  misread  what is read from the ids is not what was written

The exit status is 1 if the file is refused, or a conversation differs or is misread."""


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    details: str,
    examples: Sequence[str],
) -> argparse.ArgumentParser:
    lines = "\n".join(f"  {example}" for example in examples)
    return actions.add_parser(
        name,
        help=summary,
        description=f"{summary}\n\n{details}",
        epilog=f"examples:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the format file")
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the model whose template is compared: its name on the hub, folder or GGUF file; or a "
        f"file with the template (default: the variable {MODEL})",
    )
    parser.add_argument(
        "--vocab", metavar="FILE|DIR", help="a vocabulary without a model, or `embedded`"
    )
    parser.add_argument("--variant", metavar="NAME", help="a variant of the file, `[variant.NAME]`")
    parser.add_argument(
        "--golden",
        metavar="FILE.json",
        help="cases to encode, read and stream beside: lists `encode`, `read` and `stream`",
    )
    parser.add_argument(
        "--watch", action="store_true", help="check again whenever FILE changes; Ctrl+C ends it"
    )
    parser.add_argument("--json", action="store_true", help="the report as a JSON object")
    _add_color(parser)


def add_vocab(parser: argparse.ArgumentParser) -> None:
    """Add the vocabulary of `vocab`, facts that its files lack, and the form of the result."""
    parser.add_argument(
        "vocab",
        nargs="?",
        metavar="FILE|DIR",
        help="a vocabulary's file, a folder with its files, or `embedded`",
    )
    parser.add_argument(
        "--text-token",
        dest="text_tokens",
        action="append",
        default=[],
        metavar="SPELLING",
        help="an added token that is ordinary text, not control; may be repeated",
    )
    parser.add_argument(
        "--special-token",
        dest="special_tokens",
        action="append",
        default=[],
        type=_special_token,
        metavar="SPELLING=ID",
        help="a control token that the files lack; may be repeated",
    )
    parser.add_argument(
        "--pattern",
        metavar="REGEX",
        help="how text is parted before merging, where files of ranks leave it unsaid",
    )
    parser.add_argument("--json", action="store_true", help="all of it as a JSON object")
    parser.add_argument(
        "--width", type=_positive, metavar="N", help="columns to wrap at (default: the terminal's)"
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _special_token(text: str) -> tuple[str, int]:
    spelling, _, number = text.rpartition("=")
    if not spelling or not number.isascii() or not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}, expected SPELLING=ID")
    return spelling, int(number)


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 1")
    return number


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number <= 65535:  # noqa: PLR2004 (the last port)
        raise argparse.ArgumentTypeError(f"{text!r}, expected a port from 0 to 65535")
    return number
