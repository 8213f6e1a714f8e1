//! Builds a page from entries of other pages: splits, merges, borrowing and prefix changes all use it.

use super::{
    HEADER_BYTES, KIND_LEAF, KeyBuffer, NewRecord, PageMut, PageRef, array_bytes, common_prefix_len, padded,
    prefix_max, record,
};

/// The source of an entry of a new page.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) page: PageRef<'a>,
    pub(crate) position: usize,
}

impl Source<'_> {
    fn is_open_low(&self) -> bool {
        self.position == 0 && !self.page.is_leaf() && self.page.open_low()
    }

    /// Bytes that the entry takes in a page whose prefix has `prefix_len` bytes, arrays included.
    #[inline]
    pub(crate) fn bytes(&self, prefix_len: usize) -> usize {
        let kind = self.page.kind();
        let arrays = array_bytes(kind, self.page.measures());
        if self.is_open_low() {
            return arrays + 2;
        }
        let found = self.page.record(self.position);
        if found.key_is_out() || self.page.prefix_len() == prefix_len {
            return arrays + found.len;
        }
        let rest_len = self.page.prefix_len() + found.rest_len - prefix_len;
        let old_key_bytes = 1 + usize::from(found.rest_len > 255) + found.tail.len();
        arrays + found.len - old_key_bytes + 1 + usize::from(rest_len > 255) + rest_len.saturating_sub(4)
    }
}

/// The prefix to remove from the keys of a page with these entries, in order.
pub(crate) fn plan_prefix(sources: &[Source<'_>], page_bytes: usize) -> KeyBuffer {
    let skip = usize::from(sources.first().is_some_and(Source::is_open_low));
    let (Some(first), Some(last)) = (sources.get(skip), sources.last()) else {
        return KeyBuffer::new();
    };
    if sources.len() - skip < 2 {
        // A page of one entry would have its whole key as prefix, and lose it at the next insert.
        return KeyBuffer::new();
    }
    let mut key = first.page.key(first.position);
    let len = common_prefix_len(&key, &last.page.key(last.position)).min(prefix_max(page_bytes));
    key.truncate(len);
    key
}

/// Bytes of a page with these entries and that prefix.
pub(crate) fn page_bytes_of(sources: &[Source<'_>], prefix_len: usize) -> usize {
    HEADER_BYTES + padded(prefix_len) + sources.iter().map(|source| source.bytes(prefix_len)).sum::<usize>()
}

/// Fills one page with a known number of entries.
pub(crate) struct Builder<'a> {
    page: PageMut<'a>,
    next: usize,
}

impl<'a> Builder<'a> {
    /// Starts filling `page`, which is freshly initialised, with `count` entries.
    pub(crate) fn new(mut page: PageMut<'a>, prefix: &[u8], count: usize) -> Self {
        page.set_prefix(prefix);
        page.set_count(count);
        Builder { page, next: 0 }
    }

    /// Whether `sources` fit a page of `page_bytes` with that prefix.
    pub(crate) fn fits(sources: &[Source<'_>], prefix_len: usize, page_bytes: usize) -> bool {
        page_bytes_of(sources, prefix_len) <= page_bytes
    }

    /// Appends one entry of another page; for an inner page, with its child and tallies.
    pub(crate) fn push(&mut self, source: Source<'_>) {
        let Source { page: from, position } = source;
        let at = self.next;
        self.next += 1;
        if source.is_open_low() {
            debug_assert_eq!(at, 0);
            self.page.set_open_low();
            let none = NewRecord { flags: 0, key: &[], key_handle: 0, weights: &[], value: &[] };
            self.page.place(at, &none, true);
        } else if from.prefix_len() == self.page.prefix_len() {
            self.page.place_copies(at, &from, position, &[from.record(position).len as u16]);
        } else {
            let found = from.record(position);
            let mut key = KeyBuffer::new();
            from.record_key_into(&found, position, &mut key);
            let key_handle =
                if found.key_is_out() { u64::from_le_bytes(found.tail.try_into().expect("a handle")) } else { 0 };
            let keep = record::STATE | record::KEY_OUT | record::VALUE_OUT;
            let new = NewRecord {
                flags: found.flags & keep,
                key: &key,
                key_handle,
                weights: found.weights,
                value: found.value,
            };
            self.page.place(at, &new, false);
        }
        if from.kind() != KIND_LEAF {
            self.page.set_child(at, from.child(position));
            for measure in 0..from.measures() {
                self.page.set_tally(measure, at, from.tallies(measure)[position]);
            }
        }
    }

    /// Appends neighbouring entries of one leaf, whose records have these lengths.
    pub(crate) fn push_leaf_run(&mut self, from: PageRef<'_>, position: usize, lens: &[u16]) {
        if from.prefix_len() == self.page.prefix_len() {
            self.page.place_copies(self.next, &from, position, lens);
            self.next += lens.len();
        } else {
            (position..position + lens.len()).for_each(|position| self.push(Source { page: from, position }));
        }
    }

    /// Appends a new entry to a leaf.
    pub(crate) fn push_new(&mut self, new: &NewRecord<'_>) {
        let at = self.next;
        self.next += 1;
        self.page.place(at, new, false);
    }

    /// Appends a new entry to an inner page. `open_low` makes it minus infinity, which only the first can be.
    pub(crate) fn push_child(&mut self, new: &NewRecord<'_>, open_low: bool, child: u32, tallies: &[i64]) {
        let at = self.next;
        self.next += 1;
        if open_low {
            self.page.set_open_low();
        }
        self.page.place(at, new, open_low);
        self.page.set_child(at, child);
        for (measure, &amount) in tallies.iter().enumerate() {
            self.page.set_tally(measure, at, amount);
        }
    }

    /// The page, complete.
    pub(crate) fn finish(self) -> PageMut<'a> {
        assert_eq!(self.next, self.page.count(), "a page under construction has the entries it was planned for");
        self.page
    }
}
