//! Excisions: ranges of keys whose entries were erased from a file that cannot change.
//!
//! ```text
//! entries of the file   0 1 2 | 3 4 5 6 | 7 8 9      the excision of 3 to 6 has the sums before entry 3 and before entry 7
//! what is left          0 1 2             3 4 5
//! ```
//!
//! Invariants:
//! 1. The excisions of a file ascend by key and by position. Each has at least one entry of the file, and at least one
//!    that is left lies between two of them.
//! 2. The sums that an excision has are those of the file, as if nothing had been erased from it. So it stays true
//!    whatever is erased later, and where the file stands in its run does not matter.
//! 3. A cut within an excision, or at one of its keys, has before it what is left before the excision: this is known
//!    without a page.
//!
//! Cost: a search among the excisions of one file; nothing for a file without any. Not here: finding the sums at a key
//! (`without_ranges`), and when ranges are excised (`write/removal_commit`).

use std::ops::{Add, Range, Sub};

use super::format::Sums;
use crate::page::KeyBuffer;
use crate::tree::Side;

/// What a file has before a cut: the sums of its entries, and its bytes. Those of a leaf are spread evenly over its
/// entries; those of inner pages and filters count with the last leaf before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) sums: Sums,
    pub(crate) bytes: u64,
}

impl Prefix {
    fn entries(&self) -> i64 {
        self.sums.entries
    }
}

impl Add for Prefix {
    type Output = Prefix;

    fn add(self, other: Prefix) -> Prefix {
        Prefix { sums: self.sums + other.sums, bytes: self.bytes.wrapping_add(other.bytes) }
    }
}

impl Sub for Prefix {
    type Output = Prefix;

    fn sub(self, other: Prefix) -> Prefix {
        Prefix { sums: self.sums - other.sums, bytes: self.bytes.wrapping_sub(other.bytes) }
    }
}

/// A range of keys whose entries were erased from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excision {
    /// The first key of the range.
    pub(crate) start: KeyBuffer,
    /// The first key after the range; `None`: it goes on to the end of the file.
    pub(crate) end: Option<KeyBuffer>,
    /// What the file has before `start`.
    pub(crate) before: Prefix,
    /// What it has before `end`.
    pub(crate) through: Prefix,
}

impl Excision {
    fn erased(&self) -> Prefix {
        self.through - self.before
    }

    /// Whether a key at or above its start lies in it.
    #[inline]
    fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| *key < **end)
    }
}

/// What is left before a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// This much: the cut lies in an excision.
    Known(Prefix),
    /// What the file has there, less this much.
    Less(Prefix),
}

impl Left {
    /// How much is left where the file has `prefix`.
    #[inline]
    pub(crate) fn of(self, prefix: Prefix) -> Prefix {
        match self {
            Left::Known(left) => left,
            Left::Less(erased) => prefix - erased,
        }
    }
}

/// The excisions of a file, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excisions {
    list: Vec<Excision>,
    /// For each, what it and those before it have erased.
    erased: Vec<Prefix>,
}

impl Excisions {
    /// The excisions in `list`; `None` if there are none.
    ///
    /// # Errors
    /// What is wrong with them, in a file with these sums.
    pub(crate) fn new(list: Vec<Excision>, total: &Sums) -> Result<Option<Excisions>, &'static str> {
        let mut last: Option<&Excision> = None;
        for excision in &list {
            let Excision { start, end, before, through } = excision;
            let follows = last.is_none_or(|last| {
                last.end.as_ref().is_some_and(|end| **end <= **start) && last.through.entries() < before.entries()
            });
            if !follows || end.as_ref().is_some_and(|end| **end <= **start) {
                return Err("excisions do not ascend");
            }
            let is_possible = before.sums.are_possible()
                && excision.erased().sums.are_possible()
                && (*total - through.sums).are_possible()
                && before.bytes <= through.bytes;
            if !is_possible || before.entries() >= through.entries() {
                return Err("an excision has sums that the file cannot have");
            }
            if end.is_none() && through.sums != *total {
                return Err("an excision to the end of a file does not have the sums of all of it");
            }
            last = Some(excision);
        }
        Ok((!list.is_empty()).then(|| Excisions::of(list)))
    }

    fn of(list: Vec<Excision>) -> Excisions {
        let sum = |sum: &mut Prefix, excision: &Excision| {
            *sum = *sum + excision.erased();
            Some(*sum)
        };
        let erased = list.iter().scan(Prefix::default(), sum).collect();
        Excisions { list, erased }
    }

    /// These and one more, which may overlap them or lie beside them. With `before` and `through` it has the sums of
    /// the file, as invariant 2 says.
    pub(crate) fn with(of: Option<&Excisions>, mut added: Excision) -> Excisions {
        let list = of.map_or(&[][..], |excisions| &excisions.list);
        // Those that nothing left parts from it become one with it.
        let first = list.partition_point(|other| other.through.entries() < added.before.entries());
        let last = list.partition_point(|other| other.before.entries() <= added.through.entries());
        if let [one, .., other] | [one @ other] = &list[first..last] {
            // A key and what the file has before it stay together: the bytes may differ where the entries do not.
            if one.start < added.start {
                (added.start, added.before) = (one.start.clone(), one.before);
            }
            if added.end.as_ref().is_some_and(|end| other.end.as_ref().is_none_or(|other| other > end)) {
                (added.end, added.through) = (other.end.clone(), other.through);
            }
        }
        Excisions::of([&list[..first], &[added], &list[last..]].concat())
    }

    pub(crate) fn as_slice(&self) -> &[Excision] {
        &self.list
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// All that they have erased.
    pub(crate) fn total(&self) -> Prefix {
        self.erased_before(self.len())
    }

    /// What the first excisions have erased.
    fn erased_before(&self, number: usize) -> Prefix {
        number.checked_sub(1).map_or(Prefix::default(), |last| self.erased[last])
    }

    /// What is left before excision `number`.
    fn left_before(&self, number: usize) -> Prefix {
        self.list[number].before - self.erased_before(number)
    }

    /// Whether the entry of `key`, if there is one, was erased.
    #[inline]
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let after = self.list.partition_point(|excision| *excision.start <= *key);
        after > 0 && self.list[after - 1].ends_after(key)
    }

    /// What is left before a cut at a key.
    #[inline]
    pub(crate) fn left_at(&self, key: &[u8], side: Side) -> Left {
        let after = self.list.partition_point(|excision| *excision.start <= *key);
        let Some(last) = after.checked_sub(1) else { return Left::Less(Prefix::default()) };
        let excision = &self.list[last];
        let is_at_end = side == Side::Below && excision.end.as_ref().is_some_and(|end| **end == *key);
        if is_at_end || excision.ends_after(key) {
            return Left::Known(self.left_before(last));
        }
        Left::Less(self.erased[last])
    }

    /// What is left before the entry with `entries` entries of the file before it.
    pub(crate) fn left_at_entry(&self, entries: i64) -> Left {
        let after = self.list.partition_point(|excision| excision.before.entries() <= entries);
        let Some(last) = after.checked_sub(1) else { return Left::Less(Prefix::default()) };
        if entries < self.list[last].through.entries() {
            return Left::Known(self.left_before(last));
        }
        Left::Less(self.erased[last])
    }

    /// What is left up to the end of a subtree, where the file has `prefix`. Inner pages after the last leaf of the
    /// subtree may count with entries before that end, and have gone with them: what is left ends no earlier for that.
    pub(super) fn left_until(&self, prefix: Prefix) -> Prefix {
        let after = self.list.partition_point(|excision| excision.before.entries() < prefix.entries());
        let Some(last) = after.checked_sub(1) else { return prefix };
        let through = self.list[last].through;
        if prefix.entries() <= through.entries() {
            return self.left_before(last);
        }
        Prefix { bytes: prefix.bytes.max(through.bytes), ..prefix } - self.erased[last]
    }

    /// What the file has before a key that lies in an excision, or at one of its ends; `None` if it does not.
    pub(crate) fn known_ends(&self, key: &[u8]) -> Option<(Prefix, Prefix)> {
        let after = self.list.partition_point(|excision| *excision.start <= *key);
        let excision = &self.list[after.checked_sub(1)?];
        let is_in = excision.end.as_ref().is_none_or(|end| *key <= **end);
        is_in.then_some((excision.before, excision.through))
    }

    /// How many entries of the file are before the one that has `entries` left entries before it and is left itself.
    pub(super) fn entry_in_file(&self, entries: i64) -> i64 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.left_before(middle).entries() <= entries {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        entries + self.erased_before(low).entries()
    }

    /// The entries of the file around one that is left, up to the next excision on either side.
    pub(crate) fn around(&self, entry: i64) -> Range<i64> {
        let after = self.list.partition_point(|excision| excision.before.entries() <= entry);
        let start = after.checked_sub(1).map_or(0, |last| self.list[last].through.entries());
        let end = self.list.get(after).map_or(i64::MAX, |next| next.before.entries());
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    /// A file of the even numbers below 2,000, of which every third is a tombstone.
    fn prefix(entries: i64) -> Prefix {
        let erased = (entries + 2) / 3;
        let tally = Tally { rows: entries - 2 * erased, ..Tally::ZERO };
        Prefix { sums: Sums { entries, erased, tally }, bytes: 10 * entries as u64 }
    }

    const ENTRIES: i64 = 1000;

    fn key(number: i64) -> KeyBuffer {
        KeyBuffer::from_slice(&(number as u16).to_be_bytes())
    }

    fn excision(start: i64, end: Option<i64>) -> Excision {
        let entries_before = |key: i64| (key + 1) / 2;
        Excision {
            start: key(start),
            end: end.map(key),
            before: prefix(entries_before(start)),
            through: prefix(end.map_or(ENTRIES, entries_before)),
        }
    }

    /// Every cut, entry and key of the file against a list of what is left of it.
    fn compare(excisions: &Excisions, is_left: &[bool]) {
        let again = Excisions::new(excisions.list.clone(), &prefix(ENTRIES).sums).unwrap().unwrap();
        assert_eq!(again, *excisions);
        let (mut left, mut entries) = (Prefix::default(), Vec::new());
        for (number, stays) in (0i64..).zip(is_left) {
            if number > 0 {
                assert_eq!(excisions.left_at(&key(2 * number - 1), Side::Through).of(prefix(number)), left);
            }
            assert_eq!(excisions.left_at(&key(2 * number), Side::Below).of(prefix(number)), left, "before {number}");
            assert_eq!(excisions.left_at_entry(number).of(prefix(number)), left);
            assert_eq!(excisions.has(&key(2 * number)), !stays);
            if *stays {
                entries.push(number);
                let Range { start, end } = excisions.around(number);
                let (start, end) = (start as usize, end.min(ENTRIES) as usize);
                assert!((start..end).contains(&(number as usize)) && is_left[start..end].iter().all(|stays| *stays));
                let is_erased = |number: usize| is_left.get(number).is_none_or(|stays| !stays);
                assert!((start == 0 || is_erased(start - 1)) && is_erased(end));
                left = left + (prefix(number + 1) - prefix(number));
            }
            assert_eq!(excisions.left_at(&key(2 * number), Side::Through).of(prefix(number + 1)), left);
        }
        assert_eq!(prefix(ENTRIES) - excisions.total(), left);
        for (place, number) in (0i64..).zip(entries) {
            assert_eq!(excisions.entry_in_file(place), number);
        }
    }

    #[test]
    fn excisions_that_touch_become_one_and_answer_for_every_entry() {
        let ranges: [(i64, Option<i64>); 12] = [
            (400, Some(600)),
            (700, Some(701)),
            // Nothing is left between this and the first.
            (600, Some(620)),
            (621, Some(623)),
            (0, Some(1)),
            (1999, None),
            (1990, None),
            (0, Some(50)),
            (300, Some(500)),
            (430, Some(440)),
            (690, Some(720)),
            (20, Some(1500)),
        ];
        let mut is_left = vec![true; ENTRIES as usize];
        let mut all: Option<Excisions> = None;
        for (start, end) in ranges {
            let added = excision(start, end);
            if added.before.entries() == added.through.entries() {
                continue;
            }
            for number in added.before.entries()..added.through.entries() {
                is_left[number as usize] = false;
            }
            let with = Excisions::with(all.as_ref(), added);
            compare(&with, &is_left);
            all = Some(with);
        }
        assert_eq!(all.unwrap().len(), 2);
    }

    /// Two keys with the same entries before them may have different bytes before them: a cut before the first key of a
    /// leaf, say, and one at the end of the leaf before. Each key of an excision has its own.
    #[test]
    fn keys_keep_what_is_before_them() {
        let at = |key: i64, entries: i64| Prefix { bytes: key as u64, ..prefix(entries) };
        let of = |start: i64, end: i64| {
            let (before, through) = (at(start, 5), at(end, 8));
            Excision { start: key(start), end: Some(key(end)), before, through }
        };
        for [(start, end), (other_start, other_end)] in
            [[(9, 15), (10, 16)], [(10, 16), (9, 15)], [(9, 16), (10, 15)], [(10, 15), (9, 16)]]
        {
            let one = Excisions::with(None, of(start, end));
            let both = Excisions::with(Some(&one), of(other_start, other_end));
            assert_eq!(both.as_slice(), [of(9, 16)]);
        }
        let all = Excision { start: KeyBuffer::new(), end: None, before: Prefix::default(), through: prefix(ENTRIES) };
        let rest = Excision { end: None, through: Prefix { bytes: 1, ..prefix(ENTRIES) }, ..of(9, 15) };
        let with = |first: &Excision, second: &Excision| {
            Excisions::with(Some(&Excisions::with(None, first.clone())), second.clone())
        };
        assert_eq!(with(&of(9, 15), &all).as_slice(), std::slice::from_ref(&all));
        assert_eq!(with(&all, &of(9, 15)).as_slice(), [all]);
        assert_eq!(with(&rest, &of(10, 15)).as_slice(), [rest]);
    }

    #[test]
    fn lists_that_contradict_themselves_are_refused() {
        let total = prefix(ENTRIES).sums;
        let good = || vec![excision(10, Some(20)), excision(30, Some(40))];
        assert_eq!(Excisions::new(good(), &total).unwrap().unwrap().len(), 2);
        assert_eq!(Excisions::new(Vec::new(), &total), Ok(None));
        let spoilt = |spoil: fn(&mut Vec<Excision>)| {
            let mut list = good();
            spoil(&mut list);
            assert!(Excisions::new(list, &total).is_err());
        };
        spoilt(|list| list.swap(0, 1));
        spoilt(|list| list[0].end = None);
        spoilt(|list| list[1].end = None);
        spoilt(|list| list[0].end = Some(key(10)));
        spoilt(|list| list[0].through = list[0].before);
        spoilt(|list| list[1].before = list[0].through);
        spoilt(|list| list[1].through = prefix(ENTRIES + 1));
        spoilt(|list| list[0].before.sums.erased = 1 + list[0].before.sums.entries);
        spoilt(|list| list[0].before.bytes = 1 + list[0].through.bytes);
    }
}
