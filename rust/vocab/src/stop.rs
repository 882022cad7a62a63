//! Cancellation of long work.
//!
//! In: a flag that another thread sets, or a function that the work itself calls now and then. Out: work
//! under the flag ends early, with an error or a partial result; the caller discards both. Cost: none for
//! work without a flag.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ThreadId, current};

use crate::error::Error;

thread_local! {
    static CURRENT: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Cancellation flag. Clones share the flag.
///
/// ```
/// use chatcodec_vocab::{Stop, Vocab};
///
/// let stop = Stop::default();
/// stop.stop(); // as another thread does
/// let vocab = Vocab::embedded();
/// assert!(stop.is_asked());
/// assert_eq!(stop.during(|| vocab.size()), 92544);
/// ```
#[derive(Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    look: Option<Look>,
}

/// Whether to stop, asked on one thread.
#[derive(Clone)]
struct Look {
    ask: Arc<dyn Fn() -> bool + Send + Sync>,
    thread: ThreadId,
}

impl Stop {
    /// A flag that is also set when `ask` returns true. Work on this thread, and on no other, calls `ask`
    /// now and then.
    pub fn asking(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let look = Look { ask: Arc::new(ask), thread: current().id() };
        Self { look: Some(look), ..Self::default() }
    }

    /// Asks to stop.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether a thread has called [`Stop::stop`], or the function of [`Stop::asking`] says so.
    pub fn is_asked(&self) -> bool {
        if let Some(Look { ask, thread }) = &self.look
            && *thread == current().id()
            && ask()
        {
            self.stop();
        }
        self.flag.load(Ordering::Relaxed)
    }

    /// Runs work under this flag.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::within(Some(self.clone()), work)
    }

    /// Runs work under the flag of another thread, if that thread has one.
    pub fn within<T>(stop: Option<Self>, work: impl FnOnce() -> T) -> T {
        /// Restores the previous flag, also after a panic.
        struct Back(Option<Stop>);
        impl Drop for Back {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _back = Back(CURRENT.replace(stop));
        work()
    }

    /// The flag of this thread's work.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The error of cancelled work; no caller reads it.
    pub(crate) fn error() -> Error {
        Error::new("text", "encoding was stopped")
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("flag", &self.flag).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::Stop;
    use crate::vocab::Vocab;

    #[test]
    fn what_is_asked_to_stop_stops() {
        let vocab = Vocab::embedded();
        let text = "Some words of a text. ".repeat(200_000);
        let stop = Stop::default();
        let ids = stop.during(|| vocab.try_encode(&text)).unwrap();
        assert_eq!(ids, vocab.try_encode(&text).unwrap());
        assert_eq!(stop.during(|| vocab.try_encode_on(3, &text)).unwrap(), ids);
        stop.stop();
        assert!(stop.during(|| vocab.try_encode(&text)).is_err());
        assert!(stop.during(|| vocab.try_encode_on(3, &text)).is_err());
    }

    #[test]
    fn work_asks_on_the_thread_that_waits_for_the_answer() {
        let vocab = Vocab::embedded();
        let text = "Some words of a text. ".repeat(200_000);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let stop = Stop::asking(move || count.fetch_add(1, Ordering::Relaxed) == 2);
        assert!(stop.during(|| vocab.try_encode(&text)).is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        let elsewhere = stop.clone();
        assert!(thread::spawn(move || elsewhere.is_asked()).join().unwrap());
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }
}
