//! `quipu restore`: a database from a backup, which is checked first.

use std::io::Write;
use std::path::PathBuf;

use quipu::{Options, ReadableTable};

use crate::backup;
use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, thousands};
use crate::progress::Follower;

const EXAMPLES: &str = "\
Examples:
  quipu restore /mnt/usb/air-monday air
  quipu restore /mnt/usb/air-monday /tmp/look && quipu shell --data /tmp/look

Every page of the backup is read and checked before anything is written: a damaged one is refused with the file and the place. The backup is not changed, and what is \
restored shares no file with it.";

/// Checks a backup and copies it to where it is a database again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the backup
    from: PathBuf,
    /// Where to: a directory that is empty or does not exist
    to: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.from.is_dir() {
        return Err(Failure::new(format!("there is no backup in {}: no such directory", args.from.display())));
    }
    let mut follower = Follower::default();
    let info = quipu::restore(&args.from, &args.to, &Options::default(), &mut |progress| follower.show(progress))?;
    drop(follower);
    let db = database::open(&args.to, true)?;
    let mut grid = Grid::new([("table", false), ("rows", true)]);
    for table in db.tables() {
        grid.push(vec![table.name().to_owned(), thousands(table.len()?)]);
    }
    let mut out = std::io::stdout();
    grid.print(&mut out)?;
    Ok(writeln!(out, "{}: {}", args.to.display(), backup::text(&info))?)
}
