//! EXPLAIN: a plan in words, with how many rows its keys have, counted before any is read.

use std::fmt::Write;
use std::time::Duration;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::counted::count;
use crate::execute::key_ranges::spans;
use crate::execute::query::QueryCursor;
use crate::plan::action::Action;
use crate::plan::change::{Change, Last, Part};
use crate::plan::expression::Expr;
use crate::plan::query::{Body, Query, Select};
use crate::plan::source::{JoinKind, JoinMethod, Scan, Several, Source};
use crate::row_files::TemporaryFiles;
use crate::types::json;

/// A plan in words.
pub(crate) struct Explained {
    nodes: Vec<Node>,
    /// How many rows a query had that was run, and how long it took, in milliseconds.
    ran: Option<(u64, f64)>,
    /// Bytes that it has put into temporary files.
    file_bytes: u64,
}

/// A step of a plan.
struct Node {
    depth: usize,
    /// What PostgreSQL calls it.
    kind: &'static str,
    line: String,
    has_filter: bool,
    /// The table that it reads or changes, and what the statement calls it.
    relation: Option<(String, String)>,
    index: Option<String>,
    /// The rows that its keys have, if they could be counted.
    rows: Option<u64>,
}

impl Explained {
    /// Notes that the statement was run: how many rows it gave or changed, and how long it took.
    pub fn note_run(&mut self, rows: u64, time: Duration) {
        self.ran = Some((rows, time.as_secs_f64() * 1e3));
    }

    /// The plan as lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &self.nodes {
            let indent = "  ".repeat(node.depth);
            let arrow = if node.depth > 0 { "->  " } else { "" };
            lines.push(format!("{indent}{arrow}{}", node.line));
            if node.has_filter {
                lines.push(format!("{indent}      Filter: yes"));
            }
        }
        if let Some((rows, milliseconds)) = self.ran {
            lines.push(format!("Rows: {rows}"));
            if self.file_bytes > 0 {
                lines.push(format!("Temporary Files: {} kB", self.file_bytes.div_ceil(1 << 10)));
            }
            lines.push(format!("Execution Time: {milliseconds:.3} ms"));
        }
        lines
    }

    /// The plan as JSON, with the names of members that PostgreSQL has.
    pub fn json(&self) -> String {
        let first = self.nodes.first().map_or(0, |node| node.depth);
        // What goes before the last of several plans is a part of it.
        let last = self.nodes.iter().rposition(|node| node.depth == first).unwrap_or(0);
        let (before, plan) = self.nodes.split_at(last);
        let mut out = String::from("[{\"Plan\": ");
        match plan.split_first() {
            Some((root, below)) => {
                write_json(root, &before.iter().chain(below).collect::<Vec<_>>(), self.ran, &mut out)
            }
            None => out.push_str("{}"),
        }
        if let Some((_, milliseconds)) = self.ran {
            if self.file_bytes > 0 {
                let _ = write!(out, ", \"Temporary Files\": {}", self.file_bytes.div_ceil(1 << 10));
            }
            let _ = write!(out, ", \"Execution Time\": {milliseconds:.3}");
        }
        out.push_str("}]");
        out
    }
}

/// Appends a step; `below` are those after it, of which the deeper ones are its parts. `ran` is how many rows it had
/// and how long it took, if it was run.
fn write_json(node: &Node, below: &[&Node], ran: Option<(u64, f64)>, out: &mut String) {
    let _ = write!(out, "{{\"Node Type\": \"{}\"", node.kind);
    let mut member = |name: &str, value: &str| {
        let _ = write!(out, ", \"{name}\": ");
        json::write_string(value, out);
    };
    member("Description", &node.line);
    if let Some((table, alias)) = &node.relation {
        member("Relation Name", table);
        member("Alias", alias);
    }
    if let Some(index) = &node.index {
        member("Index Name", index);
    }
    if let Some(rows) = node.rows {
        let _ = write!(out, ", \"Plan Rows\": {rows}");
    }
    if let Some((rows, milliseconds)) = ran {
        let _ = write!(out, ", \"Actual Total Time\": {milliseconds:.3}, \"Actual Rows\": {rows}, \"Actual Loops\": 1");
    }
    if !below.is_empty() {
        let least = below.iter().map(|part| part.depth).min().unwrap_or(0);
        let begins: Vec<usize> = (0..below.len()).filter(|&at| below[at].depth == least).collect();
        out.push_str(", \"Plans\": [");
        for (place, &at) in begins.iter().enumerate() {
            out.push_str(if place > 0 { ", " } else { "" });
            let end = begins.get(place + 1).copied().unwrap_or(below.len());
            write_json(below[at], &below[at + 1..end], None, out);
        }
        out.push(']');
    }
    out.push('}');
}

/// The plan of an action; with `is_run`, a query is run and its rows counted.
///
/// # Errors
/// Those of counting, and of running.
pub(crate) fn explain(action: &Action, is_run: bool, context: &Context<'_>) -> Result<Explained> {
    let mut lines = Lines { nodes: Vec::new(), context };
    let written = || context.state.limits().temporary_files.as_ref().map_or(0, TemporaryFiles::written_bytes);
    let before = written();
    let mut ran = None;
    match action {
        Action::Query(query) => {
            lines.query(query, 0)?;
            if is_run {
                let began = crate::clock::moment();
                let (mut cursor, mut row, mut rows) = (QueryCursor::new(query), Vec::new(), 0);
                while cursor.next(query, context, &mut row)? {
                    rows += 1;
                }
                ran = Some((rows, began.elapsed().as_secs_f64() * 1e3));
            }
        }
        Action::Change(change) => lines.change(change, 0)?,
        Action::Several(several) => {
            for part in &several.parts {
                match part {
                    Part::Query(with) => {
                        lines.add(0, "CTE Scan", &format!("With query {}", with.number));
                        lines.query(&with.query, 1)?;
                    }
                    Part::Change(number, change) => {
                        lines.add(0, "CTE Scan", &format!("With query {number}"));
                        lines.change(change, 1)?;
                    }
                }
            }
            match &several.last {
                Last::Query(query) => lines.query(query, 0)?,
                Last::Change(change) => lines.change(change, 0)?,
            }
        }
        Action::Empty | Action::Utility => lines.add(0, "Result", "Utility statements have no plan structure"),
    }
    Ok(Explained { nodes: lines.nodes, ran, file_bytes: written() - before })
}

struct Lines<'l> {
    nodes: Vec<Node>,
    context: &'l Context<'l>,
}

impl Lines<'_> {
    fn add(&mut self, depth: usize, kind: &'static str, line: &str) {
        let line = line.to_owned();
        self.nodes.push(Node { depth, kind, line, has_filter: false, relation: None, index: None, rows: None });
    }

    fn add_change(&mut self, depth: usize, line: &str, table: &str) {
        self.add(depth, "ModifyTable", &format!("{line} on {table}"));
        if let Some(node) = self.nodes.last_mut() {
            node.relation = Some((table.to_owned(), table.to_owned()));
        }
    }

    fn change(&mut self, change: &Change, depth: usize) -> Result<()> {
        let table = &change.target().table;
        match change {
            Change::Insert(insert) => {
                self.add_change(depth, "Insert", table);
                insert.source.as_ref().map_or(Ok(()), |query| self.query(query, depth + 1))
            }
            Change::Update(update) => {
                self.add_change(depth, "Update", table);
                self.source(&update.source, depth + 1)
            }
            Change::Delete(delete) => {
                self.add_change(depth, "Delete", table);
                self.source(&delete.source, depth + 1)
            }
            Change::Merge(merge) => {
                self.add_change(depth, "Merge", table);
                self.source(&merge.source, depth + 1)
            }
        }
    }

    fn query(&mut self, query: &Query, mut depth: usize) -> Result<()> {
        if query.limit.is_some() || query.offset.is_some() {
            self.add(depth, "Limit", "Limit");
            depth += 1;
        }
        if !query.sort.is_empty() {
            self.add(depth, "Sort", &format!("Sort by {} values", query.sort.len()));
            depth += 1;
        }
        for with in &query.with {
            self.add(depth, "CTE Scan", &format!("With query {}", with.number));
            self.query(&with.query, depth + 1)?;
            if let Some(recursion) = &with.recursion {
                let line = format!("Again, over the rows of its last round: with query {}", recursion.number);
                self.add(depth + 1, "WorkTable Scan", &line);
                self.query(&recursion.query, depth + 2)?;
            }
        }
        match &query.body {
            Body::Values(lists) => self.add(depth, "Values Scan", &format!("Values ({} rows)", lists.len())),
            Body::Set { operation, is_all, left, right } => {
                self.add(depth, "SetOp", &format!("{operation:?}{}", if *is_all { " all" } else { "" }));
                self.query(left, depth + 1)?;
                self.query(right, depth + 1)?;
            }
            Body::Select(select) => self.select(select, depth)?,
        }
        Ok(())
    }

    fn select(&mut self, select: &Select, mut depth: usize) -> Result<()> {
        if select.lock.is_some() {
            self.add(depth, "LockRows", "Lock rows");
            depth += 1;
        }
        if !select.windows.is_empty() {
            self.add(depth, "WindowAgg", "Window functions");
            depth += 1;
        }
        if let Some(grouping) = &select.grouping {
            let line = match &grouping.counted {
                Some(counted) if counted.columns > 0 => "Groups, counted in the tree: no row is read",
                Some(_) => "Aggregate, counted in the tree: no row is read",
                None if grouping.groups.is_empty() => "Aggregate",
                None => "Groups by hash",
            };
            self.add(depth, "Aggregate", line);
            depth += 1;
        }
        self.source(&select.source, depth)
    }

    fn source(&mut self, source: &Source, depth: usize) -> Result<()> {
        match source {
            Source::Once => self.add(depth, "Result", "One row"),
            Source::Nothing => self.add(depth, "Result", "No row"),
            Source::Scan(scan) => {
                let node = self.scan(scan, depth)?;
                self.nodes.push(node);
            }
            Source::Catalogue { table, .. } => {
                self.add(depth, "Seq Scan", &format!("Catalogue {table}"));
                if let Some(node) = self.nodes.last_mut() {
                    node.relation = Some((table.to_string(), table.to_string()));
                }
            }
            Source::Function { calls, .. } => {
                let names: Vec<&str> = calls.iter().map(|rows| rows.call.function.name).collect();
                self.add(depth, "Function Scan", &format!("Function {}", names.join(", ")))
            }
            Source::Value { .. } => self.add(depth, "Function Scan", "Function of one row"),
            Source::Subselect { query, .. } => {
                self.add(depth, "Subquery Scan", "Sub-select");
                self.query(query, depth + 1)?;
            }
            Source::With { number, .. } => self.add(depth, "CTE Scan", &format!("Rows of with query {number}")),
            Source::Filter { input, .. } => {
                self.add(depth, "Result", "Filter");
                self.source(input, depth + 1)?;
            }
            Source::Join(join) => {
                let kind = match join.kind {
                    JoinKind::Inner => "Join",
                    JoinKind::Left => "Left join",
                    JoinKind::Full => "Full join",
                };
                let (name, how) = match &join.method {
                    JoinMethod::AskAgain => ("Nested Loop", "the second is looked up for each row"),
                    JoinMethod::Keep => ("Nested Loop", "the second is kept"),
                    JoinMethod::Hash { .. } => ("Hash Join", "by hash"),
                };
                self.add(depth, name, &format!("{kind}, {how}"));
                self.source(&join.outer, depth + 1)?;
                self.source(&join.inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn scan(&self, scan: &Scan, depth: usize) -> Result<Node> {
        let access = &scan.access;
        let (kind, mut line) = match &access.index {
            None if access.is_whole() => ("Seq Scan", format!("Scan of {} by its primary key", scan.table)),
            None => ("Index Scan", format!("Scan of {} by its primary key", scan.table)),
            Some(index) if access.is_covering => {
                ("Index Only Scan", format!("Scan of {} by index {index} alone", scan.table))
            }
            Some(index) => ("Index Scan", format!("Scan of {} by index {index}", scan.table)),
        };
        let mut rows = None;
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
        } else if let Some(Several::Rows(_)) = &access.several {
            line.push_str(", keys that a sub-select gives if they are few");
        } else {
            if !access.is_whole() {
                let ranges: Vec<String> =
                    spans(access, &[], self.context)?.iter().take(4).map(ToString::to_string).collect();
                let _ = write!(line, ", keys {}", ranges.join(" or "));
            }
            let counted = count(&scan.table, &scan.access, self.context)?;
            let _ = write!(line, "  (counted rows={counted})");
            rows = Some(counted);
        }
        let relation = Some((scan.table.to_string(), scan.alias.to_string()));
        let index = access.index.as_ref().map(ToString::to_string);
        Ok(Node { depth, kind, line, has_filter: scan.filter.is_some(), relation, index, rows })
    }
}
