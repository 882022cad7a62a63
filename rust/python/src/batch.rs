//! Many conversations at once: how much text they have, how many threads that is worth, and the work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use chatcodec::{Call, CallBody, Codec, Conversation, EncodeOptions, Media, Message, Stop, Vocab};

use crate::away::{LONG_FOREIGN_TEXT, LONG_TEXT};
use crate::guard::{Place, probe};
use crate::ids::Threads;

/// Whether encoding this much text takes too long for signals to wait.
pub(crate) fn is_long(bytes: usize, vocab: &Vocab) -> bool {
    bytes >= if vocab.lossless() { LONG_TEXT } else { LONG_FOREIGN_TEXT }
}

/// Maximum number of threads of a batch.
pub(crate) const MAX_THREADS: usize = 256;

/// Amount of text whose encoding takes as long as starting a thread.
const THREAD_BYTES: usize = 16 << 10;

/// Amount of text whose encoding takes as long as the control tokens of a message.
const MESSAGE_BYTES: usize = 16;

/// Minimum length of a text that threads share.
const SHARED_BYTES: usize = 1 << 19;

/// Encodes conversations on several threads, in order.
pub(crate) fn encode_all(
    codec: &Codec,
    conversations: Vec<chatcodec::Result<Conversation>>,
    options: &EncodeOptions,
    threads: Option<Threads>,
) -> Vec<chatcodec::Result<chatcodec::Encoding>> {
    let asked = threads.map(|Threads(threads)| threads);
    let bytes = || conversations.iter().flatten().map(text_bytes).sum();
    let threads = asked.unwrap_or_else(|| worthwhile_threads(bytes()));
    let threads = threads.clamp(1, MAX_THREADS);
    // Cores without a conversation share the long texts of the others.
    let mut options = options.clone();
    options.threads = threads / conversations.len().clamp(1, threads);
    let threads = threads.min(conversations.len().max(1));
    let encode = |conversation: chatcodec::Result<Conversation>| {
        probe(Place::Worker);
        codec.encode_conversation(conversation?, &options)
    };
    let jobs: Vec<_> = conversations.into_iter().map(|job| Mutex::new(Some(job))).collect();
    let take = |at: usize| {
        let job: &Mutex<_> = &jobs[at];
        job.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    share(jobs.len(), threads, |at| take(at).map(&encode)).into_iter().flatten().collect()
}

/// Does `count` jobs on several threads; returns the results in order, fewer if the work is asked
/// to stop.
pub(crate) fn share<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.clamp(1, MAX_THREADS).min(count.max(1));
    let stop = Stop::current();
    let is_stopped = || stop.as_ref().is_some_and(Stop::is_asked);
    if threads == 1 {
        let goes_on = |at: usize| (!is_stopped()).then_some(at);
        return (0..count).map_while(goes_on).map(work).collect();
    }
    // Each thread takes the next free job, so long jobs do not delay the others.
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count || is_stopped() {
                break done;
            }
            done.push((at, work(at)));
        }
    };
    let done = std::thread::scope(|scope| {
        // If the system gives no more threads, fewer threads do the work.
        let spawn = |_| {
            let work = || stop.as_ref().map_or_else(work, |stop| stop.during(work));
            std::thread::Builder::new().spawn_scoped(scope, work).ok()
        };
        let workers: Vec<_> = (1..threads).map_while(spawn).collect();
        let mut done = work();
        for worker in workers {
            match worker.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    let mut results: Vec<Option<T>> = std::iter::repeat_with(|| None).take(count).collect();
    for (at, result) in done {
        results[at] = Some(result);
    }
    results.into_iter().map_while(|result| result).collect()
}

/// Number of bytes of text of a conversation, without names.
pub(crate) fn text_bytes(conversation: &Conversation) -> usize {
    let Conversation { messages, tools, .. } = conversation;
    let call = |call: &Call| match &call.body {
        CallBody::Function { arguments, .. } => arguments.len(),
        CallBody::Code { source, .. } => source.len(),
    };
    let message = |message: &Message| {
        let reasoning = message.reasoning.as_ref().map_or(0, String::len);
        message.content.len() + reasoning + message.calls.iter().map(call).sum::<usize>()
    };
    let values = conversation.value_bytes();
    values
        + tools.as_ref().map_or(0, |tools| tools.text().len())
        + messages.iter().map(message).sum::<usize>()
}

/// Bytes of text whose encoding takes as long as a conversation: its text, the control tokens of its messages, and
/// its placeholders.
pub(crate) fn work_bytes(conversation: &Conversation) -> usize {
    let messages = &conversation.messages;
    let ids = |media: &Media| (media.rows as usize).saturating_mul(media.count as usize);
    let placeholders = messages.iter().flat_map(|message| message.media.iter()).map(ids);
    let placeholders = placeholders.fold(0, usize::saturating_add);
    text_bytes(conversation)
        .saturating_add(messages.len() * MESSAGE_BYTES)
        .saturating_add(placeholders)
}

/// As many threads as there are cores, or as are asked for, unless text is too short to be shared.
pub(crate) fn threads_for(bytes: usize, threads: Option<Threads>) -> usize {
    match threads {
        _ if bytes < SHARED_BYTES => 1,
        Some(Threads(threads)) => threads,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// As many threads as there are cores, unless there is less text than is worth one.
pub(crate) fn worthwhile_threads(bytes: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.min(bytes.div_ceil(THREAD_BYTES))
}

/// The error of one conversation of a batch, with its index in the path.
pub(crate) fn in_conversation(index: usize, error: chatcodec::Error) -> chatcodec::Error {
    error.with_path(|path| format!("conversations[{index}].{path}"))
}
