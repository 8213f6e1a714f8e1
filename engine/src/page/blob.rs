//! Keys and values too long for a page: one allocation each, named by a handle in the record.
//!
//! A blob belongs to the tree whose current version names it. When that version drops it, the tree retires it with its
//! epochs of birth and death, like pages, so a snapshot that can see it still finds it.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use crate::error::{Error, ErrorKind, Result};

#[repr(C)]
struct Header {
    epoch: u64,
    len: usize,
}

const HEADER_BYTES: usize = size_of::<Header>();

/// Names a long key or value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blob(NonNull<u8>);

// SAFETY: the bytes do not change between allocation and release; who releases is the tree's matter.
unsafe impl Send for Blob {}
// SAFETY: as above.
unsafe impl Sync for Blob {}

impl Blob {
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_add(HEADER_BYTES)?, align_of::<Header>()).ok()
    }

    /// The memory that a blob of `bytes` takes.
    pub(crate) fn size_of(bytes: usize) -> u64 {
        (bytes + HEADER_BYTES) as u64
    }

    /// Copies `bytes`, born in `epoch`.
    pub(crate) fn new(bytes: &[u8], epoch: u64) -> Result<Blob> {
        let full = || Error::new(ErrorKind::Full, format!("no memory for {} bytes", bytes.len()));
        let layout = Self::layout(bytes.len()).ok_or_else(full)?;
        // SAFETY: the layout is not empty; header and bytes lie in the allocation.
        unsafe {
            let start = NonNull::new(alloc(layout)).ok_or_else(full)?;
            start.cast::<Header>().write(Header { epoch, len: bytes.len() });
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr().add(HEADER_BYTES), bytes.len());
            Ok(Blob(start))
        }
    }

    /// The number that stands for the blob in a record.
    pub(crate) fn handle(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// The blob of a handle.
    ///
    /// # Safety
    /// `handle` comes from [`Blob::handle`] of a blob that has not been released.
    pub(crate) unsafe fn from_handle(handle: u64) -> Blob {
        // SAFETY: handles are addresses of allocations, so not zero.
        Blob(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(handle as usize)) })
    }

    fn header(self) -> *mut Header {
        self.0.as_ptr().cast()
    }

    /// The bytes.
    ///
    /// # Safety
    /// The blob is not released while `'a` lasts.
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: written in `new`; the caller vouches for the lifetime.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(HEADER_BYTES), (*self.header()).len) }
    }

    /// The epoch of birth.
    ///
    /// # Safety
    /// The blob is not released.
    pub(crate) unsafe fn epoch(self) -> u64 {
        // SAFETY: promised by the caller.
        unsafe { (*self.header()).epoch }
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// Nothing names the blob any more.
    pub(crate) unsafe fn release(self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe {
            let layout = Self::layout((*self.header()).len).expect("the layout of a live allocation");
            dealloc(self.0.as_ptr(), layout);
        }
    }
}
