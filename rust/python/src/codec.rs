//! `Codec`: the interpreter's side of both arrows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chatcodec::{
    Boundary, Call, CallBody, Codec as CoreCodec, EncodeOptions, MarkerPolicy, Message,
    OnArguments, OnMarker, Stream as CoreStream, Vocab as CoreVocab,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyMapping, PyString, PyTuple};

use crate::encoding::{Batch, Encoding};
use crate::errors::{FormatError, raise, raise_in};
use crate::format::Format;
use crate::input::{Ids, Threads, text};
use crate::node::{Value, message_list};
use crate::stream::{Parsed, Stream, check_given, marker_policy};
use crate::texts::Texts;
use crate::typed::{IntList, MessageList};
use crate::types::ToolTypes;
use crate::vocab::Vocab;

/// Messages to token ids and back, for one chat format and one vocabulary. Frozen, shared freely
/// between threads, pickled as the contents of its files.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Codec {
    inner: CoreCodec,
    format: Py<Format>,
    vocab: Py<Vocab>,
    /// The vocabulary as it was given, for pickling.
    given: CoreVocab,
    /// Texts of its streams' events.
    texts: Arc<Texts>,
}

/// A conversation that was read: its messages and tools.
type Conversation = (Vec<Message>, Option<String>);

/// `encode`'s options, read and checked.
struct Options {
    encode: EncodeOptions,
    on_arguments: OnArguments,
}

impl Options {
    fn new(
        codec: &Codec,
        add_generation_prompt: Option<bool>,
        continue_final: bool,
        words: [(&str, &str); 3],
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let format = codec.inner.format();
        let (mut thinking, mut date, mut effort) = (None, None, None);
        let known = format.options();
        for (option, value) in options.into_iter().flatten() {
            let wrong = |expected: &str| {
                let kind = value.get_type();
                let kind = kind.name().map_or_else(|_| String::new(), |name| name.to_string());
                PyTypeError::new_err(format!("{option}: is `{kind}`, expected {expected} or None"))
            };
            let text = || value.extract::<Option<String>>().map_err(|_| wrong("a string"));
            let name = option.to_string();
            match name.as_str() {
                name if !known.contains(&name) => {
                    let (name, known) = (format.name(), known.join("`, `"));
                    let known =
                        if known.is_empty() { "no options".into() } else { format!("`{known}`") };
                    let message =
                        format!("unexpected option `{option}`: format `{name}` declares {known}");
                    return Err(PyTypeError::new_err(message));
                }
                "date" => date = text()?,
                "effort" => effort = text()?,
                _ => thinking = value.extract().map_err(|_| wrong("True, False"))?,
            }
        }
        let choose = |(name, word): (&str, &str), known: &[&str]| {
            known.iter().position(|known| *known == word).ok_or_else(|| {
                let known = known.join("\", \"");
                PyValueError::new_err(format!("{name}={word:?}, expected one of \"{known}\""))
            })
        };
        let [on_marker, boundary, on_arguments] = words;
        let markers = [OnMarker::Report, OnMarker::Error, OnMarker::Break];
        let boundaries = [Boundary::Reference, Boundary::Isolated];
        let policies = [OnArguments::Error, OnArguments::String];
        Ok(Self {
            encode: EncodeOptions {
                add_generation_prompt,
                continue_final,
                thinking,
                date,
                effort,
                boundary: boundaries[choose(boundary, &["reference", "isolated"])?],
                on_marker: markers[choose(on_marker, &["report", "error", "break"])?],
                threads: 1,
            },
            on_arguments: policies[choose(on_arguments, &["error", "string"])?],
        })
    }
}

impl Codec {
    fn read(
        &self,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        on_arguments: OnArguments,
    ) -> chatcodec::Result<Conversation> {
        let tools = match tools {
            Some(tools) => self.inner.read_tools(&Value(tools.clone()))?,
            None => None,
        };
        Ok((self.inner.read(&Value(messages.clone()), on_arguments)?, tools))
    }

    /// One item of a batch: messages, or a dict of messages and tools.
    fn read_item(
        &self,
        item: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        on_arguments: OnArguments,
    ) -> chatcodec::Result<Conversation> {
        let Ok(mapping) = item.cast::<PyMapping>() else {
            return self.read(item, tools, on_arguments);
        };
        for key in mapping.keys().into_iter().flatten() {
            let key = key.to_string();
            if key != "messages" && key != "tools" {
                let path = key.escape_debug().to_string();
                let problem = "is not a key of a conversation, expected `messages` or `tools`";
                return Err(chatcodec::Error::Message { path, problem: problem.into() });
            }
        }
        let get = |key| mapping.get_item(key).ok();
        let own = get("tools").filter(|tools| !tools.is_none());
        let none = || item.py().None().into_bound(item.py());
        let messages = get("messages").unwrap_or_else(none);
        self.read(&messages, own.as_ref().or(tools), on_arguments)
    }
}

#[pymethods]
impl Codec {
    /// A codec of a format (a built-in one's name, or a `Format`) and a vocabulary (the path of a file
    /// or a folder, as `Vocab.load` takes it, or a `Vocab`). Without `vocab`, the embedded one, which is laid out for `internlm2`.
    ///
    /// Raises `FormatError` for a name that there is no format of, `VocabError` for a vocabulary that
    /// cannot be read or lacks the format's control tokens.
    #[new]
    #[pyo3(signature = (format: "str | Format", vocab: "str | PathLike[str] | Vocab | None" = None))]
    fn new(format: &Bound<'_, PyAny>, vocab: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let py = format.py();
        let format = Format::from_argument(format)?;
        let given = match vocab {
            Some(vocab) => Vocab::from_argument(vocab)?,
            None if format.name() == "internlm2" => CoreVocab::embedded(),
            None => {
                let name = format.name();
                let message = format!(
                    "format `{name}`: needs a vocabulary, expected `vocab=`; \
                     the embedded one is laid out for `internlm2`"
                );
                return Err(FormatError::new_err((message, name.to_owned(), String::new())));
            }
        };
        let file = vocab.and_then(|vocab| vocab.extract::<std::path::PathBuf>().ok());
        let file = file.map(|file| file.display().to_string());
        let inner = CoreCodec::new(&format, &given).map_err(|e| raise_in(e, file.as_deref()))?;
        Ok(Self {
            format: Py::new(py, Format::new(format))?,
            vocab: Py::new(py, Vocab::new(inner.vocab().clone()))?,
            inner,
            given,
            texts: Arc::default(),
        })
    }

    /// A codec of a model on the Hugging Face hub, or of a folder: `Vocab.from_pretrained`, whose
    /// options these are, and a format. The format is not guessed from a model's template: it is given,
    /// a built-in one's name or a `Format`.
    ///
    ///     codec = Codec.from_pretrained("internlm/internlm2-chat-7b", format="internlm2")
    ///
    /// Raises what `Codec` and `Vocab.from_pretrained` raise.
    #[staticmethod]
    #[pyo3(signature = (
        name_or_dir: "str | PathLike[str]",
        format: "str | Format",
        *,
        revision: "str | None" = None,
        token: "str | bool | None" = None,
        local_files_only: "bool" = false,
        text_tokens: "Sequence[str] | None" = None,
        special_tokens: "Mapping[str, int] | None" = None,
        pattern: "str | None" = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn from_pretrained<'py>(
        py: Python<'py>,
        name_or_dir: &Bound<'py, PyAny>,
        format: &Bound<'py, PyAny>,
        revision: Option<&str>,
        token: Option<&Bound<'py, PyAny>>,
        local_files_only: bool,
        text_tokens: Option<Vec<Bound<'py, PyString>>>,
        special_tokens: Option<Bound<'py, PyMapping>>,
        pattern: Option<Bound<'py, PyString>>,
    ) -> PyResult<Self> {
        // Whether there is such a format is known before anything is downloaded.
        let format = Bound::new(py, Format::new(Format::from_argument(format)?))?;
        let vocab = Vocab::from_pretrained(
            py,
            name_or_dir,
            revision,
            token,
            local_files_only,
            text_tokens,
            special_tokens,
            pattern,
        )?;
        Self::new(format.as_any(), Some(Bound::new(py, vocab)?.as_any()))
    }

    /// The format.
    #[getter]
    fn format<'py>(&self, py: Python<'py>) -> Bound<'py, Format> {
        self.format.bind(py).clone()
    }

    /// The vocabulary, in which all spellings of the format's control tokens are known.
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

    /// Messages to ids.
    ///
    /// `messages` are dicts as OpenAI's clients use them, or with the format's own roles. `tools` is a
    /// list of function dicts, or text that is written as it is. `add_generation_prompt=None` means
    /// yes, unless the last message is the assistant's; `continue_final=True` leaves that message
    /// open. `boundary="isolated"` encodes what a model generates by itself, as generation does.
    /// `on_arguments="string"` writes arguments that are no JSON as a JSON string. In formats whose
    /// markers are text, `on_marker` says what is done about content that spells one: `"report"` it in
    /// `collisions`, raise an `"error"`, or `"break"` it, which gives it other ids than a marker's.
    /// A text of half a megabyte or more is shared by all cores, or `threads`; the ids are the same.
    ///
    /// Raises `MessageError` with the path of what the format has no place for.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | None" = None,
        add_generation_prompt: "bool | None" = None,
        continue_final: "bool" = false,
        on_marker: "str" = "report",
        boundary: "str" = "reference",
        on_arguments: "str" = "error",
        threads: "int | None" = None,
        **options: "object"
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn encode(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: Option<bool>,
        continue_final: bool,
        on_marker: &str,
        boundary: &str,
        on_arguments: &str,
        threads: Option<Threads>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoding> {
        let words =
            [("on_marker", on_marker), ("boundary", boundary), ("on_arguments", on_arguments)];
        let mut options =
            Options::new(self, add_generation_prompt, continue_final, words, options)?;
        let read = self.read(messages, tools, options.on_arguments).map_err(raise)?;
        let bytes = text_bytes(&read);
        options.encode.threads = threads_for(bytes, threads);
        let (messages, tools) = read;
        let encode = || self.inner.encode(messages, tools.as_deref(), &options.encode);
        let encoding = if bytes < DETACH_BYTES { encode() } else { py.detach(encode) };
        encoding.map(Encoding::new).map_err(raise)
    }

    /// The next turn's prompt, from the last one and what the model answered: its ids begin with `prompt`'s and
    /// `completion_ids` as they are, then comes what ends the turn if the completion did not, then
    /// `new_messages` as `encode` writes them, with its options. What came before is copied, not encoded again.
    ///
    /// `prompt` is an encoding that ends with the generation prompt, or with a message left open; or the ids of
    /// one, whose sources are then not known. `completion_ids` are as generated, with the id that stopped the
    /// model or without. The completion is a message of its own: results among `new_messages` answer its calls,
    /// by the ids that `parse` gives them or by their order.
    ///
    ///     prompt = codec.extend(prompt, completion, [{"role": "user", "content": "And then?"}])
    ///
    /// Raises `MessageError` if these ids are not what the format writes for the whole conversation, or cannot be
    /// shown to be: the completion is cut within a call, goes on after its turn, or reads as another message than
    /// is written by it; or the format moves something to the last user's turn. Encode all messages then.
    #[pyo3(signature = (
        prompt: "Encoding | Sequence[int] | Buffer",
        completion_ids,
        new_messages: "Sequence[Mapping[str, Any]]",
        *,
        add_generation_prompt: "bool | None" = None,
        continue_final: "bool" = false,
        on_marker: "str" = "report",
        boundary: "str" = "reference",
        on_arguments: "str" = "error",
        **options: "object"
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn extend(
        &self,
        prompt: &Bound<'_, PyAny>,
        completion_ids: Ids,
        new_messages: &Bound<'_, PyAny>,
        add_generation_prompt: Option<bool>,
        continue_final: bool,
        on_marker: &str,
        boundary: &str,
        on_arguments: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoding> {
        let words =
            [("on_marker", on_marker), ("boundary", boundary), ("on_arguments", on_arguments)];
        let options = Options::new(self, add_generation_prompt, continue_final, words, options)?;
        let messages = self.inner.read(&Value(new_messages.clone()), options.on_arguments);
        let messages = messages.map_err(|error| raise(of_new_messages(error)))?;
        let adopted;
        let prompt = if let Ok(encoding) = prompt.cast::<Encoding>() {
            encoding.get().inner()
        } else {
            adopted = self.inner.adopt(prompt.extract::<Ids>()?.plain()?);
            &adopted
        };
        let completion = completion_ids.plain()?;
        let extended = self.inner.extend(prompt, completion, messages, &options.encode);
        extended.map(Encoding::new).map_err(raise)
    }

    /// Many conversations to ids, on all cores (or `threads`), the interpreter released.
    ///
    /// A conversation is a list of messages, or a dict of `messages` and `tools`; the other options
    /// are `encode`'s. `errors="return"` leaves conversations that cannot be encoded without ids and
    /// puts their errors into `batch.errors`; `"raise"` raises the first.
    #[pyo3(signature = (
        conversations: "Iterable[object]",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | None" = None,
        add_generation_prompt: "bool | None" = None,
        continue_final: "bool" = false,
        on_marker: "str" = "report",
        boundary: "str" = "reference",
        on_arguments: "str" = "error",
        errors: "str" = "raise",
        threads: "int | None" = None,
        **options: "object"
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn encode_batch(
        &self,
        py: Python<'_>,
        conversations: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: Option<bool>,
        continue_final: bool,
        on_marker: &str,
        boundary: &str,
        on_arguments: &str,
        errors: &str,
        threads: Option<Threads>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Batch> {
        let words =
            [("on_marker", on_marker), ("boundary", boundary), ("on_arguments", on_arguments)];
        let options = Options::new(self, add_generation_prompt, continue_final, words, options)?;
        let raises = match errors {
            "raise" => true,
            "return" => false,
            _ => {
                let message = format!("errors={errors:?}, expected \"raise\" or \"return\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let mut read = Vec::new();
        for (index, item) in conversations.try_iter()?.enumerate() {
            let conversation = self.read_item(&item?, tools, options.on_arguments);
            match conversation {
                Err(error) if raises => return Err(raise(in_conversation(index, error))),
                conversation => read.push(conversation),
            }
        }
        let encoded = py.detach(|| self.encode_all(read, &options.encode, threads));
        let mut encodings = Vec::with_capacity(encoded.len());
        for (index, encoding) in encoded.into_iter().enumerate() {
            encodings.push(match encoding {
                Ok(encoding) => Ok(encoding),
                Err(error) if raises => return Err(raise(in_conversation(index, error))),
                Err(error) => Err(raise(error).into_value(py).into_any()),
            });
        }
        Batch::new(py, encodings)
    }

    /// How many ids a conversation has; takes what `encode` takes.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | None" = None,
        add_generation_prompt: "bool | None" = None,
        continue_final: "bool" = false,
        on_marker: "str" = "report",
        boundary: "str" = "reference",
        on_arguments: "str" = "error",
        **options: "object"
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the public interface")]
    fn count(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: Option<bool>,
        continue_final: bool,
        on_marker: &str,
        boundary: &str,
        on_arguments: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<usize> {
        let encoding = self.encode(
            py,
            messages,
            tools,
            add_generation_prompt,
            continue_final,
            on_marker,
            boundary,
            on_arguments,
            None,
            options,
        )?;
        Ok(encoding.inner().ids().len())
    }

    /// What a conversation reads as after a round trip: `decode(encode(messages).ids)`, worked out
    /// without encoding. With `tools`, the message that declares them is part of it. The other options are
    /// `encode`'s that the format declares.
    #[pyo3(signature = (
        messages: "Sequence[Mapping[str, Any]]",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | None" = None,
        on_arguments: "str" = "error",
        **options: "object"
    ))]
    fn canonical<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        tools: Option<&Bound<'py, PyAny>>,
        on_arguments: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<MessageList<'py>> {
        let words =
            [("on_marker", "report"), ("boundary", "reference"), ("on_arguments", on_arguments)];
        let Options { encode, on_arguments } = Options::new(self, None, false, words, options)?;
        let (read, tools) = self.read(messages, tools, on_arguments).map_err(raise)?;
        let canonical = self.inner.canonical_with(read, tools, &encode);
        message_list(messages.py(), &canonical).map(MessageList)
    }

    /// The ids of a conversation to its messages. Of ids that are no conversation it makes the best
    /// it can; it never raises for ints. `tools` is as for `stream`.
    #[pyo3(signature = (ids, *, tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: Ids,
        tools: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<MessageList<'py>> {
        let stream = typed(self.inner.read_stream(), tools)?;
        message_list(py, &self.inner.decode_ids(stream, ids.all())).map(MessageList)
    }

    /// Reads a completion up to the end of the assistant's turn. `prompt` is the ids it continues; by
    /// default any prompt that ends with the generation prompt. `markers` and `tools` are as for `stream`; with
    /// `"text"`, the completion is a str, and what comes after the turn is `Parsed.rest_text`.
    #[pyo3(signature = (
        completion_ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding | str",
        prompt = None,
        markers = "ids",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None
    ))]
    fn parse(
        &self,
        completion_ids: &Bound<'_, PyAny>,
        prompt: Option<Ids>,
        markers: &str,
        tools: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Parsed> {
        let py = completion_ids.py();
        let policy = marker_policy(markers)?;
        let stream = self.inner.stream(prompt.as_ref().map(Ids::all)).reading(policy);
        let stream = typed(stream, tools)?;
        if policy == MarkerPolicy::Text
            && let Ok(given) = completion_ids.cast::<PyString>()
        {
            let given = text(given, "completion_ids")?;
            let parsed = self.inner.parse_text(stream, given);
            let rest = given.char_indices().nth(parsed.rest).map_or("", |(at, _)| &given[at..]);
            return Parsed::new(py, &parsed, &[], rest);
        }
        let ids: Ids = completion_ids.extract()?;
        check_given(policy, false)?;
        let ids = ids.all();
        let parsed = self.inner.parse_ids(stream, ids);
        Parsed::new(py, &parsed, &ids[parsed.rest..], "")
    }

    /// A stream of a completion. `prompt` is the ids it continues; by default any prompt that ends
    /// with the generation prompt. `keep=True` also collects the message, for `Stream.message`.
    ///
    /// `markers` says what counts as a control token of the format in what is pushed: `"ids"`, its id
    /// alone; `"ids_or_text"`, its spelling in text too, for grammars and fine-tunes that write it with
    /// ordinary ids; `"text"`, its spelling, for engines that give text: the stream takes `push_text`
    /// only, and the positions of its events are of characters. What only quotes a marker is text.
    ///
    /// `tools` are those that the model was given, as `encode` takes them, or a `ToolTypes`, which streams share:
    /// where arguments are written without quotes, their schemas say which of them are strings. Without, a value
    /// is a string unless the whole of it is JSON of another kind.
    #[pyo3(signature = (
        prompt = None,
        keep = false,
        markers = "ids",
        *,
        tools: "Sequence[Mapping[str, Any]] | str | ToolTypes | None" = None
    ))]
    fn stream(
        &self,
        prompt: Option<Ids>,
        keep: bool,
        markers: &str,
        tools: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Stream> {
        let policy = marker_policy(markers)?;
        let stream = self.inner.stream(prompt.as_ref().map(Ids::all)).reading(policy);
        let stream = typed(stream, tools)?;
        Ok(Stream::new(if keep { stream.keeping() } else { stream }, Arc::clone(&self.texts)))
    }

    fn __repr__(&self) -> String {
        format!("Codec({:?}, size={})", self.inner.format().name(), self.inner.vocab().size())
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let vocab = Py::new(py, Vocab::new(this.given.clone()))?;
        let arguments = PyTuple::new(py, [this.format.as_any(), vocab.as_any()])?;
        PyTuple::new(py, [slf.get_type().into_any(), arguments.into_any()])
    }
}

impl Codec {
    /// What streams are made of: the core's codec, and the texts of their events.
    pub(crate) fn parts(&self) -> (&CoreCodec, &Arc<Texts>) {
        (&self.inner, &self.texts)
    }
}

/// A stream that reads arguments as what tools say of them, if any are given.
pub(crate) fn typed(stream: CoreStream, tools: Option<&Bound<'_, PyAny>>) -> PyResult<CoreStream> {
    let types = ToolTypes::from_argument(tools)?;
    Ok(match &types {
        Some(types) => stream.typed(types),
        None => stream,
    })
}

/// No batch is worth more threads than this.
const MAX_THREADS: usize = 256;

/// Beginning a thread takes about as long as encoding this much text.
const THREAD_BYTES: usize = 16 << 10;

/// No shorter text is shared by threads.
const SHARED_BYTES: usize = 1 << 19;

/// Conversations with less text are encoded without releasing the interpreter: it costs more.
const DETACH_BYTES: usize = 4096;

impl Codec {
    /// Encodes conversations on several threads, in order.
    fn encode_all(
        &self,
        conversations: Vec<chatcodec::Result<Conversation>>,
        options: &EncodeOptions,
        threads: Option<Threads>,
    ) -> Vec<chatcodec::Result<chatcodec::Encoding>> {
        let asked = threads.map(|Threads(threads)| threads);
        let threads = asked.unwrap_or_else(|| worthwhile_threads(&conversations));
        let threads = threads.clamp(1, MAX_THREADS);
        // Cores that no conversation is for share the long texts of the others.
        let mut options = options.clone();
        options.threads = threads / conversations.len().clamp(1, threads);
        let threads = threads.min(conversations.len().max(1));
        let encode = |conversation: chatcodec::Result<Conversation>| {
            let (messages, tools) = conversation?;
            self.inner.encode(messages, tools.as_deref(), &options)
        };
        if threads == 1 {
            return conversations.into_iter().map(encode).collect();
        }
        // Threads take the next conversation that nobody has: long ones do not hold up the rest.
        let jobs: Vec<_> = conversations.into_iter().map(|job| Mutex::new(Some(job))).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { break done };
                let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
                done.extend(job.map(|job| (at, encode(job))));
            }
        };
        let mut done = std::thread::scope(|scope| {
            // Where the system gives no more threads, fewer do the work.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let workers: Vec<_> = (1..threads).map_while(spawn).collect();
            let mut done = work();
            for worker in workers {
                match worker.join() {
                    Ok(part) => done.extend(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, encoding)| encoding).collect()
    }
}

/// How much text a conversation has, names left out.
fn text_bytes((messages, tools): &Conversation) -> usize {
    let call = |call: &Call| match &call.body {
        CallBody::Function { arguments, .. } => arguments.len(),
        CallBody::Code { source, .. } => source.len(),
    };
    let message =
        |message: &Message| message.content.len() + message.calls.iter().map(call).sum::<usize>();
    tools.as_ref().map_or(0, String::len) + messages.iter().map(message).sum::<usize>()
}

/// As many threads as there are cores, or as are asked for, unless text is too short to be shared.
pub(crate) fn threads_for(bytes: usize, threads: Option<Threads>) -> usize {
    match threads {
        _ if bytes < SHARED_BYTES => 1,
        Some(Threads(threads)) => threads,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// As many threads as there are cores, unless there is less text than is worth one.
fn worthwhile_threads(conversations: &[chatcodec::Result<Conversation>]) -> usize {
    let bytes: usize = conversations.iter().flatten().map(text_bytes).sum();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.min(bytes.div_ceil(THREAD_BYTES))
}

/// An error of messages that are called `new_messages`.
fn of_new_messages(error: chatcodec::Error) -> chatcodec::Error {
    match error {
        chatcodec::Error::Message { path, problem } if path.starts_with("messages") => {
            chatcodec::Error::Message { path: format!("new_{path}"), problem }
        }
        error => error,
    }
}

/// The error of one conversation of a batch, with its index in the path.
fn in_conversation(index: usize, error: chatcodec::Error) -> chatcodec::Error {
    match error {
        chatcodec::Error::Message { path, problem } => {
            chatcodec::Error::Message { path: format!("conversations[{index}].{path}"), problem }
        }
        error => error,
    }
}
