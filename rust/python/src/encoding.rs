//! `Encoding`, `Batch`, and their reports about the caller's text.

use chatcodec::{Encoding as CoreEncoding, LabelOptions, Role};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyIterator, PyRange, PyString, PyTuple};

use crate::array::{IntArray, numpy_array};
use crate::arrow::Exported;
use crate::away::look;
use crate::errors::quoted;
use crate::ids::ListOf;
use crate::note::note_tuple;
use crate::typed::{
    Capsules, DroppedTuple, EncodingIter, ErrorDict, IntIter, IntList, NoteTuple, Paths,
    PlaceholderTuple, Ranges,
};
use crate::vocab::Vocab;
use crate::words::MediaKindWord;

/// The ids of a conversation, as a sequence, with the properties of each id. `ids` and `text` are
/// computed at once, all other attributes on first access.
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

/// Start and end in bytes of the text, and the id, of a spelling of a control token.
type Spelled = (usize, usize, i32);

/// An array that is computed once.
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

/// The options of `labels`, read and checked.
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

pub(crate) fn no_pickle(class: &str, instead: &str) -> PyErr {
    let message = format!(
        "cannot pickle `{class}`, which holds its codec's tables: \
         pickle what is needed of it, such as {instead}"
    );
    PyTypeError::new_err(message)
}

#[pymethods]
impl Encoding {
    /// The ids: int32, one dimension; NumPy reads them without a copy.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.ids, || IntArray::int32(self.inner.shared_ids())).cloned()
    }

    /// The text that a chat template would produce, with control tokens as their spellings; for
    /// people to read. Encoding this text gives other ids, because text is never control.
    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }

    /// Path of the caller's text that each id holds, such as `messages[0].content`, or of the image
    /// that it stands for; `None` for ids of the format's own text. A tuple with one entry for each id.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Paths<'py>> {
        let tuple = self.sources.get_or_try_init(py, || {
            // Neighbours mostly share a path: they share one string.
            let mut known = None;
            let mut paths = Vec::new();
            for source in self.inner.sources() {
                if known.as_ref().is_none_or(|(last, _)| *last != source) {
                    let is_callers = source.is_content() || source.is_media();
                    let path = is_callers.then(|| self.inner.path(source));
                    known = Some((source, path.into_pyobject(py)?));
                }
                paths.extend(known.as_ref().map(|(_, path)| path.clone()));
            }
            PyTuple::new(py, paths).map(Bound::unbind)
        })?;
        Ok(Paths(tuple.bind(py).clone()))
    }

    /// Index of the message of each id; -1 for ids of no message: the beginning of the
    /// conversation, `tools`, the generation prompt. int32, one entry for each id.
    #[getter]
    fn message_indices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.message_indices, || IntArray::int32(self.inner.message_indices())).cloned()
    }

    /// 1 for a control token, 0 for text; uint8, one entry for each id.
    #[getter]
    fn is_control<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.is_control, || IntArray::uint8(self.inner.is_control())).cloned()
    }

    /// 1 for an id that holds some of the caller's text, 0 for all others; uint8, one entry for
    /// each id.
    #[getter]
    fn is_content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.is_content, || IntArray::uint8(self.inner.is_content())).cloned()
    }

    /// 1 for an id that a model generates, 0 for all others; uint8, one entry for each id. A model
    /// generates an assistant's turn after its generation prompt, up to and including the id that
    /// stops it, which may be the opener of the next turn.
    #[getter]
    fn assistant_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, IntArray>> {
        array(py, &self.assistant_mask, || IntArray::uint8(self.inner.assistant_mask())).cloned()
    }

    /// Labels for training: the id where the model is trained on it, and `ignore_index` elsewhere;
    /// int32, one entry for each id. Of the assistant's turns, the labels are the ids of
    /// `assistant_mask`, with the id that stops the model; of other `roles`, the ids of the
    /// caller's text. `last_only` keeps only the last message of these roles.
    ///
    /// A label has the position of its id: trainers shift labels by one position themselves.
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

    /// `(start, end)` of each id in `text`, as bytes of its UTF-8.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Ranges<'py>> {
        ranges(py, &self.offsets, || self.inner.offsets())
    }

    /// `(start, end)` of each id in `text`, as code points: `text[start:end]`. All ids of one
    /// character have the range of that character.
    #[getter]
    fn char_offsets<'py>(&self, py: Python<'py>) -> PyResult<Ranges<'py>> {
        ranges(py, &self.char_offsets, || self.inner.char_offsets())
    }

    /// Spellings of control tokens in the caller's text. The reference would turn them into
    /// control tokens; here they are ordinary text. For arguments given as a dict or written as a
    /// string, positions are in the JSON text.
    #[getter]
    fn neutralized(&self) -> Vec<Neutralized> {
        let found = self.inner.neutralized().into_iter();
        found
            .map(|n| Neutralized {
                path: self.inner.path(n.path),
                start: n.start,
                end: n.end,
                spelling: n.spelling,
                id: n.id,
            })
            .collect()
    }

    /// The ids of images and other media parts, in order: where an engine puts
    /// embeddings. Ids that were given as ids, to `Codec.extend`, have none.
    #[getter]
    fn placeholders<'py>(&self, py: Python<'py>) -> PyResult<PlaceholderTuple<'py>> {
        let found = self.inner.placeholders().into_iter().map(|found| {
            let placeholder = Placeholder {
                path: self.inner.path(found.source),
                kind: found.kind.name().into(),
                start: found.ids.start,
                end: found.ids.end,
                around: (found.around.start, found.around.end),
            };
            Bound::new(py, placeholder)
        });
        let found: Vec<_> = found.collect::<PyResult<_>>()?;
        PyTuple::new(py, found).map(PlaceholderTuple)
    }

    /// Markers of the format in the caller's text. Empty for formats whose turns are delimited by
    /// ids.
    #[getter]
    fn collisions(&self) -> Vec<Collision> {
        let found = self.inner.collisions().into_iter();
        found
            .map(|c| Collision {
                path: self.inner.path(c.path),
                start: c.start,
                end: c.end,
                marker: c.marker,
            })
            .collect()
    }

    /// Differences from `encode`, for an encoding that `Codec.extend` returned: the model wrote the
    /// same messages with other ids, or the format would now write them with other ids.
    #[getter]
    fn notes<'py>(&self, py: Python<'py>) -> PyResult<NoteTuple<'py>> {
        note_tuple(py, self.inner.notes())
    }

    /// Parts of the caller's conversation that were left out: unknown keys (`unknown="ignore"`),
    /// unsupported parts (`on_unsupported="drop"`), and data about a text that is not part of it
    /// (`annotations`). Where a chat template writes: what it passed over, each value by its path.
    #[getter]
    fn dropped<'py>(&self, py: Python<'py>) -> PyResult<DroppedTuple<'py>> {
        let dropped = self.inner.dropped().iter().map(|dropped| {
            let (path, what) = (dropped.path.clone(), dropped.what.clone());
            Bound::new(py, Dropped { path, what, why: dropped.why.name().into() })
        });
        let dropped: Vec<_> = dropped.collect::<PyResult<_>>()?;
        PyTuple::new(py, dropped).map(DroppedTuple)
    }

    /// A page of HTML that shows the encoding: each id with its bytes, path, offsets and masks, and
    /// beside it the control tokens that a tokenizer would find in the rendered text. One file, from
    /// which no request leaves; the caller's text runs nothing in it.
    #[pyo3(signature = (*, title: "str | None" = None) -> "str", text_signature = "($self, /, *, title=None)")]
    fn to_html<'py>(
        slf: &Bound<'py, Self>,
        title: Option<&Bound<'py, PyString>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("chatcodec.pages")?.call_method1("encoding_page", (slf, title))
    }

    /// The page of `to_html` in a frame, for notebooks.
    #[pyo3(signature = () -> "str")]
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("chatcodec.pages")?.call_method1("encoding_frame", (slf,))
    }

    /// What a page needs beside the properties: the vocabulary; the roles of the messages; and the
    /// control tokens that a tokenizer finds in `text`: start and end in bytes, and id.
    #[pyo3(signature = () -> "tuple[Vocab, list[str], list[tuple[int, int, int]]]")]
    fn _page_parts(&self) -> (Vocab, Vec<&'static str>, Vec<Spelled>) {
        let roles = self.inner.roles().iter().map(|role| role.name()).collect();
        (Vocab::new(self.inner.vocab().clone()), roles, self.inner.spelled_control())
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

    /// Whether an id occurs.
    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.ids(py)?.get().__contains__(value)
    }

    /// Number of occurrences of an id.
    #[pyo3(signature = (value: "object"))]
    fn count(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.ids(py)?.get().count(value)
    }

    /// Index of the first occurrence of an id. Raises `ValueError` if the id does not occur.
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

    /// The ids as a list of ints: `ids.tolist()`.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<IntList<'py>> {
        self.ids(py)?.get().tolist(py)
    }

    /// The ids as a NumPy array, see `IntArray.__array__`.
    #[pyo3(signature = (dtype: "object" = None, copy: "bool | None" = None) -> "Any")]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        numpy_array(self.ids(py)?.as_any(), dtype, copy)
    }

    /// The ids as an Arrow array, see `IntArray.__arrow_c_array__`.
    #[pyo3(signature = (requested_schema: "object" = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let _ = requested_schema;
        self.ids(py)?.get().exported().capsules(py).map(Capsules)
    }

    /// Raises `TypeError`: an encoding cannot be pickled, because a pickle with its codec's tables
    /// would be many times larger than its ids.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("Encoding", "`encoding.ids`, `encoding.assistant_mask`"))
    }

    fn __repr__(&self) -> String {
        format!("Encoding({} ids)", self.inner.ids().len())
    }
}

/// A spelling of a control token in the caller's text.
#[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Neutralized {
    /// Path of the text: `messages[1].content`.
    path: String,
    /// First code point, in the caller's string.
    start: usize,
    /// One past the last code point.
    end: usize,
    /// The spelling.
    spelling: String,
    /// The id of the control token with this spelling.
    id: i32,
}

#[pymethods]
impl Neutralized {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str, &'static str, &'static str) {
        ("path", "start", "end", "spelling", "id")
    }

    #[new]
    #[pyo3(signature = (path: "str", start: "int", end: "int", spelling: "str", id: "int"))]
    fn new(path: String, start: usize, end: usize, spelling: String, id: i32) -> Self {
        Self { path, start, end, spelling, id }
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let Self { path, start, end, spelling, id } = slf.get();
        let fields = (path, start, end, spelling, id).into_pyobject(slf.py())?;
        PyTuple::new(slf.py(), [slf.get_type().into_any(), fields.into_any()])
    }

    fn __repr__(&self) -> String {
        let Self { path, start, end, spelling, id } = self;
        format!(
            "Neutralized(path={path:?}, start={start}, end={end}, spelling={spelling:?}, id={id})"
        )
    }
}

/// A marker of the format in the caller's text.
#[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Collision {
    /// Path of the text: `messages[1].content`.
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

    #[new]
    #[pyo3(signature = (path: "str", start: "int", end: "int", marker: "str"))]
    fn new(path: String, start: usize, end: usize, marker: String) -> Self {
        Self { path, start, end, marker }
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let Self { path, start, end, marker } = slf.get();
        let fields = (path, start, end, marker).into_pyobject(slf.py())?;
        PyTuple::new(slf.py(), [slf.get_type().into_any(), fields.into_any()])
    }

    fn __repr__(&self) -> String {
        let Self { path, start, end, marker } = self;
        format!("Collision(path={path:?}, start={start}, end={end}, marker={marker:?})")
    }
}

/// The ids of an image, a video or audio.
#[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Placeholder {
    /// Path of the part: `messages[0].content[1]`.
    path: String,
    /// `"image"`, `"video"` or `"audio"`.
    kind: MediaKindWord,
    /// Position of the first placeholder id.
    start: usize,
    /// One past the last placeholder id. Between them are only ids that separate the rows of an
    /// image. Equal to `start` for a part without placeholder ids.
    end: usize,
    /// Positions with the control tokens that open and close the part: first, and one past the
    /// last.
    around: (usize, usize),
}

#[pymethods]
impl Placeholder {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str, &'static str, &'static str) {
        ("path", "kind", "start", "end", "around")
    }

    fn __repr__(&self) -> String {
        let Self { path, kind, start, end, around: (first, last) } = self;
        let kind = &**kind;
        format!(
            "Placeholder(path={path:?}, kind={kind:?}, start={start}, end={end}, around=({first}, {last}))"
        )
    }
}

/// A part of the caller's conversation that was left out.
#[pyclass(module = "chatcodec._core", frozen, eq, hash, get_all)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dropped {
    /// Path of the part: `messages[2].reasoning`.
    path: String,
    /// Kind of the part: `"reasoning"`, `"name"`, `"image_url"` …, or `"unknown"` for an unknown
    /// key.
    what: String,
    /// Why: `"unsupported"`, as nothing writes such a part; `"policy"`, as the model's chat template
    /// leaves it out of this conversation, and would write it in another; or `"cut"`, as the
    /// template leaves out a part of this text, and writes the rest.
    why: String,
}

#[pymethods]
impl Dropped {
    #[new]
    #[pyo3(signature = (path, what, why = "unsupported"))]
    fn new(path: String, what: String, why: &str) -> Self {
        Self { path, what, why: why.to_owned() }
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("path", "what", "why")
    }

    fn __repr__(&self) -> String {
        let Self { path, what, why } = self;
        format!("Dropped(path={path:?}, what={what:?}, why={why:?})")
    }
}

/// Iterates over what `__getitem__` gives for each index below `length`.
pub(crate) fn by_index<'py>(
    object: &Bound<'py, PyAny>,
    length: usize,
) -> PyResult<Bound<'py, PyIterator>> {
    let py = object.py();
    let places = PyRange::new(py, 0, length.cast_signed())?;
    let arguments = (object.getattr("__getitem__")?, places);
    py.import("builtins")?.call_method1("map", arguments)?.try_iter()
}

/// The ids of many conversations, concatenated: conversation `i` has `ids[offsets[i]:offsets[i +
/// 1]]`.
#[pyclass(module = "chatcodec._core", frozen, sequence)]
pub(crate) struct Batch {
    ids: Py<IntArray>,
    offsets: Py<IntArray>,
    encodings: Vec<Result<Py<Encoding>, Py<PyAny>>>,
}

impl Batch {
    /// A batch of encodings, or of the exceptions of conversations that could not be encoded.
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
    /// The ids of all conversations, concatenated; int32, one dimension.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.ids.bind(py).clone()
    }

    /// Position of the first id of each conversation, then the number of all ids; int64, one entry
    /// more than there are conversations.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.offsets.bind(py).clone()
    }

    /// Labels for training, as `Encoding.labels` gives them, of all conversations, concatenated;
    /// int32, one entry for each id of `ids`.
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

    /// The errors of conversations that could not be encoded, by index (with `errors="return"`);
    /// these conversations have no ids.
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

    /// Iterates over the encodings in order; raises the error of a conversation without one.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<EncodingIter<'py>> {
        by_index(slf, slf.get().encodings.len()).map(EncodingIter)
    }

    /// The ids as an Arrow array of lists that shares their memory: a list of int32 for each
    /// conversation, null for a conversation that could not be encoded. `pa.array(batch)`,
    /// `pl.Series(batch)`.
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

    /// Raises `TypeError`: a batch cannot be pickled, because a pickle with its codec's tables
    /// would be many times larger than its ids.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("Batch", "`batch.ids`, `batch.offsets`"))
    }

    /// The encoding of one conversation; raises its error if it could not be encoded.
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
