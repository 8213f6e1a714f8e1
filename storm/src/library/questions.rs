//! Questions to a table, to a snapshot, inside a transaction: one entry a verb, with how it is drawn, how
//! it is asked and how the answer is judged.

use quipu::cost::{Costed, Prefetch};
use quipu::histogram::Resolution;
use quipu::{Bounds, Cursor, ReadableTable, Result};
use quipu::{Table, TableSnapshot, TableTransaction, TableView};
use quipu_suite::dice::Dice;

use crate::library::answer::{Answer, Row, are_rows, at, is_row, is_value, row_of};
use crate::library::model::TableModel;
use crate::library::setup::Setup;
use crate::library::value::mix;
use crate::library::word::{Word, Words};

/// A verb that asks.
pub struct Question {
    /// Its name in scripts.
    pub name: &'static str,
    /// How often it is drawn.
    pub weight: usize,
    /// The verbs of the library that it covers.
    pub covers: &'static [&'static str],
    /// Draws what it asks for.
    pub draw: fn(&mut Dice, &Setup, &TableModel) -> Vec<Word>,
    /// Asks.
    pub ask: Asks,
    /// Whether the answer is right.
    pub judge: fn(&TableModel, Words<'_>, &Answer) -> bool,
}

/// A question to each of those that can be asked.
pub struct Asks {
    /// A table, as it is now.
    pub table: fn(&Table, Words<'_>) -> Result<Answer>,
    /// A table at a moment.
    pub view: fn(&TableView<'_>, Words<'_>) -> Result<Answer>,
    /// A table at a moment, owned.
    pub owned: fn(&TableSnapshot, Words<'_>) -> Result<Answer>,
    /// A table in a transaction.
    pub transaction: fn(&TableTransaction<'_>, Words<'_>) -> Result<Answer>,
    /// A version that counts what answers cost.
    pub explained: fn(&Costed<'_>, Words<'_>) -> Result<Answer>,
}

macro_rules! asks {
    ($ask:expr) => {
        Asks {
            table: |reader, words| $ask(reader, words),
            view: |reader, words| $ask(reader, words),
            owned: |reader, words| $ask(reader, words),
            transaction: |reader, words| $ask(reader, words),
            explained: |reader, words| $ask(reader, words),
        }
    };
}

/// All questions.
pub static QUESTIONS: &[Question] = &[
    Question {
        name: "get",
        weight: 12,
        covers: &["get", "get_with", "contains"],
        draw: |dice, setup, table| vec![key(dice, setup, table)],
        ask: asks!(|reader: &_, words: Words<'_>| get(reader, words)),
        judge: |table, words, answer| {
            let expected = table.rows.get(words.key(0));
            matches!(answer, Answer::Value(value) if is_value(value, expected))
        },
    },
    Question {
        name: "get_many",
        weight: 4,
        covers: &["get_many", "get_many_with"],
        draw: |dice, setup, table| (0..dice.below(20)).map(|_| key(dice, setup, table)).collect(),
        ask: asks!(|reader: &_, words: Words<'_>| get_many(reader, words)),
        judge: |table, words, answer| {
            let keys = words.keys(0);
            matches!(answer, Answer::Values(values) if values.len() == keys.len()
                && values.iter().zip(keys).all(|(value, key)| is_value(value, table.rows.get(key))))
        },
    },
    Question {
        name: "len",
        weight: 4,
        covers: &["len", "is_empty", "Snapshot::into_table"],
        draw: |_, _, _| Vec::new(),
        ask: asks!(|reader: &_, _: Words<'_>| len(reader)),
        judge: |table, _, answer| *answer == Answer::Number(table.rows.len() as u64),
    },
    Question {
        name: "ends",
        weight: 3,
        covers: &["first", "last"],
        draw: |_, _, _| Vec::new(),
        ask: asks!(|reader: &_, _: Words<'_>| ends(reader)),
        judge: |table, _, answer| {
            let last = table.rows.len().checked_sub(1).and_then(|last| table.rows.nth(last));
            matches!(answer, Answer::MaybeRows(rows) if rows.len() == 2
                && is_row(&rows[0], table.rows.nth(0)) && is_row(&rows[1], last))
        },
    },
    Question {
        name: "range",
        weight: 5,
        covers: &["range", "take", "rev", "lend_next", "for_each", "for_each_limited"],
        draw: |dice, setup, table| {
            let mut words = bounds(dice, setup, table);
            words.push(Word::Number(dice.below(60) as u64));
            words.push(Word::Number(dice.below(5) as u64));
            words
        },
        ask: asks!(|reader: &_, words: Words<'_>| range(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            let (from, to) = limited(from, to, words.number(2), words.number(3) == 1);
            matches!(answer, Answer::Rows(rows) if are_rows(rows, table.rows.slice(from, to)))
        },
    },
    Question {
        name: "prefix",
        weight: 2,
        covers: &["prefix"],
        draw: |dice, setup, table| {
            let Word::Key(mut key) = key(dice, setup, table) else { return Vec::new() };
            key.truncate(dice.below(key.len() + 1));
            vec![Word::Key(key), Word::Number(dice.below(60) as u64)]
        },
        ask: asks!(|reader: &_, words: Words<'_>| prefix(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&Bounds::prefix(words.key(0)));
            let (from, to) = limited(from, to, words.number(1), false);
            matches!(answer, Answer::Rows(rows) if are_rows(rows, table.rows.slice(from, to)))
        },
    },
    Question {
        name: "scan",
        weight: 1,
        covers: &["for_each"],
        draw: |_, _, _| Vec::new(),
        ask: asks!(|reader: &_, _: Words<'_>| scan(reader)),
        judge: |table, _, answer| matches!(answer, Answer::Rows(rows) if are_rows(rows, table.rows.iter())),
    },
    Question {
        name: "count",
        weight: 8,
        covers: &["count"],
        draw: bounds,
        ask: asks!(|reader: &_, words: Words<'_>| count(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            *answer == Answer::Number((to - from) as u64)
        },
    },
    Question {
        name: "count_interval",
        weight: 2,
        covers: &["count_interval"],
        draw: bounds,
        ask: asks!(|reader: &_, words: Words<'_>| count_interval(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            let exact = (to - from) as u64;
            matches!(answer, Answer::Between(low, high) if *low <= exact && exact <= *high
                && (table.options.blind_writes || low == high))
        },
    },
    Question {
        name: "count_many",
        weight: 2,
        covers: &["count_many"],
        draw: |dice, setup, table| (0..dice.below(8)).flat_map(|_| bounds(dice, setup, table)).collect(),
        ask: asks!(|reader: &_, words: Words<'_>| count_many(reader, words)),
        judge: |table, words, answer| {
            let ranges = ranges(words);
            let expected = ranges.iter().map(|range| table.rows.span(range));
            *answer == Answer::Numbers(expected.map(|(from, to)| (to - from) as u64).collect())
        },
    },
    Question {
        name: "rank",
        weight: 8,
        covers: &["rank", "rank_many"],
        draw: |dice, setup, table| (0..1 + dice.below(3) * 3).map(|_| key(dice, setup, table)).collect(),
        ask: asks!(|reader: &_, words: Words<'_>| rank(reader, words)),
        judge: |table, words, answer| {
            let keys = words.keys(0).into_iter();
            *answer == Answer::Numbers(keys.map(|key| table.rows.before(key, false) as u64).collect())
        },
    },
    Question {
        name: "nth",
        weight: 8,
        covers: &["nth"],
        draw: |dice, setup, table| {
            let mut words = bounds(dice, setup, table);
            words.push(offset(dice, table));
            words
        },
        ask: asks!(|reader: &_, words: Words<'_>| nth(reader, words)),
        judge: |table, words, answer| {
            let expected = at(&table.rows, table.rows.span(&words.bounds(0)), words.number(2));
            matches!(answer, Answer::Row(row) if is_row(row, expected))
        },
    },
    Question {
        name: "nth_many",
        weight: 3,
        covers: &["nth_many"],
        draw: |dice, _, table| (0..dice.below(12)).map(|_| offset(dice, table)).collect(),
        ask: asks!(|reader: &_, words: Words<'_>| nth_many(reader, words)),
        judge: |table, words, answer| {
            let offsets = words.numbers(0);
            matches!(answer, Answer::MaybeRows(rows) if rows.len() == offsets.len()
                && rows.iter().zip(offsets).all(|(row, offset)| is_row(row, table.rows.nth(offset as usize))))
        },
    },
    Question {
        name: "page",
        weight: 5,
        covers: &["page"],
        draw: |dice, setup, table| {
            let mut words = bounds(dice, setup, table);
            words.extend([offset(dice, table), Word::Number(dice.below(40) as u64)]);
            words
        },
        ask: asks!(|reader: &_, words: Words<'_>| page(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            let start = (from + words.number(2) as usize).min(to);
            let expected = table.rows.slice(start, to.min(start + words.number(3) as usize));
            matches!(answer, Answer::Page(rows, total) if *total == (to - from) as u64 && are_rows(rows, expected))
        },
    },
    Question {
        name: "quantile",
        weight: 2,
        covers: &["quantile"],
        draw: |dice, setup, table| {
            let mut words = bounds(dice, setup, table);
            words.push(Word::Number(dice.below(101) as u64));
            words
        },
        ask: asks!(|reader: &_, words: Words<'_>| quantile(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            let last = (to - from).saturating_sub(1);
            let q = words.number(2).min(100) as f64 / 100.0;
            let offset = ((q * last as f64 + 0.5).floor() as usize).min(last);
            let expected = at(&table.rows, (from, to), offset as u64);
            matches!(answer, Answer::Row(row) if is_row(row, expected))
        },
    },
    Question {
        name: "sample",
        weight: 2,
        covers: &["sample"],
        draw: |dice, setup, table| {
            let mut words = bounds(dice, setup, table);
            words.extend([Word::Number(dice.below(20) as u64), Word::Number(dice.seed())]);
            words
        },
        ask: asks!(|reader: &_, words: Words<'_>| sample(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            let range = words.bounds(0);
            matches!(answer, Answer::Rows(rows) if rows.len() == (to - from).min(words.number(2) as usize)
            && rows.is_sorted_by(|a, b| a.0 < b.0)
            && rows.iter().all(|(key, value)| {
                range.contains(key) && table.rows.get(key).is_some_and(|own| own.is(value))
            }))
        },
    },
    Question {
        name: "split_points",
        weight: 2,
        covers: &["split_points"],
        draw: |dice, setup, table| {
            let mut words = bounds(dice, setup, table);
            words.push(Word::Number(1 + dice.below(9) as u64));
            words
        },
        ask: asks!(|reader: &_, words: Words<'_>| split(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            let parts = (words.number(2).max(1) as usize).min(to - from);
            let cut = |part: usize| table.rows.nth(from + (to - from) * part / parts).map(|row| row.0.to_vec());
            *answer == Answer::Keys((1..parts).filter_map(cut).collect())
        },
    },
    Question {
        name: "tally",
        weight: 6,
        covers: &["tally"],
        draw: bounds,
        ask: asks!(|reader: &_, words: Words<'_>| tally(reader, words)),
        judge: |table, words, answer| *answer == Answer::Tally(table.tally(&words.bounds(0))),
    },
    Question {
        name: "footprint",
        weight: 1,
        covers: &["footprint", "prefetch"],
        draw: bounds,
        ask: asks!(|reader: &_, words: Words<'_>| plan(reader, words)),
        judge: |table, words, answer| {
            let (from, to) = table.rows.span(&words.bounds(0));
            matches!(answer, Answer::Footprint(plan) if plan.rows == (to - from) as u64)
        },
    },
    Question {
        name: "histogram",
        weight: 2,
        covers: &["histogram"],
        draw: |dice, setup, table| {
            let mut words = bounds(dice, setup, table);
            words.push(Word::Number(1 + dice.below(table.rows.len() + 2) as u64));
            words
        },
        ask: asks!(|reader: &_, words: Words<'_>| histogram(reader, words)),
        judge: is_histogram,
    },
    Question {
        name: "walk",
        weight: 3,
        covers: &["cursor", "seek", "seek_offset", "next", "prev", "key", "value", "offset"],
        draw: |dice, setup, table| {
            let start = if dice.percent(50) { key(dice, setup, table) } else { offset(dice, table) };
            vec![start, Word::Number(dice.below(20) as u64), Word::Number(dice.seed())]
        },
        ask: asks!(|reader: &_, words: Words<'_>| walk(reader, words)),
        judge: is_walk,
    },
];

/// Draws a key: most often one that is there, or beside one.
pub fn key(dice: &mut Dice, setup: &Setup, table: &TableModel) -> Word {
    let rows = table.rows.len();
    let mut key = match dice.below(10) {
        0..=2 if rows > 0 => table.rows.nth(dice.below(rows)).map(|row| row.0.to_vec()).unwrap_or_default(),
        _ => setup.draw_key(dice),
    };
    match dice.below(30) {
        0 => key.push(0),
        1 => drop(key.pop()),
        2 => key.clear(),
        _ => {}
    }
    Word::Key(key)
}

/// Draws a range.
pub fn bounds(dice: &mut Dice, setup: &Setup, table: &TableModel) -> Vec<Word> {
    use std::ops::Bound;
    let mut end = || match (dice.below(7), key(dice, setup, table)) {
        (0..=1, _) => Bound::Unbounded,
        (2..=4, Word::Key(key)) => Bound::Included(key),
        (_, Word::Key(key)) => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    let (mut low, mut high) = (end(), end());
    if let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) = (&low, &high)
        && a > b
        && dice.percent(95)
    {
        std::mem::swap(&mut low, &mut high);
    }
    vec![Word::Bound(low), Word::Bound(high)]
}

fn offset(dice: &mut Dice, table: &TableModel) -> Word {
    Word::Number(dice.below(table.rows.len() + 2) as u64)
}

fn limited(from: usize, to: usize, limit: u64, reverse: bool) -> (usize, usize) {
    let count = (to - from).min(limit as usize);
    if reverse { (to - count, to) } else { (from, from + count) }
}

fn ranges(words: Words<'_>) -> Vec<Bounds<'_>> {
    (0..words.0.len() / 2).map(|number| words.bounds(2 * number)).collect()
}

fn get(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let value = reader.get(words.key(0))?.map(|value| value.to_vec());
    let lent = reader.get_with(words.key(0), |value| value.map(<[u8]>::to_vec))?;
    // Where all are asked of one version they agree; a lie shows as an answer that nothing matches.
    let do_agree = reader.contains(words.key(0))? == value.is_some() && lent == value;
    Ok(if do_agree { Answer::Value(value) } else { Answer::Done })
}

fn get_many(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let keys = words.keys(0);
    let values: Vec<_> = reader.get_many(&keys)?.into_iter().map(|value| value.map(|value| value.to_vec())).collect();
    let mut lent = vec![None; keys.len()];
    reader.get_many_with(&keys, |number, value| lent[number] = value.map(<[u8]>::to_vec))?;
    Ok(if lent == values { Answer::Values(values) } else { Answer::Done })
}

fn len(reader: &impl ReadableTable) -> Result<Answer> {
    let len = reader.len()?;
    Ok(if reader.is_empty()? == (len == 0) { Answer::Number(len) } else { Answer::Done })
}

fn ends(reader: &impl ReadableTable) -> Result<Answer> {
    Ok(Answer::MaybeRows(vec![reader.first()?.map(row_of), reader.last()?.map(row_of)]))
}

fn range(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let (range, limit) = (words.bounds(0), words.number(2));
    let mut rows: Vec<Row> = Vec::new();
    match words.number(3) {
        1 => {
            for entry in reader.range(&range).rev().take(limit as usize) {
                rows.push(row_of(entry?));
            }
            rows.reverse();
        }
        2 if limit > 0 => reader.for_each(&range, |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            (rows.len() as u64) < limit
        })?,
        4 => {
            let mut range = reader.range(&range);
            while (rows.len() as u64) < limit
                && let Some((key, value)) = range.lend_next()?
            {
                rows.push((key.to_vec(), value.to_vec()));
            }
        }
        3 => reader.for_each_limited(&range, limit, |key, value| rows.push((key.to_vec(), value.to_vec())))?,
        _ => {
            for entry in reader.range(&range).take(limit as usize) {
                rows.push(row_of(entry?));
            }
        }
    }
    Ok(Answer::Rows(rows))
}

fn prefix(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let rows = reader.prefix(words.key(0)).take(words.number(1) as usize);
    Ok(Answer::Rows(rows.map(|entry| entry.map(row_of)).collect::<Result<_>>()?))
}

fn scan(reader: &impl ReadableTable) -> Result<Answer> {
    let mut rows = Vec::new();
    reader.for_each(.., |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    })?;
    Ok(Answer::Rows(rows))
}

fn count(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Number(reader.count(words.bounds(0))?))
}

fn count_interval(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let estimate = reader.count_interval(words.bounds(0))?;
    Ok(Answer::Between(estimate.low, estimate.high))
}

fn count_many(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Numbers(reader.count_many(&ranges(words))?))
}

fn rank(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    match words.keys(0)[..] {
        [key] => Ok(Answer::Numbers(vec![reader.rank(key)?])),
        ref keys => Ok(Answer::Numbers(reader.rank_many(keys)?)),
    }
}

fn nth(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Row(reader.nth(words.bounds(0), words.number(2))?.map(row_of)))
}

fn nth_many(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let entries = reader.nth_many(&words.numbers(0))?;
    Ok(Answer::MaybeRows(entries.into_iter().map(|entry| entry.map(row_of)).collect()))
}

fn page(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let page = reader.page(words.bounds(0), words.number(2), words.number(3) as usize)?;
    Ok(Answer::Page(page.entries.into_iter().map(row_of).collect(), page.total))
}

fn quantile(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Row(reader.quantile(words.bounds(0), words.number(2).min(100) as f64 / 100.0)?.map(row_of)))
}

fn sample(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let mut source = Source(words.number(3));
    let rows = reader.sample(words.bounds(0), words.number(2) as usize, &mut source)?;
    Ok(Answer::Rows(rows.into_iter().map(row_of).collect()))
}

fn split(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let keys = reader.split_points(words.bounds(0), words.number(2).max(1) as usize)?;
    Ok(Answer::Keys(keys.into_iter().map(|key| key.to_vec()).collect()))
}

fn tally(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    Ok(Answer::Tally(reader.tally(words.bounds(0))?))
}

fn plan(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    reader.prefetch(words.bounds(0), Prefetch::default())?;
    Ok(Answer::Footprint(reader.footprint(words.bounds(0))?))
}

fn histogram(reader: &impl ReadableTable, words: Words<'_>) -> Result<Answer> {
    let resolution = Resolution::of_rows(words.number(2).max(1));
    Ok(Answer::Histogram(Box::new(reader.histogram(words.bounds(0), resolution)?)))
}

fn is_histogram(table: &TableModel, words: Words<'_>, answer: &Answer) -> bool {
    let (from, to) = table.rows.span(&words.bounds(0));
    let Answer::Histogram(histogram) = answer else { return false };
    let mut covered = 0;
    let are_right = histogram.buckets.iter().all(|bucket| {
        let (from, to) = table.rows.span(&bucket.bounds);
        covered += to - from;
        bucket.rows.low <= (to - from) as u64 && (to - from) as u64 <= bucket.rows.high
    });
    are_right && histogram.rows == (to - from) as u64 && covered == to - from
}

/// Where a cursor goes, and what it should see: the same way over the model and over the database.
fn walk<R: ReadableTable>(reader: &R, words: Words<'_>) -> Result<Answer> {
    let mut cursor: Cursor<'_, R> = reader.cursor();
    let mut seen = Vec::new();
    let mut see = |there: bool, cursor: &Cursor<'_, R>| {
        let row = cursor.key().map(|key| key.to_vec()).zip(cursor.value().map(|value| value.to_vec()));
        // A cursor that says that it is on a row and has none, or the other way round, is told by a row that cannot be.
        seen.push(if there == row.is_some() { row } else { Some((vec![0xFF; 300], Vec::new())) });
    };
    let there = match words.0.first() {
        Some(Word::Number(offset)) => cursor.seek_offset(*offset)?,
        _ => cursor.seek(words.key(0))?,
    };
    see(there, &cursor);
    let mut lot = words.number(2);
    for _ in 0..words.number(1) {
        lot = mix(lot);
        let there = if lot.is_multiple_of(3) { cursor.prev()? } else { cursor.next()? };
        see(there, &cursor);
    }
    Ok(Answer::MaybeRows(seen))
}

fn is_walk(table: &TableModel, words: Words<'_>, answer: &Answer) -> bool {
    let Answer::MaybeRows(seen) = answer else { return false };
    // 0: before the first row; one past the number of rows: after the last.
    let last = table.rows.len() + 1;
    let mut place = match words.0.first() {
        Some(Word::Number(offset)) => *offset as usize + 1,
        _ => table.rows.before(words.key(0), false) + 1,
    };
    place = place.min(last);
    let row = |place: usize| place.checked_sub(1).and_then(|position| table.rows.nth(position));
    let mut expected = vec![row(place)];
    let mut lot = words.number(2);
    for _ in 0..words.number(1) {
        lot = mix(lot);
        place = if lot.is_multiple_of(3) { place.saturating_sub(1) } else { (place + 1).min(last) };
        expected.push(row(place));
    }
    seen.len() == expected.len() && seen.iter().zip(expected).all(|(row, expected)| is_row(row, expected))
}

/// Random numbers for the engine, from a seed in the script.
struct Source(u64);

impl rand_core::TryRng for Source {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.try_next_u64().map(|number| number as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.0 = self.0.wrapping_add(1);
        Ok(mix(self.0))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.try_next_u64()?.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
