//! What an optimistic transaction has read, as questions that can be asked again.
//!
//! A transaction may commit if every question has the same answer at commit as it had in its snapshot: then it might as well have run at the
//! moment of its commit. Questions are put to the version below the transaction's own writes, so later writes of its own do not matter; and the
//! weights of its own writes, which counts rely on, are compared with what they would be now.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_128;

use crate::bounds::Bounds;
use crate::entry::Key;
use crate::error::{Error, ErrorKind, Result};
use crate::stack::{Cut, Merge, Stack, resident};
use crate::tally::Tally;
use crate::tree::{Side, View, Walk};

/// Something that was asked of a table.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The value of a key.
    Value(Key),
    /// Whether a key is live.
    Live(Key),
    /// How many rows a range has.
    Rows(Bounds<'static>),
    /// All measures of a range.
    Tally(Bounds<'static>),
    /// All rows of a range.
    Scan(Bounds<'static>),
}

/// What was read of one table.
#[derive(Default)]
pub(crate) struct Observations {
    /// Keys read, with a digest of the value (`None`: dead).
    values: HashMap<Key, Option<u128>>,
    /// Keys of which only liveness was read.
    live: HashMap<Key, bool>,
    rows: Vec<(Bounds<'static>, i64)>,
    tallies: Vec<(Bounds<'static>, Tally)>,
    scans: Vec<Bounds<'static>>,
}

/// How much one transaction may read of a table before it must be cut: it bounds memory, at some 100 bytes each.
const OBSERVATIONS_MAX: usize = 4_000_000;

fn digest(value: Option<&[u8]>) -> Option<u128> {
    value.map(xxh3_128)
}

impl Observations {
    /// Notes a question with its answer in `base`, the version below the transaction's writes.
    pub(crate) fn note(&mut self, base: &Stack<'_>, question: Question) -> Result<()> {
        if self.values.len() + self.live.len() + self.rows.len() + self.tallies.len() + self.scans.len()
            >= OBSERVATIONS_MAX
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the transaction has read too much to be validated; cut it into smaller ones or use `Db::write`",
            ));
        }
        match question {
            Question::Value(key) => {
                let found = digest(resident(base.get(&key)));
                self.values.entry(key).or_insert(found);
            }
            Question::Live(key) => {
                let live = resident(base.get(&key)).is_some();
                self.live.entry(key).or_insert(live);
            }
            Question::Rows(bounds) => {
                let rows = resident(base.count(bounds.start(), bounds.end())) as i64;
                if self.rows.last().is_none_or(|last| last.0 != bounds) {
                    self.rows.push((bounds, rows));
                }
            }
            Question::Tally(bounds) => {
                let tally = resident(base.tally(bounds.start(), bounds.end()));
                self.tallies.push((bounds, tally));
            }
            Question::Scan(bounds) => self.scans.push(bounds),
        }
        Ok(())
    }

    /// Whether answers relied on the row weights of the transaction's own writes, and whether on all their measures.
    pub(crate) fn relies_on_weights(&self) -> (bool, bool) {
        let rows = !self.rows.is_empty() || !self.tallies.is_empty();
        (rows, !self.tallies.is_empty())
    }

    /// Whether all answers are the same in `now` as they were in `base`.
    pub(crate) fn hold(&self, base: &Stack<'_>, now: &Stack<'_>) -> bool {
        self.values.iter().all(|(key, was)| digest(resident(now.get(key))) == *was)
            && self.live.iter().all(|(key, was)| resident(now.get(key)).is_some() == *was)
            && self.rows.iter().all(|(bounds, was)| resident(now.count(bounds.start(), bounds.end())) as i64 == *was)
            && self.tallies.iter().all(|(bounds, was)| resident(now.tally(bounds.start(), bounds.end())) == *was)
            && self.scans.iter().all(|bounds| same_rows(base, now, bounds))
    }
}

/// Whether two versions of a table have the same rows in a range.
fn same_rows(base: &Stack<'_>, now: &Stack<'_>, bounds: &Bounds<'_>) -> bool {
    let (start, end) = (bounds.start(), bounds.end());
    if start.is_at_or_past(&end) {
        return true;
    }
    if resident(base.count(start, end)) != resident(now.count(start, end)) {
        return false;
    }
    match (base.single(), now.single()) {
        (Some(base), Some(now)) => same_rows_of_trees(base, now, start, end),
        _ => {
            let (mut base, mut now) = (resident(Merge::from(base, start)), resident(Merge::from(now, start)));
            let (mut base_key, mut now_key) = Default::default();
            loop {
                let (a, b) = (resident(base.next(&mut base_key)), resident(now.next(&mut now_key)));
                let (a, b) = (a.filter(|_| is_before(&base_key, end)), b.filter(|_| is_before(&now_key, end)));
                if a != b || a.is_some() && base_key != now_key {
                    return false;
                }
                if a.is_none() {
                    return true;
                }
            }
        }
    }
}

fn is_before(key: &[u8], end: Cut<'_>) -> bool {
    match end {
        Cut::Before(end) => key < end,
        Cut::After(end) => key <= end,
        Cut::Start => false,
        Cut::End => true,
    }
}

fn first_after<'a>(view: &View<'a>, start: Cut<'_>) -> Walk<'a> {
    match start {
        Cut::Before(key) => Walk::seek(*view, key, Side::Below),
        Cut::After(key) => Walk::seek(*view, key, Side::Through),
        Cut::Start | Cut::End => Walk::first(*view),
    }
}

/// Two versions of one tree share the leaves that were not written between them: those are skipped unread.
fn same_rows_of_trees(base: &View<'_>, now: &View<'_>, start: Cut<'_>, end: Cut<'_>) -> bool {
    let (mut a, mut b) = (first_after(base, start), first_after(now, start));
    let (mut a_key, mut b_key) = (crate::page::KeyBuffer::new(), crate::page::KeyBuffer::new());
    loop {
        if !a.valid() || !b.valid() {
            let past = |walk: &Walk<'_>| !walk.valid() || !is_before(&walk.key(), end);
            return past(&a) && past(&b);
        }
        if a.leaf_identity() == b.leaf_identity() && a.leaf_identity().1 {
            a.skip_leaf();
            b.skip_leaf();
            continue;
        }
        a_key.clear();
        b_key.clear();
        a.key_into(&mut a_key);
        b.key_into(&mut b_key);
        let (a_in, b_in) = (is_before(&a_key, end), is_before(&b_key, end));
        if !a_in && !b_in {
            return true;
        }
        if a_in != b_in || a_key != b_key || a.value() != b.value() {
            return false;
        }
        a.next();
        b.next();
    }
}
