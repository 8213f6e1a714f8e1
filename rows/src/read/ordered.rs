//! Reads of rows in the order of a key.

use std::ops::Bound;
use std::sync::Arc;

use quipu::cost::{Cost, Costed, Footprint};
use quipu::histogram::{Histogram, Resolution};
use quipu::{Entry, Error, ReadableTable, Result, Tally};
use rand_core::Rng;

use crate::definition::table::TableDefinition;
use crate::encoding::key_range::{KeyRange, after};
use crate::encoding::key_shape::KeyShape;
use crate::encoding::span::Span;
use crate::encoding::values::IntoValues;
use crate::read::groups::Groups;
use crate::read::row::{Page, Row, RowView};
use crate::schema::invalid;
use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;
use crate::value::text::counted;

/// Rows read from the engine together, where a row of an index must be looked up in its table.
const LOOKED_UP_TOGETHER: usize = 256;

/// Rows of a chunk for which memory is taken before they are read.
const CHUNK_ROWS_RESERVED: usize = 1_024;

/// The order of a key, and the tree that keeps it.
#[doc(hidden)]
pub struct Order<'o> {
    pub(crate) key: &'o KeyShape,
    pub(crate) definition: &'o Arc<TableDefinition>,
    /// The place of the column whose sums are kept.
    pub(crate) sum: Option<usize>,
}

/// What [`Ordered`] needs of a table or an index.
#[doc(hidden)]
pub trait InOrder {
    type Tree: ReadableTable;

    fn tree(&self) -> &Self::Tree;

    fn order(&self) -> Order<'_>;

    /// The value of an element of the key, for a row.
    fn key_value(&self, row: &Row, element: usize) -> Result<Value<'static>>;

    /// The rows of entries of the tree.
    fn rows_of(&self, entries: Vec<Entry>) -> Result<Vec<Row>>;

    /// An entry of the tree as it stands there: of an index, it has some of the columns.
    fn entry_view<'r>(&'r self, key: &'r [u8], value: &'r [u8]) -> Result<RowView<'r>>;

    /// Lends the rows of a range until `visit` returns false.
    fn lend(&self, range: &KeyRange, visit: &mut dyn FnMut(RowView<'_>) -> Result<bool>) -> Result<()>;
}

/// Rows in the order of a key: those of a table, in the order of its primary key, or of an index.
///
/// Every answer is exact for what is read: the table as it is now, a snapshot, or a transaction. Counts, ranks,
/// offsets, quantiles and sums cost what they cost the engine: one or two descents, however many rows there are.
pub trait Ordered: InOrder {
    /// The number of rows in a range. As everywhere, a range with a value at one end only leaves out NULLs: see
    /// [`Span`].
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if the range has more columns than the key or values of other types, and
    /// those of reading a page of a file. The same holds for all questions.
    fn count<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        self.tree().count(self.range_of(span)?.bounds())
    }

    /// The number of rows.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn len(&self) -> Result<u64> {
        self.tree().len()
    }

    /// Whether there are no rows.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The number of rows before all whose key begins with these values, whether or not there are such: the offset of
    /// the first of them among all rows. So the NULLs of an ascending column, which stand first, are counted; how many
    /// values are below one is `count(Span::lt(..))`.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn rank<'v>(&self, values: impl IntoValues<'v>) -> Result<u64> {
        let mut key = Vec::new();
        self.order().key.encode(&values.into_values(), &mut key)?;
        self.tree().rank(key)
    }

    /// The row at an offset of a range; none past its end.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn nth<'v>(&self, span: impl Into<Span<'v>>, offset: u64) -> Result<Option<Row>> {
        let entry = self.tree().nth(self.range_of(span)?.bounds(), offset)?;
        self.row_of(entry)
    }

    /// The row at an offset of a range, counted from its end; none past its start.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn nth_back<'v>(&self, span: impl Into<Span<'v>>, offset: u64) -> Result<Option<Row>> {
        let range = self.range_of(span)?;
        let (entry, _) =
            self.tree().with_cost(|tree| match tree.count(range.bounds())?.checked_sub(offset.saturating_add(1)) {
                Some(offset) => tree.nth(range.bounds(), offset),
                None => Ok(None),
            })?;
        self.row_of(entry)
    }

    /// The first row of a range.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn first<'v>(&self, span: impl Into<Span<'v>>) -> Result<Option<Row>> {
        let entry = self.tree().range(self.range_of(span)?.bounds()).first_chunk(1).next().transpose()?;
        self.row_of(entry)
    }

    /// The last row of a range.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn last<'v>(&self, span: impl Into<Span<'v>>) -> Result<Option<Row>> {
        let entry = self.tree().range(self.range_of(span)?.bounds()).first_chunk(1).next_back().transpose()?;
        self.row_of(entry)
    }

    /// Up to `limit` rows from an offset of a range on, and how many the range has.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn page<'v>(&self, span: impl Into<Span<'v>>, offset: u64, limit: usize) -> Result<Page> {
        let page = self.tree().page(self.range_of(span)?.bounds(), offset, limit)?;
        Ok(Page { rows: self.rows_of(page.entries)?, offset: page.offset, total: page.total })
    }

    /// The row at a quantile of a range, from 0 to 1: the median is that of 0.5. None of an empty range.
    ///
    /// NULLs have no part in it, as in SQL: those of the first column in which the ends of the range differ are left
    /// out, of `..` those of the first column, of `Span::eq("JFK")` those of the second one. They count if an end names
    /// NULL, if the range is [with NULLs](Span::with_nulls), and in a [`KeyRange`].
    ///
    /// # Errors
    /// Those of [`Ordered::count`]; [`Invalid`](quipu::ErrorKind::Invalid) if `q` is not between 0 and 1.
    fn quantile<'v>(&self, span: impl Into<Span<'v>>, q: f64) -> Result<Option<Row>> {
        let entry = self.tree().quantile(self.range_of(span.into().without_nulls())?.bounds(), q)?;
        self.row_of(entry)
    }

    /// The sum of the column whose sums are kept, over a range: an integer, or a decimal. NULL counts as 0. Exact as
    /// long as the true sum, without its point, fits 64 bits; else it is a wrong number, as sums are kept modulo 2^64.
    /// Add up rows themselves where values are so large.
    ///
    /// # Errors
    /// Those of [`Ordered::count`]; [`Invalid`](quipu::ErrorKind::Invalid) if no sums are kept.
    fn sum<'v>(&self, span: impl Into<Span<'v>>) -> Result<Value<'static>> {
        self.tally(span).map(|(_, sum)| sum)
    }

    /// The number of rows in a range, and the sum of the column whose sums are kept, from one version: see
    /// [`Ordered::sum`].
    ///
    /// # Errors
    /// Those of [`Ordered::sum`].
    fn tally<'v>(&self, span: impl Into<Span<'v>>) -> Result<(u64, Value<'static>)> {
        let tally = self.tree().tally(self.range_of(span)?.bounds())?;
        Ok((tally.rows.unsigned_abs(), self.order().sum_of(&tally)?))
    }

    /// `rows` rows of a range, drawn so that each subset is equally likely; all rows if there are no more.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn sample<'v>(&self, span: impl Into<Span<'v>>, rows: usize, random: &mut impl Rng) -> Result<Vec<Row>> {
        let entries = self.tree().sample(self.range_of(span)?.bounds(), rows, random)?;
        self.rows_of(entries)
    }

    /// A range cut into `parts` of equal counts, to within one row: fewer if there are fewer rows. Together they are
    /// the range.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn split<'v>(&self, span: impl Into<Span<'v>>, parts: usize) -> Result<Vec<KeyRange>> {
        let range = self.range_of(span)?;
        let cuts = self.tree().split_points(range.bounds(), parts)?;
        Ok(range.cut_at(cuts.iter().map(|key| key.to_vec())))
    }

    /// A range cut at an offset: its first `offset` rows, and the rest; none if there are no more rows.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn cut<'v>(&self, span: impl Into<Span<'v>>, offset: u64) -> Result<(KeyRange, Option<KeyRange>)> {
        let range = self.range_of(span)?;
        let Some(entry) = self.tree().nth(range.bounds(), offset)? else { return Ok((range, None)) };
        let mut parts = range.cut_at(std::iter::once(entry.key.to_vec())).into_iter();
        let first = parts.next().unwrap_or_else(|| KeyRange::beginning_with(Vec::new()));
        Ok((first, parts.next()))
    }

    /// Up to `limit` rows of a range from its front, or from its back, nearest first; and what is left of the range,
    /// none if nothing is. So a range is read in parts by readers that keep nothing but it in between, as cursors do.
    /// Costs what a limited scan costs: a descent, and the rows; those of an index are looked up together.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, Ordered, Span, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
    /// # let towns = TableSchema::new("towns").key(["name"]).column(Column::new("name", DataType::TEXT));
    /// # let towns = database.create_table(&towns)?;
    /// for name in ["Cusco", "Lima", "Puno"] {
    ///     towns.insert(name)?;
    /// }
    /// let mut left = Some(database.snapshot().table("towns")?.range_of(Span::all())?);
    /// let mut chunks = Vec::new();
    /// while let Some(range) = left {
    ///     let (rows, rest) = database.snapshot().table("towns")?.chunk(&range, 2, false)?;
    ///     chunks.push(rows.len());
    ///     left = rest;
    /// }
    /// assert_eq!(chunks, [2, 1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn chunk(&self, range: &KeyRange, limit: usize, is_reversed: bool) -> Result<(Vec<Row>, Option<KeyRange>)> {
        self.chunk_where(range, limit, is_reversed, |_| Ok(true))
    }

    /// Those of the first `limit` rows of a range that `keeps` wants, and what is left of the range, as
    /// [`Ordered::chunk`] has it. Rows that are not kept are not copied. Of an index, `keeps` sees its entries, which
    /// have some of the columns ([`RowView::has`]), and rows of the table are looked up after it.
    ///
    /// # Errors
    /// Those of [`Ordered::count`], and that of `keeps`. If rows have been kept before, its error ends the chunk before
    /// its row, which comes first in the next one.
    fn chunk_where<E: From<Error>>(
        &self,
        range: &KeyRange,
        limit: usize,
        is_reversed: bool,
        mut keeps: impl FnMut(&RowView<'_>) -> std::result::Result<bool, E>,
    ) -> std::result::Result<(Vec<Row>, Option<KeyRange>), E> {
        let mut entries = Vec::new();
        let mut found = self.tree().range(range.bounds()).first_chunk(limit.max(1));
        let (mut seen, mut last, mut is_cut) = (0, Vec::new(), false);
        while seen < limit {
            let next = if is_reversed { found.lend_next_back()? } else { found.lend_next()? };
            let Some((key, value)) = next else { break };
            match keeps(&self.entry_view(key, value)?) {
                Ok(true) => {
                    if entries.is_empty() {
                        entries.reserve((limit - seen).min(CHUNK_ROWS_RESERVED));
                    }
                    entries.push(Entry { key: key.into(), value: value.into() });
                }
                Ok(false) => {}
                Err(error) if entries.is_empty() => return Err(error),
                Err(_) => {
                    is_cut = true;
                    break;
                }
            }
            seen += 1;
            if seen == limit || !entries.is_empty() {
                last.clear();
                last.extend_from_slice(key);
            }
        }
        let rest = match seen {
            _ if seen < limit && !is_cut => None,
            0 => Some(range.clone()),
            _ => range.beyond(&last, is_reversed),
        };
        Ok((self.rows_of(entries)?, rest))
    }

    /// A range without its first `skip` rows; none if it has no more rows than that. One descent or two, however many
    /// rows there are.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn position_range(&self, range: &KeyRange, skip: u64) -> Result<Option<KeyRange>> {
        if skip == 0 {
            return Ok(Some(range.clone()));
        }
        let first = self.tree().nth(range.bounds(), skip)?;
        Ok(first.map(|first| KeyRange::new(Bound::Included(first.key.to_vec()), range.end.clone())))
    }

    /// A range without its last `skip` rows; none if it has no more rows than that.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn position_range_back(&self, range: &KeyRange, skip: u64) -> Result<Option<KeyRange>> {
        if skip == 0 {
            return Ok(Some(range.clone()));
        }
        let (last, _) =
            self.tree().with_cost(|tree| match tree.count(range.bounds())?.checked_sub(skip.saturating_add(1)) {
                Some(offset) => tree.nth(range.bounds(), offset),
                None => Ok(None),
            })?;
        Ok(last.map(|last| KeyRange::new(range.start.clone(), Bound::Included(last.key.to_vec()))))
    }

    /// The rows of a range, from either end.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) as in [`Ordered::count`]; what reading says comes with the rows.
    fn rows<'v>(&self, span: impl Into<Span<'v>>) -> Result<RowIter<'_, Self>> {
        let range = self.range_of(span)?;
        let entries = self.tree().range(range.bounds());
        Ok(RowIter { of: self, entries, front: Vec::new().into_iter(), back: Vec::new().into_iter(), chunk: 1 })
    }

    /// Lends each row of a range to `visit`, in order, until it returns false. The fastest way to read many rows:
    /// nothing is copied.
    ///
    /// # Errors
    /// Those of [`Ordered::count`], and those of `visit`.
    fn for_each<'v>(
        &self,
        span: impl Into<Span<'v>>,
        mut visit: impl FnMut(RowView<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.lend(&self.range_of(span)?, &mut visit)
    }

    /// How many rows of a range have each value of the first `columns` columns of the key, and the sum of the column
    /// whose sums are kept: one seek and one tally for each group, however many rows it has.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if the key has fewer columns.
    fn groups<'v>(&self, span: impl Into<Span<'v>>, columns: usize) -> Result<Groups<'_, Self>> {
        let (range, key) = (self.range_of(span)?, self.order().key);
        if columns == 0 || columns > key.columns.len() {
            let (most, names) = (key.columns.len(), key.names.join(", "));
            let columns = counted(columns, "column");
            return Err(invalid(format!("{columns} cannot make groups of {}, which has {most}: {names}", key.owner)));
        }
        Ok(Groups::new(self, range, columns))
    }

    /// What a range takes on disk and in memory, exactly, before it is read.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn footprint<'v>(&self, span: impl Into<Span<'v>>) -> Result<Footprint> {
        self.tree().footprint(self.range_of(span)?.bounds())
    }

    /// Where the rows of a range lie, as buckets of about equal counts.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    fn histogram<'v>(&self, span: impl Into<Span<'v>>, resolution: Resolution) -> Result<Histogram> {
        self.tree().histogram(self.range_of(span)?.bounds(), resolution)
    }

    /// The answer to questions, and the pages of this order's tree that it took. Rows that an index looks up in its
    /// table are not in the cost.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, Ordered, Span, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
    /// # let towns = TableSchema::new("towns").key(["name"]).column(Column::new("name", DataType::TEXT));
    /// # database.create_table(&towns)?.insert("Cusco")?;
    /// let now = database.snapshot();
    /// let (count, cost) = now.table("towns")?.with_cost(|towns| towns.count(Span::lt("M")))?;
    /// assert_eq!((count, cost.pages), (1, 0), "no page of a run");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `ask`.
    fn with_cost<T>(&self, ask: impl FnOnce(&CostedRows<'_, '_, Self>) -> Result<T>) -> Result<(T, Cost)> {
        self.tree().with_cost(|tree| ask(&CostedRows { of: self, tree }))
    }

    /// The names and types of what rows are sorted by, in its order: columns, and expressions of an index.
    fn key_columns(&self) -> Vec<(String, DataType)> {
        let key = self.order().key;
        key.names.iter().cloned().zip(key.columns.iter().map(|column| column.data_type)).collect()
    }

    /// What a row is sorted by: a value for each of [`Ordered::key_columns`].
    ///
    /// # Errors
    /// [`Corrupt`](quipu::ErrorKind::Corrupt) if its bytes are no row.
    fn key_values(&self, row: &Row) -> Result<Vec<Value<'static>>> {
        (0..self.order().key.columns.len()).map(|element| self.key_value(row, element)).collect()
    }

    /// The range of encoded keys that a span means here.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) as in [`Ordered::count`].
    fn range_of<'v>(&self, span: impl Into<Span<'v>>) -> Result<KeyRange> {
        span.into().encode(self.order().key)
    }

    #[doc(hidden)]
    fn row_of(&self, entry: Option<Entry>) -> Result<Option<Row>> {
        match entry {
            None => Ok(None),
            Some(entry) => Ok(self.rows_of(vec![entry])?.pop()),
        }
    }
}

impl<O: InOrder> Ordered for O {}

/// Rows in an order, asked so that the pages are counted. Lent by [`Ordered::with_cost`].
pub struct CostedRows<'c, 'p, O: ?Sized> {
    of: &'c O,
    tree: &'c Costed<'p>,
}

impl<'p, O: InOrder + ?Sized> InOrder for CostedRows<'_, 'p, O> {
    type Tree = Costed<'p>;

    fn tree(&self) -> &Costed<'p> {
        self.tree
    }

    fn order(&self) -> Order<'_> {
        self.of.order()
    }

    fn key_value(&self, row: &Row, element: usize) -> Result<Value<'static>> {
        self.of.key_value(row, element)
    }

    fn rows_of(&self, entries: Vec<Entry>) -> Result<Vec<Row>> {
        self.of.rows_of(entries)
    }

    fn entry_view<'r>(&'r self, key: &'r [u8], value: &'r [u8]) -> Result<RowView<'r>> {
        self.of.entry_view(key, value)
    }

    fn lend(&self, range: &KeyRange, visit: &mut dyn FnMut(RowView<'_>) -> Result<bool>) -> Result<()> {
        for entry in self.tree.range(range.bounds()) {
            if let Some(row) = self.of.rows_of(vec![entry?])?.first()
                && !visit(row.view()?)?
            {
                break;
            }
        }
        Ok(())
    }
}

impl Order<'_> {
    /// The sum that a tally has.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if no sums are kept.
    pub(crate) fn sum_of(&self, tally: &Tally) -> Result<Value<'static>> {
        let Some(place) = self.sum else {
            return Err(invalid(format!("{} keeps no sums; declare one, or make an index that does", self.key.owner)));
        };
        Ok(match self.definition.columns[place].declared.data_type {
            DataType::Decimal { scale, .. } => {
                let sum = Decimal::new(tally.sum.into(), scale);
                Value::Decimal(sum.unwrap_or_else(|| Decimal::from(0)))
            }
            DataType::U64 => Value::Int((tally.sum as u64).into()),
            _ => Value::Int(tally.sum.into()),
        })
    }
}

impl KeyRange {
    /// The range cut before each of these keys, which lie in it and ascend.
    fn cut_at(self, keys: impl Iterator<Item = Vec<u8>>) -> Vec<KeyRange> {
        let mut parts = Vec::new();
        let mut start = self.start;
        for key in keys {
            parts.push(KeyRange { start, end: Bound::Excluded(key.clone()) });
            start = Bound::Included(key);
        }
        parts.push(KeyRange { start, end: self.end });
        parts
    }

    /// What is left of the range after all keys that begin with `key`.
    pub(crate) fn set_start_after(&mut self, key: Vec<u8>) {
        self.start = Bound::Included(after(key));
    }
}

/// The rows of a range, from either end. Made by [`Ordered::rows`].
pub struct RowIter<'o, O: InOrder + ?Sized> {
    of: &'o O,
    entries: quipu::Rows<'o>,
    /// Rows that were looked up together.
    front: std::vec::IntoIter<Row>,
    back: std::vec::IntoIter<Row>,
    /// How many are looked up next.
    chunk: usize,
}

impl<O: InOrder + ?Sized> RowIter<'_, O> {
    fn refill(&mut self, is_back: bool) -> Result<()> {
        let mut entries = Vec::with_capacity(self.chunk);
        while entries.len() < self.chunk {
            let entry = if is_back { self.entries.next_back() } else { self.entries.next() };
            match entry {
                Some(entry) => entries.push(entry?),
                None => break,
            }
        }
        self.chunk = (self.chunk * 4).min(LOOKED_UP_TOGETHER);
        let rows = self.of.rows_of(entries)?.into_iter();
        if is_back {
            self.back = rows;
        } else {
            self.front = rows;
        }
        Ok(())
    }

    fn take(&mut self, is_back: bool) -> Option<Result<Row>> {
        let near = if is_back { &mut self.back } else { &mut self.front };
        if let Some(row) = near.next() {
            return Some(Ok(row));
        }
        if let Err(error) = self.refill(is_back) {
            return Some(Err(error));
        }
        // Where the ends have met, what is left is at the other one; that of the back stands with its last row first.
        let (near, far) = if is_back { (&mut self.back, &mut self.front) } else { (&mut self.front, &mut self.back) };
        near.next().or_else(|| far.next_back()).map(Ok)
    }
}

impl<O: InOrder + ?Sized> Iterator for RowIter<'_, O> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.take(false)
    }
}

impl<O: InOrder + ?Sized> DoubleEndedIterator for RowIter<'_, O> {
    fn next_back(&mut self) -> Option<Result<Row>> {
        self.take(true)
    }
}
