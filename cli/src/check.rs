//! `quipu check`: whether the files of a database are whole and its counts right.

use std::io::Write;
use std::path::PathBuf;

use quipu::{Db, Options, Tally};
use quipu_server::keyspace;
use serde_json::json;

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, thousands};
use crate::progress::Follower;

const EXAMPLES: &str = "\
Examples:
  quipu check air
  quipu check air --json | jq .faults

It reads every file, recomputes every checksum and adds up every tally; in the directory of a server it also compares keys, elements of
collections and deadlines with each other. The exit code is 1 if anything is wrong; nothing is changed.";

/// Checks the files of a database, and that its counts are right.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the database
    dir: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    database::must_exist(&args.dir)?;
    let mut follower = Follower::default();
    let mut report = quipu::check(&args.dir, &Options::default(), &mut |progress| follower.show(progress))?;
    drop(follower);
    if report.faults.is_empty() && report.tables.iter().any(|(name, _)| keyspace::is_keys_table(name)) {
        // Files that are whole may still hold keys of a server that do not agree with each other.
        let db = Db::open(&args.dir, Options { read_only: true, ..Options::default() })?;
        report.faults = keyspace::check(&db)?;
    }
    let mut out = std::io::stdout();
    if args.json {
        let tally = |(name, tally): &(String, Tally)| {
            let hash = format!("{:016x}", tally.hash);
            json!({"table": name, "rows": tally.rows, "bytes": tally.bytes, "hash": hash, "sum": tally.sum})
        };
        let report = json!({
            "faults": report.faults, "tables": report.tables.iter().map(tally).collect::<Vec<_>>(), "runs": report.runs,
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
        writeln!(out, "read {runs} runs with {pages} pages, and {commits} commits in the log behind them")?;
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
