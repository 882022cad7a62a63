//! A batch in a pipeline: conversations are encoded while the next ones are read.
//!
//! In: runs of conversations, from the thread that reads them and has the interpreter. Out: their encodings, in order.
//! Threads begin one by one, each with a run that no other thread is free for. An interrupt, or a pipeline that is
//! dropped, ends them at the next look at the stop flag; nobody waits for them.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Thread, current};

use chatcodec::{Codec, Conversation, EncodeOptions, Encoding, Stop};
use pyo3::prelude::*;

use crate::away::wait;
use crate::batch::{MAX_THREADS, text_bytes};
use crate::guard::{Place, probe};
use crate::heap;

/// So many conversations are a job of a thread.
pub(crate) const RUN: usize = 64;

/// Bytes of memory that an encoding takes for each byte of its text, about.
const BYTES: usize = 8;

type Read = chatcodec::Result<Conversation>;
type Encoded = chatcodec::Result<Encoding>;

/// A batch that is being read.
pub(crate) struct Pipeline {
    work: Arc<Work>,
    most_threads: usize,
    threads: usize,
}

/// What the threads share.
struct Work {
    codec: Codec,
    options: EncodeOptions,
    stop: Stop,
    reader: Thread,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Runs that no thread has begun, each with its number.
    waiting: VecDeque<(usize, Vec<Read>)>,
    /// Number of threads without a run.
    free: usize,
    /// Whether no run follows.
    is_closed: bool,
    /// The encodings of each run, once it is done.
    done: Vec<Option<Vec<Encoded>>>,
    /// Number of runs that are not done.
    left: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl Pipeline {
    /// A pipeline of at most so many threads; by default one for each core.
    pub(crate) fn new(codec: Codec, options: EncodeOptions, threads: Option<usize>) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let work = Work {
            codec,
            options: EncodeOptions { threads: 1, ..options },
            stop: Stop::default(),
            reader: current(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        let most_threads = threads.unwrap_or_else(cores).clamp(1, MAX_THREADS);
        Self { work: Arc::new(work), most_threads, threads: 0 }
    }

    /// Hands over the next conversations.
    pub(crate) fn push(&mut self, run: Vec<Read>) {
        let mut state = self.work.lock();
        let number = state.done.len();
        state.done.push(None);
        state.left += 1;
        state.waiting.push_back((number, run));
        let wants_thread = state.waiting.len() > state.free && self.threads < self.most_threads;
        drop(state);
        self.work.changed.notify_one();
        if wants_thread {
            let work = Arc::clone(&self.work);
            let begun = Builder::new().spawn(move || work.encode_runs());
            // If the system gives no more threads, fewer threads do the work.
            self.threads += usize::from(begun.is_ok());
        }
    }

    /// The encodings of all conversations, by runs. Raises the exception of a signal's handler.
    pub(crate) fn finish(self, py: Python<'_>) -> PyResult<Vec<Vec<Encoded>>> {
        self.work.close();
        if self.threads == 0 {
            py.detach(|| self.work.encode_runs());
        }
        wait(py, || self.work.has_ended())?;
        let mut state = self.work.lock();
        if let Some(panic) = state.panic.take() {
            resume_unwind(panic);
        }
        Ok(std::mem::take(&mut state.done).into_iter().flatten().collect())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.work.stop.stop();
        self.work.close();
    }
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn has_ended(&self) -> bool {
        let state = self.lock();
        state.left == 0 || state.panic.is_some()
    }

    /// Encodes runs until no more follow.
    fn encode_runs(&self) {
        let encode = || {
            while let Some((number, run)) = self.next() {
                let encoded = self.stop.during(|| self.encode(run));
                let mut state = self.lock();
                state.done[number] = Some(encoded);
                state.left -= 1;
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(encode)) {
            self.lock().panic = Some(panic);
        }
        self.reader.unpark();
    }

    /// The next run; waits for it.
    fn next(&self) -> Option<(usize, Vec<Read>)> {
        let mut state = self.lock();
        loop {
            if self.stop.is_asked() {
                return None;
            }
            if let Some(run) = state.waiting.pop_front() {
                return Some(run);
            }
            if state.is_closed {
                return None;
            }
            state.free += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.free -= 1;
        }
    }

    fn encode(&self, run: Vec<Read>) -> Vec<Encoded> {
        let bytes: usize = run.iter().flatten().map(text_bytes).sum();
        heap::grow(bytes.saturating_mul(BYTES));
        let encode = |conversation: Read| {
            probe(Place::Worker);
            self.codec.encode_conversation(conversation?, &self.options)
        };
        run.into_iter().map(encode).collect()
    }
}
