//! What the renderings of one work may spend together.
//!
//! A codec tries its template on some conversations before it is there. Each rendering has bounds of its own, and so
//! have all of them: otherwise a template that is slow on each would be slow as many times.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Steps of all renderings of one work, and bytes of text for which one of them is taken, because the text is encoded.
const STEPS: u64 = 6_000_000;
const BYTES_A_STEP: u64 = 2;

/// Most steps, bytes of memory and bytes of text of one rendering: a short conversation is tried.
pub(super) const EACH_STEPS: u64 = 1_500_000;
pub(super) const EACH_BYTES: u64 = 32 << 20;
pub(super) const EACH_TEXT: usize = 1 << 20;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Budget>>> = const { RefCell::new(None) };
}

/// What is left to the renderings of this thread's work.
pub(super) struct Budget {
    steps: Cell<u64>,
    /// Whether a rendering has reached a bound.
    is_spent: Cell<bool>,
}

impl Budget {
    /// The budget of this thread's work, if it has one.
    pub(super) fn current() -> Option<Rc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(super) fn left(&self) -> u64 {
        self.steps.get()
    }

    pub(super) fn take(&self, steps: u64) {
        self.steps.set(self.steps.get().saturating_sub(steps));
    }

    pub(super) fn end(&self) {
        self.is_spent.set(true);
    }
}

/// Does work whose renderings have one budget. Work within that work has the same.
pub(crate) fn within<T>(work: impl FnOnce() -> T) -> T {
    /// Takes the budget away, also after a panic.
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            CURRENT.set(None);
        }
    }
    if Budget::current().is_some() {
        return work();
    }
    let budget = Budget { steps: Cell::new(STEPS), is_spent: Cell::new(false) };
    CURRENT.set(Some(Rc::new(budget)));
    let _done = Done;
    work()
}

/// Takes what the work on so many bytes of text costs.
pub(crate) fn spend(bytes: usize) {
    if let Some(budget) = Budget::current() {
        budget.take(bytes as u64 / BYTES_A_STEP);
    }
}

/// Whether a rendering of this thread's work has reached a bound, so that nothing follows from what others wrote.
pub(crate) fn is_spent() -> bool {
    Budget::current().is_some_and(|budget| budget.is_spent.get() || budget.left() == 0)
}
