//! A byte buffer for direct writes: aligned to [`SECTOR_BYTES`], of fixed capacity.
//!
//! Invariants:
//! 1. The address and the capacity are multiples of [`SECTOR_BYTES`]; the capacity is not zero.
//! 2. All bytes up to the capacity are initialized; `len <= capacity`.
//!
//! Costs: one zeroed allocation; nothing after it allocates.
//!
//! Not here: growth past the capacity (the owner writes the buffer out and clears it), pools of buffers.

use super::SECTOR_BYTES;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// A byte buffer aligned to [`SECTOR_BYTES`], whose length moves between zero and a fixed capacity.
///
/// ```
/// use quipu::io::{AlignedBuffer, SECTOR_BYTES};
///
/// let mut buffer = AlignedBuffer::new(100);
/// assert_eq!(buffer.capacity(), SECTOR_BYTES);
/// assert_eq!(buffer.extend_from_slice(b"abc"), 3);
/// buffer.pad_to_sector();
/// assert_eq!(buffer.len(), SECTOR_BYTES);
/// assert_eq!(&buffer[..4], b"abc\0");
/// ```
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: the buffer owns its allocation alone, as a `Vec<u8>` does; no method changes it through `&self`.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above; `&AlignedBuffer` only gives out shared slices.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// An empty buffer for at least `capacity_bytes`, rounded up to whole sectors, one at least.
    ///
    /// # Panics
    ///
    /// If the capacity exceeds the address space.
    pub fn new(capacity_bytes: usize) -> Self {
        let capacity = capacity_bytes.max(1).next_multiple_of(SECTOR_BYTES);
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero, as the capacity is at least one sector.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, len: 0, capacity }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, SECTOR_BYTES).expect("a capacity that fits the address space")
    }

    /// How many bytes it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes still fit.
    pub fn remaining(&self) -> usize {
        self.capacity - self.len
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len <= capacity` bytes from `start` are allocated and initialized, and borrowed with `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to change.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; the borrow of `self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Appends as much of `bytes` as fits and returns how much that was.
    #[must_use = "the rest did not fit"]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.remaining());
        let old_len = self.len;
        self.len += taken;
        self.as_mut_slice()[old_len..].copy_from_slice(&bytes[..taken]);
        taken
    }

    /// Makes the length `len`; new bytes are zeros.
    ///
    /// # Panics
    ///
    /// If `len` exceeds the capacity.
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.capacity, "length {len} exceeds the capacity {}", self.capacity);
        let old_len = self.len;
        self.len = len;
        if len > old_len {
            // The bytes may be left over from before a `clear`.
            self.as_mut_slice()[old_len..].fill(0);
        }
    }

    /// Cuts the length to `len` if it is larger.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes the length zero.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends zeros up to the next multiple of [`SECTOR_BYTES`], which always fits, and returns how many.
    pub fn pad_to_sector(&mut self) -> usize {
        let old_len = self.len;
        self.resize(old_len.next_multiple_of(SECTOR_BYTES));
        self.len - old_len
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this same layout and is given back once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer")
            .field("len", &self.len)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// The rule of [`super::OpenMode::CreateDirect`], the same on every disk whether or not it would insist.
pub(super) fn require_aligned(bytes: &[u8], offset: u64) -> io::Result<()> {
    let address = bytes.as_ptr().addr();
    if offset.is_multiple_of(SECTOR_BYTES as u64)
        && bytes.len().is_multiple_of(SECTOR_BYTES)
        && (bytes.is_empty() || address.is_multiple_of(SECTOR_BYTES))
    {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "a direct write of {} bytes from address {address:#x} at offset {offset} is not aligned to {SECTOR_BYTES} bytes",
            bytes.len()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_and_address_are_whole_sectors() {
        for (asked, given) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192)] {
            let buffer = AlignedBuffer::new(asked);
            assert_eq!(buffer.capacity(), given);
            assert!(buffer.is_empty());
            assert_eq!(buffer.as_ptr().addr() % SECTOR_BYTES, 0);
        }
    }

    #[test]
    fn takes_what_fits() {
        let mut buffer = AlignedBuffer::new(SECTOR_BYTES);
        assert_eq!(buffer.extend_from_slice(&[7; 4000]), 4000);
        assert_eq!(buffer.extend_from_slice(&[8; 200]), 96);
        assert_eq!(buffer.extend_from_slice(&[9; 1]), 0);
        assert_eq!(buffer.remaining(), 0);
        assert_eq!((buffer[3999], buffer[4000], buffer[4095]), (7, 8, 8));
    }

    #[test]
    fn new_bytes_are_zeros_also_after_a_clear() {
        let mut buffer = AlignedBuffer::new(2 * SECTOR_BYTES);
        buffer.resize(5000);
        buffer.fill(0xff);
        buffer.truncate(10_000);
        assert_eq!(buffer.len(), 5000);
        buffer.truncate(3);
        assert_eq!(buffer.pad_to_sector(), 4093);
        assert_eq!(buffer.pad_to_sector(), 0);
        assert_eq!(&buffer[..3], [0xff; 3]);
        assert!(buffer[3..].iter().all(|&byte| byte == 0));
        buffer.clear();
        assert_eq!(buffer.pad_to_sector(), 0);
    }

    #[test]
    #[should_panic(expected = "exceeds the capacity")]
    fn does_not_grow_past_its_capacity() {
        AlignedBuffer::new(1).resize(4097);
    }

    #[test]
    fn alignment_is_asked_of_address_offset_and_length() {
        let mut buffer = AlignedBuffer::new(2 * SECTOR_BYTES);
        buffer.resize(2 * SECTOR_BYTES);
        assert!(require_aligned(&buffer, 4096).is_ok());
        assert!(require_aligned(&[], 0).is_ok());
        for (bytes, offset) in [(&buffer[..], 512), (&buffer[..100], 0), (&buffer[512..512 + 4096], 0)] {
            let error = require_aligned(bytes, offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
