//! Tables that are asked at random, in memory that the system is asked to keep in large pages.
//!
//! A processor remembers where some thousand pages of memory are. A table of megabytes has hundreds
//! of small ones, and what it takes to find them again is a fifth of the time of a new text, more on
//! a virtual machine. Elsewhere than on Linux, where a process may ask, a table begins anywhere.
//! With `unsafe`, since a `Vec` cannot be told where to begin.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What most systems call a large page.
const PAGE: usize = 2 << 20;

/// Whether the system can be asked for them.
const IN_PAGES: bool = cfg!(target_os = "linux");

/// A table of a fixed length.
pub(super) struct Large<T: Copy> {
    first: NonNull<T>,
    len: usize,
}

impl<T: Copy> Large<T> {
    /// So many of a value.
    pub(super) fn filled(value: T, len: usize) -> Self {
        let Some(layout) = Self::layout(len) else {
            return Self { first: NonNull::dangling(), len: 0 };
        };
        // SAFETY: `layout` is not of size zero.
        let memory = unsafe { alloc(layout) };
        let Some(first) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        ask_for_large_pages(memory, layout.size());
        for at in 0..len {
            // SAFETY: the memory is aligned, has room for `len` values, and nobody else's.
            unsafe { first.add(at).write(value) };
        }
        Self { first, len }
    }

    /// Where and how much; none for a table of nothing.
    fn layout(len: usize) -> Option<Layout> {
        let layout = Layout::array::<T>(len).ok().filter(|layout| layout.size() > 0)?;
        if IN_PAGES && layout.size() >= PAGE { layout.align_to(PAGE).ok() } else { Some(layout) }
    }
}

impl<T: Copy> Drop for Large<T> {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated with the same layout, and not used any more.
            unsafe { dealloc(self.first.as_ptr().cast(), layout) };
        }
    }
}

impl<T: Copy> Default for Large<T> {
    fn default() -> Self {
        Self { first: NonNull::dangling(), len: 0 }
    }
}

impl<T: Copy> Deref for Large<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values were written, and they live as long as the table.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Large<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the table is borrowed for it alone.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

// SAFETY: it owns its values, as a `Box<[T]>` does.
unsafe impl<T: Copy + Send> Send for Large<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Sync> Sync for Large<T> {}

fn ask_for_large_pages(memory: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    if size >= PAGE {
        // SAFETY: what is advised on is all of an allocation's whole pages; advice changes no content.
        unsafe { libc::madvise(memory.cast(), size / PAGE * PAGE, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (memory, size);
}

#[cfg(test)]
mod tests {
    use super::{IN_PAGES, Large, PAGE};

    #[test]
    fn tables_of_all_sizes_hold_what_is_written() {
        for len in [0, 1, 1000, PAGE / 8 - 1, PAGE / 8, PAGE / 8 + 1, 3 * PAGE / 8] {
            let mut table = Large::filled(7_u64, len);
            assert_eq!(table.len(), len);
            assert!(table.iter().all(|&value| value == 7));
            for (at, value) in table.iter_mut().enumerate() {
                *value = at as u64;
            }
            assert!(table.iter().enumerate().all(|(at, &value)| value == at as u64));
            if IN_PAGES && len >= PAGE / 8 {
                assert_eq!(table.as_ptr() as usize % PAGE, 0);
            }
        }
        assert!(Large::<u64>::default().is_empty());
    }
}
