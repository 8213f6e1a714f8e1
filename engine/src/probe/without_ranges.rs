//! Excises ranges of keys from a run: finds what its files have before the two ends.
//!
//! Cost: one descent for each end, in the file that it lies in, and the weights of the entries of a leaf; none where
//! the end lies in an excision already, or at the end of a file. All pages that are missing are noted together. The
//! result shares the open files with the run.
//!
//! Not here: which ranges, and what becomes of the other layers (`write/removal_commit`).

use std::sync::Arc;

use super::layer::RunLayer;
use crate::cache::{Missing, ReadPages};
use crate::page::KeyBuffer;
use crate::run::Run;
use crate::run::excision::{Excision, Excisions, Prefix};
use crate::run::file::RunFile;
use crate::run::parts::Part;
use crate::run::place::UnitPlace;
use crate::run::weight::weight_of;

/// What is left of a run without the entries in `ranges`: the run itself if it has none there. Of each range the first
/// key is given, and the first key after it. If nothing is left, one of its files is, and the run has no entry.
///
/// # Errors
/// If pages are missing; all of them have been noted.
pub(crate) fn excised<'k>(
    run: &Arc<Run>,
    ranges: impl Iterator<Item = (&'k [u8], Option<&'k [u8]>)>,
    pages: &ReadPages<'_>,
) -> Result<Arc<Run>, Missing> {
    let (mut left, mut asked) = (run.clone(), Ok(()));
    for (start, end) in ranges {
        match RunLayer::new(&left, pages).excised(start, end) {
            Ok(None) => {}
            Ok(Some(run)) => left = run,
            Err(missing) => asked = Err(missing),
        }
    }
    asked.map(|()| left)
}

impl RunLayer<'_> {
    /// The run without its entries from `start` on, before `end` if there is one; `None` if it has none there.
    pub(crate) fn excised(&self, start: &[u8], end: Option<&[u8]>) -> Result<Option<Arc<Run>>, Missing> {
        let parts: Vec<Part> = self.run.parts().collect();
        let (mut left, mut has_changed) = (Vec::with_capacity(parts.len()), false);
        let mut asked = Ok(());
        for (number, part) in parts.iter().enumerate() {
            let next = parts.get(number + 1).map(|next| &*next.low);
            let is_beside = end.is_some_and(|end| end <= &*part.low) || next.is_some_and(|next| next <= start);
            if is_beside {
                left.push(part.clone());
                continue;
            }
            // What goes on beyond the part goes on to its end.
            let end = end.filter(|end| next.is_none_or(|next| *end < next));
            let start = if *part.low < *start { start } else { &[] };
            match self.excise_file(&part.file, start, end) {
                Err(missing) => asked = Err(missing),
                Ok(None) => left.push(part.clone()),
                Ok(Some(excisions)) => {
                    has_changed = true;
                    let file = part.file.with_excisions(Some(excisions));
                    if file.sums_left().entries > 0 {
                        left.push(Part { low: part.low.clone(), file: Arc::new(file) });
                    }
                }
            }
        }
        asked?;
        if left.is_empty() && has_changed {
            let smallest = parts.iter().min_by_key(|part| part.file.info().bytes);
            left.extend(smallest.map(|part| part.with_nothing_left()));
        }
        Ok(has_changed.then(|| Arc::new(self.run.of_parts_left(&left))))
    }

    /// The excisions of a file with one more, of the keys from `start` on, before `end` if there is one; `None` if no
    /// entry is left there.
    fn excise_file(&self, file: &Arc<RunFile>, start: &[u8], end: Option<&[u8]>) -> Result<Option<Excisions>, Missing> {
        let before = if start.is_empty() { Ok(Prefix::default()) } else { self.prefix_at(file, start, false) };
        let through = end.map_or_else(|| Ok(file.whole()), |end| self.prefix_at(file, end, true));
        let (before, through) = (before?, through?);
        let left = |prefix: &Prefix| match file.excisions() {
            Some(excisions) => excisions.left_at_entry(prefix.sums.entries).of(*prefix).sums.entries,
            None => prefix.sums.entries,
        };
        if left(&before) == left(&through) {
            return Ok(None);
        }
        let added =
            Excision { start: KeyBuffer::from_slice(start), end: end.map(KeyBuffer::from_slice), before, through };
        Ok(Some(Excisions::with(file.excisions(), added)))
    }

    /// What a file has before `key`. For a key in an excision, or at an end of one, what it has before its start, or
    /// before its end for one that `goes_on` to there.
    fn prefix_at(&self, file: &Arc<RunFile>, key: &[u8], goes_on: bool) -> Result<Prefix, Missing> {
        let known = file.excisions().and_then(|excisions| excisions.known_ends(key));
        match known {
            Some((_, through)) if goes_on => Ok(through),
            Some((before, _)) => Ok(before),
            None => self.prefix_in_file(file, key),
        }
    }

    /// What a file has before `key`, erased entries too.
    pub(super) fn prefix_in_file(&self, file: &Arc<RunFile>, key: &[u8]) -> Result<Prefix, Missing> {
        let Some(mut place) = file.root() else { return Ok(Prefix::default()) };
        let end_of = |place: &UnitPlace| place.pointer.offset + u64::from(place.pointer.length);
        let mut end = end_of(&place);
        loop {
            let page = self.pages.page(self.run, &place)?;
            if place.level == 0 {
                let (leaf, measures) = (page.leaf(), &file.info().measures);
                let position = leaf.search::<true>(key).0;
                let mut sums = place.before - *file.base();
                for entry in 0..position {
                    let record = leaf.leaf_record(entry);
                    sums.add(record.is_tombstone(), weight_of(&record, measures, || leaf.key(entry)));
                }
                return Ok(Prefix { sums, bytes: place.floor + share(end - place.floor, position, leaf.count()) });
            }
            let inner = self.run.inner(&place, page);
            let child = inner.child_of(key);
            let is_last = child + 1 == inner.count();
            place = self.run.child(&place, &inner, child);
            if !is_last {
                end = end_of(&place);
            }
        }
    }
}

impl RunFile {
    /// All that the file has, erased entries too.
    pub(crate) fn whole(&self) -> Prefix {
        let end = |root: UnitPlace| root.pointer.offset + u64::from(root.pointer.length);
        Prefix { sums: self.info().total, bytes: self.root().map_or(0, end) }
    }
}

impl Part {
    /// The part with all of it erased.
    fn with_nothing_left(&self) -> Part {
        let through = self.file.whole();
        let all = Excision { start: KeyBuffer::new(), end: None, before: Prefix::default(), through };
        let file = self.file.with_excisions(Some(Excisions::with(None, all)));
        Part { low: KeyBuffer::new(), file: Arc::new(file) }
    }
}

/// The bytes of the first `entries` of the `count` entries of a leaf that has `bytes`. Each takes an equal part, so
/// that neighbours add up.
pub(crate) fn share(bytes: u64, entries: usize, count: usize) -> u64 {
    (u128::from(bytes) * entries as u128 / count as u128) as u64
}
