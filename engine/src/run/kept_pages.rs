//! Inner pages and filters that stay with their file once read, so that descents bypass the cache.
//!
//! A page in the cache takes a lock and a reference count; a kept one takes a look at one cache line.
//!
//! Invariants:
//! 1. A page is kept only while all files together keep at most a quarter of the bytes of the cache, including the
//!    pinned tier; this leaves less for other pages. Pages that find no room are cached and evicted like others.
//! 2. A kept page stays as long as the file is open: so readers borrow it.
//! 3. A slot is filled once. So a page is in the first of its slots that was free when it came, and a search ends at
//!    the first free slot.
//!
//! Cost: a slot of 48 bytes for each page, and about as many free ones.
//! Not here: roots, which are always kept (`file`); pages that were asked to stay (`pinned_pages`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::RunInfo;
use super::loaded::Loaded;
use super::pinned_pages::Tier;
use crate::page::PageRef;

/// Longer pages are not kept: those of flat indexes are as long as the run has leaves.
pub(super) const KEPT_BYTES_MAX: usize = 64 << 10;
/// The part of the cache's bytes that may be kept, as a divisor.
const SHARE: u64 = 4;
/// The number of neighbouring slots that may hold a page.
const PROBES: usize = 16;
/// About the bytes of a leaf in its node, and the bits of an entry in its filter.
const NODE_BYTES_A_LEAF: u64 = 16;
const FILTER_BITS_AN_ENTRY: u64 = 11;

type Slot = OnceLock<(u64, Loaded)>;

const _: () = assert!(size_of::<Slot>() <= 48);

/// The pages that a file keeps.
#[derive(Default)]
pub(crate) struct KeptPages {
    /// Made when the first page comes for which there is room.
    slots: OnceLock<Slots>,
}

struct Slots {
    /// Their number is a power of two.
    slots: Box<[Slot]>,
    /// Bytes taken from the tier.
    bytes: AtomicU64,
    tier: Arc<Tier>,
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.tier.give(*self.bytes.get_mut());
    }
}

impl Slots {
    /// Slots for the index of a file, if `most` bytes leave room for them.
    fn new(info: &RunInfo, tier: &Arc<Tier>, most: u64) -> Option<Slots> {
        let page_bytes = info.page_bytes as u64;
        let node_bytes = info.bytes / page_bytes * NODE_BYTES_A_LEAF;
        let filter_bytes = info.total.entries as u64 / 8 * FILTER_BITS_AN_ENTRY;
        let pages = ((node_bytes + filter_bytes).min(most) / page_bytes) as usize;
        let count = (pages + pages / 2).max(PROBES).next_power_of_two();
        let bytes = (count * size_of::<Slot>()) as u64;
        tier.take(bytes, most).then(|| Slots {
            slots: (0..count).map(|_| Slot::new()).collect(),
            bytes: AtomicU64::new(bytes),
            tier: tier.clone(),
        })
    }

    /// The slots that the page at `offset` may have, in their order.
    #[inline]
    fn of(&self, offset: u64) -> impl Iterator<Item = &Slot> {
        // The bits of the golden ratio: products with it spread multiples of a page size.
        let hash = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mask = self.slots.len() - 1;
        let first = (hash >> 32) as usize;
        (first..first + PROBES).map(move |number| &self.slots[number & mask])
    }

    #[inline]
    fn get(&self, offset: u64) -> Option<&Loaded> {
        for slot in self.of(offset) {
            let (other, page) = slot.get()?;
            if *other == offset {
                return Some(page);
            }
        }
        None
    }

    /// Keeps `page`; returns it if there is no room.
    fn insert(&self, offset: u64, page: Loaded, most: u64) -> Option<Loaded> {
        let bytes = page.bytes() as u64;
        if !self.tier.take(bytes, most) {
            return Some(page);
        }
        let mut coming = (offset, page);
        for slot in self.of(offset) {
            let Err(back) = slot.set(coming) else {
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                return None;
            };
            if slot.get().is_some_and(|(other, _)| *other == offset) {
                // Another reader was first.
                self.tier.give(bytes);
                return None;
            }
            coming = back;
        }
        self.tier.give(bytes);
        Some(coming.1)
    }
}

impl KeptPages {
    /// Keeps the inner page or filter at `offset` if a cache of `cache_bytes` leaves room for it; otherwise returns it.
    /// `tier` counts what runs hold.
    pub(crate) fn keep(
        &self,
        info: &RunInfo,
        offset: u64,
        page: Loaded,
        tier: &Arc<Tier>,
        cache_bytes: u64,
    ) -> Option<Loaded> {
        let most = cache_bytes / SHARE;
        if page.bytes() > KEPT_BYTES_MAX {
            return Some(page);
        }
        let kept = &self.slots;
        let slots = match kept.get() {
            Some(slots) => slots,
            None => match Slots::new(info, tier, most) {
                Some(made) => kept.get_or_init(|| made),
                None => return Some(page),
            },
        };
        slots.insert(offset, page, most)
    }

    /// Fetches the likeliest slot of the page at `offset` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, offset: u64) {
        if let Some(slot) = self.slots.get().and_then(|slots| slots.of(offset).next()) {
            PageRef::prefetch_at(std::ptr::from_ref(slot).cast(), 2);
        }
    }

    /// The page at `offset` of the file, if it is kept.
    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Option<&Loaded> {
        self.slots.get()?.get(offset)
    }
}
