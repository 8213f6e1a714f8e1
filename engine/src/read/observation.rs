//! The reads of an optimistic transaction, as questions that can be asked again.
//!
//! A transaction may commit if every question has the same answer at commit as in its snapshot: then it might as well
//! have run at the moment of its commit. Questions are put to the version below the transaction's own writes, so its
//! later writes do not matter. Counts rely on the weights of its own writes; these are compared with what they would be
//! now.

use std::sync::Arc;

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::xxh3_128;

use crate::bounds::Bounds;
use crate::cache::Missing;
use crate::error::{Error, ErrorKind, Result};
use crate::page::KeyBuffer;
use crate::read::entry::Key;
use crate::read::table_stack::{Source, TableStack};
use crate::stack::{Cut, Layer, Merge, Stack, ask_all, infallible};
use crate::tally::Tally;
use crate::tree::{Side, View, Walk};

/// A question that was asked of a table.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Question {
    /// The value of a key.
    Value(Key),
    /// A part of the value of a key.
    Part(Key, ValuePart),
    /// Whether a key is live.
    Live(Key),
    /// The number of rows in a range.
    Rows(Bounds<'static>),
    /// All measures of a range.
    Tally(Bounds<'static>),
    /// All rows of a range.
    Scan(Bounds<'static>),
}

/// The part of a value that a reader relies on, as a digest: values of which it is the same are as good as equal. See
/// [`TableTransaction::get_part`](crate::TableTransaction::get_part).
#[derive(Clone)]
pub struct ValuePart(Arc<DigestFn>);

type DigestFn = dyn Fn(&[u8]) -> u128 + Send + Sync;

impl ValuePart {
    /// The part whose digest `digest` gives. The same value always has the same digest.
    pub fn new(digest: impl Fn(&[u8]) -> u128 + Send + Sync + 'static) -> ValuePart {
        ValuePart(Arc::new(digest))
    }

    fn digest(&self, value: Option<&[u8]>) -> Option<u128> {
        value.map(|value| (self.0)(value))
    }
}

impl std::fmt::Debug for ValuePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ValuePart")
    }
}

type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
type HashSet<K> = std::collections::HashSet<K, RandomState>;

/// What was read of one table. What the answers about single keys were is asked when they are validated: the version
/// that gave them is still there, and most pages are the same in both.
#[derive(Default)]
pub(crate) struct Observations {
    /// Keys whose values were read.
    values: HashSet<Key>,
    /// Keys of whose values parts were read.
    parts: HashMap<Key, Vec<ValuePart>>,
    part_count: usize,
    /// Keys of which only liveness was read.
    live: HashSet<Key>,
    rows: Vec<(Bounds<'static>, i64)>,
    tallies: Vec<(Bounds<'static>, Tally)>,
    scans: Vec<Bounds<'static>>,
}

/// The most that one transaction may read of a table: it bounds memory, at some 100 bytes each.
const OBSERVATIONS_MAX: usize = 4_000_000;

fn digest(value: Option<&[u8]>) -> Option<u128> {
    value.map(xxh3_128)
}

impl Observations {
    /// Notes a question. The answer to one about a range is asked of `base`, the version below the transaction's
    /// writes.
    pub(crate) fn note<'s>(&mut self, base: &dyn Fn() -> Result<Source<'s>>, question: Question) -> Result<()> {
        let keys = self.values.len() + self.part_count + self.live.len();
        if keys + self.rows.len() + self.tallies.len() + self.scans.len() >= OBSERVATIONS_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the transaction has read too much to be validated; cut it into smaller ones or use `Db::write`",
            ));
        }
        match question {
            Question::Value(key) => {
                self.values.insert(key);
            }
            Question::Part(key, part) => {
                if !self.values.contains(&key) {
                    let parts = self.parts.entry(key).or_default();
                    if !parts.iter().any(|known| Arc::ptr_eq(&known.0, &part.0)) {
                        parts.push(part);
                        self.part_count += 1;
                    }
                }
            }
            Question::Live(key) => {
                self.live.insert(key);
            }
            Question::Rows(bounds) => {
                let (start, end) = (bounds.start(), bounds.end());
                let rows = base()?.exact(start, end, |base| base.ask(|stack| stack.count(start, end)))? as i64;
                if self.rows.last().is_none_or(|last| last.0 != bounds) {
                    self.rows.push((bounds, rows));
                }
            }
            Question::Tally(bounds) => {
                let (start, end) = (bounds.start(), bounds.end());
                let tally = base()?.exact(start, end, |base| base.ask(|stack| stack.tally(start, end)))?;
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

    /// Whether all answers in `now` are the same as in `base`. The two may have the same runs or others, and known or
    /// unknown weights. Those of `now` are known if rows were counted.
    pub(crate) fn hold<'a>(
        &self,
        base: &TableStack<'a>,
        now: &TableStack<'a>,
        has_same_runs: bool,
        are_counted: bool,
    ) -> std::result::Result<bool, Missing> {
        let is_untouched = |key: &[u8]| base.is_untouched_in(now, has_same_runs, key);
        let uppers =
            (has_same_runs && !now.runs().is_empty() && are_counted).then(|| (base.upper_trees(), now.upper_trees()));
        let weighs_the_same = |bounds: &Bounds<'_>| {
            let (start, end) = (bounds.start(), bounds.end());
            let upper = |stack: &Stack<'a, View<'a>>| infallible(stack.tally(start, end));
            uppers.as_ref().is_some_and(|(base, now)| upper(base) == upper(now))
        };
        let values = self.values.iter().map(|key| Ok(is_untouched(key) || base.get(key)? == now.get(key)?));
        let parts = self.parts.iter().map(|(key, parts)| {
            if is_untouched(key) {
                return Ok(true);
            }
            let (was, is) = (base.get(key)?, now.get(key)?);
            Ok(was == is || parts.iter().all(|part| part.digest(was) == part.digest(is)))
        });
        let live = self.live.iter().map(|key| Ok(is_untouched(key) || base.is_live(key)? == now.is_live(key)?));
        let rows = self.rows.iter().map(|(bounds, was)| {
            Ok(weighs_the_same(bounds) || now.count(bounds.start(), bounds.end())? as i64 == *was)
        });
        let tallies = self
            .tallies
            .iter()
            .map(|(bounds, was)| Ok(weighs_the_same(bounds) || now.tally(bounds.start(), bounds.end())? == *was));
        let scans = self.scans.iter().map(|bounds| same_rows(base, now, bounds, has_same_runs, are_counted));
        let mut all_hold = true;
        let asked =
            ask_all(values.chain(parts).chain(live).chain(rows).chain(tallies).chain(scans), |holds| all_hold &= holds);
        // One changed answer is enough, whatever the others are.
        if all_hold { asked.map(|()| true) } else { Ok(false) }
    }
}

impl Observations {
    /// Like [`Observations::hold`], for two versions that may have different runs. Reads files, a few pages at a time.
    /// Not in the writer's turn.
    ///
    /// # Errors
    /// Those of reading a page of a run.
    pub(crate) fn hold_apart(&self, base: &Source<'_>, now: &Source<'_>) -> Result<bool> {
        let value = |stack: &TableStack<'_>, key: &&Key| Ok(digest(stack.get(key)?));
        let parts = |stack: &TableStack<'_>, (key, parts): &(&Key, &Vec<ValuePart>)| {
            let value = stack.get(key)?;
            Ok(parts.iter().map(|part| part.digest(value)).collect::<Vec<_>>())
        };
        let is_live = |stack: &TableStack<'_>, key: &&Key| stack.is_live(key);
        let hold = same_answers(base, now, self.values.iter(), value)?
            && same_answers(base, now, self.parts.iter(), parts)?
            && same_answers(base, now, self.live.iter(), is_live)?;
        if !hold {
            return Ok(false);
        }
        let tally = |bounds: &Bounds<'_>| {
            let (start, end) = (bounds.start(), bounds.end());
            now.exact(start, end, |now| now.ask(|stack| stack.tally(start, end)))
        };
        for (bounds, was) in &self.rows {
            if tally(bounds)?.rows != *was {
                return Ok(false);
            }
        }
        for (bounds, was) in &self.tallies {
            if tally(bounds)? != *was {
                return Ok(false);
            }
        }
        for bounds in &self.scans {
            if !same_rows_apart(base, now, bounds)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The number of keys looked up together where there may be many more.
pub(crate) const ASKED_TOGETHER: usize = 1024;
/// The number of rows of one version that are kept, in 32 bytes each, for comparison with those of the other.
const COMPARED_TOGETHER: usize = 1 << 16;

/// Whether questions about single keys have the same answers in two versions. Reads files, a few pages at a time.
///
/// # Errors
/// Those of reading a page of a run.
fn same_answers<Q, A: PartialEq>(
    base: &Source<'_>,
    now: &Source<'_>,
    questions: impl Iterator<Item = Q>,
    answer: impl Fn(&TableStack<'_>, &Q) -> std::result::Result<A, Missing>,
) -> Result<bool> {
    let questions: Vec<Q> = questions.collect();
    for questions in questions.chunks(ASKED_TOGETHER) {
        let answers = |source: &Source<'_>| {
            source.ask(|stack| {
                let mut answers = Vec::with_capacity(questions.len());
                ask_all(questions.iter().map(|question| answer(stack, question)), |answer| answers.push(answer))?;
                Ok(answers)
            })
        };
        if answers(base)? != answers(now)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two versions have the same rows in a range: reads some rows of one, then the same range of the other.
///
/// # Errors
/// Those of reading a page of a run.
pub(crate) fn same_rows_apart(base: &Source<'_>, now: &Source<'_>, bounds: &Bounds<'_>) -> Result<bool> {
    let row_digest = |key: &[u8], value: &[u8]| (xxh3_128(key), xxh3_128(value));
    let mut digests = Vec::new();
    let mut from: Option<Key> = None;
    loop {
        let start = from.as_ref().map_or(bounds.start(), |last| Cut::After(last));
        if start.is_at_or_past(&bounds.end()) {
            return Ok(true);
        }
        digests.clear();
        let mut last: Option<Key> = None;
        base.scan(start, bounds.end(), false, |key, value| {
            digests.push(row_digest(key, value));
            let is_full = digests.len() == COMPARED_TOGETHER;
            if is_full {
                last = Some(key.into());
            }
            !is_full
        })?;
        let end = last.as_ref().map_or(bounds.end(), |last| Cut::After(last));
        let (mut count, mut are_same) = (0, true);
        now.scan(start, end, false, |key, value| {
            are_same = digests.get(count) == Some(&row_digest(key, value));
            count += 1;
            are_same
        })?;
        if !are_same || count != digests.len() {
            return Ok(false);
        }
        match last {
            None => return Ok(true),
            last => from = last,
        }
    }
}

/// Whether two versions of a table have the same rows in a range.
fn same_rows<'a>(
    base: &TableStack<'a>,
    now: &TableStack<'a>,
    bounds: &Bounds<'_>,
    has_same_runs: bool,
    are_counted: bool,
) -> std::result::Result<bool, Missing> {
    let (start, end) = (bounds.start(), bounds.end());
    if start.is_at_or_past(&end) {
        return Ok(true);
    }
    if are_counted {
        let counts = (base.count(start, end), now.count(start, end));
        if counts.0? != counts.1? {
            return Ok(false);
        }
    }
    let trees = (base.trees(), now.trees());
    if let (Some(base), Some(now)) = (&trees.0, &trees.1)
        && let (Some(base), Some(now)) = (base.single(), now.single())
    {
        return Ok(same_rows_of_trees(base, now, start, end));
    }
    if has_same_runs && infallible(same_entries(&base.upper_trees(), &now.upper_trees(), start, end)) {
        return Ok(true);
    }
    if !(base.runs().is_empty() && now.runs().is_empty()) {
        // No thread waits for a file in the writer's turn: see `hold_apart`.
        return Err(Missing);
    }
    let (base, now) = (Merge::from(base, start), Merge::from(now, start));
    are_same(base?, now?, |merge, key| merge.next_within(key, |key| !end.is_before(key)))
}

/// Whether two stacks have the same entries in a range. Then both have the same effect on whatever lies below.
fn same_entries<'a, L: Layer<'a>>(
    base: &Stack<'a, L>,
    now: &Stack<'a, L>,
    start: Cut<'_>,
    end: Cut<'_>,
) -> std::result::Result<bool, L::Fault> {
    let (base, now) = (Merge::from(base, start)?, Merge::from(now, start)?);
    are_same(base, now, |merge, key| merge.next_entry(key, |key| !end.is_before(key)))
}

/// Whether two merges come to the same keys, with the same of `next` at each.
#[inline]
fn are_same<'a, L: Layer<'a>, T: PartialEq>(
    mut base: Merge<'a, L>,
    mut now: Merge<'a, L>,
    next: impl Fn(&mut Merge<'a, L>, &mut KeyBuffer) -> std::result::Result<Option<T>, L::Fault>,
) -> std::result::Result<bool, L::Fault> {
    let (mut base_key, mut now_key) = Default::default();
    loop {
        let (a, b) = (next(&mut base, &mut base_key)?, next(&mut now, &mut now_key)?);
        if a != b || a.is_some() && base_key != now_key {
            return Ok(false);
        }
        if a.is_none() {
            return Ok(true);
        }
    }
}

fn first_after<'a>(view: &View<'a>, start: Cut<'_>) -> Walk<'a> {
    match start {
        Cut::Before(key) => Walk::seek(*view, key, Side::Below),
        Cut::After(key) => Walk::seek(*view, key, Side::Through),
        Cut::Start | Cut::End => Walk::first(*view),
    }
}

/// Two versions of one tree share the pages that were not written between them: those are skipped unread.
fn same_rows_of_trees(base: &View<'_>, now: &View<'_>, start: Cut<'_>, end: Cut<'_>) -> bool {
    let (mut a, mut b) = (first_after(base, start), first_after(now, start));
    let (mut a_key, mut b_key) = (crate::page::KeyBuffer::new(), crate::page::KeyBuffer::new());
    loop {
        if !a.valid() || !b.valid() {
            let past = |walk: &Walk<'_>| !walk.valid() || end.is_before(&walk.key());
            return past(&a) && past(&b);
        }
        a_key.clear();
        b_key.clear();
        a.key_into(&mut a_key);
        b.key_into(&mut b_key);
        let (a_in, b_in) = (!end.is_before(&a_key), !end.is_before(&b_key));
        if !a_in && !b_in {
            return true;
        }
        if a_in != b_in || a_key != b_key {
            return false;
        }
        if a.skip_shared(&mut b) {
            continue;
        }
        if a.value() != b.value() {
            return false;
        }
        a.next();
        b.next();
    }
}
