//! The memory of tables that are read at random places: huge pages, where the system gives them on request.
//!
//! With pages of 4 KB the processor looks up the address of nearly every place that it reads; two pages of 2 MB hold
//! the merges of a large vocabulary.
//! With `unsafe`, because a `Vec` cannot ask for this alignment. No other module sees the pointer. The system keeps
//! its advice for memory that is freed.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Number of bytes of a huge page.
const PAGE: usize = 2 << 20;

/// A fixed number of values, at the beginning of a huge page if they fill one.
pub(super) struct HugePages<T> {
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

impl<T: Copy> HugePages<T> {
    /// Returns `count` copies of `value`.
    pub(super) fn filled(value: T, count: usize) -> Self {
        const { assert!(size_of::<T>() > 0, "values have a size") }
        let Some(layout) = layout::<T>(count) else { return Self::default() };
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc(layout) };
        let Some(values) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        // The first write of a page allocates it. Miri knows no pages.
        #[cfg(all(target_os = "linux", not(miri)))]
        if layout.align() >= PAGE {
            // SAFETY: the memory begins at a page and has that many bytes; the advice changes none of them.
            unsafe { libc::madvise(memory.cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
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
    use super::{HugePages, PAGE};

    #[test]
    fn values_are_those_that_were_written() {
        for count in [0, 1, 1000, PAGE / 8 - 1, PAGE / 8, PAGE / 8 + 1] {
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
