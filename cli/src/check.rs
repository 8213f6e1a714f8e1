//! `quipu check`: whether the files of a database are whole and its counts right.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use quipu::{Db, Loss, Options, RepairReport, Tally};
use quipu_rows::{RowCheck, is_tree_of_rows};
use quipu_server::keyspace;
use serde_json::json;

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, thousands};
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
is deleted. The exit code is 1 if anything was lost. A backup that is whole is better: see `quipu restore`.";

/// Checks the files of a database, and that its counts are right.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the database
    dir: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// Rebuild what is damaged from what can be read, and keep the files that are replaced
    #[arg(long)]
    repair: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    database::must_exist(&args.dir)?;
    if args.repair {
        return repair(args);
    }
    let mut follower = Follower::default();
    let mut report = quipu::check(&args.dir, &Options::default(), &mut |progress| follower.show(progress))?;
    let mut notes = Vec::new();
    if report.faults.is_empty() {
        // Files that are whole may still hold keys of a server, or rows and indexes, that do not agree with each other.
        let db = Db::open(&args.dir, Options { read_only: true, ..Options::default() })?;
        if report.tables.iter().any(|(name, _)| keyspace::is_keys_table(name)) {
            report.faults = keyspace::check(&db)?;
        }
        let rows = database::tree_names(&db)
            .and_then(|names| Ok((names, quipu_rows::check(&db, &mut |progress| follower.show(progress))?)));
        let (names, found) = rows.unwrap_or_else(|error| {
            let problems = vec![error.to_string()];
            (BTreeMap::new(), RowCheck { problems, ..RowCheck::default() })
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
            "faults": report.faults, "tables": report.tables.iter().map(tally).collect::<Vec<_>>(), "runs": report.runs,
            "pages": report.pages, "commits": report.commits, "sequence": report.sequence, "notes": notes,
        });
        writeln!(out, "{report}")?;
    } else {
        let mut grid = Grid::new([("table", false), ("rows", true)]);
        for (name, tally) in &report.tables {
            grid.push(vec![name.clone(), thousands(tally.rows)]);
        }
        grid.print(&mut out)?;
        let (runs, pages, commits) = (report.runs, thousands(report.pages), thousands(report.commits));
        writeln!(out, "read {runs} runs with {pages} pages, and {commits} commits in the log behind them")?;
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
        1 => Err(Failure::new(format!("{} has 1 fault; keep its files", args.dir.display()))),
        count => Err(Failure::new(format!("{} has {count} faults; keep its files", args.dir.display()))),
    }
}

fn repair(args: &Args) -> Result<()> {
    let mut follower = Follower::default();
    let mut report = quipu::repair(&args.dir, &Options::default(), &mut |progress| follower.show(progress))?;
    name_tables(args, &mut report);
    drop(follower);
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", repair_json(&report))?;
    } else {
        print_repair(&mut out, &report)?;
    }
    match (report.lost.len() + usize::from(report.log.is_some()), report.faults.len()) {
        (0, 0) => Ok(()),
        (_, 0) => Err(Failure::new(format!("{} is whole again, and not all was saved", args.dir.display()))),
        (_, count) => Err(Failure::new(format!("{} still has {count} faults; keep its files", args.dir.display()))),
    }
}

/// Gives the trees of rows in a report the names of their tables, as far as these can still be read.
fn name_tables(args: &Args, report: &mut RepairReport) {
    let db = Db::open(&args.dir, Options { read_only: true, ..Options::default() });
    let Ok(names) = db.map_err(Failure::from).and_then(|db| database::tree_names(&db)) else { return };
    let lost = report.lost.iter_mut().map(|loss| &mut loss.table);
    for name in lost.chain(report.rebuilt.iter_mut().map(|(name, _)| name)) {
        if let Some(table) = names.get(name) {
            name.clone_from(table);
        }
    }
}

fn print_repair(out: &mut dyn Write, report: &RepairReport) -> Result<()> {
    let Some(aside) = &report.aside else {
        return Ok(writeln!(out, "there is nothing to repair: every checksum and every tally is right")?);
    };
    for loss in &report.lost {
        let entries = loss.entries.map_or_else(String::new, |entries| format!("{} entries of ", thousands(entries)));
        let Loss { table, file, error, .. } = loss;
        let what = if loss.is_bottom { "rows are missing" } else { "rows are missing or older than they were" };
        writeln!(out, "lost: {entries}table {table:?}, {}: {what}; {file}: {error}", range(loss))?;
    }
    if let Some(log) = &report.log {
        writeln!(out, "lost: all commits after {}: {log}", thousands(report.sequence))?;
    }
    for (name, tally) in &report.rebuilt {
        writeln!(out, "written anew: table {name:?} with {} rows", thousands(tally.rows))?;
    }
    for fault in &report.faults {
        writeln!(out, "fault: {fault}")?;
    }
    Ok(writeln!(out, "{} files were kept in {}", report.files.len(), aside.display())?)
}

/// The keys that a loss is about.
fn range(loss: &Loss) -> String {
    match (&loss.low, &loss.high) {
        (None, None) => "all keys".to_owned(),
        (None, Some(high)) => format!("keys below {}", escape(high)),
        (Some(low), None) => format!("keys from {} on", escape(low)),
        (Some(low), Some(high)) => format!("keys from {} to below {}", escape(low), escape(high)),
    }
}

fn repair_json(report: &RepairReport) -> serde_json::Value {
    let key = |key: &Option<Vec<u8>>| key.as_deref().map(escape);
    let lost = |loss: &Loss| {
        json!({
            "table": loss.table, "file": loss.file, "low": key(&loss.low), "high": key(&loss.high), "entries": loss.entries,
            "older_rows_may_show": !loss.is_bottom, "error": loss.error,
        })
    };
    let rebuilt = |(name, tally): &(String, Tally)| json!({"table": name, "rows": tally.rows});
    json!({
        "lost": report.lost.iter().map(lost).collect::<Vec<_>>(), "log": report.log, "sequence": report.sequence,
        "rebuilt": report.rebuilt.iter().map(rebuilt).collect::<Vec<_>>(), "faults": report.faults,
        "aside": report.aside.as_ref().map(|aside| aside.display().to_string()), "files": report.files,
    })
}
