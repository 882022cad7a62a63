//! Memory in huge pages, where the system gives them on request: tables that are read at random places, and lists that
//! grow large.
//!
//! With pages of 4 KB the processor looks up the address of nearly every place that it reads; two pages of 2 MB hold
//! the merges of a large vocabulary. The first write of a page takes 1 to 4 µs: the ids of a document of 5 MB lie in a
//! thousand pages of 4 KB.
//! With `unsafe`, because a `Vec` can ask for neither alignment nor pages. No other module sees the pointer. The system
//! keeps its advice for memory that is freed.
// Tables are read in loops that are one function.
#![allow(unsafe_code, clippy::inline_always)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Number of bytes of a huge page.
const PAGE: usize = 2 << 20;

/// A fixed number of values, at the beginning of a huge page if they fill one.
pub(crate) struct HugePages<T> {
    /// Dangling for no values.
    values: NonNull<T>,
    count: usize,
}

/// The layout of the memory; none for no values.
fn layout<T>(count: usize) -> Option<Layout> {
    let values = Layout::array::<T>(count).expect("tables fit into an address space");
    let is_large = cfg!(target_os = "linux") && values.size() >= PAGE;
    let aligned = if is_large { values.align_to(PAGE).unwrap_or(values) } else { values };
    (values.size() > 0).then_some(aligned)
}

/// Makes room for `more` values at the end of a list; none if the system has less memory, as the list may need less.
/// Large room is asked for in huge pages.
pub(crate) fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.try_reserve_exact(more).is_ok() {
        let room = list.spare_capacity_mut();
        ask(room.as_mut_ptr().cast(), size_of_val(room));
    }
}

/// Makes room for `more` bytes at the end of a text; large room is asked for in huge pages.
pub fn make_text_room(text: &mut String, more: usize) {
    // SAFETY: the bytes of the text stay as they are.
    make_room(unsafe { text.as_mut_vec() }, more);
}

/// Asks for huge pages for memory that has some, and for the rest of its first and last page: where all of a block is
/// one mapping of the system, it stays one, which can grow.
#[cfg(all(target_os = "linux", not(miri)))]
fn ask(memory: *mut u8, bytes: usize) {
    let (from, to) = (memory as usize, memory as usize + bytes);
    if from.next_multiple_of(PAGE) + PAGE <= to {
        // SAFETY: no memory is needed for the answer.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let before = from % page;
        let bytes = (before + bytes).next_multiple_of(page);
        // SAFETY: the advice changes no memory.
        unsafe { libc::madvise(memory.wrapping_sub(before).cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

/// Other systems have no such advice, and Miri knows no pages.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask(_: *mut u8, _: usize) {}

impl<T: Copy> HugePages<T> {
    /// Returns `count` copies of `value`.
    pub(crate) fn filled(value: T, count: usize) -> Self {
        const { assert!(size_of::<T>() > 0, "values have a size") }
        let Some(layout) = layout::<T>(count) else { return Self::default() };
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc(layout) };
        let Some(values) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        // Before the first write of a page, which allocates it.
        ask(memory, layout.size());
        for at in 0..count {
            // SAFETY: the memory has `count` values.
            unsafe { values.add(at).write(value) };
        }
        Self { values, count }
    }
}

impl<T> Default for HugePages<T> {
    /// No values.
    fn default() -> Self {
        Self { values: NonNull::dangling(), count: 0 }
    }
}

impl<T> Deref for HugePages<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the memory has `count` values, all of them written, and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.values.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for HugePages<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; nobody else has the values.
        unsafe { slice::from_raw_parts_mut(self.values.as_ptr(), self.count) }
    }
}

impl<T> Drop for HugePages<T> {
    fn drop(&mut self) {
        if let Some(layout) = layout::<T>(self.count) {
            // SAFETY: the memory was allocated with this layout; values that are `Copy` need no drop.
            unsafe { dealloc(self.values.as_ptr().cast(), layout) };
        }
    }
}

// SAFETY: the values are owned, as those of a `Vec` are.
unsafe impl<T: Send> Send for HugePages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HugePages<T> {}

#[cfg(test)]
mod tests {
    use super::{HugePages, PAGE, make_room, make_text_room};

    #[test]
    fn values_are_those_that_were_written() {
        // Miri takes minutes for the values of a page.
        let large = [PAGE / 8 - 1, PAGE / 8, PAGE / 8 + 1];
        let large = if cfg!(miri) { &[] } else { &large[..] };
        for &count in [0, 1, 1000].iter().chain(large) {
            let mut values = HugePages::filled(7_u64, count);
            assert_eq!(values.len(), count);
            assert!(values.iter().all(|&value| value == 7));
            if let Some(last) = values.last_mut() {
                *last = 8;
            }
            assert_eq!(values.iter().filter(|&&value| value == 8).count(), count.min(1));
            let starts = values.as_ptr() as usize;
            let is_large = cfg!(target_os = "linux") && count * 8 >= PAGE;
            assert!(!is_large || starts.is_multiple_of(PAGE));
        }
    }

    #[test]
    fn room_keeps_what_a_list_has() {
        for more in [0, 1, if cfg!(miri) { 1000 } else { 3 * PAGE }] {
            let mut list = vec![7_u8, 8];
            make_room(&mut list, more);
            assert!(list.capacity() >= 2 + more);
            list.resize(2 + more, 9);
            assert_eq!(list[..2], [7, 8]);
            assert!(list[2..].iter().all(|&value| value == 9));
            let mut text = "é".to_owned();
            make_text_room(&mut text, more);
            assert!(text.capacity() >= 2 + more);
            assert_eq!(text, "é");
        }
        let mut list = vec![7_u8, 8];
        make_room(&mut list, usize::MAX);
        assert_eq!(list, [7, 8]);
    }

    #[test]
    fn threads_share_the_values() {
        let values = HugePages::filled(3_u8, 1000);
        let sum = |values: &[u8]| values.iter().map(|&value| u64::from(value)).sum::<u64>();
        let sums = std::thread::scope(|scope| {
            [0; 2]
                .map(|_| scope.spawn(|| sum(&values)))
                .map(|thread| thread.join().expect("no panic"))
        });
        assert_eq!(sums, [3000; 2]);
    }
}
