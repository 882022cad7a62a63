//! Python ints for ids, made once and kept: a list of ids costs a reference each instead of an object.
//!
//! In: int32. Out: Python ints. Cost: a load and a count of references per id of a vocabulary, an
//! allocation for others. What is kept is bounded: at most 2^18 ints, 10 MB, and of these only what
//! was asked for.
//!
//! With `unsafe`, which halves the time of a list: a slot is a bare pointer that changes once, from
//! null to an int of which the table keeps a reference for good; so whatever is read from it stays
//! alive. A new list is filled in full before anybody else sees it.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

/// Ids from here on, more than any vocabulary has, are made anew each time.
const KEPT: usize = 1 << 18;

/// Zero pages until they are used.
static INTS: [AtomicPtr<ffi::PyObject>; KEPT] = [const { AtomicPtr::new(ptr::null_mut()) }; KEPT];

/// The Python int of an id.
pub(crate) fn int(py: Python<'_>, id: i32) -> PyResult<Bound<'_, PyInt>> {
    // SAFETY: a new reference to an int, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, new_reference(id))?.cast_into().map_err(Into::into) }
}

/// A list of ids.
pub(crate) fn list<'py>(py: Python<'py>, ids: &[i32]) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: places up to the length are written, each once, with a reference that the list takes
    // over; where one cannot be made, the list, whose other places are null, is given up.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(ids.len().cast_signed()))?;
        for (at, &id) in (0..).zip(ids) {
            let int = new_reference(id);
            if int.is_null() {
                return Err(PyErr::fetch(py));
            }
            ffi::PyList_SetItem(list.as_ptr(), at, int);
        }
        Ok(list.cast_into()?)
    }
}

/// A new reference to the int of an id; null, with an exception set, where there is no memory.
///
/// # Safety
/// The thread must be attached to the interpreter.
#[inline]
unsafe fn new_reference(id: i32) -> *mut ffi::PyObject {
    // An id below zero is a place behind the last.
    let int = INTS.get(id as usize).map_or(ptr::null_mut(), |slot| slot.load(Ordering::Acquire));
    if int.is_null() {
        // SAFETY: as the caller says.
        return unsafe { keep(id) };
    }
    // SAFETY: the table has a reference.
    unsafe { ffi::Py_INCREF(int) };
    int
}

/// Makes an int and keeps it, if it is in reach of the table.
///
/// # Safety
/// As [`new_reference`].
#[cold]
unsafe fn keep(id: i32) -> *mut ffi::PyObject {
    // SAFETY: attached, as the caller says.
    let int = unsafe { ffi::PyLong_FromLong(id.into()) };
    if let Some(slot) = INTS.get(id as usize).filter(|_| !int.is_null())
        // Another thread may have been faster; then this int is the caller's alone.
        && slot.compare_exchange(ptr::null_mut(), int, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        // SAFETY: an int; this reference is the table's.
        unsafe { ffi::Py_INCREF(int) };
    }
    int
}
