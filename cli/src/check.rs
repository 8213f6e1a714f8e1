//! `quipu check`: whether the files of a database are whole and its counts right.

use std::collections::BTreeMap;
use std::io::Write;

use quipu::files::{Loss, RepairReport};
use quipu::{Db, Options, Tally};
use quipu_rows::{Database, RowCheck, RowRepair, is_tree_of_rows};
use quipu_server::keyspace;
use serde_json::json;

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, thousands};
use crate::key::KeyNotation;
use crate::progress::Follower;
use crate::words::escape;

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
rows break, as where they refer to a lost row, is lifted and told; no row is removed. The exit code is 1 if anything \
was lost or lifted. A backup that is whole is better: see `quipu restore`.";

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
        let (runs, pages, commits) = (report.runs, thousands(report.pages), thousands(report.commits));
        writeln!(out, "read {runs} runs with {pages} pages, and {commits} commits in the log after them")?;
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
        1 => Err(Failure::new(format!("{} has 1 fault; keep its files", args.database.dir().display()))),
        count => Err(Failure::new(format!("{} has {count} faults; keep its files", args.database.dir().display()))),
    }
}

fn repair(args: &Args) -> Result<()> {
    let mut follower = Follower::default();
    let mut report =
        quipu::files::repair(args.database.dir(), &Options::default(), &mut |progress| follower.show(progress))?;
    let mut rows = RowRepair::default();
    if report.faults.is_empty() {
        rows = repair_rows(args, &mut follower).unwrap_or_else(|error| {
            let problems = vec![format!("tables of rows: {error}")];
            RowRepair { problems, ..RowRepair::default() }
        });
    }
    let keys = name_tables(args, &mut report);
    report.faults.append(&mut rows.problems);
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
            Err(Failure::new(format!("{} still has {count} faults; keep its files", args.database.dir().display())))
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
type Ends = (Option<String>, Option<String>);

/// Gives the trees of rows in a report the names of their tables, as far as these can still be read. Returns the ends
/// of each loss.
fn name_tables(args: &Args, report: &mut RepairReport) -> Vec<Ends> {
    let db = Db::open(args.database.dir(), Options { read_only: true, ..Options::default() });
    let rows = db.ok().and_then(|db| {
        let has_rows = db.tables().iter().any(|table| is_tree_of_rows(table.name()));
        let database = has_rows.then(|| Database::open(&db)).transpose().ok().flatten()?;
        let names = database.tree_names().ok()?;
        Some((database, names))
    });
    let database = rows.as_ref().map(|(database, _)| database);
    let ends = |loss: &Loss| {
        let text = |key: &Option<Vec<u8>>| key.as_deref().map(|key| key_text(database, &loss.table, key));
        (text(&loss.low), text(&loss.high))
    };
    let keys = report.lost.iter().map(ends).collect();
    if let Some((_, names)) = &rows {
        let lost = report.lost.iter_mut().map(|loss| &mut loss.table);
        for name in lost.chain(report.rebuilt.iter_mut().map(|(name, _)| name)) {
            if let Some(table) = names.get(name) {
                name.clone_from(table);
            }
        }
    }
    keys
}

/// A key of a tree as people write it.
fn key_text(database: Option<&Database>, tree: &str, key: &[u8]) -> String {
    match database.and_then(|database| database.key_of_tree(tree, key).ok().flatten()) {
        Some(values) if !values.is_empty() => {
            let (values, types): (Vec<_>, Vec<_>) = values.into_iter().unzip();
            let columns = types.into_iter().map(|data_type| (String::new(), data_type)).collect();
            KeyNotation { columns }.show(&values)
        }
        _ => escape(key),
    }
}

fn print_repair(out: &mut dyn Write, report: &RepairReport, rows: &RowRepair, keys: &[Ends]) -> Result<()> {
    for (loss, keys) in report.lost.iter().zip(keys) {
        let entries = loss.entries.map_or_else(String::new, |entries| format!("{} entries of ", thousands(entries)));
        let Loss { table, file, error, .. } = loss;
        let what = if loss.is_bottom { "rows are missing" } else { "rows are missing or older than they were" };
        writeln!(out, "lost: {entries}table {table:?}, {}: {what}; {file}: {error}", range(keys))?;
    }
    if let Some(log) = &report.log {
        writeln!(out, "lost: all commits after {}: {log}", thousands(report.sequence))?;
    }
    for (name, tally) in &report.rebuilt {
        writeln!(out, "written anew: table {name:?} with {} rows", thousands(tally.rows))?;
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
        Some(aside) => writeln!(out, "{} files were kept in {}", report.files.len(), aside.display())?,
        None if report.faults.is_empty() && *rows == RowRepair::default() => {
            writeln!(out, "there is nothing to repair: every checksum and every tally is right")?;
        }
        None => {}
    }
    Ok(())
}

/// The keys that a loss is about.
fn range(keys: &Ends) -> String {
    match keys {
        (None, None) => "all keys".to_owned(),
        (None, Some(high)) => format!("keys below {high}"),
        (Some(low), None) => format!("keys from {low} on"),
        (Some(low), Some(high)) => format!("keys from {low} to below {high}"),
    }
}

fn repair_json(report: &RepairReport, rows: &RowRepair, keys: &[Ends]) -> serde_json::Value {
    let lost = |(loss, (low, high)): (&Loss, &Ends)| {
        json!({
            "table": loss.table, "file": loss.file, "low": low, "high": high, "entries": loss.entries,
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
