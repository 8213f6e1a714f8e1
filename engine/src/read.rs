//! What can be asked of a table, a view of it in a snapshot, and a transaction alike.

use rand_core::Rng;

use crate::bounds::Bounds;
use crate::cursor::Cursor;
use crate::entry::{Entry, Key, Page, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::explain::{Explained, explain};
use crate::observation::Question;
use crate::range::{Fill, Range, scan_first};
use crate::run::{self, Estimate, Histogram, Limits, Missing, Resolution, histogram, plan};
use crate::sample::sample_offsets;
use crate::source::{Cost, Source, TableStack};
use crate::stack::{Cut, ask_all, resident};
use crate::tally::Tally;
use crate::tree;

/// Reading rows, in key order and by position. Every answer is exact for the version asked: now, the snapshot's, or the transaction's own.
///
/// Costs in the docs count descents: one reads one page a level, about 0.3 us at a million rows in memory.
pub trait Read {
    /// Reads from one version.
    #[doc(hidden)]
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R>
    where
        Self: Sized;

    /// Puts a question to one version, again until all pages for its answer are there: it begins anew each time.
    #[doc(hidden)]
    fn ask<R>(&self, question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>) -> Result<R>
    where
        Self: Sized,
    {
        self.read_from(|source| source.ask(question))
    }

    /// As `ask`, of a range of which all weights must be known.
    #[doc(hidden)]
    fn ask_exact<R>(
        &self,
        bounds: &Bounds<'_>,
        question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>,
    ) -> Result<R>
    where
        Self: Sized,
    {
        self.read_from(|source| source.exact(bounds.start(), bounds.end(), |source| source.ask(question)))
    }

    /// Notes what was read, for a transaction that must be able to tell whether it would read the same again.
    #[doc(hidden)]
    fn observe(&self, question: impl FnOnce() -> Question) -> Result<()>
    where
        Self: Sized,
    {
        let _ = question;
        Ok(())
    }

    /// One version for an answer in several steps.
    #[doc(hidden)]
    fn hold(&self) -> Box<dyn Fill + '_>;

    /// The value of `key`, or `None`. One descent.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>>
    where
        Self: Sized,
    {
        let key = key.as_ref();
        self.observe(|| Question::Value(key.into()))?;
        self.ask(|stack| Ok(stack.get(key)?.map(Value::from)))
    }

    /// Whether `key` is live. One descent.
    fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool>
    where
        Self: Sized,
    {
        let key = key.as_ref();
        self.observe(|| Question::Live(key.into()))?;
        self.ask(|stack| Ok(stack.get(key)?.is_some()))
    }

    /// The values of many keys from one version, in their order. Descents are interleaved, so that they wait for memory together:
    /// several times as fast as one by one when the table is larger than the processor's cache.
    fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>>
    where
        Self: Sized,
    {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_with(keys, |_, value| values.push(value.map(Value::from)))?;
        Ok(values)
    }

    /// Looks up many keys as `get_many` does, and lends the value of each to `visit`, with the number of the key, in their order: nothing is copied.
    ///
    /// Over a [`Table`](crate::Table) commits wait until the last value was visited: `visit` must be short, and must not use the database.
    fn get_many_with(&self, keys: &[impl AsRef<[u8]>], mut visit: impl FnMut(usize, Option<&[u8]>)) -> Result<()>
    where
        Self: Sized,
    {
        for key in keys {
            self.observe(|| Question::Value(key.as_ref().into()))?;
        }
        self.ask(|stack| {
            if let Some(trees) = stack.trees() {
                trees.get_many(keys, &mut visit);
                return Ok(());
            }
            // None is lent before all are there: then they are of one version, and each is lent once.
            let mut values = Vec::with_capacity(keys.len());
            ask_all(keys.iter().map(|key| stack.get(key.as_ref())), |value| values.push(value))?;
            values.into_iter().enumerate().for_each(|(number, value)| visit(number, value));
            Ok(())
        })
    }

    /// Rows in all. No descent.
    fn len(&self) -> Result<u64>
    where
        Self: Sized,
    {
        self.count(..)
    }

    /// Whether there are no rows.
    fn is_empty(&self) -> Result<bool>
    where
        Self: Sized,
    {
        Ok(self.len()? == 0)
    }

    /// The row with the smallest key.
    fn first(&self) -> Result<Option<Entry>>
    where
        Self: Sized,
    {
        self.range(..).next().transpose()
    }

    /// The row with the largest key.
    fn last(&self) -> Result<Option<Entry>>
    where
        Self: Sized,
    {
        self.range(..).next_back().transpose()
    }

    /// The rows of a range in key order, from either end. Over a [`Table`](crate::Table) they are those of one moment.
    fn range<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Range<'_>
    where
        Self: Sized,
    {
        Range::new(self.hold(), bounds.into().into_owned())
    }

    /// The rows whose keys start with `prefix`, in key order.
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range<'_>
    where
        Self: Sized,
    {
        self.range(Bounds::prefix(prefix.as_ref()))
    }

    /// Calls `visit` with key and value of each row of a range until it returns false. The fastest way to read many rows: nothing is copied.
    /// Over a [`Table`](crate::Table) the rows are those of one moment, and `visit` may write; inside a transaction it may not (use `range`).
    fn for_each<'b>(&self, bounds: impl Into<Bounds<'b>>, visit: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        self.observe(|| Question::Scan(bounds.clone().into_owned()))?;
        self.read_from(|source| source.scan(bounds.start(), bounds.end(), false, visit))
    }

    /// Calls `visit` with key and value of each of the first `rows` rows of a range. As [`for_each`](Read::for_each), for who knows how many are wanted: the pages of
    /// so many rows are read from files at once, and hardly any other.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::in_memory())?;
    /// use quipu::{Read, Write};
    /// let table = db.table("t")?;
    /// for key in ["a", "b", "c"] {
    ///     table.put(key, "1")?;
    /// }
    /// let mut keys = Vec::new();
    /// table.for_first("b".., 10, |key, _| keys.push(key.to_vec()))?;
    /// assert_eq!(keys, [b"b", b"c"]);
    /// # Ok(())
    /// # }
    /// ```
    fn for_first<'b>(&self, bounds: impl Into<Bounds<'b>>, rows: u64, visit: impl FnMut(&[u8], &[u8])) -> Result<()>
    where
        Self: Sized,
    {
        scan_first(self, &bounds.into(), false, rows, visit)
    }

    /// Live rows in a range. Two descents a layer, which go down together in about the time of one; none for all.
    fn count<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        self.ask_exact(&bounds, |stack| stack.count(bounds.start(), bounds.end()))
    }

    /// At least and at most how many live rows a range has: of a [`blind`](crate::TableOptions::blind) table what can be told without asking for what its writes did not
    /// ask, of any other the exact count twice. Costs what `count` does elsewhere, and a descent more.
    ///
    /// In an optimistic transaction, which must be able to tell whether the number has changed, it costs what `count` does.
    fn count_bounds<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<Estimate>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        self.read_from(|source| source.count_bounds(bounds.start(), bounds.end()))
    }

    /// The counts of many ranges from one version, in their order, with interleaved descents.
    fn count_many(&self, ranges: &[Bounds<'_>]) -> Result<Vec<u64>>
    where
        Self: Sized,
    {
        for bounds in ranges {
            self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        }
        self.ask_exact(&Bounds::from(..), |stack| {
            let mut counts = vec![0u64; ranges.len()];
            // A range that ends before it starts is not asked for, so its count stays zero.
            let some = ranges.iter().enumerate().filter(|(_, bounds)| !bounds.start().is_at_or_past(&bounds.end()));
            let cuts =
                some.flat_map(|(number, bounds)| [((number, false), bounds.start()), ((number, true), bounds.end())]);
            rows_before_many(stack, cuts, |(number, end), rows| {
                let count = &mut counts[number];
                *count = if end { count.wrapping_add(rows) } else { count.wrapping_sub(rows) };
            })?;
            Ok(counts)
        })
    }

    /// Live rows below `key`, which may be present or not. One descent a layer.
    fn rank(&self, key: impl AsRef<[u8]>) -> Result<u64>
    where
        Self: Sized,
    {
        let key = key.as_ref();
        self.observe(|| Question::Rows(Bounds::from(..key).into_owned()))?;
        self.ask_exact(&Bounds::from(..key), |stack| stack.rows_before(Cut::Before(key)))
    }

    /// The ranks of many keys from one version, with interleaved descents.
    fn rank_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<u64>>
    where
        Self: Sized,
    {
        for key in keys {
            self.observe(|| Question::Rows(Bounds::from(..key.as_ref()).into_owned()))?;
        }
        self.ask_exact(&Bounds::from(..), |stack| {
            let mut ranks = Vec::with_capacity(keys.len());
            let cuts = keys.iter().map(|key| ((), Cut::Before(key.as_ref())));
            rows_before_many(stack, cuts, |(), rows| ranks.push(rows))?;
            Ok(ranks)
        })
    }

    /// The row at `offset` of a range, or `None` past its end. Two descents; some twenty more when several layers have entries there.
    fn nth<'b>(&self, bounds: impl Into<Bounds<'b>>, offset: u64) -> Result<Option<Entry>>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        let entry = self.ask_exact(&bounds, |stack| nth_in(stack, &bounds, offset))?;
        self.observe_position(&bounds, entry.as_ref().map(|entry| &entry.key))?;
        Ok(entry)
    }

    /// The rows at many offsets of the whole table, from one version, with interleaved descents.
    fn nth_many(&self, offsets: &[u64]) -> Result<Vec<Option<Entry>>>
    where
        Self: Sized,
    {
        let entries = self.ask_exact(&Bounds::from(..), |stack| {
            let mut entries = vec![None; offsets.len()];
            let trees = stack.trees();
            let Some(view) = trees.as_ref().and_then(|trees| trees.single()) else {
                let found = offsets.iter().map(|&offset| nth_in(stack, &Bounds::from(..), offset));
                let mut numbers = 0..;
                ask_all(found, |entry| entries[numbers.next().unwrap_or_default()] = entry)?;
                return Ok(entries);
            };
            let rows = view.entries();
            let (numbers, inside): (Vec<usize>, Vec<u64>) =
                offsets.iter().copied().enumerate().filter(|&(_, offset)| offset < rows).unzip();
            if rows > 0 {
                let mut key = crate::page::KeyBuffer::new();
                tree::nth_many(view, &inside, |number, leaf, position| {
                    let record = leaf.leaf_record(position);
                    key.clear();
                    leaf.record_key_into(&record, position, &mut key);
                    entries[numbers[number]] = Some(Entry::new(&key, tree::value_of(&record)));
                });
            }
            Ok(entries)
        })?;
        for entry in &entries {
            self.observe_position(&Bounds::from(..), entry.as_ref().map(|entry| &entry.key))?;
        }
        Ok(entries)
    }

    /// Notes that the row at some offset of the range has this key, or that the range ends before.
    #[doc(hidden)]
    fn observe_position(&self, bounds: &Bounds<'_>, key: Option<&Key>) -> Result<()>
    where
        Self: Sized,
    {
        let Some(key) = key else {
            return self.observe(|| Question::Rows(bounds.clone().into_owned()));
        };
        self.observe(|| {
            let mut before = bounds.clone().into_owned();
            before.set_end_before(key);
            Question::Rows(before)
        })?;
        self.observe(|| Question::Value(key.clone()))
    }

    /// Up to `limit` rows from `offset` on, with the exact total of the range, all of one version. Like `nth`, and one step a row.
    fn page<'b>(&self, bounds: impl Into<Bounds<'b>>, offset: u64, limit: usize) -> Result<Page>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        let page = self.ask_exact(&bounds, |stack| {
            let before = stack.rows_before(bounds.start())?;
            let total =
                if bounds.start().is_at_or_past(&bounds.end()) { 0 } else { stack.rows_before(bounds.end())? - before };
            let mut entries = Vec::new();
            let wanted = (limit as u64).min(total.saturating_sub(offset)) as usize;
            if wanted > 0 {
                entries.reserve(wanted.min(1 << 16));
                if let Some(view) = stack.trees().as_ref().and_then(|trees| trees.single()) {
                    // One descent finds the place, and the walk goes on from there.
                    let mut walk = view.nth(before + offset);
                    walk.prefetch(wanted.min(16));
                    let mut key = crate::page::KeyBuffer::new();
                    while entries.len() < wanted {
                        key.clear();
                        walk.key_into(&mut key);
                        entries.push(Entry::new(&key, walk.value().unwrap_or_default()));
                        walk.next();
                    }
                } else if let Some(first) = stack.nth(before + offset)? {
                    let visit = |key: &[u8], value: &[u8]| {
                        entries.push(Entry::new(key, value));
                        entries.len() < wanted
                    };
                    scan_charged(stack, Cut::Before(&first.key), bounds.end(), false, wanted, visit)?;
                }
            }
            Ok(Page { entries, offset, total })
        })?;
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        if let (Some(first), Some(last)) = (page.entries.first(), page.entries.last()) {
            self.observe_position(&bounds, Some(&first.key))?;
            self.observe(|| Question::Scan(Bounds::from(&*first.key..=&*last.key).into_owned()))?;
        }
        Ok(page)
    }

    /// The row at quantile `q` (0 to 1) of a range by the nearest-rank method: offset `floor(q * (count - 1) + 0.5)`. `None` of an empty range.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `q` is not within 0 and 1.
    fn quantile<'b>(&self, bounds: impl Into<Bounds<'b>>, q: f64) -> Result<Option<Entry>>
    where
        Self: Sized,
    {
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::new(ErrorKind::Invalid, format!("{q} is no quantile: give a number from 0 to 1")));
        }
        let bounds = bounds.into();
        let entry = self.ask_exact(&bounds, |stack| {
            let count = stack.count(bounds.start(), bounds.end())?;
            if count == 0 { Ok(None) } else { nth_in(stack, &bounds, offset_of_quantile(q, count)) }
        })?;
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        self.observe_position(&bounds, entry.as_ref().map(|entry| &entry.key))?;
        Ok(entry)
    }

    /// `rows` different rows of a range, each subset as likely as any other, in key order; all rows if there are not more.
    fn sample<'b>(&self, bounds: impl Into<Bounds<'b>>, rows: usize, rng: &mut impl Rng) -> Result<Vec<Entry>>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        let draw = |source: &Source<'_>| {
            let count = source.ask(|stack| stack.count(bounds.start(), bounds.end()))?;
            // Drawn once: rows that are at hand are no likelier than others.
            let offsets = sample_offsets(count, rows as u64, rng);
            source.ask(|stack| entries_at(stack, &bounds, offsets.iter().copied()))
        };
        let entries = self.read_from(|source| source.exact(bounds.start(), bounds.end(), draw))?;
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        for entry in &entries {
            self.observe_position(&bounds, Some(&entry.key))?;
        }
        Ok(entries)
    }

    /// Keys that cut a range into `parts` of equal counts (to within one row): at most `parts - 1`, fewer if there are fewer rows.
    /// Each is the first key of its part.
    fn split<'b>(&self, bounds: impl Into<Bounds<'b>>, parts: usize) -> Result<Vec<Key>>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        let keys = self.ask_exact(&bounds, |stack| {
            let count = stack.count(bounds.start(), bounds.end())?;
            let parts = (parts as u64).min(count);
            let cut = |part: u64| (u128::from(count) * u128::from(part) / u128::from(parts)) as u64;
            let entries = entries_at(stack, &bounds, (1..parts).map(cut))?;
            Ok(entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>())
        })?;
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        for key in &keys {
            self.observe_position(&bounds, Some(key))?;
        }
        Ok(keys)
    }

    /// All measures of a range that the table declared. Two descents a layer, and the entries of the two leaves where the range ends.
    fn tally<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<Tally>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        self.observe(|| Question::Tally(bounds.clone().into_owned()))?;
        self.ask_exact(&bounds, |stack| stack.tally(bounds.start(), bounds.end()))
    }

    /// What a range has on disk and in memory, exactly, before any of it is read: of each run inner pages and at most two leaves.
    fn plan<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<Plan>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        self.ask_exact(&bounds, |stack| {
            let (start, end) = (bounds.start(), bounds.end());
            if start.is_at_or_past(&end) {
                return Ok(Plan::default());
            }
            let runs = stack.runs();
            let on_disk = plan(&runs, start, end)?;
            let in_memory = resident(stack.upper_trees().tally(start, end));
            Ok(Plan {
                rows: (on_disk.rows + in_memory.rows) as u64,
                runs: runs.len(),
                entries: on_disk.entries,
                pages: on_disk.leaves,
                page_bytes: on_disk.leaf_bytes,
                value_bytes: on_disk.value_bytes,
            })
        })
    }

    /// Where the rows and bytes of a range lie: buckets of neighbouring keys, each with at most about as much as `resolution` says, and with
    /// bounds of what it has that are no further apart. Totals are exact, and all is exact in memory.
    ///
    /// Of runs it opens the inner pages under which more lies than half the resolution, a descent for each end of the range, and
    /// pages with rows only where these are large against the resolution: so with `resolution` a hundredth of the rows, a few hundred
    /// pages at most, and with twice the rows none.
    ///
    /// ```
    /// # use quipu::{Db, Options, Read, Resolution, Write};
    /// # fn main() -> quipu::Result<()> {
    /// # let db = Db::open("/data", Options::in_memory())?;
    /// let table = db.table("words")?;
    /// for word in ["ayllu", "chaski", "kipu", "llama", "tampu", "wak'a"] {
    ///     table.insert(word, "")?;
    /// }
    /// let histogram = table.histogram(.., Resolution::of_rows(2))?;
    /// assert_eq!(histogram.rows, 6);
    /// for bucket in &histogram.buckets {
    ///     assert!(bucket.rows.high <= 2);
    ///     assert_eq!(table.count(&bucket.bounds)?, bucket.rows.low);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn histogram<'b>(&self, bounds: impl Into<Bounds<'b>>, resolution: Resolution) -> Result<Histogram>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        let (start, end) = (bounds.start(), bounds.end());
        let of_stack = |stack: &TableStack<'_>| histogram(&stack.upper_trees(), &stack.runs(), start, end, &resolution);
        let (found, cost) = self.read_from(|source| {
            Ok(source.with_cost(|source| source.exact(start, end, |source| source.ask(of_stack))))
        })?;
        let histogram = Histogram { pages_read: cost.pages_read, ..found? };
        for bucket in &histogram.buckets {
            self.observe(|| Question::Rows(bucket.bounds.clone()))?;
        }
        Ok(histogram)
    }

    /// Brings the pages into the cache that reading a range will look at, before the first row is read: inner pages, pages with rows, and long
    /// values for who asks for them by key (a scan reads these past the cache). Gives what it took.
    ///
    /// It waits for files as often as the highest run has levels; once more if a limit of rows depends on what the first page has, and once
    /// more for long values. What does not fit into the cache is read in vain.
    fn charge<'b>(&self, bounds: impl Into<Bounds<'b>>, charge: Charge) -> Result<Cost>
    where
        Self: Sized,
    {
        let bounds = bounds.into();
        let limits = Limits { rows: charge.rows, bytes: charge.bytes, keeps_values: true, ..Limits::default() };
        let of_stack =
            |stack: &TableStack<'_>| run::charge(&stack.runs(), bounds.start(), bounds.end(), limits, charge.reverse);
        let (charged, cost) = self.read_from(|source| Ok(source.with_cost(|source| source.ask(of_stack))))?;
        charged.map(|()| cost)
    }

    /// Lends one version to `ask`, to be asked anything, and gives its answer with what it took in pages.
    ///
    /// Inside a transaction `ask` cannot write.
    ///
    /// ```
    /// # use quipu::{Db, Options, Read, Write};
    /// # fn main() -> quipu::Result<()> {
    /// # let db = Db::open("/data", Options::in_memory())?;
    /// # let table = db.table("words")?;
    /// # table.insert("kipu", "")?;
    /// let (count, cost) = table.explain(|table| table.count("a".."m"))?;
    /// println!("{count} rows, {} pages, {} of them read in {} rounds", cost.pages, cost.pages_read, cost.rounds);
    /// # Ok(())
    /// # }
    /// ```
    fn explain<T>(&self, ask: impl FnOnce(&Explained<'_>) -> Result<T>) -> Result<(T, Cost)>
    where
        Self: Sized,
    {
        explain(self, ask)
    }

    /// A cursor before the first row. It keeps its place by key, so it survives the removal of its row.
    fn cursor(&self) -> Cursor<'_, Self>
    where
        Self: Sized,
    {
        Cursor::new(self)
    }
}

/// What reading a range comes to: see [`Read::plan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Live rows, those in memory included.
    pub rows: u64,
    /// Runs of the table.
    pub runs: usize,
    /// Entries in them, among them overwritten ones and tombstones.
    pub entries: u64,
    /// Pages with these entries.
    pub pages: u64,
    /// Bytes of these pages.
    pub page_bytes: u64,
    /// Bytes of long values, which lie apart from the pages.
    pub value_bytes: u64,
}

/// How far [`Read::charge`] goes, from one end of a range: to the nearer of two limits, or to the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Entries of each run, as if it were alone. Where runs have some of the rows each, fewer of each are read than this; where entries
    /// are overwritten or erased, more.
    pub rows: Option<u64>,
    /// Bytes of each run's file behind the first page with rows. The last page may end beyond.
    pub bytes: Option<u64>,
    /// From the end of the range instead of the start.
    pub reverse: bool,
}

/// The offset of quantile `q` in `count` rows, `count > 0`.
fn offset_of_quantile(q: f64, count: u64) -> u64 {
    ((q * (count - 1) as f64 + 0.5).floor() as u64).min(count - 1)
}

fn nth_in(stack: &TableStack<'_>, bounds: &Bounds<'_>, offset: u64) -> Result<Option<Entry>, Missing> {
    if bounds.start().is_at_or_past(&bounds.end()) {
        return Ok(None);
    }
    let (before, end) = (stack.rows_before(bounds.start()), stack.rows_before(bounds.end()));
    let (before, end) = (before?, end?);
    if offset >= end - before {
        return Ok(None);
    }
    Ok(stack.nth(before + offset)?.map(|row| Entry::new(&row.key, row.value)))
}

/// The rows at these offsets of a range, of those that it has.
fn entries_at(
    stack: &TableStack<'_>,
    bounds: &Bounds<'_>,
    offsets: impl Iterator<Item = u64>,
) -> Result<Vec<Entry>, Missing> {
    let mut entries = Vec::new();
    ask_all(offsets.map(|offset| nth_in(stack, bounds, offset)), |entry| entries.extend(entry))?;
    Ok(entries)
}

/// Counts the live rows before many cuts, with interleaved descents if all layers are in memory.
fn rows_before_many<'k, M>(
    stack: &TableStack<'_>,
    cuts: impl Iterator<Item = (M, Cut<'k>)>,
    mut counted: impl FnMut(M, u64),
) -> Result<(), Missing> {
    if let Some(trees) = stack.trees() {
        trees.rows_before_many(cuts, counted);
        return Ok(());
    }
    let rows = cuts.map(|(mark, cut)| stack.rows_before(cut).map(|rows| (mark, rows)));
    ask_all(rows, |(mark, rows)| counted(mark, rows))
}

/// Scans a range of which about `rows` rows will be visited, with the pages of all of them asked for at once.
fn scan_charged(
    stack: &TableStack<'_>,
    start: Cut<'_>,
    end: Cut<'_>,
    reverse: bool,
    rows: usize,
    visit: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), Missing> {
    let runs = stack.runs();
    if !runs.is_empty() {
        run::charge(&runs, start, end, Limits { rows: Some(rows as u64), ..Limits::default() }, reverse)?;
    }
    stack.scan(start, end, reverse, visit)
}
