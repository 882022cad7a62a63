//! Cancellation of long work.
//!
//! In: a flag that another thread sets. Out: work under the flag ends early, with an error or a partial
//! result; the caller discards both. Cost: none for work without a flag.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

thread_local! {
    static CURRENT: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Cancellation flag. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks to stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a thread has called [`Stop::stop`].
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
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
}
