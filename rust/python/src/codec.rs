//! `Codec`: the interpreter's side of both arrows.
//!
//! The methods and their documentation. What they do: `codec/load.rs` makes codecs, `codec/write.rs` writes
//! conversations, `codec/read.rs` reads ids, `codec/describe.rs` tells what a codec is.

use std::sync::Arc;

use chatcodec::{
    Answers, Codec as CoreCodec, ConstrainOptions, ConstrainRequest, Markup, Reader,
    Vocab as CoreVocab,
};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList, PyString, PyTuple};

use crate::arrow_read::reader_of;
use crate::away::{away, on_ids};
use crate::constraint::Constraint;
use crate::encoding::{Batch, Encoding, label_options};
use crate::errors::raise;
use crate::format::Format;
use crate::ids::{Ids, ListOf, Threads};
use crate::node::{Raised, Value, message_list};
use crate::options::{Method, appends, raises};
use crate::reader::ToldReader;
use crate::response::ResponseTemplate;
use crate::stream::{Parsed, Stream, calling, typed};
use crate::table::{EncodedTable, OnLong, Output, TableOptions};
use crate::template::Template;
use crate::texts::Texts;
use crate::typed::{IntList, MessageList};
use crate::vocab::{Origin, Vocab};

mod describe;
mod load;
mod read;
mod write;

/// A codec for one chat format and one vocabulary: messages to token ids and back. Frozen; safe to
/// share between threads; pickled as the contents of its files.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Codec {
    inner: CoreCodec,
    format: Py<Format>,
    vocab: Py<Vocab>,
    /// The vocabulary as the caller gave it, for pickling.
    given: CoreVocab,
    /// Where it was read from.
    origin: Option<Arc<Origin>>,
    /// Texts of its streams' events.
    texts: Arc<Texts>,
    /// How the format was found.
    reader: Reader,
    /// The template that writes conversations, if the format only reads.
    template: Option<Py<Template>>,
    /// Why the model's response template reads nothing, if it has one that is not supported.
    unused_response: Option<String>,
    /// The stop ids of the model's folder.
    folder_stops: Vec<i64>,
}

impl Codec {
    /// The parts that streams share: the core's codec, and the texts of events.
    pub(crate) fn parts(&self) -> (&CoreCodec, &Arc<Texts>) {
        (&self.inner, &self.texts)
    }
}

#[pymethods]
impl Codec {
    /// A codec of a format (the name of a built-in one, or a `Format`) and a vocabulary (the path
    /// of a file or a folder, as `Vocab.load` takes it, or a `Vocab`). `vocab="embedded"` is
    /// `Vocab.embedded()`, to try things out: its layout is that of `internlm2`, and its ids are no
    /// model's. A file of this name is `"./embedded"`. A model has both: `Codec.from_pretrained`.
    ///
    /// A `Template` instead of a format writes conversations as the template does, with the ids of its text;
    /// text of the caller's is never control. `reader` is the format or the `ResponseTemplate`
    /// that reads completions, by default the format that fits best: see `describe`.
    ///
    /// If the folder of the vocabulary has a chat template, the format is compared with it. A
    /// contradiction is an error that names the likely format. `check_template=False` omits the
    /// comparison.
    ///
    /// Raises `FormatError` for an unknown name, without a vocabulary, or for a format that the folder's
    /// template contradicts; `VocabError` for a vocabulary that cannot be read or lacks a control token of
    /// the format.
    #[new]
    #[pyo3(signature = (
        format: "str | Format | Template",
        vocab: "str | PathLike[str] | Vocab | None" = None,
        *,
        reader: "str | Format | ResponseTemplate | None" = None,
        check_template: "bool" = true
    ))]
    fn new(
        format: &Bound<'_, PyAny>,
        vocab: Option<&Bound<'_, PyAny>>,
        reader: Option<&Bound<'_, PyAny>>,
        check_template: bool,
    ) -> PyResult<Self> {
        Self::made(format, vocab, reader, check_template)
    }

    /// A codec of a model on the Hugging Face hub, of a folder, or of a GGUF file: `Vocab.from_pretrained`,
    /// whose options these are, and a format: a built-in one's name or a `Format`.
    ///
    ///     codec = Codec.from_pretrained("Qwen/Qwen3-0.6B")
    ///
    /// Without a format, the model's chat template decides; of several, the one named `template`, by default
    /// the one named `default`. The template writes conversations, and `reader` reads completions: a format or a
    /// `ResponseTemplate`, by default a built-in format that writes the same on a fixed set of conversations, the
    /// model's own response template, or else the format that fits best. A template may have no place for calls:
    /// where a built-in format of the model's family has one, that format writes. `describe` says what was found. Where
    /// the template writes calls that nobody reads, it warns with a `UserWarning`.
    ///
    /// Raises what `Codec` and `Vocab.from_pretrained` raise; `FormatError` for a model without a template, for
    /// several templates of which none was chosen, and for a template that writes no question; `TemplateError`
    /// for a template that cannot be parsed.
    #[staticmethod]
    #[pyo3(signature = (
        name_or_dir: "str | PathLike[str]",
        format: "str | Format | None" = None,
        *,
        revision: "str | None" = None,
        token: "str | bool | None" = None,
        local_files_only: "bool" = false,
        text_tokens: "Sequence[str] | None" = None,
        special_tokens: "Mapping[str, int] | None" = None,
        pattern: "str | None" = None,
        template: "str | None" = None,
        reader: "str | Format | ResponseTemplate | None" = None,
        check_template: "bool" = true
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn from_pretrained<'py>(
        py: Python<'py>,
        name_or_dir: &Bound<'py, PyAny>,
        format: Option<&Bound<'py, PyAny>>,
        revision: Option<&str>,
        token: Option<&Bound<'py, PyAny>>,
        local_files_only: bool,
        text_tokens: Option<ListOf<Bound<'py, PyString>>>,
        special_tokens: Option<Bound<'py, PyAny>>,
        pattern: Option<Bound<'py, PyString>>,
        template: Option<&str>,
        reader: Option<&Bound<'py, PyAny>>,
        check_template: bool,
    ) -> PyResult<Self> {
        let vocab = || {
            Vocab::from_pretrained(
                py,
                name_or_dir,
                revision,
                token,
                local_files_only,
                text_tokens,
                special_tokens,
                pattern,
            )
        };
        Self::of_model(py, format, template, reader, check_template, vocab)
    }

    /// Three lines for people: who writes conversations, who reads completions, the vocabulary. A line is added for each
    /// thing in the model's folder that is not supported, such as a response template; and one where a longer
    /// conversation does not begin with the ids of the shorter one (`chatcodec.prefix`).
    fn describe(slf: &Bound<'_, Self>) -> PyResult<String> {
        let described = slf.get().described();
        let prefix = slf.py().import("chatcodec.prefix")?.call_method1("described", (slf,))?;
        Ok(match prefix.extract::<Option<String>>()? {
            Some(line) => format!("{described}\n{line}"),
            None => described,
        })
    }

    /// What of an assistant's message the model's chat template writes and nobody reads, which stays text: `"calls"`,
    /// `"reasoning"`. Empty where a format writes.
    #[getter]
    fn unread(&self) -> Vec<&'static str> {
        self.inner.unread()
    }

    /// What of an assistant's message text may delimit, and no control token: `"calls"`, `"reasoning"`. An assistant's
    /// content that spells such a marker is told in `Encoding.collisions`, except what `bare_calls` alone reads as a call.
    #[getter]
    fn text_parts(&self) -> Vec<&'static str> {
        self.inner.text_parts()
    }

    /// The boundaries between turns where no control token stands, which a caller's text can spell:
    /// `"question to answer"`, `"answer to question"`. Empty for a template that refuses a short conversation.
    #[getter]
    fn text_boundaries(&self) -> Vec<&'static str> {
        self.inner.text_boundaries()
    }

    /// What reads completions: a format, built-in or the caller's; the part of a built-in format that reads answers; a
    /// format derived from the chat template; the model's response template; text up to the id that stops the model.
    #[getter]
    fn read_by(&self) -> &'static str {
        match &self.reader {
            _ if self.inner.response().is_some() => "response template",
            Reader::Named | Reader::Recognised(_) => "format",
            Reader::Answers(Answers { format, .. }) if format == "template" => "derived format",
            Reader::Answers(_) => "part for answers",
            Reader::Derived(_) => "derived format",
            Reader::Text => "text",
        }
    }

    /// The text of the format file whose turns were derived from the model's chat template; None where none was.
    #[getter]
    fn derived_turns(&self) -> Option<String> {
        match &self.reader {
            Reader::Derived(_) => Some(self.inner.format().text().to_owned()),
            Reader::Answers(answers) => answers.turns.clone(),
            _ => None,
        }
    }

    /// The format. With a template, the format that reads completions.
    #[getter]
    fn format<'py>(&self, py: Python<'py>) -> Bound<'py, Format> {
        self.format.bind(py).clone()
    }

    /// The template that writes conversations; None where the format writes them.
    #[getter]
    fn template<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Template>> {
        self.template.as_ref().map(|template| template.bind(py).clone())
    }

    /// The response template that reads completions; None where the format reads them.
    #[getter]
    fn response_template(&self) -> Option<ResponseTemplate> {
        self.inner.response().map(|response| ResponseTemplate::new_of(response.clone()))
    }

    /// The vocabulary, with all spellings of the format's control tokens.
    #[getter]
    fn vocab<'py>(&self, py: Python<'py>) -> Bound<'py, Vocab> {
        self.vocab.bind(py).clone()
    }

    /// The ids that end an assistant's turn.
    #[getter]
    fn stop_ids<'py>(&self, py: Python<'py>) -> PyResult<IntList<'py>> {
        Ok(IntList(pyo3::types::PyList::new(py, self.inner.stop_ids())?))
    }

    /// The ids that open an assistant's turn.
    #[getter]
    fn generation_prompt_ids<'py>(&self, py: Python<'py>) -> PyResult<IntList<'py>> {
        Ok(IntList(pyo3::types::PyList::new(py, self.inner.generation_prompt())?))
    }

    /// Encodes messages.
    ///
    /// The options are those of `chatcodec.options.EncodeOptions`. Of an option's words, the first is the
    /// default.
    ///
    /// `messages` are dicts as the clients of OpenAI and Anthropic write them, or with the format's
    /// own roles. `tools` is a list of function dicts, or text that is written unchanged.
    /// `add_generation_prompt` is true by default unless the last message is the assistant's.
    /// `continue_final=True` leaves that message open. `stop_final=True` ends it with the id that
    /// stops the model, for training, in formats that write no such id there. `boundary="isolated"`
    /// encodes the text that a model generates separately, as generation does.
    /// `on_arguments="string"` writes arguments that are not JSON as a JSON string. `on_marker` is
    /// the policy for content that spells a marker, in formats whose markers are text: `"report"`
    /// lists it in `collisions`, `"error"` raises, and `"break"` gives it other ids than the
    /// marker's. All cores, or `threads`, share a text of half a megabyte or more; the ids are the
    /// same.
    ///
    /// `unknown` is the policy for keys that no client sends, and `on_unsupported` for parts that
    /// the format, or the model's chat template, has no place for: reasoning, a name, calls, tools,
    /// a late system message, an image.
    /// `"error"` refuses them. `"ignore"` and `"drop"` leave them out: `dropped` lists them, and
    /// the ids are those of the messages without them.
    ///
    /// `markup` is the policy for reasoning and calls that are spelled in an assistant's content, as
    /// public data has them: `"text"` writes ordinary text, `"parse"` reads them into `reasoning`
    /// and `tool_calls` as in a completion, `"error"` refuses them. Texts of other roles are
    /// never read.
    ///
    /// An image, a video or audio is written as placeholder ids, in formats that have some for it
    /// (`Format.media`): `tokens` of the part is their number, `{"type": "image", "tokens": 256}`,
    /// or `[rows, columns]` in formats that separate rows. `media_tokens` is a function that counts
    /// the parts without `tokens`: it takes a part and its path, and returns what `tokens` would
    /// be. What it raises is raised.
    ///
    /// `history="append"` writes each answer that is followed by another message as it was written when it was
    /// last, with its reasoning, and `notes` says what the format or the template would write otherwise
    /// (`chatcodec.history`). The default writes all as the model's template does.
    ///
    /// The other options are declared by the format (`Format.options`): `thinking=False` prompts
    /// for an answer without reasoning; `date` (a day, `2026-01-31`) and `effort` are written at
    /// the beginning of the prompt.
    ///
    /// Raises `MessageError` with the path of a part that the format cannot write; `TypeError` for
    /// an option that the format does not declare; `ValueError` for an unknown value of an option.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        *,
        history: "History" = "template",
        **options: "Unpack[EncodeOptions]"
    ))]
    fn encode<'py>(
        slf: &Bound<'py, Self>,
        messages: &Bound<'py, PyAny>,
        history: &str,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, Encoding>> {
        if appends(history)? {
            let options = options.cloned().unwrap_or_else(|| PyDict::new(slf.py()));
            let module = slf.py().import("chatcodec.history")?;
            let encoding = module.call_method1("appended", (slf, messages, options))?;
            return Ok(encoding.cast_into()?);
        }
        Bound::new(slf.py(), slf.get().encoded(messages, options)?)
    }

    /// The prompt of the next turn, from the last prompt and the model's completion. Its ids are
    /// the ids of `prompt`, then `completion_ids`, both unchanged, then the end of the turn if the
    /// completion lacks it, then `new_messages` as `encode` writes them with the same options. The
    /// ids of `prompt` are copied, not encoded again.
    ///
    /// `prompt` is an encoding that ends with the generation prompt or with an open message; or the
    /// ids of one, whose sources are then unknown. `completion_ids` are the generated ids, with or
    /// without the id that stopped the model. The completion is a message of its own: results among
    /// `new_messages` answer its calls, by the ids that `parse` gives the calls or by their order.
    ///
    ///     prompt = codec.extend(prompt, completion, [{"role": "user", "content": "And then?"}])
    ///
    /// The ids stay, whatever the model wrote: `encoding.notes` lists the places where `encode`
    /// gives the same messages other ids. Some formats write earlier turns without their reasoning
    /// once a user's message follows: `reasoning="keep"` keeps their ids and adds a note;
    /// `reasoning="template"` raises, and the caller has to encode all messages again.
    ///
    /// Raises `MessageError` with the position of an id that has another meaning in its place: a
    /// stray control id, an unknown id, an id after the end of the turn. Also raises it for new
    /// messages that the format cannot write.
    #[pyo3(signature = (
        prompt: "Encoding | Sequence[int] | Buffer",
        completion_ids,
        new_messages: "Sequence[Mapping[str, Any]]",
        *,
        reasoning: "OnReasoning" = "keep",
        **options: "Unpack[WriteOptions]"
    ))]
    fn extend(
        &self,
        prompt: &Bound<'_, PyAny>,
        completion_ids: Ids,
        new_messages: &Bound<'_, PyAny>,
        reasoning: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoding> {
        self.extended(prompt, completion_ids, new_messages, reasoning, options)
    }

    /// The encoding of `ids` that a model saw as the prompt of `messages`, for `extend`. The ids stay as they are: none
    /// is read, and nothing is encoded. Their sources are unknown. `tools` and the options are those with which the ids
    /// were made, as `encode` takes them.
    ///
    ///     prompt = codec.adopt(ids, messages, tools=tools)
    ///     prompt = codec.extend(prompt, completion, new_messages)
    ///
    /// `extend` also takes ids alone, and reads the messages from them. Known messages are needed where a template
    /// writes that no format reads, and take less time.
    ///
    /// Raises what `encode` raises for messages that it cannot read, and for options.
    #[pyo3(signature = (
        ids,
        messages: "Sequence[Mapping[str, Any]]",
        **options: "Unpack[EncodeOptions]"
    ))]
    fn adopt(
        &self,
        ids: Ids,
        messages: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoding> {
        self.adopted(ids, messages, options)
    }

    /// What a model may generate after a prompt: text, reasoning and calls of `tools` as the format writes them, by
    /// the ids of its control tokens. What it admits is what `parse` reads as an answer that was asked for.
    ///
    ///     constraint = codec.constrain(tools=tools, tool_choice="required", parallel=False)
    ///     matcher = llguidance.LLMatcher(tokenizer, constraint.lark())
    ///
    /// `tools` is a list of function dicts, as `encode` takes them. `tool_choice` is `"auto"`, `"required"`,
    /// `"none"`, a dict that names a function, or OpenAI's `allowed_tools`. Without `parallel` there is one call at
    /// most. With `strict`, arguments follow the JSON schemas of their tools; without, they are any object, and
    /// `Constraint.weakened` lists the schemas. `response_format` is OpenAI's: with `json_object` or `json_schema`
    /// an answer without calls is such JSON. `reasoning` says whether the answer has reasoning; by default
    /// the model decides. `prompt` is the ids that the answer continues, by default any that end with the
    /// generation prompt. The answer may have begun in it: text, reasoning, or a call up to its arguments. The last 16
    /// constraints are kept, for requests with the same tools.
    ///
    /// Raises `MessageError`, with the argument, for what the format has no answer for, for tools that are no
    /// functions, for schemas that are none of objects, for a choice that names no tool, and for a prompt
    /// without a generation prompt, or that ends within arguments.
    #[pyo3(signature = (
        *,
        tools: "Sequence[Mapping[str, Any]] | str | None" = None,
        tool_choice: "str | Mapping[str, Any] | None" = None,
        parallel: "bool" = true,
        strict: "bool" = true,
        response_format: "str | Mapping[str, Any] | None" = None,
        reasoning: "bool | None" = None,
        prompt: "Sequence[int] | Buffer | None" = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn constrain(
        &self,
        tools: Option<&Bound<'_, PyAny>>,
        tool_choice: Option<&Bound<'_, PyAny>>,
        parallel: bool,
        strict: bool,
        response_format: Option<&Bound<'_, PyAny>>,
        reasoning: Option<bool>,
        prompt: Option<Ids>,
    ) -> PyResult<Constraint> {
        let raised = Raised::default();
        let tools = tools.map(|tools| Value::new(tools, &raised));
        let choice = tool_choice.map(|choice| Value::new(choice, &raised));
        let answer = response_format.map(|answer| Value::new(answer, &raised));
        let request = ConstrainRequest {
            response_format: answer.as_ref(),
            tools: tools.as_ref(),
            tool_choice: choice.as_ref(),
            prompt: prompt.as_ref().map(Ids::all),
        };
        let options = ConstrainOptions { parallel, strict, reasoning };
        let constraint = self.inner.constrain(&request, options);
        raised.check()?;
        constraint.map(Constraint::new).map_err(raise)
    }

    /// Encodes many conversations on all cores (or `threads`) with the interpreter released.
    ///
    /// A conversation is a list of messages, or a dict of `messages` and `tools`, such as a row of
    /// a dataset. Other columns and keys are left out, and `dropped` of the encoding lists them;
    /// `unknown="error"` refuses them. The other options are those of `encode`, but `unknown` is
    /// `"ignore"` by default. With `errors="return"`, a conversation that cannot be encoded has no
    /// ids and an error in `batch.errors`; `"raise"` raises the first error.
    #[pyo3(signature = (
        conversations: "Iterable[object]",
        *,
        errors: "OnError" = "raise",
        **options: "Unpack[EncodeOptions]"
    ))]
    fn encode_batch(
        &self,
        conversations: &Bound<'_, PyAny>,
        errors: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Batch> {
        self.batch(conversations, errors, options)
    }

    /// A table of conversations to a table with their ids, on all cores (or `threads`), the interpreter released.
    ///
    /// `table` is an object with `__arrow_c_stream__` or `__arrow_c_array__`: a table of pyarrow, a frame of polars
    /// or pandas. The result has the same interface (`pa.table(encoded)`), the columns of the table, and new ones.
    /// No object of Python's is made for a row.
    ///
    /// `messages` is the column of messages: lists of structs, or text that holds JSON. JSON may also be an object,
    /// a whole row: its keys are then the columns, in any schema of this list. Several columns are read one
    /// after another; text in them is the content of one message, of the assistant in the last column and of the
    /// user before it. By default it is `messages`, `conversations` (with `system`), `prompt` and `completion`, or
    /// `instruction`, `input` and `output`: the first that the table has. Turns of ShareGPT (`from`, `value`) are
    /// read in any column. `tools` is the column of tools, lists of structs or text; by default `tools`, if the table
    /// has it. Text that is a list or `null` in JSON is read; other text is written as it is. A null in a struct is an
    /// absent key, because Arrow gives all structs of a column the same keys.
    ///
    /// A conversation of more than `max_length` ids is an error by default. `on_long="drop"` gives it null ids,
    /// `"oldest"` leaves out the oldest turns (a turn is a user's message and all up to the next one; system
    /// messages at the beginning stay; it is an error if the last turn is too long), `"cut"` the ids at the end.
    ///
    /// `columns` are the new columns, `input_ids` alone by default. As list<int32>: `input_ids`, `labels` (what to train on, with `roles`, `last_only`
    /// and `ignore_index` as `Encoding.labels` has them; `labels=True` adds them), `position_ids`,
    /// `message_indices`; and `attention_mask` (list<int8>), `length`, `original_length`, before it
    /// was shortened, and `trained`, how many of the ids are trained on (int32), `roles` of the messages
    /// (list<string>), `neutralized` (list<struct<path: string, spelling: string>>: control spelled in the caller's
    /// text, as `Encoding.neutralized` has it), `dropped` (list<struct<path: string, why: string>>: parts that the
    /// ids lack, as `Encoding.dropped` has them), `error` (string). `prefix` comes
    /// before their names. `errors="return"` adds `error`: a conversation that cannot be encoded has null in the
    /// other new columns and the reason there; `"raise"` raises the first. `markup` is `"error"` by default where
    /// labels are made, and the error says how many rows have some. The other options are `encode_batch`'s.
    ///
    /// Raises `MessageError` with the path of what is wrong, which begins with `rows[index]`; `TypeError` for an
    /// object that is no table; `ValueError` for a table without the columns, or one that cannot be read.
    #[pyo3(signature = (
        table: "object",
        messages: "str | Sequence[str] | None" = None,
        tools: "str | None" = None,
        labels: "bool" = false,
        *,
        max_length: "int | None" = None,
        on_long: "OnLong" = "error",
        columns: "Sequence[TableColumn] | None" = None,
        prefix: "str" = "",
        roles: "Sequence[Role] | None" = None,
        last_only: "bool" = false,
        ignore_index: "int" = -100,
        errors: "OnError" = "raise",
        **options: "Unpack[WriteOptions]"
    ), text_signature = "($self, /, table, messages=None, tools=None, labels=False, *, max_length=None, on_long='error', \
        columns=None, prefix='', roles=None, last_only=False, ignore_index=-100, errors='raise', **options)")]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn encode_table(
        &self,
        table: &Bound<'_, PyAny>,
        messages: Option<Names>,
        tools: Option<String>,
        labels: bool,
        max_length: Option<usize>,
        on_long: &str,
        columns: Option<ListOf<String>>,
        prefix: &str,
        roles: Option<ListOf<String>>,
        last_only: bool,
        ignore_index: i32,
        errors: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<EncodedTable> {
        let raises = raises(errors)?;
        let outputs = Output::wanted(columns.as_ref(), labels, !raises)?;
        // What is trained on is asked about.
        let is_trained = outputs.contains(&Output::Labels);
        let markup = if is_trained { Markup::Error } else { Markup::Text };
        let options = self.table_options(options, markup)?;
        let options = TableOptions {
            max_length: max_length.unwrap_or(usize::MAX),
            on_long: OnLong::parse(on_long)?,
            messages: messages.map(|Names(names)| names),
            tools,
            outputs,
            labels: label_options(roles, last_only, ignore_index)?,
            prefix: prefix.to_owned(),
            raises,
            threads: options.threads.map_or_else(
                || std::thread::available_parallelism().map_or(1, usize::from),
                |Threads(threads)| threads,
            ),
            read: options.read,
            encode: options.encode,
        };
        let (codec, py) = (self.inner.clone(), table.py());
        let table = reader_of(table)?;
        let encode = move || EncodedTable::encode(&codec, table, &options);
        Ok(away(py, encode)??)
    }

    /// A function for tools that map over batches: datasets, Ray Data, Spark, Dask. `options` are those of
    /// `encode_table`. It is pickled as a recipe of about 1 KB, and each process loads its codec once.
    ///
    ///     data = data.map(codec.mapper(labels=True), batched=True)
    ///
    /// Needs `pip install pyarrow`. Raises `ImportError` without pyarrow, and what `encode_table` raises
    /// for options that are wrong.
    #[pyo3(signature = (**options: "Any") -> "Mapper")]
    fn mapper<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let options = options.map_or_else(|| PyDict::new(py), Bound::clone);
        py.import("chatcodec.mapper")?.call_method1("Mapper", (slf, options))
    }

    /// Tries to forge control tokens: every control token in every place of a conversation that a
    /// caller's text reaches, in several spellings, with this codec and as servers do that tokenize
    /// the rendered text whole. The command `chatcodec audit` prints it.
    ///
    /// `tokenizer` is one of transformers, 5.20 or newer: what its `apply_chat_template` with
    /// `sanitize_control_tokens=True` makes of the same texts is `Finding.sanitized`.
    #[pyo3(signature = (tokenizer: "Any" = None) -> "Audit")]
    fn audit<'py>(
        slf: &Bound<'py, Self>,
        tokenizer: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("chatcodec.audit")?.call_method1("audit", (slf, tokenizer))
    }

    /// The messages that have at most `tokens` ids with `tools` and options of `encode`: the oldest turns are left
    /// out. A turn is a user's message and all messages up to the next one, so that calls keep their results.
    /// System messages at the beginning stay.
    ///
    /// Gives a list of the caller's own messages. Raises `MessageError` where the last turn alone has more ids,
    /// and what `encode` raises.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        tokens: "int",
        **options: "Unpack[EncodeOptions]"
    ) -> "list[Mapping[str, Any]]")]
    fn fit<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        tokens: usize,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.fitted(messages, tokens, options)
    }

    /// How many ids a conversation has; takes what `encode` takes.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        **options: "Unpack[EncodeOptions]"
    ))]
    fn count(
        &self,
        messages: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<usize> {
        Ok(self.encoded(messages, options)?.inner().ids().len())
    }

    /// The keys of the format file that write the text of a conversation, for `chatcodec.check`: the first byte of
    /// each part in `Encoding.text`, and the key. Empty for a codec whose template writes.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        **options: "Unpack[EncodeOptions]"
    ))]
    fn _keys(
        &self,
        messages: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<(usize, String)>> {
        let options = self.options(options, &Method::ENCODE)?;
        let read = self.conversation(messages, &options)?;
        self.inner.keys(read, &options.encode).map_err(raise)
    }

    /// The canonical form of a conversation: `decode(encode(messages).ids)`, computed without
    /// encoding. With `tools`, the message that declares them is part of it. The options and errors
    /// are those of `encode`; parts that `unknown` or `on_unsupported` leaves out are absent. In a codec of a
    /// template it is what the reading format gives for the ids; one that reads text alone raises
    /// `MessageError`.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        **options: "Unpack[EncodeOptions]"
    ))]
    fn canonical<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<MessageList<'py>> {
        let canonical = self.canonical_messages(messages, options)?;
        message_list(messages.py(), &canonical).map(MessageList)
    }

    /// Decodes the ids of a conversation to its messages. Malformed input gives the closest
    /// messages, and no int raises. `ids` is a list, an array of one dimension or a buffer of any
    /// int type. `tools` and `calls_in_reasoning` are those of `stream`.
    #[pyo3(signature = (
        ids,
        *,
        tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None,
        calls_in_reasoning: "CallsInReasoning | None" = None
    ))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: Ids,
        tools: Option<&Bound<'py, PyAny>>,
        calls_in_reasoning: Option<&str>,
    ) -> PyResult<MessageList<'py>> {
        let stream = typed(calling(self.inner.read_stream(), calls_in_reasoning)?, tools)?;
        let codec = self.inner.clone();
        let count = ids.all().len();
        let messages = on_ids(py, count, move || codec.decode_ids(stream, ids.all()))?;
        message_list(py, &messages).map(MessageList)
    }

    /// Parses a completion up to the end of the assistant's turn. `prompt` holds the ids before the
    /// completion; by default, any prompt that ends with the generation prompt. The other options
    /// are those of `stream`. With `markers="text"`, the completion is a str, and
    /// `Parsed.rest_text` is the text after the turn.
    ///
    /// `Parsed.message` has what the completion adds: of a text or of a call's arguments that the
    /// prompt leaves open, the rest.
    #[pyo3(signature = (
        completion_ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | str",
        prompt = None,
        markers: "Markers" = "ids",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None,
        calls_in_reasoning: "CallsInReasoning | None" = None,
        bare_calls: "BareCalls | None" = None
    ))]
    fn parse(
        &self,
        completion_ids: &Bound<'_, PyAny>,
        prompt: Option<Ids>,
        markers: &str,
        tools: Option<&Bound<'_, PyAny>>,
        calls_in_reasoning: Option<&str>,
        bare_calls: Option<&str>,
    ) -> PyResult<Parsed> {
        let py = completion_ids.py();
        let stream =
            self.stream_after(py, prompt, markers, tools, calls_in_reasoning, bare_calls)?;
        self.parsed(stream, completion_ids)
    }

    /// A stream for a completion. `prompt` holds the ids before the completion; by default, any
    /// prompt that ends with the generation prompt. `keep=True` also collects the message, for
    /// `Stream.message`.
    ///
    /// `markers` says which input is a control token of the format. `"ids"`: only its id.
    /// `"ids_or_text"`: its spelling in text too, for grammars and fine-tunes that write it with
    /// ordinary ids. `"text"`: its spelling, for engines that return text; the stream then takes
    /// only `push_text`, and the positions of its events are in characters. A quoted marker is
    /// text.
    ///
    /// `tools` are the tools of the prompt, as `encode` takes them, or a `ToolTypes`, which streams
    /// can share. Where a format writes arguments without quotes, the tools' schemas say which
    /// arguments are strings. Without a schema, a value is a string unless the whole value is JSON
    /// of another type.
    ///
    /// `calls_in_reasoning` is the policy for a call before the end of the reasoning: `"text"`
    /// keeps it as reasoning, because the model only drafts it, unless the turn ends right after
    /// whole calls: until then they are held; `"call"` reads a call. The default is the format's
    /// (`calls.in_reasoning`), which matches the servers of the model.
    ///
    /// `bare_calls` says where an unmarked call may begin in the answer, `{"name": "f",
    /// "arguments": {…` or a call of the format without the token before it: `"text"`, nowhere;
    /// `"line"`, at the beginning of a line; `"anywhere"`. Only functions of `tools` are called in
    /// this way. The default is the format's (`calls.bare`).
    ///
    /// Raises `ValueError` for an unknown value of `markers`, `calls_in_reasoning` or `bare_calls`;
    /// `MessageError` for invalid tools.
    #[pyo3(signature = (
        prompt = None,
        keep = false,
        markers: "Markers" = "ids",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None,
        calls_in_reasoning: "CallsInReasoning | None" = None,
        bare_calls: "BareCalls | None" = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn stream(
        &self,
        py: Python<'_>,
        prompt: Option<Ids>,
        keep: bool,
        markers: &str,
        tools: Option<&Bound<'_, PyAny>>,
        calls_in_reasoning: Option<&str>,
        bare_calls: Option<&str>,
    ) -> PyResult<Stream> {
        let stream =
            self.stream_after(py, prompt, markers, tools, calls_in_reasoning, bare_calls)?;
        Ok(Stream::new(if keep { stream.keeping() } else { stream }, Arc::clone(&self.texts)))
    }

    fn __repr__(&self) -> String {
        let name = if self.template.is_some() { "template" } else { self.inner.format().name() };
        format!("Codec({name:?}, size={})", self.inner.vocab().size())
    }

    /// Makes a pickled codec again: nothing is recognised or derived once more.
    #[staticmethod]
    #[pyo3(signature = (writer, vocab, format, told: "tuple[str, list[str], list[str], list[str]]", response: "str | None" = None, stop_ids: "list[int] | None" = None))]
    fn _restore(
        writer: &Bound<'_, PyAny>,
        vocab: &Bound<'_, PyAny>,
        format: &Bound<'_, Format>,
        told: ToldReader,
        response: Option<&str>,
        stop_ids: Option<Vec<i64>>,
    ) -> PyResult<Self> {
        Self::restored(writer, vocab, format, told, response, stop_ids)
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        Self::reduced(slf)
    }
}

/// The name of a column, or names of several.
struct Names(Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Names {
    type Error = PyErr;

    #[cfg(feature = "testing")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = String::INPUT_TYPE;

    fn extract(names: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = names.extract::<String>() {
            return Ok(Self(vec![name]));
        }
        let ListOf(names) = names.extract::<ListOf<String>>()?;
        Ok(Self(names))
    }
}
