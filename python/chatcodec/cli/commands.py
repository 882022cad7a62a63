"""The commands: the input and output of each, line by line."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from chatcodec import Format, formats
from chatcodec.cli import arguments
from chatcodec.cli.auditing import audit
from chatcodec.cli.checking import check
from chatcodec.cli.deriving import derive
from chatcodec.cli.doctor import doctor
from chatcodec.cli.lines import Line, attempt, dumps, each, process, read
from chatcodec.cli.loading import (
    UsageError,
    check_files,
    load_codec,
    load_model_format,
    load_options,
    load_tools,
    load_vocab,
    model_of,
)
from chatcodec.cli.preparing import prepare
from chatcodec.cli.records import (
    Conversation,
    read_answer,
    read_completion,
    read_conversation,
    read_ids,
)
from chatcodec.cli.serving import add_serve, serve
from chatcodec.cli.show import Look, legend, show, show_failure
from chatcodec.cli.terminal import wants_color
from chatcodec.cli.trajectories import write_trajectories
from chatcodec.cli.vocabulary import describe, show_vocab
from chatcodec.pages import encoding_data, items_page, stream_data

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator, Sequence

    from chatcodec import Collision, Dropped, Encoding, Neutralized
    from chatcodec.cli.lines import Reply, Worker
    from chatcodec.events import Event

__all__ = ["COMMANDS", "Command"]

_Given = TypeVar("_Given", str, list[int])

_TEXTS = 'JSON strings, "…"'
"""What is said of lines of text where completions are read."""


@dataclass(frozen=True)
class Command:
    """A row of the table: the name of a command, its arguments, and its function."""

    name: str
    summary: str
    details: str
    examples: Sequence[str]
    arguments: Sequence[Callable[[ArgumentParser], None]]
    run: Callable[[Namespace], bool]
    """Runs the command; returns whether no line failed."""


def _encode(args: Namespace) -> bool:
    check_files(args.files)
    codec = load_codec(args)
    options, tools = load_options(args), load_tools(args.tools, codec)

    write = partial(_record, args)

    def worker(lines: Sequence[Line]) -> Iterator[Reply]:
        """Encode lines without options of their own in one batch, on all cores."""
        given = [
            attempt(lambda line: read_conversation(line.value(), codec, args.schema), line)
            for line in lines
        ]
        batched = [item for item in given if isinstance(item, Conversation) and not item.options]
        batch = codec.encode_batch(
            [item.row for item in batched],
            tools=tools,
            errors="return",
            threads=args.threads,
            **options,
        )
        errors = batch.errors
        numbers = iter(range(len(batched)))
        for item in given:
            if isinstance(item, Exception):
                yield item
            elif item.options:
                yield attempt(lambda own: write(own.encode(codec, tools, options)), item)
            else:
                number = next(numbers)
                yield errors[number] if number in errors else write(batch[number])

    return _json_lines(args, worker)


def _record(args: Namespace, encoding: Encoding) -> str:
    """Write the output of `encode` for a conversation."""
    if args.count:
        return dumps({"count": len(encoding.ids)})
    record: dict[str, object] = {"ids": encoding.ids.tolist()}
    if args.labels:
        record["labels"] = encoding.labels().tolist()
    if args.text:
        record["text"] = encoding.text
    if args.masks:
        names = ("is_control", "is_content", "assistant_mask", "message_indices")
        record |= {name: getattr(encoding, name).tolist() for name in names}
    if args.report:
        record["neutralized"] = [_fields(found) for found in encoding.neutralized]
        record["collisions"] = [_fields(found) for found in encoding.collisions]
        record["dropped"] = [_fields(found) for found in encoding.dropped]
    return dumps(record)


def _decode(args: Namespace) -> bool:
    check_files(args.files)
    codec = load_codec(args)
    return _json_lines(
        args, each(lambda line: dumps({"messages": codec.decode(read_ids(line.value()))}))
    )


def _parse(args: Namespace) -> bool:
    check_files(args.files)
    codec = load_codec(args)

    def answer(line: Line) -> str:
        given, prompt = read_answer(line.value(_TEXTS))
        if isinstance(given, str):
            parsed = codec.parse(given, prompt, markers="text")
            rest: dict[str, object] = {"rest_text": parsed.rest_text}
        else:
            parsed = codec.parse(given, prompt)
            rest = {"rest": parsed.rest.tolist()}
        return dumps({"message": parsed.message, "finish": parsed.finish, **rest})

    return _json_lines(args, each(answer))


def _stream(args: Namespace) -> bool:
    check_files(args.files)
    codec = load_codec(args)

    def parts(whole: _Given) -> Iterator[_Given]:
        return (whole[at : at + args.push] for at in range(0, len(whole), args.push))

    def answer(line: Line) -> str:
        given, prompt = read_answer(line.value(_TEXTS))
        if isinstance(given, str):
            stream = codec.stream(prompt, markers="text")
            events = [event for part in parts(given) for event in stream.push_text(part)]
        else:
            stream = codec.stream(prompt)
            events = [event for part in parts(given) for event in stream.push(part)]
        events += stream.finish(args.reason)
        return "".join(dumps(_place(line, args) | _event(event)) for event in events)

    def item(line: Line) -> dict[str, object]:
        ids, prompt = read_completion(line.value())
        return stream_data(codec, ids, prompt, reason=args.reason)

    if args.html:
        return _page(args, item, "Events of a stream")
    return _json_lines(args, each(answer))


def _inspect(args: Namespace) -> bool:
    check_files(args.files)
    codec = load_codec(args)
    options, tools = load_options(args), load_tools(args.tools, codec)
    color = wants_color(args.color, sys.stdout, os.environ)
    look = Look(color=color, ids=args.ids, columns=_columns(args))

    def encoded(line: Line) -> tuple[Encoding, list[str]]:
        value = line.text().removesuffix("\r") if args.plain else line.value("--plain")
        if isinstance(value, str):
            value = [{"role": "user", "content": value}]
        conversation = read_conversation(value, codec, args.schema)
        encoding = conversation.encode(codec, tools, options)
        return encoding, [message.get("role", "item") for message in conversation.messages]

    def answer(line: Line) -> str:
        encoding, roles = encoded(line)
        return "".join(show(encoding, title=line.place, roles=roles, look=look))

    if args.html:
        return _page(args, lambda line: encoding_data(*encoded(line)), "Tokens of a conversation")

    def refuse(line: Line, why: str) -> str:
        return show_failure(line.place, why, look)

    sys.stdout.write(legend(look))
    groups = read(args.files, document=args.document)
    return process(groups, each(answer), refuse=refuse, skip_empty=not args.plain)


def _page(args: Namespace, item: Callable[[Line], dict[str, object]], title: str) -> bool:
    """Write one page for all lines; a line that fails is an item with its reason."""
    items: list[dict[str, object]] = []

    def answer(line: Line) -> str:
        items.append({"title": line.place, **item(line)})
        return ""

    def refuse(line: Line, why: str) -> str:
        items.append({"kind": "error", "title": line.place, "error": why})
        return ""

    groups = read(args.files, document=args.document)
    lines = ([line for line in group if line.data.strip()] for group in groups)
    fine = process(lines, each(answer), refuse=refuse)
    sys.stdout.write(items_page(title, items))
    return fine


def _studio(args: Namespace) -> bool:
    # The modules of a server take longer to import than most commands run.
    from chatcodec.pages.studio import Studio  # noqa: PLC0415

    for path in args.paths:
        if not Path(path).exists():
            raise UsageError(f"{path}: no such file or folder")
    paths = list(args.paths)
    if model := model_of(args):
        load_codec(args)  # whose errors say what to do
        paths.insert(0, model)
    try:
        studio = Studio(paths, args.port, args.gateway)
    except ValueError as error:
        raise UsageError(f"--gateway: {error}") from error
    except OSError as error:
        raise UsageError(f"port {args.port}: {(error.strerror or str(error)).lower()}") from error
    with studio:
        sys.stdout.write(f"chatcodec studio: {studio.url}\nCtrl+C ends it.\n")
        sys.stdout.flush()
        studio.serve_forever()
    return True


def _formats(args: Namespace) -> bool:
    if args.action == "check":
        return check(args)
    if args.model is not None:
        known = [load_model_format(args.model)]
    else:
        known = [Format.built_in(name) for name in formats()]
    if args.json:
        names = ("name", "guarantee", "vocabulary", "source", "losses")
        for known_format in known:
            sys.stdout.write(dumps({name: getattr(known_format, name) for name in names}))
        return True
    head = ("name", "guarantee", "vocabulary", "source")
    rows = [head, *((f.name, f.guarantee, f.vocabulary, f.source) for f in known)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    return True


def _trajectories(args: Namespace) -> bool:
    try:
        count = write_trajectories(args.memory, args.output, args.columns, args.key)
    except (ImportError, ValueError) as error:
        raise UsageError(f"trajectories: {error}") from error
    sys.stdout.write(f"{args.output}: {count} trajectories\n")
    return True


def _vocab(args: Namespace) -> bool:
    vocab = load_vocab(args)
    lines = [dumps(describe(vocab))] if args.json else show_vocab(vocab, _columns(args))
    sys.stdout.writelines(lines)
    return True


def _columns(args: Namespace) -> int:
    given: int | None = args.width
    return given or shutil.get_terminal_size((100, 24)).columns


def _json_lines(args: Namespace, worker: Worker) -> bool:
    groups = read(args.files, document=args.document)
    return process(
        groups, worker, refuse=lambda line, why: dumps({"error": why} | _place(line, args))
    )


def _place(line: Line, args: Namespace) -> dict[str, object]:
    """Return the place of a line; the file is named if there are several."""
    place: dict[str, object] = {"file": line.file} if len(args.files) > 1 else {}
    return place | {"line": line.number}


def _fields(value: Event | Neutralized | Collision | Dropped) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__match_args__}


def _event(event: Event) -> dict[str, object]:
    return {"event": type(event).__name__, **_fields(event), "tokens": event.tokens}


_LINES = (arguments.add_files, arguments.add_codec)

COMMANDS = (
    Command(
        "encode",
        "conversations to ids",
        "A line is a list of messages, or an object with `messages` and, for itself, `tools` and\n"
        'options of `Codec.encode` ("continue_final": true); other columns are ignored. Out comes\n'
        '{"ids": […]}.',
        (
            """echo '[{"role": "user", "content": "Hi"}]' | chatcodec encode --model ./model""",
            "chatcodec encode --model ./model --text --masks chats.jsonl > ids.jsonl",
            "chatcodec encode --model ./model --count chats.jsonl",
            "chatcodec encode --vocab tokenizer.model --tools tools.json - < chats.jsonl",
            "chatcodec encode --vocab embedded --document conversation.json",
        ),
        (*_LINES, arguments.add_encode, arguments.add_results),
        _encode,
    ),
    Command(
        "prepare",
        "files of conversations to shards of ids and labels, for training",
        "Rows are messages, ShareGPT, Alpaca, or prompt and completion. OUT gets shards, rejected\n"
        "rows with their reasons (_rejects.jsonl), the report (_report.txt) and hashes\n"
        "(_manifest.json). The same command goes on with a run that was stopped. The exit\n"
        "status is 1 where rows were rejected; everything else is written.",
        (
            "chatcodec prepare --model ./model chats.jsonl out",
            "chatcodec prepare --labels --shards 64 --vocab tokenizer.model chats.jsonl shards",
        ),
        (arguments.add_prepare, arguments.add_codec, arguments.add_options),
        prepare,
    ),
    Command(
        "decode",
        "ids of conversations to messages",
        'A line is a list of ids, or an object with `ids`. Out comes {"messages": […]}.',
        (
            "chatcodec decode --vocab embedded ids.jsonl",
            "export CHATCODEC_MODEL=./model; chatcodec encode chats.jsonl | chatcodec decode",
        ),
        _LINES,
        _decode,
    ),
    Command(
        "parse",
        "completions to messages",
        "A line is a list of the ids that a model gave, or an object with them as `ids` and, if\n"
        "they do not begin after the generation prompt, the ids before them as `prompt`.\n"
        'Out comes {"message": {…}, "finish": "stop", "rest": […]}. A string, or `text` for\n'
        "`ids`, is the text of a completion, in which control tokens are spelled; out comes\n"
        "`rest_text`.",
        (
            "chatcodec parse --vocab embedded completions.jsonl",
            (
                """echo '{"prompt": [1, 92543], "ids": [35971, 92542]}' """
                "| chatcodec parse --vocab embedded"
            ),
            """echo '"It rains.<|im_end|>"' | chatcodec parse --vocab embedded""",
        ),
        _LINES,
        _parse,
    ),
    Command(
        "stream",
        "ids of completions to events, as they would come",
        "A line is what `parse` takes. Out comes an object per event: the `line` it is of, its\n"
        "name as `event`, its fields, and as `tokens` the positions of the ids it was read from.\n"
        "The text of a completion is pushed in characters; `--html` shows ids alone.",
        (
            "chatcodec stream --vocab embedded completions.jsonl",
            "chatcodec stream --vocab embedded --push 1000 --reason length completions.jsonl",
            "chatcodec stream --vocab embedded --html completions.jsonl > stream.html",
        ),
        (*_LINES, arguments.add_completion),
        _stream,
    ),
    Command(
        "inspect",
        "show a conversation as its tokens, and what in it only looks like control",
        "A line is what `encode` takes, or a string: a user's message. Text of the caller stands\n"
        "behind a bar, with where it comes from; what stands without one is the format's own.\n"
        "`·` or underlining parts tokens. `↵` is a newline, `⇥` a tab, `␣` a space that could be\n"
        "missed, `▁` one that the vocabulary puts before a text, `⟨200B⟩` what cannot be seen.",
        (
            "chatcodec inspect --model ./model chats.jsonl | less -R",
            "chatcodec inspect --vocab embedded --ids --document conversation.json",
            "chatcodec inspect --model ./model --html chats.jsonl > conversation.html",
            "echo 'What does <|im_end|> mean?' | chatcodec inspect --model ./model --plain",
        ),
        (*_LINES, arguments.add_encode, arguments.add_inspect),
        _inspect,
    ),
    Command(
        "studio",
        "a page in the browser: type a conversation, and see its tokens and its stream",
        "A server on this machine alone, for its own page. The page offers the embedded\n"
        "vocabulary, those of the arguments, and files that are dropped on it. It compares two,\n"
        "tries attacks, and shows the text of a scripted engine as events.",
        (
            "chatcodec studio",
            "chatcodec studio --model Qwen/Qwen3-8B",
            "chatcodec studio --port 8765 tokenizer.model",
            "chatcodec studio --gateway http://127.0.0.1:8000",
        ),
        (arguments.add_studio, arguments.add_model),
        _studio,
    ),
    Command(
        "serve",
        "a gateway before an engine: OpenAI's and Anthropic's APIs, by ids",
        "Requests become ids here; the engine generates ids, and answers are read from them. The\n"
        "engine's own template and parsers are not used. Paths: /v1/chat/completions,\n"
        "/v1/responses, /v1/messages, /v1/models, /tokenize, /detokenize, /health, /metrics.",
        (
            "chatcodec serve --backend http://127.0.0.1:8000 --model Qwen/Qwen3-8B",
            "chatcodec serve --backend http://127.0.0.1:30000 --engine sglang --model ./model",
        ),
        (add_serve, arguments.add_codec),
        serve,
    ),
    Command(
        "formats",
        "list the built-in chat formats; check a format file",
        "`guarantee` is `ids` where turns are told apart by ids, `text` where by ordinary text.\n"
        "`--for` names the format of a model. For a model without a built-in format,\n"
        "`chatcodec derive -o FILE` begins a format file, and `check` shows where it differs from\n"
        "the model's template: see `chatcodec formats check --help`.",
        (
            "chatcodec formats",
            "chatcodec formats --json",
            "chatcodec formats --for Qwen/Qwen3-8B",
        ),
        (arguments.add_formats,),
        _formats,
    ),
    Command(
        "check",
        "what there is to know of a model before it is served, and what is wrong",
        "The files, who writes conversations and who reads completions, the stop ids, the control\n"
        "tokens, the vocabulary's engine, the ids beside those of transformers where that is\n"
        "installed, what a caller can forge by strings and here, and the command lines for\n"
        "vLLM, SGLang, llama.cpp and the gateway. No weights are fetched.\n"
        "The exit status is 1 if there is a problem.",
        (
            "chatcodec check ./model",
            "chatcodec check ./model --json --no-transformers",
            "chatcodec check ./model --html > model.html",
            "chatcodec check --format chatml --vocab embedded",
        ),
        (arguments.add_doctor, arguments.add_codec),
        doctor,
    ),
    Command(
        "derive",
        "what reads a model's completions, and whether it reads all that the template writes",
        "Random conversations are written by the model's chat template and read back: texts,\n"
        "calls, results, reasoning, nested arguments. Each part has an example as the model would\n"
        "write it, and, where it is not read, the shortest conversation that fails.\n"
        "With `-o` the turns of the template are written as a format file; its first lines say\n"
        "what it was compared on, and what of the template it leaves out. Add that by hand:\n"
        "`chatcodec formats check FILE --model MODEL` shows what is still different.\n"
        "The exit status is 1 if something that the template writes is not read back.",
        (
            "chatcodec derive ./model",
            "chatcodec derive ./model --count 10000 --seed 7 --json",
            "chatcodec derive ./model -o mychat.toml",
            "chatcodec derive ./model --response-template response.json",
        ),
        (arguments.add_derive, arguments.add_codec),
        derive,
    ),
    Command(
        "audit",
        "try to forge control tokens in every place of a caller's text",
        "Every control token is put into every place, in several spellings. The string pipeline\n"
        "is what most servers do: the rendered text is tokenized whole. Where transformers 5.20\n"
        "or newer is installed, its `sanitize_control_tokens` is tried on a model's texts, too.\n"
        "The exit status is 1 if the codec lets anything be forged.\n"
        "With `--server` a running server is tried instead, by the ids of its prompts or by their\n"
        "number: the exit status is 1 if a text became control, or if the prompts are not the\n"
        "codec's. Try servers of others only if their owner agrees.\n"
        "With `--prefix` nothing is forged: a sample conversation goes on, and the ids that an\n"
        "engine had for it are compared. The exit status is 1 if some are lost.",
        (
            "chatcodec audit --model ./model",
            "chatcodec audit --model ./model --html > audit.html",
            "chatcodec audit --vocab tokenizer.model --json",
            "chatcodec audit --model Qwen/Qwen3-8B --server http://127.0.0.1:8000",
            "chatcodec audit --vocab embedded --sarif audit.sarif --junit audit.xml",
            "chatcodec audit --prefix Qwen/Qwen3-8B",
        ),
        (arguments.add_audit, arguments.add_codec),
        audit,
    ),
    Command(
        "trajectories",
        "write what a gateway remembers to Parquet, for training",
        "A gateway with `--memory-file` keeps the ids of conversations: those that the model saw,\n"
        "those that it sampled, and their log probabilities as far as the engine told them. Each\n"
        "branch of a conversation is a row.",
        (
            "chatcodec trajectories memory.db -o rollouts.parquet",
            "chatcodec trajectories memory.db -o rollouts.parquet --columns verl --key alice",
        ),
        (arguments.add_trajectories,),
        _trajectories,
    ),
    Command(
        "vocab",
        "show a vocabulary, and which of its tokens are control",
        "Control tokens are out of reach of text. Every added token is one, whatever its file\n"
        "says, unless it is known to be text; those are listed with the reason. Neighbours whose\n"
        "spellings count on are one row: `[UNUSED_TOKEN_0] … [UNUSED_TOKEN_146]`.",
        (
            "chatcodec vocab tokenizer.model",
            "chatcodec vocab --json .",
            "chatcodec vocab --model ./model",
        ),
        (arguments.add_vocab, arguments.add_model),
        _vocab,
    ),
)
