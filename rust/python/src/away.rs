//! Long work that signals interrupt.
//!
//! Work that looks at its stop flag now and then is done [in place](in_place), and checks for signals itself: no
//! thread begins, nothing is copied, and the memory of the caller's thread is used again. Other work is done on a
//! thread of its own ([`away`]), while the caller's thread waits and checks for signals: an interrupt ends the wait at
//! once, the work is asked to stop, and its result is dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Thread, current, park_timeout};
use std::time::{Duration, Instant};

use chatcodec::Stop;
use pyo3::prelude::*;

use crate::guard::{Place, probe};

/// Time between two checks for signals of a thread that waits.
const PERIOD: Duration = Duration::from_millis(10);

/// Time between two checks for signals of a thread that works, which may have to wait for the interpreter.
const WORK_PERIOD: Duration = Duration::from_millis(50);

/// Minimum number of bytes of text for which releasing the interpreter is worth its cost.
pub(crate) const DETACH_BYTES: usize = 4096;

/// Minimum number of ids for which releasing the interpreter is worth its cost.
pub(crate) const DETACH_IDS: usize = 1 << 12;

/// Number of bytes of text that are worth a thread; less for vocabularies that another library
/// runs.
pub(crate) const LONG_TEXT: usize = 1 << 18;
pub(crate) const LONG_FOREIGN_TEXT: usize = 1 << 14;

/// Number of ids that are worth a thread.
pub(crate) const LONG_IDS: usize = 1 << 16;

/// Number of items between two checks for signals, for work in place. An item takes a few microseconds if it
/// makes a Python object.
pub(crate) const STRIDE: usize = 1 << 12;

/// Notifies the waiting thread that the work has ended, also after a panic.
struct Ended(Arc<AtomicBool>, Thread);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

/// Does long work that looks at its stop flag. Raises the exception of a signal's handler.
pub(crate) fn in_place<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let raised = Arc::new(Mutex::new(None));
    let last = Mutex::new(Instant::now());
    let stop = {
        let raised = Arc::clone(&raised);
        Stop::asking(move || {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() < WORK_PERIOD {
                return false;
            }
            let checked = Python::attach(|py| {
                *last = Instant::now();
                py.check_signals()
            });
            let Err(error) = checked else { return false };
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        })
    };
    let done = py.detach(|| {
        stop.during(|| {
            probe(Place::Away);
            work()
        })
    });
    match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

/// Does long work on a thread of its own. Raises the exception of a signal's handler.
pub(crate) fn away<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::default();
    let ended = Arc::new(AtomicBool::new(false));
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let thread = {
        let (work, stop) = (Arc::clone(&work), stop.clone());
        let ended = Ended(Arc::clone(&ended), current());
        Builder::new().spawn(move || {
            let _ended = ended;
            let work = take(&work)?;
            Some(stop.during(|| {
                probe(Place::Away);
                work()
            }))
        })
    };
    let Ok(thread) = thread else {
        // If the system gives no more threads, the work is done here, and signals wait.
        let work = take(&work).ok_or_else(|| lost("before it began"))?;
        return Ok(py.detach(work));
    };
    if let Err(raised) = wait(py, || ended.load(Ordering::Acquire)) {
        stop.stop();
        return Err(raised);
    }
    match py.detach(|| thread.join()) {
        Ok(done) => done.ok_or_else(|| lost("in its thread")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Waits for work of other threads, which unpark this one. Raises the exception of a signal's handler.
pub(crate) fn wait(py: Python<'_>, has_ended: impl Fn() -> bool) -> PyResult<()> {
    while !has_ended() {
        py.detach(|| park_timeout(PERIOD));
        py.check_signals()?;
    }
    Ok(())
}

/// Does work on so many ids: on a thread of its own if they are worth one, else with the interpreter released if
/// they are worth that.
pub(crate) fn on_ids<T: Send + 'static>(
    py: Python<'_>,
    count: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if count >= LONG_IDS {
        away(py, work)
    } else if count >= DETACH_IDS {
        Ok(py.detach(work))
    } else {
        Ok(work())
    }
}

fn lost(when: &str) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(format!("work was lost {when}"))
}

/// Checks for signals at every [`STRIDE`]th item.
#[inline]
pub(crate) fn look(py: Python<'_>, nth: usize) -> PyResult<()> {
    if nth.is_multiple_of(STRIDE) && nth > 0 { py.check_signals() } else { Ok(()) }
}
