//! Groups that come out of the tallies of a tree: no row of them is read, however many there are.

use quipu_rows::{Ordered, Row, Span, Value};

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::evaluate;
use crate::execute::key_ranges::spans;
use crate::execute::row_list::RowList;
use crate::execute::view::in_table;
use crate::plan::query::{Counted, CountedAnswer, Grouping};
use crate::plan::source::{Access, Scan};
use crate::types::SqlType;
use crate::types::datum::Datum;

/// The frames of groups.
pub fn counted_rows(counted: &Counted, grouping: &Grouping, scan: &Scan, context: &Context<'_>) -> Result<RowList> {
    let spans = spans(&scan.access, &[], context)?;
    let table = context.view.table(&scan.table)?;
    in_table!(table, table => match scan.access.index.as_deref() {
        None => frames(&table, counted, grouping, scan, &spans, context),
        Some(index) if scan.access.columns.iter().any(|column| !column.tells_value()) => {
            frames(&table.index(index)?, counted, grouping, scan, &spans, context)
        }
        Some(index) => frames(&table.entries(index)?, counted, grouping, scan, &spans, context),
    })
}

fn frames(
    order: &impl Ordered,
    counted: &Counted,
    grouping: &Grouping,
    scan: &Scan,
    spans: &[Span<'static>],
    context: &Context<'_>,
) -> Result<RowList> {
    let mut frames = RowList::default();
    if counted.columns == 0 {
        let mut frame = Vec::with_capacity(counted.answers.len() + 1);
        for answer in &counted.answers {
            frame.push(of_spans(order, answer, scan, spans, context)?);
        }
        frame.push(Datum::Int(0));
        frames.push(frame, context.state)?;
        frames.finish()?;
        return Ok(frames);
    }
    for span in spans {
        for group in order.groups(span, counted.columns)? {
            context.state.step()?;
            let group = group?;
            let mut frame = Vec::with_capacity(grouping.groups.len() + counted.answers.len() + 1);
            for &column in &counted.groups {
                frame.push(Datum::of_column(group.values[column].clone(), key_type(scan, column))?);
            }
            for answer in &counted.answers {
                frame.push(match answer {
                    CountedAnswer::Rows => Datum::Int(group.rows as i64),
                    CountedAnswer::Sum => group.sum.clone().map_or(Datum::Null, sum_of),
                    _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "no such answer for groups")),
                });
            }
            frame.push(Datum::Int(0));
            frames.push(frame, context.state)?;
        }
    }
    frames.finish()?;
    Ok(frames)
}

/// The answer for all rows of some spans.
fn of_spans(
    order: &impl Ordered,
    answer: &CountedAnswer,
    scan: &Scan,
    spans: &[Span<'static>],
    context: &Context<'_>,
) -> Result<Datum> {
    Ok(match answer {
        CountedAnswer::Rows | CountedAnswer::Known => Datum::Int(sum_of_counts(order, spans)? as i64),
        CountedAnswer::Sum => {
            let (mut rows, mut sum) = (0, Value::Null);
            for span in spans {
                let (more_rows, more) = order.tally(span)?;
                rows += more_rows;
                sum = add(sum, more)?;
            }
            if rows == 0 { Datum::Null } else { sum_of(sum) }
        }
        CountedAnswer::Edge { is_last } => {
            let row = match is_last {
                true => spans.iter().rev().find_map(|span| order.last(span).transpose()),
                false => spans.iter().find_map(|span| order.first(span).transpose()),
            };
            key_value(row.transpose()?, scan)?
        }
        CountedAnswer::Quantile { part, is_reversed } => {
            let part = match evaluate(part, &[], context)? {
                Datum::Float(part) => part,
                Datum::Numeric(part) => part.to_f64(),
                Datum::Int(part) => part as f64,
                _ => return Ok(Datum::Null),
            };
            if !(0.0..=1.0).contains(&part) {
                let what = format!("percentile value {part} is not between 0 and 1");
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what));
            }
            let Some(span) = spans.first() else { return Ok(Datum::Null) };
            let rows = order.count(span)?;
            if rows == 0 {
                return Ok(Datum::Null);
            }
            // The first value of which at least this part of the rows is not after it.
            let at = ((part * rows as f64).ceil() as u64).max(1) - 1;
            let row = if *is_reversed { order.nth_back(span, at)? } else { order.nth(span, at)? };
            key_value(row, scan)?
        }
    })
}

/// The value of a row in the column after those that the access says.
fn key_value(row: Option<Row>, scan: &Scan) -> Result<Datum> {
    let Some(row) = row else { return Ok(Datum::Null) };
    let Some(place) = scan.access.columns[scan.access.said()].place else { return Ok(Datum::Null) };
    Datum::of_column(row.view()?.value(place)?, scan.types[place])
}

/// The type of a column of the key that is read.
fn key_type(scan: &Scan, column: usize) -> SqlType {
    let column = &scan.access.columns[column];
    column.place.map_or_else(|| SqlType::of_column(column.data_type), |place| scan.types[place])
}

fn sum_of(value: Value<'_>) -> Datum {
    Datum::of_value(value)
}

fn add(a: Value<'static>, b: Value<'static>) -> Result<Value<'static>> {
    let overflow = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range");
    Ok(match (a, b) {
        (Value::Null, value) => value,
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(b).ok_or_else(overflow)?),
        (Value::Decimal(a), Value::Decimal(b)) => Value::Decimal(a.checked_add(b).ok_or_else(overflow)?),
        (_, other) => other,
    })
}

/// How many rows an access meets, before any is read.
///
/// # Errors
/// Those of reading, and of evaluating its values.
pub fn count(table: &str, access: &Access, context: &Context<'_>) -> Result<u64> {
    let spans = spans(access, &[], context)?;
    let table = context.view.table(table)?;
    in_table!(table, table => match access.index.as_deref() {
        None => sum_of_counts(&table, &spans),
        Some(index) => sum_of_counts(&table.entries(index)?, &spans),
    })
}

fn sum_of_counts(order: &impl Ordered, spans: &[Span<'static>]) -> Result<u64> {
    let mut rows = 0;
    for span in spans {
        rows += order.count(span)?;
    }
    Ok(rows)
}
