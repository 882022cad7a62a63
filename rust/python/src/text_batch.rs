//! Many texts at once: their ids, one after another, and where each begins.

use std::ops::Range;

use chatcodec::{TokenId, Vocab, VocabError};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString, PyTuple};

use crate::array::IntArray;
use crate::arrow::Exported;
use crate::away::{DETACH_BYTES, away, in_place, look};
use crate::batch::{is_long, share, worthwhile_threads};
use crate::encoding::by_index;
use crate::errors::raise;
use crate::ids::{self, Threads};
use crate::typed::{ArrayIter, Capsules};

/// Minimum number of bytes of a group of texts, which one thread encodes.
const GROUP_BYTES: usize = 1 << 16;

/// Number of groups for each thread, so that threads end at about the same time.
const GROUPS: usize = 4;

/// The ids of many texts, concatenated: text `i` has `ids[offsets[i]:offsets[i + 1]]`.
#[pyclass(module = "chatcodec._core", frozen, sequence)]
pub(crate) struct TextBatch {
    ids: Py<IntArray>,
    offsets: Py<IntArray>,
}

#[pymethods]
impl TextBatch {
    /// The ids of all texts, concatenated; int32, one dimension.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.ids.bind(py).clone()
    }

    /// Position of the first id of each text, then the number of all ids; int64, one entry more than there are texts.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, IntArray> {
        self.offsets.bind(py).clone()
    }

    fn __len__(&self) -> usize {
        self.offsets.get().__len__() - 1
    }

    /// The ids of one text: int32, one dimension.
    fn __getitem__(&self, index: isize) -> PyResult<IntArray> {
        let length = self.__len__().cast_signed();
        let at = if index < 0 { index + length } else { index };
        if !(0..length).contains(&at) {
            return Err(PyIndexError::new_err("TextBatch index out of range"));
        }
        let offset = |at: isize| usize::try_from(self.offsets.get().get(at.cast_unsigned())?).ok();
        let span = offset(at).zip(offset(at + 1)).map(|(start, end)| start..end);
        let ids = self.ids.get().as_ids().zip(span).and_then(|(ids, span)| ids.get(span));
        Ok(IntArray::int32(ids.unwrap_or_default().to_vec()))
    }

    /// Iterates over the ids of each text, in order.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<ArrayIter<'py>> {
        by_index(slf, slf.get().__len__()).map(ArrayIter)
    }

    /// The ids as an Arrow array of lists that shares their memory: a list of int32 for each text.
    /// `pa.array(batch)`, `pl.Series(batch)`.
    #[pyo3(signature = (requested_schema: "object" = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let _ = requested_schema;
        let (ids, offsets) = (self.ids.get().exported(), self.offsets.get().iter().collect());
        Exported::large_list(offsets, &[], ids).capsules(py).map(Capsules)
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, batch) = (slf.py(), slf.get());
        let parts = PyTuple::new(py, [batch.ids.bind(py), batch.offsets.bind(py)])?;
        PyTuple::new(py, [slf.get_type().getattr("_restore")?, parts.into_any()])
    }

    #[staticmethod]
    fn _restore(ids: Py<IntArray>, offsets: Py<IntArray>) -> PyResult<Self> {
        let mut last = None;
        let rises =
            offsets.get().iter().all(|at| last.replace(at).map_or(at == 0, |before| before <= at));
        let count = ids.get().as_ids().map(|ids| ids.len());
        if !rises || last.is_none() || last.and_then(|last| usize::try_from(last).ok()) != count {
            let problem = "offsets of a `TextBatch` must rise from 0 to the number of its ids";
            return Err(PyValueError::new_err(problem));
        }
        Ok(Self { ids, offsets })
    }

    fn __repr__(&self) -> String {
        format!("TextBatch({} texts)", self.__len__())
    }
}

/// Encodes texts of Python; `threads` as `Vocab.encode` has it.
pub(crate) fn encode_texts(
    vocab: &Vocab,
    texts: &Bound<'_, PyAny>,
    threads: Option<Threads>,
) -> PyResult<TextBatch> {
    let py = texts.py();
    let given = strings(texts)?;
    let mut texts = Vec::with_capacity(given.len());
    for (nth, text) in given.iter().enumerate() {
        look(py, nth)?;
        texts.push(match text.to_str() {
            Ok(text) => text,
            // The error with its path, which is not made for each text.
            Err(_) => ids::text(text, &format!("texts[{nth}]"))?,
        });
    }
    let bytes = bytes_of(&texts);
    let threads = match threads {
        Some(Threads(threads)) => threads.max(1),
        None => worthwhile_threads(bytes),
    };
    let encoded = if bytes < DETACH_BYTES {
        Encoded::of(vocab, &texts, threads)
    } else if !is_long(bytes, vocab) {
        py.detach(|| Encoded::of(vocab, &texts, threads))
    } else if vocab.lossless() {
        in_place(py, || Encoded::of(vocab, &texts, threads))?
    } else {
        let vocab = vocab.clone();
        let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
        away(py, move || Encoded::of(&vocab, &texts, threads))?
    };
    if let Some(error) = encoded.error {
        let nth = encoded.ends.len();
        let problem = format!("{} in `texts[{nth}]`", error.problem);
        return Err(raise(VocabError { problem, ..error }));
    }
    let offsets: Vec<i64> =
        std::iter::once(0).chain(encoded.ends.iter().map(|&end| end as i64)).collect();
    Ok(TextBatch {
        ids: Py::new(py, IntArray::int32(encoded.ids))?,
        offsets: Py::new(py, IntArray::int64(offsets))?,
    })
}

fn strings<'py>(texts: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    if texts.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("expected a sequence of texts, found one `str`"));
    }
    let mut strings = Vec::new();
    for (nth, item) in texts.try_iter()?.enumerate() {
        look(texts.py(), nth)?;
        strings.push(item?.cast_into::<PyString>().map_err(|error| {
            let class = error.into_inner().get_type();
            let class = class.name().map_or_else(|_| "?".into(), |name| name.to_string());
            PyTypeError::new_err(format!("`texts[{nth}]`: expected a `str`, found `{class}`"))
        })?);
    }
    Ok(strings)
}

/// The ids of texts, concatenated, and where each text ends, up to the first error.
#[derive(Default)]
struct Encoded {
    ids: Vec<TokenId>,
    ends: Vec<usize>,
    error: Option<VocabError>,
}

impl Encoded {
    fn of(vocab: &Vocab, texts: &[impl AsRef<str> + Sync], threads: usize) -> Self {
        let groups = groups(texts, threads);
        if groups.len() < 2 {
            return Self::of_group(vocab, texts, threads);
        }
        let spare = threads / groups.len();
        let work = |at: usize| Self::of_group(vocab, &texts[groups[at].clone()], spare);
        let mut all = Self::default();
        for group in share(groups.len(), threads, work) {
            let from = all.ids.len();
            all.ids.extend(group.ids);
            all.ends.extend(group.ends.iter().map(|end| from + end));
            all.error = group.error;
            if all.error.is_some() {
                break;
            }
        }
        all
    }

    /// One long text may have several threads.
    fn of_group(vocab: &Vocab, texts: &[impl AsRef<str>], threads: usize) -> Self {
        if let ([text], 2..) = (texts, threads) {
            return match vocab.try_encode_on(threads, text.as_ref()) {
                Ok(ids) => Self { ends: vec![ids.len()], ids, error: None },
                Err(error) => Self { error: Some(error), ..Self::default() },
            };
        }
        let bytes = bytes_of(texts);
        let mut encoded = Self { ids: Vec::with_capacity(bytes / 5 * 2), ..Self::default() };
        let texts = texts.iter().map(AsRef::as_ref);
        encoded.error = vocab.try_encode_each(texts, &mut encoded.ids, &mut encoded.ends).err();
        encoded
    }
}

/// Texts in groups for threads: one for each text that is long, others together.
fn groups(texts: &[impl AsRef<str>], threads: usize) -> Vec<Range<usize>> {
    if threads < 2 {
        return Vec::new();
    }
    let bytes = bytes_of(texts);
    let size = (bytes / threads / GROUPS).max(GROUP_BYTES);
    let (mut groups, mut start, mut held) = (Vec::new(), 0, 0);
    for (nth, text) in texts.iter().enumerate() {
        held += text.as_ref().len();
        if held >= size {
            groups.push(start..nth + 1);
            (start, held) = (nth + 1, 0);
        }
    }
    if start < texts.len() {
        groups.push(start..texts.len());
    }
    groups
}

fn bytes_of(texts: &[impl AsRef<str>]) -> usize {
    texts.iter().map(|text| text.as_ref().len()).sum()
}
