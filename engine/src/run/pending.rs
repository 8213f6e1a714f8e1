//! One page under construction: entries are collected, and written as a unit when the page is full.
//!
//! Invariant: the planned bytes are an upper bound of the written ones, so a page planned to fit fits.
//!
//! Costs: one copy of each entry; adding one looks at its key and that of the first entry.
//! Not here: which page an entry belongs to (`writer`).

use super::format::Pointer;
use super::output::Output;
use crate::error::Result;
use crate::io::AlignedBuffer;
use crate::page::{
    Builder, HEADER_BYTES, KIND_INNER, KIND_LEAF, NewRecord, POINTER_ARRAYS, array_bytes, common_prefix_len, new_page,
    padded, prefix_max, record,
};
use crate::tally::{Measures, Tally};

/// Long keys of one unit take at most so many times the size of a page, if there is a choice.
const LONG_KEY_PAGES: usize = 3;

/// What an entry adds beside its key.
pub(super) enum Entry<'a> {
    /// A row: its value or the reference to it, and its tally.
    Row { value: &'a [u8], value_is_out: bool, tally: Tally },
    /// A child and the tally of all rows before it.
    Child { pointer: Pointer, before: Tally },
}

/// Entries of a page to be.
pub(super) struct PendingPage {
    level: usize,
    page_bytes: usize,
    measures: Measures,
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    entries: Vec<Collected>,
    plan: Plan,
}

struct Collected {
    key_end: usize,
    value_end: usize,
    flags: u8,
    /// Of a row its own, of a child that of all rows before it.
    tally: Tally,
    pointer: Pointer,
}

/// How large the page would be.
#[derive(Clone, Copy)]
struct Plan {
    /// Records without prefix and weights, and their part of the arrays.
    entry_bytes: usize,
    entries: usize,
    /// Keys, minus infinity not counted, and how many bytes at their start are the same in all.
    keys: usize,
    shared_len: usize,
    /// Keys within the page, and the length of the shortest.
    short_keys: usize,
    short_key_len_min: usize,
    long_key_bytes: usize,
    has_value_out: bool,
}

impl Plan {
    const EMPTY: Plan = Plan {
        entry_bytes: 0,
        entries: 0,
        keys: 0,
        shared_len: 0,
        short_keys: 0,
        short_key_len_min: usize::MAX,
        long_key_bytes: 0,
        has_value_out: false,
    };

    fn prefix_len(&self, page_bytes: usize) -> usize {
        // A page of one entry would have its whole key as prefix.
        if self.keys < 2 { 0 } else { self.shared_len.min(prefix_max(page_bytes)) }
    }
}

impl PendingPage {
    pub(super) fn new(level: usize, page_bytes: usize, measures: Measures) -> PendingPage {
        PendingPage { level, page_bytes, measures, bytes: Vec::new(), entries: Vec::new(), plan: Plan::EMPTY }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Keys and values above this length do not stand within a page of `page_bytes`; as in memory.
    pub(super) fn inline_max(page_bytes: usize) -> usize {
        page_bytes / 10
    }

    fn kind(&self) -> u8 {
        if self.level == 0 { KIND_LEAF } else { KIND_INNER }
    }

    fn arrays(&self) -> usize {
        if self.level == 0 { 0 } else { self.measures.len() + POINTER_ARRAYS }
    }

    /// The first key, minus infinity not counted.
    fn first_key(&self) -> &[u8] {
        // Minus infinity, if it is there, takes no bytes, so the first bytes are the first real key.
        match self.entries.get(usize::from(self.has_open_low())) {
            Some(first) => &self.bytes[..first.key_end],
            None => &[],
        }
    }

    /// Whether the first child has no key: that of the first page of each inner level.
    fn has_open_low(&self) -> bool {
        self.plan.keys < self.plan.entries
    }

    fn flags_of(&self, key: Option<&[u8]>, value_is_out: bool) -> u8 {
        let key_is_out = key.is_some_and(|key| key.len() > Self::inline_max(self.page_bytes));
        record::FRESH | if key_is_out { record::KEY_OUT } else { 0 } | if value_is_out { record::VALUE_OUT } else { 0 }
    }

    /// The plan with one more entry, whose value (or reference) has `value_len` bytes; `None` for minus infinity.
    fn plan_with(&self, key: Option<&[u8]>, value_len: usize, value_is_out: bool) -> Plan {
        let mut plan = self.plan;
        plan.entries += 1;
        plan.entry_bytes += array_bytes(self.kind(), self.arrays());
        plan.has_value_out |= value_is_out;
        let Some(key) = key else {
            plan.entry_bytes += 2;
            return plan;
        };
        let flags = self.flags_of(Some(key), value_is_out);
        let new = NewRecord { flags, key, key_handle: 0, weights: &[], value: &[] };
        plan.entry_bytes += new.len(self.kind(), 0) + value_len + usize::from(value_len > 255);
        if flags & record::KEY_OUT != 0 {
            plan.long_key_bytes += key.len();
        } else {
            plan.short_keys += 1;
            plan.short_key_len_min = plan.short_key_len_min.min(key.len());
        }
        plan.shared_len =
            if plan.keys == 0 { key.len() } else { common_prefix_len(&self.first_key()[..plan.shared_len], key) };
        plan.keys += 1;
        plan
    }

    fn weight_bytes(&self, plan: &Plan) -> usize {
        let is_weighted = self.level == 0 && plan.has_value_out;
        if is_weighted { 8 * (self.measures.len() - 1) } else { 0 }
    }

    /// Whether one more entry fits beside those that are there.
    pub(super) fn fits(&self, key: &[u8], value_len: usize, value_is_out: bool) -> bool {
        let plan = self.plan_with(Some(key), value_len, value_is_out);
        let prefix_len = plan.prefix_len(self.page_bytes);
        // What a prefix takes from every key within the page, whose first four bytes in any case stand outside of the record.
        let cut_bytes = prefix_len.min(plan.short_key_len_min.saturating_sub(4)) * plan.short_keys;
        let weights_bytes = self.weight_bytes(&plan) * plan.entries;
        let used = HEADER_BYTES + padded(prefix_len) + plan.entry_bytes + weights_bytes - cut_bytes;
        used <= self.page_bytes && plan.long_key_bytes <= LONG_KEY_PAGES * self.page_bytes
    }

    /// Appends an entry; `None` for minus infinity, which only the first child can be.
    pub(super) fn push(&mut self, key: Option<&[u8]>, entry: &Entry<'_>) {
        let (value, value_is_out, tally, pointer) = match *entry {
            Entry::Row { value, value_is_out, tally } => (value, value_is_out, tally, Pointer::default()),
            Entry::Child { pointer, before } => (&[][..], false, before, pointer),
        };
        self.plan = self.plan_with(key, value.len(), value_is_out);
        let flags = self.flags_of(key, value_is_out);
        self.bytes.extend_from_slice(key.unwrap_or(&[]));
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let value_end = self.bytes.len();
        self.entries.push(Collected { key_end, value_end, flags, tally, pointer });
    }

    /// The key of the last entry.
    pub(super) fn last_key(&self) -> &[u8] {
        let Some((last, before)) = self.entries.split_last() else {
            return &[];
        };
        let start = before.last().map_or(0, |entry| entry.value_end);
        &self.bytes[start..last.key_end]
    }

    /// The tally of all rows before the first child.
    pub(super) fn tally_before(&self) -> Tally {
        self.entries.first().map_or(Tally::ZERO, |entry| entry.tally)
    }

    /// The pointer to the first child.
    pub(super) fn first_child(&self) -> Pointer {
        self.entries.first().map_or(Pointer::default(), |entry| entry.pointer)
    }

    /// Writes the unit and begins another page. `scratch` holds a page of any size.
    pub(super) fn write(&mut self, scratch: &mut AlignedBuffer, output: &mut Output) -> Result<Pointer> {
        let kind = self.kind();
        let weight_bytes = self.weight_bytes(&self.plan);
        let open_low = self.has_open_low();
        let prefix_len = self.plan.prefix_len(self.page_bytes);
        let page_bytes = self.exact_bytes(prefix_len, weight_bytes);
        scratch.resize(page_bytes);
        let page = new_page(scratch, kind, self.level, self.arrays(), weight_bytes);
        let mut builder = Builder::new(page, &self.first_key()[..prefix_len], self.entries.len());
        let mut long_keys_end = page_bytes as u64;
        let mut weights = Vec::with_capacity(weight_bytes);
        let mut arrays = Vec::with_capacity(self.arrays());
        for (position, (key, value, entry)) in self.iter().enumerate() {
            let mut new = NewRecord { flags: entry.flags, key, key_handle: 0, weights: &[], value };
            if entry.flags & record::KEY_OUT != 0 {
                new.key_handle = long_keys_end | (key.len() as u64) << 32;
                long_keys_end += key.len() as u64;
            }
            if kind == KIND_LEAF {
                weights.clear();
                for index in 1..1 + weight_bytes / 8 {
                    let amount = entry.tally.measure(&self.measures, index);
                    weights.extend_from_slice(&amount.to_le_bytes());
                }
                new.weights = &weights;
                builder.push_new(&new);
            } else {
                let pointer = &entry.pointer;
                arrays.clear();
                arrays.extend((0..self.measures.len()).map(|index| entry.tally.measure(&self.measures, index)));
                arrays.push(pointer.offset as i64);
                arrays.push((u64::from(pointer.length) | u64::from(pointer.checksum) << 32) as i64);
                builder.push_child(&new, open_low && position == 0, pointer.page_bytes, &arrays);
            }
        }
        builder.finish();
        let offset = output.position();
        let mut checksum = output.write(scratch, 0)?;
        for (key, _, entry) in self.iter() {
            if entry.flags & record::KEY_OUT != 0 {
                checksum = output.write(key, checksum)?;
            }
        }
        checksum = output.align(checksum)?;
        let length = (output.position() - offset) as u32;
        self.bytes.clear();
        self.entries.clear();
        self.plan = Plan::EMPTY;
        Ok(Pointer { offset, length, checksum, page_bytes: page_bytes as u32 })
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
        let kind = self.kind();
        let open_low = self.has_open_low();
        let entries = self.iter().enumerate().map(|(position, (key, value, entry))| {
            if open_low && position == 0 {
                return 2;
            }
            let new = NewRecord { flags: entry.flags, key, key_handle: 0, weights: &[], value };
            new.len(kind, prefix_len) + weight_bytes
        });
        let arrays = self.entries.len() * array_bytes(kind, self.arrays());
        HEADER_BYTES + padded(prefix_len) + arrays + entries.sum::<usize>()
    }
}
