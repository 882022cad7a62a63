//! `StreamPool`: many streams, each advanced by one id in a call.

use std::sync::{Arc, Mutex, MutexGuard};

use chatcodec::{
    Event, NoStream, PoolEvent, Stream as CoreStream, StreamPool as CorePool, TokenId,
};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyAny, PyList, PyString, PyTuple};

use crate::away::{LONG_IDS, away, look};
use crate::codec::Codec;
use crate::encoding::no_pickle;
use crate::events::{event_list, event_object, plain_object};
use crate::ids::Ids;
use crate::stream::{check_given, engines_reason, kept_message};
use crate::texts::Texts;
use crate::typed::{EventList, MessageDict, SlotEvents};

/// Minimum number of ids for which releasing the interpreter is worth its cost.
const DETACH_IDS: usize = 256;

/// Many streams of one codec, each in a slot, for an engine that generates an id for each of
/// thousands of sequences in a step: one call reads them all. Slots are ints from 0; closed slots
/// are used again. Safe to share between threads: each call is atomic to the others.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct StreamPool {
    codec: Py<Codec>,
    texts: Arc<Texts>,
    /// Never held while Python code may run.
    inner: Arc<Mutex<CorePool>>,
}

fn no_stream(error: NoStream) -> PyErr {
    PyIndexError::new_err(error.to_string())
}

impl StreamPool {
    fn inner(&self, py: Python<'_>) -> MutexGuard<'_, CorePool> {
        self.inner.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs a function on the stream in a slot.
    fn with<T>(
        &self,
        py: Python<'_>,
        slot: i64,
        work: impl FnOnce(&mut CoreStream) -> T,
    ) -> PyResult<T> {
        self.inner(py).stream(slot_id(slot)).map(work).map_err(no_stream)
    }
}

/// The core's slot of an int; an int beyond int32 is no slot.
fn slot_id(slot: i64) -> TokenId {
    TokenId::try_from(slot).unwrap_or(-1)
}

/// Pushes an id to each slot; reads nothing if a slot has no stream, or a stream of text.
fn advance(
    pool: &mut CorePool,
    slots: &[TokenId],
    ids: &Ids,
) -> PyResult<Vec<(TokenId, PoolEvent)>> {
    pool.check(slots).map_err(no_stream)?;
    for &slot in slots {
        check_given(pool.stream(slot).map_err(no_stream)?.policy(), false)?;
    }
    read_ids(pool, slots, ids).map_err(no_stream)
}

fn read_ids(
    pool: &mut CorePool,
    slots: &[TokenId],
    ids: &Ids,
) -> Result<Vec<(TokenId, PoolEvent)>, NoStream> {
    let mut told = Vec::with_capacity(slots.len());
    let mut from = 0;
    for (at, id) in ids.odd() {
        pool.push(&slots[from..*at], &ids.all()[from..*at], &mut told)?;
        let mut events = Vec::new();
        pool.stream(slots[*at])?.push_unknown(id.clone(), &mut events);
        told.extend(events.into_iter().map(|event| (slots[*at], PoolEvent::Event(event))));
        from = at + 1;
    }
    pool.push(&slots[from..], &ids.all()[from..], &mut told)?;
    Ok(told)
}

#[pymethods]
impl StreamPool {
    /// Raises `TypeError`: a pool cannot be pickled, as it holds its codec's tables.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("StreamPool", "the ids of each stream, which a new pool reads again"))
    }

    #[new]
    fn new(codec: &Bound<'_, Codec>) -> Self {
        let (core, texts) = codec.get().parts();
        let inner = Arc::new(Mutex::new(CorePool::new(core)));
        Self { codec: codec.clone().unbind(), texts: Arc::clone(texts), inner }
    }

    /// Opens a stream and returns its slot. The options are those of `Codec.stream`; a `ToolTypes`
    /// is read once for all its streams.
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
    fn open(
        &self,
        py: Python<'_>,
        prompt: Option<Ids>,
        keep: bool,
        markers: &str,
        tools: Option<&Bound<'_, PyAny>>,
        calls_in_reasoning: Option<&str>,
        bare_calls: Option<&str>,
    ) -> PyResult<usize> {
        let codec = self.codec.get();
        let stream =
            codec.stream_after(py, prompt, markers, tools, calls_in_reasoning, bare_calls)?;
        Ok(self.inner(py).open(if keep { stream.keeping() } else { stream }))
    }

    /// Reads text for the stream in a slot, as `Stream.push_text` does.
    fn push_text<'py>(&self, slot: i64, text: &Bound<'py, PyString>) -> PyResult<EventList<'py>> {
        let py = text.py();
        let given = crate::ids::text(text, "text")?;
        let events = self.with(py, slot, |stream| {
            check_given(stream.policy(), true)?;
            let mut events: Vec<Event> = Vec::new();
            stream.push_text(given, &mut events);
            Ok::<_, PyErr>(events)
        })??;
        event_list(py, events).map(EventList)
    }

    /// Reads one id for each slot, in order, and returns a list of slots and a list of events, of
    /// one length, in the order of the ids; an id without an event adds nothing: `for slot, event
    /// in zip(*pool.push(slots, ids))`. `slots` and `ids` have one length and are sequences of ints
    /// or one-dimensional buffers of ints; a slot may occur several times. Raises `IndexError` for
    /// a slot without a stream and `ValueError` for a stream of text, before any id is read.
    /// Releases the interpreter. An interrupt of a push of 65,536 ids or more loses its events: the
    /// ids are read.
    fn push<'py>(&self, py: Python<'py>, slots: Ids, ids: Ids) -> PyResult<SlotEvents<'py>> {
        let (each, length) = (slots.all(), ids.all().len());
        if each.len() != length {
            let message = format!("{} `slots` and {length} `ids`, expected as many", each.len());
            return Err(PyValueError::new_err(message));
        }
        if let Some((_, slot)) = slots.odd().first() {
            let slot = chatcodec::place(slot);
            return Err(PyIndexError::new_err(format!("slot {slot} holds no stream")));
        }
        let told = if length < DETACH_IDS {
            advance(&mut self.inner(py), each, &ids)
        } else {
            let pool = Arc::clone(&self.inner);
            let advance = move || {
                let mut pool = pool.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                advance(&mut pool, slots.all(), &ids)
            };
            if length >= LONG_IDS { away(py, advance)? } else { py.detach(advance) }
        };
        let (core, _) = self.codec.get().parts();
        let vocab = core.vocab();
        let (slots, events) = (PyList::empty(py), PyList::empty(py));
        for (nth, (slot, told)) in told?.into_iter().enumerate() {
            look(py, nth)?;
            let event = match told {
                PoolEvent::Plain(plain) => plain_object(py, &plain, &self.texts, vocab)?,
                PoolEvent::Event(event) => event_object(py, event)?,
            };
            slots.append(slot)?;
            events.append(event)?;
        }
        PyTuple::new(py, [slots, events]).map(SlotEvents)
    }

    /// Ends the stream in a slot, as `Stream.finish` does. The slot stays open until `close`.
    #[pyo3(signature = (slot, reason: "Literal['stop', 'length', 'cancelled']" = "stop"))]
    fn finish<'py>(&self, py: Python<'py>, slot: i64, reason: &str) -> PyResult<EventList<'py>> {
        let reason = engines_reason(reason)?;
        let mut events: Vec<Event> = Vec::new();
        self.with(py, slot, |stream| stream.finish(reason, &mut events))?;
        event_list(py, events).map(EventList)
    }

    /// The message so far of the stream in a slot, as `Stream.message` gives it.
    fn message<'py>(&self, py: Python<'py>, slot: i64) -> PyResult<MessageDict<'py>> {
        let message = self.with(py, slot, |stream| stream.keeps().then(|| stream.message()))?;
        kept_message(py, message)
    }

    /// Closes a slot, whether its stream is finished or not.
    fn close(&self, py: Python<'_>, slot: i64) -> PyResult<()> {
        let stream = self.inner(py).close(slot_id(slot)).map_err(no_stream)?;
        drop(stream);
        Ok(())
    }

    /// Number of open streams.
    fn __len__(&self, py: Python<'_>) -> usize {
        self.inner(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("StreamPool({} open)", self.inner(py).len())
    }
}
