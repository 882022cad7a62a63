//! Returns freed memory to the system after loading, except what the first long text needs.
//!
//! The tables of a vocabulary are built from lists that are larger than they are. The C library keeps
//! memory that is freed below what is still used: after Qwen 2's `tokenizer.json` 49 MB of 83.
//! The system supplies new memory page by page, which takes up to a third of the time of a document's first encoding.
//! So what a document of 5 MB and its ids need is kept, and comes in huge pages when it is written.
//! With `unsafe`, because the library's function is foreign; it reads and writes no memory of ours.
#![allow(unsafe_code)]

use std::hint::black_box;

use chatcodec::make_new_room;

/// Number of bytes that are kept for a text, and as many for its ids; they are not resident.
const KEPT: usize = 8 << 20;

/// Before loading: makes the C library take large blocks from memory that was freed before. It does so for blocks
/// that are smaller than one that was freed; this one is never written, and so takes no memory.
pub(crate) fn reserve() {
    block(2 * KEPT);
}

/// Most bytes that [`grow`] takes at once.
const GROWN: usize = 1 << 20;

/// Makes the C library take memory for so many bytes at once. A thread's memory otherwise grows by a page at a time,
/// each by a call of the system that keeps all threads from new memory.
pub(crate) fn grow(bytes: usize) {
    block(bytes.min(GROWN));
}

/// After loading: returns freed memory to the system, if the C library can; takes milliseconds.
pub(crate) fn give_back() {
    let mut kept = Vec::<u8>::new();
    make_new_room(&mut kept, 2 * KEPT);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    drop(black_box(kept));
}

/// A block of memory that nobody reads or writes.
fn block(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}
