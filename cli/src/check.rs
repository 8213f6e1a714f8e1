//! `quipu check`: whether the files of a database are whole and its counts right.

use std::path::PathBuf;

use quipu::Options;
use serde_json::json;

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::thousands;
use crate::progress::Follower;

const EXAMPLES: &str = "\
Examples:
  quipu check air
  quipu check air --json | jq .problems

It reads every file, recomputes every checksum and adds up every tally. The exit code is 1 if anything is wrong; nothing is changed.";

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
    let report = quipu::check(&args.dir, &Options::default(), &mut |progress| follower.show(progress))?;
    drop(follower);
    if args.json {
        let tables: Vec<_> = report.tables.iter().map(|(name, tally)| json!({"table": name, "rows": tally.rows})).collect();
        println!("{}", json!({"tables": tables, "problems": report.problems}));
    } else {
        for (name, tally) in &report.tables {
            println!("{name}: {} rows", thousands(tally.rows));
        }
        for problem in &report.problems {
            println!("{problem}");
        }
    }
    match report.problems.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} problems in {}", args.dir.display()))),
    }
}
