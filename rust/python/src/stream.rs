//! `Stream` and `Parsed`.

use std::sync::Arc;

use chatcodec::{Message, Stream as CoreStream, TurnReason};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyInt, PyList};

use crate::array::IntArray;
use crate::events::{event_list, plain_object};
use crate::input::Ids;
use crate::node::message_dict;
use crate::texts::Texts;
use crate::typed::{EventList, MessageDict};

/// A stream of ids being read, from `Codec.stream`.
#[pyclass(module = "chatcodec._core")]
pub(crate) struct Stream {
    inner: CoreStream,
    texts: Arc<Texts>,
}

impl Stream {
    pub(crate) fn new(inner: CoreStream, texts: Arc<Texts>) -> Self {
        Self { inner, texts }
    }
}

/// The message that a stream has kept.
pub(crate) fn kept_message(py: Python<'_>, message: Option<Message>) -> PyResult<MessageDict<'_>> {
    let Some(message) = message else {
        let message = "the stream keeps no message, expected `stream(keep=True)`; \
                       or use `chatcodec.collect(events)`";
        return Err(PyRuntimeError::new_err(message));
    };
    message_dict(py, &message).map(MessageDict)
}

/// The engine's reason for the end of a stream.
pub(crate) fn engines_reason(reason: &str) -> PyResult<TurnReason> {
    let is_engines = |reason: &TurnReason| {
        matches!(reason, TurnReason::Stop | TurnReason::Length | TurnReason::Cancelled)
    };
    TurnReason::parse(reason).filter(is_engines).ok_or_else(|| {
        let message = format!("reason={reason:?}, expected \"stop\", \"length\" or \"cancelled\"");
        PyValueError::new_err(message)
    })
}

#[pymethods]
impl Stream {
    /// Reads an id, or ids, and gives the events they make. However ids are split into pushes, the
    /// events are the same, but for texts that follow each other. Never raises for any int.
    #[pyo3(signature = (ids: "SupportsIndex | Iterable[SupportsIndex] | Buffer | Encoding"))]
    fn push<'py>(&mut self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<EventList<'py>> {
        // Most calls by far are for one int.
        if ids.is_exact_instance_of::<PyInt>()
            && let Ok(id) = ids.extract()
        {
            if let Some(plain) = self.inner.push_plain(id) {
                let event = plain_object(py, &plain, &self.texts, self.inner.vocab())?;
                return PyList::new(py, [event]).map(EventList);
            }
            let mut events = Vec::new();
            self.inner.push(id, &mut events);
            return event_list(py, events).map(EventList);
        }
        let ids: Ids = ids.extract()?;
        let mut events = Vec::new();
        let mut from = 0;
        for (at, id) in ids.odd() {
            self.inner.push_all(&ids.all()[from..*at], &mut events);
            self.inner.push_unknown(id.clone(), &mut events);
            from = at + 1;
        }
        self.inner.push_all(&ids.all()[from..], &mut events);
        event_list(py, events).map(EventList)
    }

    /// Ends the stream: closes what is open, gives what is held. `reason` is the engine's: `"stop"`,
    /// `"length"` or `"cancelled"`; `"stop"` after an action becomes `"action"`.
    #[pyo3(signature = (reason = "stop"))]
    fn finish<'py>(&mut self, py: Python<'py>, reason: &str) -> PyResult<EventList<'py>> {
        let reason = engines_reason(reason)?;
        let mut events = Vec::new();
        self.inner.finish(reason, &mut events);
        event_list(py, events).map(EventList)
    }

    /// A second stream that goes on from here by itself.
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

    /// The message so far; only with `keep=True`. Of an action that the prompt began, it has what the
    /// stream added.
    fn message<'py>(&self, py: Python<'py>) -> PyResult<MessageDict<'py>> {
        kept_message(py, self.inner.keeps().then(|| self.inner.message()))
    }

    fn __repr__(&self) -> String {
        format!("Stream({} ids read)", self.inner.position())
    }
}

/// A completion that was read, from `Codec.parse`.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Parsed {
    message: Py<PyDict>,
    finish: &'static str,
    rest: Py<IntArray>,
}

impl Parsed {
    pub(crate) fn new(py: Python<'_>, parsed: &chatcodec::Parsed, rest: &[i32]) -> PyResult<Self> {
        Ok(Self {
            message: message_dict(py, &parsed.message)?.unbind(),
            finish: parsed.finish.name(),
            rest: Py::new(py, IntArray::int32(rest.to_vec()))?,
        })
    }
}

#[pymethods]
impl Parsed {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("message", "finish", "rest")
    }

    /// The assistant's message, as `encode` takes it.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> MessageDict<'py> {
        MessageDict(self.message.bind(py).clone())
    }

    /// Why the turn ended: `"stop"`, `"action"` or `"implicit"`.
    #[getter]
    fn finish(&self) -> &'static str {
        self.finish
    }

    /// The ids after the turn.
    #[getter]
    fn rest<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.rest.bind(py).clone()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let message = self.message.bind(py).repr()?;
        let rest = self.rest.get().as_ids().map_or(0, |ids| ids.len());
        Ok(format!("Parsed(message={message}, finish={:?}, rest=<{rest} ids>)", self.finish))
    }
}
