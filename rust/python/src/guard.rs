//! Panics: each becomes a `chatcodec.errors.InternalError`, and none prints.
//!
//! `PyO3` catches what panics in any function, method, conversion or slot of this module, and raises its
//! `PanicException`, which is no `Exception`. That type is this library's own, and here it makes an
//! `InternalError` when it is called: so one place serves every entry, and none can be forgotten. What panics
//! in another thread goes on in the one that waits for it.
//!
//! The hook that would print is this library's own, too: the standard library is linked into each library by
//! itself. It notes where the panic was.

use std::panic::PanicHookInfo;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use crate::errors::InternalError;

/// Where the last panic was.
static PLACE: Mutex<Option<String>> = Mutex::new(None);

/// Maximum length of a panic's message in the error.
const SHOWN: usize = 512;

/// Installs the handling of panics; the package calls it first. Idempotent.
#[pyfunction]
pub(crate) fn _install(py: Python<'_>) -> PyResult<()> {
    std::panic::set_hook(Box::new(note));
    let make = |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
        let told = arguments.get_item(1).map_or_else(|_| String::new(), |told| told.to_string());
        Ok::<_, PyErr>(internal_error(&told).into_value(arguments.py()).into_any())
    };
    let make = PyCFunction::new_closure(py, Some(c"internal_error"), None, make)?;
    py.get_type::<PanicException>().setattr("__new__", make)
}

fn note(info: &PanicHookInfo<'_>) {
    if let Ok(mut place) = PLACE.try_lock() {
        *place = info.location().map(ToString::to_string);
    }
}

fn internal_error(told: &str) -> PyErr {
    let place = PLACE.lock().ok().and_then(|mut place| place.take());
    let place = place.map_or_else(String::new, |place| format!(" at {place}"));
    let told = chatcodec::excerpt(told, SHOWN);
    let message = format!(
        "chatcodec has a fault, and what it was given has not been done: {told}{place}; \
         please report this text, and what was given"
    );
    InternalError::new_err((message,))
}

/// Where a test has asked for a panic.
static ASKED: AtomicU8 = AtomicU8::new(0);

/// A place that tests make panic, which no input does.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// In work that waits for no interpreter.
    Away = 1,
    /// In a thread of a batch.
    Worker = 2,
}

/// Panics once where a test has asked for it.
pub(crate) fn probe(place: Place) {
    let asked = ASKED.compare_exchange(place as u8, 0, Ordering::Relaxed, Ordering::Relaxed);
    assert!(asked.is_err(), "asked for by a test");
}

/// Asks for one panic, for tests: in an `"away"` thread, or a `"worker"` of a batch.
#[pyfunction]
pub(crate) fn _ask_for_panic(place: &str) {
    let place = if place == "worker" { Place::Worker } else { Place::Away };
    ASKED.store(place as u8, Ordering::Relaxed);
}

/// What panics when it is read, for tests: as ids, as a value of a message, and in a method.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct _Panics;

impl _Panics {
    /// Panics if a value is one.
    pub(crate) fn check(value: &Bound<'_, PyAny>) {
        assert!(!value.is_exact_instance_of::<Self>(), "asked for by a test");
    }
}

#[pymethods]
impl _Panics {
    #[new]
    fn new() -> Self {
        Self
    }

    #[getter]
    fn value(slf: &Bound<'_, Self>) -> u8 {
        let _ = slf;
        panic!("asked for by a test: {}", "é".repeat(1000))
    }

    fn __len__(slf: &Bound<'_, Self>) -> usize {
        let _ = slf;
        std::panic::panic_any(3)
    }
}
