//! [`ReadableTable`]: reads, the same over tables, snapshots and transactions.

use rand_core::Rng;

use crate::bounds::Bounds;
use crate::cache::Missing;
use crate::error::{Error, ErrorKind, Result};
use crate::page::KeyBuffer;
use crate::probe::{self, CountInterval, Histogram, Limits, Resolution, histogram, plan};
use crate::read::costed::{Costed, answer_with_cost};
use crate::read::cursor::Cursor;
use crate::read::entry::{Entry, Key, RowPage, Value};
use crate::read::many_keys::rows_before_many;
use crate::read::observation::Question;
use crate::read::reader::Reader;
use crate::read::rows::{Rows, scan_first};
use crate::read::sample::sample_offsets;
use crate::read::table_stack::{Cost, Source, TableStack};
use crate::stack::{Cut, ask_all, infallible};
use crate::tally::Tally;
use crate::tree::{self, View};

/// Reading rows, in key order and by position. Every answer is exact for the version read: the current one, the
/// snapshot's, or the transaction's own.
///
/// | to read | methods |
/// |---|---|
/// | values by key | [`get`], [`get_with`], [`get_many`], [`get_many_with`], [`contains`] |
/// | rows in key order | [`range`], [`prefix`], [`for_each`], [`for_each_limited`], [`first`], [`last`], [`cursor`] |
/// | counts | [`len`], [`is_empty`], [`count`], [`count_many`], [`count_interval`] |
/// | positions | [`rank`], [`rank_many`], [`nth`], [`nth_many`], [`page`], [`quantile`] |
/// | sums | [`tally`] |
/// | samples and parts | [`sample`], [`split_points`], [`histogram`] |
/// | costs | before the read: [`footprint`]; to bring pages in early: [`prefetch`]; of any read: [`with_cost`] |
///
/// Costs are given in descents: a descent reads one page for each level, about 0.3 us at a million rows in memory.
///
/// [`get`]: Self::get
/// [`get_with`]: Self::get_with
/// [`get_many`]: Self::get_many
/// [`get_many_with`]: Self::get_many_with
/// [`contains`]: Self::contains
/// [`range`]: Self::range
/// [`prefix`]: Self::prefix
/// [`for_each`]: Self::for_each
/// [`for_each_limited`]: Self::for_each_limited
/// [`first`]: Self::first
/// [`last`]: Self::last
/// [`cursor`]: Self::cursor
/// [`len`]: Self::len
/// [`is_empty`]: Self::is_empty
/// [`count`]: Self::count
/// [`count_many`]: Self::count_many
/// [`count_interval`]: Self::count_interval
/// [`rank`]: Self::rank
/// [`rank_many`]: Self::rank_many
/// [`nth`]: Self::nth
/// [`nth_many`]: Self::nth_many
/// [`page`]: Self::page
/// [`quantile`]: Self::quantile
/// [`tally`]: Self::tally
/// [`sample`]: Self::sample
/// [`split_points`]: Self::split_points
/// [`histogram`]: Self::histogram
/// [`footprint`]: Self::footprint
/// [`prefetch`]: Self::prefetch
/// [`with_cost`]: Self::with_cost
pub trait ReadableTable: Reader {
    // Values by key

    /// The value of `key`, or `None`. One descent.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.observe(|| Question::Value(key.into()))?;
        let value = self.ask(|stack| Ok(stack.get(key)?.map(Value::from)))?;
        self.found(key, value.as_deref());
        Ok(value)
    }

    /// Lends the value of `key`, or `None`, to `work`, with no copy. One descent.
    ///
    /// Over a [`Table`](crate::Table) commits wait until `work` is done: it must be short, and must not use the
    /// database.
    fn get_with<R>(&self, key: impl AsRef<[u8]>, work: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let key = key.as_ref();
        self.observe(|| Question::Value(key.into()))?;
        self.before_lending()?;
        let mut work = Some(work);
        self.ask(|stack| {
            let value = stack.get(key)?;
            let work = work.take().expect("a question is answered once");
            Ok(work(value))
        })
    }

    /// The values of many keys from one version, in their order. Descents are interleaved, so that they wait for memory
    /// together: several times as fast as single gets when the table is larger than the processor's cache.
    fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_with(keys, |_, value| values.push(value.map(Value::from)))?;
        Ok(values)
    }

    /// Looks up many keys like `get_many`, and lends each value to `visit`, with the index of the key, in order and
    /// with no copy.
    ///
    /// Over a [`Table`](crate::Table) commits wait until the last value was visited: `visit` must be short, and must
    /// not use the database.
    fn get_many_with(&self, keys: &[impl AsRef<[u8]>], mut visit: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        for key in keys {
            self.observe(|| Question::Value(key.as_ref().into()))?;
        }
        self.before_lending()?;
        self.ask(|stack| {
            if let Some(trees) = stack.trees() {
                trees.get_many(keys, &mut visit);
                return Ok(());
            }
            // No value is lent before all are there: so all are of one version, and each is lent once.
            stack.get_many(keys)?.into_iter().enumerate().for_each(|(number, value)| visit(number, value));
            Ok(())
        })
    }

    /// Whether `key` is live. One descent.
    fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.observe(|| Question::Live(key.into()))?;
        self.ask(|stack| Ok(stack.get(key)?.is_some()))
    }

    // Rows in key order

    /// The rows of a range in key order, from either end. Over a [`Table`](crate::Table) they are of one moment.
    fn range<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Rows<'_> {
        Rows::new(self.hold(), bounds.into().into_owned())
    }

    /// The rows whose keys start with `prefix`, in key order.
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Rows<'_> {
        self.range(Bounds::prefix(prefix.as_ref()))
    }

    /// Calls `visit` with the key and value of each row of a range until it returns false. The fastest way to read many
    /// rows: nothing is copied. Over a [`Table`](crate::Table) the rows are of one moment, and `visit` may write;
    /// inside a transaction it may not (use `range`).
    fn for_each<'b>(&self, bounds: impl Into<Bounds<'b>>, visit: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let bounds = bounds.into();
        self.observe(|| Question::Scan(bounds.clone().into_owned()))?;
        self.before_lending()?;
        self.read_rows_from(|source| source.scan(bounds.start(), bounds.end(), false, visit))
    }

    /// Calls `visit` with the key and value of each of the first `rows` rows of a range. Use it instead of
    /// [`for_each`](ReadableTable::for_each) if you know how many rows you want: the pages of these rows are read from
    /// files at once, and hardly any others.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
    /// use quipu::{ReadableTable, WritableTable};
    /// let table = db.ensure_table("t")?;
    /// for key in ["a", "b", "c"] {
    ///     table.put(key, "1")?;
    /// }
    /// let mut keys = Vec::new();
    /// table.for_each_limited("b".., 10, |key, _| keys.push(key.to_vec()))?;
    /// assert_eq!(keys, [b"b", b"c"]);
    /// # Ok(())
    /// # }
    /// ```
    fn for_each_limited<'b>(
        &self,
        bounds: impl Into<Bounds<'b>>,
        rows: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.before_lending()?;
        scan_first(self, &bounds.into(), false, rows, |key, value| {
            visit(key, value);
            true
        })
    }

    /// The row with the smallest key.
    fn first(&self) -> Result<Option<Entry>> {
        self.range(..).first_chunk(1).next().transpose()
    }

    /// The row with the largest key.
    fn last(&self) -> Result<Option<Entry>> {
        self.range(..).first_chunk(1).next_back().transpose()
    }

    /// A cursor before the first row. It keeps its place by key, so it survives the removal of its row.
    fn cursor(&self) -> Cursor<'_, Self> {
        Cursor::new(self)
    }

    // Counts

    /// The number of rows. No descent.
    fn len(&self) -> Result<u64> {
        self.count(..)
    }

    /// Whether there are no rows.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The number of live rows in a range. Two descents for each layer, interleaved in about the time of one; none for
    /// `..`.
    fn count<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        let bounds = bounds.into();
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        self.ask_exact(&bounds, |stack| stack.count(bounds.start(), bounds.end()))
    }

    /// The counts of many ranges from one version, in their order. Descents are interleaved.
    fn count_many(&self, ranges: &[Bounds<'_>]) -> Result<Vec<u64>> {
        for bounds in ranges {
            self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        }
        self.ask_exact(&Bounds::from(..), |stack| {
            let mut counts = vec![0u64; ranges.len()];
            // A range that ends before it starts is skipped, so its count stays zero.
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

    /// Bounds of the number of live rows in a range. For a [`blind`](crate::TableOptions::blind_writes) table, they
    /// follow without resolving its blind writes; for any other, both are the exact count. Costs what `count` costs
    /// elsewhere, and one more descent.
    ///
    /// In an optimistic transaction, which must notice a change of the number, it costs what `count` does.
    fn count_interval<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<CountInterval> {
        let bounds = bounds.into();
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        self.read_from(|source| source.count_interval(bounds.start(), bounds.end()))
    }

    // Positions

    /// The number of live rows below `key`, which need not exist. One descent for each layer.
    fn rank(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        let key = key.as_ref();
        self.observe(|| Question::Rows(Bounds::from(..key).into_owned()))?;
        self.ask_exact(&Bounds::from(..key), |stack| stack.rows_before(Cut::Before(key)))
    }

    /// The ranks of many keys from one version. Descents are interleaved.
    fn rank_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<u64>> {
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

    /// The row at `offset` of a range, or `None` past its end. Two descents; some twenty more if several layers have
    /// entries there.
    fn nth<'b>(&self, bounds: impl Into<Bounds<'b>>, offset: u64) -> Result<Option<Entry>> {
        let bounds = bounds.into();
        let entry = self.ask_exact(&bounds, |stack| nth_in(stack, &bounds, offset))?;
        self.observe_position(&bounds, entry.as_ref().map(|entry| &entry.key))?;
        Ok(entry)
    }

    /// The rows at many offsets of the whole table, from one version. Descents are interleaved.
    fn nth_many(&self, offsets: &[u64]) -> Result<Vec<Option<Entry>>> {
        let all = Bounds::from(..);
        let mut entries = vec![None; offsets.len()];
        let is_answered = self.ask(|stack| {
            let trees = stack.trees();
            let tree = trees.as_ref().and_then(|trees| trees.single());
            tree.inspect(|tree| nth_in_tree(tree, offsets, |number, entry| entries[number] = Some(entry)));
            Ok(tree.is_some())
        })?;
        if !is_answered {
            // `ask` may turn to a newer version when pages have come; a source is one version.
            self.read_from(|source| {
                source.exact(all.start(), all.end(), |source| nth_over_runs(source, offsets, &mut entries))
            })?;
        }
        for entry in &entries {
            self.observe_position(&Bounds::from(..), entry.as_ref().map(|entry| &entry.key))?;
        }
        Ok(entries)
    }

    /// Up to `limit` rows from `offset` on, and the exact total of the range, from one version. Costs what `nth` costs,
    /// and one step for each row.
    fn page<'b>(&self, bounds: impl Into<Bounds<'b>>, offset: u64, limit: usize) -> Result<RowPage> {
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
                    let mut visit = |key: &[u8], value: &[u8]| {
                        entries.push(Entry::new(key, value));
                        entries.len() < wanted
                    };
                    scan_charged(stack, Cut::Before(&first.key), bounds.end(), false, wanted, &mut visit)?;
                }
            }
            Ok(RowPage { entries, offset, total })
        })?;
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        if let (Some(first), Some(last)) = (page.entries.first(), page.entries.last()) {
            self.observe_position(&bounds, Some(&first.key))?;
            self.observe(|| Question::Scan(Bounds::from(&*first.key..=&*last.key).into_owned()))?;
        }
        Ok(page)
    }

    /// The row at quantile `q` (0 to 1) of a range by the nearest-rank method: offset `floor(q * (count - 1) + 0.5)`.
    /// `None` for an empty range.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `q` is not between 0 and 1.
    fn quantile<'b>(&self, bounds: impl Into<Bounds<'b>>, q: f64) -> Result<Option<Entry>> {
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::new(ErrorKind::Invalid, format!("{q} is not a quantile: give a number from 0 to 1")));
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

    // Sums

    /// All measures of a range that the table declares. Two descents for each layer, and the entries of the two leaves
    /// at the ends of the range.
    fn tally<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<Tally> {
        let bounds = bounds.into();
        self.observe(|| Question::Tally(bounds.clone().into_owned()))?;
        self.ask_exact(&bounds, |stack| stack.tally(bounds.start(), bounds.end()))
    }

    // Samples and parts

    /// `rows` distinct rows of a range, in key order; all rows if there are no more. Each subset is equally likely.
    fn sample<'b>(&self, bounds: impl Into<Bounds<'b>>, rows: usize, rng: &mut impl Rng) -> Result<Vec<Entry>> {
        let bounds = bounds.into();
        let draw = |source: &Source<'_>| {
            let count = source.ask(|stack| stack.count(bounds.start(), bounds.end()))?;
            // Drawn once, so that rows whose pages are in memory are no likelier than others.
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

    /// Keys that split a range into `parts` of equal counts (to within one row): at most `parts - 1`, fewer if there
    /// are fewer rows. Each is the first key of its part.
    fn split_points<'b>(&self, bounds: impl Into<Bounds<'b>>, parts: usize) -> Result<Vec<Key>> {
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

    /// Where the rows and bytes of a range lie: buckets of neighbouring keys. Each bucket holds at most about as much
    /// as `resolution`, between bounds that are no further apart than that. Totals are exact; in memory everything is.
    ///
    /// In runs it reads the inner pages that cover more than half the resolution, makes a descent for each end of the
    /// range, and reads leaves only where they are large against the resolution. With a `resolution` of a hundredth of
    /// the rows it reads a few hundred pages at most; with twice the rows, none.
    ///
    /// ```
    /// # use quipu::histogram::Resolution;
    /// # use quipu::{Db, Options, ReadableTable, WritableTable};
    /// # fn main() -> quipu::Result<()> {
    /// # let db = Db::open("/data", Options::without_files())?;
    /// let table = db.ensure_table("words")?;
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
    fn histogram<'b>(&self, bounds: impl Into<Bounds<'b>>, resolution: Resolution) -> Result<Histogram> {
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

    // Costs

    /// The exact size of a range on disk and in memory, before it is read. Reads inner pages and at most two leaves of
    /// each run.
    fn footprint<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<Footprint> {
        let bounds = bounds.into();
        self.observe(|| Question::Rows(bounds.clone().into_owned()))?;
        self.ask_exact(&bounds, |stack| {
            let (start, end) = (bounds.start(), bounds.end());
            if start.is_at_or_past(&end) {
                return Ok(Footprint::default());
            }
            let runs = stack.runs();
            let on_disk = plan(&runs, start, end)?;
            let in_memory = infallible(stack.upper_trees().tally(start, end));
            Ok(Footprint {
                rows: (on_disk.rows + in_memory.rows) as u64,
                runs: runs.len(),
                entries: on_disk.entries,
                pages: on_disk.leaves,
                page_bytes: on_disk.leaf_bytes,
                value_bytes: on_disk.value_bytes,
            })
        })
    }

    /// Reads the pages that a scan of a range needs into the cache, before the first row is read: inner pages, leaves,
    /// and long values (for gets by key; a scan reads these without the cache). Returns what it cost.
    ///
    /// It waits for files as often as the highest run has levels; once more if a limit of rows depends on the contents
    /// of the first page, and once more for long values. Pages that do not fit into the cache are read in vain.
    fn prefetch<'b>(&self, bounds: impl Into<Bounds<'b>>, prefetch: Prefetch) -> Result<Cost> {
        let bounds = bounds.into();
        let limits = Limits { rows: prefetch.rows, bytes: prefetch.bytes, keeps_values: true, ..Limits::default() };
        let of_stack = |stack: &TableStack<'_>| {
            probe::charge(&stack.runs(), bounds.start(), bounds.end(), limits, prefetch.reverse)
        };
        let (charged, cost) = self.read_from(|source| Ok(source.with_cost(|source| source.ask(of_stack))))?;
        charged.map(|()| cost)
    }

    /// Lends one version to `ask`, which may ask it anything. Returns the answer of `ask` and its cost in pages.
    ///
    /// Inside a transaction `ask` cannot write.
    ///
    /// ```
    /// # use quipu::{Db, Options, ReadableTable, WritableTable};
    /// # fn main() -> quipu::Result<()> {
    /// # let db = Db::open("/data", Options::without_files())?;
    /// # let table = db.ensure_table("words")?;
    /// # table.insert("kipu", "")?;
    /// let (count, cost) = table.with_cost(|table| table.count("a".."m"))?;
    /// println!("{count} rows, {} pages, {} of them read in {} rounds", cost.pages, cost.pages_read, cost.rounds);
    /// # Ok(())
    /// # }
    /// ```
    fn with_cost<T>(&self, ask: impl FnOnce(&Costed<'_>) -> Result<T>) -> Result<(T, Cost)> {
        answer_with_cost(self, ask)
    }

    /// Notes that the row at some offset of the range has this key, or that the range ends before.
    #[doc(hidden)]
    fn observe_position(&self, bounds: &Bounds<'_>, key: Option<&Key>) -> Result<()> {
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
}

impl<R: Reader> ReadableTable for R {}

/// The size of a range: see [`ReadableTable::footprint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Live rows, including those in memory.
    pub rows: u64,
    /// Runs of the table.
    pub runs: usize,
    /// Entries in the runs, including overwritten ones and tombstones.
    pub entries: u64,
    /// Pages with these entries.
    pub pages: u64,
    /// Bytes of these pages.
    pub page_bytes: u64,
    /// Bytes of long values, which are stored outside the pages.
    pub value_bytes: u64,
}

/// How far [`ReadableTable::prefetch`] reads from one end of a range: to the nearer of two limits, or to the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetch {
    /// Entries of each run, as if it were alone. If several runs share the rows, fewer entries of each are needed; if
    /// entries are overwritten or removed, more.
    pub rows: Option<u64>,
    /// Bytes of each run's file from the first leaf on. The last page may extend beyond.
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

/// The rows at offsets in one version. A page that is missing for one offset holds up no other.
fn nth_over_runs(source: &Source<'_>, offsets: &[u64], entries: &mut [Option<Entry>]) -> Result<()> {
    let mut left: Vec<usize> = (0..offsets.len()).collect();
    source.ask(|stack| {
        let asked: Vec<u64> = left.iter().map(|number| offsets[*number]).collect();
        let (mut all, mut missing) = (Ok(()), Vec::new());
        stack.nth_many(&asked, |place, row| match row {
            Ok(row) => entries[left[place]] = row.map(|row| Entry::new(&row.key, row.value)),
            Err(fault) => {
                missing.push(left[place]);
                all = Err(fault);
            }
        });
        left = missing;
        all
    })
}

/// The rows at those of the offsets that a tree without layers has.
fn nth_in_tree(view: &View<'_>, offsets: &[u64], mut found: impl FnMut(usize, Entry)) {
    let rows = view.entries();
    let (numbers, inside): (Vec<usize>, Vec<u64>) =
        offsets.iter().copied().enumerate().filter(|&(_, offset)| offset < rows).unzip();
    if rows == 0 {
        return;
    }
    let mut key = KeyBuffer::new();
    tree::nth_many(view, &inside, |number, leaf, position| {
        let record = leaf.leaf_record(position);
        key.clear();
        leaf.record_key_into(&record, position, &mut key);
        found(numbers[number], Entry::new(&key, tree::value_of(&record)));
    });
}

/// The rows at these offsets of a range, as far as they exist.
fn entries_at(
    stack: &TableStack<'_>,
    bounds: &Bounds<'_>,
    offsets: impl Iterator<Item = u64>,
) -> Result<Vec<Entry>, Missing> {
    let mut entries = Vec::new();
    ask_all(offsets.map(|offset| nth_in(stack, bounds, offset)), |entry| entries.extend(entry))?;
    Ok(entries)
}

/// Scans a range of which about `rows` rows will be visited. Requests all their pages at once.
fn scan_charged(
    stack: &TableStack<'_>,
    start: Cut<'_>,
    end: Cut<'_>,
    reverse: bool,
    rows: usize,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), Missing> {
    let runs = stack.runs();
    if !runs.is_empty() {
        probe::charge(&runs, start, end, Limits { rows: Some(rows as u64), ..Limits::default() }, reverse)?;
    }
    stack.scan((start, end), reverse, true, visit)
}
