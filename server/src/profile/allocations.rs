//! An allocator that can be sampled.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::stacks;

/// Bytes that a thread allocates from one sample to the next.
const STEP_BYTES: usize = 256 << 10;

static IS_SAMPLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Bytes since the last sample.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn set_sampled(is_sampled: bool) {
    IS_SAMPLED.store(is_sampled, Ordering::Relaxed);
}

/// The system's allocator, whose callers can be profiled: `#[global_allocator] static ALLOCATOR: Sampling = Sampling;`.
/// Costs a relaxed load an allocation while none is taken.
#[derive(Clone, Copy, Debug)]
pub struct Sampling;

#[inline]
fn note(bytes: usize) {
    if IS_SAMPLED.load(Ordering::Relaxed) {
        sample(bytes);
    }
}

#[cold]
fn sample(bytes: usize) {
    // A thread that ends has no counter any more.
    let _ = BYTES.try_with(|counter| {
        let sum = counter.get() + bytes;
        counter.set(sum % STEP_BYTES);
        if sum >= STEP_BYTES {
            stacks::record((sum - sum % STEP_BYTES) as u64);
        }
    });
}

// SAFETY: each call is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Sampling {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes.saturating_sub(layout.size()));
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
