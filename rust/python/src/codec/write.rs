//! Conversations to ids: one, a batch, a table, and the next turn after a prompt.
//!
//! In: the caller's objects, and [`Options`]. Out: encodings. Long work releases the interpreter.

use chatcodec::{Conversation, Dropped, Markup, Message, OnUnknown};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};

use super::Codec;
use crate::away::{DETACH_BYTES, away, in_place};
use crate::batch::{encode_all, in_conversation, is_long, text_bytes, threads_for, work_bytes};
use crate::encoding::{Batch, Encoding};
use crate::errors::raise;
use crate::ids::{Ids, Threads};
use crate::media::{MEDIA_TOKENS, counted};
use crate::node::{Raised, Value, is_mapping, members};
use crate::options::{Method, Options, Writer, on_reasoning, raises};
use crate::pipeline::{Pipeline, RUN};

impl Codec {
    /// What writes conversations: the template if there is one, else the format.
    fn writer(&self) -> Writer<'_> {
        let template = self.template.as_ref().map(|template| template.get().inner());
        (self.inner.format(), template)
    }

    /// Reads the options of a method.
    pub(super) fn options<'py>(
        &self,
        given: Option<&Bound<'py, PyDict>>,
        method: &Method,
    ) -> PyResult<Options<'py>> {
        Options::read(self.writer(), given, method)
    }

    /// Reads a conversation, whose errors are raised.
    pub(super) fn conversation(
        &self,
        messages: &Bound<'_, PyAny>,
        options: &Options<'_>,
    ) -> PyResult<Conversation> {
        self.read(messages, options.tools.as_ref(), options)?.map_err(raise)
    }

    /// Reads a conversation; exceptions of the caller's objects are passed on.
    fn read(
        &self,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        options: &Options<'_>,
    ) -> PyResult<chatcodec::Result<Conversation>> {
        let counted = options.counter.as_ref().map(|counter| counted(messages, counter));
        let counted = counted.transpose()?;
        let raised = Raised::default();
        let tools = tools.map(|tools| Value::new(tools, &raised));
        let messages = Value::new(counted.as_ref().unwrap_or(messages), &raised);
        let read = self.inner.read_conversation(&messages, tools.as_ref(), options.read);
        raised.check()?;
        Ok(read)
    }

    /// Reads one item of a batch: messages, or a dict of messages and tools.
    fn read_item(
        &self,
        item: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        options: &Options<'_>,
    ) -> PyResult<chatcodec::Result<Conversation>> {
        if !is_mapping(item)? {
            return self.read(item, tools, options);
        }
        let mut messages = None;
        let mut own = None;
        let mut others = Vec::new();
        for (key, value) in members(item)?.unwrap_or_default() {
            let key = key.str()?.to_string_lossy().into_owned();
            match key.as_str() {
                "messages" => messages = Some(value),
                "tools" => own = Some(value).filter(|tools| !tools.is_none()),
                _ if value.is_none() => {}
                _ => others.push(key),
            }
        }
        let unread = |key: &str, problem: &str| chatcodec::Error::Message {
            path: key.escape_debug().to_string(),
            problem: problem.to_owned(),
            droppable: None,
        };
        if messages.is_none() && others.iter().any(|key| key == "conversations") {
            let problem = "is a key of ShareGPT's rows, expected `messages`; \
                           `chatcodec.rows.from_sharegpt` reads them";
            return Ok(Err(unread("conversations", problem)));
        }
        if let Some(key) = others.first().filter(|_| options.read.on_unknown == OnUnknown::Error) {
            let problem = "is not a key of a conversation, expected `messages` or `tools`; \
                           `unknown=\"ignore\"` leaves it out";
            return Ok(Err(unread(key, problem)));
        }
        let Some(messages) = messages else {
            return Ok(Err(unread("messages", "is missing, expected a list of messages")));
        };
        let read = self.read(&messages, own.as_ref().or(tools), options)?;
        Ok(read.map(|mut read| {
            let others = others.into_iter().map(|path| Dropped {
                path,
                what: "column".into(),
                why: chatcodec::Why::Unsupported,
            });
            read.dropped.splice(0..0, others);
            read
        }))
    }

    /// Does work on `bytes` of text; releases the interpreter if there is enough text, and for a template, whose work its
    /// text does not tell.
    pub(super) fn work<T: Send + 'static>(
        &self,
        py: Python<'_>,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> PyResult<T> {
        if is_long(bytes, self.inner.vocab()) {
            away(py, work)
        } else if self.template.is_some() {
            in_place(py, work)
        } else if bytes < DETACH_BYTES {
            Ok(work())
        } else {
            Ok(py.detach(work))
        }
    }

    /// The encoding of messages.
    pub(super) fn encoded(
        &self,
        messages: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoding> {
        let mut options = self.options(options, &Method::ENCODE)?;
        let read = self.conversation(messages, &options)?;
        let bytes = work_bytes(&read);
        options.encode.threads = threads_for(text_bytes(&read), options.threads);
        let (codec, options) = (self.inner.clone(), options.encode);
        let encode = move || codec.encode_conversation(read, &options);
        self.work(messages.py(), bytes, encode)?.map(Encoding::new).map_err(raise)
    }

    /// The encodings of conversations.
    pub(super) fn batch(
        &self,
        conversations: &Bound<'_, PyAny>,
        errors: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Batch> {
        let py = conversations.py();
        let options = self.options(options, &Method::BATCH)?;
        let raises = raises(errors)?;
        let begin = || {
            let threads = options.threads.map(|Threads(threads)| threads);
            Pipeline::new(self.inner.clone(), options.encode.clone(), threads)
        };
        let mut pipeline = None;
        let mut read = Vec::new();
        for (index, item) in conversations.try_iter()?.enumerate() {
            py.check_signals()?;
            let conversation = self.read_item(&item?, options.tools.as_ref(), &options)?;
            match conversation {
                Err(error) if raises => return Err(raise(in_conversation(index, error))),
                conversation => read.push(conversation),
            }
            if read.len() == RUN {
                pipeline.get_or_insert_with(begin).push(std::mem::take(&mut read));
            }
        }
        let encoded = if let Some(mut pipeline) = pipeline {
            pipeline.push(read);
            pipeline.finish(py)?
        } else {
            let items = read.len() * ITEM_BYTES;
            let bytes = read.iter().flatten().map(work_bytes).sum::<usize>() + items;
            let (codec, encode, threads) = (self.inner.clone(), options.encode, options.threads);
            let encode = move || encode_all(&codec, read, &encode, threads);
            vec![self.work(py, bytes, encode)?]
        };
        let mut encodings = Vec::with_capacity(encoded.iter().map(Vec::len).sum());
        for (index, encoding) in encoded.into_iter().flatten().enumerate() {
            encodings.push(match encoding {
                Ok(encoding) => Ok(encoding),
                Err(error) if raises => return Err(raise(in_conversation(index, error))),
                Err(error) => Err(raise(error).into_value(py).into_any()),
            });
        }
        Batch::new(py, encodings)
    }

    /// Reads the options of a table, for which `markup` is the default.
    pub(super) fn table_options<'py>(
        &self,
        given: Option<&Bound<'py, PyDict>>,
        markup: Markup,
    ) -> PyResult<Options<'py>> {
        let method = Method { has_tools: false, markup, ..Method::BATCH };
        let options = self.options(given, &method)?;
        if options.counter.is_some() {
            let message = format!(
                "{MEDIA_TOKENS}: has no place beside a table, whose rows are no objects of Python; \
                 expected `tokens` in each part"
            );
            return Err(PyTypeError::new_err(message));
        }
        Ok(options)
    }

    /// The prompt of the next turn.
    pub(super) fn extended(
        &self,
        prompt: &Bound<'_, PyAny>,
        completion_ids: Ids,
        new_messages: &Bound<'_, PyAny>,
        reasoning: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoding> {
        let options = self.options(options, &Method::EXTEND)?;
        let on_reasoning = on_reasoning(reasoning)?;
        let read = self.read(new_messages, None, &options)?;
        let read = read.map_err(|error| raise(of_new_messages(error)))?;
        let prompt = if let Ok(encoding) = prompt.cast::<Encoding>() {
            Prompt::Encoding(encoding.clone().unbind())
        } else {
            let ids: Ids = prompt.extract().map_err(|error: PyErr| of_prompt(prompt, error))?;
            ids.plain()?;
            Prompt::Ids(ids)
        };
        completion_ids.plain()?;
        let bytes =
            work_bytes(&read) + (prompt.ids().len() + completion_ids.all().len()) * ID_BYTES;
        let (codec, options) = (self.inner.clone(), options.encode);
        let extend = move || {
            let completion = completion_ids.all();
            match &prompt {
                Prompt::Encoding(prompt) => {
                    let prompt = prompt.get().inner();
                    codec.extend_conversation(prompt, completion, read, &options, on_reasoning)
                }
                Prompt::Ids(ids) => {
                    let prompt = codec.adopt(ids.all());
                    codec.extend_conversation(&prompt, completion, read, &options, on_reasoning)
                }
            }
        };
        self.work(new_messages.py(), bytes, extend)?.map(Encoding::new).map_err(raise)
    }

    /// The encoding of given ids of known messages.
    pub(super) fn adopted(
        &self,
        ids: Ids,
        messages: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoding> {
        let options = self.options(options, &Method::ENCODE)?;
        ids.plain()?;
        let read = self.conversation(messages, &options)?;
        let bytes = ids.all().len() * ID_BYTES;
        let (codec, options) = (self.inner.clone(), options.encode);
        let adopt = move || codec.adopt_conversation(ids.all(), read, &options);
        self.work(messages.py(), bytes, adopt)?.map(Encoding::new).map_err(raise)
    }

    /// The caller's own messages that have at most `tokens` ids.
    pub(super) fn fitted<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        tokens: usize,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let options = self.options(options, &Method::ENCODE)?;
        let read = self.conversation(messages, &options)?;
        let bytes = work_bytes(&read);
        let (codec, options) = (self.inner.clone(), options.encode);
        let fit = move || codec.fit(&read, tokens, &options);
        let fitted = self.work(messages.py(), bytes, fit)?.map_err(raise)?;
        let kept = PyList::empty(messages.py());
        for at in fitted.kept {
            kept.append(messages.get_item(at)?)?;
        }
        Ok(kept)
    }

    /// The canonical form of a conversation.
    pub(super) fn canonical_messages(
        &self,
        messages: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Message>> {
        let options = self.options(options, &Method::ENCODE)?;
        let read = self.conversation(messages, &options)?;
        let (bytes, codec, options) = (work_bytes(&read), self.inner.clone(), options.encode);
        let canonical = move || codec.canonical_conversation(read, &options);
        self.work(messages.py(), bytes, canonical)?.map_err(raise)
    }
}

/// Cost of reading an id, in bytes of text.
const ID_BYTES: usize = 4;

/// Fixed cost of a conversation of a batch, in bytes of text.
const ITEM_BYTES: usize = 128;

/// What a turn goes on from.
enum Prompt {
    Encoding(Py<Encoding>),
    Ids(Ids),
}

impl Prompt {
    fn ids(&self) -> &[chatcodec::TokenId] {
        match self {
            Self::Encoding(encoding) => encoding.get().inner().ids(),
            Self::Ids(ids) => ids.all(),
        }
    }
}

/// An error of messages that the caller gave as `new_messages`.
fn of_new_messages(error: chatcodec::Error) -> chatcodec::Error {
    error.with_path(|path| if path.starts_with("messages") { format!("new_{path}") } else { path })
}

/// The error of a prompt that is no ids: messages, for the most part.
fn of_prompt(prompt: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(prompt.py()) {
        return error;
    }
    let message = format!("prompt: {}; expected an `Encoding` or ids", error.value(prompt.py()));
    PyTypeError::new_err(message)
}
