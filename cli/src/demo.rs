//! `quipu demo`: a year of flights, questions answered by counting and by scanning, and a writer killed in the middle
//! of its work.

mod crash;
mod flights;
mod questions;

use std::io::Write;
use std::path::{Path, PathBuf};

use quipu_rows::Database;
use serde_json::json;

use crate::clock::{self, Stopwatch};
use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, thousands};

pub(crate) use crash::WriterArgs;
pub(crate) use crash::write as run_writer;

const EXPLANATION: &str = "\
It loads the 336,776 flights that left New York in 2013 (they are in the program) into a fresh directory, with four indexes; answers \
questions by the counts in the trees and again by scanning the same range of the same index, and compares the answers; then \
starts a writer in another process, kills it without warning, opens the directory again and counts everything.";

/// Shows what counted trees do with a year of flights.
#[derive(Debug, clap::Args)]
#[command(after_help = EXPLANATION)]
pub(crate) struct Args {
    /// Use this directory, which must be new or empty, and keep it; else a temporary one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Load about so many of the flights, spread over the year
    #[arg(long, value_name = "ROWS", default_value_t = crate::flights::ROWS, value_parser = clap::value_parser!(u64).range(2_000..))]
    rows: u64,
    /// Keep the temporary directory, and say where it is
    #[arg(long)]
    keep: bool,
    /// Print the answers as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(dir) = &args.data else {
        let temporary = tempfile::Builder::new().prefix("quipu-demo-").tempdir();
        let temporary = temporary.map_err(|error| Failure::new(format!("cannot make a directory: {error}")))?;
        let result = show(args, temporary.path());
        if args.keep {
            eprintln!("the flights are in {}", temporary.keep().display());
        }
        return result;
    };
    let is_used = dir.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        return Err(Failure::Usage(format!("{} is not empty; the demo wants a directory of its own", dir.display())));
    }
    show(args, dir)
}

fn show(args: &Args, dir: &Path) -> Result<()> {
    let say = |text: &str| -> Result<()> {
        if !args.json {
            writeln!(std::io::stdout(), "{text}")?;
        }
        Ok(())
    };
    let watch = Stopwatch::start();
    let db = database::open_or_create(dir)?;
    let database = Database::open(&db)?;
    flights::load(&database, args.rows)?;
    let rows = database.table(flights::NAME)?.len()?;
    let load_time = watch.elapsed();
    say(&format!("{} flights and four indexes in {}.\n", thousands(rows), clock::show(load_time)))?;

    let answers = questions::ask(&database)?;
    let mut grid =
        Grid::new([("question", false), ("answer", false), ("counted", true), ("scanned", true), ("factor", true)]);
    for answer in &answers {
        grid.push(vec![
            answer.question.clone(),
            answer.text.clone(),
            clock::show(answer.counted),
            clock::show(answer.scanned),
            format!("{}x", thousands(answer.factor() as u64)),
        ]);
    }
    if !args.json {
        grid.print(&mut std::io::stdout())?;
    }
    say(
        "\nBoth ways gave the same answers. Scanning reads the same range of the same index, as a store without counts would;\ntimes are medians of 101 counts and of 3 scans of the same question, in memory and warm.\n",
    )?;

    drop(database);
    db.close()?;
    let crash = crash::kill_and_reopen(dir, rows, &say)?;
    if args.json {
        let answers: Vec<_> = (answers.iter())
            .map(|answer| {
                json!({
                    "question": answer.question, "answer": answer.text, "counted_seconds": answer.counted.as_secs_f64(),
                    "scanned_seconds": answer.scanned.as_secs_f64(), "factor": answer.factor(),
                })
            })
            .collect();
        let report = json!({
            "rows": rows, "load_seconds": load_time.as_secs_f64(), "answers": answers,
            "acknowledged": crash.acknowledged, "found": crash.found, "tables_recounted": crash.tables,
        });
        writeln!(std::io::stdout(), "{report}")?;
    }
    Ok(())
}
