//! One leaf under construction: collects entries and writes them as a unit when the page is full.
//!
//! Invariant: the planned bytes are an upper bound of the written ones, so a page planned to fit fits.
//!
//! Cost: one copy of each entry; adding one compares its key with that of the first entry.
//! Not here: which page an entry belongs to (`writer`), inner pages (`node`).

use super::format::Pointer;
use super::output::Output;
use super::packed;
use crate::compression::Packer;
use crate::error::Result;
use crate::io::AlignedBuffer;
use crate::page::{
    Builder, HEADER_BYTES, KIND_LEAF, NewRecord, UNIT_ALIGNMENT_BYTES, array_bytes, common_prefix_len, new_leaf,
    padded, prefix_max, record,
};
use crate::tally::{Measures, Tally};

/// Long keys of one unit take at most this many times the size of a page, if there is a choice.
pub(super) const LONG_KEY_PAGES: usize = 3;

/// An entry without its key.
#[derive(Clone, Copy)]
pub(super) struct LeafEntry<'a> {
    /// [`record::FRESH`] or another state.
    pub(crate) state: u8,
    /// The value or the reference to it; empty for a tombstone.
    pub(crate) value: &'a [u8],
    pub(crate) value_is_out: bool,
    pub(crate) weight: Tally,
}

/// The entries of a leaf under construction.
pub(super) struct PendingLeaf {
    page_bytes: usize,
    measures: Measures,
    is_bottom: bool,
    /// Keys and values, concatenated.
    bytes: Vec<u8>,
    entries: Vec<Collected>,
    plan: Plan,
}

struct Collected {
    key_end: usize,
    value_end: usize,
    flags: u8,
    weight: Tally,
}

/// The planned size of the page.
#[derive(Clone, Copy)]
struct Plan {
    /// Records without prefix and weights, and their part of the arrays.
    entry_bytes: usize,
    entries: usize,
    /// How many bytes at the start of all keys are the same.
    shared_len: usize,
    /// The number of keys within the page, and the length of the shortest.
    short_keys: usize,
    short_key_len_min: usize,
    long_key_bytes: usize,
    has_value_out: bool,
}

impl Plan {
    const EMPTY: Plan = Plan {
        entry_bytes: 0,
        entries: 0,
        shared_len: 0,
        short_keys: 0,
        short_key_len_min: usize::MAX,
        long_key_bytes: 0,
        has_value_out: false,
    };

    fn prefix_len(&self, page_bytes: usize) -> usize {
        // A page of one entry would have its whole key as prefix.
        if self.entries < 2 { 0 } else { self.shared_len.min(prefix_max(page_bytes)) }
    }
}

impl PendingLeaf {
    pub(crate) fn new(page_bytes: usize, measures: Measures, is_bottom: bool) -> PendingLeaf {
        PendingLeaf { page_bytes, measures, is_bottom, bytes: Vec::new(), entries: Vec::new(), plan: Plan::EMPTY }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The longest keys and values stored within a page of `page_bytes`, as in memory.
    pub(super) fn inline_max(page_bytes: usize) -> usize {
        page_bytes / 10
    }

    fn first_key(&self) -> &[u8] {
        self.entries.first().map_or(&[], |first| &self.bytes[..first.key_end])
    }

    fn flags_of(&self, key: &[u8], entry: &LeafEntry<'_>) -> u8 {
        let key_out = if key.len() > Self::inline_max(self.page_bytes) { record::KEY_OUT } else { 0 };
        let value_out = if entry.value_is_out { record::VALUE_OUT } else { 0 };
        entry.state | key_out | value_out
    }

    /// The plan with one more entry, whose value (or reference) has `value_len` bytes.
    fn plan_with(&self, key: &[u8], value_len: usize, value_is_out: bool) -> Plan {
        let mut plan = self.plan;
        plan.entry_bytes += array_bytes(KIND_LEAF, 0);
        plan.has_value_out |= value_is_out;
        let flags = self.flags_of(key, &LeafEntry { state: 0, value: &[], value_is_out, weight: Tally::ZERO });
        let new = NewRecord { flags, key, key_handle: 0, weights: &[], value: &[] };
        plan.entry_bytes += new.len(KIND_LEAF, 0) + value_len + usize::from(value_len > 255);
        if flags & record::KEY_OUT != 0 {
            plan.long_key_bytes += key.len();
        } else {
            plan.short_keys += 1;
            plan.short_key_len_min = plan.short_key_len_min.min(key.len());
        }
        plan.shared_len =
            if plan.entries == 0 { key.len() } else { common_prefix_len(&self.first_key()[..plan.shared_len], key) };
        plan.entries += 1;
        plan
    }

    fn weight_bytes(&self, plan: &Plan) -> usize {
        if !self.is_bottom || plan.has_value_out { 8 * (self.measures.len() - 1) } else { 0 }
    }

    /// Whether one more entry fits.
    pub(crate) fn fits(&self, key: &[u8], value_len: usize, value_is_out: bool) -> bool {
        let plan = self.plan_with(key, value_len, value_is_out);
        let prefix_len = plan.prefix_len(self.page_bytes);
        // What a prefix saves of every key within the page. The first four bytes of a key always stand outside of the
        // record.
        let cut_bytes = prefix_len.min(plan.short_key_len_min.saturating_sub(4)) * plan.short_keys;
        let weights_bytes = self.weight_bytes(&plan) * plan.entries;
        let used = HEADER_BYTES + padded(prefix_len) + plan.entry_bytes + weights_bytes - cut_bytes;
        used <= self.page_bytes && plan.long_key_bytes <= LONG_KEY_PAGES * self.page_bytes
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, key: &[u8], entry: &LeafEntry<'_>) {
        self.plan = self.plan_with(key, entry.value.len(), entry.value_is_out);
        let flags = self.flags_of(key, entry);
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        let value_end = self.bytes.len();
        self.entries.push(Collected { key_end, value_end, flags, weight: entry.weight });
    }

    /// The key of the last entry.
    pub(crate) fn last_key(&self) -> &[u8] {
        let Some((last, before)) = self.entries.split_last() else {
            return &[];
        };
        let start = before.last().map_or(0, |entry| entry.value_end);
        &self.bytes[start..last.key_end]
    }

    /// Writes the unit, packed if there is a packer and it pays, and begins another page. `scratch` has room for a page
    /// of any size. Returns the pointer, and how many bytes packing has saved.
    pub(crate) fn write(
        &mut self,
        scratch: &mut AlignedBuffer,
        packer: Option<&mut Packer>,
        output: &mut Output,
    ) -> Result<(Pointer, u64)> {
        let weight_bytes = self.weight_bytes(&self.plan);
        let prefix_len = self.plan.prefix_len(self.page_bytes);
        let page_bytes = self.exact_bytes(prefix_len, weight_bytes);
        scratch.resize(page_bytes);
        let page = new_leaf(scratch, weight_bytes);
        let mut builder = Builder::new(page, &self.first_key()[..prefix_len], self.entries.len());
        let mut long_keys_end = page_bytes as u64;
        let mut weights = Vec::with_capacity(weight_bytes);
        for (key, value, entry) in self.iter() {
            let mut new = NewRecord { flags: entry.flags, key, key_handle: 0, weights: &[], value };
            if entry.flags & record::KEY_OUT != 0 {
                new.key_handle = long_keys_end | (key.len() as u64) << 32;
                long_keys_end += key.len() as u64;
            }
            weights.clear();
            for index in 1..1 + weight_bytes / 8 {
                let amount = entry.weight.measure(&self.measures, index);
                weights.extend_from_slice(&amount.to_le_bytes());
            }
            new.weights = &weights;
            builder.push_new(&new);
        }
        builder.finish();
        let offset = output.position();
        let plain_bytes = (long_keys_end as usize).next_multiple_of(UNIT_ALIGNMENT_BYTES);
        let packer = packer.filter(|_| plain_bytes <= packed::plain_bytes_max(self.page_bytes));
        let packed = packer.and_then(|packer| {
            let mut unit = Vec::with_capacity(plain_bytes);
            unit.extend_from_slice(scratch);
            self.long_keys().for_each(|key| unit.extend_from_slice(key));
            unit.resize(plain_bytes, 0);
            packer.pack(&unit, packed::HEADER_BYTES + UNIT_ALIGNMENT_BYTES)
        });
        let mut checksum;
        if let Some(block) = packed {
            checksum = output.write(&packed::header(plain_bytes, block.len()), 0)?;
            checksum = output.write(block, checksum)?;
        } else {
            checksum = output.write(scratch, 0)?;
            for key in self.long_keys() {
                checksum = output.write(key, checksum)?;
            }
        }
        checksum = output.align(checksum)?;
        let length = (output.position() - offset) as u32;
        self.bytes.clear();
        self.entries.clear();
        self.plan = Plan::EMPTY;
        Ok((Pointer { offset, length, checksum }, plain_bytes as u64 - u64::from(length)))
    }

    /// The keys that stand after the page.
    fn long_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(|(.., entry)| entry.flags & record::KEY_OUT != 0).map(|(key, ..)| key)
    }

    /// Keys, values and the rest of all entries.
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], &Collected)> {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let key = &self.bytes[start..entry.key_end];
            start = entry.value_end;
            (key, &self.bytes[entry.key_end..entry.value_end], entry)
        })
    }

    fn exact_bytes(&self, prefix_len: usize, weight_bytes: usize) -> usize {
        let entries = self.iter().map(|(key, value, entry)| {
            let new = NewRecord { flags: entry.flags, key, key_handle: 0, weights: &[], value };
            new.len(KIND_LEAF, prefix_len) + weight_bytes
        });
        let arrays = self.entries.len() * array_bytes(KIND_LEAF, 0);
        HEADER_BYTES + padded(prefix_len) + arrays + entries.sum::<usize>()
    }
}
