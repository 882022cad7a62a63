//! `Encoding`, `Batch`, and what they say of a caller's text.

use chatcodec::{Encoding as CoreEncoding, LabelOptions, Role};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyRange, PyTuple};

use crate::array::{IntArray, numpy_array};
use crate::arrow::Exported;
use crate::away::look;
use crate::errors::quoted;
use crate::ids::ListOf;
use crate::note::note_tuple;
use crate::typed::{
    Capsules, DroppedTuple, EncodingIter, ErrorDict, IntIter, IntList, NoteTuple, Paths, Ranges,
};

/// A conversation as ids: a sequence of them, with what is known of each. Everything but `ids` and `text` is
/// worked out when it is first asked for.
#[pyclass(module = "chatcodec._core", frozen, sequence)]
pub(crate) struct Encoding {
    inner: CoreEncoding,
    ids: PyOnceLock<Py<IntArray>>,
    sources: PyOnceLock<Py<PyTuple>>,
    message_indices: PyOnceLock<Py<IntArray>>,
    is_control: PyOnceLock<Py<IntArray>>,
    is_content: PyOnceLock<Py<IntArray>>,
    assistant_mask: PyOnceLock<Py<IntArray>>,
    offsets: PyOnceLock<Py<PyTuple>>,
    char_offsets: PyOnceLock<Py<PyTuple>>,
}

impl Encoding {
    pub(crate) fn new(inner: CoreEncoding) -> Self {
        Self {
            inner,
            ids: PyOnceLock::new(),
            sources: PyOnceLock::new(),
            message_indices: PyOnceLock::new(),
            is_control: PyOnceLock::new(),
            is_content: PyOnceLock::new(),
            assistant_mask: PyOnceLock::new(),
            offsets: PyOnceLock::new(),
            char_offsets: PyOnceLock::new(),
        }
    }

    pub(crate) fn inner(&self) -> &CoreEncoding {
        &self.inner
    }
}

/// An array that is made once.
fn array<'a, 'py>(
    py: Python<'py>,
    slot: &'a PyOnceLock<Py<IntArray>>,
    make: impl FnOnce() -> IntArray,
) -> PyResult<&'a Bound<'py, IntArray>> {
    Ok(slot.get_or_try_init(py, || Py::new(py, make()))?.bind(py))
}

fn ranges<'py>(
    py: Python<'py>,
    slot: &PyOnceLock<Py<PyTuple>>,
    make: impl FnOnce() -> Vec<(usize, usize)>,
) -> PyResult<Ranges<'py>> {
    let tuple = slot.get_or_try_init(py, || PyTuple::new(py, make()).map(Bound::unbind))?;
    Ok(Ranges(tuple.bind(py).clone()))
}

/// Which ids are labels, read and checked.
pub(crate) fn label_options(
    roles: Option<ListOf<String>>,
    last_only: bool,
    ignore_index: i32,
) -> PyResult<LabelOptions> {
    let role = |word: &String| {
        Role::parse(word).ok_or_else(|| {
            let known = "`system`, `user`, `assistant`, `tool`";
            let word = quoted(word);
            PyValueError::new_err(format!("`roles` holds {word}, expected some of {known}"))
        })
    };
    let roles = match &roles {
        None => vec![Role::Assistant],
        Some(ListOf(roles)) => roles.iter().map(role).collect::<PyResult<_>>()?,
    };
    Ok(LabelOptions { roles, last_only, ignore_index })
}

fn no_pickle(class: &str, instead: &str) -> PyErr {
    let message = format!(
        "cannot pickle `{class}`, which holds its codec's tables: \
         pickle what is needed of it, such as {instead}"
    );
    PyTypeError::new_err(message)
}

#[pymethods]
impl Encoding {
    /// The ids: int32, read by NumPy without a copy.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.ids, || IntArray::int32(self.inner.shared_ids())).cloned()
    }

    /// What a template would have produced, control tokens spelled, for people to read. Encoding it
    /// again does not give the same ids: that is the point.
    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }

    /// Per id the path of the caller's text that it holds, such as `messages[0].content`; `None` for
    /// the format's own.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Paths<'py>> {
        let tuple = self.sources.get_or_try_init(py, || {
            // Neighbours mostly share their path: one string for all of them.
            let mut known = None;
            let mut paths = Vec::new();
            for source in self.inner.sources() {
                if known.as_ref().is_none_or(|(last, _)| *last != source) {
                    let path = source.is_content().then(|| source.to_string());
                    known = Some((source, path.into_pyobject(py)?));
                }
                paths.extend(known.as_ref().map(|(_, path)| path.clone()));
            }
            PyTuple::new(py, paths).map(Bound::unbind)
        })?;
        Ok(Paths(tuple.bind(py).clone()))
    }

    /// Per id the index of its message, int32; -1 for ids of none: what begins the conversation,
    /// `tools`, the generation prompt.
    #[getter]
    fn message_indices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.message_indices, || IntArray::int32(self.inner.message_indices())).cloned()
    }

    /// Per id 1 for a control token, 0 for text; uint8.
    #[getter]
    fn is_control<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.is_control, || IntArray::uint8(self.inner.is_control())).cloned()
    }

    /// Per id 1 if it holds text of the caller's, also where it holds some of the format's; uint8.
    #[getter]
    fn is_content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.is_content, || IntArray::uint8(self.inner.is_content())).cloned()
    }

    /// Per id 1 if a model generates it: an assistant's turn after its generation prompt, up to and
    /// including the id that stops it, which may be the opener of the next turn; uint8.
    #[getter]
    fn assistant_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.assistant_mask, || IntArray::uint8(self.inner.assistant_mask())).cloned()
    }

    /// What to train on: per id the id itself, or `ignore_index` where it is no label; int32. Of the assistant's
    /// turns these are the ids of `assistant_mask`, with the id that stops the model; of other `roles` the
    /// caller's text. `last_only` leaves only the last message of these roles.
    ///
    /// Places are those of the ids: trainers compare what is predicted at one with the label of the next.
    #[pyo3(signature = (
        *,
        roles: "Sequence[Role] | None" = None,
        last_only: "bool" = false,
        ignore_index: "int" = -100
    ), text_signature = "($self, /, *, roles=None, last_only=False, ignore_index=-100)")]
    fn labels(
        &self,
        roles: Option<ListOf<String>>,
        last_only: bool,
        ignore_index: i32,
    ) -> PyResult<IntArray> {
        let options = label_options(roles, last_only, ignore_index)?;
        Ok(IntArray::int32(self.inner.labels(&options)))
    }

    /// Per id `(start, end)` in `text`, as bytes of its UTF-8.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Ranges<'py>> {
        ranges(py, &self.offsets, || self.inner.offsets())
    }

    /// Per id `(start, end)` in `text`, as code points: `text[start:end]`. All ids of one character
    /// have it.
    #[getter]
    fn char_offsets<'py>(&self, py: Python<'py>) -> PyResult<Ranges<'py>> {
        ranges(py, &self.char_offsets, || self.inner.char_offsets())
    }

    /// Spellings of control tokens in the caller's text, which a reference would have taken for
    /// control. Of arguments given as a dict, or written as a string, positions are in the JSON text.
    #[getter]
    fn neutralized(&self) -> Vec<Neutralized> {
        let found = self.inner.neutralized().into_iter();
        found
            .map(|n| Neutralized {
                path: n.path.to_string(),
                start: n.start,
                end: n.end,
                spelling: n.spelling,
                id: n.id,
            })
            .collect()
    }

    /// Markers of the format in the caller's text; formats whose turns are told apart by ids have
    /// none.
    #[getter]
    fn collisions(&self) -> Vec<Collision> {
        let found = self.inner.collisions().into_iter();
        found
            .map(|c| Collision {
                path: c.path.to_string(),
                start: c.start,
                end: c.end,
                marker: c.marker,
            })
            .collect()
    }

    /// Of what `Codec.extend` gives: where the ids are not those that `encode` gives the same messages, as the
    /// model wrote them in another way, or the format would write them in another way now.
    #[getter]
    fn notes<'py>(&self, py: Python<'py>) -> PyResult<NoteTuple<'py>> {
        note_tuple(py, self.inner.notes())
    }

    /// What of the caller's conversation was left out: keys that are not known (`unknown="ignore"`), and what
    /// is about a text but no part of it (`annotations`).
    #[getter]
    fn dropped<'py>(&self, py: Python<'py>) -> PyResult<DroppedTuple<'py>> {
        let dropped = self.inner.dropped().iter().map(|dropped| {
            Bound::new(py, Dropped { path: dropped.path.clone(), what: dropped.what.clone() })
        });
        let dropped: Vec<_> = dropped.collect::<PyResult<_>>()?;
        PyTuple::new(py, dropped).map(DroppedTuple)
    }

    fn __len__(&self) -> usize {
        self.inner.ids().len()
    }

    /// The id at an index, or the ids of a slice.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.ids(py)?.get().item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<IntIter<'py>> {
        self.ids(py)?.get().items(py)
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<IntIter<'py>> {
        self.ids(py)?.get().__reversed__(py)
    }

    /// Whether an id is among the ids.
    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.ids(py)?.get().__contains__(value)
    }

    /// How often an id occurs.
    #[pyo3(signature = (value: "object"))]
    fn count(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.ids(py)?.get().count(value)
    }

    /// The first index of an id. Raises `ValueError` if the id does not occur.
    #[pyo3(
        signature = (value: "object", start = 0, stop = isize::MAX),
        text_signature = "($self, /, value, start=0, stop=9223372036854775807)"
    )]
    fn index(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        start: isize,
        stop: isize,
    ) -> PyResult<usize> {
        self.ids(py)?.get().index(value, start, stop)
    }

    /// The ids as a list: `ids.tolist()`.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<IntList<'py>> {
        self.ids(py)?.get().tolist(py)
    }

    /// The ids as NumPy's array, as `IntArray.__array__` gives them.
    #[pyo3(signature = (dtype: "object" = None, copy: "bool | None" = None) -> "Any")]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        numpy_array(self.ids(py)?.as_any(), dtype, copy)
    }

    /// The ids as Arrow's array, as `IntArray.__arrow_c_array__` gives them.
    #[pyo3(signature = (requested_schema: "object" = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let _ = requested_schema;
        self.ids(py)?.get().exported().capsules(py).map(Capsules)
    }

    /// An encoding is not pickled: with its codec's tables it would be many times its ids.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("Encoding", "`encoding.ids`, `encoding.assistant_mask`"))
    }

    fn __repr__(&self) -> String {
        format!("Encoding({} ids)", self.inner.ids().len())
    }
}

/// A spelling of a control token in a caller's text.
#[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Neutralized {
    /// Where: `messages[1].content`.
    path: String,
    /// First code point, in the caller's string.
    start: usize,
    /// One past the last code point.
    end: usize,
    /// What is spelled.
    spelling: String,
    /// The control id that it is a spelling of.
    id: i32,
}

#[pymethods]
impl Neutralized {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str, &'static str, &'static str) {
        ("path", "start", "end", "spelling", "id")
    }

    fn __repr__(&self) -> String {
        let Self { path, start, end, spelling, id } = self;
        format!(
            "Neutralized(path={path:?}, start={start}, end={end}, spelling={spelling:?}, id={id})"
        )
    }
}

/// A marker of the format in a caller's text.
#[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Collision {
    /// Where: `messages[1].content`.
    path: String,
    /// First code point, in the caller's string.
    start: usize,
    /// One past the last code point.
    end: usize,
    /// The marker.
    marker: String,
}

#[pymethods]
impl Collision {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str, &'static str) {
        ("path", "start", "end", "marker")
    }

    fn __repr__(&self) -> String {
        let Self { path, start, end, marker } = self;
        format!("Collision(path={path:?}, start={start}, end={end}, marker={marker:?})")
    }
}

/// A part of a caller's conversation that was left out.
#[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dropped {
    /// Where: `messages[2].reasoning`.
    path: String,
    /// What it is, in a word: `"reasoning"`, `"name"`, `"image_url"`, `"unknown"` for a key that is not known.
    what: String,
}

#[pymethods]
impl Dropped {
    #[new]
    fn new(path: String, what: String) -> Self {
        Self { path, what }
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("path", "what")
    }

    fn __repr__(&self) -> String {
        let Self { path, what } = self;
        format!("Dropped(path={path:?}, what={what:?})")
    }
}

/// Many conversations as ids, one after another: those of conversation `i` are
/// `ids[offsets[i]:offsets[i + 1]]`.
#[pyclass(module = "chatcodec._core", frozen, sequence)]
pub(crate) struct Batch {
    ids: Py<IntArray>,
    offsets: Py<IntArray>,
    encodings: Vec<Result<Py<Encoding>, Py<PyAny>>>,
}

impl Batch {
    /// Takes encodings, or the exceptions of those that could not be.
    pub(crate) fn new(
        py: Python<'_>,
        encodings: Vec<Result<CoreEncoding, Py<PyAny>>>,
    ) -> PyResult<Self> {
        let total = encodings.iter().flatten().map(|encoding| encoding.ids().len()).sum();
        let mut ids = Vec::with_capacity(total);
        let mut offsets = Vec::with_capacity(encodings.len() + 1);
        offsets.push(0);
        let mut objects = Vec::with_capacity(encodings.len());
        for (nth, encoding) in encodings.into_iter().enumerate() {
            look(py, nth)?;
            objects.push(match encoding {
                Ok(encoding) => {
                    ids.extend_from_slice(encoding.ids());
                    Ok(Py::new(py, Encoding::new(encoding))?)
                }
                Err(error) => Err(error),
            });
            offsets.push(ids.len() as i64);
        }
        Ok(Self {
            ids: Py::new(py, IntArray::int32(ids))?,
            offsets: Py::new(py, IntArray::int64(offsets))?,
            encodings: objects,
        })
    }
}

#[pymethods]
impl Batch {
    /// The ids of all conversations, int32.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.ids.bind(py).clone()
    }

    /// Where each conversation begins, and the end of the last; int64.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.offsets.bind(py).clone()
    }

    /// What to train on, as `Encoding.labels` has it, of all conversations one after another: at the places of
    /// `ids`; int32.
    #[pyo3(signature = (
        *,
        roles: "Sequence[Role] | None" = None,
        last_only: "bool" = false,
        ignore_index: "int" = -100
    ), text_signature = "($self, /, *, roles=None, last_only=False, ignore_index=-100)")]
    fn labels(
        &self,
        py: Python<'_>,
        roles: Option<ListOf<String>>,
        last_only: bool,
        ignore_index: i32,
    ) -> PyResult<IntArray> {
        let options = label_options(roles, last_only, ignore_index)?;
        let known = self.encodings.iter().flatten();
        let cores: Vec<&CoreEncoding> = known.map(|encoding| encoding.get().inner()).collect();
        let labels = || -> Vec<i32> {
            cores.iter().flat_map(|encoding| encoding.labels(&options)).collect()
        };
        Ok(IntArray::int32(py.detach(labels)))
    }

    /// With `errors="return"`, the conversations that could not be encoded and why; they have no ids.
    #[getter]
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<ErrorDict<'py>> {
        let errors = PyDict::new(py);
        for (index, encoding) in self.encodings.iter().enumerate() {
            if let Err(error) = encoding {
                errors.set_item(index, error)?;
            }
        }
        Ok(ErrorDict(errors))
    }

    fn __len__(&self) -> usize {
        self.encodings.len()
    }

    /// The encodings in order; raises the error of a conversation that has none when its turn comes.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<EncodingIter<'py>> {
        let py = slf.py();
        let places = PyRange::new(py, 0, slf.get().encodings.len().cast_signed())?;
        let arguments = (slf.getattr("__getitem__")?, places);
        Ok(EncodingIter(py.import("builtins")?.call_method1("map", arguments)?.try_iter()?))
    }

    /// The ids as Arrow's array of lists, one list of int32 for each conversation, sharing the ids; null for a
    /// conversation that could not be encoded. `pa.array(batch)`, `pl.Series(batch)`.
    #[pyo3(signature = (requested_schema: "object" = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let _ = requested_schema;
        let failed = self.encodings.iter().enumerate();
        let nulls: Vec<usize> = failed.filter(|(_, e)| e.is_err()).map(|(at, _)| at).collect();
        let (ids, offsets) = (self.ids.get().exported(), self.offsets.get().iter().collect());
        Exported::large_list(offsets, &nulls, ids).capsules(py).map(Capsules)
    }

    /// A batch is not pickled: with its codec's tables it would be many times its ids.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("Batch", "`batch.ids`, `batch.offsets`"))
    }

    /// The encoding of one conversation; raises its error if it has none.
    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, Encoding>> {
        let at = if index < 0 { index + self.encodings.len().cast_signed() } else { index };
        let encoding = usize::try_from(at).ok().and_then(|at| self.encodings.get(at));
        match encoding {
            Some(Ok(encoding)) => Ok(encoding.bind(py).clone()),
            Some(Err(error)) => Err(PyErr::from_value(error.bind(py).clone())),
            None => Err(PyIndexError::new_err("Batch index out of range")),
        }
    }

    fn __repr__(&self) -> String {
        format!("Batch({} conversations)", self.encodings.len())
    }
}
