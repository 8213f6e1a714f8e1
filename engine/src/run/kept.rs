//! Inner pages and filters that stay with their file once a reader has loaded them, so that the way to a leaf is not through the cache: an upper page is a look into one
//! line of memory there, without a lock, and without a count of who holds it.
//!
//! Invariants:
//! 1. A page comes to stay only while all files together keep no more than a quarter of the bytes of the cache, what else is in the resident tier counted; other pages then have less. What
//!    finds no room is cached and evicted like others.
//! 2. A page that is kept stays as long as the file is open: so readers borrow it.
//! 3. A slot is filled once. So a page is in the first of its slots that was free when it came, and no slot behind a free one need be looked at.
//!
//! Costs: a slot of 48 bytes for each page, and about as many free ones.
//! Not here: roots, which are kept whatever the room (`file`); pages that were asked to stay (`resident`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::RunInfo;
use super::file::{Loaded, RunFile};
use super::resident::Tier;
use crate::page::PageRef;

/// Longer ones are not kept: those of flat indexes are as long as the run has leaves.
pub(super) const KEPT_BYTES_MAX: usize = 64 << 10;
/// Of the bytes of the cache.
const SHARE: u64 = 4;
/// So many neighbouring slots may have a page.
const PROBES: usize = 16;
/// About the bytes that a leaf takes in its node, and the bits that an entry takes in its filter.
const NODE_BYTES_A_LEAF: u64 = 16;
const FILTER_BITS_AN_ENTRY: u64 = 11;

type Slot = OnceLock<(u64, Loaded)>;

const _: () = assert!(size_of::<Slot>() <= 48);

/// The pages that a file keeps.
#[derive(Default)]
pub(super) struct KeptPages {
    /// Made when the first one comes for which there is room.
    slots: OnceLock<Slots>,
}

struct Slots {
    /// A power of two of them.
    slots: Box<[Slot]>,
    /// Bytes that were taken of the tier.
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

    /// The slots that what stands at `offset` may have, in their order.
    #[inline]
    fn of(&self, offset: u64) -> impl Iterator<Item = &Slot> {
        // The golden ratio's bits, whose products spread what is a multiple of some page size.
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

    /// Keeps `page`; gives it back if there is no room.
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
    /// Fetches the slot that what stands at `offset` is likely to have into the processor's cache.
    #[inline]
    pub(super) fn prefetch(&self, offset: u64) {
        if let Some(slot) = self.slots.get().and_then(|slots| slots.of(offset).next()) {
            PageRef::prefetch_at(std::ptr::from_ref(slot).cast(), 2);
        }
    }

    /// What stands at `offset` of the file, if it is kept.
    #[inline]
    pub(super) fn get(&self, offset: u64) -> Option<&Loaded> {
        self.slots.get()?.get(offset)
    }
}

impl RunFile {
    /// Keeps the inner page or filter at `offset` if a cache of so many bytes, of which `tier` says what runs hold, leaves room for it; else gives it back.
    pub(super) fn keep(&self, offset: u64, page: Loaded, tier: &Arc<Tier>, cache_bytes: u64) -> Option<Loaded> {
        let most = cache_bytes / SHARE;
        if page.bytes() > KEPT_BYTES_MAX {
            return Some(page);
        }
        let kept = &self.kept().slots;
        let slots = match kept.get() {
            Some(slots) => slots,
            None => match Slots::new(self.info(), tier, most) {
                Some(made) => kept.get_or_init(|| made),
                None => return Some(page),
            },
        };
        slots.insert(offset, page, most)
    }
}
