//! What a template may spend: steps of work, bytes of memory, and the length of a text.
//!
//! An operation is charged by the size of what it touches, before it works. A step stands for up to some 100 ns. Memory
//! counts all that a template makes, also what it drops again: a bound on that bounds what it holds. Both grow with
//! what the caller gives, so that work that is linear in a conversation is never refused.

use std::cell::Cell;
use std::rc::Rc;

use chatcodec_vocab::Stop;

use super::budget::{Budget, EACH_BYTES, EACH_STEPS, EACH_TEXT};
use super::error::Problem;
use super::text::Text;
use super::value::Outcome;

/// Steps that a template may take, and so many more for each value of the caller's and each byte of its texts.
const STEPS: u64 = 4_000_000;
const STEPS_A_VALUE: u64 = 2_000;
const STEPS_A_BYTE: u64 = 1;

/// Bytes that a template may make, and so many more for each value of the caller's and each byte of its texts.
const BYTES: u64 = 96 << 20;
const BYTES_A_VALUE: u64 = 16 << 10;
const BYTES_A_BYTE: u64 = 64;

/// Longest text, beside so many times what the caller gave.
const MAX_TEXT: usize = 4 << 20;
const MAX_GROWTH: usize = 64;

/// Bytes that one step reads character by character, and that one step copies or compares.
const READ_A_STEP: u64 = 16;
const COPIED_A_STEP: u64 = 256;

/// Bytes of memory of a value, and of a list, a dict or a text around its content.
const VALUE_BYTES: u64 = 64;
const HEAD_BYTES: u64 = 64;

/// Bytes of memory of a run of a text.
const RUN_BYTES: u64 = 32;

/// Bytes of memory of a member of a dict: key, value and place in the index.
const MEMBER_BYTES: u64 = 3 * VALUE_BYTES;

/// Steps between two looks for a request to stop: some milliseconds.
const STRETCH: u64 = 1 << 15;

/// What a template has left to spend.
pub(super) struct Meter {
    steps: Cell<u64>,
    bytes: Rc<Cell<u64>>,
    max_text: usize,
    stop: Option<Stop>,
    /// Steps since the last look for a request to stop.
    unasked: Cell<u64>,
    /// The budget that the steps are of, and the steps at the beginning.
    budget: Option<(Rc<Budget>, u64)>,
}

impl Meter {
    /// For so many values of the caller's, with so many bytes of text.
    pub(super) fn new(values: usize, bytes: usize) -> Self {
        let (values, size) = (values as u64, bytes as u64);
        let mut steps = STEPS + STEPS_A_VALUE * values + STEPS_A_BYTE * size;
        let mut memory = BYTES + BYTES_A_VALUE * values + BYTES_A_BYTE * size;
        let mut max_text = MAX_TEXT + MAX_GROWTH * bytes.min(usize::MAX >> 8);
        let budget = Budget::current().map(|budget| {
            steps = EACH_STEPS.min(budget.left());
            memory = EACH_BYTES;
            max_text = EACH_TEXT;
            (budget, steps)
        });
        Self {
            steps: Cell::new(steps),
            bytes: Rc::new(Cell::new(memory)),
            max_text,
            stop: Stop::current(),
            unasked: Cell::new(0),
            budget,
        }
    }

    /// Without bounds, for values of the caller's.
    pub(super) fn boundless() -> Self {
        Self {
            steps: Cell::new(u64::MAX),
            bytes: Rc::new(Cell::new(u64::MAX)),
            max_text: usize::MAX,
            stop: None,
            unasked: Cell::new(0),
            budget: None,
        }
    }

    /// The error of a template that has nothing left.
    #[cold]
    fn spent(&self) -> Problem {
        if let Some((budget, _)) = &self.budget {
            budget.end();
        }
        Problem::Limit("takes more steps or memory than any template needs".into())
    }

    /// Takes steps.
    #[inline]
    pub(super) fn take(&self, steps: u64) -> Outcome<()> {
        let Some(left) = self.steps.get().checked_sub(steps) else {
            self.steps.set(0);
            return Err(self.spent());
        };
        self.steps.set(left);
        let unasked = self.unasked.get() + steps;
        if unasked < STRETCH {
            self.unasked.set(unasked);
            return Ok(());
        }
        self.look_for_stop()
    }

    #[cold]
    fn look_for_stop(&self) -> Outcome<()> {
        self.unasked.set(0);
        match &self.stop {
            Some(stop) if stop.is_asked() => Err(Problem::Limit("was stopped".into())),
            _ => Ok(()),
        }
    }

    /// Takes memory that is made.
    #[inline]
    pub(super) fn make(&self, bytes: u64) -> Outcome<()> {
        let Some(left) = self.bytes.get().checked_sub(bytes) else {
            self.bytes.set(0);
            return Err(self.spent());
        };
        self.bytes.set(left);
        Ok(())
    }

    /// Reads a text character by character.
    #[inline]
    pub(super) fn read(&self, bytes: usize) -> Outcome<()> {
        self.take(1 + bytes as u64 / READ_A_STEP)
    }

    /// Compares or counts a text as a whole.
    #[inline]
    pub(super) fn skim(&self, bytes: usize) -> Outcome<()> {
        self.take(bytes as u64 / COPIED_A_STEP)
    }

    /// Makes or copies so many values.
    #[inline]
    pub(super) fn values(&self, count: usize) -> Outcome<()> {
        self.take(count as u64)?;
        self.make(HEAD_BYTES + VALUE_BYTES.saturating_mul(count as u64))
    }

    /// Makes so many values, whose memory is given back when what is returned is dropped.
    pub(super) fn hold(&self, count: usize) -> Outcome<Held> {
        let left = self.bytes.get();
        self.values(count)?;
        Ok(Held { bytes: self.bytes.clone(), size: left - self.bytes.get() })
    }

    /// Makes or copies so many members of a dict.
    pub(super) fn members(&self, count: usize) -> Outcome<()> {
        self.take(2 * count as u64)?;
        self.make(HEAD_BYTES + MEMBER_BYTES.saturating_mul(count as u64))
    }

    /// Makes so many texts.
    pub(super) fn texts(&self, count: usize) -> Outcome<()> {
        self.take(count as u64)?;
        self.make((VALUE_BYTES + HEAD_BYTES).saturating_mul(count as u64))
    }

    /// Makes a text of so many bytes and runs.
    #[inline]
    pub(super) fn text(&self, bytes: usize, runs: usize) -> Outcome<()> {
        if bytes > self.max_text {
            let bound = self.max_text;
            return Err(Problem::Limit(format!(
                "writes a text of {bytes} bytes, expected at most {bound}"
            )));
        }
        let (bytes, runs) = (bytes as u64, runs as u64);
        self.take(bytes / COPIED_A_STEP + runs)?;
        self.make(HEAD_BYTES + bytes + RUN_BYTES.saturating_mul(runs))
    }

    /// Makes a text of the size of another.
    pub(super) fn copy(&self, text: &Text) -> Outcome<()> {
        self.text(text.len(), text.run_count())
    }

    /// Writes a text after one of so many bytes.
    #[inline]
    pub(super) fn write(&self, after: usize, bytes: usize, runs: usize) -> Outcome<()> {
        let whole = after.saturating_add(bytes);
        if whole > self.max_text {
            return self.text(whole, 0);
        }
        let (bytes, runs) = (bytes as u64, runs as u64);
        self.take(bytes / COPIED_A_STEP + runs)?;
        self.make(bytes + RUN_BYTES.saturating_mul(runs))
    }
}

/// Memory that is given back.
pub(super) struct Held {
    bytes: Rc<Cell<u64>>,
    size: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bytes.set(self.bytes.get().saturating_add(self.size));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some((budget, steps)) = &self.budget {
            budget.take(steps - self.steps.get());
        }
    }
}
