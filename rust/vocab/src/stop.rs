//! A request to stop, which long work looks for.
//!
//! In: a flag that whoever waits sets. Out: work that has begun under it ends early, with an error or with
//! what it has so far; whoever asked to stop wants none of it. Cost: where nobody may ask, none.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

thread_local! {
    static CURRENT: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// A request to stop. Copies are of one flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks to stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Does work that may be asked to stop.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::within(Some(self.clone()), work)
    }

    /// Does work under a flag of another thread, if that has one.
    pub fn within<T>(stop: Option<Self>, work: impl FnOnce() -> T) -> T {
        /// Puts back what was there, also where the work panics.
        struct Back(Option<Stop>);
        impl Drop for Back {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _back = Back(CURRENT.replace(stop));
        work()
    }

    /// The flag of the work that this thread does.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The error of work that has been stopped; nobody reads it.
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
