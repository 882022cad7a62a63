# Written by scripts/stubs.py from the binary; not edited by hand.
"""
The compiled half of `chatcodec`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Literal, SupportsIndex, Unpack, final, overload

from typing_extensions import Buffer

from chatcodec.events import CallKind, Event, NoteKind, NoticeKind, Role, TurnReason
from chatcodec.mapper import Mapper
from chatcodec.options import (
    BareCalls,
    Boundary,
    CallsInReasoning,
    DummyPrefix,
    FormatOptions,
    Guarantee,
    Markers,
    OnArguments,
    OnError,
    OnMarker,
    OnReasoning,
    OnUnknown,
    OnUnsupported,
    TableColumn,
    VocabKind,
)

__all__ = ["__version__", "ActionDelta", "ActionEnd", "ActionStart", "Batch", "Codec", "Collision", "Constraint", "Dropped", "EncodedTable", "Encoding", "Format", "IntArray", "Neutralized", "Note", "Notice", "Parsed", "Reasoning", "Rendered", "Stream", "StreamPool", "Template", "Text", "ToolTypes", "TurnEnd", "TurnStart", "Vocab", "VocabReport", "_install", "collect", "formats"]

__version__: Final[str]
"""
The version of the package.
"""

@final
class ActionDelta:
    """
    More of an action: raw JSON text of its arguments, as generated, or code without its fence.
    """
    __match_args__: Final[tuple[Literal["index"], Literal["text"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, index: "int", text: "str", tokens: "tuple[int, int]" = (0, 0)) -> ActionDelta: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def index(self, /) -> int:
        """
        The action's number.
        """
    @property
    def text(self, /) -> str:
        """
        The text.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class ActionEnd:
    """
    An action ends.
    """
    __match_args__: Final[tuple[Literal["index"], Literal["complete"], Literal["name"], Literal["id"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, index: "int", complete: "bool", name: "str | None" = None, id: "str | None" = None, tokens: "tuple[int, int]" = (0, 0)) -> ActionEnd: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def complete(self, /) -> bool:
        """
        Whether its arguments are one whole JSON value, or its code's fence was closed.
        """
    @property
    def id(self, /) -> str | None:
        """
        The id that the model gave it.
        """
    @property
    def index(self, /) -> int:
        """
        Its number.
        """
    @property
    def name(self, /) -> str | None:
        """
        The name, which may have come after the arguments.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class ActionStart:
    """
    An action begins; sent as soon as its name is known.
    """
    __match_args__: Final[tuple[Literal["index"], Literal["kind"], Literal["name"], Literal["id"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, index: "int", kind: "CallKind", name: "str | None" = None, id: "str | None" = None, tokens: "tuple[int, int]" = (0, 0)) -> ActionStart: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def id(self, /) -> str | None:
        """
        The id that the model gave it, in formats that have them.
        """
    @property
    def index(self, /) -> int:
        """
        Its number in the turn, from 0.
        """
    @property
    def kind(self, /) -> CallKind:
        """
        `"function"` or `"code"`.
        """
    @property
    def name(self, /) -> str | None:
        """
        The function's name, or the code's language.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class Batch:
    """
    Many conversations as ids, one after another: those of conversation `i` are
    `ids[offsets[i]:offsets[i + 1]]`.
    """
    def __arrow_c_array__(self, /, requested_schema: "object" = None) -> tuple[Any, Any]:
        """
        The ids as Arrow's array of lists, one list of int32 for each conversation, sharing the ids; null for a
        conversation that could not be encoded. `pa.array(batch)`, `pl.Series(batch)`.
        """
    def __getitem__(self, index: SupportsIndex, /) -> Encoding:
        """
        The encoding of one conversation; raises its error if it has none.
        """
    def __iter__(self, /) -> Iterator[Encoding]:
        """
        The encodings in order; raises the error of a conversation that has none when its turn comes.
        """
    def __len__(self, /) -> int: ...
    def __reduce__(self, /) -> "tuple[object, ...]":
        """
        A batch is not pickled: with its codec's tables it would be many times its ids.
        """
    def __repr__(self, /) -> str: ...
    @property
    def errors(self, /) -> dict[int, ValueError]:
        """
        With `errors="return"`, the conversations that could not be encoded and why; they have no ids.
        """
    @property
    def ids(self, /) -> IntArray:
        """
        The ids of all conversations, int32.
        """
    def labels(self, /, *, roles: "Sequence[Role] | None" = None, last_only: "bool" = False, ignore_index: "int" = -100) -> IntArray:
        """
        What to train on, as `Encoding.labels` has it, of all conversations one after another: at the places of
        `ids`; int32.
        """
    @property
    def offsets(self, /) -> IntArray:
        """
        Where each conversation begins, and the end of the last; int64.
        """

@final
class Codec:
    """
    Messages to token ids and back, for one chat format and one vocabulary. Frozen, shared freely
    between threads, pickled as the contents of its files.
    """
    def __new__(cls, /, format: "str | Format", vocab: "str | PathLike[str] | Vocab | None" = None, *, check_template: "bool" = True) -> Codec:
        """
        A codec of a format (a built-in one's name, or a `Format`) and a vocabulary (the path of a file
        or a folder, as `Vocab.load` takes it, or a `Vocab`). Without `vocab`, the embedded one, which is laid out for `internlm2`.

        Where the folder of the vocabulary has a chat template, the format is checked against it: one that the
        template contradicts is an error that names the likely one. `check_template=False` takes the format
        all the same.

        Raises `FormatError` for a name that there is no format of, or a format that the folder's template
        contradicts, `VocabError` for a vocabulary that cannot be read or lacks the format's control tokens.
        """
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    def canonical(self, /, messages: "Sequence[Mapping[str, Any]]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, on_arguments: "OnArguments" = "error", unknown: "OnUnknown" = "error", on_unsupported: "OnUnsupported" = "error", **options: "Unpack[FormatOptions]") -> list[dict[str, Any]]:
        """
        What a conversation reads as after a round trip: `decode(encode(messages).ids)`, worked out
        without encoding. With `tools`, the message that declares them is part of it. The options are `encode`'s,
        and so is what is raised; what `unknown` or `on_unsupported` leaves out is not there.
        """
    def constrain(self, /, *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, tool_choice: "str | Mapping[str, Any] | None" = None, parallel: "bool" = True, strict: "bool" = True, response_format: "str | Mapping[str, Any] | None" = None, reasoning: "bool | None" = None, prompt: "Sequence[int] | Buffer | None" = None) -> Constraint:
        """
        What a model may generate after a prompt: text, reasoning and calls of `tools` as the format writes them, by
        the ids of its control tokens. What it admits is what `parse` reads as an answer that was asked for.

            constraint = codec.constrain(tools=tools, tool_choice="required", parallel=False)
            matcher = llguidance.LLMatcher(tokenizer, constraint.lark())

        `tools` is a list of function dicts, as `encode` takes them. `tool_choice` is `"auto"`, `"required"`,
        `"none"`, a dict that names a function, or OpenAI's `allowed_tools`. Without `parallel` there is one call at
        most. With `strict`, arguments follow the JSON schemas of their tools; without, they are any object, and
        `Constraint.weakened` lists the schemas. `response_format` is OpenAI's: with `json_object` or `json_schema`
        an answer without calls is such JSON. `reasoning` says whether the answer has reasoning; by default
        the model decides. `prompt` is the ids that the answer continues, by default any that end with the
        generation prompt.

        Raises `MessageError`, with the argument, for what the format has no answer for, for tools that are no
        functions, for schemas that are none of objects, for a choice that names no tool, and for a prompt that does
        not end with a generation prompt.
        """
    def count(self, /, messages: "Sequence[Mapping[str, Any]]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = "report", boundary: "Boundary" = "reference", on_arguments: "OnArguments" = "error", unknown: "OnUnknown" = "error", on_unsupported: "OnUnsupported" = "error", **options: "Unpack[FormatOptions]") -> int:
        """
        How many ids a conversation has; takes what `encode` takes.
        """
    def decode(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None) -> list[dict[str, Any]]:
        """
        The ids of a conversation to its messages. Of ids that are no conversation it makes the best
        it can; it never raises for ints. They are a list, an array of one dimension or a buffer of any int type.
        `tools` and `calls_in_reasoning` are as for `stream`.
        """
    def describe(self, /) -> str:
        """
        What the codec is made of, in a few lines for people: the format, the vocabulary, and how the
        format was recognised where the caller named none.
        """
    def encode(self, /, messages: "Sequence[Mapping[str, Any]]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = "report", boundary: "Boundary" = "reference", on_arguments: "OnArguments" = "error", unknown: "OnUnknown" = "error", on_unsupported: "OnUnsupported" = "error", threads: "int | None" = None, **options: "Unpack[FormatOptions]") -> Encoding:
        """
        Messages to ids.

        `messages` are dicts as the clients of OpenAI and Anthropic write them, or with the format's own roles.
        `tools` is a list of function dicts, or text that is written as it is. `add_generation_prompt=None` means
        yes, unless the last message is the assistant's; `continue_final=True` leaves that message
        open. `stop_final=True` ends it with the id that stops the model, for training, where the format writes
        none there. `boundary="isolated"` encodes what a model generates by itself, as generation does.
        `on_arguments="string"` writes arguments that are no JSON as a JSON string. In formats whose
        markers are text, `on_marker` says what is done about content that spells one: `"report"` it in
        `collisions`, raise an `"error"`, or `"break"` it, which gives it other ids than a marker's.
        A text of half a megabyte or more is shared by all cores, or `threads`; the ids are the same.

        `unknown` is about keys that no client sends, and `on_unsupported` about what the format has no place for:
        reasoning, a name, calls, tools, a late system message, an image. Both are refused (`"error"`), or left out
        (`"ignore"`, `"drop"`): then `dropped` lists them, and the ids are those of the messages without them.

        The other options are those that the format declares (`Format.options`): `thinking=False` prompts for an answer
        without reasoning, `date` (a day, `2026-01-31`) and `effort` stand at the beginning of the prompt.

        Raises `MessageError` with the path of what the format has no place for; `TypeError` for an option that it
        does not declare; `ValueError` for a word that an option does not know.
        """
    def encode_batch(self, /, conversations: "Iterable[object]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = "report", boundary: "Boundary" = "reference", on_arguments: "OnArguments" = "error", unknown: "OnUnknown" = "ignore", on_unsupported: "OnUnsupported" = "error", errors: "OnError" = "raise", threads: "int | None" = None, **options: "Unpack[FormatOptions]") -> Batch:
        """
        Many conversations to ids, on all cores (or `threads`), the interpreter released.

        A conversation is a list of messages, or a dict of `messages` and `tools`, such as a row of a dataset: other
        columns and keys are left out, and `dropped` of its encoding lists them, or refused with `unknown="error"`.
        The other options are `encode`'s; `unknown` is `"ignore"` here by default. `errors="return"` leaves conversations that cannot be encoded without ids and
        puts their errors into `batch.errors`; `"raise"` raises the first.
        """
    def encode_table(self, /, table: "object", messages: "str | Sequence[str] | None" = None, tools: "str | None" = None, labels: "bool" = False, *, columns: "Sequence[TableColumn] | None" = None, prefix: "str" = "", roles: "Sequence[Role] | None" = None, last_only: "bool" = False, ignore_index: "int" = -100, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = "report", boundary: "Boundary" = "reference", on_arguments: "OnArguments" = "error", unknown: "OnUnknown" = "ignore", on_unsupported: "OnUnsupported" = "error", errors: "OnError" = "raise", threads: "int | None" = None, **options: "Unpack[FormatOptions]") -> EncodedTable:
        """
        A table of conversations to a table with their ids, on all cores (or `threads`), the interpreter released.

        `table` is an object with `__arrow_c_stream__` or `__arrow_c_array__`: a table of pyarrow, a frame of polars
        or pandas. The result has the same interface (`pa.table(encoded)`), the columns of the table, and new ones.
        No object of Python's is made for a row.

        `messages` is the column of messages: lists of structs, or text that holds JSON. Several columns are read one
        after another; text in them is the content of one message, of the assistant in the last column and of the
        user before it. By default it is `messages`, `conversations` (with `system`), `prompt` and `completion`, or
        `instruction`, `input` and `output`: the first that the table has. Turns of ShareGPT (`from`, `value`) are
        read in any column. `tools` is the column of tools, lists of structs or text; by default `tools`, if the table
        has it. Text that is a list or `null` in JSON is read; other text is written as it is. A null in a struct is an
        absent key, because Arrow gives all structs of a column the same keys.

        `columns` are the new columns, `input_ids` alone by default. As list<int32>: `input_ids`, `labels` (what to train on, with `roles`, `last_only`
        and `ignore_index` as `Encoding.labels` has them; `labels=True` adds them), `position_ids`,
        `message_indices`; and `attention_mask` (list<int8>), `length` (int32), `error` (string). `prefix` comes
        before their names. `errors="return"` adds `error`: a conversation that cannot be encoded has null in the
        other new columns and the reason there; `"raise"` raises the first. The other options are `encode_batch`'s.

        Raises `MessageError` with the path of what is wrong, which begins with `rows[index]`; `TypeError` for an
        object that is no table; `ValueError` for a table without the columns, or one that cannot be read.
        """
    def extend(self, /, prompt: "Encoding | Sequence[int] | Buffer", completion_ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, new_messages: "Sequence[Mapping[str, Any]]", *, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = "report", boundary: "Boundary" = "reference", on_arguments: "OnArguments" = "error", reasoning: "OnReasoning" = "keep", unknown: "OnUnknown" = "error", on_unsupported: "OnUnsupported" = "error", **options: "Unpack[FormatOptions]") -> Encoding:
        """
        The next turn's prompt, from the last one and what the model answered: its ids begin with `prompt`'s and
        `completion_ids` as they are, then comes what ends the turn if the completion did not, then
        `new_messages` as `encode` writes them, with its options. What came before is copied, not encoded again.

        `prompt` is an encoding that ends with the generation prompt, or with a message left open; or the ids of
        one, whose sources are then not known. `completion_ids` are as generated, with the id that stopped the
        model or without. The completion is a message of its own: results among `new_messages` answer its calls,
        by the ids that `parse` gives them or by their order.

            prompt = codec.extend(prompt, completion, [{"role": "user", "content": "And then?"}])

        The ids stay whatever the model wrote: `encoding.notes` says where `encode` gives the same messages other
        ids. Some formats write earlier turns in another way once a user's message follows, without their reasoning:
        `reasoning="keep"` keeps the ids that were seen and notes it; `reasoning="template"` raises, and all
        messages have to be encoded again.

        Raises `MessageError` for an id that means something else where it stands, by its position: a stray
        control id, an unknown id, what comes after the turn's end. Also for new messages that the format has no place for.
        """
    @property
    def format(self, /) -> Format:
        """
        The format.
        """
    @staticmethod
    def from_pretrained(name_or_dir: "str | PathLike[str]", format: "str | Format | None" = None, *, revision: "str | None" = None, token: "str | bool | None" = None, local_files_only: "bool" = False, text_tokens: "Sequence[str] | None" = None, special_tokens: "Mapping[str, int] | None" = None, pattern: "str | None" = None, check_template: "bool" = True) -> Codec:
        """
        A codec of a model on the Hugging Face hub, or of a folder: `Vocab.from_pretrained`, whose
        options these are, and a format: a built-in one's name or a `Format`. Without a format, the
        model's chat template is run on a fixed set of conversations, and the built-in format is
        taken that writes the same text and control tokens; `describe` says on what they were compared.

            codec = Codec.from_pretrained("Qwen/Qwen3-0.6B")

        Raises what `Codec` and `Vocab.from_pretrained` raise; `FormatError` where no built-in format
        equals the template, with the nearest one, and `TemplateError` for a template that is none.
        """
    @property
    def generation_prompt_ids(self, /) -> list[int]:
        """
        The ids that open an assistant's turn.
        """
    def mapper(self, /, **options: "Any") -> "Mapper":
        """
        A function for tools that map over batches: datasets, Ray Data, Spark, Dask. `options` are those of
        `encode_table`. It is pickled as a recipe of about 1 KB, and each process loads its codec once.

            data = data.map(codec.mapper(labels=True), batched=True)

        Needs `pip install "chatcodec[arrow]"`. Raises `ImportError` without pyarrow, and what `encode_table` raises
        for options that are wrong.
        """
    def parse(self, /, completion_ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | str", prompt: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | None = None, markers: "Markers" = "ids", *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None, bare_calls: "BareCalls | None" = None) -> Parsed:
        """
        Reads a completion up to the end of the assistant's turn. `prompt` is the ids it continues; by
        default any prompt that ends with the generation prompt. The options are as for `stream`; with
        `markers="text"`, the completion is a str, and what comes after the turn is `Parsed.rest_text`.
        """
    @property
    def stop_ids(self, /) -> list[int]:
        """
        The ids that end an assistant's turn.
        """
    def stream(self, /, prompt: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | None = None, keep: bool = False, markers: "Markers" = "ids", *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None, bare_calls: "BareCalls | None" = None) -> Stream:
        """
        A stream of a completion. `prompt` is the ids it continues; by default any prompt that ends
        with the generation prompt. `keep=True` also collects the message, for `Stream.message`.

        `markers` says what counts as a control token of the format in what is pushed: `"ids"`, its id
        alone; `"ids_or_text"`, its spelling in text too, for grammars and fine-tunes that write it with
        ordinary ids; `"text"`, its spelling, for engines that give text: the stream takes `push_text`
        only, and the positions of its events are of characters. What only quotes a marker is text.

        `tools` are those that the model was given, as `encode` takes them, or a `ToolTypes`, which streams share:
        where arguments are written without quotes, their schemas say which of them are strings. Without, a value
        is a string unless the whole of it is JSON of another kind.

        `calls_in_reasoning` says what a call is that the model writes before its reasoning has ended: `"text"`,
        reasoning, which it only drafts there; `"call"`, a call. By default what the format says
        (`calls.in_reasoning`), which is what servers do with the model's output.

        `bare_calls` says where in the answer a call may begin that nothing marks as one, `{"name": "f", "arguments": {…`
        or as the format writes calls but without the token before it: `"text"`, nowhere; `"line"`, at the beginning of
        a line; `"anywhere"`. Only functions of `tools` are called so. By default what the format says (`calls.bare`).

        Raises `ValueError` for another word of `markers`, `calls_in_reasoning` or `bare_calls`, `MessageError` for tools that are none.
        """
    @property
    def vocab(self, /) -> Vocab:
        """
        The vocabulary, in which all spellings of the format's control tokens are known.
        """

@final
class Collision:
    """
    A marker of the format in a caller's text.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["start"], Literal["end"], Literal["marker"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def end(self, /) -> int:
        """
        One past the last code point.
        """
    @property
    def marker(self, /) -> str:
        """
        The marker.
        """
    @property
    def path(self, /) -> str:
        """
        Where: `messages[1].content`.
        """
    @property
    def start(self, /) -> int:
        """
        First code point, in the caller's string.
        """

@final
class Constraint:
    """
    What a model may generate: the answers that the format reads as the calls and text that were asked for.

    It is made by `Codec.constrain` and printed in the syntax of a backend that masks tokens. Control tokens are
    named by their ids, so that text that spells one is neither a call nor forbidden. Frozen, shared freely
    between threads.
    """
    def __repr__(self, /) -> str: ...
    def lark(self, /) -> str:
        """
        The grammar for llguidance 1.x, in its Lark syntax, by itself or as the backend of a
        server.

        Raises `MessageError` for what llguidance cannot express.
        """
    @property
    def weakened(self, /) -> list[str]:
        """
        The places of the schemas that arguments do not follow, because of `strict=False`:
        `tools[0].function.parameters`.
        """

@final
class Dropped:
    """
    A part of a caller's conversation that was left out.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["what"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, path: str, what: str) -> Dropped: ...
    def __repr__(self, /) -> str: ...
    @property
    def path(self, /) -> str:
        """
        Where: `messages[2].reasoning`.
        """
    @property
    def what(self, /) -> str:
        """
        What it is, in a word: `"reasoning"`, `"name"`, `"image_url"`, `"unknown"` for a key that is not known.
        """

@final
class EncodedTable:
    """
    A table with the columns of its encoded conversations: an Arrow stream, `pa.table(encoded)`,
    `pl.DataFrame(encoded)`. It can be read any number of times.
    """
    def __arrow_c_schema__(self, /) -> Any:
        """
        The schema as Arrow's capsule.
        """
    def __arrow_c_stream__(self, /, requested_schema: "object" = None) -> Any:
        """
        The table as Arrow's capsule of a stream of record batches, sharing the buffers. A consumer that wants
        other types casts by itself.
        """
    def __len__(self, /) -> int: ...
    def __repr__(self, /) -> str: ...
    @property
    def column_names(self, /) -> list[str]:
        """
        The names of the columns, those of the table first.
        """
    @property
    def num_rows(self, /) -> int:
        """
        How many rows the table has.
        """

@final
class Encoding(Sequence[int]):
    """
    A conversation as ids: a sequence of them, with what is known of each. Everything but `ids` and `text` is
    worked out when it is first asked for.
    """
    def __array__(self, /, dtype: "object" = None, copy: "bool | None" = None) -> "Any":
        """
        The ids as NumPy's array, as `IntArray.__array__` gives them.
        """
    def __arrow_c_array__(self, /, requested_schema: "object" = None) -> tuple[Any, Any]:
        """
        The ids as Arrow's array, as `IntArray.__arrow_c_array__` gives them.
        """
    def __contains__(self, value: object, /) -> bool:
        """
        Whether an id is among the ids.
        """
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int:
        """
        The id at an index, or the ids of a slice.
        """
    @overload
    def __getitem__(self, index: slice, /) -> IntArray: ...
    def __iter__(self, /) -> Iterator[int]: ...
    def __len__(self, /) -> int: ...
    def __reduce__(self, /) -> "tuple[object, ...]":
        """
        An encoding is not pickled: with its codec's tables it would be many times its ids.
        """
    def __repr__(self, /) -> str: ...
    def __reversed__(self, /) -> Iterator[int]: ...
    @property
    def assistant_mask(self, /) -> IntArray:
        """
        Per id 1 if a model generates it: an assistant's turn after its generation prompt, up to and
        including the id that stops it, which may be the opener of the next turn; uint8.
        """
    @property
    def char_offsets(self, /) -> tuple[tuple[int, int], ...]:
        """
        Per id `(start, end)` in `text`, as code points: `text[start:end]`. All ids of one character
        have it.
        """
    @property
    def collisions(self, /) -> list[Collision]:
        """
        Markers of the format in the caller's text; formats whose turns are told apart by ids have
        none.
        """
    def count(self, /, value: "object") -> int:
        """
        How often an id occurs.
        """
    @property
    def dropped(self, /) -> tuple[Dropped, ...]:
        """
        What of the caller's conversation was left out: keys that are not known (`unknown="ignore"`), and what
        is about a text but no part of it (`annotations`).
        """
    @property
    def ids(self, /) -> IntArray:
        """
        The ids: int32, read by NumPy without a copy.
        """
    def index(self, /, value: "object", start: SupportsIndex = 0, stop: SupportsIndex = 9223372036854775807) -> int:
        """
        The first index of an id. Raises `ValueError` if the id does not occur.
        """
    @property
    def is_content(self, /) -> IntArray:
        """
        Per id 1 if it holds text of the caller's, also where it holds some of the format's; uint8.
        """
    @property
    def is_control(self, /) -> IntArray:
        """
        Per id 1 for a control token, 0 for text; uint8.
        """
    def labels(self, /, *, roles: "Sequence[Role] | None" = None, last_only: "bool" = False, ignore_index: "int" = -100) -> IntArray:
        """
        What to train on: per id the id itself, or `ignore_index` where it is no label; int32. Of the assistant's
        turns these are the ids of `assistant_mask`, with the id that stops the model; of other `roles` the
        caller's text. `last_only` leaves only the last message of these roles.

        Places are those of the ids: trainers compare what is predicted at one with the label of the next.
        """
    @property
    def message_indices(self, /) -> IntArray:
        """
        Per id the index of its message, int32; -1 for ids of none: what begins the conversation,
        `tools`, the generation prompt.
        """
    @property
    def neutralized(self, /) -> list[Neutralized]:
        """
        Spellings of control tokens in the caller's text, which a reference would have taken for
        control. Of arguments given as a dict, or written as a string, positions are in the JSON text.
        """
    @property
    def notes(self, /) -> tuple[Note, ...]:
        """
        Of what `Codec.extend` gives: where the ids are not those that `encode` gives the same messages, as the
        model wrote them in another way, or the format would write them in another way now.
        """
    @property
    def offsets(self, /) -> tuple[tuple[int, int], ...]:
        """
        Per id `(start, end)` in `text`, as bytes of its UTF-8.
        """
    @property
    def sources(self, /) -> tuple[str | None, ...]:
        """
        Per id the path of the caller's text that it holds, such as `messages[0].content`; `None` for
        the format's own.
        """
    @property
    def text(self, /) -> str:
        """
        What a template would have produced, control tokens spelled, for people to read. Encoding it
        again does not give the same ids: that is the point.
        """
    def tolist(self, /) -> list[int]:
        """
        The ids as a list: `ids.tolist()`.
        """

@final
class Format:
    """
    A chat format: one TOML file, read and checked. Frozen.
    """
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @staticmethod
    def _restore(name: str, text: str, variant: str | None = None) -> Format:
        """
        Makes a pickled format again.
        """
    @staticmethod
    def built_in(name: str) -> Format:
        """
        A built-in format by name, or a variant of one after a colon: `"deepseek:v3"`. Raises
        `FormatError` with the nearest names.
        """
    @property
    def guarantee(self, /) -> Guarantee:
        """
        `"ids"`: turns are told apart by ids; `"text"`: by markers that are ordinary text.
        """
    @staticmethod
    def load(path: "str | PathLike[str]", *, variant: "str | None" = None) -> Format:
        """
        Reads a format file, or one of the variants that it offers. Raises `FormatError` with the key
        that is wrong, or for what is no file, such as a pipe; `OSError` where there is nothing.
        """
    @property
    def losses(self, /) -> list[str]:
        """
        What a conversation loses on a round trip, worked out from the file.
        """
    @property
    def name(self, /) -> str:
        """
        The format's name.
        """
    @property
    def options(self, /) -> list[str]:
        """
        What `encode` takes for this format beside its own options: of `thinking`, `date` and `effort`.
        """
    @property
    def source(self, /) -> str:
        """
        The reference that the format follows.
        """
    @property
    def text(self, /) -> str:
        """
        The file's text.
        """
    @property
    def vocabulary(self, /) -> str:
        """
        The kinds of vocabulary that the format is made for, in words.
        """

@final
class IntArray(Sequence[int]):
    """
    A read-only array of ints: a `Sequence[int]`, a buffer that NumPy and others read without a copy
    (`np.asarray(ids)`), and an Arrow array (`pa.array(ids)`, `pl.Series(ids)`), without a copy too. Ids are
    int32, offsets int64, masks uint8.
    """
    def __array__(self, /, dtype: "object" = None, copy: "bool | None" = None) -> "Any":
        """
        The array as NumPy's, which shares the items unless another `dtype` or a `copy` is asked for. For
        libraries that ask for this method before they look for a buffer.
        """
    def __arrow_c_array__(self, /, requested_schema: "object" = None) -> tuple[Any, Any]:
        """
        The array as Arrow's, for pyarrow, polars and whatever else reads the `PyCapsule` interface. The items are
        shared. `requested_schema` is left to the reader, which casts.
        """
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> IntArray: ...
    def __hash__(self, /) -> int: ...
    def __iter__(self, /) -> Iterator[int]: ...
    def __len__(self, /) -> int: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str:
        """
        All items of a short array; of a long one the first and the last, and how many there are.
        """
    def __reversed__(self, /) -> Iterator[int]: ...
    @staticmethod
    def _restore(bytes: bytes, code: str) -> IntArray: ...
    def count(self, /, value: "object") -> int:
        """
        How often a value occurs.
        """
    def index(self, /, value: "object", start: SupportsIndex = 0, stop: SupportsIndex = 9223372036854775807) -> int:
        """
        The first index of a value. Raises `ValueError` if the value does not occur.
        """
    def tolist(self, /) -> list[int]:
        """
        The items as a list of Python ints.
        """

@final
class Neutralized:
    """
    A spelling of a control token in a caller's text.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["start"], Literal["end"], Literal["spelling"], Literal["id"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def end(self, /) -> int:
        """
        One past the last code point.
        """
    @property
    def id(self, /) -> int:
        """
        The control id that it is a spelling of.
        """
    @property
    def path(self, /) -> str:
        """
        Where: `messages[1].content`.
        """
    @property
    def spelling(self, /) -> str:
        """
        What is spelled.
        """
    @property
    def start(self, /) -> int:
        """
        First code point, in the caller's string.
        """

@final
class Note:
    """
    A difference between an extended conversation and the same messages encoded anew, in `Encoding.notes`.
    """
    __match_args__: Final[tuple[Literal["kind"], Literal["text"], Literal["tokens"], Literal["message"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def kind(self, /) -> NoteKind:
        """
        What it is about: a word of `chatcodec.events.NoteKind`.
        """
    @property
    def message(self, /) -> int:
        """
        The index of the message; -1 for what belongs to none.
        """
    @property
    def text(self, /) -> str:
        """
        What differs, for people to read.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        First id in question, and one past the last: positions in `Encoding.ids`.
        """

@final
class Notice:
    """
    Something odd, all of it accounted for.
    """
    __match_args__: Final[tuple[Literal["kind"], Literal["text"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, kind: "NoticeKind", text: "str", tokens: "tuple[int, int]" = (0, 0)) -> Notice: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def kind(self, /) -> NoticeKind:
        """
        `"malformed"`, `"unexpected_control"`, `"unknown_id"`, `"text_after_action"`,
        `"duplicate_key"`, `"unknown_key"`, `"trailing"` or `"mended"`.
        """
    @property
    def text(self, /) -> str:
        """
        The text in question, or the spelling of the token; of `"mended"`, what was mended, in words.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class Parsed:
    """
    A completion that was read, from `Codec.parse`.
    """
    __match_args__: Final[tuple[Literal["message"], Literal["finish"], Literal["rest"]]]
    def __repr__(self, /) -> str: ...
    @property
    def finish(self, /) -> TurnReason:
        """
        Why the turn ended: `"stop"`, `"action"` or `"implicit"`.
        """
    @property
    def message(self, /) -> dict[str, Any]:
        """
        The assistant's message, as `encode` takes it.
        """
    @property
    def rest(self, /) -> IntArray:
        """
        The ids after the turn; none of a completion that was given as text.
        """
    @property
    def rest_text(self, /) -> str:
        """
        The text after the turn, of a completion that was given as text.
        """

@final
class Reasoning:
    """
    Reasoning of the turn.
    """
    __match_args__: Final[tuple[Literal["text"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, text: "str", tokens: "tuple[int, int]" = (0, 0)) -> Reasoning: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def text(self, /) -> str:
        """
        The text.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class Rendered:
    """
    A rendered template. Frozen.
    """
    def __repr__(self, /) -> str: ...
    @property
    def generated(self, /) -> list[tuple[int, int]]:
        """
        What `{% generation %}` blocks wrote: pairs of start and end in code points.
        """
    @property
    def runs(self, /) -> list[tuple[int, int, str | None, int | None]]:
        """
        The parts of the text in order, each a tuple: start and end in code points; the path of the caller's value that
        it comes from, `"messages[1].content"`, or None for the template's own text; and the index of the message that
        it belongs to, or None.
        """
    @property
    def text(self, /) -> str:
        """
        The text.
        """

@final
class Stream:
    """
    A stream of ids being read, from `Codec.stream`.
    """
    def __copy__(self, /) -> Stream: ...
    def __deepcopy__(self, /, _memo: "object") -> Stream: ...
    def __repr__(self, /) -> str: ...
    def copy(self, /) -> Stream:
        """
        A second stream that goes on from here by itself.
        """
    def finish(self, /, reason: "Literal['stop', 'length', 'cancelled']" = "stop") -> list[Event]:
        """
        Ends the stream: closes what is open, gives what is held. `reason` is the engine's: `"stop"`,
        `"length"` or `"cancelled"`; `"stop"` in a turn with an action becomes `"action"`.
        """
    def message(self, /) -> dict[str, Any]:
        """
        The message so far; only with `keep=True`. Of an action that the prompt began, it has what the
        stream added.
        """
    def push(self, /, ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding") -> list[Event]:
        """
        Reads an id, or ids, and gives the events they make. However ids are split into pushes, the
        events are the same, but for texts that follow each other. Never raises for any int.
        `ValueError` for a stream of `markers="text"`.
        """
    def push_text(self, /, text: str) -> list[Event]:
        """
        Reads text and gives the events it makes, of a stream of `markers="text"`; `ValueError` for any
        other. However text is cut, the events are the same, but for texts that follow each other.
        """

@final
class StreamPool:
    """
    Many streams of one codec, each in a slot: an engine that generates an id for each of thousands
    of sequences gives them all in one call. Slots are ints from 0; those that are closed are used
    again. Safe to share between threads: each call sees the others done or not begun.
    """
    def __len__(self, /) -> int:
        """
        How many streams are open.
        """
    def __new__(cls, /, codec: Codec) -> StreamPool: ...
    def __repr__(self, /) -> str: ...
    def close(self, /, slot: SupportsIndex) -> None:
        """
        Takes the stream out of a slot, finished or not.
        """
    def finish(self, /, slot: SupportsIndex, reason: "Literal['stop', 'length', 'cancelled']" = "stop") -> list[Event]:
        """
        Ends the stream in a slot, as `Stream.finish` does. It stays there until it is closed.
        """
    def message(self, /, slot: SupportsIndex) -> dict[str, Any]:
        """
        The message so far of the stream in a slot, as `Stream.message` gives it.
        """
    def open(self, /, prompt: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | None = None, keep: bool = False, markers: "Markers" = "ids", *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None, bare_calls: "BareCalls | None" = None) -> int:
        """
        Opens a stream and gives its slot. The options are as for `Codec.stream`; a
        `ToolTypes` is read once for all streams that it is given to.
        """
    def push(self, /, slots: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding) -> tuple[list[int], list[Event]]:
        """
        Reads one id for each slot, in order, and gives what they say: the slots and the events, lists of
        one length in the order of the ids, with nothing for an id that says nothing:
        `for slot, event in zip(*pool.push(slots, ids))`. `slots` and `ids` are as long as each other, any
        sequences of ints or one-dimensional buffers of them; a slot may come again. `IndexError` for a
        slot without a stream, `ValueError` for one that reads text, before anything is read. The interpreter
        is released meanwhile. An interrupt of a push of 65,536 ids or more loses its events: the ids are read.
        """
    def push_text(self, /, slot: SupportsIndex, text: str) -> list[Event]:
        """
        Reads text for the stream in a slot, as `Stream.push_text` does.
        """

@final
class Template:
    """
    A chat template, in jinja2's language as transformers runs it. Frozen, shared freely between threads.

    `special_tokens` are strings by the names that the template has for them, `pad_token`, and count as the template's
    own text. Raises `TemplateError` with line and column where the source is no template, or uses what is not
    supported.
    """
    def __new__(cls, /, source: "str", *, bos_token: "str | Mapping[str, object] | None" = None, eos_token: "str | Mapping[str, object] | None" = None, **special_tokens: "str | Mapping[str, object] | None") -> Template: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @staticmethod
    def load(path: "str | PathLike[str]", *, bos_token: "str | Mapping[str, object] | None" = None, eos_token: "str | Mapping[str, object] | None" = None, **special_tokens: "str | Mapping[str, object] | None") -> Template:
        """
        Reads a template from a file of UTF-8 text. Raises `TemplateError`; `OSError` where there is nothing.
        """
    def render(self, /, messages: "list[Mapping[str, object]] | Sequence[Mapping[str, object]]", tools: "Sequence[object] | None" = None, *, add_generation_prompt: "bool" = False, **variables: "object") -> Rendered:
        """
        The text that the template makes of messages, with the source of each part of it. Messages and tools are lists
        of dicts, as clients send them; `variables` are the template's others by name, `enable_thinking=False`.
        Raises `TemplateError`, and `MessageError` where the template itself refuses the messages.
        """
    @property
    def source(self, /) -> str:
        """
        The source, as it was given.
        """

@final
class Text:
    """
    Text of the turn.
    """
    __match_args__: Final[tuple[Literal["text"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, text: "str", tokens: "tuple[int, int]" = (0, 0)) -> Text: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def text(self, /) -> str:
        """
        The text.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class ToolTypes:
    """
    What the schemas of tools say that arguments are, read once, for `tools=` of streams, which share it.

    `tools` is a list of function dicts, as `Codec.encode` takes them, with `parameters` or `input_schema`; or
    JSON text of one. Of other text nothing is known. It matters for formats that write arguments without quotes
    (`qwen3-coder`, `glm4.5`, `minimax-m2`): a value is then a string if its schema allows nothing else,
    whatever it looks like; JSON, if the whole of it is JSON of a kind that the schema allows; and a string
    otherwise. `MessageError` for what are no dicts. Frozen, shared freely between threads.
    """
    def __new__(cls, /, tools: "Sequence[Mapping[str, Any]] | str") -> ToolTypes: ...
    def __repr__(self, /) -> str: ...

@final
class TurnEnd:
    """
    A turn ends.
    """
    __match_args__: Final[tuple[Literal["reason"], Literal["id"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, reason: "TurnReason", id: "str | None" = None, tokens: "tuple[int, int]" = (0, 0)) -> TurnEnd: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def id(self, /) -> str | None:
        """
        The id of the call that a result answers, where the format writes it.
        """
    @property
    def reason(self, /) -> TurnReason:
        """
        `"stop"`, `"action"`, `"length"`, `"implicit"` or `"cancelled"`.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class TurnStart:
    """
    A turn begins: its role, and its name if the header has one.
    """
    __match_args__: Final[tuple[Literal["role"], Literal["name"], Literal["channel"], Literal["recipient"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, role: "Role", name: "str | None" = None, channel: "str | None" = None, recipient: "str | None" = None, tokens: "tuple[int, int]" = (0, 0)) -> TurnStart: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def channel(self, /) -> str | None:
        """
        The channel, in formats that have them.
        """
    @property
    def name(self, /) -> str | None:
        """
        The name in the header.
        """
    @property
    def recipient(self, /) -> str | None:
        """
        Whom it is for, in formats that say so.
        """
    @property
    def role(self, /) -> Role:
        """
        `"system"`, `"user"`, `"assistant"` or `"tool"`.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids it was read from: first, and one past the last.
        """

@final
class Vocab:
    """
    A vocabulary: text to ids and ids to text, never control from text. Frozen, shared between
    threads, pickled as the content of its files.
    """
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def _origin(self, /) -> tuple[str, str | None, str | None] | None:
        """
        Where it was read from: a path, and the name and the revision on the hub.
        """
    @staticmethod
    def _restore(files: "list[tuple[str, bytes]] | None", digest: "str | None", options: "tuple[list[str], list[tuple[str, int]], str | None]", appended: "list[str]", aliases: "list[list[str]]") -> Vocab:
        """
        Makes a pickled vocabulary again.
        """
    @property
    def control(self, /) -> dict[str, int]:
        """
        Every spelling of every control token, with its id.
        """
    def decode(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, control: "Literal['spell', 'skip']" = "spell") -> str:
        """
        Ids to text: control tokens as their spelling (`control="spell"`) or left out (`"skip"`).
        Bytes that are not UTF-8 become U+FFFD. Raises `VocabError` for an id outside the vocabulary.
        """
    def decode_bytes(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding) -> bytes:
        """
        Ids to the bytes they stand for, control tokens as their spelling.
        """
    @property
    def dummy_prefix(self, /) -> DummyPrefix:
        """
        Where a space is put before text: `"every run"` of text between two control tokens, the
        `"first run"`, which no token stands before, or `"never"`.
        """
    @staticmethod
    def embedded() -> Vocab:
        """
        The vocabulary that comes with the package: InternLM2's layout of ids, its own merges.
        """
    def encode(self, /, text: str, *, threads: SupportsIndex | None = None) -> IntArray:
        """
        Text to ids, never control: int32. Raises `MessageError` for half of a surrogate pair, and
        `VocabError` for text that has no token, in a vocabulary that is not `lossless`. A text of half a
        megabyte or more is shared by all cores, or `threads`; the ids are the same.
        """
    @staticmethod
    def from_pretrained(name_or_dir: "str | PathLike[str]", *, revision: "str | None" = None, token: "str | bool | None" = None, local_files_only: "bool" = False, text_tokens: "Sequence[str] | None" = None, special_tokens: "Mapping[str, int] | None" = None, pattern: "str | None" = None) -> Vocab:
        """
        Reads the vocabulary of a model on the Hugging Face hub, such as `"Qwen/Qwen3-8B"`; or what
        `load` reads, where `name_or_dir` is a folder or a file.

        Needs `pip install "chatcodec[hub]"` for names. Files in the hub's cache are used without asking
        the hub; what is not there is downloaded: the tokenizer's files alone, no weights. `revision` is
        a branch, a tag or a commit. `token` is the hub's: a string, or `True` or `False` for the stored
        one or none. `local_files_only=True` takes what is cached, and downloads nothing. The other
        options are `load`'s.

        Raises `VocabError` for a name that the hub does not have or does not give, and for one without
        a vocabulary, beside what `load` raises; `OSError` where the hub cannot be reached, or nothing is
        cached; `ImportError` without `huggingface_hub`.
        """
    @property
    def kind(self, /) -> VocabKind:
        """
        The kind of file it was read from: `"sentencepiece"`, `"tokenizer.json"`, `"tiktoken"` …
        """
    @staticmethod
    def load(path: "str | PathLike[str]", *, text_tokens: "Sequence[str] | None" = None, special_tokens: "Mapping[str, int] | None" = None, pattern: "str | None" = None) -> Vocab:
        """
        Reads a vocabulary from a file, or from a folder with its files. Its kind is detected from the
        content. A file that is half a vocabulary (of ranks, `vocab.json`, `merges.txt`) is read with
        those beside it; of a folder, only files that say something about a vocabulary are read, 64 MiB
        in all. Every added token is control, unless it is known to be text.

        `text_tokens` are spellings of added tokens that are ordinary text in this vocabulary.
        `special_tokens` are control tokens that its files lack, with their ids. `pattern` is the regular
        expression that parts text before merging, where files of ranks leave it unsaid.

        Raises `VocabError` for files that are cut, of another kind, or use what is not implemented, and
        for a folder that has none; `OSError` for what is not there or cannot be read.
        """
    @property
    def lossless(self, /) -> bool:
        """
        Whether decoding gives back every text, up to what the vocabulary normalises; `report.losses` says why
        not. Where `dummy_prefix` is `"first run"`, a text by itself that begins with a space has the reference's
        ids, which are those of the text without it; a codec writes the space.
        """
    @property
    def report(self, /) -> VocabReport:
        """
        Why it is read as it is: which engine runs it, what is lost, which tokens are text by what rule, and
        what was found in its files.
        """
    @property
    def size(self, /) -> int:
        """
        The number of ids, unused ones included.
        """
    @property
    def text_reasons(self, /) -> dict[str, str]:
        """
        Why they are text. Those that a caller named have no reason here.
        """
    @property
    def text_tokens(self, /) -> dict[str, int]:
        """
        The added tokens that are ordinary text, with their ids. All others are control.
        """
    def token_bytes(self, /, id: "SupportsIndex") -> bytes:
        """
        The bytes of one token: its text, or a control token's spelling.
        """
    @property
    def unused(self, /) -> int:
        """
        The number of unused ids: no text and no control token has them.
        """

@final
class VocabReport:
    """
    Why a vocabulary is read as it is, in words: `Vocab.report`. `str` of it is all of that on lines of
    their own, which `chatcodec vocab` shows too.
    """
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    def __str__(self, /) -> str: ...
    @property
    def appended(self, /) -> dict[str, int]:
        """
        Control tokens that a format put after the last id, with their ids.
        """
    @property
    def engine(self, /) -> Literal["bytes", "characters", "tokenizers"]:
        """
        What makes ids of text: `"bytes"` or `"characters"` for our own engines, by what they merge, or
        `"tokenizers"`, the library.
        """
    @property
    def engine_reason(self, /) -> str:
        """
        Why it is this engine: for `"tokenizers"`, what our own engines do not run.
        """
    @property
    def fingerprint(self, /) -> str | None:
        """
        64 bits of the tokens of a file of ranks, by which such files are known; `None` for other files.
        """
    @property
    def known_by(self, /) -> str:
        """
        What says how text is parted: the file, its fingerprint, a name in it, or the caller.
        """
    @property
    def losses(self, /) -> tuple[str, ...]:
        """
        Why not every text comes back from its ids; empty for a vocabulary that is `lossless`.
        """
    @property
    def missing_bytes(self, /) -> bytes:
        """
        Bytes of UTF-8 that no token is: text with one of them is refused.
        """
    @property
    def normalizer(self, /) -> str:
        """
        What is done to text before it is parted: `"nothing"`, `"NFC"` …
        """
    @property
    def pre_tokenizer(self, /) -> str:
        """
        Where text is parted before tokens merge.
        """
    @property
    def text_rules(self, /) -> dict[str, str]:
        """
        The added tokens that are text, each with the rule that says so.
        """

def _install() -> None:
    """
    Makes panics what this module says; the package calls it before anything else. Calling it again changes nothing.
    """

def collect(events: Iterable[Event]) -> dict[str, Any]:
    """
    The message that events tell: the first one, where they tell several.

    Takes what `Stream.push` and `Stream.finish` returned, in order. Calls get the ids `call_0…`.
    """

def formats() -> list[str]:
    """
    The names of the built-in formats, and of their variants after a colon.
    """
