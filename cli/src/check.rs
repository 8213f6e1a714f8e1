//! `quipu check`: whether the files of a database are whole and its counts right.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use quipu::files::{Loss, RepairReport};
use quipu::{Db, Options, Tally, tuple};
use quipu_rows::trees::is_tree_of_rows;
use quipu_rows::{Database, RowCheck, RowRepair};
use quipu_server::keyspace;
use serde_json::json;

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, counted, thousands};
use crate::key::KeyNotation;
use crate::progress::Follower;
use crate::shell_words::escape;

const EXAMPLES: &str = "\
Examples:
  quipu check air
  quipu check air --json | jq .faults
  quipu check --repair air                                    rebuild what can be, and say what could not

It reads every file, recomputes every checksum and adds up every tally; in the directory of a server it also compares \
keys, elements of collections and deadlines with each other, and in that of tables their rows, indexes and constraints. The exit code is 1 if anything is wrong; nothing is \
changed.

With --repair, tables of which a page cannot be read are written anew from all that can be, and a damaged log is cut \
where the damage begins. It says which keys are lost. What is replaced is kept in DIR/damaged-1 (or -2, ...); nothing \
is deleted. Then indexes of tables that do not agree with the rows are built again from them, and a constraint that \
rows break, as where they refer to a lost row, is lifted and told; no row is removed. What was lost of an index \
that is whole again is not told: its rows are there. The exit code is 1 if anything was lost or lifted. A backup that \
is whole is better: see `quipu restore`.";

/// Checks the files of a database, and that its counts are right.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    database: database::Named,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// Rebuild what is damaged from what can be read, and keep the files that are replaced
    #[arg(long)]
    repair: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    database::must_exist(args.database.dir())?;
    if args.repair {
        return repair(args);
    }
    let mut follower = Follower::default();
    let mut report =
        quipu::files::check(args.database.dir(), &Options::default(), &mut |progress| follower.show(progress))?;
    let mut notes = Vec::new();
    if report.faults.is_empty() {
        // Files that are whole may still hold keys of a server, or rows and indexes, that do not agree with each other.
        let db = Db::open(args.database.dir(), Options { read_only: true, ..Options::default() })?;
        if report.tables.iter().any(|(name, _)| keyspace::is_keys_table(name)) {
            report.faults = keyspace::check(&db)?;
        }
        let rows = database::tree_names(&db)
            .and_then(|names| Ok((names, quipu_rows::check(&db, &mut |progress| follower.show(progress))?)));
        let (names, found) = rows.unwrap_or_else(|error| {
            (BTreeMap::new(), RowCheck { problems: vec![error.to_string()], ..RowCheck::default() })
        });
        report.faults.extend(found.problems);
        notes = found.notes;
        for (name, _) in &mut report.tables {
            *name = names.get(name).unwrap_or(name).clone();
        }
        report.tables.sort_by(|(one, _), (other, _)| {
            (is_tree_of_rows(one), one.as_str()).cmp(&(is_tree_of_rows(other), other.as_str()))
        });
    }
    drop(follower);
    let mut out = std::io::stdout();
    if args.json {
        let tally = |(name, tally): &(String, Tally)| {
            let hash = format!("{:016x}", tally.hash);
            json!({"table": name, "rows": tally.rows, "bytes": tally.bytes, "hash": hash, "sum": tally.sum})
        };
        let report = json!({
            "faults": report.faults, "notes": notes,
            "tables": report.tables.iter().map(tally).collect::<Vec<_>>(), "runs": report.runs,
            "pages": report.pages, "commits": report.commits, "sequence": report.sequence,
        });
        writeln!(out, "{report}")?;
    } else {
        let mut grid = Grid::new([("table", false), ("rows", true)]);
        for (name, tally) in &report.tables {
            grid.push(vec![name.clone(), thousands(tally.rows)]);
        }
        grid.print(&mut out)?;
        let (runs, pages) = (counted(report.runs, "run"), counted(report.pages, "page"));
        let commits = counted(report.commits, "commit");
        writeln!(out, "read {runs} with {pages}, and {commits} in the log after them")?;
        for note in &notes {
            writeln!(out, "note: {note}")?;
        }
        for fault in &report.faults {
            writeln!(out, "fault: {fault}")?;
        }
    }
    match report.faults.len() {
        0 if args.json => Ok(()),
        0 => Ok(writeln!(out, "all is well: every checksum and every tally is right")?),
        count => {
            let (dir, faults) = (args.database.dir().display(), counted(count, "fault"));
            Err(Failure::new(format!("{dir} has {faults}; keep its files")))
        }
    }
}

fn repair(args: &Args) -> Result<()> {
    let mut follower = Follower::default();
    let mut report =
        quipu::files::repair(args.database.dir(), &Options::default(), &mut |progress| follower.show(progress))?;
    // An index that is built again has another tree: what was lost is read before.
    let mut losses = Losses::read(args, &report);
    let mut rows = RowRepair::default();
    if report.faults.is_empty() {
        rows = repair_rows(args, &mut follower).unwrap_or_else(|error| {
            let problems = vec![format!("tables of rows: {error}")];
            RowRepair { problems, ..RowRepair::default() }
        });
        if losses.names.is_empty() {
            // The catalogue may be whole again.
            losses = Losses::read(args, &report);
        }
        losses.leave_out_indexes(&mut report, &rows);
    }
    losses.name_tables(&mut report);
    let keys = losses.keys;
    report.faults.append(&mut rows.problems);
    let errors = report.lost.iter_mut().map(|loss| &mut loss.error).chain(&mut report.log);
    errors.chain(&mut report.faults).for_each(|told| *told = without_advice(told));
    drop(follower);
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", repair_json(&report, &rows, &keys))?;
    } else {
        print_repair(&mut out, &report, &rows, &keys)?;
    }
    let lost = report.lost.len() + usize::from(report.log.is_some()) + rows.lifted.len();
    match (lost, report.faults.len()) {
        (0, 0) => Ok(()),
        (_, 0) => Err(Failure::new(format!("{} is whole again, and not all was saved", args.database.dir().display()))),
        (_, count) => {
            let (dir, faults) = (args.database.dir().display(), counted(count, "fault"));
            let how = "keep its files, and restore a backup if there is one";
            Err(Failure::new(format!("{dir} still has {faults} after the repair; {how}")))
        }
    }
}

/// Makes the indexes and constraints of tables of rows agree with their rows.
fn repair_rows(args: &Args, follower: &mut Follower) -> Result<RowRepair> {
    let read_only = Db::open(args.database.dir(), Options { read_only: true, ..Options::default() })?;
    if !read_only.tables().iter().any(|table| is_tree_of_rows(table.name())) {
        return Ok(RowRepair::default());
    }
    // Nothing is written to a database that has nothing wrong.
    let found = quipu_rows::check(&read_only, &mut |progress| follower.show(progress));
    drop(read_only);
    if found.is_ok_and(|found| found.problems.is_empty()) {
        return Ok(RowRepair::default());
    }
    let db = Db::open(args.database.dir(), Options::default())?;
    Ok(quipu_rows::repair(&db, &mut |progress| follower.show(progress))?)
}

/// The ends of a loss, as people write keys; of a table without columns, or of what cannot be read, as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ends {
    low: Option<String>,
    high: Option<String>,
    /// Whether the loss may go on among the keys that begin with `high`.
    is_to_last: bool,
}

/// What the trees of a report are, as far as the catalogue of rows can be read.
#[derive(Default)]
struct Losses {
    /// The names of tables and indexes, by those of their trees.
    names: BTreeMap<String, String>,
    /// The trees of indexes.
    indexes: BTreeSet<String>,
    /// The ends of each loss.
    keys: Vec<Ends>,
}

impl Losses {
    fn read(args: &Args, report: &RepairReport) -> Losses {
        let db = Db::open(args.database.dir(), Options { read_only: true, ..Options::default() });
        let rows = db.ok().and_then(|db| {
            let has_rows = db.tables().iter().any(|table| is_tree_of_rows(table.name()));
            let database = has_rows.then(|| Database::open(&db)).transpose().ok().flatten()?;
            Some((database.tree_names().ok()?, database.tables().ok()?, database))
        });
        let database = rows.as_ref().map(|(_, _, database)| database);
        let keys = report.lost.iter().map(|loss| ends(database, loss)).collect();
        let Some((names, tables, _)) = rows else { return Losses { keys, ..Losses::default() } };
        // Where a table is called as an index is, neither is taken for one.
        let indexes = names.iter().filter(|(_, name)| !tables.contains(name)).map(|(tree, _)| tree.clone()).collect();
        Losses { names, indexes, keys }
    }

    /// Leaves out of the report what was lost of indexes, and is there again: those that were built again from their
    /// rows, and those that agree with them all the same.
    fn leave_out_indexes(&mut self, report: &mut RepairReport, rows: &RowRepair) {
        let is_whole = |tree: &String| {
            let is_rebuilt = self.names.get(tree).is_some_and(|name| rows.rebuilt.contains(name));
            self.indexes.contains(tree) && (is_rebuilt || rows.problems.is_empty())
        };
        let is_left: Vec<bool> = report.lost.iter().map(|loss| !is_whole(&loss.table)).collect();
        let is_rebuilt = |(tree, _): &(String, Tally)| {
            self.names.get(tree).is_some_and(|name| self.indexes.contains(tree) && rows.rebuilt.contains(name))
        };
        report.rebuilt.retain(|written| !is_rebuilt(written));
        let mut left = is_left.iter();
        report.lost.retain(|_| left.next().is_none_or(|is_left| *is_left));
        let mut left = is_left.iter();
        self.keys.retain(|_| left.next().is_none_or(|is_left| *is_left));
    }

    /// Gives the trees of rows in a report the names of their tables and indexes.
    fn name_tables(&self, report: &mut RepairReport) {
        let lost = report.lost.iter_mut().map(|loss| &mut loss.table);
        for name in lost.chain(report.rebuilt.iter_mut().map(|(name, _)| name)) {
            if let Some(table) = self.names.get(name) {
                name.clone_from(table);
            }
        }
    }
}

/// The ends of a loss.
fn ends(database: Option<&Database>, loss: &Loss) -> Ends {
    let text = |key: &Option<Vec<u8>>| key.as_deref().map(|key| key_text(database, &loss.table, key));
    let (low, high) = (text(&loss.low), text(&loss.high));
    let is_to_last = high.as_ref().is_some_and(|(_, is_whole)| !is_whole);
    Ends { low: low.map(|(text, _)| text), high: high.map(|(text, _)| text), is_to_last }
}

/// A key of a tree as people write it, and whether that is all of it: what cuts ranges may end within a value, and
/// stands for the least key that begins so.
fn key_text(database: Option<&Database>, tree: &str, key: &[u8]) -> (String, bool) {
    let values_of = |key: &[u8]| database.and_then(|database| database.key_of_tree(tree, key).ok().flatten());
    let mut parts = tuple::parts(key);
    let whole = parts.by_ref().count();
    let mut values = values_of(key).unwrap_or_default();
    let mut is_whole = parts.rest().is_empty() && values.len() == whole;
    if !is_whole && values.len() == whole {
        let completed = completions(key).find_map(|key| values_of(&key).filter(|values| values.len() == whole + 1));
        is_whole = completed.is_some();
        values = completed.unwrap_or(values);
    }
    if values.is_empty() {
        return (escape(key), true);
    }
    let (values, types): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    let columns = types.into_iter().map(|data_type| (String::new(), data_type)).collect();
    (KeyNotation { columns }.show(&values), is_whole)
}

/// Keys that a cut key may be the beginning of, one of which is the least: of a text, of what has a fixed size, and of
/// an integer of which only the size is left, whose first byte is not zero.
fn completions(key: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    /// Bytes of the longest element of a fixed size.
    const ELEMENT_BYTES: usize = 17;
    let ends = [&[][..], &[1]].into_iter();
    ends.flat_map(move |first| {
        (0..=ELEMENT_BYTES).map(move |zeros| [key, first, &[0; ELEMENT_BYTES][..zeros]].concat())
    })
}

/// What is told of damage without the advice to check or to repair, which has just been done.
fn without_advice(told: &str) -> String {
    let mut told = told.to_owned();
    while let Some(at) = told.find("`quipu check") {
        let before = &told[..at];
        let opened = before.rfind(" (").filter(|open| !before[*open..].contains(')'));
        let clause = ["; ", ": "].iter().filter_map(|mark| before.rfind(mark)).max();
        // A text that begins with the advice has nothing else to tell.
        let Some(begin) = opened.max(clause) else { break };
        let end = match opened == Some(begin) {
            true => told[at..].find(')').map(|end| at + end + 1),
            false => told[at..].find("; ").map(|end| at + end),
        };
        told.replace_range(begin..end.unwrap_or(told.len()), "");
    }
    told
}

fn print_repair(out: &mut dyn Write, report: &RepairReport, rows: &RowRepair, keys: &[Ends]) -> Result<()> {
    for (loss, keys) in report.lost.iter().zip(keys) {
        let entries = loss.entries.map_or_else(String::new, |entries| format!("{} of ", counted(entries, "entry")));
        let Loss { table, file, error, .. } = loss;
        let what = if loss.is_bottom { "rows are missing" } else { "rows are missing or older than they were" };
        writeln!(out, "lost: {entries}table {table:?}, {}: {what}; {file}: {error}", range(keys))?;
    }
    if let Some(log) = &report.log {
        writeln!(out, "lost: all commits after {}: {log}", thousands(report.sequence))?;
    }
    for (name, tally) in &report.rebuilt {
        writeln!(out, "written anew: table {name:?} with {}", counted(tally.rows, "row"))?;
    }
    for what in &rows.catalogue {
        writeln!(out, "put back in the catalogue: {what}")?;
    }
    for index in &rows.rebuilt {
        writeln!(out, "built again from its rows: index {index}")?;
    }
    for lifted in &rows.lifted {
        writeln!(out, "lifted, as rows break it: {lifted}")?;
    }
    for fault in &report.faults {
        writeln!(out, "fault: {fault}")?;
    }
    match &report.aside {
        Some(aside) => writeln!(out, "{} kept in {}", counted(report.files.len(), "file"), aside.display())?,
        None if report.faults.is_empty() && *rows == RowRepair::default() => {
            writeln!(out, "there is nothing to repair: every checksum and every tally is right")?;
        }
        None => {}
    }
    Ok(())
}

/// The keys that a loss is about.
fn range(keys: &Ends) -> String {
    match (&keys.low, &keys.high) {
        (None, None) => "all keys".to_owned(),
        (None, Some(high)) if keys.is_to_last => format!("keys to the last of {high}"),
        (None, Some(high)) => format!("keys below {high}"),
        (Some(low), None) => format!("keys from {low} on"),
        (Some(low), Some(high)) if keys.is_to_last => format!("keys from {low} to the last of {high}"),
        (Some(low), Some(high)) => format!("keys from {low} to below {high}"),
    }
}

fn repair_json(report: &RepairReport, rows: &RowRepair, keys: &[Ends]) -> serde_json::Value {
    let lost = |(loss, Ends { low, high, is_to_last }): (&Loss, &Ends)| {
        json!({
            "table": loss.table, "file": loss.file, "low": low, "high": high, "high_is_included": is_to_last,
            "entries": loss.entries,
            "older_rows_may_show": !loss.is_bottom, "error": loss.error,
        })
    };
    let rebuilt = |(name, tally): &(String, Tally)| json!({"table": name, "rows": tally.rows});
    json!({
        "lost": report.lost.iter().zip(keys).map(lost).collect::<Vec<_>>(), "log": report.log,
        "sequence": report.sequence,
        "rebuilt": report.rebuilt.iter().map(rebuilt).collect::<Vec<_>>(), "faults": report.faults,
        "indexes": rows.rebuilt, "catalogue": rows.catalogue, "lifted": rows.lifted,
        "aside": report.aside.as_ref().map(|aside| aside.display().to_string()), "files": report.files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_to_repair_is_left_out_after_a_repair() {
        for (fault, left) in [
            (
                "a part is lost: a name; `quipu check --repair` puts back what can be; the rows are there",
                "a part is lost: a name; the rows are there",
            ),
            (
                "commit 7 of the log cannot be applied (`quipu check --repair` builds its tables anew)",
                "commit 7 of the log cannot be applied",
            ),
            (
                "an entry of index t.by has no key of a row: run `quipu check`",
                "an entry of index t.by has no key of a row",
            ),
            (
                "f is damaged at byte 7: a sum; keep the files, run `quipu check` on it, and repair it",
                "f is damaged at byte 7: a sum",
            ),
            ("a row refers to nothing", "a row refers to nothing"),
        ] {
            assert_eq!(without_advice(fault), left);
        }
    }

    /// Of a key that was cut within a number its bytes were shown.
    #[test]
    fn keys_that_are_cut_are_completed() {
        let place = tempfile::tempdir().unwrap();
        let db = Db::open(place.path(), Options::default()).unwrap();
        let database = Database::open(&db).unwrap();
        let schema = quipu_rows::TableSchema {
            table: "t".to_owned(),
            columns: vec![
                quipu_rows::Column::new("name", quipu_rows::DataType::TEXT),
                quipu_rows::Column::new("id", quipu_rows::DataType::I64),
            ],
            key: vec!["name".to_owned(), "id".to_owned()],
            ..quipu_rows::TableSchema::default()
        };
        database.create_table(&schema).unwrap();
        let names = database.tree_names().unwrap();
        let tree = names.iter().find(|(_, name)| *name == "t").unwrap().0;
        let mut key = Vec::new();
        tuple::encode_into(&[tuple::Element::Text("JFK".into()), tuple::Element::Int(14_747)], &mut key);
        let text = |bytes: usize| key_text(Some(&database), tree, &key[..bytes]);
        let of = |text: &str, is_whole| (text.to_owned(), is_whole);
        assert_eq!(text(key.len()), of("JFK,14747", true));
        assert_eq!(text(key.len() - 1), of("JFK,14592", true), "the least number with this first byte");
        assert_eq!(text(key.len() - 2), of("JFK,256", true), "the least number of two bytes");
        assert_eq!(text(key.len() - 3), of("JFK", true));
        assert_eq!(text(3), of("JF", true));
        assert_eq!(key_text(None, tree, &key[..3]), of("0JF", true), "without a catalogue");
    }
}
