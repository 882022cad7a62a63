//! Bound on the work of loading a file, which may be hostile.
//!
//! Work that grows faster than the file counts its steps here: comparisons of patterns, and variants, each
//! of which repeats the file. Real files need a few thousand steps.

use std::cell::Cell;

use crate::error::{Checked, wrong};

/// Maximum number of steps of a file with its variants: about a tenth of a second.
const MAX_STEPS: u64 = 1 << 21;

/// The remaining steps.
pub(super) struct Work {
    left: Cell<u64>,
}

impl Work {
    pub(super) fn new() -> Self {
        Self { left: Cell::new(MAX_STEPS) }
    }

    /// No limit: for work that was counted before.
    pub(super) fn unlimited() -> Self {
        Self { left: Cell::new(u64::MAX) }
    }

    /// Number of counted steps.
    #[cfg(test)]
    pub(super) fn spent(&self) -> u64 {
        MAX_STEPS - self.left.get()
    }

    /// Counts the steps of a key.
    pub(super) fn count(&self, key: &str, steps: usize) -> Checked<()> {
        match self.left.get().checked_sub(steps as u64) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => wrong(
                key,
                format!(
                    "is too much work to check: the file takes over {MAX_STEPS} steps, expected fewer \
                     or shorter patterns or variants"
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_STEPS, Work};
    use crate::format::variant::Document;
    use crate::format::{BUILT_IN, Proof, Spec};

    #[test]
    fn real_files_are_little_work() {
        for (name, text) in BUILT_IN {
            let work = Work::new();
            let document = Document::read(text).ok().expect(name);
            for variant in document.names() {
                let file = document.variant(variant, &work).ok().expect(name);
                assert!(
                    Spec::new(&(*text).into(), file, &work, Proof::Whole).is_ok(),
                    "{name}:{variant}"
                );
            }
            assert!(
                Spec::new(&(*text).into(), document.file, &work, Proof::Whole).is_ok(),
                "{name}"
            );
            let spent = work.spent();
            assert!((1..MAX_STEPS / 20).contains(&spent), "{name}: {spent} steps");
        }
    }
}
