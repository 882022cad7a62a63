//! `Stream` and `Parsed`.

use std::sync::Arc;

use chatcodec::{
    BareCalls, Event, InReasoning, MarkerPolicy, Message, Stream as CoreStream, TokenId, TurnReason,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyInt, PyList, PyString, PyTuple};

use crate::array::IntArray;
use crate::away::{DETACH_BYTES, DETACH_IDS, LONG_IDS, LONG_TEXT, STRIDE, look};
use crate::encoding::no_pickle;
use crate::errors::quoted;
use crate::events::{event_list, plain_object};
use crate::ids::Ids;
use crate::node::message_dict;
use crate::texts::Texts;
use crate::typed::{EventList, MessageDict};
use crate::types::ToolTypes;
use crate::words::TurnReasonWord;

/// A stream that reads ids and emits events, from `Codec.stream`.
#[pyclass(module = "chatcodec._core")]
pub(crate) struct Stream {
    inner: CoreStream,
    texts: Arc<Texts>,
}

impl Stream {
    pub(crate) fn new(inner: CoreStream, texts: Arc<Texts>) -> Self {
        Self { inner, texts }
    }

    /// Reads input; an interrupt of a long read leaves the stream unchanged.
    fn reading(
        &mut self,
        is_long: bool,
        read: impl FnOnce(&mut CoreStream, &mut Vec<Event>) -> PyResult<()>,
    ) -> PyResult<Vec<Event>> {
        let mut events = Vec::new();
        if is_long {
            let mut inner = self.inner.clone();
            read(&mut inner, &mut events)?;
            self.inner = inner;
        } else {
            read(&mut self.inner, &mut events)?;
        }
        Ok(events)
    }
}

/// Reads ids; checks for signals at intervals in long input.
fn read_ids(
    py: Python<'_>,
    stream: &mut CoreStream,
    ids: &Ids,
    events: &mut Vec<Event>,
) -> PyResult<()> {
    let read = |ids: &[TokenId], stream: &mut CoreStream, events: &mut Vec<Event>| {
        for (nth, part) in ids.chunks(STRIDE).enumerate() {
            if nth > 0 {
                py.check_signals()?;
            }
            if part.len() < DETACH_IDS {
                stream.push_all(part, events);
            } else {
                py.detach(|| stream.push_all(part, events));
            }
        }
        Ok::<_, PyErr>(())
    };
    let mut from = 0;
    for (nth, (at, id)) in ids.odd().iter().enumerate() {
        look(py, nth)?;
        read(&ids.all()[from..*at], stream, events)?;
        stream.push_unknown(id.clone(), events);
        from = at + 1;
    }
    read(&ids.all()[from..], stream, events)
}

/// Reads text; checks for signals at intervals in long input.
fn read_text(
    py: Python<'_>,
    stream: &mut CoreStream,
    text: &str,
    events: &mut Vec<Event>,
) -> PyResult<()> {
    let mut rest = text;
    while rest.len() > LONG_TEXT {
        let end =
            (LONG_TEXT..rest.len()).find(|&at| rest.is_char_boundary(at)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        py.detach(|| stream.push_text(part, events));
        py.check_signals()?;
        rest = after;
    }
    if rest.len() < DETACH_BYTES {
        stream.push_text(rest, events);
    } else {
        py.detach(|| stream.push_text(rest, events));
    }
    Ok(())
}

/// The message that a stream has collected.
pub(crate) fn kept_message(py: Python<'_>, message: Option<Message>) -> PyResult<MessageDict<'_>> {
    let Some(message) = message else {
        let message = "the stream keeps no message, expected `stream(keep=True)`; \
                       or use `chatcodec.collect(events)`";
        return Err(PyRuntimeError::new_err(message));
    };
    message_dict(py, &message).map(MessageDict)
}

/// The marker policy of a name.
pub(crate) fn marker_policy(markers: &str) -> PyResult<MarkerPolicy> {
    match markers {
        "ids" => Ok(MarkerPolicy::Ids),
        "ids_or_text" => Ok(MarkerPolicy::IdsOrText),
        "text" => Ok(MarkerPolicy::Text),
        _ => {
            let markers = quoted(markers);
            let message =
                format!("markers={markers}, expected \"ids\", \"ids_or_text\" or \"text\"");
            Err(PyValueError::new_err(message))
        }
    }
}

/// Checks that a stream gets its kind of input: ids or text.
pub(crate) fn check_given(policy: MarkerPolicy, is_text: bool) -> PyResult<()> {
    let message = match (policy, is_text) {
        (MarkerPolicy::Text, false) => "the stream reads text, expected `push_text`",
        (MarkerPolicy::Ids | MarkerPolicy::IdsOrText, true) => {
            "the stream reads ids, expected `push`, or a stream of `markers=\"text\"`"
        }
        _ => return Ok(()),
    };
    Err(PyValueError::new_err(message))
}

/// The engine's reason for the end of a stream.
pub(crate) fn engines_reason(reason: &str) -> PyResult<TurnReason> {
    let is_engines = |reason: &TurnReason| {
        matches!(reason, TurnReason::Stop | TurnReason::Length | TurnReason::Cancelled)
    };
    TurnReason::parse(reason).filter(is_engines).ok_or_else(|| {
        let reason = quoted(reason);
        let message = format!("reason={reason}, expected \"stop\", \"length\" or \"cancelled\"");
        PyValueError::new_err(message)
    })
}

#[pymethods]
impl Stream {
    /// Raises `TypeError`: a stream cannot be pickled, as it holds its codec's tables.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("Stream", "the ids so far, which a new stream reads again"))
    }

    /// Reads an id or a sequence of ids, and returns their events. The split of ids into pushes
    /// does not change the events, except that neighbouring texts may be joined. Accepts every int.
    /// Raises `ValueError` for a stream of `markers="text"`.
    #[pyo3(signature = (ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding"))]
    fn push<'py>(&mut self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<EventList<'py>> {
        check_given(self.inner.policy(), false)?;
        // Most calls by far are for one int.
        if ids.is_exact_instance_of::<PyInt>()
            && let Ok(id) = ids.extract()
        {
            if let Some(plain) = self.inner.push_plain(id) {
                let event = plain_object(py, &plain, &self.texts, self.inner.vocab())?;
                return PyList::new(py, [event]).map(EventList);
            }
            let mut events = Vec::new();
            self.inner.push_other(id, &mut events);
            return event_list(py, events).map(EventList);
        }
        let ids: Ids = ids.extract()?;
        let is_long = ids.all().len() >= LONG_IDS;
        let events = self.reading(is_long, |stream, events| read_ids(py, stream, &ids, events))?;
        event_list(py, events).map(EventList)
    }

    /// Reads text and returns its events. The split of text into pushes does not change the events,
    /// except that neighbouring texts may be joined. Raises `ValueError` unless the stream has
    /// `markers="text"`.
    fn push_text<'py>(&mut self, text: &Bound<'py, PyString>) -> PyResult<EventList<'py>> {
        check_given(self.inner.policy(), true)?;
        let given = crate::ids::text(text, "text")?;
        let py = text.py();
        let is_long = given.len() >= LONG_TEXT;
        let events =
            self.reading(is_long, |stream, events| read_text(py, stream, given, events))?;
        event_list(py, events).map(EventList)
    }

    /// Ends the stream: closes the open call and turn, and emits the held text. `reason` is the engine's
    /// reason: `"stop"`, `"length"` or `"cancelled"`; `"stop"` in a turn with a call becomes
    /// `"action"`.
    #[pyo3(signature = (reason: "Literal['stop', 'length', 'cancelled']" = "stop"))]
    fn finish<'py>(&mut self, py: Python<'py>, reason: &str) -> PyResult<EventList<'py>> {
        let reason = engines_reason(reason)?;
        let mut events = Vec::new();
        self.inner.finish(reason, &mut events);
        event_list(py, events).map(EventList)
    }

    /// An independent copy of the stream in its present state.
    fn copy(&self) -> Self {
        Self { inner: self.inner.clone(), texts: Arc::clone(&self.texts) }
    }

    fn __copy__(&self) -> Self {
        self.copy()
    }

    #[pyo3(signature = (_memo: "object"))]
    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.copy()
    }

    /// The message so far; only with `keep=True`. A call that began in the prompt has only the part
    /// that the stream read.
    fn message<'py>(&self, py: Python<'py>) -> PyResult<MessageDict<'py>> {
        kept_message(py, self.inner.keeps().then(|| self.inner.message()))
    }

    fn __repr__(&self) -> String {
        let what = match self.inner.policy() {
            MarkerPolicy::Text => "characters",
            MarkerPolicy::Ids | MarkerPolicy::IdsOrText => "ids",
        };
        format!("Stream({} {what} read)", self.inner.position())
    }
}

/// A parsed completion, from `Codec.parse`.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Parsed {
    message: Py<PyDict>,
    finish: TurnReasonWord,
    rest: Py<IntArray>,
    rest_text: String,
}

impl Parsed {
    /// Exactly one of `rest` and `rest_text` holds the input after the turn: the one of the
    /// completion's kind.
    pub(crate) fn new(
        py: Python<'_>,
        parsed: &chatcodec::Parsed,
        rest: &[i32],
        rest_text: &str,
    ) -> PyResult<Self> {
        Ok(Self {
            message: message_dict(py, &parsed.message)?.unbind(),
            finish: parsed.finish.name().into(),
            rest: Py::new(py, IntArray::int32(rest.to_vec()))?,
            rest_text: rest_text.to_owned(),
        })
    }
}

#[pymethods]
impl Parsed {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str, &'static str) {
        ("message", "finish", "rest", "rest_text")
    }

    #[new]
    #[pyo3(signature = (
        message: "dict[str, Any]",
        finish: "TurnReason",
        rest: "IntArray",
        rest_text: "str"
    ))]
    fn create(
        message: Bound<'_, PyDict>,
        finish: TurnReasonWord,
        rest: Bound<'_, IntArray>,
        rest_text: String,
    ) -> Self {
        let message = message.unbind();
        Self { message, finish, rest: rest.unbind(), rest_text }
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, Self { message, finish, rest, rest_text }) = (slf.py(), slf.get());
        let fields = (message, finish, rest, rest_text).into_pyobject(py)?;
        PyTuple::new(py, [slf.get_type().into_any(), fields.into_any()])
    }

    /// The assistant's message, as `encode` takes it.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> MessageDict<'py> {
        MessageDict(self.message.bind(py).clone())
    }

    /// Reason for the end of the turn: `"stop"`, `"action"` or `"implicit"`.
    #[getter]
    fn finish(&self) -> TurnReasonWord {
        self.finish.clone()
    }

    /// The text after the turn, for a completion given as text.
    #[getter]
    fn rest_text(&self) -> &str {
        &self.rest_text
    }

    /// The ids after the turn; empty for a completion given as text.
    #[getter]
    fn rest<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.rest.bind(py).clone()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let message = self.message.bind(py).repr()?;
        let rest = self.rest.get().as_ids().map_or(0, |ids| ids.len());
        let rest = match self.rest_text.chars().count() {
            0 => format!("{rest} ids"),
            characters => format!("{characters} characters"),
        };
        Ok(format!("Parsed(message={message}, finish={:?}, rest=<{rest}>)", &*self.finish))
    }
}

/// Sets the tool types of a stream, if the caller gives tools.
pub(crate) fn typed(stream: CoreStream, tools: Option<&Bound<'_, PyAny>>) -> PyResult<CoreStream> {
    let types = ToolTypes::from_argument(tools)?;
    Ok(match &types {
        Some(types) => stream.typed(types),
        None => stream,
    })
}

/// Sets the policy for calls within reasoning, if the caller gives one.
pub(crate) fn calling(
    stream: CoreStream,
    calls_in_reasoning: Option<&str>,
) -> PyResult<CoreStream> {
    match calls_in_reasoning {
        None => Ok(stream),
        Some("text") => Ok(stream.calling_in_reasoning(InReasoning::Text)),
        Some("call") => Ok(stream.calling_in_reasoning(InReasoning::Call)),
        Some(word) => {
            let word = quoted(word);
            let message = format!("calls_in_reasoning={word}, expected \"text\" or \"call\"");
            Err(PyValueError::new_err(message))
        }
    }
}

/// Sets the place of unmarked calls, if the caller gives one.
pub(crate) fn calling_bare(stream: CoreStream, bare_calls: Option<&str>) -> PyResult<CoreStream> {
    let bare = match bare_calls {
        None => return Ok(stream),
        Some("text") => BareCalls::Text,
        Some("line") => BareCalls::Line,
        Some("anywhere") => BareCalls::Anywhere,
        Some(word) => {
            let word = quoted(word);
            let message = format!("bare_calls={word}, expected \"text\", \"line\" or \"anywhere\"");
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(stream.calling_bare(bare))
}
