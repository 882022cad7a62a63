//! P5: the memory of a stream is bounded by its longest marker and header, not by the text.

#![allow(unsafe_code, reason = "an allocator that counts is unsafe to implement")]

#[allow(unreachable_pub, reason = "the laws use it, too")]
#[path = "common/endless.rs"]
mod endless;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use chatcodec::{Codec, Format, HOLD_LIMIT, TokenId, Vocab};

/// Counts the bytes that this thread holds, and the most it has held.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // Memory is freed after a thread's locals are gone, too.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Some hundred bytes are kept for each piece of a header that is one byte long.
const BOUND: isize = 256 * HOLD_LIMIT.cast_signed();

/// Whatever a place is filled with: the events are taken as they come, little stays behind, and no
/// more of a long text than of a short one.
#[test]
fn a_stream_keeps_little_of_a_long_text() {
    let format = Format::built_in("internlm2").expect("it is built in");
    let codec = Codec::new(&format, &Vocab::embedded()).expect("they fit");
    let mut keeps = Vec::new();
    for (opening, filling) in endless::places(&codec) {
        let mut stream = codec.stream(None);
        let mut events = Vec::new();
        HELD.set(0);
        let mut most_after = |ids: &mut dyn Iterator<Item = &TokenId>| {
            MOST.set(0);
            for &id in ids {
                stream.push(id, &mut events);
                events.clear();
            }
            MOST.get()
        };
        let mut ids = opening.ids.iter().chain(filling.ids.iter().cycle());
        let first = most_after(&mut ids.by_ref().take(20_000));
        let second = most_after(&mut ids.by_ref().take(20_000));
        if first > BOUND || second > first + 4096 {
            keeps.push((opening.parts, filling.parts, first, second));
        }
    }
    assert!(
        keeps.is_empty(),
        "opening, filling, most bytes, and after as many ids again: {keeps:#?}"
    );
}
