# Written by scripts/stubs.py from the binary; not edited by hand.
"""
The compiled half of `chatcodec`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Literal, SupportsIndex, final, overload

from typing_extensions import Buffer

from chatcodec.audit import Audit
from chatcodec.events import CallKind, Event, MediaKind, NoteKind, NoticeKind, Role, TurnReason
from chatcodec.mapper import Mapper
from chatcodec.options import (
    BareCalls,
    Boundary,
    CallsInReasoning,
    DummyPrefix,
    Guarantee,
    History,
    Markers,
    Markup,
    OnArguments,
    OnError,
    OnLong,
    OnMarker,
    OnReasoning,
    OnUnknown,
    OnUnsupported,
    ReadBy,
    TableColumn,
    VocabKind,
)

__all__ = ["__version__", "ActionDelta", "ActionEnd", "ActionStart", "Batch", "Codec", "Collision", "Constraint", "Dropped", "EncodedTable", "Encoding", "Format", "IntArray", "Media", "Neutralized", "Note", "Notice", "Parsed", "Placeholder", "Reasoning", "Rendered", "ResponseTemplate", "Stream", "StreamPool", "Template", "Text", "TextBatch", "ToolTypes", "TurnEnd", "TurnStart", "Vocab", "VocabReport", "Witness", "_install", "collect", "formats", "pack", "pack_table"]

__version__: Final[str]
"""
The version of the package.
"""

@final
class ActionDelta:
    """
    A part of a call: raw JSON text of its arguments, as generated, or code without its fence.
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
        The number of the call.
        """
    @property
    def text(self, /) -> str:
        """
        The text.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids of the event: first, and one past the last.
        """

@final
class ActionEnd:
    """
    End of a call.
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
        Whether the arguments are one whole JSON value, or the code's fence was closed.
        """
    @property
    def id(self, /) -> str | None:
        """
        The id that the model wrote for the call.
        """
    @property
    def index(self, /) -> int:
        """
        The number of the call.
        """
    @property
    def name(self, /) -> str | None:
        """
        The name, which may follow the arguments.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids of the event: first, and one past the last.
        """

@final
class ActionStart:
    """
    Begin of a call, emitted as soon as the name is known.
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
        The id that the model wrote for the call, in formats with call ids.
        """
    @property
    def index(self, /) -> int:
        """
        The number of the call in the turn, from 0.
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
        Positions of the ids of the event: first, and one past the last.
        """

@final
class Batch:
    """
    The ids of many conversations, concatenated: conversation `i` has `ids[offsets[i]:offsets[i +
    1]]`.
    """
    def __arrow_c_array__(self, /, requested_schema: "object" = None) -> tuple[Any, Any]:
        """
        The ids as an Arrow array of lists that shares their memory: a list of int32 for each
        conversation, null for a conversation that could not be encoded. `pa.array(batch)`,
        `pl.Series(batch)`.
        """
    def __getitem__(self, index: SupportsIndex, /) -> Encoding:
        """
        The encoding of one conversation; raises its error if it could not be encoded.
        """
    def __iter__(self, /) -> Iterator[Encoding]:
        """
        Iterates over the encodings in order; raises the error of a conversation without one.
        """
    def __len__(self, /) -> int: ...
    def __reduce__(self, /) -> "tuple[object, ...]":
        """
        Raises `TypeError`: a batch cannot be pickled, because a pickle with its codec's tables
        would be many times larger than its ids.
        """
    def __repr__(self, /) -> str: ...
    @property
    def errors(self, /) -> dict[int, ValueError]:
        """
        The errors of conversations that could not be encoded, by index (with `errors="return"`);
        these conversations have no ids.
        """
    @property
    def ids(self, /) -> IntArray:
        """
        The ids of all conversations, concatenated; int32, one dimension.
        """
    def labels(self, /, *, roles: "Sequence[Role] | None" = None, last_only: "bool" = False, ignore_index: "int" = -100) -> IntArray:
        """
        Labels for training, as `Encoding.labels` gives them, of all conversations, concatenated;
        int32, one entry for each id of `ids`.
        """
    @property
    def offsets(self, /) -> IntArray:
        """
        Position of the first id of each conversation, then the number of all ids; int64, one entry
        more than there are conversations.
        """

@final
class Codec:
    """
    A codec for one chat format and one vocabulary: messages to token ids and back. Frozen; safe to
    share between threads; pickled as the contents of its files.
    """
    def __new__(cls, /, format: "str | Format | Template", vocab: "str | PathLike[str] | Vocab | None" = None, *, reader: "str | Format | ResponseTemplate | None" = None, check_template: "bool" = True) -> Codec:
        """
        A codec of a format (the name of a built-in one, or a `Format`) and a vocabulary (the path
        of a file or a folder, as `Vocab.load` takes it, or a `Vocab`). `vocab="embedded"` is
        `Vocab.embedded()`, to try things out: its layout is that of `internlm2`, and its ids are no
        model's. A file of this name is `"./embedded"`. A model has both: `Codec.from_pretrained`.

        A `Template` instead of a format writes conversations as the template does, with the ids of its text;
        text of the caller's is never control. `reader` is the format or the `ResponseTemplate`
        that reads completions, by default the format that fits best: see `describe`.

        If the folder of the vocabulary has a chat template, the format is compared with it. A
        contradiction is an error that names the likely format. `check_template=False` omits the
        comparison.

        Raises `FormatError` for an unknown name, without a vocabulary, or for a format that the folder's
        template contradicts; `VocabError` for a vocabulary that cannot be read or lacks a control token of
        the format.
        """
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    def _keys(self, /, messages: "Sequence[Mapping[str, Any]]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'error', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> list[tuple[int, str]]:
        """
        The keys of the format file that write the text of a conversation, for `chatcodec.check`: the first byte of
        each part in `Encoding.text`, and the key. Empty for a codec whose template writes.
        """
    @staticmethod
    def _restore(writer: Any, vocab: Any, format: Format, told: "tuple[str, list[str], list[str], list[str]]", response: "str | None" = None, stop_ids: "list[int] | None" = None) -> Codec:
        """
        Makes a pickled codec again: nothing is recognised or derived once more.
        """
    def adopt(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, messages: "Sequence[Mapping[str, Any]]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'error', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> Encoding:
        """
        The encoding of `ids` that a model saw as the prompt of `messages`, for `extend`. The ids stay as they are: none
        is read, and nothing is encoded. Their sources are unknown. `tools` and the options are those with which the ids
        were made, as `encode` takes them.

            prompt = codec.adopt(ids, messages, tools=tools)
            prompt = codec.extend(prompt, completion, new_messages)

        `extend` also takes ids alone, and reads the messages from them. Known messages are needed where a template
        writes that no format reads, and take less time.

        Raises what `encode` raises for messages that it cannot read, and for options.
        """
    def audit(self, /, tokenizer: "Any" = None) -> "Audit":
        """
        Tries to forge control tokens: every control token in every place of a conversation that a
        caller's text reaches, in several spellings, with this codec and as servers do that tokenize
        the rendered text whole. The command `chatcodec audit` prints it.

        `tokenizer` is one of transformers, 5.20 or newer: what its `apply_chat_template` with
        `sanitize_control_tokens=True` makes of the same texts is `Finding.sanitized`.
        """
    def canonical(self, /, messages: "Sequence[Mapping[str, Any]]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'error', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> list[dict[str, Any]]:
        """
        The canonical form of a conversation: `decode(encode(messages).ids)`, computed without
        encoding. With `tools`, the message that declares them is part of it. The options and errors
        are those of `encode`; parts that `unknown` or `on_unsupported` leaves out are absent. In a codec of a
        template it is what the reading format gives for the ids; one that reads text alone raises
        `MessageError`.
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
        generation prompt. The answer may have begun in it: text, reasoning, or a call up to its arguments. The last 16
        constraints are kept, for requests with the same tools.

        Raises `MessageError`, with the argument, for what the format has no answer for, for tools that are no
        functions, for schemas that are none of objects, for a choice that names no tool, and for a prompt
        without a generation prompt, or that ends within arguments.
        """
    def count(self, /, messages: "Sequence[Mapping[str, Any]]", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'error', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> int:
        """
        How many ids a conversation has; takes what `encode` takes.
        """
    def decode(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None) -> list[dict[str, Any]]:
        """
        Decodes the ids of a conversation to its messages. Malformed input gives the closest
        messages, and no int raises. `ids` is a list, an array of one dimension or a buffer of any
        int type. `tools` and `calls_in_reasoning` are those of `stream`.
        """
    @property
    def derived_turns(self, /) -> str | None:
        """
        The text of the format file whose turns were derived from the model's chat template; None where none was.
        """
    def describe(self, /) -> str:
        """
        Three lines for people: who writes conversations, who reads completions, the vocabulary. A line is added for each
        thing in the model's folder that is not supported, such as a response template; and one where a longer
        conversation does not begin with the ids of the shorter one (`chatcodec.prefix`).
        """
    def encode(self, /, messages: "Sequence[Mapping[str, Any]]", *, history: "History" = "template", tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'error', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> Encoding:
        """
        Encodes messages.

        The options are those of `chatcodec.options.EncodeOptions`. Of an option's words, the first is the
        default.

        `messages` are dicts as the clients of OpenAI and Anthropic write them, or with the format's
        own roles. `tools` is a list of function dicts, or text that is written unchanged.
        `add_generation_prompt` is true by default unless the last message is the assistant's.
        `continue_final=True` leaves that message open. `stop_final=True` ends it with the id that
        stops the model, for training, in formats that write no such id there. `boundary="isolated"`
        encodes the text that a model generates separately, as generation does.
        `on_arguments="string"` writes arguments that are not JSON as a JSON string. `on_marker` is
        the policy for content that spells a marker, in formats whose markers are text: `"report"`
        lists it in `collisions`, `"error"` raises, and `"break"` gives it other ids than the
        marker's. All cores, or `threads`, share a text of half a megabyte or more; the ids are the
        same.

        `unknown` is the policy for keys that no client sends, and `on_unsupported` for parts that
        the format, or the model's chat template, has no place for: reasoning, a name, calls, tools,
        a late system message, an image.
        `"error"` refuses them. `"ignore"` and `"drop"` leave them out: `dropped` lists them, and
        the ids are those of the messages without them.

        `markup` is the policy for reasoning and calls that are spelled in an assistant's content, as
        public data has them: `"text"` writes ordinary text, `"parse"` reads them into `reasoning`
        and `tool_calls` as in a completion, `"error"` refuses them. Texts of other roles are
        never read.

        An image, a video or audio is written as placeholder ids, in formats that have some for it
        (`Format.media`): `tokens` of the part is their number, `{"type": "image", "tokens": 256}`,
        or `[rows, columns]` in formats that separate rows. `media_tokens` is a function that counts
        the parts without `tokens`: it takes a part and its path, and returns what `tokens` would
        be. What it raises is raised.

        `history="append"` writes each answer that is followed by another message as it was written when it was
        last, with its reasoning, and `notes` says what the format or the template would write otherwise
        (`chatcodec.history`). The default writes all as the model's template does.

        The other options are declared by the format (`Format.options`): `thinking=False` prompts
        for an answer without reasoning; `date` (a day, `2026-01-31`) and `effort` are written at
        the beginning of the prompt.

        Raises `MessageError` with the path of a part that the format cannot write; `TypeError` for
        an option that the format does not declare; `ValueError` for an unknown value of an option.
        """
    def encode_batch(self, /, conversations: "Iterable[object]", *, errors: "OnError" = "raise", tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'ignore', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> Batch:
        """
        Encodes many conversations on all cores (or `threads`) with the interpreter released.

        A conversation is a list of messages, or a dict of `messages` and `tools`, such as a row of
        a dataset. Other columns and keys are left out, and `dropped` of the encoding lists them;
        `unknown="error"` refuses them. The other options are those of `encode`, but `unknown` is
        `"ignore"` by default. With `errors="return"`, a conversation that cannot be encoded has no
        ids and an error in `batch.errors`; `"raise"` raises the first error.
        """
    def encode_table(self, /, table: "object", messages: "str | Sequence[str] | None" = None, tools: "str | None" = None, labels: "bool" = False, *, max_length: "int | None" = None, on_long: "OnLong" = "error", columns: "Sequence[TableColumn] | None" = None, prefix: "str" = "", roles: "Sequence[Role] | None" = None, last_only: "bool" = False, ignore_index: "int" = -100, errors: "OnError" = "raise", add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'ignore', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> EncodedTable:
        """
        A table of conversations to a table with their ids, on all cores (or `threads`), the interpreter released.

        `table` is an object with `__arrow_c_stream__` or `__arrow_c_array__`: a table of pyarrow, a frame of polars
        or pandas. The result has the same interface (`pa.table(encoded)`), the columns of the table, and new ones.
        No object of Python's is made for a row.

        `messages` is the column of messages: lists of structs, or text that holds JSON. JSON may also be an object,
        a whole row: its keys are then the columns, in any schema of this list. Several columns are read one
        after another; text in them is the content of one message, of the assistant in the last column and of the
        user before it. By default it is `messages`, `conversations` (with `system`), `prompt` and `completion`, or
        `instruction`, `input` and `output`: the first that the table has. Turns of ShareGPT (`from`, `value`) are
        read in any column. `tools` is the column of tools, lists of structs or text; by default `tools`, if the table
        has it. Text that is a list or `null` in JSON is read; other text is written as it is. A null in a struct is an
        absent key, because Arrow gives all structs of a column the same keys.

        A conversation of more than `max_length` ids is an error by default. `on_long="drop"` gives it null ids,
        `"oldest"` leaves out the oldest turns (a turn is a user's message and all up to the next one; system
        messages at the beginning stay; it is an error if the last turn is too long), `"cut"` the ids at the end.

        `columns` are the new columns, `input_ids` alone by default. As list<int32>: `input_ids`, `labels` (what to train on, with `roles`, `last_only`
        and `ignore_index` as `Encoding.labels` has them; `labels=True` adds them), `position_ids`,
        `message_indices`; and `attention_mask` (list<int8>), `length`, `original_length`, before it
        was shortened, and `trained`, how many of the ids are trained on (int32), `roles` of the messages
        (list<string>), `neutralized` (list<struct<path: string, spelling: string>>: control spelled in the caller's
        text, as `Encoding.neutralized` has it), `dropped` (list<struct<path: string, why: string>>: parts that the
        ids lack, as `Encoding.dropped` has them), `error` (string). `prefix` comes
        before their names. `errors="return"` adds `error`: a conversation that cannot be encoded has null in the
        other new columns and the reason there; `"raise"` raises the first. `markup` is `"error"` by default where
        labels are made, and the error says how many rows have some. The other options are `encode_batch`'s.

        Raises `MessageError` with the path of what is wrong, which begins with `rows[index]`; `TypeError` for an
        object that is no table; `ValueError` for a table without the columns, or one that cannot be read.
        """
    def extend(self, /, prompt: "Encoding | Sequence[int] | Buffer", completion_ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, new_messages: "Sequence[Mapping[str, Any]]", *, reasoning: "OnReasoning" = "keep", add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'error', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> Encoding:
        """
        The prompt of the next turn, from the last prompt and the model's completion. Its ids are
        the ids of `prompt`, then `completion_ids`, both unchanged, then the end of the turn if the
        completion lacks it, then `new_messages` as `encode` writes them with the same options. The
        ids of `prompt` are copied, not encoded again.

        `prompt` is an encoding that ends with the generation prompt or with an open message; or the
        ids of one, whose sources are then unknown. `completion_ids` are the generated ids, with or
        without the id that stopped the model. The completion is a message of its own: results among
        `new_messages` answer its calls, by the ids that `parse` gives the calls or by their order.

            prompt = codec.extend(prompt, completion, [{"role": "user", "content": "And then?"}])

        The ids stay, whatever the model wrote: `encoding.notes` lists the places where `encode`
        gives the same messages other ids. Some formats write earlier turns without their reasoning
        once a user's message follows: `reasoning="keep"` keeps their ids and adds a note;
        `reasoning="template"` raises, and the caller has to encode all messages again.

        Raises `MessageError` with the position of an id that has another meaning in its place: a
        stray control id, an unknown id, an id after the end of the turn. Also raises it for new
        messages that the format cannot write.
        """
    def fit(self, /, messages: "Sequence[Mapping[str, Any]]", tokens: "int", *, tools: "Sequence[Mapping[str, Any]] | str | None" = None, add_generation_prompt: "bool | None" = None, continue_final: "bool" = False, stop_final: "bool" = False, on_marker: "OnMarker" = 'report', boundary: "Boundary" = 'reference', on_arguments: "OnArguments" = 'error', unknown: "OnUnknown" = 'error', on_unsupported: "OnUnsupported" = 'error', markup: "Markup | None" = None, threads: "int | None" = None, media_tokens: "Callable[[Mapping[str, Any], str], SupportsIndex | Sequence[SupportsIndex] | None] | None" = None, **options: "Any") -> "list[Mapping[str, Any]]":
        """
        The messages that have at most `tokens` ids with `tools` and options of `encode`: the oldest turns are left
        out. A turn is a user's message and all messages up to the next one, so that calls keep their results.
        System messages at the beginning stay.

        Gives a list of the caller's own messages. Raises `MessageError` where the last turn alone has more ids,
        and what `encode` raises.
        """
    @property
    def format(self, /) -> Format:
        """
        The format. With a template, the format that reads completions.
        """
    @staticmethod
    def from_pretrained(name_or_dir: "str | PathLike[str]", format: "str | Format | None" = None, *, revision: "str | None" = None, token: "str | bool | None" = None, local_files_only: "bool" = False, text_tokens: "Sequence[str] | None" = None, special_tokens: "Mapping[str, int] | None" = None, pattern: "str | None" = None, template: "str | None" = None, reader: "str | Format | ResponseTemplate | None" = None, check_template: "bool" = True) -> Codec:
        """
        A codec of a model on the Hugging Face hub, of a folder, or of a GGUF file: `Vocab.from_pretrained`,
        whose options these are, and a format: a built-in one's name or a `Format`.

            codec = Codec.from_pretrained("Qwen/Qwen3-0.6B")

        Without a format, the model's chat template decides; of several, the one named `template`, by default
        the one named `default`. The template writes conversations, and `reader` reads completions: a format or a
        `ResponseTemplate`, by default a built-in format that writes the same on a fixed set of conversations, the
        model's own response template, or else the format that fits best. A template may have no place for calls:
        where a built-in format of the model's family has one, that format writes. `describe` says what was found. Where
        the template writes calls that nobody reads, it warns with a `UserWarning`.

        Raises what `Codec` and `Vocab.from_pretrained` raise; `FormatError` for a model without a template, for
        several templates of which none was chosen, and for a template that writes no question; `TemplateError`
        for a template that cannot be parsed.
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

        Needs `pip install pyarrow`. Raises `ImportError` without pyarrow, and what `encode_table` raises
        for options that are wrong.
        """
    def parse(self, /, completion_ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | str", prompt: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | None = None, markers: "Markers" = "ids", *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None, bare_calls: "BareCalls | None" = None) -> Parsed:
        """
        Parses a completion up to the end of the assistant's turn. `prompt` holds the ids before the
        completion; by default, any prompt that ends with the generation prompt. The other options
        are those of `stream`. With `markers="text"`, the completion is a str, and
        `Parsed.rest_text` is the text after the turn.

        `Parsed.message` has what the completion adds: of a text or of a call's arguments that the
        prompt leaves open, the rest.
        """
    @property
    def read_by(self, /) -> ReadBy:
        """
        What reads completions: a format, built-in or the caller's; the part of a built-in format that reads answers; a
        format derived from the chat template; the model's response template; text up to the id that stops the model.
        """
    @property
    def response_template(self, /) -> ResponseTemplate | None:
        """
        The response template that reads completions; None where the format reads them.
        """
    @property
    def stop_ids(self, /) -> list[int]:
        """
        The ids that end an assistant's turn.
        """
    def stream(self, /, prompt: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | None = None, keep: bool = False, markers: "Markers" = "ids", *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None, bare_calls: "BareCalls | None" = None) -> Stream:
        """
        A stream for a completion. `prompt` holds the ids before the completion; by default, any
        prompt that ends with the generation prompt. `keep=True` also collects the message, for
        `Stream.message`.

        `markers` says which input is a control token of the format. `"ids"`: only its id.
        `"ids_or_text"`: its spelling in text too, for grammars and fine-tunes that write it with
        ordinary ids. `"text"`: its spelling, for engines that return text; the stream then takes
        only `push_text`, and the positions of its events are in characters. A quoted marker is
        text.

        `tools` are the tools of the prompt, as `encode` takes them, or a `ToolTypes`, which streams
        can share. Where a format writes arguments without quotes, the tools' schemas say which
        arguments are strings. Without a schema, a value is a string unless the whole value is JSON
        of another type.

        `calls_in_reasoning` is the policy for a call before the end of the reasoning: `"text"`
        keeps it as reasoning, because the model only drafts it, unless the turn ends right after
        whole calls: until then they are held; `"call"` reads a call. The default is the format's
        (`calls.in_reasoning`), which matches the servers of the model.

        `bare_calls` says where an unmarked call may begin in the answer, `{"name": "f",
        "arguments": {…` or a call of the format without the token before it: `"text"`, nowhere;
        `"line"`, at the beginning of a line; `"anywhere"`. Only functions of `tools` are called in
        this way. The default is the format's (`calls.bare`).

        Raises `ValueError` for an unknown value of `markers`, `calls_in_reasoning` or `bare_calls`;
        `MessageError` for invalid tools.
        """
    @property
    def template(self, /) -> Template | None:
        """
        The template that writes conversations; None where the format writes them.
        """
    @property
    def text_boundaries(self, /) -> list[str]:
        """
        The boundaries between turns where no control token stands, which a caller's text can spell:
        `"question to answer"`, `"answer to question"`. Empty for a template that refuses a short conversation.
        """
    @property
    def text_parts(self, /) -> list[str]:
        """
        What of an assistant's message text may delimit, and no control token: `"calls"`, `"reasoning"`. An assistant's
        content that spells such a marker is told in `Encoding.collisions`, except what `bare_calls` alone reads as a call.
        """
    @property
    def unread(self, /) -> list[str]:
        """
        What of an assistant's message the model's chat template writes and nobody reads, which stays text: `"calls"`,
        `"reasoning"`. Empty where a format writes.
        """
    @property
    def vocab(self, /) -> Vocab:
        """
        The vocabulary, with all spellings of the format's control tokens.
        """

@final
class Collision:
    """
    A marker of the format in the caller's text.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["start"], Literal["end"], Literal["marker"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, path: "str", start: "int", end: "int", marker: "str") -> Collision: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
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
        Path of the text: `messages[1].content`.
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
    def __reduce__(self, /) -> "tuple[object, ...]":
        """
        Raises `TypeError`: a constraint cannot be pickled, as it holds its codec's tables.
        """
    def __repr__(self, /) -> str: ...
    def gbnf(self, /) -> str:
        """
        The constraint in llama.cpp's GBNF, with control tokens by their ids: `<[92542]>`. A stop id may follow where
        the constraint is complete. llama.cpp takes text for a control token that it spells; so text spells none,
        neither in an answer nor in arguments.

        Raises `MessageError` for what llama.cpp cannot express.
        """
    def lark(self, /, *, unicode_escapes: bool = False) -> str:
        """
        The grammar for llguidance 1.7 or newer, in its Lark syntax, by itself or as the backend of a
        server.

        With `unicode_escapes`, strings of JSON may escape any character by its number, as some chat templates write
        them; llguidance before 1.8, which vLLM 0.33 has, refuses such a grammar.

        Raises `MessageError` for what llguidance cannot express.
        """
    def structural_tag(self, /) -> str:
        """
        The constraint for xgrammar 0.2 as a structural tag, in JSON: `Grammar.from_structural_tag`, the option
        `structural_tag` of servers. Control tokens are named by their ids. A stop id may follow where the
        constraint is complete. It is exact with `xgrammar_tokens`; with other tokens, text admits control tokens
        that the vocabulary spells.

        Raises `MessageError` for what xgrammar cannot express.
        """
    @property
    def weakened(self, /) -> list[str]:
        """
        The places of the schemas that arguments do not follow, because of `strict=False`:
        `tools[0].function.parameters`.
        """
    def xgrammar_tokens(self, /) -> list[bytes]:
        """
        The bytes of each id for `xgrammar.TokenizerInfo(constraint.xgrammar_tokens(), VocabType.RAW, …)`. Those of a
        control token begin with 0xFF, which is in no text: no text admits a control token.
        """

@final
class Dropped:
    """
    A part of the caller's conversation that was left out.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["what"], Literal["why"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, path: str, what: str, why: str = "unsupported") -> Dropped: ...
    def __repr__(self, /) -> str: ...
    @property
    def path(self, /) -> str:
        """
        Path of the part: `messages[2].reasoning`.
        """
    @property
    def what(self, /) -> str:
        """
        Kind of the part: `"reasoning"`, `"name"`, `"image_url"` …, or `"unknown"` for an unknown
        key.
        """
    @property
    def why(self, /) -> str:
        """
        Why: `"unsupported"`, as nothing writes such a part; `"policy"`, as the model's chat template
        leaves it out of this conversation, and would write it in another; or `"cut"`, as the
        template leaves out a part of this text, and writes the rest.
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
    @property
    def untrained(self, /) -> int:
        """
        How many rows have labels none of which is trained on; 0 for a table without labels.
        """

@final
class Encoding(Sequence[int]):
    """
    The ids of a conversation, as a sequence, with the properties of each id. `ids` and `text` are
    computed at once, all other attributes on first access.
    """
    def __array__(self, /, dtype: "object" = None, copy: "bool | None" = None) -> "Any":
        """
        The ids as a NumPy array, see `IntArray.__array__`.
        """
    def __arrow_c_array__(self, /, requested_schema: "object" = None) -> tuple[Any, Any]:
        """
        The ids as an Arrow array, see `IntArray.__arrow_c_array__`.
        """
    def __contains__(self, value: object, /) -> bool:
        """
        Whether an id occurs.
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
        Raises `TypeError`: an encoding cannot be pickled, because a pickle with its codec's tables
        would be many times larger than its ids.
        """
    def __repr__(self, /) -> str: ...
    def __reversed__(self, /) -> Iterator[int]: ...
    def _page_parts(self, /) -> "tuple[Vocab, list[str], list[tuple[int, int, int]]]":
        """
        What a page needs beside the properties: the vocabulary; the roles of the messages; and the
        control tokens that a tokenizer finds in `text`: start and end in bytes, and id.
        """
    def _repr_html_(self, /) -> "str":
        """
        The page of `to_html` in a frame, for notebooks.
        """
    @property
    def assistant_mask(self, /) -> IntArray:
        """
        1 for an id that a model generates, 0 for all others; uint8, one entry for each id. A model
        generates an assistant's turn after its generation prompt, up to and including the id that
        stops it, which may be the opener of the next turn.
        """
    @property
    def char_offsets(self, /) -> tuple[tuple[int, int], ...]:
        """
        `(start, end)` of each id in `text`, as code points: `text[start:end]`. All ids of one
        character have the range of that character.
        """
    @property
    def collisions(self, /) -> list[Collision]:
        """
        Markers of the format in the caller's text. Empty for formats whose turns are delimited by
        ids.
        """
    def count(self, /, value: "object") -> int:
        """
        Number of occurrences of an id.
        """
    @property
    def dropped(self, /) -> tuple[Dropped, ...]:
        """
        Parts of the caller's conversation that were left out: unknown keys (`unknown="ignore"`),
        unsupported parts (`on_unsupported="drop"`), and data about a text that is not part of it
        (`annotations`). Where a chat template writes: what it passed over, each value by its path.
        """
    @property
    def ids(self, /) -> IntArray:
        """
        The ids: int32, one dimension; NumPy reads them without a copy.
        """
    def index(self, /, value: "object", start: SupportsIndex = 0, stop: SupportsIndex = 9223372036854775807) -> int:
        """
        Index of the first occurrence of an id. Raises `ValueError` if the id does not occur.
        """
    @property
    def is_content(self, /) -> IntArray:
        """
        1 for an id that holds some of the caller's text, 0 for all others; uint8, one entry for
        each id.
        """
    @property
    def is_control(self, /) -> IntArray:
        """
        1 for a control token, 0 for text; uint8, one entry for each id.
        """
    def labels(self, /, *, roles: "Sequence[Role] | None" = None, last_only: "bool" = False, ignore_index: "int" = -100) -> IntArray:
        """
        Labels for training: the id where the model is trained on it, and `ignore_index` elsewhere;
        int32, one entry for each id. Of the assistant's turns, the labels are the ids of
        `assistant_mask`, with the id that stops the model; of other `roles`, the ids of the
        caller's text. `last_only` keeps only the last message of these roles.

        A label has the position of its id: trainers shift labels by one position themselves.
        """
    @property
    def message_indices(self, /) -> IntArray:
        """
        Index of the message of each id; -1 for ids of no message: the beginning of the
        conversation, `tools`, the generation prompt. int32, one entry for each id.
        """
    @property
    def neutralized(self, /) -> list[Neutralized]:
        """
        Spellings of control tokens in the caller's text. The reference would turn them into
        control tokens; here they are ordinary text. For arguments given as a dict or written as a
        string, positions are in the JSON text.
        """
    @property
    def notes(self, /) -> tuple[Note, ...]:
        """
        Differences from `encode`, for an encoding that `Codec.extend` returned: the model wrote the
        same messages with other ids, or the format would now write them with other ids.
        """
    @property
    def offsets(self, /) -> tuple[tuple[int, int], ...]:
        """
        `(start, end)` of each id in `text`, as bytes of its UTF-8.
        """
    @property
    def placeholders(self, /) -> tuple[Placeholder, ...]:
        """
        The ids of images and other media parts, in order: where an engine puts
        embeddings. Ids that were given as ids, to `Codec.extend`, have none.
        """
    @property
    def sources(self, /) -> tuple[str | None, ...]:
        """
        Path of the caller's text that each id holds, such as `messages[0].content`, or of the image
        that it stands for; `None` for ids of the format's own text. A tuple with one entry for each id.
        """
    @property
    def text(self, /) -> str:
        """
        The text that a chat template would produce, with control tokens as their spellings; for
        people to read. Encoding this text gives other ids, because text is never control.
        """
    def to_html(self, /, *, title: "str | None" = None) -> "str":
        """
        A page of HTML that shows the encoding: each id with its bytes, path, offsets and masks, and
        beside it the control tokens that a tokenizer would find in the rendered text. One file, from
        which no request leaves; the caller's text runs nothing in it.
        """
    def tolist(self, /) -> list[int]:
        """
        The ids as a list of ints: `ids.tolist()`.
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
        `FormatError` with the nearest names for an unknown name.
        """
    @staticmethod
    def for_model(name: str) -> Format:
        """
        The built-in format that a model was trained on, by the model's name: `"Qwen/Qwen3-8B"`,
        `"gpt-oss-120b"`. Raises `FormatError` with the nearest names for an unknown model.
        """
    @property
    def guarantee(self, /) -> Guarantee:
        """
        `"ids"` for turns delimited by ids; `"text"` for turns delimited by markers that are
        ordinary text.
        """
    @staticmethod
    def load(path: "str | PathLike[str]", *, variant: "str | None" = None) -> Format:
        """
        Reads a format file, or one of its variants. Raises `FormatError` with the invalid key, or
        for a path that is not a regular file, such as a pipe; `OSError` for a path that does not
        exist.
        """
    @property
    def losses(self, /) -> list[str]:
        """
        What a conversation loses on a round trip, worked out from the file.
        """
    @property
    def media(self, /) -> list[str]:
        """
        The kinds of media parts for which the format has placeholders, among `image`, `video` and `audio`.
        A codec's format has those whose tokens the vocabulary has.
        """
    @property
    def name(self, /) -> str:
        """
        The name of the format.
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
    @staticmethod
    def witness(path: "str | PathLike[str]", vocab: Vocab, *, variant: "str | None" = None) -> Witness | None:
        """
        Looks for a conversation that a format file, which `load` refuses, would read as another one: what
        the refusal is about. `vocab` has the file's control tokens. The search tries some thousand
        conversations, always the same ones. None: none was found, or the file loads.

        Raises `FormatError` for a file that is refused for more than what could be read in two ways,
        `VocabError` for a vocabulary that lacks its tokens, and what `load` raises for a path.
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
class Media:
    """
    An image, a video or audio of the turn: its placeholder ids. An assistant's turn has none.
    """
    __match_args__: Final[tuple[Literal["kind"], Literal["count"], Literal["rows"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, kind: "MediaKind", count: "int", rows: "int", tokens: "tuple[int, int]" = (0, 0)) -> Media: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def count(self, /) -> int:
        """
        Number of placeholder ids in a row.
        """
    @property
    def kind(self, /) -> MediaKind:
        """
        `"image"`, `"video"` or `"audio"`.
        """
    @property
    def rows(self, /) -> int:
        """
        Number of rows; 1 in formats that do not separate rows.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids of the event: first, and one past the last.
        """

@final
class Neutralized:
    """
    A spelling of a control token in the caller's text.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["start"], Literal["end"], Literal["spelling"], Literal["id"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, path: "str", start: "int", end: "int", spelling: "str", id: "int") -> Neutralized: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def end(self, /) -> int:
        """
        One past the last code point.
        """
    @property
    def id(self, /) -> int:
        """
        The id of the control token with this spelling.
        """
    @property
    def path(self, /) -> str:
        """
        Path of the text: `messages[1].content`.
        """
    @property
    def spelling(self, /) -> str:
        """
        The spelling.
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
    An irregularity in the input. It is never an error: every id has an event.
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
        The affected text, or the spelling of the token; for `"mended"`, a description of the
        mended spelling.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids of the event: first, and one past the last.
        """

@final
class Parsed:
    """
    A parsed completion, from `Codec.parse`.
    """
    __match_args__: Final[tuple[Literal["message"], Literal["finish"], Literal["rest"], Literal["rest_text"]]]
    def __new__(cls, /, message: "dict[str, Any]", finish: "TurnReason", rest: "IntArray", rest_text: "str") -> Parsed: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def finish(self, /) -> TurnReason:
        """
        Reason for the end of the turn: `"stop"`, `"action"` or `"implicit"`.
        """
    @property
    def message(self, /) -> dict[str, Any]:
        """
        The assistant's message, as `encode` takes it.
        """
    @property
    def rest(self, /) -> IntArray:
        """
        The ids after the turn; empty for a completion given as text.
        """
    @property
    def rest_text(self, /) -> str:
        """
        The text after the turn, for a completion given as text.
        """

@final
class Placeholder:
    """
    The ids of an image, a video or audio.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["kind"], Literal["start"], Literal["end"], Literal["around"]]]
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def around(self, /) -> tuple[int, int]:
        """
        Positions with the control tokens that open and close the part: first, and one past the
        last.
        """
    @property
    def end(self, /) -> int:
        """
        One past the last placeholder id. Between them are only ids that separate the rows of an
        image. Equal to `start` for a part without placeholder ids.
        """
    @property
    def kind(self, /) -> MediaKind:
        """
        `"image"`, `"video"` or `"audio"`.
        """
    @property
    def path(self, /) -> str:
        """
        Path of the part: `messages[0].content[1]`.
        """
    @property
    def start(self, /) -> int:
        """
        Position of the first placeholder id.
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
        Positions of the ids of the event: first, and one past the last.
        """

@final
class Rendered:
    """
    A rendered template. Frozen.
    """
    def __reduce__(self, /) -> "tuple[object, ...]":
        """
        Raises `TypeError`: a rendered conversation cannot be pickled, as it holds the conversation.
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
class ResponseTemplate:
    """
    A response template: how the authors of a model say that its completions are read, version 1 of transformers'
    `response_template`. Frozen; a `reader` of `Codec`.

    `template` is the dict, or its JSON text. Anchors that spell a control token are its id. The field `content` is
    text, `reasoning_content`, `reasoning`, `thinking`, `thought` and `analysis` are reasoning, `tool_calls` are calls,
    and of any other field the text comes in a notice. Raises `FormatError` with the invalid key.
    """
    def __new__(cls, /, template: "str | Mapping[str, object]") -> ResponseTemplate: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def fields(self, /) -> list[str]:
        """
        The names of its fields.
        """
    @property
    def source(self, /) -> str:
        """
        The template, as JSON text.
        """

@final
class Stream:
    """
    A stream that reads ids and emits events, from `Codec.stream`.
    """
    def __copy__(self, /) -> Stream: ...
    def __deepcopy__(self, /, _memo: "object") -> Stream: ...
    def __reduce__(self, /) -> "tuple[object, ...]":
        """
        Raises `TypeError`: a stream cannot be pickled, as it holds its codec's tables.
        """
    def __repr__(self, /) -> str: ...
    def copy(self, /) -> Stream:
        """
        An independent copy of the stream in its present state.
        """
    def finish(self, /, reason: "Literal['stop', 'length', 'cancelled']" = "stop") -> list[Event]:
        """
        Ends the stream: closes the open call and turn, and emits the held text. `reason` is the engine's
        reason: `"stop"`, `"length"` or `"cancelled"`; `"stop"` in a turn with a call becomes
        `"action"`.
        """
    def message(self, /) -> dict[str, Any]:
        """
        The message so far; only with `keep=True`. A call that began in the prompt has only the part
        that the stream read.
        """
    def push(self, /, ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding") -> list[Event]:
        """
        Reads an id or a sequence of ids, and returns their events. The split of ids into pushes
        does not change the events, except that neighbouring texts may be joined. Accepts every int.
        Raises `ValueError` for a stream of `markers="text"`.
        """
    def push_text(self, /, text: str) -> list[Event]:
        """
        Reads text and returns its events. The split of text into pushes does not change the events,
        except that neighbouring texts may be joined. Raises `ValueError` unless the stream has
        `markers="text"`.
        """

@final
class StreamPool:
    """
    Many streams of one codec, each in a slot, for an engine that generates an id for each of
    thousands of sequences in a step: one call reads them all. Slots are ints from 0; closed slots
    are used again. Safe to share between threads: each call is atomic to the others.
    """
    def __len__(self, /) -> int:
        """
        Number of open streams.
        """
    def __new__(cls, /, codec: Codec) -> StreamPool: ...
    def __reduce__(self, /) -> "tuple[object, ...]":
        """
        Raises `TypeError`: a pool cannot be pickled, as it holds its codec's tables.
        """
    def __repr__(self, /) -> str: ...
    def close(self, /, slot: SupportsIndex) -> None:
        """
        Closes a slot, whether its stream is finished or not.
        """
    def finish(self, /, slot: SupportsIndex, reason: "Literal['stop', 'length', 'cancelled']" = "stop") -> list[Event]:
        """
        Ends the stream in a slot, as `Stream.finish` does. The slot stays open until `close`.
        """
    def message(self, /, slot: SupportsIndex) -> dict[str, Any]:
        """
        The message so far of the stream in a slot, as `Stream.message` gives it.
        """
    def open(self, /, prompt: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | None = None, keep: bool = False, markers: "Markers" = "ids", *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None, calls_in_reasoning: "CallsInReasoning | None" = None, bare_calls: "BareCalls | None" = None) -> int:
        """
        Opens a stream and returns its slot. The options are those of `Codec.stream`; a `ToolTypes`
        is read once for all its streams.
        """
    def push(self, /, slots: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding) -> tuple[list[int], list[Event]]:
        """
        Reads one id for each slot, in order, and returns a list of slots and a list of events, of
        one length, in the order of the ids; an id without an event adds nothing: `for slot, event
        in zip(*pool.push(slots, ids))`. `slots` and `ids` have one length and are sequences of ints
        or one-dimensional buffers of ints; a slot may occur several times. Raises `IndexError` for
        a slot without a stream and `ValueError` for a stream of text, before any id is read.
        Releases the interpreter. An interrupt of a push of 65,536 ids or more loses its events: the
        ids are read.
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
    @property
    def names(self, /) -> set[str]:
        """
        The names of variables that the template uses, its own among them.
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
        Positions of the ids of the event: first, and one past the last.
        """

@final
class TextBatch:
    """
    The ids of many texts, concatenated: text `i` has `ids[offsets[i]:offsets[i + 1]]`.
    """
    def __arrow_c_array__(self, /, requested_schema: "object" = None) -> tuple[Any, Any]:
        """
        The ids as an Arrow array of lists that shares their memory: a list of int32 for each text.
        `pa.array(batch)`, `pl.Series(batch)`.
        """
    def __getitem__(self, index: SupportsIndex, /) -> IntArray:
        """
        The ids of one text: int32, one dimension.
        """
    def __iter__(self, /) -> Iterator[IntArray]:
        """
        Iterates over the ids of each text, in order.
        """
    def __len__(self, /) -> int: ...
    def __reduce__(self, /) -> "tuple[object, ...]": ...
    def __repr__(self, /) -> str: ...
    @staticmethod
    def _restore(ids: IntArray, offsets: IntArray) -> TextBatch: ...
    @property
    def ids(self, /) -> IntArray:
        """
        The ids of all texts, concatenated; int32, one dimension.
        """
    @property
    def offsets(self, /) -> IntArray:
        """
        Position of the first id of each text, then the number of all ids; int64, one entry more than there are texts.
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
    End of a turn.
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
        Positions of the ids of the event: first, and one past the last.
        """

@final
class TurnStart:
    """
    Begin of a turn, with its role, and its name if the header has one.
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
        The channel, in formats with channels.
        """
    @property
    def name(self, /) -> str | None:
        """
        The name in the header.
        """
    @property
    def recipient(self, /) -> str | None:
        """
        The recipient, in formats with recipients.
        """
    @property
    def role(self, /) -> Role:
        """
        `"system"`, `"user"`, `"assistant"` or `"tool"`.
        """
    @property
    def tokens(self, /) -> tuple[int, int]:
        """
        Positions of the ids of the event: first, and one past the last.
        """

@final
class Vocab:
    """
    A vocabulary: text to ids and ids to text, where text never becomes control. Frozen; safe to
    share between threads; pickled as the content of its files.
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
        Restores a pickled vocabulary.
        """
    @property
    def control(self, /) -> dict[str, int]:
        """
        Every spelling of every control token, with its id.
        """
    def decode(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding, control: "Literal['spell', 'skip']" = "spell") -> str:
        """
        Decodes ids to text. Control tokens become their spellings (`control="spell"`) or are left
        out (`"skip"`). Bytes that are not UTF-8 become U+FFFD. Raises `VocabError` for an id
        outside the vocabulary.
        """
    def decode_bytes(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding) -> bytes:
        """
        Decodes ids to bytes; control tokens become their spellings.
        """
    @property
    def dummy_prefix(self, /) -> DummyPrefix:
        """
        Where the vocabulary puts a space before text: `"every run"` of text between two control
        tokens; the `"first run"`, only if no token comes before it; or `"never"`.
        """
    @staticmethod
    def embedded() -> Vocab:
        """
        The vocabulary of the package: InternLM2's layout of ids, with merges of its own.
        """
    def encode(self, /, text: str, *, threads: SupportsIndex | None = None) -> IntArray:
        """
        Encodes text to ids that are never control: int32, one dimension. Raises `MessageError` for
        half of a surrogate pair, and `VocabError` for text without a token, in a vocabulary that is
        not `lossless`. All cores, or `threads`, share a text of half a megabyte or more; the ids
        are the same.
        """
    def encode_batch(self, /, texts: "Iterable[str]", *, threads: SupportsIndex | None = None) -> TextBatch:
        """
        Encodes many texts, each as `encode` does, and faster. `batch.ids` has the ids of all, and `batch[i]`
        those of one. All cores, or `threads`, share the texts; the interpreter is released. Raises
        `TypeError` for an item that is no `str`, and `encode`'s errors with the item (`texts[3]`).
        """
    def first_uncanonical(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding) -> int | None:
        """
        The position of the first id that `encode` gives the text of its run otherwise; None where all are canonical. A
        run is the ids between two control tokens. An id outside the vocabulary, or of no text, is such an id.

            vocab.first_uncanonical(vocab.encode("Hello"))  # None
        """
    @staticmethod
    def from_pretrained(name_or_dir: "str | PathLike[str]", *, revision: "str | None" = None, token: "str | bool | None" = None, local_files_only: "bool" = False, text_tokens: "Sequence[str] | None" = None, special_tokens: "Mapping[str, int] | None" = None, pattern: "str | None" = None) -> Vocab:
        """
        Reads the vocabulary of a model on the Hugging Face hub, such as `"Qwen/Qwen3-8B"`; or, if
        `name_or_dir` is a folder or a file, as `load` does.

        Names need `pip install huggingface_hub`. Cached files are used without a request to the
        hub; missing files are downloaded: only the tokenizer's files, no weights. `revision` is a
        branch, a tag or a commit. `token` is the hub's token: a string, `True` for the stored
        token, or `False` for none. `local_files_only=True` uses only cached files. The other
        options are those of `load`.

        Raises the errors of `load`; `VocabError` for a name that the hub does not have or does not
        give access to, and for a model without a vocabulary; `OSError` if the hub cannot be reached
        or no file is cached; `ImportError` without `huggingface_hub`.
        """
    def is_canonical(self, /, ids: SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding) -> bool:
        """
        Whether all ids are those that `encode` gives the text between control tokens: `first_uncanonical` is None.
        """
    @property
    def kind(self, /) -> VocabKind:
        """
        The kind of its file: `"sentencepiece"`, `"tokenizer.json"`, `"tiktoken"` …
        """
    @staticmethod
    def load(path: "str | PathLike[str]", *, text_tokens: "Sequence[str] | None" = None, special_tokens: "Mapping[str, int] | None" = None, pattern: "str | None" = None) -> Vocab:
        """
        Reads a vocabulary from a file, or from a folder with its files. The kind is detected from
        the content. A file that holds half a vocabulary (ranks, `vocab.json`, `merges.txt`) is read
        with the files beside it. Of a folder, only files about the vocabulary are read, 64 MiB in
        all. Every added token is control, unless it is known to be text.

        `text_tokens` are spellings of added tokens that are ordinary text in this vocabulary.
        `special_tokens` are control tokens that the files lack, with their ids. `pattern` is the
        regular expression that splits text before merging, for files of ranks that do not state it.

        Raises `VocabError` for truncated files, files of another kind, features that are not
        implemented, and a folder without a vocabulary; `OSError` for a path that does not exist or
        cannot be read.
        """
    @property
    def lossless(self, /) -> bool:
        """
        Whether decoding gives back every text, up to normalisation by the vocabulary;
        `report.losses` gives the reasons if not. Where `dummy_prefix` is `"first run"`, a single
        text that begins with a space has the reference's ids, which are those of the text without
        the space; a codec writes the space.
        """
    @property
    def report(self, /) -> VocabReport:
        """
        How the vocabulary is read and why: its engine, losses, text tokens with their rules, and
        findings in its files.
        """
    @property
    def size(self, /) -> int:
        """
        The number of ids, unused ones included.
        """
    @property
    def text_reasons(self, /) -> dict[str, str]:
        """
        The reason why each added token is text. Tokens that the caller named have no reason here.
        """
    @property
    def text_tokens(self, /) -> dict[str, int]:
        """
        The added tokens that are ordinary text, with their ids. All other added tokens are control.
        """
    def token_bytes(self, /, id: "SupportsIndex") -> bytes:
        """
        The bytes of one token: its text, or a control token's spelling.
        """
    @property
    def unused(self, /) -> int:
        """
        Number of unused ids: neither text nor a control token has them.
        """

@final
class VocabReport:
    """
    How a vocabulary is read, and why, in words: `Vocab.report`. `str` gives the report as lines of
    text, which `chatcodec vocab` shows too.
    """
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    def __str__(self, /) -> str: ...
    @property
    def appended(self, /) -> dict[str, int]:
        """
        Control tokens that a format appended after the last id, with their ids.
        """
    @property
    def engine(self, /) -> Literal["bytes", "characters", "tokenizers"]:
        """
        The engine that encodes text: `"bytes"` or `"characters"`, our engines, named by their
        merged units; or `"tokenizers"`, the library.
        """
    @property
    def engine_reason(self, /) -> str:
        """
        The reason for the engine; for `"tokenizers"`, the features that our engines do not have.
        """
    @property
    def fingerprint(self, /) -> str | None:
        """
        Hash of the tokens of a file of ranks, 64 bits, by which known files are recognised; `None`
        for other files.
        """
    @property
    def known_by(self, /) -> str:
        """
        Source of the split: the file, its fingerprint, a name in it, or the caller.
        """
    @property
    def losses(self, /) -> tuple[str, ...]:
        """
        Reasons why some texts do not survive encoding and decoding; empty for a `lossless`
        vocabulary.
        """
    @property
    def missing_bytes(self, /) -> bytes:
        """
        Bytes of UTF-8 without a token: text with one of them is refused.
        """
    @property
    def normalizer(self, /) -> str:
        """
        Normalisation of text before it is split: `"nothing"`, `"NFC"` …
        """
    @property
    def pre_tokenizer(self, /) -> str:
        """
        How text is split before tokens merge.
        """
    @property
    def text_rules(self, /) -> dict[str, str]:
        """
        The added tokens that are text, each with the rule that makes it text.
        """

@final
class Witness:
    """
    A conversation that a refused format file would read as another one. Frozen.
    """
    def __repr__(self, /) -> str: ...
    @property
    def expected(self, /) -> list[dict[str, Any]]:
        """
        The messages that should come back.
        """
    @property
    def messages(self, /) -> list[dict[str, Any]]:
        """
        The messages of the conversation.
        """
    @property
    def notices(self, /) -> list[str]:
        """
        What a stream reports of the text beside the messages: tokens that it does not expect.
        """
    @property
    def read(self, /) -> list[dict[str, Any]]:
        """
        The messages that come back instead.
        """
    @property
    def text(self, /) -> str:
        """
        The text that the file writes, with control tokens spelled out.
        """
    @property
    def tools(self, /) -> str | None:
        """
        The declared tools, as text; None without any.
        """

def _install() -> None:
    """
    Installs the handling of panics; the package calls it first. Idempotent.
    """

def collect(events: Iterable[Event]) -> dict[str, Any]:
    """
    The message that events describe; the first one, if they describe several.

    Takes the events that `Stream.push` and `Stream.finish` returned, in order. Calls get the ids
    `call_0…`.
    """

def formats() -> list[str]:
    """
    The names of the built-in formats, and of their variants after a colon.
    """

def pack(lengths: "Sequence[int]", size: "int") -> "list[list[int]]":
    """
    Packs items into bins of `size`, few bins: best fit decreasing, in O(n log n) time. Gives the indices of the
    items of each bin, in order; bins are in the order of their first items.

    Raises `ValueError` for a length that is negative or greater than `size`.
    """

def pack_table(table: "object", size: "int", *, ignore_index: "int" = -100) -> EncodedTable:
    """
    Packs the conversations of a table into rows of at most `size` ids, few rows.

    `table` is an object with Arrow's interface and the column `input_ids`, a list of ints, as `Codec.encode_table`
    gives it. The result has a row a bin with the columns `input_ids`, `labels` and `attention_mask` (if the table
    has them), `position_ids`, which begin anew with each conversation, and `sequence_lengths`. All are
    list<int32>; `attention_mask` is list<int8>. The first label of each conversation is `ignore_index`, because
    nothing of it comes before. Rows without ids are left out; other columns, too.

    Raises `ValueError` for a table without `input_ids`, for columns of other types or with lists of other lengths,
    and for a conversation with more than `size` ids.
    """
