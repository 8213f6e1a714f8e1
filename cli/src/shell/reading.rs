//! The commands that read one table, whether it is seen directly or through a transaction.

use quipu::ReadableTable;
use quipu::cost::Cost;
use quipu_rows::Ordered;
use rand::rngs::ThreadRng;
use serde_json::{Value as Json, json};

use super::answer::Answer;
use super::command::{Command, Grouping, Offset};
use crate::failure::{Failure, Result};
use crate::grid::{Grid, bytes, counted, thousands};
use crate::interrupts;
use crate::key::KeyNotation;
use crate::query::{Queryable, Records, Rows, Strings, rows_text};
use crate::shell_words::Word;

/// What the shell can ask: also what an answer costs.
pub(super) trait Explained: Queryable {
    /// The answer to a question, and what it cost.
    fn explained(&self, question: &Command, random: &mut ThreadRng) -> Result<(Option<Answer>, Cost)>;
    /// How many rows have each value of the first columns of the key.
    fn groups(&self, columns: &Grouping, range: &[Word]) -> Result<Option<Answer>>;
    /// What is read: the index, or the table.
    fn order_name(&self) -> String;
}

impl<O: Ordered> Explained for Rows<'_, O> {
    fn explained(&self, question: &Command, random: &mut ThreadRng) -> Result<(Option<Answer>, Cost)> {
        let (answer, cost) = self.of.with_cost(|costed| {
            let rows = self.through(costed);
            Ok(match question {
                Command::Groups { columns, range } => rows.groups(columns, range),
                question => plain(question, &rows, random),
            })
        })?;
        Ok((answer?, cost))
    }

    fn groups(&self, columns: &Grouping, range: &[Word]) -> Result<Option<Answer>> {
        let range = self.range(range)?;
        let columns = first_columns(columns, &self.key)?;
        let mut grid = Grid::new(self.group_header(columns));
        let mut list: Vec<String> = Vec::new();
        for group in self.of.groups(&range, columns)? {
            interrupts::check()?;
            let group = group?;
            let (mut row, values) = (self.key.texts(&group.values), self.key.json(&group.values));
            list.push(format!("{{\"values\":{values},\"rows\":{}}}", group.rows));
            row.push(thousands(group.rows));
            grid.push(row);
        }
        let summary = counted(list.len(), "group");
        let answer = Answer { grid: Some(grid), summary, ..Answer::default() };
        Ok(Some(answer.with_json("groups", format!("[{}]", list.join(",")))))
    }

    fn order_name(&self) -> String {
        match &self.index {
            Some(index) => format!("through index {index}"),
            None => "by the primary key".to_owned(),
        }
    }
}

impl<R: ReadableTable> Explained for Strings<'_, R> {
    fn explained(&self, question: &Command, random: &mut ThreadRng) -> Result<(Option<Answer>, Cost)> {
        if let Command::Groups { columns, range } = question {
            return self.groups(columns, range).map(|answer| (answer, Cost::default()));
        }
        let measures = self.measures;
        let (answer, cost) =
            self.of.with_cost(|version| Ok(plain(question, &Strings { of: version, measures }, random)))?;
        Ok((answer?, cost))
    }

    fn groups(&self, _columns: &Grouping, _range: &[Word]) -> Result<Option<Answer>> {
        Err(Failure::new("strings have no columns to make groups of"))
    }

    fn order_name(&self) -> String {
        String::new()
    }
}

/// How many columns of a key are meant. Names must be those that it begins with.
fn first_columns(columns: &Grouping, key: &KeyNotation) -> Result<usize> {
    let names = match columns {
        Grouping::Number(columns) => return Ok(usize::try_from(*columns).unwrap_or(usize::MAX)),
        Grouping::Names(names) => names,
    };
    let own = key.columns.iter().map(|(name, _)| name);
    if names.len() <= key.columns.len() && names.iter().zip(own).all(|(name, own)| name == own) {
        return Ok(names.len());
    }
    let (names, own) = (names.join(","), key.names());
    Err(Failure::new(format!(
        "groups go by the columns that the order begins with, of {own}; for {names}, `use` an index that begins so"
    )))
}

/// The answer to `command` if it reads a table.
pub(super) fn answer<A: Explained>(command: &Command, source: &A, random: &mut ThreadRng) -> Result<Option<Answer>> {
    match command {
        Command::Explain { question } => explain(question, source, random),
        Command::Groups { columns, range } => source.groups(columns, range),
        command => plain(command, source, random),
    }
}

/// The answer to a question about rows.
fn plain<A: Queryable>(command: &Command, source: &A, random: &mut ThreadRng) -> Result<Option<Answer>> {
    Ok(Some(match command {
        Command::Get { key } => Answer::row(source, source.get(key)?.as_ref())?,
        Command::First { range } => Answer::row(source, source.nth(&source.range(range)?, 0)?.as_ref())?,
        Command::Last { range } => Answer::row(source, source.last(&source.range(range)?)?.as_ref())?,
        Command::Scan { range, limit, reverse } => {
            let range = source.range(range)?;
            let total = source.count(&range)?;
            let rows = source.read(&range, *reverse, usize::try_from(*limit).unwrap_or(usize::MAX))?;
            let summary = match (rows.len() as u64, total) {
                (shown, total) if shown == total => rows_text(total),
                (shown, total) => format!("{} of {}", thousands(shown), rows_text(total)),
            };
            Answer::rows(source, &rows, summary)?.with("total", total)
        }
        Command::Count { range } => {
            let count = source.count(&source.range(range)?)?;
            Answer::line(rows_text(count)).with("count", count)
        }
        Command::Len => {
            let count = source.count(&source.range(&[])?)?;
            Answer::line(rows_text(count)).with("count", count)
        }
        Command::Rank { key } => {
            // A part of a key has a rank as well: that of the first key it begins.
            let (rank, there) = source.rank(key)?;
            let note = if there { "the key is there" } else { "the key is not there" };
            Answer::line(format!("{} before it, {note}", rows_text(rank))).with("rank", rank).with("present", there)
        }
        Command::Nth { offset, range } => {
            let range = source.range(range)?;
            let offset = match *offset {
                Offset::FromStart(offset) => Some(offset),
                Offset::FromEnd(rows) => source.count(&range)?.checked_sub(rows),
            };
            match offset {
                Some(offset) => Answer::row(source, source.nth(&range, offset)?.as_ref())?.with("offset", offset),
                None => Answer::row(source, None)?,
            }
        }
        Command::Page { offset, limit, range } => {
            let page = whole_page(source, &source.range(range)?, *offset, *limit)?;
            let summary = match page.records.len() as u64 {
                0 => format!("no row at offset {} of {}", thousands(*offset), rows_text(page.total)),
                shown => format!(
                    "offsets {} to {} of {}",
                    thousands(page.offset),
                    thousands(page.offset + shown - 1),
                    rows_text(page.total)
                ),
            };
            Answer::rows(source, &page.records, summary)?.with("offset", page.offset).with("total", page.total)
        }
        Command::Quantile { q, range } => {
            Answer::row(source, source.quantile(&source.range(range)?, *q)?.as_ref())?.with("q", *q)
        }
        Command::Sample { rows, range } => {
            let rows = source.sample(&source.range(range)?, usize::try_from(*rows).unwrap_or(usize::MAX), random)?;
            Answer::rows(source, &rows, rows_text(rows.len() as u64))?
        }
        Command::Split { parts, range } => {
            let keys = source.cuts(&source.range(range)?, *parts)?;
            let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
            let summary = counted(keys.len() + 1, "part");
            Answer { text, summary, ..Answer::default() }.with("keys", keys)
        }
        Command::Tally { range } => {
            let figures = source.figures(&source.range(range)?)?;
            let texts: Vec<&str> = figures.iter().map(|(_, text, _)| text.as_str()).collect();
            let line = Answer::line(texts.join(", "));
            figures.into_iter().fold(line, |answer, (name, _, json)| answer.with_json(&name, json))
        }
        _ => return Ok(None),
    }))
}

/// Rows that are read before it is looked at whether Ctrl-C has come.
const ROWS_AT_ONCE: u64 = 1_000;

/// A page that is read in parts, between which Ctrl-C may stop it.
fn whole_page<A: Queryable>(source: &A, range: &A::Range, offset: u64, limit: u64) -> Result<Records<A::Record>> {
    let part = |done: u64| {
        let rows = limit.saturating_sub(done).min(ROWS_AT_ONCE);
        source.page(range, offset.saturating_add(done), usize::try_from(rows).unwrap_or(usize::MAX))
    };
    let mut page = part(0)?;
    loop {
        let done = page.records.len() as u64;
        if done >= limit || offset.saturating_add(done) >= page.total {
            return Ok(page);
        }
        interrupts::check()?;
        let more = part(done)?.records;
        if more.is_empty() {
            return Ok(page);
        }
        page.records.extend(more);
    }
}

/// The answer to a question with what it cost, and what its whole range would.
fn explain<A: Explained>(question: &Command, source: &A, random: &mut ThreadRng) -> Result<Option<Answer>> {
    let (answer, cost) = source.explained(question, random)?;
    let Some(mut answer) = answer else { return Ok(None) };
    let footprint = question.range().map(|range| source.footprint(&source.range(range)?)).transpose()?;
    let plan = source.order_name();
    let range = footprint.filter(|footprint| footprint.pages > 0).map(|footprint| {
        format!(
            "the range has {} on {} of {}",
            rows_text(footprint.rows),
            counted(footprint.pages, "page"),
            bytes(footprint.page_bytes)
        )
    });
    let parts = [std::mem::take(&mut answer.summary), plan.clone(), cost_text(&cost), range.unwrap_or_default()];
    answer.summary = parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("; ");
    let mut answer = answer.with("cost", cost_json(&cost));
    if !plan.is_empty() {
        answer = answer.with("order", plan);
    }
    if let Some(footprint) = footprint {
        let json = json!({"rows": footprint.rows, "pages": footprint.pages, "bytes": footprint.page_bytes});
        answer = answer.with("range", json);
    }
    Ok(Some(answer))
}

fn cost_text(cost: &Cost) -> String {
    match cost.runs as u64 {
        0 => "all in memory".to_owned(),
        runs => format!(
            "{} of {}, {} read in {}",
            counted(cost.pages, "page"),
            counted(runs, "run"),
            thousands(cost.pages_read),
            counted(cost.rounds, "round")
        ),
    }
}

fn cost_json(cost: &Cost) -> Json {
    json!({ "runs": cost.runs, "pages": cost.pages, "pages_read": cost.pages_read, "rounds": cost.rounds })
}
