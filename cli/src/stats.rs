//! `quipu stats`: what a database holds.

use std::path::PathBuf;

use quipu::{CheckpointInfo, Stats};
use serde_json::{Value as Json, json};

use crate::database;
use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  quipu stats air
  quipu stats air --json | jq .";

/// Shows what a database holds and does.
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
    let db = database::open(&args.dir, true)?;
    let stats = db.stats();
    if args.json {
        println!("{}", json(&stats));
    } else {
        print!("{}", text(&stats));
    }
    Ok(())
}

/// The figures for people.
pub(crate) fn text(stats: &Stats) -> String {
    format!("tables {}\n", stats.tables)
}

/// The figures for programs.
pub(crate) fn json(stats: &Stats) -> Json {
    json!({"tables": stats.tables})
}

/// What a checkpoint did, in a line.
pub(crate) fn checkpoint_text(info: &CheckpointInfo) -> String {
    format!("wrote {}", crate::grid::bytes(info.bytes))
}

/// What a checkpoint did, for programs.
pub(crate) fn checkpoint_json(info: &CheckpointInfo) -> Json {
    json!({"bytes": info.bytes})
}
