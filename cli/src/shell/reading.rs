//! The commands that read one table, whether it is seen directly or through a transaction.

use quipu::{Cost, Entry, ReadableTable, Table};
use quipu_rows::old::{KeyRange, Schema, bounds};
use rand::Rng;
use serde_json::{Value as Json, json};

use super::answer::Answer;
use super::command::Command;
use crate::failure::Result;
use crate::grid::{self, thousands};
use crate::key::{self, parse_range};

/// The answer to `command` if it reads a table.
///
/// `table` tells what is declared, `reader` is asked.
pub(super) fn answer(
    command: &Command,
    table: &Table,
    schema: Option<&Schema>,
    reader: &impl ReadableTable,
    random: &mut impl Rng,
) -> Result<Option<Answer>> {
    Ok(Some(match command {
        Command::Get { key } => Answer::row(get(reader, &key::parse(key, schema)?)?.as_ref(), schema, ""),
        Command::First { range } => {
            Answer::row(reader.nth(bounds(&parse_range(range, schema)?), 0)?.as_ref(), schema, "")
        }
        Command::Last { range } => {
            let entry = reader.range(bounds(&parse_range(range, schema)?)).next_back().transpose()?;
            Answer::row(entry.as_ref(), schema, "")
        }
        Command::Scan { range, limit, reverse } => {
            let range = parse_range(range, schema)?;
            let total = reader.count(bounds(&range))?;
            let rows = reader.range(bounds(&range));
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            let entries: Vec<Entry> = if *reverse {
                rows.rev().take(limit).collect::<quipu::Result<_>>()?
            } else {
                rows.take(limit).collect::<quipu::Result<_>>()?
            };
            let summary = match (entries.len() as u64, total) {
                (shown, total) if shown == total => rows_text(total),
                (shown, total) => format!("{} of {}", thousands(shown), rows_text(total)),
            };
            Answer::rows(&entries, schema, summary).with("total", total)
        }
        Command::Count { range } => {
            let count = reader.count(bounds(&parse_range(range, schema)?))?;
            Answer::line(rows_text(count)).with("count", count)
        }
        Command::Len => {
            let count = reader.len()?;
            Answer::line(rows_text(count)).with("count", count)
        }
        Command::Rank { key } => {
            // A part of a key has a rank as well: that of the first key it begins.
            let before = parse_range(std::slice::from_ref(key), schema)?;
            let std::ops::Bound::Included(key) = before.0 else { return Ok(None) };
            let rank = reader.rank(&key)?;
            let there = reader.contains(&key)?;
            let note = if there { "the key is there" } else { "the key is not there" };
            Answer::line(format!("{} before it, {note}", rows_text(rank))).with("rank", rank).with("present", there)
        }
        Command::Nth { offset, range } => {
            Answer::row(reader.nth(bounds(&parse_range(range, schema)?), *offset)?.as_ref(), schema, "")
                .with("offset", *offset)
        }
        Command::Page { offset, limit, range } => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            let page = reader.page(bounds(&parse_range(range, schema)?), *offset, limit)?;
            let summary = match page.entries.len() as u64 {
                0 => format!("no row at offset {} of {}", thousands(*offset), rows_text(page.total)),
                shown => format!(
                    "offsets {} to {} of {}",
                    thousands(page.offset),
                    thousands(page.offset + shown - 1),
                    rows_text(page.total)
                ),
            };
            Answer::rows(&page.entries, schema, summary).with("offset", page.offset).with("total", page.total)
        }
        Command::Quantile { q, range } => {
            Answer::row(reader.quantile(bounds(&parse_range(range, schema)?), *q)?.as_ref(), schema, "").with("q", *q)
        }
        Command::Sample { rows, range } => {
            let rows = usize::try_from(*rows).unwrap_or(usize::MAX);
            let entries = reader.sample(bounds(&parse_range(range, schema)?), rows, random)?;
            Answer::rows(&entries, schema, rows_text(entries.len() as u64))
        }
        Command::Split { parts, range } => {
            let parts = usize::try_from(*parts).unwrap_or(usize::MAX);
            let keys = reader.split_points(bounds(&parse_range(range, schema)?), parts)?;
            let keys: Vec<String> = keys.iter().map(|key| key::show(key, schema)).collect();
            let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
            let summary = format!("{} parts", keys.len() + 1);
            Answer { text, summary, ..Answer::default() }.with("keys", keys)
        }
        Command::Explain { question } => {
            let (answer, cost) =
                reader.with_cost(|version| Ok(self::answer(question, table, schema, version, random)))?;
            let Some(mut answer) = answer? else { return Ok(None) };
            let parts = [std::mem::take(&mut answer.summary), cost_text(&cost)];
            answer.summary =
                parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("; ");
            answer.with("cost", cost_json(&cost))
        }
        Command::Tally { range } => tally(table, schema, reader, parse_range(range, schema)?)?,
        _ => return Ok(None),
    }))
}

fn get(reader: &impl ReadableTable, key: &[u8]) -> Result<Option<Entry>> {
    // One row as an entry: the first of the range of this key alone.
    Ok(reader.nth(key..=key, 0)?)
}

fn tally(table: &Table, schema: Option<&Schema>, reader: &impl ReadableTable, range: KeyRange) -> Result<Answer> {
    let tally = reader.tally(bounds(&range))?;
    let measures = table.options().measures;
    let mut parts = vec![rows_text(tally.rows.unsigned_abs())];
    let mut answer = Answer::default().with("rows", tally.rows);
    if measures.bytes {
        parts.push(grid::bytes(tally.bytes.unsigned_abs()));
        answer = answer.with("bytes", tally.bytes);
    }
    if measures.hash {
        parts.push(format!("hash {:016x}", tally.hash));
        answer = answer.with("hash", format!("{:016x}", tally.hash));
    }
    if let Some(field) = measures.sum {
        let name = match (field, schema) {
            (quipu::SumField::Element { at }, Some(schema)) => {
                schema.value_columns().nth(at as usize).map(|c| c.name.as_str())
            }
            _ => None,
        };
        parts.push(format!("{} {}", name.unwrap_or("sum"), thousands(tally.sum)));
        answer = answer.with("sum", tally.sum);
    }
    answer.summary = parts.join(", ");
    Ok(answer)
}

fn cost_text(cost: &Cost) -> String {
    let many = |count: u64, what: &str| format!("{} {what}{}", thousands(count), if count == 1 { "" } else { "s" });
    match cost.runs as u64 {
        0 => "all in memory".to_owned(),
        runs => format!(
            "{} of {}, {} read in {}",
            many(cost.pages, "page"),
            many(runs, "run"),
            thousands(cost.pages_read),
            many(cost.rounds, "round")
        ),
    }
}

fn cost_json(cost: &Cost) -> Json {
    json!({ "runs": cost.runs, "pages": cost.pages, "pages_read": cost.pages_read, "rounds": cost.rounds })
}

pub(super) fn rows_text(count: u64) -> String {
    match count {
        1 => "1 row".to_owned(),
        count => format!("{} rows", thousands(count)),
    }
}
