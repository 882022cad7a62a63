//! Tables that are asked at random, in memory that the system is asked to keep in large pages.
//!
//! A processor remembers where some thousand pages of memory are. A table of megabytes has hundreds
//! of small ones, and finding them again was up to a sixth of the time of a new text on the virtual
//! machine where it was measured. Elsewhere than on Linux, where a process may ask, a table begins
//! anywhere.
//! With `unsafe`, since a `Vec` cannot be told where to begin.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What most systems call a large page.
const PAGE: usize = 2 << 20;

/// A table of a fixed length.
pub(super) struct Large<T: Copy> {
    first: NonNull<T>,
    len: usize,
}

impl<T: Copy> Large<T> {
    /// So many of a value.
    pub(super) fn filled(value: T, len: usize) -> Self {
        let Some(layout) = Self::layout(len) else { return Self::default() };
        let memory = if in_pages(layout) {
            pages::take(layout.size())
        } else {
            // SAFETY: `layout` is not of size zero.
            NonNull::new(unsafe { alloc(layout) })
        };
        let Some(memory) = memory else { handle_alloc_error(layout) };
        let first = memory.cast::<T>();
        for at in 0..len {
            // SAFETY: the memory is aligned, has room for `len` values, and nobody else's.
            unsafe { first.add(at).write(value) };
        }
        Self { first, len }
    }

    /// How much; none for a table of nothing.
    fn layout(len: usize) -> Option<Layout> {
        Layout::array::<T>(len).ok().filter(|layout| layout.size() > 0)
    }
}

impl<T: Copy> Drop for Large<T> {
    fn drop(&mut self) {
        let Some(layout) = Self::layout(self.len) else { return };
        let memory = self.first.cast::<u8>();
        if in_pages(layout) {
            // SAFETY: taken with the same size, and not used any more.
            unsafe { pages::give_back(memory, layout.size()) };
        } else {
            // SAFETY: allocated with the same layout, and not used any more.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}

/// Whether memory of a layout is taken from the system itself.
fn in_pages(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= PAGE && layout.align() <= PAGE
}

/// Memory from the system itself: what a heap had in use before keeps the small pages that it had.
#[cfg(target_os = "linux")]
mod pages {
    use std::ptr::{self, NonNull};

    use super::PAGE;

    /// The smallest page, or a multiple of it.
    const SMALL: usize = 1 << 16;

    /// So many bytes from the beginning of a large page on, all zero; none where there are none left.
    pub(super) fn take(size: usize) -> Option<NonNull<u8>> {
        let size = size.checked_next_multiple_of(SMALL)?;
        let room = size.checked_add(PAGE)?;
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for memory anywhere.
        let memory = unsafe { libc::mmap(ptr::null_mut(), room, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let before = memory.cast::<u8>().align_offset(PAGE);
        // SAFETY: what was given is parted into what is before the first large page, `size` bytes and
        // what is after them, each whole pages; the first and the last are not used. Advice changes
        // no content.
        unsafe {
            let first = memory.byte_add(before);
            if before > 0 {
                libc::munmap(memory, before);
            }
            if before < PAGE {
                libc::munmap(first.byte_add(size), PAGE - before);
            }
            libc::madvise(first, size / PAGE * PAGE, libc::MADV_HUGEPAGE);
            NonNull::new(first.cast())
        }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// It was taken with this size, and is not used any more.
    pub(super) unsafe fn give_back(memory: NonNull<u8>, size: usize) {
        // SAFETY: as the caller says.
        unsafe { libc::munmap(memory.as_ptr().cast(), size.next_multiple_of(SMALL)) };
    }
}

/// Never used: see [`in_pages`].
#[cfg(not(target_os = "linux"))]
mod pages {
    use std::ptr::NonNull;

    pub(super) fn take(_: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(super) unsafe fn give_back(_: NonNull<u8>, _: usize) {}
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

#[cfg(test)]
mod tests {
    use super::{Large, PAGE};

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
            if cfg!(target_os = "linux") && len >= PAGE / 8 {
                assert_eq!(table.as_ptr() as usize % PAGE, 0);
            }
        }
        assert!(Large::<u64>::default().is_empty());
    }
}
