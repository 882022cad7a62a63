//! Returns freed memory to the system after loading.
//!
//! The tables of a vocabulary are built from lists that are larger than they are. The C library keeps
//! memory that is freed below what is still used: after Qwen 2's `tokenizer.json` 49 MB of 83.
//! With `unsafe`, because the library's function is foreign; it reads and writes no memory of ours.
#![allow(unsafe_code)]

use std::hint::black_box;

/// The C library takes smaller blocks from memory that was freed before, if it can.
const LARGE: usize = 16 << 20;

/// Runs what loads a vocabulary, and returns the memory that loading freed to the system, if the C library can; takes
/// milliseconds.
pub(crate) fn loading<T>(load: impl FnOnce() -> T) -> T {
    // Blocks that are smaller than one that was freed are large no more; this one is never written, and so takes no
    // memory.
    block(LARGE);
    let loaded = load();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    loaded
}

/// Most bytes that [`grow`] takes at once.
const GROWN: usize = 1 << 20;

/// Makes the C library take memory for so many bytes at once. A thread's memory otherwise grows by a page at a time,
/// each by a call of the system that keeps all threads from new memory.
pub(crate) fn grow(bytes: usize) {
    block(bytes.min(GROWN));
}

/// A block of memory that nobody reads or writes.
fn block(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}
