//! `quipu compact`: as few files and bytes as the rows of tables need.

use std::io::Write;
use std::path::PathBuf;

use quipu::{Db, RunLayout, Table};
use quipu_rows::trees::is_tree_of_rows;

use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::{Grid, bytes, thousands};
use crate::progress::Follower;

const EXAMPLES: &str = "\
Examples:
  quipu compact air                                           merge the runs of each table into one
  quipu compact air flights
  quipu compact --data air flights
  quipu compact air --rewrite                                 also where there is one: into the newest format
  quipu compact air flights --layout flat                      and with pages found another way

Runs are merged in the background once they are many, or once much in them is removed; this command does it now. It needs as much space as the largest table has, until it is done. \
No row changes, and a command that is interrupted leaves the database as it was.

A tree is the layout to have: its pages are read when they are needed. A flat index is one page for each run, read whole: to compare, or where they all fit into the cache. \
What a table has in memory is written out first by --rewrite and --layout; a table that is all in memory stays there, and has a new image.";

/// Merges the runs of tables, and writes them anew in the newest format.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "quipu compact [OPTIONS] <DIR|--data <DIR>> [TABLE]")]
pub(crate) struct Args {
    /// The directory of the database; left out if --data names it
    #[arg(value_name = "DIR", required_unless_present = "data")]
    first: Option<PathBuf>,
    /// Only this table with its indexes, or one index: TABLE.INDEX
    #[arg(value_name = "TABLE")]
    second: Option<PathBuf>,
    /// The directory of the database by name, as `import` takes it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write all runs anew, also where there is nothing to merge
    #[arg(long)]
    rewrite: bool,
    /// How pages are found from now on: implies --rewrite
    #[arg(long)]
    layout: Option<Layout>,
}

/// As [`RunLayout`].
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Layout {
    /// Nodes over nodes, read when they are needed
    Tree,
    /// One page over all, read whole
    Flat,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let places = [args.first.as_deref(), args.second.as_deref()];
    let (dir, wanted) = database::named_before(args.data.as_deref(), places)?;
    let db = database::open(dir, false)?;
    let names = database::tree_names(&db)?;
    let name_of = |table: &Table| names.get(table.name()).map_or_else(|| table.name().to_owned(), String::clone);
    let mut tables = db.tables();
    tables.sort_by_key(name_of);
    if let Some(wanted) = wanted.map(|wanted| wanted.to_string_lossy()) {
        let of_table =
            |name: &str| name == wanted || name.strip_prefix(&*wanted).is_some_and(|rest| rest.starts_with('.'));
        tables.retain(|table| of_table(&name_of(table)));
        if tables.is_empty() {
            let names: Vec<String> = db.tables().iter().map(name_of).filter(|name| !is_tree_of_rows(name)).collect();
            return Err(Failure::new(format!("there is no table {wanted:?}; there are {}", names.join(", "))));
        }
    }
    let mut grid =
        Grid::new([("table", false), ("runs", true), ("bytes", true), ("runs now", true), ("bytes now", true)]);
    for table in tables {
        let before = runs(&db, &table);
        compact(args, &table)?;
        let after = runs(&db, &table);
        grid.push([vec![name_of(&table)], before.to_vec(), after.to_vec()].concat());
    }
    grid.print(&mut std::io::stdout())?;
    db.close()?;
    Ok(std::io::stdout().flush()?)
}

fn compact(args: &Args, table: &Table) -> Result<()> {
    let mut follower = Follower::default();
    let mut show = |progress| follower.show(progress);
    let layout = match args.layout {
        Some(Layout::Tree) => RunLayout::Tree,
        Some(Layout::Flat) => RunLayout::Flat,
        None => table.options().layout,
    };
    if args.rewrite || args.layout.is_some() {
        table.rewrite(layout, &mut show)?;
    } else {
        table.compact_with(&mut show)?;
    }
    Ok(())
}

/// How many runs a table has, and of how many bytes.
fn runs(db: &Db, table: &Table) -> [String; 2] {
    let stats = db.stats();
    let found = stats.tables.iter().find(|stats| stats.name == table.name());
    found.map_or_else(Default::default, |stats| [thousands(stats.runs as u64), bytes(stats.run_bytes)])
}
