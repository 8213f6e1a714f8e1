//! EXPLAIN: a plan in words, with how many rows its keys have, counted before any is read.

use std::fmt::Write;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::counted::count;
use crate::execute::key::spans;
use crate::execute::query::QueryCursor;
use crate::plan::action::Action;
use crate::plan::change::{Change, Last, Part};
use crate::plan::expression::Expr;
use crate::plan::query::{Body, Query, Select};
use crate::plan::source::{JoinKind, JoinMethod, Scan, Source};

/// The lines of a plan; with `is_run`, a query is run and its rows counted.
///
/// # Errors
/// Those of counting, and of running.
pub(crate) fn explain(action: &Action, is_run: bool, context: &Context<'_>) -> Result<Vec<String>> {
    let mut lines = Lines { lines: Vec::new(), context };
    match action {
        Action::Query(query) => {
            lines.query(query, 0)?;
            if is_run {
                let began = crate::clock::moment();
                let (mut cursor, mut row, mut rows) = (QueryCursor::new(query), Vec::new(), 0);
                while cursor.next(query, context, &mut row)? {
                    rows += 1;
                }
                lines.add(0, &format!("Rows: {rows}"));
                lines.add(0, &format!("Execution Time: {:.3} ms", began.elapsed().as_secs_f64() * 1e3));
            }
        }
        Action::Change(change) => lines.change(change, 0)?,
        Action::Several(several) => {
            for part in &several.parts {
                match part {
                    Part::Query(with) => {
                        lines.add(0, &format!("With query {}", with.number));
                        lines.query(&with.query, 1)?;
                    }
                    Part::Change(number, change) => {
                        lines.add(0, &format!("With query {number}"));
                        lines.change(change, 1)?;
                    }
                }
            }
            match &several.last {
                Last::Query(query) => lines.query(query, 0)?,
                Last::Change(change) => lines.change(change, 0)?,
            }
        }
        Action::Empty | Action::Utility => {}
    }
    Ok(lines.lines)
}

struct Lines<'l> {
    lines: Vec<String>,
    context: &'l Context<'l>,
}

impl Lines<'_> {
    fn add(&mut self, depth: usize, line: &str) {
        let indent = "  ".repeat(depth);
        let arrow = if depth > 0 { "->  " } else { "" };
        self.lines.push(format!("{indent}{arrow}{line}"));
    }

    fn change(&mut self, change: &Change, depth: usize) -> Result<()> {
        let table = &change.target().table;
        match change {
            Change::Insert(insert) => {
                self.add(depth, &format!("Insert on {table}"));
                insert.source.as_ref().map_or(Ok(()), |query| self.query(query, depth + 1))
            }
            Change::Update(update) => {
                self.add(depth, &format!("Update on {table}"));
                self.source(&update.source, depth + 1)
            }
            Change::Delete(delete) => {
                self.add(depth, &format!("Delete on {table}"));
                self.source(&delete.source, depth + 1)
            }
            Change::Merge(merge) => {
                self.add(depth, &format!("Merge on {table}"));
                self.source(&merge.source, depth + 1)
            }
        }
    }

    fn query(&mut self, query: &Query, mut depth: usize) -> Result<()> {
        if query.limit.is_some() || query.offset.is_some() {
            self.add(depth, "Limit");
            depth += 1;
        }
        if !query.sort.is_empty() {
            self.add(depth, &format!("Sort by {} values", query.sort.len()));
            depth += 1;
        }
        for with in &query.with {
            self.add(depth, &format!("With query {}", with.number));
            self.query(&with.query, depth + 1)?;
        }
        match &query.body {
            Body::Values(lists) => self.add(depth, &format!("Values ({} rows)", lists.len())),
            Body::Set { operation, is_all, left, right } => {
                self.add(depth, &format!("{operation:?}{}", if *is_all { " all" } else { "" }));
                self.query(left, depth + 1)?;
                self.query(right, depth + 1)?;
            }
            Body::Select(select) => self.select(select, depth)?,
        }
        Ok(())
    }

    fn select(&mut self, select: &Select, mut depth: usize) -> Result<()> {
        if select.lock.is_some() {
            self.add(depth, "Lock rows");
            depth += 1;
        }
        if !select.windows.is_empty() {
            self.add(depth, "Window functions");
            depth += 1;
        }
        if let Some(grouping) = &select.grouping {
            let line = match &grouping.counted {
                Some(counted) if counted.columns > 0 => "Groups, counted in the tree: no row is read",
                Some(_) => "Aggregate, counted in the tree: no row is read",
                None if grouping.groups.is_empty() => "Aggregate",
                None => "Groups by hash",
            };
            self.add(depth, line);
            depth += 1;
        }
        self.source(&select.source, depth)
    }

    fn source(&mut self, source: &Source, depth: usize) -> Result<()> {
        match source {
            Source::Once => self.add(depth, "One row"),
            Source::Nothing => self.add(depth, "No row"),
            Source::Scan(scan) => {
                let line = self.scan(scan)?;
                self.add(depth, &line);
                if scan.filter.is_some() {
                    self.lines.push(format!("{}      Filter: yes", "  ".repeat(depth)));
                }
            }
            Source::Catalogue { table, .. } => self.add(depth, &format!("Catalogue {table}")),
            Source::Function { calls, .. } => {
                let names: Vec<&str> = calls.iter().map(|rows| rows.call.function.name).collect();
                self.add(depth, &format!("Function {}", names.join(", ")))
            }
            Source::Value { .. } => self.add(depth, "Function of one row"),
            Source::Subselect { query, .. } => {
                self.add(depth, "Sub-select");
                self.query(query, depth + 1)?;
            }
            Source::With { number, .. } => self.add(depth, &format!("Rows of with query {number}")),
            Source::Filter { input, .. } => {
                self.add(depth, "Filter");
                self.source(input, depth + 1)?;
            }
            Source::Join(join) => {
                let kind = match join.kind {
                    JoinKind::Inner => "Join",
                    JoinKind::Left => "Left join",
                    JoinKind::Full => "Full join",
                };
                let how = match &join.method {
                    JoinMethod::AskAgain => "the second is looked up for each row",
                    JoinMethod::Keep => "the second is kept",
                    JoinMethod::Hash { .. } => "by hash",
                };
                self.add(depth, &format!("{kind}, {how}"));
                self.source(&join.outer, depth + 1)?;
                self.source(&join.inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn scan(&self, scan: &Scan) -> Result<String> {
        let access = &scan.access;
        let mut line = match &access.index {
            None => format!("Scan of {} by its primary key", scan.table),
            Some(index) if access.is_covering => format!("Scan of {} by index {index} alone", scan.table),
            Some(index) => format!("Scan of {} by index {index}", scan.table),
        };
        if *scan.alias != *scan.table {
            let _ = write!(line, " as {}", scan.alias);
        }
        if scan.is_reversed {
            line.push_str(", backwards");
        }
        let depends =
            access.expressions().iter().any(|expr| expr.any(&|part| matches!(part, Expr::Slot(_) | Expr::Outer(_))));
        if depends {
            line.push_str(", for values of another row");
        } else {
            if !access.is_whole() {
                let ranges: Vec<String> =
                    spans(access, &[], self.context)?.iter().take(4).map(ToString::to_string).collect();
                let _ = write!(line, ", keys {}", ranges.join(" or "));
            }
            let _ = write!(line, "  (counted rows={})", count(scan, self.context)?);
        }
        Ok(line)
    }
}
