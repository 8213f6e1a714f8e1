//! Fetching parts of a page into the processor's cache ahead of their use.

use super::{Aim, PageRef};

impl PageRef<'_> {
    /// Fetches `lines` lines from `start` on into the first cache: best for what is read next.
    #[inline(always)]
    pub(crate) fn prefetch_at(start: *const u8, lines: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in 0..lines {
            let at = start.wrapping_add(line * 64).cast();
            // SAFETY: a prefetch never faults.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (start, lines);
    }

    /// Like `prefetch_at`, into the second cache: best for more lines than the first can have in flight.
    #[inline(always)]
    pub(crate) fn prefetch_far_at(start: *const u8, lines: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in 0..lines {
            let at = start.wrapping_add(line * 64).cast();
            // SAFETY: as above.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (start, lines);
    }

    /// Fetches the heads. In an inner page tallies and children precede them, so that they are far from the header.
    #[inline(always)]
    pub(crate) fn prefetch_heads(&self) {
        Self::prefetch_at(self.start().wrapping_add(self.heads_at()), (4 * self.count()).div_ceil(64));
    }

    /// Fetches the hole that the next record may go to.
    #[inline(always)]
    pub(crate) fn prefetch_hole(&self) {
        Self::prefetch_at(self.start().wrapping_add(self.hole()), 1);
    }

    /// Fetches the slot of the record that decides a search.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, aim: Aim) {
        if aim.open {
            Self::prefetch_at(self.start().wrapping_add(self.slots_at() + 2 * aim.position), 1);
        }
    }

    /// Fetches the record that decides a search, whose slot is already fetched.
    #[inline(always)]
    pub(crate) fn prefetch_aim(&self, aim: Aim) {
        if aim.open {
            self.prefetch_record(aim.position);
        }
    }

    /// Fetches the record at `position` ahead of its use.
    #[inline(always)]
    pub(crate) fn prefetch_record(&self, position: usize) {
        if position < self.count() {
            Self::prefetch_at(self.start().wrapping_add(self.slot(position)), 1);
        }
    }
}
