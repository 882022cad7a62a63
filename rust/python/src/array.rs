//! `IntArray`: a read-only array of ints that speaks the buffer protocol.
//!
//! With `unsafe`, because the protocol hands out a pointer. It points into a
//! frozen object that never moves its items and that the view keeps alive.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyAny, PyByteArray, PyBytes, PyList, PyMemoryView, PySlice, PyString, PyTuple, PyType,
};

use crate::arrow::Exported;
use crate::ids::int_of;
use crate::ints;
use crate::typed::{Capsules, IntIter, IntList};

/// A longer array shows only so many items at each end when it is printed.
const SHOWN: usize = 20;

/// The items, by their C type, shared with whoever made or exported them.
#[derive(Clone)]
enum Items {
    I32(Arc<Vec<i32>>),
    I64(Arc<[i64]>),
    U8(Arc<[u8]>),
}

/// A read-only array of ints: a `Sequence[int]`, a buffer that NumPy and others read without a copy
/// (`np.asarray(ids)`), and an Arrow array (`pa.array(ids)`, `pl.Series(ids)`), without a copy too. Ids are
/// int32, offsets int64, masks uint8.
#[pyclass(module = "chatcodec._core", frozen, sequence)]
pub(crate) struct IntArray {
    items: Items,
    /// Part of every exported view; they live as long as the object, so exporting allocates nothing.
    shape: [ffi::Py_ssize_t; 1],
    strides: [ffi::Py_ssize_t; 1],
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Self::I32(items) => items.len(),
            Self::I64(items) => items.len(),
            Self::U8(items) => items.len(),
        }
    }

    fn get(&self, at: usize) -> Option<i64> {
        match self {
            Self::I32(items) => items.get(at).map(|&item| item.into()),
            Self::I64(items) => items.get(at).copied(),
            Self::U8(items) => items.get(at).map(|&item| item.into()),
        }
    }

    fn layout(&self) -> (*const c_void, usize, &'static CStr) {
        match self {
            Self::I32(items) => (items.as_ptr().cast(), size_of::<i32>(), c"i"),
            Self::I64(items) => (items.as_ptr().cast(), size_of::<i64>(), c"q"),
            Self::U8(items) => (items.as_ptr().cast(), size_of::<u8>(), c"B"),
        }
    }

    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self {
            Self::I32(items) => ints::list(py, items),
            Self::I64(items) => PyList::new(py, items.iter()),
            Self::U8(items) => PyList::new(py, items.iter().copied()),
        }
    }

    fn pick(&self, at: impl Iterator<Item = usize>) -> Self {
        match self {
            Self::I32(items) => Self::I32(Arc::new(at.map(|at| items[at]).collect())),
            Self::I64(items) => Self::I64(at.map(|at| items[at]).collect()),
            Self::U8(items) => Self::U8(at.map(|at| items[at]).collect()),
        }
    }
}

impl IntArray {
    fn new(items: Items) -> Self {
        let shape = [items.len().cast_signed()];
        let strides = [items.layout().1.cast_signed()];
        Self { items, shape, strides }
    }

    pub(crate) fn int32(items: impl Into<Arc<Vec<i32>>>) -> Self {
        Self::new(Items::I32(items.into()))
    }

    pub(crate) fn int64(items: impl Into<Arc<[i64]>>) -> Self {
        Self::new(Items::I64(items.into()))
    }

    pub(crate) fn uint8(items: impl Into<Arc<[u8]>>) -> Self {
        Self::new(Items::U8(items.into()))
    }

    /// The array as Arrow has it, sharing the items.
    pub(crate) fn exported(&self) -> Exported {
        let (items, _, _) = self.items.layout();
        let format = match &self.items {
            Items::I32(_) => c"i",
            Items::I64(_) => c"l",
            Items::U8(_) => c"C",
        };
        // SAFETY: the items are shared, read-only, and kept by the clone.
        unsafe { Exported::primitive(format, self.items.len(), items, self.items.clone()) }
    }

    /// The items, where they are ids.
    pub(crate) fn as_ids(&self) -> Option<&Arc<Vec<i32>>> {
        match &self.items {
            Items::I32(items) => Some(items),
            _ => None,
        }
    }

    /// The item at an index, or the items of a slice as an array.
    pub(crate) fn item<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, items) = (index.py(), &self.items);
        if let Ok(slice) = index.cast::<PySlice>() {
            let span = slice.indices(items.len().cast_signed())?;
            // The step after the last one may leave the range; it is not used.
            let nth = |n: usize| span.start.wrapping_add(span.step.wrapping_mul(n.cast_signed()));
            let picked = items.pick((0..span.slicelength).map(|n| nth(n).cast_unsigned()));
            return Ok(Bound::new(py, Self::new(picked))?.into_any());
        }
        let out_of_range = || PyIndexError::new_err("IntArray index out of range");
        let index: isize = index.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(py) {
                return out_of_range();
            }
            if error.is_instance_of::<PyTypeError>(py) {
                return PyTypeError::new_err("IntArray indices must be integers or slices");
            }
            error
        })?;
        let at = if index < 0 { index + items.len().cast_signed() } else { index };
        let item =
            usize::try_from(at).ok().and_then(|at| items.get(at)).ok_or_else(out_of_range)?;
        Ok(match i32::try_from(item) {
            Ok(item) => ints::int(py, item)?.into_any(),
            Err(_) => item.into_pyobject(py)?.into_any(),
        })
    }

    /// The items as an iterator of Python ints.
    pub(crate) fn items<'py>(&self, py: Python<'py>) -> PyResult<IntIter<'py>> {
        Ok(IntIter(self.items.list(py)?.try_iter()?))
    }

    pub(crate) fn get(&self, at: usize) -> Option<i64> {
        self.items.get(at)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = i64> + '_ {
        (0..self.items.len()).filter_map(|at| self.items.get(at))
    }
}

/// Whether an object has the buffer protocol.
pub(crate) fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a valid object; the check cannot fail.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
}

/// An object with the buffer protocol, as NumPy's array; with NumPy's meaning of `dtype` and `copy`.
pub(crate) fn numpy_array<'py>(
    buffer: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = buffer.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (PyMemoryView::from(buffer)?,))?;
    let dtype = dtype.map(|dtype| numpy.call_method1("dtype", (dtype,))).transpose()?;
    let is_other = match &dtype {
        Some(dtype) => array.getattr("dtype")?.ne(dtype)?,
        None => false,
    };
    match dtype.filter(|_| is_other) {
        Some(_) if copy == Some(false) => Err(PyValueError::new_err(
            "`copy` is False, and another dtype needs a copy; expected None or True",
        )),
        Some(dtype) => array.call_method1("astype", (dtype,)),
        None if copy == Some(true) => array.call_method0("copy"),
        None => Ok(array),
    }
}

#[pymethods]
impl IntArray {
    pub(crate) fn __len__(&self) -> usize {
        self.items.len()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<IntIter<'py>> {
        self.items(py)
    }

    pub(crate) fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<IntIter<'py>> {
        let reversed: Vec<i64> = self.iter().rev().collect();
        Ok(IntIter(PyList::new(py, reversed)?.try_iter()?))
    }

    pub(crate) fn __contains__(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let value = int_of(value)?;
        Ok(value.is_some() && self.iter().any(|item| Some(item) == value))
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let answer = |equal: bool| pyo3::types::PyBool::new(py, equal).to_owned().into_any();
        if let Ok(other) = other.cast::<Self>() {
            return Ok(answer(self.iter().eq(other.get().iter())));
        }
        let is_text = other.is_instance_of::<PyString>()
            || other.is_instance_of::<PyBytes>()
            || other.is_instance_of::<PyByteArray>();
        // SAFETY: a valid object; the check cannot fail.
        if is_text || unsafe { ffi::PySequence_Check(other.as_ptr()) } == 0 {
            return Ok(py.NotImplemented().into_bound(py));
        }
        // What only looks like a sequence is none; items that are no ints make sequences differ.
        let (len, items) = match other.len().and_then(|len| Ok((len, other.try_iter()?))) {
            Ok(sequence) => sequence,
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                return Ok(py.NotImplemented().into_bound(py));
            }
            Err(error) => return Err(error),
        };
        if len != self.items.len() {
            return Ok(answer(false));
        }
        for (mine, theirs) in self.iter().zip(items) {
            if int_of(&theirs?)? != Some(mine) {
                return Ok(answer(false));
            }
        }
        Ok(answer(true))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyTuple::new(py, self.items.list(py)?.iter())?.hash()
    }

    /// All items of a short array; of a long one the first and the last, and how many there are.
    fn __repr__(&self) -> String {
        let join = |items: &mut dyn Iterator<Item = i64>| {
            items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
        };
        let len = self.items.len();
        if len <= 50 * SHOWN {
            return format!("IntArray([{}])", join(&mut self.iter()));
        }
        let (head, tail) =
            (join(&mut self.iter().take(SHOWN)), join(&mut self.iter().skip(len - SHOWN)));
        format!("IntArray([{head}, …, {tail}], len={len})")
    }

    /// The array as NumPy's, which shares the items unless another `dtype` or a `copy` is asked for. For
    /// libraries that ask for this method before they look for a buffer.
    #[pyo3(signature = (dtype: "object" = None, copy: "bool | None" = None) -> "Any")]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        numpy_array(slf.as_any(), dtype, copy)
    }

    /// The array as Arrow's, for pyarrow, polars and whatever else reads the `PyCapsule` interface. The items are
    /// shared. `requested_schema` is left to the reader, which casts.
    #[pyo3(signature = (requested_schema: "object" = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let _ = requested_schema;
        self.exported().capsules(py).map(Capsules)
    }

    /// The items as a list of Python ints.
    pub(crate) fn tolist<'py>(&self, py: Python<'py>) -> PyResult<IntList<'py>> {
        Ok(IntList(self.items.list(py)?))
    }

    /// How often a value occurs.
    #[pyo3(signature = (value: "object"))]
    pub(crate) fn count(&self, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        let value = int_of(value)?;
        Ok(self.iter().filter(|&item| Some(item) == value).count())
    }

    /// The first index of a value. Raises `ValueError` if the value does not occur.
    #[pyo3(
        signature = (value: "object", start = 0, stop = isize::MAX),
        text_signature = "($self, /, value, start=0, stop=9223372036854775807)"
    )]
    pub(crate) fn index(
        &self,
        value: &Bound<'_, PyAny>,
        start: isize,
        stop: isize,
    ) -> PyResult<usize> {
        let len = self.items.len();
        let clamp = |at: isize| {
            if at < 0 { len.saturating_sub(at.unsigned_abs()) } else { at.unsigned_abs().min(len) }
        };
        let value = int_of(value)?;
        (clamp(start)..clamp(stop))
            .find(|&at| value.is_some() && self.items.get(at) == value)
            .ok_or_else(|| PyValueError::new_err("value is not in the array"))
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let class: Bound<'py, PyType> = slf.get_type();
        let mut bytes = Vec::new();
        let code = match &slf.get().items {
            Items::I32(items) => {
                bytes.extend(items.iter().flat_map(|item| item.to_le_bytes()));
                "i"
            }
            Items::I64(items) => {
                bytes.extend(items.iter().flat_map(|item| item.to_le_bytes()));
                "q"
            }
            Items::U8(items) => {
                bytes.extend_from_slice(items);
                "B"
            }
        };
        let arguments = (PyBytes::new(py, &bytes), code).into_pyobject(py)?;
        PyTuple::new(py, [class.getattr("_restore")?, arguments.into_any()])
    }

    #[staticmethod]
    fn _restore(bytes: &[u8], code: &str) -> PyResult<Self> {
        let size = match code {
            "i" => size_of::<i32>(),
            "q" => size_of::<i64>(),
            "B" => 1,
            _ => return Err(PyValueError::new_err("unknown item type")),
        };
        if !bytes.len().is_multiple_of(size) {
            return Err(PyValueError::new_err("bytes that are no whole items"));
        }
        Ok(match code {
            "i" => Self::int32(
                bytes.as_chunks().0.iter().map(|&b| i32::from_le_bytes(b)).collect::<Vec<_>>(),
            ),
            "q" => Self::int64(
                bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect::<Vec<_>>(),
            ),
            _ => Self::uint8(bytes),
        })
    }

    /// Exports the items, read-only, without a copy.
    ///
    /// # Safety
    /// Python calls this with a view that it owns.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("view is null"));
        }
        // SAFETY: `view` is valid for writes; `obj` must be null when an error is returned.
        unsafe { (*view).obj = ptr::null_mut() };
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("IntArray is read-only"));
        }
        let this = slf.get();
        let (items, size, format) = this.items.layout();
        let asked = |flag: c_int| flags & flag == flag;
        let if_asked = |flag, field: &[ffi::Py_ssize_t; 1]| {
            if asked(flag) { field.as_ptr().cast_mut() } else { ptr::null_mut() }
        };
        // SAFETY: the pointers point into the object, which is frozen and which `obj` keeps alive
        // until the view is released, or to static data.
        unsafe {
            (*view).buf = items.cast_mut();
            (*view).len = (this.items.len() * size).cast_signed();
            (*view).itemsize = size.cast_signed();
            (*view).readonly = 1;
            (*view).ndim = 1;
            (*view).format =
                if asked(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { ptr::null_mut() };
            (*view).shape = if_asked(ffi::PyBUF_ND, &this.shape);
            (*view).strides = if_asked(ffi::PyBUF_STRIDES, &this.strides);
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    /// Nothing to free: shape, strides and format belong to the object or are static.
    ///
    /// # Safety
    /// Python calls this with a view of [`Self::__getbuffer__`].
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}
