//! Locks that are never waited for.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// The content of a mutex, if no other thread holds it, or held it when the process was forked.
pub(crate) fn try_lock<T: Default>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(error)) => {
            // The previous holder panicked and left it inconsistent.
            mutex.clear_poison();
            let mut guard = error.into_inner();
            *guard = T::default();
            Some(guard)
        }
    }
}
